"""Tables of many columns, and of structs in structs: reading one of them, writing all, changing one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

from bench.cases import PARQUET, Against, Bench, Case
from bench.dml import on_a_copy
from bench.sparks import PEER

_COLUMNS = 600
_ROWS = 50_000
#: Structs in each other, and the leaves of each.
_DEPTH, _LEAVES = 8, 6
_DEEP_ROWS = 300_000


def _wide(bench: Bench) -> str:
    columns = ", ".join(f"id * {i + 1} AS c{i}" for i in range(_COLUMNS - 1))
    return f"AS SELECT id, {columns} FROM range(0, {_ROWS}, 1, 4)"


def _struct(depth: int) -> str:
    """A struct whose last field is a struct, so many times."""
    leaves = [
        f"'l{i}', " + ("id + {0}", "id / {0}", "concat('value ', id % {0})")[i % 3].format(depth * _LEAVES + i + 1)
        for i in range(_LEAVES)
    ]
    inner = [f"'inner', {_struct(depth - 1)}"] if depth > 1 else []
    return f"named_struct({', '.join([*leaves, *inner])})"


def _deep(rows: int) -> str:
    return f"AS SELECT id, {_struct(_DEPTH)} AS outer FROM range(0, {rows}, 1, 4)"


def _deep_ctas(bench: Bench, side: str, number: int) -> float:
    path = bench.path(f"deep{number}", side)
    name = f"deep_{path.name.replace('-', '_')}"
    provider = "parquet" if side == PARQUET else "delta"
    spark = bench.spark(side)
    taken = spark.run(f"CREATE TABLE {name} USING {provider} LOCATION '{path}' {_deep(_DEEP_ROWS)}")
    spark.run(f"DROP TABLE {name}")
    shutil.rmtree(path, ignore_errors=True)
    return taken


def cases() -> Iterator[Case]:
    """Every case of this module."""
    one = "SELECT sum(c300) FROM delta.`{path}` WHERE c7 % 2 = 0"
    update = "UPDATE delta.`{path}` SET c300 = 0 WHERE id % 100 = 7"
    leaf = "UPDATE delta.`{path}` SET outer." + "inner." * (_DEPTH - 1) + "l0 = 0 WHERE id % 100 = 7"
    sized = f"of {_COLUMNS} columns"
    yield Case("wide-column", f"a column {sized}", (Against(PEER, 0.4),), on_a_copy("columns/one", _wide, one), 7)
    yield Case(
        "wide-update", f"UPDATE of 1 %, {sized}", (Against(PEER, 0.3),), on_a_copy("columns/set", _wide, update), 5
    )
    nested = f"{_DEPTH} structs in each other"
    yield Case("deep-ctas", f"CTAS of {nested}", (Against(PEER, 1.0), Against(PARQUET, 1.1)), _deep_ctas, 5)
    yield Case(
        "deep-update",
        f"UPDATE of a leaf in {nested}",
        (Against(PEER, 0.6),),
        on_a_copy("deep/set", lambda bench: _deep(_DEEP_ROWS // 3), leaf),
        5,
    )
