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


@pytest.mark.parametrize("points", [["before_put"], ["end_of_plan_batch", "after_put"]], ids=["once", "twice"])
def test_the_handler_is_killed_in_a_batch(classic: Any, feed: Feed, tmp_path: Path, points: list[str]) -> None:
    """Once its commit has begun, nobody knows that it was not made; before that and after it, the stream goes on."""
    table = tmp_path / "table"
    feed.put(rows_of(1), rows_of(2))
    for point in points:
        classic.faults.kill_at(point)
    found = classic.run("stream_in", **places(feed, table))
    assert all(classic.faults.happened(point) for point in points)
    if points == ["before_put"]:
        assert "DELTA_COMMIT_NOT_MADE" in found["text"]
        found = classic.run("stream_in", **places(feed, table))
    assert found["rows"] == 2, found
    assert ids(classic, table) == [1, 2]
    assert len(classic.rows(f"DESCRIBE HISTORY delta.`{table}`")) == 2


@pytest.fixture
def source(classic: Any, tmp_path: Path) -> Path:
    """A table with the ids 0 to 2, each in a file of its own."""
    return table_of(3, classic, tmp_path)


def table_of(files: int, driver: Any, tmp_path: Path) -> Path:
    path = tmp_path / "source"
    driver.rows(
        f"CREATE TABLE delta.`{path}` USING delta AS SELECT id, concat('v', id) AS v FROM range(0, {files}, 1, {files})"
    )
    return path


def test_the_handler_is_killed_while_a_table_is_read(classic: Any, source: Path, tmp_path: Path) -> None:
    """Where a batch ends, which files it has, and its rows written but not committed: each is asked for again."""
    table = tmp_path / "table"
    points = ("end_of_open_stream", "end_of_stream_end", "end_of_stream_files", "after_write")
    for point in points:
        classic.faults.kill_at(point)
    through = {"source": str(source), "checkpoint": str(tmp_path / "checkpoint"), "table": str(table), "tables": True}
    assert classic.run("stream_in", **through).get("rows") == 3
    assert all(classic.faults.happened(point) for point in points)
    assert ids(classic, table) == [0, 1, 2]
    assert len(classic.rows(f"DESCRIBE HISTORY delta.`{table}`")) == 3


#: Of a stream from a table to a table: what has happened, where its driver is killed.
STEPS = {
    "end_of_open_stream": "the table is open",
    "end_of_stream_end": "the end of the batch is known, and the offset log does not have it",
    "end_of_stream_files": "the batch's files are listed",
    "before_write": "its job is about to start",
    "after_write": "its files are written",
    "before_put": "the commit is begun",
    "after_put": "the commit is there",
    "end_of_write_batch": "the handler has answered, and the commit log does not have the batch",
}


def killed_at(point: str, sparks: Any, through: dict[str, Any]) -> None:
    """Run a stream in a driver of its own, which is killed at a point."""
    driver = sparks.driver()
    with driver.faults.hold_at(point) as held:
        driver.ask("stream_in", **through)
        wait_for(held, 60, STEPS[point])
        os.kill(driver.jvm, signal.SIGKILL)
        driver.stop()


# The usual run kills the handler there; tests/streams has checkpoints that are behind their table.
@pytest.mark.soak
def test_the_driver_is_killed_around_a_commit(classic: Any, sparks: Any, source: Path, tmp_path: Path) -> None:
    table, checkpoint = tmp_path / "table", tmp_path / "checkpoint"
    through = {"source": str(source), "checkpoint": str(checkpoint), "table": str(table), "tables": True}
    killed_at("before_put", sparks, through)
    assert not (table / "_delta_log").exists() or not list((table / "_delta_log").glob("*.json"))
    killed_at("end_of_write_batch", sparks, through)
    assert len(ids(classic, table)) == 1
    assert not (checkpoint / "commits" / "0").exists()
    assert classic.run("stream_in", **through).get("rows") == 3
    assert ids(classic, table) == [0, 1, 2]
    assert len(classic.rows(f"DESCRIBE HISTORY delta.`{table}`")) == 3


@pytest.mark.soak
def test_the_driver_is_killed_at_each_step(classic: Any, sparks: Any, tmp_path: Path) -> None:
    """Twice at each: in the first batch that a run finds undone, and after a restart there."""
    table, points = tmp_path / "table", [point for point in STEPS for _ in range(2)]
    source = table_of(len(points) + 1, classic, tmp_path)
    through = {"source": str(source), "checkpoint": str(tmp_path / "c"), "table": str(table), "tables": True}
    for point in points:
        killed_at(point, sparks, through)
    assert classic.run("stream_in", **through).get("rows") == len(points) + 1
    assert ids(classic, table) == list(range(len(points) + 1))
    assert len(classic.rows(f"DESCRIBE HISTORY delta.`{table}`")) == len(points) + 1


