"""Hooks that the shared Spark of the bridge's tests has, for tables whose property names them."""

from __future__ import annotations

from pathlib import Path

from headwater.hooks import Commit, Veto


def refuse(commit: Commit) -> None:
    """Refuse a write of more than two rows."""
    if commit.metrics.get("numOutputRows", 0) > 2:
        raise Veto(f"{commit.metrics['numOutputRows']} rows, and {sum(1 for _ in commit.actions())} actions")


def note(commit: Commit) -> None:
    """Write down what was committed, beside the table."""
    with open(Path(commit.table).parent / "heard", "a") as heard:
        heard.write(f"{commit.version} {commit.operation}\n")
