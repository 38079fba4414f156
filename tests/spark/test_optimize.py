"""OPTIMIZE through Spark: what is compacted and what is left, in what order, beside other writers, and the answer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.log.snapshot import Snapshot, load_snapshot
from headwater.stores import LocalStore
from headwater.tables import DeltaTable
from support.gates import Gate, register
from support.requests import actions

pytestmark = pytest.mark.spark

_SMALL = "spark.databricks.delta.optimize.maxFileSize"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a t"


@pytest.fixture
def table(spark, path) -> Callable[..., str]:
    """``table(properties…)``: a table of six files of ten rows in two partitions, numbered as they were written."""

    def make(partitioned: bool = True, **properties: str) -> str:
        name = f"delta.`{path}`"
        by = "PARTITIONED BY (p)" if partitioned else ""
        given = ", ".join(f"'delta.{key}' = '{value}'" for key, value in properties.items())
        given = f"TBLPROPERTIES ({given})" if given else ""
        spark.sql(f"CREATE TABLE {name} (id BIGINT, v STRING, p STRING) USING delta {by} {given}")
        for start in range(0, 60, 20):
            spark.sql(
                f"INSERT INTO {name} SELECT /*+ COALESCE(1) */ id, 'v' || id, 'p' || id % 2 "
                f"FROM range({start}, {start + 20}, 1, 1)"
            )
        return name

    return make


def snapshot(path: Path) -> Snapshot:
    return load_snapshot(str(path), LocalStore())


def files(path: Path) -> dict[str, int]:
    """The number of live files of each partition."""
    found: dict[str, int] = {}
    for row in snapshot(path).files.to_pylist():
        key = str(dict(row["partition_values"]).get("p"))
        found[key] = found.get(key, 0) + 1
    return found


def version(path: Path) -> int:
    return snapshot(path).version


def test_each_partition_becomes_a_file_with_its_rows_in_order(spark, rows, table, path) -> None:
    name = table(enableChangeDataFeed="true", appendOnly="true")
    before = rows(f"SELECT * FROM {name} ORDER BY id")
    old = {row["path"]: row["size"] for row in snapshot(path).files.to_pylist()}
    (answer,) = spark.sql(f"OPTIMIZE {name}").collect()
    assert files(path) == {"p0": 1, "p1": 1}
    assert rows(f"SELECT * FROM {name} ORDER BY id") == before
    for p in (0, 1):
        found = rows(f"SELECT id FROM {name} WHERE p = 'p{p}'")
        assert found == sorted(found)
    metrics = answer.metrics
    new = [row["size"] for row in snapshot(path).files.to_pylist()]
    assert answer.path == f"file:{path}"
    assert (metrics.numFilesAdded, metrics.numFilesRemoved, metrics.partitionsOptimized) == (2, 6, 2)
    assert tuple(metrics.filesAdded) == (min(new), max(new), sum(new) / 2, 2, sum(new))
    assert tuple(metrics.filesRemoved) == (
        min(old.values()), max(old.values()), sum(old.values()) / 6, 6, sum(old.values()),
    )  # fmt: skip
    assert (metrics.totalConsideredFiles, metrics.totalFilesSkipped, metrics.numBatches, metrics.numBins) == (
        6,
        0,
        1,
        2,
    )
    (info,) = actions(path, 4, "commitInfo")
    assert (info["operation"], info["isolationLevel"]) == ("OPTIMIZE", "SnapshotIsolation")
    assert info["operationParameters"] == {"predicate": "[]", "zOrderBy": "[]", "clusterBy": "[]", "auto": "false"}
    assert info["operationMetrics"]["numAddedFiles"] == "2"
    assert info["operationMetrics"]["maxFileSize"] == str(max(new))
    assert not any(file["dataChange"] for kind in ("add", "remove") for file in actions(path, 4, kind))
    assert rows(f"SELECT * FROM table_changes_by_path('{path}', 4)") == []
    # Nothing is left to do.
    (again,) = spark.sql(f"OPTIMIZE {name}").collect()
    assert (again.metrics.numFilesAdded, again.metrics.numFilesRemoved, version(path)) == (0, 0, 4)


@pytest.mark.parametrize(
    ("condition", "left"),
    [
        ("p = 'p0'", {"p0": 1, "p1": 3}),
        pytest.param("p > 'p0' AND p IS NOT NULL", {"p0": 3, "p1": 1}, marks=pytest.mark.soak),
        ("concat(p, 'x') = 'p1x'", {"p0": 3, "p1": 1}),
        ("p = 'nowhere'", {"p0": 3, "p1": 3}),
    ],
)
def test_where_takes_whole_partitions(spark, table, path, condition, left) -> None:
    spark.sql(f"OPTIMIZE {table()} WHERE {condition}")
    assert files(path) == left


def test_where_with_parameters_and_identifiers(spark, table, path, fails) -> None:
    name = table()
    spark.sql("OPTIMIZE IDENTIFIER(:t) WHERE p = :p", args={"t": name, "p": "p1"})
    assert files(path) == {"p0": 3, "p1": 1}
    spark.sql(f"BEGIN OPTIMIZE {name} WHERE p = 'p0'; END")
    assert files(path) == {"p0": 1, "p1": 1}
    with fails("DELTA_NON_PARTITION_COLUMN_REFERENCE", "uses id", ": p."):
        spark.sql(f"OPTIMIZE {name} WHERE id = 1")
    with fails("DELTA_NON_PARTITION_COLUMN_REFERENCE", "subquery"):
        spark.sql(f"OPTIMIZE {name} WHERE p = (SELECT max(p) FROM {name})")
    with fails("UNRESOLVED_COLUMN.WITH_SUGGESTION", "nosuch"):
        spark.sql(f"OPTIMIZE {name} WHERE nosuch = 1")
    with fails("DELTA_OPTIMIZE_FULL_NOT_SUPPORTED", "CLUSTER BY"):
        spark.sql(f"OPTIMIZE {name} FULL")
    with fails("PARSE_SYNTAX_ERROR", "in this order"):
        spark.sql(f"OPTIMIZE {name} ZORDER BY (id) WHERE p = 'p0'")
    assert version(path) == 5


def test_large_files_are_left_and_those_full_of_deleted_rows_are_not(spark, rows, table, path, settings) -> None:
    name = table(partitioned=False, enableDeletionVectors="true")
    sizes = [row["size"] for row in snapshot(path).files.to_pylist()]
    spark.sql(f"DELETE FROM {name} WHERE id BETWEEN 21 AND 23")  # 15 % of one file
    spark.sql(f"DELETE FROM {name} WHERE id = 1")  # 5 % of another, which is not more than 5 %
    with settings({"spark.databricks.delta.optimize.minFileSize": str(min(sizes))}):
        dry = spark.sql(f"OPTIMIZE {name} DRY RUN").collect()
        spark.sql(f"OPTIMIZE {name}")
    assert [(row.numFiles, [file.reason for file in row.files]) for row in dry] == [
        (1, ["15% of its rows are deleted"])
    ]
    (gone,) = actions(path, version(path), "remove")
    assert gone["path"] == dry[0].files[0].path
    assert "deletionVector" in gone
    vectors = [row["deletion_vector"] is None for row in snapshot(path).files.to_pylist()]
    assert sorted(vectors) == [False, True, True]
    (answer,) = spark.sql(f"OPTIMIZE {name}").collect()
    assert tuple(answer.metrics.deletionVectorStats) == (1, 1)
    assert [id for (id,) in rows(f"SELECT id FROM {name} ORDER BY id")] == [
        i for i in range(60) if i not in (1, 21, 22, 23)
    ]


def test_files_are_packed_up_to_the_size(spark, rows, table, path, settings) -> None:
    name = table(partitioned=False)
    sizes = [row["size"] for row in snapshot(path).files.to_pylist()]
    with settings({_SMALL: str(max(sizes) * 2 + 1)}):
        spark.sql(f"OPTIMIZE {name}")
    assert files(path) == {"None": 2}
    with settings({_SMALL: "1", "spark.databricks.delta.optimize.batchSize": "1"}):
        spark.sql(f"OPTIMIZE {name}")
    assert version(path) == 4
    assert rows(f"SELECT count(*), sum(id) FROM {name}") == [(60, sum(range(60)))]


def test_batches_are_commits_of_their_own(spark, table, path, settings) -> None:
    name = table()
    with settings({"spark.databricks.delta.optimize.batchSize": "1"}):
        (answer,) = spark.sql(f"OPTIMIZE {name}").collect()
    assert (answer.metrics.numBatches, answer.metrics.numFilesRemoved, version(path)) == (2, 6, 5)


def test_wrong_settings(spark, table, fails, settings, path) -> None:
    name = table()
    for key, value in (("minFileSize", "many"), ("maxFileSize", "-1"), ("maxDeletedRowsRatio", "2")):
        with settings({f"spark.databricks.delta.optimize.{key}": value}), fails("DELTA_ILLEGAL_OPTION", key, value):
            spark.sql(f"OPTIMIZE {name}")
    assert version(path) == 3


def test_rows_keep_their_ids_and_values_of_any_type(spark, rows, path) -> None:
    name = f"delta.`{path}`"
    spark.sql(
        f"CREATE TABLE {name} (id INT, `a b` STRUCT<x: DECIMAL(20, 3), y: ARRAY<TIMESTAMP>>, m MAP<STRING, BINARY>, "
        "n TIMESTAMP_NTZ, v VARIANT, `p,q` TIMESTAMP, nothing VOID) USING delta PARTITIONED BY (`p,q`) TBLPROPERTIES "
        "('delta.enableRowTracking' = 'true', 'delta.columnMapping.mode' = 'name', "
        "'delta.enableDeletionVectors' = 'true')"
    )
    for start in (0, 10, 20):
        spark.sql(
            f"INSERT INTO {name} SELECT /*+ COALESCE(1) */ id, struct(id / 3, array(timestamp_seconds(id))), "
            "map('k', CAST(CAST(id AS STRING) AS BINARY)), TIMESTAMP_NTZ'2024-01-01 00:00:00', parse_json('[1]'), "
            f"IF(id % 3 = 0, NULL, timestamp_seconds(id % 3)), NULL FROM range({start}, {start + 10}, 1, 1)"
        )
    spark.sql(f"ALTER TABLE {name} RENAME COLUMN m TO mm")
    spark.sql(f"UPDATE {name} SET n = n + INTERVAL 1 DAY WHERE id IN (4, 5)")
    query = (
        "SELECT id, `a b`, mm, n, to_json(v), `p,q`, nothing, _metadata.row_id, _metadata.row_commit_version "
        f"FROM {name} ORDER BY id"
    )
    before = rows(query)
    spark.sql(f"OPTIMIZE {name}")
    assert rows(query) == before
    assert snapshot(path).num_files == 3


def test_the_api(spark, table, path) -> None:
    name = table()
    answer = DeltaTable.forPath(spark, str(path)).optimize().where("p = 'p0'").executeCompaction()
    assert answer.select("metrics.numFilesRemoved").collect() == [(3,)]
    assert answer.columns == spark.sql(f"OPTIMIZE {name} WHERE p = 'p0'").columns == ["path", "metrics"]


@pytest.mark.parametrize(
    ("statement", "expected", "alone"),
    [
        ("DELETE FROM {t} WHERE id = 3 AND gate(CAST(id AS INT)) = 3", None, 1),
        ("UPDATE {t} SET v = 'w' WHERE id = 3 AND gate(CAST(id AS INT)) = 3", "w", 1),
        (
            "MERGE INTO {t} t USING (SELECT 3L AS id) s ON t.id = s.id "
            "WHEN MATCHED AND gate(CAST(t.id AS INT)) = 3 THEN UPDATE SET v = 'w'",
            "w",
            2,
        ),
    ],
    ids=["DELETE", "UPDATE", "MERGE"],
)
def test_a_statement_that_loses_to_it_does_not_run_again(
    spark, rows, table, path, tmp_path, statement, expected, alone
) -> None:
    """``alone``: how often it evaluates its condition where no other writer is."""
    name = table(partitioned=False, enableDeletionVectors="true")
    gate = tmp_path / "gate"
    gate.mkdir()
    register(spark, gate)
    runs = Gate(spark.sql, gate).lose(statement.format(t=name), lambda: spark.sql(f"OPTIMIZE {name}"))
    assert runs == alone
    operations = [row.operation for row in spark.sql(f"DESCRIBE HISTORY {name} LIMIT 2").collect()]
    assert operations == [statement.split(" ", maxsplit=1)[0], "OPTIMIZE"]
    assert rows(f"SELECT id, v FROM {name} ORDER BY id") == [
        (i, f"v{i}" if i != 3 else expected) for i in range(60) if i != 3 or expected
    ]
    (gone,) = actions(path, 5, "remove")
    assert gone["path"] == actions(path, 4, "add")[0]["path"]


@pytest.mark.parametrize("vectors", [True, pytest.param(False, marks=pytest.mark.soak)])
def test_statements_at_the_same_time(spark, rows, table, path, vectors) -> None:
    """While the table is compacted over and over, others change it: none fails, and no row is lost."""
    name = table(partitioned=False, enableDeletionVectors=str(vectors).lower())
    failed: list[BaseException] = []
    changing = threading.Event()

    def change() -> None:
        try:
            for number in range(3):
                spark.sql(f"INSERT INTO {name} VALUES ({100 + number}, 'new', 'p')")
                spark.sql(f"DELETE FROM {name} WHERE id = {number * 7}")
                spark.sql(f"UPDATE {name} SET v = 'changed' WHERE id % 10 = {number}")
        except BaseException as error:
            failed.append(error)
        finally:
            changing.set()

    writer = threading.Thread(target=change)
    writer.start()
    compacted = 0
    while not changing.is_set():
        (answer,) = spark.sql(f"OPTIMIZE {name}").collect()
        compacted += answer.metrics.numFilesRemoved
    writer.join()
    assert not failed, failed
    assert compacted > 0
    gone = {number * 7 for number in range(3)}
    expected = [(i, "changed" if i % 10 < 3 else f"v{i}") for i in range(60) if i not in gone]
    assert rows(f"SELECT id, v FROM {name} WHERE id < 60 ORDER BY id") == expected
    assert rows(f"SELECT count(*), count(DISTINCT id) FROM {name} WHERE id >= 100") == [(3, 3)]
