"""The cases of row tracking: what it costs beside the same statements on tables without it, both ours."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.cases import COLUMNS, UNTRACKED, Against, Bench, Case

_FILES = 50


def _table(bench: Bench, path: Path, side: str, vectors: bool, query: str) -> None:
    tracked = str(side != UNTRACKED).lower()
    bench.spark(side).run(
        f"CREATE TABLE delta.`{path}` USING delta TBLPROPERTIES ('delta.enableRowTracking' = '{tracked}', "
        f"'delta.enableDeletionVectors' = '{str(vectors).lower()}') AS {query}"
    )


def _insert(bench: Bench, side: str, number: int) -> float:
    path = bench.path(f"tracked-insert-{number}", side.replace(" ", "-"))
    _table(bench, path, side, False, f"SELECT {COLUMNS} FROM range(0)")
    try:
        return bench.spark(side).run(f"INSERT INTO delta.`{path}` SELECT {COLUMNS} FROM range(0, {bench.rows}, 1, 2)")
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _statement(vectors: bool, text: str) -> Callable[[Bench, str, int], float]:
    """A statement on a fresh copy, ``{path}`` and ``{rows}`` filled in."""

    def timed(bench: Bench, side: str, number: int) -> float:
        kind = f"{'vectors' if vectors else 'copy'}-{side.replace(' ', '-')}"
        base = bench.directory / f"tracked-base-{kind}"
        if not base.exists():
            _table(bench, base, side, vectors, f"SELECT {COLUMNS} FROM range(0, {bench.rows}, 1, {_FILES})")
        copy = bench.directory / f"tracked-{kind}-{number}"
        shutil.copytree(base, copy, copy_function=os.link)
        try:
            bench.spark(side).run(f"SELECT count(*) FROM delta.`{copy}` WHERE id < 0")
            return bench.spark(side).run(text.format(path=copy, rows=bench.rows))
        finally:
            shutil.rmtree(copy, ignore_errors=True)

    return timed


def cases() -> Iterator[Case]:
    """The cases, the quick ones first."""
    update = "UPDATE delta.`{path}` SET amount = amount + 1 WHERE id % 100 = 7"
    merge = (
        "MERGE INTO delta.`{path}` AS t USING (SELECT id * 10 AS id FROM range(0, {rows} / 9, 1, 2)) AS s "
        "ON t.id = s.id WHEN MATCHED THEN UPDATE SET amount = 0 WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)"
    )
    within = (Against(UNTRACKED, ratio=1.1),)
    yield Case("tracked-insert", "INSERT with row tracking", (Against(UNTRACKED, ratio=1.05),), _insert, 5, warm_up=2)
    yield Case("tracked-vectors", "UPDATE with row tracking", within, _statement(True, update), 5, warm_up=3)
    yield Case("tracked-copy", "UPDATE with it, copy-on-write", within, _statement(False, update), 5, warm_up=3)
    yield Case("tracked-merge", "MERGE with it, copy-on-write", within, _statement(False, merge), 5, warm_up=3)
