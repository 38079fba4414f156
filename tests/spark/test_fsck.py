"""FSCK REPAIR TABLE through Spark: its forms and answer, random losses among statements, streams, changes, clones."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException

from headwater.log.lost_files import named_files
from headwater.log.snapshot import load_snapshot
from headwater.stores import LocalStore

VECTORS = "spark.headwater.fsck.missingVectors"
COLUMNS = ["dataFilePath", "dataFileMissing", "deletionVectorPath", "deletionVectorFileMissing"]


@pytest.fixture
def path(spark, tmp_path, database):
    """A table ``t`` of three files, in two partitions with names that the log encodes."""
    path = tmp_path / "a t"
    spark.sql(
        f"CREATE TABLE t (id INT, p STRING) USING delta PARTITIONED BY (p) LOCATION '{path}' TBLPROPERTIES "
        "('delta.enableDeletionVectors' = 'true', 'delta.enableChangeDataFeed' = 'true')"
    )
    spark.sql("INSERT INTO t SELECT id, 'a b:' || id % 2 FROM range(0, 6, 1, 1)")
    spark.sql("INSERT INTO t VALUES (6, 'a b:0')")
    return path


def file_of(spark, condition: str) -> Path:
    """The data file of a row."""
    (row,) = spark.sql(f"SELECT DISTINCT _metadata.file_path AS f FROM t WHERE {condition}").collect()
    return Path(load_path(row.f))


def load_path(uri: str) -> str:
    from headwater.stores import store_for

    return store_for(uri)[1]


def test_each_form_finds_and_removes_what_is_missing(spark, rows, path, fails):
    lost = file_of(spark, "id = 1")
    lost.unlink()
    with fails("DELTA_FILE_NOT_FOUND_DETAILED", "FSCK REPAIR TABLE"):
        spark.sql("SELECT * FROM t").collect()
    expected = [(str(lost.relative_to(path)), True, None, False)]
    for text in ("t", f"delta.`{path}`", f"'{path}'", "IDENTIFIER('t')"):
        shown = spark.sql(f"FSCK REPAIR TABLE {text} DRY RUN")
        assert shown.columns == COLUMNS
        assert [tuple(row) for row in shown.collect()] == expected
    assert "FSCK REPAIR TABLE" in str(rows("DESCRIBE HEALTH t"))
    with fails("PARSE_SYNTAX_ERROR", "VERIFY ALL FILES"):
        spark.sql("FSCK REPAIR TABLE t VERIFY ALL FILES")
    assert spark.sql("DESCRIBE HISTORY t").count() == 3
    assert rows("fsck repair table t") == expected
    assert rows("SELECT id FROM t ORDER BY id") == [(0,), (2,), (4,), (6,)]
    last = spark.sql("DESCRIBE HISTORY t LIMIT 1").first()
    assert (last.version, last.operation, last.operationParameters) == (3, "FSCK", {"numRemovedFiles": "1"})
    assert last.operationMetrics["numRemovedFiles"] == last.operationMetrics["numMissingFiles"] == "1"
    assert rows("FSCK REPAIR TABLE t") == []
    assert spark.sql("DESCRIBE HISTORY t").count() == 4
    spark.sql("BEGIN TRANSACTION")
    try:
        with fails("HEADWATER_NOT_IN_TRANSACTION"):
            spark.sql("FSCK REPAIR TABLE t")
    finally:
        spark.sql("ROLLBACK")


def test_streams_stop_at_it_and_changes_name_the_file(spark, rows, path, fails, tmp_path):
    file_of(spark, "id = 1").unlink()
    rows("FSCK REPAIR TABLE t")
    with fails("DELTA_CHANGE_DATA_FILE_NOT_FOUND"):
        rows("SELECT * FROM table_changes('t', 3)")
    spark.sql("INSERT INTO t VALUES (7, 'x')")
    assert rows("SELECT id, _change_type FROM table_changes('t', 4)") == [(7, "insert")]

    def follow(**options):
        stream = spark.readStream.options(startingVersion="3", **options).table("t").writeStream
        stream = stream.trigger(availableNow=True).option("checkpointLocation", str(tmp_path / f"c{len(options)}"))
        stream.toTable(f"out{len(options)}").awaitTermination()

    with pytest.raises(StreamingQueryException, match="DELTA_SOURCE_IGNORE_DELETE"):
        follow()
    follow(ignoreDeletes="true")
    assert rows("SELECT id FROM out1") == [(7,)]


def test_a_clone_whose_source_was_cleaned_or_removed(spark, rows, path, tmp_path, database, fails, settings):
    clone = tmp_path / "clone"
    spark.sql(f"CREATE TABLE c SHALLOW CLONE t LOCATION '{clone}'")
    spark.sql("INSERT INTO c VALUES (8, 'x')")
    lost = file_of(spark, "id = 6")
    lost.unlink()
    assert rows("FSCK REPAIR TABLE c") == [(str(lost), True, None, False)]
    assert len(rows("SELECT * FROM c")) == 7
    path.rename(tmp_path / "away")
    with fails("HEADWATER_FSCK_NOT_CERTAIN", str(path)):
        spark.sql("FSCK REPAIR TABLE c")
    with settings({"spark.headwater.fsck.missingFolders": "remove"}):
        assert len(rows("FSCK REPAIR TABLE c")) == 2
    assert rows("SELECT id FROM c") == [(8,)]
    (tmp_path / "away").rename(path)


@pytest.mark.random
def test_random_losses_among_statements_and_a_model(spark, rows, tmp_path, database, settings):
    """After each repair, the table is readable and has the rows of the files that are there."""
    drawn = random.Random(11)
    path = tmp_path / "t"
    spark.sql(
        f"CREATE TABLE t (id INT, v INT, p INT) USING delta PARTITIONED BY (p) LOCATION '{path}' TBLPROPERTIES "
        "('delta.enableDeletionVectors' = 'true', 'delta.enableRowTracking' = 'true')"
    )
    next_id = 0
    for _ in range(int(os.environ.get("HEADWATER_TEST_EXAMPLES", "6"))):
        for _ in range(2):
            number, kind = drawn.randrange(40), drawn.choice(("insert", "insert", "delete", "update", "optimize"))
            if kind == "insert":
                spark.sql(f"INSERT INTO t SELECT id, 0, id % 2 FROM range({next_id}, {next_id + 8}, 1, 2)")
                next_id += 8
            elif kind == "optimize":
                spark.sql("OPTIMIZE t")
            else:
                spark.sql(
                    {"delete": "DELETE FROM t", "update": "UPDATE t SET v = v + 1"}[kind] + f" WHERE id % 40 = {number}"
                )
        choice = drawn.choice(("removeFile", "removeVector"))
        by_file: dict[str, list[tuple]] = {}
        for *row, uri in rows("SELECT id, v, p, _metadata.file_path FROM t"):
            by_file.setdefault(load_path(uri), []).append(tuple(row))
        snapshot = load_snapshot(str(path), LocalStore())
        named = named_files(snapshot)
        lost = {each for each in named.paths() if drawn.random() < (0.4 if each.endswith(".bin") else 0.1)}
        for each in lost:
            os.unlink(each)
        expected = []
        for data, vector in zip(named.data, named.vectors, strict=True):
            if data in lost or (vector in lost and choice == "removeFile"):
                continue
            kept = by_file.get(data, [])
            if vector in lost:  # its deleted rows come back
                kept = [tuple(row) for row in spark.read.parquet(f"file:{data}").selectExpr("id", "v").collect()]
                kept = [(*row, row[0] % 2) for row in kept]
            expected += kept
        with settings({VECTORS: choice}):
            answer = rows("FSCK REPAIR TABLE t")
        assert len(answer) == sum(d in lost or v in lost for d, v in zip(named.data, named.vectors, strict=True))
        assert sorted(rows("SELECT id, v, p FROM t")) == sorted(expected)
        assert rows("FSCK REPAIR TABLE t DRY RUN") == []
    shutil.rmtree(path)
