"""Writes whose rows come from the table itself: what they say of themselves, and that no race makes them lose rows."""

from __future__ import annotations

import shutil

import pyspark
import pytest

from support.gates import Gate, register
from support.requests import actions

QUERIES = {
    "table": "SELECT id FROM {t}",
    "view": "SELECT id FROM own",
    "subquery": "SELECT id FROM range(3) WHERE id IN (SELECT max(id) FROM {t})",
    "scalar": "SELECT (SELECT max(id) FROM {t}) AS id",
    "cte": "WITH c AS (SELECT id FROM {t}) SELECT id FROM c UNION ALL SELECT id FROM c",
    "by path": "SELECT id FROM delta.`{path}`",
    "by a link": "SELECT id FROM delta.`{path}_link`",
}
OTHERS = {
    "values": "VALUES (7)",
    "another table": "SELECT id FROM {other}",
    "a copy": "SELECT id FROM delta.`{path}_copy`",
    "its past": "SELECT id FROM {t} VERSION AS OF 1",
}


@pytest.fixture
def table(spark, database, tmp_path):
    for name in ("t", "other"):
        spark.sql(f"CREATE TABLE {name} (id BIGINT) USING delta LOCATION '{tmp_path / name}'")
        spark.sql(f"INSERT INTO {name} VALUES (1), (2)")
    (tmp_path / "t_link").symlink_to(tmp_path / "t")
    shutil.copytree(tmp_path / "t", tmp_path / "t_copy")
    spark.sql(f"CREATE TEMPORARY VIEW own AS SELECT id FROM {database}.t WHERE id > 0")
    return tmp_path / "t"


@pytest.mark.parametrize(("query", "blind"), [*((q, False) for q in QUERIES), *((q, True) for q in OTHERS)])
def test_only_appends_that_read_nothing_of_the_table_are_blind(spark, table, query, blind):
    text = {**QUERIES, **OTHERS}[query].format(t="t", other="other", path=table)
    spark.sql(f"INSERT INTO t {text}")
    (info,) = actions(table, 2, "commitInfo")
    assert (info["operation"], info["isBlindAppend"]) == ("WRITE", blind)


def test_frames_of_the_table_are_not_blind_either(spark, table):
    spark.table("t").write.format("delta").mode("append").save(str(table))
    spark.table("t").cache().writeTo("t").append()
    spark.createDataFrame([(1,)], "id BIGINT").write.format("delta").mode("append").save(str(table))
    assert [actions(table, v, "commitInfo")[0]["isBlindAppend"] for v in (2, 3, 4)] == [False, False, True]


LOSERS = {
    # rows of the version that was read, and then another writer deletes some of them
    "append": lambda spark: spark.sql("INSERT INTO t SELECT gate(CAST(id AS INT)) FROM t WHERE id = 1"),
    "overwrite": lambda spark: checkpointed(spark).write.insertInto("t", overwrite=True),
    "replace where": lambda spark: checkpointed(spark).writeTo("t").overwrite(spark_condition()),
}


def spark_condition():
    from pyspark.sql import functions

    return functions.col("id") > 0


def checkpointed(spark):
    return spark.table("t").localCheckpoint().selectExpr("gate(CAST(id AS INT)) AS id")


@pytest.mark.parametrize("loser", LOSERS)
def test_rows_read_before_another_deleted_them_are_not_written(spark, table, tmp_path, loser):
    gate = tmp_path / "gate"
    gate.mkdir()
    register(spark, gate)
    with pytest.raises(Exception, match="DELTA_CONCURRENT_(DELETE_READ|DELETE_DELETE|APPEND)"):
        Gate(lambda _: LOSERS[loser](spark), gate).lose("", lambda: spark.sql("DELETE FROM t WHERE id = 1"))
    assert [row.id for row in spark.table("t").collect()] == [2]


def test_an_overwrite_with_rows_of_the_driver_runs_again(spark, table, tmp_path):
    gate = tmp_path / "gate"
    gate.mkdir()
    register(spark, gate)
    rows = spark.createDataFrame([(7,)], "id INT").coalesce(1).selectExpr("CAST(gate(id) AS BIGINT) AS id")
    lost = Gate(lambda _: rows.write.insertInto("t", overwrite=True), gate)
    assert lost.lose("", lambda: spark.sql("DELETE FROM t WHERE id = 1")) == 2
    assert [row.id for row in spark.table("t").collect()] == [7]


def test_rows_that_are_rewritten_without_a_change_lose_their_ids(spark, table):
    spark.sql("ALTER TABLE t SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')")
    begin = spark.sql("DESCRIBE HISTORY t LIMIT 1").collect()[0][0]
    rows = spark.table("t")
    rows.write.format("delta").mode("overwrite").option("dataChange", "false").save(str(table))
    rows.write.format("delta").mode("append").save(str(table))
    rows.write.format("delta").mode("overwrite").save(str(table))
    tags = [actions(table, begin + n, "commitInfo")[0]["tags"]["delta.rowTracking.preserved"] for n in (1, 2, 3)]
    assert tags == ["false", "true", "true"]


#: Queries of which Spark 4.0 itself drops the table before it reads the rows: no rule of ours sees them.
SINCE_4_1 = pytest.mark.skipif(pyspark.__version__ < "4.1", reason="Spark 4.0 shows nobody the rows of saveAsTable")


@SINCE_4_1
@pytest.mark.parametrize("query", [*QUERIES, "its past"])
def test_a_table_of_another_format_does_not_replace_the_one_its_rows_are_from(spark, table, fails, query):
    """Spark would drop the table first."""
    text = {**QUERIES, **OTHERS}[query].format(t="t", path=table)
    with fails("UNSUPPORTED_OVERWRITE.TABLE"):
        spark.sql(text).write.mode("overwrite").format("parquet").saveAsTable("t")
    assert spark.table("t").count() == 2


@pytest.mark.parametrize("query", ["values", "another table", "a copy"])
def test_a_table_of_another_format_replaces_one_that_is_not_read(spark, table, query):
    text = OTHERS[query].format(other="other", path=table)
    spark.sql(text).write.mode("overwrite").format("parquet").option("path", f"{table}_new").saveAsTable("t")
    assert spark.sql("DESCRIBE EXTENDED t").where("col_name = 'Provider'").first().data_type == "parquet"
