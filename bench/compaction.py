"""OPTIMIZE: many small files written together; and writes that leave few."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

from bench.cases import COLUMNS, Against, Bench, Case
from bench.dml import on_a_copy
from bench.sparks import PEER

_FILES = 2000
#: Of an optimized write: so many tasks each have rows of so many partitions.
_TASKS, _PARTITIONS = 16, 50
_GATHERED = COLUMNS.replace("id % 1000 AS device", f"id % {_PARTITIONS} AS device")


def _small_files(bench: Bench) -> str:
    return f"AS SELECT {COLUMNS} FROM range(0, {bench.rows}, 1, {_FILES})"


def _optimized_write(bench: Bench, side: str, number: int) -> float:
    path = bench.path(f"gathered{number}", side)
    spark = bench.spark(side)
    spark.run(
        f"CREATE TABLE delta.`{path}` USING delta PARTITIONED BY (device) TBLPROPERTIES "
        f"('delta.autoOptimize.optimizeWrite' = 'true') AS SELECT {_GATHERED} FROM range(0)"
    )
    try:
        return spark.run(f"INSERT INTO delta.`{path}` SELECT {_GATHERED} FROM range(0, {bench.rows}, 1, {_TASKS})")
    finally:
        shutil.rmtree(path, ignore_errors=True)


def cases() -> Iterator[Case]:
    """Every case of this module."""
    yield Case(
        "optimize",
        f"OPTIMIZE of {_FILES:,} small files, one bin",
        (Against(PEER, 0.8),),
        on_a_copy("small-files", _small_files, "OPTIMIZE delta.`{path}`"),
        rounds=3,
        warm_up=1,
    )
    yield Case(
        "optimized-write",
        f"INSERT by {_TASKS} tasks into {_PARTITIONS} partitions, a file each",
        (Against(PEER, 1.0),),
        _optimized_write,
        rounds=3,
        warm_up=1,
    )
