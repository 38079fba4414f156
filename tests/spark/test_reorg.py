"""REORG … APPLY (PURGE) through Spark: deleted rows and dropped columns leave the files, and nothing else does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from headwater.log.files import file_of
from headwater.log.snapshot import load_snapshot
from headwater.stores import LocalStore
from headwater.transaction import Provenance, Transaction
from support.iceberg_tables import read_by_pyiceberg
from support.requests import actions

pytestmark = pytest.mark.spark

_PROPERTIES = "'delta.enableDeletionVectors' = 'true', 'delta.columnMapping.mode' = '{}'"


def live(path: Path) -> list[dict]:
    return load_snapshot(str(path), LocalStore()).files.to_pylist()


def tag_as_cube(path: Path, cube: str) -> None:
    """What another writer's clustering says of the files that are of no cube yet."""
    now = load_snapshot(str(path), LocalStore())
    txn = Transaction(now.table_path, now.store, now)
    for file in now.files.to_pylist():
        if not file["tags"]:
            tags = {"ZCUBE_ID": cube, "ZCUBE_ZORDER_BY": '["id"]'}
            txn.add_action(replace(file_of(file), tags=tags, clustering_provider="liquid"))
    txn.commit(Provenance("OPTIMIZE"))


def leaves(path: Path) -> int:
    """The columns, those of structs by themselves, that the live files have in all."""
    return sum(pq.read_metadata(path / file["path"]).num_columns for file in live(path))


@pytest.mark.parametrize("mode", [pytest.param("name", marks=pytest.mark.soak), "id"])
def test_deleted_rows_and_dropped_columns_leave_the_files(spark, rows, tmp_path, mode) -> None:
    path = tmp_path / "t"
    name = f"delta.`{path}`"
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT, v STRING, s STRUCT<a: INT, b: INT>, l ARRAY<STRUCT<a: INT, b: INT>>, "
        f"p STRING) USING delta PARTITIONED BY (p) TBLPROPERTIES ({_PROPERTIES.format(mode)}, "
        "'delta.enableRowTracking' = 'true')"
    )
    spark.sql(
        f"INSERT INTO {name} SELECT /*+ COALESCE(1) */ id, 'v', named_struct('a', 1, 'b', 2), "
        "array(named_struct('a', 1, 'b', 2)), 'p' || id % 3 FROM range(0, 30, 1, 1)"
    )
    columns = leaves(path)
    assert columns == 3 * 6
    (idle,) = spark.sql(f"REORG TABLE {name} APPLY (PURGE)").collect()
    assert (idle.metrics.numFilesAdded, idle.metrics.totalFilesSkipped) == (0, 3)
    spark.sql(f"DELETE FROM {name} WHERE id = 3")
    ids = rows(f"SELECT id, _metadata.row_id FROM {name} ORDER BY id")

    # A lone file of a partition, and no other.
    (purged,) = spark.sql(f"REORG TABLE {name} APPLY (PURGE)").collect()
    assert purged.path == f"file:{path}"
    assert (purged.metrics.numFilesRemoved, purged.metrics.numFilesAdded) == (1, 1)
    assert purged.metrics.deletionVectorStats.numDeletionVectorRowsRemoved == 1
    assert not any(file["deletion_vector"] for file in live(path))
    (info,) = actions(path, load_snapshot(str(path), LocalStore()).version, "commitInfo")
    assert (info["operation"], info["operationParameters"]) == ("REORG", {"predicate": "[]", "applyPurge": "true"})
    assert not any(file["dataChange"] for kind in ("add", "remove") for file in actions(path, 3, kind))

    # A dropped column, of the table or of a struct, leaves the partition that is asked for.
    spark.sql(f"ALTER TABLE {name} DROP COLUMN v")
    spark.sql(f"ALTER TABLE {name} DROP COLUMN l.element.b")
    spark.sql(f"ALTER TABLE {name} RENAME COLUMN s.a TO v")
    spark.sql(f"ALTER TABLE {name} ADD COLUMN w INT")
    spark.sql(f"REORG TABLE {name} WHERE p = 'p1' APPLY (PURGE)")
    (one,) = [file for file in live(path) if dict(file["partition_values"]).popitem()[1] == "p1"]
    hidden = 2  # the ids of rows and the versions of their commits
    assert pq.read_metadata(path / one["path"]).num_columns == 6 - 2 + 1 + hidden
    spark.sql(f"REORG TABLE {name} APPLY (PURGE)")
    assert leaves(path) == 3 * (6 - 2 + 1 + hidden)
    assert rows(f"SELECT id, _metadata.row_id FROM {name} ORDER BY id") == ids
    assert rows(f"SELECT DISTINCT s.v, s.b, l[0].a, w FROM {name}") == [(1, 2, 1, None)]
    (idle,) = spark.sql(f"REORG TABLE {name} APPLY (PURGE)").collect()
    assert idle.metrics.numFilesRemoved == 0


