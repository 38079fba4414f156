"""How a ``DeltaTable`` is opened: by name, or by path with file system options for this table only.

Owns the second, ``DeltaTable.forPath(spark, path, hadoopConf)``. The options are credentials mostly, so they are in no
statement's text: Spark shows that. The text names ``delta.`/__headwater_table_…` ``, and for as long as the statement
runs, a temporary view of that name reads the table with the options; the extension in the server takes them from the
view's plan (``HandedTable.scala``). This works the same on classic PySpark and on Spark Connect.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headwater.tables.names import path_name

#: What the name of an option of a file system begins with. Others have no effect on a table.
_PREFIXES = ("fs.", "dfs.")


def store_options(settings: Mapping[str, str]) -> dict[str, str]:
    """Of settings of Hadoop, those that a table may be reached with."""
    return {name: value for name, value in settings.items() if name.startswith(_PREFIXES)}


class NamedTable:
    """A table by its name, as SQL, complete: what it names does not change with the current schema. ``shown`` is the
    name in errors.
    """

    def __init__(self, spark: SparkSession, name: str) -> None:
        self._spark = spark
        self.name = name
        self.shown = name

    def read(self, reader: Any) -> DataFrame:
        """What a reader, of a batch or of a stream, reads of the table."""
        frame: DataFrame = reader.table(self.name)
        return frame

    def frame(self) -> DataFrame:
        """The table's rows."""
        return self.read(self._reader)

    @property
    def _reader(self) -> Any:
        """A reader of the newest version, which is the one that changes."""
        reader = self._spark.read
        has_time = self._spark.conf.get("spark.headwater.timestampAsOf", None)
        return reader.option("newestVersion", "true") if has_time else reader

    def sql(self, text: str) -> DataFrame:
        """Run a statement that names the table."""
        return self._spark.sql(text)

    def append(self, source: DataFrame, options: Mapping[str, str]) -> None:
        """Append rows."""
        source.writeTo(self.name).options(**options).append()


class ReachedTable(NamedTable):
    """A table by its path, with options. Safe for threads."""

    def __init__(self, spark: SparkSession, path: str, options: Mapping[str, str]) -> None:
        self._view = f"__headwater_table_{uuid.uuid4().hex}"
        super().__init__(spark, path_name(f"/{self._view}"))
        self.shown = path_name(path)
        self._path = path
        self._options = dict(options)
        self._lock = threading.Lock()
        self._running = 0

    def read(self, reader: Any) -> DataFrame:
        frame: DataFrame = reader.format("delta").options(**self._options).load(self._path)
        return frame

    def frame(self) -> DataFrame:
        return self.read(self._reader)

    def sql(self, text: str) -> DataFrame:
        with self._handed():
            return self._spark.sql(text)

    def append(self, source: DataFrame, options: Mapping[str, str]) -> None:
        with self._handed():
            super().append(source, options)

    @contextmanager
    def _handed(self) -> Iterator[None]:
        """Statements may name the table."""
        with self._lock:
            if not self._running:
                self.frame().createOrReplaceTempView(self._view)
            self._running += 1
        try:
            yield
        finally:
            with self._lock:
                self._running -= 1
                if not self._running:
                    self._spark.catalog.dropTempView(self._view)
