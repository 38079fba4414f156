"""Sparks in processes of their own, with all they start, which tests kill, hold and signal.

:class:`Sparks` starts drivers, servers and shells, with the handler's faults within reach: ``faults/sitecustomize.py``.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from headwater.cli import launch
from support import sessions
from support.paths import SOURCES, TESTS
from support.processes import python
from support.sparks.asking import START_SECONDS as PATIENCE

FAULTS = Path(__file__).with_name("faults")
#: The settings of the servers' ports.
PORTS = {"thrift-server": "hive.server2.thrift.port", "connect-server": "spark.connect.grpc.binding.port"}


class Faults:
    """Where the handler is to die or to wait; see ``faults/sitecustomize.py``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def kill_at(self, point: str) -> None:
        """The handler dies the next time it gets there."""
        (self.folder / point).touch()

    def kill_always(self, point: str) -> None:
        """The handler dies every time it gets there, until the point is spared."""
        (self.folder / f"{point}.always").touch()

    @contextlib.contextmanager
    def hold_at(self, point: str) -> Iterator[Callable[[], bool]]:
        """The handler waits when it gets there, as long as the block runs; gives whether it got there."""
        wanted, there = self.folder / f"{point}.wait", self.folder / f"{point}.waits"
        there.unlink(missing_ok=True)
        wanted.touch()
        try:
            yield there.exists
        finally:
            wanted.unlink()

    def fill_at(self, point: str) -> None:
        """The handler finds no space left the next time it gets there."""
        (self.folder / f"{point}.full").touch()

    def spare(self, point: str) -> None:
        """Let the handler live."""
        (self.folder / f"{point}.always").unlink()

    def happened(self, point: str) -> bool:
        """Whether it got there."""
        return not (self.folder / point).exists()


class Running:
    """A process with a Spark in it, or in a child of it, that a test started; its output goes to ``log``."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], home: Path, name: str) -> None:
        self.home = home
        self.log_file = home / f"{name}.log"
        self.output_file = home / f"{name}.out"
        self.faults = Faults(Path(environment["HEADWATER_TEST_FAULTS"]))
        self._streams: list[IO[bytes]] = [self.log_file.open("wb")]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=self._stdout(),
            stderr=self._streams[0],
            cwd=home,
            env=dict(environment),
            start_new_session=True,  # a group to send a terminal's signals to
        )

    def _stdout(self) -> IO[bytes] | int:
        self._streams.append(self.output_file.open("wb"))
        return self._streams[-1]

    @property
    def log(self) -> str:
        """What it wrote to standard error."""
        return self.log_file.read_text(encoding="utf-8", errors="replace")

    @property
    def output(self) -> str:
        """What it wrote to standard output."""
        return self.output_file.read_text(encoding="utf-8", errors="replace")

    @property
    def jvm(self) -> int:
        """The process id of the JVM."""
        return next(pid for pid, command in family(self.process.pid) if "/java " in command or "java -" in command)

    @property
    def handler(self) -> int:
        """The process id of the handler."""
        wait_for(lambda: bool(self.handlers), PATIENCE, f"a handler of {self.process.pid}")
        return self.handlers[0]

    @property
    def handlers(self) -> list[int]:
        """The process ids of all handlers there are; there should be one."""
        return [pid for pid, command in family(self.process.pid) if "-m headwater.handler" in command]

    def stop(self) -> None:
        """End it, kindly first."""
        everyone = [pid for pid, _ in family(self.process.pid)]
        if self.process.stdin is not None:
            with contextlib.suppress(OSError):
                self.process.stdin.close()
        for pause, number in ((20 if self.ends_with_input else 0, signal.SIGTERM), (20, signal.SIGKILL), (10, None)):
            try:
                self.process.wait(pause)
                break
            except subprocess.TimeoutExpired:
                if number is not None:
                    self.process.send_signal(number)
        for pid in everyone:
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)
        for stream in self._streams:
            stream.close()

    ends_with_input = True


class Driver(Running):
    """A process running :mod:`support.sparks.driver`: ``run(name, **arguments)`` has it run a scenario."""

    def _stdout(self) -> int:
        return subprocess.PIPE

    def answer(self) -> Any:
        """The next answer."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the driver ended: {self.log[-3000:]}"
        answer = json.loads(line)
        assert "error" not in answer, answer["error"]["traceback"]
        return answer["result"]

    def ask(self, run: str, **arguments: Any) -> None:
        """Begin a scenario."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"run": run, "arguments": arguments}).encode() + b"\n")
        self.process.stdin.flush()

    def run(self, run: str, **arguments: Any) -> Any:
        """A scenario's result."""
        self.ask(run, **arguments)
        return self.answer()

    def sql(self, text: str) -> dict[str, Any]:
        """A statement's ``rows``, or its error: ``condition``, ``state``, ``text``."""
        return self.run("sql", text=text)

    def rows(self, text: str) -> list[list[Any]]:
        """A statement's rows; it must not fail."""
        found = self.sql(text)
        assert "rows" in found, found["text"]
        return found["rows"]


