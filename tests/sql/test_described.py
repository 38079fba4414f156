"""DESCRIBE as a table of a query."""

from __future__ import annotations

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.sql.described import for_spark

QUOTED = b"DESCRIBE HISTORY '/p'".hex()


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (
            "SELECT * FROM (DESCRIBE HISTORY t)",
            "SELECT * FROM (SELECT * FROM headwater_describe('DESCRIBE HISTORY t'))",
        ),
        (
            "select version from ( desc history a.`b c` limit 3 ) h where h.version > 1 ;",
            "select version from (SELECT * FROM headwater_describe('desc history a.`b c` limit 3') ) h "
            "where h.version > 1 ;",
        ),
        (
            "WITH h AS (DESCRIBE HISTORY '/p') SELECT * FROM h JOIN (DESCRIBE DETAIL t) USING (id)",
            f"WITH h AS (SELECT * FROM headwater_describe(CAST(X'{QUOTED}' AS STRING))) "
            "SELECT * FROM h JOIN (SELECT * FROM headwater_describe('DESCRIBE DETAIL t')) USING (id)",
        ),
    ],
)
def test_a_statement_becomes_a_function(text: str, wanted: str) -> None:
    assert for_spark(text) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "DESCRIBE HISTORY t",
        "SELECT * FROM (DESCRIBE t)",
        "SELECT '(DESCRIBE HISTORY t)'",
        "SELECT * FROM (DESCRIBE HISTORY)",
        "SELECT * FROM (DESCRIBE HISTORY t",
        "'",
    ],
)
def test_other_texts_stay(text: str) -> None:
    assert for_spark(text) is None


def test_a_statement_that_is_not_written_well_is_an_error() -> None:
    with pytest.raises(HeadwaterError, match="LIMIT takes a number"):
        for_spark("SELECT * FROM (DESCRIBE HISTORY t LIMIT x)")
