"""Streaming queries on executors of their own: these and the handler are killed in a batch: every row is there once."""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from support.dml.checking import Refused
from support.feeds import Feed, rows_of
from support.sparks.running import family

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

STREAM = """
rows = spark.readStream.schema("id LONG, v STRING").option("maxFilesPerTrigger", 1).json({source!r})
rows = rows.dropDuplicates(["id"]).selectExpr("held(id) AS id", "v")
writer = rows.writeStream.format("delta").option("checkpointLocation", {checkpoint!r}).trigger(availableNow=True)
query = writer.start({table!r})
query.awaitTermination()
result = query.lastProgress["numInputRows"]
"""


@pytest.mark.soak  # the usual run has one killed together with the handler, below
def test_an_executor_is_killed_in_a_batch(cluster: Any, tmp_path: Path) -> None:
    spark: Any = None  # the query runs in the cluster's driver
    feed, table = Feed(spark, tmp_path / "feed"), tmp_path / "table"
    feed.put(rows_of(*range(20)), rows_of(*range(10, 30)))
    text = STREAM.format(source=str(feed.source), checkpoint=str(feed.checkpoint), table=str(table))
    cluster.both_executors()
    with cluster.latch() as inside:
        answer = cluster.begin(python=text)
        worker = inside(answer)
        assert worker is not None, "no task was held"
        cluster.kill(cluster.executor_of(worker))
    answer.get()
    assert cluster.sql(f"SELECT id FROM delta.`{table}` ORDER BY id") == [[n] for n in range(30)]
    history = cluster.sql(f"DESCRIBE HISTORY delta.`{table}`")
    assert len(history) == 2


CHANGELOG = """
import json

def rows(frame):
    return [[row._row_kind, row.k, row.v] for row in frame.collect()]

def events(frame):
    return [[row.key, row.value and json.loads(row.value)["op"]] for row in frame.collect()]

spark.sql(
    "CREATE TABLE delta.`{table}` (k BIGINT, v BIGINT) USING delta "
    "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
)
spark.sql("INSERT INTO delta.`{table}` SELECT id, 0 FROM range(0, 6, 1, 3)")
spark.sql("UPDATE delta.`{table}` SET v = k WHERE k < 3")
spark.sql("DELETE FROM delta.`{table}` WHERE k = 5")
batches = []
stream = spark.readStream.format("delta").option("readChangelog", True).option("startingVersion", 1)
writer = stream.load({table!r}).writeStream.foreachBatch(lambda batch, _: batches.extend(rows(batch)))
writer.trigger(availableNow=True).option("checkpointLocation", {checkpoint!r}).start().awaitTermination()
changelog = "SELECT * FROM table_changelog_by_path('{table}', 1) ORDER BY _commit_version, _ordinal"
sent = "SELECT * FROM table_debezium_by_path('{table}', 1, 'k')"
result = [rows(spark.sql(changelog)), batches, events(spark.sql(sent))]
"""


def test_changes_are_read_by_executors(cluster: Any, tmp_path: Path) -> None:
    cluster.both_executors()
    names = {"table": str(tmp_path / "table"), "checkpoint": str(tmp_path / "checkpoint")}
    changelog, streamed, events = cluster.run(CHANGELOG.format(**names))
    assert sorted(changelog[:6]) == [["+I", k, 0] for k in range(6)]
    pairs = [changelog[place : place + 2] for place in (6, 8, 10)]
    assert sorted(pairs) == sorted([["-U", k, 0], ["+U", k, k]] for k in range(3))
    assert changelog[12:] == [["-D", 5, 0]]
    assert streamed == changelog
    by_key = {key: [op for other, op in events if other == key] for key, _ in events}
    ops = {k: ["c", "u"] if k < 3 else ["c", "d", None] if k == 5 else ["c"] for k in range(6)}
    assert by_key == {f'{{"k":{k}}}': expected for k, expected in ops.items()}


EVENT_TIMES = """
from support.sparks.stream_scenarios import by_event_time
result = by_event_time(spark, {source!r}, {table!r}, {checkpoint!r}, files=3, rows=10)
"""


