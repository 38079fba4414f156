"""Upserts by every writer on executors in other processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.sparks.upsert_scenarios import UPSERTED

pytestmark = pytest.mark.spark


# The usual run has the first over Spark Connect, in tests/bridge/test_frontends.py.
@pytest.mark.parametrize(
    "stored_as", [pytest.param(name, marks=pytest.mark.soak) if name == "scd1" else name for name in UPSERTED]
)
def test_every_writer(cluster: Any, tmp_path: Path, stored_as: str) -> None:
    call = f"upserts(spark, {str(tmp_path)!r}, {stored_as!r})"
    found = cluster.run(f"from support.sparks.upsert_scenarios import upserts\nresult = {call}")
    assert found == UPSERTED[stored_as]
