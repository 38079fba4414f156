"""A catalog of Iceberg, as the settings of Spark's start bring it to the handler."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.sparks.running import Driver

pytest.importorskip("pyiceberg")
pytestmark = pytest.mark.spark

_PROPERTIES = (
    "'delta.enableIcebergCompatV2' = 'true', 'delta.universalFormat.enabledFormats' = 'iceberg', "
    "'headwater.iceberg.table' = 'water.levels'"
)


def test_a_table_is_in_the_catalog(classic: Driver, lake: str, tmp_path: Path) -> None:
    from pyiceberg.catalog.sql import SqlCatalog

    table = f"delta.`{tmp_path}/t`"
    waits = "spark.databricks.delta.uniform.iceberg.sync.convert.enabled"
    answers = classic.run(
        "all_sql",
        texts=[
            f"SET {waits} = true",
            # Settings of the start alone name the catalog.
            "SET spark.headwater.iceberg.catalog.uri = sqlite:////nowhere/lake.db",
            f"CREATE TABLE {table} (id INT, s STRING) USING delta TBLPROPERTIES ({_PROPERTIES})",
            f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b'), (3, 'c')",
            f"DELETE FROM {table} WHERE id = 2",
            f"DESCRIBE HEALTH {table}",
            f"RESET {waits}",
            "RESET spark.headwater.iceberg.catalog.uri",
        ],
    )
    assert [answer.get("text", "") for answer in answers] == [""] * len(answers)
    health = {name: value for section, _, name, value in answers[5]["rows"] if section == "iceberg"}
    assert health == {
        "convertedVersion": "2",
        "versionsBehind": "0",
        "catalogEntry": "water.levels",
        "registeredVersion": "2",
        "failure": None,
    }
    catalog = SqlCatalog("lake", uri=lake)
    rows = catalog.load_table("water.levels").scan().to_arrow().sort_by("id").to_pylist()
    catalog.close()
    assert rows == [{"id": 1, "s": "a"}, {"id": 3, "s": "c"}]
