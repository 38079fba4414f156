"""Interval types: every place of a column, statements, partitions, and what other writers have spelled otherwise."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

HOURS = "INTERVAL '1 02:03:04.5' DAY TO SECOND"
KINDS = {
    "ym": "interval year to month",
    "ds": "interval day to second",
    "n": "interval day to second",
}


def actions(path: Path, version: int, kind: str) -> list[dict]:
    lines = (path / f"_delta_log/{version:020}.json").read_text().splitlines()
    return [found[kind] for line in lines if kind in (found := json.loads(line))]


def test_columns_of_every_kind_are_written_read_and_changed(spark, rows, tmp_path, database, fails):
    path = tmp_path / "t"
    spark.sql(
        "CREATE TABLE t (id INT, ym INTERVAL YEAR TO MONTH, ds INTERVAL DAY TO SECOND, n INTERVAL HOUR TO MINUTE, "
        f"deep STRUCT<a: ARRAY<INTERVAL DAY>, m: MAP<STRING, INTERVAL YEAR>>) USING delta LOCATION '{path}' "
        "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', 'delta.enableChangeDataFeed' = 'true')"
    )
    (metadata,) = actions(path, 0, "metaData")
    names = {field["name"]: field["type"] for field in json.loads(metadata["schemaString"])["fields"]}
    assert {name: names[name] for name in KINDS} == KINDS
    assert names["deep"]["fields"][0]["type"]["elementType"] == KINDS["ds"]
    assert actions(path, 0, "protocol")[0].get("readerFeatures") == ["deletionVectors"]
    deep = "named_struct('a', array(INTERVAL '3' DAY), 'm', map('k', INTERVAL '2' YEAR))"
    spark.sql(
        f"INSERT INTO t SELECT 1, INTERVAL '1-6' YEAR TO MONTH, {HOURS}, INTERVAL '5:06' HOUR TO MINUTE, {deep} "
        "UNION ALL SELECT 2, INTERVAL '-178956970-8' YEAR TO MONTH, "
        "INTERVAL '-106751991 04:00:54.775808' DAY TO SECOND, NULL, NULL"
    )
    stats = [json.loads(add["stats"]) for add in actions(path, 1, "add")]
    assert all(each["minValues"].keys() == each["maxValues"].keys() == {"id"} for each in stats)
    assert sum(each["nullCount"]["n"] for each in stats) == 1
    stored = pq.read_schema(path / actions(path, 1, "add")[0]["path"])
    assert [str(stored.field(name).type) for name in ("ym", "ds")] == ["int32", "int64"]
    shown = "SELECT id, string(ym), string(ds), string(n), string(deep.a), string(deep.m) FROM t ORDER BY id"
    assert rows(shown) == [
        (1, "INTERVAL '1-6' YEAR TO MONTH", HOURS, "INTERVAL '0 05:06:00' DAY TO SECOND")
        + ("[INTERVAL '3 00:00:00' DAY TO SECOND]", "{k -> INTERVAL '2-0' YEAR TO MONTH}"),
        (2, "INTERVAL '-178956970-8' YEAR TO MONTH", "INTERVAL '-106751991 04:00:54.775808' DAY TO SECOND")
        + (None, None, None),
    ]
    assert rows(f"SELECT id FROM t WHERE ds >= {HOURS} AND ym < INTERVAL '2' YEAR") == [(1,)]
    assert rows("SELECT id FROM t WHERE n IS NULL") == [(2,)]
    assert rows("UPDATE t SET ds = INTERVAL '1' HOUR WHERE ym < INTERVAL '0' MONTH") == [(1,)]
    spark.sql(
        "MERGE INTO t USING (SELECT INTERVAL '18' MONTH AS ym, INTERVAL '9' DAY AS ds) AS s ON t.ym = s.ym "
        "WHEN MATCHED THEN UPDATE SET ds = s.ds WHEN NOT MATCHED THEN INSERT (ym, ds) VALUES (s.ym, s.ds)"
    )
    spark.sql("OPTIMIZE t")
    assert rows("SELECT id, string(ds) FROM t ORDER BY id") == [
        (1, "INTERVAL '9 00:00:00' DAY TO SECOND"),
        (2, "INTERVAL '0 01:00:00' DAY TO SECOND"),
    ]
    assert rows("DELETE FROM t WHERE ds = INTERVAL '9' DAY") == [(1,)]
    changes = "SELECT id, string(ds) FROM table_changes('t', 2) WHERE _change_type = 'delete'"
    assert rows(changes) == [(1, "INTERVAL '9 00:00:00' DAY TO SECOND")]
    spark.sql("INSERT WITH SCHEMA EVOLUTION INTO t BY NAME SELECT INTERVAL '4' MONTH AS more")
    assert spark.sql("DESCRIBE t more").collect()[1][1] == KINDS["ym"]
    with fails("DELTA_CLUSTERING_COLUMNS_DATATYPE_NOT_SUPPORTED", "interval"):
        spark.sql("ALTER TABLE t CLUSTER BY (ds)")
    with fails("HEADWATER_ZORDERING_ON_COLUMN_WITHOUT_ORDER", "interval"):
        spark.sql("OPTIMIZE t ZORDER BY (ds)")
    with fails("NOT_SUPPORTED_CHANGE_COLUMN", state="0A000"):
        spark.sql("ALTER TABLE t ALTER COLUMN ds TYPE BIGINT")
    with fails("DELTA_ICEBERG_COMPAT_VIOLATION.UNSUPPORTED_DATA_TYPE", "INTERVAL"):
        spark.sql(
            "CREATE TABLE i (d INTERVAL DAY) USING delta TBLPROPERTIES ('delta.enableIcebergCompatV2' = 'true', "
            "'delta.universalFormat.enabledFormats' = 'iceberg', 'delta.columnMapping.mode' = 'name')"
        )


def test_partitions_by_intervals(spark, rows, tmp_path, database):
    path = tmp_path / "p"
    spark.sql(
        f"CREATE TABLE p USING delta PARTITIONED BY (ds, ym) LOCATION '{path}' "
        "TBLPROPERTIES ('delta.checkpoint.writeStatsAsStruct' = 'true', 'delta.checkpointInterval' = '1') AS "
        "SELECT id, CAST(id AS INTERVAL DAY) * 1.5 AS ds, CAST(id - 1 AS INTERVAL MONTH) AS ym FROM range(3)"
    )
    values = sorted(tuple(add["partitionValues"].values()) for add in actions(path, 0, "add"))
    assert values == [
        ("INTERVAL '0 00:00:00' DAY TO SECOND", "INTERVAL '-0-1' YEAR TO MONTH"),
        ("INTERVAL '1 12:00:00' DAY TO SECOND", "INTERVAL '0-0' YEAR TO MONTH"),
        ("INTERVAL '3 00:00:00' DAY TO SECOND", "INTERVAL '0-1' YEAR TO MONTH"),
    ]
    assert rows("SELECT id FROM p WHERE ds > INTERVAL '1' DAY ORDER BY id") == [(1,), (2,)]
    assert rows("SELECT string(max(ds)), string(min(ym)) FROM p") == [(values[2][0], values[0][1])]
    spark.sql("INSERT OVERWRITE p PARTITION (ds = INTERVAL '1 12:00:00' DAY TO SECOND) SELECT 9L, INTERVAL '3' MONTH")
    assert rows("DELETE FROM p WHERE ym = INTERVAL '-1' MONTH") == [(1,)]
    spark.sql("INSERT INTO p VALUES (10, NULL, INTERVAL '1' YEAR)")
    spark.sql("OPTIMIZE p WHERE ym = INTERVAL '1' YEAR")
    assert rows("SELECT id, string(ym) FROM p ORDER BY id") == [
        (2, values[2][1]),
        (9, "INTERVAL '0-3' YEAR TO MONTH"),
        (10, "INTERVAL '1-0' YEAR TO MONTH"),
    ]


def foreign(path: Path, spark, spelling: str, value: str | None = None) -> None:
    """A table of another writer: of a column ``d`` whose type is spelled like this, or a partition with this value."""
    columns_in_file = ["1 AS x", *([] if value else ["INTERVAL '2' HOUR AS d"])]
    spark.range(1).selectExpr(*columns_in_file).coalesce(1).write.parquet(f"{path}/f")
    (file,) = (path / "f").glob("part-*.parquet")
    columns = [{"name": "x", "type": "integer"}, {"name": "d", "type": spelling}]
    schema = json.dumps({"type": "struct", "fields": [{**c, "nullable": True, "metadata": {}} for c in columns]})
    (path / "_delta_log").mkdir()
    lines: list[dict] = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": {"id": "x", "format": {"provider": "parquet", "options": {}}, "schemaString": schema}},
        {"add": {"path": f"f/{file.name}", "partitionValues": {}, "size": file.stat().st_size, "modificationTime": 1}},
    ]
    lines[1]["metaData"] |= {"partitionColumns": ["d"] if value else [], "configuration": {}}
    lines[2]["add"] |= {"dataChange": True, "partitionValues": {"d": value} if value else {}}
    (path / f"_delta_log/{0:020}.json").write_text("\n".join(map(json.dumps, lines)))


@pytest.mark.parametrize("spelling", ["interval hour", "interval minute to second", "interval day to second"])
def test_a_narrower_spelling_is_read_as_its_family(spark, rows, tmp_path, spelling):
    foreign(tmp_path / "t", spark, spelling)
    table = f"delta.`{tmp_path}/t`"
    assert rows(f"SELECT string(d) FROM {table}") == [("INTERVAL '0 02:00:00' DAY TO SECOND",)]
    spark.sql(f"INSERT INTO {table} VALUES (2, INTERVAL '1' SECOND)")
    spark.sql(f"ALTER TABLE {table} ADD COLUMN more INT")
    (metadata,) = actions(tmp_path / "t", 2, "metaData")
    assert json.loads(metadata["schemaString"])["fields"][1]["type"] == "interval day to second"
    assert rows(f"SELECT count(*) FROM {table} WHERE d > INTERVAL '1' HOUR") == [(1,)]


@pytest.mark.parametrize("spelling", ["interval month to second", "interval second to day", "INTERVAL Day"])
def test_another_spelling_is_refused(spark, fails, tmp_path, spelling):
    foreign(tmp_path / "t", spark, spelling)
    with fails("INVALID_JSON_DATA_TYPE", spelling, state="2203G"):
        spark.sql(f"SELECT * FROM delta.`{tmp_path}/t`")


def test_partition_values_of_other_writers(spark, rows, tmp_path, fails):
    foreign(tmp_path / "t", spark, "interval day", "INTERVAL '3' DAY")
    assert rows(f"SELECT x, string(d) FROM delta.`{tmp_path}/t`") == [(1, "INTERVAL '3 00:00:00' DAY TO SECOND")]
    assert rows(f"SELECT x FROM delta.`{tmp_path}/t` WHERE d = INTERVAL '72' HOUR") == [(1,)]
    for number, value in enumerate(("soon", "INTERVAL '1 25:00:00' DAY TO SECOND", "INTERVAL '1' MONTH")):
        foreign(tmp_path / f"t{number}", spark, "interval day to second", value)
        with fails("DELTA_INVALID_PARTITION_VALUE", value, "column d"):
            rows(f"SELECT * FROM delta.`{tmp_path}/t{number}`")
