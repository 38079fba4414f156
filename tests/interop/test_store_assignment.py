"""What becomes of a value of one type in a column of another, beside the peer: stored, an error of the row, or refused.

By default a few of the many cases, the same every time; ``HEADWATER_TEST_EXAMPLES`` says how many, ``-m soak`` runs
each pair of types.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest

from support.dml import casting

EXAMPLES = int(os.environ.get("HEADWATER_TEST_EXAMPLES", "1"))
#: Half of the cases are under Spark's defaults.
SETTINGS: list[dict[str, str]] = [
    {},
    {},
    {},
    {},
    {"spark.sql.storeAssignmentPolicy": "LEGACY"},
    {"spark.sql.storeAssignmentPolicy": "STRICT"},
    {"spark.sql.ansi.enabled": "false"},
    {
        "spark.sql.ansi.enabled": "false",
        "spark.databricks.delta.updateAndMergeCastingFollowsAnsiEnabledFlag": "true",
    },
]
#: Values that do not widen a column are cast as without evolution.
EVOLVING = {"spark.databricks.delta.schema.autoMerge.enabled": "true"}
# Always there: the pairs people meet.
USUAL: list[list[Any]] = [
    ["STRING", 0, "INT", "insert", {}],
    ["STRING", 1, "INT", "merge, insert", {}],
    ["BIGINT", 1, "INT", "writeTo", {}],
    ["STRING", 0, "DATE", "update", {}],
    ["STRING", 0, "INT", "insert", EVOLVING],
    ["DOUBLE", 0, "DECIMAL(5,2)", "insert by name", EVOLVING],
    ["ARRAY<STRUCT<a: STRING>>", 1, "ARRAY<STRUCT<a: BIGINT>>", "merge, star", EVOLVING],
]
#: What the peer says of a row where Spark has a condition of its own.
SAME = {
    "DELTA_CAST_OVERFLOW_IN_TABLE_WRITE": "CAST_OVERFLOW_IN_TABLE_INSERT",
}


def drawn(count: int) -> list[list[Any]]:
    draw = random.Random(11)
    found = []
    for _ in range(count):
        source, target = draw.sample(list(casting.TYPES), 2)
        found.append([source, draw.randrange(2), target, draw.choice(casting.WAYS), draw.choice(SETTINGS)])
    return found


def every_pair() -> list[list[Any]]:
    pairs = [(a, i, b) for a in casting.TYPES for b in casting.TYPES if a != b for i in (0, 1)]
    draw = random.Random(12)
    return [[a, i, b, draw.choice(casting.WAYS), draw.choice([*SETTINGS, EVOLVING, EVOLVING])] for a, i, b in pairs]


def compare(spark: Any, peer: Any, home: Path, cases: list[list[Any]]) -> list[str]:
    theirs = []
    begin = "from support.dml import casting\n"
    for i in range(0, len(cases), 10):
        run = f"result = casting.outcomes(spark, {str(home / f'theirs{i}')!r}, {cases[i : i + 10]!r})"
        theirs += peer.run(begin + run)
    own = casting.outcomes(spark, str(home / "own"), cases)
    said = [(SAME.get(a.split(":")[0], kind(a)), kind(b), a, b) for a, b in zip(theirs, own, strict=True)]
    # The peer refuses to evolve by a type that does not widen the column; ours stores the value as without evolution.
    cast = [case for case, (p, *_) in zip(cases, said, strict=True) if p == "refused" and case[4] == EVOLVING]
    without = casting.outcomes(spark, str(home / "without"), [[*case[:4], {}] for case in cast])
    as_without = dict(zip(map(str, cast), map(kind, without), strict=True))
    return [
        f"{case}:\n  peer {a}\n  own  {b}"
        for case, (p, o, a, b) in zip(cases, said, strict=True)
        # The peer refuses every other type in a save by path; ours takes what Spark takes into any table.
        if p != o
        and not (p == "refused" and case[3] in ("save", "overwrite"))
        and not widened_by_peer(case)
        and o != as_without.get(str(case))
    ]


def widened_by_peer(case: list[Any]) -> bool:
    """Whether the peer widens the column: in the DataFrame API, small integers become larger without the feature."""
    source, _, target, way, settings = case
    sizes = ["TINYINT", "SMALLINT", "INT"]
    is_wider = source in sizes and target in sizes and sizes.index(source) > sizes.index(target)
    return settings == EVOLVING and is_wider and way in casting.FRAMES


def kind(outcome: str) -> str:
    """Refusals are alike whatever they say."""
    return "refused" if outcome.startswith("refused") else outcome


@pytest.mark.spark
@pytest.mark.slow
def test_values_of_other_types_are_taken_as_the_peer_takes_them(spark: Any, peer: Any, tmp_path: Path) -> None:
    wrong = compare(spark, peer, tmp_path, USUAL + drawn(EXAMPLES))
    assert not wrong, "\n".join(wrong)


@pytest.mark.spark
@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_every_pair_of_types(spark: Any, peer: Any, tmp_path: Path) -> None:
    wrong = compare(spark, peer, tmp_path, every_pair())
    assert not wrong, "\n".join(wrong)
