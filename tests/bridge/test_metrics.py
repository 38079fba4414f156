"""What operators see of the handler in Spark's metrics system, as a Prometheus server scrapes it."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

import pytest

from headwater.basics import counts
from headwater.bridge.calls import EntryPoint
from support.monitoring import FILES, metrics_named
from support.paths import TESTS


def test_counts_go_along_with_answers() -> None:
    counts.take()
    point = EntryPoint(dict)
    assert "counted" not in json.loads(point.call("none", "{}", None))
    counts.count("commits")
    counts.count("commits", 2)
    counts.level("cachedTables", 7)
    assert json.loads(point.call("none", "{}", None))["counted"] == {
        "counts": {"commits": 3}, "levels": {"cachedTables": 7}
    }  # fmt: skip
    assert "counted" not in json.loads(point.call("none", "{}", None))


def test_every_name_has_a_meaning() -> None:
    """In the module, and in the documentation."""
    package = TESTS.parent / "python/headwater"
    texts = [file.read_text("utf-8") for file in package.rglob("*.py")]
    calls = [call for text in texts for call in re.findall(r"counts\.(?:count|level)\(.*", text)]
    used = {name for call in calls for name in re.findall(r'"(\w+)"', call)}
    assert used == counts.MEANINGS.keys()
    documented = (TESTS.parent / "docs/metrics.md").read_text("utf-8")
    assert [name for name in counts.MEANINGS if f"| `{name}` |" not in documented] == []
    assert counts.MEANINGS.keys() >= counts.LEVELS


@pytest.mark.spark
def test_a_scrape(classic, tmp_path: Path) -> None:
    table = f"delta.`{tmp_path}/t`"
    classic.rows(f"CREATE TABLE {table} (id INT) USING delta TBLPROPERTIES ('delta.checkpointInterval' = '2')")
    before = classic.run("scrape")
    for number in range(3):
        classic.rows(f"INSERT INTO {table} VALUES ({number})")
    classic.rows(f"SELECT count(*) FROM {table}")
    assert classic.sql(f"SELECT * FROM {table} VERSION AS OF 99")["condition"] == "DELTA_VERSION_NOT_FOUND"
    after = classic.run("scrape")
    # Levels are there once they are known; the cache on disk is off.
    named = {name for file in FILES for name in metrics_named(file) if not name.startswith("columnCacheBytes_")}
    assert named - after.keys() == set()
    risen = {name: after[name] - before.get(name, 0) for name in after}
    assert risen["commits_Count"] == 3
    assert risen["commitBytes_Count"] > 300
    assert risen["callErrors_Count"] >= 1
    assert risen["calls_Count"] >= 8
    assert after["calls_99thPercentile"] > 0
    assert risen["snapshotCacheHits_Count"] >= 1
    assert after["cachedTables_Value"] >= 1
    assert after["cachedFiles_Value"] >= 3
    starts = after["handlerStarts_Count"]
    os.kill(classic.handler, signal.SIGKILL)
    classic.rows(f"INSERT INTO {table} VALUES (9)")
    assert classic.run("scrape")["handlerStarts_Count"] == starts + 1
    assert classic.run("scrape")["commits_Count"] == after["commits_Count"] + 1
