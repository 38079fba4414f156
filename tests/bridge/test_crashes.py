"""The handler killed with SIGKILL: a statement succeeds or fails, never half, and the next one works."""

from __future__ import annotations

import os
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.spark


@pytest.fixture
def table(classic: Any) -> Iterator[str]:
    """A table with one row."""
    name = f"crash_{uuid.uuid4().hex[:8]}"
    classic.rows(f"CREATE TABLE {name} USING delta AS SELECT 0L AS a")
    yield name
    classic.rows(f"DROP TABLE {name}")


def test_killed_while_idle(classic: Any, table: str) -> None:
    before = classic.handler
    os.kill(before, signal.SIGKILL)
    assert classic.rows(f"SELECT * FROM {table}") == [[0]]
    after = classic.handler
    assert after != before
    assert len(classic.handlers) == 1
    os.kill(after, signal.SIGKILL)
    classic.rows(f"INSERT INTO {table} VALUES (1)")
    assert classic.rows(f"SELECT count(*) FROM {table}") == [[2]]


@pytest.mark.parametrize(
    ("point", "condition"),
    [
        ("before_write", None),  # nothing done yet: run again
        ("after_write", None),  # files written, nothing committed: run again
        ("before_begin", None),
        ("before_put", "DELTA_COMMIT_NOT_MADE"),  # about to commit, and did not
        ("after_put", None),  # committed, nobody told yet
        ("end_of_write", None),  # committed, checkpoint and all, and the answer on its way
    ],
)
def test_killed_in_an_insert(classic: Any, table: str, point: str, condition: str | None) -> None:
    classic.faults.kill_at(point)
    found = classic.sql(f"INSERT INTO {table} SELECT id + 1 FROM range(3)")
    assert classic.faults.happened(point)
    assert found.get("condition") == condition, found
    rows = 1 if condition else 4
    assert classic.rows(f"SELECT count(*), max(a) FROM {table}") == [[rows, rows - 1]]
    assert len(classic.rows(f"DESCRIBE HISTORY {table}")) == (1 if condition else 2)
    classic.rows(f"INSERT INTO {table} VALUES (9)")
    assert classic.rows(f"SELECT count(*) FROM {table}") == [[rows + 1]]


@pytest.mark.parametrize(
    ("point", "condition"),
    [
        ("after_write", None),
        ("before_put", "DELTA_COMMIT_NOT_MADE"),
        ("after_put", None),
        ("end_of_create_table", None),
    ],
)
def test_killed_in_a_create_as_select(classic: Any, point: str, condition: str | None) -> None:
    name = f"crash_{uuid.uuid4().hex[:8]}"
    statement = f"CREATE TABLE {name} USING delta AS SELECT id FROM range(3)"
    classic.faults.kill_at(point)
    found = classic.sql(statement)
    assert classic.faults.happened(point)
    assert found.get("condition") == condition, found
    if condition:
        assert classic.sql(f"SELECT * FROM {name}")["condition"] == "TABLE_OR_VIEW_NOT_FOUND"
        classic.rows(statement)
    assert classic.rows(f"SELECT count(*) FROM {name}") == [[3]]
    assert len(classic.rows(f"DESCRIBE HISTORY {name}")) == 1
    classic.rows(f"DROP TABLE {name}")


def test_killed_while_answering_a_read(classic: Any, table: str) -> None:
    for point in ("end_of_load_table", "end_of_scan", "end_of_describe_history", "end_of_parse"):
        classic.faults.kill_at(point)
    assert classic.rows(f"SELECT a FROM {table}") == [[0]]
    assert len(classic.rows(f"DESCRIBE HISTORY {table}")) == 1
    for point in ("end_of_load_table", "end_of_scan", "end_of_describe_history", "end_of_parse"):
        assert classic.faults.happened(point)


def test_killed_again_and_again(classic: Any, table: str) -> None:
    """A statement that kills every handler it gets fails, and others go on."""
    before = classic.handler
    classic.faults.kill_always("end_of_load_table")
    found = classic.sql(f"SELECT a FROM {table}")
    classic.faults.spare("end_of_load_table")
    assert (found["condition"], found["state"]) == ("HEADWATER_HANDLER_LOST", "58000"), found
    assert classic.rows(f"SELECT a FROM {table}") == [[0]]
    assert classic.handler != before


def test_the_log_of_it_has_no_traceback(classic: Any, table: str) -> None:
    os.kill(classic.handler, signal.SIGKILL)
    classic.rows(f"SELECT * FROM {table}")
    assert "Traceback" not in classic.log
    assert "py4j" not in classic.log.lower(), classic.log
    assert "ended during" in classic.log


def test_nothing_is_left_in_the_log_directory(classic: Any, table: str) -> None:
    for point in ("before_put", "after_put"):
        classic.faults.kill_at(point)
        classic.sql(f"INSERT INTO {table} VALUES (1)")
    location = classic.rows(f"DESCRIBE DETAIL {table}")[0]
    folder = next(Path(str(v).removeprefix("file:")) for v in location if str(v).removeprefix("file:").endswith(f"/{table}"))
    commits = sorted(p.name for p in (folder / "_delta_log").glob("*.json"))
    assert commits == [f"{v:020d}.json" for v in range(len(commits))]
