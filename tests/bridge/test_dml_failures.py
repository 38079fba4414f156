"""DELETE, UPDATE and MERGE that fail at one step or another: the table is as before or as after, never between.

A handler that dies before its commit is replaced and the statement runs again; after its commit the statement answers
as if nothing had happened, with its counts.
"""

from __future__ import annotations

import time
import uuid
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.covering("file")]

SOURCE = "(SELECT * FROM VALUES (1L, -1), (5L, -5), (50L, -50) AS s(id, v)) s"
BEFORE = [[i, 0] for i in range(8)]
#: Statement, its answer, and the table's rows after it.
STATEMENTS: dict[str, tuple[str, list[int], list[list[int]]]] = {
    "delete": (
        "DELETE FROM {t} WHERE id % 4 = 1",
        [2],
        [row for row in BEFORE if row[0] % 4 != 1],
    ),
    "update": (
        "UPDATE {t} SET v = -id WHERE id % 4 = 1",
        [2],
        [[i, -i if i % 4 == 1 else 0] for i in range(8)],
    ),
    "merge": (
        f"MERGE INTO {{t}} t USING {SOURCE} ON t.id = s.id WHEN MATCHED THEN UPDATE SET * "
        "WHEN NOT MATCHED THEN INSERT *",
        [3, 2, 0, 1],
        [*([i, -i if i % 4 == 1 else 0] for i in range(8)), [50, -50]],
    ),
}


class Table:
    """Two files of four rows each, with change data, with deletion vectors or without."""

    def __init__(self, driver: Any, path: Path, vectors: bool) -> None:
        self.driver, self.path, self.name = driver, path, f"delta.`{path}`"
        driver.rows(
            f"CREATE TABLE {self.name} (id BIGINT, v INT) USING delta TBLPROPERTIES "
            f"('delta.enableDeletionVectors' = '{vectors}', 'delta.enableChangeDataFeed' = 'true')"
        )
        driver.rows(f"INSERT INTO {self.name} SELECT id, 0 FROM range(0, 8, 1, 2)")

    def run(self, sql: str) -> dict[str, Any]:
        return self.driver.sql(sql.replace("{t}", self.name))

    @property
    def rows(self) -> list[list[Any]]:
        return self.driver.rows(f"SELECT * FROM {self.name} ORDER BY id")

    @property
    def versions(self) -> int:
        return len(list((self.path / "_delta_log").glob("*[0-9].json")))

    def files(self) -> set[Path]:
        return {p for p in self.path.rglob("*") if p.is_file() and "_delta_log" not in p.parts and p.name[0] != "."}


@pytest.fixture(params=[False, True], ids=["copy", "vectors"])
def table(request: pytest.FixtureRequest, classic: Any, tmp_path: Path) -> Table:
    return Table(classic, tmp_path / uuid.uuid4().hex[:8], request.param)


@pytest.mark.covering
@pytest.mark.parametrize(
    ("statement", "point"),
    [
        ("delete", "before_job"),
        ("merge", "after_job"),
        ("update", "before_vectors"),
        ("merge", "after_write"),  # after the copy of the rows that stay
        ("update", "after_put"),
        ("merge", "end_of_merge"),
        # Each a step between two of the above, or one of them in another statement.
        pytest.param("delete", "after_vectors", marks=pytest.mark.soak),
        pytest.param("update", "before_begin", marks=pytest.mark.soak),
        pytest.param("delete", "after_put", marks=pytest.mark.soak),
        pytest.param("merge", "after_put", marks=pytest.mark.soak),
        pytest.param("delete", "end_of_delete", marks=pytest.mark.soak),
    ],
)
def test_the_statement_is_done_once(classic: Any, table: Table, statement: str, point: str) -> None:
    sql, answer, after = STATEMENTS[statement]
    classic.faults.kill_at(point)
    found = table.run(sql)
    assert found.get("rows") == [answer], found
    if not classic.faults.happened(point):
        (classic.faults.folder / point).unlink()  # a step of the other way to rewrite
        assert point in ("before_vectors", "after_vectors", "after_write")
    assert table.rows == after
    assert table.versions == 3
    told = classic.rows(f"SELECT count(*) FROM table_changes_by_path('{table.path}', 2, 2)")
    assert told == [[{"delete": 2, "update": 4, "merge": 5}[statement]]]
    assert table.run("DELETE FROM {t} WHERE id = 0")["rows"] == [[1]]


