"""Stores that are accessed through Hadoop's file systems.

Owns what each kind of them is relied on for, after the protocol's chapter "Creation of New Log Entries":

- *HDFS* (also by ``webhdfs``, ``swebhdfs``, and ``viewfs`` if it leads there): the name node renames a file where
  nothing has the new name, or refuses, in one step. A commit is written under a temporary name, synced and renamed.
- *S3* (``s3a``, or ``s3`` where it is set to the same file system): an object is created on the condition that there is
  none (``If-None-Match: *``).
- *Google Cloud Storage* (``gs``): the same, where an object that there is none of has the generation 0.
- *Azure Data Lake Storage* (``abfs``, ``abfss``) and *Oracle's Object Storage* (``oci``): a create is seen before it is
  complete, or replaces; a rename has the condition that nothing has the new name, which the server keeps.
- *All others* are read, and never written: what their rename or their create promises is theirs to say, by a store that
  a setting names (:func:`headwater.stores.by_path.store_for`).

Which scheme is which: :mod:`headwater.stores.schemes`. Servers there are that do not know a condition and overwrite. So
each, but for HDFS, is tried once before anything is written to it, and refused if it does.

What the bridge offers of Hadoop is :class:`HadoopFiles`; all that is decided about it is decided here.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

import orjson
import pyarrow as pa

from headwater.basics import backoff
from headwater.basics.errors import HeadwaterError
from headwater.protocol.file_names import LOG_DIRECTORY, log_directory
from headwater.stores.interface import Failed, FileInfo, Store, Tree, by_directory
from headwater.stores.schemes import Promise, promise_of

_T = TypeVar("_T")
_LOG = logging.getLogger(__name__)

#: How many files are looked up by name at once, at most.
_MOST_FOLLOWED_AT_ONCE = 64
#: How many paths are asked about in one call over the bridge, at most.
_MOST_ASKED = 5000
#: How many directories are listed in one call over the bridge, at most.
_MOST_LISTED = 256
#: From so many files of a directory on, a listing of it shows which are there. A page of a listing of S3 has 1000.
_LISTED_RATHER = 1000
#: How often to try a create that the server puts off because of another request for the same name, or to read a file
#: that another writer replaces meanwhile.
_TRIES = 5
#: How many renames to one name a server is tried with at once. A client looks before it asks for a rename, so the
#: server decides only about those that were under way together.
_RENAMES_AT_ONCE = 4


class ConditionalCreate(NamedTuple):
    """Whether a file system can create on condition, as far as its client knows; its server and Hadoop's version."""

    available: bool
    server: str
    hadoop: str


class RequestPutOff(OSError):
    """The server did nothing, because another request for the same name is running; ask it again."""


class RequestNotKnown(OSError):
    """The server did nothing, because it does not know this kind of request."""


class ReplacedMeanwhile(OSError):
    """A file was replaced between two requests of one reading of it."""


class RenameMayCome(OSError):
    """A create by rename failed, and the file that was to be renamed may still be there."""


class RefusedAgain(PermissionError):
    """A request that was refused after the client had made it before, without a definite answer."""


