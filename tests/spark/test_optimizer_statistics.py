"""What Spark's optimizer knows of a table: the files that filters leave, their size, rows and column statistics."""

from __future__ import annotations

import os

import pytest
from pyspark.errors import PySparkException


@pytest.fixture
def sales(spark, rows, database):
    """40 files, four a day."""
    spark.conf.set("spark.sql.files.maxRecordsPerFile", 250)
    spark.sql(
        "CREATE TABLE sales USING delta PARTITIONED BY (day) AS SELECT id, concat('name ', id) AS name, "
        "if(id % 10 = 0, null, id * 0.5D) AS price, DATE'2024-01-01' + CAST(id DIV 1000 AS INT) AS day "
        "FROM range(0, 10000, 1, 1)"
    )
    spark.conf.unset("spark.sql.files.maxRecordsPerFile")
    return spark.table("sales")


def optimized(frame):
    return frame._jdf.queryExecution().optimizedPlan()


def size(frame):
    return int(optimized(frame).stats().sizeInBytes())


def path_of(rows, table):
    return rows(f"DESCRIBE DETAIL {table}")[0][4].removeprefix("file:")


def test_the_optimized_plan_knows_the_pruned_files(spark, rows, sales):
    whole = size(sales)
    assert len(sales.inputFiles()) == 40
    of_a_day = sales.where("day = '2024-01-03'")
    assert len(of_a_day.inputFiles()) == 4
    assert all("day=2024-01-03" in file for file in of_a_day.inputFiles())
    assert size(of_a_day) < whole / 5
    of_a_file = sales.where("ID = 4242")
    assert len(of_a_file.inputFiles()) == 1
    assert of_a_file.collect()[0].id == 4242
    # Only Spark can evaluate this condition on partition values.
    assert len(sales.where("date_format(day, 'dd') = '03'").inputFiles()) == 4
    assert len(sales.where("id + rand() > 9999.5").inputFiles()) == 40
    by_path = spark.read.format("delta").load(path_of(rows, "sales"))
    assert len(by_path.where("id < 300").inputFiles()) == 2
    nothing = sales.where("id < 0")
    assert nothing.inputFiles() == []
    assert nothing.collect() == []
    spark.sql("INSERT INTO sales VALUES (4242, 'again', 1, '2024-02-01')")
    assert spark.table("sales").where("id = 4242").count() == 2
    assert spark.sql("SELECT count(*) FROM sales VERSION AS OF 0 WHERE id = 4242").first()[0] == 1


def test_a_join_broadcasts_the_side_that_is_small_after_pruning(spark, rows, sales):
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", size(sales) // 4)
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    try:
        text = "SELECT count(*) FROM sales a JOIN sales b ON a.id = b.id + 1"
        large = spark.sql(text)
        assert "SortMergeJoin" in large._jdf.queryExecution().executedPlan().toString()
        small = spark.sql(text + " WHERE b.id < 200")
        assert "BroadcastHashJoin" in small._jdf.queryExecution().executedPlan().toString()
        assert (large.first()[0], small.first()[0]) == (9999, 200)
    finally:
        spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")
        spark.conf.unset("spark.sql.adaptive.enabled")


@pytest.mark.parametrize(
    "condition",
    [
        pytest.param("ID = 4242", marks=pytest.mark.soak),
        "day = '2024-01-05' AND price IS NOT NULL AND name LIKE 'name 42%'",
        "year(day) = 2024 AND (id BETWEEN 4240 AND 4250 OR id IN (4242, 77)) AND upper(name) <> 'X'",
        "id < (SELECT min(id) + 10 FROM sales WHERE id >= 4300) AND id > 4200 AND day >= '2024-01-05'",
        pytest.param("id >= 0", marks=pytest.mark.soak),
    ],
)
def test_a_scan_is_pruned_once(spark, rows, sales, settings, condition):
    frame = sales.where(condition)
    (needed,) = [file for file in frame.inputFiles() if file in sales.where("id = 4242").inputFiles()]
    os.remove(needed.removeprefix("file:"))
    # The handler would name the file that is gone, as it does to a frame that is optimized now.
    with (
        settings({"spark.databricks.optimizer.dynamicFilePruning": "false"}),
        pytest.raises(Exception, match="FAILED_READ_FILE"),
    ):
        frame.collect()
    with pytest.raises(PySparkException, match="DELTA_FILE_NOT_FOUND_DETAILED"):
        sales.where(condition).collect()


