"""Checks of the definition of columns in a log, before anything relies on it.

Promise: whatever another writer stored, the metadata of a column that this package reads has the type that the protocol
gives it, and partition columns are columns.
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.basics.errors import HeadwaterError
from headwater.protocol.column_metadata import (
    COLUMN_ID,
    CURRENT_DEFAULT,
    DECLARED_TYPE,
    EXISTS_DEFAULT,
    GENERATION_EXPRESSION,
    INVARIANTS,
    NESTED_IDS,
    PHYSICAL_NAME,
    TYPE_CHANGES,
)
from headwater.protocol.columns import all_fields, format_name
from headwater.protocol.types import StructType

#: The metadata of columns that is read, with the type of its JSON. That of identity columns is checked where it is
#: used.
_TYPES: dict[str, type] = {
    "comment": str,
    CURRENT_DEFAULT: str,
    EXISTS_DEFAULT: str,
    DECLARED_TYPE: str,
    COLUMN_ID: int,
    NESTED_IDS: dict,
    PHYSICAL_NAME: str,
    GENERATION_EXPRESSION: str,
    INVARIANTS: str,
    TYPE_CHANGES: list,
}


def check_definition(schema: StructType, partition_columns: Sequence[str]) -> None:
    """Refuse a schema that cannot be used.

    :raises HeadwaterError: ``DELTA_INVALID_SCHEMA``.
    """
    for path, field in all_fields(schema):
        for name, value in field.metadata.items():
            if name in _TYPES and not isinstance(value, _TYPES[name]):
                raise _invalid(f"{name} of column {format_name(path)} is {value!r}")
    if len({column.lower() for column in partition_columns}) < len(partition_columns):
        raise _invalid(f"it is partitioned by one column twice ({', '.join(partition_columns)})")
    for column in partition_columns:
        if schema.find(column) is None:
            raise _invalid(f"it has no column {column}, by which the table is partitioned")


def _invalid(what: str) -> HeadwaterError:
    return HeadwaterError("DELTA_INVALID_SCHEMA", {"schema": what})
