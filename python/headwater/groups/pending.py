"""A table as an open transaction over several statements sees it: one version, with the transaction's changes since.

Owns :class:`PendingLog`, a store that shows one table's log up to the version that the transaction reads, with the
transaction's own commits after it; these are held in memory, and nobody else sees them. Statements run on it as on any
store: they read what those before them wrote, and what they commit becomes the next pending version. Their data files
and deletion vectors are written to the table's folder, where no version names them until COMMIT, which makes one commit
of all of a table (:mod:`headwater.groups.composing`).

A table that the transaction creates begins with a pending version 0: until COMMIT, its place has data files and no log.

Promise: nothing is written to the table's log through it, by statements or by maintenance. What cannot be one commit is
refused when the statement that makes it so ends.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

import pyarrow as pa

from headwater.basics import clock
from headwater.basics.errors import HeadwaterError
from headwater.groups import net_changes
from headwater.groups.net_changes import Missing
from headwater.log.deletion_vectors import INLINE, absolute_location
from headwater.log.snapshot import Snapshot
from headwater.protocol import properties
from headwater.protocol.actions import AddCDCFile
from headwater.protocol.file_names import (
    LAST_CHECKPOINT,
    CommitName,
    commit_name,
    last_version,
    log_directory,
    parse_name,
)
from headwater.stores import FileInfo, Store, absolute_path
from headwater.transaction.committers import CommitFile, Committer, CommittingStore, Lost, Made
from headwater.transaction.content import Content
from headwater.transaction.prepared import PreparedCommit
from headwater.transaction.row_level import VectorFiles

if TYPE_CHECKING:
    from headwater.pruning.predicates import Predicate


@dataclass(frozen=True)
class Pending:
    """A commit of a statement: the version it has within the transaction, and what it was made of."""

    version: int
    data: bytes
    time: int
    prepared: PreparedCommit


class PendingLog(CommittingStore):
    """The store of one table in one transaction.

    :param inner: where the table's files are.
    :param transaction_id: of the open transaction.
    :param pin: the version that the transaction reads; asked once, when the log is first looked at.
    :param check: asked before a statement's commit is taken; what it raises refuses it.
    """

    is_shared = False
    is_provisional = True

    def __init__(
        self,
        inner: Store,
        table_path: str,
        transaction_id: str,
        pin: Callable[[], Snapshot],
        check: Callable[[PendingLog], None] = lambda log: None,
    ) -> None:
        super().__init__(inner)
        self.table_path = table_path
        self.identity = f"{inner.identity}|transaction {transaction_id}"
        self.commits: list[Pending] = []
        self.check = check
        #: What queries have read, where that is to be checked: rows for which all predicates of one of these are true.
        self.noted: list[Sequence[Predicate]] | None = None
        self._pin = pin
        self._pinned: Snapshot | None = None
        #: Whether the transaction creates the table.
        self.is_new = False
        #: Change data files of what several statements changed, beside those that each wrote.
        self.changes: list[AddCDCFile] = []
        self._ended = False
        #: What statements came to, also of those that were refused.
        self._written: list[Content] = []
        self._directory = log_directory(table_path)
        self._lock = Lock()
        self._taking = Lock()

    def committer(self, prepared: PreparedCommit) -> Committer:
        return _PendingCommitter(self, prepared)

    def take(self, version: int, data: bytes, prepared: PreparedCommit) -> bool:
        """Make a statement's commit the next pending one; False if another statement has the version.

        :raises HeadwaterError: ``HEADWATER_TRANSACTION_LOST`` if the transaction has ended meanwhile; what ``check``
            and :func:`check_composition` raise.
        """
        with self._taking:
            if self._ended:
                raise HeadwaterError("HEADWATER_TRANSACTION_LOST")
            creates = prepared.work.snapshot is None and not self.is_pinned and not self.is_new
            if not creates and version <= self.newest:
                return False
            self._written.append(prepared.work.content)
            self.check(self)
            check_composition([*(each.prepared for each in self.commits), prepared])
            self.is_new = self.is_new or creates
            self.commits.append(Pending(version, data, clock.milliseconds(), prepared))
            return True

    def take_back(self, version: int) -> bool:
        """Forget a statement's commit, because the one that it belongs to failed. False if others follow it."""
        with self._taking:
            if not self.commits or self.newest != version:
                return False
            self.commits.pop()
            self.is_new = self.is_new and bool(self.commits)
            return True

    def note(self, predicates: Sequence[Predicate]) -> None:
        """Note what a query reads, where that is to be checked: no predicates mean every row."""
        if self.noted is not None:
            self.noted.append(predicates)

    def delete_files(self) -> None:
        """Delete what its statements have written for a table that is not created after all, as far as possible;
        nothing if the log has a first commit.
        """
        try:
            if self.inner.exists(f"{self._directory}/{commit_name(0)}"):
                return
        except OSError:
            return
        contents = self._written
        adds = [file for content in contents for file in content.adds]
        names = {file.path for file in adds} | {file.path for content in contents for file in content.changes}
        paths = {absolute_path(self.table_path, name) for name in names}
        paths |= {
            absolute_location(file.deletion_vector, self.table_path)
            for file in adds
            if file.deletion_vector is not None and file.deletion_vector.storage_type != INLINE
        }
        if self.is_local:  # Hadoop puts a checksum beside each file
            paths |= {"/.".join(path.rsplit("/", 1)) + ".crc" for path in paths}
        for path in paths:
            with contextlib.suppress(OSError):
                self.inner.delete(path)
        for directory in sorted({path.rpartition("/")[0] for path in paths} | {self.table_path}, key=len, reverse=True):
            with contextlib.suppress(OSError):
                self.inner.delete_empty(directory)

    def end(self) -> None:
        """Take no more commits: what a statement in another thread does from now on is part of nothing."""
        with self._taking:
            self._ended = True

    @property
    def missing_changes(self) -> Missing | None:
        """What the change data of its statements lacks for one commit of all; None if it lacks nothing."""
        if self.is_new:
            return None
        contents = [commit.prepared.work.content for commit in self.commits]
        return net_changes.missing(contents, VectorFiles(self.table_path, self.inner).read)

    @property
    def pinned(self) -> Snapshot:
        """The version that the transaction reads, through the table's own store.

        :raises HeadwaterError: what opening the table raises.
        """
        with self._lock:
            if self._pinned is None:
                self._pinned = self._pin()
            return self._pinned

    @property
    def is_pinned(self) -> bool:
        """Whether the transaction has read the table."""
        return self._pinned is not None

    @property
    def base(self) -> int:
        """The version that the transaction reads; -1 of a table that it creates.

        :raises HeadwaterError: as :attr:`pinned`.
        """
        return -1 if self.is_new else self.pinned.version

    @property
    def newest(self) -> int:
        """The newest version within the transaction."""
        return self.base + len(self.commits)

    def _commit(self, path: str) -> int | None:
        """The version whose commit a path names."""
        directory, _, name = path.rpartition("/")
        parsed = parse_name(name) if directory == self._directory else None
        return parsed.version if isinstance(parsed, CommitName) else None

    def _held(self, path: str) -> Pending | None:
        """The pending commit of a path.

        :raises FileNotFoundError: a commit after the version that the transaction reads.
        """
        version = self._commit(path)
        if version is None or version <= self.base:
            return None
        if version > self.newest:
            raise FileNotFoundError(path)
        return self.commits[version - self.base - 1]

    def _info(self, pending: Pending) -> FileInfo:
        return FileInfo(f"{self._directory}/{commit_name(pending.version)}", len(pending.data), pending.time)

    # Reading

    def list_from(self, directory: str, start_name: str = "") -> list[FileInfo]:
        if directory != self._directory:
            return self.inner.list_from(directory, start_name)
        try:
            version = self.base
        except HeadwaterError:
            if self.commits:
                raise
            return self.inner.list_from(directory, start_name)  # no table, perhaps: who asks finds out
        listed = [] if self.is_new else self.inner.list_from(directory, start_name)
        found = [file for file in listed if last_version(file.name) <= version]
        own = [file for file in map(self._info, self.commits) if file.name >= start_name]
        return sorted([*found, *own], key=lambda file: file.name)

    def following(self, paths: Iterable[str]) -> list[FileInfo] | None:
        def own(path: str) -> FileInfo | None:
            held = self._held(path)
            if held is None and last_version(path.rpartition("/")[2]) > self.base:
                raise FileNotFoundError(path)
            return None if held is None else self._info(held)

        return self._following(paths, own)

    def read(self, path: str) -> bytes:
        held = self._held(path)
        if held is not None:
            return held.data
        if path == f"{self._directory}/{LAST_CHECKPOINT}":
            raise FileNotFoundError(path)  # it may be about a later version
        return self.inner.read(path)

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        held = self._held(path)
        return self.inner.read_range(path, offset, length) if held is None else held.data[offset : offset + length]

    def open_input(self, path: str) -> pa.NativeFile:
        held = self._held(path)
        return self.inner.open_input(path) if held is None else pa.BufferReader(held.data)

    def exists(self, path: str) -> bool:
        try:
            return self._held(path) is not None or self.inner.exists(path)
        except FileNotFoundError:
            return False

    # Writing: all but the log

    def make_directory(self, path: str) -> None:
        if path != self._directory:  # that of a new table's log shall not be there before COMMIT
            self.inner.make_directory(path)

    def _check_change(self, path: str) -> None:
        if path.startswith(f"{self._directory}/"):
            raise OSError(f"{path} is part of a log that an open transaction only reads")


