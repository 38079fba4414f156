"""How many files a look-up of a column's value must read."""

from __future__ import annotations

import random

import pytest

from headwater.pruning import depths, prune
from headwater.pruning.predicates import Column, Comparison, literal
from support.pruning_fakes import FakeSnapshot, File, struct

SCHEMA = struct(a="integer", b="string", v="boolean", p="integer", s=struct(x="double"))


def of(files, name="a"):
    found = depths(FakeSnapshot(SCHEMA, files, ["p"]), [(name,)])
    return tuple(found[(name,)])


def file(*values, **more):
    return File(rows=[{"a": value, "b": None if value is None else str(value)} for value in values], **more)


def test_files_side_by_side_and_files_over_each_other():
    assert of([file(1, 3), file(4, 6), file(7, 9)]) == (1.0, 1, 0)
    assert of([file(1, 9), file(1, 9), file(1, 9)]) == (3.0, 3, 0)
    # At 1 one file, at 4 two, at 5 two, at 9 one.
    assert of([file(1, 5), file(4, 9)]) == (1.5, 2, 0)
    # Ranges that touch both have the value.
    assert of([file(1, 3), file(3, 5)]) == (pytest.approx(4 / 3), 2, 0)


def test_files_without_bounds_may_hold_any_value_and_files_of_nulls_none():
    known = [file(1, 3), file(4, 6)]
    assert of([*known, file(2, missing=frozenset("a"))]) == (2.0, 2, 1)
    assert of([*known, file(None)]) == (1.0, 1, 0)
    assert of([file(None)]) == (None, None, 0)
    assert of([file(2, missing=frozenset("a"))]) == (None, None, 1)
    assert of([]) == (None, None, 0)


def test_columns_of_all_kinds():
    files = [
        File(rows=[{"b": "a", "s": {"x": 0.5}}], partition={"p": 1}),
        File(rows=[{"b": "b", "s": {"x": 1.5}}], partition={"p": 1}),
    ]
    found = depths(FakeSnapshot(SCHEMA, files, ["p"]), [("b",), ("s", "x"), ("p",), ("none",)])
    assert found == {("b",): (1.0, 1, 0), ("s", "x"): (1.0, 1, 0), ("p",): (2.0, 2, 0)}


def test_a_depth_is_what_data_skipping_reads():
    draw = random.Random(7)
    for _ in range(30):
        files = []
        for _ in range(draw.randrange(1, 12)):
            missing = frozenset("a") if draw.random() < 0.1 else frozenset()
            files.append(file(*(draw.randrange(20) for _ in range(draw.randrange(1, 4))), missing=missing))
        snapshot = FakeSnapshot(SCHEMA, files, ["p"])
        bounds = {end(row["a"] for row in f.rows) for f in files if not f.missing for end in (min, max)}
        kind = SCHEMA.find("a").type
        read = [prune(snapshot, Comparison("=", Column(("a",)), literal(kind, v))).true_count for v in bounds]
        average, maximum, _ = of(files)
        if read:
            assert (average, maximum) == (pytest.approx(sum(read) / len(read)), max(read))
        else:
            assert (average, maximum) == (None, None)
