"""SHOW and DESCRIBE in their forms."""

from __future__ import annotations

import datetime
import re
import shutil

import pytest

from headwater.tables import DeltaTable

DETAIL = (
    "struct<format:string,id:string,name:string,description:string,location:string,createdAt:timestamp,"
    "lastModified:timestamp,partitionColumns:array<string>,clusteringColumns:array<string>,numFiles:bigint,"
    "sizeInBytes:bigint,properties:map<string,string>,minReaderVersion:int,minWriterVersion:int,"
    "tableFeatures:array<string>,"
    "icebergMetadata:struct<convertedVersion:bigint,versionsBehind:bigint,failure:string>>"
)
HISTORY = (
    "struct<version:bigint,timestamp:timestamp,userId:string,userName:string,operation:string,"
    "operationParameters:map<string,string>,job:struct<jobId:string,jobName:string,jobRunId:string,runId:string,"
    "jobOwnerId:string,triggerType:string>,notebook:struct<notebookId:string>,clusterId:string,readVersion:bigint,"
    "isolationLevel:string,isBlindAppend:boolean,operationMetrics:map<string,string>,userMetadata:string,"
    "engineInfo:string>"
)


def definition(spark, table):
    """What makes two tables the same definition."""
    detail = spark.sql(f"DESCRIBE DETAIL {table}").first().asDict()
    kept = ("description", "partitionColumns", "clusteringColumns", "properties", "tableFeatures")
    columns = spark.sql(f"DESCRIBE {table}").collect()
    return {name: detail[name] for name in kept}, columns, spark.table(table).schema


def test_describe(spark, rows, database):
    spark.sql("CREATE TABLE t (a INT COMMENT 'first', b STRING, p DATE) USING delta PARTITIONED BY (p)")
    assert rows("DESCRIBE t") == [
        ("a", "int", "first"),
        ("b", "string", None),
        ("p", "date", None),
        ("# Partition Information", "", ""),
        ("# col_name", "data_type", "comment"),
        ("p", "date", None),
    ]
    assert rows("DESCRIBE t a") == [("col_name", "a"), ("data_type", "int"), ("comment", "first")]


def test_describe_extended(spark, rows, database, tmp_path):
    spark.sql(
        "CREATE TABLE t (a INT, b STRUCT<c: INT>) USING delta COMMENT 'mine' CLUSTER BY (b.c) "
        f"LOCATION '{tmp_path}/a b'"
    )
    shown = rows("DESCRIBE TABLE EXTENDED t")
    after = {row[0]: row[1] for row in shown}
    assert ("# Clustering Information", "", "") in shown
    assert ("b.c", "int", None) in shown
    assert after["Table"] == "t"
    assert after["Database"] == database
    assert after["Type"] == "EXTERNAL"
    assert after["Provider"] == "delta"
    assert after["Comment"] == "mine"
    assert after["Location"] == f"file:{tmp_path}/a b"
    assert "delta.feature.clustering=supported" in after["Table Properties"]
    assert after["Statistics"] == "0 bytes, 0 rows"


def test_tools_can_parse_the_columns_and_the_statistics(spark, rows, database):
    """dbt's adapter takes columns, owner and statistics of its catalog out of these texts by such patterns."""
    spark.sql(
        "CREATE TABLE t (a INT NOT NULL COMMENT 'x', `b c` STRUCT<d: ARRAY<INT>>, p DATE) USING delta "
        "PARTITIONED BY (p) COMMENT 'Statistics: none' TBLPROPERTIES "
        "('delta.columnMapping.mode' = 'name', 'delta.enableDeletionVectors' = 'true')"
    )
    spark.sql("INSERT INTO t SELECT id, named_struct('d', array(1)), DATE'2024-01-01' FROM range(0, 9, 1, 1)")
    spark.sql("DELETE FROM t WHERE a < 2")
    (table,) = rows("SHOW TABLE EXTENDED IN " + database + " LIKE '*'")
    fields = re.findall(r"^ \|-- (.*): (.*) \(nullable = (.*)\b", table[3], re.MULTILINE)
    assert fields == [("a", "integer", "false"), ("b c", "struct", "true"), ("p", "date", "true")]
    shown = {row[0]: row[1] for row in rows("DESCRIBE EXTENDED t")}
    for text in (*re.findall(r"^Statistics: (.*)$", table[3], re.MULTILINE), shown["Statistics"]):
        assert re.fullmatch(r"[1-9]\d* bytes, 7 rows", text)
    assert {"Provider: delta", "Type: MANAGED"} <= set(table[3].splitlines())


