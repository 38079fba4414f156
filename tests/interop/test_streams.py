"""One checkpoint, read on in turn by the peer and by us: each row once, whatever part of a micro-batch is done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

#: Runs a stream over a table until it has written so many micro-batches, each as Parquet files in a folder of its own.
RUN = """
import os

def run(spark, source, home, most, options):
    begun = []

    def write(rows, batch):
        if len(begun) == most:
            raise RuntimeError("enough micro-batches")
        begun.append(batch)
        rows.write.mode("overwrite").parquet(f"{home}/out/{batch:05}")

    query = (
        spark.readStream.format("delta").options(**options).load(source).writeStream.foreachBatch(write)
        .option("checkpointLocation", f"{home}/checkpoint").trigger(availableNow=True).start()
    )
    try:
        query.awaitTermination()
    except Exception as error:
        if "enough micro-batches" not in str(error):
            raise
    return len(begun)
"""


@pytest.fixture
def engines(spark: Any, peer: Any, tmp_path: Path) -> Any:
    """``engines[i % 2](source, most, options)``: a run of the stream by us or by the peer."""
    scope: dict[str, Any] = {}
    exec(RUN, scope)

    def ours(source: str, most: int, options: dict[str, str]) -> int:
        return int(scope["run"](spark, source, str(tmp_path), most, options))

    def theirs(source: str, most: int, options: dict[str, str]) -> int:
        return int(peer.run(f"{RUN}\nresult = run(spark, {source!r}, {str(tmp_path)!r}, {most}, {options!r})"))

    return ours, theirs


@pytest.fixture
def read(spark: Any, tmp_path: Path) -> Any:
    """The rows of all micro-batches."""

    def rows() -> list[Any]:
        folders = [str(folder) for folder in sorted((tmp_path / "out").glob("*"))]
        found = [row for folder in folders for row in spark.read.parquet(folder).collect()]
        return sorted(tuple(row) for row in found)

    return rows


@pytest.mark.covering
@pytest.mark.parametrize("first", [0, 1], ids=["we begin", "the peer begins"])
@pytest.mark.parametrize("feed", ["false", "true"], ids=["rows", "changes"])
def test_in_turn(spark: Any, engines: Any, read: Any, tmp_path: Path, first: int, feed: str) -> None:
    source = str(tmp_path / "table")
    spark.sql(
        f"CREATE TABLE delta.`{source}` (id BIGINT, v STRING) USING delta TBLPROPERTIES "
        "('delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = 'true')"
    )

    def insert(begin: int, files: int) -> None:
        spark.sql(f"INSERT INTO delta.`{source}` SELECT id, 'a' FROM range({begin}, {begin + 2 * files}, 1, {files})")

    options = {"maxFilesPerTrigger": "2", "readChangeFeed": feed}
    for i in range(3):
        insert(10 * i, 2)
    # The initial snapshot is read in part, and a micro-batch of it is planned and not done.
    engines[first](source, 1, options)
    assert 0 < len(read()) < 12
    insert(30, 3)
    engines[1 - first](source, 2, options)
    insert(40, 3)
    engines[first](source, 2, options)
    if feed == "true":
        spark.sql(f"DELETE FROM delta.`{source}` WHERE id = 40")
        spark.sql(f"UPDATE delta.`{source}` SET v = 'b' WHERE id = 41")
    engines[1 - first](source, 100, options)
    insert(50, 1)
    engines[first](source, 100, options)
    expected = [*range(6 - 2), *range(10, 14), *range(20, 24), *range(30, 36), *range(40, 46), 50, 51]
    if feed == "false":
        assert [row[0] for row in read()] == expected
    else:
        kinds = {(row[0], row[2]) for row in read()}
        assert kinds == {
            *((number, "insert") for number in expected),
            (40, "delete"),
            (41, "update_preimage"),
            (41, "update_postimage"),
        }
        assert len(read()) == len(kinds)


# Both engines begin and go on, whichever is the first.
@pytest.mark.parametrize("first", [0, pytest.param(1, marks=pytest.mark.soak)], ids=["we begin", "the peer begins"])
def test_one_schema_log_in_turn(spark: Any, engines: Any, read: Any, tmp_path: Path, first: int) -> None:
    """A stream with a schema log ends at a change of the columns in one engine and goes on after it in the other."""
    source = str(tmp_path / "table")
    table = f"delta.`{source}`"
    spark.sql(
        f"CREATE TABLE {table} (id INT, a STRING) USING delta TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    )
    options = {"schemaTrackingLocation": f"{tmp_path}/checkpoint/schemas", "allowSourceColumnRename": "always"}
    spark.sql(f"INSERT INTO {table} VALUES (0, 'v0')")
    engines[first](source, 100, options)
    for i, (old, new) in enumerate([("a", "b"), ("b", "c")], 1):
        spark.sql(f"ALTER TABLE {table} RENAME COLUMN {old} TO {new}")
        spark.sql(f"INSERT INTO {table} VALUES ({i}, 'v{i}')")
        with pytest.raises(Exception, match="DELTA_STREAMING_METADATA_EVOLUTION"):
            engines[(first + i) % 2](source, 100, options)
        engines[(first + i + 1) % 2](source, 100, options)
    assert read() == [(i, f"v{i}") for i in range(3)]
