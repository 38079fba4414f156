"""The model's conditions and values mean what Spark's do: Spark itself computes them, with no table of ours near."""

from __future__ import annotations

from typing import Any

from checking import multiset
from expressions import SQL_TYPES, Scope, Term, quoted, stored
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from model import TARGET, select_sql
from strategies import EXTRA, conditions, names, rows, values

PHASES = [Phase.generate, Phase.shrink]
COLUMNS = {"k": "int", "v": "int", **EXTRA}


def computed_by_spark(spark: Any, terms: list[Term], given_rows: tuple[Any, ...]) -> Any:
    """The terms' values for every row, in one query that Spark cannot fold."""
    spark.sql(select_sql(COLUMNS, given_rows)).createOrReplaceTempView("given_rows")
    selected = ", ".join(f"{term.sql} AS {quoted(f'c{i}')}" for i, term in enumerate(terms))
    return multiset(spark.sql(f"SELECT {selected} FROM given_rows AS {TARGET}").collect())


def assigned(kind: str, term: Term) -> Term:
    """The term as a column of the kind stores it."""
    return Term(f"CAST({term.sql} AS {SQL_TYPES[kind]})", lambda scope: stored(kind, term.value(scope)))


@settings(max_examples=20, deadline=None, derandomize=True, phases=PHASES, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_expressions_are_sparks(spark: Any, data: st.DataObject) -> None:
    given_rows = data.draw(rows(COLUMNS, 8).filter(bool))
    available = names(TARGET, COLUMNS)
    kinds = ["int", "bigint", "string", "boolean", "date", "decimal", "struct"]
    terms = data.draw(st.lists(conditions(available), min_size=8, max_size=8))
    terms += [assigned(kind, data.draw(values(kind, available))) for kind in kinds]
    expected = multiset([term.value(Scope({TARGET: row})) for term in terms] for row in given_rows)
    assert computed_by_spark(spark, terms, given_rows) == expected


@settings(max_examples=30, deadline=None, derandomize=True, phases=PHASES, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_subqueries_are_sparks(spark: Any, data: st.DataObject) -> None:
    given_rows, others = data.draw(rows(COLUMNS, 8).filter(bool)), data.draw(rows(COLUMNS, 5))
    spark.sql(select_sql(COLUMNS, given_rows)).createOrReplaceTempView("given_rows")
    spark.sql(select_sql(COLUMNS, others)).createOrReplaceTempView("others")
    condition = data.draw(conditions(names(TARGET, COLUMNS), others=COLUMNS))
    expected = [row for row in given_rows if condition.holds(Scope({TARGET: row}, others))]
    found = spark.sql(f"SELECT * FROM given_rows AS {TARGET} WHERE {condition.sql}").collect()
    assert multiset(found) == multiset([row[name] for name in COLUMNS] for row in expected)
