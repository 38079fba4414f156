"""The builder of OPTIMIZE, and the text of CLONE and CONVERT TO DELTA."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from headwater.tables import cards
from headwater.tables.columns import of_field
from headwater.tables.errors import check_type
from headwater.tables.names import literal, path_name, quote, split_name
from headwater.tables.opening import NamedTable


class DeltaOptimizeBuilder:
    """The description of an OPTIMIZE; :meth:`DeltaTable.optimize` returns one."""

    def __init__(self, table: NamedTable, condition: str | None = None) -> None:
        self._table = table
        self._condition = condition

    def where(self, partitionFilter: str) -> DeltaOptimizeBuilder:
        """Only the partitions for which a condition is true."""
        check_type("partitionFilter", partitionFilter, str, "a string of SQL")
        return DeltaOptimizeBuilder(self._table, partitionFilter)

    def executeCompaction(self) -> DataFrame:
        """Compact small files.

        :returns: the statement's metrics.
        """
        return self._run("")

    def executeZOrderBy(self, *cols: str | list[str] | tuple[str, ...]) -> DataFrame:
        """Cluster rows by some columns, along a Z-order curve.

        :returns: the statement's metrics.
        """
        given = list(cols[0]) if len(cols) == 1 and isinstance(cols[0], (list, tuple)) else list(cols)
        for name in given:
            check_type("cols", name, str, "names of columns, one by one or in a list")
        return self._run(f"\nZORDER BY ({', '.join(quote(*split_name(str(name))) for name in given)})")

    def _run(self, ending: str) -> DataFrame:
        condition = f"\nWHERE ({self._condition}\n)" if self._condition is not None else ""
        return cards.run(self._table, f"OPTIMIZE {self._table.name}{condition}{ending}")


def clone_text(
    source: str, at: str, target: str, isShallow: bool, replace: bool, properties: Mapping[str, str] | None
) -> tuple[str, str]:
    """The text of a CLONE, and the name of the new table; ``at`` is a clause like `` VERSION AS OF n``."""
    check_type("target", target, str, "a string, a table's name or path")
    check_type("isShallow", isShallow, bool, "a bool")
    check_type("replace", replace, bool, "a bool")
    check_type("properties", {} if properties is None else properties, Mapping, "a dict")
    name = path_name(target) if "/" in target and "`" not in target else target
    begins = "CREATE OR REPLACE TABLE" if replace else "CREATE TABLE"
    pairs = ", ".join(f"{literal(key)} = {literal(value)}" for key, value in (properties or {}).items())
    ending = f" TBLPROPERTIES ({pairs})" if pairs else ""
    return f"{begins} {name} {'SHALLOW ' if isShallow else ''}CLONE {source}{at}{ending}", name


def convert_text(identifier: str, partitionSchema: str | StructType | None) -> str:
    """The text of a CONVERT TO DELTA."""
    check_type("identifier", identifier, str, "a string, a table's name or a path as parquet.`/path`")
    if partitionSchema is None:
        return f"CONVERT TO DELTA {identifier}"
    check_type("partitionSchema", partitionSchema, (str, StructType), "a schema as SQL or a StructType")
    columns = (
        partitionSchema
        if isinstance(partitionSchema, str)
        else ", ".join(of_field(field).sql() for field in partitionSchema.fields)
    )
    return f"CONVERT TO DELTA {identifier} PARTITIONED BY ({columns})"
