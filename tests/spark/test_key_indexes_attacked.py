"""Where a key index meets what it was not made for: sessions, files and names at which it would lose rows or data."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.commits import write_commit

pytestmark = pytest.mark.spark

VECTORS = "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"


@pytest.fixture(autouse=True)
def _always(settings: Any) -> Iterator[None]:
    with settings({"spark.headwater.keyIndex": "always", "spark.headwater.merge.smallTargetBytes": "1"}):
        yield


def folder_of(spark: Any, table: str) -> Path:
    return Path(spark.sql(f"DESCRIBE DETAIL {table}").first().location.removeprefix("file:"))


def test_rows_of_pages_that_a_filter_skips_keep_their_values(spark, rows, database):
    """All columns are late, those of the condition too, and the condition's filters leave pages of the file out."""
    spark.sql(f"CREATE TABLE t (id BIGINT, k STRING, w INT) USING delta {VECTORS}")
    spark.sql("INSERT INTO t SELECT id, 'k' || id % 20000, int(id / 20000) FROM range(0, 60000, 1, 1)")
    spark.sql("CREATE INDEX by_k ON t (k)")
    many = ", ".join(f"'k{n}'" for n in range(3000))
    assert rows(f"UPDATE t SET w = -1 WHERE k IN ({many}) AND w = 1") == [(3000,)]
    assert rows("SELECT min(id), max(id), count(*) FROM t WHERE w = -1") == [(20000, 22999, 3000)]
    assert rows("DELETE FROM t WHERE k = 'k5000' AND id < 20000") == [(1,)]
    assert rows("SELECT count(*), sum(id) FROM t") == [(59999, sum(range(60000)) - 5000)]


def test_a_statement_looks_at_no_row_without_one_of_its_keys(spark, rows, database):
    spark.sql(f"CREATE TABLE t (k STRING, v INT) USING delta {VECTORS}")
    spark.sql("INSERT INTO t SELECT 'k' || id, int(id) FROM range(0, 2000, 1, 2)")
    spark.sql("CREATE INDEX by_k ON t (k)")
    others_fail = "(v IN (5, 6, 7) OR raise_error('a row without the key') IS NULL)"
    assert rows(f"UPDATE t SET v = -v WHERE {others_fail} AND k = 'k5'") == [(1,)]
    assert rows(f"DELETE FROM t WHERE {others_fail} AND k = 'k6'") == [(1,)]
    source = "(SELECT 'k7' AS k, 1 AS one)"
    merged = f"MERGE INTO t USING {source} s ON {others_fail} AND t.k = s.k WHEN MATCHED THEN UPDATE SET v = -v"
    assert rows(merged) == [(1, 1, 0, 0)]
    assert rows("SELECT v FROM t WHERE v < 0", ordered=False) == [(-5,), (-7,)]


def test_a_cast_that_cuts_numbers_off_equates_more_than_one(spark, rows, database, settings):
    spark.sql(f"CREATE TABLE t (id BIGINT, v INT) USING delta {VECTORS}")
    spark.sql("INSERT INTO t VALUES (5, 1), (4294967301, 1)")
    spark.sql("INSERT INTO t VALUES (4294967301, 1)")
    spark.sql("CREATE INDEX by_id ON t (id)")
    with settings({"spark.sql.ansi.enabled": "false"}):
        assert rows("SELECT count(*) FROM t WHERE CAST(id AS INT) = 5") == [(3,)]
        assert rows("SELECT count(*) FROM t JOIN (VALUES (5)) AS s(n) ON CAST(t.id AS INT) = s.n") == [(3,)]
        assert rows("UPDATE t SET v = 2 WHERE CAST(id AS INT) = 5") == [(3,)]
        assert rows("DELETE FROM t WHERE CAST(id AS INT) IN (5, 6)") == [(3,)]


