"""The tables of the page on upgrades, from the record of ``python -m upgrades --record``."""

from __future__ import annotations

from pathlib import Path

RECORDED = Path(__file__).with_name("upgrades.json")
PASSES = "passes"
#: What became of a part, by its direction.
DIRECTIONS = ("begun", "up", "back", "again", "down", "both")


def is_failure(text: str, lacks: bool, direction: str) -> bool:
    """Whether a result breaks a promise: none is made for what the earlier version does not have."""
    return text != PASSES and not (lacks and direction == "down")
