"""The case of a stream's sink: micro-batches into a new table, one file a batch.

The source is a folder of Parquet files, of which Spark takes one a batch; the same into plain Parquet is Spark's own
part of the time.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator

from bench.cases import PARQUET, Against, Bench, Case
from bench.sparks import PEER

_BATCHES = 100
_ROWS_PER_BATCH = 1000


def _prepare(bench: Bench, side: str) -> None:
    source = bench.directory / "stream-out-source"
    if not source.exists():
        rows = f"range(0, {_BATCHES * _ROWS_PER_BATCH}, 1, {_BATCHES})"
        bench.spark(side).run(
            f"INSERT OVERWRITE DIRECTORY '{source}' USING parquet "
            f"SELECT id, concat('name ', id) AS name, id / 4 AS amount FROM {rows}"
        )


def _stream(bench: Bench, side: str, number: int) -> float:
    """Seconds for all batches."""
    table, checkpoint = (bench.path(f"stream-out-{kind}{number}", side) for kind in ("table", "checkpoint"))
    try:
        answer = bench.spark(side).call(
            "stream_out",
            source=str(bench.directory / "stream-out-source"),
            table=str(table),
            checkpoint=str(checkpoint),
            format="parquet" if side == PARQUET else "delta",
        )
        if answer["rows"] != _BATCHES * _ROWS_PER_BATCH:
            raise AssertionError(f"{side}: {answer['rows']} rows are there")
        return float(answer["seconds"])
    finally:
        shutil.rmtree(table, ignore_errors=True)
        shutil.rmtree(checkpoint, ignore_errors=True)


def cases() -> Iterator[Case]:
    """The case."""
    yield Case(
        "stream-out",
        f"{_BATCHES} micro-batches of {_ROWS_PER_BATCH:,} rows written by a stream",
        (Against(PEER, ratio=0.6), Against(PARQUET, ratio=1.6)),
        _stream,
        3,
        _prepare,
        warm_up=1,
    )
