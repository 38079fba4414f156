"""ALTER TABLE and COMMENT ON."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException


def test_set_and_unset_properties(spark, rows, database, fails):
    spark.sql("CREATE TABLE t (id INT) USING delta")
    spark.sql("ALTER TABLE t SET TBLPROPERTIES ('k' = 'v', 'DELTA.APPENDONLY' = 'true')")
    assert spark.sql("DESCRIBE DETAIL t").first()["properties"] == {"delta.appendOnly": "true", "k": "v"}
    spark.sql("ALTER TABLE t UNSET TBLPROPERTIES ('k')")
    spark.sql("ALTER TABLE t UNSET TBLPROPERTIES IF EXISTS ('k', 'delta.appendOnly')")
    assert spark.sql("DESCRIBE DETAIL t").first()["properties"] == {}
    operations = [row[4] for row in rows("DESCRIBE HISTORY t")]
    assert operations == ["UNSET TBLPROPERTIES", "UNSET TBLPROPERTIES", "SET TBLPROPERTIES", "CREATE TABLE"]


def test_properties_that_are_refused(spark, rows, database, fails):
    spark.sql("CREATE TABLE t (id INT) USING delta")
    with fails("DELTA_UNKNOWN_CONFIGURATION", "delta.appendOnlyy"):
        spark.sql("ALTER TABLE t SET TBLPROPERTIES ('delta.appendOnlyy' = 'true')")
    with fails("DELTA_INVALID_PROPERTY_VALUE", "maybe", "delta.appendOnly"):
        spark.sql("ALTER TABLE t SET TBLPROPERTIES ('delta.appendOnly' = 'maybe')")
    with fails("DELTA_INVALID_INTERVAL", "soon"):
        spark.sql("ALTER TABLE t SET TBLPROPERTIES ('delta.logRetentionDuration' = 'soon')")
    with fails("DELTA_UNSUPPORTED_FEATURES_IN_CONFIG", "delta.feature.dreams"):
        spark.sql("ALTER TABLE t SET TBLPROPERTIES ('delta.feature.dreams' = 'supported')")
    with fails("DELTA_INVALID_PROPERTY_VALUE", "delta.minReaderVersion"):
        spark.sql("ALTER TABLE t SET TBLPROPERTIES ('delta.minReaderVersion' = 'many')")
    with fails("DELTA_PROTOCOL_PROPERTY_NOT_INT", "delta.minReaderVersion", "99"):
        spark.sql("ALTER TABLE t SET TBLPROPERTIES ('delta.minReaderVersion' = '99')")
    with fails("DELTA_CANNOT_MODIFY_TABLE_PROPERTY", "delta.columnMapping.maxColumnId"):
        spark.sql("ALTER TABLE t SET TBLPROPERTIES ('delta.columnMapping.maxColumnId' = '9')")
    assert len(rows("DESCRIBE HISTORY t")) == 1


def test_features_and_column_mapping_by_property(spark, rows, database):
    spark.sql("CREATE TABLE t USING delta AS SELECT 1 AS id")
    spark.sql("ALTER TABLE t SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    detail = spark.sql("DESCRIBE DETAIL t").first()
    assert "columnMapping" in detail["tableFeatures"]
    spark.sql("ALTER TABLE t ADD COLUMNS (`odd name, (x)` STRING)")
    spark.sql("INSERT INTO t VALUES (2, 'b')")
    assert rows("SELECT * FROM t ORDER BY id") == [(1, None), (2, "b")]
    spark.sql("ALTER TABLE t SET TBLPROPERTIES ('delta.feature.deletionVectors' = 'supported')")
    assert "deletionVectors" in spark.sql("DESCRIBE DETAIL t").first()["tableFeatures"]


def test_add_columns(spark, rows, database, fails):
    spark.sql("CREATE TABLE t (id INT, s STRUCT<a: INT>, l ARRAY<STRUCT<x: INT>>) USING delta")
    spark.sql("INSERT INTO t VALUES (1, named_struct('a', 2), array(named_struct('x', 3)))")
    spark.sql(
        "ALTER TABLE t ADD COLUMNS (first INT COMMENT 'new' FIRST, mid STRING AFTER id, s.b INT, l.element.y INT)"
    )
    assert (
        spark.table("t").schema.simpleString()
        == "struct<first:int,id:int,mid:string,s:struct<a:int,b:int>,l:array<struct<x:int,y:int>>>"
    )
    assert rows("SELECT first, id, mid, s.b, l[0].y FROM t") == [(None, 1, None, None, None)]
    assert rows("DESCRIBE t first")[2] == ("comment", "new")
    spark.sql("INSERT INTO t (id, first) VALUES (2, 5)")
    assert rows("SELECT first FROM t WHERE id = 2") == [(5,)]
    with fails("FIELD_ALREADY_EXISTS", "mid", state="42710"):
        spark.sql("ALTER TABLE t ADD COLUMN MID INT")
    with fails("DELTA_OPERATION_NOT_ALLOWED", "NOT NULL"):
        spark.sql("ALTER TABLE t ADD COLUMN sure INT NOT NULL")
    with fails("DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES", "a b"):
        spark.sql("ALTER TABLE t ADD COLUMN `a b` INT")


def test_add_a_varchar_column(spark, rows, database):
    spark.sql("CREATE TABLE t (id INT) USING delta")
    spark.sql("ALTER TABLE t ADD COLUMN short VARCHAR(3)")
    spark.sql("INSERT INTO t VALUES (1, 'abc')")
    with pytest.raises(PySparkException, match="DELTA_EXCEED_CHAR_VARCHAR_LIMIT"):
        spark.sql("INSERT INTO t VALUES (1, 'abcd')")
    assert rows("SELECT * FROM t") == [(1, "abc")]
    assert "short VARCHAR(3)" in rows("SHOW CREATE TABLE t")[0][0]


def test_comments(spark, rows, database):
    spark.sql("CREATE TABLE t (id INT COMMENT 'old', s STRUCT<a: INT>) USING delta")
    spark.sql('COMMENT ON TABLE t IS "it\'s here"')
    assert spark.sql("DESCRIBE DETAIL t").first()["description"] == "it's here"
    spark.sql("ALTER TABLE t ALTER COLUMN id COMMENT 'new'")
    spark.sql("ALTER TABLE t ALTER COLUMN s.a COMMENT 'inner'")
    schema = spark.table("t").schema
    assert schema["id"].metadata == {"comment": "new"}
    assert schema["s"].dataType["a"].metadata == {"comment": "inner"}
    spark.sql("COMMENT ON TABLE t IS NULL")
    assert not spark.sql("DESCRIBE DETAIL t").first()["description"]


def test_set_location(spark, rows, database, tmp_path, fails):
    spark.sql(f"CREATE TABLE t USING delta LOCATION '{tmp_path}/a' AS SELECT 1 AS id")
    spark.sql(f"CREATE TABLE delta.`{tmp_path}/b` USING delta AS SELECT 2 AS id")
    spark.sql(f"CREATE TABLE delta.`{tmp_path}/c` USING delta AS SELECT 'x' AS id")
    spark.sql(f"ALTER TABLE t SET LOCATION '{tmp_path}/b'")
    assert rows("SELECT * FROM t") == [(2,)]
    with fails("DELTA_SET_LOCATION_SCHEMA_MISMATCH", "id", "string"):
        spark.sql(f"ALTER TABLE t SET LOCATION '{tmp_path}/c'")
    with fails("DELTA_MISSING_DELTA_TABLE", "absent"):
        spark.sql(f"ALTER TABLE t SET LOCATION '{tmp_path}/absent'")
    assert rows("SELECT * FROM t") == [(2,)]
