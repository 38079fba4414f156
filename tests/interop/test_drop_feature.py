"""ALTER TABLE … DROP FEATURE in both engines: the same protocol and properties, and each reads what the other left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deltalake
import pytest

from headwater.log.snapshot import Snapshot, load_snapshot
from headwater.protocol.actions import Protocol
from headwater.stores import LocalStore

#: By feature: what a table has before, and the statements that use it.
TABLES = {
    "deletionVectors": ("'delta.enableDeletionVectors' = 'true'", ["DELETE FROM {t} WHERE k % 3 = 1"]),
    "columnMapping": ("'delta.columnMapping.mode' = 'name'", ["ALTER TABLE {t} RENAME COLUMN v TO w"]),
    "typeWidening": ("'delta.enableTypeWidening' = 'true'", ["ALTER TABLE {t} ALTER COLUMN k TYPE BIGINT"]),
    "rowTracking": ("'delta.enableRowTracking' = 'true'", []),
    "inCommitTimestamp": ("'delta.enableInCommitTimestamps' = 'true'", []),
    "v2Checkpoint": (
        "'delta.checkpointPolicy' = 'v2', 'delta.checkpointInterval' = '2'",
        ["DELETE FROM {t} WHERE k = 1"],
    ),
    "vacuumProtocolCheck": ("'delta.feature.vacuumProtocolCheck' = 'supported'", []),
    "materializePartitionColumns": ("'delta.feature.materializePartitionColumns' = 'supported'", []),
    "checkConstraints": ("'delta.minWriterVersion' = '3'", []),
}


#: Features by which a table can have everything that clients may not know, in the order in which they can be dropped.
ALL = (
    *("v2Checkpoint", "deletionVectors", "typeWidening", "columnMapping", "rowTracking", "domainMetadata"),
    *("inCommitTimestamp", "checkpointProtection TRUNCATE HISTORY"),
)


def _snapshot(path: Path) -> Snapshot:
    return load_snapshot(str(path), LocalStore())


def _essence(path: Path) -> tuple[Any, ...]:
    """What two engines must agree on: not the version that is protected, which depends on the number of commits."""
    snapshot = _snapshot(path)
    protected = "delta.requireCheckpointProtectionBeforeVersion"
    configuration = {k: v if k != protected else "some" for k, v in snapshot.metadata.configuration.items()}
    return snapshot.protocol, configuration, snapshot.metadata.schema_string, snapshot.domain_metadata


def test_a_table_without_features_is_anybodys(spark: Any, peer: Any, ours: Any, tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = f"delta.`{path}`"
    spark.sql(
        f"CREATE TABLE {table} (k INT, v STRING, p INT) USING delta PARTITIONED BY (p) TBLPROPERTIES ("
        "'delta.enableDeletionVectors' = 'true', 'delta.columnMapping.mode' = 'name', 'delta.checkpointPolicy' = 'v2', "
        "'delta.enableTypeWidening' = 'true', 'delta.enableRowTracking' = 'true', 'delta.checkpointInterval' = '2', "
        "'delta.enableInCommitTimestamps' = 'true', "
        "'delta.dropFeatureTruncateHistory.retentionDuration' = 'interval 0 seconds')"
    )
    spark.sql(f"INSERT INTO {table} SELECT id, 'x', id % 2 FROM range(0, 40, 1, 2)")
    spark.sql(f"DELETE FROM {table} WHERE k % 3 = 1")
    spark.sql(f"ALTER TABLE {table} RENAME COLUMN v TO w")
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN k TYPE BIGINT")
    before = ours(path)
    for feature in ALL:
        spark.sql(f"ALTER TABLE {table} DROP FEATURE {feature}")
        assert ours(path) == before, feature
        if feature == "columnMapping":  # delta-rs knows neither vectors in its writer nor other names
            assert _rows_of_delta_rs(path) == before
    assert _snapshot(path).protocol == Protocol(1, 2)
    assert peer.table(path) == _rows_of_delta_rs(path) == before
    peer.sql(f"INSERT INTO {table} VALUES (77, 'y', 0)")
    deltalake.DeltaTable(str(path)).delete("k = 0")
    assert len(ours(path)) == len(before)


def _rows_of_delta_rs(path: Path) -> list[Any]:
    rows = deltalake.DeltaTable(str(path)).to_pyarrow_table().to_pylist()
    return sorted((list(row.values()) for row in rows), key=repr)


@pytest.mark.soak
@pytest.mark.parametrize("feature", TABLES)
def test_both_leave_the_same_table(spark: Any, peer: Any, ours: Any, tmp_path: Path, feature: str) -> None:
    properties, statements = TABLES[feature]
    paths = [tmp_path / "ours", tmp_path / "theirs"]
    for path, other in zip(paths, (spark.sql, peer.sql), strict=True):
        table = f"delta.`{path}`"
        spark.sql(f"CREATE TABLE {table} (k INT, v STRING) USING delta TBLPROPERTIES ({properties})")
        spark.sql(f"INSERT INTO {table} SELECT id, 'x' FROM range(0, 20, 1, 2)")
        for statement in statements:
            spark.sql(statement.replace("{t}", table))
        before = ours(path)
        other(f"ALTER TABLE {table} DROP FEATURE {feature}")
        assert ours(path) == peer.table(path) == before
        assert _rows_of_delta_rs(path) == before
    assert _essence(paths[0]) == _essence(paths[1])
    # Both go on with the table that the other one left.
    for path, engine in zip(paths, (peer.sql, spark.sql), strict=True):
        engine(f"INSERT INTO delta.`{path}` VALUES (77, 'y')")
        assert ours(path) == peer.table(path)