def test_rows_and_columns_are_estimated_from_the_log(spark, rows, sales):
    spark.conf.set("spark.sql.cbo.planStats.enabled", "true")
    try:
        by_path = spark.read.format("delta").load(path_of(rows, "sales"))
        for frame in (sales, by_path):
            plan = optimized(frame.where("id >= 1000 AND id < 1300").select("id", "price", "day", "name"))
            relation = plan.collectLeaves().head()
            statistics = relation.stats()
            assert statistics.rowCount().get() == 500
            text = statistics.attributeStats().toString()
            assert "Some(1000),Some(1499)" in text, text
    finally:
        spark.conf.unset("spark.sql.cbo.planStats.enabled")


def test_analyze_table_keeps_figures_in_the_metastore(spark, rows, sales, settings, fails):
    def described():
        return {row[0]: row[1] for row in rows("DESCRIBE EXTENDED sales")}["Statistics"]

    def of_column(name):
        return {row[0]: row[1] for row in rows(f"DESCRIBE EXTENDED sales {name}")}

    spark.sql("ANALYZE TABLE sales COMPUTE STATISTICS NOSCAN")
    assert described().endswith(" bytes, 10000 rows")  # the log knows
    spark.sql("ANALYZE TABLE sales COMPUTE STATISTICS")
    assert described().endswith(" bytes, 10000 rows")
    spark.sql("ANALYZE TABLE sales COMPUTE STATISTICS FOR COLUMNS ID, name")
    assert 9000 < int(of_column("id")["distinct_count"]) < 11000
    assert of_column("name")["max_col_len"] == "9"
    spark.sql("ANALYZE TABLE sales COMPUTE STATISTICS FOR ALL COLUMNS")
    assert of_column("price")["num_nulls"] == "1000"
    assert 8 <= int(of_column("day")["distinct_count"]) <= 12  # Spark estimates it
    with settings({"spark.sql.cbo.enabled": "true"}):
        # The distinct values of the whole table are no more than the rows of the files that are left.
        plan = optimized(spark.table("sales").where("id >= 1000 AND id < 1300").groupBy("day").count())
        assert plan.stats().rowCount().get() <= 12
        of_a_value = optimized(spark.table("sales").where("id = 1007").select("name"))
        assert of_a_value.stats().rowCount().get() == 1
    spark.sql("INSERT INTO sales VALUES (1, 'x', 1, '2024-01-01')")
    assert described().endswith(" bytes, 10001 rows")
    with pytest.raises(PySparkException, match="nothing"):
        spark.sql("ANALYZE TABLE sales COMPUTE STATISTICS FOR COLUMNS nothing")
    with fails("DELTA_OPERATION_ON_PATH_NOT_ALLOWED", "ANALYZE TABLE", "CREATE TABLE"):
        spark.sql(f"ANALYZE TABLE delta.`{path_of(rows, 'sales')}` COMPUTE STATISTICS")


def test_a_limit_reads_the_files_that_it_needs(spark, rows, sales):
    assert len(sales.limit(5).inputFiles()) == 1
    assert len(sales.limit(501).inputFiles()) == 3
    assert sales.limit(501).count() == 501
    assert len(sales.where("day = '2024-01-03'").select("name").limit(260).inputFiles()) == 2
    assert len(sales.where("price > 3").limit(5).inputFiles()) == 40  # a file without nulls could decide
    assert rows("SELECT count(*) FROM (SELECT * FROM sales WHERE day = '2024-01-03' LIMIT 700 OFFSET 20)") == [(700,)]
    assert rows("SELECT EXISTS (SELECT 1 FROM sales), EXISTS (SELECT 1 FROM sales WHERE id < 0)") == [(True, False)]
    last = spark.sql("SELECT id, name FROM sales WHERE day < '2024-01-10' ORDER BY id DESC LIMIT 3")
    assert len(last.inputFiles()) == 1
    assert [row.id for row in last.collect()] == [8999, 8998, 8997]
    first = spark.sql("SELECT id + 1 FROM (SELECT * FROM sales ORDER BY day, id DESC LIMIT 3)")
    assert len(first.inputFiles()) == 4
    assert [row[0] for row in first.collect()] == [1000, 999, 998]
    assert len(spark.sql("SELECT * FROM sales ORDER BY id % 7 LIMIT 3").inputFiles()) == 40
    spark.sql("DELETE FROM sales WHERE id >= 9990")
    assert rows("SELECT max(id) FROM (SELECT id FROM sales ORDER BY id DESC LIMIT 2)") == [(9989,)]
