"""Joins of a large table, in the order of its days, with a small one that leaves few of them; its last rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bench.cases import COLUMNS, PARQUET, Against, Bench, Case, Timed
from bench.sparks import PEER

#: Files of the large table, and days in it.
_FILES, _DAYS = 64, 1500

_JOIN = (
    "SELECT f.device, sum(f.amount) FROM {0}.`{1}/sales` f JOIN {0}.`{1}/days` d ON f.day = d.day "
    "WHERE d.month = {2} GROUP BY f.device"
)
_SUBQUERY = (
    "SELECT device, sum(amount) FROM {0}.`{1}/sales` "
    "WHERE day = (SELECT max(day) FROM {0}.`{1}/days` WHERE month = {2}) GROUP BY device"
)
_LAST = "SELECT id, device, taken FROM {0}.`{1}/sales` WHERE id > {2} ORDER BY day DESC LIMIT 100"


def _provider(side: str) -> str:
    return "parquet" if side == PARQUET else "delta"


def _star(bench: Bench, side: str) -> None:
    path: Path = bench.path("star", side)
    if path.exists():
        return
    columns = COLUMNS.replace("id % 1500", f"id DIV {max(bench.rows // _DAYS, 1)}")
    name = path.name.replace("-", "_").replace(" ", "_")
    for table, rows in (
        ("sales", f"SELECT {columns} FROM range(0, {bench.rows}, 1, {_FILES})"),
        ("days", f"SELECT DATE'2020-01-01' + CAST(id AS INT) AS day, id DIV 30 AS month FROM range(0, {_DAYS}, 1, 1)"),
    ):
        bench.spark(side).run(
            f"CREATE TABLE {name}_{table} USING {_provider(side)} LOCATION '{path}/{table}' AS {rows}"
        )


def _query(text: str) -> Timed:
    def timed(bench: Bench, side: str, number: int) -> float:
        sql = text.format(_provider(side), bench.path("star", side), 3 + number % 40)
        return float(bench.spark(side).call("scan", sql=sql)["seconds"])

    return timed


def cases() -> Iterator[Case]:
    """Every case of this module."""
    for name, title, text in (
        ("star-join", "{rows:,} rows in the order of days joined with a month", _JOIN),
        ("last-rows", "the last 100 of {rows:,} rows, which are in that order", _LAST),
        ("subquery-filter", "{rows:,} rows in the order of days, one day, which a subquery finds", _SUBQUERY),
    ):
        yield Case(name, title, (Against(PEER, 0.7), Against(PARQUET, 0.9)), _query(text), 9, prepare=_star)
