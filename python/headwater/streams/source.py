"""A stream that reads a table: the end offset of the next micro-batch, and the files between two offsets.

Owns the walk over a table's history as a stream sees it: all files of one version, the initial snapshot, then what each
later commit adds. Promises: the files between two offsets are the same whenever they are asked for; each file that a
commit adds is between exactly one pair of offsets; a commit that a stream must not skip ends it with an error. Without
Spark, and without state: what is kept between calls only saves work.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from headwater.basics.errors import HeadwaterError, illegal_option
from headwater.change_data.bounds import VersionRange
from headwater.change_data.feed import require_recorded
from headwater.change_data.files import INSERT, ChangedFile, changed_files
from headwater.change_data.schemas import VersionedDefinition
from headwater.log.files import FILE_SCHEMA
from headwater.log.snapshot import Snapshot, snapshot_of_files
from headwater.protocol.actions import DeletionVector
from headwater.protocol.features import check_readable
from headwater.pruning import prune_all
from headwater.pruning.predicates import Predicate
from headwater.stores import Store
from headwater.streams.commits import Commits, StreamCommit
from headwater.streams.compatibility import Rules, check_change
from headwater.streams.event_time import condition
from headwater.streams.initial import LISTED, InitialFiles, InitialSnapshots
from headwater.streams.limits import Limits
from headwater.streams.offsets import AFTER_DEFINITION_CHANGE, BASE, DEFINITION_CHANGE, Offset, other_table
from headwater.streams.schema_log import differs

#: Opens a version of the table.
Opener = Callable[[int], Snapshot]


@dataclass(frozen=True)
class Reading:
    """How a stream reads: what its options and its session's settings say.

    :param ignores_deletes: pass over commits that only remove data.
    :param ignores_changes: read what a commit adds although it also removes data.
    :param skips_changes: pass over commits that remove data, with what they add.
    :param tolerates_loss: go on with what is left where versions are gone that were not read yet.
    :param whole_commits: take a commit whole or leave it to the next micro-batch.
    :param excludes: files whose path has a match are not read.
    :param told_where_to_start: whether an option says so.
    :param reads_changes: read the change data feed: what commits insert, delete and update. A commit is taken whole.
    :param event_time: the column in whose order the initial snapshot is read; None if it is read file by file.
    """

    ignores_deletes: bool = False
    ignores_changes: bool = False
    skips_changes: bool = False
    tolerates_loss: bool = False
    whole_commits: bool = False
    excludes: re.Pattern[str] | None = None
    told_where_to_start: bool = False
    reads_changes: bool = False
    event_time: str | None = None
    rules: Rules = field(default_factory=Rules)


class StreamFiles(NamedTuple):
    """Files of a micro-batch. ``files`` has the columns of a snapshot's files that a scan needs, and ``definition`` no
    files, but what these are read with.
    """

    definition: Snapshot
    files: pa.Table


class StreamChanges(NamedTuple):
    """The files that hold the changes of a micro-batch, and how to read them. ``timestamps`` in milliseconds since the
    epoch, UTC, by version.
    """

    definition: VersionedDefinition
    files: list[ChangedFile]
    timestamps: dict[int, int]


@dataclass(frozen=True)
class End:
    """Where a micro-batch ends.

    :param size: the bytes of its files, before filters.
    :param files: how many files it has, before filters.
    :param is_all: whether it ends with the last that there is.
    """

    offset: Offset
    files: int = 0
    size: int = 0
    is_all: bool = True


class Outstanding(NamedTuple):
    """What a stream has yet to read, before filters.

    :param versions: how many versions, of which the first may be read in part.
    :param files: how many files are known to be left of them, and ``size`` their bytes.
    :param rows: the rows of these files; None if a file does not say how many it has, or to count them is too much.
    """

    versions: int = 0
    files: int = 0
    size: int = 0
    rows: int | None = 0

    def with_files(self, sizes: np.ndarray, rows: np.ndarray | None) -> Outstanding:
        """The same and more files; a negative number of rows is not known."""
        known = self.rows is not None and rows is not None and not np.any(rows < 0)
        return self._replace(
            files=self.files + len(sizes),
            size=self.size + int(sizes.sum()),
            rows=(self.rows or 0) + int(np.sum(rows)) if known and rows is not None else None,
        )


def _inserted(version: int, row: Mapping[str, Any], number: int) -> ChangedFile:
    vector = row["deletion_vector"]
    return ChangedFile(
        version,
        row["path"],
        row["size"],
        dict(row["partition_values"]),
        INSERT,
        row["modification_time"],
        without=None if vector is None else DeletionVector(**vector),
        number=number,
    )


def _pruned_rows(files: InitialFiles, first: int, last: int, predicates: Sequence[Predicate]) -> pa.Table:
    rows = files.places(first, last)
    if predicates:
        rows = rows.filter(prune_all(files.snapshot, predicates).take(rows))
    return files.listed.take(rows)


def _counted(files: InitialFiles) -> np.ndarray | None:
    """The rows of each file; None if they cannot be read any more, as of a checkpoint that is gone."""
    try:
        return files.rows
    except (HeadwaterError, OSError):
        return None


class TableStream:
    """One stream over one table.

    :param definition: what it reads with: the definition of the version that it found at its start, or that of its
        schema log.
    :param open_version: opens a version of the table.
    """

    def __init__(
        self,
        table_path: str,
        store: Store,
        definition: VersionedDefinition,
        reading: Reading,
        open_version: Opener,
        commits: Commits,
        initial: InitialSnapshots,
        *,
        tracks: bool = False,
    ) -> None:
        """:param tracks: whether the stream has a schema log: it stops at each commit that changes the definition."""
        self._path = table_path
        self._store = store
        self._definition = definition
        self._reading = reading
        self._open = open_version
        self._commits = commits
        self._initial = initial
        self._tracks = tracks

    @property
    def table_id(self) -> str:
        return self._definition.metadata.id

    def _in_commit(self, version: int, index: int = BASE) -> Offset:
        """An offset among what a commit adds; by default the one before all of it."""
        return Offset(self.table_id, version, index, is_initial=False)

    def begin(self, version: int | None) -> Offset:
        """The offset before everything: of the commit of a version, or of the whole version that the stream found at
        its start.
        """
        first = self._definition.version if version is None else version
        return Offset(self.table_id, first, BASE, is_initial=version is None)

    def end(
        self, start: Offset, limits: Limits, until: Offset | None = None, *, looks_ahead: bool = False
    ) -> End | None:
        """Where a micro-batch after ``start`` ends; None if there is nothing after it.

        :param until: what it does not go beyond.
        :param looks_ahead: whether the answer is only what later micro-batches do not go beyond.
        :raises HeadwaterError: those of reading commits, and of one that the stream cannot read on after.
        """
        self._check_order(start)
        found: End | None = None
        version, index = start.position
        if self._tracks and index == DEFINITION_CHANGE:
            # Spark says that a micro-batch is done once there is another offset.
            return End(replace(start, index=AFTER_DEFINITION_CHANGE), is_all=False)
        if self._tracks and index == AFTER_DEFINITION_CHANGE and self.change_at(version) is not None:
            return None
        if until is not None and until.position <= start.position:
            return None
        if start.is_initial:
            found = self._end_in_initial(start, limits, until)
            # The condition on rows in the order of event time is not one on those of commits.
            if found.offset.is_initial or (start.event_time is not None and not looks_ahead):
                return found if found.offset != start else None
            version, index = found.offset.position
        for commit in self._commits_from(version):
            if until is not None and (commit.version, BASE) >= until.position:
                break
            skipped = self._check(commit)
            sizes = commit.change_sizes if self._reading.reads_changes else commit.sizes
            if skipped:
                sizes = sizes[:0]
            first = max(index + 1, 0) if commit.version == version else 0
            last = len(sizes) if until is None or commit.version < until.version else min(until.index + 1, len(sizes))
            rest = sizes[first:last]
            before = found or End(start)
            if self._stops_at(commit) and (commit.version, DEFINITION_CHANGE) > start.position:
                return replace(before, offset=self._in_commit(commit.version, DEFINITION_CHANGE), is_all=False)
            taken = limits.take_whole(rest) if self._takes_whole_commits else limits.take(rest)
            done = first + taken
            if done == len(sizes):
                offset = self._in_commit(commit.version + 1)
            else:
                offset = self._in_commit(commit.version, done - 1 if done else BASE)
            if offset.position > start.position:
                size = before.size + int(rest[:taken].sum())
                found = End(offset, before.files + taken, size, is_all=taken == len(rest))
            if done < len(sizes):
                break
        return found

    def outstanding(self, after: Offset, until: Offset | None = None) -> Outstanding:
        """What is left after an offset. It asks the store for little and fails for nothing: of many versions, it counts
        the files of the next ones.

        :param until: what the stream does not go beyond.
        """
        found = Outstanding()
        version, index = after.position
        if after.is_initial:
            files = self._initial_files(version)
            first, last = max(index + 1, 0), self._last_initial(files, version, until)
            if after.event_time is not None:
                times = files.event_times(after.event_column or "")
                found = found.with_files(times.from_on(after.event_time), None)
            else:
                rows = _counted(files)
                found = found.with_files(files.sizes[first:last], None if rows is None else rows[first:last])
            version, index = version + 1, BASE
        newest = version - 1
        if until is None or (not until.is_initial and (version, BASE) < until.position):
            try:
                commits, newest = self._commits.ahead(self._path, self._store, self.table_id, version)
            except HeadwaterError:
                commits = []  # the stream fails where it comes to it
            for commit in commits:
                if until is not None and (commit.version, BASE) >= until.position:
                    break
                if self._skips(commit):
                    continue
                changes = self._reading.reads_changes
                sizes = commit.change_sizes if changes else commit.sizes
                first = max(index + 1, 0) if commit.version == version else 0
                last = until.index + 1 if until is not None and commit.version == until.version else len(sizes)
                found = found.with_files(sizes[first:last], None if changes else commit.rows[first:last])
        if until is not None and not until.is_initial:
            newest = min(newest, until.version if until.index >= 0 else until.version - 1)
        return found._replace(versions=newest - after.version + 1)

    @staticmethod
    def _last_initial(files: InitialFiles, version: int, until: Offset | None) -> int:
        """Before which of an initial snapshot's files a stream ends."""
        if until is not None and until.is_initial and until.version == version:
            return min(len(files), until.index + 1)
        return len(files)

    def _end_in_initial(self, start: Offset, limits: Limits, until: Offset | None) -> End:
        files = self._initial_files(start.version)
        if self._reading.event_time is not None:
            return self._end_by_event_time(files, self._reading.event_time, start, limits)
        first = max(start.index + 1, 0)
        sizes = files.sizes[first : self._last_initial(files, start.version, until)]
        taken = limits.take(sizes)
        done = first + taken
        if done == len(files):
            offset = self._in_commit(start.version + 1)
        else:
            offset = replace(start, index=done - 1) if done else start
        return End(offset, taken, int(sizes[:taken].sum()), is_all=taken == len(sizes))

    def _end_by_event_time(self, files: InitialFiles, column: str, start: Offset, limits: Limits) -> End:
        taken = files.event_times(column).take(start.event_time, *limits.room)
        if taken.end is not None:
            offset = replace(start, event_time=taken.end, event_column=column)
            return End(offset, taken.files, taken.size, is_all=False)
        limits.take(files.sizes)
        return End(self._in_commit(start.version + 1), taken.files, taken.size)

    def condition(self, start: Offset | None, end: Offset) -> str | None:
        """Which rows of the files between two offsets are of the micro-batch, as SQL; None if all are."""
        self._check_order(*(offset for offset in (start, end) if offset is not None))
        first = None if start is None else start.event_time
        column = end.event_column or (None if start is None else start.event_column)
        return None if column is None else condition(column, first, end.event_time)

    def _check_order(self, *offsets: Offset) -> None:
        """That the order of an initial snapshot is the one that it was begun in.

        :raises HeadwaterError: ``DELTA_ILLEGAL_OPTION``.
        """
        column = self._reading.event_time
        for offset in offsets:
            if offset.is_initial and (
                offset.event_column != column
                if offset.event_time is not None
                else offset.index >= 0 and column is not None
            ):
                given = "false" if column is None else f"true, with a watermark on {column}"
                began = "false" if offset.event_column is None else f"true, with a watermark on {offset.event_column}"
                explain = (
                    f"must be as it was when the stream began ({began}), until the rows that the table had then are "
                    "read. Set it back, or start with a new checkpoint location"
                )
                raise illegal_option("withEventTimeOrder", given, explain)

    def files(
        self, start: Offset | None, end: Offset, told_version: int | None = None, predicates: Sequence[Predicate] = ()
    ) -> StreamFiles:
        """The files between two offsets that may hold a row for which all predicates are true.

        :param start: None for the first micro-batch; it begins at ``told_version``, or with the initial snapshot.
        """
        self._check_order(*(offset for offset in (start, end) if offset is not None))
        if start is None:
            start = self._first_start(end, told_version)
        tables: list[pa.Table] = []
        version, index = start.position
        if start.is_initial:
            files = self._initial_files(version)
            within = end.is_initial and end.version == version
            # By event time, the condition on the rows leaves files out.
            last = end.index + 1 if within and end.event_time is None else len(files)
            tables.append(_pruned_rows(files, max(index + 1, 0), last, predicates))
            if within:
                return self._found(tables)
            version, index = version + 1, BASE
        if (version, index) < end.position:
            tables.append(self._committed(version, index, end, predicates))
        return self._found(tables)

    def _committed(self, version: int, index: int, end: Offset, predicates: Sequence[Predicate]) -> pa.Table:
        """What the commits after a position add, up to an offset."""
        tables = [FILE_SCHEMA.empty_table()]
        for commit in self._planned(version, end):
            if self._check(commit):
                continue
            first = max(index + 1, 0) if commit.version == version else 0
            last = end.index + 1 if commit.version == end.version else len(commit.sizes)
            tables.append(commit.files.slice(first, max(last - first, 0)))
        table = pa.concat_tables(tables)
        if predicates:
            table = table.filter(prune_all(self._alone(table), predicates))
        return table.select(LISTED)

    def changes(self, start: Offset | None, end: Offset, told_version: int | None = None) -> StreamChanges:
        """The changes between two offsets. The rows of the initial snapshot are inserts of its version.

        :param start: as of :meth:`files`.
        :raises HeadwaterError: ``DELTA_MISSING_CHANGE_DATA`` if they were not recorded.
        """
        found: list[ChangedFile] = []
        times: dict[int, int] = {}
        if start is None:
            start = self._first_start(end, told_version)
            if not start.is_initial:
                self._require_recorded_at(start.version)
        version, index = start.position
        if start.is_initial:
            files = self._initial_files(version)
            within = end.is_initial and end.version == version
            self._require_recorded_at(version)
            first = max(index + 1, 0)
            rows = _pruned_rows(files, first, end.index + 1 if within else len(files), ())
            found += [_inserted(version, row, number) for number, row in enumerate(rows.to_pylist(), first)]
            times[version] = files.snapshot.timestamp
            version, index = version + 1, BASE
        goes_on = (version, index) < end.position and not (end.is_initial and start.is_initial)
        for commit in self._planned(version, end) if goes_on else ():
            if self._check(commit):
                continue
            first = max(index + 1, 0) if commit.version == version else 0
            last = end.index + 1 if commit.version == end.version else None
            found += changed_files(commit.version, commit.actions, self._path, self._store, first, last)
            previous = max(times.values(), default=0)
            times[commit.version] = max(commit.timestamp, previous + 1)
        if self._reading.excludes is not None:
            found = [file for file in found if self._reading.excludes.search(file.path) is None]
        return StreamChanges(self._definition, found, times)

    def _require_recorded_at(self, version: int) -> None:
        snapshot = self._open(version)
        require_recorded(VersionedDefinition.of(snapshot), VersionRange(version, version))

    def _first_start(self, end: Offset, told_version: int | None) -> Offset:
        """Where the first micro-batch began, by its end. After a restart, a stream cannot know which version it found
        at its first start; the one before the end has the same rows, and indexes of the end count from it.
        """
        if told_version is not None:
            return self._in_commit(told_version)
        version = end.version if end.is_initial else min(self._definition.version, end.version - 1)
        return Offset(self.table_id, max(version, 0), BASE, is_initial=True)

    def _found(self, tables: Sequence[pa.Table]) -> StreamFiles:
        table = pa.concat_tables([FILE_SCHEMA.empty_table().select(LISTED), *tables])
        if self._reading.excludes is not None:
            kept = [self._reading.excludes.search(path) is None for path in table["path"].to_pylist()]
            table = table.filter(pa.array(kept, pa.bool_()))
        return StreamFiles(self._alone(FILE_SCHEMA.empty_table()), table)

    def _alone(self, files: pa.Table) -> Snapshot:
        """Files as a snapshot of what the stream reads with."""
        reading = self._definition
        return snapshot_of_files(self._path, self._store, reading.version, reading, files)

    def _initial_files(self, version: int) -> InitialFiles:
        known = self._initial.known(self._path, self.table_id, version)
        if known is not None:
            return known
        snapshot = self._open(version)
        if snapshot.metadata.id != self.table_id:
            raise other_table(snapshot.metadata.id, self.table_id)
        return self._initial.of(snapshot)

    def _planned(self, version: int, end: Offset) -> Iterator[StreamCommit]:
        """The commits from a version up to an offset that was planned: all of them must still be there."""
        last = end.version if end.index >= 0 else end.version - 1
        seen = version - 1
        for commit in self._commits_from(version):
            if commit.version > last:
                break
            seen = commit.version
            yield commit
        if seen < last and not self._reading.tolerates_loss:
            raise HeadwaterError(
                "DELTA_STREAMING_TRAILING_COMMIT_MISSING",
                {"expectedVersion": last, "seenVersion": seen, "tableLocation": self._path},
            )

    @property
    def _takes_whole_commits(self) -> bool:
        return self._reading.whole_commits or self._reading.reads_changes

    def _commits_from(self, version: int) -> Iterator[StreamCommit]:
        return self._commits.since(
            self._path, self._store, self.table_id, version, tolerates_loss=self._reading.tolerates_loss
        )

    def change_at(self, version: int) -> VersionedDefinition | None:
        """The definition that a commit sets and the stream does not read with yet; None if it sets none."""
        commit = next(self._commits_from(version), None)
        if commit is None or commit.version != version or not self._stops_at(commit):
            return None
        reading, actions = self._definition, commit.actions
        return VersionedDefinition(actions.protocol or reading.protocol, actions.metadata or reading.metadata, version)

    def _stops_at(self, commit: StreamCommit) -> bool:
        """Whether the stream ends before a commit's files, so that the next start reads them with what it sets."""
        if not self._tracks or commit.version <= self._definition.version:
            return False
        return differs(self._definition, commit.actions.metadata, commit.actions.protocol)

    def _check(self, commit: StreamCommit) -> bool:
        """Whether the stream passes over a commit.

        :raises HeadwaterError: ``DELTA_SOURCE_TABLE_IGNORE_CHANGES``, ``DELTA_SOURCE_IGNORE_DELETE``,
            ``DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE``; those of :func:`check_change` and of a protocol that
            cannot be read.
        """
        reading, actions = self._reading, commit.actions
        if actions.protocol is not None:
            check_readable(actions.protocol, self._path, by_catalog=self._store.of_catalog)
        if actions.metadata is not None:
            if actions.metadata.id != self.table_id:
                raise other_table(actions.metadata.id, self.table_id)
            if not self._tracks:
                check_change(
                    self._definition,
                    actions.metadata,
                    commit.version,
                    reading.rules,
                    starting_options=reading.told_where_to_start,
                )
            if reading.reads_changes:
                changed = VersionedDefinition(
                    actions.protocol or self._definition.protocol, actions.metadata, commit.version
                )
                require_recorded(changed, VersionRange(commit.version, commit.version))
        if reading.reads_changes or commit.removed is None:
            return False
        if commit.adds_data and not (reading.ignores_changes or reading.skips_changes):
            raise HeadwaterError(
                "DELTA_SOURCE_TABLE_IGNORE_CHANGES",
                {
                    "changeInfo": commit.operation or commit.removed,
                    "version": commit.version,
                    "dataPath": self._path,
                },
            )
        if not commit.adds_data and not (reading.ignores_deletes or reading.ignores_changes or reading.skips_changes):
            raise HeadwaterError(
                "DELTA_SOURCE_IGNORE_DELETE",
                {"removedFile": commit.removed, "version": commit.version, "dataPath": self._path},
            )
        return self._skips(commit)

    def _skips(self, commit: StreamCommit) -> bool:
        reading = self._reading
        return reading.skips_changes and not reading.reads_changes and commit.removed is not None