class HadoopFiles(Protocol):
    """What the bridge offers over Hadoop's ``FileSystem`` with Spark's own configuration; every path is a URI.

    Missing files and directories raise ``FileNotFoundError``, a taken name in a create ``FileExistsError``, a file that
    changes while it is read :class:`ReplacedMeanwhile`; any other failure is an ``OSError`` with the path as its
    ``filename``.
    """

    def identity(self, path: str) -> str:
        """Equal for paths that are reached with equal options of their own; empty without any."""

    def mounted_scheme(self, path: str) -> str:
        """The scheme of the file system that a path of a mount table is in."""

    def conditional_create(self, path: str) -> ConditionalCreate:
        """What :meth:`create_conditionally` can be relied on for, as far as the client knows."""

    def list_from(self, directory: str, start_name: str) -> Iterable[tuple[str, int, int, str]]:
        """(URI, size in bytes, modification time in milliseconds, tag) of each file not before ``start_name``, by name.
        The tag is the file's ETag, empty if the file system has none.
        """

    def statuses(self, paths: Sequence[str]) -> Sequence[tuple[int, int, str] | None]:
        """(size in bytes, modification time in milliseconds, tag) of each file, None if the file does not exist,
        all at once.
        """

    def read(self, path: str) -> bytes:
        """The whole content."""

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """``length`` bytes from ``offset``, fewer where the file ends before."""

    def read_many(self, paths: Sequence[str], local_path: str) -> Sequence[int]:
        """Write the contents, one after the other, into a local file that exists; the size of each in bytes. They are
        read at the same time, and none is held whole in memory.
        """

    def copy_to_local(self, path: str, local_path: str) -> None:
        """Write the whole content into a local file: one call for a large file, without its bytes going over the
        bridge.
        """

    def create_by_rename(self, path: str, data: bytes) -> None:
        """Create the file by renaming another, only if the name is free.

        :raises RenameMayCome: it failed, and the rename may yet be done. After any other failure there is nothing left
            to rename.
        """

    def replace_by_rename(self, path: str, data: bytes) -> None:
        """Write the file by renaming another, replacing one that exists."""

    def create_conditionally(self, path: str, data: bytes) -> None:
        """Create the file on the condition that there is none.

        :raises RequestPutOff: nothing was done; ask again.
        :raises RequestNotKnown: nothing was done; the server cannot.
        """

    def create_exclusively(self, path: str, data: bytes) -> None:
        """Create the file, if there is none when it is complete."""

    def creates_that_win(self, path: str) -> int:
        """Begin to create the file twice, when there is none, then complete both; how many were not refused."""

    def renames_that_win(self, path: str, count: int) -> int:
        """Rename so many files to the path at once, when there is none; how many were not refused."""

    def replace(self, path: str, data: bytes) -> None:
        """Write the file, replacing one that exists when the new one is complete."""

    def exist(self, paths: Sequence[str]) -> Sequence[bool]:
        """Whether each path is one of a file or a directory, all at once."""

    def entries(self, directories: Sequence[str], deep: bool, local_path: str) -> None:
        """Write what lies in directories into a local file that exists: a line for each entry, the JSON array (is a
        directory, URI, size in bytes, modification time in milliseconds). Directories that are missing have none.

        :param deep: all files below, and no directories; else what lies directly in them.
        """

    def delete_many(self, directory: str, paths: Sequence[str]) -> Sequence[tuple[str, str]]:
        """Delete files below a directory, many in one request; the path of each that is left, and why."""

    def delete_empty(self, path: str) -> bool:
        """Delete a directory if it is empty; whether it is gone."""

    def make_directory(self, path: str) -> None:
        """Create the directory and its parents."""

    def delete(self, path: str) -> None:
        """Delete the file; missing is no error."""


def hadoop_store(scheme: str, path: str, files: HadoopFiles) -> HadoopStore:
    """The store of a scheme, given in lower case, that Hadoop has a file system for."""
    promise = promise_of(scheme)
    if promise is Promise.MOUNTED:
        there = promise_of(files.mounted_scheme(path))
        promise = there if there is Promise.NAME_NODE else Promise.NONE
    return _KINDS[promise](files, files.identity(path))


