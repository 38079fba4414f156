"""OPTIMIZE: many small files written together."""

from __future__ import annotations

from collections.abc import Iterator

from bench.cases import COLUMNS, Against, Bench, Case
from bench.dml import on_a_copy
from bench.sparks import PEER

_FILES = 2000


def _small_files(bench: Bench) -> str:
    return f"AS SELECT {COLUMNS} FROM range(0, {bench.rows}, 1, {_FILES})"


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
