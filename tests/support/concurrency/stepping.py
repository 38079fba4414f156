"""Threads that advance one store call at a time, when they are told to.

A :class:`Stepper` runs a function in a thread of its own whose store is a :class:`SteppedStore`. The thread stands
still before each call to the store until :meth:`Stepper.step`, which lets it make that one call and returns when it
stands before the next, or is done. So a test chooses the order of all calls, and one order is always the same run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from headwater.stores import FileInfo, Store

_PATIENCE_SECONDS = 60.0


class Killed(BaseException):
    """The writer is dead: nothing of it runs any more, so nothing may catch this."""


class Stepper:
    """``do`` is called with the store to use; ``result`` or ``error`` is what came of it."""

    def __init__(self, name: str, inner: Store, do: Callable[[Store], Any]) -> None:
        self.name = name
        self.result: Any = None
        self.error: BaseException | None = None
        self.done = self.killed = False
        self._may_go, self._stands = threading.Semaphore(0), threading.Semaphore(0)
        store = SteppedStore(inner, self)
        self._thread = threading.Thread(target=self._run, args=(do, store), daemon=True, name=name)
        self._thread.start()
        self._wait()

    def step(self) -> None:
        """Make the call it stands before."""
        assert not self.done
        self._may_go.release()
        self._wait()

    def finish(self) -> None:
        while not self.done:
            self.step()

    def kill(self) -> None:
        """Let it make no call any more."""
        self.killed = True
        self.finish()
        self._thread.join(_PATIENCE_SECONDS)

    def stand(self) -> None:
        """Called in the thread, before each call to the store."""
        if self.killed:
            raise Killed
        self._stands.release()
        self._may_go.acquire()
        if self.killed:
            raise Killed

    def _run(self, do: Callable[[Store], Any], store: Store) -> None:
        try:
            self.result = do(store)
        except BaseException as error:
            self.error = error
        self.done = True
        self._stands.release()

    def _wait(self) -> None:
        assert self._stands.acquire(timeout=_PATIENCE_SECONDS), f"{self.name} neither calls the store nor ends"


class SteppedStore(Store):
    """The store inside, each call of which waits for its stepper."""

    def __init__(self, inner: Store, stepper: Stepper) -> None:
        self._inner, self._stepper = inner, stepper

    def list_from(self, directory: str, start_name: str = "") -> list[FileInfo]:
        self._stepper.stand()
        return self._inner.list_from(directory, start_name)

    def read(self, path: str) -> bytes:
        self._stepper.stand()
        return self._inner.read(path)

    def read_many(self, paths: Sequence[str]) -> list[bytes]:
        return [self.read(path) for path in paths]

    def open_input(self, path: str) -> pa.NativeFile:
        self._stepper.stand()
        return self._inner.open_input(path)

    def put_if_absent(self, path: str, data: bytes) -> None:
        self._stepper.stand()
        self._inner.put_if_absent(path, data)

    def put(self, path: str, data: bytes) -> None:
        self._stepper.stand()
        self._inner.put(path, data)

    def exists(self, path: str) -> bool:
        self._stepper.stand()
        return self._inner.exists(path)

    def make_directory(self, path: str) -> None:
        self._stepper.stand()
        self._inner.make_directory(path)

    def delete(self, path: str) -> None:
        self._stepper.stand()
        self._inner.delete(path)
