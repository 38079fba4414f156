"""What the tests have a Spark driver do: functions of a session that return what JSON can hold."""

from __future__ import annotations

import os
import re
import threading
import time
import urllib.request
from collections.abc import Callable
from typing import Any

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from support.sparks.by_name_scenarios import by_name
from support.sparks.entry_scenarios import entries, refused
from support.sparks.reaching_scenarios import explained, log_at, reach, reach_two, shown
from support.sparks.stream_scenarios import (
    by_event_time,
    send_changes,
    stop_in_batch,
    stream_in,
    stream_on,
    streams_beside,
)
from support.sparks.tables_scenarios import tables_change, tables_changes, tables_open, tables_shown
from support.sparks.upsert_scenarios import upserts

__all__ = [
    "by_event_time",
    "by_name",
    "entries",
    "explained",
    "log_at",
    "reach",
    "reach_two",
    "refused",
    "scrape",
    "send_changes",
    "shown",
    "stop_in_batch",
    "stream_in",
    "stream_on",
    "streams_beside",
    "tables_change",
    "tables_changes",
    "tables_open",
    "tables_shown",
    "upserts",
]


def sql(spark: SparkSession, text: str) -> dict[str, Any]:
    """A statement's rows, or the error a user sees; with the seconds it took."""
    started = time.monotonic()
    try:
        rows = [list(row) for row in spark.sql(text).collect()]
    except Exception as error:
        return describe(error)
    return {"rows": rows, "seconds": time.monotonic() - started}


