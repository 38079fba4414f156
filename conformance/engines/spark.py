"""Spark with Headwater, or with Delta Lake's connector of a line of Spark: every step is SQL."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

from conformance.cases import FEED, Case
from conformance.engines import OURS
from conformance.steps import Setting, Step, sql

_AS_NUMBERS = {
    "interval year to month": "CAST(CAST({} AS INTERVAL MONTH) AS INT)",
    "interval day to second": "CAST(CAST({} AS INTERVAL SECOND) AS DECIMAL(18, 6))",
}


class Spark:
    """A session in this process.

    :param name: the engine's.
    :param folder: where its warehouse lies.
    """

    def __init__(self, name: str, folder: Path, settings: dict[str, str]) -> None:
        os.environ["TZ"] = "UTC"  # Spark gives Python its times in the zone of the process
        time.tzset()
        from pyspark.sql import SparkSession

        from support.sessions import lighten

        builder: Any = SparkSession.builder
        for key, value in settings.items():
            builder = builder.config(key, value)
        if name == OURS:
            import headwater

            headwater.configure(builder)
        self._spark = builder.getOrCreate()
        self._spark.sparkContext.setLogLevel("ERROR")
        lighten(self._spark)
        self._changed: list[str] = []
        self.version = f"Spark {self._spark.version}"

    def read(self, case: Case, path: Path) -> pa.Table:
        reader = self._spark.read.format("delta")
        if case.reads == FEED:
            reader = reader.option("readChangeFeed", "true").option("startingVersion", "0")
        rows = reader.load(str(path))
        for field in rows.schema:
            kind, name = field.dataType.simpleString(), f"`{field.name}`"
            if kind.startswith("geo"):
                rows = rows.withColumn(field.name, _functions().expr(f"ST_AsBinary({name})"))
            elif kind == "variant":  # whose Arrow form cannot be null in Spark 4
                rows = rows.withColumn(field.name, _functions().expr(f"nvl2({name}, to_json({name}), NULL)"))
            elif kind in _AS_NUMBERS:  # which Arrow for Python has no type for, or another one
                rows = rows.withColumn(field.name, _functions().expr(_AS_NUMBERS[kind].format(name)))
        if hasattr(rows, "toArrow"):
            return rows.toArrow()
        batches = rows._collect_as_arrow()
        return pa.Table.from_batches(batches)

    def create(self, case: Case, path: Path) -> None:
        text = f"CREATE TABLE delta.`{path}` ({case.ddl}) USING delta"
        if case.partitioned:
            text += f" PARTITIONED BY ({_names(case.partitioned)})"
        if case.clustered:
            text += f" CLUSTER BY ({_names(case.clustered)})"
        if case.properties:
            properties = ", ".join(f"'{key}' = '{value}'" for key, value in case.properties.items())
            text += f" TBLPROPERTIES ({properties})"
        self._spark.sql(text)

    def step(self, case: Case, step: Step, path: Path, file: Path) -> None:
        columns = case.columns_of(step)
        values = [column.read.format(f"`{name}`") for name, column in columns.items()]
        for text in sql(step, f"delta.`{path}`", str(path), str(file), list(columns), values):
            self._spark.sql(text).collect()
        if isinstance(step, Setting):
            self._changed.append(step.name)

    def done(self, case: Case) -> None:
        while self._changed:
            self._spark.conf.unset(self._changed.pop())
        self._spark.catalog.clearCache()


def _functions() -> Any:
    from pyspark.sql import functions

    return functions


def _names(columns: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in columns)
