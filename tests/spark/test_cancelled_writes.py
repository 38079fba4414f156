"""A statement whose job is cancelled ends at once; its files go with the job's tasks, and the place is free then."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.util import InheritableThread

pytestmark = pytest.mark.alone

#: Each row takes two seconds, in which the task's file is open and the task hears of no cancellation.
SLEEPING = "SELECT id, java_method('java.lang.Thread', 'sleep', 2000L) AS slept FROM range(0, 30, 1, 1)"
GROUP = "cancelled-write"


@pytest.fixture
def cancelled(spark):
    """Runs a statement and cancels its job as soon as a task has a file open under the directory; the error."""
    context = spark.sparkContext

    def run(text: str, directory: Path) -> BaseException:
        caught: list[BaseException] = []

        def statement() -> None:
            context.setJobGroup(GROUP, "cancelled")
            try:
                spark.sql(text)
            except BaseException as error:
                caught.append(error)

        thread: threading.Thread = InheritableThread(target=statement)
        thread.start()
        # Spark's status tracker is no help here: it may hear of a task seconds after it began.
        while not _data_files(directory):
            assert thread.is_alive(), f"the statement ended before a task had opened a file: {caught}"
            time.sleep(0.02)
        context.cancelJobGroup(GROUP)
        thread.join(60)
        assert caught, "the statement ended without an error"
        return caught[0]

    return run


def test_tasks_that_succeed_as_their_job_fails_leave_no_file(spark, tmp_path):
    """One task fails while others, which hear of no cancellation, are about to end well."""
    table = f"delta.`{tmp_path}/t`"
    spark.sql(f"CREATE TABLE {table} (id BIGINT, slept STRING) USING delta")
    slow = "java_method('java.lang.Thread', 'sleep', IF(id = 0, 700L, 1500L))"
    with pytest.raises(PySparkException):
        spark.sql(f"INSERT INTO {table} SELECT IF(id = 0, 1 DIV id, id), {slow} FROM range(0, 2, 1, 2)")
    assert _settled(tmp_path / "t") == []


def _settled(directory: Path) -> list[Path]:
    until = time.monotonic() + 60
    while _data_files(directory) and time.monotonic() < until:
        time.sleep(0.02)
    return _data_files(directory)


def _data_files(directory: Path) -> list[Path]:
    return list(directory.rglob("*.parquet"))


def test_the_table_can_be_created_at_once(spark, tmp_path, cancelled):
    table = f"delta.`{tmp_path}/t`"
    error = cancelled(f"CREATE TABLE {table} USING delta AS {SLEEPING}", tmp_path / "t")
    assert isinstance(error, PySparkException) or "cancelled" in str(error)
    spark.sql(f"CREATE TABLE {table} (id BIGINT) USING delta")
    assert not _data_files(tmp_path / "t")


def test_an_insert_leaves_no_file(spark, tmp_path, cancelled):
    table = f"delta.`{tmp_path}/t`"
    spark.sql(f"CREATE TABLE {table} (id BIGINT, slept STRING) USING delta")
    cancelled(f"INSERT INTO {table} {SLEEPING}", tmp_path / "t")
    assert _settled(tmp_path / "t") == []
    assert spark.table(table).count() == 0
