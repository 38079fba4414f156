"""Change data beside data: both are written by one job.

Owns the two columns that come after the table's own in such a job, by which the writer tells a row of the table from
one of a change data file. Follows the protocol's chapter "Change Data Files".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headwater.protocol.file_names import CHANGE_DATA_DIRECTORY
from headwater.protocol.types import PrimitiveType, StructField, StructType, parse_schema, schema_string
from headwater.schema.constraints import quote
from headwater.statements.internal_names import InternalNames

#: What became of the row; null in the table's own rows, whose files do not have the column.
CHANGE_TYPE = "_change_type"


def change_column(schema: StructType) -> str:
    """What the column is called that says whether a row belongs into a change data file; the writer keeps those in a
    folder of their own.
    """
    return InternalNames.beside([*schema.names, *(column.physical_name for column in schema)]).of("is_change")


def with_changes(specification: Mapping[str, Any], change: str) -> dict[str, Any]:
    """A write job whose query has the two columns after the table's.

    :param change: the name of the second.
    """
    columns = parse_schema(specification["schema"])
    told = (
        StructField(CHANGE_TYPE, PrimitiveType("string")),
        StructField(change, PrimitiveType("boolean")),
    )
    return {
        **specification,
        "schema": schema_string(StructType((*columns, *told))),
        "partitionBy": [change, *specification["partitionBy"]],
        "changeColumn": change,
    }


def is_change_file(file: Mapping[str, Any]) -> bool:
    """Whether a file of a job's answer has change data."""
    return str(file["path"]).startswith(f"{CHANGE_DATA_DIRECTORY}/")


def inserting(schema: StructType, query: str) -> str:
    """Rows that are new: each as it is, and as an ``insert``.

    :param schema: the table's.
    :param query: the rows, whose values are computed before they are multiplied.
    """
    query = f"SELECT *, explode(array(false, true)) AS {change_column(schema)} FROM ({query})"
    return _told("insert", schema, query)


def deleting(schema: StructType, rows: str, condition: str) -> str:
    """Rows of files that go: those a condition is true for as a ``delete``, the others as they are.

    :param schema: the table's.
    """
    return _told("delete", schema, f"SELECT *, coalesce({condition}, false) AS {change_column(schema)} FROM {rows}")


def _told(kind: str, schema: StructType, query: str) -> str:
    change = change_column(schema)
    columns = [quote((column.name,)) for column in schema if column.type != PrimitiveType("void")]
    told = f"CASE WHEN {change} THEN '{kind}' END AS {CHANGE_TYPE}"
    return f"SELECT {', '.join([*columns, told, change])}\nFROM ({query})"
