"""Mistakes that users make have the conditions that code tests for: those that Delta Lake's own connector has.

:mod:`support.mistakes` is the catalogue: what the connector answers to each, and, where Headwater answers something
else, what and why. A fixed sample is made here; a soak run makes all, in both engines.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support import mistakes
from support.mistakes import CALLS, EXPECTED

#: Every so many of the mistakes is part of the sample, of statements alone: they take a few milliseconds each.
_STEP = 36


def _differing(found: dict[str, str]) -> list[str]:
    """The mistakes with another answer than the connector's or, where there is one, than the one that is listed."""
    return [
        f"{name}: {answer}, not {EXPECTED[name]}"
        for name, answer in found.items()
        if answer not in (EXPECTED[name]["theirs"], EXPECTED[name].get("ours"))
    ]


def test_a_difference_has_its_reason() -> None:
    assert set(CALLS) <= set(EXPECTED)
    for name, entry in EXPECTED.items():
        assert ("ours" in entry) == ("why" in entry), name
        assert entry.get("ours") != entry["theirs"], name


@pytest.mark.spark
def test_a_sample(spark: Any, tmp_path: Path) -> None:
    sample = {name for name in list(EXPECTED)[::_STEP] if name not in CALLS}
    assert _differing(mistakes.outcomes(spark, str(tmp_path), "mistakes_sample", sample)) == []


@pytest.mark.spark
@pytest.mark.soak
def test_each_mistake_has_its_listed_outcome(spark: Any, tmp_path: Path) -> None:
    assert _differing(mistakes.outcomes(spark, str(tmp_path), "mistakes")) == []
