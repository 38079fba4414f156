"""The handler of a Spark, and the JVM itself, killed with SIGKILL at random moments of writes with a quarantine table.

Whatever is told, both tables have the rows of a write or none has. How many rounds says :mod:`kills`.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from support.faults.kills import OF_THE_HANDLER, OF_THE_JVM, after_a_dead_jvm, kill_within
from support.sparks.running import Sparks

#: What a statement may be told whose handler died: that it did nothing, or that nobody knows.
_LOST = {"DELTA_COMMIT_NOT_MADE", "HEADWATER_HANDLER_LOST"}


class Writes:
    """Two tables, and the writes that are in both."""

    def __init__(self, home: Path) -> None:
        self.table, self.bad = f"delta.`{home}/t`", f"delta.`{home}/bad`"
        self.number = 0
        self.there: set[int] = set()

    def create(self, driver: Any) -> None:
        driver.rows(
            f"CREATE TABLE {self.bad} (id INT, n INT, quarantine_reason ARRAY<STRING>, quarantine_time TIMESTAMP, "
            "quarantine_source STRUCT<table: STRING, operation: STRING>) USING delta "
            "TBLPROPERTIES ('headwater.quarantine' = 'true')"
        )
        driver.rows(f"CREATE TABLE {self.table} (id INT, n INT) USING delta")
        expectation = f"EXPECT (n >= 0) ON VIOLATION QUARANTINE INTO {self.bad}"
        driver.rows(f"ALTER TABLE {self.table} ADD CONSTRAINT c {expectation}")

    def ask(self, driver: Any) -> None:
        """A write of a good and a bad row, by INSERT or MERGE in turn."""
        self.number += 1
        source = f"SELECT {self.number} AS id, n FROM VALUES (1), (-1) AS s(n)"
        merge = f"MERGE INTO {self.table} t USING ({source}) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *"
        driver.ask("sql", text=merge if self.number % 2 else f"INSERT INTO {self.table} {source}")

    def check(self, driver: Any) -> bool:
        """Whether the last write is in both tables; each of the others is where it was."""
        good, bad = (Counter(row[0] for row in driver.rows(f"SELECT id FROM {t}")) for t in (self.table, self.bad))
        assert good == bad
        assert set(good.values()) <= {1}
        if self.number in good:
            self.there.add(self.number)
        assert set(good) == self.there
        return self.number in good


@pytest.mark.spark
@pytest.mark.random
@pytest.mark.slow
@pytest.mark.soak  # test_commits_beside.py has a fault at each call of the store
def test_both_tables_of_killed_writes(tmp_path: Path, capfd: Any) -> None:
    sparks, chance, outcomes = Sparks(tmp_path), random.Random(11), Counter[str]()
    writes = Writes(tmp_path)
    try:
        driver = sparks.driver()
        writes.create(driver)
        for _ in range(2):
            writes.ask(driver)
            longest = driver.answer()["seconds"]
            assert writes.check(driver)
        for _ in range(4 * OF_THE_HANDLER):
            handler = driver.handler
            writes.ask(driver)
            kill_within(handler, longest, chance)
            found = driver.answer()
            is_there = writes.check(driver)
            assert "rows" not in found or is_there
            assert "rows" in found or found["condition"] not in _LOST or not is_there
            outcomes[f"handler killed, {found.get('condition', 'done')}, {'there' if is_there else 'not there'}"] += 1
        for _ in range(2 * OF_THE_JVM):
            handler = driver.handler
            writes.ask(driver)
            kill_within(driver.jvm, longest, chance)
            driver = after_a_dead_jvm(sparks, driver, handler)
            outcomes[f"JVM killed, {'there' if writes.check(driver) else 'not there'}"] += 1
    finally:
        sparks.stop()
    with capfd.disabled():
        print(f"\n{dict(outcomes)}")
