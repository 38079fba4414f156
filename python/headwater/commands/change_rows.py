"""Change data beside data: both are written by one job.

Owns the two columns that come after the table's own in such a job, by which the writer tells a row of the table from
one of a change data file. Follows the protocol's chapter "Change Data Files".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headwater.log.file_names import CHANGE_DATA_DIRECTORY
from headwater.schema.types import PrimitiveType, StructField, StructType, parse_schema, schema_string

#: Whether a row belongs into a change data file; the writer keeps those in a folder of their own.
CHANGE = "__hw_change"
#: What became of the row; null in the table's own rows, whose files do not have the column.
CHANGE_TYPE = "_change_type"


def with_changes(specification: Mapping[str, Any]) -> dict[str, Any]:
    """A write job whose query has the two columns after the table's."""
    columns = parse_schema(specification["schema"])
    told = (
        StructField(CHANGE_TYPE, PrimitiveType("string")),
        StructField(CHANGE, PrimitiveType("boolean")),
    )
    return {
        **specification,
        "schema": schema_string(StructType((*columns, *told))),
        "partitionBy": [CHANGE, *specification["partitionBy"]],
    }


def is_change_file(file: Mapping[str, Any]) -> bool:
    """Whether a file of a job's answer has change data."""
    return str(file["path"]).startswith(f"{CHANGE_DATA_DIRECTORY}/")


def inserting(columns: Sequence[str], query: str) -> str:
    """Rows that are new: each as it is, and as an ``insert``.

    :param columns: the table's stored columns, quoted.
    """
    return _told("insert", columns, f"SELECT *, explode(array(false, true)) AS {CHANGE} FROM ({query})")


def deleting(columns: Sequence[str], rows: str, condition: str) -> str:
    """Rows of files that go: those a condition is true for as a ``delete``, the others as they are.

    :param columns: the table's stored columns, quoted.
    """
    return _told("delete", columns, f"SELECT *, coalesce(({condition}), false) AS {CHANGE} FROM {rows}")


def _told(change: str, columns: Sequence[str], query: str) -> str:
    told = f"CASE WHEN {CHANGE} THEN '{change}' END AS {CHANGE_TYPE}"
    return f"SELECT {', '.join([*columns, told, CHANGE])}\nFROM ({query})"
