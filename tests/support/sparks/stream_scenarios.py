"""What the tests have a Spark driver do with streaming queries; see :mod:`support.sparks.scenarios`."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headwater.tables import DeltaTable


def stream_in(
    spark: SparkSession, source: str, checkpoint: str, table: str, name: bool = False, tables: bool = False
) -> dict[str, Any]:
    """Write the rows of a folder's JSON files, one file a batch, to a table by its path or name, until all are read;
    the number of its rows then, or the query's error as ``text``.

    :param tables: the source is a table's path; its files are taken one a batch.
    """
    reader = spark.readStream.option("maxFilesPerTrigger", 1)
    rows = reader.format("delta").load(source) if tables else reader.schema("id LONG, v STRING").json(source)
    writer = rows.writeStream.format("delta").option("checkpointLocation", checkpoint).trigger(availableNow=True)
    try:
        query = writer.toTable(table) if name else writer.start(table)
        query.awaitTermination()
    except Exception as error:
        return {"text": str(error)}
    read = spark.table(table) if name else spark.read.format("delta").load(table)
    return {"rows": read.count(), "id": str(query.id)}


def stream_on(spark: SparkSession, source: str, table: str, checkpoint: str) -> list[list[Any]]:
    """Stream a table to another, both by name, three times: with ``readStream.table``, with ``STREAM`` in SQL, and with
    a MERGE for each batch; the rows after each.
    """

    def merge(rows: DataFrame, batch: int) -> None:
        rows.createOrReplaceTempView("arrived")
        rows.sparkSession.sql(
            f"MERGE INTO {table} t USING arrived s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v || '!' "
            "WHEN NOT MATCHED THEN INSERT *"
        ).collect()

    read = spark.readStream.option("maxFilesPerTrigger", 1).table(source)
    in_sql = spark.sql(f"SELECT id + 100 AS id, v FROM STREAM({source}) WITH ('maxFilesPerTrigger' = '1')")
    writers = [read.writeStream, in_sql.writeStream, read.writeStream.foreachBatch(merge)]
    found = []
    for number, writer in enumerate(writers):
        writer = writer.option("checkpointLocation", f"{checkpoint}{number}").trigger(availableNow=True)
        (writer.start() if number == 2 else writer.format("delta").toTable(table)).awaitTermination()
        found.append([list(row) for row in spark.sql(f"SELECT id, v FROM {table} ORDER BY id").collect()])
    return found


def by_event_time(
    spark: SparkSession, source: str, table: str, checkpoint: str, files: int, rows: int, in_order: bool = True
) -> list[int]:
    """Stream a new table of so many files, the latest times first, one file a micro-batch, past a watermark to another
    table; how many micro-batches had rows, how many rows were late, and how many there are then.

    :param rows: of each file.
    :param in_order: whether the initial snapshot is read in the order of event time.
    """
    spark.sql(f"CREATE TABLE delta.`{source}` (id BIGINT, at TIMESTAMP) USING delta").collect()
    for first in range(rows * (files - 1), -1, -rows):
        made = f"SELECT id, timestamp_seconds(1700000000 + id * 3600) FROM range({first}, {first + rows}, 1, 1)"
        spark.sql(f"INSERT INTO delta.`{source}` {made}").collect()
    reader = spark.readStream.format("delta").option("maxFilesPerTrigger", 1).option("withEventTimeOrder", in_order)
    once = reader.load(source).withWatermark("at", "1 minute").dropDuplicates(["id", "at"])
    writer = once.writeStream.format("delta").option("checkpointLocation", checkpoint).trigger(availableNow=True)
    query = writer.start(table)
    query.awaitTermination()
    late = [state.numRowsDroppedByWatermark for p in query.recentProgress for state in p.stateOperators]
    batches = sum(p.numInputRows > 0 for p in query.recentProgress)
    return [batches, sum(late), spark.read.format("delta").load(table).count()]


def streams_beside(
    spark: SparkSession, text: str, held: str, slow: dict[str, Any], sources: list[dict[str, str]]
) -> dict[str, Any]:
    """Run a statement and a stream that a test holds, and once they are held streams, all at once, each to its table;
    how many rows each wrote, and whether the statement and the stream were still running then.

    :param held: the file that is there while the statement is held.
    :param slow: the ``stream`` that is held, and the file that is there while it is, ``held``.
    :param sources: the arguments of :func:`stream_in`.
    """
    beside = [
        (threading.Thread(target=lambda: spark.newSession().sql(text).collect()), held),
        (threading.Thread(target=lambda: stream_in(spark, **slow["stream"])), slow["held"]),
    ]
    for thread, file in beside:
        thread.start()
        deadline = time.monotonic() + 120
        while not os.path.exists(file) and time.monotonic() < deadline:
            time.sleep(0.02)
    with ThreadPoolExecutor(len(sources)) as pool:
        found = list(pool.map(lambda given: stream_in(spark, **given), sources))
    return {"found": found, "held": [thread.is_alive() for thread, _ in beside]}


def stop_in_batch(spark: SparkSession, source: str, checkpoint: str, table: str, held: str) -> list[Any]:
    """Stop a query while a test holds the statement of its ``foreachBatch``; the query's last status, its error, and
    how many lines the error of the statement has.

    :param held: the file that is there while the statement is held.
    """

    def write(rows: DataFrame, batch: int) -> None:
        try:
            rows.write.format("delta").mode("append").save(table)
        except Exception as error:
            lines.append(len(str(error).splitlines()))
            raise

    lines: list[int] = []
    rows = spark.readStream.format("delta").load(source)
    query = rows.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint).start()
    deadline = time.monotonic() + 120
    while not os.path.exists(held) and time.monotonic() < deadline:
        time.sleep(0.02)
    query.stop()
    return [query.status["message"], None if query.exception() is None else str(query.exception()), lines]


def send_changes(
    spark: SparkSession,
    name: str,
    topic: str,
    servers: str,
    checkpoint: str,
    statements: list[str],
    options: dict[str, str],
) -> list[Any]:
    """Send a table's changes to a topic, once more after each statement; the topic's operations by key, in order, or
    the error's condition and text."""
    try:
        for statement in ["SELECT 1", *statements]:
            spark.sql(statement).collect()
            DeltaTable.forName(spark, name).sendChanges(
                topic, servers, checkpoint=checkpoint, keys=["k"], startingVersion=1, options=options
            )
    except PySparkException as error:
        return [error.getCondition(), str(error)]
    sent = spark.read.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", topic).load()
    operation = "get_json_object(string(value), '$.op')"
    rows = sent.orderBy("partition", "offset").selectExpr("get_json_object(string(key), '$.k')", operation).collect()
    return [list(row) for row in rows]
