"""Streaming queries of whole processes: the handler and the driver killed at named steps, and Spark Connect."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from support.feeds import Feed, rows_of
from support.sparks.running import wait_for

pytestmark = pytest.mark.spark


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    spark: Any = None  # the queries run in other processes
    return Feed(spark, tmp_path / "feed")


def places(feed: Feed, table: Path) -> dict[str, str]:
    return {"source": str(feed.source), "checkpoint": str(feed.checkpoint), "table": str(table)}


def ids(driver: Any, table: Path) -> list[int]:
    return [row[0] for row in driver.rows(f"SELECT id FROM delta.`{table}` ORDER BY id")]


@pytest.mark.parametrize(
    ("point", "goes_on"), [("before_put", False), ("after_put", True), ("end_of_plan_batch", True)]
)
def test_the_handler_is_killed_in_a_batch(classic: Any, feed: Feed, tmp_path: Path, point: str, goes_on: bool) -> None:
    table = tmp_path / "table"
    feed.put(rows_of(1), rows_of(2))
    classic.faults.kill_at(point)
    found = classic.run("stream_in", **places(feed, table))
    assert classic.faults.happened(point)
    if not goes_on:
        assert "DELTA_COMMIT_NOT_MADE" in found["text"]
        found = classic.run("stream_in", **places(feed, table))
    assert found["rows"] == 2, found
    assert ids(classic, table) == [1, 2]
    assert len(classic.rows(f"DESCRIBE HISTORY delta.`{table}`")) == 2


def test_the_driver_is_killed_before_the_checkpoint_has_the_batch(
    classic: Any, sparks: Any, feed: Feed, tmp_path: Path
) -> None:
    """The batch is committed, and Spark does not know."""
    table = tmp_path / "table"
    feed.put(rows_of(1), rows_of(2))
    driver = sparks.driver()
    with driver.faults.hold_at("end_of_write_batch") as held:
        driver.ask("stream_in", **places(feed, table))
        wait_for(held, 60, "the first batch's commit")
        os.kill(driver.jvm, signal.SIGKILL)
    driver.stop()
    assert not (feed.checkpoint / "commits" / "0").exists()
    assert ids(classic, table) == [1]
    assert classic.run("stream_in", **places(feed, table))["rows"] == 2
    assert ids(classic, table) == [1, 2]
    assert len(classic.rows(f"DESCRIBE HISTORY delta.`{table}`")) == 2


def test_over_spark_connect(connect: Any, feed: Feed, tmp_path: Path) -> None:
    table = f"delta.`{tmp_path}/table`"
    feed.put(rows_of(1), rows_of(2))
    connect.rows(f"CREATE TABLE {table} (id BIGINT CHECK (id < 5), v STRING) USING delta")
    assert connect.run("stream_in", **{**places(feed, tmp_path / "t"), "table": table, "name": True})["rows"] == 2
    feed.put(rows_of(9))
    found = connect.run("stream_in", **{**places(feed, tmp_path / "t"), "table": table, "name": True})
    assert "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES" in found["text"]
    assert "Traceback" not in found["text"].partition("JVM stacktrace")[0]


def test_streams_do_not_wait_for_a_merge(classic: Any, tmp_path: Path) -> None:
    """Ten streams end while a MERGE holds a thread of the handler; two of them write to its table."""
    target = f"delta.`{tmp_path}/target`"
    vectors = "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    classic.rows(f"CREATE TABLE {target} (id BIGINT, v STRING) USING delta {vectors}")
    classic.rows(f"INSERT INTO {target} SELECT id, 'old' FROM range(0, 9, 1, 1)")
    merge = f"MERGE INTO {target} t USING (SELECT 1L AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = 'new'"
    streams = []
    for number in range(10):
        feed = Feed(classic, tmp_path / f"feed{number}")
        feed.put(rows_of(100 + number))
        streams.append(places(feed, tmp_path / ("target" if number < 2 else f"table{number}")))
    with classic.faults.hold_at("before_vectors") as held:
        found = classic.run(
            "streams_beside", text=merge, held=str(classic.faults.folder / "before_vectors.waits"), sources=streams
        )
        assert held()
    assert found["held"]
    assert all("rows" in each for each in found["found"]), found
    wait_for(lambda: classic.rows(f"SELECT v FROM {target} WHERE id = 1") == [["new"]], 30, "the MERGE")
    assert classic.rows(f"SELECT id FROM {target} WHERE id > 9 ORDER BY id") == [[100], [101]]


@pytest.mark.soak
def test_killed_at_random_in_300_batches(sparks: Any, feed: Feed, tmp_path: Path) -> None:
    """The handler or the whole driver, again and again, until all batches are there: every row once."""
    table, chance, batches = tmp_path / "table", random.Random(14), 300
    feed.put(*(rows_of(2 * n, 2 * n + 1) for n in range(batches)))
    driver, killed = sparks.driver(), 0
    while True:
        driver.ask("stream_in", **places(feed, table))
        time.sleep(chance.uniform(2, 12))
        if (feed.checkpoint / "commits" / str(batches - 1)).exists():
            break
        killed += 1
        if chance.random() < 0.6:
            os.kill(driver.handler, signal.SIGKILL)
            driver.answer()
        else:
            os.kill(driver.jvm, signal.SIGKILL)
            driver.stop()
            driver = sparks.driver()
    assert driver.answer()["rows"] == 2 * batches
    assert killed >= 3
    assert ids(driver, table) == list(range(2 * batches))
    assert len(driver.rows(f"DESCRIBE HISTORY delta.`{table}`")) == batches
