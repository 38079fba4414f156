"""Other implementations of the format beside ours: the peer in a process of its own, delta-rs in this one.

``peer`` starts once a session, on the first test that asks for it. The scripts both are given, and the model they are
held to, are those of ``tests/dml``.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest


def _load(name: str, path: Path) -> Any:
    """A module that is a file: tests are no package."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_HERE = Path(__file__).resolve().parent
_PROCESS = _HERE / "peer_process.py"
sys.path[:0] = [str(_HERE), str(_HERE.parent / "dml")]
plain = _load("peer_process", _PROCESS).plain
_fixtures = _load("shared_fixtures", _HERE.parent / "conftest.py")
_FETCH = _fixtures.SHARED / "peer" / "fetch"
_START_SECONDS = 180
_STATEMENT_SECONDS = 180


class Peer:
    """The peer's Spark. Its log since the last look is in ``warnings()``."""

    def __init__(self, process: subprocess.Popen[str], log_file: Path) -> None:
        self._process = process
        self._log_file = log_file
        self._seen = 0

    def _ask(self, request: dict[str, str], seconds: float = _STATEMENT_SECONDS) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if request:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        watch = threading.Timer(seconds, self._process.kill)
        watch.start()
        line = self._process.stdout.readline()
        watch.cancel()
        if not line:
            raise RuntimeError(f"the peer's process ended:\n{self._log_file.read_text()[-3000:]}")
        answer = json.loads(line)
        if "error" in answer:
            raise PeerError(answer["error"])
        return answer

    def sql(self, text: str) -> list[Any]:
        """A statement's rows, in plain form.

        :raises PeerError: the peer refused it.
        """
        return self._ask({"sql": text})["rows"]

    def run(self, python: str) -> Any:
        """Python in the peer's process; its ``result``."""
        return self._ask({"python": python})["rows"]

    def table(self, path: Path | str, columns: str = "*") -> list[Any]:
        """The rows of a table, without their order."""
        return sorted(self.sql(f"SELECT {columns} FROM delta.`{path}`"), key=repr)

    def warnings(self) -> str:
        """What the peer logged, at level WARN and above, since the last call."""
        text = self._log_file.read_text()
        new, self._seen = text[self._seen :], len(text)
        return new


class PeerError(Exception):
    """The peer's error, as text."""


@pytest.fixture(scope="session")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """The peer: Delta Lake for Spark. Skips where its JARs cannot be had."""
    if not _FETCH.is_file():
        pytest.skip(f"the peer's JARs are listed by {_FETCH}, which is not there")
    fetched = subprocess.run([_FETCH], capture_output=True, text=True, timeout=600, check=False)
    if fetched.returncode:
        pytest.fail(f"{_FETCH} failed: {fetched.stderr[-300:]}")
    home = tmp_path_factory.mktemp("peer")
    log_file = home / "log.txt"
    # What the tests' own session put there is for its JVM alone.
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK_", "SPARK_"))}
    log_stream: IO[str]
    with log_file.open("w") as log_stream:
        process = subprocess.Popen(
            [sys.executable, str(_PROCESS), str(home), fetched.stdout.strip()],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log_stream, text=True, env=environment,
        )  # fmt: skip
    peer = Peer(process, log_file)
    try:
        peer._ask({}, _START_SECONDS)
        peer.warnings()
        yield peer
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()


@pytest.fixture
def ours(spark: Any) -> Any:
    """``ours(path, columns)``: a table's rows as we read them, comparable with the peer's."""

    def read(path: Path | str, columns: str = "*") -> list[Any]:
        return sorted((plain(row) for row in spark.sql(f"SELECT {columns} FROM delta.`{path}`").collect()), key=repr)

    return read


@pytest.fixture
def to_plain() -> Any:
    """Our rows in the form the peer's come in."""
    return plain


@pytest.fixture
def shared_tables(peer: Peer) -> Path:
    """The folder of tables that other systems wrote; it is where the list of the peer's JARs is."""
    return _fixtures.SHARED / "tables"
