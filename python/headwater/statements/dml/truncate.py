"""TRUNCATE TABLE: removes every file and keeps the table."""

from __future__ import annotations

from headwater.bridge.messages.change import TruncateRequest
from headwater.bridge.messages.define import CommitAnswer
from headwater.bridge.statement import Statement
from headwater.statements.calls import call
from headwater.statements.running.committing import commit, idempotence, removals, skip_if_done, transaction
from headwater.statements.running.opening import Options, open_snapshot
from headwater.statements.running.rerunning import run_again_after_losses
from headwater.transaction.commit_info import Provenance


@call(commits=True, in_transaction=True)
def truncate(request: TruncateRequest, statement: Statement) -> CommitAnswer:
    """Remove every file of a table; an empty table is not changed."""
    return run_again_after_losses(request.table, statement, lambda: _truncate_once(request, statement))


def _truncate_once(request: TruncateRequest, statement: Statement) -> CommitAnswer:
    snapshot = open_snapshot(request.table, statement)
    if not snapshot.num_files or skip_if_done(snapshot, Options(None), statement):
        return CommitAnswer(version=snapshot.version)
    txn = transaction(request.table, statement, snapshot)
    txn.read_whole_table()
    txn.remove(removals(snapshot.files))
    metrics = {"numRemovedFiles": snapshot.num_files, "numRemovedBytes": snapshot.size_in_bytes}
    return commit(
        txn, statement, Provenance("TRUNCATE", {}, metrics), application=idempotence(Options(None), statement)
    )