class HadoopStore(Store):
    """Any scheme Hadoop has a ``FileSystem`` for, to be read; every call goes over the bridge.

    Calls of the statement's thread run on its thread in the JVM, and end when it is cancelled. Calls of other threads
    run on threads of their own there, with the same file systems and so the same rights.
    """

    is_shared = False
    puts_if_absent = False
    #: Whether one request lists all that lies below a directory, at any depth.
    lists_deep = False

    def __init__(self, files: HadoopFiles, identity: str = "") -> None:
        self._files = files
        self.identity = identity

    def list_from(self, directory: str, start_name: str = "") -> list[FileInfo]:
        return [self._info(*entry) for entry in self._files.list_from(directory, start_name)]

    def following(self, paths: Iterable[str]) -> list[FileInfo] | None:
        """Looks up two paths first, as mostly one file exists and the next does not; then more at once, in parallel."""
        found: list[FileInfo] = []
        remaining, count = iter(paths), 2
        while some := list(itertools.islice(remaining, count)):
            for path, status in zip(some, self._files.statuses(some), strict=True):
                if status is None:
                    return found
                found.append(self._info(path, *status))
            count = min(2 * count, _MOST_FOLLOWED_AT_ONCE)
        return found

    @staticmethod
    def _info(path: str, size: int, modification_time: int, tag: str) -> FileInfo:
        return FileInfo(path, size, modification_time, tag)

    def read(self, path: str) -> bytes:
        return _settled(lambda: self._files.read(path))

    def read_many(self, paths: Sequence[str]) -> list[bytes]:
        if len(paths) < 2:
            return [self.read(path) for path in paths]
        # Through a local file: the bytes need no encoding, and the JVM holds none of them in memory.
        with tempfile.NamedTemporaryFile(prefix="headwater-", suffix=".tmp") as local:
            sizes = _settled(lambda: self._files.read_many(paths, local.name))
            return [local.read(size) for size in sizes]

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        return _settled(lambda: self._files.read_range(path, offset, length))

    def open_input(self, path: str) -> pa.NativeFile:
        # Arrow reads from its own threads, which must not call over the bridge. The copy also survives a deletion.
        descriptor, local = tempfile.mkstemp(prefix="headwater-", suffix=".tmp")
        os.close(descriptor)
        try:
            _settled(lambda: self._files.copy_to_local(path, local))
            return pa.OSFile(local, "rb")
        finally:
            os.unlink(local)  # the open file keeps the content

    def put_if_absent(self, path: str, data: bytes) -> None:
        self.check_writable(path)

    def put(self, path: str, data: bytes) -> None:
        self.check_writable(path)

    def exists(self, path: str) -> bool:
        return self._files.exist([path])[0]

    def missing(self, paths: Sequence[str]) -> list[str]:
        """As :meth:`Store.missing`; directories of many of the paths are listed."""
        crowded = [directory for directory, names in by_directory(paths).items() if len(names) >= _LISTED_RATHER]
        there: set[str] = set()
        for start in range(0, len(crowded), _MOST_LISTED):
            listed = self._entries(crowded[start : start + _MOST_LISTED], deep=False)
            there.update(path for _, path, _, _ in listed)
        found: list[str] = []
        single = [path for path in paths if path not in there]
        for start in range(0, len(single), _MOST_ASKED):
            some = single[start : start + _MOST_ASKED]
            found += [path for path, exists in zip(some, self._files.exist(some), strict=True) if not exists]
        return found

    def make_directory(self, path: str) -> None:
        self._files.make_directory(path)

    def walk(
        self,
        directory: str,
        enters: Callable[[str], bool],
        between: Callable[[], None],
        within: Callable[[str], bool] | None = None,
    ) -> Tree:
        tree, coming, logs = Tree([], []), [directory], set[str]()
        start = len(directory) + 1
        while coming:
            between()
            some, coming = coming[:_MOST_LISTED], coming[_MOST_LISTED:]
            # The first level shows what not to enter.
            deep = self.lists_deep and some != [directory]
            for is_directory, path, size, modified in self._entries(some, deep):
                inside = path[start:]
                names = inside.split("/")
                if LOG_DIRECTORY in names:
                    logs.add("/".join(names[: names.index(LOG_DIRECTORY) + 1]))
                if (within is not None and not within(inside)) or not all(map(enters, names)):
                    continue
                if is_directory:
                    tree.directories.append(FileInfo(inside, 0, modified))
                    coming.append(path)
                else:
                    tree.files.append(FileInfo(inside, size, modified))
        tree.directories.extend(FileInfo(log, 0, 0) for log in logs)
        return tree

    def _entries(self, directories: Sequence[str], deep: bool) -> Iterator[tuple[bool, str, int, int]]:
        with tempfile.NamedTemporaryFile(prefix="headwater-", suffix=".tmp") as local:
            self._files.entries(directories, deep, local.name)
            for line in local:
                is_directory, path, size, modification_time = orjson.loads(line)
                yield is_directory, path, size, modification_time

    def delete(self, path: str) -> None:
        self._files.delete(path)

    def delete_many(self, directory: str, paths: Sequence[str]) -> list[Failed]:
        return [Failed(path, reason) for path, reason in self._files.delete_many(directory, paths)]

    def delete_empty(self, path: str) -> bool:
        return self._files.delete_empty(path)