def test_describe_detail(spark, database, tmp_path):
    frame = spark.sql("CREATE TABLE t USING delta PARTITIONED BY (p) AS SELECT id, id % 3 AS p FROM range(9)")
    frame = spark.sql("DESCRIBE DETAIL t")
    assert frame.schema.simpleString() == DETAIL
    detail = frame.first()
    assert detail["format"] == "delta"
    assert detail["name"] == f"spark_catalog.{database}.t"
    assert detail["location"].startswith("file:/")
    assert detail["numFiles"] >= 3
    assert detail["sizeInBytes"] > 0
    assert (detail["minReaderVersion"], detail["minWriterVersion"]) == (1, 2)
    assert detail["tableFeatures"] == ["appendOnly", "invariants"]
    assert abs(detail["lastModified"] - _now()) < datetime.timedelta(minutes=10)
    path = detail["location"].removeprefix("file:")
    for name in (f"delta.`{path}`", f"'{path}'", f'"{path}"'):
        by_path = spark.sql(f"DESCRIBE DETAIL {name}").first()
        assert (by_path["id"], by_path["name"]) == (detail["id"], None)


def test_describe_history(spark, database):
    spark.sql("CREATE TABLE t (id INT) USING delta")
    for value in range(3):
        spark.sql(f"INSERT INTO t VALUES ({value})")
    frame = spark.sql("DESCRIBE HISTORY t")
    assert frame.schema.simpleString() == HISTORY
    entries = frame.collect()
    assert [entry["version"] for entry in entries] == [3, 2, 1, 0]
    assert [entry["operation"] for entry in entries] == ["WRITE", "WRITE", "WRITE", "CREATE TABLE"]
    assert entries[0]["operationParameters"] == {"mode": "Append", "partitionBy": "[]"}
    assert entries[0]["operationMetrics"]["numOutputRows"] == "1"
    assert entries[0]["readVersion"] == 2
    assert entries[0]["isBlindAppend"] is True
    assert "Headwater" in entries[0]["engineInfo"]
    assert [e["version"] for e in spark.sql("DESCRIBE HISTORY t LIMIT 2").collect()] == [3, 2]
    assert frame.where("operation = 'WRITE'").count() == 3
    assert spark.sql("describe history t").count() == 4
    assert spark.sql("-- why\n/* and how */ DESC HISTORY\n t limit 1;").count() == 1


def test_describe_history_and_detail_of_what_is_no_delta_table(spark, database, tmp_path, fails):
    spark.sql("CREATE TABLE p (a INT) USING parquet")
    spark.sql("CREATE VIEW v AS SELECT 1 AS a")
    with fails("DELTA_ONLY_OPERATION", "DESCRIBE HISTORY", "p"):
        spark.sql("DESCRIBE HISTORY p")
    with fails("TABLE_OR_VIEW_NOT_FOUND", "absent", state="42P01"):
        spark.sql("DESCRIBE DETAIL absent")
    with fails("DELTA_MISSING_DELTA_TABLE", f"{tmp_path}/absent", state="42P01"):
        spark.sql(f"DESCRIBE DETAIL delta.`{tmp_path}/absent`")
    with fails("EXPECT_TABLE_NOT_VIEW.NO_ALTERNATIVE", state="42809"):
        spark.sql("DESCRIBE HISTORY v")
    with fails("PARSE_SYNTAX_ERROR"):
        spark.sql("DESCRIBE HISTORY a b c")
    with fails("PARSE_SYNTAX_ERROR", "many"):
        spark.sql("DESCRIBE HISTORY p LIMIT many")


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None)


def test_describe_detail_of_what_is_no_delta_table(spark, database, tmp_path, fails):
    (tmp_path / "empty").mkdir()
    spark.sql(
        "CREATE TABLE p (a INT, b STRING) USING parquet PARTITIONED BY (b) COMMENT 'hello' TBLPROPERTIES ('k' = 'v')"
    )
    spark.sql(f"CREATE TABLE c (a INT) USING csv LOCATION '{tmp_path / 'c'}'")
    spark.sql("INSERT INTO p VALUES (1, 'x')")
    spark.sql("CREATE VIEW v AS SELECT 1 AS a")

    def known(table):
        frame = spark.sql(f"DESCRIBE DETAIL {table}")
        assert frame.schema.simpleString() == DETAIL
        return {name: value for name, value in frame.first().asDict().items() if value is not None}

    partitioned = known("p")
    assert abs(partitioned.pop("createdAt") - _now()) < datetime.timedelta(minutes=10)
    location = partitioned.pop("location")
    assert location.startswith("file:/")
    of_entry = {"format": "parquet", "name": f"spark_catalog.{database}.p", "description": "hello"}
    assert partitioned == {**of_entry, "partitionColumns": ["b"], "properties": {"k": "v"}}
    plain = known("c")
    assert (plain["format"], plain["description"], plain["partitionColumns"], plain["properties"]) == (
        "csv",
        "",
        [],
        {},
    )
    assert plain["location"] == f"file:{tmp_path / 'c'}"
    for path in (location, location.removeprefix("file:"), f"{tmp_path}/empty"):
        assert known(f"'{path}'") == {"location": path, "properties": {}}
        with fails("DELTA_TABLE_NOT_FOUND"):
            spark.sql(f"DESCRIBE DETAIL delta.`{path}`")
        assert not DeltaTable.isDeltaTable(spark, path)
    with fails("DELTA_FILE_NOT_FOUND", f"{tmp_path}/absent"):
        spark.sql(f"DESCRIBE DETAIL '{tmp_path}/absent'")
    with fails("EXPECT_TABLE_NOT_VIEW.NO_ALTERNATIVE"):
        spark.sql("DESCRIBE DETAIL v")
    with fails("DELTA_MISSING_DELTA_TABLE"):
        DeltaTable.forName(spark, "p")


