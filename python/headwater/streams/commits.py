"""Commits as a stream reads them: the files that each one adds, and its other changes.

Owns the way from a version to the versions after it, and the commits that this process keeps parsed between the look
for new data and the read of it. Promise: versions are followed without gaps; a version that is gone is an error, or
where the stream tolerates it, the first that is left comes next.
"""

from __future__ import annotations

import itertools
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa

from headwater.basics.errors import HeadwaterError
from headwater.basics.recent import Recent
from headwater.change_data.files import recorded_actions
from headwater.log.commits import ParsedActions, parse_actions
from headwater.log.files import FILE_SCHEMA, NO_FILES, table_of
from headwater.log.groups import Standing, standing, undoes
from headwater.log.segment import list_log
from headwater.log.snapshot import load_snapshot
from headwater.protocol.actions import num_records
from headwater.protocol.file_names import commit_name, log_directory
from headwater.stores import FileInfo, Store
from headwater.streams.offsets import other_table

#: How many versions are looked for at a time, and how many bytes of them are read.
_AT_ONCE = 64
_BYTES_AT_ONCE = 32 << 20
#: How many bytes of commits are read before their turn, to say how far a stream is behind.
_BYTES_AHEAD = 8 << 20
#: How many bytes of commits are kept parsed in all, and what a small one takes.
_BYTES_KEPT = 64 << 20
_SMALL_COMMIT = 40_000
#: For how many seconds a commit that was found counts as there, and of how many tables that is kept.
_SURE_SECONDS = 10.0
_MOST_TABLES = 1000


@dataclass(frozen=True)
class StreamCommit:
    """One commit. ``file`` is its file in the log."""

    version: int
    file: FileInfo
    actions: ParsedActions

    @cached_property
    def _changing(self) -> tuple[list[dict[str, Any]], str | None]:
        """The ``add`` actions that change data, in order, and the path of the first ``remove`` that does."""
        adds: list[dict[str, Any]] = []
        removed: str | None = None
        for is_add, action in self.actions.files:
            if action.get("dataChange", True):
                if is_add:
                    adds.append(action)
                elif removed is None:
                    removed = action["path"]
        return adds, removed

    @property
    def adds_data(self) -> bool:
        """Whether it adds a file that changes data."""
        return bool(self._changing[0])

    @property
    def removed(self) -> str | None:
        """The path of a file that it removes by a change of data; None if it removes no file so."""
        return self._changing[1]

    @cached_property
    def files(self) -> pa.Table:
        """The files that it adds and that change data, in the order of the log, with ``FILE_SCHEMA``."""
        adds = self._changing[0]
        return table_of(adds, FILE_SCHEMA) if adds else NO_FILES

    @cached_property
    def sizes(self) -> np.ndarray:
        """The bytes of each of :attr:`files`."""
        return np.array([action["size"] for action in self._changing[0]], np.int64)

    @cached_property
    def rows(self) -> np.ndarray:
        """The live rows of each of :attr:`files`, as its statistics say; -1 where they do not."""
        return np.array([_live_rows(action) for action in self._changing[0]], np.int64)

    @cached_property
    def change_sizes(self) -> np.ndarray:
        """The bytes of each file that holds its changes, as the change data feed reads them."""
        return np.array([action.get("size") or 0 for _, action in recorded_actions(self.actions)], np.int64)

    @property
    def weight(self) -> int:
        """About what keeping it takes, in bytes."""
        return _SMALL_COMMIT + 2 * self.file.size

    @property
    def timestamp(self) -> int:
        """When it was committed, in milliseconds since the epoch: its in-commit timestamp, or its file's time."""
        value = (self.actions.commit_info or {}).get("inCommitTimestamp")
        return value if isinstance(value, int) else self.file.modification_time

    @property
    def operation(self) -> str | None:
        """What the commit did, for messages; None if the log does not say."""
        info = self.actions.commit_info or {}
        if "operation" not in info:
            return None
        return f"{info['operation']} ({info.get('operationParameters', {})})"


def _live_rows(action: dict[str, Any]) -> int:
    written = num_records(action.get("stats"))
    return -1 if written is None else written - (action.get("deletionVector") or {}).get("cardinality", 0)


