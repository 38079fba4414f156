"""Writers at once in one table: none fails where their rows are not the same."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pyspark.sql import SparkSession

_WRITERS = 4


@pytest.mark.parametrize(
    ("vectors", "rounds"),
    [
        pytest.param(True, 4, id="vectors"),
        pytest.param(True, 10, marks=pytest.mark.soak, id="vectors-long"),
        pytest.param(False, 3, marks=pytest.mark.soak, id="copy-on-write"),
    ],
)
def test_updates_and_inserts_at_once(spark: SparkSession, rows: Any, database: str, vectors: bool, rounds: int) -> None:
    """Each writer updates two rows of its own, which lie in the files of all, and adds one, again and again."""
    rows(
        "CREATE TABLE t (id INT, writer INT, n INT) USING delta "
        f"TBLPROPERTIES ('delta.enableDeletionVectors' = '{str(vectors).lower()}')"
    )
    for first in (0, _WRITERS):
        numbers = f"range({first}, {first + _WRITERS}, 1, 1)"
        rows(f"INSERT INTO t SELECT CAST(id AS INT), id % {_WRITERS}, 0 FROM {numbers}")

    def write(writer: int) -> int:
        updated = 0
        for number in range(rounds):
            updated += spark.sql(f"UPDATE t SET n = n + 1 WHERE id IN ({writer}, {writer + _WRITERS})").collect()[0][0]
            spark.sql(f"INSERT INTO t VALUES ({1000 + writer * 100 + number}, {writer}, 0)")
        return updated

    with ThreadPoolExecutor(_WRITERS) as pool:
        updated = list(pool.map(write, range(_WRITERS)))
    assert updated == [2 * rounds] * _WRITERS
    assert rows("SELECT DISTINCT n FROM t WHERE id < 1000") == [(rounds,)]
    assert rows("SELECT count(*) FROM t WHERE id >= 1000") == [(_WRITERS * rounds,)]
    assert rows("SELECT count(*) FROM t WHERE id < 1000") == [(2 * _WRITERS,)]
