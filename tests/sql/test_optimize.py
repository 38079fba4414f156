"""The grammar of OPTIMIZE."""

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.sql.grammar import parse
from headwater.sql.grammar.shared import Parsed


def _arguments(**given):
    return {"full": False, "where": None, "zOrderBy": [], **given}


@pytest.mark.parametrize(
    ("text", "table", "arguments"),
    [
        ("OPTIMIZE t", "t", {}),
        ("optimize a.`b c`.d ;", "a.`b c`.d", {}),
        ("OPTIMIZE '/a b'", "'/a b'", {}),
        ('OPTIMIZE "s3://b/t"', '"s3://b/t"', {}),
        ("OPTIMIZE delta.`/t` FULL", "delta.`/t`", {"full": True}),
        ("OPTIMIZE IDENTIFIER(:t) WHERE a = 1", "IDENTIFIER(:t)", {"where": "a = 1"}),
        ("OPTIMIZE IDENTIFIER(a || (:t)) WHERE a IN (1)", "IDENTIFIER(a || (:t))", {"where": "a IN (1)"}),
        (
            "OPTIMIZE t WHERE day >= DATE'2024-01-01' AND (zorder = 'ZORDER BY' OR by IN (1))",
            "t",
            {"where": "day >= DATE'2024-01-01' AND (zorder = 'ZORDER BY' OR by IN (1))"},
        ),
        ("OPTIMIZE t WHERE a=1 ZORDER BY (b, `c d`.e)", "t", {"where": "a=1", "zOrderBy": [["b"], ["c d", "e"]]}),
        ("OPTIMIZE t ZORDER BY b, c", "t", {"zOrderBy": [["b"], ["c"]]}),
        ("OPTIMIZE where WHERE dry RUN = 1", "where", {"where": "dry RUN = 1"}),
    ],
)
@pytest.mark.parametrize("dry", ["", " DRY RUN"])
def test_optimize_is_parsed_into_table_condition_and_columns(text, table, arguments, dry):
    command = "optimize_dry_run" if dry else "optimize"
    found = parse(text.rstrip("; ") + dry)
    assert found == Parsed(command, table, _arguments(**arguments))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("OPTIMIZE t WHERE", "condition"),
        ("OPTIMIZE t WHERE ZORDER BY (a)", "condition"),
        ("OPTIMIZE t ZORDER BY", "columns"),
        ("OPTIMIZE t ZORDER BY ()", "columns"),
        ("OPTIMIZE t ZORDER BY (a", "bracket"),
        ("OPTIMIZE t ZORDER BY (a) WHERE b = 1", "in this order"),
        ("OPTIMIZE t RUN", "'RUN'"),
        ("OPTIMIZE t FULL FULL", "'FULL'"),
    ],
)
def test_what_is_wrong(text, words):
    with pytest.raises(HeadwaterError, match="PARSE_SYNTAX_ERROR") as raised:
        parse(text)
    assert words in str(raised.value)


@pytest.mark.parametrize("text", ["OPTIMIZE", "SELECT optimize FROM t", "-- OPTIMIZE t\nSELECT 1"])
def test_others_are_sparks(text):
    assert parse(text) is None
