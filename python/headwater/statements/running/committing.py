"""What every statement that commits shares: its transaction, its provenance, its idempotence (``txnAppId``,
``txnVersion``).

Owns the step that makes a commit safe against the death of this process: Spark's side learns of each attempt before it
is made.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa

from headwater.basics import clock
from headwater.basics.errors import HeadwaterError, illegal_option
from headwater.bridge.messages.define import CommitAnswer
from headwater.bridge.messages.failures import BegunCommit
from headwater.bridge.statement import Statement
from headwater.groups.group_commit import Member, commit_together
from headwater.groups.pending import PendingLog
from headwater.log.checkpoint_writing import Layout
from headwater.log.files import file_of
from headwater.log.snapshot import Snapshot
from headwater.protocol.actions import RemoveFile
from headwater.protocol.file_names import commit_name, log_directory
from headwater.protocol.types import parse_schema, schema_string
from headwater.pruning.predicates import Predicate
from headwater.schema import visible
from headwater.statements import notices
from headwater.statements.running.answers import say_what_it_did
from headwater.statements.running.effects import made_commit, merged
from headwater.statements.running.hooks import Hooks
from headwater.statements.running.manifests import keep_up
from headwater.statements.running.opening import CACHE, Location, Options, locate
from headwater.statements.running.small_files import (
    compact_if_due,
    delete_ended_indexes,
    index_if_due,
    partition_of,
)
from headwater.statements.settings import (
    APPLICATION_ID,
    APPLICATION_VERSION,
    CHECKPOINT_FORMAT,
    CHECKPOINT_PART_SIZE,
    RESETS_VERSION,
    USER_METADATA,
    WAITS_FOR_ICEBERG,
)
from headwater.transaction import Committed, Transaction
from headwater.transaction.commit_info import Provenance, default_engine_info
from headwater.transaction.commit_loop import Begin
from headwater.transaction.maintenance import wait_for_iceberg
from headwater.transaction.transaction import Beside

_LOG = logging.getLogger(__name__)

#: Looks at a transaction, and at its operation as the history calls it, before it is committed. What it raises ends the
#: statement.
CommitCheck = Callable[[Statement, Transaction, str], None]
_CHECKS: list[CommitCheck] = []


def checks_commits(check: CommitCheck) -> CommitCheck:
    """Have a rule of another room look at every commit of a statement. It is declared where the rule is."""
    _CHECKS.append(check)
    return check


def check_target(table: str, statement: Statement, snapshot: Snapshot | None) -> Location:
    """Refuse a table, or a folder, that may not be written to, before any work is done; where it is.

    :param snapshot: the newest one; None for a table to be created.
    :raises HeadwaterError: ``DELTA_UNSUPPORTED_FEATURES_FOR_WRITE``, ``DELTA_UNSUPPORTED_STORE_FOR_WRITE``.
    """
    if snapshot is not None:
        snapshot.check_writable()
        notices.of_written(snapshot)
    notices.of_settings(statement.confs)
    location = locate(table, statement)
    location.store.check_writable(location.path)
    return location


def transaction(table: str, statement: Statement, snapshot: Snapshot | None) -> Transaction:
    """A transaction on a table's newest snapshot, or None for a table to be created.

    :raises HeadwaterError: as :func:`check_target`.
    """
    location = check_target(table, statement, snapshot)
    return for_session(Transaction(location.path, location.store, snapshot, CACHE), statement)


def for_session(txn: Transaction, statement: Statement) -> Transaction:
    """The transaction, with what it takes from the statement's session."""
    txn.checkpoint_layout = checkpoint_layout(statement)
    txn.parse_condition = lambda sql, schema: _row_predicate(statement, sql, schema)
    return txn


