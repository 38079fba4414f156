"""A store in memory, for tests that want to see or to stop every call.

It keeps the contract of :class:`headwater.stores.Store` to the letter, and nothing beside it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from threading import Lock

import pyarrow as pa

from headwater.protocol.file_names import LOG_DIRECTORY
from headwater.stores import FileInfo, Store
from headwater.stores.interface import Tree


def _now() -> int:
    return time.time_ns() // 1_000_000


class MemoryStore(Store):
    """Files by path; ``clock`` gives their modification times, in milliseconds."""

    def __init__(self, clock: Callable[[], int] = _now) -> None:
        self.files: dict[str, tuple[bytes, int]] = {}
        self.directories: set[str] = set()
        self.clock = clock
        self._lock = Lock()

    def list_from(self, directory: str, start_name: str = "") -> list[FileInfo]:
        with self._lock:
            if directory not in self.directories:
                raise FileNotFoundError(directory)
            found = [
                FileInfo(path, len(data), modified)
                for path, (data, modified) in self.files.items()
                if path.rpartition("/")[0] == directory and path.rpartition("/")[2] >= start_name
            ]
        return sorted(found, key=lambda info: info.name)

    def walk(
        self,
        directory: str,
        enters: Callable[[str], bool],
        between: Callable[[], None],
        within: Callable[[str], bool] | None = None,
    ) -> Tree:
        with self._lock:
            if directory not in self.directories:
                raise FileNotFoundError(directory)
            found = [
                FileInfo(path.removeprefix(f"{directory}/"), len(data), modified)
                for path, (data, modified) in self.files.items()
                if path.startswith(f"{directory}/")
            ]
            below = [
                path.removeprefix(f"{directory}/") for path in self.directories if path.startswith(f"{directory}/")
            ]
        between()
        logs = [FileInfo(path, 0, 0) for path in below if path.rpartition("/")[2] == LOG_DIRECTORY]
        found = [info for info in found if within is None or within(info.path)]
        return Tree([info for info in found if all(map(enters, info.path.split("/")))], logs)

    def read(self, path: str) -> bytes:
        with self._lock:
            if path not in self.files:
                raise FileNotFoundError(path)
            return self.files[path][0]

    def read_many(self, paths: Sequence[str]) -> list[bytes]:
        return [self.read(path) for path in paths]  # one after the other: each run of a test makes the same calls

    def open_input(self, path: str) -> pa.NativeFile:
        return pa.BufferReader(self.read(path))

    def put_if_absent(self, path: str, data: bytes) -> None:
        with self._lock:
            if path in self.files:
                raise FileExistsError(path)
            self._write(path, data)

    def put(self, path: str, data: bytes) -> None:
        with self._lock:
            self._write(path, data)

    def exists(self, path: str) -> bool:
        with self._lock:
            return path in self.files or path in self.directories

    def make_directory(self, path: str) -> None:
        with self._lock:
            while path and path not in self.directories:
                self.directories.add(path)
                path = path.rpartition("/")[0]

    def delete(self, path: str) -> None:
        with self._lock:
            self.files.pop(path, None)

    def copy(self) -> MemoryStore:
        """The same files in a store of its own."""
        other = MemoryStore(self.clock)
        other.files, other.directories = dict(self.files), set(self.directories)
        return other

    def _write(self, path: str, data: bytes) -> None:
        directory = path.rpartition("/")[0]
        if directory not in self.directories:
            raise FileNotFoundError(directory)
        self.files[path] = (bytes(data), self.clock())


class RepeatingStore(MemoryStore):
    """A store whose client has lost the answer to each put-if-absent, and asks again."""

    def __init__(self) -> None:
        super().__init__()
        self.repeated: list[str] = []

    def put_if_absent(self, path: str, data: bytes) -> None:
        super().put_if_absent(path, data)
        self.repeated.append(path)
        raise FileExistsError(path)
