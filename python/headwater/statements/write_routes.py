"""Routes of calls that write rows, to an existing table, a new one or from a stream: an upsert if the options name key
columns, otherwise a plain write.

Owns that choice alone. Writes by keys are :mod:`headwater.statements.upserts.upsert`'s.
"""

from __future__ import annotations

from headwater.bridge.messages.define import CommitAnswer, CreateTableRequest
from headwater.bridge.messages.follow import WriteBatchRequest
from headwater.bridge.messages.write import WriteRequest
from headwater.bridge.statement import Statement
from headwater.statements.calls import call
from headwater.statements.feeds import sink
from headwater.statements.running.opening import Options
from headwater.statements.tables import create
from headwater.statements.upserts import upsert
from headwater.statements.writes import insert
from headwater.statements.writes.upsert_options import asked


@call(commits=True, in_transaction=True)
def write(request: WriteRequest, statement: Statement) -> CommitAnswer:
    """Write rows into a table."""
    options = Options(request.options)
    return upsert.write(request, options, statement) if asked(options) else insert.write(request, statement)


@call(commits=True, in_transaction=True)
def create_table(request: CreateTableRequest, statement: Statement) -> CommitAnswer:
    """Create a table, with the rows of a query or empty."""
    options = Options(request.options)
    if request.plan is None or request.row_schema is None or not asked(options):
        return create.create_table(request, statement)
    return upsert.create_table(request, options, statement)


@call(commits=True, in_transaction=False, words="A stream")
def write_batch(request: WriteBatchRequest, statement: Statement) -> CommitAnswer:
    """Write a stream's batch into its table."""
    options = Options(request.batch.sink.options)
    return upsert.write_batch(request, options, statement) if asked(options) else sink.write_batch(request, statement)
