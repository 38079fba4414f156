"""A catalogue of mistakes that users make, for comparing the conditions of two implementations.

``mistakes.json`` has them: the statements that set up their tables, and each mistake by its topic, with the condition
that Delta Lake's own connector answers (``theirs``) and, where Headwater answers another, that one and ``why``. A
mistake is a statement, or one of the DataFrame API, which stands there under the name that it has in ``CALLS``.
``{home}`` is a directory, ``{db}`` a database. Mistakes are meant to fail; where one succeeds, it changes no table that
others use in a way that they would see.
"""

# ruff: noqa: E501 (a mistake a line)

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Container
from pathlib import Path
from typing import Any

_DATA: dict[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_text())
#: What each mistake answers: ``theirs``, and ``ours`` and ``why`` where that differs.
EXPECTED: dict[str, dict[str, str]] = {
    mistake: answers for topic in _DATA["mistakes"].values() for mistake, answers in topic.items()
}


def _rows(spark: Any, text: str = "SELECT 1 AS id, 2 AS v") -> Any:
    return spark.sql(text)


def _stream(spark: Any, home: str, **options: str) -> Any:
    return spark.readStream.format("delta").options(**options).load(f"{home}/bypath")


def _run(stream: Any, home: str, **options: str) -> bool:
    writer = stream.writeStream.format("noop").option("checkpointLocation", f"{home}/cp-{uuid.uuid4()}")
    query = writer.options(**options).trigger(availableNow=True).start()
    query.processAllAvailable()
    return bool(query.awaitTermination(60))


def _sink(spark: Any, home: str, path: str, mode: str = "append", **options: str) -> bool:
    rows = spark.readStream.format("rate").load().selectExpr("CAST(value AS INT) AS id", "CAST(value AS INT) AS v")
    writer = rows.writeStream.format("delta").option("checkpointLocation", f"{home}/cp-{uuid.uuid4()}")
    query = writer.options(**options).outputMode(mode).trigger(availableNow=True).start(path)
    done = query.awaitTermination(60)
    query.stop()
    return bool(done)


Mistake = Callable[[Any, str, str], Any]

