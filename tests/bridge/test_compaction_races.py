"""A compaction that loses to writers of another process: it commits what it has written, with their marks in it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from headwater.log.snapshot import Snapshot, load_snapshot
from headwater.stores import LocalStore
from headwater.transaction import Provenance, Transaction
from support.concurrency import bank, bare_writers
from support.concurrency.bank_log import read_log
from support.sparks.running import wait_for

pytestmark = pytest.mark.spark


def transfer(path: str, number: int) -> None:
    """Mark two rows, and write them with their new balances."""
    txn = Transaction(path, LocalStore(), newest(path))
    bare_writers.vectors(txn, newest(path), random.Random(number), f"t-{number}")
    txn.commit(Provenance("UPDATE"))


def newest(path: str) -> Snapshot:
    return load_snapshot(path, LocalStore())


def live(path: str) -> set[str]:
    return set(newest(path).select(["path"])["path"].to_pylist())


@pytest.mark.parametrize(
    "statement", ["OPTIMIZE {t}", pytest.param("REORG TABLE {t} APPLY (PURGE)", marks=pytest.mark.soak)]
)
def test_what_it_has_written_is_not_written_again(classic: Any, tmp_path: Path, statement: str) -> None:
    folder = tmp_path / statement.partition(" ")[0]
    path = str(folder)
    bank.create(path, vectors=True)
    for number in range(3):
        transfer(path, number)
    before = live(path)
    with classic.faults.hold_at(f"before_put_of_{folder.name}") as held:
        classic.ask("sql", text=statement.format(t=f"delta.`{path}`"))
        wait_for(held, 60, "the compaction's commit")
        written = {file.name for file in folder.glob("*.parquet")} - before
        written = {name for name in written if name not in live(path)} - {
            file for commit in read_log(path) for file in commit["live"]
        }
        for number in range(3, 6):
            transfer(path, number)
    assert "rows" in classic.answer()
    assert written
    assert written <= live(path)
    after = newest(path)
    assert after.version == 7
    bank.check_sum(after)
    assert [row[4] for row in classic.rows(f"DESCRIBE HISTORY delta.`{path}` LIMIT 4")] == [
        statement.partition(" ")[0],
        *["UPDATE"] * 3,
    ]
