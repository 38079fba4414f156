"""A round: fresh tables, clients in processes of their own, a nemesis, and the history that they made.

Owns starting and ending processes, and the nemesis (after Jepsen's): what happens to them meanwhile.

- ``pause``: a client is stopped (SIGSTOP) at a random moment, or right before or after it puts a commit or a decision,
  and continued up to four times the patience later, so that others may have given its transaction up.
- ``kill``: the same with SIGKILL; another process takes its place, and tries again what a stream had begun.
- ``clock``: each client's clock jumps up to an hour, where the package reads it; ``faketime`` does the same to all that
  the process reads, by libfaketime (Debian's package ``faketime``). Under libfaketime a thread that wakes another takes
  40 ms, so that a run makes a tenth of the ops. The times of ops are from a clock that neither moves.
- ``partition``: of stores that are servers, the network to the server is cut for up to three seconds. Packets are
  lost, so that a request may also arrive seconds after its client has given it up (:mod:`histories.network`).
- ``proxy``: of stores that are servers, requests and answers are delayed, lost, repeated and reordered
  (:mod:`histories.proxy`).
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import msgspec

from headwater.stores import LocalStore
from histories import stores, tables
from histories.client import Plan
from histories.history import Header, History, Op, TableFacts, of_ops, read_ops
from support.processes import environment, python

#: The tables of a round.
TABLES = {
    "left": TableFacts(holds="lists", level="Serializable"),
    "right": TableFacts(holds="lists"),
    "copied": TableFacts(holds="lists", vectors=False),
    "log": TableFacts(holds="rows", vectors=False, appends_only=True),
    "strict": TableFacts(holds="rows", level="Serializable"),
    "rows": TableFacts(holds="rows"),
}
NEMESES = ("pause", "kill", "clock", "faketime", "partition", "proxy")
_FAKETIME = [Path(f"/usr/lib/{machine}-linux-gnu/faketime/libfaketime.so.1") for machine in ("x86_64", "aarch64")]
#: How far a clock is from this machine's at most, in seconds.
_FARTHEST_JUMP = 3600
#: Seconds between two pauses, two kills, two jumps of a clock and two cuts, on average.
_BETWEEN = {"pause": 1.0, "kill": 4.0, "clock": 2.0, "faketime": 2.0, "partition": 5.0}
#: The most seconds that the network is cut for.
_LONGEST_CUT = 3.0
#: How often, of 1, a client stops or kills itself before or after a put that counts.
_STOPS, _KILLS = 0.005, 0.001
#: The most seconds that a client may take to end its last op.
_LONGEST_OP = 60.0
#: The same until the first op, of a JVM on a busy machine.
_LONGEST_START = 240.0
_POLL_SECONDS = 0.05
#: The clients that have a JVM.
_JVMS = ("spark", "peer")


class Setting(msgspec.Struct, kw_only=True):
    """How a round is run.

    :param seconds: how long clients begin ops.
    :param store: as :func:`histories.stores.opened` takes it.
    """

    seconds: float = 30.0
    clients: int = 4
    store: str = "local"
    nemesis: tuple[str, ...] = ("pause", "kill", "clock")
    mutate: str | None = None
    seed: int = 0
    with_delta_rs: bool = True
    with_spark: bool = False
    with_peer: bool = False
    patience: float = 0.5


class ClientFailedError(Exception):
    """A client ended that was not killed; the text has what it said."""


def run_round(setting: Setting, folder: Path) -> History:
    """Run a round in a folder, which has its tables afterwards.

    :raises ClientFailedError: a client ended, or could not be started.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        place = stack.enter_context(stores.opened(setting.store, folder, setting.nemesis, setting.seed))
        paths = {name: f"{place.root}/{name}" for name in TABLES}
        for name, facts in TABLES.items():
            tables.create(paths[name], place.store or LocalStore(), facts)
        strikes = setting.nemesis
        plan = Plan(
            folder=str(folder),
            paths=paths,
            tables=TABLES,
            began=time.monotonic_ns(),
            seed=setting.seed,
            mutate=setting.mutate,
            patience=setting.patience,
            stops=_STOPS if "pause" in strikes else 0.0,
            kills=_KILLS if "kill" in strikes else 0.0,
            moves_clock="clock" in strikes,
            gateway=place.port,
            hadoop=place.settings,
        )
        (folder / "plan.json").write_bytes(msgspec.json.encode(plan))
        round_ = _Round(setting, folder, place)
        stack.callback(round_.end)
        round_.run()
        ops: list[Op] = [op for file in sorted(folder.glob("ops-*.jsonl")) for op in read_ops(file)]
    header = Header(tables=TABLES, seed=setting.seed, store=setting.store, nemesis=list(strikes), mutate=setting.mutate)
    return of_ops(header, ops)


def libfaketime() -> Path:
    """The library that moves clocks.

    :raises ClientFailedError: it is not installed.
    """
    for path in _FAKETIME:
        if path.exists():
            return path
    raise ClientFailedError("libfaketime is not installed: apt install faketime, or use the nemesis clock")


