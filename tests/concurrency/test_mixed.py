"""Every kind of writer at once in the same tables: bare transactions, a Spark of ours, the peer, delta-rs; and readers.

Runs for ``HEADWATER_TEST_SECONDS`` seconds, of which figures are printed. Two tables, each a bank (:mod:`bank`): one
with deletion vectors and in-commit timestamps, one with neither, in which delta-rs takes part. What must hold: every
version any engine reads has all the money, versions never go back, what a writer was told is in the log once, and the
balances at the end are those that the commits in the log lead to, whoever reads them. The others may lose races, as
we may; nobody may lose a commit.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import headwater
from headwater.log.snapshot import load_snapshot
from headwater.stores import LocalStore
from support.concurrency import bank
from support.concurrency.bank_log import check_table
from support.paths import SHARED
from support.processes import environment, python

SECONDS = float(os.environ.get("HEADWATER_TEST_SECONDS", "6"))
SPARKS = int(os.environ.get("HEADWATER_TEST_SPARKS", "1"))
_PATIENCE_SECONDS = 240
BARE = ("append", "copy", "vectors", "optimize", "schema", "read")


class Run:
    """The processes, their diaries in ``folder``; the two tables."""

    def __init__(self, home: Path) -> None:
        self.home, self.folder = home, home / "diaries"
        self.folder.mkdir()
        self.vectors, self.copies = str(home / "vectors"), str(home / "copies")
        self.running: dict[str, subprocess.Popen[str]] = {}

    def start_all(self, peer: str | None) -> None:
        """One process of each kind, and as many Sparks of ours as asked. Those come first, undisturbed: of many that
        write at once, one whose classes are still being loaded would lose each race.
        """
        both, stop = [self.vectors, self.copies], str(self.folder / "stop")
        for number in range(SPARKS):
            name = f"spark{number}"
            self._start(name, "concurrency.spark_writers", name, str(self.folder), *both)
            self._wait_for_all()
        if peer is not None:
            self._start_peer(peer, both)
            self._wait_for_all()
        for kind in BARE:
            tables = both if kind != "vectors" else both[:1]
            self._start(f"bare-{kind}", "concurrency.bare_writers", kind, kind, str(self.folder / kind), stop, *tables)
        self._start("delta-rs", "concurrency.delta_rs_writer", "rs", str(self.folder / "rs"), stop, self.copies)
        self._wait_for_all()

    def _start(self, name: str, module: str, *arguments: str) -> subprocess.Popen[str]:
        with open(self.home / f"{name}.log", "w") as log:
            process = subprocess.Popen(
                python(f"support.{module}", *arguments),
                stdin=subprocess.PIPE, stdout=log, stderr=log, text=True, env=environment(), cwd=self.home,
            )  # fmt: skip
        self.running[name] = process
        return process

    def _start_peer(self, jars: str, tables: list[str]) -> None:
        home = self.home / "peer-home"
        home.mkdir()
        process = self._start("peer", "sparks.peer_process", str(home), jars)
        assert process.stdin is not None
        arguments = f"'peer', {str(self.folder)!r}, {tables!r}, 'peer', 1"
        call = f"from support.concurrency import spark_writers; spark_writers.run(spark, {arguments})"
        process.stdin.write(json.dumps({"python": call}) + "\n")
        process.stdin.close()

    def _wait_for_all(self) -> None:
        """Until each writer has been told of a commit: on a busy machine a JVM takes its time to start."""
        until = time.monotonic() + _PATIENCE_SECONDS
        wanted = len(self.running)
        while sum(any(note["what"] in ("ack", "read") for note in notes) for notes in self.diaries()) < wanted:
            assert time.monotonic() < until, f"after {_PATIENCE_SECONDS} s not all write: {self.logs()}"
            self.check_alive()
            time.sleep(0.2)

    def check_alive(self) -> None:
        """That nobody has ended; a reader that sees what no commit made ends."""
        for name, process in self.running.items():
            assert process.poll() is None, f"{name} ended: {self.logs()}"

    def end(self) -> None:
        """Have all stop writing, and then tell what they see."""
        (self.folder / "stop").touch()
        for name, process in self.running.items():
            if not name.startswith(("spark", "peer")):
                assert process.wait(60) == 0, f"{name}: {self.logs()}"
        # A statement that runs may yet commit.
        sparks = [name for name in self.running if name.startswith(("spark", "peer"))]
        self._wait_until_idle()
        (self.folder / "end").touch()
        for name in sparks:
            assert self.running[name].wait(120) == 0, f"{name}: {self.logs()}"

    def _wait_until_idle(self) -> None:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            notes = self.notes()
            tried = Counter(note["marker"] for note in notes if note["what"] == "try")
            ended = Counter(note["marker"] for note in notes if note["what"] in ("ack", "conflict"))
            if tried <= ended:
                return
            time.sleep(0.1)
        raise AssertionError(f"a statement does not end: {self.logs()}")

    def kill(self) -> None:
        for process in self.running.values():
            if process.poll() is None:
                process.kill()
                process.wait()

    def diaries(self) -> Iterator[list[dict[str, Any]]]:
        return (bank.read_diary(path) for path in self.folder.iterdir() if path.is_file())

    def notes(self) -> list[dict[str, Any]]:
        return [note for notes in self.diaries() for note in notes]

    def logs(self) -> str:
        """The end of what each process said."""
        return "\n".join(f"--- {path.name}\n{path.read_text()[-1500:]}" for path in self.home.glob("*.log"))


@contextmanager
def running(home: Path, peer: str | None) -> Iterator[Run]:
    run = Run(home)
    bank.create(run.vectors, vectors=True)
    bank.create(run.copies, vectors=False)
    try:
        run.start_all(peer)
        yield run
    finally:
        run.kill()


def peer_jars() -> str | None:
    """The peer's JARs; None where the list of them is not there."""
    fetch = SHARED / "peer" / "fetch"
    if not fetch.is_file():
        return None
    return subprocess.run([fetch], capture_output=True, text=True, timeout=600, check=True).stdout.strip()


