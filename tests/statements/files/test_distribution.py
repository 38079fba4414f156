"""Optimized writes without Spark: who asks for them, and where in the query rows are gathered."""

from __future__ import annotations

import itertools

import pytest

from headwater.basics.errors import HeadwaterError
from support.requests import create_request, create_table, schema_json, write

SETTING = "spark.databricks.delta.optimizeWrite"
SCHEMA = schema_json(**{"a": "integer", "p-q": "string"})


def query(path, make_statement, option=None, session=None, table=None, partitioned=True, properties=(), **settings):
    """The query of an INSERT's job, and its settings."""
    confs = {f"{SETTING}.{name}": value for name, value in settings.items()}
    if session is not None:
        confs[f"{SETTING}.enabled"] = session
    statement = make_statement(confs)
    given = {} if table is None else {"delta.autoOptimize.optimizeWrite": table}
    columns = ["p-q"] if partitioned else []
    request = create_request(path, SCHEMA, partitionColumns=columns, partitioning=columns, properties=given)
    request["properties"].update(properties)
    create_table(request, statement)
    options = {} if option is None else {"OptimizeWrite": option}
    request = {"table": str(path), "name": "t", "plan": 0, "schema": SCHEMA, "mode": "append", "options": options}
    write(request, statement)
    (specification,) = statement.specifications
    return specification["query"], specification["settings"]


def test_the_first_that_says_something_decides(tmp_path, make_statement):
    for number, asked in enumerate(itertools.product(("true", "false", None), repeat=3)):
        text, settings = query(tmp_path / str(number), make_statement, *asked)
        decides = next((said for said in asked if said is not None), "false")
        assert ("OPTIMIZED_WRITE" in text) == (decides == "true"), asked
        assert ("spark.sql.adaptive.enabled" in settings) == (decides == "true"), asked


def test_sizes(tmp_path, make_statement):
    def hint(name, partitioned=True, **settings):
        text, _ = query(tmp_path / name, make_statement, "true", partitioned=partitioned, **settings)
        return text[text.index("OPTIMIZED_WRITE") : text.index(" */")]

    assert hint("default") == "OPTIMIZED_WRITE(2000, 536870912, `p-q`)"
    assert hint("plain", False, maxShufflePartitions="7") == "OPTIMIZED_WRITE(7, 536870912)"
    assert hint("number", binSize="64") == f"OPTIMIZED_WRITE(2000, {64 << 20}, `p-q`)"
    assert hint("unit", binSize="3g") == f"OPTIMIZED_WRITE(2000, {3 << 30}, `p-q`)"
    for number, wrong in enumerate(({"binSize": "0"}, {"binSize": "-1m"}, {"maxShufflePartitions": "x"})):
        with pytest.raises(HeadwaterError, match="DELTA_ILLEGAL_OPTION"):
            hint(f"wrong{number}", **wrong)


def test_conditions_are_checked_by_the_task_that_writes(tmp_path, make_statement):
    text, _ = query(tmp_path / "t", make_statement, "true", properties={"delta.constraints.few": "a < 5"})
    assert text.count("OPTIMIZED_WRITE") == 1
    inner = text[text.index("OPTIMIZED_WRITE") :]
    # The condition is in a query around the one with the hint.
    assert inner.index("hw_plan") < inner.index("WHERE")
