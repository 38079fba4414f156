"""The change data feed cannot be read yet, and says so; the table itself is not read in its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


@pytest.mark.parametrize("option", ["readChangeFeed", "readchangedata"])
def test_reading_it_is_refused(spark: Any, rows: Any, fails: Any, tmp_path: Path, option: str) -> None:
    path = str(tmp_path / "t")
    rows(f"CREATE TABLE delta.`{path}` (id INT) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    reader = spark.read.format("delta").option(option, True).option("startingVersion", 0)
    with fails("DELTA_ILLEGAL_OPTION", "change data is not read"):
        reader.load(path).collect()
    with fails("DELTA_ILLEGAL_OPTION", "change data is not read"):
        reader.table(f"delta.`{path}`").collect()
    assert spark.read.format("delta").option(option, False).load(path).collect() == []
