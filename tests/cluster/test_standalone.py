"""A standalone cluster of two workers, as Spark's own scripts start one: programs whose driver is outside or inside.

Long, as five JVMs start one after the other.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headwater
from headwater.cli import launch
from support import submitted
from support.packed import packed_environment
from support.programs import PRINTED, SETTINGS, compile_programs
from support.sparks.running import Sparks, family, free_port, wait_for

pytestmark = [pytest.mark.spark, pytest.mark.soak]


class Cluster:
    """A master and two workers, each with one core."""

    def __init__(self, home: Path) -> None:
        self.home, self.port, self.running = home, free_port(), list[subprocess.Popen[bytes]]()
        self.url = f"spark://127.0.0.1:{self.port}"
        self._start("master.Master", "--host", "127.0.0.1", "--port", str(self.port), "--webui-port", "0")
        wait_for(lambda: _takes_connections(self.port), 180, "the master")
        for number in (1, 2):
            folder = home / f"worker{number}"
            arguments = ("--host", "127.0.0.1", "--cores", "2", "--memory", "1536m", "--webui-port", "0")
            self._start("worker.Worker", *arguments, "--work-dir", str(folder), self.url)

    def _start(self, kind: str, *arguments: str) -> None:
        command = [str(launch.spark_home() / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", *arguments]
        environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "300m"}
        with open(self.home / f"{kind}{len(self.running)}.log", "wb") as log:
            started = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
        self.running.append(started)

    def executors(self) -> list[int]:
        found = [each for started in self.running for each in family(started.pid)]
        return [pid for pid, command in found if "CoarseGrainedExecutorBackend" in command and "bin/java" in command]

    def stop(self) -> None:
        for started in reversed(self.running):
            for pid, _ in family(started.pid):
                os.kill(pid, signal.SIGKILL)
            started.wait()


def _takes_connections(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("standalone"))
    yield cluster
    cluster.stop()


@pytest.fixture
def sparks(tmp_path: Path) -> Iterator[Sparks]:
    started = Sparks(tmp_path)
    yield started
    started.stop()


ALLOCATION = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "1",
    "spark.dynamicAllocation.maxExecutors": "2",
    "spark.executor.memory": "700m",
    "spark.executor.cores": "1",
    "spark.speculation": "true",
}


def test_a_driver_outside_of_the_cluster(standalone: Cluster, sparks: Sparks, tmp_path: Path) -> None:
    """Executors come and go, and one is killed while tasks write."""
    answers = tmp_path / "answers"
    arguments = ["--master", standalone.url, submitted.__file__, str(tmp_path / "t"), str(answers)]
    application: Any = sparks.shell("spark-submit", arguments, ALLOCATION)
    wait_for(answers.exists, 180, "the program's table")
    wait_for(lambda: bool(standalone.executors()), 60, "an executor")
    time.sleep(1)
    os.kill(standalone.executors()[0], signal.SIGKILL)
    assert application.process.wait(300) == 0, application.log[-3000:]
    assert answers.read_text().splitlines() == submitted.ANSWERS


@pytest.mark.parametrize("python", ["installed", "packed"])
def test_a_driver_inside_of_the_cluster(standalone: Cluster, sparks: Sparks, tmp_path: Path, python: str) -> None:
    """The worker that runs the driver has the package in the Python that a setting names, and the JARs as files."""
    programs = compile_programs([headwater.jar_path(), headwater.delta_jar_path()], tmp_path)
    arguments = ["--master", standalone.url, "--deploy-mode", "cluster", "--class", "ScalaProgram"]
    settings = {**SETTINGS, "spark.driver.memory": "700m", "spark.executor.memory": "500m", "spark.cores.max": "1"}
    if python == "packed":
        arguments += ["--archives", f"{packed_environment(tmp_path)}#environment"]
        settings["spark.headwater.python"] = "./environment/bin/python"
    known = set(standalone.home.glob("worker*/driver-*"))
    application: Any = sparks.shell("spark-submit", [*arguments, str(programs), str(tmp_path)], settings)
    application.process.wait(120)

    def printed() -> list[str]:
        own = set(standalone.home.glob("worker*/driver-*")) - known
        return [line for each in own for line in (each / "stdout").read_text().splitlines() if ": " in line]

    wait_for(lambda: len(printed()) >= len(PRINTED), 240, "the program's last line")
    assert printed() == PRINTED
