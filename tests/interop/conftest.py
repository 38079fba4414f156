"""Other implementations of the format beside ours: the peer in a process of its own, delta-rs in this one.

``peer`` starts once a session, on the first test that asks for it. The scripts both are given, and the model they are
held to, are those of :mod:`support.dml`.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.paths import SHARED
from support.plain import plain
from support.sparks.asking import START_SECONDS, SparkProcess

_FETCH = SHARED / "peer" / "fetch"
_STATEMENT_SECONDS = 180


class Peer:
    """The peer's Spark. Its log since the last look is in ``warnings()``."""

    def __init__(self, process: SparkProcess) -> None:
        self._process = process
        self._seen = 0

    def answer(self, seconds: float = _STATEMENT_SECONDS) -> Any:
        """The next result.

        :raises PeerError: the peer failed.
        """
        answer = self._process.receive(seconds)
        if error := answer.get("error"):
            raise PeerError(f"{error['type']}: {error['text'][:3000]}")
        return answer["result"]

    def sql(self, text: str) -> list[Any]:
        """A statement's rows, in plain form.

        :raises PeerError: the peer refused it.
        """
        self._process.send({"sql": text})
        return self.answer()

    def run(self, python: str) -> Any:
        """Python in the peer's process; its ``result``."""
        self._process.send({"python": python})
        return self.answer()

    def table(self, path: Path | str, columns: str = "*") -> list[Any]:
        """The rows of a table, without their order."""
        return sorted(self.sql(f"SELECT {columns} FROM delta.`{path}`"), key=repr)

    def warnings(self) -> str:
        """What the peer logged, at level WARN and above, since the last call."""
        text = self._process.log
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
    process = SparkProcess("peer_process", [str(home), fetched.stdout.strip()], home)
    peer = Peer(process)
    try:
        peer.answer(START_SECONDS)
        peer.warnings()
        yield peer
    finally:
        process.close()


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
    return SHARED / "tables"
