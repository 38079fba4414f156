"""Queries as trees: what is printed parses to the tree it was printed from, whatever names and texts are in it.

sqlglot reads what is printed. Its tree is turned back into ours, and the two are compared.
"""

from __future__ import annotations

from typing import Any

import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from headwater.protocol.types import ArrayType, DecimalType, MapType, PrimitiveType, StructField, StructType
from headwater.sql.composing import (
    FALSE,
    FOR_SPARK,
    NULL,
    STAR,
    TRUE,
    Alias,
    Case,
    Cast,
    Column,
    Expression,
    Field,
    In,
    Infix,
    IsNull,
    Join,
    Named,
    Not,
    Number,
    Over,
    Placeholders,
    Query,
    Relation,
    Resolved,
    Rows,
    Select,
    Text,
    call,
    equal,
    every,
    infix,
    is_not_null,
    select,
    type_text,
    when,
    where,
)

OPERATORS: dict[str, type[exp.Expression]] = {
    "AND": exp.And,
    "OR": exp.Or,
    "=": exp.EQ,
    "<>": exp.NEQ,
    "<=>": exp.NullSafeEQ,
    "+": exp.Add,
    "*": exp.Mul,
}
TYPES = {"BIGINT": "long", "INT": "integer", "STRING": "string"}


def read(text: str) -> Any:
    return ours(sqlglot.parse_one(text, dialect="spark"))


def ours(node: Any) -> Any:
    """A tree of sqlglot's as one of ours."""
    for sign, kind in OPERATORS.items():
        if type(node) is kind:
            return Infix(sign, tuple(map(ours, operands(node))))
    match node:
        case exp.Paren():
            return ours(node.this)
        case exp.Null():
            return NULL
        case exp.Boolean():
            return TRUE if node.this else FALSE
        case exp.Star():
            return STAR
        case exp.Literal():
            return Text(node.this) if node.is_string else Number(int(node.this))
        case exp.Neg():
            number = ours(node.this)
            return Number(-number.value, number.is_long)
        case exp.Column() if isinstance(node.this, exp.Star):
            return STAR
        case exp.Column():
            return column([part.name for part in node.parts])
        case exp.Dot():
            return column([part.name for part in node.parts])
        case exp.Not(this=exp.Is() as inner):
            return IsNull(ours(inner.this), True)
        case exp.Not():
            return Not(ours(node.this))
        case exp.Is():
            assert isinstance(node.expression, exp.Null)
            return IsNull(ours(node.this))
        case exp.In():
            return In(ours(node.this), tuple(map(ours, node.expressions)))
        case exp.Case():
            assert node.this is None
            branches = tuple((ours(branch.this), ours(branch.args["true"])) for branch in node.args["ifs"])
            return Case(branches, ours(node.args["default"]) if node.args.get("default") is not None else None)
        case exp.Cast():
            if isinstance(node.this, exp.Literal) and node.to.sql() == "BIGINT" and not node.this.is_string:
                return Number(int(node.this.this), True)  # as sqlglot reads 1L
            return Cast(ours(node.this), PrimitiveType(TYPES[node.to.sql(dialect="spark")]))
        case exp.Alias():
            return Alias(ours(node.this), node.alias)
        case exp.Window():
            assert isinstance(node.this, exp.RowNumber)
            (ordered,) = node.args["order"].expressions
            keys = tuple(map(ours, node.args["partition_by"]))
            return Over(call("row_number"), keys, ours(ordered.this), bool(ordered.args.get("desc")))
        case exp.Coalesce():
            return call("coalesce", ours(node.this), *map(ours, node.expressions))
        case exp.Anonymous():
            return call(node.name, *map(ours, node.expressions))
        case exp.Select():
            return ours_of_select(node)
        case exp.Subquery():
            inner = ours(node.this)
            return Named(inner, node.alias) if node.alias else inner
        case exp.Table():
            assert node.db == "hw_plan"
            relation = Relation(int(node.name))
            return Named(relation, node.alias) if node.alias else relation
    raise AssertionError(f"{type(node).__name__}: {node!r}")


def operands(node: exp.Expression) -> list[exp.Expression]:
    """``a AND b AND c`` is read as ``(a AND b) AND c``, without the parentheses that we print."""
    left = node.this
    return [*(operands(left) if type(left) is type(node) else [left]), node.expression]


def column(parts: list[str]) -> Expression:
    if len(parts) == 2 and parts[0] == "hw_expr":
        return Resolved(int(parts[1]))
    return Column(parts[0]) if len(parts) == 1 else Field(tuple(parts))


def ours_of_select(node: exp.Select) -> Select:
    rows = ours((node.args.get("from_") or node.args["from"]).this)
    for join in node.args.get("joins") or []:
        kind = " ".join(word for word in (join.side, join.kind) if word)
        rows = Join(rows, kind, ours(join.this), ours(join.args["on"]))
    condition, limit, hint = node.args.get("where"), node.args.get("limit"), node.args.get("hint")
    return Select(
        tuple(map(ours, node.expressions)),
        rows,
        where=ours(condition.this) if condition else None,
        hint=hint.expressions[0].sql(dialect="spark").replace("`", "") if hint else None,
        is_distinct=node.args.get("distinct") is not None,
        limit=int(limit.expression.name) if limit else None,
    )


names = st.text(alphabet="ab`'\"\\ .;-/*\nſé%{}", min_size=1, max_size=6)
texts = st.text(alphabet="ab'\"`\\n\n ;-/*%é$0", max_size=8)
leaves = st.one_of(
    names.map(Column),
    st.tuples(names, names).map(Field),
    texts.map(Text),
    st.integers(-9, 9).map(Number),
    st.integers(0, 9).map(lambda number: Number(number, True)),
    st.integers(0, 99).map(Resolved),
    st.sampled_from([NULL, TRUE, FALSE]),
)


