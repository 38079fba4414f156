"""Change data beside data: one job writes both.

Owns the two columns that follow the table's own in such a job. By them the writer separates rows of the table from rows
of change data files. Follows the protocol's chapter "Change Data Files".
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from headwater.bridge.messages.callbacks import WriteSpecification, WrittenFile
from headwater.change_data.changelog import CHANGE_TYPE
from headwater.protocol.file_names import CHANGE_DATA_DIRECTORY
from headwater.protocol.types import PrimitiveType, StructField, StructType, parse_schema, schema_string
from headwater.sql.composing import (
    FALSE,
    STAR,
    TRUE,
    Alias,
    Column,
    Expression,
    Not,
    Query,
    Rows,
    Text,
    call,
    select,
    when,
)
from headwater.statements.internal_names import InternalNames


def change_column(schema: StructType) -> str:
    """The name of the column that is true in rows of change data files, which the writer puts into another folder."""
    return InternalNames.beside([*schema.names, *(column.physical_name for column in schema)]).of("is_change")


def with_changes(specification: WriteSpecification, change: str, *, stages: bool = False) -> WriteSpecification:
    """A write job whose query has the two columns of change data after the table's.

    :param change: the name of the second.
    :param stages: whether that is a text, because rows may be staged.
    """
    columns = parse_schema(specification.schema)
    added = (
        StructField(CHANGE_TYPE, PrimitiveType("string")),
        StructField(change, PrimitiveType("string" if stages else "boolean")),
    )
    return replace(
        specification,
        schema=schema_string(StructType((*columns, *added))),
        partition_by=[change, *specification.partition_by],
        change_column=change,
    )


def is_change_file(file: WrittenFile) -> bool:
    """Whether a file that a job wrote is a change data file."""
    return file.path.startswith(f"{CHANGE_DATA_DIRECTORY}/")


def inserted_rows(schema: StructType, rows: Query) -> Query:
    """New rows: each as it is, and as an ``insert``.

    :param schema: the table's.
    :param rows: the rows, whose values are computed before they are multiplied.
    """
    both = Alias(call("explode", call("array", FALSE, TRUE)), change_column(schema))
    return _with_change_type(schema, select(STAR, both, rows=rows), "insert")


def deleted_rows(schema: StructType, rows: Rows, condition: Expression, row_ids: Sequence[str] = ()) -> Query:
    """Rows of files that are removed: as a ``delete`` if a condition is true, else as they are.

    :param schema: the table's.
    :param row_ids: the columns of row tracking, which change data does not have.
    """
    is_deleted = Alias(call("coalesce", condition, FALSE), change_column(schema))
    return _with_change_type(schema, select(STAR, is_deleted, rows=rows), "delete", row_ids)


def changed_rows(schema: StructType, rows: Rows, kind: str) -> Query:
    """Rows that are written as change data alone.

    :param schema: the table's.
    :param kind: what the change feed calls each.
    """
    return _with_change_type(schema, select(STAR, Alias(TRUE, change_column(schema)), rows=rows), kind)


def _with_change_type(schema: StructType, rows: Query, kind: str, row_ids: Sequence[str] = ()) -> Query:
    is_change = Column(change_column(schema))
    columns: list[Expression] = [Column(column.name) for column in schema if column.type != PrimitiveType("void")]
    columns += [Alias(when(Not(is_change), Column(name)), name) for name in row_ids]
    return select(*columns, Alias(when(is_change, Text(kind)), CHANGE_TYPE), is_change, rows=rows)
