"""Tables that nobody reaches without options of their own, in every way that a user reads or writes one."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headwater.tables import DeltaTable

Options = dict[str, str]
Way = Callable[[str, Options], Any]


def reach(
    spark: SparkSession,
    place: str,
    right: Options,
    wrong: Options,
    only: list[str] | None = None,
    but: list[str] | None = None,
) -> dict[str, Any]:
    """For each way, those of some names or all but those, what becomes of it without options, with the right ones and
    with wrong ones, or with wrong ones, the right ones and none.
    """
    table = f"{place}/table"
    _save(spark.range(10), table, right)
    properties = {"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": "true"}
    DeltaTable.forPath(spark, table, right)._set_properties({**properties, "delta.checkpointInterval": "3"})
    _save(spark.range(10, 20), table, right)
    ways = {name: way for name, way in _ways(spark, place) if name in (only or [name]) and name not in (but or [])}
    found = {}
    for n, (name, way) in enumerate(ways.items()):
        some = [{}, right, wrong] if n % 2 else [wrong, right, {}]
        found[name] = [_outcome(way, table, options) for options in some]
    return found


def _ways(spark: SparkSession, place: str) -> Iterator[tuple[str, Way]]:
    def opened(path: str, options: Options) -> DeltaTable:
        return DeltaTable.forPath(spark, path, options)

    def stream(path: str, options: Options) -> None:
        rows = spark.readStream.format("delta").options(**options).load(path)
        _stream(rows, lambda writer: writer.format("noop").start())

    def stream_of_changes(path: str, options: Options) -> None:
        asked = {"readChangeFeed": "true", "startingVersion": "2"}
        rows = spark.readStream.format("delta").options(**options, **asked).load(path)
        _stream(rows, lambda writer: writer.format("noop").start())

    def sink(path: str, options: Options) -> None:
        rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", "3").load()
        _stream(
            rows.selectExpr("value AS id"),
            lambda writer: writer.format("delta").options(**options).start(f"{place}/sunk"),
            once=True,
        )

    yield "rows", lambda path, options: read_of(spark, options).load(path).selectExpr("sum(id)")
    yield "count", lambda path, options: read_of(spark, options).load(path).groupBy().count()
    yield (
        "version",
        lambda path, options: read_of(spark, options).option("versionAsOf", "0").load(path).groupBy().count(),
    )
    yield "changes", lambda path, options: read_of(
        spark, {**options, "readChangeFeed": "true", "startingVersion": "2"}
    ).load(path)  # fmt: skip
    yield "stream", stream
    yield "stream of changes", stream_of_changes
    yield "append", lambda path, options: _save(spark.range(20, 22), path, options)
    yield "overwrite", lambda path, options: _save(
        spark.range(21, 24), path, {**options, "replaceWhere": "id > 20"}, "overwrite"
    )  # fmt: skip
    yield "create", lambda path, options: _save(spark.range(3), f"{place}/created", options, "ignore")
    yield "sink", sink
    yield "open", lambda path, options: opened(path, options).toDF()
    yield "history", lambda path, options: opened(path, options).history()
    yield "detail", lambda path, options: opened(path, options).detail()
    yield "delete", lambda path, options: opened(path, options).delete("id = 1")
    yield "update", lambda path, options: _updated(opened(path, options))
    yield "merge", lambda path, options: _merged(opened(path, options), spark.range(5, 30))
    yield "upsert", lambda path, options: opened(path, options).upsert(spark.range(40, 42), ["id"])
    yield "changelog", lambda path, options: opened(path, options).changelog(2, 3)
    yield "optimize", lambda path, options: opened(path, options).optimize().executeCompaction()
    yield "properties", lambda path, options: opened(path, options).addFeatureSupport("domainMetadata")
    yield "restore", lambda path, options: opened(path, options).restoreToVersion(2)
    yield "vacuum", lambda path, options: opened(path, options).vacuum()


def read_of(spark: SparkSession, options: Options) -> Any:
    """A reader with options."""
    return spark.read.format("delta").options(**options)


def _save(rows: DataFrame, path: str, options: Options, mode: str = "append") -> None:
    rows.write.format("delta").options(**options).mode(mode).save(path)


def _updated(table: DeltaTable) -> DataFrame:
    return table.update(table.toDF()["id"] == 2, {"id": "-2"})


def _merged(table: DeltaTable, source: DataFrame) -> DataFrame:
    merge = table.alias("t").merge(source.alias("s"), "t.id = s.id")
    return merge.whenMatchedUpdate(set={"id": "s.id"}).whenNotMatchedInsertAll().execute()


def _stream(rows: DataFrame, start: Callable[[Any], Any], once: bool = False) -> None:
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = rows.writeStream.option("checkpointLocation", checkpoint)
        query = start(writer.trigger(once=True) if once else writer.trigger(availableNow=True))
        assert query.awaitTermination(60)


def _outcome(way: Way, path: str, options: Options) -> str:
    try:
        result = way(path, options)
        if isinstance(result, DataFrame):
            result.collect()
    except PySparkException as error:
        return str(error.getCondition())
    return "done"


def reach_two(spark: SparkSession, one: str, of_one: Options, other: str, of_other: Options) -> list[Any]:
    """Two tables in one statement, each with its options; then both from many threads, with right options and wrong."""
    _save(spark.range(6), one, of_one)
    _save(spark.range(3, 9), other, of_other)
    both = read_of(spark, of_one).load(one).join(read_of(spark, of_other).load(other), "id").count()
    _save(read_of(spark, of_one).load(one), other, of_other)
    merged = _merged(DeltaTable.forPath(spark, one, of_one), read_of(spark, of_other).load(other).distinct())
    changed = [list(row) for row in merged.collect()]

    def count(place: str, options: Options) -> str:
        return _outcome(lambda path, options: read_of(spark, options).load(path).selectExpr("sum(id)"), place, options)

    asked = [(place, options) for place in (one, other) for options in (of_one, of_other, {})] * 4
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda each: count(*each), asked))
    return [both, changed, found]


def log_at(spark: SparkSession, level: str) -> None:
    """How much Spark logs."""
    # In a shell, its first level is INFO, of which it shows warnings; it does nothing about a level that it has.
    spark.sparkContext.setLogLevel("ERROR")
    spark.sparkContext.setLogLevel(level)


def shown(spark: SparkSession) -> str:
    """All that Spark shows of the queries that ran, and the plans of one that reads."""
    store = spark._jsparkSession.sharedState().statusStore()
    executions = store.executionsList()
    each = [executions.apply(n) for n in range(executions.size())]
    return "\n".join(f"{e.description()}\n{e.details()}\n{e.physicalPlanDescription()}" for e in each)


def explained(spark: SparkSession, path: str, options: Options) -> str:
    """All plans of a query that reads a table."""
    return str(read_of(spark, options).load(path).where("id > 1")._jdf.queryExecution().toString())