def _row_predicate(statement: Statement, sql: str, schema: str) -> Predicate | None:
    """A CHECK constraint as a predicate; None if it is not a condition over the values of one row."""
    try:
        condition = statement.condition(sql, schema_string(visible.for_reading(parse_schema(schema))))
    except Exception:  # such as a function that this session lacks; a cancelled statement ends at its next call
        _LOG.debug("the condition %s cannot be evaluated", sql, exc_info=True)
        return None
    return None if condition.columns is None else condition.predicate


def checkpoint_layout(statement: Statement) -> Layout:
    """What the session asks of checkpoints; invalid values are ignored, because maintenance never fails."""
    is_json = CHECKPOINT_FORMAT.of(statement) == "json"
    return Layout(CHECKPOINT_PART_SIZE.of(statement), "json" if is_json else "parquet")


def commit(
    txn: Transaction,
    statement: Statement,
    provenance: Provenance,
    counts: Sequence[int] | None = None,
    *,
    rows: list[dict[str, Any]] | None = None,
    is_last: bool = True,
    application: Application | None = None,
) -> CommitAnswer:
    """Commit, with the session's provenance; Spark's side knows of each attempt before it is made.

    :param provenance: what the statement itself says; the session adds its engine, and its user metadata if the
        statement has none.
    :param application: of a statement about rows. Others leave the session's version to the one that follows them.
    :param counts: what the statement answers beside the version, also where this process dies after its commit.
    :param rows: the same, of a statement with rows.
    :param is_last: whether the statement is done with it. Spark's side is not told of the commits before: where this
        process dies after one of them, the statement runs again from its beginning.
    """
    is_last = is_last and not statement.goes_on
    for check in _CHECKS:
        check(statement, txn, provenance.operation)
        if txn.beside is not None:
            check(statement, txn.beside.transaction, txn.beside.provenance.operation)
    if application is not None:
        txn.set_transaction(application.id, application.version)
    answered = None if counts is None else list(counts)
    if txn.metrics:
        provenance = replace(provenance, metrics={**provenance.metrics, **txn.metrics})
    # Within a transaction over several statements, what follows a commit waits for COMMIT.
    hooks = None if txn.store.is_provisional else Hooks(txn, statement)

    def begins(table: str) -> Begin:
        def on_begin(version: int, transaction_id: str) -> None:
            if not is_last:
                statement.begin_inner_commit()
                return
            path = f"{log_directory(table)}/{commit_name(version)}"
            statement.begin_commit(
                BegunCommit(table=table, version=version, txn_id=transaction_id, path=path, counts=answered, rows=rows)
            )

        return on_begin

    if txn.beside is not None:
        committed = _commit_both(txn, txn.beside, statement, provenance, begins, hooks)
    else:
        review = hooks.review if hooks else None
        committed = txn.commit(of_session(provenance, statement), on_begin=begins(txn.table_path), review=review)
    if not is_last:
        statement.end_inner_commit()
    elif application is not None:
        reset_version(application, statement)
    if hooks is not None:
        follow_up(txn, statement, hooks, committed)
        say_what_it_did(statement, provenance, committed.version)
        _note_made(txn, statement, provenance, committed)
    return CommitAnswer(version=committed.version, counts=answered, rows=rows)


def _commit_both(
    txn: Transaction,
    beside: Beside,
    statement: Statement,
    provenance: Provenance,
    begins: Callable[[str], Begin],
    hooks: Hooks | None,
) -> Committed:
    """Commit two tables, or none. Within a transaction over several statements, both are part of that."""
    other = beside.transaction
    said, said_beside = of_session(provenance, statement), of_session(beside.provenance, statement)
    if hooks is None:
        pending = other.commit(said_beside)
        try:
            committed = txn.commit(said, on_begin=begins(txn.table_path))
        except BaseException:
            assert isinstance(other.store, PendingLog)
            if other.store.take_back(pending.version):
                CACHE.forget(other.table_path, other.store.identity)
            raise
        beside.tidy_up()
        return committed
    hooks_beside = Hooks(other, statement)
    members = []
    for each, what, own in ((txn, said, hooks), (other, said_beside, hooks_beside)):
        prepared = each.prepare(what)
        if own:
            own.review(prepared)
        members.append(Member(each, prepared, begins(each.table_path)))
    committed, committed_beside = commit_together(members)
    beside.tidy_up()
    follow_up(other, statement, hooks_beside, committed_beside)
    statement.table_changed(other.table_path)
    _note_made(other, statement, said_beside, committed_beside)
    return committed


