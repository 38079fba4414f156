"""The builders of CREATE TABLE and REPLACE TABLE, and of a column.

Owns the statement's text: :meth:`DeltaTableBuilder.execute` writes one CREATE TABLE and runs it. What it returns, the
table, is opened by a function that the caller gives, so that this module does not depend on the class it opens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from pyspark.sql import SparkSession
from pyspark.sql.types import DataType, StructField, StructType

from headwater.tables.columns import (
    COMMENT,
    GENERATED,
    IDENTITY_BY_DEFAULT,
    IDENTITY_START,
    IDENTITY_STEP,
    ColumnDefinition,
    IdentityGenerator,
    of_field,
    sql_type,
)
from headwater.tables.errors import DeltaTableError, check_type
from headwater.tables.names import literal, named_path, path_name, quote, split_name
from headwater.tables.statement_inputs import check_parses

Table = TypeVar("Table")


class DeltaTableBuilder(Generic[Table]):
    """The description of a table to create; :meth:`DeltaTable.create` and its siblings return one.

    Every method changes the builder and returns it; :meth:`execute` creates the table. The table needs a name, a
    location or both.
    """

    def __init__(self, spark: SparkSession, begins: str, open_table: Callable[[SparkSession, str], Table]) -> None:
        self._spark = spark
        self._begins = begins
        self._open_table = open_table
        self._name: str | None = None
        self._location: str | None = None
        self._comment: str | None = None
        self._columns: list[ColumnDefinition] = []
        self._partitioned_by: list[str] = []
        self._clustered_by: list[str] = []
        self._properties: dict[str, str] = {}

    def tableName(self, identifier: str) -> DeltaTableBuilder[Table]:
        """The table's name, with catalog and schema or without, or ``delta.`/path` ``."""
        check_type("identifier", identifier, str, "a string, the table's name")
        self._name = identifier
        return self

    def location(self, location: str) -> DeltaTableBuilder[Table]:
        """The path of the table."""
        check_type("location", location, str, "a string, the path of the table")
        self._location = location
        return self

    def comment(self, comment: str) -> DeltaTableBuilder[Table]:
        """The table's description."""
        check_type("comment", comment, str, "a string")
        self._comment = comment
        return self

    def addColumn(
        self,
        colName: str | StructField,
        dataType: str | DataType | None = None,
        nullable: bool = True,
        generatedAlwaysAs: str | IdentityGenerator | None = None,
        generatedByDefaultAs: IdentityGenerator | None = None,
        comment: str | None = None,
    ) -> DeltaTableBuilder[Table]:
        """Add a column.

        :param colName: its name, or a whole field, for example from :meth:`DeltaTable.columnBuilder`.
        :param dataType: its type, as SQL or as PySpark's.
        :param generatedAlwaysAs: the SQL expression that computes it, or an identity that writers cannot set.
        :param generatedByDefaultAs: an identity for rows without a value from the writer.
        :raises TypeError: an argument is of another type.
        :raises ValueError: no type, or both kinds of generation.
        """
        if isinstance(colName, StructField):
            self._columns.append(of_field(colName))
            return self
        check_type("colName", colName, str, "a string, the column's name")
        if dataType is None:
            raise ValueError(f"'dataType' is missing: the type of column {colName}.")
        check_type("dataType", dataType, (str, DataType), "a type as SQL or a DataType")
        check_type("nullable", nullable, bool, "a bool")
        if generatedAlwaysAs is not None and generatedByDefaultAs is not None:
            raise ValueError("'generatedAlwaysAs' and 'generatedByDefaultAs' exclude each other: give one of them.")
        if generatedAlwaysAs is not None:
            check_type(
                "generatedAlwaysAs", generatedAlwaysAs, (str, IdentityGenerator), "a string or an IdentityGenerator"
            )
        if generatedByDefaultAs is not None:
            check_type("generatedByDefaultAs", generatedByDefaultAs, IdentityGenerator, "an IdentityGenerator")
        if comment is not None:
            check_type("comment", comment, str, "a string")
        generated = generatedAlwaysAs if generatedByDefaultAs is None else generatedByDefaultAs
        self._columns.append(
            ColumnDefinition(
                colName, sql_type(dataType), nullable, generated, generatedByDefaultAs is not None, comment
            )
        )
        return self

    def addColumns(self, cols: StructType | Iterable[StructField]) -> DeltaTableBuilder[Table]:
        """Add the columns of a schema."""
        check_type("cols", cols, (StructType, list, tuple), "a StructType or a list of StructFields")
        for field in cols:
            check_type("cols", field, StructField, "a StructType or a list of StructFields")
            self._columns.append(of_field(field))
        return self

    def partitionedBy(self, *cols: str | list[str] | tuple[str, ...]) -> DeltaTableBuilder[Table]:
        """The columns the table is partitioned by."""
        self._partitioned_by = _names("cols", cols)
        return self

    def clusterBy(self, *cols: str | list[str] | tuple[str, ...]) -> DeltaTableBuilder[Table]:
        """The columns the table is clustered by."""
        self._clustered_by = _names("cols", cols)
        return self

    def property(self, key: str, value: str) -> DeltaTableBuilder[Table]:
        """Set a table property."""
        check_type("key", key, str, "a string, the property's name")
        check_type("value", value, str, "a string, the property's value")
        self._properties[key] = value
        return self

    def execute(self) -> Table:
        """Create the table and open it.

        :raises DeltaTableError: ``DELTA_CREATE_TABLE_MISSING_TABLE_NAME_OR_LOCATION``,
            ``DELTA_CREATE_TABLE_IDENTIFIER_LOCATION_MISMATCH``.
        """
        name, location = self._place()
        for column in self._columns:
            if isinstance(column.generated, str):
                check_parses(self._spark, column.generated)
        self._spark.sql(self._sql(name, location))
        return self._open_table(self._spark, name)

    def _place(self) -> tuple[str, str | None]:
        """The table's name, and its location unless the name is a path."""
        if self._name is None:
            if self._location is None:
                raise DeltaTableError("DELTA_CREATE_TABLE_MISSING_TABLE_NAME_OR_LOCATION", {})
            return path_name(self._location), None
        path = named_path(split_name(self._name))
        if path is None or self._location is None:
            return self._name, self._location
        if path != self._location:
            raise DeltaTableError(
                "DELTA_CREATE_TABLE_IDENTIFIER_LOCATION_MISMATCH",
                {"identifier": self._name, "location": self._location},
            )
        return self._name, None

    def _sql(self, name: str, location: str | None) -> str:
        lines = [f"{self._begins} {name}"]
        if self._columns:
            lines.append("(\n  " + ",\n  ".join(column.sql() for column in self._columns) + "\n)")
        lines.append("USING delta")
        if self._partitioned_by:
            lines.append(f"PARTITIONED BY ({', '.join(self._partitioned_by)})")
        if self._clustered_by:
            lines.append(f"CLUSTER BY ({', '.join(self._clustered_by)})")
        if location is not None:
            lines.append(f"LOCATION {literal(location)}")
        if self._comment is not None:
            lines.append(f"COMMENT {literal(self._comment)}")
        if self._properties:
            properties = ", ".join(f"{literal(key)} = {literal(value)}" for key, value in self._properties.items())
            lines.append(f"TBLPROPERTIES ({properties})")
        return "\n".join(lines)


