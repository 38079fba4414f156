"""The choice of what is laid out again, and the ranges of a curve, without Spark."""

from __future__ import annotations

import math
import random

import pyarrow as pa
import pytest

from headwater.statements.maintain.cubes import Cube, grouped, merged, new_tags
from headwater.statements.maintain.curves import files_of, quantiles

_HUGE = 1 << 60


def _after_loads(loads: list[int], largest: int = _HUGE) -> tuple[float, list[int]]:
    """Loads with an OPTIMIZE after each: bytes written by byte loaded, and the cubes' sizes."""
    cubes: list[Cube] = []
    written = 0
    for number, load in enumerate(loads):
        again = merged(cubes, load, largest)
        size = load + sum(cube.size for cube in again)
        written += size
        cubes = [cube for cube in cubes if cube not in again] + [Cube([number], size)]
    assert sum(cube.size for cube in cubes) == sum(loads)
    return written / sum(loads), sorted((cube.size for cube in cubes), reverse=True)


def test_forty_equal_loads_are_written_less_than_three_times_and_lie_in_two_cubes() -> None:
    written, cubes = _after_loads([100] * 40)
    assert written <= 3
    assert cubes == [3200, 800]
    # A scan along one of two columns reads about the square root of a cube's files.
    assert sum(map(math.sqrt, cubes)) <= 1.5 * math.sqrt(sum(cubes))


@pytest.mark.parametrize("seed", range(20))
def test_loads_of_any_size_are_written_a_few_times_and_lie_in_few_cubes(seed: int) -> None:
    draw = random.Random(seed)
    spread = draw.choice([1.1, 2, 50])
    loads = [int(1000 * spread ** draw.uniform(-1, 1)) for _ in range(draw.randint(1, 300))]
    written, cubes = _after_loads(loads)
    rounds = math.log2(len(loads)) + 2
    assert written <= max(3, rounds)
    assert len(cubes) <= 1 + 7 * rounds
    # What is not in the largest cube is less than it.
    assert sum(cubes[1:]) < cubes[0] or len(cubes) == 1


def test_what_is_laid_out_stays() -> None:
    assert merged([], 10, _HUGE) == []
    assert merged([Cube([0], 10)], 0, _HUGE) == []
    assert merged([Cube([0], 100), Cube([1], 10)], 0, _HUGE) == []
    large = Cube([0], 100)
    assert merged([large], 1000, 100) == []
    assert merged([large], 1000, 101) == [large]


def test_files_by_what_the_log_says() -> None:
    one, other, old = new_tags(["a", "s.`x y`"]), new_tags(["a", "s.`x y`"]), new_tags(["b"])
    rows = [
        (1, one, "liquid"),
        (2, one, "liquid"),
        (4, other, None),
        (8, old, "liquid"),
        (16, None, None),
        (32, {"ZCUBE_ID": "c", "ZCUBE_ZORDER_BY": "{"}, "liquid"),
        (64, one, "someone"),
        (128, {"ZCUBE_ID": "c"}, None),
        (256, one, "liquid"),
    ]
    files = pa.table(
        {
            "size": [row[0] for row in rows],
            "tags": pa.array(
                [None if row[1] is None else list(row[1].items()) for row in rows], pa.map_(pa.string(), pa.string())
            ),
            "clustering_provider": [row[2] for row in rows],
        }
    )
    worn = [False] * 8 + [True]
    found = grouped(files, range(9), ["a", "s.`x y`"], worn)
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
