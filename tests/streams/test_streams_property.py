"""Random statements beside a stream that is restarted, and killed around its writes: each change once, in commit order.

``HEADWATER_TEST_SECONDS`` asks for new stories for so long; a failure prints the seed.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator

import pytest

from support.stream_story import Story, tell

SECONDS = os.environ.get("HEADWATER_TEST_SECONDS")


def _seeds() -> Iterator[int]:
    """One story that is always the same, or new ones for so many seconds."""
    if SECONDS is None:
        yield 3
        return
    began = time.monotonic()
    while time.monotonic() - began < float(SECONDS):
        yield random.randrange(1 << 30)


@pytest.mark.random
@pytest.mark.parametrize("feed", [True, pytest.param(False, marks=pytest.mark.soak)], ids=["changes", "rows"])
def test_each_change_once(spark, tmp_path, feed):
    for seed in _seeds():
        print(f"seed {seed}")
        tell(Story(spark, tmp_path / str(seed), random.Random(seed), feed), 3 if SECONDS is None else 6)
