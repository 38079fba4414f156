"""CREATE TABLE in its forms, as a user of plain SQL and of PySpark writes them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StructField, StructType

from headwater.transaction import wait_for_maintenance


def location(rows, table):
    return rows(f"DESCRIBE DETAIL {table}")[0][4].removeprefix("file:")


def test_columns_comments_not_null_and_properties(spark, rows, database):
    spark.sql(
        "CREATE TABLE t (id INT NOT NULL COMMENT 'the id', s STRUCT<a: INT COMMENT 'inner', b: STRING>, d DATE) "
        "USING delta COMMENT 'what it holds' PARTITIONED BY (d) "
        "TBLPROPERTIES ('delta.appendOnly' = 'true', 'owner.team' = 'birds')"
    )
    schema = spark.table("t").schema
    assert schema.simpleString() == "struct<id:int,s:struct<a:int,b:string>,d:date>"
    assert schema["id"].nullable is False
    assert schema["id"].metadata == {"comment": "the id"}
    assert schema["s"].dataType["a"].metadata == {"comment": "inner"}
    detail = spark.sql("DESCRIBE DETAIL t").first()
    assert detail["description"] == "what it holds"
    assert detail["partitionColumns"] == ["d"]
    assert detail["properties"] == {"delta.appendOnly": "true", "owner.team": "birds"}
    assert detail["name"] == f"spark_catalog.{database}.t"


def test_not_null_is_enforced(spark, rows, database):
    spark.sql("CREATE TABLE t (id INT NOT NULL, name STRING) USING delta")
    with pytest.raises(PySparkException, match="id"):
        spark.sql("INSERT INTO t SELECT CAST(NULL AS INT), 'x' FROM range(1)")
    assert rows("SELECT count(*) FROM t") == [(0,)]


def test_if_not_exists_leaves_the_table(spark, rows, database, fails):
    spark.sql("CREATE TABLE t USING delta AS SELECT 1 AS id")
    spark.sql("CREATE TABLE IF NOT EXISTS t (other STRING) USING delta")
    spark.sql("CREATE TABLE IF NOT EXISTS t USING delta AS SELECT 2 AS id")
    assert rows("SELECT * FROM t") == [(1,)]
    with fails("TABLE_OR_VIEW_ALREADY_EXISTS", state="42P07"):
        spark.sql("CREATE TABLE t (id INT) USING delta")
    with fails("TABLE_OR_VIEW_ALREADY_EXISTS", state="42P07"):
        spark.sql("CREATE TABLE t USING delta AS SELECT 2 AS id")
    assert len(rows("DESCRIBE HISTORY t")) == 1


def test_create_as_select_is_one_commit(spark, rows, database, log):
    spark.sql("CREATE TABLE t USING delta PARTITIONED BY (p) COMMENT 'c' AS SELECT id, id % 2 AS p FROM range(4)")
    assert rows("SELECT * FROM t", ordered=False) == [(0, 0), (1, 1), (2, 0), (3, 1)]
    actions = log(location(rows, "t"), 0)
    assert {next(iter(action)) for action in actions} == {"commitInfo", "protocol", "metaData", "add"}
    (history,) = spark.sql("DESCRIBE HISTORY t").collect()
    assert history["operation"] == "CREATE TABLE AS SELECT"
    assert history["operationMetrics"]["numOutputRows"] == "4"


def test_create_with_clustering(spark, rows, database):
    spark.sql("CREATE TABLE t (a INT, b STRUCT<c: INT>) USING delta CLUSTER BY (a, b.c)")
    spark.sql("CREATE TABLE u USING delta CLUSTER BY (x) AS SELECT 1 AS x, 2 AS y")
    assert spark.sql("DESCRIBE DETAIL t").first()["clusteringColumns"] == ["a", "b.c"]
    assert spark.sql("DESCRIBE DETAIL u").first()["clusteringColumns"] == ["x"]
    assert rows("SELECT * FROM u") == [(1, 2)]


def test_partitioning_by_an_expression_is_refused(spark, database, fails):
    with fails("DELTA_OPERATION_NOT_ALLOWED", "years"):
        spark.sql("CREATE TABLE t (a TIMESTAMP, b INT) USING delta PARTITIONED BY (years(a))")
    with fails("DELTA_OPERATION_NOT_ALLOWED_DETAIL", "bucket"):
        spark.sql("CREATE TABLE t (a INT, b INT) USING delta CLUSTERED BY (a) INTO 4 BUCKETS")
    assert not spark.catalog.tableExists("t")


def test_partition_columns_must_exist_and_leave_data(spark, database, fails):
    with pytest.raises(Exception, match="nope"):
        spark.sql("CREATE TABLE t (a INT) USING delta PARTITIONED BY (nope)")
    with fails("ALL_PARTITION_COLUMNS_NOT_ALLOWED"):
        spark.sql("CREATE TABLE t (a INT) USING delta PARTITIONED BY (a)")


def test_partition_columns_with_types(spark, rows, database):
    spark.sql("CREATE TABLE t (a INT) USING delta PARTITIONED BY (p STRING, q INT)")
    spark.sql("INSERT INTO t VALUES (1, 'x', 2)")
    assert rows("SELECT * FROM t") == [(1, "x", 2)]
    assert spark.sql("DESCRIBE DETAIL t").first()["partitionColumns"] == ["p", "q"]


def test_location_new_then_adopted(spark, rows, database, tmp_path, fails):
    spark.sql(f"CREATE TABLE t (id INT, name STRING) USING delta LOCATION '{tmp_path}/t'")
    spark.sql("INSERT INTO t VALUES (1, 'a')")
    spark.sql(f"CREATE TABLE again USING delta LOCATION '{tmp_path}/t'")
    spark.sql(f"CREATE TABLE declared (id INT, name STRING) USING delta LOCATION 'file://{tmp_path}/t'")
    assert rows("SELECT * FROM again") == rows("SELECT * FROM declared") == [(1, "a")]
    assert len(rows("DESCRIBE HISTORY again")) == 2
    with fails("DELTA_CREATE_TABLE_SCHEME_MISMATCH", "name", "int", "string", "more", str(tmp_path / "t")):
        spark.sql(f"CREATE TABLE wrong (id INT, name INT, more DATE) USING delta LOCATION '{tmp_path}/t'")
    with fails("DELTA_CREATE_TABLE_WITH_DIFFERENT_PARTITIONING", "name"):
        spark.sql(f"CREATE TABLE wrong (id INT, name STRING) USING delta PARTITIONED BY (name) LOCATION '{tmp_path}/t'")
    with fails("DELTA_CREATE_TABLE_WITH_DIFFERENT_PROPERTY", "delta.appendOnly"):
        spark.sql(
            "CREATE TABLE wrong (id INT, name STRING) USING delta "
            f"LOCATION '{tmp_path}/t' TBLPROPERTIES ('delta.appendOnly' = 'true')"
        )
    with fails("DELTA_TABLE_ALREADY_EXISTS", str(tmp_path / "t")):
        spark.sql(f"CREATE TABLE wrong USING delta LOCATION '{tmp_path}/t' AS SELECT 1 AS id")
    assert not spark.catalog.tableExists("wrong")


def test_location_with_other_files_is_refused(spark, database, tmp_path, fails):
    spark.range(3).write.parquet(str(tmp_path / "p"))
    with fails("DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION", "parquet"):
        spark.sql(f"CREATE TABLE t (id BIGINT) USING delta LOCATION '{tmp_path}/p'")
    assert not spark.catalog.tableExists("t")


def test_no_columns_and_no_table_at_the_location(spark, database, tmp_path, fails):
    spark.sql(f"CREATE TABLE t USING delta LOCATION '{tmp_path}/empty'")
    assert spark.table("t").columns == []
    spark.sql("ALTER TABLE t ADD COLUMNS (a INT)")
    spark.sql("INSERT INTO t VALUES (1)")
    assert spark.table("t").collect() == [(1,)]


def test_two_tables_on_one_location(spark, rows, database, tmp_path):
    spark.sql(f"CREATE TABLE one (id INT) USING delta LOCATION '{tmp_path}/t'")
    spark.sql(f"CREATE TABLE two (id INT) USING delta LOCATION '{tmp_path}/t'")
    spark.sql("INSERT INTO one VALUES (1)")
    spark.sql("INSERT INTO two VALUES (2)")
    assert rows("SELECT * FROM one", ordered=False) == rows("SELECT * FROM two", ordered=False) == [(1,), (2,)]
    spark.sql("ALTER TABLE one ADD COLUMNS (name STRING)")
    assert rows("SELECT * FROM two WHERE id = 1") == [(1, None)]
    spark.sql("DROP TABLE one")
    assert rows("SELECT count(*) FROM two") == [(2,)]


def test_drop_managed_and_external(spark, rows, database, tmp_path):
    spark.sql("CREATE TABLE managed USING delta AS SELECT 1 AS id")
    spark.sql(f"CREATE TABLE external USING delta LOCATION '{tmp_path}/t' AS SELECT 1 AS id")
    managed = Path(location(rows, "managed"))
    assert managed.is_dir()
    spark.sql("DROP TABLE managed")
    spark.sql("DROP TABLE external")
    assert not managed.exists()
    assert rows(f"SELECT * FROM delta.`{tmp_path}/t`") == [(1,)]
    spark.sql("DROP TABLE IF EXISTS managed")


def test_drop_and_create_again_under_the_same_name(spark, rows, database):
    for value in (1, 2):
        spark.sql(f"CREATE TABLE t USING delta AS SELECT {value} AS id")
        assert rows("SELECT * FROM t") == [(value,)]
        spark.sql("DROP TABLE t")


def test_drop_a_table_whose_files_are_gone(spark, database, tmp_path, fails):
    import shutil

    spark.sql(f"CREATE TABLE t USING delta LOCATION '{tmp_path}/t' AS SELECT 1 AS id")
    assert wait_for_maintenance(60)
    shutil.rmtree(tmp_path / "t")
    with fails("DELTA_TABLE_NOT_FOUND", str(tmp_path / "t"), f"{database}.t"):
        spark.sql("SELECT * FROM t").collect()
    spark.sql("DROP TABLE t")
    assert spark.sql("SHOW TABLES").collect() == []


def test_rename_keeps_the_rows(spark, rows, database, fails):
    spark.sql("CREATE TABLE t USING delta AS SELECT 1 AS id")
    spark.sql("CREATE TABLE taken USING delta AS SELECT 1 AS id")
    spark.sql("ALTER TABLE t RENAME TO u")
    assert rows("SELECT * FROM u") == [(1,)]
    spark.sql("INSERT INTO u VALUES (2)")
    assert rows("SELECT * FROM u", ordered=False) == [(1,), (2,)]
    assert [row[1] for row in rows("SHOW TABLES")] == ["taken", "u"]
    with fails("TABLE_OR_VIEW_ALREADY_EXISTS", state="42P07"):
        spark.sql("ALTER TABLE u RENAME TO taken")


def test_rename_an_external_table(spark, rows, database, tmp_path):
    spark.sql(f"CREATE TABLE t USING delta LOCATION '{tmp_path}/t' AS SELECT 1 AS id")
    spark.sql("ALTER TABLE t RENAME TO u")
    assert location(rows, "u") == str(tmp_path / "t")
    assert rows("SELECT * FROM u") == [(1,)]


def test_create_like_copies_the_definition_not_the_rows(spark, rows, database, tmp_path):
    spark.sql(
        "CREATE TABLE t (id INT NOT NULL COMMENT 'the id', `odd name` STRING, p INT) USING delta PARTITIONED BY (p) "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.logRetentionDuration' = 'interval 50 days', "
        "'k' = 'v')"
    )
    spark.sql("INSERT INTO t VALUES (1, 'a', 2)")
    spark.sql("CREATE TABLE u LIKE t")
    spark.sql(f"CREATE TABLE v LIKE t LOCATION '{tmp_path}/v'")
    for copy in ("u", "v"):
        assert rows(f"SELECT * FROM {copy}") == []
        assert spark.table(copy).schema == spark.table("t").schema
        detail = spark.sql(f"DESCRIBE DETAIL {copy}").first()
        assert detail["partitionColumns"] == ["p"]
        assert detail["properties"]["k"] == "v"
        assert detail["properties"]["delta.logRetentionDuration"] == "interval 50 days"
        spark.sql(f"INSERT INTO {copy} VALUES (3, 'c', 4)")
        assert rows(f"SELECT * FROM {copy}") == [(3, "c", 4)]
    assert rows("SELECT * FROM t") == [(1, "a", 2)]


def test_create_like_copies_what_is_computed_and_the_clustering(spark, rows, database):
    spark.sql(
        "CREATE TABLE t (id BIGINT GENERATED ALWAYS AS IDENTITY (START WITH 10 INCREMENT BY 5), a INT, "
        "b INT GENERATED ALWAYS AS (a * 2), CONSTRAINT small CHECK (a < 100)) USING delta CLUSTER BY (a)"
    )
    spark.sql("INSERT INTO t (a) VALUES (1)")
    spark.sql("CREATE TABLE u LIKE t")
    spark.sql("INSERT INTO u (a) VALUES (3)")
    assert rows("SELECT * FROM u") == [(10, 3, 6)]
    detail = spark.sql("DESCRIBE DETAIL u").first()
    assert detail["clusteringColumns"] == ["a"]
    assert detail["properties"] == {"delta.constraints.small": "a < 100"}


def test_create_like_across_formats(spark, rows, database, fails):
    spark.sql("CREATE TABLE p (a INT, b STRING) USING parquet PARTITIONED BY (b)")
    spark.sql("CREATE TABLE d LIKE p USING delta")
    spark.sql("INSERT INTO d VALUES (1, 'x')")
    assert rows("SELECT * FROM d") == [(1, "x")]
    assert spark.sql("DESCRIBE DETAIL d").first()["format"] == "delta"
    assert spark.sql("DESCRIBE DETAIL d").first()["partitionColumns"] == ["b"]
    spark.sql("CREATE TABLE IF NOT EXISTS d LIKE p USING delta")
    with fails("TABLE_OR_VIEW_ALREADY_EXISTS", state="42P07"):
        spark.sql("CREATE TABLE d LIKE p USING delta")
    spark.sql("CREATE TEMP VIEW seen AS SELECT 1 AS x")
    spark.sql("CREATE TABLE of_view LIKE seen USING delta")
    spark.sql("INSERT INTO of_view VALUES (7)")
    assert rows("SELECT * FROM of_view") == [(7,)]
    spark.sql("DROP VIEW seen")
    for table in ("CREATE TABLE q LIKE p", "CREATE TABLE r LIKE d USING parquet"):
        spark.sql(table)
        assert ("Provider", "parquet", "") in rows(f"DESCRIBE EXTENDED {table.split()[2]}")


def test_default_values_generated_identity_and_check(spark, rows, database, fails):
    spark.sql(
        "CREATE TABLE t (id BIGINT GENERATED ALWAYS AS IDENTITY, a INT DEFAULT 7, b INT GENERATED ALWAYS AS (a * 2), "
        "CONSTRAINT small CHECK (a < 100)) USING delta "
        "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
    )
    spark.sql("INSERT INTO t (a) VALUES (DEFAULT), (5)")
    assert sorted((a, b) for _, a, b in rows("SELECT * FROM t")) == [(5, 10), (7, 14)]
    with fails("DELTA_VIOLATE_CONSTRAINT_WITH_VALUES", "small"):
        spark.sql("INSERT INTO t (a) VALUES (100)")


def test_spark_catalog_create_table(spark, rows, database, tmp_path):
    schema = StructType([StructField("id", IntegerType())])
    spark.catalog.createTable("managed", source="delta", schema=schema)
    spark.catalog.createTable("external", path=str(tmp_path / "t"), source="delta", schema=schema)
    spark.sql("INSERT INTO managed VALUES (1)")
    spark.sql("INSERT INTO external VALUES (2)")
    assert rows("SELECT * FROM managed") == [(1,)]
    assert rows(f"SELECT * FROM delta.`{tmp_path}/t`") == [(2,)]
    assert {t.name for t in spark.catalog.listTables()} == {"managed", "external"}
    assert [c.name for c in spark.catalog.listColumns("managed")] == ["id"]
    assert spark.catalog.getTable("external").tableType == "EXTERNAL"


def test_data_frame_writer_v2_creates(spark, rows, database, fails):
    data = spark.range(4).withColumn("p", F.col("id") % 2)
    data.writeTo("t").using("delta").partitionedBy(F.col("p")).tableProperty("k", "v").create()
    detail = spark.sql("DESCRIBE DETAIL t").first()
    assert (detail["partitionColumns"], detail["properties"]) == (["p"], {"k": "v"})
    with fails("TABLE_OR_VIEW_ALREADY_EXISTS", state="42P07"):
        data.writeTo("t").using("delta").create()
    data.limit(1).writeTo("t").using("delta").createOrReplace()
    assert rows("SELECT count(*) FROM t") == [(1,)]
    spark.range(2).writeTo("t").using("delta").replace()
    assert rows("SELECT * FROM t", ordered=False) == [(0,), (1,)]
    with fails("TABLE_OR_VIEW_NOT_FOUND", state="42P01"):
        data.writeTo("absent").using("delta").replace()


def test_save_as_table_with_a_path(spark, rows, database, tmp_path):
    spark.range(2).write.format("delta").option("path", str(tmp_path / "t")).saveAsTable("t")
    assert location(rows, "t") == str(tmp_path / "t")
    spark.sql("DROP TABLE t")
    assert rows(f"SELECT count(*) FROM delta.`{tmp_path}/t`") == [(2,)]


def test_names_spark_cannot_have(spark, database, fails):
    with fails("INVALID_SCHEMA_OR_RELATION_NAME", "ta-ble", state="42602"):
        spark.sql("CREATE TABLE `ta-ble` USING delta AS SELECT 1 AS id")
    assert spark.sql("SHOW TABLES").collect() == []


def test_session_defaults_for_new_tables(spark, database, settings):
    with settings({"spark.databricks.delta.properties.defaults.appendOnly": "true"}):
        spark.sql("CREATE TABLE t (id INT) USING delta")
    assert spark.sql("DESCRIBE DETAIL t").first()["properties"] == {"delta.appendOnly": "true"}
