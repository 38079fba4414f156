"""BEGIN TRANSACTION, COMMIT and ROLLBACK.

Owns the beginning and the end of a transaction over several statements. COMMIT makes one commit of all that was done to
a table, checks each against what others have committed since, and makes them stand or fall together
(:mod:`headwater.groups.group_commit`). Promise: after COMMIT or ROLLBACK, whatever they answer, the session has no
transaction any more; where the answer is an error, no table was changed, unless the error says otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from headwater.basics.errors import HeadwaterError
from headwater.bridge.messages.define import CreatedTable, RowsAnswer, TransactionRequest
from headwater.bridge.messages.failures import BegunCommit, InTransactionRequest
from headwater.bridge.statement import Statement
from headwater.groups.composing import composed
from headwater.groups.group_commit import Member, commit_together
from headwater.groups.only_read import OnlyRead
from headwater.groups.pending import PendingLog
from headwater.protocol.file_names import commit_name, log_directory
from headwater.protocol.types import PrimitiveType, StructField, StructType
from headwater.statements.calls import own_statement, reads
from headwater.statements.files.missing_changes import record_missing_changes
from headwater.statements.running import open_transactions
from headwater.statements.running.committing import follow_up, for_session, of_session
from headwater.statements.running.created_tables import check_names, register
from headwater.statements.running.hooks import Hooks
from headwater.statements.running.open_transactions import OpenTransaction
from headwater.statements.running.opening import CACHE
from headwater.statements.settings import TRANSACTION
from headwater.transaction import Transaction
from headwater.transaction.commit_info import Provenance

#: Commands of Spark's own that change nothing but the session, by the names of their plans.
_HARMLESS = frozenset(
    {
        "ClearCacheCommand",
        "CreateVariable",
        "CreateViewCommand",
        "DropTempViewCommand",
        "DropVariable",
        "RefreshTable",
        "RefreshTableCommand",
        "SetCatalogAndNamespace",
        "SetCatalogCommand",
        "SetCommand",
        "SetNamespaceCommand",
        "SetVariable",
    }
)
#: Errors of a COMMIT after which a table that it creates may yet be there.
_MAY_STAND = (
    "HEADWATER_COMMIT_OUTCOME_UNKNOWN",
    "HEADWATER_TRANSACTION_OUTCOME_UNKNOWN",
    "HEADWATER_TRANSACTION_ABORTED",
    "HEADWATER_TRANSACTION_NOT_UNDONE",
)
#: What COMMIT answers: the version that each table has now, of those that were changed.
COMMIT_SCHEMA = StructType(
    (StructField("path", PrimitiveType("string")), StructField("version", PrimitiveType("long")))
)


@own_statement("transactions", output=None, commits=False, in_transaction=True)
def begin_transaction(request: TransactionRequest, statement: Statement) -> RowsAnswer:
    """Begin a transaction that the session's next statements are part of.

    :raises HeadwaterError: ``HEADWATER_TRANSACTION_NESTED``.
    """
    arguments = request.arguments
    serializable = arguments.isolation == "serializable"
    opened = open_transactions.begin(statement, CACHE, serializable=serializable, of_script=arguments.script)
    statement.set_conf(TRANSACTION.name, opened.id)
    return RowsAnswer(rows=[])


@own_statement("transactions", output=None, commits=False, in_transaction=True)
def rollback_transaction(request: TransactionRequest, statement: Statement) -> RowsAnswer:
    """Forget what the session's transaction did, also where this process knows it no more.

    :raises HeadwaterError: ``HEADWATER_NO_TRANSACTION``; ``HEADWATER_TRANSACTION_OF_SCRIPT``.
    """
    _check_begun("ROLLBACK", request, statement)
    transaction = open_transactions.known(statement)
    if transaction is not None:
        transaction.give_up()
    _end(transaction, statement)
    return RowsAnswer(rows=[])


@own_statement("transactions", output=COMMIT_SCHEMA, commits=False, in_transaction=True)
def commit_transaction(request: TransactionRequest, statement: Statement) -> RowsAnswer:
    """Make what the session's transaction did part of its tables: all of it, or nothing.

    :raises HeadwaterError: ``HEADWATER_NO_TRANSACTION``, ``HEADWATER_TRANSACTION_OF_SCRIPT``,
        ``HEADWATER_TRANSACTION_LOST``; those of
        :func:`~headwater.groups.group_commit.commit_together`; that of a hook that refuses a commit.
    """
    _check_begun("COMMIT", request, statement)
    try:
        transaction = open_transactions.current(statement)
    except HeadwaterError:
        lost = open_transactions.known(statement)
        if lost is not None:
            lost.give_up()
        _end(lost, statement)
        raise
    assert transaction is not None
    try:
        transaction.stop()
        record_missing_changes(transaction, statement)
    except BaseException:
        transaction.give_up()
        _end(transaction, statement)
        raise
    if not transaction.close():
        raise HeadwaterError("HEADWATER_TRANSACTION_LOST")
    logs, created = transaction.written, transaction.created
    only_read = [OnlyRead(log.pinned, log.noted or ()) for log in transaction.only_read]
    try:
        check_names(created, statement)
        made = [for_session(composed(log, CACHE), statement) for log in logs]
        hooks = [Hooks(txn, statement) for txn in made]
        done = commit_together(list(map(partial(_member, statement, created), logs, made, hooks)), only_read)
    except HeadwaterError as error:
        if error.condition not in _MAY_STAND:
            transaction.delete_files()
        raise
    finally:
        # What follows a commit is done by sessions that are in no transaction any more.
        _end(transaction, statement)
    for txn, each, committed in zip(made, hooks, done, strict=True):
        follow_up(txn, statement, each, committed)
        statement.table_changed(txn.table_path)
    register(created, statement)
    versions = {log.table_path: committed.version for log, committed in zip(logs, done, strict=True)}
    parts = _parts_of_tables(transaction.paths)
    return RowsAnswer(
        rows=[{"path": path, "version": version} for path, version in versions.items() if path not in parts]
    )


@reads
def in_transaction(request: InTransactionRequest, statement: Statement) -> None:
    """Refuse a command of Spark's own that a ROLLBACK would not undo.

    :raises HeadwaterError: ``HEADWATER_NOT_IN_TRANSACTION``.
    """
    command = request.command
    if command not in _HARMLESS and not command.startswith(("Describe", "Explain", "Show", "List")):
        words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", command.removesuffix("Command")).upper()
        subject = "only reads can, and what creates Delta tables or changes their rows"
        raise open_transactions.not_in_transaction(words, subject)


def _parts_of_tables(paths: Sequence[str]) -> set[str]:
    """The tables that are part of another table: they lie in its folder, hidden from readers."""
    return {path for path in paths if any(path.startswith(f"{other}/_") for other in paths)}


def _check_begun(what: str, request: TransactionRequest, statement: Statement) -> None:
    """That the session has a transaction that the statement may end. A script's own ends with the script: statements
    that followed would be in none.
    """
    if not TRANSACTION.of(statement):
        raise HeadwaterError("HEADWATER_NO_TRANSACTION", {"statement": what})
    transaction = open_transactions.known(statement)
    if transaction is not None and transaction.of_script and not request.arguments.script:
        raise HeadwaterError("HEADWATER_TRANSACTION_OF_SCRIPT", {"statement": what})


def _end(transaction: OpenTransaction | None, statement: Statement) -> None:
    if transaction is not None:
        open_transactions.end(transaction)
    statement.end_transaction(TRANSACTION.name)


def _member(
    statement: Statement, created: list[CreatedTable], log: PendingLog, txn: Transaction, hooks: Hooks
) -> Member:
    said = [commit.prepared.provenance for commit in log.commits]
    path = txn.table_path

    def on_begin(version: int, transaction_id: str) -> None:
        file = f"{log_directory(path)}/{commit_name(version)}"
        statement.begin_commit(
            BegunCommit(table=path, version=version, txn_id=transaction_id, path=file, rows=[], created=created or None)
        )

    prepared = txn.prepare(of_session(_of_all(said), statement))
    if hooks:
        hooks.review(prepared)
    return Member(txn, prepared, on_begin)


def _of_all(said: Sequence[Provenance]) -> Provenance:
    """The provenance of one commit of several statements."""
    if len(said) == 1:
        return replace(said[0], tags=None)
    totals: dict[str, int | str] = {}
    for each in said:
        for name, value in each.metrics.items():
            if str(value).isdecimal():
                totals[name] = int(totals.get(name, 0)) + int(value)
    user_metadata = next((each.user_metadata for each in reversed(said) if each.user_metadata), None)
    return Provenance("TRANSACTION", {"statements": [each.operation for each in said]}, totals, user_metadata)
