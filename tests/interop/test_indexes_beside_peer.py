"""A key index in a table that the peer writes, alters and vacuums: the peer keeps it, and answers stay right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_the_peer_keeps_an_index_and_its_files(spark: Any, peer: Any, rows: Any, tmp_path: Path) -> None:
    table = f"delta.`{tmp_path / 't'}`"
    spark.sql(
        f"CREATE TABLE {table} (id BIGINT, name STRING) USING delta "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.enableDeletionVectors' = 'true')"
    )
    spark.sql(f"INSERT INTO {table} SELECT id, 'n' || id FROM range(0, 40, 1, 2)")
    spark.sql(f"CREATE INDEX by_name ON {table} (name)")
    peer.sql(f"INSERT INTO {table} SELECT id, 'n' || id FROM range(40, 60, 1, 1)")
    peer.sql(f"DELETE FROM {table} WHERE id = 7")
    assert rows(f"SHOW INDEXES ON {table}")[0][2:4] == (2, 3)
    spark.conf.set("spark.headwater.keyIndex", "always")
    try:
        assert rows(f"SELECT id FROM {table} WHERE name IN ('n7', 'n8', 'n50') ORDER BY id") == [(8,), (50,)]
        peer.sql(f"OPTIMIZE {table}")
        peer.sql("SET spark.databricks.delta.retentionDurationCheck.enabled = false")
        before = sorted((tmp_path / "t/_headwater").rglob("*"))
        peer.sql(f"VACUUM {table} RETAIN 0 HOURS")
        peer.sql("RESET spark.databricks.delta.retentionDurationCheck.enabled")
        assert sorted((tmp_path / "t/_headwater").rglob("*")) == before
        assert len(before) > 2
        assert rows(f"SHOW INDEXES ON {table}")[0][2:4] == (0, 1)
        assert rows(f"SELECT id FROM {table} WHERE name IN ('n7', 'n8', 'n50') ORDER BY id") == [(8,), (50,)]
        assert rows(f"REFRESH INDEX ON {table}")[0][:2] == ("by_name", 1)
        # Of another engine's rename, the property knows nothing: the index is not used then.
        peer.sql(f"ALTER TABLE {table} RENAME COLUMN name TO title")
        assert "no column name" in rows(f"SHOW INDEXES ON {table}")[0][6]
        assert rows(f"SELECT id FROM {table} WHERE title = 'n8'") == [(8,)]
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('headwater.index.by_name.columns' = 'title')")
        assert rows(f"SHOW INDEXES ON {table}")[0][1:4] == ("title", 1, 1)
    finally:
        spark.conf.unset("spark.headwater.keyIndex")
