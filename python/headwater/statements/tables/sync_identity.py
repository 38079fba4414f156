"""ALTER TABLE … ALTER COLUMN … SYNC IDENTITY: the next generated value follows the largest one in the table.

Owns the new high-water mark of an identity column after values were inserted explicitly. Follows the protocol's
chapter "Identity Columns". Promise: a high-water mark never goes back, so no value is generated twice.
"""

from __future__ import annotations

from typing import Any

from headwater.basics.errors import HeadwaterError
from headwater.bridge.messages.define import CommitAnswer, SyncIdentityRequest
from headwater.bridge.statement import Statement
from headwater.protocol.columns import find_path, format_name
from headwater.pruning.aggregates import aggregate_from_log
from headwater.schema.identity import IdentityColumn, identity_columns, with_high_water_marks
from headwater.sql.composing import Alias, Column, call, select
from headwater.statements.calls import own_statement
from headwater.statements.files.file_lists import relation_over
from headwater.statements.tables.alter_commit import alter
from headwater.statements.tables.draft import Draft, Operation


@own_statement("alter", output=None, commits=True, in_transaction=False, words="SYNC IDENTITY")
def sync_identity(request: SyncIdentityRequest, statement: Statement) -> CommitAnswer:
    """Move the high-water mark to the largest value in the table; with a negative step, to the smallest.

    :raises HeadwaterError: ``DELTA_IDENTITY_COLUMNS_ALTER_NON_IDENTITY_COLUMN``.
    """
    path = tuple(request.arguments.column)
    folded = ".".join(part.lower() for part in path)

    def synchronize(draft: Draft) -> Operation:
        identities = {column.name.lower(): column for column in identity_columns(draft.schema)}
        column = identities.get(folded) if len(path) == 1 else None
        if column is None:
            if find_path(draft.schema, path) is None:
                raise HeadwaterError(
                    "UNRESOLVED_COLUMN.WITH_SUGGESTION",
                    {
                        "objectName": format_name(path),
                        "tableName": draft.name,
                        "proposal": ", ".join(format_name((name,)) for name in draft.schema.names),
                    },
                )
            known = ", ".join(identity.name for identity in identities.values()) or "none"
            raise HeadwaterError(
                "DELTA_IDENTITY_COLUMNS_ALTER_NON_IDENTITY_COLUMN",
                {"columnName": format_name(path), "tableName": draft.name, "known": known},
            )
        value = _furthest(column, draft)
        if value is not None:
            # Rows may have come while the values were looked at.
            draft.reads_rows = True
            mark = _next_of_sequence(column, value)
            draft.set_schema(with_high_water_marks(draft.schema, {column.name: mark}))
        return Operation("CHANGE COLUMN", {"column": {"path": column.name, "name": column.name, "syncIdentity": True}})

    return alter(request.table, request.name, statement, synchronize)


def _furthest(column: IdentityColumn, draft: Draft) -> int | None:
    """The largest value in the table, or the smallest for a negative step; from the log where it tells."""
    kind = "max" if column.step > 0 else "min"
    found: Any
    known = aggregate_from_log(draft.snapshot, [], [(kind, (column.name,))], [])
    if known is not None:
        found = known.column(0)[0].as_py()
    else:
        rows = relation_over(draft.statement, draft.snapshot, draft.snapshot.files)
        draft.statement.step("find the largest value")
        query = select(Alias(call(kind, Column(column.name)), "value"), rows=rows)
        found = draft.statement.query(query.text())[0].get("value")
    return None if found is None else int(found)


def _next_of_sequence(column: IdentityColumn, value: int) -> int:
    """The first value of the column's sequence that is not before a value."""
    steps = max(0, -((column.start - value) // column.step))
    return column.start + steps * column.step
