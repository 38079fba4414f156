"""How hypothesis draws where an example takes a Spark statement: the same examples every time, none timed."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings

#: Passed to ``hypothesis.settings`` with what a test has of its own.
STEADY = settings(
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=list(HealthCheck),
)
