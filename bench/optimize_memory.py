"""``python -m bench.optimize_memory``: time and memory of OPTIMIZE, by the number of small files and of their rows.

One Spark makes each table, another compacts it, so that only OPTIMIZE counts. The output is the peak memory of the
driver's heap, garbage included, and of the handler. Neither should grow with the rows; with the files, what the log
and the answer have of each.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from bench.sparks import OURS, Spark


def measure(directory: Path, files: int, rows: int, memory: str) -> str:
    """Compact a table of so many files with so many rows each; a line of the output."""
    path = directory / f"{files}-{rows}"
    maker = Spark(OURS, directory)
    try:
        query = f"SELECT id, id % 1000 AS device, uuid() AS text FROM range(0, {files * rows}, 1, {files})"
        maker.run(f"CREATE TABLE delta.`{path}` USING delta AS {query}")
    finally:
        maker.stop()
    spark = Spark(OURS, directory, memory)
    try:
        seconds = spark.run(f"OPTIMIZE delta.`{path}`")
        heap, handler = (spark.call(name)["bytes"] / 2**30 for name in ("heap_peak", "handler_peak"))
    finally:
        spark.stop()
    return (
        f"{files:,} files of {rows:,} rows: {seconds:.1f} s; heap {heap:.2f} GiB of {memory}, handler {handler:.2f} GiB"
    )


def main(
    files: Annotated[list[int] | None, typer.Option(help="Files of a table; may be repeated.")] = None,
    rows: Annotated[list[int] | None, typer.Option(help="Rows of each file; may be repeated.")] = None,
    memory: Annotated[str, typer.Option(help="The driver's heap.")] = "1g",
) -> None:
    """Measure each number of files with each number of rows."""
    with tempfile.TemporaryDirectory(prefix="headwater-optimize-") as directory:
        for number in files or [1_000, 20_000]:
            for each in rows or [50, 1_000]:
                print(measure(Path(directory), number, each, memory), flush=True)


if __name__ == "__main__":
    typer.run(main)
