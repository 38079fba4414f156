"""The handler of a Spark, and the JVM itself, killed with SIGKILL at random moments of upserts that delete.

Of each batch the table's log says whether it is in the table. Late events of the keys that it was to delete then lose,
or come as if there had been no such batch. How many rounds says :mod:`kills`.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from headwater.stores import LocalStore
from support.faults.kills import OF_THE_HANDLER, OF_THE_JVM, after_a_dead_jvm, kill_within
from support.faults.scenario import read_commits
from support.sparks.running import Sparks

_MARKER = "spark.databricks.delta.commitInfo.userMetadata"
_OPTIONS = "idCols = 'k', sequenceBy = 'at', deleteWhen = 'gone', exceptColumns = 'gone'"


class Upserts:
    """A table, its keys, and what became of each batch."""

    def __init__(self, path: Path, stored_as: str) -> None:
        self.path, self.stored_as = str(path), stored_as
        self.number = 0
        #: The rows that there must be: of each key its sequence.
        self.expected: dict[int, int] = {}

    def ask(self, driver: Any, marker: str, *rows: tuple[int, int, bool]) -> None:
        driver.rows(f"SET {_MARKER} = {marker}")
        given = ", ".join(f"({k}, {at}, {str(gone).lower()})" for k, at, gone in rows)
        options = f"{_OPTIONS}, storedAs = '{self.stored_as}'"
        text = (
            f"INSERT INTO delta.`{self.path}` WITH ({options}) BY NAME SELECT * FROM VALUES {given} AS t(k, at, gone)"
        )
        driver.ask("sql", text=text)

    def begin(self, driver: Any) -> int:
        """Delete a key that is there and one that is not, and insert one; the batch's number."""
        self.number += 1
        first = 10 * self.number
        self.run(driver, f"row{self.number}", (first, 1, False))
        self.expected[first] = 1
        self.ask(driver, f"batch{self.number}", (first, 20, True), (first + 1, 20, True), (first + 2, 20, False))
        return self.number

    def run(self, driver: Any, marker: str, *rows: tuple[int, int, bool]) -> float:
        self.ask(driver, marker, *rows)
        found = driver.answer()
        assert "rows" in found, found
        seconds: float = found["seconds"]
        return seconds

    def check(self, driver: Any, number: int) -> bool:
        """What comes late, and the rows then; whether the batch is in the table."""
        commits = read_commits(LocalStore(), self.path).values()
        infos = [action["commitInfo"] for actions in commits for action in actions if "commitInfo" in action]
        is_there = any(info.get("userMetadata") == f"batch{number}" for info in infos)
        first = 10 * number
        self.run(driver, f"late{number}", (first, 15, False), (first + 1, 15, False))
        if is_there:
            del self.expected[first]
            self.expected[first + 2] = 20
        else:
            self.expected |= {first: 15, first + 1: 15}
        current = " WHERE __END_AT IS NULL" if self.stored_as == "scd2" else ""
        rows = driver.rows(f"SELECT k, at FROM delta.`{self.path}`{current}")
        assert sorted(map(tuple, rows)) == sorted(self.expected.items())
        return is_there


@pytest.mark.spark
@pytest.mark.random
@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.parametrize("stored_as", ["scd1", "scd2"])
def test_deletions_of_killed_upserts(tmp_path: Path, capfd: Any, stored_as: str) -> None:
    sparks, chance, outcomes = Sparks(tmp_path), random.Random(7), Counter[str]()
    upserts = Upserts(tmp_path / "t", stored_as)

    try:
        driver = sparks.driver()
        history = ", __START_AT INT, __END_AT INT" if stored_as == "scd2" else ""
        driver.rows(f"CREATE TABLE delta.`{upserts.path}` (k INT, at INT{history}) USING delta")
        for _ in range(2):
            number = upserts.begin(driver)
            longest = driver.answer()["seconds"]
            assert upserts.check(driver, number)
        for _ in range(3 * OF_THE_HANDLER):
            handler = driver.handler
            number = upserts.begin(driver)
            kill_within(handler, longest, chance)
            found = driver.answer()
            is_there = upserts.check(driver, number)
            assert "rows" not in found or is_there
            outcomes[f"handler killed, {found.get('condition', 'done')}, {'there' if is_there else 'not there'}"] += 1
        for _ in range(2 * OF_THE_JVM):
            handler = driver.handler
            number = upserts.begin(driver)
            kill_within(driver.jvm, longest, chance)
            driver = after_a_dead_jvm(sparks, driver, handler)
            outcomes[f"JVM killed, {'there' if upserts.check(driver, number) else 'not there'}"] += 1
    finally:
        sparks.stop()
    with capfd.disabled():
        print(f"\n{stored_as}: {dict(outcomes)}")
