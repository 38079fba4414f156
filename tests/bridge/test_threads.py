"""Many threads and sessions share the handler, and none leaves anything behind."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.spark

#: Seconds the threads work; HEADWATER_TEST_SECONDS=60 for the long run.
SECONDS = float(os.environ.get("HEADWATER_TEST_SECONDS", "5"))


# The usual run has eight threads that upsert, in tests/concurrency/test_upserts.py, and threads that end, below.
@pytest.mark.soak
def test_mixed_statements_from_32_threads(sparks: Any) -> None:
    driver = sparks.driver(settings={"spark.databricks.delta.properties.defaults.checkpointInterval": "10"})
    found = driver.run("together", threads=32, sessions=4, seconds=SECONDS)
    print(f"\n{found['statements']} statements from 32 threads in {SECONDS:.0f} s")
    assert found["problems"] == []
    assert found["total"] == found["appended"] > 0
    assert len(driver.handlers) == 1
    assert "Traceback" not in driver.log
    driver.stop()


def test_short_lived_threads_leave_nothing_behind(classic: Any) -> None:
    """As in Spark Connect, where every statement has a thread of its own. Nor does the handler's memory grow."""
    classic.rows("CREATE OR REPLACE TABLE leak USING delta AS SELECT 1 AS a")
    statement = "SELECT * FROM leak WHERE a = 1"
    assert classic.run("in_new_threads", text=statement, times=20) == []
    before, memory_before = used(classic), resident(classic)
    assert classic.run("in_new_threads", text=statement, times=60) == []
    # A statement that fails leaves no more than one that works.
    assert len(classic.run("in_new_threads", text="SELECT * FROM leak VERSION AS OF 7", times=20)) == 20
    after, memory_after = used(classic), resident(classic)
    print(f"\nbefore {before}, after 80 more statements {after}")
    for kind, count in after.items():
        assert count <= before[kind] + 8, (before, after)
    assert memory_after < memory_before + 50


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_long_life(sparks: Any, capfd: Any) -> None:
    """A driver runs a thousand mixed statements while a hundred streams come and go; it is then as after the first
    few hundred, and its tables are what the statements made of them.
    """
    driver = sparks.driver(settings={"spark.databricks.delta.properties.defaults.checkpointInterval": "10"})
    seen = []
    for number in range(5):
        found = driver.run("long_life", part=number, statements=200, streams=20)
        assert found == {"problems": [], "rows": found["expected"], "expected": found["expected"]}, found
        seen.append(used(driver) | memory(driver))
    with capfd.disabled():
        print("\n" + "\n".join(map(str, seen)))
    first, last = seen[1], seen[-1]
    for kind in ("threads", "files", "statements"):
        assert last[kind] <= first[kind] + 12, seen
    assert last["handler MB"] <= first["handler MB"] + 30, seen
    assert last["JVM's live MB"] <= first["JVM's live MB"] + 30, seen
    driver.stop()


def memory(driver: Any) -> dict[str, int]:
    """What the handler has, and the live objects of the JVM, in MB; the JVM has collected all garbage before."""
    histogram = subprocess.run(
        ["jcmd", str(driver.jvm), "GC.class_histogram"], capture_output=True, text=True, check=True
    ).stdout
    return {"handler MB": resident(driver), "JVM's live MB": int(histogram.split()[-1]) >> 20}


def resident(driver: Any) -> int:
    """The handler's memory, in MB."""
    status = Path(f"/proc/{driver.handler}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) // 1024


def used(driver: Any) -> dict[str, int]:
    """What a leak would show in: threads and sockets of the handler, statements the JVM still holds."""
    handler = driver.handler
    tasks = Path(f"/proc/{handler}/task")
    if not tasks.exists() or shutil.which("jcmd") is None:
        pytest.skip("needs /proc and a JDK")
    time.sleep(3)  # the handler tells of what it dropped once a second
    histogram = subprocess.run(
        ["jcmd", str(driver.jvm), "GC.class_histogram"], capture_output=True, text=True, check=True
    ).stdout
    name = "headwater.spark.bridge.StatementContext"
    held = [line.split() for line in histogram.splitlines() if line.rstrip().endswith(name)]
    return {
        "threads": len(list(tasks.iterdir())),
        "files": len(list(Path(f"/proc/{handler}/fd").iterdir())),
        "statements": sum(int(columns[1]) for columns in held),
    }
