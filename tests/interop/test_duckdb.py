"""DuckDB reads what we write: the log, and the Iceberg metadata behind our commits.

``HEADWATER_TEST_EXAMPLES`` asks for another number of statements.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest

from support.changelogs import statements
from support.duckdb_reader import read
from support.plain import sorted_rows

pytestmark = [pytest.mark.spark, pytest.mark.soak, pytest.mark.timeout(3600)]
STATEMENTS = min(100, int(os.environ.get("HEADWATER_TEST_EXAMPLES", "20")))
COLUMNS = "k BIGINT, v BIGINT, p STRING"
ICEBERG = "'delta.enableIcebergCompatV2' = 'true', 'delta.universalFormat.enabledFormats' = 'iceberg'"
WAITS = "spark.databricks.delta.uniform.iceberg.sync.convert.enabled"


def ours(spark: Any, path: Path) -> list[Any]:
    return sorted_rows(spark.sql(f"SELECT * FROM delta.`{path}`").toArrow())


def story(spark: Any, path: Path, function: str, layout: str, properties: str) -> None:
    print(f"seed {(seed := random.randrange(2**32))}")
    draw, table = random.Random(seed), f"delta.`{path}`"
    spark.sql(f"CREATE TABLE {table} ({COLUMNS}) USING delta {layout} TBLPROPERTIES ({properties})")
    spark.sql(f"INSERT INTO {table} SELECT id, id, concat('p', id % 3) FROM range(0, 40, 1, 3)")
    for number, statement in enumerate(statements(draw, table, STATEMENTS)):
        spark.sql(statement)
        if number % 10 == 5:
            spark.sql(f"OPTIMIZE {table}")
        if number % 4 == 0:
            assert read(function, path) == ours(spark, path), statement
    assert read(function, path) == ours(spark, path)


@pytest.mark.parametrize("layout", ["", "PARTITIONED BY (p)", "CLUSTER BY (k)"])
def test_it_reads_our_iceberg_metadata(spark: Any, settings: Any, tmp_path: Path, layout: str) -> None:
    with settings({WAITS: "true"}):
        story(spark, tmp_path / "t", "iceberg_scan", layout, ICEBERG)


@pytest.mark.parametrize("layout", ["", "PARTITIONED BY (p)", "CLUSTER BY (k)"])
@pytest.mark.parametrize("checkpoints", ["classic", "v2"])
def test_it_reads_our_logs(spark: Any, tmp_path: Path, layout: str, checkpoints: str) -> None:
    properties = "'delta.enableDeletionVectors' = 'true', 'delta.checkpointInterval' = '5'"
    policy = f"'delta.checkpointPolicy' = '{checkpoints}'"
    story(spark, tmp_path / "t", "delta_scan", layout, f"{properties}, {policy}")


def test_it_reads_values_of_each_type(spark: Any, settings: Any, tmp_path: Path) -> None:
    table = f"delta.`{tmp_path}/t`"
    with settings({WAITS: "true"}):
        spark.sql(
            f"CREATE TABLE {table} (id BIGINT, yes BOOLEAN, i INT, f FLOAT, d DOUBLE, de DECIMAL(20, 3), s STRING, "
            "b BINARY, day DATE, ts TIMESTAMP, tn TIMESTAMP_NTZ, st STRUCT<x: INT, y: ARRAY<STRING>>, "
            f"m MAP<STRING, DECIMAL(5, 2)>) USING delta TBLPROPERTIES ({ICEBERG})"
        )
        spark.sql(
            f"INSERT INTO {table} VALUES (1, true, -1, 0.5, -0.0D, 12345678901234567.125, 'ü', X'00FF', "
            "DATE'1960-01-01', TIMESTAMP'2024-01-01 00:00:00Z', TIMESTAMP_NTZ'2024-01-01 00:00:00.123456', "
            "named_struct('x', 1, 'y', array('a', null)), map('k', 1.25)), "
            "(2, null, null, null, null, null, null, null, null, null, null, null, null)"
        )
    for function in ("iceberg_scan", "delta_scan"):
        assert read(function, tmp_path / "t") == ours(spark, tmp_path / "t"), function
