"""CLONE through Spark: names, paths, versions and properties, rows after DML and maintenance of the clone,
streams and changes, the Python API, and errors that leave nothing behind.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headwater.tables import DeltaTable
from support.requests import actions

COLUMNS = [
    "source_table_size",
    "source_num_of_files",
    "num_removed_files",
    "num_copied_files",
    "removed_files_size",
    "copied_files_size",
]
UNGUARDED = {
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    "spark.databricks.delta.vacuum.retentionWindowIgnore.enabled": "false",
}
DRAWN = "SELECT count(*), sum(a) FROM {}"


@pytest.fixture
def source(spark, database, tmp_path):
    """A table ``s`` of four versions with change data, marks, constraints, an identity and a generated column."""
    path = tmp_path / "a s"
    spark.sql(
        "CREATE TABLE s (id BIGINT GENERATED ALWAYS AS IDENTITY, a INT, p STRING, g INT GENERATED ALWAYS AS (a * 2), "
        f"CONSTRAINT positive CHECK (a > 0)) USING delta PARTITIONED BY (p) LOCATION '{path}' COMMENT 'the source' "
        "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', 'delta.enableChangeDataFeed' = 'true', "
        "'delta.columnMapping.mode' = 'name', 'delta.enableRowTracking' = 'true', 'mine' = '1')"
    )
    spark.sql("INSERT INTO s (a, p) VALUES (1, 'x'), (2, 'x y'), (3, 'ü%'), (4, null)")
    spark.sql("INSERT INTO s (a, p) SELECT id + 10, 'x' FROM range(0, 10, 1, 1)")
    spark.sql("DELETE FROM s WHERE a = 12")
    return path


def contents(path):
    return {file: file.read_bytes() for file in Path(path).rglob("*.*") if file.suffix in (".parquet", ".bin", ".json")}


def properties(rows, table):
    return dict(rows(f"SHOW TBLPROPERTIES {table}"))


def test_clones_by_names_and_paths_of_versions_and_times(spark, rows, source, database, tmp_path):
    made = spark.sql("CREATE TABLE t SHALLOW CLONE s")
    size = spark.sql("DESCRIBE DETAIL s").first()["sizeInBytes"]
    assert made.columns == COLUMNS
    assert [tuple(row) for row in made.collect()] == [(size, 5, 0, 0, 0, 0)]
    assert rows("SELECT * FROM t", ordered=False) == rows("SELECT * FROM s", ordered=False)
    (info,) = actions(Path(spark.sql("DESCRIBE DETAIL t").first()["location"].removeprefix("file:")), 0, "commitInfo")
    assert info["operationParameters"] == {"source": f"spark_catalog.{database}.s", "sourceVersion": "3"}
    detail = spark.sql("DESCRIBE DETAIL t").first()
    assert (detail["name"], detail["description"], detail["partitionColumns"]) == (
        f"spark_catalog.{database}.t",
        None,
        ["p"],
    )
    assert properties(rows, "t").items() >= {("mine", "1"), ("delta.constraints.positive", "a > 0")}
    # One that is there already.
    again = spark.sql("CREATE TABLE IF NOT EXISTS t SHALLOW CLONE s VERSION AS OF 1")
    assert (again.columns, again.collect()) == (COLUMNS, [])
    # Versions and times, of SQL's and of the path's; properties and places; markers and identifiers.
    time = spark.sql("DESCRIBE HISTORY s").where("version = 1").first()["timestamp"]
    spark.sql(f"CREATE TABLE at SHALLOW CLONE s TIMESTAMP AS OF '{time}' TBLPROPERTIES ('mine' = '2')")
    spark.sql(f"CREATE TABLE v1 SHALLOW CLONE s VERSION AS OF 1 LOCATION '{tmp_path / 'v 1'}'")
    spark.sql(f"CREATE TABLE delta.`{tmp_path / 'p'}` SHALLOW CLONE delta.`{source}@v1`")
    spark.sql(
        "CREATE TABLE IDENTIFIER(:to) SHALLOW CLONE IDENTIFIER(:of) VERSION AS OF :v",
        args={"to": "m", "of": "s", "v": 1},
    )
    four = rows("SELECT * FROM s VERSION AS OF 1", ordered=False)
    for table in ("at", "v1", f"delta.`{tmp_path / 'p'}`", "m"):
        assert rows(f"SELECT * FROM {table}", ordered=False) == four, table
    assert properties(rows, "at")["mine"] == "2"
    assert (tmp_path / "v 1/_delta_log").is_dir()
    # The Python API; a table without rows is replaced.
    api = DeltaTable.forName(spark, "s")
    spark.sql("CREATE TABLE e (z STRING) USING delta")
    assert api.cloneAtVersion(1, "e", True, True, {"mine": "3"}).toDF().count() == 4
    assert api.clone(str(tmp_path / "q"), isShallow=True).toDF().count() == 13
    assert api.cloneAtTimestamp(str(time), f"{database}.r", isShallow=True).toDF().count() == 4
    assert properties(rows, "e")["mine"] == "3"
    assert [row["operation"] for row in spark.sql("DESCRIBE HISTORY e").collect()] == ["CLONE", "CREATE TABLE"]
    spark.sql("EXECUTE IMMEDIATE 'CREATE TABLE x SHALLOW CLONE s'")
    assert rows(DRAWN.format("x")) == [(13, 143)]


def test_what_a_clone_does_leaves_the_source_as_it_is(spark, rows, source, settings, tmp_path):
    kept = contents(source)
    spark.sql("CREATE TABLE t SHALLOW CLONE s")
    spark.sql("INSERT INTO t (a, p) VALUES (77, 'x')")
    assert rows("SELECT id, g FROM t WHERE a = 77") == [(15, 154)]
    spark.sql("UPDATE t SET a = a + 100 WHERE a < 3")
    spark.sql("MERGE INTO t USING (SELECT 14 a) q ON t.a = q.a WHEN MATCHED THEN DELETE")
    changed = rows("SELECT _change_type, count(*) FROM table_changes('t', 1) GROUP BY 1", ordered=False)
    assert changed == [("delete", 1), ("insert", 1), ("update_postimage", 2), ("update_preimage", 2)]
    (now,) = rows(DRAWN.format("t"))
    spark.sql("CREATE TABLE tt SHALLOW CLONE t")
    with settings(UNGUARDED):
        for statement in ("OPTIMIZE t", "REORG TABLE t APPLY (PURGE)", "VACUUM t RETAIN 0 HOURS"):
            spark.sql(statement)
            assert rows(DRAWN.format("t")) == [now], statement
        assert contents(source) == kept
        assert rows(DRAWN.format("t VERSION AS OF 0")) == rows(DRAWN.format("s")) == [(13, 143)]
        spark.sql("RESTORE TABLE t TO VERSION AS OF 0")
        assert rows("SELECT * FROM t", ordered=False) == rows("SELECT * FROM s", ordered=False)
        spark.sql("TRUNCATE TABLE t")
        spark.sql("VACUUM t RETAIN 0 HOURS")
        spark.sql("DROP TABLE t")
        assert contents(source) == kept
        # A stream takes a clone's rows as those of any table's first version.
        spark.sql("CREATE TABLE u SHALLOW CLONE s")
        query = (
            spark.readStream.table("u")
            .select("a")
            .writeStream.trigger(availableNow=True)
            .option("checkpointLocation", str(tmp_path / "c"))
            .toTable("sunk")
        )
        query.awaitTermination()
        assert rows(DRAWN.format("sunk")) == [(13, 143)]
        # What the source does not need any more is gone for the clone, too, and that is said.
        health = {row["name"]: row["value"] for row in spark.sql("DESCRIBE HEALTH u").collect()}
        assert health["filesElsewhere"] == "5"
        spark.sql("DELETE FROM s")
        spark.sql("VACUUM s RETAIN 0 HOURS")
    with pytest.raises(Exception, match="shallow clone") as raised:
        rows("SELECT * FROM u")
    assert raised.value.getCondition() == "DELTA_FILE_NOT_FOUND_DETAILED"


def test_bad_clones_leave_nothing(spark, rows, source, database, fails, tmp_path):
    spark.sql("CREATE VIEW v AS SELECT * FROM s")
    spark.sql("CREATE TEMPORARY VIEW tv AS SELECT * FROM s")
    spark.sql("CREATE TABLE o USING csv AS SELECT 1 a")
    spark.sql("CREATE TABLE filled USING delta AS SELECT 1 a")
    before = rows("SHOW TABLES", ordered=False)
    (tmp_path / "full").mkdir()
    (tmp_path / "full/x.csv").write_text("1\n")
    for statement, condition, words in (
        ("CREATE TABLE t SHALLOW CLONE v", "DELTA_CLONE_UNSUPPORTED_SOURCE", "a view"),
        ("CREATE TABLE t SHALLOW CLONE tv", "DELTA_CLONE_UNSUPPORTED_SOURCE", "a view"),
        ("CREATE TABLE t SHALLOW CLONE o", "DELTA_CLONE_UNSUPPORTED_SOURCE", "csv"),
        ("CREATE TABLE t SHALLOW CLONE nothing", "TABLE_OR_VIEW_NOT_FOUND", "nothing"),
        ("CREATE TABLE nowhere.t SHALLOW CLONE s", "SCHEMA_NOT_FOUND", "nowhere"),
        ("CREATE TABLE t SHALLOW CLONE s VERSION AS OF 9", "DELTA_VERSION_NOT_FOUND", "9"),
        (
            "CREATE TABLE t SHALLOW CLONE s TIMESTAMP AS OF '2001-01-01'",
            "DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION",
            "2001",
        ),
        ("CREATE TABLE t SHALLOW CLONE s TBLPROPERTIES ('delta.no' = '1')", "DELTA_UNKNOWN_CONFIGURATION", "delta.no"),
        ("CREATE TABLE filled SHALLOW CLONE s", "TABLE_OR_VIEW_ALREADY_EXISTS", "filled"),
        ("CREATE TABLE v SHALLOW CLONE s", "TABLE_OR_VIEW_ALREADY_EXISTS", "v"),
        ("CREATE OR REPLACE TABLE v SHALLOW CLONE s", "DELTA_CANNOT_WRITE_INTO_VIEW", "v"),
        ("CREATE OR REPLACE TABLE o SHALLOW CLONE s", "DELTA_NOT_A_DELTA_TABLE", "csv"),
        ("CREATE OR REPLACE TABLE filled SHALLOW CLONE s", "DELTA_UNSUPPORTED_NON_EMPTY_CLONE", "TRUNCATE"),
        ("REPLACE TABLE t SHALLOW CLONE s", "TABLE_OR_VIEW_NOT_FOUND", "t"),
        ("CREATE OR REPLACE TABLE s SHALLOW CLONE s", "HEADWATER_CLONE_OF_ITSELF", "RESTORE"),
        (
            f"CREATE TABLE t SHALLOW CLONE s LOCATION '{tmp_path / 'full'}'",
            "DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION",
            "full",
        ),
        (f"CREATE TABLE t SHALLOW CLONE s LOCATION '{source}'", "HEADWATER_CLONE_OF_ITSELF", "t"),
        ("CREATE TABLE t SHALLOW CLONE s AS SELECT 1", "PARSE_SYNTAX_ERROR", "SHALLOW CLONE"),
        ("CREATE TABLE t DEEP CLONE s WITH CHANGE DATA", "PARSE_SYNTAX_ERROR", "WITH CHANGE DATA"),
        ("CREATE TABLE t DEEP CLONE v", "DELTA_CLONE_UNSUPPORTED_SOURCE", "a view"),
        ("CREATE OR REPLACE TABLE v DEEP CLONE s", "DELTA_CANNOT_WRITE_INTO_VIEW", "v"),
        ("CREATE OR REPLACE TABLE filled DEEP CLONE s", "HEADWATER_DEEP_CLONE_TARGET_CHANGED", "filled"),
    ):
        with fails(condition, words):
            spark.sql(statement)
    assert rows("SHOW TABLES", ordered=False) == before
    assert os.listdir(tmp_path / "full") == ["x.csv"]
    assert rows(DRAWN.format("s")) == [(13, 143)]


def test_deep_clones(spark, rows, source, database, settings, fails, tmp_path):
    path = tmp_path / "d %41"
    made = spark.sql(f"CREATE TABLE d DEEP CLONE s VERSION AS OF 2 LOCATION '{path}'")
    four = rows("SELECT * FROM s VERSION AS OF 2", ordered=False)
    size = spark.sql("DESCRIBE DETAIL d").first()["sizeInBytes"]
    assert made.columns == COLUMNS
    assert [tuple(row) for row in made.collect()] == [(size, 5, 0, 5, 0, size)]
    assert rows("SELECT * FROM d", ordered=False) == four
    # Only the file that got marks differs, and it is there already. CLONE alone is a deep one.
    files = {file: file.stat().st_mtime_ns for file in path.rglob("*.parquet")}
    (again,) = rows("CREATE OR REPLACE TABLE d CLONE s")
    assert (again[2], again[3]) == (1, 0)
    assert {file: file.stat().st_mtime_ns for file in path.rglob("*.parquet")} == files
    assert not list(path.rglob(".*.crc"))
    spark.sql("INSERT INTO s (a, p) VALUES (900, 'x y')")
    assert rows("CREATE OR REPLACE TABLE d CLONE s")[0][3] == 1
    now = rows("SELECT * FROM s", ordered=False)
    assert rows("SELECT * FROM d", ordered=False) == now
    # The Python API, and a managed table; what only reads the clone needs its source no more.
    assert DeltaTable.forName(spark, "s").clone("e").toDF().count() == 14
    spark.sql("CREATE TABLE f SHALLOW CLONE d")
    with settings(UNGUARDED):
        spark.sql("DELETE FROM s WHERE a < 900")
        spark.sql("VACUUM s RETAIN 0 HOURS")
        with fails("HEADWATER_CLONE_FILES_MISSING", "Clone a newer version"):
            spark.sql("CREATE TABLE gone DEEP CLONE s VERSION AS OF 2")
        assert not spark.catalog.tableExists("gone")
        for statement in ("VACUUM d RETAIN 0 HOURS", "VACUUM e RETAIN 0 HOURS"):
            spark.sql(statement)
    for table in ("d", "e", "f", "d VERSION AS OF 2"):
        assert rows(f"SELECT * FROM {table}", ordered=False) == now, table
    assert rows("SELECT * FROM d VERSION AS OF 0", ordered=False) == four
    spark.sql("CREATE OR REPLACE TABLE d DEEP CLONE s")
    assert rows(DRAWN.format("d")) == [(1, 900)]
    spark.sql("INSERT INTO d (a, p) VALUES (5, 'x')")
    with fails("HEADWATER_DEEP_CLONE_TARGET_CHANGED", "made by WRITE"):
        spark.sql("CREATE OR REPLACE TABLE d DEEP CLONE s")
    # A source whose files are gone can be cloned no more; the log alone is not enough.
    spark.sql("INSERT INTO e (a, p) VALUES (6, 'x')")
    assert rows("SELECT id, g FROM e WHERE a = 6") == [(16, 12)]


@pytest.mark.parametrize(
    "upkeep", ["OPTIMIZE {}", "REORG TABLE {} APPLY (PURGE)", "ANALYZE TABLE {} COMPUTE DELTA STATISTICS"]
)
def test_a_clones_own_maintenance_is_no_change(spark, rows, source, database, upkeep):
    """It does not stop the clone from following its source, and what it did stays as long as the source does."""
    spark.sql("CREATE TABLE d DEEP CLONE s")
    every = rows("SELECT * FROM s", ordered=False)
    spark.sql(upkeep.format("d"))
    spark.sql("VACUUM d")
    version = len(rows("DESCRIBE HISTORY d"))
    assert rows("CREATE OR REPLACE TABLE d DEEP CLONE s")[0][2:4] == (0, 0)
    assert len(rows("DESCRIBE HISTORY d")) == version
    assert rows("SELECT * FROM d", ordered=False) == every
    spark.sql("INSERT INTO s (a, p) VALUES (900, 'x y')")
    spark.sql("DELETE FROM s WHERE a = 3")
    spark.sql("CREATE OR REPLACE TABLE d DEEP CLONE s")
    assert rows("SELECT * FROM d", ordered=False) == rows("SELECT * FROM s", ordered=False)


@pytest.mark.parametrize("more", ["", ", 'delta.enableRowTracking' = 'true'"], ids=["plain", "row ids"])
def test_an_append_only_table_is_cloned_whatever_its_maintenance_did(spark, rows, fails, database, more):
    """What moved between files in the source moves in the clone; the clone refuses all else that removes rows."""
    spark.sql(f"CREATE TABLE s (a INT) USING delta TBLPROPERTIES ('delta.appendOnly' = 'true'{more})")
    for number in range(3):
        spark.sql(f"INSERT INTO s VALUES ({number})")
    spark.sql("CREATE TABLE d DEEP CLONE s")
    insert = "INSERT INTO s VALUES (3)"
    steps = ((["OPTIMIZE s"], False), ([insert], True), (["OPTIMIZE s"], False), ([insert, "OPTIMIZE s"], True))
    for statements, is_change in steps:
        for statement in statements:
            spark.sql(statement)
        spark.sql("CREATE OR REPLACE TABLE d DEEP CLONE s")
        path = Path(spark.sql("DESCRIBE DETAIL d").first().location.removeprefix("file:"))
        newest = len(rows("DESCRIBE HISTORY d")) - 1
        added = actions(path, newest, "add") + actions(path, newest, "remove")
        assert {action["dataChange"] for action in added} == {is_change}
        assert rows("SELECT * FROM d", ordered=False) == rows("SELECT * FROM s", ordered=False)
    with fails("DELTA_CANNOT_MODIFY_APPEND_ONLY"):
        spark.sql("DELETE FROM d WHERE a = 1")


def test_identifiers_markers_and_scripts(spark, rows, source, tmp_path):
    four = rows("SELECT * FROM s VERSION AS OF 1", ordered=False)
    by_name = {"to": "a1", "of": "s", "v": 1}
    spark.sql("CREATE TABLE IDENTIFIER(:to) DEEP CLONE IDENTIFIER(:of) VERSION AS OF :v", args=by_name)
    spark.sql("CREATE TABLE IDENTIFIER(?) CLONE IDENTIFIER(?) VERSION AS OF ?", args=["a2", "s", 1])
    spark.sql("EXECUTE IMMEDIATE 'CREATE TABLE a3 SHALLOW CLONE s VERSION AS OF ?' USING 1")
    spark.sql("BEGIN CREATE TABLE a4 DEEP CLONE s VERSION AS OF 1; CREATE TABLE a5 SHALLOW CLONE a4; END")
    for number in range(1, 6):
        assert rows(f"SELECT * FROM a{number}", ordered=False) == four, number
    ten = rows("SELECT id FROM range(10)", ordered=False)
    for name in ("b1", "b2", "b3", "b4"):
        spark.sql(f"CREATE TABLE {name} USING parquet AS SELECT id FROM range(10)")
    spark.sql("CONVERT TO DELTA IDENTIFIER(:name)", args={"name": "b1"})
    spark.sql("CONVERT TO DELTA IDENTIFIER('b' || '2')")
    spark.sql("EXECUTE IMMEDIATE 'CONVERT TO DELTA b3'")
    spark.sql("BEGIN CONVERT TO DELTA b4 NO STATISTICS; DELETE FROM b4 WHERE id > 90; END")
    for name in ("b1", "b2", "b3", "b4"):
        assert rows(f"SELECT * FROM {name}", ordered=False) == ten, name
        assert spark.sql(f"DESCRIBE DETAIL {name}").first()["format"] == "delta"
