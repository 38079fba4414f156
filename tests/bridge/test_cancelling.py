"""A cancelled statement ends its Spark jobs, leaves the table as it was and the handler fit for the next."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from headwater.log.snapshot import load_snapshot
from headwater.stores import LocalStore

pytestmark = [pytest.mark.spark, pytest.mark.covering("file")]

#: Takes as long as it is let, writes nothing, and hears of its cancellation.
ENDLESS = "SELECT id FROM range(0, 1000000000000000, 1, 2) WHERE sqrt(id) < 0"


def data_files(path: Path) -> int:
    return len(list(path.rglob("*.parquet"))) if path.exists() else 0


def settles(path: Path, files: int) -> bool:
    """Whether the cancelled tasks, which end after their job, take their files along."""
    until = time.monotonic() + 30
    while data_files(path) != files and time.monotonic() < until:
        time.sleep(0.02)
    return data_files(path) == files


def check(driver: Any, path: Path, cancel: Callable[[str], dict[str, Any]], condition: str) -> None:
    """Cancel a CREATE AS and an INSERT; nothing came of them, and the same table can be made then."""
    table = f"delta.`{path}`"
    created = cancel(f"CREATE TABLE {table} USING delta AS {ENDLESS}")
    assert f"[{condition}]" in created["text"], created
    assert created["seconds"] < 30
    assert not list(path.glob("_delta_log/*.json"))
    assert settles(path, 0)
    driver.rows(f"CREATE TABLE {table} USING delta AS SELECT 7L AS id")
    files = data_files(path)
    inserted = cancel(f"INSERT INTO {table} {ENDLESS}")
    assert f"[{condition}]" in inserted["text"], inserted
    assert driver.rows(f"SELECT * FROM {table}") == [[7]]
    assert len(driver.rows(f"DESCRIBE HISTORY {table}")) == 1
    assert settles(path, files)
    driver.rows(f"INSERT INTO {table} VALUES (8)")
    assert driver.rows(f"SELECT count(*) FROM {table}") == [[2]]


def test_job_group(classic: Any, tmp_path: Path) -> None:
    handler = classic.handler
    check(
        classic,
        tmp_path / "t",
        lambda text: classic.run("cancel_job_group", text=text, after=0.5),
        "SPARK_JOB_CANCELLED",  # which PySpark has no class of its own for, whatever was cancelled
    )
    assert classic.run("active_jobs") == 0
    assert classic.handler == handler


# Without a tag, all is interrupted: so is a statement of a busy handler, below.
@pytest.mark.parametrize("tag", ["mine", pytest.param(None, marks=pytest.mark.soak)])
def test_connect_interrupt(connect: Any, connect_server: Any, tmp_path: Path, tag: str | None) -> None:
    connect.rows("SELECT * FROM range(3)")
    handler = connect_server.handler
    check(
        connect,
        tmp_path / "t",
        lambda text: connect.run("interrupt", text=text, tag=tag, after=3),
        "OPERATION_CANCELED",
    )
    assert connect_server.handler == handler


#: Where the handler is while the statement is interrupted, in its own work, and whether a commit may be under way.
PLACES = {"before_write": False, "before_job": False, "before_begin": False, "before_put": True, "after_put": True}


def interrupt_held(driver: Any, faults: Any, path: Path, how: str, place: str) -> tuple[dict[str, Any], int]:
    """Interrupt an UPDATE that the handler holds on to; how it ended, before the handler did, and how many versions
    there are once the handler went on."""
    table = f"delta.`{path}`"
    driver.rows(f"CREATE TABLE {table} USING delta AS SELECT 7L AS id")
    with faults.hold_at(place):
        held = str(faults.folder / f"{place}.waits")
        text = f"UPDATE {table} SET id = 8" if place != "before_write" else f"INSERT INTO {table} VALUES (8)"
        found = driver.run("interrupt_held", text=text, how=how, held=held)
    # The handler does one thing after the other for one connection; a statement after it sees what came of it.
    driver.rows(f"INSERT INTO {table} VALUES (9)")
    return found, len(driver.rows(f"DESCRIBE HISTORY {table}"))


@pytest.mark.parametrize("place", PLACES)
def test_interrupted_thread(classic: Any, tmp_path: Path, place: str) -> None:
    """It ends though the handler holds it: nothing is committed, or the error names the version that may be."""
    found, versions = interrupt_held(classic, classic.faults, tmp_path / "t", "thread", place)
    if place == "after_put":
        assert "rows" in found, found
    elif place == "before_put":
        assert found["condition"] == "HEADWATER_COMMIT_MAY_STAND", found
        assert found["parameters"]["version"] == "1"
    else:
        assert (found["condition"], found["state"]) == ("HEADWATER_STATEMENT_CANCELLED", "HY008"), found
        assert versions == 2
    assert found["seconds"] < 10  # two, of a machine that does nothing else


@pytest.mark.parametrize("how", ["tag", "all"])
@pytest.mark.parametrize("place", ["before_job", "before_begin", "after_put"])
def test_connect_interrupt_of_a_busy_handler(
    connect: Any, connect_server: Any, tmp_path: Path, how: str, place: str
) -> None:
    logged = len(connect_server.log)
    found, versions = interrupt_held(connect, connect_server.faults, tmp_path / "t", how, place)
    assert found["condition"] == "OPERATION_CANCELED", found
    if place == "after_put":  # of which Spark Connect tells its client nothing
        assert f"cancelled after it had committed version 1 of {tmp_path}/t" in connect_server.log[logged:]
        assert versions == 3
    else:
        assert versions == 2
    assert found["seconds"] < 10


@pytest.mark.soak  # the usual run interrupts a busy handler there, above
def test_connect_interrupt_before_the_commit(connect: Any, connect_server: Any, tmp_path: Path) -> None:
    """A statement interrupted while the handler is busy does not commit afterwards."""
    table = f"delta.`{tmp_path}/t`"
    connect.rows(f"CREATE TABLE {table} USING delta AS SELECT 7 AS id")
    hold = connect_server.faults.folder / "before_begin.wait"
    hold.touch()
    connect.ask("interrupt", text=f"INSERT INTO {table} VALUES (8)", tag="held", after=4)
    time.sleep(8)
    hold.unlink()
    assert connect.answer()["condition"] == "OPERATION_CANCELED"
    assert connect.rows(f"SELECT * FROM {table}") == [[7]]
    assert data_files(tmp_path / "t") == 1


def test_control_c_in_the_sql_shell(sparks: Any, tmp_path: Path, wait: Callable[..., float]) -> None:
    shell = sparks.shell("spark-sql", [])
    try:
        interrupt(shell, tmp_path, wait)
        end_with_a_compaction(shell, tmp_path / "due")
    finally:
        shell.stop()  # or a job that was not interrupted would run on beside all other tests


def enter_in(shell: Any, text: str) -> None:
    shell.process.stdin.write(text.encode() + b"\n")
    shell.process.stdin.flush()


def end_with_a_compaction(shell: Any, path: Path) -> None:
    """One that the last commit made due is waited for where an application ends."""
    enter_in(shell, "SET spark.databricks.delta.autoCompact.minNumFiles = 4;")
    enter_in(shell, f"CREATE TABLE delta.`{path}` (a INT) USING delta TBLPROPERTIES ('delta.autoOptimize' = 'true');")
    for number in range(4):
        enter_in(shell, f"INSERT INTO delta.`{path}` VALUES ({number});")
    shell.process.stdin.close()
    assert shell.process.wait(240) == 0, shell.log[-3000:]
    assert load_snapshot(str(path), LocalStore()).num_files == 1, shell.log[-3000:]


def interrupt(shell: Any, tmp_path: Path, wait: Callable[..., float]) -> None:
    table, enter = f"delta.`{tmp_path}/t`", partial(enter_in, shell)
    enter(f"CREATE TABLE {table} USING delta AS SELECT 7 AS id; SELECT 'ma' || 'de';")
    wait(lambda: "made" in shell.output, 180, "the table")
    handler = shell.handler
    enter(f"INSERT INTO {table} {ENDLESS};")
    wait(lambda: data_files(tmp_path / "t") > 1, 60, "the job of the INSERT")
    os.killpg(shell.process.pid, signal.SIGINT)
    enter(f"SELECT concat('rows ', count(*), ' of ', max(id)) FROM {table};")
    wait(lambda: "rows 1 of 7" in shell.output, 60, "the next statement")
    assert shell.handler == handler
    with shell.faults.hold_at("before_write") as held:
        enter(f"INSERT INTO {table} VALUES (99);")
        wait(held, 60, "the handler's own work")
        os.killpg(shell.process.pid, signal.SIGINT)
        enter(f"SELECT concat('still ', count(*), ' of ', max(id)) FROM {table};")
        wait(lambda: "still 1 of 7" in shell.output, 60, "the next statement")
    assert "HEADWATER_STATEMENT_CANCELLED" in shell.log + shell.output
    enter(f"INSERT INTO {table} VALUES (8); SELECT concat('rows ', count(*), ' of ', max(id)) FROM {table};")
    wait(lambda: "rows 2 of 8" in shell.output, 60, "an INSERT")
    assert "Traceback" not in shell.log
    # Spark logs where a write job failed, with every frame; what it tells the user has none of the bridge's.
    told = [line for line in shell.log.splitlines() if not line.startswith("\tat ")]
    assert "py4j" not in "".join(told).lower()
