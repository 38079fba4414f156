"""Predicates cross the bridge as they are; what is not known for certain is unknown."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from headwater.protocol.types import DecimalType, PrimitiveType
from headwater.pruning import prune
from headwater.pruning.evaluation import Outcome, possible
from headwater.pruning.masks import settle
from headwater.pruning.predicates import (
    UNKNOWN,
    And,
    Cast,
    Column,
    Comparison,
    Constant,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
    Predicate,
    StartsWith,
    Year,
    columns,
    decode,
    encode,
    literal,
)
from support.pruning_fakes import FakeSnapshot, File, struct

A = Column(("a",))
IS_ONE = Comparison("=", A, Literal("integer", 1))
COLUMN = {"op": "column", "path": ["a"]}
ONE = {"op": "literal", "type": "integer", "value": 1}
IS_ONE_JSON = {"op": "compare", "operator": "=", "left": COLUMN, "right": ONE}

#: Every node with its JSON.
NODES: list[tuple[Predicate, Any]] = [
    (UNKNOWN, {"op": "unknown"}),
    (Constant(None), {"op": "constant", "value": None}),
    (IS_ONE, IS_ONE_JSON),
    (
        Comparison("<", Cast(Column(("s", "x`y")), "decimal(10,2)"), Literal("decimal(10,2)", "1.50")),
        {
            "op": "compare",
            "operator": "<",
            "left": {"op": "cast", "child": {"op": "column", "path": ["s", "x`y"]}, "type": "decimal(10,2)"},
            "right": {"op": "literal", "type": "decimal(10,2)", "value": "1.50"},
        },
    ),
    (
        Comparison("<=", Year(A), Literal("integer", None)),
        {
            "op": "compare",
            "operator": "<=",
            "left": {"op": "year", "child": COLUMN},
            "right": {"op": "literal", "type": "integer", "value": None},
        },
    ),
    (IsNull(A), {"op": "is_null", "child": COLUMN}),
    (
        In(A, "long", (-(2**63), None, 2**63 - 1)),
        {"op": "in", "child": COLUMN, "type": "long", "values": [-(2**63), None, 2**63 - 1]},
    ),
    (
        In(A, "double", ("NaN", -0.0, 0.1)),
        {"op": "in", "child": COLUMN, "type": "double", "values": ["NaN", -0.0, 0.1]},
    ),
    (StartsWith(A, "it's"), {"op": "starts_with", "child": COLUMN, "prefix": "it's"}),
    (Like(A, "a\\%%", "\\"), {"op": "like", "child": COLUMN, "pattern": "a\\%%", "escape": "\\"}),
    (
        Or((And((IS_ONE, UNKNOWN)), Not(IS_ONE))),
        {
            "op": "or",
            "children": [
                {"op": "and", "children": [IS_ONE_JSON, {"op": "unknown"}]},
                {"op": "not", "child": IS_ONE_JSON},
            ],
        },
    ),
]


@pytest.mark.parametrize(("predicate", "value"), NODES, ids=[type(node).__name__ for node, _ in NODES])
def test_a_node_is_its_json_both_ways(predicate: Predicate, value: Any) -> None:
    assert json.loads(encode(predicate)) == value
    assert decode(value) == predicate
    assert decode(json.loads(json.dumps(value))) == predicate


@pytest.mark.parametrize(
    "value",
    [
        None,
        1,
        "x",
        [],
        {},
        [IS_ONE_JSON],
        {"op": "soundex"},
        {"op": "and", "children": []},
        {"op": "and"},
        {"op": "not", "child": IS_ONE_JSON, "more": True},
        {**IS_ONE_JSON, "more": True},
        {**IS_ONE_JSON, "operator": "!="},
        {**IS_ONE_JSON, "left": {"op": "is_null", "child": COLUMN}},
        {**IS_ONE_JSON, "left": {"op": "column", "path": "a"}},
        {**IS_ONE_JSON, "right": {"op": "literal", "type": "struct", "value": {}}},
        {"op": "in", "child": COLUMN, "type": "integer", "values": [[]]},
        {"op": "compare", "operator": "=", "left": COLUMN},
    ],
)
def test_what_is_no_node_is_unknown_and_leaves_its_neighbours(value: Any) -> None:
    assert decode({"op": "or", "children": [value, {"op": "not", "child": value}, IS_ONE_JSON]}) == Or(
        (decode(value), Not(decode(value)), IS_ONE)
    )
    assert decode(value) in (UNKNOWN, Not(UNKNOWN))


def test_deep_trees_are_cut_and_long_ones_are_not() -> None:
    deep: Any = IS_ONE_JSON
    for _ in range(5000):
        deep = {"op": "not", "child": deep}
    cut = decode({"op": "and", "children": [deep, IS_ONE_JSON]})
    assert isinstance(cut, And)
    assert cut.children[1] == IS_ONE
    assert columns(cut.children[0]) == set()
    operand: Any = COLUMN
    for _ in range(5000):
        operand = {"op": "cast", "child": operand, "type": "long"}
    assert decode({"op": "is_null", "child": operand}) == UNKNOWN
    chain = decode({"op": "or", "children": [IS_ONE_JSON] * 3000})
    assert isinstance(chain, Or)
    assert len(chain.children) == 3000
    endless = decode({"op": "or", "children": [IS_ONE_JSON] * 200_000})
    assert isinstance(endless, Or)
    assert endless.children[-1] == UNKNOWN


def test_literals_of_python_values() -> None:
    assert literal(DecimalType(38, 20), Decimal("1E-20")) == Literal("decimal(38,20)", "0.00000000000000000001")
    assert literal(PrimitiveType("double"), float("-inf")) == Literal("double", "-Infinity")
    assert literal(PrimitiveType("float"), float("nan")) == Literal("float", "NaN")
    assert literal(PrimitiveType("binary"), b"\xff") == Literal("binary", "/w==")
    assert literal(PrimitiveType("date"), -1) == Literal("date", -1)


FILES = FakeSnapshot(
    struct(a="integer", s="string", b="binary"),
    [
        File([{"a": 1, "s": "abc", "b": b"x"}]),
        File([{"a": None, "s": None, "b": None}]),
        File([{"a": None, "s": "b", "b": None}, {"a": 5, "s": "abd", "b": b"y"}]),
    ],
)
S, NULL = Column(("s",)), Literal("integer", None)


def kept(predicate: Predicate) -> list[int]:
    return [i for i, keep in enumerate(prune(FILES, predicate).to_pylist()) if keep]


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        (Comparison("=", A, NULL), []),
        (Not(Comparison("=", A, NULL)), []),
        (Comparison("<", NULL, A), []),
        (Comparison("<=>", A, NULL), [1, 2]),
        (Not(Comparison("<=>", A, NULL)), [0, 2]),
        (IsNull(NULL), [0, 1, 2]),
        (Not(IsNull(NULL)), []),
        (In(A, "integer", (None,)), []),
        (In(A, "integer", ()), [0, 1, 2]),
        (In(A, "integer", (5, None)), [2]),
        (Not(In(A, "integer", (5, None))), []),
        (Like(S, "abc", "\\"), [0]),
        (Like(S, "abd%", "\\"), [2]),
        (Like(S, "abd_x", "\\"), [2]),
        (Not(Like(S, "ab%", "\\")), [2]),
        (Like(S, "x/", "/"), [0, 1, 2]),
        (Like(S, "/xb%", "/"), [0, 1, 2]),
        (Like(S, "b/%%", "/"), []),
    ],
)
def test_nodes_over_files(predicate: Predicate, expected: list[int]) -> None:
    assert kept(predicate) == expected


@pytest.mark.parametrize(
    "predicate",
    [
        Comparison("=", A, Literal("integer", "x")),
        Comparison("=", A, Literal("integer", 2**31)),
        Comparison("=", A, Literal("integer", 1.5)),
        Comparison("=", A, Literal("decimal(2,1)", "ten")),
        Comparison("=", A, Literal("decimal(99,1)", "1.0")),
        Comparison("=", A, Literal("interval day", 9)),
        Comparison("=", S, Literal("string", 9)),
        Comparison("=", S, Literal("string", "\ud800")),
        Comparison("=", S, Literal("string collate UTF8_LCASE", "zzz")),
        Comparison("=", Column(("b",)), Literal("binary", "/w==")),
        Comparison("=", Column(("b",)), Literal("binary", "no base64")),
        Comparison("=", Cast(A, "nothing"), Literal("integer", 9)),
        Comparison("=", Column(()), Literal("integer", 9)),
        In(A, "integer", (9, "x")),
        In(A, "double", (9.0, "x")),
        In(S, "long", tuple(range(20))),
    ],
)
def test_values_that_are_none_of_their_type_keep_everything(predicate: Predicate) -> None:
    assert kept(predicate) == [0, 1, 2]
    for outcome in (Outcome.TRUE, Outcome.FALSE):
        assert all(settle(possible(FILES, [predicate], outcome), 3).to_pylist())
