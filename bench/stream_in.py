"""The cases of a table as a stream's source: micro-batches of one file, into nothing, and the first of a large table.

The same rows as a folder of Parquet files are Spark's own part of the time.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from bench import big_log
from bench.cases import PARQUET, Against, Bench, Case, Timed
from bench.sparks import OURS, PEER, Spark

_BATCHES = 100
_ROWS_PER_BATCH = 1000
#: The JVM's heap, as Spark writes it, when memory is measured.
_HEAP = "1g"


def _source(bench: Bench, side: str) -> Path:
    return bench.directory / ("stream-in-folder" if side == PARQUET else "stream-in-table")


def _prepare(bench: Bench, side: str) -> None:
    source = _source(bench, side)
    if source.exists():
        return
    rows = "SELECT id, concat('name ', id) AS name, id / 4 AS amount"
    if side == PARQUET:
        every = f"range(0, {_BATCHES * _ROWS_PER_BATCH}, 1, {_BATCHES})"
        bench.spark(side).run(f"INSERT OVERWRITE DIRECTORY '{source}' USING parquet {rows} FROM {every}")
        return
    spark = bench.spark(OURS)
    spark.run(f"CREATE TABLE delta.`{source}` (id BIGINT, name STRING, amount DOUBLE) USING delta")
    for batch in range(_BATCHES):
        first = batch * _ROWS_PER_BATCH
        spark.run(f"INSERT INTO delta.`{source}` {rows} FROM range({first}, {first + _ROWS_PER_BATCH}, 1, 1)")


def _stream(bench: Bench, side: str, number: int) -> float:
    """Seconds for all batches."""
    checkpoint = bench.path(f"stream-in-checkpoint{number}", side)
    try:
        answer = bench.spark(side).call(
            "stream_in",
            source=str(_source(bench, side)),
            checkpoint=str(checkpoint),
            format="parquet" if side == PARQUET else "delta",
        )
        if answer["batches"] != _BATCHES:
            raise AssertionError(f"{side}: {answer['batches']} micro-batches")
        return float(answer["seconds"])
    finally:
        shutil.rmtree(checkpoint, ignore_errors=True)


def _large(bench: Bench) -> Path:
    return bench.directory / "stream-in-large"


def _prepare_large(bench: Bench, side: str) -> None:
    if not _large(bench).exists():
        big_log.make(_large(bench), bench.files)


def _read_first_batch(bench: Bench, spark: Spark, name: str) -> float:
    """Seconds from the start of a stream to the end of its first micro-batch, over a table that is not known yet."""
    table, checkpoint = (bench.directory / f"stream-in-large-{kind}-{name}" for kind in ("table", "checkpoint"))
    big_log.copy_of(_large(bench), table)
    try:
        return float(spark.call("first_batch", source=str(table), checkpoint=str(checkpoint))["seconds"])
    finally:
        shutil.rmtree(table, ignore_errors=True)
        shutil.rmtree(checkpoint, ignore_errors=True)


def _first_batch(bench: Bench, side: str, number: int) -> float:
    return _read_first_batch(bench, bench.spark(side), f"{side}-{number}")


def _memory_of(process: str) -> Timed:
    """GiB: the peak of one process while a Spark with a small heap reads such a first micro-batch."""

    def measured(bench: Bench, side: str, number: int) -> float:
        spark = bench.fresh(side, _HEAP)
        try:
            _read_first_batch(bench, spark, f"{process}-{number}")
            return float(spark.call(f"{process}_peak")["bytes"]) / 2**30
        finally:
            spark.stop()

    return measured


def cases() -> Iterator[Case]:
    """The cases."""
    yield Case(
        "stream-in",
        f"{_BATCHES} micro-batches of {_ROWS_PER_BATCH:,} rows read by a stream",
        (Against(PEER, ratio=0.45), Against(PARQUET, ratio=1.6)),
        _stream,
        3,
        _prepare,
        warm_up=1,
    )
    yield Case(
        "stream-first-batch",
        "the first micro-batch of a stream over a table of a million files",
        (Against(PEER, ratio=0.1),),
        _first_batch,
        3,
        _prepare_large,
        warm_up=1,
    )
    for process, gibibytes in (("handler", 2), ("heap", 1)):
        yield Case(
            f"stream-first-{process}",
            f"{process} memory for it, with a heap of {_HEAP}",
            (Against(None, limit=gibibytes),),
            _memory_of(process),
            1,
            _prepare_large,
            warm_up=0,
            unit="GiB",
        )
