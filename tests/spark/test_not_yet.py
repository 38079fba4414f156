"""Statements Spark parses and this version cannot run say so, and change nothing."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("DELETE FROM t WHERE a = 1", "DELETE"),
        ("UPDATE t SET a = 2", "UPDATE"),
        ("MERGE INTO t USING (SELECT 1 a) s ON t.a = s.a WHEN MATCHED THEN DELETE", "MERGE"),
        ("MERGE INTO t AS x USING t AS y ON x.a = y.a WHEN NOT MATCHED THEN INSERT *", "MERGE"),
    ],
)
def test_row_level_statements_are_refused(rows: Any, fails: Any, database: str, statement: str, named: str) -> None:
    rows("CREATE TABLE t USING delta AS SELECT 1 a")
    with fails("HEADWATER_STATEMENT_NOT_SUPPORTED", named, "`t`", "REPLACE WHERE"):
        rows(statement)
    assert rows("SELECT * FROM t") == rows("SELECT 1 a")
    assert len(rows("DESCRIBE HISTORY t")) == 1
