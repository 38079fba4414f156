"""The Python API where no row is changed: opening, describing and making tables."""

from __future__ import annotations

import pytest
from pyspark.sql import types as T

from headwater.tables import DeltaTable, IdentityGenerator


def test_tables_open_by_path_and_by_name(spark, database, tmp_path, fails):
    path = str(tmp_path / "a`b")
    spark.range(3).write.format("delta").save(path)
    spark.sql("CREATE TABLE t USING delta AS SELECT 1 AS id")
    assert DeltaTable.forPath(spark, path).toDF().count() == 3
    assert DeltaTable.forName(spark, f"delta.`{path.replace('`', '``')}`").toDF().count() == 3
    for name in ("t", f"{database}.t", f"spark_catalog.{database}.t"):
        assert DeltaTable.forName(spark, name).toDF().collect() == [(1,)]
    with fails("DELTA_MISSING_DELTA_TABLE", f"{tmp_path}/absent"):
        DeltaTable.forPath(spark, f"{tmp_path}/absent")
    with fails("TABLE_OR_VIEW_NOT_FOUND", "absent", state="42P01"):
        DeltaTable.forName(spark, "absent")
    spark.sql("CREATE TABLE p (a INT) USING parquet")
    with fails("DELTA_MISSING_DELTA_TABLE", "`p` is not a Delta table"):
        DeltaTable.forName(spark, "p")
    spark.sql("CREATE VIEW v AS SELECT * FROM t")
    with fails("DELTA_MISSING_DELTA_TABLE", "`v` is not a Delta table"):
        DeltaTable.forName(spark, "v")
    assert DeltaTable.forPath(spark, path, {"fs.x": "y"}).toDF().count() == 3


def test_a_table_stays_the_same_one_when_the_schema_changes(spark, database):
    spark.sql("CREATE TABLE t USING delta AS SELECT 1 AS id")
    table = DeltaTable.forName(spark, "t")
    spark.sql("USE default")
    spark.sql(f"INSERT INTO {database}.t VALUES (2)")
    assert table.toDF().count() == 2
    assert table.history().count() == 2


def test_is_delta_table(spark, tmp_path):
    spark.range(1).write.format("delta").save(str(tmp_path / "delta"))
    spark.range(1).write.format("parquet").save(str(tmp_path / "parquet"))
    (tmp_path / "empty" / "_delta_log").mkdir(parents=True)
    assert DeltaTable.isDeltaTable(spark, str(tmp_path / "delta"))
    for name in ("parquet", "empty", "absent"):
        assert not DeltaTable.isDeltaTable(spark, str(tmp_path / name)), name


def test_a_table_shows_its_newest_rows_and_its_history(spark, tmp_path):
    path = str(tmp_path / "no limit 5")
    spark.range(3).write.format("delta").save(path)
    table = DeltaTable.forPath(spark, path)
    frame = table.alias("x").toDF()
    assert frame.where("x.id > 0").count() == 2
    spark.range(3, 5).write.format("delta").mode("append").save(path)
    assert frame.count() == 5
    assert [row.version for row in table.history().collect()] == [1, 0]
    assert [row.version for row in table.history(1).collect()] == [1]
    assert table.detail().first().location == f"file:{path}"


def test_the_builder_creates_a_table_with_all_it_was_given(spark, database, fails):
    begun = (
        DeltaTable.create(spark)
        .tableName("t")
        .comment("it's a table")
        .addColumn("id", "BIGINT", generatedAlwaysAs=IdentityGenerator(10, 5))
        .addColumn("at", T.TimestampType(), nullable=False, comment="when")
        .addColumn("day", "DATE", generatedAlwaysAs="CAST(at AS DATE)")
        .addColumn("s", T.StructType([T.StructField("a", T.IntegerType(), True, {"comment": "x"})]))
        .addColumn("short", T.VarcharType(3))
        .partitionedBy("day")
        .property("delta.appendOnly", "true")
        .property("mine", "it's")
    )
    table = begun.execute()
    detail = table.detail().first()
    assert detail.description == "it's a table"
    assert detail.partitionColumns == ["day"]
    assert (detail.properties["delta.appendOnly"], detail.properties["mine"]) == ("true", "it's")
    spark.sql("INSERT INTO t (at, s, short) VALUES (TIMESTAMP'2024-02-03 04:05:06', struct(1), 'abc')")
    row = table.toDF().first()
    assert (row.id, str(row.day), row.s.a) == (10, "2024-02-03", 1)
    field = table.toDF().schema["at"]
    assert field.metadata["comment"] == "when"
    with fails("DELTA_EXCEED_CHAR_VARCHAR_LIMIT", state="22001"):
        spark.sql("INSERT INTO t (at, s, short) VALUES (TIMESTAMP'2024-02-03 04:05:06', struct(1), 'abcd')")
    with fails("TABLE_OR_VIEW_ALREADY_EXISTS", state="42P07"):
        begun.execute()