#: Mistakes of the DataFrame API: called with the session, the directory and the database.
CALLS: dict[str, Mistake] = {
    "load a missing path": lambda s, h, d: s.read.format("delta").load(f"{h}/nosuch").collect(),
    "load without a path": lambda s, h, d: s.read.format("delta").load().collect(),
    "load two paths": lambda s, h, d: s.read.format("delta").load([f"{h}/bypath", f"{h}/other"]).collect(),
    "load a directory of parquet": lambda s, h, d: (
        _rows(s).write.mode("overwrite").parquet(f"{h}/plain"), s.read.format("delta").load(f"{h}/plain").collect()
    ),
    "load with a schema": lambda s, h, d: s.read.format("delta").schema("nosuch INT").load(f"{h}/bypath").collect(),
    "load version and timestamp": lambda s, h, d: (
        s.read.format("delta").option("versionAsOf", 0).option("timestampAsOf", "2024-01-01").load(f"{h}/bypath").collect()
    ),
    "load version 99": lambda s, h, d: s.read.format("delta").option("versionAsOf", 99).load(f"{h}/bypath").collect(),
    "load version -1": lambda s, h, d: s.read.format("delta").option("versionAsOf", -1).load(f"{h}/bypath").collect(),
    "load version x": lambda s, h, d: s.read.format("delta").option("versionAsOf", "x").load(f"{h}/bypath").collect(),
    "load time soon": lambda s, h, d: (
        s.read.format("delta").option("timestampAsOf", "soon").load(f"{h}/bypath").collect()
    ),
    "load time 2000": lambda s, h, d: (
        s.read.format("delta").option("timestampAsOf", "2000-01-01").load(f"{h}/bypath").collect()
    ),
    "load time 2099": lambda s, h, d: (
        s.read.format("delta").option("timestampAsOf", "2099-01-01").load(f"{h}/bypath").collect()
    ),
    "table version 99": lambda s, h, d: s.read.option("versionAsOf", 99).table(f"{d}.t").collect(),
    "load a partition's directory": lambda s, h, d: (
        s.sql("SELECT 1 AS id, 2 AS p").write.format("delta").mode("overwrite").partitionBy("p").save(f"{h}/parts"),
        s.read.format("delta").load(f"{h}/parts/p=2").collect(),
    ),
    "changes without a feed": lambda s, h, d: (
        s.read.format("delta").option("readChangeFeed", True).option("startingVersion", 0).load(f"{h}/bypath").collect()
    ),
    "changes without a start": lambda s, h, d: s.read.option("readChangeFeed", True).table(f"{d}.feed").collect(),
    "changes with two starts": lambda s, h, d: (
        s.read.option("readChangeFeed", True).option("startingVersion", 0).option("startingTimestamp", "2024-01-01")
        .table(f"{d}.feed").collect()
    ),
    "changes with two ends": lambda s, h, d: (
        s.read.option("readChangeFeed", True).option("startingVersion", 0).option("endingVersion", 0)
        .option("endingTimestamp", "2024-01-01").table(f"{d}.feed").collect()
    ),
    "changes with an end before the start": lambda s, h, d: (
        s.read.option("readChangeFeed", True).option("startingVersion", 1).option("endingVersion", 0)
        .table(f"{d}.feed").collect()
    ),
    "changes from version x": lambda s, h, d: (
        s.read.option("readChangeFeed", True).option("startingVersion", "x").table(f"{d}.feed").collect()
    ),
    "changes from version 99": lambda s, h, d: (
        s.read.option("readChangeFeed", True).option("startingVersion", 99).table(f"{d}.feed").collect()
    ),
    "changes from soon": lambda s, h, d: (
        s.read.option("readChangeFeed", True).option("startingTimestamp", "soon").table(f"{d}.feed").collect()
    ),
    "save over a table": lambda s, h, d: _rows(s).write.format("delta").save(f"{h}/bypath"),
    "save without a path": lambda s, h, d: _rows(s).write.format("delta").save(),
    "append another type": lambda s, h, d: (
        _rows(s, "SELECT array(1) AS id, 2 AS v").write.format("delta").mode("append").save(f"{h}/bypath")
    ),
    "append a new column": lambda s, h, d: (
        _rows(s, "SELECT 1 AS id, 2 AS v, 3 AS x").write.format("delta").mode("append").save(f"{h}/bypath")
    ),
    "append a new struct field": lambda s, h, d: (
        _rows(s, "SELECT 1 AS id, named_struct('a', 1, 'z', 2) AS st").write.format("delta").mode("append")
        .saveAsTable(f"{d}.t")
    ),
    "append in other partitions": lambda s, h, d: (
        _rows(s).write.format("delta").mode("append").partitionBy("id").save(f"{h}/bypath")
    ),
    "overwrite in other partitions": lambda s, h, d: (
        _rows(s).write.format("delta").mode("overwrite").partitionBy("id").save(f"{h}/bypath")
    ),
    "overwrite with another type": lambda s, h, d: (
        _rows(s, "SELECT 'x' AS id, 2 AS v").write.format("delta").mode("overwrite").save(f"{h}/bypath")
    ),
    "partition by a missing column": lambda s, h, d: (
        _rows(s).write.format("delta").partitionBy("nosuch").save(f"{h}/n1")
    ),
    "partition by all columns": lambda s, h, d: (
        _rows(s).write.format("delta").partitionBy("id", "v").save(f"{h}/n1")
    ),
    "save columns twice": lambda s, h, d: _rows(s, "SELECT 1 AS id, 2 AS id").write.format("delta").save(f"{h}/n1"),
    "save a column with a space": lambda s, h, d: _rows(s, "SELECT 1 AS `a b`").write.format("delta").save(f"{h}/n1"),
    "save without columns": lambda s, h, d: s.range(1).drop("id").write.format("delta").save(f"{h}/n1"),
    "save null columns only": lambda s, h, d: _rows(s, "SELECT null AS a").write.format("delta").save(f"{h}/n1"),
    "save as a parquet table": lambda s, h, d: (
        _rows(s, "SELECT 1 AS id").write.format("delta").mode("append").saveAsTable(f"{d}.pq")
    ),
    "save as an existing table": lambda s, h, d: _rows(s).write.format("delta").saveAsTable(f"{d}.t"),
    "bucketed": lambda s, h, d: _rows(s).write.format("delta").bucketBy(2, "id").saveAsTable(f"{d}.n1"),
    "sorted": lambda s, h, d: _rows(s).write.format("delta").bucketBy(2, "id").sortBy("v").saveAsTable(f"{d}.n1"),
    "insertInto a missing table": lambda s, h, d: _rows(s).write.insertInto(f"{d}.nosuch"),
    "insertInto with too few columns": lambda s, h, d: _rows(s, "SELECT 1").write.insertInto(f"{d}.t"),
    "replaceWhere with append": lambda s, h, d: (
        _rows(s).write.format("delta").mode("append").option("replaceWhere", "id = 1").save(f"{h}/bypath")
    ),
    "replaceWhere of a missing column": lambda s, h, d: (
        _rows(s).write.format("delta").mode("overwrite").option("replaceWhere", "nosuch = 1").save(f"{h}/bypath")
    ),
    "replaceWhere that is no condition": lambda s, h, d: (
        _rows(s).write.format("delta").mode("overwrite").option("replaceWhere", "id = (").save(f"{h}/bypath")
    ),
    "replaceWhere with other rows": lambda s, h, d: (
        _rows(s).write.format("delta").mode("overwrite").option("replaceWhere", "id = 7").save(f"{h}/bypath")
    ),
    "replaceWhere and overwriteSchema": lambda s, h, d: (
        _rows(s).write.format("delta").mode("overwrite").option("replaceWhere", "id = 1")
        .option("overwriteSchema", True).save(f"{h}/bypath")
    ),
    "replaceWhere and dynamic": lambda s, h, d: (
        _rows(s).write.format("delta").mode("overwrite").option("replaceWhere", "id = 1")
        .option("partitionOverwriteMode", "dynamic").save(f"{h}/bypath")
    ),
    "overwriteSchema and dynamic": lambda s, h, d: (
        _rows(s, "SELECT 1 AS id, 2 AS v, DATE'2024-01-01' AS day").write.format("delta").mode("overwrite")
        .option("overwriteSchema", True).option("partitionOverwriteMode", "dynamic").saveAsTable(f"{d}.p")
    ),
    "an odd overwrite mode": lambda s, h, d: (
        _rows(s).write.format("delta").mode("overwrite").option("partitionOverwriteMode", "odd").save(f"{h}/bypath")
    ),
    "mergeSchema that is no boolean": lambda s, h, d: (
        _rows(s).write.format("delta").mode("append").option("mergeSchema", "maybe").save(f"{h}/bypath")
    ),
    "overwriteSchema with append": lambda s, h, d: (
        _rows(s, "SELECT 'x' AS id").write.format("delta").mode("append").option("overwriteSchema", True).save(f"{h}/bypath")
    ),
    "maxRecordsPerFile 0": lambda s, h, d: (
        _rows(s).write.format("delta").mode("append").option("maxRecordsPerFile", "x").save(f"{h}/bypath")
    ),
    "txnAppId without txnVersion": lambda s, h, d: (
        _rows(s).write.format("delta").mode("append").option("txnAppId", "a").save(f"{h}/bypath")
    ),
    "txnVersion x": lambda s, h, d: (
        _rows(s).write.format("delta").mode("append").option("txnAppId", "a").option("txnVersion", "x").save(f"{h}/bypath")
    ),
    "dataChange false": lambda s, h, d: (
        _rows(s).write.format("delta").mode("append").option("dataChange", "x").save(f"{h}/bypath")
    ),
    "compression odd": lambda s, h, d: (
        _rows(s).write.format("delta").mode("append").option("compression", "odd").save(f"{h}/bypath")
    ),
    "optimizeWrite odd": lambda s, h, d: (
        _rows(s).write.format("delta").mode("append").option("optimizeWrite", "odd").save(f"{h}/bypath")
    ),
    "append at a version": lambda s, h, d: _rows(s).write.format("delta").mode("append").save(f"{h}/bypath@v0"),
    "writeTo create existing": lambda s, h, d: _rows(s).writeTo(f"{d}.t").using("delta").create(),
    "writeTo replace missing": lambda s, h, d: _rows(s).writeTo(f"{d}.nosuch").using("delta").replace(),
    "writeTo append missing": lambda s, h, d: _rows(s).writeTo(f"{d}.nosuch").append(),
    "writeTo append a new column": lambda s, h, d: (
        _rows(s, "SELECT 1 AS id, 2 AS nosuch").writeTo(f"{d}.t").append()
    ),
    "overwriteSchema of rows in a partition": lambda s, h, d: (
        _rows(s, "SELECT 1 AS day").write.format("delta").mode("append").saveAsTable(f"{d}.p")
    ),
    "stream of a missing path": lambda s, h, d: s.readStream.format("delta").load(f"{h}/nosuch").isStreaming,
    "stream without a path": lambda s, h, d: s.readStream.format("delta").load().isStreaming,
    "stream of a missing table": lambda s, h, d: s.readStream.table(f"{d}.nosuch").isStreaming,
    "stream of a parquet table": lambda s, h, d: s.readStream.format("delta").table(f"{d}.pq").isStreaming,
    "stream with a schema": lambda s, h, d: (
        s.readStream.format("delta").schema("nosuch INT").load(f"{h}/bypath").isStreaming
    ),
    "stream at a version": lambda s, h, d: _stream(s, h, versionAsOf="0").isStreaming,
    "stream from version x": lambda s, h, d: _run(_stream(s, h, startingVersion="x"), h),
    "stream from version -1": lambda s, h, d: _run(_stream(s, h, startingVersion="-1"), h),
    "stream from version 99": lambda s, h, d: _run(_stream(s, h, startingVersion="99"), h),
    "stream from soon": lambda s, h, d: _run(_stream(s, h, startingTimestamp="soon"), h),
    "stream from 2099": lambda s, h, d: _run(_stream(s, h, startingTimestamp="2099-01-01"), h),
    "stream from two starts": lambda s, h, d: (
        _run(_stream(s, h, startingTimestamp="2024-01-01", startingVersion="0"), h)
    ),
    "stream with 0 files": lambda s, h, d: _run(_stream(s, h, maxFilesPerTrigger="0"), h),
    "stream with x files": lambda s, h, d: _run(_stream(s, h, maxFilesPerTrigger="x"), h),
    "stream with x bytes": lambda s, h, d: _run(_stream(s, h, maxBytesPerTrigger="x"), h),
    "stream with a broken regex": lambda s, h, d: _run(_stream(s, h, excludeRegex="("), h),
    "stream of changes without a feed": lambda s, h, d: _run(_stream(s, h, readChangeFeed="true"), h),
    "stream that ignores maybe": lambda s, h, d: _run(_stream(s, h, ignoreDeletes="maybe"), h),
    "stream over a delete": lambda s, h, d: (
        s.sql(f"CREATE OR REPLACE TABLE {d}.del (id INT) USING delta"), s.sql(f"INSERT INTO {d}.del VALUES (1), (2)"),
        s.sql(f"DELETE FROM {d}.del WHERE id = 1"), _run(s.readStream.option("startingVersion", "0").table(f"{d}.del"), h),
    ),
    "stream over a change of the schema": lambda s, h, d: (
        s.sql(f"CREATE OR REPLACE TABLE {d}.ren (id INT, v INT) USING delta TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"),
        s.sql(f"INSERT INTO {d}.ren VALUES (1, 2)"), s.sql(f"ALTER TABLE {d}.ren RENAME COLUMN v TO w"),
        _run(s.readStream.option("startingVersion", "0").table(f"{d}.ren"), h),
    ),
    "sink in update mode": lambda s, h, d: _sink(s, h, f"{h}/sink1", "update"),
    "sink in complete mode": lambda s, h, d: _sink(s, h, f"{h}/sink1", "complete"),
    "sink of another type": lambda s, h, d: (
        _rows(s, "SELECT array(1) AS id, 2 AS v").write.format("delta").mode("overwrite").save(f"{h}/sink2"),
        _sink(s, h, f"{h}/sink2"),
    ),
    "sink of a new column": lambda s, h, d: (
        _rows(s, "SELECT 1 AS id").write.format("delta").mode("overwrite").save(f"{h}/sink3"), _sink(s, h, f"{h}/sink3"),
    ),
    "sink with an odd mergeSchema": lambda s, h, d: _sink(s, h, f"{h}/sink4", mergeSchema="maybe"),
    "sink with replaceWhere": lambda s, h, d: _sink(s, h, f"{h}/bypath", replaceWhere="id = 1"),
    "sink without a checkpoint": lambda s, h, d: (
        s.readStream.format("rate").load().writeStream.format("delta").start(f"{h}/sink5")
    ),
    "createTable with an odd type": lambda s, h, d: s.catalog.createTable(f"{d}.n2", source="delta", path=f"{h}/nosuch2"),
}  # fmt: skip