@pytest.mark.covering
@pytest.mark.parametrize("statement", STATEMENTS)
def test_killed_as_it_begins_to_commit(classic: Any, table: Table, statement: str) -> None:
    sql, answer, after = STATEMENTS[statement]
    classic.faults.kill_at("before_put")
    found = table.run(sql)
    assert (found["condition"], found["state"]) == ("DELTA_COMMIT_NOT_MADE", "40000"), found
    assert (table.rows, table.versions) == (BEFORE, 2)
    assert table.run(sql)["rows"] == [answer]
    assert (table.rows, table.versions) == (after, 3)


@pytest.mark.covering
@pytest.mark.parametrize("point", ["before_put", "before_vectors", "before_job"])
def test_no_space_for_the_handler(classic: Any, table: Table, point: str) -> None:
    sql, answer, after = STATEMENTS["update"]
    files = table.files()
    classic.faults.fill_at(point)
    found = table.run(sql)
    pending = classic.faults.folder / f"{point}.full"
    if pending.exists():  # no deletion vectors here
        pending.unlink()
        assert point == "before_vectors"
        return
    assert "No space left on device" in found["text"], found
    assert "Traceback" not in found["text"]
    assert found["state"] is not None
    assert (table.rows, table.versions) == (BEFORE, 2)
    # Of a commit that failed it is not sure that it is not there: its files stay, and nothing refers to them.
    assert table.files() >= files if point == "before_put" else table.files() == files
    assert table.run(sql)["rows"] == [answer]
    assert table.rows == after


def test_no_place_for_change_data(classic: Any, table: Table) -> None:
    """The tasks cannot write: what they had written is deleted."""
    files = table.files()
    (table.path / "_change_data").write_text("a file where a folder should be")
    for sql, _, _ in STATEMENTS.values():
        found = table.run(sql)
        if "rows" in found:  # a DELETE with deletion vectors needs no change data
            table.run("INSERT INTO {t} VALUES (1, 0), (5, 0)")
            files = table.files() - {table.path / "_change_data"}
            continue
        assert "[TASK_WRITE_FAILED]" in found["text"], found
        assert table.files() - {table.path / "_change_data"} == files
    assert table.rows == BEFORE
    (table.path / "_change_data").unlink()
    assert table.run(STATEMENTS["update"][0])["rows"] == [[2]]


ENDLESS = "(SELECT id % 8 AS id, 1 AS v FROM range(0, 1000000000000000, 1, 2) WHERE sqrt(id) < 0)"


@pytest.mark.covering
@pytest.mark.parametrize(
    "sql",
    [
        f"MERGE INTO {{t}} t USING {ENDLESS} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v",
        f"UPDATE {{t}} SET v = 1 WHERE id IN (SELECT id FROM {ENDLESS})",
        f"DELETE FROM {{t}} WHERE id = (SELECT max(id) FROM {ENDLESS})",
    ],
)
def test_cancelled(classic: Any, table: Table, sql: str) -> None:
    handler, files = classic.handler, table.files()
    found = classic.run("cancel_job_group", text=sql.replace("{t}", table.name), after=0.5)
    assert found["seconds"] < 30
    assert "cancelled" in found["text"].lower(), found
    assert (table.rows, table.versions) == (BEFORE, 2)
    until = time.monotonic() + 30
    while table.files() != files and time.monotonic() < until:
        time.sleep(0.02)
    assert table.files() == files
    assert classic.run("active_jobs") == 0
    assert classic.handler == handler
    assert table.run("DELETE FROM {t} WHERE id = 3")["rows"] == [[1]]
