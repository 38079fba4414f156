"""Tables with Iceberg compatibility: the files of every statement, what ALTER TABLE enables, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headwater.protocol.column_metadata import COLUMN_ID, NESTED_IDS
from headwater.protocol.columns import all_fields
from headwater.protocol.types import parse_schema
from support.iceberg_tables import read_by_pyiceberg
from support.requests import actions

COLUMNS = "a INT, arr ARRAY<ARRAY<INT>>, m MAP<STRING, STRUCT<x: INT, l: ARRAY<TIMESTAMP>>>, p STRING"
ROWS = "{a}, array(array(1)), map('k', named_struct('x', 1, 'l', array(timestamp'2024-01-01 00:00:00'))), '{p}'"


def select(a, p="x"):
    return "SELECT " + ROWS.format(a=a, p=p)


def compat(version, *more):
    return ", ".join([f"'delta.enableIcebergCompatV{version}' = 'true'", *more])


def added(path, kind="add"):
    versions = range(len(list((Path(path) / "_delta_log").glob("*.json"))))
    return [(version, action) for version in versions for action in actions(path, version, kind)]


def ids_of_table(path):
    """Every id of the newest schema by the path of its field, element, key or value in files."""
    _, metadata = added(path, "metaData")[-1]
    ids: dict[Any, Any] = {}
    for _, field in all_fields(parse_schema(metadata["schemaString"])):
        ids |= {field.physical_name: field.metadata[COLUMN_ID], **field.metadata.get(NESTED_IDS, {})}
    highest = int(metadata["configuration"]["delta.columnMapping.maxColumnId"])
    assert max(ids.values()) <= highest
    assert len(set(ids.values())) == len(ids)
    return ids


def ids_of_file(path, action):
    """Every id of a file, by path from the nearest struct field; its timestamps must be 64 bits."""
    text = str(pq.ParquetFile(Path(path) / action["path"]).schema)
    assert "int96" not in text
    ids = {}

    def walk(field, prefix):
        # What repeats in a map has no id, and the struct in it is no field of the table's.
        own = f"{prefix}.{field.name}" if prefix else field.name
        number = (field.metadata or {}).get(b"PARQUET:field_id")
        if number is not None:
            ids[own] = int(number)
        kind = str(field.type)
        within = [field.type.field(i) for i in range(field.type.num_fields)]
        if kind.startswith("map<"):
            entries = [within[0].type.field(i) for i in range(2)] if len(within) == 1 else within
            for part in entries:
                walk(part, own)
        else:
            for part in within:
                walk(part, own if kind.startswith("list<") else "")

    for column in pq.ParquetFile(Path(path) / action["path"]).schema_arrow:
        walk(column, "")
    return ids


def test_files_of_every_statement_have_all_ids(spark, rows, settings, tmp_path):
    path = tmp_path / "t"
    t = f"delta.`{path}`"
    feed = "'delta.enableChangeDataFeed' = 'true'"
    with settings({"spark.sql.parquet.writeLegacyFormat": "true"}):
        spark.sql(f"CREATE TABLE {t} ({COLUMNS}) USING delta PARTITIONED BY (p) TBLPROPERTIES ({compat(2, feed)})")
        spark.sql(f"INSERT INTO {t} {select(1)} UNION ALL {select(2, 'y')}")
        spark.sql(f"UPDATE {t} SET a = 10 WHERE a = 1")
        spark.sql(f"INSERT INTO {t} {select(3)} UNION ALL {select(4)}")
        spark.sql(f"DELETE FROM {t} WHERE a = 3")
        # A column within a map's value, with an array, and a column that a write brings.
        spark.sql(f"ALTER TABLE {t} ADD COLUMNS (m.value.n ARRAY<INT>)")
        spark.sql(f"INSERT WITH SCHEMA EVOLUTION INTO {t} BY NAME SELECT 5 AS a, 'z' AS p, map(1, array(2)) AS new")
    assert rows(f"SELECT a, p, arr[0][0], m['k'].l[0] IS NULL, new FROM {t} ORDER BY a") == [
        (2, "y", 1, False, None),
        (4, "x", 1, False, None),
        (5, "z", None, True, {1: [2]}),
        (10, "x", 1, False, None),
    ]
    known = ids_of_table(path)
    assert len(known) == 11 + 2 + 4
    files = [*added(path), *added(path, "cdc")]
    assert len(files) >= 7
    for version, action in files:
        ids = ids_of_file(path, action)
        assert set(action["partitionValues"]) < set(ids)
        assert all(known[name] == number for name, number in ids.items()), (version, ids)
        wanted = {name for name, number in known.items() if number <= 11} if version < 5 else set(known)
        assert wanted <= set(ids), (version, wanted - set(ids))
        if "stats" in action:
            assert json.loads(action["stats"])["numRecords"] > 0
            assert action["tags"] == {"ICEBERG_COMPAT_VERSION": "2"}


def test_row_ids_have_the_ids_that_iceberg_reserves(spark, rows, tmp_path):
    path = tmp_path / "t"
    t = f"delta.`{path}`"
    spark.sql(f"CREATE TABLE {t} (a INT, v VARIANT, p INT) USING delta PARTITIONED BY (p)")
    spark.sql(f"INSERT INTO {t} SELECT CAST(id AS INT), NULL, 1 FROM range(0, 4, 1, 1)")
    mapped = "'delta.columnMapping.mode' = 'name'"
    spark.sql(f"ALTER TABLE {t} SET TBLPROPERTIES ({compat(3, mapped)})")
    assert rows(f"SELECT a, _metadata.row_id FROM {t} ORDER BY a") == [(i, i) for i in range(4)]
    spark.sql(f"UPDATE {t} SET a = 10 WHERE a = 3")
    spark.sql(f"INSERT INTO {t} REPLACE WHERE a = 0 SELECT 0, NULL, 1")
    assert [row[1] for row in rows(f"SELECT a, _metadata.row_id FROM {t} WHERE a > 0 ORDER BY a")] == [1, 2, 3]
    _, metadata = added(path, "metaData")[-1]
    hidden = [f"delta.rowTracking.materializedRow{name}ColumnName" for name in ("Id", "CommitVersion")]
    names = [metadata["configuration"][key] for key in hidden]
    ids = [ids_of_file(path, action) for _, action in added(path)]
    with_rows = [[found[name] for name in names] for found in ids if names[0] in found]
    assert with_rows
    assert all(numbers == [2147483540, 2147483539] for numbers in with_rows)
    assert rows(f"SELECT count(*) FROM {t} WHERE a = 10") == [(1,)]


@pytest.mark.parametrize("has_ids", [True, False], ids=["as written", "as earlier releases wrote"])
def test_readers_of_iceberg_read_tracked_rows(spark, settings, tmp_path, has_ids):
    path = tmp_path / "t"
    t = f"delta.`{path}`"
    properties = compat(2, "'delta.universalFormat.enabledFormats' = 'iceberg'", "'delta.enableRowTracking' = 'true'")
    with settings({"spark.databricks.delta.uniform.iceberg.sync.convert.enabled": "true"}):
        spark.sql(
            f"CREATE TABLE {t} (a INT, l ARRAY<INT>, p INT) USING delta PARTITIONED BY (p) TBLPROPERTIES ({properties})"
        )
        spark.sql(f"INSERT INTO {t} VALUES (1, array(1), 1), (2, array(2), 1), (3, null, 2)")
        spark.sql(f"UPDATE {t} SET a = 20 WHERE a = 2")
    _, written = added(path)[-1]
    names = [added(path, "metaData")[0][1]["configuration"][f"delta.rowTracking.materializedRow{name}ColumnName"]
             for name in ("Id", "CommitVersion")]  # fmt: skip
    assert [ids_of_file(path, written)[name] for name in names] == [2147483540, 2147483539]
    if not has_ids:
        file = pq.read_table(path / written["path"], partitioning=None)
        fields = [each.with_metadata(None) if each.name in names else each for each in file.schema]
        pq.write_table(file.cast(pa.schema(fields)), path / written["path"])
    assert sorted(read_by_pyiceberg(path)["a"].to_pylist()) == [1, 3, 20]


def test_a_partition_column_is_renamed(spark, rows, tmp_path):
    t = f"delta.`{tmp_path}/t`"
    spark.sql(f"CREATE TABLE {t} (a INT, p INT) USING delta PARTITIONED BY (p) TBLPROPERTIES ({compat(2)})")
    spark.sql(f"INSERT INTO {t} VALUES (1, 2)")
    spark.sql(f"ALTER TABLE {t} RENAME COLUMN p TO q")
    spark.sql(f"INSERT INTO {t} VALUES (3, 4)")
    assert rows(f"SELECT a FROM {t} WHERE q = 2") == [(1,)]
    spark.sql(f"RESTORE TABLE {t} TO VERSION AS OF 1")
    assert rows(f"SELECT p FROM {t}") == [(2,)]


def test_what_is_refused(spark, fails, tmp_path):
    def violates(rule, *texts):
        return fails(f"DELTA_ICEBERG_COMPAT_VIOLATION.{rule}", *texts)

    t = f"delta.`{tmp_path}/t`"
    create = f"CREATE OR REPLACE TABLE {t} (a INT, p INT) USING delta PARTITIONED BY (p) TBLPROPERTIES ("
    unmapped, other = "'delta.columnMapping.mode' = 'none'", "'delta.enableIcebergCompatV2' = 'false'"
    vectors = "'delta.enableDeletionVectors' = 'true'"
    with violates("INCOMPATIBLE_TABLE_FEATURE", "deletionVectors"):
        spark.sql(f"{create}{compat(1, vectors)})")
    with violates("VERSION_MUTUAL_EXCLUSIVE", "delta.enableIcebergCompatV1, delta.enableIcebergCompatV3"):
        spark.sql(f"{create}{compat(1, compat(3))})")
    with violates("WRONG_REQUIRED_TABLE_PROPERTY", "delta.columnMapping.mode = 'name'", "it is 'none'"):
        spark.sql(f"{create}{compat(2, unmapped)})")
    with violates("UNSUPPORTED_DATA_TYPE", "IcebergCompatV1", "ARRAY<INT>", "column x"):
        spark.sql(f"{create.replace('a INT', 'a INT, x ARRAY<INT>')}{compat(1)})")
    spark.sql(create.replace(" TBLPROPERTIES (", ""))
    spark.sql(f"INSERT INTO {t} VALUES (1, 1)")
    with violates("WRONG_REQUIRED_TABLE_PROPERTY", "delta.columnMapping.mode"):
        spark.sql(f"ALTER TABLE {t} SET TBLPROPERTIES ({compat(2)})")
    mapped = "'delta.columnMapping.mode' = 'name'"
    with violates("FILES_NOT_ICEBERG_COMPAT", "lack the partition columns"):
        spark.sql(f"ALTER TABLE {t} SET TBLPROPERTIES ({compat(1, mapped)})")
    spark.sql(f"ALTER TABLE {t} SET TBLPROPERTIES ({compat(2, mapped)})")
    with violates("DELETION_VECTORS_SHOULD_BE_DISABLED"):
        spark.sql(f"ALTER TABLE {t} SET TBLPROPERTIES ({vectors})")
    with violates("UNSUPPORTED_DATA_TYPE", "VARIANT", "column v"):
        spark.sql(f"INSERT WITH SCHEMA EVOLUTION INTO {t} BY NAME SELECT 2 AS a, 2 AS p, parse_json('1') AS v")
    with violates("UNSUPPORTED_DATA_TYPE", "VARIANT", "column v"):
        spark.sql(f"ALTER TABLE {t} ADD COLUMNS (v VARIANT)")
    spark.sql(f"ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
    with violates("UNSUPPORTED_TYPE_WIDENING", "a from INT to DOUBLE"):
        spark.sql(f"ALTER TABLE {t} ALTER COLUMN a TYPE DOUBLE")
    spark.sql(f"ALTER TABLE {t} ALTER COLUMN a TYPE BIGINT")
    with violates("REPLACE_TABLE_CHANGE_PARTITION_NAMES", "it has p, the new one a"):
        spark.sql(f"{create.replace('BY (p)', 'BY (a)')}{compat(2)})")
    spark.sql(f"{create.replace('p INT', 'p BIGINT')}{compat(2)})")
    spark.sql(f"ALTER TABLE {t} SET TBLPROPERTIES ({compat(1, other)})")


def test_a_file_without_its_number_of_rows_is_not_committed_again(spark, fails, tmp_path):
    """Enabling V3 gives row ids to files that lack them, which commits these files again."""
    path = tmp_path / "t"
    t = f"delta.`{path}`"
    spark.sql(f"CREATE TABLE {t} (a INT) USING delta TBLPROPERTIES ({compat(2)})")
    add = {"path": "f.parquet", "partitionValues": {}, "size": 1, "dataChange": True, "modificationTime": 1}
    (path / "_delta_log" / f"{1:020d}.json").write_text(json.dumps({"add": add}))
    with fails("DELTA_ICEBERG_COMPAT_VIOLATION.MISSING_NUM_RECORDS", "f.parquet"):
        spark.sql(f"ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')")


@pytest.mark.parametrize("version", [1, 2])
def test_features_of_tables_that_do_not_use_them_bind_nobody(spark, tmp_path, version):
    t = f"delta.`{tmp_path}/t`"
    spark.sql(
        f"CREATE TABLE {t} (a INT, v VARIANT, p INT) USING delta PARTITIONED BY (p) TBLPROPERTIES "
        f"('delta.feature.icebergCompatV{version}' = 'supported', 'delta.enableDeletionVectors' = 'true')"
    )
    spark.sql(f"INSERT INTO {t} SELECT 1, parse_json('1'), 2")
    [(_, action)] = added(tmp_path / "t")
    assert len(pq.ParquetFile(tmp_path / "t" / action["path"]).schema_arrow.names) == 2
