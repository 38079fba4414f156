"""Forms of statements that older Sparks do not parse, in words that they do."""

from __future__ import annotations

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.sql import grammar, scripts
from headwater.sql.grammar.shared import Parsed
from headwater.sql.older_sparks import for_spark

EVOLVES = "'mergeSchema' = 'true'"
FORMS = {
    "INSERT WITH SCHEMA EVOLUTION INTO t SELECT 1": f"INSERT INTO t WITH ({EVOLVES}) SELECT 1",
    "insert with schema evolution into table a.`b c` by name select 1 as x": (
        f"INSERT INTO a.`b c` WITH ({EVOLVES}) BY NAME select 1 as x"
    ),
    "INSERT WITH SCHEMA EVOLUTION OVERWRITE t VALUES (1)": f"INSERT OVERWRITE t WITH ({EVOLVES}) VALUES (1)",
    "INSERT WITH SCHEMA EVOLUTION INTO delta.`/p` WITH (a = 'b') SELECT 1": (
        f"INSERT INTO delta.`/p` WITH (a = 'b', {EVOLVES}) SELECT 1"
    ),
    "INSERT WITH SCHEMA EVOLUTION INTO IDENTIFIER('t' || 'u') (SELECT 1)": (
        f"INSERT INTO IDENTIFIER('t' || 'u') WITH ({EVOLVES}) (SELECT 1)"
    ),
    "EXPLAIN INSERT WITH SCHEMA EVOLUTION INTO t SELECT 1": f"EXPLAIN INSERT INTO t WITH ({EVOLVES}) SELECT 1",
    "WITH q AS (SELECT 1 AS insert) INSERT WITH SCHEMA EVOLUTION INTO t FROM q SELECT *": (
        f"WITH q AS (SELECT 1 AS insert) INSERT INTO t WITH ({EVOLVES}) FROM q SELECT *"
    ),
    "INSERT INTO t REPLACE USING (a, `b c`) SELECT 1": (
        "INSERT OVERWRITE t WITH ('headwater.replaceUsing' = 'a, `b c`') SELECT 1"
    ),
    "INSERT WITH SCHEMA EVOLUTION INTO t BY NAME REPLACE USING (a) TABLE s;": (
        f"INSERT OVERWRITE t WITH ({EVOLVES}, 'headwater.replaceUsing' = 'a') BY NAME TABLE s"
    ),
    "INSERT INTO t AS x BY NAME REPLACE ON x.k = s.k (SELECT 200 AS k) AS s": (
        "INSERT OVERWRITE t WITH ('headwater.replaceOn' = 'x.k = s.k', 'headwater.targetAlias' = 'x') BY NAME "
        "SELECT * FROM (SELECT 200 AS k) AS s"
    ),
    "INSERT INTO t x REPLACE ON x.k = s.k AND x.n IN (SELECT n FROM o) ((SELECT 1 AS k)) s": (
        "INSERT OVERWRITE t WITH ('headwater.replaceOn' = 'x.k = s.k AND x.n IN (SELECT n FROM o)', "
        "'headwater.targetAlias' = 'x') "
        "SELECT * FROM ((SELECT 1 AS k)) s"
    ),
    "INSERT INTO t REPLACE ON name = 'it\\'s (SELECT' SELECT 1 AS name": (
        "INSERT OVERWRITE t WITH ('headwater.replaceOn' = 'name = \\'it\\\\\\'s (SELECT\\'') SELECT 1 AS name"
    ),
}
OTHERS = (
    "INSERT INTO t SELECT 1",
    "INSERT INTO t REPLACE WHERE a = 1 SELECT 1",
    "INSERT INTO t AS x",
    "INSERT",
    "INSERT INTO",
    "INSERT INTO t WITH",
    "SELEC 1",
    "SELECT changes FROM 'a",
    "SELECT 'WITH SCHEMA EVOLUTION'",
    "",
)


