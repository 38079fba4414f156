"""CONVERT TO DELTA: what is its table, its options, and what is a mistake."""

from __future__ import annotations

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.sql.grammar import parse
from headwater.sql.grammar.shared import Parsed


@pytest.mark.parametrize(
    ("text", "table", "statistics", "partitioned_by"),
    [
        ("CONVERT TO DELTA t", "t", True, None),
        ("convert to delta `a b`.t NO STATISTICS;", "`a b`.t", False, None),
        ("CONVERT TO DELTA parquet.`/p q`", "parquet.`/p q`", True, None),
        ("CONVERT TO DELTA t PARTITIONED BY (a INT, `b )` DECIMAL(3, 2))", "t", True, "a INT, `b )` DECIMAL(3, 2)"),
        ("CONVERT TO DELTA t NO STATISTICS PARTITIONED BY (a INT)", "t", False, "a INT"),
        ("CONVERT TO DELTA IDENTIFIER('x' || 'y') PARTITIONED BY (a INT)", "IDENTIFIER('x' || 'y')", True, "a INT"),
        ("CONVERT /* a */ TO DELTA delta.`/p` -- b", "delta.`/p`", True, None),
    ],
)
def test_statements(text, table, statistics, partitioned_by):
    assert parse(text) == Parsed("convert_to_delta", table, {"statistics": statistics, "partitionedBy": partitioned_by})


@pytest.mark.parametrize(
    "text",
    [
        "CONVERT TO DELTA",
        "CONVERT TO DELTA t STATISTICS",
        "CONVERT TO DELTA t PARTITIONED BY ()",
        "CONVERT TO DELTA t PARTITIONED BY (a INT",
        "CONVERT TO DELTA t PARTITIONED BY (a INT) NO STATISTICS",
        "CONVERT TO DELTA t PARTITIONED BY (a INT) (b INT)",
        "CONVERT TO DELTA t u",
    ],
)
def test_mistakes(text):
    with pytest.raises(HeadwaterError) as raised:
        parse(text)
    assert raised.value.condition == "PARSE_SYNTAX_ERROR"
    assert "CONVERT TO DELTA (t | parquet.`/path`)" in raised.value.text


def test_a_path_alone_says_no_format():
    with pytest.raises(HeadwaterError) as raised:
        parse("CONVERT TO DELTA '/p'")
    assert raised.value.condition == "DELTA_MISSING_PROVIDER_FOR_CONVERT"
    assert "parquet.`/p`" in raised.value.text


@pytest.mark.parametrize("text", ["SELECT 1", "CONVERT", "CONVERT TO ICEBERG t", "SELECT convert FROM t"])
def test_other_texts(text):
    assert parse(text) is None
