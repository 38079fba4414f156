"""The model and the strategies beside the tests are imported by name, whichever way pytest imports the tests."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

_HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(_HERE), str(_HERE.parent / "interop")]


@pytest.fixture(autouse=True)
def settings_of_others(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What scripts set in the session, others do not inherit. Times that Spark gives to Python are in UTC."""
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()
    if "spark" in request.fixturenames:
        conf = request.getfixturevalue("spark").conf
        conf.unset("spark.headwater.merge.smallTargetBytes")
        conf.unset("spark.sql.ansi.enabled")
        conf.set("spark.sql.session.timeZone", "UTC")