@pytest.mark.parametrize("setting", ["ignoreMissingFiles", "ignoreCorruptFiles"])
def test_files_that_a_session_skips_get_no_entries(spark, rows, database, settings, fails, setting):
    spark.sql("CREATE TABLE t (k STRING, v INT) USING delta")
    spark.sql("INSERT INTO t VALUES ('a', 1)")
    spark.sql("INSERT INTO t VALUES ('b', 2)")
    (file,) = [folder_of(spark, "t") / name for (name,) in rows("SELECT _metadata.file_name FROM t WHERE k = 'b'")]
    kept = file.read_bytes()
    (file.parent / f".{file.name}.crc").unlink()
    if setting == "ignoreMissingFiles":
        file.unlink()
    else:
        file.write_bytes(b"x" * len(kept))
    with settings({f"spark.sql.files.{setting}": "true"}), fails("HEADWATER_INDEX_NOT_BUILT"):
        spark.sql("CREATE INDEX by_k ON t (k)")
    file.write_bytes(kept)
    assert rows("SELECT v FROM t WHERE k = 'b'") == [(2,)]


def test_deleted_rows_with_nulls_of_a_column_that_allows_none_now(spark, rows, database):
    spark.sql(f"CREATE TABLE t (k STRING, n INT, v INT) USING delta {VECTORS}")
    spark.sql("INSERT INTO t SELECT nullif('k' || id, 'k3'), nullif(int(id), 4), 0 FROM range(0, 10, 1, 1)")
    spark.sql("DELETE FROM t WHERE k IS NULL OR n IS NULL")
    for column in ("k", "n"):
        spark.sql(f"ALTER TABLE t ALTER COLUMN {column} SET NOT NULL")
        # Rows that have no key have no entry.
        assert rows(f"CREATE INDEX by_{column} ON t ({column})")[0][:3] == (f"by_{column}", 1, 9)
    assert rows("SELECT n FROM t WHERE k = 'k5'") == [(5,)]
    spark.sql("RESTORE TABLE t TO VERSION AS OF 1")
    spark.sql("CREATE INDEX by_k ON t (k)")
    assert rows("SELECT k FROM t WHERE k = 'k4' AND n IS NULL") == [("k4",)]


def test_the_name_of_an_index_never_leads_out_of_its_folder(spark, rows, database):
    """Another engine writes any property; SHOW INDEXES names DROP INDEX as the way out."""
    spark.sql("CREATE TABLE t (k STRING, v INT) USING delta")
    spark.sql("INSERT INTO t VALUES ('a', 1)")
    spark.sql("CREATE INDEX by_k ON t (k)")
    path = folder_of(spark, "t")
    made = (json.loads(line) for line in (path / f"_delta_log/{2:020d}.json").read_text().splitlines())
    (action,) = [each for each in made if "metaData" in each]
    action["metaData"]["configuration"]["headwater.index.../...columns"] = "k"
    write_commit(path, 3, action)
    assert [row[0] for row in rows("SHOW INDEXES ON t")] == ["../..", "by_k"]
    spark.sql("DROP INDEX `../..` ON t")
    assert [row[0] for row in rows("SHOW INDEXES ON t")] == ["by_k"]
    assert rows("SELECT * FROM t") == [("a", 1)]


def test_an_index_that_cannot_be_written_stops_no_other(spark, rows, database):
    given = "'headwater.index.a.columns' = 'k', 'headwater.index.b.columns' = 'v'"
    spark.sql(f"CREATE TABLE t (k STRING, v INT) USING delta TBLPROPERTIES ({given})")
    folder = folder_of(spark, "t") / "_headwater/index"
    folder.mkdir(parents=True)
    (folder / "a").write_text("no folder")
    spark.sql("INSERT INTO t SELECT string(id), int(id) FROM range(0, 32, 1, 32)")
    begun = time.monotonic()
    while rows("SHOW INDEXES ON t")[1][2] == 0:
        assert time.monotonic() < begun + 30
        time.sleep(0.05)
    assert [row[:3:2] for row in rows("SHOW INDEXES ON t")] == [("a", 0), ("b", 32)]


