"""The measured Spark process: runs the request in each line of standard input, answers with a line on standard output.

Times are taken with ``time.perf_counter`` around Spark's work alone, in seconds.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

_spark: Any = None


def start(ours: bool, settings: dict[str, str]) -> dict[str, Any]:
    """Start the session, with Headwater or as the settings have it; the seconds, and where Headwater's package is."""
    global _spark
    package = None
    began = time.perf_counter()
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    if ours:
        import headwater

        headwater.configure(builder)
        package = headwater.__file__
    _spark = builder.getOrCreate()
    taken = time.perf_counter() - began
    _spark.sparkContext.setLogLevel("ERROR")
    return {"seconds": taken, "package": package}


def run(sql: str) -> dict[str, Any]:
    """Run a statement and fetch its rows."""
    began = time.perf_counter()
    rows = _spark.sql(sql).collect()
    return {"seconds": time.perf_counter() - began, "rows": len(rows)}


def appends(sql: str, writers: int, each: int) -> dict[str, Any]:
    """Run a statement so many times in each of some sessions, a thread each; seconds from the first to the last."""
    sessions = [_spark.newSession() for _ in range(writers)]

    def write(session: Any) -> None:
        for _ in range(each):
            session.sql(sql).collect()

    with ThreadPoolExecutor(writers) as pool:
        began = time.perf_counter()
        done = [pool.submit(write, session) for session in sessions]
        for future in done:
            future.result()
        return {"seconds": time.perf_counter() - began}


def upserts(path: str, writers: int, each: int, same: bool) -> dict[str, Any]:
    """Run so many MERGEs in each of some threads, each of which counts up a row and inserts one; a loser tries again
    until it wins. Seconds from the first to the last, and how many tries failed.

    :param same: whether all threads count up the same row.
    """

    def merge(session: Any, writer: int, number: int) -> int:
        keys = f"VALUES ({0 if same else writer}), ({1000 * (writer + 1) + number}) AS s(k)"
        sql = (
            f"MERGE INTO delta.`{path}` AS t USING (SELECT * FROM {keys}) AS s ON t.k = s.k "
            "WHEN MATCHED THEN UPDATE SET n = t.n + 1 WHEN NOT MATCHED THEN INSERT (k, n) VALUES (s.k, 0)"
        )
        failed = 0
        while True:
            try:
                session.sql(sql).collect()
                return failed
            except Exception as error:
                if "CONCURRENT" not in str(error):
                    raise
                failed += 1

    def work(writer: int) -> int:
        return sum(merge(sessions[writer], writer, number) for number in range(each))

    sessions = [_spark.newSession() for _ in range(writers)]
    with ThreadPoolExecutor(writers) as pool:
        began = time.perf_counter()
        done = [pool.submit(work, writer) for writer in range(writers)]
        failed = sum(future.result() for future in done)
        seconds = time.perf_counter() - began
    ((total, count),) = _spark.sql(f"SELECT sum(n), count(*) FROM delta.`{path}`").collect()
    if (total, count) != (writers * each, writers * (each + 1)):
        raise AssertionError(f"of {writers * each} upserts {total} updated a row, and there are {count} rows")
    return {"seconds": seconds, "failed": failed}


def each(statements: list[str], threads: int) -> dict[str, Any]:
    """Run statements once each, by so many threads of one session; seconds from the first to the last, and how many
    rows all returned.
    """
    with ThreadPoolExecutor(threads) as pool:
        began = time.perf_counter()
        found = sum(pool.map(lambda sql: len(_spark.sql(sql).collect()), statements))
        return {"seconds": time.perf_counter() - began, "rows": found}


def rows(sql: str) -> dict[str, Any]:
    """A query's rows, each as a list of texts."""
    return {"rows": [[str(value) for value in row] for row in _spark.sql(sql).collect()]}


def answer(sql: str) -> dict[str, Any]:
    """A query's rows: doubles as numbers, all else as texts."""
    kept = (float, type(None))
    rows = [[value if isinstance(value, kept) else str(value) for value in row] for row in _spark.sql(sql).collect()]
    return {"rows": rows}


