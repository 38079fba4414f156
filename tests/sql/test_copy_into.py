"""The grammar of COPY INTO."""

from __future__ import annotations

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.sql import grammar

_BASE = "COPY INTO t FROM '/x' FILEFORMAT = CSV"


def parsed(text: str) -> tuple[str, str, dict[str, object]]:
    found = grammar.parse(text)
    assert found is not None
    arguments = {name: value for name, value in found.arguments.items() if value is not None}
    return found.command, found.table, arguments


@pytest.mark.parametrize(
    ("text", "command", "table", "arguments"),
    [
        (_BASE, "copy_into", "t", {"source": "'/x'", "format": "CSV"}),
        (
            "copy into a.`b c` by position from :p fileformat = 'json';",
            "copy_into",
            "a.`b c`",
            {"byPosition": True, "source": ":p", "format": "json"},
        ),
        (
            "COPY INTO IDENTIFIER('t') (a, `b c`) FROM '/a' || '/b' FILEFORMAT = CSV",
            "copy_into",
            "IDENTIFIER('t')",
            {"columns": ["a", "b c"], "source": "'/a' || '/b'", "format": "CSV"},
        ),
        (
            "COPY INTO delta.`/t` FROM (SELECT a, (SELECT max(b) FROM u), extract(DAY FROM d) AS d FROM '/x') "
            "FILEFORMAT = PARQUET",
            "copy_into",
            "delta.`/t`",
            {
                "select": "SELECT a, (SELECT max(b) FROM u), extract(DAY FROM d) AS d",
                "source": "'/x'",
                "format": "PARQUET",
            },
        ),
        (
            "COPY INTO t FROM (select * from '/x') fileformat = csv",
            "copy_into",
            "t",
            {"source": "'/x'", "format": "csv"},
        ),
        (
            f"{_BASE} VALIDATE ALL PATTERN = concat('*', '.csv') FORMAT_OPTIONS ('a' = 'b,c', sep = ';', x.y = true) "
            "COPY_OPTIONS ('force' = 'true')",
            "copy_into_validate",
            "t",
            {
                "source": "'/x'",
                "format": "CSV",
                "validate": "ALL",
                "pattern": "concat('*', '.csv')",
                "formatOptions": [["'a'", "'b,c'"], ["'sep'", "';'"], ["'x.y'", "true"]],
                "copyOptions": [["'force'", "'true'"]],
            },
        ),
        (
            f"EXPLAIN {_BASE} COPY_OPTIONS () FILES = ('a', :f) VALIDATE 15 ROWS",
            "explain_copy_into",
            "t",
            {
                "source": "'/x'",
                "format": "CSV",
                "validate": "15",
                "copyOptions": [],
                "files": ["'a'", ":f"],
            },
        ),
    ],
)
def test_forms(text, command, table, arguments):
    assert parsed(text) == (command, table, arguments)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("COPY INTO t", "after the table comes FROM"),
        ("COPY INTO t FROM", "the path of the files is missing"),
        ("COPY INTO t FROM '/x'", "FILEFORMAT is missing"),
        ("COPY INTO t FROM '/x' FILEFORMAT CSV", "after FILEFORMAT comes ="),
        ("COPY INTO t FROM '/x' FILEFORMAT =", "comes a format"),
        ("COPY INTO t (a, b.c) FROM '/x' FILEFORMAT = CSV", "names of columns"),
        ("COPY INTO t FROM (SELECT a) FILEFORMAT = CSV", "ends with FROM"),
        ("COPY INTO t FROM (SELECT a FROM '/x' WHERE b) FILEFORMAT = CSV", "has no 'WHERE'"),
        ("COPY INTO t FROM (SELECT a FROM '/x', '/y') FILEFORMAT = CSV", "has no ','"),
        (f"{_BASE} FILES = ('a') PATTERN = 'b'", "not both"),
        (f"{_BASE} FILES = ('a',)", "names of files"),
        (f"{_BASE} FILES = 'a'", "must be in brackets"),
        (f"{_BASE} FILEFORMAT = CSV", "is there twice"),
        (f"{_BASE} FORMAT_OPTIONS ('a')", "has pairs"),
        (f"{_BASE} VALIDATE ROWS", "a number before ROWS"),
        (f"{_BASE} ENCRYPTION 'x'", "'ENCRYPTION 'x'' is not part of it"),
    ],
)
def test_what_is_not_written_well(text, reason):
    with pytest.raises(HeadwaterError, match="PARSE_SYNTAX_ERROR") as refused:
        grammar.parse(text)
    assert reason in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "COPY INTO t WITH (CREDENTIAL c) FROM '/x' FILEFORMAT = CSV",
        "COPY INTO t FROM '/x' WITH (CREDENTIAL c) FILEFORMAT = CSV",
        "COPY INTO t FROM (SELECT a FROM '/x' WITH (CREDENTIAL (AWS_ACCESS_KEY = 'k'))) FILEFORMAT = CSV",
    ],
)
def test_credentials_are_refused_with_the_reason(text):
    with pytest.raises(HeadwaterError, match="DELTA_OPERATION_NOT_ALLOWED") as refused:
        grammar.parse(text)
    assert "spark.hadoop.fs." in str(refused.value)
