"""Access to the files of a table, whatever they are stored on.

Owns the choice of the store a path is in, and the local file system, which is used directly; every other scheme goes
through Hadoop's ``FileSystem`` (:mod:`headwater.log.hadoop_store`), or a store of the user's own.
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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from headwater.errors import HeadwaterError
from headwater.log.file_names import log_directory
from headwater.log.hadoop_store import HadoopFiles, HadoopStore, hadoop_store
from headwater.log.store_interface import SCHEME, FileInfo, Store, in_parallel

__all__ = ["FileInfo", "HadoopFiles", "HadoopStore", "LocalStore", "Store", "absolute_path", "store_for"]

#: The beginning of the settings that name stores, before a scheme.
_SETTING = "spark.headwater.store."
#: So many local files one thread reads.
_READ_IN_A_ROW = 64
#: What a file system without hard links, as FAT and some network mounts, answers to one.
_NO_LINKS = frozenset({errno.EPERM, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.EINVAL})
#: Failures to make a name durable that are no matter of what the file system can do.
_NOT_DURABLE = frozenset({errno.EIO, errno.ENOSPC, errno.EDQUOT})


class LocalStore(Store):
    """The local file system."""

    def check_writable(self, path: str) -> None:
        """Refuse a table that this process may not write to, before files of data are written in vain.

        :raises PermissionError: with the directory that may not be written to.
        """
        for where in (path, log_directory(path)):
            while not os.path.lexists(where):
                where = os.path.dirname(where)
            if not os.access(where, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, "the directory may not be written to", where)

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
        with _named(path), open(path, "rb") as file:
            return file.read()

    def read_many(self, paths: Sequence[str]) -> list[bytes]:
        # A thread for each file would take longer than the file, where the system has it in memory.
        pieces = [paths[start : start + _READ_IN_A_ROW] for start in range(0, len(paths), _READ_IN_A_ROW)]
        if len(pieces) == 1:
            return [self.read(path) for path in paths]
        return [data for some in in_parallel(lambda some: [self.read(path) for path in some], pieces) for data in some]

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        with _named(path), open(path, "rb") as file:
            file.seek(offset)
            return file.read(length)

    def open_input(self, path: str) -> pa.NativeFile:
        with _named(path):
            return pa.OSFile(path, "rb")

    def put_if_absent(self, path: str, data: bytes) -> None:
        with _named(path), _written_beside(path, data) as temporary:
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
        with _named(path), _written_beside(path, data) as temporary:
            os.replace(temporary, path)
        _sync_directory(os.path.dirname(path))

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def make_directory(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def delete(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


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
    match = SCHEME.match(path)
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
    return hadoop_store(scheme, path, hadoop), _without_trailing_slash(path)


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
    match = SCHEME.match(path)
    if match is not None:
        return store_for(path)[1] if match.group(1).lower() == "file" else path
    if SCHEME.match(table_path) is None:
        path = unquote(path)
    elif path.startswith("/"):
        authority = re.match(r"[^:]+:(//[^/]*)?", table_path)
        return f"{authority.group(0) if authority else ''}{path}"
    return path if path.startswith("/") else f"{table_path}/{path}"


@contextlib.contextmanager
def _named(path: str) -> Iterator[None]:
    """Failures of the operating system name this file: those of reading and writing name none, others one that is
    written in its place.
    """
    try:
        yield
    except OSError as error:
        error.filename, error.filename2 = path, None
        raise


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
            error.filename = directory
            raise


@cache
def _umask() -> int:
    """The process's file creation mask; asking sets it, so it is asked once."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def _without_trailing_slash(path: str) -> str:
    return path.rstrip("/") or "/"
