"""A Spark with two executors in processes of their own, which tests kill, stop and hold back.

``cluster`` starts once, on the first test that asks for it. Speculation is on, and as eager as it can be.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from support.processes import environment
from support.sessions import IN_UTC, java_options, settings
from support.sparks.asking import SparkProcess
from support.sparks.running import FAULTS, Faults

_PATIENCE = 500
_EXECUTOR = "CoarseGrainedExecutorBackend"
SETTINGS = {
    "spark.sql.shuffle.partitions": "3",
    "spark.driver.memory": "1g",
    "spark.executor.memory": "700m",
    # As clusters often have it; the tests in one process have Java's.
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    # A second attempt at every task that takes longer than others do.
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.2",
    "spark.speculation.minTaskRuntime": "500ms",
    "spark.speculation.task.duration.threshold": "1s",
    "spark.speculation.efficiency.enabled": "false",
    # Executors are killed more often than Spark would put up with.
    "spark.task.maxFailures": "6",
    "spark.stage.maxConsecutiveAttempts": "8",
    "spark.deploy.maxExecutorRetries": "-1",
    "spark.excludeOnFailure.enabled": "false",
}


class Answer:
    """What a statement answers, later."""

    def __init__(self) -> None:
        self._there = threading.Event()
        self._value: dict[str, Any] = {}

    def put(self, value: dict[str, Any]) -> None:
        self._value = value
        self._there.set()

    @property
    def is_there(self) -> bool:
        return self._there.is_set()

    def get(self) -> list[Any]:
        """The rows.

        :raises Refused: the statement failed.
        """
        from support.dml.checking import Refused

        assert self._there.wait(_PATIENCE), "no answer"
        if error := self._value.get("error"):
            raise Refused(error["condition"], error["text"])
        return self._value["result"]


class Cluster:
    """The driver, its executors, and a latch that holds one of their tasks."""

    def __init__(self, process: SparkProcess, faults: Faults) -> None:
        self._process = process
        self.home = process.home
        #: Where the handler waits or dies.
        self.faults = faults

    def begin(self, **request: str) -> Answer:
        """Send a request; one at a time."""
        self._process.send(request)
        return self.next_answer()

    def next_answer(self) -> Answer:
        answer = Answer()

        def read() -> None:
            try:
                answer.put(self._process.receive(_PATIENCE))
            except RuntimeError as error:
                answer.put({"error": {"condition": "the driver ended", "text": str(error)}})

        threading.Thread(target=read, daemon=True).start()
        return answer

    def sql(self, text: str) -> list[Any]:
        """A statement's rows, in plain form."""
        return self.begin(sql=text).get()

    def run(self, python: str) -> Any:
        """Python in the driver's process; its ``result``."""
        return self.begin(python=python).get()

    @staticmethod
    def wait_for(reached: Callable[[], bool], what: str) -> None:
        until = time.monotonic() + _PATIENCE
        while not reached():
            assert time.monotonic() < until, f"waited {_PATIENCE} s for {what}"
            time.sleep(0.01)

    @property
    def log(self) -> str:
        return self._process.log

    @property
    def driver(self) -> int:
        """The process id of the driver."""
        return self._process.pid

    def executors(self) -> list[int]:
        """The process ids of the executors that live."""
        parents, commands = _processes()
        return [pid for pid, command in commands.items() if _EXECUTOR in command and self._is_ours(pid, parents)]

    def close(self) -> None:
        self._process.close(5)  # what is left of it is killed

    def _is_ours(self, pid: int, parents: dict[int, int]) -> bool:
        while pid in parents:
            if pid == self._process.pid:
                return True
            pid = parents[pid]
        return False

    def executor_of(self, pid: int) -> int:
        """The executor that a Python worker works for."""
        parents, commands = _processes()
        while _EXECUTOR not in commands[pid]:
            pid = parents[pid]
        return pid

    def kill(self, executor: int) -> None:
        os.kill(executor, signal.SIGKILL)

    @contextmanager
    def latch(self) -> Iterator[Callable[[Answer], int | None]]:
        """``with latch() as inside:`` one task is held where it meets ``held``, until the block ends.

        ``inside(answer)`` waits until a task is, and gives the process id of its Python worker; None where the
        statement was answered before.
        """
        for name in ("go", "inside", "taken"):
            (self.home / name).unlink(missing_ok=True)
        (self.home / "set").touch()

        def inside(answer: Answer) -> int | None:
            reached = self.home / "inside"
            self.wait_for(lambda: reached.exists() or answer.is_there, "a task or an answer")
            return int(reached.read_text()) if reached.exists() else None

        try:
            yield inside
        finally:
            (self.home / "set").unlink(missing_ok=True)
            (self.home / "go").touch()

    def both_executors(self) -> list[int]:
        """Both, once both are there again."""
        running = "result = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size()"
        self.wait_for(lambda: self.run(running) == 3 and len(self.executors()) == 2, "two executors")
        return self.executors()

    def attempts(self) -> dict[str, int]:
        """How many tasks were speculative, failed, or were of a stage tried again, so far."""
        counts = {"speculative": 0, "failed": 0, "retried": 0}
        for file in self.home.glob("events/**/events_*"):
            for line in file.read_text(encoding="utf-8").splitlines():
                if not line.startswith('{"Event":"SparkListenerTaskEnd"'):
                    continue
                event = json.loads(line)
                counts["speculative"] += event["Task Info"]["Speculative"]
                counts["failed"] += event["Task Info"]["Failed"]
                counts["retried"] += event["Stage Attempt ID"] > 0
        return counts


def _processes() -> tuple[dict[int, int], dict[int, str]]:
    """Of each process its parent and its command line."""
    listed = subprocess.run(
        ["ps", "-wweo", "pid=,ppid=,stat=,args="], capture_output=True, text=True, check=True
    ).stdout
    parents: dict[int, int] = {}
    commands: dict[int, str] = {}
    for line in listed.splitlines():
        pid, parent, state, *command = line.split(None, 3)
        if not state.startswith("Z"):
            parents[int(pid)], commands[int(pid)] = int(parent), command[0] if command else ""
    return parents, commands


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The cluster, with its functions (see :mod:`support.sparks.cluster_process`)."""
    from headwater.cli import launch

    launch.jar_path()
    home = tmp_path_factory.mktemp("cluster")
    (home / "events").mkdir()
    own = {
        **SETTINGS,
        "spark.executor.extraJavaOptions": java_options(IN_UTC),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": (home / "events").as_uri(),
    }
    given = {**settings(home, IN_UTC), **own}
    del given["spark.master"]  # the process makes one
    arguments = [str(home), json.dumps(given)]
    faults = Faults(home / "faults")
    env = environment(SPARK_HOME=str(launch.spark_home()), HEADWATER_TEST_FAULTS=str(faults.folder))
    env["PYTHONPATH"] = os.pathsep.join([str(FAULTS), env["PYTHONPATH"]])
    started = Cluster(SparkProcess("cluster_process", arguments, home, env), faults)
    try:
        started.next_answer().get()
        yield started
    finally:
        parents, _ = _processes()
        everyone = [pid for pid in parents if started._is_ours(pid, parents)]
        started.close()
        for pid in everyone:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def table(cluster: Cluster) -> str:
    """The path of a table that is not there yet."""
    return str(cluster.home / f"t_{uuid.uuid4().hex[:12]}")