class _PutsByRename(HadoopStore):
    """Every file is written under another name and renamed."""

    def put_if_absent(self, path: str, data: bytes) -> None:
        self._files.create_by_rename(path, data)

    def may_come_late(self, error: Exception) -> bool:
        """Only if the temporary file may be there still: what was interrupted is no ``OSError``."""
        return isinstance(error, RenameMayCome) or not isinstance(error, (OSError, HeadwaterError))

    def put(self, path: str, data: bytes) -> None:
        self._files.replace_by_rename(path, data)


class RenamingStore(_PutsByRename):
    """A file system whose rename refuses to replace a file, in one step: HDFS."""

    puts_if_absent = True


class ReadOnlyStore(HadoopStore):
    """A scheme whose tables others commit to in a way of their own, as the session's settings say."""

    def __init__(self, files: HadoopFiles, setting: str, value: str) -> None:
        super().__init__(files)
        self._setting, self._value = setting, value

    def check_writable(self, path: str) -> None:
        """Refuse every path.

        :raises HeadwaterError: ``HEADWATER_LOG_STORE_NOT_SUPPORTED``.
        """
        scheme = path.partition(":")[0]
        raise HeadwaterError(
            "HEADWATER_LOG_STORE_NOT_SUPPORTED",
            {"path": path, "setting": self._setting, "value": self._value, "scheme": scheme},
        )


