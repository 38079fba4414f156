"""Processes that write to two banks at once (:mod:`support.concurrency.bank`), started and ended together."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.concurrency import bank
from support.paths import SHARED
from support.processes import environment, python

_PATIENCE_SECONDS = 240
#: What a process notes when a statement of it has ended; another engine may lose its first races.
_SAID = ("ack", "read", "done", "conflict")
#: Until statements that run have ended: maintenance that loses again and again takes its time.
_IDLE_SECONDS = 120
#: Kinds of writers by bare transactions.
BARE = ("append", "copy", "vectors", "optimize", "schema", "read")


class Run:
    """The processes, their diaries in ``folder``; the two tables."""

    def __init__(self, home: Path, sparks: int, maintains: bool) -> None:
        self.sparks, self.maintains = sparks, maintains
        self.home, self.folder = home, home / "diaries"
        self.folder.mkdir()
        self.vectors, self.copies = str(home / "vectors"), str(home / "copies")
        self.running: dict[str, subprocess.Popen[str]] = {}

    def start_all(self, peer: str | None, bare: Sequence[str], delta_rs: bool) -> None:
        """One process of each kind, and as many Sparks of ours as asked. Those come first, undisturbed: of many that
        write at once, one whose classes are still being loaded would lose each race.
        """
        both, stop = [self.vectors, self.copies], str(self.folder / "stop")
        for number in range(self.sparks):
            name = f"spark{number}"
            self._start(name, "concurrency.spark_writers", name, str(self.folder), self._kind, *both)
            self._wait_for_all()
        if peer is not None:
            self._start_peer(peer, both)
            self._wait_for_all()
        for kind in bare:
            tables = both if kind != "vectors" else both[:1]
            self._start(f"bare-{kind}", "concurrency.bare_writers", kind, kind, str(self.folder / kind), stop, *tables)
        if delta_rs:
            self._start("delta-rs", "concurrency.delta_rs_writer", "rs", str(self.folder / "rs"), stop, self.copies)
        self._wait_for_all()

    @property
    def _kind(self) -> str:
        return "maintains" if self.maintains else "writes"

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
        arguments = f"'peer', {str(self.folder)!r}, {tables!r}, 'peer', 1, {self.maintains}"
        call = f"from support.concurrency import spark_writers; spark_writers.run(spark, {arguments})"
        process.stdin.write(json.dumps({"python": call}) + "\n")
        process.stdin.close()

    def _wait_for_all(self) -> None:
        """Until each has ended a statement: on a busy machine a JVM takes its time to start."""
        until = time.monotonic() + _PATIENCE_SECONDS
        wanted = len(self.running)
        while sum(any(note["what"] in _SAID for note in notes) for notes in self.diaries()) < wanted:
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
        until = time.monotonic() + _IDLE_SECONDS
        while True:
            notes = self.notes()
            ended = {note["marker"] for note in notes if note["what"] in ("ack", "done", "conflict")}
            running = [note for note in notes if note["what"] == "try" and note["marker"] not in ended]
            if not running:
                return
            assert time.monotonic() < until, f"statements do not end: {running}, {self.logs()}"
            time.sleep(0.1)

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
def running(
    home: Path,
    peer: str | None,
    sparks: int = 1,
    bare: Sequence[str] = BARE,
    delta_rs: bool = True,
    maintains: bool = False,
    **properties: str,
) -> Iterator[Run]:
    """The processes, once each has been told of a commit.

    :param maintains: whether Sparks maintain the tables, too, in which rows then have ids.
    :param properties: of the tables, underscores for dots.
    """
    run = Run(home, sparks, maintains)
    bank.create(run.vectors, vectors=True, tracked=maintains, **properties)
    bank.create(run.copies, vectors=False, tracked=maintains, **properties)
    try:
        run.start_all(peer, bare, delta_rs)
        yield run
    finally:
        run.kill()


def peer_jars() -> str | None:
    """The peer's JARs; None where the list of them is not there."""
    fetch = SHARED / "peer" / "fetch"
    if not fetch.is_file():
        return None
    return subprocess.run([fetch], capture_output=True, text=True, timeout=600, check=True).stdout.strip()