def plan(sql: str) -> dict[str, Any]:
    """Plan a query, the list of its files included: parsed, analysed, optimised, files pruned; nothing is compiled or
    read. Of a source that plans by itself, as Iceberg's, files are counted as its tasks.
    """
    began = time.perf_counter()
    scan = _spark.sql(sql)._jdf.queryExecution().executedPlan().collectLeaves().head()
    by_itself = scan.getClass().getSimpleName() == "BatchScanExec"
    files = scan.inputPartitions().size() if by_itself else scan.selectedPartitions().totalNumberOfFiles()
    return {"seconds": time.perf_counter() - began, "files": files}


def native_scans(sql: str) -> dict[str, Any]:
    """How many scans of files a query has, as it ran, and how many of them Comet's native code does."""
    frame = _spark.sql(sql)
    frame.collect()
    plan = frame._jdf.queryExecution().executedPlan().toString().partition("== Initial Plan ==")[0]
    native = plan.count("CometNativeScan ")
    return {"native": native, "all": native + plan.count("FileScan ")}


def scan(sql: str) -> dict[str, Any]:
    """Read every row and column of a query and throw them away inside Spark."""
    began = time.perf_counter()
    _spark.sql(sql).write.format("noop").mode("overwrite").save()
    return {"seconds": time.perf_counter() - began}


def stream_out(source: str, table: str, checkpoint: str, format: str) -> dict[str, Any]:
    """Stream a folder's Parquet files to a table, one file a batch; the seconds until all are there, and the rows."""
    schema = _spark.read.parquet(source).schema
    began = time.perf_counter()
    rows = _spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(source)
    writer = rows.writeStream.format(format).option("checkpointLocation", checkpoint).trigger(availableNow=True)
    writer.start(table).awaitTermination()
    taken = time.perf_counter() - began
    return {"seconds": taken, "rows": _spark.read.format(format).load(table).count()}


def stream_in(source: str, checkpoint: str, format: str) -> dict[str, Any]:
    """Stream a table, or a folder's Parquet files, into nothing, a file a batch; the seconds, and how many batches."""
    reader = _spark.readStream.format(format).option("maxFilesPerTrigger", 1)
    if format == "parquet":
        reader = reader.schema(_spark.read.parquet(source).schema)
    began = time.perf_counter()
    writer = reader.load(source).writeStream.format("noop").option("checkpointLocation", checkpoint)
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return {"seconds": time.perf_counter() - began, "batches": query.lastProgress["batchId"] + 1}


def first_batch(source: str, checkpoint: str) -> dict[str, Any]:
    """Start a stream over a table whose data files are not there, and wait for its first micro-batch."""
    _spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    began = time.perf_counter()
    writer = _spark.readStream.format("delta").load(source).writeStream.format("noop")
    query = writer.option("checkpointLocation", checkpoint).trigger(processingTime="1 hour").start()
    try:
        while not query.recentProgress:
            if query.exception() is not None:
                raise query.exception()
            time.sleep(0.005)
        return {"seconds": time.perf_counter() - began}
    finally:
        query.stop()
        _spark.conf.unset("spark.sql.files.ignoreMissingFiles")


def batches_out(table: str, checkpoint: str, batches: int) -> dict[str, Any]:
    """Stream a row a micro-batch to a table; the seconds of each of so many micro-batches."""
    rows = _spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).option("numPartitions", 1).load()
    writer = rows.writeStream.format("delta").option("checkpointLocation", checkpoint)
    return {"seconds": _seconds_of_batches(lambda: writer.start(table), batches)}


def batches_in(source: str, checkpoint: str, batches: int) -> dict[str, Any]:
    """Stream a table's commits, a file each, into nothing; the seconds of each of so many micro-batches."""
    reader = _spark.readStream.format("delta").option("maxFilesPerTrigger", 1).option("startingVersion", 0)
    writer = reader.load(source).writeStream.format("noop").option("checkpointLocation", checkpoint)
    return {"seconds": _seconds_of_batches(writer.start, batches)}


