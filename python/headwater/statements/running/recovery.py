"""Recovery and shutdown: whether the commit of a handler that died is in the log, and the end of post-commit
maintenance.

The JVM asks the first after a handler died during a commit, and waits for the second before it ends.
"""

from __future__ import annotations

import contextlib

from headwater.basics import backoff
from headwater.basics.errors import HeadwaterError
from headwater.bridge.messages.define import CommitAnswer
from headwater.bridge.messages.failures import BegunCommit, FinishMaintenanceRequest, RecoverCommitRequest
from headwater.bridge.statement import Statement
from headwater.log.commits import commit_info_of, parse_actions
from headwater.log.groups import Standing, standing
from headwater.statements.calls import reads
from headwater.statements.running import open_transactions
from headwater.statements.running.committing import idempotence, reset_version
from headwater.statements.running.created_tables import register
from headwater.statements.running.opening import Options, locate, locate_itself
from headwater.statements.settings import TRANSACTION
from headwater.transaction.maintenance import wait_for_maintenance

_LONGEST_MAINTENANCE_SECONDS = 30.0
#: How often to look for a commit where the store fails to answer.
_LOOKS = 4


@reads
def recover_commit(request: RecoverCommitRequest, statement: Statement) -> CommitAnswer:
    """The answer of the call that died, if the ``commit`` it was making is in the log.

    :raises HeadwaterError: ``DELTA_COMMIT_NOT_MADE`` if it is not: the statement did nothing and can be run again;
        ``HEADWATER_COMMIT_MAY_STAND`` if the store, or the catalog that manages the table, does not say.
    """
    commit = request.commit
    for _ in backoff.OF_LOOKS.tries(_LOOKS):
        try:
            data, stands = _found(commit, statement)
            info = commit_info_of(data) or {}
        except FileNotFoundError:
            info, stands = {}, Standing.STANDS
        except (OSError, HeadwaterError) as error:  # a catalog that is to say what the log is does not answer
            failure = error
            continue
        if info.get("txnId") == commit.txn_id and stands is Standing.OPEN:
            failure = OSError("another process finishes the transaction that it is part of")
            continue
        if info.get("txnId") == commit.txn_id and stands is Standing.STANDS:
            if TRANSACTION.of(statement) and open_transactions.known(statement) is None:
                statement.end_transaction(TRANSACTION.name)
            _reset_version(data, commit.path, statement)
            register([table for table in commit.created or () if not statement.is_name_taken(table)], statement)
            return CommitAnswer(version=commit.version, counts=commit.counts, rows=commit.rows)
        named = {"tableLocation": commit.table, "version": commit.version}
        raise HeadwaterError("DELTA_COMMIT_NOT_MADE", named)
    raise HeadwaterError(
        "HEADWATER_COMMIT_MAY_STAND",
        {
            "tableLocation": commit.table,
            "version": commit.version,
            "path": commit.path,
            "txnId": commit.txn_id,
            "reason": f"the handler process ended, and the commit could not be looked for ({failure})",
        },
    )


def _found(commit: BegunCommit, statement: Statement) -> tuple[bytes, Standing]:
    """The commit's file, and whether its group stands, where it is one of several."""
    if open_transactions.known(statement) is not None:
        # One of a transaction that has not ended; or that of its COMMIT, which may have the version of a pending one.
        with contextlib.suppress(FileNotFoundError, HeadwaterError):
            data = locate(commit.table, statement).store.read(commit.path)
            if (commit_info_of(data) or {}).get("txnId") == commit.txn_id:
                return data, Standing.STANDS
    location = locate_itself(commit.table, statement)
    data = location.store.read(commit.path)
    return data, standing(location.path, location.store, commit.version, data)


def _reset_version(data: bytes, path: str, statement: Statement) -> None:
    """What the process that died would have done last, where the commit is the write that the session numbered."""
    application = idempotence(Options(None), statement)
    if application is not None and application.id.encode() in data:
        done = parse_actions(data, path).transactions.get(application.id)
        if done is not None and done.version == application.version:
            reset_version(application, statement)


@reads
def finish_maintenance(request: FinishMaintenanceRequest, statement: Statement) -> bool:
    """Before the JVM ends: wait for checkpoints and checksums still being written; False if they take too long."""
    return wait_for_maintenance(_LONGEST_MAINTENANCE_SECONDS)
