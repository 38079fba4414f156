"""Clones among DML, ALTER TABLE and maintenance of them and of their sources, held to a model.

One short story, the same every time; ``HEADWATER_TEST_SECONDS`` asks for new ones for so long, and a failure prints the
seed and the statements.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path
from typing import Any

import pytest

from support.dml.cloning import Cloned
from support.dml.engines import Headwater, rows_without_spark
from support.dml.maintaining import SETTINGS

SECONDS = float(os.environ.get("HEADWATER_TEST_SECONDS", "60"))


@pytest.mark.spark
@pytest.mark.slow
def test_clones_and_their_sources_are_the_models(spark: Any, settings: Any, tmp_path: Path) -> None:
    with settings(SETTINGS):
        story = Cloned(Headwater(spark), tmp_path, 5, by_arrow=rows_without_spark)
        story.clone(is_deep=False)
        story.clone(is_deep=True)
        for _ in range(3):
            story.step()
        story.end()


@pytest.mark.spark
@pytest.mark.soak
@pytest.mark.timeout(36_000)
def test_long_stories_of_clones(spark: Any, settings: Any, tmp_path: Path) -> None:
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        seed = random.randrange(10**9)
        with settings(SETTINGS):
            story = Cloned(Headwater(spark), tmp_path / str(seed), seed, by_arrow=rows_without_spark)
            for _ in range(60):
                story.step()
            story.end()