def _note_made(txn: Transaction, statement: Statement, provenance: Provenance, committed: Committed) -> None:
    made = made_commit(txn.table_path, committed.version, provenance, txn.moved)
    statement.made[made.table] = merged(statement.made.get(made.table), made)


def of_session(provenance: Provenance, statement: Statement) -> Provenance:
    """What a statement says of its commit, with what its session adds."""
    user_metadata = provenance.user_metadata or USER_METADATA.of(statement)
    return replace(provenance, user_metadata=user_metadata, engine_info=default_engine_info(statement.spark_version))


def follow_up(txn: Transaction, statement: Statement, hooks: Hooks, committed: Committed) -> None:
    """What follows a commit that is in the log, and fails no statement."""
    hooks.tell(committed)
    if txn.redefines:
        statement.definition_changed()
        delete_ended_indexes(txn.snapshot, committed)
    keep_up(txn, committed)
    if WAITS_FOR_ICEBERG.of(statement):
        wait_for_iceberg(txn.table_path)
    # The next commit that mirrors the other table would bring back its files.
    if not txn.mirrors and (written := txn.partitions_written):
        compact_if_due(statement, txn.table_path, committed, map(partition_of, written))
    if txn.adds_files:
        index_if_due(statement, txn.table_path, committed)


class Application(NamedTuple):
    """The application id and version of a write, by which it is recognized if it runs again.

    :param is_setting: whether the version is the session's setting.
    """

    id: str
    version: int
    is_setting: bool = False


def idempotence(options: Options, statement: Statement) -> Application | None:
    """The application id and version an idempotent write names, in its options or the session.

    :raises HeadwaterError: ``DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS`` where only one of the two is given,
        ``DELTA_ILLEGAL_OPTION``.
    """
    app_id = options.get("txnappid") or APPLICATION_ID.of(statement)
    version = options.get("txnversion") or APPLICATION_VERSION.of(statement)
    if app_id is None and version is None:
        return None
    if app_id is None or version is None:
        raise HeadwaterError(
            "DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS", {"missing": "txnAppId" if app_id is None else "txnVersion"}
        )
    if not version.lstrip("-").isdecimal():
        raise illegal_option("txnVersion", version, "must be a whole number")
    return Application(app_id, int(version), is_setting="txnversion" not in options)


def has_committed(snapshot: Snapshot, application: Application) -> bool:
    """Whether a version of an application, or a later one, is in the table already."""
    done = snapshot.set_transactions.get(application.id)
    return done is not None and done.version >= application.version


def skip_if_done(snapshot: Snapshot, options: Options, statement: Statement) -> bool:
    """Whether an idempotent write is in the table already."""
    identity = idempotence(options, statement)
    if identity is None:
        return False
    if not has_committed(snapshot, identity):
        return False
    reset_version(identity, statement)
    return True


def reset_version(application: Application, statement: Statement) -> None:
    """Unset the session's ``txnVersion``, if it is the one used and the session asks for it: else the next write would
    be skipped without a word unless the user thinks of another version.
    """
    if application.is_setting and RESETS_VERSION.of(statement):
        statement.unset_conf(APPLICATION_VERSION.name)


def removals(files: pa.Table, data_change: bool = True) -> list[RemoveFile]:
    """Tombstones of rows of ``snapshot.files``, dated now."""
    now = clock.milliseconds()
    return [file_of(row).removal(now, data_change) for row in files.to_pylist()]
