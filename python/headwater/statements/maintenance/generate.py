"""GENERATE symlink_format_manifest: manifests of all partitions, for engines that do not read the log.

Owns the statement. Promises: afterwards each partition that has files has a manifest, and no other has one; the
manifests are those of the newest version, of versions that were committed meanwhile too. It commits nothing.
"""

from __future__ import annotations

from headwater.basics.errors import HeadwaterError
from headwater.bridge.messages.define import RowsAnswer
from headwater.bridge.messages.maintain import GenerateRequest
from headwater.bridge.statement import Statement
from headwater.log.snapshot import Snapshot
from headwater.statements.calls import own_statement
from headwater.statements.running.committing import check_target
from headwater.statements.running.manifests import follow
from headwater.statements.running.opening import open_snapshot

_MODE = "symlink_format_manifest"


@own_statement("generate", output=None, commits=False, in_transaction=False, words="GENERATE")
def generate(request: GenerateRequest, statement: Statement) -> RowsAnswer:
    """Write the manifests of a table.

    :raises HeadwaterError: ``DELTA_MODE_NOT_SUPPORTED``, and as :func:`headwater.log.manifests.check`.
    """
    mode = request.arguments.mode
    if mode.lower() != _MODE:
        raise HeadwaterError("DELTA_MODE_NOT_SUPPORTED", {"mode": mode, "supportedModes": _MODE})
    table = open_snapshot(request.table, statement)
    check_target(request.table, statement, table)
    statement.step("write manifests")

    def newest() -> Snapshot:
        statement.check_cancelled()
        return open_snapshot(request.table, statement)

    follow(table, newest, None)
    return RowsAnswer(rows=[])
