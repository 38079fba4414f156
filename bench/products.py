"""Writes of what few rows multiply to: products, arrays and ranges whose rows are counted, and the counts written."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from bench.cases import PARQUET, Against, Bench, Case, Timed
from bench.sparks import PEER

_ROWS = 3500

_PRODUCT = "SELECT a.id % 100 AS k, sum(a.v * b.v) AS v, count(*) AS n FROM {few} a CROSS JOIN {few} b GROUP BY ALL"
_RANGES = (
    "SELECT a.id % 100 AS k, sum(b.v) AS v, count(*) AS n FROM {few} a "
    f"JOIN {{few}} b ON b.id BETWEEN a.id AND a.id + {_ROWS // 2} GROUP BY ALL"
)
_ARRAYS = (
    "SELECT e % 100 AS k, sum(v * e) AS v, count(*) AS n FROM "
    "(SELECT v, explode(sequence(1, CAST(id AS INT))) AS e FROM {few} WHERE id > 0) GROUP BY ALL"
)
_SEQUENCE = (
    "SELECT e % 100 AS k, sum(e) AS v, count(*) AS n FROM "
    f"(SELECT explode(sequence(1, {_ROWS * _ROWS // 4})) AS e) GROUP BY ALL"
)


def _provider(side: str) -> str:
    return "parquet" if side == PARQUET else "delta"


def _few(bench: Bench, side: str) -> str:
    """The table with few rows."""
    path: Path = bench.path("few", side)
    name = f"{_provider(side)}.`{path}`"
    if not path.exists():
        bench.spark(side).run(
            f"CREATE TABLE few_{side} USING {_provider(side)} LOCATION '{path}' "
            f"AS SELECT id, id * 7 % 1000 AS v FROM range(0, {_ROWS}, 1, 2)"
        )
    return name


def _writes(query: str) -> Timed:
    """Makes a table of the rows of a query."""

    def timed(bench: Bench, side: str, number: int) -> float:
        path = bench.path(f"product{number}", side)
        table = f"product_{side}_{number}"
        rows = query.replace("{few}", _few(bench, side))
        spark = bench.spark(side)
        taken = spark.run(f"CREATE TABLE {table} USING {_provider(side)} LOCATION '{path}' AS {rows}")
        spark.run(f"DROP TABLE {table}")
        shutil.rmtree(path, ignore_errors=True)
        return taken

    return timed


def cases() -> Iterator[Case]:
    """Every case of this module."""
    for name, title, query in (
        ("joins", f"CTAS, {_ROWS:,} × {_ROWS:,} rows", _PRODUCT),
        ("range-join", f"CTAS, {_ROWS:,} rows joined by ranges", _RANGES),
        ("explode", f"CTAS, {_ROWS:,} rows with an array each", _ARRAYS),
        ("sequence", "CTAS, a row with a long array", _SEQUENCE),
    ):
        yield Case(name, title, (Against(PEER, 1.1), Against(PARQUET, 1.25)), _writes(query), 5)
