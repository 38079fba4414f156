"""The model and the strategies beside the tests are imported by name, whichever way pytest imports the tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

_HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(_HERE), str(_HERE.parent / "interop")]


@pytest.fixture(autouse=True)
def settings_of_others(request: pytest.FixtureRequest) -> Iterator[None]:
    """What scripts set in the session, others do not inherit."""
    yield
    if "spark" in request.fixturenames:
        request.getfixturevalue("spark").conf.unset("spark.headwater.merge.smallTargetBytes")
