"""MERGE into a table as large ones are merged into: narrowed by the source's keys, its inserts a job of their own."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.covering("file")

SMALL_TARGET = "spark.headwater.merge.smallTargetBytes"


@pytest.mark.spark
@pytest.mark.parametrize("vectors", ["true", "false"])
def test_inserts_of_their_own_have_change_data(rows: Any, database: str, settings: Any, vectors: str) -> None:
    rows(
        "CREATE TABLE t (k INT, v INT) USING delta TBLPROPERTIES "
        f"('delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = '{vectors}')"
    )
    rows("INSERT INTO t VALUES (1, 1), (2, 2)")
    rows("INSERT INTO t VALUES (30, 30)")
    with settings({SMALL_TARGET: "0"}):
        merged = rows(
            "MERGE INTO t USING (SELECT * FROM VALUES (1, 10), (9, 90) AS v(k, v)) AS s ON t.k = s.k "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
    assert merged == [(2, 1, 0, 1)]
    assert rows("SELECT * FROM t", ordered=False) == [(1, 10), (2, 2), (30, 30), (9, 90)]
    assert rows("SELECT _change_type, k, v FROM table_changes('t', 3)", ordered=False) == [
        ("insert", 9, 90), ("update_postimage", 1, 10), ("update_preimage", 1, 1)
    ]  # fmt: skip


@pytest.mark.spark
@pytest.mark.parametrize("feed", ["true", "false"])
def test_matched_rows_that_no_clause_acts_on_stay(rows: Any, database: str, settings: Any, feed: str) -> None:
    rows(f"CREATE TABLE t (k INT, v INT) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = '{feed}')")
    rows("INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)")
    rows("INSERT INTO t VALUES (30, 30)")
    with settings({SMALL_TARGET: "0"}):
        merged = rows(
            "MERGE INTO t USING (SELECT * FROM VALUES (1, 10), (2, 20), (2, 21), (9, 90) AS v(k, v)) AS s ON t.k = s.k "
            "WHEN MATCHED AND s.v < 20 THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
    assert merged == [(2, 1, 0, 1)]
    assert rows("SELECT * FROM t", ordered=False) == [(1, 10), (2, 2), (3, 3), (30, 30), (9, 90)]


@pytest.mark.spark
def test_a_source_known_to_be_empty_and_a_partitioned_table(rows: Any, database: str) -> None:
    rows(
        "CREATE TABLE t (k INT, m INT) USING delta PARTITIONED BY (m) "
        "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = 'false')"
    )
    rows("INSERT INTO t VALUES (1, 1), (2, 2), (3, NULL)")
    merged = rows(
        "MERGE INTO t USING (SELECT 1 AS k, 1 AS m WHERE false) AS s ON t.k > s.k "
        "WHEN MATCHED AND s.k > s.m THEN DELETE WHEN MATCHED AND NOT (t.m > 0) THEN DELETE "
        "WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE THEN DELETE"
    )
    assert merged == [(3, 0, 3, 0)]
    assert rows("SELECT * FROM t") == []
