"""The log of a table as the catalog that manages it has ratified it.

Owns :class:`RatifiedLog`, a store that shows one table. It follows the protocol's chapter "Reading Catalog-managed
Tables":

1. The catalog is asked before the log is listed, and for each version that it has not been asked about.
2. A ratified commit is shown under the name that it will be published by, published or not, with the content of the
   staged file that the catalog names. The published copy is read only where that file is gone.
3. No file of a version after the catalog's newest is shown.
4. A staged file that the catalog does not name is never read: it lost, or was never proposed.

So whoever reads a log through it sees one sequence of versions, and needs to know of no catalog. Commits are not
written through it; that is :mod:`headwater.transaction.catalog_commits`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from threading import Lock
from typing import Protocol, TypeVar

import pyarrow as pa

from headwater.basics.errors import HeadwaterError
from headwater.basics.recent import Recent
from headwater.catalogs.interface import CatalogFailure, Maintenance, ManagedTable, Ratified, StagedCommit
from headwater.protocol.file_names import (
    CommitName,
    commit_name,
    last_version,
    log_directory,
    parse_name,
)
from headwater.stores import FileInfo, Store
from headwater.stores.interface import StoreOver

_T = TypeVar("_T")

#: Ratified commits of a table that are remembered by their staged files. Older ones are read where they are published.
_MOST_REMEMBERED = 1000


class Version(Protocol):
    """A version of a table."""

    @property
    def store(self) -> Store: ...

    @property
    def version(self) -> int: ...


class Managed(Version, Protocol):
    """A version of a table that may be a catalog's."""

    @property
    def is_catalog_managed(self) -> bool: ...


class RatifiedLog(StoreOver):
    """A table's store, with the log that its catalog has ratified; see the rules above.

    :param inner: where the table's files are.
    :param table_path: as ``inner`` spells it.
    :param renew: has ``inner`` reach the files with other credentials, where those it has expire, or were refused, as
        its argument says; whether it does.
    """

    of_catalog = True
    is_shared = False

    def __init__(
        self,
        inner: Store,
        table_path: str,
        table: ManagedTable,
        renew: Callable[[bool], bool] = lambda refused: False,
    ) -> None:
        super().__init__(inner)
        self.table = table
        self.table_path = table_path
        self.renew = renew
        self.identity = f"{inner.identity}|{table.identity}"
        self._directory = log_directory(table_path)
        self._lock = Lock()
        #: The newest version that is known to be published, with all before it, and durable; None if none is.
        self.published: int | None = None
        self._latest = -1
        self._commits: Recent[int, StagedCommit] = Recent(_MOST_REMEMBERED)

    # What the catalog says

    def ask(self) -> Ratified:
        """What the catalog says now, which is remembered.

        :raises HeadwaterError: ``HEADWATER_CATALOG_FAILED``.
        """
        try:
            answer = self.table.ratified()
        except CatalogFailure as error:
            raise HeadwaterError(
                "HEADWATER_CATALOG_FAILED", {"tableName": self.table.name, "reason": str(error)}
            ) from error
        self.learn(answer)
        return answer

    def learn(self, answer: Ratified) -> None:
        """Remember an answer of the catalog. A version is ratified once, so what is known stays true."""
        with self._lock:
            self._latest = max(self._latest, answer.latest)
            for version in sorted(answer.commits):
                self._commits[version] = answer.commits[version]

    def published_path(self, version: int) -> str:
        return f"{self._directory}/{commit_name(version)}"

    def _commit(self, path: str) -> int | None:
        """The version whose commit a path names."""
        directory, _, name = path.rpartition("/")
        parsed = parse_name(name) if directory == self._directory else None
        return parsed.version if isinstance(parsed, CommitName) else None

    def _staged(self, version: int) -> StagedCommit | None:
        with self._lock:
            return self._commits.get(version)

    def _info(self, commit: StagedCommit) -> FileInfo:
        return FileInfo(self.published_path(commit.version), commit.size, commit.modification_time)

    def _is_ratified(self, version: int) -> bool:
        """Whether it is a version of the table. The catalog is asked where it may have become one since."""
        return version <= self._latest or version <= self.ask().latest

    # Reading

    def list_from(self, directory: str, start_name: str = "") -> list[FileInfo]:
        if directory != self._directory:
            return self.inner.list_from(directory, start_name)
        answer = self.ask()
        found = {file.name: file for file in self.inner.list_from(directory, start_name)}
        found = {name: file for name, file in found.items() if last_version(name) <= answer.latest}
        with self._lock:
            known = [commit for version, commit in self._commits.items() if version <= answer.latest]
        for commit in known:
            name = commit_name(commit.version)
            # An older one that is in no answer any more was published, and may have been cleaned up since.
            if name >= start_name and (name in found or commit.version in answer.commits):
                found[name] = self._info(commit)
        return [found[name] for name in sorted(found)]

    def following(self, paths: Iterable[str]) -> list[FileInfo] | None:
        asked = False

        def own(path: str) -> FileInfo | None:
            nonlocal asked
            version = self._commit(path)
            if version is None:
                return None
            if version > self._latest:
                if asked or version > self.ask().latest:
                    raise FileNotFoundError(path)
                asked = True
            staged = self._staged(version)
            return None if staged is None else self._info(staged)

        return self._following(paths, own)

    def read(self, path: str) -> bytes:
        return self._through(path, self.inner.read)

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        return self._through(path, lambda where: self.inner.read_range(where, offset, length))

    def open_input(self, path: str) -> pa.NativeFile:
        return self._through(path, self.inner.open_input)

    def _through(self, path: str, read: Callable[[str], _T]) -> _T:
        """Read a file; a commit where the catalog says that it is."""
        version = self._commit(path)
        if version is None:
            return read(path)
        if not self._is_ratified(version):
            raise FileNotFoundError(path)
        commit = self._staged(version)
        if commit is not None:
            try:
                return read(commit.path(self.table_path))
            except FileNotFoundError:
                pass  # published, and the staged file cleaned up
        return read(path)

    def exists(self, path: str) -> bool:
        version = self._commit(path)
        if version is None:
            return self.inner.exists(path)
        return self._is_ratified(version) and (self._staged(version) is not None or self.inner.exists(path))

    # Writing: all but commits

    def _check_change(self, path: str) -> None:
        if self._commit(path) is not None:
            raise refused_by_catalog("A change of the table's log", self.table.name)


