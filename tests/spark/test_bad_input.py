"""Bad input: each is refused with a condition that names what is wrong and says what to do, and changes nothing."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest


@pytest.fixture
def table(spark, tmp_path):
    """A table of three versions, one row each, by path."""
    path = tmp_path / "t"
    for _ in range(3):
        spark.range(1).coalesce(1).write.format("delta").mode("append").save(str(path))
    return path


@pytest.fixture
def copied(tmp_path):
    """A copy of a table at a path nobody has read: what was read before is remembered, and damage need not show."""

    def copy(path, name="copied"):
        return Path(shutil.copytree(path, tmp_path / name, ignore=shutil.ignore_patterns("*.tmp")))

    return copy


@pytest.fixture
def checkpointed(spark, tmp_path):
    """A table with a checkpoint of version 2 and one commit after it; checkpoints are written behind the commits."""
    path = tmp_path / "t"
    spark.sql(f"CREATE TABLE delta.`{path}` (id INT) USING delta TBLPROPERTIES ('delta.checkpointInterval' = '2')")
    for i in range(3):
        spark.sql(f"INSERT INTO delta.`{path}` VALUES ({i})")
    until = time.monotonic() + 30
    while not (path / "_delta_log" / "_last_checkpoint").is_file():
        assert time.monotonic() < until, "no checkpoint was written"
        time.sleep(0.05)
    return path


def commit_file(path, version):
    return Path(path) / "_delta_log" / f"{version:020d}.json"


def load(spark, path, **options):
    return spark.read.format("delta").options(**options).load(str(path))


# --- paths and logs ---------------------------------------------------------------------------------------------------


def test_missing_path(spark, fails, tmp_path):
    for read in (
        lambda: load(spark, tmp_path / "absent"),
        lambda: spark.sql(f"SELECT * FROM delta.`{tmp_path}/absent`"),
        lambda: spark.sql(f"INSERT INTO delta.`{tmp_path}/absent` VALUES (1)"),
        lambda: spark.range(1).writeTo(f"delta.`{tmp_path}/absent`").append(),
    ):
        with fails("PATH_NOT_FOUND", f"{tmp_path}/absent", state="42K03"):
            read()
    # Statements about the table, not about its rows, each have their own name for it.
    for statement, condition in (
        ("ALTER TABLE delta.`{}` ADD COLUMNS (a INT)", "DELTA_MISSING_DELTA_TABLE"),
        ("TRUNCATE TABLE delta.`{}`", "DELTA_MISSING_DELTA_TABLE"),
        ("DESCRIBE TABLE delta.`{}`", "DELTA_MISSING_DELTA_TABLE"),
        ("VACUUM delta.`{}`", "DELTA_MISSING_DELTA_TABLE"),
        ("VACUUM '{}'", "DELTA_TABLE_ONLY_OPERATION"),
        ("DESCRIBE HISTORY delta.`{}`", "DELTA_TABLE_ONLY_OPERATION"),
        ("DESCRIBE DETAIL '{}'", "DELTA_FILE_NOT_FOUND"),
        ("REORG TABLE delta.`{}` APPLY (PURGE)", "DELTA_ONLY_OPERATION"),
    ):
        with fails(condition, f"{tmp_path}/absent"):
            spark.sql(statement.format(f"{tmp_path}/absent"))
    assert not (tmp_path / "absent").exists()
    with fails("DELTA_PATH_NOT_SPECIFIED"):
        spark.read.format("delta").load()
    with fails("DELTA_PATH_NOT_SPECIFIED"):
        spark.range(1).write.format("delta").save()


def test_not_a_table(spark, fails, tmp_path):
    spark.range(1).write.parquet(str(tmp_path / "p"))
    (tmp_path / "file.txt").write_text("no table")
    for name in ("p", "file.txt"):
        with fails("DELTA_TABLE_NOT_FOUND", name):
            load(spark, tmp_path / name)
    with fails("DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION", "p"):
        spark.range(1).write.format("delta").mode("append").save(str(tmp_path / "p"))


def test_empty_log(spark, rows, fails, tmp_path):
    (tmp_path / "t" / "_delta_log").mkdir(parents=True)
    with fails("DELTA_EMPTY_DIRECTORY", f"{tmp_path}/t"):
        load(spark, tmp_path / "t")
    (tmp_path / "t" / "_delta_log" / "readme.txt").write_text("not a commit")
    with fails("DELTA_EMPTY_DIRECTORY", f"{tmp_path}/t"):
        load(spark, tmp_path / "t")
    # An empty log is a place where a table can be made.
    spark.range(2).write.format("delta").save(str(tmp_path / "t"))
    assert load(spark, tmp_path / "t").count() == 2


def test_missing_commit_in_the_middle(spark, fails, table, copied):
    table = copied(table)
    commit_file(table, 1).unlink()
    with fails("DELTA_VERSIONS_NOT_CONTIGUOUS", "version 1", str(table)):
        load(spark, table)
    with fails("DELTA_VERSIONS_NOT_CONTIGUOUS"):
        spark.range(1).write.format("delta").mode("append").save(str(table))
    assert load(spark, table, versionAsOf=0).count() == 1
    assert not commit_file(table, 3).exists()


def test_missing_first_commit(spark, fails, table, copied):
    table = copied(table)
    commit_file(table, 0).unlink()
    with fails("DELTA_TRUNCATED_TRANSACTION_LOG", "0", str(table)):
        load(spark, table)


@pytest.mark.parametrize(
    "content",
    [
        '{"add": {"path": "x", "size": 1, "partitionVal',
        pytest.param("not json at all", marks=pytest.mark.soak),
        '["an", "array"]',
        '{"add": 3}\n',
        '{"metaData": {"schemaString": ""}}\n',
        pytest.param('{"protocol": {"minReaderVersion": "x", "minWriterVersion": 2}}\n', marks=pytest.mark.soak),
        pytest.param('{"add": {"path": 7}}\n', marks=pytest.mark.soak),
        "\x00\x01\x02",
    ],
)
def test_truncated_and_invalid_json(spark, fails, table, copied, content):
    table = copied(table)
    with commit_file(table, 2).open("a") as file:
        file.write(content)
    with fails("DELTA_INVALID_COMMIT", f"{2:020d}.json"):
        load(spark, table).collect()
    assert load(spark, table, versionAsOf=1).count() == 2


def test_an_empty_commit_file(spark, fails, table, copied):
    """What a machine that stopped in the middle of a write may leave."""
    table = copied(table)
    commit_file(table, 2).write_text("")
    with fails("DELTA_INVALID_COMMIT", f"{2:020d}.json", "empty"):
        load(spark, table)


def test_no_metadata_and_no_protocol(spark, fails, tmp_path):
    for name, action, missing in (
        ("a", {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, "metaData"),
        ("b", {"commitInfo": {"timestamp": 0}}, "protocol"),
    ):
        commit = commit_file(tmp_path / name, 0)
        commit.parent.mkdir(parents=True)
        commit.write_text(json.dumps(action) + "\n")
        with fails("DELTA_STATE_RECOVER_ERROR", missing):
            load(spark, tmp_path / name)


def test_a_checkpoint_part_is_missing(rows, fails, checkpointed, copied):
    path = copied(checkpointed)
    (whole,) = (path / "_delta_log").glob("*2.checkpoint*.parquet")
    whole.rename(whole.with_name(f"{2:020d}.checkpoint.{1:010d}.{2:010d}.parquet"))
    (path / "_delta_log" / "_last_checkpoint").write_text(json.dumps({"version": 2, "size": 5, "parts": 2}))
    # The commits are all there: nothing is lost.
    assert rows(f"SELECT count(*) FROM delta.`{path}`") == [(3,)]
    path = copied(path, "without the beginning")
    commit_file(path, 0).unlink()
    with fails("DELTA_MISSING_PART_FILES", "version 2", "part 2 of 2"):
        rows(f"SELECT count(*) FROM delta.`{path}`")


def test_a_damaged_checkpoint(rows, fails, checkpointed, copied):
    path = copied(checkpointed)
    (checkpoint,) = (path / "_delta_log").glob("*2.checkpoint*.parquet")
    checkpoint.write_bytes(checkpoint.read_bytes()[:-30])
    # The commits are all there: nothing is lost.
    assert rows(f"SELECT count(*), sum(id) FROM delta.`{path}`") == [(3, 3)]
    path = copied(path, "without the beginning")
    commit_file(path, 0).unlink()
    with fails("DELTA_CHECKPOINT_UNREADABLE", "version 2", str(path)):
        rows(f"SELECT count(*) FROM delta.`{path}`")


def test_unknown_features(spark, rows, fails, table):
    def with_protocol(version, **protocol):
        commit_file(table, version).write_text(json.dumps({"protocol": protocol}) + "\n")

    with_protocol(3, minReaderVersion=1, minWriterVersion=7, writerFeatures=["appendOnly", "dreams"])
    assert load(spark, table).count() == 3
    for write in (
        lambda: spark.range(1).write.format("delta").mode("append").save(str(table)),
        lambda: spark.sql(f"INSERT INTO delta.`{table}` VALUES (1)"),
        lambda: spark.sql(f"ALTER TABLE delta.`{table}` SET TBLPROPERTIES ('k' = 'v')"),
        lambda: spark.sql(f"TRUNCATE TABLE delta.`{table}`"),
        lambda: spark.sql(f"CREATE OR REPLACE TABLE delta.`{table}` (a INT) USING delta"),
    ):
        with fails("DELTA_UNSUPPORTED_FEATURES_FOR_WRITE", "dreams"):
            write()
    features = ["appendOnly", "dreams", "deletionVectors"]
    with_protocol(
        4, minReaderVersion=3, minWriterVersion=7, readerFeatures=["dreams", "deletionVectors"], writerFeatures=features
    )
    with fails("DELTA_UNSUPPORTED_FEATURES_FOR_READ", "dreams"):
        load(spark, table)
    assert load(spark, table, versionAsOf=3).count() == 3
    with_protocol(5, minReaderVersion=9, minWriterVersion=9)
    with fails("DELTA_INVALID_PROTOCOL_VERSION", "9"):
        load(spark, table)
    assert not commit_file(table, 6).exists()


def test_a_data_file_is_gone(spark, rows, fails, table, settings):
    victim = next(iter(table.glob("*.parquet")))
    victim.unlink()
    for query in ("SELECT * FROM", "SELECT sum(id) FROM", "SELECT count(*) AS n FROM (SELECT DISTINCT id FROM"):
        with fails("DELTA_FILE_NOT_FOUND_DETAILED", victim.name, "version 2", str(table)):
            rows(f"{query} delta.`{table}`{')' * query.count('(SELECT')}")
    with settings({"spark.sql.files.ignoreMissingFiles": "true"}):
        assert len(rows(f"SELECT * FROM delta.`{table}`")) == 2


def test_a_data_file_is_damaged(spark, rows, fails, table):
    victim = next(iter(table.glob("*.parquet")))
    content = victim.read_bytes()
    victim.write_bytes(content[: len(content) // 2])
    (table / f".{victim.name}.crc").unlink(missing_ok=True)
    # Spark's own error, as for any Parquet file.
    with pytest.raises(Exception, match=rf"FAILED_READ_FILE.*{victim.name}"):
        rows(f"SELECT * FROM delta.`{table}`")


# --- versions and times -----------------------------------------------------------------------------------------------


def test_versions_out_of_range(spark, fails, table):
    with fails("DELTA_VERSION_NOT_FOUND", "7", "0", "2"):
        load(spark, table, versionAsOf=7)
    with fails("DELTA_VERSION_NOT_FOUND", "9", "0", "2"):
        spark.sql(f"SELECT * FROM delta.`{table}` VERSION AS OF 9")
    with fails("DELTA_VERSION_NOT_FOUND"):
        load(spark, f"{table}@v5")
    with fails("DELTA_VERSION_NOT_FOUND", "-1", "from 0 to 2"):
        load(spark, table, versionAsOf="-1")
    for version in ("many", "1.5", ""):
        with fails("DELTA_TIME_TRAVEL_INVALID_BEGIN_VALUE"):
            load(spark, table, versionAsOf=version)
    with fails("DELTA_TIME_TRAVEL_INVALID_BEGIN_VALUE", "many"):
        spark.sql(f"SELECT * FROM delta.`{table}` VERSION AS OF 'many'")


def test_times_out_of_range(spark, fails, table):
    with fails("DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION", "2001-01-01", "version 0"):
        load(spark, table, timestampAsOf="2001-01-01")
    with fails("DELTA_TIMESTAMP_GREATER_THAN_COMMIT", "2999-01-01", "version 2"):
        spark.sql(f"SELECT * FROM delta.`{table}` TIMESTAMP AS OF '2999-01-01'")
    with fails("DELTA_TIMESTAMP_INVALID", "soon"):
        load(spark, table, timestampAsOf="soon")
    with fails("INVALID_TIME_TRAVEL_TIMESTAMP_EXPR.INPUT", state="42K0E"):
        spark.sql(f"SELECT * FROM delta.`{table}` TIMESTAMP AS OF 'soon'")


def test_a_version_that_was_cleaned_up(spark, fails, checkpointed, copied):
    path = copied(checkpointed)
    for version in (0, 1):
        commit_file(path, version).unlink()
    assert load(spark, path).count() == 3
    with fails("DELTA_VERSION_NOT_FOUND", "from 2 to 3"):
        load(spark, path, versionAsOf=0)
    history = spark.sql(f"DESCRIBE HISTORY delta.`{path}`").collect()
    assert [entry["version"] for entry in history] == [3, 2]


# --- names and types --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["a b", "a=b", "a\nb", *(pytest.param(f"a{c}b", marks=pytest.mark.soak) for c in (*",;{\t", "()"))]
)
def test_names_that_need_column_mapping(spark, rows, database, fails, name):
    with fails("DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES", "delta.columnMapping.mode"):
        spark.sql(f"CREATE TABLE t (`{name}` INT) USING delta")
    with fails("DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES"):
        spark.sql(f"CREATE TABLE t USING delta AS SELECT named_struct('{name}', 1) AS s")
    assert spark.sql("SHOW TABLES").collect() == []
    spark.sql(
        "CREATE TABLE t USING delta TBLPROPERTIES ('delta.columnMapping.mode' = 'name') "
        f"AS SELECT 1 AS `{name}`, 2 AS b"
    )
    assert rows(f"SELECT `{name}` FROM t WHERE `{name}` = 1") == [(1,)]


def test_names_with_dots_and_other_characters(spark, rows, database):
    spark.sql(
        "CREATE TABLE t (`a.b` INT, `a` STRUCT<b: INT, `c.d`: INT>, `é-$#@!` INT, `q``r` INT, `1` INT) USING delta"
    )
    spark.sql("INSERT INTO t VALUES (1, named_struct('b', 2, 'c.d', 3), 4, 5, 6)")
    assert rows("SELECT `a.b`, a.b, a.`c.d`, `é-$#@!`, `q``r`, `1` FROM t") == [(1, 2, 3, 4, 5, 6)]
    assert rows("SELECT count(*) FROM t WHERE `a.b` = 1 AND a.b = 2 AND a.`c.d` = 3 AND `é-$#@!` > 3") == [(1,)]
    assert rows("SELECT count(*) FROM t WHERE `a.b` = 2 OR a.b = 1 OR a.`c.d` = 9 OR `q``r` < 5") == [(0,)]
    assert rows("SELECT min(`a.b`), max(`é-$#@!`), count(`q``r`) FROM t") == [(1, 4, 1)]


@pytest.mark.parametrize(
    "name", ["a.b", "k=v", "q`r", *(pytest.param(name, marks=pytest.mark.soak) for name in ("a b", "é", "per%cent"))]
)
def test_partition_columns_with_odd_names(spark, rows, database, name):
    quoted = "`" + name.replace("`", "``") + "`"
    spark.sql(
        f"CREATE TABLE t (id INT, {quoted} STRING) USING delta PARTITIONED BY ({quoted}) "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    )
    spark.sql("INSERT INTO t VALUES (1, 'x'), (2, 'y z')")
    assert rows(f"SELECT id FROM t WHERE {quoted} = 'y z'") == [(2,)]
    assert rows(f"SELECT {quoted}, count(*) FROM t GROUP BY {quoted}", ordered=False) == [("x", 1), ("y z", 1)]


def test_names_that_differ_by_case_only(spark, database, fails):
    with fails("COLUMN_ALREADY_EXISTS", state="42711"):
        spark.sql("CREATE TABLE t (a INT, A INT) USING delta")
    with fails("COLUMN_ALREADY_EXISTS", state="42711"):
        spark.sql("CREATE TABLE t USING delta AS SELECT 1 AS a, 2 AS A")
    with fails("COLUMN_ALREADY_EXISTS", state="42711"):
        spark.sql("CREATE TABLE t (s STRUCT<x: INT, X: INT>) USING delta")
    with fails("COLUMN_ALREADY_EXISTS", state="42711"):
        spark.sql("SELECT 1 AS a, 2 AS A").write.format("delta").saveAsTable("t")


def test_names_resolve_ignoring_case_and_keep_theirs(spark, rows, database):
    spark.sql("CREATE TABLE t (Id INT, Part STRING) USING delta PARTITIONED BY (PART)")
    spark.sql("INSERT INTO t (ID, pART) VALUES (1, 'x')")
    assert spark.table("t").columns == ["Id", "Part"]
    assert rows("SELECT iD FROM T WHERE PART = 'x' AND ID = 1") == [(1,)]
    assert spark.sql("DESCRIBE DETAIL t").first()["partitionColumns"] == ["Part"]


def test_reserved_names(spark, rows, database, fails):
    for name in ("_change_type", "_commit_version", "_commit_timestamp"):
        with fails("DELTA_TABLE_ALREADY_CONTAINS_CDC_COLUMNS", name):
            spark.sql(f"CREATE TABLE t ({name} INT) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    spark.sql("CREATE TABLE t (_change_type INT, id INT) USING delta")
    with fails("DELTA_TABLE_ALREADY_CONTAINS_CDC_COLUMNS", "_change_type"):
        spark.sql("ALTER TABLE t SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    spark.sql("CREATE TABLE m (_metadata STRING, value INT) USING delta")
    spark.sql("INSERT INTO m VALUES ('mine', 1)")
    assert rows("SELECT _metadata FROM m") == [("mine",)]


def test_types_that_cannot_be_stored(spark, rows, database, fails):
    with fails("DELTA_COMPLEX_TYPE_COLUMN_CONTAINS_NULL_TYPE", "i"):
        spark.sql("CREATE TABLE t USING delta AS SELECT array() AS i")
    with fails("DELTA_NESTED_NOT_NULL_CONSTRAINT", "l"):
        spark.sql("CREATE TABLE t (l ARRAY<STRUCT<x: INT NOT NULL>>) USING delta")
    with fails("INVALID_PARTITION_COLUMN_DATA_TYPE", "STRUCT"):
        spark.sql("CREATE TABLE t (a INT, s STRUCT<x: INT>) USING delta PARTITIONED BY (s)")
    with fails("DELTA_CANNOT_WRITE_EMPTY_SCHEMA.TABLE_ALL_VOID_COLUMNS"):
        spark.sql("CREATE TABLE t USING delta AS SELECT NULL AS n")
    assert spark.sql("SHOW TABLES").collect() == []


def test_void_columns(spark, rows, database):
    spark.sql("CREATE TABLE t USING delta AS SELECT 1 AS id, NULL AS n, named_struct('x', NULL, 'y', 2) AS s")
    assert spark.table("t").schema.simpleString() == "struct<id:int,n:void,s:struct<x:void,y:int>>"
    assert rows("SELECT id, n, s.y FROM t") == [(1, None, 2)]
    assert rows("SELECT count(*), count(n) FROM t WHERE n IS NULL") == [(1, 0)]
    spark.sql("INSERT INTO t VALUES (2, NULL, NULL)")
    files = [pq.read_schema(path.removeprefix("file:")) for path in spark.table("t").inputFiles()]
    assert [(file.names, [field.name for field in file.field("s").type]) for file in files] == [
        (["id", "s"], ["y"])
    ] * 2
    spark.sql("ALTER TABLE t ALTER COLUMN s.x TYPE STRING")
    spark.sql("INSERT INTO t VALUES (3, NULL, named_struct('x', 'z', 'y', 3))")
    assert rows("SELECT id, s FROM t ORDER BY id") == [(1, (None, 2)), (2, None), (3, ("z", 3))]


def test_files_that_hold_a_void_field_are_rewritten(spark, rows, tmp_path):
    """Spark cannot read the field by the type it has taken since; an UPDATE that sets it does not read it."""
    path, table = tmp_path / "t", f"delta.`{tmp_path}/t`"
    vectors = "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    spark.sql(f"CREATE TABLE {table} (id INT, s STRUCT<x: STRING, y: INT>) USING delta {vectors}")
    spark.sql(f"INSERT INTO {table} VALUES (9, named_struct('x', 'z', 'y', 3))")
    old = spark.sql("SELECT id, named_struct('x', NULL, 'y', 2) AS s FROM VALUES (1), (2) AS v (id)")
    old.coalesce(1).write.parquet(f"{tmp_path}/old")
    (file,) = (tmp_path / "old").glob("*.parquet")
    shutil.copy(file, path / "old.parquet")
    fields = {"path": "old.parquet", "partitionValues": {}, "size": file.stat().st_size, "modificationTime": 1}
    statistics = '{"numRecords":2,"minValues":{"id":1},"maxValues":{"id":2}}'
    line = json.dumps({"add": {**fields, "dataChange": True, "stats": statistics}})
    (path / f"_delta_log/{2:020}.json").write_text(line)
    with pytest.raises(Exception, match="PARQUET_COLUMN_DATA_TYPE_MISMATCH"):
        rows(f"SELECT * FROM {table}")
    spark.sql(f"UPDATE {table} SET s.x = NULL WHERE id <= 2")
    assert rows(f"SELECT * FROM {table} ORDER BY id") == [(1, (None, 2)), (2, (None, 2)), (9, ("z", 3))]


def test_nulls_at_every_depth(spark, rows, database):
    spark.sql(
        "CREATE TABLE t (s STRUCT<a: STRUCT<b: INT>>, l ARRAY<STRUCT<x: INT>>, m MAP<STRING, ARRAY<INT>>) USING delta"
    )
    spark.sql(
        "INSERT INTO t VALUES (NULL, NULL, NULL), (named_struct('a', NULL), array(NULL), map('k', NULL)), "
        "(named_struct('a', named_struct('b', NULL)), array(named_struct('x', NULL)), map('k', array(NULL)))"
    )
    assert rows("SELECT count(*) FROM t WHERE s IS NULL") == [(1,)]
    assert rows("SELECT count(*) FROM t WHERE s.a IS NULL") == [(2,)]
    assert rows("SELECT count(*) FROM t WHERE s.a.b IS NULL") == [(3,)]
    assert rows("SELECT count(*) FROM t WHERE l[0] IS NULL AND l IS NOT NULL") == [(1,)]


def test_a_write_of_no_rows(spark, rows, database):
    spark.sql("CREATE TABLE t USING delta AS SELECT id FROM range(0)")
    spark.sql("INSERT INTO t SELECT * FROM range(0)")
    spark.range(0).write.format("delta").mode("append").saveAsTable("t")
    assert rows("SELECT count(*) FROM t") == [(0,)]
    assert spark.sql("DESCRIBE DETAIL t").first()["numFiles"] == 0
    spark.sql("INSERT INTO t VALUES (1)")
    spark.sql("INSERT OVERWRITE t SELECT * FROM range(0)")
    assert rows("SELECT * FROM t") == []


def test_options_that_are_no_such_thing(spark, fails, table):
    with fails("DELTA_ILLEGAL_OPTION", "mergeSchema", "perhaps"):
        spark.range(1).write.format("delta").mode("append").option("mergeSchema", "perhaps").save(str(table))
    assert not commit_file(table, 3).exists()
