"""A store that goes wrong at one call, in one of the ways stores go wrong.

Every call to the store inside is numbered, in order. At call number ``at`` the ``fault`` happens; every other call is
as it should be, except after a crash, when there are no others.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Sequence
from enum import Enum
from threading import RLock
from typing import Any, NamedTuple

import pyarrow as pa

from headwater.stores import Failed, FileInfo, Store, Tree


class Fault(Enum):
    """What a call meets."""

    NONE = "none"
    FAIL_BEFORE = "fails and does nothing"
    FAIL_AFTER = "does it and fails"
    NO_SPACE = "finds no space left"
    TEAR = "writes a part and fails"
    TWICE = "does it twice, as a client that retries"
    LATE = "fails, and does it during the next call"
    AT_THE_END = "fails, and does it when all is over"
    DELAY = "takes so long that another writer commits meanwhile"
    CRASH_BEFORE = "the process dies before"
    CRASH_AFTER = "the process dies after"
    CRASH_TORN = "the process dies when a part is written"


READ_FAULTS = (Fault.FAIL_BEFORE, Fault.DELAY, Fault.CRASH_BEFORE)
WRITE_FAULTS = tuple(Fault)[1:]
#: What no store may do to a put-if-absent: leave a part of it.
TORN = frozenset({Fault.TEAR, Fault.CRASH_TORN})


class Crash(BaseException):
    """The process is dead: nothing of it runs any more, so nothing may catch this."""


class Call(NamedTuple):
    """A call as it was made."""

    method: str
    path: str

    @property
    def writes(self) -> bool:
        return self.method in ("put_if_absent", "put", "make_directory", "delete")


def allowed(call: Call, fault: Fault) -> bool:
    """Whether a store that keeps its promises can meet this."""
    if not call.writes:
        return fault in READ_FAULTS
    return not (fault in TORN and call.method == "put_if_absent")


class FaultyStore(Store):
    """:param meanwhile: what another writer does during a delay.
    :param lasts: whether each call after the one with the fault fails and does nothing; without space, each write.
    :param code: of the errors, as file systems give one; None for stores whose errors have none.
    """

    def __init__(
        self,
        inner: Store,
        at: int = -1,
        fault: Fault = Fault.NONE,
        meanwhile: Callable[[], None] = lambda: None,
        *,
        lasts: bool = False,
        code: int | None = None,
    ) -> None:
        self.inner = inner
        self.calls: list[Call] = []
        self.dead = False
        self._at, self._fault, self._meanwhile = at, fault, meanwhile
        self._lasts, self._code = lasts, code
        self._next: list[Callable[[], Any]] = []
        self._at_the_end: list[Callable[[], Any]] = []
        self._lock = RLock()

    def settle(self) -> None:
        """What is still on its way arrives."""
        for late in [*self._next, *self._at_the_end]:
            _try(late)
        self._next, self._at_the_end = [], []

    def _call(self, method: str, path: str, do: Callable[[], Any], torn: Callable[[], Any] | None = None) -> Any:
        with self._lock:
            if self.dead:
                raise Crash
            number, call = len(self.calls), Call(method, path)
            self.calls.append(call)
            late, self._next = self._next, []
            try:
                if self._lasts and 0 <= self._at < number and (call.writes or self._fault is not Fault.NO_SPACE):
                    raise self._error()
                return self._meet(self._fault, do, torn) if number == self._at else do()
            finally:
                for action in late:
                    _try(action)

    def _error(self) -> OSError:
        if self._fault is Fault.NO_SPACE:
            return OSError(errno.ENOSPC, "No space left on device")
        return OSError("connection reset") if self._code is None else OSError(self._code, "Input/output error")

    def _meet(self, fault: Fault, do: Callable[[], Any], torn: Callable[[], Any] | None) -> Any:
        match fault:
            case Fault.FAIL_BEFORE | Fault.NO_SPACE:
                raise self._error()
            case Fault.FAIL_AFTER:
                do()
                raise self._error()
            case Fault.TEAR:
                (torn or do)()
                raise self._error()
            case Fault.TWICE:
                do()
                return do()
            case Fault.LATE:
                self._next.append(do)
                raise TimeoutError("no answer")
            case Fault.AT_THE_END:
                self._at_the_end.append(do)
                raise TimeoutError("no answer")
            case Fault.DELAY:
                self._meanwhile()
                return do()
            case Fault.CRASH_BEFORE | Fault.CRASH_AFTER | Fault.CRASH_TORN:
                if fault is not Fault.CRASH_BEFORE:
                    (do if fault is Fault.CRASH_AFTER or torn is None else torn)()
                self.dead = True
                raise Crash
        return do()

    def list_from(self, directory: str, start_name: str = "") -> list[FileInfo]:
        return self._call("list_from", directory, lambda: self.inner.list_from(directory, start_name))

    def read(self, path: str) -> bytes:
        return self._call("read", path, lambda: self.inner.read(path))

    def read_many(self, paths: Sequence[str]) -> list[bytes]:
        return [self.read(path) for path in paths]

    def open_input(self, path: str) -> pa.NativeFile:
        return self._call("open_input", path, lambda: self.inner.open_input(path))

    def put_if_absent(self, path: str, data: bytes) -> None:
        torn = _half(self.inner.put_if_absent, path, data)
        self._call("put_if_absent", path, lambda: self.inner.put_if_absent(path, data), torn)

    def put(self, path: str, data: bytes) -> None:
        torn = _half(self.inner.put, path, data)
        self._call("put", path, lambda: self.inner.put(path, data), torn)

    def exists(self, path: str) -> bool:
        return self._call("exists", path, lambda: self.inner.exists(path))

    def make_directory(self, path: str) -> None:
        self._call("make_directory", path, lambda: self.inner.make_directory(path))

    def delete(self, path: str) -> None:
        self._call("delete", path, lambda: self.inner.delete(path))

    def walk(
        self,
        directory: str,
        enters: Callable[[str], bool],
        between: Callable[[], None],
        within: Callable[[str], bool] | None = None,
    ) -> Tree:
        return self._call("walk", directory, lambda: self.inner.walk(directory, enters, between, within))

    def delete_many(self, directory: str, paths: Sequence[str]) -> list[Failed]:
        tried = map(self._tried, paths)  # one after the other: each run of a test makes the same calls
        return [failed for failed in tried if failed is not None]

    def delete_empty(self, path: str) -> bool:
        return self._call("delete_empty", path, lambda: self.inner.delete_empty(path))

    def missing(self, paths: Sequence[str]) -> list[str]:
        return [path for path in paths if not self.exists(path)]


def _half(write: Callable[[str, bytes], None], path: str, data: bytes) -> Callable[[], None]:
    return lambda: write(path, data[: len(data) // 2])


def _try(action: Callable[[], Any]) -> None:
    with contextlib.suppress(OSError):  # whoever asked for it does not hear of it any more
        action()
