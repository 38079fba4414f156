"""Maintenance statements of ours and of the peer's among DML and ALTER TABLE: rows, row ids, changes and history of
every version that is still retained are those of the model, read by us, by the peer and by delta-rs.

All of it is of the long run: short stories of the same seeds every time, and new ones for ``HEADWATER_TEST_SECONDS``;
a failure prints the seed and the statements. The usual run has such a story of ours alone in
tests/dml/test_maintenance_property.py, VACUUM in turn in test_vacuum_in_turn.py, what we compacted and purged in
test_others_read_ours.py, and the peer's RESTORE in test_changes.py.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.dml.engines import Headwater, rows_without_spark
from support.dml.maintaining import SETTINGS, Maintained, Other

SECONDS = os.environ.get("HEADWATER_TEST_SECONDS")


@pytest.fixture
def tell(spark: Any, peer: Any, settings: Any, tmp_path: Path) -> Iterator[Callable[[int, int], None]]:
    """``tell(seed, steps)``: a story."""
    for name, value in SETTINGS.items():
        peer.sql(f"SET {name} = {value}")

    def run(seed: int, steps: int) -> None:
        with settings(SETTINGS):
            story = Maintained(Headwater(spark), tmp_path / str(seed), seed, [Other(peer.sql)], rows_without_spark)
            for _ in range(steps):
                story.step()
            story.end()

    yield run
    for name in SETTINGS:
        peer.sql(f"RESET {name}")


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.parametrize(("seed", "steps"), [(1, 10), (6, 6)])
def test_maintenance_changes_nothing(tell: Any, seed: int, steps: int) -> None:
    tell(seed, steps)


@pytest.mark.spark
@pytest.mark.soak
@pytest.mark.timeout(36_000)
def test_long_stories_of_maintenance(tell: Any) -> None:
    until = time.monotonic() + float(SECONDS or 60)
    while time.monotonic() < until:
        seed = random.randrange(10**9)
        print(f"seed {seed}")
        tell(seed, 40)
