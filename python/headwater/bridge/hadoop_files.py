"""Hadoop's file systems, in the form that the log's stores need.

Owns the Python face of the JVM's ``HadoopFiles``, and what a failure there means: ``OSError`` in its kinds, with the
path and Hadoop's own reason in one line. What interrupts a statement stays what it is, and ends it as cancelled.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import orjson
from py4j.protocol import Py4JJavaError

from headwater.bridge.messages import StoreIdentity
from headwater.bridge.messages.failures import StoreCause
from headwater.stores.hadoop import (
    ConditionalCreate,
    RefusedAgain,
    RenameMayCome,
    ReplacedMeanwhile,
    RequestNotKnown,
    RequestPutOff,
)

#: How Amazon's client says that it made a request more than once.
_REPEATED = re.compile(r"SDK Attempt Count: (?!1\b)\d")
#: What HTTP's statuses mean here.
_CONFLICT = 409
_NOT_AS_EXPECTED = 412
_NOT_KNOWN = frozenset({405, 415, 501})
_NOT_ALLOWED = frozenset({401, 403})
_DENIED = ("AccessDeniedException", "AccessControlException")
_LONGEST_REASON = 400
_CAUSES = msgspec.json.Decoder(list[StoreCause])


class HadoopFileSystem:
    """Hadoop's file systems, as :class:`headwater.stores.hadoop.HadoopFiles` wants them. Paths are URIs as text.

    :param files: gives the JVM's side of it when first asked; it must be asked while the statement runs, by its thread.
        What it gives holds the session's configuration and, once they are used, its file systems. It lives as long as
        this object does, whatever becomes of the statement, and any thread may use it.
    :param stores: what tables are reached with, the statement's own first; files elsewhere are reached as that is.
    """

    def __init__(self, files: Callable[[], Any], stores: Sequence[StoreIdentity] = ()) -> None:
        self._open = files
        self._stores = stores
        self._opened: Any = None

    @property
    def _files(self) -> Any:
        if self._opened is None:
            self._opened = self._open()
        return self._opened

    def identity(self, path: str) -> str:
        around = [store for store in self._stores if f"{path}/".startswith(f"{store.root.rstrip('/')}/")]
        found = max(around, key=lambda store: len(store.root), default=self._stores[0] if self._stores else None)
        return "" if found is None else found.identity

    def mounted_scheme(self, path: str) -> str:
        with _failures(path):
            scheme: str = self._files.mountedScheme(path)
            return scheme

    def conditional_create(self, path: str) -> ConditionalCreate:
        with _failures(path):
            description = orjson.loads(self._files.describe(path))
        endpoint = description["endpoint"]
        server = f"{description['uri']} at {endpoint}" if endpoint else description["uri"]
        return ConditionalCreate(description["createsConditionally"], server, description["hadoop"])

    def list_from(self, directory: str, start_name: str) -> Iterable[tuple[str, int, int, str]]:
        with _failures(directory):
            found = self._files.listFrom(directory, start_name)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, "there is no such directory", directory)
        return [tuple(entry) for entry in orjson.loads(found)]

    def statuses(self, paths: Sequence[str]) -> Sequence[tuple[int, int, str] | None]:
        with _failures(paths[0]):
            found = orjson.loads(self._files.statuses(orjson.dumps(paths).decode()))
        return [None if status is None else tuple(status) for status in found]

    def read(self, path: str) -> bytes:
        with _failures(path):
            return _there(self._files.read(path), path)

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        with _failures(path):
            return _there(self._files.readRange(path, offset, length), path)

    def read_many(self, paths: Sequence[str], local_path: str) -> Sequence[int]:
        with _failures(paths[0]):
            sizes: list[Any] = orjson.loads(self._files.readMany(orjson.dumps(paths).decode(), local_path))
        for path, size in zip(paths, sizes, strict=True):
            if size is None:
                raise _missing(path)
        return sizes

    def copy_to_local(self, path: str, local_path: str) -> None:
        with _failures(path):
            if not self._files.copyToLocal(path, local_path):
                raise _missing(path)

    def create_by_rename(self, path: str, data: bytes) -> None:
        with _failures(path):
            if not self._files.createByRename(path, bytearray(data)):
                raise FileExistsError(errno.EEXIST, "the file exists", path)

    def replace_by_rename(self, path: str, data: bytes) -> None:
        with _failures(path):
            self._files.putByRename(path, bytearray(data))

    def create_conditionally(self, path: str, data: bytes) -> None:
        with _failures(path):
            if not self._files.createConditionally(path, bytearray(data)):
                raise FileExistsError(errno.EEXIST, "the file exists", path)

    def create_exclusively(self, path: str, data: bytes) -> None:
        with _failures(path):
            if not self._files.createExclusively(path, bytearray(data)):
                raise FileExistsError(errno.EEXIST, "the file exists", path)

    def creates_that_win(self, path: str) -> int:
        with _failures(path):
            return int(self._files.createsThatWin(path))

    def renames_that_win(self, path: str, count: int) -> int:
        with _failures(path):
            return int(self._files.renamesThatWin(path, count))

    def replace(self, path: str, data: bytes) -> None:
        with _failures(path):
            self._files.put(path, bytearray(data))

    def exist(self, paths: Sequence[str]) -> Sequence[bool]:
        with _failures(paths[0]):
            found: list[bool] = orjson.loads(self._files.exist(orjson.dumps(paths).decode()))
        return found

    def entries(self, directories: Sequence[str], deep: bool, local_path: str) -> None:
        with _failures(directories[0]):
            self._files.entries(orjson.dumps(directories).decode(), deep, local_path)

    def delete_many(self, directory: str, paths: Sequence[str]) -> Sequence[tuple[str, str]]:
        with _failures(directory):
            found = self._files.deleteMany(directory, orjson.dumps(paths).decode())
        return [(path, reason) for path, reason in orjson.loads(found)]

    def delete_empty(self, path: str) -> bool:
        with _failures(path):
            return bool(self._files.deleteEmpty(path))

    def make_directory(self, path: str) -> None:
        with _failures(path):
            self._files.makeDirectory(path)

    def delete(self, path: str) -> None:
        with _failures(path):
            self._files.delete(path)


def _missing(path: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, "there is no such file", path)


def _there(content: Any, path: str) -> bytes:
    if content is None:
        raise _missing(path)
    return bytes(content)


@contextmanager
def _failures(path: str) -> Iterator[None]:
    """What the JVM's side tells as a failure of the store, as an ``OSError``."""
    try:
        yield
    except Py4JJavaError as error:
        failure = error.java_exception
        if failure.getClass().getSimpleName() != "StoreFailure":
            raise
        raise failure_of(path, _CAUSES.decode(failure.describe())) from None