class Commits:
    """Commits of the tables that this process's streams read, parsed once for all of them. Safe for threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: OrderedDict[str, StreamCommit] = OrderedDict()
        self._weight = 0
        #: By directory of a log: the newest version that was found there, and when.
        self._found: Recent[str, tuple[int, float]] = Recent(_MOST_TABLES)

    def since(
        self, table_path: str, store: Store, table_id: str, version: int, *, tolerates_loss: bool = False
    ) -> Iterator[StreamCommit]:
        """The commits from a version on, as long as there are any.

        :param tolerates_loss: whether the stream goes on with the first version that is left.
        :raises HeadwaterError: ``DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE`` for a version that is gone,
            ``DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE`` if the table was replaced by another.
        """
        following = version
        while True:
            files = self._files(table_path, store, table_id, following, tolerates_loss=tolerates_loss)
            for some in _parts(files):
                read = self._read(table_path, store, some, following)
                yield from read
                if len(read) < len(some):
                    return
            if len(files) < _AT_ONCE:
                return
            following = files[-1][0] + 1

    def ahead(self, table_path: str, store: Store, table_id: str, version: int) -> tuple[list[StreamCommit], int]:
        """The next commits from a version on, as many as cost little to read, and the newest version that there is.

        :raises HeadwaterError: as :meth:`since`.
        """
        files = self._files(table_path, store, table_id, version, tolerates_loss=True)
        newest = files[-1][0] if files else version - 1
        if len(files) == _AT_ONCE:
            newest = max((newest, *list_log(table_path, store, newest).commits))
        sizes = itertools.accumulate(file.size for _, file in files)
        few = [file for file, size in zip(files, sizes, strict=True) if size <= _BYTES_AHEAD]
        read = self._read(table_path, store, few, version)
        return read, newest if len(read) == len(few) else version + len(read) - 1

    def _files(
        self, table_path: str, store: Store, table_id: str, version: int, *, tolerates_loss: bool
    ) -> list[tuple[int, FileInfo]]:
        """The next commit files from a version on. One that is not there yet is looked for by its name, and so is the
        one before it: while that is there, nothing is lost. Where a request costs, a stream that waits asks for that
        one only now and then.
        """
        directory = log_directory(table_path)
        first = max(version - 1, 0)
        with self._lock:
            newest, seen = self._found.get(directory, (-1, 0.0))
        is_sure = newest == version - 1 and time.monotonic() - seen < _SURE_SECONDS and not store.is_local
        if is_sure and store.following([f"{directory}/{commit_name(version)}"]) == []:
            return []
        names = (f"{directory}/{commit_name(v)}" for v in itertools.count(first))
        found = store.following(itertools.islice(names, _AT_ONCE + 1))
        if found:
            self._check_same_table(table_path, store, table_id, found[0])
            self._note_found(directory, first + len(found) - 1)
            return list(enumerate(found[version - first :], version))
        listing = list_log(table_path, store, first)
        newer = {v: file for v, file in listing.commits.items() if v >= version}
        if version in newer:
            return list(_run(newer, version))
        if not newer and (version == 0 or first in listing.commits):
            return []
        return self._after_loss(table_path, store, table_id, version, newer, tolerates_loss=tolerates_loss)

    def _note_found(self, directory: str, version: int) -> None:
        with self._lock:
            self._found[directory] = (version, time.monotonic())

    def _after_loss(
        self,
        table_path: str,
        store: Store,
        table_id: str,
        version: int,
        newer: dict[int, FileInfo],
        *,
        tolerates_loss: bool,
    ) -> list[tuple[int, FileInfo]]:
        """What follows where the commit of a version and the one before it are both gone."""
        snapshot = load_snapshot(table_path, store)
        if snapshot.metadata.id != table_id:
            raise other_table(snapshot.metadata.id, table_id)
        if snapshot.version < version:
            return []  # only a checkpoint is left of the newest version
        if tolerates_loss and newer:
            return list(_run(newer, min(newer)))
        raise log_file_gone(table_path, version, min(newer, default=snapshot.version))

    def _check_same_table(self, table_path: str, store: Store, table_id: str, tip: FileInfo) -> None:
        """Notice a table that replaced another at its path since a commit of it was read."""
        with self._lock:
            known = self._kept.get(tip.path)
        if known is not None and known.file != tip:
            snapshot = load_snapshot(table_path, store)
            if snapshot.metadata.id != table_id:
                raise other_table(snapshot.metadata.id, table_id)

    def _read(
        self, table_path: str, store: Store, files: Sequence[tuple[int, FileInfo]], first: int
    ) -> list[StreamCommit]:
        """Commits, read where they are not kept; up to the first that may yet be undone (:mod:`headwater.log.groups`).
        One that was undone has nothing in it, and neither has what undid it.

        :param first: the version that the scan began with: a long scan does not push out what it will begin with again.
        """
        with self._lock:
            known = {version: self._kept.get(file.path) for version, file in files}
        missing = [(version, file) for version, file in files if (c := known[version]) is None or c.file != file]
        contents = store.read_many([file.path for _, file in missing])
        read = {}
        for (version, file), content in zip(missing, contents, strict=True):
            stands = standing(table_path, store, version, content)
            if stands not in (Standing.STANDS, Standing.UNDONE):
                files = [(number, other) for number, other in files if number < version]
                break
            actions = parse_actions(content, file.path)
            if stands is Standing.UNDONE or undoes(actions.commit_info) is not None:
                actions = ParsedActions(file.path, commit_info=actions.commit_info)
            read[version] = StreamCommit(version, file, actions)
        found = [commit for version, _ in files if (commit := read.get(version) or known[version]) is not None]
        with self._lock:
            for commit in found:
                self._keep(commit, first)
        return found

    def _keep(self, commit: StreamCommit, first: int) -> None:
        """Keep a commit in place of those that were not used for longest. Call it under the lock."""
        path = commit.file.path
        before = self._kept.pop(path, None)
        self._weight -= before.weight if before is not None else 0
        directory = path.rpartition("/")[0]
        while self._weight + commit.weight > _BYTES_KEPT and self._kept:
            oldest = next(iter(self._kept.values()))
            if oldest.version >= first and oldest.file.path.startswith(f"{directory}/"):
                return  # of the same scan
            self._kept.popitem(last=False)
            self._weight -= oldest.weight
        self._kept[path] = commit
        self._weight += commit.weight


def _parts(files: Sequence[tuple[int, FileInfo]]) -> Iterator[list[tuple[int, FileInfo]]]:
    """Commit files in runs of so many bytes, of at least one."""
    part: list[tuple[int, FileInfo]] = []
    size = 0
    for version, file in files:
        if part and size + file.size > _BYTES_AT_ONCE:
            yield part
            part, size = [], 0
        part.append((version, file))
        size += file.size
    if part:
        yield part


def _run(commits: dict[int, FileInfo], first: int) -> Iterator[tuple[int, FileInfo]]:
    """The commits from a version up to the first that is missing."""
    for version in itertools.count(first):
        if version not in commits:
            return
        yield version, commits[version]


def log_file_gone(table_path: str, version: int, earliest: int) -> HeadwaterError:
    """The error for a version that a stream has yet to read and that the log does not have any more."""
    return HeadwaterError(
        "DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE",
        {"version": version, "earliest": earliest, "tableLocation": table_path},
    )
