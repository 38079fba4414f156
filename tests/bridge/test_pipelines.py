"""Spark's declarative pipelines over our tables: README's, by real runs of ``spark-pipelines`` against a Spark Connect
server."""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from headwater.cli import launch
from support.documents import indented
from support.processes import environment
from support.sessions import java_options

SECONDS = int(os.environ.get("HEADWATER_TEST_SECONDS", "60"))
pytestmark = [pytest.mark.spark, pytest.mark.slow]

_FLOWS = """
from pyspark import pipelines as dp

dp.create_streaming_table("both", cluster_by=["sensor"], schema="sensor INT, part STRING", format="delta")

@dp.append_flow(target="both")
def seen():
    return spark.readStream.table("events").selectExpr("sensor", "string(celsius) AS part")

@dp.append_flow(target="both")
def ended():
    return spark.readStream.table("events").where("removed").selectExpr("sensor", "'gone' AS part")

dp.create_sink("out", "delta", {{"path": "{home}/sink"}})

@dp.append_flow(target="out")
def to_sink():
    return spark.readStream.table("both")

@dp.table(table_properties={{"headwater.expect.cool": '{{"condition": "celsius < 30", "onViolation": "DROP ROW"}}'}})
def cool():
    return spark.readStream.table("events").select("sensor", "celsius")
"""
_EXPECTING = """
CREATE STREAMING TABLE known (sensor INT, celsius DOUBLE, CONSTRAINT known EXPECT (sensor < 12) ON VIOLATION DROP ROW)
AS SELECT sensor, celsius FROM STREAM events;
CREATE MATERIALIZED VIEW mild (sensor INT, celsius DOUBLE, CONSTRAINT mild EXPECT (celsius < 20) ON VIOLATION DROP ROW)
AS SELECT sensor, celsius FROM events;
"""


class Pipeline:
    """A pipeline's files, and its runs."""

    def __init__(self, home: Path, port: int) -> None:
        self.home = home
        self.name = f"p_{home.name}"
        self.port = port
        (home / "transformations").mkdir()
        (home / "events").mkdir()
        (home / "spark-pipeline.yml").write_text(f"{self._readme('name: ')}database: {self.name}\n")
        self.documented = self._readme("from pyspark import pipelines")
        self.define("sensors.py", self.documented)
        self.events: list[dict[str, Any]] = []

    def _readme(self, starts_with: str) -> str:
        """README's indented block that starts so, below this home."""
        return indented(starts_with).replace("/tmp/", f"{self.home}/")

    def define(self, name: str, text: str) -> None:
        (self.home / "transformations" / name).write_text(text)

    def send(self, *events: dict[str, Any]) -> None:
        """One more file of events."""
        self.events += events
        lines = "".join(json.dumps(event) + "\n" for event in events)
        (self.home / "events" / f"{len(self.events):06}.json").write_text(lines)

    def newest(self) -> list[list[Any]]:
        """What the events leave: the newest of each key, unless it deletes."""
        last = {event["sensor"]: event for event in sorted(self.events, key=lambda event: event["at"])}
        return sorted([key, event["at"], event["celsius"]] for key, event in last.items() if not event["removed"])

    def start(self, command: str = "run", *arguments: str) -> subprocess.CompletedProcess[str]:
        home = launch.spark_home()
        remote = ["--remote", f"sc://127.0.0.1:{self.port}"]
        return subprocess.run(
            [str(home / "bin" / "spark-pipelines"), *remote, command, *arguments],
            env=environment(SPARK_HOME=str(home), SPARK_SUBMIT_OPTS=java_options()),
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=500,
        )

    def run(self, *arguments: str) -> None:
        """Run it to its end."""
        ended = self.start("run", *arguments)
        assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]
        assert "Run is COMPLETED" in ended.stdout + ended.stderr


@pytest.fixture
def pipeline(tmp_path: Path, connect_server: Any, connect: Any) -> Pipeline:
    made = Pipeline(tmp_path, connect_server.port)
    connect.rows(f"CREATE DATABASE {made.name}")
    return made


def drawn(draw: random.Random, first: int, count: int, keys: int) -> list[dict[str, Any]]:
    """Events of so many keys, each with a number of its own, in no order."""
    numbers = list(range(first, first + count))
    draw.shuffle(numbers)
    return [
        {"sensor": draw.randrange(keys), "at": number, "celsius": draw.randrange(40), "removed": draw.random() < 0.3}
        for number in numbers
    ]