def _names(argument: str, given: tuple[Any, ...]) -> list[str]:
    """Names, given one by one or as one list, in backticks."""
    names = list(given[0]) if len(given) == 1 and isinstance(given[0], (list, tuple)) else list(given)
    for name in names:
        check_type(argument, name, str, "names of columns, one by one or in a list")
    return [quote(*split_name(name)) for name in names]


class DeltaColumnBuilder:
    """The description of a column; :meth:`DeltaTable.columnBuilder` returns one. Every method returns the builder."""

    def __init__(self, name: str) -> None:
        check_type("colName", name, str, "a string, the column's name")
        self._name = name
        self._type: DataType | str | None = None
        self._nullable = True
        self._metadata: dict[str, Any] = {}

    def dataType(self, dataType: str | DataType) -> DeltaColumnBuilder:
        """The column's type, as SQL or as PySpark's."""
        check_type("dataType", dataType, (str, DataType), "a type as SQL or a DataType")
        self._type = dataType
        return self

    def nullable(self, nullable: bool) -> DeltaColumnBuilder:
        """Whether the column accepts nulls; true by default."""
        check_type("nullable", nullable, bool, "a bool")
        self._nullable = nullable
        return self

    def generatedAlwaysAs(self, expr: str) -> DeltaColumnBuilder:
        """The SQL expression that computes the column."""
        check_type("expr", expr, str, "a string of SQL")
        self._metadata[GENERATED] = expr
        return self

    def generatedAlwaysAsIdentity(self, start: int = 1, step: int = 1) -> DeltaColumnBuilder:
        """An identity column, for which writers may not give values."""
        return self._identity(start, step, by_default=False)

    def generatedByDefaultAsIdentity(self, start: int = 1, step: int = 1) -> DeltaColumnBuilder:
        """An identity for rows without a value from the writer."""
        return self._identity(start, step, by_default=True)

    def comment(self, comment: str) -> DeltaColumnBuilder:
        """The column's description."""
        check_type("comment", comment, str, "a string")
        self._metadata[COMMENT] = comment
        return self

    def build(self) -> StructField:
        """The column, for :meth:`DeltaTableBuilder.addColumn` and :meth:`DeltaTableBuilder.addColumns`.

        :raises ValueError: it has no type.
        """
        if self._type is None:
            raise ValueError(f"Column {self._name} has no type: call dataType().")
        kind = DataType.fromDDL(self._type) if isinstance(self._type, str) else self._type
        return StructField(self._name, kind, self._nullable, self._metadata)

    def _identity(self, start: int, step: int, by_default: bool) -> DeltaColumnBuilder:
        check_type("start", start, int, "an int")
        check_type("step", step, int, "an int")
        self._metadata |= {IDENTITY_START: start, IDENTITY_STEP: step, IDENTITY_BY_DEFAULT: by_default}
        return self
