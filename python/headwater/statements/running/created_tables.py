"""Tables that a transaction over several statements creates: how it finds them, and their names after COMMIT.

Owns how such a table gets its name. Until COMMIT, the session catalog has no entry of it: the statements of the
transaction find it here by its name, and nobody else does. The entry is made after the group is decided. Promise: a
name that was taken meanwhile ends COMMIT before anything is in a log; where the catalog takes no entry afterwards, the
tables are there, and the error has the statements that name them.
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.basics.errors import HeadwaterError
from headwater.bridge.messages.define import CreatedTable, CreatedTableRequest, CreateTableRequest
from headwater.bridge.statement import Statement
from headwater.protocol.columns import format_name, quote
from headwater.statements.calls import reads
from headwater.statements.running import open_transactions
from headwater.statements.running.open_transactions import not_in_transaction
from headwater.statements.running.opening import locate_itself
from headwater.statements.settings import CASE_SENSITIVE


def check_creatable(request: CreateTableRequest, statement: Statement, *, exists: bool) -> None:
    """Refuse to create within a transaction what would not be a new table, or what COMMIT could not promise.

    :param exists: whether there is a table at its place, as the transaction sees it.
    :raises HeadwaterError: ``HEADWATER_NOT_IN_TRANSACTION``.
    """
    transaction = open_transactions.current(statement)
    if transaction is None:
        return
    subject = request.name or request.table
    if exists:
        what = f"A statement that replaces the table at {request.table}, or gives it a name,"
        raise not_in_transaction(what, subject)
    if request.identifier and locate_itself(request.table, statement).store.identity:
        # They are known to this statement alone: those that find the table by its name could not reach it.
        raise not_in_transaction("CREATE TABLE with options of its file system", subject)
    if transaction.serializable:
        # What is read is checked after the commits are made; a table that was created is not taken back then.
        raise not_in_transaction("CREATE TABLE with isolation level SERIALIZABLE", subject)


def note_created(request: CreateTableRequest, statement: Statement) -> None:
    """Let the statements that follow in the transaction find the table by its name."""
    transaction = open_transactions.current(statement)
    if transaction is not None and request.identifier:
        created = CreatedTable(
            identifier=request.identifier, table=request.table, external=request.external, comment=request.comment
        )
        transaction.note_created(created, exact=CASE_SENSITIVE.of(statement))


@reads
def created_table(request: CreatedTableRequest, statement: Statement) -> CreatedTable:
    """The table of a name that the session's transaction creates."""
    transaction = open_transactions.current(statement)
    exact = CASE_SENSITIVE.of(statement)
    found = None if transaction is None else transaction.created_as(request.identifier, exact=exact)
    return found or CreatedTable(identifier=request.identifier)


def check_names(created: Sequence[CreatedTable], statement: Statement) -> None:
    """Refuse to commit where the session catalog has one of the names by now.

    :raises HeadwaterError: ``HEADWATER_TRANSACTION_NAME_TAKEN``.
    """
    for table in created:
        if statement.is_name_taken(table):
            raise HeadwaterError("HEADWATER_TRANSACTION_NAME_TAKEN", {"tableName": format_name(table.identifier)})


def register(created: Sequence[CreatedTable], statement: Statement) -> None:
    """Give tables that are there now their names in the session catalog.

    :raises HeadwaterError: ``HEADWATER_TRANSACTION_NOT_REGISTERED`` if that takes no entry of one.
    """
    reasons, statements = [], []
    for table in created:
        reason = statement.register_table(table)
        if reason is not None:
            reasons.append(f"{format_name(table.identifier)}: {reason}")
            statements.append(f"CREATE TABLE {quote(table.identifier)} USING delta LOCATION '{table.table}'")
    if reasons:
        named = {"reasons": "; ".join(reasons), "statements": "; ".join(statements)}
        raise HeadwaterError("HEADWATER_TRANSACTION_NOT_REGISTERED", named)