def refused_by_catalog(operation: str, table: str, needed: Maintenance | None = None) -> HeadwaterError:
    """The error for what only the catalog that manages a table may do.

    :param needed: what the catalog could allow its clients, if anything.
    """
    advice = "Leave this to the catalog, which cleans up and lays out its tables itself"
    if needed is not None:
        advice += f", or have it allow {needed.value} in its answers about the table"
    return HeadwaterError(
        "DELTA_UNSUPPORTED_CATALOG_MANAGED_TABLE_OPERATION",
        {"operation": operation, "tableName": table, "advice": f"{advice}."},
    )


def is_allowed(table: Managed, maintenance: Maintenance) -> bool:
    """Whether clients may maintain a table so: any that no catalog manages, and one whose catalog says so now.

    :raises HeadwaterError: ``HEADWATER_CATALOG_FAILED``.
    """
    if not table.is_catalog_managed:
        return True
    return isinstance(table.store, RatifiedLog) and maintenance in table.store.ask().allowed


def files_of(store: Store) -> Store:
    """The store in which the files of a log can be deleted, which a catalog has allowed or has no say in."""
    return store.inner if isinstance(store, RatifiedLog) else store


def first_on_record(store: Store) -> int | None:
    """The oldest version whose staged commit a table's catalog has on record now; None if there is no such thing.

    :raises HeadwaterError: ``HEADWATER_CATALOG_FAILED``.
    """
    return min(store.ask().commits, default=None) if isinstance(store, RatifiedLog) else None


def is_published(table: Version) -> bool:
    """Whether the commit of a table's version is in the log itself, so that a checkpoint may be made of it."""
    log = table.store
    return not isinstance(log, RatifiedLog) or log.inner.exists(log.published_path(table.version))
