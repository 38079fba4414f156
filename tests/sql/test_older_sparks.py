"""Forms of statements that Spark 4.1 does not parse, in words that it does."""

from __future__ import annotations

import pytest

from headwater.errors import HeadwaterError
from headwater.sql import scripts
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