def scrape(spark: SparkSession) -> dict[str, float]:
    """What a Prometheus server sees of Headwater at the driver: a number for each name."""
    with urllib.request.urlopen(f"{spark.sparkContext.uiWebUrl}/metrics/prometheus/", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    found = (re.fullmatch(r"metrics_\w+_driver_headwater_(\w+)\{[^}]*\} (\S+)", line) for line in lines)
    return {match[1]: float(match[2]) for match in found if match}


def describe(error: Exception) -> dict[str, Any]:
    """An error as its class, condition, state and text."""
    if not isinstance(error, PySparkException):
        return {"class": type(error).__name__, "condition": None, "state": None, "text": str(error)}
    return {
        "class": type(error).__name__,
        "analysis": isinstance(error, AnalysisException),
        "condition": error.getCondition(),
        "state": error.getSqlState(),
        "text": str(error),
        "parameters": error.getMessageParameters(),
    }


def all_sql(spark: SparkSession, texts: list[str]) -> list[dict[str, Any]]:
    """Each statement's rows or error."""
    return [sql(spark, text) for text in texts]


def catch_conflicts(spark: SparkSession, texts: dict[str, str]) -> dict[str, list[Any]]:
    """By the name of a conflict's class, a statement: the condition that ``except`` of that class caught, and whether
    the error is PySpark's AnalysisException still.
    """
    from headwater import exceptions

    caught: dict[str, list[Any]] = {}
    for name, text in texts.items():
        try:
            spark.sql(text).collect()
        except getattr(exceptions, name) as error:
            caught[name] = [error.getCondition(), isinstance(error, AnalysisException)]
    return caught


def long_life(spark: SparkSession, part: int, statements: int, streams: int) -> dict[str, Any]:
    """Mixed statements on two tables, one of them with deletion vectors, while streams copy them one after the other.

    What went wrong, the rows at the end, and those that the statements should have left.
    """
    problems: list[str] = []

    def must(text: str) -> None:
        found = sql(spark, text)
        if "rows" not in found:
            problems.append(f"{text}: {found['text']}")

    def stream(number: int) -> None:
        try:
            source, target = f"life_{part}_{number % 2}", f"copy_{part}_{number}"
            reader = spark.readStream.option("ignoreChanges", "true").option("maxFilesPerTrigger", 5).table(source)
            checkpoint = f"{spark.conf.get('spark.sql.warehouse.dir')}/checkpoints/{target}"
            writer = reader.writeStream.option("checkpointLocation", checkpoint).trigger(availableNow=True)
            writer.toTable(target).awaitTermination()
            must(f"DROP TABLE {target}")
        except Exception as error:
            problems.append(f"stream {number}: {error}")

    def all_streams() -> None:
        for number in range(streams):
            stream(number)

    expected: list[dict[int, int]] = [{}, {}]
    for which in (0, 1):
        vectors = f"TBLPROPERTIES ('delta.enableDeletionVectors' = '{str(bool(which)).lower()}')"
        must(f"CREATE TABLE life_{part}_{which} (k INT, v INT) USING delta {vectors}")
    beside = _in_thread(all_streams)
    for number in range(statements):
        which = number // 8 % 2
        table, rows, key = f"life_{part}_{which}", expected[which], number
        match number % 8:
            case 0 | 1:
                must(f"INSERT INTO {table} VALUES ({key}, 0)")
                rows[key] = 0
            case 2:
                must(f"UPDATE {table} SET v = v + 1 WHERE k % 3 = 0")
                rows.update({k: v + 1 for k, v in rows.items() if k % 3 == 0})
            case 3:
                source = f"SELECT {key} AS k, 5 AS v UNION ALL SELECT {key - 3}, 6"
                must(
                    f"MERGE INTO {table} t USING ({source}) s ON t.k = s.k "
                    "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
                )
                rows |= {key: 5, key - 3: 6}
            case 4:
                must(f"DELETE FROM {table} WHERE k % 11 = 4")
                for gone in [k for k in rows if k % 11 == 4]:
                    del rows[gone]
            case 5:
                must(f"INSERT INTO {table} WITH (idCols = 'k') BY NAME SELECT {key} AS k, 9 AS v")
                rows[key] = 9
            case 6:
                must(f"SELECT count(*), max(v) FROM {table} WHERE k > {key // 2}")
                must(f"DESCRIBE HISTORY {table} LIMIT 3")
            case _:
                must(
                    f"OPTIMIZE {table}"
                    if number % 16 == 7
                    else f"ALTER TABLE {table} SET TBLPROPERTIES ('n' = '{key}')"
                )
    beside.join()
    found = [
        sorted([row.k, row.v] for row in spark.sql(f"SELECT k, v FROM life_{part}_{which}").collect())
        for which in (0, 1)
    ]
    for which in (0, 1):
        must(f"DROP TABLE life_{part}_{which}")
    return {"problems": problems, "rows": found, "expected": [sorted(map(list, rows.items())) for rows in expected]}


def in_new_threads(spark: SparkSession, text: str, times: int) -> list[str]:
    """Run a statement again and again, each time from a new thread that never calls again; what failed."""
    failed: list[str] = []
    for _ in range(times):
        _in_thread(lambda: _attempt(spark, text, failed)).join()
    return failed


def _attempt(spark: SparkSession, text: str, failed: list[str]) -> None:
    found = sql(spark, text)
    if "text" in found:
        failed.append(str(found["text"]))


def _in_thread(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def together(spark: SparkSession, threads: int, sessions: int, seconds: float) -> dict[str, Any]:
    """Mixed statements from many threads over several sessions until the time is over.

    All threads append to and read one table, and each has a table of its own that it makes, fills and drops.
    """
    spark.sql("CREATE OR REPLACE TABLE common (thread INT, n INT) USING delta")
    available = [spark, *(spark.newSession() for _ in range(sessions - 1))]
    end = time.monotonic() + seconds
    problems: list[str] = []
    statements = [0] * threads
    appended = [0] * threads

    def work(thread: int) -> None:
        session = available[thread % sessions]
        turn = 0

        def must(text: str) -> list[list[Any]]:
            found = sql(session, text)
            statements[thread] += 1
            if "rows" not in found:
                raise AssertionError(f"{text}: {found['text']}")
            return found["rows"]

        try:
            while time.monotonic() < end:
                turn += 1
                own = f"own_{thread}"
                must(f"CREATE OR REPLACE TABLE {own} USING delta AS SELECT {turn} AS n")
                must(f"INSERT INTO common VALUES ({thread}, {turn})")
                appended[thread] += 1
                must(f"INSERT INTO {own} VALUES ({turn + 1})")
                assert must(f"SELECT sum(n) FROM {own}") == [[2 * turn + 1]]
                assert must(f"SELECT count(*) FROM common WHERE thread = {thread}") == [[turn]]
                assert must(f"DESCRIBE HISTORY {own} LIMIT 1")[0][4] == "WRITE"
                failed = sql(session, f"SELECT * FROM {own} VERSION AS OF 100000")
                statements[thread] += 1
                assert failed.get("condition") == "DELTA_VERSION_NOT_FOUND", failed
                if turn % 3 == 0:
                    must(f"DROP TABLE {own}")
        except Exception as error:
            problems.append(f"thread {thread}, turn {turn}: {type(error).__name__}: {error}")

    running = [_in_thread(lambda thread=thread: work(thread)) for thread in range(threads)]
    for thread in running:
        thread.join()
    total = spark.sql("SELECT count(*) FROM common").collect()[0][0]
    return {"problems": problems, "statements": sum(statements), "appended": sum(appended), "total": total}


def cancel_job_group(spark: SparkSession, text: str, after: float) -> dict[str, Any]:
    """Run a statement in a job group of its own and cancel that once its job has been running for a while."""
    return _cancelled(
        spark,
        text,
        lambda: spark.sparkContext.setJobGroup("cancel-me", "to be cancelled"),
        lambda: spark.sparkContext.cancelJobGroup("cancel-me"),
        lambda: _is_active(spark, "cancel-me"),
        after,
        # Spark cancels the jobs that run. Between two jobs of a statement there is none, as long as it plans the next.
        again=True,
    )


def _is_active(spark: SparkSession, group: str) -> bool:
    """Whether a job of the group runs; those of statements before it may be remembered."""
    tracker = spark.sparkContext.statusTracker()
    return not set(tracker.getActiveJobsIds()).isdisjoint(tracker.getJobIdsForGroup(group))


def interrupt(spark: SparkSession, text: str, tag: str | None, after: float) -> dict[str, Any]:
    """Run a statement and interrupt it, by its tag or with all others of the session."""
    return _cancelled(
        spark,
        text,
        lambda: spark.addTag(tag) if tag else None,
        lambda: spark.interruptTag(tag) if tag else spark.interruptAll(),
        lambda: True,
        after,
    )


def interrupt_held(spark: SparkSession, text: str, how: str, held: str) -> dict[str, Any]:
    """Run a statement and interrupt it once a file is there; it must end by itself then.

    :param how: ``tag`` or ``all`` of Spark Connect, or ``thread``, the JVM's that runs it, as the Thrift server does.
    """
    found: list[dict[str, Any]] = []
    threads: list[Any] = []

    def work() -> None:
        if how == "thread":
            threads.append(spark.sparkContext._jvm.java.lang.Thread.currentThread())
        elif how == "tag":
            spark.addTag("held")
        found.append(sql(spark, text))

    thread = _in_thread(work)
    deadline = time.monotonic() + 120
    while not os.path.exists(held) and time.monotonic() < deadline:
        time.sleep(0.02)
    started = time.monotonic()
    if how == "thread":
        threads[0].interrupt()
    elif how == "tag":
        spark.interruptTag("held")
    else:
        spark.interruptAll()
    thread.join(60)
    assert not thread.is_alive(), "the statement did not end"
    return {**found[0], "seconds": time.monotonic() - started}


def _cancelled(
    spark: SparkSession,
    text: str,
    prepare: Callable[[], Any],
    cancel: Callable[[], Any],
    is_running: Callable[[], bool],
    after: float,
    again: bool = False,
) -> dict[str, Any]:
    found: list[dict[str, Any]] = []

    def work() -> None:
        prepare()
        found.append(sql(spark, text))

    thread = _in_thread(work)
    deadline = time.monotonic() + 60
    while not is_running() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(after)
    started = time.monotonic()
    cancel()
    while thread.is_alive() and time.monotonic() < started + 60:
        thread.join(2)
        if thread.is_alive() and again:
            cancel()
    assert not thread.is_alive(), "the statement did not end"
    return {**found[0], "seconds": time.monotonic() - started}


def active_jobs(spark: SparkSession) -> int:
    """How many Spark jobs run."""
    return len(spark.sparkContext.statusTracker().getActiveJobsIds())


def sessions_of(spark: SparkSession, url: str, steps: list[list[str]]) -> list[list[list[Any]]]:
    """Steps in sessions of a Spark Connect server: ``["open" | "close", name]``, ``["run", name, text]``."""
    opened: dict[str, SparkSession] = {}
    found = []
    for step, name, *text in steps:
        if step == "open":
            opened[name] = SparkSession.builder.remote(url).create()
        elif step == "close":
            opened.pop(name).stop()
        else:
            found.append([list(row) for row in opened[name].sql(text[0]).collect()])
    return found


def write_frame(spark: SparkSession, path: str) -> list[list[Any]]:
    """A DataFrame written to a path and read back."""
    spark.range(5).write.format("delta").mode("overwrite").save(path)
    spark.range(5, 8).write.format("delta").mode("append").save(path)
    return [list(row) for row in spark.read.format("delta").load(path).orderBy("id").collect()]


def read_changes(spark: SparkSession, name: str) -> list[list[list[Any]]]:
    """A table's changes from version 1 on, asked for in each of a reader's ways; without their times."""
    reader = spark.read.format("delta").option("startingVersion", 1)
    path = spark.sql(f"DESCRIBE DETAIL {name}").collect()[0].location
    frames = [
        reader.option("readChangeFeed", True).table(name).select("*"),
        reader.option("readChangeFeed", True).load(path),
        reader.changes(name),
    ]
    return [[list(row) for row in frame.drop("_commit_timestamp").orderBy("id").collect()] for frame in frames]


def plan(spark: SparkSession, text: str) -> str:
    """What EXPLAIN says."""
    return str(spark.sql(f"EXPLAIN {text}").collect()[0][0])
