"""Two drivers of ours upsert the same keys, with deletions, while the peer appends, deletes and compacts in the table.

What must hold: of each key, the table has the newest event that a driver was told of; the peer's rows are as it left
them; a statement of ours either counts whole or says that it conflicts.
"""

from __future__ import annotations

import os
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.sparks.running import Sparks

SECONDS = float(os.environ.get("HEADWATER_TEST_SECONDS", "30"))
KEYS = 12
_UPSERT = (
    "INSERT INTO delta.`{path}` WITH (idCols = 'k', sequenceBy = 'at', deleteWhen = 'gone', exceptColumns = 'gone') "
    "BY NAME SELECT * FROM VALUES {rows} AS t(k, at, who, gone)"
)
_PEERS = 1_000_000  # the peer's keys begin here


class Events:
    """The events that drivers were told are in the table."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sequence = 0
        self.newest: dict[int, tuple[int, str, bool]] = {}
        self.outcomes = Counter[str]()

    def drawn(self, chance: random.Random, who: str) -> list[tuple[int, int, str, bool]]:
        """Some events, some of them late: older than what is in the table perhaps."""
        with self._lock:
            self._sequence += 40
            keys = chance.sample(range(KEYS), chance.randint(1, 4))
            return [(key, max(1, self._sequence - chance.randrange(120)), who, chance.random() < 0.3) for key in keys]

    def told(self, events: list[tuple[int, int, str, bool]]) -> None:
        with self._lock:
            for key, at, who, gone in events:
                # Two events of one sequence: the first one stays.
                if key not in self.newest or self.newest[key][0] < at:
                    self.newest[key] = at, who, gone

    @property
    def rows(self) -> list[tuple[int, int]]:
        return sorted((key, at) for key, (at, _, gone) in self.newest.items() if not gone)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.random
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("vectors", [True, False], ids=["vectors", "copied"])
def test_upserts_of_two_drivers_beside_the_peer(peer: Any, tmp_path: Path, capfd: Any, vectors: bool) -> None:
    sparks, events = Sparks(tmp_path), Events()
    path, until = tmp_path / "t", 0.0
    kept: set[int] = set()
    failures: list[str] = []

    def upserts(number: int, driver: Any) -> None:
        # Each driver has sequences of its own: which of two equal ones came first, nobody is told.
        chance, who = random.Random(number), f"driver {number}"
        while time.monotonic() < until and not failures:
            batch = [(key, 2 * at + number, name, gone) for key, at, name, gone in events.drawn(chance, who)]
            rows = ", ".join(f"({k}, {at}, '{name}', {str(gone).lower()})" for k, at, name, gone in batch)
            driver.ask("sql", text=_UPSERT.format(path=path, rows=rows))
            found = driver.answer()
            outcome = "upserted" if "rows" in found else str(found["condition"])
            events.outcomes[outcome] += 1
            if "rows" in found:
                events.told(batch)
            elif not outcome.startswith("DELTA_CONCURRENT"):
                failures.append(str(found))

    def others() -> None:
        chance, key = random.Random("peer"), _PEERS
        while time.monotonic() < until and not failures:
            action = chance.choice(["append", "append", "delete", "optimize"])
            key += 1
            gone = chance.choice(sorted(kept)) if kept and action == "delete" else None
            text = {
                "append": f"INSERT INTO delta.`{path}` VALUES ({key}, 0, 'peer')",
                "delete": f"DELETE FROM delta.`{path}` WHERE k = {gone}",
                "optimize": f"OPTIMIZE delta.`{path}`",
            }[action]
            try:
                peer.sql(text)
            except Exception as error:
                # After OPTIMIZE of the same file at once: its statement was not done.
                named = re.search(r"\[(DELTA_CONCURRENT_\w+|DELTA_\w+)", str(error))
                events.outcomes[f"peer: {named[1] if named else error}"] += 1
                continue
            events.outcomes[f"peer: {action}"] += 1
            if action == "append":
                kept.add(key)
            elif gone is not None:
                kept.discard(gone)

    try:
        drivers = [sparks.driver(), sparks.driver()]
        properties = f"'delta.enableDeletionVectors' = '{str(vectors).lower()}'"
        drivers[0].rows(
            f"CREATE TABLE delta.`{path}` (k INT, at INT, who STRING) USING delta TBLPROPERTIES ({properties})"
        )
        until = time.monotonic() + SECONDS
        work: list[Callable[[], None]] = [
            *(lambda number=number, driver=driver: upserts(number, driver) for number, driver in enumerate(drivers)),
            others,
        ]
        threads = [threading.Thread(target=each) for each in work]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures, failures
        found = [tuple(row) for row in drivers[1].rows(f"SELECT k, at FROM delta.`{path}` ORDER BY k")]
        assert [row for row in found if row[0] < _PEERS] == events.rows
        assert {k for k, _ in found if k >= _PEERS} == kept
        theirs = peer.table(path, "k, at")
        assert sorted(map(tuple, theirs)) == found
    finally:
        sparks.stop()
    with capfd.disabled():
        print(f"\n{dict(events.outcomes)}")