@pytest.mark.parametrize("point", ["before_write", "before_put"])
def test_a_query_is_stopped_in_its_function(classic: Any, source: Path, tmp_path: Path, point: str) -> None:
    """To stop a query is no error, whatever its ``foreachBatch`` is in. Spark searches the text of the error that ends
    it for an interrupt, and overflows the stack on a text of many lines.
    """
    through = {"source": str(source), "checkpoint": str(tmp_path / "checkpoint"), "table": str(tmp_path / "table")}
    with classic.faults.hold_at(point):
        held = str(classic.faults.folder / f"{point}.waits")
        status, error, lines = classic.run("stop_in_batch", **through, held=held)
    assert (status, error) == ("Stopped", None)
    assert len(lines) == 1
    assert lines[0] < 5


def test_over_spark_connect(connect: Any, feed: Feed, tmp_path: Path) -> None:
    table = f"delta.`{tmp_path}/table`"
    feed.put(rows_of(1), rows_of(2))
    connect.rows(f"CREATE TABLE {table} (id BIGINT CHECK (id < 5), v STRING) USING delta")
    assert connect.run("stream_in", **{**places(feed, tmp_path / "t"), "table": table, "name": True})["rows"] == 2
    feed.put(rows_of(9))
    found = connect.run("stream_in", **{**places(feed, tmp_path / "t"), "table": table, "name": True})
    assert "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES" in found["text"]
    assert "Traceback" not in found["text"].partition("JVM stacktrace")[0]


def test_tables_are_read_over_spark_connect(connect: Any, tmp_path: Path) -> None:
    connect.rows("CREATE TABLE read_on USING delta AS SELECT id, concat('v', id) AS v FROM range(0, 2, 1, 2)")
    connect.rows("CREATE TABLE written_on (id BIGINT, v STRING) USING delta")
    found = connect.run("stream_on", source="read_on", table="written_on", checkpoint=str(tmp_path / "checkpoint"))
    first, more = [[0, "v0"], [1, "v1"]], [[100, "v0"], [101, "v1"]]
    assert found == [first, [*first, *more], [[0, "v0!"], [1, "v1!"], *more]]
    for name in ("read_on", "written_on"):
        connect.rows(f"DROP TABLE {name}")


def test_no_row_is_late_over_spark_connect(connect: Any, tmp_path: Path) -> None:
    """The watermark's column reaches the source through the plan that the client sends."""
    given = {name: str(tmp_path / name) for name in ("source", "table", "checkpoint")}
    batches, late, found = connect.run("by_event_time", **given, files=3, rows=10)
    assert (late, found) == (0, 30)
    assert batches >= 3


def test_streams_wait_for_nobody(classic: Any, tmp_path: Path) -> None:
    """Of 20 streams at once all end but one, while that one is about to put its commit and a MERGE holds a thread of
    the handler; two of them write to the MERGE's table."""
    target = f"delta.`{tmp_path}/target`"
    vectors = "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    classic.rows(f"CREATE TABLE {target} (id BIGINT, v STRING) USING delta {vectors}")
    classic.rows(f"INSERT INTO {target} SELECT id, 'old' FROM range(0, 9, 1, 1)")
    merge = f"MERGE INTO {target} t USING (SELECT 1L AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = 'new'"
    streams = []
    for number in range(20):
        feed = Feed(classic, tmp_path / f"feed{number}")
        feed.put(rows_of(100 + number))
        streams.append(places(feed, tmp_path / ("target" if number < 2 else f"table{number}")))
    slow = {"stream": streams.pop(), "held": str(classic.faults.folder / "before_put_of_table19.waits")}
    with classic.faults.hold_at("before_vectors") as merges, classic.faults.hold_at("before_put_of_table19") as commits:
        beside = {"text": merge, "held": str(classic.faults.folder / "before_vectors.waits")}
        found = classic.run("streams_beside", **beside, slow=slow, sources=streams)
        assert merges()
        assert commits()
    assert found["held"] == [True, True]
    assert all("rows" in each for each in found["found"]), found
    wait_for(lambda: classic.rows(f"SELECT v FROM {target} WHERE id = 1") == [["new"]], 30, "the MERGE")
    assert classic.rows(f"SELECT id FROM {target} WHERE id > 9 ORDER BY id") == [[100], [101]]
    wait_for(lambda: (tmp_path / "table19" / "_delta_log" / f"{0:020}.json").exists(), 30, "the slow stream's commit")


@pytest.mark.soak
@pytest.mark.parametrize("tables", [False, True], ids=["files to a table", "a table to a table"])
def test_killed_at_random_in_300_batches(sparks: Any, feed: Feed, tmp_path: Path, tables: bool) -> None:
    """The handler or the whole driver, again and again, until all batches are there: every row once."""
    table, chance, batches = tmp_path / "table", random.Random(14), 300
    driver, killed = sparks.driver(), 0
    through: dict[str, Any] = places(feed, table)
    if tables:
        through |= {"source": str(table_of(batches, driver, tmp_path)), "tables": True}
    else:
        feed.put(*(rows_of(n) for n in range(batches)))
    while True:
        driver.ask("stream_in", **through)
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
    assert driver.answer().get("rows") == batches
    assert killed >= 3
    assert ids(driver, table) == list(range(batches))
    assert len(driver.rows(f"DESCRIBE HISTORY delta.`{table}`")) == batches
