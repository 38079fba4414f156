"""A Spark's handler, or its JVM, killed with SIGKILL at random moments of VACUUM, DROP FEATURE, the backfill of row
tracking, RESTORE, and of what builds and drops key indexes.

After each kill, the table has the rows of before or after, all its files are there, and the same statement run again
does what it promises. How many rounds says :mod:`kills`.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from headwater.key_index.definition import indexes
from headwater.key_index.segments import coverage
from headwater.log.snapshot import Snapshot, load_snapshot
from headwater.protocol.features import supported_features
from headwater.stores import LocalStore, absolute_path
from support.faults.kills import OF_THE_HANDLER, OF_THE_JVM, after_a_dead_jvm, kill_within
from support.sparks.running import Driver, Sparks

Rows = list[tuple[int, int]]
FILES = 24
#: Some that the table has, and some that it has not.
_KEYS = (1, 2, 5, 77, 1003, 1100, 9999)
_SETTINGS = {
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    "spark.databricks.delta.optimize.minFileSize": "1",
}


def _files(path: Path) -> set[str]:
    return {file.name for file in path.glob("*.parquet")}


def _live(path: Path) -> set[str]:
    snapshot = load_snapshot(str(path), LocalStore())
    return {Path(absolute_path(str(path), name)).name for name in snapshot.select(["path"])["path"].to_pylist()}


@dataclass(frozen=True)
class Case:
    """A statement about ``{t}``; the version whose rows it brings; what holds once it has run to its end; and the
    condition by which a second run may say that the first one was done.
    """

    statement: str
    done: Callable[[Path, Snapshot], bool]
    rows_of: int | None = None
    already: str | None = None
    prepared: str | None = None


def _is_indexed(_: Path, snapshot: Snapshot) -> bool:
    return any(coverage(snapshot, index).files == snapshot.num_files for index in indexes(snapshot.definition))


CASES = {
    "VACUUM": Case("VACUUM {t} RETAIN 0 HOURS", lambda path, _: _files(path) == _live(path)),
    "DROP FEATURE": Case(
        "ALTER TABLE {t} DROP FEATURE deletionVectors",
        lambda _, snapshot: "deletionVectors" not in supported_features(snapshot.protocol),
        already="DELTA_FEATURE_DROP_FEATURE_NOT_PRESENT",
    ),
    "backfill": Case(
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')",
        lambda _, snapshot: None not in snapshot.files["base_row_id"].to_pylist(),
    ),
    "REFRESH INDEX": Case(
        "REFRESH INDEX by_k ON {t}",
        _is_indexed,
        prepared="ALTER TABLE {t} SET TBLPROPERTIES ('headwater.index.by_k.columns' = 'k')",
    ),
    "DROP INDEX": Case(
        "DROP INDEX by_k ON {t}",
        lambda path, snapshot: not indexes(snapshot.definition),
        already="HEADWATER_INDEX_NOT_FOUND",
        prepared="CREATE INDEX by_k ON {t} (k)",
    ),
    "RESTORE": Case("RESTORE TABLE {t} TO VERSION AS OF 1", lambda _, snapshot: snapshot.num_files == FILES, rows_of=1),
}


class Story:
    """Copies of one table, each for one kill."""

    def __init__(self, home: Path, case: Case) -> None:
        self.home, self.case, self.number = home, case, 0
        self.template = home / "template"

    def make(self, driver: Driver) -> None:
        """Some files with deleted rows, some that the table has left."""
        t = f"delta.`{self.template}`"
        driver.rows(
            f"CREATE TABLE {t} (k INT, v INT) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
        )
        driver.rows(f"INSERT INTO {t} SELECT /*+ REPARTITION({FILES}) */ id, id * 7 FROM range({FILES * 20})")
        driver.rows(f"DELETE FROM {t} WHERE k % 5 = 0")
        driver.rows(f"OPTIMIZE {t}")
        driver.rows(f"INSERT INTO {t} SELECT /*+ REPARTITION({FILES}) */ id, 1 FROM range(1000, {1000 + FILES * 20})")
        driver.rows(f"UPDATE {t} SET v = v + 1 WHERE k % 7 = 0")
        driver.rows(f"DELETE FROM {t} WHERE k % 11 = 0")
        if self.case.prepared is not None:
            driver.rows(self.case.prepared.replace("{t}", t))
        self.before = self.rows(driver, t)
        version = self.case.rows_of
        self.after = self.before if version is None else self.rows(driver, f"{t} VERSION AS OF {version}")

    def rows(self, driver: Driver, table: str) -> Rows:
        found = sorted((k, v) for k, v in driver.rows(f"SELECT k, v FROM {table}"))
        some = [(k, v) for k, v in found if k in _KEYS]
        keys = ", ".join(map(str, _KEYS))
        assert sorted((k, v) for k, v in driver.rows(f"SELECT k, v FROM {table} WHERE k IN ({keys})")) == some
        return found

    def begin(self, driver: Driver) -> None:
        """The statement begins over a fresh copy."""
        for key, value in _SETTINGS.items():
            driver.rows(f"SET {key} = {value}")
        self.number += 1
        self.path = self.home / f"t{self.number}"
        shutil.copytree(self.template, self.path)
        driver.ask("sql", text=self.text)

    @property
    def text(self) -> str:
        return self.case.statement.replace("{t}", f"delta.`{self.path}`")

    def check(self, driver: Driver, succeeded: bool) -> str:
        """What must hold now, and after one more run; whether the kill came before the statement or after it."""
        assert _live(self.path) <= _files(self.path), "a live file is not there"
        found = self.rows(driver, f"delta.`{self.path}`")
        assert found in (self.before, self.after)
        assert not succeeded or found == self.after
        was_done = self.case.done(self.path, load_snapshot(str(self.path), LocalStore()))
        for key, value in _SETTINGS.items():
            driver.rows(f"SET {key} = {value}")
        driver.ask("sql", text=self.text)
        again = driver.answer()
        assert "rows" in again or (was_done and again["condition"] == self.case.already), again
        assert self.rows(driver, f"delta.`{self.path}`") == self.after
        assert _live(self.path) <= _files(self.path)
        assert self.case.done(self.path, load_snapshot(str(self.path), LocalStore()))
        shutil.rmtree(self.path)
        return "done" if was_done else "not done"


@pytest.mark.spark
@pytest.mark.random
@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", CASES)
def test_a_killed_statement_can_be_run_again(tmp_path: Path, capfd: Any, name: str) -> None:
    sparks, chance, outcomes = Sparks(tmp_path), random.Random(f"kill {name}"), Counter[str]()
    story = Story(tmp_path, CASES[name])

    try:
        driver = sparks.driver()
        story.make(driver)
        for _ in range(2):
            story.begin(driver)
            found = driver.answer()
            longest = found["seconds"]
            assert story.check(driver, succeeded=True) == "done"
        for _ in range(4 * OF_THE_HANDLER):
            handler = driver.handler
            story.begin(driver)
            kill_within(handler, longest, chance)
            found = driver.answer()
            state = story.check(driver, succeeded="rows" in found)
            outcomes[f"handler killed, {found.get('condition', 'succeeded')}, {state}"] += 1
        for _ in range(3 * OF_THE_JVM):
            handler = driver.handler
            story.begin(driver)
            kill_within(driver.jvm, longest, chance)
            driver = after_a_dead_jvm(sparks, driver, handler)
            outcomes[f"JVM killed, {story.check(driver, succeeded=False)}"] += 1
    finally:
        sparks.stop()
    with capfd.disabled():
        print(f"\n{name}: {dict(outcomes)}")
