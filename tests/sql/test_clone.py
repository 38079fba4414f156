"""The grammar of CLONE: what it is made of, and the CREATE TABLE that Spark parses for the new table."""

from __future__ import annotations

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.sql.grammar import parse
from headwater.sql.grammar.shared import Parsed


@pytest.mark.parametrize(
    ("text", "creates", "table", "arguments"),
    [
        ("CREATE TABLE a SHALLOW CLONE b", "CREATE TABLE a USING delta", "b", {"isShallow": True}),
        (
            "create or replace table db.`a b` shallow clone delta.`/x y` version as of 1 + 2;",
            "create or replace table db.`a b` USING delta",
            "delta.`/x y`",
            {"isShallow": True, "version": "1 + 2"},
        ),
        (
            "CREATE TABLE IF NOT EXISTS IDENTIFIER(:a) DEEP CLONE IDENTIFIER('b' || :c) FOR SYSTEM_TIME AS OF "
            "date_sub(x, (1)) LOCATION '/TBLPROPERTIES (' TBLPROPERTIES ('a' = 'b', c.d = (1))",
            "CREATE TABLE IF NOT EXISTS IDENTIFIER(:a) USING delta LOCATION '/TBLPROPERTIES (' "
            "TBLPROPERTIES ('a' = 'b', c.d = (1))",
            "IDENTIFIER('b' || :c)",
            {"isShallow": False, "timestamp": "date_sub(x, (1))"},
        ),
        (
            "REPLACE TABLE clone CLONE '/a path' TBLPROPERTIES (a = 1)",
            "REPLACE TABLE clone USING delta TBLPROPERTIES (a = 1)",
            "'/a path'",
            {"isShallow": False},
        ),
        (
            "CREATE TABLE if SHALLOW CLONE location VERSION AS OF location",
            "CREATE TABLE if USING delta",
            "location",
            {"isShallow": True, "version": "location"},
        ),
        (
            "CREATE TABLE a SHALLOW CLONE parquet.`/b` NO STATISTICS PARTITIONED BY (c INT, d DECIMAL(3, 1)) "
            "LOCATION '/a'",
            "CREATE TABLE a USING delta LOCATION '/a'",
            "parquet.`/b`",
            {"isShallow": True, "statistics": False, "partitionedBy": "c INT, d DECIMAL(3, 1)"},
        ),
    ],
)
def test_clones(text, creates, table, arguments):
    for spelled in (text, f"-- why\n{text}"):
        assert parse(spelled) == Parsed("clone", table, arguments, creates)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("CREATE TABLE a SHALLOW CLONE", "names no table"),
        ("CREATE TABLE a SHALLOW CLONE b VERSION AS OF", "no version or time"),
        ("CREATE TABLE a SHALLOW CLONE b VERSION AS OF LOCATION '/x'", "no version or time"),
        ("CREATE TABLE a SHALLOW CLONE b c", "'c' is not part of it"),
        ("CREATE TABLE a SHALLOW CLONE b LOCATION '/x' LOCATION '/y'", "'LOCATION '/x' LOCATION '/y'' is not"),
        ("CREATE TABLE a SHALLOW CLONE b TBLPROPERTIES ('a' = 'b'", "is not part of it"),
        ("CREATE TABLE a SHALLOW CLONE b LOCATION x", "is not part of it"),
        ("CREATE TABLE a SHALLOW CLONE b PARTITIONED BY ()", "is not part of it"),
        ("CREATE TABLE a SHALLOW CLONE b TBLPROPERTIES ('a' = 'b') NO STATISTICS", "is not part of it"),
    ],
)
def test_mistakes(text, reason):
    with pytest.raises(HeadwaterError, match="SHALLOW CLONE s") as raised:
        parse(text)
    assert raised.value.condition == "PARSE_SYNTAX_ERROR"
    assert reason in raised.value.text


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE clone (id INT) USING delta",
        "CREATE TABLE t (clone INT) USING delta",
        "CREATE TABLE t AS SELECT 1 clone b c",
        "CREATE TABLE t USING delta SHALLOW CLONE s",
        "CREATE TABLE 'path' SHALLOW CLONE s",
        "CREATE TABLE shallow LIKE clone",
        "SELECT * FROM t SHALLOW CLONE s",
    ],
)
def test_other_texts_are_sparks(text):
    assert parse(text) is None