def upsert(source: str, table: str, options: dict[str, str]) -> dict[str, Any]:
    """Upsert the rows of Parquet files."""
    began = time.perf_counter()
    _spark.read.parquet(source).write.format("delta").mode("append").options(**options).save(table)
    return {"seconds": time.perf_counter() - began}


def batches_upserted(table: str, checkpoint: str, batches: int) -> dict[str, Any]:
    """Upsert ten rows a micro-batch, one of which deletes; the seconds of each of so many micro-batches."""
    rows = _spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).option("numPartitions", 1).load()
    rows = rows.selectExpr("value * 7919 % 1000 AS key", "value", "value % 10 = 3 AS gone")
    options = {"idCols": "key", "sequenceBy": "value", "deleteWhen": "gone", "checkpointLocation": checkpoint}
    return {
        "seconds": _seconds_of_batches(
            lambda: rows.writeStream.format("delta").options(**options).start(table), batches
        )
    }


def _seconds_of_batches(start: Callable[[], Any], batches: int) -> list[float]:
    _spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", 2 * batches)
    query = start()
    try:
        while (last := query.lastProgress) is None or last["batchId"] < batches - 1:
            if query.exception() is not None:
                raise query.exception()
            time.sleep(0.2)
        done = {p["batchId"]: p["durationMs"]["triggerExecution"] / 1000 for p in query.recentProgress}
        return [done[batch] for batch in range(batches)]
    finally:
        query.stop()
        _spark.conf.unset("spark.sql.streaming.numRecentProgressUpdates")


def streams(source: str, table: str, checkpoint: str, count: int) -> dict[str, Any]:
    """Run so many streams at once, each of a table's files, a file a micro-batch, to a table of its own; the seconds
    from the start of the first to the end of the last, and how many micro-batches and rows there were.
    """
    began = time.perf_counter()
    queries = []
    for number in range(count):
        rows = _spark.readStream.format("delta").option("maxFilesPerTrigger", 1).load(source)
        writer = rows.writeStream.format("delta").option("checkpointLocation", f"{checkpoint}/{number}")
        queries.append(writer.trigger(availableNow=True).start(f"{table}/{number}"))
    for query in queries:
        query.awaitTermination()
    taken = time.perf_counter() - began
    written = [_spark.read.format("delta").load(f"{table}/{number}").count() for number in range(count)]
    return {"seconds": taken, "batches": sum(q.lastProgress["batchId"] + 1 for q in queries), "rows": sum(written)}


def heap_peak() -> dict[str, Any]:
    """The most of its heap that the JVM has used, garbage included, in bytes."""
    pools = _spark._jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
    return {"bytes": sum(pool.getPeakUsage().getUsed() for pool in pools if pool.getType().name() == "HEAP")}


def handler_peak() -> dict[str, Any]:
    """The most memory the handler process has had, in bytes (Linux's VmHWM)."""
    pid = _spark._jvm.headwater.spark.bridge.Bridge.pid(_spark._jsparkSession)
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        line = next(line for line in status if line.startswith("VmHWM:"))
    return {"bytes": int(line.split()[1]) * 1024}


_ACTIONS: dict[str, Callable[..., dict[str, Any]]] = {
    f.__name__: f
    for f in (
        *(start, run, appends, upserts, each, rows, answer, plan, native_scans, scan),
        *(stream_out, stream_in, first_batch, batches_out, batches_in, streams),
        *(upsert, batches_upserted),
        *(handler_peak, heap_peak),
    )
}


def session() -> Any:
    """The session that :func:`start` has started."""
    return _spark


def serve(actions: Mapping[str, Callable[..., dict[str, Any]]]) -> None:
    """Run what the lines of standard input ask for until it ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what else writes to standard output must not get between the answers
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = actions[request.pop("do")](**request)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)
    if _spark is not None:
        _spark.stop()


if __name__ == "__main__":
    serve(_ACTIONS)
