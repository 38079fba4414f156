"""Statements that evolve a table, beside the peer's: the same columns and rows, or refused by both.

By default a few of the nested updates, which cover each value of each dimension; ``-m soak`` runs them all.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from support.dml import evolving

#: What both refuse under one name; of other refusals, Spark's own words are ours.
NAMES = (
    "DELTA_GENERATED",
    "DELTA_CONSTRAINT",
    "DELTA_COMPLEX_TYPE",
    "DELTA_INSERT_COLUMN_ARITY",
    "DELTA_INVALID_CHARACTERS",
)


def covering(names: list[str]) -> list[str]:
    """Fewest cases, about, in which each two values of two dimensions meet wherever they do in any."""
    draw = random.Random(7)
    left = {pair for name in names for pair in pairs(name)}
    found = []
    while left:
        best = max(draw.sample(names, len(names)), key=lambda name: len(left & pairs(name)))
        found.append(best)
        left -= pairs(best)
    return found


def pairs(name: str) -> set[tuple[str, str]]:
    """Clause and way to ask; container and clause: what the rules distinguish."""
    container, value, clause, asked, alias = name.split(", ")
    return {(container, clause), (clause, asked), (clause, value), (clause, f"as {alias}")}


def kind(outcome: str) -> str:
    """Refusals are alike whatever they say, but for :data:`NAMES`."""
    if not outcome.startswith("refused"):
        return outcome
    condition, _, rest = outcome.removeprefix("refused: ").partition(" ")
    return f"refused: {condition.partition('.')[0] if condition.startswith(NAMES) else '?'} {rest}"


def compare(spark: Any, peer: Any, home: Path, names: list[str]) -> list[str]:
    (home / "bases").mkdir()
    own = evolving.outcomes(spark, str(home / "own"), str(home / "bases"), names)
    theirs = []
    for i in range(0, len(names), 20):
        where = (str(home / f"theirs{i}"), str(home / "bases"), names[i : i + 20])
        theirs += peer.run(f"from support.dml import evolving\nresult = evolving.outcomes(spark, *{where!r})")
    cases = zip(names, theirs, own, strict=True)
    return [f"{name}:\n  peer {a}\n  own  {b}" for name, a, b in cases if kind(a) != kind(b)]


@pytest.mark.spark
@pytest.mark.soak
def test_evolution_does_what_the_peers_does(spark: Any, peer: Any, tmp_path: Path) -> None:
    draw = random.Random(3)
    names = [
        *covering([*evolving.NESTED])[:6],
        *draw.sample([*evolving.EXPRESSIONS], 3),
        *draw.sample([*evolving.OTHERS], 5),
    ]
    wrong = compare(spark, peer, tmp_path, names)
    assert not wrong, "\n".join(wrong)


@pytest.mark.spark
@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_every_case_of_evolution(spark: Any, peer: Any, tmp_path: Path) -> None:
    wrong = compare(spark, peer, tmp_path, [*evolving.CASES])
    assert not wrong, "\n".join(wrong)
