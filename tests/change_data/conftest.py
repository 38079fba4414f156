"""A table whose log a test writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.hand_made import HandMade


@pytest.fixture
def table(tmp_path: Path) -> HandMade:
    return HandMade(tmp_path / "table")
