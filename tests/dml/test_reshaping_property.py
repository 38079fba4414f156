"""Tables that change shape while their rows change: random ALTERs among random DML, held to a model.

The same few stories every time; ``HEADWATER_TEST_SECONDS`` asks for new ones for so long, and a failure prints the seed
and the statements.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path
from typing import Any

import pytest

from support.dml.engines import Headwater
from support.dml.reshaping import Story

STEPS = 16
SECONDS = os.environ.get("HEADWATER_TEST_SECONDS")


def tell(spark: Any, path: Path, seed: int, steps: int) -> None:
    story = Story(Headwater(spark), path, seed)
    for _ in range(steps):
        story.step()
    story.end()


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.soak)])
def test_tables_that_change_shape_are_the_models(spark: Any, tmp_path: Path, seed: int) -> None:
    tell(spark, tmp_path / "t", seed, STEPS)


@pytest.mark.spark
@pytest.mark.soak
@pytest.mark.timeout(36_000)
def test_many_tables_that_change_shape_are_the_models(spark: Any, tmp_path: Path) -> None:
    until = time.monotonic() + float(SECONDS or 60)
    while time.monotonic() < until:
        seed = random.randrange(10**9)
        tell(spark, tmp_path / str(seed), seed, 60)
