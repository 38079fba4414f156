"""What a commit through a catalog costs beside one by file: both tables are local, and have the same features."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from bench.cases import Against, Bench, Case

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from support.unity_server import UnityModel, serving

_BY_FILE = "by file"
_TOKEN = "token-of-the-benchmark"
_COLUMNS = "(id BIGINT, amount DOUBLE) USING delta"
#: What the catalog requires of its tables.
_SAME = (
    "'delta.enableDeletionVectors' = 'true', 'delta.enableInCommitTimestamps' = 'true', 'delta.checkpointPolicy' = 'v2'"
)
#: The server, which answers in a thread of this process until that ends.
_served = ExitStack()


def _prepare(bench: Bench, side: str) -> None:
    spark = bench.spark(side)
    if side == _BY_FILE:
        spark.run(f"CREATE TABLE delta.`{bench.path('by-file', side)}` {_COLUMNS} TBLPROPERTIES ({_SAME})")
        return
    uri = _served.enter_context(serving(UnityModel(str(bench.path("managed", side)), _TOKEN)))
    setting = "spark.sql.catalog.main"
    given = {setting: "headwater.spark.HeadwaterUnityCatalog", f"{setting}.uri": uri, f"{setting}.token": _TOKEN}
    for name, value in given.items():
        spark.run(f"SET {name}={value}")
    spark.run(f"CREATE TABLE main.s.t {_COLUMNS}")


def _insert(bench: Bench, side: str, number: int) -> float:
    table = f"delta.`{bench.path('by-file', side)}`" if side == _BY_FILE else "main.s.t"
    return bench.spark(side).run(f"INSERT INTO {table} VALUES ({number}, 1.5)")


def cases() -> Iterator[Case]:
    """Every case of this module."""
    title = "a one-row INSERT into a table that a catalog manages"
    yield Case("catalog-commit", title, (Against(_BY_FILE, 1.2),), _insert, 15, _prepare, warm_up=10)