@pytest.mark.parametrize("marker", [":p", "?"])
def test_paths_may_be_parameters(spark, rows, tmp_path, marker):
    path = f"{tmp_path}/it's a table"
    spark.sql(
        f"CREATE TABLE delta.`{path}` (id INT) USING delta TBLPROPERTIES ('delta.feature.v2Checkpoint' = 'supported')"
    )
    given = {"p": path} if marker == ":p" else [path]
    for text in (
        "DESCRIBE DETAIL {}",
        "DESCRIBE HISTORY {} LIMIT 1",
        "DESCRIBE HEALTH {}",
        "ANALYZE TABLE {} COMPUTE DELTA STATISTICS",
        "GENERATE symlink_format_manifest FOR TABLE {}",
        "OPTIMIZE {}",
        "OPTIMIZE {} ZORDER BY (id)",
        "OPTIMIZE {} DRY RUN",
        "REORG TABLE {} APPLY (PURGE)",
        "RESTORE TABLE {} TO VERSION AS OF 0",
        "VACUUM {}",
        "VACUUM {} RETAIN 200 HOURS DRY RUN",
        "ALTER TABLE {} DROP FEATURE v2Checkpoint",
    ):
        spark.sql(text.format(marker), args=given)
    quoted = path.replace("'", "\\'")
    using = f"'{quoted}'" + (" AS p" if marker == ":p" else "")
    assert rows(f"EXECUTE IMMEDIATE 'DESCRIBE DETAIL {marker}' USING {using}")[0][0] == "delta"
    if marker == ":p":  # Spark has no positional ones in scripts
        spark.sql("BEGIN DESCRIBE HISTORY :p; END", args=given)


def test_a_table_that_is_called_history(spark, rows, database):
    spark.sql("CREATE TABLE history (detail INT) USING delta")
    assert rows("DESCRIBE history") == [("detail", "int", None)]
    assert rows("DESCRIBE TABLE history") == [("detail", "int", None)]
    assert rows("DESCRIBE HISTORY history")[0][4] == "CREATE TABLE"


DEFINITIONS = {
    "plain": (
        "(a INT NOT NULL COMMENT 'it''s \\\\ \"quoted\"', b STRING, c DECIMAL(10,2), d TIMESTAMP_NTZ) USING delta"
    ),
    "nested": (
        "(s STRUCT<`odd name`: INT COMMENT 'x', b: ARRAY<STRUCT<c: BIGINT>>>, m MAP<STRING, DOUBLE>) USING delta "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    ),
    "partitioned": (
        "(a INT, p DATE, `q``r` STRING) USING delta PARTITIONED BY (p, `q``r`) COMMENT 'say \\'hi\\'' "
        "TBLPROPERTIES ('delta.appendOnly' = 'true', 'my.key' = 'a \\'b\\'')"
    ),
    "clustered": "(a INT, b STRUCT<c: INT>) USING delta CLUSTER BY (a, b.c)",
    "computed": (
        "(id BIGINT GENERATED BY DEFAULT AS IDENTITY (START WITH 5 INCREMENT BY -2), a INT DEFAULT 1 + 1, "
        "b INT GENERATED ALWAYS AS (a * 2), CONSTRAINT positive CHECK (a > 0)) USING delta "
        "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
    ),
    "characters": "(a VARCHAR(5) COMMENT 'short', b CHAR(3), v VARIANT, x BINARY) USING delta",
    "features": (
        "(a INT) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', "
        "'delta.enableInCommitTimestamps' = 'true', 'delta.checkpointPolicy' = 'v2', "
        "'delta.enableChangeDataFeed' = 'true')"
    ),
}


