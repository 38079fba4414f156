"""What a table becomes follows from the statements, and not from how a session has set Spark's SQL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

from support.spark_settings import culprits, flips, groups, story

pytestmark = pytest.mark.spark

#: Settings that change what a text of SQL means, or the texts that a query returns.
SAMPLE = {
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.jsonGenerator.ignoreNullFields": "false",
    "spark.sql.ansi.doubleQuotedIdentifiers": "true",
    "spark.sql.parser.escapedStringLiterals": "true",
    "spark.sql.parser.quotedRegexColumnNames": "true",
    "spark.sql.legacy.consecutiveStringLiterals.enabled": "true",
    "spark.sql.legacy.exponentLiteralAsDecimal.enabled": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.groupByOrdinal": "false",
}
#: How many settings a session has changed at once.
TOGETHER = 60


@pytest.fixture(scope="module")
def expected(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, Any]]:
    return story(spark, tmp_path_factory.mktemp("plain") / "t", {})


def test_settings_that_change_texts_change_no_table(spark: Any, tmp_path: Path, expected: Any) -> None:
    assert story(spark, tmp_path / "t", SAMPLE) == expected


VALUES = ["it's", 'a "b"', "a\\d", "${spark.app.name}", "a\nb", "`a`"]


def test_values_of_a_condition_are_no_text(spark: Any, database: str, settings: Any) -> None:
    """A condition that Spark has resolved is handed on as text."""
    rows = spark.createDataFrame([(1, value) for value in [*VALUES, "b"]], "id INT, p STRING")
    rows.write.format("delta").partitionBy("p").saveAsTable("t")
    with settings(SAMPLE):
        for value in VALUES:
            new = spark.createDataFrame([(2, value)], "id INT, p STRING")
            new.writeTo("t").overwrite((F.col("p") == value) & F.col("id").isin(1, 2))
    assert sorted(map(tuple, spark.table("t").collect())) == sorted([(1, "b"), *((2, value) for value in VALUES)])


@pytest.mark.soak
@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_no_setting_changes_a_table(spark: Any, tmp_path: Path, expected: Any) -> None:
    """Every boolean and enumerated setting; many at once, then each alone if some of them changed something."""

    def changes(given: Any) -> bool:
        return story(spark, tmp_path / "t", dict(given)) != expected

    found = [culprit for group in groups(flips(spark), TOGETHER) for culprit in culprits(group, changes)]
    assert found == []
