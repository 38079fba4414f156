"""The handler of a Spark, and the JVM itself, killed with SIGKILL at random moments of COPY INTO.

All files of a statement are in the table, or none of them; the next statement loads what is missing. How many rounds
says :mod:`kills`.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from support.faults.kills import OF_THE_HANDLER, OF_THE_JVM, after_a_dead_jvm, kill_within
from support.sparks.running import Sparks

_FILES = 3


class Loads:
    """A table, its source, and the rows that there must be."""

    def __init__(self, home: Path) -> None:
        self.path, self.source = str(home / "t"), home / "source"
        self.source.mkdir()
        self.number = 0
        self.text = f"COPY INTO delta.`{self.path}` BY POSITION FROM '{self.source}' FILEFORMAT = CSV"

    def begin(self, driver: Any) -> None:
        """Have files arrive, and begin to load them."""
        self.number += 1
        for file in range(_FILES):
            (self.source / f"{self.number}-{file}.csv").write_text(f"{self.number}\n")
        driver.ask("sql", text=self.text)

    def check(self, driver: Any) -> bool:
        """Whether the files of the last statement were loaded; the next one loads what is missing."""
        found = self._rows(driver).get(self.number, 0)
        assert found in (0, _FILES)
        driver.ask("sql", text=self.text)
        assert driver.answer()["rows"] == [[_FILES - found, _FILES - found, 0]]
        assert self._rows(driver) == dict.fromkeys(range(1, self.number + 1), _FILES)
        return found > 0

    def _rows(self, driver: Any) -> dict[int, int]:
        return Counter(row[0] for row in driver.rows(f"SELECT n FROM delta.`{self.path}`"))


@pytest.mark.spark
@pytest.mark.random
@pytest.mark.slow
@pytest.mark.soak  # without a JVM: statements/writes/test_copy_into.py
def test_files_of_killed_statements(tmp_path: Path, capfd: Any) -> None:
    sparks, chance, outcomes = Sparks(tmp_path), random.Random(7), Counter[str]()
    loads = Loads(tmp_path)
    try:
        driver = sparks.driver()
        driver.rows(f"CREATE TABLE delta.`{loads.path}` (n INT) USING delta")
        for _ in range(2):
            loads.begin(driver)
            longest = driver.answer()["seconds"]
            assert loads.check(driver)
        for _ in range(3 * OF_THE_HANDLER):
            handler = driver.handler
            loads.begin(driver)
            kill_within(handler, longest, chance)
            found = driver.answer()
            is_there = loads.check(driver)
            assert "rows" not in found or is_there
            outcomes[f"handler killed, {found.get('condition', 'done')}, {'there' if is_there else 'not there'}"] += 1
        for _ in range(2 * OF_THE_JVM):
            handler = driver.handler
            loads.begin(driver)
            kill_within(driver.jvm, longest, chance)
            driver = after_a_dead_jvm(sparks, driver, handler)
            outcomes[f"JVM killed, {'there' if loads.check(driver) else 'not there'}"] += 1
    finally:
        sparks.stop()
    with capfd.disabled():
        print(f"\n{dict(outcomes)}")