class TriedStore(HadoopStore):
    """A store whose server keeps a condition, or does not know it and overwrites: it is tried before it is written to.

    If a create succeeded but its answer was lost and the client asked again, the failure looks like a taken name or an
    error. In both cases the caller looks for its commit (:mod:`headwater.transaction.committers`).
    """

    puts_if_absent = True
    promise = Promise.NONE

    @staticmethod
    def _info(path: str, size: int, modification_time: int, tag: str) -> FileInfo:
        # Some servers list milliseconds, but return none for a single object. Both must give the same time.
        return FileInfo(path, size, modification_time // 1000 * 1000, tag)

    def check_writable(self, path: str) -> None:
        """Refuse if the client cannot set the condition, or if a test showed that the server ignores it.

        :raises HeadwaterError: ``HEADWATER_CONDITIONAL_CREATE_NOT_AVAILABLE``,
            ``HEADWATER_CONDITIONAL_CREATE_IGNORED``.
        :raises OSError: the server could not be asked.
        """
        create = self._files.conditional_create(path)
        self._check_client(path, create)
        if create.server not in _KEPT:
            self._try(path, create.server)
            _KEPT.add(create.server)

    def _check_client(self, path: str, create: ConditionalCreate) -> None:
        """Refuse a client that cannot set the condition."""

    def _try(self, path: str, server: str) -> None:
        probe = f"{log_directory(path)}/.condition-{uuid.uuid4()}.tmp"
        refused = False
        try:
            refused = self._refuses_a_second(probe)
        except RequestNotKnown as error:
            _LOG.warning("%s: the server does not know %s: %s", probe, self.promise.value, error)
        finally:
            try:
                self._files.delete(probe)
            except OSError as error:
                _LOG.warning(
                    "%s was to see whether the server keeps conditions, and could not be deleted: %s", probe, error
                )
        if not refused:
            raise HeadwaterError(
                "HEADWATER_CONDITIONAL_CREATE_IGNORED",
                {
                    "path": path,
                    "server": server,
                    "scheme": path.partition(":")[0],
                    "condition": self.promise.value,
                },
            )

    def _refuses_a_second(self, probe: str) -> bool:
        """Whether of several that create a file of this name, which there is not yet, only one succeeds."""
        raise NotImplementedError

    def _wins_once(self, probe: str, creates: Callable[[], int]) -> bool:
        """Whether one of several creates succeeds. If none does, answers may have been lost: it is tried again."""
        for _ in backoff.OF_REQUESTS.tries(_TRIES):
            won = creates()
            if won:
                return won == 1
            with contextlib.suppress(OSError):  # the next try finds it, and is the one that counts
                self._files.delete(probe)
        return False


class ConditionalStore(TriedStore):
    """An object store that creates an object on the condition that there is none: S3."""

    promise = Promise.CONDITION
    lists_deep = True

    def _check_client(self, path: str, create: ConditionalCreate) -> None:
        if not create.available:
            raise HeadwaterError(
                "HEADWATER_CONDITIONAL_CREATE_NOT_AVAILABLE", {"path": path, "hadoopVersion": create.hadoop}
            )

    def _refuses_a_second(self, probe: str) -> bool:
        try:
            for content in (b"first", b"second"):
                self.put_if_absent(probe, content)
        except FileExistsError:  # of the first, if its answer was lost and the client asked again
            return True
        return False

    def put_if_absent(self, path: str, data: bytes) -> None:
        create = partial(self._files.create_conditionally, path, data)
        backoff.OF_REQUESTS.insist(create, _TRIES, lambda error: isinstance(error, RequestPutOff))

    def may_come_late(self, error: Exception) -> bool:
        """A refusal says nothing about the client's own requests before it."""
        return isinstance(error, RefusedAgain) or super().may_come_late(error)

    def put(self, path: str, data: bytes) -> None:
        self._files.replace(path, data)


class GenerationStore(TriedStore):
    """An object store whose client looks for an object, and creates it only if it is still the same: Google's."""

    promise = Promise.GENERATION

    @staticmethod
    def _info(path: str, size: int, modification_time: int, tag: str) -> FileInfo:
        # Google's client has no tag, and also gives the milliseconds of a single object: they tell objects apart.
        return FileInfo(path, size, modification_time, tag)

    def _refuses_a_second(self, probe: str) -> bool:
        return self._wins_once(probe, lambda: self._files.creates_that_win(probe))

    def put_if_absent(self, path: str, data: bytes) -> None:
        self._files.create_exclusively(path, data)

    def put(self, path: str, data: bytes) -> None:
        _settled(lambda: self._files.replace(path, data))


class ConditionalRenameStore(_PutsByRename, TriedStore):
    """A store whose server renames on the condition that nothing has the new name: Azure's and Oracle's.

    It has no rename that replaces: :meth:`put` deletes the old file before it renames the new one, so that a reader may
    find none for a moment.
    """

    promise = Promise.RENAME

    def _refuses_a_second(self, probe: str) -> bool:
        return self._wins_once(probe, lambda: self._files.renames_that_win(probe, _RENAMES_AT_ONCE))


_KINDS: dict[Promise, type[HadoopStore]] = {
    Promise.NAME_NODE: RenamingStore,
    Promise.CONDITION: ConditionalStore,
    Promise.GENERATION: GenerationStore,
    Promise.RENAME: ConditionalRenameStore,
    Promise.NONE: HadoopStore,
}


def _settled(read: Callable[[], _T]) -> _T:
    """The result of a read, repeated if another writer replaces the file meanwhile."""
    for _ in range(_TRIES - 1):
        with contextlib.suppress(ReplacedMeanwhile):
            return read()
    return read()


#: The servers that passed the test of the condition.
_KEPT: set[str] = set()
