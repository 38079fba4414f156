"""A process with a Spark, asked by a test; see :mod:`support.sparks.answering` for what it says."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from support.processes import environment, python

#: A JVM's start on a busy machine with two cores.
START_SECONDS = 180


class SparkProcess:
    """``module`` of ``support.sparks``, run in ``home``; what it logs goes to ``log_file`` there."""

    def __init__(self, module: str, arguments: Sequence[str], home: Path, env: Mapping[str, str] | None = None) -> None:
        self.home = home
        self.log_file = home / "log.txt"
        with self.log_file.open("w") as log:
            self._process = subprocess.Popen(
                python(f"support.sparks.{module}", *arguments),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, cwd=home,
                env=env or environment(),
            )  # fmt: skip

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def log(self) -> str:
        return self.log_file.read_text(encoding="utf-8", errors="replace")

    def send(self, request: Mapping[str, Any]) -> None:
        """Begin a request; one at a time."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()

    def receive(self, seconds: float) -> dict[str, Any]:
        """The next answer. A process that takes longer than so many seconds is killed.

        :raises RuntimeError: the process ended.
        """
        assert self._process.stdout is not None
        watch = threading.Timer(seconds, self._process.kill)
        watch.daemon = True
        watch.start()
        line = self._process.stdout.readline()
        watch.cancel()
        if not line:
            raise RuntimeError(f"the process with Spark ended:\n{self.log[-3000:]}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self, seconds: float = 30) -> None:
        """End it, kindly first."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
