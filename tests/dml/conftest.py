"""What scripts set in the shared session ends with their test."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest


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
