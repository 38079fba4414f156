"""Maintenance among DML and ALTER TABLE, held to a model, with delta-rs as a second reader where it knows the table.

One short story of the same seed every time; ``HEADWATER_TEST_SECONDS`` asks for new ones for so long, and a failure
prints the seed and the statements. The same
beside the peer: ``tests/interop/test_maintenance_beside_peer.py``.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path
from typing import Any

import pytest

from support.dml.engines import Headwater, rows_without_spark
from support.dml.maintaining import SETTINGS, Maintained

SECONDS = float(os.environ.get("HEADWATER_TEST_SECONDS", "60"))


def _tell(spark: Any, settings: Any, home: Path, seed: int, steps: int) -> None:
    with settings(SETTINGS):
        story = Maintained(Headwater(spark), home / str(seed), seed, by_arrow=rows_without_spark)
        for _ in range(steps):
            story.step()
        story.end()


@pytest.mark.spark
@pytest.mark.slow
def test_maintenance_changes_nothing(spark: Any, settings: Any, tmp_path: Path) -> None:
    _tell(spark, settings, tmp_path, seed=1, steps=4)


@pytest.mark.spark
@pytest.mark.soak
@pytest.mark.timeout(36_000)
def test_long_stories_of_maintenance(spark: Any, settings: Any, tmp_path: Path) -> None:
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        _tell(spark, settings, tmp_path, random.randrange(10**9), 60)
