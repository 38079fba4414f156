"""What is set and does nothing is said in Spark's log; what cannot be is refused, wherever a statement comes from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.spark

#: All of tests/spark is PySpark with a session of its own, so the usual run has them from the other alone.
FRONTENDS = [pytest.param("classic", marks=pytest.mark.soak), "connect"]

UNIFORM = "delta.universalFormat.enabledFormats"


def test_what_has_no_effect_is_in_sparks_log_once(classic: Any, wait: Any, tmp_path: Path) -> None:
    table = f"delta.`{tmp_path}/t`"
    before = len(classic.log)
    classic.rows("SET spark.databricks.delta.stats.skipping = true")
    classic.rows(f"CREATE TABLE {table} (a INT) USING delta TBLPROPERTIES ('delta.tuneFileSizesForRewrites' = 'true')")
    classic.rows(f"INSERT INTO {table} VALUES (1)")
    classic.rows(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.tuneFileSizesForRewrites' = 'false')")
    classic.rows("RESET spark.databricks.delta.stats.skipping")
    last = f"{tmp_path}/last: the property delta.randomizeFilePrefixes"
    classic.rows(f"CREATE TABLE delta.`{tmp_path}/last` (a INT) USING delta "
                 "TBLPROPERTIES ('delta.randomizeFilePrefixes' = 'true')")  # fmt: skip
    wait(lambda: last in classic.log, 60, "the last warning")
    said = classic.log[before:]
    # What a handler composes is parsed without the session's settings, which Spark must not warn of.
    assert "deprecated" not in said, said
    for text in (
        f"{tmp_path}/t: the property delta.tuneFileSizesForRewrites is recorded and has no effect here",
        "the setting spark.databricks.delta.stats.skipping has no effect here",
    ):
        assert said.count(text) == 1, said
        assert "WARN" in next(line for line in said.splitlines() if text in line)


@pytest.mark.parametrize("frontend", FRONTENDS)
def test_uniform_without_compatibility_is_refused(
    frontend: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    driver = request.getfixturevalue(frontend)
    plain, uniform = f"delta.`{tmp_path}/plain`", f"delta.`{tmp_path}/uniform`"
    driver.rows(f"CREATE TABLE {plain} USING delta AS SELECT 1 AS a")
    switched = f"USING delta TBLPROPERTIES ('{UNIFORM}' = 'iceberg')"
    default = f"spark.databricks.delta.properties.defaults.{UNIFORM.removeprefix('delta.')}"

    def refused(statement: str) -> None:
        found = driver.sql(statement)
        assert found.get("condition") == "DELTA_UNIVERSAL_FORMAT_VIOLATION", found
        assert found["state"] == "KD00E"
        assert "iceberg" in found["text"]

    refused(f"CREATE TABLE {uniform} (a INT) {switched}")
    refused(f"CREATE TABLE {uniform} {switched} AS SELECT 1 AS a")
    refused(f"CREATE OR REPLACE TABLE {plain} {switched} AS SELECT 2 AS a")
    refused(f"REPLACE TABLE {plain} (a INT) {switched}")
    refused(f"ALTER TABLE {plain} SET TBLPROPERTIES ('{UNIFORM}' = 'iceberg')")
    driver.rows(f"SET {default} = iceberg")
    refused(f"CREATE TABLE {uniform} (a INT) USING delta")
    driver.rows(f"RESET {default}")
    assert driver.rows(f"SELECT a FROM {plain}") == [[1]]
    assert not (tmp_path / "uniform" / "_delta_log").exists()


@pytest.mark.parametrize("frontend", FRONTENDS)
def test_other_systems_statements(frontend: str, request: pytest.FixtureRequest) -> None:
    driver = request.getfixturevalue(frontend)
    for statement, condition in (
        ("REORG TABLE t APPLY (UPGRADE UNIFORM)", "PARSE_SYNTAX_ERROR"),
        ("UNDROP TABLE t", "DELTA_OPERATION_NOT_ALLOWED"),
        ("DESCRIBE HISTORY t LIMIT many", "PARSE_SYNTAX_ERROR"),
        ("SELEC 1", "PARSE_SYNTAX_ERROR"),
    ):
        assert driver.sql(statement)["condition"] == condition
