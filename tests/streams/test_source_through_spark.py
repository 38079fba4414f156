"""A table as the source of streams, through Spark: which rows come, across restarts and limits, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.running_streams import ends


def ids(batches):
    return [[row[0] for row in batch] for batch in batches]


def test_snapshot_then_commits_with_limits_and_restarts(spark, path, stream):
    spark.sql(f"CREATE TABLE delta.`{path}` (id BIGINT, p STRING) USING delta PARTITIONED BY (p)")
    for i in range(4):
        spark.sql(f"INSERT INTO delta.`{path}` VALUES ({i}, 'p{i % 2}')")
    reader = stream(maxFilesPerTrigger=3)
    assert ids(reader.run(path, most=1)) == [[0, 1, 2]]
    spark.sql(f"INSERT INTO delta.`{path}` SELECT id, 'p0' FROM range(10, 12, 1, 2)")
    # The second micro-batch was planned before the restart.
    assert ids(reader.run(path)) == [[0, 1, 2], [3], [10, 11]]
    assert ids(reader.run(path)) == [[0, 1, 2], [3], [10, 11]]
    spark.sql(f"INSERT INTO delta.`{path}` SELECT id, 'p1' FROM range(20, 25, 1, 5)")
    assert ids(reader.run(path)) == [[0, 1, 2], [3], [10, 11], [20, 21, 22], [23, 24]]
    assert [(o["reservoirVersion"], o["index"], o["isStartingVersion"]) for o in reader.offsets()] == [
        (4, 2, True), (5, -1, False), (6, -1, False), (6, 2, False), (7, -1, False),
    ]  # fmt: skip
    assert [p["numInputRows"] for p in reader.progress] == [3, 2]
    metrics = [p["sources"][0]["metrics"] for p in reader.progress]
    commit = Path(path, "_delta_log", f"{6:020}.json").read_text().splitlines()
    last_two = sum([a["add"]["size"] for a in map(json.loads, commit) if "add" in a][3:])
    assert metrics == [
        {
            "numFilesOutstanding": str(files),
            "numBytesOutstanding": str(outstanding),
            "numRowsOutstanding": str(rows),
            "numVersionsOutstanding": str(versions),
        }
        for files, outstanding, rows, versions in ((2, last_two, 2, 1), (0, 0, 0, 0))
    ]
    whole = stream(maxFilesPerTrigger=3, wholeCommits="true", startingVersion=5)
    assert ids(whole.run(path)) == [[10, 11], [20, 21, 22, 23, 24]]


def test_filters_skip_files(spark, path, stream):
    spark.sql(f"CREATE TABLE delta.`{path}` (id BIGINT, p STRING) USING delta PARTITIONED BY (p)")
    for i in range(4):
        spark.sql(f"INSERT INTO delta.`{path}` SELECT id, 'p{i % 2}' FROM range({10 * i}, {10 * i + 10}, 1, 1)")
    reader = stream()
    assert ids(reader.run(path, where="id >= 25 AND p = 'p0'")) == [[25, 26, 27, 28, 29]]
    assert [p["numInputRows"] for p in reader.progress] == [10]


def test_starting_options(spark, path, stream, log):
    spark.sql(f"CREATE TABLE delta.`{path}` (id BIGINT) USING delta")
    for i in range(3):
        spark.sql(f"INSERT INTO delta.`{path}` VALUES ({i})")
    assert ids(stream(startingVersion=2).run(path)) == [[1, 2]]
    latest = stream(startingVersion="latest")
    assert ids(latest.run(path)) in ([], [[]])
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (7)")
    assert ids(latest.run(path))[-1] == [7]
    times = [row[0] for row in spark.sql(f"DESCRIBE HISTORY delta.`{path}`").selectExpr("string(timestamp)").collect()]
    assert ids(stream(startingTimestamp=times[2]).run(path)) == [[1, 2, 7]]


@pytest.mark.parametrize("vectors", ["true", pytest.param("false", marks=pytest.mark.soak)])
def test_the_change_feed(spark, path, stream, vectors):
    spark.sql(
        f"CREATE TABLE delta.`{path}` (id INT, v STRING) USING delta TBLPROPERTIES "
        f"('delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = '{vectors}')"
    )
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    reader = stream(readChangeFeed="true", maxFilesPerTrigger=1)
    assert sorted(row[:4] for batch in reader.run(path) for row in batch) == [
        (1, "a", "insert", 1), (2, "b", "insert", 1), (3, "c", "insert", 1),
    ]  # fmt: skip
    spark.sql(f"UPDATE delta.`{path}` SET v = 'x' WHERE id = 1")
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 2")
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (4, 'd')")
    reader.run(path, most=1)
    reader.run(path)
    assert [[row[:4] for row in batch] for batch in reader.rows()[2:]] == [
        [(1, "a", "update_preimage", 2), (1, "x", "update_postimage", 2)],
        [(2, "b", "delete", 3)],
        [(4, "d", "insert", 4)],
    ]
    told = stream(readChangeFeed="true", startingVersion=3)
    assert [[row[:4] for row in batch] for batch in told.run(path)] == [[(2, "b", "delete", 3), (4, "d", "insert", 4)]]
    times = {row[0]: row[1] for row in spark.sql(f"DESCRIBE HISTORY delta.`{path}`").collect()}
    assert {row[3]: row[4] for batch in told.rows() for row in batch} == {v: times[v] for v in (3, 4)}


def test_what_a_stream_must_not_miss(spark, path, stream, fails):
    spark.sql(f"CREATE TABLE delta.`{path}` (id INT, v STRING) USING delta")
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (1, 'a'), (2, 'b')")
    reader, deletes = stream(), stream(ignoreDeletes="true")
    for each in (reader, deletes):
        each.run(path)
    spark.sql(f"DELETE FROM delta.`{path}`")
    with ends("DELTA_SOURCE_IGNORE_DELETE"):
        reader.run(path)
    assert ids(deletes.run(path))[0] == [1, 2]
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (3, 'c'), (4, 'd')")
    spark.sql(f"UPDATE delta.`{path}` SET v = 'x' WHERE id = 3")
    with ends("DELTA_SOURCE_TABLE_IGNORE_CHANGES"):
        deletes.run(path)
    skips = stream(skipChangeCommits="true", startingVersion=0)
    assert ids(skips.run(path)) == [[1, 2, 3, 4]]
    spark.sql(f"ALTER TABLE delta.`{path}` ADD COLUMN w INT")
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (5, 'e', 5)")
    assert ids(skips.run(path))[-1] == [5]  # a restart reads the new column


def test_a_column_that_comes_while_the_stream_runs(spark, path, tmp_path, fails):
    spark.sql(f"CREATE TABLE delta.`{path}` (id INT) USING delta")
    rows = spark.readStream.format("delta").load(path)
    query = (
        rows.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "c")).start(str(tmp_path / "o"))
    )
    try:
        query.processAllAvailable()
        spark.sql(f"ALTER TABLE delta.`{path}` ADD COLUMN w INT")
        spark.sql(f"INSERT INTO delta.`{path}` VALUES (5, 5)")
        with ends("DELTA_SCHEMA_CHANGED_WITH_VERSION"):
            query.awaitTermination(60)
    finally:
        query.stop()


@pytest.mark.parametrize("options", [{}, {"readChangeFeed": "true"}], ids=["rows", "changes"])
def test_a_column_that_is_mapped_and_made_again_while_the_stream_runs(spark, path, tmp_path, options):
    """Its values are no nulls of the column that was there before."""
    table, feed = f"delta.`{path}`", "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    spark.sql(f"CREATE TABLE {table} (id INT, b INT) USING delta {feed}")
    spark.sql(f"INSERT INTO {table} VALUES (1, 10)")
    rows = spark.readStream.format("delta").options(**options).load(path).select("id", "b")
    query = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c")).start()
    try:
        query.processAllAvailable()
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
        query.processAllAvailable()
        spark.sql(f"ALTER TABLE {table} DROP COLUMN b")
        spark.sql(f"ALTER TABLE {table} ADD COLUMN b INT")
        spark.sql(f"INSERT INTO {table} VALUES (3, 30)")
        with ends("DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE_USE_SCHEMA_LOG"):
            query.awaitTermination(60)
    finally:
        query.stop()


def test_columns_of_every_type_are_those_of_the_analysis(spark, path, stream):
    spark.sql(
        f"CREATE TABLE delta.`{path}` (id BIGINT GENERATED ALWAYS AS IDENTITY, c CHAR(3), v VARCHAR(5) NOT NULL "
        "COMMENT 'words', d INT DEFAULT 7, g INT GENERATED ALWAYS AS (d + 1), x VARIANT, u STRING COLLATE UTF8_LCASE, "
        "n TIMESTAMP_NTZ, s STRUCT<a: CHAR(2), b: ARRAY<STRUCT<c: VARCHAR(2)>>>, m MAP<STRING, INT>) "
        "USING delta TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.feature.allowColumnDefaults' = "
        "'supported', 'delta.enableChangeDataFeed' = 'true')"
    )
    spark.sql(f"INSERT INTO delta.`{path}` (c, v) VALUES ('a', 'b')")
    [[row]] = stream().run(path)
    assert row[1:5] == ("a  ", "b", 7, 8)
    [[changed]] = stream(readChangeFeed="true").run(path)
    assert changed[:10] == row
    assert changed[10] == "insert"


def test_a_name_that_was_registered_with_options(spark, path, stream):
    """As by a session with another catalog; ours registers none."""
    spark.sql(f"CREATE TABLE registered (id INT) USING delta LOCATION '{path}'")
    try:
        spark.sql("INSERT INTO registered VALUES (1)")
        jvm, some = spark._jvm, spark._jvm.scala.Option.apply
        options = jvm.org.apache.spark.api.python.PythonUtils.toScalaMap({"color": "red"})
        name = jvm.org.apache.spark.sql.catalyst.TableIdentifier("registered")
        alter = jvm.org.apache.spark.sql.execution.command.AlterTableSerDePropertiesCommand
        alter(name, some(None), some(options), some(None)).run(spark._jsparkSession)
        catalog = spark._jsparkSession.sessionState().catalog()
        assert catalog.getTableMetadata(name).storage().properties().contains("color")
        assert stream().run("registered", by_name=True) == [[(1,)]]
    finally:
        spark.sql("DROP TABLE registered")


@pytest.mark.parametrize(
    "alter", ["ADD COLUMN w INT", "RENAME COLUMN v TO w", "DROP COLUMN v", "ALTER COLUMN id TYPE BIGINT"]
)
def test_a_query_that_was_analysed_before_an_alter(spark, path, tmp_path, alter):
    spark.sql(
        f"CREATE TABLE delta.`{path}` (id INT, v STRING) USING delta TBLPROPERTIES "
        "('delta.columnMapping.mode' = 'name', 'delta.enableTypeWidening' = 'true')"
    )
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (1, 'a')")
    rows = spark.readStream.format("delta").load(path).select("*", "_metadata.file_name")
    spark.sql(f"ALTER TABLE delta.`{path}` {alter}")
    words = ("v:string", "new streaming DataFrame")
    with ends("DELTA_STREAMING_SCHEMA_MISMATCH_ON_RESTART", *words):
        rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c")).start().awaitTermination(60)


def test_options_that_pass(spark, path):
    spark.sql(f"CREATE TABLE delta.`{path}` (id INT) USING delta")
    options = {"txnAppId": "a", "mergeSchema": "true", "fs.s3a.path.style.access": "true", "our.wrapper": "1"}
    assert spark.readStream.format("delta").options(**options).load(path).columns == ["id"]


@pytest.mark.parametrize(
    ("options", "condition"),
    [
        ({"maxFilePerTrigger": "1"}, "HEADWATER_UNKNOWN_OPTION"),
        ({"maxFilesPerTrigger": "0"}, "DELTA_ILLEGAL_OPTION"),
        ({"maxFilesPerTrigger": "3000000000"}, "DELTA_ILLEGAL_OPTION"),
        ({"maxBytesPerTrigger": "9000p"}, "DELTA_ILLEGAL_OPTION"),
        ({"maxBytesPerTrigger": "many"}, "DELTA_ILLEGAL_OPTION"),
        ({"excludeRegex": "("}, "DELTA_ILLEGAL_OPTION"),
        ({"ignoreDeletes": "yes"}, "DELTA_ILLEGAL_OPTION"),
        ({"startingVersion": "-1"}, "DELTA_ILLEGAL_OPTION"),
        ({"startingVersion": "1", "startingTimestamp": "2024-01-01"}, "DELTA_STARTING_VERSION_AND_TIMESTAMP_BOTH_SET"),
        ({"versionAsOf": "0"}, "DELTA_UNSUPPORTED_TIME_TRAVEL_VIEWS"),
    ],
)
def test_options_that_are_refused(spark, path, options, condition, fails):
    spark.sql(f"CREATE TABLE delta.`{path}` (id INT) USING delta")
    with fails(condition):
        spark.readStream.format("delta").options(**options).load(path)


def test_starts_that_are_refused(spark, path, stream, fails):
    spark.sql(f"CREATE TABLE delta.`{path}` (id INT) USING delta")
    with ends("DELTA_VERSION_NOT_FOUND"):
        stream(startingVersion=7).run(path)
    with ends("DELTA_TIMESTAMP_GREATER_THAN_COMMIT"):
        stream(startingTimestamp="2099-01-01").run(path)
    with fails("DELTA_TIMESTAMP_INVALID"):
        stream(startingTimestamp="soon").run(path)
    with ends("DELTA_MISSING_CHANGE_DATA"):
        stream(readChangeFeed="true", startingVersion=0).run(path)
    with fails("DELTA_READ_SOURCE_SCHEMA_CONFLICT"):
        spark.readStream.format("delta").schema("other INT").load(path)


def test_another_table_in_its_place(spark, tmp_path, stream, fails):
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    reader = stream()
    for path in (first, second):
        spark.sql(f"CREATE TABLE delta.`{path}` (id INT) USING delta")
        spark.sql(f"INSERT INTO delta.`{path}` VALUES (1)")
    reader.run(first)
    with ends("DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE"):
        reader.run(second)


def test_vectors_and_mapping(spark, path, stream):
    spark.sql(
        f"CREATE TABLE delta.`{path}` (id INT, st STRUCT<a: INT>, p INT) USING delta PARTITIONED BY (p) TBLPROPERTIES "
        "('delta.columnMapping.mode' = 'name', 'delta.enableDeletionVectors' = 'true', "
        "'delta.enableRowTracking' = 'true')"
    )
    spark.sql(f"INSERT INTO delta.`{path}` SELECT id, named_struct('a', id), 1 FROM range(0, 100, 1, 1)")
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id % 2 = 0")
    reader = stream()
    assert reader.run(path, where="id < 6") == [[(1, (1,), 1), (3, (3,), 1), (5, (5,), 1)]]


@pytest.mark.parametrize("tracks", [pytest.param(False, marks=pytest.mark.soak), True])
def test_vectors_that_the_newest_version_has_no_more(spark, path, stream, tracks):
    """A stream goes on with files as they were: their deleted rows stay deleted."""
    spark.sql(
        f"CREATE TABLE delta.`{path}` (id INT) USING delta TBLPROPERTIES "
        "('delta.columnMapping.mode' = 'name', 'delta.enableDeletionVectors' = 'true')"
    )
    for start in (0, 4):
        spark.sql(f"INSERT INTO delta.`{path}` SELECT INT(id) FROM range({start}, {start + 4}, 1, 1)")
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id IN (1, 5)")
    reader = stream(maxFilesPerTrigger=1)
    if tracks:
        # The first micro-batch is planned, and not written.
        reader.options["schemaTrackingLocation"] = f"{reader.home}/checkpoint/schemas"
        assert reader.run(path, most=0) == []
    else:
        assert ids(reader.run(path, most=1)) == [[0, 2, 3]]
    spark.sql(f"REORG TABLE delta.`{path}` APPLY (PURGE)")
    # The commit of REORG may be a micro-batch, without rows.
    assert [batch for batch in ids(reader.run(path)) if batch] == [[0, 2, 3], [4, 6, 7]]


def test_metadata_of_files(spark, path, stream):
    spark.sql(f"CREATE TABLE delta.`{path}` (id INT) USING delta TBLPROPERTIES ('delta.enableRowTracking' = 'true')")
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (1)")
    rows = spark.readStream.format("delta").load(path).selectExpr("id", "_metadata.file_name AS f", "_metadata.row_id")
    query = rows.writeStream.format("memory").queryName("seen_metadata").trigger(availableNow=True).start()
    query.awaitTermination()
    (row,) = spark.table("seen_metadata").collect()
    assert row.f.endswith(".parquet")
    assert (row.id, row.row_id) == (1, 0)


def test_by_name_and_in_sql(spark, database, stream):
    spark.sql("CREATE TABLE t (id INT) USING delta")
    spark.sql("INSERT INTO t VALUES (1), (2)")
    assert ids(stream(maxFilesPerTrigger=1).run("t", by_name=True)) in ([[1, 2]], [[1], [2]], [[2], [1]])
    for text in ("SELECT * FROM STREAM t", "SELECT * FROM STREAM(t) WITH ('maxFilesPerTrigger' = '1')"):
        query = spark.sql(text).writeStream.format("memory").queryName("streamed").trigger(availableNow=True).start()
        query.awaitTermination()
        assert spark.table("streamed").count() == 2
