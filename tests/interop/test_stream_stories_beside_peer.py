"""Random statements of ours and of the peer's beside a stream: each change is there once, in commit order, and the peer
reads the same rows of the table that the stream writes."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path
from typing import Any

import pytest

from support.stream_story import Story, tell

SECONDS = float(os.environ.get("HEADWATER_TEST_SECONDS", "60"))


@pytest.mark.soak
@pytest.mark.parametrize("feed", [True, False], ids=["changes", "rows"])
def test_the_peer_writes_too(peer: Any, spark: Any, tmp_path: Path, feed: bool) -> None:
    began = time.monotonic()
    while time.monotonic() - began < SECONDS:
        seed = random.randrange(1 << 30)
        print(f"seed {seed}")
        story = Story(spark, tmp_path / str(seed), random.Random(seed), feed, [peer.sql])
        tell(story, 6)
        assert peer.table(story.sink, "id, v, kind") == sorted((list(row[:3]) for row in story.expected), key=repr)