class _PendingCommitter:
    """Makes a statement's commit the next pending version of its table."""

    def __init__(self, log: PendingLog, prepared: PreparedCommit) -> None:
        self._log, self._prepared = log, prepared
        # All statements of a transaction make one version.
        self.rows_version = 0 if prepared.work.snapshot is None else log.base + 1

    def commit(self, version: int, data: bytes, transaction_id: str) -> Made | Lost:
        reads = self._prepared.work.reads.key_reads
        for keys in [*self._prepared.work.claims, *([] if reads is None else [reads[0]])]:
            keys.learn()
        return Made() if self._log.take(version, data, self._prepared) else Lost(version)

    def commits_from(self, version: int) -> list[CommitFile]:
        first = self._log.base + 1
        names = (
            f"{log_directory(self._log.table_path)}/{commit_name(v)}" for v in range(version, self._log.newest + 1)
        )
        assert version >= first
        return [CommitFile(name, None) for name in names]


def check_composition(commits: Sequence[PreparedCommit]) -> None:
    """Refuse commits that cannot be one.

    :raises HeadwaterError: ``HEADWATER_NOT_IN_TRANSACTION``.
    """
    last = commits[-1].work
    content, table = last.content, last.definition.metadata.name or last.table_path
    creates_again = last.snapshot is None and len(commits) > 1
    if content.bulk is not None or content.again or content.copies or creates_again:
        raise _refused("A statement that replaces the table, or rearranges its files", table)
    if len(commits) == 1 or all(commit.work.content.is_append for commit in commits):
        return
    read = commits[0].work.snapshot
    if read is not None and last.definition.after.get(properties.CHANGE_DATA_FEED):
        contents = [commit.work.content for commit in commits]
        net_changes.check(contents, read.schema, last.definition.after.schema, table)


def _refused(statement: str, table: str) -> HeadwaterError:
    return HeadwaterError("HEADWATER_NOT_IN_TRANSACTION", {"statement": statement, "tableName": table})
