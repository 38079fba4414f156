"""Iceberg's own runtime for Spark beside ours: it reads the metadata behind our commits, and we make Delta tables of
the tables that it wrote.

``HEADWATER_TEST_EXAMPLES`` asks for another number of statements.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.changelogs import statements
from support.iceberg_spark import IcebergSpark, iceberg_spark
from support.iceberg_story import SETTINGS, Story, Where, tell
from support.iceberg_tables import read_by_pyiceberg
from support.plain import plain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.soak, pytest.mark.timeout(3600)]
STATEMENTS = min(200, int(os.environ.get("HEADWATER_TEST_EXAMPLES", "20")))
COLUMNS = "k BIGINT, v BIGINT, p STRING"
CONVERTED = "'delta.enableIcebergCompatV2' = 'true', 'delta.universalFormat.enabledFormats' = 'iceberg'"
WAITS = "spark.databricks.delta.uniform.iceberg.sync.convert.enabled"
EVERY_TYPE = (
    "id BIGINT, yes BOOLEAN, i INT, f FLOAT, d DOUBLE, de DECIMAL(20, 3), s STRING, b BINARY, day DATE, ts TIMESTAMP, "
    "tn TIMESTAMP_NTZ, st STRUCT<x: INT, y: ARRAY<STRING>>, m MAP<STRING, DECIMAL(5, 2)>"
)
VALUES = (
    "(1, true, -1, 0.5, -0.0D, 12345678901234567.125, 'ü', X'00FF', DATE'1960-01-01', TIMESTAMP'2024-01-01 00:00:00Z', "
    "TIMESTAMP_NTZ'2024-01-01 00:00:00.123456', named_struct('x', 1, 'y', array('a', null)), map('k', 1.25)), "
    "(2, null, null, null, null, null, null, null, null, null, null, null, null)"
)


@pytest.fixture(scope="module")
def iceberg(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IcebergSpark]:
    with iceberg_spark(tmp_path_factory.mktemp("iceberg")) as started:
        yield started


def ours(spark: SparkSession, path: Path | str) -> list[Any]:
    return sorted((plain(row) for row in spark.sql(f"SELECT * FROM delta.`{path}`").collect()), key=repr)


@pytest.mark.parametrize("layout", ["", "PARTITIONED BY (p)", "CLUSTER BY (k)"])
def test_it_reads_what_our_commits_wrote(spark: Any, settings: Any, iceberg: Any, tmp_path: Path, layout: str) -> None:
    print(f"seed {(seed := random.randrange(2**32))}")
    draw, table = random.Random(seed), f"delta.`{tmp_path}/t`"
    with settings({WAITS: "true"}):
        spark.sql(f"CREATE TABLE {table} ({COLUMNS}) USING delta {layout} TBLPROPERTIES ({CONVERTED})")
        spark.sql(f"INSERT INTO {table} SELECT id, id, concat('p', id % 3) FROM range(0, 40, 1, 3)")
        for number, statement in enumerate(statements(draw, table, STATEMENTS)):
            spark.sql(statement)
            if number % 10 == 5:
                spark.sql(f"OPTIMIZE {table}")
            if number % 3 == 0:
                assert iceberg.rows(tmp_path / "t") == ours(spark, tmp_path / "t"), statement
        spark.sql(f"ALTER TABLE {table} RENAME COLUMN v TO `new v`")
        spark.sql(f"ALTER TABLE {table} ADD COLUMN w STRUCT<x: INT>")
        spark.sql(f"INSERT INTO {table} VALUES (9999, 1, 'p1', named_struct('x', 1))")
    assert iceberg.rows(tmp_path / "t") == ours(spark, tmp_path / "t")


def test_it_reads_every_type(spark: Any, settings: Any, iceberg: IcebergSpark, tmp_path: Path) -> None:
    table = f"delta.`{tmp_path}/t`"
    with settings({WAITS: "true"}):
        spark.sql(f"CREATE TABLE {table} ({EVERY_TYPE}) USING delta PARTITIONED BY (day) TBLPROPERTIES ({CONVERTED})")
        spark.sql(f"INSERT INTO {table} VALUES {VALUES}")
    assert iceberg.rows(tmp_path / "t") == ours(spark, tmp_path / "t")


def test_its_aggregates_are_those_of_a_scan(spark: Any, settings: Any, iceberg: IcebergSpark, tmp_path: Path) -> None:
    """It answers some from the manifests, so a bound there that is no value of the table must not count as one."""
    columns = {
        "i": ("INT", "-7", "3"),
        "b": ("BIGINT", "-9007199254740993", "9007199254740993"),
        "day": ("DATE", "DATE'1582-10-04'", "DATE'2024-01-01'"),
        "de": ("DECIMAL(20, 2)", "-123456789012345678.91", "123456789012345678.93"),
        "old": ("TIMESTAMP", "TIMESTAMP'1899-12-31 23:59:59.123456Z'", "TIMESTAMP'1960-01-01 00:00:00.000001Z'"),
        "ts": ("TIMESTAMP", "TIMESTAMP'2024-01-01 00:00:00.123456Z'", "TIMESTAMP'2024-01-02 00:00:00.000001Z'"),
        "tn": ("TIMESTAMP_NTZ", "TIMESTAMP_NTZ'2024-01-01 00:00:00.123456'", "TIMESTAMP_NTZ'2024-01-02 00:00:00'"),
        "f": ("FLOAT", "CAST('NaN' AS FLOAT)", "CAST(0.1 AS FLOAT)"),
        "d": ("DOUBLE", "-0.0D", "DOUBLE('NaN')"),
        "s": ("STRING", f"'{'a' * 40}'", f"'{'ü' * 40}'"),
    }
    table = f"delta.`{tmp_path}/t`"
    declared = ", ".join(f"{name} {kind}" for name, (kind, _, _) in columns.items())
    with settings({WAITS: "true"}):
        spark.sql(f"CREATE TABLE {table} ({declared}, st STRUCT<x: DOUBLE>) USING delta TBLPROPERTIES ({CONVERTED})")
        for number in (1, 2):
            values = ", ".join(row[number] for row in columns.values())
            spark.sql(f"INSERT INTO {table} SELECT {values}, named_struct('x', 1.5D)")
        spark.sql(f"INSERT INTO {table} (i) VALUES (NULL)")
    asked = [f"{kind}({name}) AS {kind}_{n}" for n, name in enumerate([*columns, "st.x"])
             for kind in ("min", "max", "count")]  # fmt: skip
    for some in (asked, ["count(*) AS n"], *([each] for each in asked)):
        (wanted,) = (plain(row) for row in spark.table(table).selectExpr(*some).collect())
        assert iceberg.rows(tmp_path / "t", columns=some) == [wanted], some


@pytest.mark.parametrize("seed", [17, 21, None])
def test_it_reads_tables_that_are_defined_again(
    spark: Any, settings: Any, iceberg: IcebergSpark, tmp_path: Path, seed: int | None
) -> None:
    def theirs(path: Path, where: Where | None) -> list[Any]:
        read_by_pyiceberg(path)
        return iceberg.rows(path) if where is None else iceberg.rows(path, where.sql)

    def own(path: Path, where: Where | None) -> list[Any]:
        text = f"SELECT * FROM delta.`{path}`" + ("" if where is None else f" WHERE {where.sql}")
        return [plain(row) for row in spark.sql(text).collect()]

    seed = random.randrange(2**32) if seed is None else seed
    with settings(SETTINGS):
        tell(Story(spark.sql, tmp_path / "t", seed, theirs, own), STATEMENTS)


@pytest.mark.parametrize("version", [2, 3])
def test_its_tables_become_ours(spark: Any, iceberg: IcebergSpark, tmp_path: Path, version: int) -> None:
    print(f"seed {(seed := random.randrange(2**32))}")
    name = f"lake.db.t{version}"
    modes = ", ".join(f"'write.{kind}.mode' = 'merge-on-read'" for kind in ("delete", "update", "merge"))
    iceberg.sql(
        f"CREATE TABLE {name} ({COLUMNS}) USING iceberg PARTITIONED BY (p) "
        f"TBLPROPERTIES ('format-version' = '{version}', {modes})"
    )
    iceberg.sql(f"INSERT INTO {name} SELECT id, id, concat('p', id % 3) FROM range(0, 40, 1, 3)")
    for statement in statements(random.Random(seed), name, 12):
        if "REPLACE WHERE" not in statement:
            iceberg.sql(statement)
    iceberg.sql(f"DELETE FROM {name} WHERE k % 7 = 3")
    at = iceberg.place(f"db.t{version}")
    theirs = iceberg.rows(at)
    clone = tmp_path / "clone"
    spark.sql(f"CREATE TABLE delta.`{clone}` SHALLOW CLONE iceberg.`{at}`")
    assert ours(spark, clone) == theirs
    vectors = [
        row.value for row in spark.sql(f"DESCRIBE HEALTH delta.`{clone}`").collect() if row.name == "deletedRows"
    ]
    assert int(vectors[0]) > 0
    spark.sql(f"CONVERT TO DELTA iceberg.`{at}`")
    assert ours(spark, at) == theirs
    spark.sql(f"DELETE FROM delta.`{at}` WHERE k % 5 = 0")
    spark.sql(f"OPTIMIZE delta.`{at}`")
    assert ours(spark, at) == [row for row in theirs if row[0] % 5]


@pytest.mark.parametrize("version", [2, 3])
def test_its_types_become_ours(spark: Any, iceberg: IcebergSpark, version: int) -> None:
    name = f"lake.db.types{version}"
    iceberg.sql(f"CREATE TABLE {name} ({EVERY_TYPE}) USING iceberg TBLPROPERTIES ('format-version' = '{version}')")
    iceberg.sql(f"INSERT INTO {name} VALUES {VALUES}")
    iceberg.sql(f"ALTER TABLE {name} ALTER COLUMN i TYPE BIGINT")
    iceberg.sql(f"ALTER TABLE {name} RENAME COLUMN s TO t")
    at = iceberg.place(f"db.types{version}")
    theirs = iceberg.rows(at)
    spark.sql(f"CONVERT TO DELTA iceberg.`{at}`")
    assert ours(spark, at) == theirs
