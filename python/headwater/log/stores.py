"""Access to the files of a table, whatever they are stored on.

Owns the one interface through which the log is listed, read and written, and its two kinds: the local file system
directly, and every other scheme through Hadoop's ``FileSystem``, which the bridge offers as :class:`HadoopFiles`.
Follows the protocol's chapter "Creation of New Log Entries": a commit is put only if no file of its name exists.
Promises of :meth:`Store.put_if_absent`: exactly one of several writers succeeds, nobody ever sees part of the
content, and what succeeded survives a crash.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import re
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, NamedTuple, Protocol, TypeVar
from urllib.parse import unquote

import pyarrow as pa

from headwater.errors import HeadwaterError

_T = TypeVar("_T")
_R = TypeVar("_R")

#: A URI scheme of two letters or more, so that a Windows drive is not one.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")

#: The beginning of the settings that name stores, before a scheme.
_SETTING = "spark.headwater.store."
#: So many local files one thread reads.
_READ_IN_A_ROW = 64
#: What a file system without hard links, as FAT and some network mounts, answers to one.
_NO_LINKS = frozenset({errno.EPERM, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.EINVAL})
#: Failures to make a name durable that are no matter of what the file system can do.
_NOT_DURABLE = frozenset({errno.EIO, errno.ENOSPC, errno.EDQUOT})


class FileInfo(NamedTuple):
    """A file in a listing: absolute path or URI, ``size`` in bytes, ``modification_time`` in milliseconds since the
    epoch.
    """

    path: str
    size: int
    modification_time: int

    @property
    def name(self) -> str:
        """The last segment of the path."""
        return self.path.rpartition("/")[2]


class Store(ABC):
    """The files of one scheme. Paths are absolute local paths (``/a/b``) or URIs, as text.

    What the log relies on, and ``tests/log/store_contract.py`` tries of any store:

    1. Of all that call :meth:`put_if_absent` for one path, in whatever process and machine, exactly one succeeds; the
       others are told that the file exists. Where the store cannot know, it raises any other exception than
       ``FileExistsError``; the commit is then looked for.
    2. A file is seen whole or not at all, also by a reader in the midst of a :meth:`put` that replaces it, and also
       after the writer died.
    3. What was acknowledged stays: it is read, and listed, by everybody from then on, and outlives the machine.
    4. A listing is sorted by name, in the order of the characters' code points, and holds no directories.
    5. A file that is missing raises ``FileNotFoundError``, and nothing else does; trouble raises ``OSError`` or a
       :class:`~headwater.errors.HeadwaterError`, never a value that could be taken for an answer.

    A store of one's own is named by ``spark.headwater.store.<scheme>`` (see :func:`store_for`).
    """

    #: Whether any thread may call, at any time; else only the thread that was given the store, while its call lasts.
    any_thread = True
    #: Whether the first promise holds; a store of which it does not is read, and never written.
    puts_if_absent = True

    def check_writable(self, path: str) -> None:
        """Refuse a path where the store cannot keep its promises, before any work is done.

        :raises HeadwaterError: ``DELTA_UNSUPPORTED_STORE_FOR_WRITE``.
        """
        if not self.puts_if_absent:
            scheme = _SCHEME.match(path)
            raise HeadwaterError(
                "DELTA_UNSUPPORTED_STORE_FOR_WRITE", {"scheme": scheme.group(1) if scheme else "file", "path": path}
            )

    @abstractmethod
    def list_from(self, directory: str, start_name: str = "") -> list[FileInfo]:
        """The directory's files (no directories) whose name is ``start_name`` or sorts after it, by name.

        :raises FileNotFoundError: the directory does not exist.
        """

    def following(self, paths: Iterable[str]) -> list[FileInfo] | None:
        """The files of these paths, in order, up to the first that is missing; None where a listing costs less.

        A directory that is read whole, whatever is asked of it, makes a listing cost the age of the table.
        """
        return None

    @abstractmethod
    def read(self, path: str) -> bytes:
        """The file's content.

        :raises FileNotFoundError: no such file.
        """

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """``length`` bytes of the file from ``offset``; fewer where it ends before."""
        return self.read(path)[offset : offset + length]

    def read_many(self, paths: Sequence[str]) -> list[bytes]:
        """The content of each file, in the order of ``paths``, read in parallel."""
        if len(paths) < 2:
            return [self.read(path) for path in paths]
        return _in_parallel(self.read, paths)

    @abstractmethod
    def open_input(self, path: str) -> pa.NativeFile:
        """The file for random access, as pyarrow's readers want it; the caller closes it."""

    @abstractmethod
    def put_if_absent(self, path: str, data: bytes) -> None:
        """Create the file with all of ``data``, or leave everything as it is.

        :raises FileExistsError: a file of that name is there already.
        """

    @abstractmethod
    def put(self, path: str, data: bytes) -> None:
        """Write the file, replacing one that exists; readers see the old content or the new, never a mix."""

    @abstractmethod
    def exists(self, path: str) -> bool:
        """Whether a file or directory of that path exists."""

    @abstractmethod
    def make_directory(self, path: str) -> None:
        """Create the directory and its parents where missing."""

    @abstractmethod
    def delete(self, path: str) -> None:
        """Delete the file; one that is missing is no error."""