NAMED = "TBLPROPERTIES ('headwater.constraint.c' = 'a > 0')"
#: What Spark 4.0 alone does not parse.
CREATIONS = {
    "CREATE TABLE t (a INT, CONSTRAINT c CHECK (a > 0)) USING delta": f"CREATE TABLE t (a INT) USING delta {NAMED}",
    "create or replace table IF NOT EXISTS a.`b c` (a INT CONSTRAINT `c` CHECK (a > 0) NOT NULL, b INT) using Delta": (
        f"create or replace table IF NOT EXISTS a.`b c` (a INT NOT NULL, b INT) using Delta {NAMED}"
    ),
    "CREATE TABLE t (m MAP<STRING, ARRAY<INT>>, CHECK (size(m) IN (1, 2)), b INT) USING delta": (
        "CREATE TABLE t (m MAP<STRING, ARRAY<INT>>, b INT) USING delta "
        "TBLPROPERTIES ('headwater.constraint.' = 'size(m) IN (1, 2)')"
    ),
    "CREATE TABLE t (a INT PRIMARY KEY RELY NOT NULL, b INT CONSTRAINT f REFERENCES p(x)) USING delta": (
        "CREATE TABLE t (a INT NOT NULL, b INT) USING delta TBLPROPERTIES ("
        '\'headwater.declaredKey.0\' = \'{"references": [], "referenced": [], "kind": "primary_key", '
        '"columns": ["a"], "rely": true}\', '
        '\'headwater.declaredKey.1\' = \'{"references": ["p"], "referenced": ["x"], "kind": "foreign_key", '
        '"columns": ["b"], "name": "f"}\')'
    ),
    "CREATE TABLE t (a INT, `b c` INT, CONSTRAINT k FOREIGN KEY (a, `b c`) REFERENCES x.y NOT ENFORCED) USING delta": (
        "CREATE TABLE t (a INT, `b c` INT) USING delta TBLPROPERTIES ("
        '\'headwater.declaredKey.0\' = \'{"references": ["x", "y"], "referenced": [], "kind": "foreign_key", '
        '"columns": ["a", "b c"], "name": "k"}\')'
    ),
    "CREATE TABLE t (a INT CHECK (b <> ')')) USING delta TBLPROPERTIES ('x' = 'y') COMMENT 'c'": (
        "CREATE TABLE t (a INT) USING delta "
        "TBLPROPERTIES ('headwater.constraint.' = 'b <> \\')\\'', 'x' = 'y') COMMENT 'c'"
    ),
}
NO_CREATIONS = (
    "CREATE TABLE t (a INT, CONSTRAINT c CHECK (a > 0)) USING parquet",
    "CREATE TABLE t (a INT, CONSTRAINT c CHECK (a > 0))",
    "CREATE TABLE t (a INT, CONSTRAINT c PRIMARY KEY (a + 1)) USING delta",
    "CREATE TABLE t (a INT, FOREIGN KEY (a)) USING delta",
    "CREATE TABLE t (a INT, `check` INT COMMENT 'CHECK (a)') USING delta",
    "CREATE TABLE t USING delta AS SELECT 1 AS a",
    "CREATE TABLE t (a INT, CONSTRAINT c CHECK (a > 0) USING",
)


@pytest.mark.parametrize("text", CREATIONS)
def test_constraints_of_a_new_table_become_properties(text: str) -> None:
    assert for_spark(text, "4.0.5") == CREATIONS[text]
    assert for_spark(text, "4.1.0") is None


@pytest.mark.parametrize("text", NO_CREATIONS)
def test_other_creations_stay_as_they_are(text: str) -> None:
    assert for_spark(text, "4.0.0") is None


