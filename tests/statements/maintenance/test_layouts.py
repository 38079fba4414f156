"""The choice of what is laid out again, and the ranges of a curve, without Spark."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from statistics import mean
from typing import NamedTuple

import pyarrow as pa
import pytest

from headwater.protocol.actions import AddFile
from headwater.protocol.types import PrimitiveType, StructField, StructType
from headwater.statements.files.cubes import Cube, LaidOutBy, grouped, in_cube_of, merged, new_tags
from headwater.statements.maintenance.curves import files_of, quantiles

_HUGE = 1 << 60
LONG = PrimitiveType("long")


class _Simulated(NamedTuple):
    """Loads with an OPTIMIZE after each.

    :param written: bytes written, clustering of new data included, by byte loaded.
    :param cubes: the cubes' sizes in the end.
    :param reads: after each load, the files that a scan along one of two columns reads, by those of a FULL layout: of
        a cube of n files, it reads about the square root of n.
    """

    written: float
    cubes: list[int]
    reads: list[float]


def _simulate(loads: Sequence[int], largest: int = _HUGE) -> _Simulated:
    cubes: list[Cube] = []
    written = 0
    reads = []
    for number, load in enumerate(loads):
        again = merged(cubes, load, largest)
        size = load + sum(cube.size for cube in again)
        written += size
        cubes = [cube for cube in cubes if cube not in again] + [Cube([number], size)]
        total = sum(cube.size for cube in cubes)
        reads.append(sum(math.sqrt(cube.size) for cube in cubes) / math.sqrt(total))
    assert sum(cube.size for cube in cubes) == sum(loads)
    return _Simulated(written / sum(loads), sorted((cube.size for cube in cubes), reverse=True), reads)


def _spread(share: float) -> Callable[[random.Random], list[int]]:
    return lambda draw: [int(100_000 * draw.uniform(1 - share, 1 + share)) for _ in range(40)]


def _one_big(draw: random.Random) -> list[int]:
    loads = _spread(0.5)(draw)
    loads[draw.randrange(40)] = 2_000_000
    return loads


_LOADS: dict[str, Callable[[random.Random], list[int]]] = {
    "equal": _spread(0),
    "5 %": _spread(0.05),
    "50 %": _spread(0.5),
    "lognormal": lambda draw: [1 + int(100_000 * draw.lognormvariate(0, 1)) for _ in range(40)],
    "one big": _one_big,
    "a table to begin with": lambda draw: [10_000_000, *_spread(0.5)(draw)[1:]],
    "trickle": lambda draw: [load if number % 10 else 100 * load for number, load in enumerate(_spread(0.5)(draw))],
}


@pytest.mark.parametrize("kind", ["equal", "5 %"])
def test_forty_loads_of_about_a_size_are_written_less_than_three_times_and_lie_in_two_cubes(kind: str) -> None:
    done = [_simulate(_LOADS[kind](random.Random(seed))) for seed in range(40)]
    fine = [each for each in done if each.written <= 3 and each.reads[-1] <= 1.5 and len(each.cubes) == 2]
    assert len(fine) >= 38


@pytest.mark.parametrize("kind", list(_LOADS))
def test_forty_loads_of_any_size_are_written_about_three_times_and_read_well(kind: str) -> None:
    """Reads of 1.5 × at any time cannot be had: one who knew all loads would have to write equal ones 4.25 times."""
    done = [_simulate(_LOADS[kind](random.Random(seed))) for seed in range(60)]
    assert mean(each.written for each in done) <= 3
    assert sorted(each.written for each in done)[int(0.9 * len(done))] <= 3.05
    assert mean(mean(each.reads) for each in done) <= 1.7
    assert max(max(each.reads) for each in done) <= 2.6


@pytest.mark.parametrize("seed", range(20))
def test_loads_of_any_size_are_written_a_few_times_and_lie_in_few_cubes(seed: int) -> None:
    draw = random.Random(seed)
    spread = draw.choice([1.1, 2, 50])
    loads = [int(1000 * spread ** draw.uniform(-1, 1)) for _ in range(draw.randint(1, 300))]
    done = _simulate(loads)
    rounds = math.log2(len(loads)) + 2
    assert done.written <= max(3, rounds)
    assert len(done.cubes) <= 1 + 4 * rounds
    # What is not in the largest cube is not much more than it.
    assert sum(done.cubes[1:]) <= 1.4 * done.cubes[0]


def test_what_is_laid_out_stays() -> None:
    assert merged([], 10, _HUGE) == []
    assert merged([Cube([0], 10)], 0, _HUGE) == []
    assert merged([Cube([0], 100), Cube([1], 10)], 0, _HUGE) == []
    large = Cube([0], 100)
    assert merged([large], 1000, 100) == []
    assert merged([large], 1000, 101) == [large]
    # Loads that are about equal are merged as equal ones are.
    about = [Cube([0], 1000), *(Cube([i], 100 - i % 2) for i in range(1, 5))]
    assert merged(about, 101, _HUGE) == sorted(about[1:], key=lambda cube: cube.size)


def _as_files(rows: Sequence[tuple[int, dict[str, str] | None, str | None]]) -> pa.Table:
    tags = [None if row[1] is None else list(row[1].items()) for row in rows]
    return pa.table(
        {
            "size": [row[0] for row in rows],
            "tags": pa.array(tags, pa.map_(pa.string(), pa.string())),
            "clustering_provider": [row[2] for row in rows],
        }
    )


def test_cubes_go_by_physical_columns() -> None:
    """Whatever a column is called now, and whichever has the name that it had."""
    old = new_tags(LaidOutBy(["a"], [["col-1"]]))
    files = _as_files([(1, old, "liquid"), (2, {k: old[k] for k in ("ZCUBE_ID", "ZCUBE_ZORDER_BY")}, "liquid")])

    def found(name: str, physical: str) -> tuple[list[int], list[int]]:
        by = grouped(files, [0, 1], LaidOutBy([name], [[physical]]), [False, False])
        return [position for cube in by.cubes for position in cube.positions], by.others

    assert found("a", "col-1") == ([0, 1], [])
    assert found("renamed", "col-1") == ([0], [1])
    assert found("a", "col-2") == ([1], [0])


def test_copies_of_a_cube_name_its_columns_as_their_table_does() -> None:
    def schema(physical: str) -> StructType:
        return StructType((StructField("a", LONG, True, {"delta.columnMapping.physicalName": physical}),))

    tags = new_tags(LaidOutBy(["x"], [["col-1"]]))
    sources = _as_files([(1, tags, "liquid"), (2, tags, "liquid")])
    output = [AddFile("o", {}, 1, 1)]
    (same,) = in_cube_of(sources, output, schema("col-1"), schema("col-1"))
    assert same.tags == tags
    (other,) = in_cube_of(sources, output, schema("col-1"), schema("a"))
    assert other.tags == {**tags, "headwater.layoutColumns": '[["a"]]'}
    (gone,) = in_cube_of(sources, output, schema("col-2"), schema("a"))
    assert gone.tags == {key: tags[key] for key in ("ZCUBE_ID", "ZCUBE_ZORDER_BY")}


def test_files_by_what_the_log_says() -> None:
    by = LaidOutBy(["a", "s.`x y`"], [["a"], ["s", "x y"]])
    one, other, old = new_tags(by), new_tags(by), new_tags(LaidOutBy(["b"], [["b"]]))
    of_others = {key: other[key] for key in ("ZCUBE_ID", "ZCUBE_ZORDER_BY")}
    rows = [
        (1, one, "liquid"),
        (2, one, "liquid"),
        (4, of_others, None),
        (8, old, "liquid"),
        (16, None, None),
        (32, {"ZCUBE_ID": "c", "ZCUBE_ZORDER_BY": "{"}, "liquid"),
        (64, one, "someone"),
        (128, {"ZCUBE_ID": "c"}, None),
        (256, one, "liquid"),
    ]
    worn = [False] * 8 + [True]
    found = grouped(_as_files(rows), range(9), by, worn)
    assert found.cubes == [Cube([0, 1], 3), Cube([2], 4)]
    assert found.new == [4, 7, 8]
    assert found.others == [3, 5, 6]
    assert one["ZCUBE_ZORDER_BY"] == '["a","s.`x y`"]'


def test_ranges_have_about_as_many_rows_each() -> None:
    assert quantiles(list(range(100)), 100, 4) == [25, 50, 75]
    assert quantiles(list(range(50)), 100, 4) == [None, 0, 25]  # half of the values are null
    assert quantiles([7] * 60 + [8] * 40, 100, 4) == [7, 7, 8]
    assert quantiles([], 5, 4) == [None] * 3
    assert quantiles([], 0, 4) == []


def test_number_of_files() -> None:
    assert [files_of(size, 10) for size in (0, 1, 10, 11, 100)] == [1, 1, 1, 2, 10]
    assert files_of(3, 0) == 3
