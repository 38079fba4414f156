"""A log that a test writes, and a cache on disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.log import checkpoint_reading, column_cache
from support.kept_columns import keep_columns_in
from support.log_writer import LogWriter


@pytest.fixture
def log(tmp_path: Path) -> LogWriter:
    return LogWriter(tmp_path / "table")


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """That of a cache on disk, which keeps columns of checkpoints of any size."""
    for module, name in ((checkpoint_reading, "_KEPT_BYTES"), (column_cache, "FEWEST_BYTES")):
        monkeypatch.setattr(module, name, getattr(module, name))  # for its end
    place = tmp_path / "cache"
    keep_columns_in(str(place))
    yield place
    column_cache.configure({})
