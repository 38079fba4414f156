"""The interface of all stores, ``Store``, and the promises that the log relies on.

The log is read and written only through it. ``tests/support/stores/store_contract.py`` tests the promises of any
store. Which store a path is in: :mod:`headwater.stores.by_path`.
"""

from __future__ import annotations

import errno
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import NamedTuple, TypeVar

import pyarrow as pa

from headwater.basics.errors import HeadwaterError
from headwater.stores.schemes import advice_for

_T = TypeVar("_T")
_R = TypeVar("_R")

#: A URI scheme of two letters or more, so that a Windows drive is not one.
SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")


#: What a store answers if it did nothing: no right to, no space, no such place, or a request that it does not know.
_REFUSALS = (HeadwaterError, PermissionError, FileNotFoundError, NotADirectoryError)
_REFUSAL_CODES = frozenset({errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.ENAMETOOLONG, errno.EOPNOTSUPP})


class FileInfo(NamedTuple):
    """A file in a listing: absolute path or URI, ``size`` in bytes, ``modification_time`` in milliseconds since the
    epoch; ``tag`` is what the store calls this content of the file, such as an ETag, empty if it has no such thing.
    """

    path: str
    size: int
    modification_time: int
    tag: str = ""

    @property
    def name(self) -> str:
        """The last segment of the path."""
        return self.path.rpartition("/")[2]


class Tree(NamedTuple):
    """What lies below a directory; paths relative to it. Directories have a ``size`` of 0, and stores without real
    directories have none.
    """

    files: list[FileInfo]
    directories: list[FileInfo]


class Failed(NamedTuple):
    """A file that could not be deleted, and why."""

    path: str
    reason: str


