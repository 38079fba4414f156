"""Constants beside CHAR columns: DELETE, UPDATE and MERGE compare them as a query does, which pads the shorter one."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.spark

#: Conditions over the column ``v CHAR(5)`` of the target ``t``.
_CONDITIONS = [
    "t.v = 'a'",
    "'a' = t.v",
    "t.v <=> 'a'",
    "t.v < 'a!'",
    "t.v IN ('a', 'c')",
    "NOT t.v = 'b' AND t.k < 9",
    "t.v = 'a' OR t.v = 'toolong'",
    "EXISTS (SELECT 1 FROM VALUES ('q') x(c) WHERE t.v = 'a')",
]
_MERGE = "MERGE INTO {t} AS t USING (SELECT id FROM range(9)) s ON t.k = s.id "
_STATEMENTS = {
    "DELETE": "DELETE FROM {t} AS t WHERE {condition}",
    "UPDATE": "UPDATE {t} AS t SET k = -1 WHERE {condition}",
    "MATCHED": _MERGE + "WHEN MATCHED AND ({condition}) THEN DELETE",
    "ON": _MERGE + "AND ({condition}) WHEN MATCHED THEN DELETE",
    "BY SOURCE": _MERGE.replace("9", "0") + "WHEN NOT MATCHED BY SOURCE AND ({condition}) THEN DELETE",
    "value": _MERGE + "WHEN MATCHED THEN UPDATE SET k = CASE WHEN {condition} THEN -1 ELSE t.k END",
}


@pytest.mark.parametrize("statement", _STATEMENTS)
def test_a_condition_selects_what_it_selects_in_a_query(spark, rows, tmp_path, statement):
    for number, condition in enumerate(_CONDITIONS):
        if "EXISTS" in condition and statement in ("ON", "value"):
            continue  # Spark has no subqueries there
        table = f"delta.`{tmp_path}/{number}`"
        spark.sql(f"CREATE TABLE {table} (k BIGINT, v CHAR(5)) USING delta")
        spark.sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b'), (3, NULL), (4, 'ab')")
        left = rows(f"SELECT k FROM {table} AS t WHERE NOT coalesce(({condition}), false)")
        assert 0 < len(left) < 4, condition
        spark.sql(_STATEMENTS[statement].format(t=table, condition=condition))
        assert sorted(rows(f"SELECT k FROM {table} WHERE k > 0")) == sorted(left), condition


def test_an_insert_of_merge_finds_the_row_of_its_constant(spark, rows, tmp_path):
    table = f"delta.`{tmp_path}/t`"
    spark.sql(f"CREATE TABLE {table} (k BIGINT, v CHAR(5)) USING delta")
    spark.sql(f"INSERT INTO {table} VALUES (1, 'a')")
    for _ in range(2):
        spark.sql(
            f"MERGE INTO {table} AS t USING (SELECT 1L AS k) s ON t.k = s.k AND t.v = 'a' "
            "WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, 'a')"
        )
    assert rows(f"SELECT * FROM {table}") == [(1, "a    ")]
