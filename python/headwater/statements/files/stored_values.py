"""What the log stores for the values of partition columns: Spark writes some of them as null.

Owns the rule for every statement that writes rows: empty strings and empty binary data are stored as null, as is the
text by which Spark names the directory of nulls. Promise: checks, computed columns, and the values by which a write
finds the rows that it replaces, see what is stored. So a NOT NULL column refuses an empty string, and an overwrite of
the partition ``''`` replaces the rows that it wrote before. The value of a static partition is one of Spark's
expressions and never reaches a query of ours: ``StoredPartitionValue.scala`` applies the same rule to it.

Tables without a partition column of text or binary data pay nothing.
"""

from __future__ import annotations

from headwater.protocol.partition_paths import NULL_DIRECTORY
from headwater.protocol.table_definition import TableDefinition
from headwater.protocol.types import PrimitiveType, StructField
from headwater.sql.composing import Case, Cast, Expression, Not, Number, Text, call, equal, infix

_BINARY = PrimitiveType("binary")
_TYPES = (PrimitiveType("string"), _BINARY)


def columns_stored_otherwise(definition: TableDefinition) -> list[StructField]:
    """The partition columns of which some values are stored as null."""
    return [column for column in definition.partition_fields if is_stored_otherwise(column)]


def is_stored_otherwise(column: StructField) -> bool:
    """Whether some values of a partition column are stored as null."""
    return column.type in _TYPES


def is_stored_as_null(value: Expression) -> Expression:
    """Whether a value of such a column is stored as null; null for a null."""
    # By their bytes, whatever the collation.
    is_empty = equal(call("octet_length", value), Number(0))
    return infix("OR", is_empty, equal(Cast(value, _BINARY), Cast(Text(NULL_DIRECTORY), _BINARY)))


def as_stored(value: Expression) -> Expression:
    """A value of such a column as the log has it.

    :param value: a column, or what may be computed twice.
    """
    return Case(((Not(is_stored_as_null(value)), value),))