class Store(ABC):
    """The files of one scheme. Paths are absolute local paths (``/a/b``) or URIs, as text.

    What the log relies on, and ``tests/support/stores/store_contract.py`` tests of any store:

    1. Of all callers of :meth:`put_if_absent` for one path, in any process and on any machine, exactly one succeeds;
       the others get ``FileExistsError``. If the store cannot know, it raises any other exception; the caller then
       looks for its commit. What is not there then may still come, unless :meth:`may_come_late` says no.
    2. A reader sees a whole file or none, also while a :meth:`put` replaces it, and also after the writer died.
    3. An acknowledged file is durable: every reader and every listing sees it from then on, and it survives a crash of
       the machine. A file in the place of another one is another :class:`FileInfo`, whatever it has in common, unless
       no more than some milliseconds lie between them; in a listing it is the same as by :meth:`following`.
    4. A listing is sorted by name, in the order of the characters' code points, and holds no directories.
    5. A missing file raises ``FileNotFoundError``, and nothing else does. Any other failure raises ``OSError`` or a
       :class:`~headwater.basics.errors.HeadwaterError`; it never returns a value.

    A user's own store is named by ``spark.headwater.store.<scheme>`` (see
    :func:`headwater.stores.by_path.store_for`).
    """

    #: Whether all sessions share the store. One that they do not share acts with the rights of the session that it was
    #: opened for. Its first call must come from that session's statement. After that, other threads may use it as well,
    #: even when the statement has ended, as post-commit maintenance does.
    is_shared = True
    #: What it is reached with beyond what the session has, as far as that tells users apart: what one has read is given
    #: to another only if theirs are equal.
    identity: str = ""
    #: Whether it is this machine's own, so that a request costs next to nothing.
    is_local = False
    #: Whether it shows the log of one table as the catalog that manages the table has ratified it.
    of_catalog = False
    #: Whether what is committed through it is held back until a transaction over several statements ends.
    is_provisional = False
    #: Whether the first promise holds. A store without it is read only.
    puts_if_absent = True

    def check_writable(self, path: str) -> None:
        """Refuse a path where the store cannot keep its promises, before any work is done.

        :raises HeadwaterError: ``DELTA_UNSUPPORTED_STORE_FOR_WRITE``.
        """
        if not self.puts_if_absent:
            match = SCHEME.match(path)
            scheme = match.group(1) if match else "file"
            raise HeadwaterError(
                "DELTA_UNSUPPORTED_STORE_FOR_WRITE", {"scheme": scheme, "path": path, "advice": advice_for(scheme)}
            )

    @abstractmethod
    def list_from(self, directory: str, start_name: str = "") -> list[FileInfo]:
        """The directory's files (no directories) whose name is ``start_name`` or sorts after it, by name.

        :raises FileNotFoundError: the directory does not exist.
        """

    def following(self, paths: Iterable[str]) -> list[FileInfo] | None:
        """The files of these paths, in order, up to the first missing one; None if a listing costs less.

        On stores that read a directory whole for each listing, a listing costs more the older the table is.
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
        return in_parallel(self.read, paths)

    @abstractmethod
    def open_input(self, path: str) -> pa.NativeFile:
        """The file for random access by pyarrow's readers; the caller closes it."""

    @abstractmethod
    def put_if_absent(self, path: str, data: bytes) -> None:
        """Create the file with all of ``data``, or change nothing.

        :raises FileExistsError: a file of that name is there already.
        """

    def may_come_late(self, error: Exception) -> bool:
        """Whether a put-if-absent that failed with this error may still be carried out, such as by a request that is
        on its way; False only if the store rules that out.
        """
        return not isinstance(error, _REFUSALS) and getattr(error, "errno", None) not in _REFUSAL_CODES

    def put_once(self, path: str, data: bytes) -> None:
        """As :meth:`put_if_absent`, for content that nobody else writes, or a name that nobody else has: a file that
        has the name and the content is that of a request whose answer was lost.

        :raises FileExistsError: a file with other content has the name.
        """
        try:
            self.put_if_absent(path, data)
        except FileExistsError:
            if self.read(path) != data:
                raise

    @abstractmethod
    def put(self, path: str, data: bytes) -> None:
        """Write the file, replacing one that exists; readers see the old content or the new, never a mix."""

    def put_many(self, files: Mapping[str, bytes]) -> None:
        """Write files by path as :meth:`put` does, in parallel; directories are created where missing. After a failure
        nothing is written any more.
        """
        failures = in_parallel(lambda path: self._put_tried(path, files[path]), list(files))
        for failure in filter(None, failures):
            raise failure

    def _put_tried(self, path: str, data: bytes) -> Exception | None:
        try:
            try:
                self.put(path, data)
            except FileNotFoundError:  # its directory is not there, on stores that have some
                self.make_directory(path.rpartition("/")[0])
                self.put(path, data)
        except Exception as error:
            return error
        return None

    @abstractmethod
    def exists(self, path: str) -> bool:
        """Whether a file or directory of that path exists."""

    def missing(self, paths: Sequence[str]) -> list[str]:
        """Those of the paths where there is neither a file nor a directory, in order; looked for in parallel."""
        return [path for path, there in zip(paths, in_parallel(self.exists, paths), strict=True) if not there]

    def walk(
        self,
        directory: str,
        enters: Callable[[str], bool],
        between: Callable[[], None],
        within: Callable[[str], bool] | None = None,
    ) -> Tree:
        """All that lies below a directory, in no order; links are neither followed nor listed.

        :param enters: whether a file of this name, or all below a directory of it, is looked at. Directories of logs
            (``_delta_log``) are in the answer and are not entered.
        :param between: called again and again, as this may take long; what it raises ends the walk.
        :param within: whether what has this path below the directory is looked at; None for all. It is asked before
            ``enters``, and says yes to all that lies above a path to which it says yes.
        :raises FileNotFoundError: the directory does not exist.
        :raises NotImplementedError: a store of a user's own that lists single directories only.
        """
        raise NotImplementedError(f"{type(self).__name__} has no method walk")

    def links(self, directory: str, paths: Sequence[str]) -> dict[str, list[str]]:
        """Those of some paths that are links or that a link leads to, each with every other path by which the same file
        is known on the way there.

        :param directory: the other paths are relative to it; what lies elsewhere is left out.
        """
        return {}

    @abstractmethod
    def make_directory(self, path: str) -> None:
        """Create the directory and its parents where missing."""

    @abstractmethod
    def delete(self, path: str) -> None:
        """Delete the file; one that is missing is no error."""

    def delete_many(self, directory: str, paths: Sequence[str]) -> list[Failed]:
        """Delete files below a directory, in parallel and as many in one request as the store takes; those that could
        not be deleted. One that is missing counts as deleted.
        """
        return [failed for failed in in_parallel(self._tried, paths) if failed is not None]

    def _tried(self, path: str) -> Failed | None:
        try:
            self.delete(path)
        except OSError as error:
            return Failed(path, error.strerror or str(error))
        return None

    def delete_empty(self, path: str) -> bool:
        """Delete a directory if nothing is in it; whether it is gone."""
        return False


