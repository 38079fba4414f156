"""The model's conditions and values mean what Spark's do: Spark itself computes them, with no table of ours near;
and what statements do is what they are said to."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from support.dml.checking import multiset
from support.dml.expressions import SQL_TYPES, Scope, Term, column, compare, is_null, literal, quoted, stored
from support.dml.model import MULTIPLE, SOURCE, TARGET, Assignment, Clause, Merge, Source, Table, Update, select_sql
from support.dml.strategies import EXTRA, conditions, names, rows, values
from support.drawing import STEADY

COLUMNS = {"k": "int", "v": "int", **EXTRA}


def computed_by_spark(spark: Any, terms: list[Term], given_rows: tuple[Any, ...]) -> Any:
    """The terms' values for every row, in one query that Spark cannot fold."""
    spark.sql(select_sql(COLUMNS, given_rows)).createOrReplaceTempView("given_rows")
    selected = ", ".join(f"{term.sql} AS {quoted(f'c{i}')}" for i, term in enumerate(terms))
    return multiset(spark.sql(f"SELECT {selected} FROM given_rows AS {TARGET}").collect())


def assigned(kind: str, term: Term) -> Term:
    """The term as a column of the kind stores it."""
    return Term(f"CAST({term.sql} AS {SQL_TYPES[kind]})", lambda scope: stored(kind, term.value(scope)))


@settings(STEADY, max_examples=20)
@given(data=st.data())
def test_expressions_are_sparks(spark: Any, data: st.DataObject) -> None:
    given_rows = data.draw(rows(COLUMNS, 8).filter(bool))
    available = names(TARGET, COLUMNS)
    kinds = list(SQL_TYPES)
    terms = data.draw(st.lists(conditions(available), min_size=8, max_size=8))
    terms += [assigned(kind, data.draw(values(kind, available))) for kind in kinds]
    expected = multiset([term.value(Scope({TARGET: row})) for term in terms] for row in given_rows)
    assert computed_by_spark(spark, terms, given_rows) == expected


@settings(STEADY, max_examples=30)
@given(data=st.data())
def test_subqueries_are_sparks(spark: Any, data: st.DataObject) -> None:
    given_rows, others = data.draw(rows(COLUMNS, 8).filter(bool)), data.draw(rows(COLUMNS, 5))
    spark.sql(select_sql(COLUMNS, given_rows)).createOrReplaceTempView("given_rows")
    spark.sql(select_sql(COLUMNS, others)).createOrReplaceTempView("others")
    condition = data.draw(conditions(names(TARGET, COLUMNS), others=COLUMNS))
    expected = [row for row in given_rows if condition.holds(Scope({TARGET: row}, others))]
    found = spark.sql(f"SELECT * FROM given_rows AS {TARGET} WHERE {condition.sql}").collect()
    assert multiset(found) == multiset([row[name] for name in COLUMNS] for row in expected)


KEYS = Table({"k": "int", "v": "int"}, (), ({"k": 1, "v": 1}, {"k": None, "v": 2}))
TWICE = Source({"k": "int", "v": "int"}, ({"k": 1, "v": 10}, {"k": 1, "v": 20}, {"k": None, "v": 30}))
ON = compare("=", column(TARGET, "k"), column(SOURCE, "k"))
LARGE = compare(">", column(SOURCE, "v"), literal("int", 15))


def test_several_source_rows_are_an_error_only_where_they_act() -> None:
    assert Merge(TWICE, ON, (Clause("MATCHED", "UPDATE"),)).apply(KEYS, ()).error == MULTIPLE
    assert (
        Merge(TWICE, ON, (Clause("MATCHED", "DELETE", is_null(column(SOURCE, "k"), negate=True)),))
        .apply(KEYS, ())
        .error
        == MULTIPLE
    )
    one = Merge(TWICE, ON, (Clause("MATCHED", "UPDATE", LARGE),)).apply(KEYS, ())
    assert [row["v"] for row in one.table.rows] == [20, 2]
    deleted = Merge(TWICE, ON, (Clause("MATCHED", "DELETE"),)).apply(KEYS, ())
    assert deleted.changes == (("delete", {"k": 1, "v": 1}),)
    assert deleted.returned == {
        "num_affected_rows": 1, "num_updated_rows": 0, "num_deleted_rows": 1, "num_inserted_rows": 0
    }  # fmt: skip


def test_the_first_clause_wins_and_unknown_is_no_match() -> None:
    clauses = (
        Clause("MATCHED", "DELETE", LARGE),
        Clause("NOT MATCHED", "INSERT"),
        Clause("NOT MATCHED BY SOURCE", "UPDATE", None, (Assignment("v", literal("int", 0)),)),
    )
    outcome = Merge(TWICE, ON, clauses).apply(KEYS, ())
    assert outcome.changes == (
        ("delete", {"k": 1, "v": 1}),
        ("update_preimage", {"k": None, "v": 2}),
        ("update_postimage", {"k": None, "v": 0}),
        ("insert", {"k": None, "v": 30}),
    )


def test_an_empty_partition_text_is_null() -> None:
    table = Table({"k": "int", "p": "string"}, ("p",), ({"k": 1, "p": "x"},))
    outcome = Update((Assignment("p", literal("string", "")),), None).apply(table, ())
    assert outcome.table.rows == ({"k": 1, "p": None},)
