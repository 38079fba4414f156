"""What an optimizer estimates with: rows, bounds and null counts of the files that are left."""

from __future__ import annotations

import pyarrow as pa

from headwater.pruning import estimate
from support.pruning_fakes import FakeSnapshot, File, struct

SCHEMA = struct(a="integer", b="string", p="integer")


def snapshot(*files):
    return FakeSnapshot(SCHEMA, files, ["p"])


ONE = File(rows=[{"a": 1, "b": "x"}, {"a": None, "b": "y"}], partition={"p": 1})
TWO = File(rows=[{"a": 7, "b": "z"}], deleted=[{"a": 9, "b": "w"}], partition={"p": None})


def test_all_files_or_some():
    both = snapshot(ONE, TWO)
    # A deletion vector takes rows away, and leaves bounds as they are.
    assert estimate(both, None, ["a", "b", "p", "none"]) == (
        3,
        {"a": (1, 9, 1), "b": (None, None, 0), "p": (1, 1, 1)},
    )
    assert estimate(both, pa.array([False, True]), ["a"]) == (1, {"a": (7, 9, 0)})
    assert estimate(both, pa.array([False, False]), ["a"]) == (0, {"a": (None, None, 0)})


def test_what_one_file_lacks_is_not_known_of_all():
    assert estimate(snapshot(ONE, File(rows=[{"a": 5}], missing=frozenset("a"))), None, ["a"]) == (
        3,
        {"a": (None, None, None)},
    )
    assert estimate(snapshot(ONE, File(rows=[{"a": 5}], missing=frozenset("*"))), None, ["a"]) is None


def test_a_file_of_nulls_needs_no_bounds():
    assert estimate(snapshot(ONE, File(rows=[{"a": None}])), None, ["a"]) == (3, {"a": (1, 1, 2)})