class _Round:
    def __init__(self, setting: Setting, folder: Path, place: stores.Place) -> None:
        self._setting, self._folder, self._network = setting, folder, place.network
        is_local = place.store is None
        self._chance = random.Random(setting.seed)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._names = [f"client{number}" for number in range(setting.clients)]
        if setting.with_delta_rs and is_local:
            self._names.append("delta-rs")
        if setting.with_peer and is_local:
            self._names.insert(0, "peer")
        if setting.with_spark:
            self._names.insert(0, "spark")
        self._started = 0
        #: When a stopped process is continued, by its id.
        self._wakes: dict[int, float] = {}
        self._due = {name: 0.0 for name in setting.nemesis if name in _BETWEEN}
        self._joins = 0.0
        self.struck: Counter[str] = Counter()

    def run(self) -> None:
        for name in self._names:
            self._start(name)
            if name in _JVMS:  # they take longest, and would lose each race while their classes are loaded
                self._wait_until_began(1 + self._names.index(name))
        self._wait_until_began(len(self._names))
        until = time.monotonic() + self._setting.seconds
        while time.monotonic() < until:
            self._strike()
            self._wake()
            self._check_alive()
            time.sleep(_POLL_SECONDS)
        (self._folder / "stop").touch()
        until = time.monotonic() + _LONGEST_OP
        while any(process.poll() is None for process in self._processes.values()) and time.monotonic() < until:
            self._wake()
            time.sleep(_POLL_SECONDS)
        self.end()
        self._start("last")
        if self._processes["last"].wait(300) != 0:
            raise ClientFailedError(self._said("last"))

    def end(self) -> None:
        """Kill what is still running: each client is a process group of its own."""
        for process in self._processes.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _start(self, name: str) -> None:
        self._started += 1
        more = {"PYTHONHASHSEED": "0"}
        self._set_clock(name, 0)
        if "faketime" in self._setting.nemesis and name.startswith("client"):
            more |= {
                "LD_PRELOAD": str(libfaketime()),
                "FAKETIME_TIMESTAMP_FILE": str(self._folder / f"clock-{name}"),
                "FAKETIME_CACHE_DURATION": "1",
                "DONT_FAKE_MONOTONIC": "1",
                "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            }
        root = str(Path(__file__).resolve().parents[1])
        command = python("histories.client", str(self._folder / "plan.json"), name, str(self._started))
        with open(self._folder / f"{name}.log", "ab") as log:
            self._processes[name] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=root, env=environment(**more),
                start_new_session=True,
            )  # fmt: skip

    def _wait_until_began(self, count: int) -> None:
        until = time.monotonic() + _LONGEST_START
        while len(list(self._folder.glob("ops-*.jsonl"))) < count:
            if time.monotonic() > until:
                raise ClientFailedError(f"not all clients began an op within {_LONGEST_START:.0f} s")
            self._wake()
            self._check_alive()
            time.sleep(_POLL_SECONDS)

    def _strike(self) -> None:
        now = time.monotonic()
        for name, due in self._due.items():
            if now < due:
                continue
            self._due[name] = now + self._chance.expovariate(1 / _BETWEEN[name])
            victim = self._chance.choice(self._names)
            if due == 0.0:
                continue
            self.struck[name] += 1
            if name == "pause":
                self._signal(victim, signal.SIGSTOP)
            elif name == "partition":
                self._cut(now + self._chance.random() * _LONGEST_CUT)
            elif name == "kill":
                self._signal(victim, signal.SIGKILL)
            else:
                self._set_clock(victim, self._chance.randint(-_FARTHEST_JUMP, _FARTHEST_JUMP))

    def _cut(self, until: float) -> None:
        if self._network is not None:
            self._network.cut()
            self._joins = until

    def _set_clock(self, name: str, seconds: int) -> None:
        coming = self._folder / f"clock-{name}.coming"
        coming.write_text(f"{seconds:+d}\n")
        coming.rename(self._folder / f"clock-{name}")

    def _pid(self, name: str) -> int | None:
        """The process that does a client's work now."""
        try:
            return int((self._folder / f"pid-{name}").read_text())
        except FileNotFoundError:
            return None

    def _signal(self, name: str, number: int) -> None:
        pid = self._pid(name)
        if pid is None or (name in _JVMS and number == signal.SIGKILL):  # it would take minutes to come back
            return
        with contextlib.suppress(ProcessLookupError):
            if name in _JVMS:  # with its JVM and its handler
                os.killpg(self._processes[name].pid, number)
            else:
                os.kill(pid, number)

    def _wake(self) -> None:
        """Continue stopped processes, whoever stopped them, and join a network that was cut for long enough."""
        now = time.monotonic()
        if self._network is not None and 0.0 < self._joins <= now:
            self._network.join()
            self._joins = 0.0
        for name in self._processes:
            pid = self._pid(name)
            if pid is not None and _is_stopped(pid):
                longest = 4 * self._setting.patience
                if now >= self._wakes.setdefault(pid, now + self._chance.random() * longest):
                    del self._wakes[pid]
                    self._signal(name, signal.SIGCONT)

    def _check_alive(self) -> None:
        for name, process in self._processes.items():
            if process.poll() is not None:
                raise ClientFailedError(f"{name} ended with {process.returncode}: {self._said(name)}")

    def _said(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text(errors="replace")[-2000:]


def _is_stopped(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] == "T"


def interpreter() -> str:
    """What runs the clients, for the summary."""
    return f"Python {sys.version.split()[0]}"
