"""Auto-compaction through Spark: what makes it due, what it takes, and that no commit waits for it or fails by it."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headwater.log.snapshot import Snapshot, load_snapshot
from headwater.stores import LocalStore
from support.requests import actions

pytestmark = pytest.mark.spark

_SETTINGS = "spark.databricks.delta.autoCompact"
#: Commits of a stream.
_COMMITS = 1000


@pytest.fixture
def few(spark) -> Iterator[None]:
    """Four small files are many."""
    spark.conf.set(f"{_SETTINGS}.minNumFiles", "4")
    yield
    for name in ("minNumFiles", "maxFileSize", "enabled"):
        spark.conf.unset(f"{_SETTINGS}.{name}")


def snapshot(path: Path) -> Snapshot:
    return load_snapshot(str(path), LocalStore())


def files(path: Path) -> Counter[str | None]:
    """The number of live files of each partition."""
    return Counter(dict(row["partition_values"]).get("p") for row in snapshot(path).files.to_pylist())


def operations(path: Path) -> list[str]:
    return [actions(path, version, "commitInfo")[0]["operation"] for version in range(snapshot(path).version + 1)]


def test_no_clone_compacts_what_it_copied(spark, few, rows, database):
    """The next one would bring the source's files back; writes to the clone are another matter."""
    auto = "'delta.autoOptimize.autoCompact' = 'true'"
    spark.sql("CREATE TABLE s (a INT) USING delta")
    for number in range(6):
        spark.sql(f"INSERT INTO s VALUES ({number})")
    path = Path(spark.sql("DESCRIBE DETAIL s").first().location.removeprefix("file:")).parent / "d"
    for _ in range(3):
        spark.sql(f"CREATE OR REPLACE TABLE d DEEP CLONE s TBLPROPERTIES ({auto})")
        time.sleep(1)
        assert set(operations(path)) == {"CLONE"}
        assert snapshot(path).num_files == snapshot(path.parent / "s").num_files
        spark.sql("INSERT INTO s VALUES (7)")
    spark.sql("INSERT INTO d VALUES (8)")
    until(lambda: "OPTIMIZE" in operations(path))


def until(is_so: Callable[[], bool]) -> None:
    """Wait for what happens in the background."""
    end = time.monotonic() + 120
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.05)


def insert(spark, path: Path, partition: str, start: int) -> None:
    spark.sql(
        f"INSERT INTO delta.`{path}` SELECT /*+ COALESCE(1) */ id, '{partition}' FROM range({start}, {start + 1})"
    )


def create(spark, path: Path, *properties: str) -> None:
    given = ", ".join(properties)
    spark.sql(
        f"CREATE TABLE delta.`{path}` (id BIGINT, p STRING) USING delta PARTITIONED BY (p) TBLPROPERTIES ({given})"
    )


def test_the_partition_that_was_written_is_compacted(spark, rows, tmp_path, few) -> None:
    path = tmp_path / "t"
    create(spark, path, "'delta.autoOptimize.autoCompact' = 'true'", "'delta.enableDeletionVectors' = 'true'")
    # The session wins.
    spark.conf.set(f"{_SETTINGS}.enabled", "false")
    for number in range(5):
        insert(spark, path, "a", number)
    assert files(path) == {"a": 5}
    spark.conf.unset(f"{_SETTINGS}.enabled")
    for number in range(5, 8):
        insert(spark, path, "b", number)
    assert files(path) == {"a": 5, "b": 3}
    insert(spark, path, "b", 8)
    until(lambda: files(path) == {"a": 5, "b": 1})
    (info,) = actions(path, snapshot(path).version, "commitInfo")
    assert (info["operation"], info["operationParameters"]["auto"]) == ("OPTIMIZE", "true")
    spark.sql(f"UPDATE delta.`{path}` SET id = id + 100 WHERE p = 'a' AND id = 0")
    until(lambda: files(path) == {"a": 1, "b": 1})
    assert rows(f"SELECT id FROM delta.`{path}` ORDER BY id") == [(n,) for n in [*range(1, 9), 100]]


@pytest.mark.parametrize(
    ("setting", "properties"),
    [
        ("true", ["'delta.autoOptimize.autoCompact' = 'false'"]),
        (None, ["'delta.autoOptimize' = 'true'", "'delta.autoOptimize.autoCompact' = 'false'"]),
    ],
)
def test_who_asks_for_it(spark, tmp_path, few, setting, properties) -> None:
    path = tmp_path / "t"
    create(spark, path, *properties)
    if setting is not None:
        spark.conf.set(f"{_SETTINGS}.enabled", setting)
    for number in range(4):
        insert(spark, path, "a", number)
    until(lambda: files(path) == {"a": 1})