class StoreOver(Store):
    """A store that shows another one, and hands on what a subclass does not answer itself. What :class:`Store` makes
    up of its other methods, such as :meth:`read_many`, is made up of the subclass's.
    """

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.identity, self.is_local, self.puts_if_absent = inner.identity, inner.is_local, inner.puts_if_absent

    def _check_change(self, path: str) -> None:
        """Asked before a file is put or deleted; what it raises refuses it."""

    def check_writable(self, path: str) -> None:
        self.inner.check_writable(path)

    def list_from(self, directory: str, start_name: str = "") -> list[FileInfo]:
        return self.inner.list_from(directory, start_name)

    def following(self, paths: Iterable[str]) -> list[FileInfo] | None:
        return self.inner.following(paths)

    def _following(self, paths: Iterable[str], own: Callable[[str], FileInfo | None]) -> list[FileInfo] | None:
        """:meth:`following` of a store that has files of its own.

        :param own: its file of a path; None if the other store is to be asked. It raises FileNotFoundError if there is
            none, whatever the other store has.
        """
        found: list[FileInfo] = []
        for path in paths:
            try:
                file = own(path)
            except FileNotFoundError:
                break
            some = [file] if file is not None else self.inner.following([path])
            if some is None:
                return None
            if not some:
                break
            found += some
        return found

    def read(self, path: str) -> bytes:
        return self.inner.read(path)

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        return self.inner.read_range(path, offset, length)

    def open_input(self, path: str) -> pa.NativeFile:
        return self.inner.open_input(path)

    def exists(self, path: str) -> bool:
        return self.inner.exists(path)

    def walk(
        self,
        directory: str,
        enters: Callable[[str], bool],
        between: Callable[[], None],
        within: Callable[[str], bool] | None = None,
    ) -> Tree:
        return self.inner.walk(directory, enters, between, *(() if within is None else (within,)))

    def links(self, directory: str, paths: Sequence[str]) -> dict[str, list[str]]:
        return self.inner.links(directory, paths)

    def put_if_absent(self, path: str, data: bytes) -> None:
        self._check_change(path)
        self.inner.put_if_absent(path, data)

    def may_come_late(self, error: Exception) -> bool:
        return self.inner.may_come_late(error)

    def put(self, path: str, data: bytes) -> None:
        self._check_change(path)
        self.inner.put(path, data)

    def make_directory(self, path: str) -> None:
        self.inner.make_directory(path)

    def delete(self, path: str) -> None:
        self._check_change(path)
        self.inner.delete(path)

    def delete_many(self, directory: str, paths: Sequence[str]) -> list[Failed]:
        return self.inner.delete_many(directory, paths)

    def delete_empty(self, path: str) -> bool:
        return self.inner.delete_empty(path)


def by_directory(paths: Iterable[str]) -> dict[str, list[str]]:
    """The names of files, by the directory that they lie in."""
    found: dict[str, list[str]] = {}
    for path in paths:
        directory, _, name = path.rpartition("/")
        found.setdefault(directory, []).append(name)
    return found


def in_parallel(do: Callable[[_T], _R], items: Sequence[_T]) -> list[_R]:
    """The results of ``do`` for the items, in order."""
    try:
        coming = _readers().map(do, items)
    except RuntimeError:  # the interpreter is shutting down: no new threads can start
        coming = map(do, items)
    return list(coming)


@cache
def _readers() -> ThreadPoolExecutor:
    """Threads that mostly wait for a store; their number limits the concurrent requests to a slow one."""
    return ThreadPoolExecutor(64, "headwater-read")