class LocalStore(Store):
    """The local file system."""

    def list_from(self, directory: str, start_name: str = "") -> list[FileInfo]:
        found = []
        with os.scandir(directory) as entries:
            for entry in entries:
                if entry.name < start_name:
                    continue
                try:
                    status = entry.stat()
                except FileNotFoundError:  # deleted since the listing began
                    continue
                if not entry.is_dir():
                    found.append(FileInfo(f"{directory}/{entry.name}", status.st_size, status.st_mtime_ns // 1_000_000))
        found.sort(key=lambda info: info.name)
        return found

    def following(self, paths: Iterable[str]) -> list[FileInfo] | None:
        found = []
        for path in paths:
            try:
                status = os.stat(path)
            except FileNotFoundError:
                break
            found.append(FileInfo(path, status.st_size, status.st_mtime_ns // 1_000_000))
        return found

    def read(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    def read_many(self, paths: Sequence[str]) -> list[bytes]:
        # A thread for each file would take longer than the file, where the system has it in memory.
        pieces = [paths[start : start + _READ_IN_A_ROW] for start in range(0, len(paths), _READ_IN_A_ROW)]
        if len(pieces) == 1:
            return [self.read(path) for path in paths]
        return [data for some in _in_parallel(lambda some: [self.read(path) for path in some], pieces) for data in some]

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        with open(path, "rb") as file:
            file.seek(offset)
            return file.read(length)

    def open_input(self, path: str) -> pa.NativeFile:
        return pa.OSFile(path, "rb")

    def put_if_absent(self, path: str, data: bytes) -> None:
        with _written_beside(path, data) as temporary:
            try:
                os.link(temporary, path)  # atomic, and fails where the name is taken, on every POSIX file system
            except FileExistsError:
                raise
            except OSError as error:
                if error.errno not in _NO_LINKS:  # a full disk, say: the weaker way would only fail later, halfway
                    raise
                self._create_exclusively(path, data)
        _sync_directory(os.path.dirname(path))

    @staticmethod
    def _create_exclusively(path: str, data: bytes) -> None:
        """The weaker way: the name is taken atomically, the content follows it; a failed write gives the name back."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            os.unlink(path)
            raise

    def put(self, path: str, data: bytes) -> None:
        with _written_beside(path, data) as temporary:
            os.replace(temporary, path)
        _sync_directory(os.path.dirname(path))

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def make_directory(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def delete(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


class HadoopFiles(Protocol):
    """What the bridge offers over Hadoop's ``FileSystem`` with Spark's own configuration; every path is a URI.

    Missing files and directories raise ``FileNotFoundError``, a taken name in :meth:`create_if_absent`
    ``FileExistsError``. A file system that cannot create atomically only where nothing is raises a
    :class:`~headwater.errors.HeadwaterError`.
    """

    def check_writable(self, path: str) -> None:
        """Raise a :class:`~headwater.errors.HeadwaterError` where :meth:`create_if_absent` would for its scheme."""

    def list_from(self, directory: str, start_name: str) -> Iterable[tuple[str, int, int]]:
        """(URI, size in bytes, modification time in milliseconds) of each file not before ``start_name``, by name."""

    def read(self, path: str) -> bytes:
        """The whole content."""

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """``length`` bytes from ``offset``, fewer where the file ends before."""

    def copy_to_local(self, path: str, local_path: str) -> None:
        """Write the whole content into a local file: one call for a large file, without its bytes going over the
        bridge.
        """

    def create_if_absent(self, path: str, data: bytes) -> None:
        """Create the file with all of the data, only if the name is free."""

    def replace(self, path: str, data: bytes) -> None:
        """Write the file, atomically replacing one that exists."""

    def exists(self, path: str) -> bool:
        """Whether the path exists."""

    def make_directory(self, path: str) -> None:
        """Create the directory and its parents."""

    def delete(self, path: str) -> None:
        """Delete the file; missing is no error."""


class HadoopStore(Store):
    """Any scheme Hadoop has a ``FileSystem`` for; every call goes over the bridge."""

    any_thread = False

    def __init__(self, files: HadoopFiles) -> None:
        self._files = files

    def check_writable(self, path: str) -> None:
        self._files.check_writable(path)

    def list_from(self, directory: str, start_name: str = "") -> list[FileInfo]:
        return [FileInfo(*entry) for entry in self._files.list_from(directory, start_name)]

    def read(self, path: str) -> bytes:
        return bytes(self._files.read(path))

    def read_many(self, paths: Sequence[str]) -> list[bytes]:
        # One after the other: a thread here would be a second JVM thread, without the session that called.
        return [self.read(path) for path in paths]

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        return bytes(self._files.read_range(path, offset, length))

    def open_input(self, path: str) -> pa.NativeFile:
        # Arrow reads from threads of its own, which must not call over the bridge; and a file in use must not vanish.
        descriptor, local = tempfile.mkstemp(prefix="headwater-", suffix=".tmp")
        os.close(descriptor)
        try:
            self._files.copy_to_local(path, local)
            return pa.OSFile(local, "rb")
        finally:
            os.unlink(local)  # the open file keeps the content

    def put_if_absent(self, path: str, data: bytes) -> None:
        self._files.create_if_absent(path, data)

    def put(self, path: str, data: bytes) -> None:
        self._files.replace(path, data)

    def exists(self, path: str) -> bool:
        return self._files.exists(path)

    def make_directory(self, path: str) -> None:
        self._files.make_directory(path)

    def delete(self, path: str) -> None:
        self._files.delete(path)


def store_for(
    path: str, hadoop: HadoopFiles | None = None, settings: Mapping[str, str] | None = None
) -> tuple[Store, str]:
    """The store that holds ``path``, and the path as that store spells it, without a trailing slash.

    ``file:/x`` and ``file:///x`` become ``/x`` with escapes decoded; a path without scheme is local and taken as it is.
    Of other schemes, the setting ``spark.headwater.store.<scheme>`` may name a store as ``module:Class``: a subclass
    of :class:`Store` that is made once, of a dictionary with what settings ``spark.headwater.store.<scheme>.*`` say.

    :raises HeadwaterError: ``DELTA_UNSUPPORTED_FILE_SYSTEM`` for another scheme where there is no Spark to reach it
        through; ``HEADWATER_STORE_NOT_USABLE`` where a setting names no store.
    """
    match = _SCHEME.match(path)
    if match is None:
        return LocalStore(), _without_trailing_slash(os.path.abspath(path))
    if match.group(1).lower() == "file":
        rest = path[match.end() :]
        if rest.startswith("//"):  # an authority, empty or a host name, ends at the next slash
            rest = "/" + rest[2:].partition("/")[2]
        return LocalStore(), _without_trailing_slash(os.path.normpath(unquote(rest)))
    scheme = match.group(1).lower()
    name = f"{_SETTING}{scheme}"
    named = (settings or {}).get(name)
    if named is not None:
        options = {key[len(name) + 1 :]: v for key, v in (settings or {}).items() if key.startswith(f"{name}.")}
        return _named_store(name, named, tuple(sorted(options.items()))), _without_trailing_slash(path)
    if hadoop is None:
        raise HeadwaterError("DELTA_UNSUPPORTED_FILE_SYSTEM", {"path": path, "scheme": match.group(1)})
    return HadoopStore(hadoop), _without_trailing_slash(path)


@cache
def _named_store(setting: str, named: str, options: tuple[tuple[str, str], ...]) -> Store:
    """The store a setting names; one for all statements that say the same."""
    module, _, name = named.partition(":")
    try:
        kind = getattr(importlib.import_module(module), name)
        if not (isinstance(kind, type) and issubclass(kind, Store)):
            raise TypeError(f"{named} is no subclass of headwater.log.stores.Store")
        make: Callable[[Mapping[str, str]], Store] = kind
        store = make(dict(options))
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise HeadwaterError(
            "HEADWATER_STORE_NOT_USABLE", {"setting": setting, "value": named, "reason": reason}
        ) from error
    return store


def absolute_path(table_path: str, path: str) -> str:
    """Where a file of the log is: ``path`` as in an action, URL-encoded and relative to the table or absolute.

    The result is spelled as the table's store wants it: a decoded local path, or a URI left encoded.
    """
    match = _SCHEME.match(path)
    if match is not None:
        return store_for(path)[1] if match.group(1).lower() == "file" else path
    if _SCHEME.match(table_path) is None:
        path = unquote(path)
    elif path.startswith("/"):
        authority = re.match(r"[^:]+:(//[^/]*)?", table_path)
        return f"{authority.group(0) if authority else ''}{path}"
    return path if path.startswith("/") else f"{table_path}/{path}"


@contextlib.contextmanager
def _written_beside(path: str, data: bytes) -> Any:
    """A durable temporary file with ``data`` in the directory of ``path``; gone afterwards unless it was renamed.

    Its name starts with a dot, so that no reader of the log or of a table takes it for one of theirs.
    """
    directory, name = os.path.split(path)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{name}.", suffix=".tmp", dir=directory)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), 0o666 & ~_umask())  # mkstemp's 0600 would lock other users out of the log
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        yield temporary
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def _sync_directory(directory: str) -> None:
    """Make a new name in the directory durable; a file system that cannot is left to its own ways.

    :raises OSError: the disk failed.
    """
    try:
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno in _NOT_DURABLE:
            raise


@cache
def _umask() -> int:
    """The process's file creation mask; asking sets it, so it is asked once."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def _in_parallel(do: Callable[[_T], _R], items: Sequence[_T]) -> list[_R]:
    """What ``do`` gives for each item, in order."""
    try:
        coming = _readers().map(do, items)
    except RuntimeError:  # the interpreter is shutting down: threads that are there may go on, but start none
        coming = map(do, items)
    return list(coming)


@cache
def _readers() -> ThreadPoolExecutor:
    """Threads that mostly wait for a store: so many requests of a slow one are under way at once."""
    return ThreadPoolExecutor(64, "headwater-read")


def _without_trailing_slash(path: str) -> str:
    return path.rstrip("/") or "/"