@pytest.mark.soak  # the usual run has it in one process and over Spark Connect
def test_no_row_is_late_on_executors(cluster: Any, tmp_path: Path) -> None:
    """Executors drop the rows of a file that another micro-batch has, by the times that its plan brings them."""
    cluster.both_executors()
    given = {name: str(tmp_path / name) for name in ("source", "table", "checkpoint")}
    batches, late, found = cluster.run(EVENT_TIMES.format(**given))
    assert (late, found) == (0, 30)
    assert batches >= 3


#: What a batch whose handler or executors are killed may end with.
_ENDS = ("DELTA_COMMIT_NOT_MADE", "HEADWATER_HANDLER_LOST", "HEADWATER_HANDLER_ENDED_AT_START", "Job aborted")
THROUGH = """
rows = spark.readStream.format("delta").option("maxFilesPerTrigger", 1).load({source!r}).selectExpr("{id} AS id")
writer = rows.writeStream.format("delta").option("checkpointLocation", {checkpoint!r}).trigger(availableNow=True)
writer.start({table!r}).awaitTermination()
"""


def kill_handler(cluster: Any) -> None:
    """None may be there: the last one has been killed just now."""
    for pid, command in family(cluster.driver):
        if "-m headwater.handler" in command:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def through(cluster: Any, tmp_path: Path, batches: int, identity: str = "id") -> tuple[str, Path]:
    """A stream of so many batches, from a table with a row in each file to another table; its text and that table."""
    source, table = tmp_path / "source", tmp_path / "table"
    cluster.sql(f"CREATE TABLE delta.`{source}` USING delta AS SELECT id FROM range(0, {batches}, 1, {batches})")
    checkpoint = str(tmp_path / "checkpoint")
    return THROUGH.format(source=str(source), checkpoint=checkpoint, table=str(table), id=identity), table


def check(cluster: Any, table: Path, batches: int) -> None:
    assert cluster.sql(f"SELECT id FROM delta.`{table}` ORDER BY id") == [[n] for n in range(batches)]
    assert len(cluster.sql(f"DESCRIBE HISTORY delta.`{table}`")) == batches


def test_the_handler_and_an_executor_are_killed_while_a_batch_runs(cluster: Any, tmp_path: Path) -> None:
    text, table = through(cluster, tmp_path, 2, "held(id)")
    cluster.both_executors()
    with cluster.latch() as inside:
        answer = cluster.begin(python=text)
        worker = inside(answer)
        assert worker is not None, "no task was held"
        kill_handler(cluster)
        cluster.kill(cluster.executor_of(worker))
    answer.get()
    check(cluster, table, 2)


@pytest.mark.soak
def test_all_executors_are_killed_at_each_step(cluster: Any, tmp_path: Path) -> None:
    """While the end of a batch or its files are looked for, before and after its job, and around its commit."""
    steps = [f"end_of_{call}" for call in ("stream_end", "stream_files")]
    steps += ["before_write", "after_write", "before_put", "after_put", "end_of_write_batch"]
    text, table = through(cluster, tmp_path, len(steps) + 1)
    with ExitStack() as holding:
        held = holding.enter_context(cluster.faults.hold_at(steps[0]))
        answer = cluster.begin(python=text)
        for following in [*steps[1:], None]:
            cluster.wait_for(held, "the handler to get there")
            for executor in cluster.executors():
                cluster.kill(executor)
            go_on = holding.pop_all()
            if following is not None:
                held = holding.enter_context(cluster.faults.hold_at(following))
            go_on.close()
    answer.get()
    check(cluster, table, len(steps) + 1)


@pytest.mark.soak
def test_killed_at_random_in_300_batches(cluster: Any, tmp_path: Path) -> None:
    """An executor or the handler; a run that fails, as its commit was not made, is started again."""
    text, table = through(cluster, tmp_path, 300)
    chance, killed = random.Random(14), 0
    while True:
        answer = cluster.begin(python=text)
        while not answer.is_there:
            time.sleep(chance.uniform(1, 5))
            if chance.random() < 0.7:
                for executor in cluster.executors()[:1]:
                    cluster.kill(executor)
            else:
                kill_handler(cluster)
            killed += 1
        try:
            answer.get()
            break
        except Refused as error:
            if not any(condition in str(error) for condition in _ENDS):
                raise
    assert killed >= 10
    check(cluster, table, 300)
