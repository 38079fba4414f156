"""Spark's declarative pipelines over our tables: real runs of ``spark-pipelines``, against a Spark Connect server."""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from headwater import launch
from support.processes import environment
from support.sessions import java_options

SECONDS = int(os.environ.get("HEADWATER_TEST_SECONDS", "60"))
pytestmark = [pytest.mark.spark, pytest.mark.slow]

_SPEC = """
name: {name}
storage: file://{home}/storage
database: {name}
configuration:
  spark.sql.sources.default: delta
libraries:
  - glob:
      include: definitions/**
"""
#: A table that a key's newest event makes, late ones and deletes among them.
_CHANGES = """
from pyspark import pipelines as dp
from pyspark.sql import functions as F

@dp.table
def events():
    return spark.readStream.schema("id LONG, seq LONG, gone BOOLEAN, v STRING{more}").json("{home}/events")

dp.create_streaming_table("target", comment="newest", table_properties={{"delta.enableDeletionVectors": "true"}})
dp.create_auto_cdc_flow(
    target="target", source="events", keys=["id"], sequence_by="seq",
    apply_as_deletes=F.col("gone"), except_column_list=["gone"],
)

@dp.materialized_view(partition_cols=["v"])
def counts():
    return spark.read.table("target").groupBy("v").count()
"""
_FLOWS = """
from pyspark import pipelines as dp

dp.create_streaming_table("both", cluster_by=["id"], schema="id LONG, part STRING", format="delta")

@dp.append_flow(target="both")
def seen():
    return spark.readStream.table("events").selectExpr("id", "v AS part")

@dp.append_flow(target="both")
def ended():
    return spark.readStream.table("events").where("gone").selectExpr("id", "'gone' AS part")

dp.create_sink("out", "delta", {{"path": "{home}/sink"}})

@dp.append_flow(target="out")
def to_sink():
    return spark.readStream.table("both")
"""


class Pipeline:
    """A pipeline's files, and its runs."""

    def __init__(self, home: Path, port: int) -> None:
        self.home = home
        self.name = f"p_{home.name}"
        self.port = port
        (home / "definitions").mkdir()
        (home / "events").mkdir()
        (home / "spark-pipeline.yml").write_text(_SPEC.format(name=self.name, home=home))
        self.events: list[dict[str, Any]] = []

    def define(self, name: str, text: str, **values: str) -> None:
        (self.home / "definitions" / name).write_text(text.format(home=self.home, **values))

    def send(self, *events: dict[str, Any]) -> None:
        """One more file of events."""
        self.events += events
        lines = "".join(json.dumps(event) + "\n" for event in events)
        (self.home / "events" / f"{len(self.events):06}.json").write_text(lines)

    def newest(self) -> list[list[Any]]:
        """What the events leave: the newest of each key, unless it deletes."""
        last = {event["id"]: event for event in sorted(self.events, key=lambda event: event["seq"])}
        return sorted([key, event["seq"], event["v"]] for key, event in last.items() if not event["gone"])

    def start(self, command: str = "run", *arguments: str) -> subprocess.CompletedProcess[str]:
        home = launch.spark_home()
        remote = ["--remote", f"sc://127.0.0.1:{self.port}"]
        return subprocess.run(
            [str(home / "bin" / "spark-pipelines"), *remote, command, *arguments],
            env=environment(SPARK_HOME=str(home), SPARK_SUBMIT_OPTS=java_options()), cwd=self.home, capture_output=True, text=True, timeout=500,
        )  # fmt: skip

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
        {"id": draw.randrange(keys), "seq": number, "gone": draw.random() < 0.3, "v": draw.choice("abc")}
        for number in numbers
    ]


def history(connect: Any, table: str) -> list[tuple[str, dict[str, str]]]:
    """Operation and metrics of each version, the newest first."""
    return [(row[4], row[12]) for row in connect.rows(f"DESCRIBE HISTORY {table}")]


def detail(connect: Any, table: str) -> dict[str, Any]:
    names = [
        "format",
        "id",
        "name",
        "description",
        "location",
        "createdAt",
        "lastModified",
        "partitionColumns",
        "clusteringColumns",
    ]
    return dict(zip(names, connect.rows(f"DESCRIBE DETAIL {table}")[0], strict=False))


def test_runs_go_on_with_deletes_and_late_events(pipeline: Pipeline, connect: Any) -> None:
    pipeline.define("changes.py", _CHANGES, more="")
    pipeline.define("flows.py", _FLOWS)
    name, draw = pipeline.name, random.Random(15)
    events = drawn(draw, 0, 40, keys=16)
    late, events = events[:4], events[4:]
    pipeline.send(*events)
    pipeline.run()
    assert connect.rows(f"SELECT id, seq, v FROM {name}.target ORDER BY id") == pipeline.newest()
    pipeline.send(*late, *drawn(draw, 40, 8, keys=4))
    pipeline.run()
    newest = pipeline.newest()
    assert connect.rows(f"SELECT id, seq, v FROM {name}.target ORDER BY id") == newest
    values = [v for _, _, v in newest]
    assert connect.rows(f"SELECT v, count FROM {name}.counts ORDER BY v") == [
        [v, values.count(v)] for v in sorted(set(values))
    ]
    both = sorted(
        [[event["id"], event["v"]] for event in pipeline.events]
        + [[event["id"], "gone"] for event in pipeline.events if event["gone"]]
    )
    assert connect.rows(f"SELECT id, part FROM {name}.both ORDER BY ALL") == both
    assert connect.rows(f"SELECT id, part FROM delta.`{pipeline.home}/sink` ORDER BY ALL") == both
    # The rows were changed by our rewrites, and the tables are what was declared.
    merges = [metrics for operation, metrics in history(connect, f"{name}.target") if operation == "MERGE"]
    assert len(merges) == 2
    assert merges[0]["numTargetDeletionVectorsAdded"] == "1"
    assert detail(connect, f"{name}.target")["description"] == "newest"
    assert detail(connect, f"{name}.counts")["partitionColumns"] == ["v"]
    assert detail(connect, f"{name}.both")["clusteringColumns"] == ["id"]


@pytest.mark.soak
def test_long_stories(pipeline: Pipeline, connect: Any) -> None:
    """Runs, refreshes and new columns in any order: the tables are always what all events leave."""
    pipeline.define("changes.py", _CHANGES, more="")
    name, draw = pipeline.name, random.Random()
    print(f"seed {(seed := draw.randrange(2**32))}")
    draw.seed(seed)
    assert pipeline.start("dry-run").returncode == 0
    assert connect.rows(f"SHOW TABLES IN {name}") == []
    until, sent, columns, late = time.monotonic() + SECONDS, 0, 0, []
    while time.monotonic() < until:
        events = drawn(draw, sent, 20, keys=12)
        sent += 20
        pipeline.send(*late, *events[5:])
        late = events[:5]
        arguments = draw.choice([[], [], ["--full-refresh", "events,target"], ["--full-refresh-all"], ["new column"]])
        if arguments == ["new column"]:
            columns, arguments = columns + 1, []
            more = "".join(f", more{number} STRING" for number in range(columns))
            pipeline.define("changes.py", _CHANGES, more=more)
        pipeline.run(*arguments)
        newest = pipeline.newest()
        assert connect.rows(f"SELECT id, seq, v FROM {name}.target ORDER BY id") == newest
        assert len(connect.rows(f"DESCRIBE {name}.target")) == 4 + columns
        values = [v for _, _, v in newest]
        counted = [[v, values.count(v)] for v in sorted(set(values))]
        assert connect.rows(f"SELECT v, count FROM {name}.counts ORDER BY v") == counted