class Server(Running):
    """A Spark Connect or Thrift server on ``port``."""

    port: int
    ends_with_input = False


class Sparks:
    """Starts processes with Spark, and ends them."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.running: list[Running] = []

    def _folder(self, name: str) -> Path:
        folder = self.home / f"{name}-{len(self.running)}"
        folder.mkdir()
        return folder

    def _environment(self, folder: Path, environment: Mapping[str, str] | None = None) -> dict[str, str]:
        path = [str(FAULTS), str(SOURCES), str(TESTS), os.environ.get("PYTHONPATH", "")]
        return {
            **(environment or os.environ),
            "PYTHONPATH": os.pathsep.join(part for part in path if part),
            "HEADWATER_TEST_FAULTS": str(folder / "faults"),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
        }

    def _settings(self, folder: Path, settings: Mapping[str, str] | None) -> dict[str, str]:
        own = {"spark.log.level": "WARN", "spark.sql.warehouse.dir": str(folder / "warehouse")}
        return {**sessions.settings(), **own, **(settings or {})}

    def driver(self, kind: str = "classic", settings: Mapping[str, str] | None = None, url: str = "") -> Driver:
        """A PySpark process; ``kind`` is ``classic``, ``plain`` (a Spark without Headwater) or ``connect``."""
        folder = self._folder(kind)
        argument = url if kind == "connect" else json.dumps(self._settings(folder, settings))
        command = python("support.sparks.driver", kind, argument)
        started = Driver(command, self._environment(folder), folder, "driver")
        self.running.append(started)
        started.answer()
        return started

    def shell(self, name: str, arguments: Sequence[str], settings: Mapping[str, str] | None = None) -> Running:
        """One of Spark's scripts, as ``headwater`` starts it."""
        return self._script(Running, name, arguments, settings)

    def server(self, name: str, arguments: Sequence[str] = (), settings: Mapping[str, str] | None = None) -> Server:
        """A server of Spark's, as ``headwater`` starts it, once it takes connections."""
        port = free_port()
        port_setting = PORTS[name]
        own = {port_setting: str(port)} if port_setting.startswith("spark.") else {}
        rest = [] if own else ["--hiveconf", f"{port_setting}={port}"]
        started = self._script(Server, name, [*rest, *arguments], {**own, **(settings or {})})
        started.port = port
        wait_for(lambda: takes_connections(port, started), PATIENCE, f"{name} on port {port}")
        return started

    def _script(self, kind: type[Any], name: str, arguments: Sequence[str], settings: Mapping[str, str] | None) -> Any:
        folder = self._folder(name)
        confs = [f"--conf={key}={value}" for key, value in self._settings(folder, settings).items()]
        build = launch.server_command if name in launch.SERVERS else launch.shell_command
        command, environment = build(name, [*confs, *arguments])
        started = kind(command, self._environment(folder, environment), folder, name)
        self.running.append(started)
        return started

    def stop(self) -> None:
        for running in reversed(self.running):
            running.stop()


def family(root: int) -> list[tuple[int, str]]:
    """A process and those it started, with their command lines, in no order but parents first."""
    listed = subprocess.run(
        ["ps", "-ww", "-eo", "pid=,ppid=,command="], capture_output=True, text=True, check=True
    ).stdout
    children: dict[int, list[tuple[int, str]]] = {}
    commands: dict[int, str] = {}
    for line in listed.splitlines():
        pid, parent, command = line.split(None, 2)
        children.setdefault(int(parent), []).append((int(pid), command))
        commands[int(pid)] = command
    found = [(root, commands.get(root, ""))]
    for known, _ in found:
        found.extend(children.get(known, []))
    return found


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that waits to be reaped does not."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout.strip()
    return bool(state) and not state.startswith("Z")


def wait_for(reached: Callable[[], bool], seconds: float, what: str) -> float:
    """Wait until something is so; the seconds that took."""
    started = time.monotonic()
    while not reached():
        assert time.monotonic() - started < seconds, f"waited {seconds} s for {what}"
        time.sleep(0.02)
    return time.monotonic() - started


def free_port() -> int:
    """A port nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def takes_connections(port: int, server: Running) -> bool:
    """Whether somebody listens there; the server must not have ended."""
    assert server.process.poll() is None, f"the server ended: {server.log[-3000:]}"
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0
