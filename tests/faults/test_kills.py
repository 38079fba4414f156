"""Writers killed with SIGKILL at random moments, two at once, again and again in one table.

How many rounds says :mod:`kills`; the figures are printed. After each round the table is as :func:`kills.check` wants
it, and the next writers go on from there.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from support.concurrency import bank
from support.faults.kills import OF_A_WRITER, check, write
from support.processes import environment

_KINDS = ("append", "copy", "vectors", "optimize", "schema")
#: Rounds in one table: its log is read whole after each.
_ROUNDS_PER_TABLE = 25
_LONGEST_LIFE_SECONDS = 0.4
_PATIENCE_SECONDS = 60


class Killed:
    """A writer, and when it is to die: some time after it began its first commit."""

    def __init__(self, context: Any, path: str, diary: Path, kind: str, life: float) -> None:
        self.diary, self.life = diary, life
        arguments = (kind, diary.name, str(diary), path)
        self.process = context.Process(target=write, args=arguments, daemon=True)
        self.process.start()

    def end(self) -> None:
        until = time.monotonic() + _PATIENCE_SECONDS
        while not (self.diary.exists() and self.diary.stat().st_size):
            assert time.monotonic() < until, "the writer does not write"
            assert self.process.is_alive()
            time.sleep(0.001)
        time.sleep(self.life)
        assert self.process.pid is not None
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.join(_PATIENCE_SECONDS)
        assert self.process.exitcode == -signal.SIGKILL, "the writer ended by itself"


@pytest.mark.alone
@pytest.mark.random
@pytest.mark.slow
def test_writers_killed_at_random(tmp_path: Path, capfd: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # A server that has imported everything makes each process in milliseconds; it finds modules by the environment.
    monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"])
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["support.concurrency.bare_writers"])
    chance = random.Random(20)
    commits = untold = 0
    started = time.monotonic()
    for number in range(OF_A_WRITER):
        table = tmp_path / f"table{number // _ROUNDS_PER_TABLE}"
        path, diaries = str(table / "t"), table / "diaries"
        if not table.exists():
            diaries.mkdir(parents=True)
            bank.create(path, vectors=True, checkpoint_interval=3)
        lives = [chance.random() ** 2 * _LONGEST_LIFE_SECONDS for _ in range(2)]
        writers = [
            Killed(context, path, diaries / f"{kind}{number}x{i}", kind, life)
            for i, (kind, life) in enumerate(zip(chance.choices(_KINDS, k=2), lives, strict=True))
        ]
        for writer in sorted(writers, key=lambda w: w.life):
            writer.end()
        notes = [note for diary in diaries.iterdir() for note in bank.read_diary(diary)]
        left = check(path, notes, own_time=True)
        if number % _ROUNDS_PER_TABLE == _ROUNDS_PER_TABLE - 1 or number == OF_A_WRITER - 1:
            untold += left
            commits += len([note for note in notes if note["what"] == "ack"])
    with capfd.disabled():
        print(
            f"\n{OF_A_WRITER} rounds, in each two writers killed, in {time.monotonic() - started:.0f} s: "
            f"{commits} commits acknowledged and there once, {untold} there of which nobody was told"
        )
    assert commits > OF_A_WRITER / 4
