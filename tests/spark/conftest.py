"""What several tests of statements through Spark begin with."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    """A folder in which files arrive."""
    folder = tmp_path / "landing zone"
    folder.mkdir()
    return folder
