"""The statement a handler works for.

Owns the Python face of the JVM's statement context: the session's settings, the writer, Hadoop's file systems. What a
handler does to Spark, it does through this and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from headwater.bridge.hadoop_files import HadoopFileSystem
from headwater.errors import HeadwaterError


class Statement:
    """One running statement; lives as long as the call that brought it."""

    def __init__(self, context: Any, settings: Mapping[str, Any]) -> None:
        self._context = context
        self._confs: Mapping[str, str] = settings.get("confs") or {}
        self.time_zone: str = settings.get("timeZone", "UTC")
        self.user: str | None = settings.get("user")
        self.spark_version: str | None = settings.get("sparkVersion")

    @property
    def confs(self) -> Mapping[str, str]:
        """The session's ``spark.databricks.delta.*``, ``spark.headwater.*`` and a few of Spark's own settings."""
        return self._confs

    def conf(self, name: str, default: str | None = None) -> str | None:
        """A session setting as text."""
        return self._confs.get(name, default)

    def flag(self, name: str, default: bool = False) -> bool:
        """A session setting that is true or false."""
        value = self._confs.get(name)
        return default if value is None else value.strip().lower() == "true"

    def whole_number(self, name: str, default: int) -> int:
        """A session setting that is a whole number, 0 or more.

        :raises HeadwaterError: ``DELTA_ILLEGAL_OPTION`` for another value.
        """
        value = self._confs.get(name)
        if value is None:
            return default
        if not value.strip().isdecimal():
            explain = "must be a whole number, 0 or more"
            raise HeadwaterError("DELTA_ILLEGAL_OPTION", {"name": name, "input": value, "explain": explain})
        return int(value)

    @property
    def hadoop(self) -> HadoopFileSystem:
        """Stores that are not local paths."""
        return HadoopFileSystem(self._context.files)

    def write(self, specification: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Run a write job; the files written: ``path`` below the table, ``size`` in bytes, ``modificationTime`` in
        milliseconds, ``partition`` texts by column, ``rows``, and ``statistics`` as ``[min, max, nulls]`` a leaf."""
        return self.write_tracked(specification)["files"]

    def write_tracked(self, specification: Mapping[str, Any]) -> dict[str, Any]:
        """Run a write job whose rows say what they replace: ``files`` as of :meth:`write`; ``positions`` by file
        number and ``source``, both base64 of 64-bit Roaring bitmaps; ``actions``, rows by action number; ``repeated``,
        how many positions came more than once; ``counted``, rows that met ``hw_counted()``."""
        return orjson.loads(self._context.write(orjson.dumps(specification).decode()))

    def discard(self) -> None:
        """Delete the files this call has written so far; only for a call that has committed nothing."""
        self._context.discard()

    def restrict(self, plan: int, description: Mapping[str, Any]) -> int:
        """Make a relation over some files of a version, numbered in order, available as ``hw_plan.`n` ``; returns n."""
        return self._context.restrict(plan, orjson.dumps(description).decode())

    def keep(self, sql: str) -> int:
        """Make a query's rows, computed once, available as ``hw_plan.`n` ``; returns n."""
        return self._context.keep(sql)

    def plan_size(self, plan: int) -> int:
        """Spark's estimate of a relation's size in bytes."""
        return self._context.planSize(plan)

    def expression_texts(self) -> list[str]:
        """The statement's expressions by number, as SQL."""
        return orjson.loads(self._context.expressionTexts())

    def explain(self, sql: str, mode: str) -> str:
        """How Spark would run a query, in a mode of EXPLAIN."""
        return self._context.explain(sql, mode)

    def query(self, sql: str) -> list[dict[str, Any]]:
        """Run a query over the statement's pieces; its rows."""
        return [orjson.loads(row) for row in self._context.query(sql)]

    def parquet_files(self, plan: int, expressions: list[int], most: int) -> dict[str, Any] | None:
        """What a plan reads, where it does no more than read all rows of at most so many Parquet files: ``files``, as
        ``[path, size]``, and ``columns``, the names of the columns that expressions are, None for other expressions;
        None for other plans."""
        answer = self._context.parquetFiles(plan, orjson.dumps(expressions).decode(), most)
        return None if answer is None else orjson.loads(answer)

    def matching_partitions(self, plan: int, condition: int, partitions: list[list[str | None]]) -> list[bool] | None:
        """In which partitions of a relation a condition is true; None where it is about more than their values."""
        answer = self._context.matchingPartitions(plan, condition, orjson.dumps(partitions).decode())
        return None if answer is None else orjson.loads(answer)

    def add_relation(self, table: str, version: int, files: list[list[Any]]) -> int:
        """Make a relation over some files of a version available as ``hw_plan.`n` ``; returns n."""
        return self._context.addRelation(table, version, orjson.dumps(files).decode())

    def expression_type(self, text: str, schema: str) -> str:
        """The type (JSON) of a Spark SQL expression over columns of a schema; Spark's own error where it has none."""
        return self._context.checkExpression(text, schema)

    def begin_commit(self, description: Mapping[str, Any]) -> None:
        """Tell Spark's side what is about to be committed, so that it can ask about it should this process die before
        it answers. A statement that was cancelled ends here, with nothing committed."""
        self._context.beginCommit(orjson.dumps(description).decode())
