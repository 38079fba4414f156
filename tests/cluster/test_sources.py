"""Sources that are other rows, or in another order, each time they are computed; and executors lost with what they had
of them: the table, its change data and the counts agree, whatever was computed again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.dml.exactness import live_rows, metrics

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]
#: The source's plan as it is written, so that what is computed in which stage is known.
AS_WRITTEN = {
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.headwater.merge.smallTargetBytes": "0",
}


@pytest.fixture
def settings(cluster: Any) -> Iterator[Any]:
    """``settings({key: value})`` for the test."""
    changed: set[str] = set()

    def given(values: dict[str, str]) -> None:
        for key, value in values.items():
            changed.add(key)
            cluster.sql(f"SET {key} = {value}")

    yield given
    for key in changed:
        cluster.sql(f"RESET {key}")


def make(cluster: Any, path: str, vectors: bool, rows: str) -> str:
    name = f"delta.`{path}`"
    cluster.sql(
        f"CREATE TABLE {name} (k INT, v INT) USING delta TBLPROPERTIES ("
        f"'delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = '{str(vectors).lower()}')"
    )
    cluster.sql(f"INSERT INTO {name} {rows}")
    return name


def lose_all_executors(cluster: Any, statement: str) -> Any:
    """Run a statement, and kill every executor once a task of it is held; its answer."""
    cluster.both_executors()
    with cluster.latch() as inside:
        answer = cluster.begin(sql=statement)
        assert inside(answer) is not None, "no task was held"
        for executor in cluster.executors():
            cluster.kill(executor)
        return answer.get()


def changed_as_told(cluster: Any, path: str, before: list[Any]) -> list[Any]:
    """The table's rows, once they were found to be those before with the last version's change data applied."""
    after = cluster.sql(f"SELECT * FROM delta.`{path}`")
    version = max(int(file.stem) for file in Path(path, "_delta_log").glob("*.json"))
    feed = cluster.sql(f"SELECT _change_type, k, v FROM table_changes_by_path('{path}', {version})")
    rows = Counter(map(tuple, before))
    for kind, *row in feed:
        rows[tuple(row)] += 1 if kind in ("insert", "update_postimage") else -1
    assert {row: n for row, n in rows.items() if n} == Counter(map(tuple, after))
    assert live_rows(Path(path)) == len(after)
    return after


@pytest.mark.soak  # the usual run has values that differ each time, of a source that is kept likewise
@pytest.mark.parametrize("vectors", [False, True], ids=["copies", "vectors"])
def test_a_source_that_is_kept_is_the_same_to_the_last_job(
    cluster: Any, table: str, settings: Any, vectors: bool
) -> None:
    """Rows are numbered for the join, and inserted by a second job where their numbers found no match: in another
    order, other rows would have those numbers."""
    name = make(cluster, table, vectors, "SELECT /*+ REPARTITION(3) */ id, 0 FROM range(0, 60, 2)")
    source = make(cluster, f"{table}_source", False, "SELECT /*+ REPARTITION(3) */ id, id FROM range(60)")
    settings(AS_WRITTEN)
    [[affected, updated, deleted, inserted]] = lose_all_executors(
        cluster,
        f"MERGE INTO {name} t USING (SELECT k, v FROM (SELECT *, noise() AS n FROM {source}) "
        "DISTRIBUTE BY k % 4 SORT BY n) s ON t.k = s.k "
        "WHEN MATCHED THEN UPDATE SET v = s.v "
        "WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, CAST(held(s.v) AS INT))",
    )
    assert (affected, updated, deleted, inserted) == (60, 30, 0, 30)
    found = changed_as_told(cluster, table, [[k, 0] for k in range(0, 60, 2)])
    assert sorted(found) == [[k, k] for k in range(60)]
    assert metrics(Path(table))["numSourceRows"] == 60


@pytest.mark.parametrize(
    ("held", "vectors"),
    [
        pytest.param("held(s.v)", True, id="held_where_it_updates", marks=pytest.mark.soak),
        pytest.param("s.v", False, id="held_in_the_source"),
        pytest.param("held(s.v)", False, id="held_where_it_updates, copies", marks=pytest.mark.soak),
        pytest.param("s.v", True, id="held_in_the_source, vectors", marks=pytest.mark.soak),
    ],
)
def test_values_that_differ_each_time(cluster: Any, table: str, settings: Any, held: str, vectors: bool) -> None:
    name = make(cluster, table, vectors, "SELECT /*+ REPARTITION(3) */ id, -1 FROM range(0, 60, 2)")
    source = make(cluster, f"{table}_source", False, "SELECT /*+ REPARTITION(3) */ id, id FROM range(60)")
    before = cluster.sql(f"SELECT * FROM {name}")
    settings(AS_WRITTEN)
    inner = "held(max(v))" if held == "s.v" else "max(v)"
    [[affected, updated, _, inserted]] = lose_all_executors(
        cluster,
        f"MERGE INTO {name} t USING (SELECT k, CAST({inner} * 0 + 1000000 * noise() AS INT) AS v FROM {source} "
        f"GROUP BY k) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = CAST({held} AS INT) "
        "WHEN NOT MATCHED AND s.k > 30 THEN INSERT *",
    )
    assert (affected, updated, inserted) == (45, 30, 15)
    found = changed_as_told(cluster, table, before)
    assert sorted(row[0] for row in found) == sorted([*range(0, 60, 2), *range(31, 60, 2)])
    assert all(row[1] >= 0 for row in found)


@pytest.mark.soak  # the usual run has such values in a MERGE, above, and an overtaken UPDATE in test_faults.py
@pytest.mark.parametrize("fault", ["killed", "overtaken"])
def test_an_update_with_a_value_that_differs_each_time(cluster: Any, table: str, fault: str) -> None:
    name = make(cluster, table, True, "SELECT /*+ REPARTITION(3) */ id, -1 FROM range(60)")
    before = cluster.sql(f"SELECT * FROM {name}")
    cluster.both_executors()
    with cluster.latch() as inside:
        answer = cluster.begin(
            sql=f"UPDATE {name} SET v = CAST(held(k) * 0 + 1000000 * noise() AS INT) WHERE k % 2 = 0"
        )
        worker = inside(answer)
        assert worker is not None, "no task was held"
        if fault == "killed":
            cluster.kill(cluster.executor_of(worker))
        assert answer.get() == [[30]]
    assert sum(row[1] >= 0 for row in changed_as_told(cluster, table, before)) == 30


def test_rows_counted_in_a_stage_that_is_run_again_count_once(cluster: Any, table: str, settings: Any) -> None:
    name = make(cluster, table, False, "SELECT id, 0 FROM range(20)")
    source = make(cluster, f"{table}_source", False, "SELECT /*+ REPARTITION(4) */ id, id * 7 FROM range(200000)")
    settings({**AS_WRITTEN, "spark.headwater.merge.smallTargetBytes": str(1 << 30)})
    before = cluster.attempts()["retried"]
    lose_all_executors(
        cluster,
        f"MERGE INTO {name} t USING {source} s ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = CAST(held(s.v) AS INT)",
    )
    assert cluster.attempts()["retried"] > before, "no stage was run again"
    assert metrics(Path(table))["numSourceRows"] == 200000
    assert sorted(cluster.sql(f"SELECT * FROM {name}")) == [[k, k * 7] for k in range(20)]
