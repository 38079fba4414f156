"""A statement whose job is cancelled ends after the job's tasks, which take their files along."""

from __future__ import annotations

import threading
import time

import pytest
from pyspark.errors import PySparkException
from pyspark.util import InheritableThread

#: Its first row takes two seconds, in which the task's file is open, and hears of no cancellation meanwhile.
SLEEPING = "SELECT id, java_method('java.lang.Thread', 'sleep', 2000L) AS slept FROM range(0, 4, 1, 1)"
GROUP = "cancelled-write"


@pytest.fixture
def cancelled(spark):
    """Runs a statement and cancels its job as soon as its tasks run; the error."""
    context = spark.sparkContext

    def run(text: str) -> BaseException:
        caught: list[BaseException] = []

        def statement() -> None:
            context.setJobGroup(GROUP, "cancelled")
            try:
                spark.sql(text)
            except BaseException as error:
                caught.append(error)

        thread: threading.Thread = InheritableThread(target=statement)
        thread.start()
        until = time.monotonic() + 60
        while not _running(context) and time.monotonic() < until:
            time.sleep(0.02)
        time.sleep(0.3)
        context.cancelJobGroup(GROUP)
        thread.join(60)
        assert caught, "the statement ended without an error"
        return caught[0]

    return run


def _running(context) -> bool:
    tracker = context.statusTracker()
    stages = [
        stage
        for job in tracker.getJobIdsForGroup(GROUP)
        if (told := tracker.getJobInfo(job)) is not None
        for stage in told.stageIds
    ]
    return any((told := tracker.getStageInfo(stage)) is not None and told.numActiveTasks > 0 for stage in stages)


def test_the_table_can_be_created_at_once(spark, tmp_path, cancelled):
    table = f"delta.`{tmp_path}/t`"
    error = cancelled(f"CREATE TABLE {table} USING delta AS {SLEEPING}")
    assert isinstance(error, PySparkException) or "cancelled" in str(error)
    assert not list((tmp_path / "t").rglob("*.parquet"))
    spark.sql(f"CREATE TABLE {table} (id BIGINT) USING delta")


def test_an_insert_leaves_no_file(spark, tmp_path, cancelled):
    table = f"delta.`{tmp_path}/t`"
    spark.sql(f"CREATE TABLE {table} (id BIGINT, slept STRING) USING delta")
    cancelled(f"INSERT INTO {table} {SLEEPING}")
    assert not list((tmp_path / "t").rglob("*.parquet"))
    assert spark.table(table).count() == 0
