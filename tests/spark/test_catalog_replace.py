"""REPLACE TABLE and CREATE OR REPLACE: atomic, with their history."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from headwater.tables import DeltaTable


def location(rows, table):
    return rows(f"DESCRIBE DETAIL {table}")[0][4].removeprefix("file:")


@pytest.fixture
def broken(spark):
    """A query that fails while its rows are processed, after it has been analysed."""
    return "SELECT id, CAST(raise_error(concat('broken at ', id)) AS STRING) AS name FROM range(3)"


def test_create_or_replace_creates_then_replaces(spark, rows, database):
    for text in ("1 AS id", "'x' AS name, 2 AS n"):
        spark.sql(f"CREATE OR REPLACE TABLE t USING delta AS SELECT {text}")
    assert rows("SELECT * FROM t") == [("x", 2)]
    history = spark.sql("DESCRIBE HISTORY t").collect()
    assert [entry["operation"] for entry in history] == ["CREATE OR REPLACE TABLE AS SELECT"] * 2
    assert history[0]["operationMetrics"]["numRemovedFiles"] == "1"
    assert rows("SELECT * FROM t VERSION AS OF 0") == [(1,)]


TIMED = "'delta.enableInCommitTimestamps' = 'true'"


@pytest.mark.parametrize("how", ["property", "default", "clone", "save", "restore", "off and on"])
def test_a_replaced_table_knows_since_when_commits_have_their_times(spark, rows, settings, database, tmp_path, how):
    """Whatever takes the place of a definition: the commits that are there stay, so what is said of them stays."""
    spark.sql("CREATE TABLE t (id INT) USING delta")
    spark.sql("INSERT INTO t VALUES (1)")
    spark.sql(f"ALTER TABLE t SET TBLPROPERTIES ({TIMED})")
    spark.sql("INSERT INTO t VALUES (2)")
    default = "spark.databricks.delta.properties.defaults.enableInCommitTimestamps"
    if how == "property":
        spark.sql(f"CREATE OR REPLACE TABLE t (id INT) USING delta TBLPROPERTIES ({TIMED})")
    elif how == "default":
        with settings({default: "true"}):
            spark.sql("REPLACE TABLE t USING delta AS SELECT 3 AS id")
    elif how == "clone":
        spark.sql("TRUNCATE TABLE t")
        spark.sql(f"CREATE TABLE u USING delta TBLPROPERTIES ({TIMED}) AS SELECT 3 AS id")
        spark.sql("REPLACE TABLE t SHALLOW CLONE u")
    elif how == "save":
        frame = spark.sql("SELECT 3 AS id, 4 AS n")
        frame.write.format("delta").mode("overwrite").option("overwriteSchema", True).saveAsTable("t")
    elif how == "restore":
        spark.sql("RESTORE TABLE t TO VERSION AS OF 2")
    else:
        spark.sql("CREATE OR REPLACE TABLE t (id INT) USING delta")
        spark.sql(f"CREATE OR REPLACE TABLE t (id INT) USING delta TBLPROPERTIES ({TIMED})")
    spark.sql("INSERT INTO t (id) VALUES (5)")
    history = spark.sql("DESCRIBE HISTORY t").collect()
    times = [entry["timestamp"] for entry in reversed(history)]
    assert times == sorted(times)
    for version, time in enumerate(times):
        expected = rows(f"SELECT * FROM t VERSION AS OF {version}", ordered=False)
        assert rows(f"SELECT * FROM t TIMESTAMP AS OF '{time}'", ordered=False) == expected
    spark.sql("VACUUM t")
    spark.sql(f"RESTORE TABLE t TO TIMESTAMP AS OF '{times[1]}'")
    assert rows("SELECT * FROM t") == [(1,)]


def test_a_replaced_table_keeps_what_checkpoints_protect(spark, rows, database):
    """Older writers must not meet a part of the history before it, whatever the table is replaced by."""
    spark.sql("CREATE TABLE t (id INT) USING delta TBLPROPERTIES ('delta.feature.vacuumProtocolCheck' = 'supported')")
    spark.sql("ALTER TABLE t DROP FEATURE vacuumProtocolCheck")
    (before,) = rows("SHOW TBLPROPERTIES t ('delta.requireCheckpointProtectionBeforeVersion')")
    assert int(before[1]) > 0
    spark.sql("CREATE OR REPLACE TABLE t (n STRING) USING delta")
    assert rows("SHOW TBLPROPERTIES t ('delta.requireCheckpointProtectionBeforeVersion')") == [before]


def test_replace_changes_everything_but_the_identity(spark, rows, database):
    spark.sql(
        "CREATE TABLE t USING delta PARTITIONED BY (p) COMMENT 'old' TBLPROPERTIES ('k' = 'v') "
        "AS SELECT 1 AS id, 2 AS p"
    )
    before = spark.sql("DESCRIBE DETAIL t").first()
    spark.sql("REPLACE TABLE t (a STRING COMMENT 'new') USING delta CLUSTER BY (a)")
    after = spark.sql("DESCRIBE DETAIL t").first()
    assert after["id"] == before["id"]
    assert after["location"] == before["location"]
    assert (after["partitionColumns"], after["clusteringColumns"]) == ([], ["a"])
    assert (after["description"], after["properties"]) == (None, {})
    assert rows("SELECT * FROM t") == []
    spark.sql("REPLACE TABLE t USING delta AS SELECT 5 AS b")
    assert spark.sql("DESCRIBE DETAIL t").first()["clusteringColumns"] == []
    assert rows("SELECT * FROM t") == [(5,)]
    assert rows("SELECT * FROM t VERSION AS OF 0") == [(1, 2)]


def test_replace_a_table_with_a_query_over_itself(spark, rows, database):
    spark.sql("CREATE TABLE t USING delta AS SELECT id FROM range(3)")
    spark.sql("REPLACE TABLE t USING delta AS SELECT id + 10 AS id FROM t")
    spark.sql("CREATE OR REPLACE TABLE t USING delta AS SELECT id * 2 AS id FROM t")
    assert rows("SELECT * FROM t", ordered=False) == [(20,), (22,), (24,)]


def test_replacing_what_is_not_there(spark, database, fails):
    with fails("TABLE_OR_VIEW_NOT_FOUND", "absent", state="42P01"):
        spark.sql("REPLACE TABLE absent USING delta AS SELECT 1 AS id")
    with fails("TABLE_OR_VIEW_NOT_FOUND", "absent", state="42P01"):
        spark.sql("REPLACE TABLE absent (id INT) USING delta")


def test_a_failing_create_leaves_nothing(spark, rows, database, broken, tmp_path):
    with pytest.raises(PySparkException, match="broken at"):
        spark.sql(f"CREATE TABLE t USING delta AS {broken}")
    with pytest.raises(PySparkException, match="broken at"):
        spark.sql(f"CREATE OR REPLACE TABLE t USING delta AS {broken}")
    with pytest.raises(PySparkException, match="broken at"):
        spark.sql(f"CREATE TABLE t USING delta LOCATION '{tmp_path}/t' AS {broken}")
    assert spark.sql("SHOW TABLES").collect() == []
    assert not (tmp_path / "t" / "_delta_log").exists()
    # The name and the place are free again.
    spark.sql("CREATE TABLE t USING delta AS SELECT 1 AS id")
    spark.sql(f"CREATE TABLE u USING delta LOCATION '{tmp_path}/t' AS SELECT 2 AS id")
    assert rows("SELECT * FROM t") + rows("SELECT * FROM u") == [(1,), (2,)]


def test_a_failing_replace_leaves_the_old_table(spark, rows, database, broken):
    spark.sql("CREATE TABLE t USING delta AS SELECT 1 AS id")
    for statement in ("REPLACE TABLE", "CREATE OR REPLACE TABLE"):
        with pytest.raises(PySparkException, match="broken at"):
            spark.sql(f"{statement} t USING delta AS {broken}")
    with pytest.raises(PySparkException, match="broken at"):
        spark.sql(broken).write.format("delta").mode("overwrite").option("overwriteSchema", "true").saveAsTable("t")
    assert rows("SELECT * FROM t") == [(1,)]
    assert len(rows("DESCRIBE HISTORY t")) == 1


def test_a_definition_that_is_refused_leaves_the_old_table(spark, rows, database, fails):
    spark.sql("CREATE TABLE t USING delta AS SELECT 1 AS id")
    with fails("DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES", "a b"):
        spark.sql("CREATE OR REPLACE TABLE t (`a b` INT) USING delta")
    with fails("DELTA_UNKNOWN_CONFIGURATION", "delta.appendOnyl", "delta.appendOnly"):
        spark.sql("REPLACE TABLE t (a INT) USING delta TBLPROPERTIES ('delta.appendOnyl' = 'true')")
    assert rows("SELECT * FROM t") == [(1,)]
    assert len(rows("DESCRIBE HISTORY t")) == 1


def test_replace_an_external_table_stays_there(spark, rows, database, tmp_path):
    spark.sql(f"CREATE TABLE t USING delta LOCATION '{tmp_path}/t' AS SELECT 1 AS id")
    spark.sql("CREATE OR REPLACE TABLE t USING delta AS SELECT 2 AS id")
    assert location(rows, "t") == str(tmp_path / "t")
    assert rows(f"SELECT * FROM delta.`{tmp_path}/t`") == [(2,)]


def test_replace_another_format_with_delta(spark, rows, database, fails):
    spark.sql("CREATE TABLE t USING parquet AS SELECT 1 AS id")
    with fails("DELTA_NOT_A_DELTA_TABLE", "t", "parquet"):
        spark.sql("CREATE OR REPLACE TABLE t USING delta AS SELECT 2 AS id")
    assert rows("SELECT * FROM t") == [(1,)]
    spark.sql("DROP TABLE t")
    spark.sql("CREATE OR REPLACE TABLE t USING delta AS SELECT 2 AS id")
    assert rows("SELECT * FROM t") == [(2,)]


def test_replace_delta_with_another_format(spark, rows, database, fails):
    spark.sql("CREATE TABLE t USING delta AS SELECT 1 AS id")
    with fails("UNSUPPORTED_FEATURE.TABLE_OPERATION", "REPLACE TABLE", state="0A000"):
        spark.sql("CREATE OR REPLACE TABLE t USING parquet AS SELECT 2 AS id")
    assert rows("SELECT * FROM t") == [(1,)]


def test_no_statement_empties_a_table_of_another_name(spark, rows, database, tmp_path):
    """Every form of creating a name at the place of a table, or of replacing one name at the place of another."""
    place = tmp_path / "t"
    spark.sql(f"CREATE TABLE t USING delta LOCATION '{place}' AS SELECT 1 AS a")
    spark.sql(f"CREATE TABLE u USING delta LOCATION '{tmp_path}/u' AS SELECT 2 AS a")
    (tmp_path / "link").symlink_to(place)
    data = spark.range(3)
    spellings = (str(place), f"file:{place}", f"{place}/", f"{tmp_path}/link")

    def forms(name, where):
        for head in ("CREATE OR REPLACE TABLE", "CREATE TABLE", *(["REPLACE TABLE"] if name == "u" else [])):
            yield lambda head=head: spark.sql(f"{head} {name} (b INT) USING delta LOCATION '{where}'")
            yield lambda head=head: spark.sql(f"{head} {name} USING delta LOCATION '{where}' AS SELECT 5 AS b")
        yield data.writeTo(name).using("delta").tableProperty("location", where).createOrReplace
        yield data.writeTo(name).using("delta").option("path", where).createOrReplace
        builder = DeltaTable.createOrReplace(spark).tableName(name).addColumn("b", "INT").location(where)
        yield builder.execute
        writer = data.write.format("delta").option("path", where).option("overwriteSchema", True)
        for mode in ("error", "overwrite" if name == "u" else "append"):
            yield lambda mode=mode: writer.mode(mode).saveAsTable(name)

    for name, places in (("other", spellings), ("u", spellings[:1])):
        for where in places:
            for number, form in enumerate(forms(name, where)):
                if name == "other" or number not in (2, 3):  # CREATE of a name that is there is Spark's to refuse
                    with pytest.raises(PySparkException) as refused:
                        form()
                    assert refused.value.getCondition() in (
                        "DELTA_CREATE_TABLE_SCHEME_MISMATCH",
                        "DELTA_TABLE_ALREADY_EXISTS",
                        "DELTA_TABLE_LOCATION_MISMATCH",
                        "TABLE_OR_VIEW_ALREADY_EXISTS",
                    ), (name, number)
    assert rows("SELECT * FROM t") + rows("SELECT * FROM u") == [(1,), (2,)]
    assert [row[1] for row in rows("SHOW TABLES")] == ["t", "u"]
    assert len(rows("DESCRIBE HISTORY t")) == len(rows("DESCRIBE HISTORY u")) == 1
    # The same columns: the place gets the name, and keeps its rows. Overwriting says that they go.
    spark.sql(f"CREATE OR REPLACE TABLE other (a INT) USING delta LOCATION '{place}'")
    assert rows("SELECT * FROM other") == [(1,)]
    data.selectExpr("7 AS a").limit(1).write.format("delta").option("path", str(place)).mode("overwrite").saveAsTable(
        "v"
    )
    assert rows("SELECT * FROM v") == rows("SELECT * FROM t") == [(7,)]


def test_a_table_is_replaced_by_its_name_or_path_however_the_place_is_spelled(spark, rows, database, fails, tmp_path):
    place = tmp_path / "t"
    (tmp_path / "link").symlink_to(place)
    spark.sql(f"CREATE TABLE t USING delta LOCATION '{place}' AS SELECT 1 AS a")
    for value, where in enumerate((place, f"file://{place}", f"{place}/", tmp_path / "link"), 2):
        spark.sql(f"CREATE OR REPLACE TABLE t USING delta LOCATION '{where}' AS SELECT {value} AS a")
        assert rows("SELECT * FROM t") == [(value,)]
    spark.sql(f"CREATE OR REPLACE TABLE delta.`{place}` USING delta LOCATION '{tmp_path}/link' AS SELECT 9 AS a")
    assert rows("SELECT * FROM t") == [(9,)]
    assert location(rows, "t") == str(place)
    for head, columns in (("CREATE", "(a INT)"), ("CREATE OR REPLACE", "(a INT)"), ("CREATE", "")):
        query = "" if columns else " AS SELECT 1 AS a"
        with fails("DELTA_AMBIGUOUS_PATHS_IN_CREATE_TABLE", f"{tmp_path}/a", f"{tmp_path}/b", state="42613"):
            spark.sql(f"{head} TABLE delta.`{tmp_path}/a` {columns} USING delta LOCATION '{tmp_path}/b'{query}")
    with fails("DELTA_SCHEMA_NOT_PROVIDED", "t"):
        spark.sql("CREATE OR REPLACE TABLE t USING delta")
    assert rows("SELECT * FROM t") == [(9,)]
    assert not (tmp_path / "a").exists()
    assert not (tmp_path / "b").exists()
