"""Who runs and reads the scripts here: Headwater in the shared session, and delta-rs as a second reader."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from support.dml.checking import Multiset, Refused, multiset
from support.dml.model import Table
from support.plain import plain


class Headwater:
    """The session's Spark."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark

    def sql(self, text: str) -> list[Any]:
        try:
            return [plain(row) for row in self._spark.sql(text).collect()]
        except (PySparkException, Py4JJavaError) as error:
            condition = error.getCondition() if isinstance(error, PySparkException) else None
            raise Refused(condition or type(error).__name__, str(error)) from error

    def columns(self, text: str) -> list[str]:
        """The names of a query's columns."""
        return list(self._spark.sql(text).columns)


def rows_by_delta_rs(path: Path, table: Table) -> Multiset:
    """The table's rows as delta-rs reads them."""
    return rows_without_spark(path, list(table.columns))


def rows_without_spark(path: Path, columns: list[str]) -> Multiset:
    """The rows of a table, in these columns, as delta-rs reads them."""
    read = QueryBuilder().register("t", DeltaTable(str(path))).execute('SELECT * FROM "t"').read_all()
    return multiset(_lists(pa.table(read), columns))


def changes_by_delta_rs(path: Path, table: Table) -> dict[int, Multiset]:
    """The change data of each version as delta-rs reads it.

    It reads none of a table with mapped columns, nor files in folders whose names are encoded.
    """
    read = pa.table(DeltaTable(str(path)).load_cdf(starting_version=0).read_all())
    rows = _lists(read, ["_commit_version", "_change_type", *table.columns])
    versions = {row[0] for row in rows}
    return {version: multiset(row[1:] for row in rows if row[0] == version) for version in versions}


def _lists(read: pa.Table, names: list[str]) -> list[list[Any]]:
    """Rows as lists."""
    columns = [[_as_spark_gives_it(v) for v in read[name].to_pylist()] for name in names]
    return [list(row) for row in zip(*columns, strict=True)]


def _as_spark_gives_it(value: Any) -> Any:
    """A struct's value as a list of its fields, a time in UTC without saying so."""
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone(datetime.timezone.utc).replace(tzinfo=None)
    return value
