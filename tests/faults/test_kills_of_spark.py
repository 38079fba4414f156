"""The handler of a Spark, and the JVM itself, killed with SIGKILL at random moments of UPDATE, MERGE and INSERT.

A Spark whose handler died goes on: the statement is done once, or fails with a clear error and is not there, and the
next one works. Of a Spark that died, the table is as before its statement or as after. How many rounds says
:mod:`kills`.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.concurrency import bank
from support.faults.kills import OF_THE_HANDLER, OF_THE_JVM, check
from support.sparks.running import Sparks, is_alive, wait_for

_MARKER = "spark.databricks.delta.commitInfo.userMetadata"
_SUMS = "SELECT count(account), sum(balance) FROM delta.`{}`"
#: What a statement may be told whose handler died: that it did nothing, or that nobody knows.
_LOST = {"DELTA_COMMIT_NOT_MADE", "HEADWATER_HANDLER_LOST"}


@pytest.fixture(scope="module")
def sparks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sparks]:
    """Starts Sparks in processes of their own."""
    started = Sparks(tmp_path_factory.mktemp("sparks"))
    yield started
    started.stop()


class Statements:
    """Statements on two banks, one with deletion vectors; each is asked for and answered apart."""

    def __init__(self, home: Path) -> None:
        self.paths = {str(home / "vectors"): True, str(home / "copies"): False}
        for path, vectors in self.paths.items():
            bank.create(path, vectors)
        self.diary_path = home / "diary"
        self.diary = bank.Diary(self.diary_path)
        self.chance = random.Random(9)
        self.number = 0
        self.longest = 1.0

    def ask(self, driver: Any) -> tuple[str, str, str]:
        """Have the driver run the next statement; its table, kind and marker."""
        self.number += 1
        path, marker = self.chance.choice(list(self.paths)), f"spark{self.number}-1"
        kind = self.chance.choice(["update", "merge", "insert"])
        transfer = None if kind == "insert" else bank.Transfer.drawn(self.chance)
        driver.rows(f"SET {_MARKER} = {marker}")
        self.diary.tries(path, f"spark {kind}", marker, transfer)
        driver.ask("sql", text=bank.statement(kind, path, marker, transfer))
        return path, f"spark {kind}", marker

    def warm_up(self, driver: Any) -> None:
        """Run some undisturbed; how long the last one took is how long one takes."""
        for _ in range(3):
            path, kind, marker = self.ask(driver)
            found = driver.answer()
            assert "rows" in found, found
            self.diary.acknowledged(path, kind, marker)
            self.longest = found["seconds"]

    def check(self, outcomes: Counter[str]) -> None:
        for path, vectors in self.paths.items():
            notes = bank.read_diary(self.diary_path)
            outcomes[f"{Path(path).name} untold"] = check(path, [n for n in notes if n["table"] == path], vectors)

    def kill_sometime(self, pid: int) -> None:
        """Kill a process at a moment within the time a statement takes, or shortly after."""
        time.sleep(self.chance.random() * self.longest * 1.1)
        os.kill(pid, signal.SIGKILL)


@pytest.mark.alone
@pytest.mark.spark
@pytest.mark.random
@pytest.mark.slow
def test_handler_and_jvm_killed_at_random(sparks: Any, tmp_path: Path, capfd: Any) -> None:
    statements, outcomes = Statements(tmp_path), Counter[str]()
    driver = sparks.driver()
    statements.warm_up(driver)
    for _ in range(OF_THE_HANDLER):
        handler = driver.handler
        path, kind, marker = statements.ask(driver)
        statements.kill_sometime(handler)
        found = driver.answer()
        if "rows" in found:
            statements.diary.acknowledged(path, kind, marker)
            outcomes["handler killed, statement done"] += 1
        else:
            assert found["condition"] in _LOST, found
            assert "Traceback" not in found["text"]
            if found["condition"] == "DELTA_COMMIT_NOT_MADE":
                statements.diary.conflict(path, kind, marker, "DELTA_COMMIT_NOT_MADE")
            outcomes[f"handler killed, {found['condition']}"] += 1
        for table in statements.paths:
            assert driver.rows(_SUMS.format(table)) == [[bank.ACCOUNTS, bank.TOTAL]]
        assert driver.handler != handler
        statements.check(outcomes)
    for number in range(OF_THE_JVM):
        if number:
            driver = sparks.driver()
            statements.warm_up(driver)
        handler = driver.handler
        statements.ask(driver)
        statements.kill_sometime(driver.jvm)
        wait_for(lambda gone=handler: not is_alive(gone), 60, "the handler's end after its JVM's")
        driver.stop()
        statements.check(outcomes)
        outcomes["JVM killed"] += 1
    with capfd.disabled():
        print(f"\n{dict(outcomes)}")
