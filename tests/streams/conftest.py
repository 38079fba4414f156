"""What the tests of streams share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.running_streams import Stream
from support.streams import Source


@pytest.fixture
def source(tmp_path: Path) -> Source:
    return Source(str(tmp_path / "t"))


@pytest.fixture
def make_source(tmp_path: Path) -> Callable[[], Source]:
    made: list[Source] = []

    def make() -> Source:
        made.append(Source(str(tmp_path / f"t{len(made)}")))
        return made[-1]

    return make


@pytest.fixture
def stream(spark: Any, tmp_path: Path) -> Callable[..., Stream]:
    """``stream(**options)``: a stream over a table, with a checkpoint of its own."""
    made: list[Stream] = []

    def make(**options: Any) -> Stream:
        home = tmp_path / f"stream{len(made)}"
        home.mkdir()
        made.append(Stream(spark, home, **options))
        return made[-1]

    return make


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Where a test makes its table."""
    return str(tmp_path / "table")
