"""Layouts along curves: what ZORDER costs, and what a selective scan reads of a clustered table."""

from __future__ import annotations

import random
from collections.abc import Iterator
from statistics import mean

from bench.cases import COLUMNS, Against, Bench, Case
from bench.dml import on_a_copy
from bench.sparks import PEER
from headwater.log.snapshot import load_snapshot
from headwater.stores import LocalStore

_FILES = 64
#: Files that the clustered table has about, and queries that are planned over it.
_CLUSTERED_FILES, _QUERIES = 250, 60
#: The values of each clustered column, and how many of them a query asks for: 0.1 % of the rows by two columns.
_VALUES, _ASKED = 1_000_000, 31_623


def _unordered(bench: Bench) -> str:
    return f"AS SELECT {COLUMNS} FROM range(0, {bench.rows}, 1, {_FILES})"


def _clustered(bench: Bench, side: str) -> None:
    """A side writes and clusters the same rows, by two columns that have nothing to do with each other."""
    path, spark = bench.path("clustered", side), bench.spark(side)
    spark.run(
        f"CREATE TABLE delta.`{path}` USING delta CLUSTER BY (x, y) AS SELECT id, "
        f"pmod(hash(id), {_VALUES}) AS x, pmod(xxhash64(id), {_VALUES}) AS y FROM range(0, {bench.rows}, 1, 16)"
    )
    size = load_snapshot(str(path), LocalStore()).size_in_bytes
    limit = "spark.databricks.delta.optimize.maxFileSize"
    spark.run(f"SET {limit} = {size // _CLUSTERED_FILES}")
    spark.run(f"OPTIMIZE delta.`{path}`")
    spark.run(f"RESET {limit}")


def _files_read(bench: Bench, side: str, number: int) -> float:
    """The mean number of files of a query's plan."""
    draw = random.Random(number)
    read = []
    for _ in range(_QUERIES):
        x, y = (draw.randrange(_VALUES - _ASKED) for _ in range(2))
        condition = f"x BETWEEN {x} AND {x + _ASKED} AND y BETWEEN {y} AND {y + _ASKED}"
        found = bench.spark(side).call(
            "plan", sql=f"SELECT * FROM delta.`{bench.path('clustered', side)}` WHERE {condition}"
        )
        read.append(int(found["files"]))
    return mean(read)


def cases() -> Iterator[Case]:
    """Every case of this module."""
    yield Case(
        "zorder",
        "ZORDER of {rows:,} rows by 2 columns",
        (Against(PEER, 0.7),),
        on_a_copy("unordered", _unordered, "OPTIMIZE delta.`{path}` ZORDER BY (device, day)"),
        rounds=3,
        warm_up=1,
    )
    yield Case(
        "clustered-scan",
        "files of a scan of 0.1 % of the rows, by 2 columns",
        (Against(PEER, 1.1),),
        _files_read,
        rounds=1,
        prepare=_clustered,
        warm_up=0,
        unit="files",
    )
