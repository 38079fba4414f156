"""The grammar of REORG."""

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.sql.grammar import parse
from headwater.sql.grammar.shared import Parsed


@pytest.mark.parametrize(
    ("text", "table", "where"),
    [
        ("REORG TABLE t APPLY (PURGE)", "t", None),
        ("reorg table a.`b c` apply(purge);", "a.`b c`", None),
        ("REORG TABLE '/a b' WHERE p = 1 APPLY (PURGE)", "'/a b'", "p = 1"),
        ("REORG TABLE IDENTIFIER(:t) WHERE apply(purge) AND x APPLY (PURGE)", "IDENTIFIER(:t)", "apply(purge) AND x"),
        ("REORG TABLE apply APPLY (PURGE)", "apply", None),
    ],
)
def test_reorg_is_parsed_into_table_and_condition(text, table, where):
    assert parse(text) == Parsed("reorg", table, {"where": where})


@pytest.mark.parametrize(
    "text",
    [
        "REORG TABLE t",
        "REORG TABLE t APPLY (CLEAN)",
        "REORG TABLE t WHERE APPLY (PURGE)",
        "REORG TABLE t p = 1 APPLY (PURGE)",
        "REORG TABLE t APPLY (PURGE) WHERE p = 1",
        "REORG TABLE t APPLY (UPGRADE UNIFORM)",
        "REORG TABLE t APPLY (UPGRADE UNIFORM (ICEBERG_COMPAT_VERSION = 'two'))",
        "REORG TABLE t WHERE p = 1 APPLY (UPGRADE UNIFORM (ICEBERG_COMPAT_VERSION = 2))",
    ],
)
def test_what_is_wrong(text):
    with pytest.raises(HeadwaterError, match=r"PARSE_SYNTAX_ERROR.*APPLY \(PURGE\)"):
        parse(text)


def test_the_upgrade_to_uniform():
    found = parse("reorg table a.`b` apply (upgrade Uniform (iceberg_compat_version = 2));")
    assert found == Parsed("upgrade_uniform", "a.`b`", {"version": 2})


@pytest.mark.parametrize("text", ["REORG", "REORG TABLE", "REORG t APPLY (PURGE)"])
def test_others_are_sparks(text):
    assert parse(text) is None
