"""Aggregates from the log are exact or none."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from headwater.protocol.types import DecimalType, PrimitiveType, StructField
from headwater.pruning import aggregate_from_log
from support.predicate_text import parse_predicate
from support.pruning_fakes import FakeSnapshot, File, struct

SCHEMA = struct(
    a="integer",
    d="date",
    s="string",
    f="double",
    t="timestamp",
    m=DecimalType(5, 2),
    o=struct(x="long"),
    p="integer",
    q="string",
    r="double",
    z="timestamp",
)
DAY = datetime.date(2020, 1, 1)


def row(a: int | None, **more: Any) -> dict[str, Any]:
    return {"a": a, "d": DAY, "s": "x", "f": 1.0, "t": None, "m": None, "o": {"x": 7}, **more}


FILES = [
    File([row(1), row(2)], {"p": 1, "q": "x"}),
    File([row(None), row(5, d=None)], {"p": 1, "q": "y"}),
    File([row(None)], {"p": 2, "q": "x"}),
    File([], {"p": 3, "q": "x"}),
    File([row(-1)], {}),
]
WITH_VECTOR = [*FILES, File([row(3)], {"p": 2, "q": "x"}, deleted=[row(9), row(None)], tight=False)]


def answer(files: list[File], *aggregates: tuple[str, str | None], by: Any = (), where: str | None = None) -> Any:
    """The rows of the answer, sorted, or ``None``."""
    wanted = [(kind, None if column is None else tuple(column.split("."))) for kind, column in aggregates]
    predicates = [] if where is None else [parse_predicate(where)]
    table = aggregate_from_log(FakeSnapshot(SCHEMA, files, ["p", "q", "r", "z"]), by, wanted, predicates)
    return None if table is None else sorted(zip(*(c.to_pylist() for c in table.columns), strict=True), key=str)


def test_over_the_whole_table() -> None:
    asked = [("count", None), ("count", "a"), ("min", "a"), ("max", "a"), ("min", "d"), ("max", "o.x")]
    assert answer(FILES, *asked) == [(6, 4, -1, 5, DAY, 7)]
    assert answer([], *asked) == [(0, 0, None, None, None, None)]
    assert answer([FILES[2]], *asked) == [(1, 0, None, None, DAY, 7)]


def test_types_and_names_of_the_result() -> None:
    table = aggregate_from_log(FakeSnapshot(SCHEMA, FILES, ["p", "q"]), ["P"], [("count", None), ("max", ("a",))], [])
    assert table is not None
    assert [(f.name, str(f.type)) for f in table.schema] == [("p", "int32"), ("count.0", "int64"), ("max.1", "int32")]


def test_by_partition() -> None:
    assert answer(FILES, ("count", None), ("max", "a"), by=["p"]) == [(1, 4, 5), (2, 1, None), (None, 1, -1)]
    assert answer(FILES, ("count", "a"), by=["q", "p"]) == [("x", 1, 2), ("x", 2, 0), ("y", 1, 1), (None, None, 1)]
    assert answer(FILES, by=["q"]) == [("x",), ("y",), (None,)]


def test_of_partition_columns() -> None:
    assert answer(FILES, ("min", "p"), ("max", "p"), ("count", "p"), ("max", "q")) == [(1, 2, 5, "y")]


def test_with_a_predicate_over_partitions() -> None:
    assert answer(FILES, ("count", None), where="(`p` = 1)") == [(4,)]
    assert answer(FILES, ("count", None), where="(NOT (`p` = 1))") == [(1,)]
    assert answer(FILES, ("count", None), where="((`p` = 1) OR (`p` IS NULL)) AND `q` LIKE 'x%'") == [(2,)]
    assert answer(FILES, ("count", None), by=["p"], where="(`q` IN ('x', 'z'))") == [(1, 2), (2, 1)]
    assert answer(FILES, ("count", None), where="(`p` > 5)") == [(0,)]


@pytest.mark.parametrize(
    "predicate", ["(`a` = 1)", "((`p` = 1) AND (`a` = 1))", "(hash(`p`) = 1)", "(`p` = ", "(`q` LIKE '%x')"]
)
def test_a_predicate_that_is_not_decided_by_partitions_is_not_answered(predicate: str) -> None:
    assert answer(FILES, ("count", None), where=predicate) is None


def test_files_out_of_the_predicate_do_not_matter() -> None:
    files = [*FILES, File([row(3)], {"p": 9}, missing=frozenset({"*"}))]
    assert answer(files, ("count", None)) is None
    assert answer(files, ("count", None), ("max", "a"), where="(`p` = 1)") == [(4, 5)]


def test_deletion_vectors() -> None:
    assert answer(WITH_VECTOR, ("count", None), by=["p"]) == [(1, 4), (2, 2), (None, 1)]
    assert answer(WITH_VECTOR, ("count", "s")) == [(7,)]
    assert answer(WITH_VECTOR, ("count", "t")) == [(0,)]
    assert answer(WITH_VECTOR, ("count", "a")) is None
    assert answer(WITH_VECTOR, ("max", "a")) is None
    assert answer(WITH_VECTOR, ("max", "a"), where="(`p` = 1)") == [(5,)]
    all_gone = [File([], {"p": 1}, deleted=[row(1)], tight=False)]
    assert answer(all_gone, ("count", None), by=["p"]) == []
    assert answer(all_gone, ("count", None)) == [(0,)]


def test_loose_bounds_and_missing_statistics_are_not_answered() -> None:
    assert answer([File([row(1)], tight=False)], ("min", "a")) is None
    assert answer([File([row(1)], missing=frozenset({"a"}))], ("min", "a")) is None
    assert answer([File([row(1)], missing=frozenset({"a"}))], ("count", "a")) is None
    assert answer([File([row(1)], missing=frozenset({"*"}))], ("count", None)) is None


@pytest.mark.parametrize("column", ["s", "f", "t", "m", "o", "r", "z", "nothing", "a + 1"])
def test_bounds_that_are_not_exact_are_not_answered(column: str) -> None:
    assert answer(FILES, ("min", column)) is None


@pytest.mark.parametrize("column", ["a", "r", "z", "nothing"])
def test_groups_that_are_not_exact_are_not_answered(column: str) -> None:
    assert answer(FILES, ("count", None), by=[column]) is None


def test_collated_partitions_are_not_grouped() -> None:
    collated = StructField("q", PrimitiveType("string"), metadata={"__COLLATIONS": {"q": "spark.UTF8_LCASE"}})
    snapshot = FakeSnapshot(struct(q=collated), [File([{}], {"q": "x"}), File([{}], {"q": "X"})], ["q"])
    assert aggregate_from_log(snapshot, ["q"], [("count", None)], []) is None
    assert aggregate_from_log(snapshot, [], [("count", ("q",))], []) is not None


def test_unknown_functions_are_not_answered() -> None:
    assert answer(FILES, ("sum", "a")) is None
    assert answer(FILES, ("min", None)) is None
