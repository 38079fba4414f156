"""The operating system's calls by which the local store writes, any one of which may go wrong.

Stands in for the modules ``os`` and ``tempfile`` in :mod:`headwater.stores.local`. After a crash every call raises
:class:`~faulty_store.Crash`, also those of ``finally`` blocks: a dead process cleans nothing up.
"""

from __future__ import annotations

import errno
import os
import tempfile
from enum import Enum
from typing import Any

from support.faults.faulty_store import Crash


class Trouble(Enum):
    """What one call meets."""

    NONE = "none"
    NO_SPACE = "no space left on device"
    FAILS = "an input/output error, with nothing done"
    FAILS_AFTER = "an input/output error, though it is done"
    DIES_BEFORE = "the process is killed before"
    DIES_AFTER = "the process is killed after"
    DIES_HALFWAY = "the process is killed with half the content written"


class FaultyOs:
    """``calls`` are the names of the calls made, in order."""

    path = os.path
    O_WRONLY, O_CREAT, O_EXCL, O_RDONLY = os.O_WRONLY, os.O_CREAT, os.O_EXCL, os.O_RDONLY

    def __init__(self, at: int = -1, trouble: Trouble = Trouble.NONE) -> None:
        self.calls: list[str] = []
        self.dead = False
        self._at, self._trouble = at, trouble

    def call(self, name: str, do: Any, half: Any = None) -> Any:
        if self.dead:
            raise Crash
        self.calls.append(name)
        if len(self.calls) - 1 != self._at:
            return do()
        match self._trouble:
            case Trouble.NO_SPACE:
                if half is not None:
                    half()
                raise OSError(errno.ENOSPC, "No space left on device")
            case Trouble.FAILS:
                raise OSError(errno.EIO, "Input/output error")
            case Trouble.FAILS_AFTER:
                do()
                raise OSError(errno.EIO, "Input/output error")
            case Trouble.DIES_BEFORE | Trouble.DIES_AFTER | Trouble.DIES_HALFWAY:
                if self._trouble is not Trouble.DIES_BEFORE:
                    (half or do)() if self._trouble is Trouble.DIES_HALFWAY else do()
                self.dead = True
                raise Crash
        return do()

    def link(self, *arguments: Any) -> None:
        self.call("link", lambda: os.link(*arguments))

    def replace(self, *arguments: Any) -> None:
        self.call("replace", lambda: os.replace(*arguments))

    def unlink(self, path: str) -> None:
        self.call("unlink", lambda: os.unlink(path))

    def open(self, *arguments: Any) -> int:
        return self.call("open", lambda: os.open(*arguments))

    def fsync(self, descriptor: int) -> None:
        self.call("fsync", lambda: os.fsync(descriptor))

    def fchmod(self, descriptor: int, mode: int) -> None:
        self.call("fchmod", lambda: os.fchmod(descriptor, mode))

    def fdopen(self, descriptor: int, mode: str) -> Any:
        return _File(self, os.fdopen(descriptor, mode))

    def mkstemp(self, **arguments: Any) -> tuple[int, str]:
        return self.call("mkstemp", lambda: tempfile.mkstemp(**arguments))

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


class _File:
    """An open file whose writes can go wrong."""

    def __init__(self, system: FaultyOs, file: Any) -> None:
        self._system, self._file = system, file

    def __enter__(self) -> _File:
        return self

    def __exit__(self, *_: Any) -> None:
        self._file.close()

    def write(self, data: bytes) -> None:
        def half() -> None:
            self._file.write(data[: len(data) // 2])
            self._file.flush()

        self._system.call("write", lambda: self._file.write(data), half)

    def flush(self) -> None:
        self._system.call("flush", self._file.flush)

    def fileno(self) -> int:
        return self._file.fileno()
