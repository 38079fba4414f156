"""DROP PRIMARY KEY and DROP FOREIGN KEY; keys that are to be ENFORCED."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.sql import grammar
from headwater.sql.grammar.shared import Parsed
from headwater.sql.key_clauses import for_spark, refuse_enforced


@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        ("PRIMARY KEY", {"ifExists": False, "cascade": False}),
        ("primary key if exists cascade", {"ifExists": True, "cascade": True}),
        ("PRIMARY KEY RESTRICT", {"ifExists": False, "cascade": False}),
        ("FOREIGN KEY (a, `b c`)", {"columns": ["a", "b c"], "ifExists": False}),
        ("FOREIGN KEY IF EXISTS (a)", {"columns": ["a"], "ifExists": True}),
    ],
)
def test_keys_are_dropped(words: str, arguments: dict[str, Any]) -> None:
    assert grammar.parse(f"ALTER TABLE x.t DROP {words};") == Parsed("drop_key", "x.t", arguments)


@pytest.mark.parametrize("words", ["PRIMARY KEY (a)", "FOREIGN KEY", "FOREIGN KEY (a.b)", "FOREIGN KEY (a) CASCADE"])
def test_other_texts_are_not_of_keys(words: str) -> None:
    assert grammar.parse(f"ALTER TABLE t DROP {words}") is None


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE t (a INT PRIMARY KEY ENFORCED, b INT REFERENCES p ENFORCED) USING delta",
        "create or replace table t (a INT, CHECK (a > 0), FOREIGN KEY (a) REFERENCES p RELY enforced)",
        "ALTER TABLE t ADD CONSTRAINT u UNIQUE (a) ENFORCED",
    ],
)
def test_an_enforced_key_that_is_no_primary_key_is_refused(text: str) -> None:
    with pytest.raises(HeadwaterError, match="HEADWATER_KEY_ENFORCED"):
        refuse_enforced(text)


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE t (a INT PRIMARY KEY NOT ENFORCED, CHECK (a > 0) ENFORCED)",
        "CREATE TABLE t (a INT, FOREIGN KEY (a) REFERENCES p, PRIMARY KEY (a) ENFORCED)",
        "ALTER TABLE t ADD CONSTRAINT c CHECK (a > 0) ENFORCED",
        "SELECT 'PRIMARY KEY (a) ENFORCED'",
        "CREATE TABLE t (a STRING COMMENT 'PRIMARY KEY ENFORCED')",
        "'",
    ],
)
def test_other_texts_are_not_refused(text: str) -> None:
    refuse_enforced(text)


def test_references_get_columns() -> None:
    text = "CREATE TABLE t (a INT REFERENCES x.`p q`, FOREIGN KEY (a) REFERENCES p (b), FOREIGN KEY (a) REFERENCES q)"
    wanted = (
        "CREATE TABLE t (a INT REFERENCES x.`p q` (`*`), FOREIGN KEY (a) REFERENCES p (b), "
        "FOREIGN KEY (a) REFERENCES q (`*`))"
    )
    assert for_spark(text) == wanted
    assert for_spark(wanted) is None
    assert for_spark("ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES p;") == (
        "ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES p (`*`);"
    )
    assert for_spark("BEGIN ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES p; END") == (
        "BEGIN ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES p (`*`); END"
    )
    assert for_spark("SELECT a REFERENCES p") is None


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (
            "CREATE TABLE t (a INT PRIMARY KEY ENFORCED RELY, b INT)",
            "CREATE TABLE t (a INT CONSTRAINT `*enforced*` PRIMARY KEY  RELY, b INT)",
        ),
        (
            "ALTER TABLE t ADD CONSTRAINT k PRIMARY KEY (a, `b c`) RELY enforced",
            "ALTER TABLE t ADD CONSTRAINT `*enforced*k` PRIMARY KEY (a, `b c`) RELY ",
        ),
        (
            "BEGIN CREATE TABLE t (a INT, CONSTRAINT `k``1` PRIMARY KEY (a) ENFORCED, "
            "FOREIGN KEY (a) REFERENCES p); END",
            "BEGIN CREATE TABLE t (a INT, CONSTRAINT `*enforced*k``1` PRIMARY KEY (a) , "
            "FOREIGN KEY (a) REFERENCES p (`*`)); END",
        ),
        ("CREATE TABLE t (a INT PRIMARY KEY NOT ENFORCED, b STRING COMMENT 'PRIMARY KEY ENFORCED')", None),
        ("ALTER TABLE t ADD CONSTRAINT c CHECK (a > 0) ENFORCED", None),
    ],
)
def test_the_name_of_a_key_says_that_it_is_enforced(text: str, wanted: str | None) -> None:
    assert for_spark(text) == wanted