def test_enough_small_files_are_built_in_the_background(spark, rows, database):
    given = "'headwater.index.by_k.columns' = 'k'"
    spark.sql(f"CREATE TABLE t (k INT) USING delta TBLPROPERTIES ({given})")
    for number in range(32):
        assert rows("SHOW INDEXES ON t")[0][2:4] == (0, number)
        spark.sql(f"INSERT INTO t VALUES ({number})")
    begun = time.monotonic()
    while rows("SHOW INDEXES ON t")[0][2] < 32:
        assert time.monotonic() < begun + 30
        time.sleep(0.05)
    assert rows("SELECT k FROM t WHERE k IN (3, 31, 32) ORDER BY k") == [(3,), (31,)]


def test_columns_by_ids_under_other_names_in_their_file(spark, rows, database, settings):
    """As in a table that was converted from Iceberg: late columns are those of their ids."""
    given = "'delta.enableDeletionVectors' = 'true', 'delta.columnMapping.mode' = 'id'"
    spark.sql(f"CREATE TABLE t (id BIGINT, v INT, w STRING) USING delta TBLPROPERTIES ({given})")
    path = folder_of(spark, "t")
    made = (json.loads(line) for line in (path / f"_delta_log/{0:020d}.json").read_text().splitlines())
    (schema,) = [json.loads(each["metaData"]["schemaString"]) for each in made if "metaData" in each]
    ids = {field["name"]: str(field["metadata"]["delta.columnMapping.id"]) for field in schema["fields"]}
    kinds = {"id": pa.int64(), "v": pa.int32(), "w": pa.string()}
    fields = [pa.field(f"{name} then", kind, metadata={"PARQUET:field_id": ids[name]}) for name, kind in kinds.items()]
    columns = [pa.array(range(5000)), pa.array([1] * 5000, pa.int32()), pa.array([f"w{n}" for n in range(5000)])]
    pq.write_table(pa.table(columns, schema=pa.schema(fields)), path / "a.parquet")
    file = {"path": "a.parquet", "size": (path / "a.parquet").stat().st_size, "modificationTime": 1}
    more = {"partitionValues": {}, "dataChange": True, "stats": json.dumps({"numRecords": 5000})}
    write_commit(path, 1, {"add": file | more})
    with settings({"spark.headwater.dml.lateFileBytes": "0"}):
        assert rows("UPDATE t SET v = 2 WHERE id = 7") == [(1,)]
    spark.sql("CREATE INDEX by_id ON t (id)")
    assert rows("UPDATE t SET v = 3 WHERE id IN (9, 4009)") == [(2,)]
    assert rows("SELECT * FROM t WHERE v > 1", ordered=False) == [(4009, 3, "w4009"), (7, 2, "w7"), (9, 3, "w9")]