def larger(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    several = st.lists(inner, min_size=2, max_size=3).map(tuple)
    pair = st.tuples(inner, inner)
    return st.one_of(
        st.tuples(st.sampled_from(["AND", "OR", "+", "*"]), several).map(lambda drawn: Infix(*drawn)),
        st.tuples(st.sampled_from(["=", "<>", "<=>"]), pair).map(lambda drawn: Infix(*drawn)),
        inner.map(Not),
        st.tuples(inner, st.booleans()).map(lambda drawn: IsNull(*drawn)),
        st.tuples(inner, several).map(lambda drawn: In(*drawn)),
        st.tuples(st.lists(pair, min_size=1, max_size=2).map(tuple), st.none() | inner).map(lambda drawn: Case(*drawn)),
        st.tuples(inner, st.sampled_from(sorted(TYPES.values())).map(PrimitiveType)).map(lambda drawn: Cast(*drawn)),
        several.map(lambda drawn: call("raise_row_error", *drawn)),
        several.map(lambda drawn: call("coalesce", *drawn)),
        st.tuples(several, inner, st.booleans()).map(lambda drawn: Over(call("row_number"), *drawn)),
    )


expressions: st.SearchStrategy[Expression] = st.recursive(leaves, larger, max_leaves=12)
relations = st.integers(0, 9).map(Relation)


def of_rows(inner: st.SearchStrategy[Query]) -> st.SearchStrategy[Query]:
    named = st.tuples(inner, names).map(lambda drawn: Named(*drawn))
    joined = st.tuples(
        named, st.sampled_from(["INNER", "LEFT OUTER", "RIGHT OUTER", "FULL OUTER", "LEFT SEMI", "LEFT ANTI"]), named
    )
    rows: st.SearchStrategy[Rows] = st.one_of(
        inner, named, st.tuples(joined, expressions).map(lambda drawn: Join(*drawn[0], drawn[1]))
    )
    columns = st.lists(st.one_of(st.just(STAR), st.tuples(expressions, names).map(lambda d: Alias(*d))), min_size=1)
    return st.builds(
        Select,
        columns.map(tuple),
        rows,
        st.none() | expressions,
        st.sampled_from([None, "COALESCE(1)", "BROADCAST(source)"]),
        st.booleans(),
        st.none() | st.integers(1, 9),
    )


queries: st.SearchStrategy[Query] = st.recursive(relations.map(lambda r: select(STAR, rows=r)), of_rows, max_leaves=4)


def cast_of_a_number(tree: Any) -> bool:
    return "AS bigint)" in tree.text(FOR_SPARK)  # CAST(1 AS BIGINT), which sqlglot takes for 1L


@settings(max_examples=150, deadline=None)
@given(expressions)
def test_an_expression_means_its_tree(tree):
    if not cast_of_a_number(tree):
        assert read(tree.text(FOR_SPARK)) == tree


@settings(max_examples=150, deadline=None)
@given(queries)
def test_a_query_means_its_tree(tree):
    if not cast_of_a_number(tree):
        assert read(tree.text()) == tree


def test_operators_are_in_parentheses_where_they_are_operands():
    a, b, c = map(Column, "abc")
    assert infix("OR", every(a, b), c).text(FOR_SPARK) == "(`a` AND `b`) OR `c`"
    assert Not(infix("OR", a, b)).text(FOR_SPARK) == "NOT (`a` OR `b`)"
    assert call("f", infix("+", a, b)).text(FOR_SPARK) == "f(`a` + `b`)"
    assert is_not_null(equal(a, b)).text(FOR_SPARK) == "(`a` = `b`) IS NOT NULL"


def test_every_of_none_and_one():
    assert every() is None
    assert every(None, None) is None
    assert every(None, Column("a")) == Column("a")
    assert where(Relation(1), None) == Relation(1)


def test_placeholders():
    """Spark gets numbers; people what they stand for. A name or a text that looks like a placeholder is none."""
    condition = infix("AND", Resolved(0), Column("hw_expr.`0`"), equal(Text("hw_expr.`0`"), Field(("hw_plan", "1"))))
    query = select(when(Resolved(1), Resolved(0)), rows=Named(Relation(1), "target"), where=condition)
    assert query.text() == (
        "SELECT CASE WHEN hw_expr.`1` THEN hw_expr.`0` END\nFROM hw_plan.`1` AS `target`\n"
        "WHERE hw_expr.`0` AND `hw_expr.``0``` AND ('hw_expr.`0`' = `hw_plan`.`1`)"
    )
    shown = query.text(Placeholders(["t.id", "s.id"].__getitem__, lambda number: f"<{number}>"))
    assert shown == (
        "SELECT CASE WHEN s.id THEN t.id END\nFROM <1> AS `target`\n"
        "WHERE t.id AND `hw_expr.``0``` AND ('hw_expr.`0`' = `hw_plan`.`1`)"
    )
    assert Relation(3).text() == "TABLE hw_plan.`3`"


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (PrimitiveType("long"), "bigint"),
        (DecimalType(10, 2), "decimal(10,2)"),
        (
            StructType(
                (StructField("a b", ArrayType(PrimitiveType("integer"))), StructField("c`", PrimitiveType("date")))
            ),
            "struct<`a b`: array<int>, `c```: date>",
        ),
        (MapType(PrimitiveType("string"), DecimalType(3, 1)), "map<string, decimal(3,1)>"),
    ],
)
def test_types(kind, text):
    assert type_text(kind) == text
    sqlglot.parse_one(Cast(NULL, kind).text(FOR_SPARK), dialect="spark")