def failure_of(path: str, causes: Sequence[StoreCause]) -> OSError:
    """The error for a failure and its causes, the outermost first."""
    statuses = {cause.status for cause in causes}
    kinds = [cause.class_name.rpartition(".")[2] for cause in causes]
    if kinds[0] == "TemporaryLeft":
        failure = failure_of(path, causes[1:])
        return RenameMayCome(failure.errno, failure.strerror, path)
    reason = f"{kinds[0]}: {causes[0].message}" if causes[0].message else kinds[0]
    reason = re.sub(r"\s+", " ", reason)[:_LONGEST_REASON]
    status = next((cause.status for cause in causes if cause.status), None)
    if status is not None and str(status) not in reason:
        reason = f"{reason} (HTTP {status})"
    if kinds[0] == "FileNotFoundException":  # one that was there a moment ago
        return FileNotFoundError(errno.ENOENT, reason, path)
    if _CONFLICT in statuses:
        return RequestPutOff(errno.EAGAIN, reason, path)
    if _NOT_AS_EXPECTED in statuses or "RemoteFileChangedException" in kinds:
        return ReplacedMeanwhile(errno.EIO, reason, path)
    if _NOT_KNOWN & statuses:
        return RequestNotKnown(errno.EOPNOTSUPP, reason, path)
    denied = bool(_NOT_ALLOWED & statuses) or any(kind in _DENIED for kind in kinds)
    if denied and any(_REPEATED.search(cause.message or "") for cause in causes):
        return RefusedAgain(errno.EACCES, reason, path)
    return OSError(errno.EACCES if denied else errno.EIO, reason, path)