def outcomes(spark: Any, home: str, db: str, only: Container[str] | None = None) -> dict[str, str]:
    """What becomes of each mistake: ``CONDITION (SQLSTATE)``, ``CONDITION`` where the state is not to be had,
    ``accepted`` or ``no condition``.

    :param only: the mistakes to make; None for all.
    """
    spark.sql(f"CREATE DATABASE {db}")
    for line in _DATA["setup"]:
        spark.sql(line.format(db=db, home=home))
    found: dict[str, str] = {}
    for number, mistake in enumerate(name for name in EXPECTED if only is None or name in only):
        if mistake in CALLS:
            found[mistake] = _outcome(lambda call=CALLS[mistake]: call(spark, home, db))
        else:
            # What a refused CREATE leaves behind is in the way of no other.
            text = mistake.replace("{db}.n1", f"{{db}}.n{number}_").format(db=db, home=home)
            found[mistake] = _outcome(lambda text=text: spark.sql(text).collect())
    return found


_UNCONVERTED = re.compile(r"SparkException: \[([A-Z0-9_.]+)\].* SQLSTATE: (\w{5})")


_NOT_OF_SPARK = re.compile(r"Cannot find main error class '([A-Z0-9_]+)'")


def _of_java(error: Any) -> tuple[str | None, str | None]:
    """Condition and SQLSTATE of an exception that PySpark shows as Java's; a client of Spark Connect has them all."""
    try:
        return (error.getCondition(), error.getSqlState()) if error is not None else (None, None)
    except Exception:  # it has none
        return None, None


def _outcome(act: Callable[[], Any]) -> str:
    try:
        act()
    except Exception as error:
        condition = getattr(error, "getCondition", lambda: None)()
        state = getattr(error, "getSqlState", lambda: None)()
        # PySpark asks Spark for the text of a condition that Spark does not have, and then has no more than its name.
        if found := _NOT_OF_SPARK.search(str(error)):
            return found[1]
        if condition is None:
            condition, state = _of_java(getattr(error, "java_exception", None))
        # PySpark does not make some of Spark's own exceptions its own, and shows their text.
        if condition is None and (found := _UNCONVERTED.search(str(error))):
            condition, state = found.groups()
        return "no condition" if condition is None else f"{condition} ({state})"
    return "accepted"