def test_create_if_not_exists_and_replace(spark, tmp_path, fails):
    path = str(tmp_path / "t")
    with fails("TABLE_OR_VIEW_NOT_FOUND", state="42P01"):
        DeltaTable.replace(spark).location(path).addColumn("a", "INT").execute()
    DeltaTable.createIfNotExists(spark).location(path).addColumn("a", "INT").execute()
    assert DeltaTable.createIfNotExists(spark).location(path).addColumn("b", "INT").execute().toDF().columns == ["a"]
    assert DeltaTable.replace(spark).location(path).addColumn("c", "INT").execute().toDF().columns == ["c"]
    assert DeltaTable.createOrReplace(spark).location(path).addColumn("d", "INT").execute().toDF().columns == ["d"]
    operations = [row.operation for row in DeltaTable.forPath(spark, path).history().collect()]
    assert operations == ["CREATE OR REPLACE TABLE", "REPLACE TABLE", "CREATE TABLE"]


def test_create_with_the_active_session_a_name_and_a_location(spark, database, tmp_path):
    fields = [
        DeltaTable.columnBuilder("id").dataType("BIGINT").generatedByDefaultAsIdentity(3, 2).build(),
        DeltaTable.columnBuilder(spark, "v").dataType("STRUCT<a: INT>").comment("nested").build(),
    ]
    table = DeltaTable.create().tableName("t").location(str(tmp_path / "t")).addColumns(fields).clusterBy("v.a")
    detail = table.execute().detail().first()
    assert detail.location == f"file:{tmp_path}/t"
    assert detail.clusteringColumns == ["v.a"]
    spark.sql("INSERT INTO t (v) SELECT named_struct('a', 1)")
    assert spark.table("t").collect() == [(3, (1,))]


def test_protocol_upgrades_and_features_show_in_the_detail(spark, tmp_path):
    path = str(tmp_path / "t")
    spark.range(1).write.format("delta").save(path)
    table = DeltaTable.forPath(spark, path)
    table.upgradeTableProtocol(1, 4)
    assert table.detail().first().minWriterVersion == 4
    table.addFeatureSupport("deletionVectors")
    detail = table.detail().first()
    assert (detail.minReaderVersion, detail.minWriterVersion) == (3, 7)
    assert "deletionVectors" in detail.tableFeatures


def test_what_cannot_be_generated(spark, tmp_path, fails):
    path = tmp_path / "t"
    spark.range(1).write.format("delta").save(str(path))
    with fails("DELTA_MODE_NOT_SUPPORTED", "nosuch", "symlink_format_manifest"):
        DeltaTable.forPath(spark, str(path)).generate("nosuch")
    assert not (path / "_symlink_format_manifest").exists()


def test_convert(spark, tmp_path, database):
    path = str(tmp_path / "t")
    spark.range(4).selectExpr("id", "id % 2 AS k").write.partitionBy("k").parquet(path)
    schema = T.StructType([T.StructField("k", T.IntegerType())])
    table = DeltaTable.convertToDelta(spark, f"`parquet`.`{path}`", schema)
    assert sorted(map(tuple, table.toDF().collect())) == [(0, 0), (1, 1), (2, 0), (3, 1)]
    assert table.detail().first().partitionColumns == ["k"]
    spark.range(3).write.format("parquet").saveAsTable("named")
    assert DeltaTable.convertToDelta(spark, "named").history().first().operation == "CONVERT"


@pytest.mark.parametrize("wrong", ["a..b", "`a", ""])
def test_names_that_are_none(spark, wrong):
    with pytest.raises(ValueError, match="no name"):
        DeltaTable.forName(spark, wrong)
