"""``python -m bench.loads``: what clustering costs and gives while a table is loaded.

Each side loads a clustered table in steps, with an OPTIMIZE after each, and then clusters all of it. The output is the
bytes that OPTIMIZE wrote by byte loaded, and the files that scans read before, relative to those read after. Only bytes
and files are counted, so other work on the machine makes no difference.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import mean
from typing import Annotated

import typer

from bench.sparks import OURS, PEER, Spark
from headwater.log.snapshot import load_snapshot
from headwater.stores import LocalStore

_LIMIT = "spark.databricks.delta.optimize.maxFileSize"
_VALUES, _QUERIES = 1_000_000, 30


def _conditions() -> Iterator[tuple[str, str]]:
    """Conditions by one column and by two, each true for 0.1 % of the rows."""
    draw = random.Random(0)
    for _ in range(_QUERIES):
        x, y = draw.randrange(900_000), draw.randrange(900_000)
        yield f"x BETWEEN {x} AND {x + 1_000}", f"x BETWEEN {x} AND {x + 31_623} AND y BETWEEN {y} AND {y + 31_623}"


def _read(spark: Spark, path: Path) -> tuple[float, float]:
    """The mean numbers of files that queries by one column and by two read."""
    query = f"SELECT * FROM delta.`{path}` WHERE "
    found = [[spark.call("plan", sql=query + each)["files"] for each in both] for both in _conditions()]
    one, two = zip(*found, strict=True)
    return mean(one), mean(two)


def _sizes(path: Path) -> dict[str, int]:
    """The bytes of each live file."""
    files = load_snapshot(str(path), LocalStore()).select(["path", "size"])
    return dict(zip(files["path"].to_pylist(), files["size"].to_pylist(), strict=True))


def measure(kind: str, directory: Path, loads: list[int], file_size: int) -> str:
    """Load a table of a side; a line of the output."""
    path, spark = directory / f"loads-{kind}", Spark(kind, directory)
    written = loaded = start = 0
    live: dict[str, int] = {}
    try:
        spark.run(f"SET {_LIMIT} = {file_size}")
        spark.run(f"CREATE TABLE delta.`{path}` (id BIGINT, x INT, y INT) USING delta CLUSTER BY (x, y)")
        for rows in loads:
            columns = f"id, CAST(pmod(hash(id), {_VALUES}) AS INT), CAST(pmod(xxhash64(id), {_VALUES}) AS INT)"
            spark.run(f"INSERT INTO delta.`{path}` SELECT {columns} FROM range({start}, {start + rows}, 1, 1)")
            start += rows
            before = _sizes(path)
            spark.run(f"OPTIMIZE delta.`{path}`")
            after = _sizes(path)
            loaded += sum(size for name, size in before.items() if name not in live)
            written += sum(size for name, size in after.items() if name not in before)
            live = after
        parts = _read(spark, path)
        spark.run(f"OPTIMIZE delta.`{path}` FULL")
        whole = _read(spark, path)
    finally:
        spark.stop()
    return (
        f"{kind}: written {written / loaded:.2f} times; {len(live)} files; read by one column {parts[0]:.1f}, after "
        f"FULL {whole[0]:.1f} ({parts[0] / whole[0]:.2f}); by two {parts[1]:.1f}, after FULL {whole[1]:.1f} "
        f"({parts[1] / whole[1]:.2f})"
    )


def main(
    loads: Annotated[int, typer.Option(help="How many loads.")] = 40,
    rows: Annotated[int, typer.Option(help="Rows of a load.")] = 20_000,
    vary: Annotated[float, typer.Option(help="By which part of that loads differ.")] = 0.5,
    file_size: Annotated[int, typer.Option(help="Bytes of a file at most.")] = 64 << 10,
    side: Annotated[list[str] | None, typer.Option(help=f"{OURS} or {PEER}; both if not given.")] = None,
) -> None:
    """Load a table of each side."""
    draw = random.Random(1)
    sizes = [int(rows * draw.uniform(1 - vary, 1 + vary)) for _ in range(loads)]
    with tempfile.TemporaryDirectory(prefix="headwater-loads-") as directory:
        for each in side or [OURS, PEER]:
            print(measure(each, Path(directory), sizes, file_size), flush=True)


if __name__ == "__main__":
    typer.run(main)