@pytest.mark.parametrize("name", sorted(DEFINITIONS))
def test_show_create_table_runs_again(spark, rows, database, name):
    spark.sql(f"CREATE TABLE t {DEFINITIONS[name]}")
    ((text,),) = rows("SHOW CREATE TABLE t")
    before = definition(spark, "t")
    assert f"CREATE TABLE spark_catalog.{database}.t " in text
    spark.sql("DROP TABLE t")
    spark.sql(text)
    assert definition(spark, "t") == before
    assert rows("SHOW CREATE TABLE t") == [(text,)]


def test_show_create_table_of_an_external_table(spark, rows, database, tmp_path):
    path = tmp_path / "it's 100%"
    spark.range(3).write.format("delta").save(str(path))
    spark.sql(f'CREATE TABLE t USING delta LOCATION "{path}"')
    ((text,),) = rows("SHOW CREATE TABLE t")
    spark.sql("DROP TABLE t")
    spark.sql(text)
    assert rows("SELECT count(*) FROM t") == [(3,)]
    assert rows(f"SELECT count(*) FROM delta.`{path}`") == [(3,)]


def test_show_create_table_of_other_formats_is_sparks(spark, rows, database):
    spark.sql("CREATE TABLE p (a INT) USING parquet")
    assert "USING parquet" in rows("SHOW CREATE TABLE p")[0][0]


def test_show_tables_columns_and_properties(spark, rows, database):
    spark.sql("CREATE TABLE t (a INT, b INT) USING delta TBLPROPERTIES ('k' = 'v')")
    spark.sql("CREATE TABLE p (a INT) USING parquet")
    assert rows("SHOW TABLES") == [(database, "p", False), (database, "t", False)]
    assert rows(f"SHOW TABLES IN {database} LIKE 't*'") == [(database, "t", False)]
    assert rows("SHOW COLUMNS IN t") == [("a",), ("b",)]
    assert rows("SHOW TBLPROPERTIES t") == [
        ("delta.minReaderVersion", "1"),
        ("delta.minWriterVersion", "2"),
        ("k", "v"),
    ]
    assert rows("SHOW TBLPROPERTIES t ('k')") == [("k", "v")]
    assert "does not have property" in rows("SHOW TBLPROPERTIES t ('absent')")[0][1]
    ((_, _, _, information),) = rows("SHOW TABLE EXTENDED LIKE 't'")
    assert "Provider: delta" in information


def test_lists_of_tables_open_none(spark, rows, database):
    spark.sql("CREATE TABLE t (a INT) USING delta")
    shutil.rmtree(rows("DESCRIBE DETAIL t")[0][4].removeprefix("file:"))
    assert rows("SHOW TABLES") == [(database, "t", False)]
    assert [row[1] for row in rows("SHOW TABLE EXTENDED LIKE '*'")] == ["t"]


def test_show_partitions(spark, rows, database, fails):
    spark.sql("CREATE TABLE t (a INT, p DATE, q STRING) USING delta PARTITIONED BY (p, q)")
    assert rows("SHOW PARTITIONS t") == []
    spark.sql(
        "INSERT INTO t VALUES (1, DATE'2024-02-01', 'x/y'), (2, DATE'2024-01-01', NULL), (3, DATE'2024-01-01', 'b')"
    )
    assert rows("SHOW PARTITIONS t") == [
        ("p=2024-01-01/q=__HIVE_DEFAULT_PARTITION__",),
        ("p=2024-01-01/q=b",),
        ("p=2024-02-01/q=x%2Fy",),
    ]
    assert rows("SHOW PARTITIONS t PARTITION (P = '2024-02-01')") == [("p=2024-02-01/q=x%2Fy",)]
    with fails("DELTA_SHOW_PARTITION_IN_NON_PARTITIONED_COLUMN", "a"):
        spark.sql("SHOW PARTITIONS t PARTITION (a = 1)")
    spark.sql("CREATE TABLE u (a INT) USING delta")
    with fails("DELTA_SHOW_PARTITION_IN_NON_PARTITIONED_TABLE", "u"):
        spark.sql("SHOW PARTITIONS u")


def test_long_blanks_and_comments_overflow_no_stack(spark, rows, database):
    spark.sql("CREATE TABLE t (a INT) USING delta")
    for blank in (" " * 20_000, "/* why */ " * 5_000, "-- why\n" * 5_000):
        assert rows(f"{blank}SELECT 1") == [(1,)]
        assert len(rows(f"{blank}DESCRIBE{blank}/**/HISTORY /**/ t")) == 1