@pytest.mark.spark
@pytest.mark.random
@pytest.mark.slow
@pytest.mark.parametrize("with_peer", [True, False], ids=["with the peer", "without the peer"])
def test_all_kinds_of_writers_at_once(with_peer: bool, tmp_path: Path, capfd: Any) -> None:
    """Without the peer only where there is none, so that one of the two runs."""
    headwater.jar_path()  # built before any process needs it
    peer = peer_jars()
    if with_peer != (peer is not None):
        pytest.skip(f"the list of the peer's JARs is {'not ' if peer is None else ''}in {SHARED}")
    with running(tmp_path, peer) as run:
        before = {path: load_snapshot(path, LocalStore()).version for path in (run.vectors, run.copies)}
        started = time.monotonic()
        while time.monotonic() < started + SECONDS:
            run.check_alive()
            time.sleep(0.2)
        seconds = time.monotonic() - started
        done = {path: load_snapshot(path, LocalStore()).version - version for path, version in before.items()}
        run.end()
        notes = run.notes()
    for path in (run.vectors, run.copies):
        check_table(path, [note for note in notes if note["table"] == path], own_time=path == run.vectors)
    with capfd.disabled():
        print(report(notes, sum(done.values()) / seconds, seconds))
    kinds = {note["kind"] for note in notes if note["what"] == "ack"}
    assert {"append", "copy", "vectors", "optimize", "schema", "delta-rs append", "delta-rs update"} <= kinds
    assert {note["by"] for note in notes if note["what"] == "end"} == {"spark", *(["peer"] if peer else [])}


def report(notes: list[dict[str, Any]], rate: float, seconds: float) -> str:
    """The figures, a line a kind of writer."""
    commits, rebased, passed = Counter[str](), Counter[str](), Counter[str]()
    conflicts: dict[str, Counter[str]] = defaultdict(Counter)
    reads = Counter[str]()
    for note in notes:
        match note["what"]:
            case "ack":
                commits[note["kind"]] += 1
            case "conflict":
                conflicts[note["kind"]][note["condition"]] += 1
            case "rebased":
                rebased[note["kind"]] += 1
                passed[note["kind"]] += note["winners"]
            case "read":
                reads[note["kind"]] += note["versions"]
    total = sum(sum(counts.values()) for counts in conflicts.values())
    lines = [
        f"\nmixed run of {seconds:.0f} s on two tables: {rate:.1f} commits/s; in all {sum(commits.values())} commits, "
        f"{total} conflicts, {sum(rebased.values())} rebased on {sum(passed.values())} winners; versions read "
        + ", ".join(f"{count} by {kind}" for kind, count in sorted(reads.items()))
    ]
    for kind in sorted({*commits, *conflicts}):
        told = ", ".join(f"{count} {name}" for name, count in conflicts[kind].most_common())
        lines.append(f"  {kind}: {commits[kind]} commits, {rebased[kind]} rebased; conflicts: {told or 'none'}")
    return "\n".join(lines)
