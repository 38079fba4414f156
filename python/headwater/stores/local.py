"""The local file system as a store, used directly.

Follows the protocol's chapter "Creation of New Log Entries": a commit is put only if no file of its name exists.
Promises of :meth:`LocalStore.put_if_absent`: exactly one of several writers succeeds, no reader ever sees part of the
content, and what succeeded survives a crash. A file system that offers no way to do so is refused.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any

import pyarrow as pa

from headwater.basics.errors import HeadwaterError
from headwater.protocol.file_names import LOG_DIRECTORY, log_directory
from headwater.stores.exclusive_rename import rename_unless_taken
from headwater.stores.interface import Failed, FileInfo, Store, Tree, by_directory, in_parallel

#: How many local files one thread reads (bench cases ``local-reads`` and ``log-tail``).
_READ_IN_A_ROW = 64
#: How many local files one thread deletes before it takes the next ones.
_DELETED_IN_A_ROW = 1000
#: From so many files of a directory on, a listing of it shows which are there, unless it has so many times more: to
#: list a name takes a fifth of what it takes to look for one (bench case ``restore``).
_LISTED_RATHER = 100
_MOST_OTHERS = 4
#: Links in a row that are followed; Linux follows as many.
_MOST_LINKS = 40
#: Errors of file systems without hard links, such as FAT and some network mounts, or without an exclusive rename.
_CANNOT = frozenset({errno.EPERM, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.EINVAL})
#: Failures to make a name durable that are not a missing ability of the file system.
_NOT_DURABLE = frozenset({errno.EIO, errno.ENOSPC, errno.EDQUOT})


class LocalStore(Store):
    """The local file system."""

    is_local = True

    def check_writable(self, path: str) -> None:
        """Refuse a table that this process may not write to, before it writes data files.

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
        # If files are in the page cache, a thread for each would take longer than reading it.
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
                if error.errno not in _CANNOT:  # a full disk, for example
                    raise
                self._put_by_rename(temporary, path)
        _sync_directory(os.path.dirname(path))

    def may_come_late(self, error: Exception) -> bool:
        """No: the temporary file that gets the name is deleted once the call has failed."""
        return False

    @staticmethod
    def _put_by_rename(temporary: str, path: str) -> None:
        """For file systems without hard links. If the file were created under its name and then written, a process that
        is killed in between would leave half a commit: a version that nobody can read or follow with another.
        """
        try:
            rename_unless_taken(temporary, path)
        except OSError as error:
            if error.errno not in _CANNOT:
                raise
            directory = os.path.dirname(path)
            raise HeadwaterError(
                "HEADWATER_FILE_SYSTEM_NOT_SUPPORTED", {"path": path, "directory": directory}
            ) from None

    def put(self, path: str, data: bytes) -> None:
        with _named(path), _written_beside(path, data) as temporary:
            _delete_checksum(path)
            os.replace(temporary, path)
        _sync_directory(os.path.dirname(path))

    def exists(self, path: str) -> bool:
        try:
            os.stat(path)
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return False
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                return False
            raise  # a directory that may not be entered, or a share that is gone, says nothing about the file
        return True

    def missing(self, paths: Sequence[str]) -> list[str]:
        """As :meth:`Store.missing`; directories of many of the paths are listed."""
        there: set[str] = set()
        for directory, names in by_directory(paths).items():
            if len(names) >= _LISTED_RATHER:
                there.update(f"{directory}/{name}" for name in self._names(directory, _MOST_OTHERS * len(names)))
        return [path for path in paths if path not in there and not self.exists(path)]

    @staticmethod
    def _names(directory: str, most: int) -> list[str]:
        """The names of some files in a directory: of all, where there are at most so many."""
        try:
            with os.scandir(directory) as entries:
                return [entry.name for entry in itertools.islice(entries, most) if not entry.is_symlink()]
        except OSError:
            return []

    def make_directory(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def walk(
        self,
        directory: str,
        enters: Callable[[str], bool],
        between: Callable[[], None],
        within: Callable[[str], bool] | None = None,
    ) -> Tree:
        tree, coming = Tree([], []), [""]
        while coming:
            between()
            inside = coming.pop()
            for entry in self._entries(f"{directory}/{inside}" if inside else directory, is_top=not inside):
                path = f"{inside}/{entry.name}" if inside else entry.name
                if entry.name == LOG_DIRECTORY:
                    tree.directories.append(FileInfo(path, 0, 0))
                if (within is not None and not within(path)) or not enters(entry.name):
                    continue
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:  # deleted since the listing began
                    continue
                if stat.S_ISLNK(status.st_mode) or not _has_text(path):
                    continue
                is_directory = stat.S_ISDIR(status.st_mode)
                info = FileInfo(path, 0 if is_directory else status.st_size, status.st_mtime_ns // 1_000_000)
                if is_directory:
                    tree.directories.append(info)
                    coming.append(path)
                else:
                    tree.files.append(info)
        return tree

    @staticmethod
    def _entries(directory: str, is_top: bool) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(directory) as entries:
                return list(entries)
        except FileNotFoundError:
            if is_top:
                raise
            return []  # deleted meanwhile

    def links(self, directory: str, paths: Sequence[str]) -> dict[str, list[str]]:
        real, found = os.path.realpath(directory), dict[str, list[str]]()
        for parent, names in by_directory(paths).items():
            if "\0" in parent:
                continue
            real_parent = os.path.realpath(parent or "/")
            is_plain = f"{parent}/".startswith(f"{directory}/") and self._is_below(parent, directory, real)
            linked = _links_among(real_parent, names) if is_plain else names
            for name in linked:
                ways = _ways(f"{real_parent}/{name}")
                found[f"{parent}/{name}"] = [way[len(real) + 1 :] for way in ways if way.startswith(f"{real}/")]
        return found

    def delete(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def delete_many(self, directory: str, paths: Sequence[str]) -> list[Failed]:
        """As :meth:`Store.delete_many`, with the checksums that Hadoop's local file system keeps beside files. What
        links lead to outside the directory stays.
        """
        real = os.path.realpath(directory)
        inside = {parent: self._is_below(parent, directory, real) for parent in {os.path.dirname(p) for p in paths}}
        failed = [Failed(path, "a link leads out of the table") for path in paths if not inside[os.path.dirname(path)]]
        wanted = [path for path in paths if inside[os.path.dirname(path)]]
        pieces = [wanted[start : start + _DELETED_IN_A_ROW] for start in range(0, len(wanted), _DELETED_IN_A_ROW)]
        for some in in_parallel(lambda some: list(map(self._deleted, some)), pieces):
            failed += [each for each in some if each is not None]
        return failed

    @staticmethod
    def _is_below(parent: str, directory: str, real: str) -> bool:
        return os.path.realpath(parent) == os.path.normpath(real + parent[len(directory) :])

    def _deleted(self, path: str) -> Failed | None:
        failed = self._tried(path)
        if failed is None:
            _delete_checksum(path)
        return failed

    def delete_empty(self, path: str) -> bool:
        try:
            os.rmdir(path)
        except FileNotFoundError:
            return True
        except OSError:  # it is not empty any more
            return False
        return True


def _links_among(directory: str, names: Sequence[str]) -> list[str]:
    """Those of a directory's files that are links."""
    try:
        with os.scandir(directory) as entries:
            links = {entry.name for entry in entries if entry.is_symlink()}
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError:  # it may be passed through, and not be listed
        return [name for name in names if os.path.islink(f"{directory}/{name}")]
    return [name for name in names if name in links] if links else []


def _ways(path: str) -> list[str]:
    """A path without links in its folders, and each that links lead to from there."""
    ways = [path]
    while len(ways) < _MOST_LINKS and os.path.islink(ways[-1]):
        parent, name = os.path.split(os.path.join(os.path.dirname(ways[-1]), os.readlink(ways[-1])))
        ways.append(f"{os.path.realpath(parent)}/{name}")
    return ways


def _delete_checksum(path: str) -> None:
    """Delete the checksum that Hadoop's local file system keeps beside a file it wrote. Once the file is another one,
    Hadoop's readers would take the difference for damage.
    """
    parent, name = os.path.split(path)
    with contextlib.suppress(OSError):
        os.unlink(f"{parent}/.{name}.crc")


def _has_text(path: str) -> bool:
    """Whether a path is text; names of bytes that are none are not in any log."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


@contextlib.contextmanager
def _named(path: str) -> Iterator[None]:
    """Failures of the operating system name this file: those of reading and writing name none, others one that is
    written in its place.
    """
    if "\0" in path:  # a log may name it, but there is no such file
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    try:
        yield
    except OSError as error:
        error.filename, error.filename2 = path, None
        raise


@contextlib.contextmanager
def _written_beside(path: str, data: bytes) -> Any:
    """A durable temporary file with ``data`` in the directory of ``path``; gone afterwards unless it was renamed.

    Its name starts with a dot, so readers of the log and of the table ignore it.
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
    """Make a new name in the directory durable, on file systems that can.

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
