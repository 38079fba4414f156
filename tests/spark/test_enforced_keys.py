"""PRIMARY KEY … ENFORCED through Spark: its forms, every way to write a row, and what it refuses."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.errors import PySparkException

from headwater.transaction import wait_for_maintenance

pytestmark = pytest.mark.spark

DUPLICATE = "HEADWATER_DUPLICATE_KEY"


@pytest.fixture
def t(spark: Any, database: str) -> None:
    """A table of two files with a row for each ``id`` from 0 to 9, and an enforced key."""
    spark.sql("CREATE TABLE t (id INT CONSTRAINT pk PRIMARY KEY ENFORCED, v STRING) USING delta")
    spark.sql("INSERT INTO t SELECT CAST(id AS INT), 'old' FROM range(0, 10, 1, 2)")


def test_the_forms_of_the_clause(spark, rows, database, fails):
    for number, (columns, key) in enumerate(
        [
            (
                "a INT, b STRING, CONSTRAINT `k 1` PRIMARY KEY (a, b) RELY ENFORCED",
                "CONSTRAINT `k 1` PRIMARY KEY (a, b)",
            ),
            ("a INT, PRIMARY KEY (a) ENFORCED NORELY", "PRIMARY KEY (a)"),
            ("a INT PRIMARY KEY ENFORCED, b STRING", "PRIMARY KEY (a)"),
            ("`a b` INT NOT NULL CONSTRAINT k PRIMARY KEY ENFORCED RELY COMMENT 'c'", "PRIMARY KEY (`a b`)"),
        ]
    ):
        mapped = "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
        spark.sql(f"CREATE TABLE t{number} ({columns}) USING delta {mapped}")
        created = spark.sql(f"SHOW CREATE TABLE t{number}").first()[0]
        assert f"{key} ENFORCED" in created
        assert len(rows(f"SHOW INDEXES ON t{number}")) == 1
        # What is shown can be run again, and the clone of a table has its key.
        spark.sql(f"DROP TABLE t{number}")
        spark.sql(created)
        assert spark.sql(f"SHOW CREATE TABLE t{number}").first()[0] == created
        spark.sql(f"CREATE TABLE c{number} SHALLOW CLONE t{number}")
        assert f"{key} ENFORCED" in spark.sql(f"SHOW CREATE TABLE c{number}").first()[0]
    with fails("HEADWATER_KEY_ENFORCED", "Only a PRIMARY KEY"):
        spark.sql("CREATE TABLE f (a INT, FOREIGN KEY (a) REFERENCES t1 ENFORCED) USING delta")
    with fails("HEADWATER_INVALID_INDEX", "double"):
        spark.sql("CREATE TABLE f (a DOUBLE PRIMARY KEY ENFORCED) USING delta")
    with fails("HEADWATER_INVALID_INDEX", "partition column"):
        spark.sql("CREATE TABLE f (a INT PRIMARY KEY ENFORCED, b INT) USING delta PARTITIONED BY (a)")
    assert not spark.catalog.tableExists("f")


def test_a_key_of_a_table_with_rows(spark, rows, database, fails):
    spark.sql("CREATE TABLE t (id INT NOT NULL, day DATE NOT NULL, v INT) USING delta PARTITIONED BY (day)")
    spark.sql("INSERT INTO t VALUES (1, DATE'2026-01-01', 1), (1, DATE'2026-01-02', 2), (2, DATE'2026-01-02', 3)")
    with fails("HEADWATER_KEY_NEEDS_INDEX", "CREATE INDEX t_pk ON `spark_catalog`.", "(id)"):
        spark.sql("ALTER TABLE t ADD PRIMARY KEY (id, day) ENFORCED")
    spark.sql("CREATE INDEX i ON t (id)")
    with fails(DUPLICATE, "id = 1", "two rows"):
        spark.sql("ALTER TABLE t ADD PRIMARY KEY (id) ENFORCED")
    spark.sql("ALTER TABLE t ADD CONSTRAINT pk PRIMARY KEY (id, day) ENFORCED")
    assert "CONSTRAINT pk PRIMARY KEY (id, day) ENFORCED" in spark.sql("SHOW CREATE TABLE t").first()[0]
    with fails(DUPLICATE, "id = 1, day = 2026-01-02", "v = 9", "has a row with this key"):
        spark.sql("INSERT INTO t VALUES (1, DATE'2026-01-03', 8), (1, DATE'2026-01-02', 9)")
    with fails(DUPLICATE, "Two of the new rows"):
        spark.sql("INSERT INTO t VALUES (1, DATE'2026-01-03', 8), (1, DATE'2026-01-03', 9)")
    spark.sql("INSERT INTO t VALUES (1, DATE'2026-01-03', 8)")
    with fails("HEADWATER_INDEX_IS_NEEDED", "DROP CONSTRAINT pk"):
        spark.sql("DROP INDEX i ON t")
    spark.sql("CREATE INDEX j ON t (id)")
    spark.sql("DROP INDEX i ON t")
    spark.sql("ALTER TABLE t DROP CONSTRAINT pk")
    spark.sql("DROP INDEX j ON t")
    spark.sql("INSERT INTO t VALUES (1, DATE'2026-01-03', 8)")
    assert rows("SELECT count(*) FROM t") == [(5,)]


@pytest.fixture
def confs(settings: Any) -> Iterator[Callable[[dict[str, str]], None]]:
    """Sets settings until the test ends."""
    with ExitStack() as stack:
        yield lambda given: stack.enter_context(settings(given))


WRITES = {
    "insert": "INSERT INTO t VALUES (3, 'new')",
    "two new ones": "INSERT INTO t VALUES (30, 'new'), (30, 'new')",
    "merge": (
        "MERGE INTO t USING (SELECT * FROM VALUES (1, 30), (2, 30) AS x (a, b)) s ON t.id = s.a + 100 "
        "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.b, 'new')"
    ),
    "merge that changes a key": (
        "MERGE INTO t USING (SELECT 1 AS a, 2 AS b) s ON t.id = s.a WHEN MATCHED THEN UPDATE SET id = s.b"
    ),
    "update": "UPDATE t SET id = 3 WHERE id = 4",
    "update of several": "UPDATE t SET id = 40 WHERE id > 4",
    "replace where": "INSERT INTO t REPLACE WHERE v = 'new' SELECT 3, 'new'",
    "transaction": "BEGIN ATOMIC INSERT INTO t VALUES (50, 'new'); INSERT INTO t VALUES (50, 'again'); END",
    "transaction that inserts": "BEGIN ATOMIC DELETE FROM t WHERE id = 3; INSERT INTO t VALUES (4, 'again'); END",
}


@pytest.mark.parametrize("vectors", ["true", "false"])
@pytest.mark.parametrize("indexed", ["always", "never"])
@pytest.mark.parametrize("name", WRITES)
def test_every_statement_that_would_write_a_second_row_is_refused(spark, rows, t, fails, name, indexed, vectors, confs):
    confs({"spark.headwater.keyIndex": indexed})
    spark.sql(f"ALTER TABLE t SET TBLPROPERTIES ('delta.enableDeletionVectors' = '{vectors}')")
    spark.sql("REFRESH INDEX ON t")
    before = rows("SELECT * FROM t ORDER BY id")
    version = spark.sql("DESCRIBE HISTORY t LIMIT 1").first().version
    with fails(DUPLICATE, "pk"):
        spark.sql(WRITES[name]).collect()
    assert rows("SELECT * FROM t ORDER BY id") == before
    assert spark.sql("DESCRIBE HISTORY t LIMIT 1").first().version == version


@pytest.mark.parametrize("indexed", ["always", "never"])
def test_statements_that_keep_the_key_unique(spark, rows, t, indexed, confs):
    confs({"spark.headwater.keyIndex": indexed})
    spark.sql("REFRESH INDEX ON t")
    spark.sql("INSERT INTO t VALUES (10, 'new')")
    spark.sql("UPDATE t SET id = id + 1 WHERE id >= 0")
    spark.sql("UPDATE t SET v = 'updated' WHERE id < 4")
    spark.sql("DELETE FROM t WHERE id = 5")
    spark.sql("INSERT INTO t VALUES (5, 'again')")
    spark.sql(
        "MERGE INTO t USING (SELECT * FROM VALUES (1), (20) AS x (id)) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET v = 'm' WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, 'm')"
    )
    spark.sql("BEGIN ATOMIC DELETE FROM t WHERE id = 7; INSERT INTO t VALUES (7, 'moved'); END")
    spark.sql("OPTIMIZE t")
    spark.sql("INSERT OVERWRITE t SELECT * FROM t WHERE id < 30")
    spark.sql("RESTORE t TO VERSION AS OF 2")
    spark.sql("INSERT INTO t REPLACE WHERE id = 3 VALUES (3, 'replaced')")
    found = dict(rows("SELECT id, v FROM t"))
    assert len(found) == rows("SELECT count(*) FROM t")[0][0] == 11
    assert found[3] == "replaced"


def test_dataframes_and_streams(spark, rows, t, fails, tmp_path):
    new, twin = (spark.createDataFrame([(key, "new")], "id INT, v STRING") for key in (30, 3))
    new.write.format("delta").mode("append").saveAsTable("t")
    with fails(DUPLICATE):
        twin.write.format("delta").mode("append").saveAsTable("t")
    with fails(DUPLICATE):
        twin.writeTo("t").append()
    twin.write.format("delta").mode("append").option("idCols", "id").saveAsTable("t")
    assert rows("SELECT v FROM t WHERE id = 3") == [("new",)]
    spark.sql("CREATE TABLE source (id INT, v STRING) USING delta")
    spark.sql("INSERT INTO source VALUES (60, 'streamed')")

    def stream() -> None:
        query = (
            spark.readStream.table("source")
            .writeStream.format("delta")
            .option("checkpointLocation", str(tmp_path / "c"))
            .trigger(availableNow=True)
            .toTable("t")
        )
        query.awaitTermination()

    stream()
    spark.sql("INSERT INTO source VALUES (61, 'streamed'), (60, 'again')")
    with pytest.raises(Exception, match=DUPLICATE):
        stream()
    assert rows("SELECT id, v FROM t WHERE id >= 60") == [(60, "streamed")]


def test_tables_that_are_made_of_a_query(spark, rows, database, fails):
    spark.sql("CREATE TABLE s USING delta AS SELECT id % 5 AS id FROM range(9)")
    twice = "SELECT CAST(id AS INT) AS id FROM s"
    spark.sql("CREATE TABLE t (id INT PRIMARY KEY ENFORCED) USING delta")
    with fails(DUPLICATE, "Two of the new rows"):
        spark.sql(f"INSERT INTO t {twice}")
    spark.sql("INSERT INTO t SELECT DISTINCT CAST(id AS INT) FROM s")
    assert rows("SELECT count(*) FROM t") == [(5,)]
    with fails(DUPLICATE):
        spark.sql(f"INSERT OVERWRITE t {twice}")
    assert rows("SELECT count(*) FROM t") == [(5,)]


@pytest.mark.parametrize("kind", ["INT", "BIGINT", "DECIMAL(12,2)", "STRING", "DATE", "TIMESTAMP"])
def test_keys_of_each_type(spark, rows, database, fails, confs, kind):
    confs({"spark.headwater.keyIndex": "always"})
    value = {
        "DATE": "date_from_unix_date(CAST({} * 1000 - 200000 AS INT))",
        "TIMESTAMP": "timestamp_seconds({} * 100000000L - 3000000000)",
    }
    key = value.get(kind, "CAST({} AS " + kind + ")")
    spark.sql(f"CREATE TABLE t (k {kind} PRIMARY KEY ENFORCED, v INT) USING delta")
    spark.sql(f"INSERT INTO t SELECT {key.format('id')}, 1 FROM range(40)")
    wait_for_maintenance(60)
    spark.sql("REFRESH INDEX ON t")
    for number in (0, 7, 39):
        with fails(DUPLICATE):
            spark.sql(f"INSERT INTO t SELECT {key.format(number)}, 2")
    spark.sql(f"INSERT INTO t SELECT {key.format('id + 40')}, 2 FROM range(3)")
    assert rows("SELECT count(*) FROM t") == [(43,)]


def test_with_entries_of_all_files_none_is_read(spark, rows, t, confs):
    confs({"spark.headwater.keyIndex": "always"})
    spark.sql("REFRESH INDEX ON t")
    wait_for_maintenance(60)
    folder = Path(spark.sql("DESCRIBE DETAIL t").first().location.removeprefix("file:"))
    hidden = [path.rename(path.with_suffix(".hidden")) for path in folder.glob("*.parquet")]
    spark.sql("INSERT INTO t VALUES (11, 'new')")
    for path in hidden:
        path.rename(path.with_suffix(".parquet"))
    assert len(hidden) == 2
    assert rows("SELECT count(*) FROM t") == [(11,)]


def test_writers_at_once_do_not_write_one_key_twice(spark, rows, t):
    """Each of two sessions inserts the same keys, in an order of its own: of each key, one of the inserts fails."""
    spark.sql("REFRESH INDEX ON t")
    sessions = [spark.newSession() for _ in range(2)]
    for session in sessions:
        session.sql(f"USE {spark.catalog.currentDatabase()}")
    failed: list[int] = []

    def insert(session: Any, keys: list[int]) -> None:
        for key in keys:
            try:
                session.sql(f"INSERT INTO t VALUES ({key}, 'new')")
            except PySparkException as error:
                failed.append(key if error.getCondition() == DUPLICATE else -1)

    with ThreadPoolExecutor() as pool:
        list(pool.map(insert, sessions, [[20, 21, 22, 23, 24], [20, 21, 24, 23, 22]]))
    assert sorted(failed) == [20, 21, 22, 23, 24]
    assert rows("SELECT id, count(*) FROM t WHERE id >= 20 GROUP BY id ORDER BY id") == [(n, 1) for n in range(20, 25)]


@pytest.mark.parametrize("partitioned", ["", "PARTITIONED BY (p)"])
def test_health_finds_what_another_engine_wrote(spark, rows, database, tmp_path, partitioned):
    path = tmp_path / "t"
    spark.sql(
        f"CREATE TABLE t (id INT, p INT, PRIMARY KEY (id, p) ENFORCED) USING delta {partitioned} LOCATION '{path}' "
        "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    )
    if not partitioned:
        assert rows("SHOW INDEXES ON t")[0][1] == "id, p"
    spark.sql("INSERT INTO t SELECT CAST(id AS INT), 1 FROM range(0, 9, 1, 1)")
    wait_for_maintenance(60)

    def duplicates() -> list[Any]:
        spark.sql("REFRESH INDEX ON t")
        facts = spark.sql("DESCRIBE HEALTH t").where("name = 'duplicateKeys'").collect()
        return [row.value for row in facts]

    assert duplicates() == ["0"]
    new = pa.table({"id": pa.array([3, 4, 5, 50], pa.int32()), "p": pa.array([1, 1, 2, 1], pa.int32())})
    write_deltalake(str(path), new, mode="append")
    found = duplicates()
    assert "2" in found
    assert any("2 keys" in each and "several rows" in each for each in found)
    spark.sql("DELETE FROM t WHERE id = 3")
    assert "1" in duplicates()


def test_an_index_that_cannot_be_read_leaves_the_check_to_the_key_columns(spark, rows, database, fails, confs):
    """Also where the table has another index over columns of the key, whose hashes are others."""
    confs({"spark.headwater.keyIndex": "always"})
    spark.sql("CREATE TABLE t (a INT, b INT, PRIMARY KEY (a, b) ENFORCED) USING delta")
    spark.sql("INSERT INTO t SELECT CAST(id AS INT), CAST(id AS INT) FROM range(20)")
    spark.sql("CREATE INDEX other ON t (b)")
    spark.sql("REFRESH INDEX ON t")
    wait_for_maintenance(60)
    folder = Path(spark.sql("DESCRIBE DETAIL t").first().location.removeprefix("file:"))
    shutil.rmtree(folder / "_headwater" / "index" / "t_pk")
    with fails(DUPLICATE, "a = 3, b = 3"):
        spark.sql("INSERT INTO t VALUES (3, 3)")
    spark.sql("INSERT INTO t VALUES (3, 4)")
    assert rows("SELECT count(*) FROM t") == [(21,)]


@pytest.mark.parametrize("setting", ["spark.sql.files.ignoreMissingFiles", "spark.sql.files.ignoreCorruptFiles"])
def test_no_file_is_skipped_whatever_the_session_says(spark, rows, database, confs, setting):
    confs({"spark.headwater.keyIndex": "never", setting: "true"})
    spark.sql("CREATE TABLE t (id INT PRIMARY KEY ENFORCED) USING delta")
    spark.sql("INSERT INTO t SELECT CAST(1 AS INT)")
    wait_for_maintenance(60)
    folder = Path(spark.sql("DESCRIBE DETAIL t").first().location.removeprefix("file:"))
    (file,) = folder.glob("*.parquet")
    content = file.read_bytes()
    (folder / f".{file.name}.crc").unlink(missing_ok=True)
    if "Missing" in setting:
        file.unlink()
    else:
        file.write_bytes(b"x" * len(content))
    with pytest.raises(PySparkException):
        spark.sql("INSERT INTO t VALUES (1)")
    file.write_bytes(content)
    assert rows("SELECT count(*) FROM t") == [(1,)]


_LATE = "IF(reflect('java.lang.Thread', 'sleep', 3000L) = '', 1, 2)"
CHANGED_KEYS = {
    "widened": ("id INT", f"SELECT 3L AS id, {_LATE} AS v", "(3, 1)"),
    "numbered": ("id BIGINT GENERATED BY DEFAULT AS IDENTITY", f"SELECT {_LATE} AS v", "(2, 1)"),
}


@pytest.mark.parametrize("name", CHANGED_KEYS)
def test_a_statement_that_changes_the_column_of_the_key_sees_other_writers(spark, rows, database, name):
    """A key that another one adds while it writes its rows is not added again."""
    column, query, other = CHANGED_KEYS[name]
    properties = "TBLPROPERTIES ('delta.enableTypeWidening' = 'true')"
    spark.sql(f"CREATE TABLE t ({column}, v INT, PRIMARY KEY (id) ENFORCED) USING delta {properties}")
    spark.sql("INSERT INTO t (v) VALUES (0)" if "IDENTITY" in column else "INSERT INTO t VALUES (1, 0)")
    writer = spark.sql(query).write.format("delta").mode("append").option("mergeSchema", "true")
    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(writer.saveAsTable, "t")
        time.sleep(1.5)
        spark.sql(f"INSERT INTO t VALUES {other}")
        if (error := late.exception()) is not None:
            assert isinstance(error, PySparkException)
            assert error.getCondition() == DUPLICATE
    assert rows("SELECT id FROM t GROUP BY id HAVING count(*) > 1") == []


@pytest.mark.parametrize("tracked", ["true", "false"])
def test_a_version_comes_back_as_it_is(spark, rows, database, tracked):
    spark.sql(
        "CREATE TABLE t (id INT PRIMARY KEY ENFORCED) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = "
        f"'true', 'delta.enableRowTracking' = '{tracked}')"
    )
    spark.sql("INSERT INTO t SELECT CAST(id AS INT) FROM range(0, 9, 1, 1)")
    spark.sql("DELETE FROM t WHERE id = 7")
    spark.sql("INSERT INTO t VALUES (7)")
    spark.sql("TRUNCATE TABLE t")
    spark.sql("RESTORE TABLE t TO VERSION AS OF 3")
    assert rows("SELECT count(*), count(DISTINCT id) FROM t") == [(9, 9)]


def test_a_delete_takes_one_of_two_rows_that_another_engine_wrote(spark, rows, t):
    """Without deletion vectors, its files have copies of rows that stay, and these may have one key."""
    spark.sql("ALTER TABLE t SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')")
    folder = spark.sql("DESCRIBE DETAIL t").first().location.removeprefix("file:")
    twins = pa.table({"id": pa.array([3, 3, 50, 50], pa.int32()), "v": ["a", "b", "c", "d"]})
    write_deltalake(folder, twins, mode="append")
    spark.sql("DELETE FROM t WHERE v IN ('a', 'c')")
    assert rows("SELECT v FROM t WHERE id IN (3, 50) ORDER BY v") == [("b",), ("d",), ("old",)]


@pytest.mark.parametrize("vectors", ["true", "false"])
def test_statements_that_change_no_key_are_not_kept_from_rows_of_another_engine(spark, rows, t, fails, vectors):
    spark.sql(f"ALTER TABLE t SET TBLPROPERTIES ('delta.enableDeletionVectors' = '{vectors}')")
    folder = spark.sql("DESCRIBE DETAIL t").first().location.removeprefix("file:")
    write_deltalake(folder, pa.table({"id": pa.array([50, 50, 51], pa.int32()), "v": ["a", "b", "c"]}), mode="append")
    spark.sql("UPDATE t SET v = concat(v, '!') WHERE id >= 50")
    spark.sql("MERGE INTO t USING (SELECT 51 AS a) s ON t.id = s.a WHEN MATCHED THEN UPDATE SET v = 'd'")
    assert rows("SELECT * FROM t WHERE id >= 50 ORDER BY v") == [(50, "a!"), (50, "b!"), (51, "d")]
    for text in ("UPDATE t SET id = 50 WHERE id = 51", "UPDATE t SET v = 'e', ID = id + 1 WHERE v = 'a!'"):
        with fails(DUPLICATE, "pk"):
            spark.sql(text)


@pytest.mark.parametrize("vectors", ["true", "false"])
def test_a_key_that_is_generated_changes_with_its_column(spark, rows, database, fails, vectors):
    spark.sql(
        "CREATE TABLE t (a INT, g INT NOT NULL GENERATED ALWAYS AS (a % 10), v INT, CONSTRAINT pk PRIMARY KEY (g) "
        f"ENFORCED) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = '{vectors}')"
    )
    spark.sql("INSERT INTO t (a, v) VALUES (1, 1), (2, 2)")
    spark.sql("UPDATE t SET v = 3 WHERE a = 1")
    spark.sql("UPDATE t SET a = 14 WHERE a = 1")
    for text in (
        "UPDATE t SET a = 12 WHERE v = 3",
        "MERGE INTO t USING (SELECT 3 AS b) s ON t.v = s.b WHEN MATCHED THEN UPDATE SET a = 12",
    ):
        with fails(DUPLICATE, "pk"):
            spark.sql(text)
    assert rows("SELECT * FROM t ORDER BY a") == [(2, 2, 2), (14, 4, 3)]


def test_keys_that_are_no_text(spark, rows, database, fails):
    other = spark.newSession()
    other.sql(f"USE {database}")
    no_text = "cast(X'616280' AS STRING)"
    spark.sql("CREATE TABLE t (k STRING PRIMARY KEY ENFORCED, v INT) USING delta")
    spark.sql(
        f"INSERT INTO t SELECT /*+ COALESCE(1) */ * FROM (SELECT {no_text} AS k, 0 AS v UNION ALL SELECT 'ab\u00ea', 0)"
    )
    with fails(DUPLICATE, "t_pk"):
        spark.sql(f"INSERT INTO t SELECT {no_text}, 1")
    spark.sql("INSERT INTO t SELECT cast(X'616281' AS STRING), 1")
    spark.sql("BEGIN TRANSACTION")
    spark.sql("INSERT INTO t SELECT cast(X'616282' AS STRING), 1")
    other.sql("INSERT INTO t SELECT cast(X'616282' AS STRING), 2")
    with fails("DELTA_CONCURRENT_APPEND"):
        spark.sql("COMMIT")
    assert rows("SELECT count(*), count(DISTINCT k) FROM t") == [(4, 4)]
