"""The columns that record the history of a key: the sequences between which each row was the newest.

Owns their names and types, and what is refused: rows that bring them, and tables that have none, or have them and are
to be upserted without a history.
"""

from __future__ import annotations

from headwater.basics.errors import HeadwaterError
from headwater.protocol.columns import as_value
from headwater.protocol.types import INTEGERS, DataType, PrimitiveType, StructField, StructType
from headwater.statements.writes.upsert_options import Upsert

#: The sequence of the event that a row is, and of the next event of its key; null while there is none.
START, END = "__START_AT", "__END_AT"


def check_table(upsert: Upsert, rows: StructType, table: StructType | None) -> None:
    """Refuse rows and a table that do not go with the way of storing.

    :param rows: the columns of the rows that are stored.
    :param table: the columns that the table will have; None if the write creates it.
    :raises HeadwaterError: ``HEADWATER_UPSERT_HISTORY_COLUMN_GIVEN``, ``HEADWATER_UPSERT_TABLE_HAS_HISTORY``.
    """
    brought = next((column.name for column in rows if column.name.lower() in (START.lower(), END.lower())), None)
    if upsert.keeps_history:
        if brought is not None:
            raise HeadwaterError("HEADWATER_UPSERT_HISTORY_COLUMN_GIVEN", {"column": brought})
    elif brought is None and table is not None and None not in (table.find(START), table.find(END)):
        raise HeadwaterError("HEADWATER_UPSERT_TABLE_HAS_HISTORY", {"start": START, "end": END})


def stored_type(table: StructType | None, given: DataType, expression: str) -> DataType:
    """The type that a table stores sequences of some type with.

    :param expression: what the sequence is computed by.
    :raises HeadwaterError: ``HEADWATER_UPSERT_TABLE_WITHOUT_HISTORY``, ``HEADWATER_UPSERT_HISTORY_SEQUENCE_TYPE``.
    """
    given = as_value(given)
    if table is None:
        return given
    start, end = table.find(START), table.find(END)
    if start is None or end is None:
        missing = [name for name, column in ((START, start), (END, end)) if column is None]
        raise HeadwaterError(
            "HEADWATER_UPSERT_TABLE_WITHOUT_HISTORY",
            {"missing": " and ".join(missing), "columns": ", ".join(f"{name} {given.sql()}" for name in missing)},
        )
    kind = as_value(start.type)
    if as_value(end.type) != kind or not _holds(kind, given):
        raise HeadwaterError(
            "HEADWATER_UPSERT_HISTORY_SEQUENCE_TYPE",
            {"expression": expression, "type": given.sql(), "start": start.type.sql(), "end": end.type.sql()},
        )
    return kind


def _holds(kind: DataType, given: DataType) -> bool:
    """Whether sequences of a type keep their order, and stay different, as values of another one."""
    if kind == given:
        return True
    if not isinstance(kind, PrimitiveType) or not isinstance(given, PrimitiveType):
        return False
    return {kind.name, given.name} <= {*INTEGERS} and INTEGERS.index(given.name) < INTEGERS.index(kind.name)


def with_history(columns: StructType, kind: DataType) -> StructType:
    """Columns, and the two of the history."""
    return StructType((*columns, StructField(START, kind), StructField(END, kind)))
