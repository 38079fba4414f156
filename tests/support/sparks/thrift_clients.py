"""Clients of a Thrift server, driven from Python: ``bridge/thrift/ThriftClients.java`` in a process of its own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headwater.cli import launch
from support.paths import TESTS

_CLIENTS = TESTS / "bridge" / "thrift" / "ThriftClients.java"


class Clients:
    """Clients of a Thrift server in a process of their own; see ``ThriftClients.java``."""

    def __init__(self, port: int, log: Path) -> None:
        jars = launch.spark_home() / "jars" / "*"
        with log.open("wb") as errors:
            self.process = subprocess.Popen(
                ["java", "-cp", str(jars), str(_CLIENTS), str(port)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def __call__(self, do: str, client: str, sql: str = "", synchronous: bool = True) -> list[str]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        asked = {"do": do, "client": client, "sql": sql, "async": not synchronous}
        print(json.dumps(asked), file=self.process.stdin, flush=True)
        answer = json.loads(self.process.stdout.readline())
        assert "error" not in answer, f"{asked}: {answer['error'][:2000]}"
        return answer["rows"]


@contextmanager
def clients_of(port: int, log: Path) -> Iterator[Clients]:
    """Clients of the server on a port, as long as the block."""
    started = Clients(port, log)
    try:
        yield started
    finally:
        assert started.process.stdin is not None
        started.process.stdin.close()
        started.process.wait(60)
