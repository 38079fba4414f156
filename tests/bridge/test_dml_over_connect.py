"""Changes of rows from a plain Spark Connect client: answers, and errors with their condition and state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.spark


def test_statements_and_their_errors(connect: Any, tmp_path: Path) -> None:
    table = f"delta.`{tmp_path}/t`"
    connect.rows(f"CREATE TABLE {table} (id BIGINT, v INT, CONSTRAINT small CHECK (v < 100)) USING delta")
    connect.rows(f"INSERT INTO {table} SELECT id, 0 FROM range(4)")
    source = "(SELECT * FROM VALUES (1L, 1), (1L, 2), (9L, 9) AS s(id, v)) s"
    merging = f"MERGE INTO {table} t USING {source} ON t.id = s.id WHEN MATCHED"
    for statement, condition, state, words in (
        (f"UPDATE {table} SET v = 105 WHERE id = 3", "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES", "23001", " - v : 105"),
        (f"DELETE FROM {table} WHERE idd = 3", "UNRESOLVED_COLUMN.WITH_SUGGESTION", "42703", "`id`"),
        (f"UPDATE {table} SET v = max(id)", "DELTA_AGGREGATION_NOT_SUPPORTED", "42903", "max"),
        (
            f"{merging} THEN UPDATE SET *",
            "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE",
            "21506",
            "more than one source row",
        ),
    ):
        found = connect.sql(statement)
        assert (found.get("condition"), found.get("state")) == (condition, state), found
        assert words in found["text"]
        assert "Traceback" not in found["text"]
    assert connect.rows(f"UPDATE {table} SET v = 1 WHERE id = 3") == [[1]]
    assert connect.rows(f"{merging} AND s.v = 2 THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *") == [[2, 1, 0, 1]]
    assert connect.rows(f"DELETE FROM {table} WHERE id = 0") == [[1]]
    assert connect.rows(f"SELECT * FROM {table} ORDER BY id") == [[1, 2], [2, 0], [3, 1], [9, 9]]
    replacing = f"INSERT INTO {table} AS t REPLACE ON"
    assert connect.rows(f"{replacing} t.id = s.id (SELECT 2L AS id, 5 AS v) AS s") == []
    found = connect.sql(f"{replacing} id = s.id (SELECT 2L AS id, 5 AS v) AS s")
    assert found.get("condition") == "DELTA_INSERT_REPLACE_ON_AMBIGUOUS_COLUMNS_IN_CONDITION", found
    assert connect.rows(f"INSERT INTO {table} REPLACE USING (id) SELECT 9L AS id, 8 AS v") == []
    assert connect.rows(f"SELECT * FROM {table} ORDER BY id") == [[1, 2], [2, 5], [3, 1], [9, 8]]
    ((text,),) = connect.rows(f"EXPLAIN DELETE FROM {table} WHERE v = 9")
    assert "Strategy: " in text
    assert len(connect.rows(f"DESCRIBE HISTORY {table}")) == 7
