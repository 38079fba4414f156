"""The session of these tests is a user's: plain SQL works, and errors read as errors of Spark."""

from __future__ import annotations


def test_plain_sql(spark, rows, database, log):
    spark.sql("CREATE TABLE t (id INT, name STRING) USING delta")
    spark.sql("INSERT INTO t VALUES (1, 'a'), (2, NULL)")
    assert rows("SELECT * FROM t ORDER BY id") == [(1, "a"), (2, None)]
    path = rows("DESCRIBE DETAIL t")[0][4].removeprefix("file:")
    assert {next(iter(action)) for action in log(path, 1)} == {"commitInfo", "add"}


def test_errors_have_condition_and_state(spark, fails, tmp_path):
    with fails("DELTA_TABLE_NOT_FOUND", str(tmp_path / "absent")):
        spark.sql(f"SELECT * FROM delta.`{tmp_path}/absent`").collect()
