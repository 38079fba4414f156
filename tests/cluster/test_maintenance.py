"""Statements that write files together, whose executors are killed while they write: no row is lost or twice there."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.dml.exactness import live_rows, strays

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

_ROWS = 600_000
_PROPERTIES = "'delta.enableDeletionVectors' = 'true', 'delta.enableRowTracking' = 'true'"


#: The first of them, and all the rest in a long run: each takes half a minute.
STATEMENTS = [
    "OPTIMIZE {}",
    pytest.param("OPTIMIZE {} ZORDER BY (v)", marks=pytest.mark.soak),
    pytest.param("REORG TABLE {} APPLY (PURGE)", marks=pytest.mark.soak),
]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_executors_are_killed_while_files_are_written(cluster: Any, table: str, statement: str) -> None:
    name, path = f"delta.`{table}`", Path(table)
    cluster.sql(f"CREATE TABLE {name} (id BIGINT, v STRING) USING delta TBLPROPERTIES ({_PROPERTIES})")
    # Texts that compress badly keep the tasks busy for long enough to be killed.
    cluster.sql(f"INSERT INTO {name} SELECT id, sha2(CAST(id AS STRING), 256) FROM range(0, {_ROWS}, 1, 8)")
    cluster.sql(f"DELETE FROM {name} WHERE id % 3 = 0")
    content = "count(*), sum(id), sum(id * id), sum(hash(id, v, row))"
    rows = f"SELECT {content} FROM (SELECT *, _metadata.row_id AS row FROM {name})"
    expected = cluster.sql(rows)
    assert expected[0][0] == _ROWS * 2 // 3

    cluster.both_executors()
    before = cluster.attempts()["failed"]
    there = set(path.glob("*.parquet"))
    answer = cluster.begin(sql=statement.format(name))
    cluster.wait_for(lambda: set(path.glob("*.parquet")) > there or answer.is_there, "a file that is being written")
    assert not answer.is_there, "the statement was over before an executor could be killed"
    for executor in cluster.executors():
        cluster.kill(executor)
    answer.get()
    cluster.wait_for(lambda: cluster.attempts()["failed"] > before, "the fault to be in Spark's event log")

    assert cluster.sql(rows) == expected
    assert live_rows(path) == _ROWS * 2 // 3
    assert cluster.sql(f"SELECT count(DISTINCT _metadata.file_path) FROM {name}") < [[8]]
    # What the killed tasks have left is no one's, and VACUUM takes it.
    cluster.sql("SET spark.databricks.delta.retentionDurationCheck.enabled = false")
    cluster.sql(f"VACUUM {name} RETAIN 0 HOURS")
    cluster.sql("RESET spark.databricks.delta.retentionDurationCheck.enabled")
    assert not strays(path)
    assert cluster.sql(rows) == expected


def _killed(cluster: Any, statement: str, reached: Callable[[], bool]) -> None:
    """Run a statement whose executors are killed once it has got somewhere."""
    cluster.both_executors()
    before = cluster.attempts()["failed"]
    answer = cluster.begin(sql=statement)
    cluster.wait_for(lambda: reached() or answer.is_there, "its tasks to be at work")
    assert not answer.is_there, "the statement was over before an executor could be killed"
    for executor in cluster.executors():
        cluster.kill(executor)
    answer.get()
    cluster.wait_for(lambda: cluster.attempts()["failed"] > before, "the fault to be in Spark's event log")


@pytest.mark.soak
def test_executors_are_killed_while_files_are_copied(cluster: Any, table: str) -> None:
    name, copy = f"delta.`{table}`", f"{table}_copy"
    cluster.sql(
        f"CREATE TABLE {name} USING delta AS SELECT id, sha2(CAST(id AS STRING), 256) v FROM range(0, 1000, 1, 4)"
    )
    # Large files that hold few rows keep the tasks busy for long enough to be killed.
    for file in list(Path(table).glob("*.parquet")):
        data = file.read_bytes()
        for number in range(400):
            file.with_name(f"{number}-{file.name}").write_bytes(data)
    lines = (Path(table) / f"_delta_log/{0:020}.json").read_text().splitlines()
    adds = [json.loads(line) for line in lines if '"add"' in line]
    more = [
        json.dumps({"add": {**add["add"], "path": f"{number}-{add['add']['path']}"}})
        for add in adds
        for number in range(400)
    ]
    (Path(table) / f"_delta_log/{1:020}.json").write_text("\n".join(more) + "\n")
    rows = "SELECT count(*), sum(id), sum(hash(id, v)) FROM delta.`{}`"
    expected = cluster.sql(rows.format(table))
    assert expected[0][0] == 401_000
    _killed(cluster, f"CREATE TABLE delta.`{copy}` DEEP CLONE {name}", lambda: any(Path(copy).glob("*.parquet")))
    assert cluster.sql(rows.format(copy)) == expected
    assert not strays(Path(copy))


@pytest.mark.soak
def test_executors_are_killed_while_footers_are_read(cluster: Any, table: str) -> None:
    path = Path(table)
    cluster.sql(f"INSERT OVERWRITE DIRECTORY '{table}' USING parquet SELECT id FROM range(0, 1000, 1, 1)")
    (file,) = path.glob("*.parquet")
    data = file.read_bytes()
    for number in range(20_000):
        (path / f"part-{number}.parquet").write_bytes(data)
    begun = time.monotonic()
    _killed(cluster, f"CONVERT TO DELTA parquet.`{table}`", lambda: time.monotonic() > begun + 2)
    assert cluster.sql(f"SELECT count(*) FROM delta.`{table}`") == [[20_001_000]]