def test_the_files_of_an_index_go_with_it_whatever_ends_it(spark, rows, database):
    ends = {
        "a": "ALTER TABLE t UNSET TBLPROPERTIES ('headwater.index.a.columns')",
        "b": "ALTER TABLE t DROP COLUMN v",
        "c": "RESTORE TABLE t TO VERSION AS OF 1",
        "d": "CREATE OR REPLACE TABLE t (k STRING, v INT) USING delta",
    }
    spark.sql("CREATE TABLE t (k STRING, v INT) USING delta TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    spark.sql("INSERT INTO t VALUES ('a', 1)")
    folder = folder_of(spark, "t") / "_headwater/index"
    for name, text in ends.items():
        spark.sql(f"CREATE INDEX {name} ON t ({'v' if name == 'b' else 'k'})")
        assert len(list((folder / name).glob("*.json"))) == 1
        spark.sql(text)
        assert rows("SHOW INDEXES ON t") == []
        assert not (folder / name).exists()


@pytest.mark.soak  # a row has to come within a fraction of a second: of 30 rounds, about 8 went wrong
def test_a_source_that_grows_meanwhile_is_read_at_one_version(spark, rows, database):
    """A row that comes between the job that reads the keys and the join must not count as one without a match."""
    spark.sql("CREATE TABLE t (k INT, v INT) USING delta")
    for number in range(20):
        spark.sql(f"INSERT INTO t SELECT id, 0 FROM range({number * 50}, {number * 50 + 50}, 1, 1)")
    spark.sql("CREATE INDEX by_k ON t (k)")
    merge = "MERGE INTO t USING s ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"
    for number in range(30):
        spark.sql("CREATE OR REPLACE TABLE s (k INT, v INT) USING delta")
        spark.sql(f"INSERT INTO s SELECT {number % 20 * 50 + 1}, 1")

        def grow(number: int = number) -> None:
            time.sleep(0.04 * (number % 20))
            spark.newSession().sql(f"INSERT INTO {database}.s VALUES ({(number + 7) % 20 * 50 + 3}, 2)")

        growing = threading.Thread(target=grow)
        growing.start()
        counted = rows(merge)
        growing.join()
        assert counted in ([(1, 1, 0, 0)], [(2, 2, 0, 0)])
    assert rows("SELECT count(*), count(DISTINCT k) FROM t") == [(1000, 1000)]


_NO_TEXT = "cast(X'616280' AS STRING)"


@pytest.mark.parametrize("clause", ["MERGE", "DELETE", "idCols"])
def test_keys_that_are_no_text_match(spark, rows, database, settings, tmp_path, clause):
    """The byte 80 comes before all other characters that are no ASCII, what stands for it in a text after most."""
    found = []
    spark.sql(
        f"SELECT {_NO_TEXT} AS k, 1 AS v UNION ALL SELECT 'ab\u00eb', 1 "
        "UNION ALL SELECT concat('b', id), 1 FROM range(1200)"
    ).coalesce(1).write.parquet(str(tmp_path / "s"))
    with settings({"spark.headwater.keyIndex": "always", "spark.headwater.merge.smallTargetBytes": "1"}):
        for name in ("indexed", "plain"):
            spark.sql(f"CREATE TABLE {name} (k STRING, v INT) USING delta")
            files = f"SELECT {_NO_TEXT} AS k, 0 AS v UNION ALL SELECT 'ab\u00ea', 0"
            spark.sql(f"INSERT INTO {name} SELECT /*+ COALESCE(1) */ * FROM ({files})")
            spark.sql(f"INSERT INTO {name} VALUES ('zz', 0)")
            if name == "indexed":
                spark.sql("CREATE INDEX by_k ON indexed (k)")
            source = f"parquet.`{tmp_path}/s`"
            merge = f"MERGE INTO {name} t USING {source} s ON t.k = s.k WHEN MATCHED THEN"
            spark.sql(
                {
                    "MERGE": f"{merge} UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *",
                    "DELETE": f"{merge} DELETE",
                    "idCols": f"INSERT INTO {name} WITH (idCols = 'k') SELECT * FROM {source}",
                }[clause]
            )
            found.append(rows(f"SELECT hex(k), v FROM {name}", ordered=False))
    assert found[0] == found[1]


def test_long_keys_do_not_cross_the_bridge(spark, rows, database, settings, tmp_path):
    """Of 100,000 keys of 3,000 characters, only hashes and bounds do."""
    spark.range(100_000).write.parquet(str(tmp_path / "s"))
    key = "concat(repeat('x', 3000), id)"
    spark.sql("CREATE TABLE t (k STRING, v INT) USING delta")
    spark.sql(f"INSERT INTO t SELECT {key}, 0 FROM range(0, 100, 1, 2)")
    spark.sql("CREATE INDEX by_k ON t (k)")
    with settings({"spark.headwater.keyIndex": "always", "spark.headwater.merge.smallTargetBytes": "1"}):
        source = f"SELECT {key} AS k FROM parquet.`{tmp_path}/s`"
        merge = f"MERGE INTO t USING ({source}) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = 1"
        assert rows(merge) == [(100, 100, 0, 0)]
