"""Processes that write to one table at once, some of which are killed, beside delta-rs; and readers all the while.

Runs for ``HEADWATER_TEST_SECONDS`` seconds with ``HEADWATER_TEST_WRITERS`` writers, of which figures are printed. What
must hold: versions have no gap, what a writer was told is in the log once and under that version, and at every
version, for every reader, the accounts add up to what was on them at first.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from headwater.log.snapshot import Snapshot, load_snapshot
from headwater.protocol.actions import Metadata, Protocol
from headwater.stores import LocalStore
from headwater.transaction import Provenance, Transaction, wait_for_maintenance
from support.concurrency.writing import ACCOUNTS, START_BALANCE, account_file
from support.processes import environment, python

SECONDS = float(os.environ.get("HEADWATER_TEST_SECONDS", "8"))
WRITERS = int(os.environ.get("HEADWATER_TEST_WRITERS", "5"))
#: delta-rs first: it makes few attempts at a commit and waits between them, so that it may lose to the others for long.
KINDS = ("delta-rs", "shared", "append", "metadata", "disjoint", "shared", "append", "disjoint")
SCHEMA = (
    '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}},'
    '{"name":"account","type":"string","nullable":true,"metadata":{}}]}'
)
TOTAL = ACCOUNTS * START_BALANCE
_SECONDS_BETWEEN_KILLS = 2.5
_PATIENCE_SECONDS = 120


class Writers:
    """The processes; one that is killed is replaced by another of its kind under another name."""

    def __init__(self, path: str, outputs: Path) -> None:
        self.path, self.outputs, self.stop_file = path, outputs, outputs.with_suffix(".stop")
        self.errors = outputs.with_suffix(".errors")
        self.errors.mkdir()
        self.running: dict[str, tuple[str, subprocess.Popen[bytes]]] = {}
        self.killed: set[str] = set()
        self.number = 0

    def start(self, kind: str) -> None:
        self.number += 1
        name = f"{kind}{self.number}"
        arguments = [self.path, kind, name, str(self.number), str(self.stop_file)]
        command = python("support.concurrency.writing", *arguments)
        with open(self.outputs / name, "wb") as output, open(self.errors / name, "wb") as errors:
            process = subprocess.Popen(command, env=environment(), stdout=output, stderr=errors)
        self.running[name] = (kind, process)

    def kill_one(self, chance: random.Random) -> None:
        name = chance.choice(sorted(self.running))
        kind, process = self.running[name]
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            del self.running[name]
            self.killed.add(name)
            self.start(kind)

    def wait_for_all(self) -> None:
        """Until each has had its first commit acknowledged: on a busy machine Python alone takes seconds to start."""
        patience = time.time() + _PATIENCE_SECONDS
        while not all("ack" in (self.outputs / name).read_text() for name in self.running):
            assert time.time() < patience
            time.sleep(0.05)

    def end(self) -> None:
        self.stop_file.touch()
        for name, (_, process) in self.running.items():
            assert process.wait(120) == 0, f"{name}: {(self.errors / name).read_text()[-4000:]}"

    def stop(self) -> None:
        for _, process in self.running.values():
            if process.poll() is None:
                process.kill()
                process.wait()

    def told(self) -> list[list[str]]:
        lines = [line for file in self.outputs.iterdir() for line in file.read_text().split("\n")[:-1]]
        return [line.split() for line in lines]


@pytest.mark.alone
@pytest.mark.random
@pytest.mark.slow
def test_writers_of_all_kinds_at_once(tmp_path, capfd):
    path, outputs = str(tmp_path / "t"), tmp_path / "out"
    outputs.mkdir()
    store = LocalStore()
    txn = Transaction(path, store, None)
    txn.update_protocol(Protocol(1, 2))
    txn.update_metadata(Metadata("the-id", SCHEMA, ("account",), {}, created_time=1))
    txn.add(account_file(str(number), START_BALANCE) for number in range(ACCOUNTS))
    snapshot = txn.commit(Provenance("CREATE TABLE", user_metadata="create")).snapshot
    writers = Writers(path, outputs)
    chance = random.Random(7)
    reads = 0
    try:
        first, *others = (KINDS * WRITERS)[:WRITERS]
        writers.start(first)
        writers.wait_for_all()
        for kind in others:
            writers.start(kind)
        writers.wait_for_all()
        started = time.time()
        next_kill = started + _SECONDS_BETWEEN_KILLS
        before = load_snapshot(path, store).version
        while time.time() < started + SECONDS:
            newer = load_snapshot(path, store, base=snapshot)
            assert newer.version >= snapshot.version
            assert balances(newer) == TOTAL, newer.version
            assert balances(load_snapshot(path, store, chance.randint(0, newer.version))) == TOTAL
            snapshot, reads = newer, reads + 2
            if time.time() > next_kill:
                writers.kill_one(chance)
                next_kill = time.time() + _SECONDS_BETWEEN_KILLS
            time.sleep(0.05)
        done = load_snapshot(path, store).version - before
        writers.end()
    finally:
        writers.stop()
    counts = check_log(path, writers)
    wait_for_maintenance(60)
    assert balances(load_snapshot(path, store)) == TOTAL
    conflicts = {words[1]: 0 for words in writers.told() if words[0] == "conflict"}
    for words in writers.told():
        if words[0] == "conflict":
            conflicts[words[1]] += 1
    rebased = [int(words[1]) for words in writers.told() if words[0] == "rebased"]
    with capfd.disabled():
        print(
            f"\n{WRITERS} writers, {SECONDS:.0f} s: {done / SECONDS:.1f} commits/s {dict(counts)}; "
            f"{len(rebased)} rebased on {sum(rebased)} winners; conflicts {conflicts}; {len(writers.killed)} killed; "
            f"{reads} reads"
        )
    assert counts["shared"] > 0
    assert counts["append"] > 0
    assert counts["delta-rs"] > 0


def balances(snapshot: Snapshot) -> int:
    tags = snapshot.select(["tags"]).column("tags").to_pylist()
    return sum(int(dict(tag)["balance"]) for tag in tags if tag)


def check_log(path: str, writers: Writers) -> Counter[str]:
    """Everything told is there; the number of commits by the kind of their writer."""
    live: dict[str, int] = {}
    versions: dict[str, int] = {}
    log = Path(path) / "_delta_log"
    names = sorted(file.name for file in log.iterdir() if file.name.endswith(".json") and file.name.count(".") == 1)
    assert names == [f"{version:020d}.json" for version in range(len(names))]
    for version, name in enumerate(names):
        for line in (log / name).read_text().splitlines():
            action = json.loads(line)
            if (info := action.get("commitInfo")) is not None:
                assert info["userMetadata"] not in versions, "a commit is there twice"
                versions[info["userMetadata"]] = version
            elif (add := action.get("add")) is not None:
                live[add["path"]] = int((add.get("tags") or {}).get("balance", 0))
            elif (remove := action.get("remove")) is not None:
                del live[remove["path"]]
        assert sum(live.values()) == TOTAL, f"version {version}"
    told = {words[1]: int(words[2]) for words in writers.told() if words[0] == "ack"}
    for marker, version in told.items():
        assert versions[marker] == version or version < 0
    untold = versions.keys() - told.keys() - {"create"}
    assert {marker.rpartition("-")[0] for marker in untold} <= writers.killed
    assert len(untold) <= len(writers.killed)
    return Counter(marker.rpartition("-")[0].rstrip("0123456789") for marker in versions if marker != "create")
