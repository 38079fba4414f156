"""The handler killed with SIGKILL: a statement succeeds or fails, never half, and the next one works."""

from __future__ import annotations

import os
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.covering("file")]


@pytest.fixture
def table(classic: Any) -> Iterator[str]:
    """A table with one row."""
    name = f"crash_{uuid.uuid4().hex[:8]}"
    classic.rows(f"CREATE TABLE {name} USING delta AS SELECT 0L AS a")
    yield name
    classic.rows(f"DROP TABLE {name}")


def test_killed_while_idle(classic: Any, table: str) -> None:
    before, said = classic.handler, len(classic.log)
    os.kill(before, signal.SIGKILL)
    assert classic.rows(f"SELECT * FROM {table}") == [[0]]
    after = classic.handler
    assert after != before
    assert len(classic.handlers) == 1
    os.kill(after, signal.SIGKILL)
    classic.rows(f"INSERT INTO {table} VALUES (1)")
    assert classic.rows(f"SELECT count(*) FROM {table}") == [[2]]
    assert_for_operators(classic.log[said:])


@pytest.mark.parametrize(
    ("point", "condition"),
    [
        ("before_write", None),  # nothing done yet: run again
        ("after_write", None),  # files written, nothing committed: run again
        pytest.param("before_begin", None, marks=pytest.mark.soak),
        ("before_put", "DELTA_COMMIT_NOT_MADE"),  # about to commit, and did not
        ("after_put", None),  # committed, nobody told yet
        ("end_of_write", None),  # committed, checkpoint and all, and the answer on its way
    ],
)
def test_killed_in_an_insert(classic: Any, table: str, point: str, condition: str | None) -> None:
    said = len(classic.log)
    classic.faults.kill_at(point)
    found = classic.sql(f"INSERT INTO {table} SELECT id + 1 FROM range(3)")
    assert classic.faults.happened(point)
    assert found.get("condition") == condition, found
    rows = 1 if condition else 4
    assert classic.rows(f"SELECT count(*), max(a) FROM {table}") == [[rows, rows - 1]]
    assert len(classic.rows(f"DESCRIBE HISTORY {table}")) == (1 if condition else 2)
    classic.rows(f"INSERT INTO {table} VALUES (9)")
    assert classic.rows(f"SELECT count(*) FROM {table}") == [[rows + 1]]
    assert "ended during" in classic.log[said:]
    assert_for_operators(classic.log[said:])


def assert_for_operators(log: str) -> None:
    """Spark's log says what happened without the frames of the bridge."""
    assert "Traceback" not in log
    assert "py4j" not in log.lower(), log


@pytest.mark.parametrize(
    ("point", "condition"),
    [
        pytest.param("after_write", None, marks=pytest.mark.soak),  # as an INSERT's
        ("before_put", "DELTA_COMMIT_NOT_MADE"),
        ("after_put", None),
        pytest.param("end_of_create_table", None, marks=pytest.mark.soak),
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


UPDATE = "UPDATE {} SET a = a + 10 WHERE a >= 0"
ALTER = "ALTER TABLE {} SET TBLPROPERTIES ('x' = 'y')"


@pytest.mark.parametrize(
    ("statement", "then"),
    [
        pytest.param(UPDATE, "start", marks=pytest.mark.soak),
        pytest.param(UPDATE, "end_of_recover_commit", marks=pytest.mark.soak),
        ("INSERT INTO {} VALUES (1)", "start"),
        (ALTER, "end_of_recover_commit"),
    ],
)
def test_what_is_committed_says_so_though_the_next_handler_dies_too(
    classic: Any, table: str, statement: str, then: str
) -> None:
    """Killed after its commit, and again while it is asked, or before it can be, what became of that."""
    for point in ("after_put", then):
        classic.faults.kill_at(point)
    found = classic.sql(statement.format(table))
    assert "rows" in found, found
    assert classic.faults.happened("after_put")
    assert classic.faults.happened(then)
    assert len(classic.rows(f"DESCRIBE HISTORY {table}")) == 2


# A handler that dies while it is asked is in the test above.
@pytest.mark.parametrize("then", ["start", pytest.param("end_of_recover_commit", marks=pytest.mark.soak)])
def test_what_may_be_committed_names_its_version(classic: Any, table: str, then: str) -> None:
    """Where nobody can be asked, the error says which version to look for."""
    classic.faults.kill_at("after_put")
    classic.faults.kill_always(then)
    found = classic.sql(UPDATE.format(table))
    classic.faults.spare(then)
    assert (found["condition"], found["state"]) == ("HEADWATER_COMMIT_MAY_STAND", "08007"), found
    named = found["parameters"]
    assert named["version"] == "1"
    assert f'"{named["txnId"]}"' in Path(named["path"]).read_text()
    assert classic.rows(f"SELECT * FROM {table}") == [[10]]


def test_killed_while_answering_a_read(classic: Any, table: str) -> None:
    calls = ("load_table", "refresh_tables", "scans", "describe_history", "parse")
    points = [f"end_of_{call}" for call in calls]
    for point in points:
        classic.faults.kill_at(point)
    assert classic.rows(f"SELECT a FROM {table}") == [[0]]
    assert len(classic.rows(f"DESCRIBE HISTORY {table}")) == 1
    for point in points:
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


def test_what_was_not_committed_is_not_left_behind(classic: Any, tmp_path: Path) -> None:
    table = f"delta.`{tmp_path}/t`"
    classic.rows(f"CREATE TABLE {table} USING delta AS SELECT 0L AS a")

    def data_files() -> int:
        return len(list((tmp_path / "t").glob("*.parquet")))

    for point in ("after_write", "before_begin", "before_put", "after_put"):
        classic.faults.kill_at(point)
        before = classic.rows(f"SELECT count(*) FROM {table}")[0][0]
        files = data_files()
        classic.sql(f"INSERT INTO {table} VALUES (1)")
        assert data_files() - files == classic.rows(f"SELECT count(*) FROM {table}")[0][0] - before
    files = data_files()
    failing = f"INSERT INTO {table} SELECT IF(id > 1, 1 DIV (id - 2), id) FROM range(0, 3, 1, 3)"
    assert classic.sql(failing)["condition"] == "DIVIDE_BY_ZERO"
    assert data_files() == files
    commits = sorted(p.name for p in (tmp_path / "t" / "_delta_log").glob("*.json"))
    assert commits == [f"{v:020d}.json" for v in range(len(commits))]