def history(connect: Any, table: str) -> list[tuple[str, dict[str, str]]]:
    """Operation and metrics of each version, the newest first."""
    return [(row[4], row[12]) for row in connect.rows(f"DESCRIBE HISTORY {table}")]


def clustering(connect: Any, table: str) -> list[str]:
    return connect.rows(f"DESCRIBE DETAIL {table}")[0][8]


def check(pipeline: Pipeline, connect: Any) -> None:
    """Its tables are what the events leave."""
    newest, columns = pipeline.newest(), "sensor, at, celsius"
    assert connect.rows(f"SELECT {columns} FROM {pipeline.name}.latest ORDER BY sensor") == newest
    warm = [row for row in newest if row[2] > 20]
    assert connect.rows(f"SELECT {columns} FROM {pipeline.name}.warm ORDER BY sensor") == warm


def test_runs_go_on_with_deletes_and_late_events(pipeline: Pipeline, connect: Any) -> None:
    pipeline.define("flows.py", _FLOWS.format(home=pipeline.home))
    pipeline.define("known.sql", _EXPECTING)
    name, draw = pipeline.name, random.Random(15)
    events = drawn(draw, 0, 40, keys=16)
    pipeline.send(*events[4:])
    pipeline.run()
    check(pipeline, connect)
    pipeline.send(*events[:4], *drawn(draw, 40, 8, keys=4))
    pipeline.run()
    check(pipeline, connect)
    both = sorted(
        [[event["sensor"], str(float(event["celsius"]))] for event in pipeline.events]
        + [[event["sensor"], "gone"] for event in pipeline.events if event["removed"]]
    )
    assert connect.rows(f"SELECT sensor, part FROM {name}.both ORDER BY ALL") == both
    assert connect.rows(f"SELECT sensor, part FROM delta.`{pipeline.home}/sink` ORDER BY ALL") == both
    # The rows were changed by our rewrites, and the tables are what was declared.
    merges = [metrics for operation, metrics in history(connect, f"{name}.latest") if operation == "MERGE"]
    assert len(merges) == 2
    assert merges[0]["numTargetDeletionVectorsAdded"] == "1"
    assert clustering(connect, f"{name}.both") == ["sensor"]
    for table, kept in (
        ("cool", lambda event: event["celsius"] < 30),
        ("known", lambda event: event["sensor"] < 12),
        ("mild", lambda event: event["celsius"] < 20),
    ):
        rows = sorted([event["sensor"], event["celsius"]] for event in pipeline.events if kept(event))
        assert connect.rows(f"SELECT sensor, celsius FROM {name}.{table} ORDER BY ALL") == rows
        metrics = [found for _, found in history(connect, f"{name}.{table}")]
        assert any(int(each.get("numRowsDroppedByExpectations", 0)) for each in metrics)


@pytest.mark.soak
def test_long_stories(pipeline: Pipeline, connect: Any) -> None:
    """Runs, refreshes and new columns in any order: the tables are always what all events leave."""
    name, draw = pipeline.name, random.Random()
    print(f"seed {(seed := draw.randrange(2**32))}")
    draw.seed(seed)
    pipeline.send({"sensor": 99, "at": -1, "celsius": 1, "removed": False})
    assert pipeline.start("dry-run").returncode == 0
    assert connect.rows(f"SHOW TABLES IN {name}") == []
    late: list[Any] = []
    until, sent, columns = time.monotonic() + SECONDS, 0, 0
    while time.monotonic() < until:
        events = drawn(draw, sent, 20, keys=12)
        sent += 20
        pipeline.send(*late, *events[5:])
        late = events[:5]
        step = draw.choice(["run", "run", "--full-refresh events,latest", "--full-refresh-all", "new column"])
        if step == "new column":
            columns += 1
            more = "".join(f", more{number} STRING" for number in range(columns))
            pipeline.define("sensors.py", pipeline.documented.replace("BOOLEAN", f"BOOLEAN{more}"))
        pipeline.run(*(step.split() if step.startswith("--") else []))
        check(pipeline, connect)
        assert len(connect.rows(f"SHOW COLUMNS IN {name}.latest")) == 4 + columns