@pytest.mark.soak
def test_settings_of_the_commit_count(spark, tmp_path) -> None:
    """Two tables keep both threads busy, and the settings are gone before the third has its turn."""
    paths = [tmp_path / f"t{number}" for number in range(3)]
    for path, number in zip(paths, (400, 400, 1), strict=True):
        create(spark, path, "'delta.autoOptimize.autoCompact' = 'false'")
        spark.sql(f"INSERT INTO delta.`{path}` SELECT id, 'a' FROM range(0, {number}, 1, {number})")
    spark.conf.set(f"{_SETTINGS}.minNumFiles", "2")
    spark.conf.set(f"{_SETTINGS}.enabled", "true")
    for path in paths:
        insert(spark, path, "a", 1)
    for name in ("enabled", "minNumFiles"):
        spark.conf.unset(f"{_SETTINGS}.{name}")
    for path in paths:
        until(lambda path=path: files(path) == {"a": 1})


def test_a_failure_of_it_fails_no_statement(spark, rows, tmp_path, few) -> None:
    path = tmp_path / "t"
    create(spark, path, "'delta.autoOptimize' = 'true'")
    for number in range(3):
        insert(spark, path, "a", number)
    lost = next(path.glob("p=a/*.parquet"))
    kept = lost.read_bytes()
    lost.unlink()
    for number in range(3, 5):
        insert(spark, path, "a", number)
    lost.write_bytes(kept)
    # A later commit makes it due again; a setting that is wrong is no failure either.
    spark.conf.set(f"{_SETTINGS}.maxFileSize", "large")
    insert(spark, path, "a", 5)
    spark.conf.unset(f"{_SETTINGS}.maxFileSize")
    numbers = itertools.count(6)

    def is_compacted_in_the_end() -> bool:
        insert(spark, path, "a", next(numbers))
        return "OPTIMIZE" in operations(path)

    until(is_compacted_in_the_end)
    assert rows(f"SELECT count(*) FROM delta.`{path}`") == [(next(numbers),)]


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("vectors", ["true", "false"])
def test_a_stream_of_commits_keeps_few_files(spark, rows, tmp_path, vectors) -> None:
    path = tmp_path / "t"
    create(spark, path, "'delta.autoOptimize' = 'true'", f"'delta.enableDeletionVectors' = '{vectors}'")
    most = 0
    for number in range(_COMMITS):
        insert(spark, path, "a", number)
        if number % 10 == 9:
            spark.sql(f"DELETE FROM delta.`{path}` WHERE id = {number - 5}")
        most = max(most, files(path)["a"])
    assert most <= 100
    assert rows(f"SELECT count(*) FROM delta.`{path}`") == [(_COMMITS - _COMMITS // 10,)]
    assert operations(path).count("OPTIMIZE") >= _COMMITS // 100


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_real_stream_keeps_few_files(spark, rows, tmp_path) -> None:
    """Each micro-batch is a commit with a file in each of two partitions; no version has many small ones."""
    source, path = tmp_path / "source", tmp_path / "t"
    spark.sql(
        f"CREATE TABLE delta.`{source}` USING delta AS SELECT id, CAST(id % 2 AS STRING) AS p FROM "
        f"range(0, {2 * _COMMITS}, 1, {_COMMITS})"
    )
    create(spark, path, "'delta.autoOptimize' = 'true'", "'delta.checkpointInterval' = '100'")
    query = (
        spark.readStream.format("delta")
        .option("maxFilesPerTrigger", 1)
        .load(str(source))
        .coalesce(1)
        .writeStream.format("delta")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(path))
    )
    query.awaitTermination()
    assert query.exception() is None
    most, last = 0, snapshot(path)
    for version in range(last.version + 1):
        found = load_snapshot(str(path), LocalStore(), version).files.to_pylist()
        most = max([most, *Counter(dict(row["partition_values"])["p"] for row in found).values()])
    print(
        "versions:", last.version, "most files in a partition:", most, "OPTIMIZE:", operations(path).count("OPTIMIZE")
    )
    assert most <= 100
    assert operations(path).count("STREAMING UPDATE") >= _COMMITS
    assert rows(f"SELECT count(*), count(DISTINCT id) FROM delta.`{path}`") == [(2 * _COMMITS, 2 * _COMMITS)]