def test_constraints_are_added_and_dropped_by_commands() -> None:
    def asked(text: str, version: str = "4.0.1") -> object:
        return grammar.parse(text, version)

    added = {"kind": "check", "name": "c d", "expression": "a IN (1, 2) AND b <> ')'"}
    statement = "ALTER TABLE a.b ADD CONSTRAINT `c d` CHECK (a IN (1, 2) AND b <> ')');"
    assert asked(statement) == Parsed("add_constraint", "a.b", added)
    for words, if_exists in (("", False), ("if exists ", True)):
        dropped = {"name": "c", "ifExists": if_exists}
        assert asked(f"alter table '/p' drop constraint {words}c") == Parsed("drop_constraint", "'/p'", dropped)
    assert asked(statement, "4.1.0") is None
    for other in (
        "ADD CONSTRAINT c CHECK (a) b",
        "DROP CONSTRAINT",
        "ADD COLUMN a INT",
    ):
        assert asked(f"ALTER TABLE t {other}") is None
    primary = {"kind": "primary_key", "columns": ["a", "b"], "name": "c"}
    assert asked("ALTER TABLE t ADD CONSTRAINT c PRIMARY KEY (a, b)") == Parsed("add_constraint", "t", primary)
    foreign = {"kind": "foreign_key", "columns": ["a"], "references": ["p"], "rely": True}
    assert asked("ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES p RELY") == Parsed("add_constraint", "t", foreign)
    assert asked("ALTER TABLE t ADD CONSTRAINT c PRIMARY KEY (a) MATCH FULL") is None
    for words, cascade in (("RESTRICT", {}), ("CASCADE", {"cascade": True})):
        dropped = {"name": "if", "ifExists": False, **cascade}
        assert asked(f"ALTER TABLE t DROP CONSTRAINT if {words}") == Parsed("drop_constraint", "t", dropped)
    with pytest.raises(HeadwaterError, match="CONSTRAINT c UNIQUE"):
        asked("ALTER TABLE t ADD CONSTRAINT c UNIQUE (a)")
    with pytest.raises(HeadwaterError, match="HEADWATER_KEY_ENFORCED"):
        asked("ALTER TABLE t ADD CONSTRAINT c FOREIGN KEY (a) REFERENCES p ENFORCED")
    enforced = Parsed("add_constraint", "t", primary | {"enforced": True})
    assert asked("ALTER TABLE t ADD CONSTRAINT c PRIMARY KEY (a, b) ENFORCED") == enforced
    named = asked("ALTER TABLE identifier(:t) DROP CONSTRAINT c")
    assert isinstance(named, Parsed)
    assert named.table == "identifier(:t)"
    script = "BEGIN ALTER TABLE t DROP CONSTRAINT c; END"
    assert scripts.for_spark(script, "4.0.0") == "BEGIN EXECUTE IMMEDIATE 'ALTER TABLE t DROP CONSTRAINT c'; END"
    assert scripts.for_spark(script, "4.1.0") is None


@pytest.mark.parametrize("text", FORMS)
def test_a_form_that_spark_does_not_know_is_said_in_other_words(text: str) -> None:
    assert for_spark(text, "4.1.4") == FORMS[text]
    assert for_spark(text, "4.2.0") is None


@pytest.mark.parametrize("text", OTHERS)
def test_all_else_stays_as_it_is(text: str) -> None:
    assert for_spark(text, "4.1.0-amzn-1") is None


def test_a_script_has_each_of_its_statements_in_other_words() -> None:
    script = (
        "BEGIN INSERT INTO t REPLACE USING (a) SELECT 1; "
        "IF x THEN INSERT WITH SCHEMA EVOLUTION INTO t SELECT 2; END IF; END"
    )
    assert scripts.for_spark(script, "4.1.4") == (
        "BEGIN INSERT OVERWRITE t WITH ('headwater.replaceUsing' = 'a') SELECT 1; "
        f"IF x THEN INSERT INTO t WITH ({EVOLVES}) SELECT 2; END IF; END"
    )
    assert scripts.for_spark(script, "4.2.0") is None


def test_what_has_no_other_words_is_refused_by_name() -> None:
    with pytest.raises(HeadwaterError) as refused:
        for_spark("SELECT * FROM t CHANGES FROM VERSION 1", "4.1.4")
    assert refused.value.condition == "HEADWATER_NEEDS_NEWER_SPARK"
    assert "table_changes" in str(refused.value)
