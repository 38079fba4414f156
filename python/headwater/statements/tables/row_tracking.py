"""Enabling row tracking on a table that has rows.

Owns what comes before the commit that sets ``delta.enableRowTracking``: the commit that adds the table feature, after
which every writer gives row ids to new files, and the commits that give them to files without. Follows the protocol's
chapter "Row Tracking". Promise: these commits change no data, and no other writer waits for one or fails by it. Where
the statement ends in an error, the table has more row ids than before and is otherwise as it was.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from headwater.basics.errors import HeadwaterError
from headwater.bridge.messages.define import AlterTableRequest, SetProperty
from headwater.bridge.statement import Statement
from headwater.log.files import file_of
from headwater.log.snapshot import Snapshot
from headwater.protocol import properties
from headwater.protocol.properties import canonical_name
from headwater.protocol.row_tracking import FEATURE, with_column_names
from headwater.schema import iceberg
from headwater.statements.running.committing import commit, transaction
from headwater.statements.running.opening import open_snapshot
from headwater.statements.settings import BACKFILL_FILES
from headwater.statements.tables.alter_commit import alter
from headwater.statements.tables.draft import Draft, Operation
from headwater.transaction.commit_info import Provenance

#: Conflicts with a writer that removed a file, marked rows in it or changed the definition: the next look at the table
#: finds what is left.
_RETRIED = frozenset({"DELTA_CONCURRENT_DELETE_DELETE", "DELTA_METADATA_CHANGED", "DELTA_PROTOCOL_CHANGED"})


def is_asked(request: AlterTableRequest) -> bool:
    """Whether a statement sets ``delta.enableRowTracking`` to true, or a property that entails it."""
    given = {
        canonical_name(change.key, allow_arbitrary=True): change.value
        for change in request.changes
        if isinstance(change, SetProperty)
    }
    return properties.ROW_TRACKING.of(iceberg.entailed(given, new=False))


def prepare(request: AlterTableRequest, statement: Statement) -> None:
    """Give every file of a table a first row id and a commit version, so that row tracking can be enabled.

    :raises HeadwaterError: those of a commit; ``DELTA_ROW_TRACKING_ILLEGAL_PROPERTY_COMBINATION``.
    """
    snapshot = open_snapshot(request.table, statement)
    if snapshot.definition.tracks_rows:
        return
    given = {change.key: change.value for change in request.changes if isinstance(change, SetProperty)}
    _check(snapshot, given)
    if not snapshot.definition.assigns_row_ids:
        alter(request.table, request.name, statement, _add_feature, is_last=False)
    batch = files_per_commit(statement)
    while True:
        snapshot = open_snapshot(request.table, statement)
        files = _without_row_ids(snapshot)
        if not files.num_rows:
            return
        if not snapshot.definition.assigns_row_ids:
            # Another writer suspended it meanwhile: commits give no ids, so the same files would be found again.
            raise HeadwaterError(
                "DELTA_ROW_TRACKING_ILLEGAL_PROPERTY_COMBINATION",
                {"property1": properties.ROW_TRACKING.name, "property2": properties.ROW_TRACKING_SUSPENDED.name},
            )
        statement.check_cancelled()
        _backfill(request.table, statement, snapshot, files.slice(0, max(batch, 1)))


def files_per_commit(statement: Statement) -> int:
    """How many files a commit may change that gives row ids to files, or takes them away.

    :raises HeadwaterError: ``DELTA_ILLEGAL_OPTION``.
    """
    return max(BACKFILL_FILES.of(statement), 1)


def _check(snapshot: Snapshot, given: Mapping[str, str]) -> None:
    """Refuse, before any commit, what the last one would refuse."""
    normal = {canonical_name(key, allow_arbitrary=True): value for key, value in given.items()}
    with_column_names({**snapshot.metadata.configuration, **normal})


def _add_feature(draft: Draft) -> Operation:
    """Let commits give row ids from here on; the statement was checked not to leave row tracking suspended."""
    if properties.ROW_TRACKING_SUSPENDED.name in draft.metadata.configuration:
        draft.set_configuration({**draft.metadata.configuration, properties.ROW_TRACKING_SUSPENDED.name: "false"})
    draft.require_features([FEATURE])
    return Operation("UPGRADE PROTOCOL", {"newProtocol": draft.protocol.to_json()["protocol"]})


def _without_row_ids(snapshot: Snapshot) -> pa.Table:
    """The files, rows of ``snapshot.files``, that lack a row id or a commit version."""
    files = snapshot.files
    lacking = pc.or_(pc.is_null(files["base_row_id"]), pc.is_null(files["default_row_commit_version"]))
    return files.filter(lacking)


def _backfill(table: str, statement: Statement, snapshot: Snapshot, files: pa.Table) -> None:
    txn = transaction(table, statement, snapshot)
    txn.add_again(map(file_of, files.to_pylist()))
    try:
        parameters = {"numFiles": files.num_rows}
        commit(txn, statement, Provenance("ROW TRACKING BACKFILL", parameters), is_last=False)
    except HeadwaterError as error:
        if error.condition not in _RETRIED:
            raise