def test_what_was_clustered_stays_so(spark, tmp_path) -> None:
    path = tmp_path / "t"
    name = f"delta.`{path}`"
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT) USING delta CLUSTER BY (id) TBLPROPERTIES ({_PROPERTIES.format('none')})"
    )
    for start in (0, 10):
        spark.sql(f"INSERT INTO {name} SELECT /*+ COALESCE(1) */ id FROM range({start}, {start + 10}, 1, 1)")
        tag_as_cube(path, str(start))
    spark.sql(f"DELETE FROM {name} WHERE id IN (3, 13)")
    spark.sql(f"REORG TABLE {name} APPLY (PURGE)")
    assert sorted(dict(file["tags"])["ZCUBE_ID"] for file in live(path)) == ["0", "10"]
    assert {file["clustering_provider"] for file in live(path)} == {"liquid"}
    assert spark.table(name).count() == 18


def test_the_upgrade_to_uniform(spark, tmp_path, fails) -> None:
    """Files with deleted rows, and those of before, are written again; then Iceberg's readers see the table."""
    path = tmp_path / "t"
    name = f"delta.`{path}`"
    spark.sql(f"CREATE TABLE {name} (id BIGINT, s STRING) USING delta TBLPROPERTIES ({_PROPERTIES.format('none')})")
    spark.sql(f"INSERT INTO {name} SELECT /*+ COALESCE(1) */ id, concat('s', id) FROM range(5)")
    spark.sql(f"DELETE FROM {name} WHERE id = 3")
    wanted = "'delta.enableIcebergCompatV2' = 'true', 'delta.columnMapping.mode' = 'name'"
    with fails("DELTA_ICEBERG_COMPAT_VIOLATION.CHANGE_VERSION_NEED_REWRITE", "UPGRADE UNIFORM"):
        spark.sql(
            f"ALTER TABLE {name} SET TBLPROPERTIES ({wanted}, 'delta.enableDeletionVectors' = 'false', "
            "'delta.universalFormat.enabledFormats' = 'iceberg')"
        )
    with fails("DELTA_ICEBERG_COMPAT_VIOLATION.COMPAT_VERSION_NOT_SUPPORTED", "IcebergCompatV3"):
        spark.sql(f"REORG TABLE {name} APPLY (UPGRADE UNIFORM (ICEBERG_COMPAT_VERSION = 3))")
    spark.conf.set("spark.databricks.delta.uniform.iceberg.sync.convert.enabled", "true")
    try:
        (done,) = spark.sql(f"REORG TABLE {name} APPLY (UPGRADE UNIFORM (ICEBERG_COMPAT_VERSION = 2))").collect()
        assert done.metrics.numFilesRemoved == 1
        assert not any(file["deletion_vector"] for file in live(path))
        assert read_by_pyiceberg(path).sort_by("id")["id"].to_pylist() == [0, 1, 2, 4]
        spark.sql(f"DELETE FROM {name} WHERE id = 0")
        assert read_by_pyiceberg(path).sort_by("id")["s"].to_pylist() == ["s1", "s2", "s4"]
    finally:
        spark.conf.unset("spark.databricks.delta.uniform.iceberg.sync.convert.enabled")
    (again,) = spark.sql(f"REORG TABLE {name} APPLY (UPGRADE UNIFORM (ICEBERG_COMPAT_VERSION = 2))").collect()
    assert again.metrics.numFilesRemoved == 0
    with fails("DELTA_UNIVERSAL_FORMAT_VIOLATION", "delta.enableIcebergCompatV2"):
        spark.sql(f"ALTER TABLE {name} UNSET TBLPROPERTIES ('delta.enableIcebergCompatV2')")
