"""CONSTRAINT … EXPECT in the text of statements."""

from __future__ import annotations

import json

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.sql import expectation_clauses, grammar, older_sparks, scripts


def _for_spark(text, default_is_delta=False):
    return expectation_clauses.for_spark(text, default_is_delta=default_is_delta)


def _property(name, **said):
    value = json.dumps({"name": name, **said}).replace("\\", "\\\\").replace("'", "\\'")
    return f"'headwater.expect.{name.lower()}' = '{value}'"


@pytest.mark.parametrize(
    ("text", "made"),
    [
        (
            "CREATE TABLE t (a INT, CONSTRAINT C EXPECT (a > 0 AND b <> 'x, y')) USING delta",
            "CREATE TABLE t (a INT) USING delta TBLPROPERTIES ("
            + _property("C", condition="a > 0 AND b <> 'x, y'")
            + ")",
        ),
        (
            "CREATE OR REPLACE TABLE c.d.t (CONSTRAINT c EXPECT (a > 0) ON VIOLATION DROP ROW, a INT) USING delta "
            "PARTITIONED BY (a) TBLPROPERTIES ('x' = 'y')",
            "CREATE OR REPLACE TABLE c.d.t (a INT) USING delta PARTITIONED BY (a) TBLPROPERTIES ("
            + _property("c", condition="a > 0", onViolation="DROP ROW")
            + ", 'x' = 'y')",
        ),
        (
            "create streaming table t (constraint c expect (a is not null) on violation quarantine into d.`q t`) "
            "using delta as select 1 as a",
            "create streaming table t  using delta TBLPROPERTIES ("
            + _property("c", condition="a is not null", onViolation="QUARANTINE", into=["d", "q t"])
            + ") as select 1 as a",
        ),
    ],
)
def test_a_creation_has_expectations_as_properties(text, made):
    assert _for_spark(text) == made


@pytest.mark.parametrize(
    "text",
    ["", "SELECT 1", "CREATE TABLE t (a INT, CHECK (a > 0)) USING delta", "CREATE TABLE t USING delta", "CREATE TABLE"],
)
def test_other_texts_are_left_alone(text):
    assert _for_spark(text) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("CREATE TABLE t (a INT, EXPECT (a > 0)) USING delta", "needs a name"),
        ("CREATE TABLE t (a INT, CONSTRAINT c EXPECT ()) USING delta", "needs a condition"),
        ("CREATE TABLE t (a INT, CONSTRAINT c EXPECT (a > 0)) USING parquet", "USING delta"),
        ("CREATE TABLE t (a INT, CONSTRAINT c EXPECT (a > 0))", "USING delta"),
        ("CREATE TABLE t (a INT, CONSTRAINT c EXPECT (a > 0) ENFORCED) USING delta", "nothing may follow"),
        ("CREATE TABLE t (a INT, CONSTRAINT c EXPECT (a > 0), CONSTRAINT C EXPECT (a > 1)) USING delta", "two"),
        ("CREATE TABLE t (a INT, CONSTRAINT c EXPECT (a > 0) ON VIOLATION QUARANTINE) USING delta", "QUARANTINE INTO"),
        ("ALTER TABLE t ADD CONSTRAINT c EXPECT (a > 0) ON VIOLATION FAIL", "FAIL UPDATE"),
        ("ALTER TABLE t ADD CONSTRAINT c EXPECT (a > 0), ADD COLUMN b INT", "nothing may follow"),
    ],
)
def test_what_is_not_written_well(text, reason):
    read = grammar.parse if text.startswith("ALTER") else _for_spark
    with pytest.raises(HeadwaterError, match=reason):
        read(text)


def test_a_table_without_using_is_a_delta_table_if_that_is_the_default():
    made = _for_spark("CREATE TABLE t (a INT, CONSTRAINT c EXPECT (a > 0))", default_is_delta=True)
    assert made == f"CREATE TABLE t (a INT) TBLPROPERTIES ({_property('c', condition='a > 0')})"


def test_alter_table():
    text = "ALTER TABLE d.t ADD CONSTRAINT `C c` EXPECT (a > (0)) ON VIOLATION FAIL UPDATE"
    parsed = grammar.parse(text)
    assert (parsed.command, parsed.table) == ("add_constraint", "d.t")
    assert parsed.arguments == {
        "kind": "expect", "name": "C c", "expression": "a > (0)", "onViolation": "FAIL UPDATE"
    }  # fmt: skip


def test_beside_constraints_on_older_sparks_and_in_scripts():
    text = "CREATE TABLE t (a INT, CONSTRAINT k CHECK (a > 1), CONSTRAINT c EXPECT (a > 0)) USING delta"
    expecting = _for_spark(text)
    assert expecting is not None
    older = older_sparks.for_spark(expecting, "4.0.1")
    assert older is not None
    assert older.count("headwater.constraint.k") == older.count("headwater.expect.c") == 1
    script = f"BEGIN {text}; ALTER TABLE t ADD CONSTRAINT d EXPECT (a < 9); END"
    made = scripts.for_spark(script)
    assert made is not None
    assert "EXECUTE IMMEDIATE 'ALTER TABLE t ADD CONSTRAINT d" in made
    assert expecting in made
