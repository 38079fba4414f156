"""What is read of a user's condition without Spark."""

from __future__ import annotations

from decimal import Decimal

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.protocol.types import DecimalType
from headwater.pruning.predicates import (
    UNKNOWN,
    And,
    Cast,
    Column,
    Comparison,
    In,
    IsNull,
    Literal,
    Not,
    Or,
)
from headwater.sql.conditions import parse_condition
from support.pruning_fakes import FakeSnapshot, struct

SCHEMA = struct(
    a="integer",
    b="string",
    c="double",
    d="date",
    e=DecimalType(6, 2),
    f="float",
    t="timestamp",
    y="boolean",
    z="byte",
    s=struct(x="long"),
)
SNAPSHOT = FakeSnapshot(SCHEMA, [])
A = Column(("a",))
ONE = Literal("integer", 1)


def parsed(text):
    return parse_condition(text, SNAPSHOT)


@pytest.mark.parametrize(
    ("text", "predicate"),
    [
        ("a = 1", Comparison("=", A, ONE)),
        ("1 < a", Comparison("<", ONE, A)),
        ("a > 1", Comparison("<", ONE, A)),
        ("1 >= a", Comparison("<=", A, ONE)),
        ("a >= -1", Comparison("<=", Literal("integer", -1), A)),
        ("a <=> 1", Comparison("<=>", A, ONE)),
        ("a != 1", Not(Comparison("=", A, ONE))),
        ("NOT (a == 1)", Not(Comparison("=", A, ONE))),
        ("a IS NOT NULL", Not(IsNull(A))),
        ("a IN (1, 2)", In(A, "integer", (1, 2))),
        (r"b = 'it\'s'", Comparison("=", Column(("b",)), Literal("string", "it's"))),
        ("b = ''", Comparison("=", Column(("b",)), Literal("string", ""))),
        ("`s`.x < 5", Comparison("<", Column(("s", "x")), Literal("long", 5))),
        ("c > 1.5", Comparison("<", Literal("double", 1.5), Column(("c",)))),
        ("f = 0.1", Comparison("=", Cast(Column(("f",)), "double"), Literal("double", 0.1))),
        ("e = 1.25", Comparison("=", Column(("e",)), Literal("decimal(6,2)", str(Decimal("1.25"))))),
        ("d = '1970-01-03'", Comparison("=", Column(("d",)), Literal("date", 2))),
        ("d = DATE'1970-01-03'", Comparison("=", Column(("d",)), Literal("date", 2))),
        ("t < TIMESTAMP'1970-01-01 00:00:01'", Comparison("<", Column(("t",)), Literal("timestamp", 1_000_000))),
        ("y = true", Comparison("=", Column(("y",)), Literal("boolean", True))),
        (
            "a BETWEEN 1 AND 2",
            And((Comparison("<=", ONE, A), Comparison("<=", A, Literal("integer", 2)))),
        ),
        ("a = 1 OR a = 1 AND a = 1", Or((Comparison("=", A, ONE), And((Comparison("=", A, ONE),) * 2)))),
    ],
)
def test_what_is_understood(text, predicate):
    assert parsed(text) == (predicate, [])


@pytest.mark.parametrize(
    "text",
    [
        "upper(b) = 'X'",
        "a = 'one'",
        "a = 1.5",
        "a + 1 = 2",
        "b = 1",
        "e = 1.255",
        "z = 1000",
        "a = c",
        "d = '2024-02-31'",
        "d = TIMESTAMP'2024-01-01 00:00:00'",
        "a IN (SELECT 1)",
        "f IN (0.1)",
        "a = NULL",
        "a",
        "true",
    ],
)
def test_what_is_not_understood_is_named(text):
    predicate, missed = parsed(f"a = 1 AND {text}")
    assert predicate == And((Comparison("=", A, ONE), UNKNOWN))
    (part,) = missed
    assert part.lower().replace(" ", "")[:1] == text.lower()[:1]


@pytest.mark.parametrize("text", ["", "a =", "a = 1; DROP TABLE t", "SELECT 1", "(" * 3000, "'", "a = 1 b = 2"])
def test_a_text_that_is_no_condition_is_refused(text):
    with pytest.raises(HeadwaterError) as refused:
        parsed(text)
    assert refused.value.condition == "PARSE_SYNTAX_ERROR"


@pytest.mark.parametrize(
    ("text", "name", "proposal"),
    [("aa = 1", "aa", "a"), ("a = 1 AND upper(nothing) = 'X'", "nothing", "a"), ("s.xx < 5", "xx", "x")],
)
def test_an_unknown_column_is_refused_with_the_nearest_names(text, name, proposal):
    with pytest.raises(HeadwaterError) as refused:
        parsed(text)
    assert refused.value.condition == "UNRESOLVED_COLUMN.WITH_SUGGESTION"
    assert refused.value.parameters["objectName"] == name
    assert proposal in refused.value.parameters["proposal"].split(", ")


def test_columns_of_spark_and_of_subqueries_are_not_looked_for():
    assert len(parsed("_metadata.file_size > 1 AND a IN (SELECT other FROM t)").not_understood) == 2
