"""An after hook that writes down, beside the table, each version it hears of."""

from __future__ import annotations

from typing import Any


def heard(commit: Any) -> None:
    """Called in the handler of any version."""
    with open(f"{commit.table.removeprefix('file:')}.heard", "a", encoding="utf-8") as notes:
        notes.write(f"{commit.version}\n")
