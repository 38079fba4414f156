"""How many rounds of killing there are, and what must hold after each.

``HEADWATER_TEST_KILLS`` is how many rounds in all: of 12, 10 kill a bare writer, 1 the handler, 1 the JVM.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from headwater.log.checkpoint_reading import read_checkpoint
from headwater.log.segment import list_log
from headwater.log.snapshot import load_snapshot
from headwater.protocol.file_names import CommitName, parse_name
from headwater.stores import LocalStore, absolute_path
from support.concurrency import bank
from support.concurrency.bank_log import check_table
from support.sparks.running import Driver, Sparks, is_alive, wait_for

ROUNDS = int(os.environ.get("HEADWATER_TEST_KILLS", "8"))
OF_THE_JVM = max(1, ROUNDS // 24)
OF_THE_HANDLER = max(1, ROUNDS // 8)
OF_A_WRITER = max(1, ROUNDS - OF_THE_HANDLER - OF_THE_JVM)
#: So many of the newest checkpoints are read; the others were when they were new.
_NEWEST = 10


def check(path: str, notes: Iterable[dict[str, Any]], own_time: bool) -> int:
    """The table is readable, whole and as its writers were told; how many commits stand that nobody was told of.

    Of each writer that is its last one at most: it died between the commit and the line in its diary.
    """
    notes = list(notes)
    markers = check_table(path, notes, own_time)
    store = LocalStore()
    newest = load_snapshot(path, store)
    bank.check_sum(newest)
    for name in newest.select(["path"])["path"].to_pylist():
        assert os.path.exists(absolute_path(path, name)), f"a live file is not there: {name}"
    for checkpoint in list_log(path, store).checkpoints[:_NEWEST]:
        read_checkpoint(checkpoint, path, store)
    _check_files(Path(path) / "_delta_log")
    told = {note["marker"] for note in notes if note["what"] in ("ack", "conflict")}
    last_try = {note["marker"].rpartition("-")[0]: note["marker"] for note in notes if note["what"] == "try"}
    untold = [marker for marker in markers if marker != "create" and marker not in told]
    assert all(last_try[marker.rpartition("-")[0]] == marker for marker in untold)
    assert max(Counter(marker.rpartition("-")[0] for marker in untold).values(), default=0) <= 1
    return len(untold)


def kill_within(pid: int, seconds: float, chance: random.Random) -> None:
    """Kill a process at a random moment of so many seconds, and a little beyond."""
    time.sleep(chance.random() * seconds * 1.1)
    os.kill(pid, signal.SIGKILL)


def after_a_dead_jvm(sparks: Sparks, driver: Driver, handler: int) -> Driver:
    """A new Spark once the old one's handler has ended too."""
    wait_for(lambda: not is_alive(handler), 60, "the handler's end after its JVM's")
    driver.stop()
    return sparks.driver()


def _check_files(log: Path) -> None:
    """Every commit and checksum is whole; what else a dead writer left bears a name that no reader looks at."""
    for file in log.iterdir():
        if file.is_dir():
            continue
        name = parse_name(file.name)
        if name is None:
            assert file.name.startswith((".", "_last_checkpoint")), file.name
        elif isinstance(name, CommitName):
            content = file.read_text()
            assert content.endswith("\n")
            assert all(json.loads(line) for line in content.splitlines())
        elif file.name.endswith(".crc"):
            json.loads(file.read_text())


def write(kind: str, name: str, diary: str, path: str) -> None:
    """What a process does until it is killed. It is here, as processes of their own cannot import the tests."""
    from support.concurrency import bare_writers

    bare_writers._PAUSE_SECONDS = bare_writers._SECONDS_BETWEEN_SCHEMAS = bare_writers._SECONDS_BETWEEN_REWRITES = 0
    bare_writers.main(kind, name, diary, "/nonexistent/stop", path)
