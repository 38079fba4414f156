"""A changelog applied row by row gives the table of each version, after random statements.

``HEADWATER_TEST_EXAMPLES`` asks for another number of statements, drawn anew.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from headwater import changelog
from support.changelogs import COLUMNS, dicts, in_order, pairs, statements, states

EXAMPLES = int(os.environ.get("HEADWATER_TEST_EXAMPLES", "6"))
SEED = "HEADWATER_TEST_EXAMPLES" not in os.environ


@pytest.mark.random
@pytest.mark.parametrize(("vectors", "partitioning"), [("true", ""), ("false", "PARTITIONED BY (p)")])
def test_applied_row_by_row_it_is_the_table(
    spark: Any, database: str, tmp_path: Path, vectors: str, partitioning: str
) -> None:
    rng = random.Random(15 if SEED else None)
    spark.sql(
        f"CREATE TABLE t (k BIGINT, v BIGINT, p STRING) USING delta {partitioning} TBLPROPERTIES "
        f"('delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = '{vectors}')"
    )
    spark.sql("INSERT INTO t SELECT id, id, concat('p', id % 3) FROM range(0, 40, 1, 3)")
    for statement in statements(rng, "t", EXAMPLES):
        spark.sql(statement)
    rows = dicts(spark.sql("SELECT * FROM table_changelog('t', 1)").collect())
    tables = states(rows)
    last = max(tables)
    for version in {*rng.sample(sorted(tables), min(4, len(tables))), last}:
        read = spark.sql(f"SELECT * FROM t VERSION AS OF {version}").collect()
        assert Counter(tuple(row) for row in read) == tables[version], version
    (path,) = spark.sql("DESCRIBE DETAIL t").select("location").first()
    by_arrow = changelog.read(path, starting_version=1)
    assert by_arrow.schema.names == [*spark.table("t").columns, *COLUMNS]
    found = by_arrow.read_all().to_pylist()
    for row in found:
        row["_commit_timestamp"] = row["_commit_timestamp"].replace(tzinfo=None)
    assert found == in_order(rows)
    # No statement moves a row to another partition, so all updates are pairs, and of one key.
    updates = [row for row in in_order(rows) if row["_row_kind"] in ("-U", "+U")]
    assert len(pairs(rows)) * 2 == len(updates) > 0
    assert all(before[0] == after[0] for before, after in pairs(rows))
