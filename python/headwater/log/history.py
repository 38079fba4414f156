"""History: the commits of a table with their times, and which version was current at a time (``TIMESTAMP AS OF``).

Owns the timestamps of commits and the way from a time to a version. Follows the protocol's chapters "In-Commit
Timestamps" and "Commit Provenance Information". File times can go backwards where clocks differ or a log was copied.
The times used here never do: a time that is not later than that of the commit before counts as one millisecond later.
In-commit timestamps need no such correction.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from headwater.basics.errors import HeadwaterError
from headwater.basics.times import timestamp_text
from headwater.log.commits import commit_info_of
from headwater.log.segment import LogListing, list_log
from headwater.log.snapshot import Snapshot, load_snapshot
from headwater.protocol import properties
from headwater.protocol.actions import Metadata
from headwater.protocol.features import in_commit_timestamps_enabled
from headwater.stores import FileInfo, Store

#: How many commits are read at a time, which bounds memory (bench case ``history-batch``).
_READ_AT_ONCE = 256
#: How many commits before the newest ones are listed with them: one page of an object store. A clock that went back
#: within these moves the times of the newest ones as it does in the whole history.
_LISTED_BEFORE = 1000


@dataclass(frozen=True)
class CommitEntry:
    """A commit of the history. ``timestamp`` in milliseconds since the epoch, UTC; ``commit_info`` is empty if the
    commit has none.
    """

    version: int
    timestamp: int
    commit_info: Mapping[str, Any]


def history(
    table_path: str, store: Store, limit: int | None = None, snapshot: Snapshot | None = None
) -> list[CommitEntry]:
    """The commits the log still has, newest first, at most ``limit`` of them. With a limit, only the end of the log is
    listed.

    :param snapshot: the newest snapshot if the caller has it, which saves loading it.
    :raises HeadwaterError: as :func:`~headwater.log.snapshot.load_snapshot`.
    """
    snapshot = snapshot or load_snapshot(table_path, store)
    start = 0 if limit is None else max(0, snapshot.version - limit - _LISTED_BEFORE)
    listing = list_log(table_path, store, start)
    times = CommitTimes(listing, snapshot.metadata, store, snapshot.version)
    versions = sorted((v for v in times.commits if v <= snapshot.version), reverse=True)[:limit]
    entries = []
    for start in range(0, len(versions), _READ_AT_ONCE):
        some = versions[start : start + _READ_AT_ONCE]
        contents = store.read_many([times.commits[version].path for version in some])
        for version, content in zip(some, contents, strict=True):
            info = commit_info_of(content) or {}
            entries.append(CommitEntry(version, times.of(version, info), info))
    return entries


def version_at(
    table_path: str,
    store: Store,
    timestamp_ms: int,
    *,
    snapshot: Snapshot | None = None,
    can_be_after_latest: bool = False,
    can_be_before_earliest: bool = False,
) -> int:
    """The version that was the newest at a time, in milliseconds since the epoch, UTC; a commit at that very time
    counts.

    :param can_be_after_latest: give the newest version for a time after it, rather than an error.
    :param can_be_before_earliest: give the earliest version that can be read for a time before it, rather than an
        error.
    :raises HeadwaterError: ``DELTA_TIMESTAMP_GREATER_THAN_COMMIT`` or
        ``DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION``, with the range of times there is;
        ``DELTA_MISSING_COMMIT_TIMESTAMP`` if a commit lacks the in-commit timestamp it must have.
    """
    snapshot = snapshot or load_snapshot(table_path, store)
    listing = list_log(table_path, store)
    times = CommitTimes(listing, snapshot.metadata, store, snapshot.version)
    versions = times.versions
    if not versions:  # only a checkpoint is left: its own time is all there is to go by
        return snapshot.version
    version = times.last_not_after(timestamp_ms)
    if version is None:
        if can_be_before_earliest:
            return versions[0]
        raise HeadwaterError("DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION", times.range_for(timestamp_ms))
    if version == versions[-1] and timestamp_ms > times.of(version) and not can_be_after_latest:
        raise HeadwaterError("DELTA_TIMESTAMP_GREATER_THAN_COMMIT", times.range_for(timestamp_ms))
    return version


def last_version_at(listing: LogListing, snapshot: Snapshot, timestamp_ms: int) -> int | None:
    """The newest version the listing has a commit of that is not after a time; None if all are after it.

    :raises HeadwaterError: ``DELTA_MISSING_COMMIT_TIMESTAMP``.
    """
    return CommitTimes(listing, snapshot.metadata, snapshot.store, snapshot.version).last_not_after(timestamp_ms)


def format_timestamp(milliseconds: int) -> str:
    """A time for messages, UTC: ``2024-05-01 12:00:00.000``."""
    return f"{timestamp_text(milliseconds * 1000, digits=3)} UTC"


def monotonic_times(commits: Mapping[int, FileInfo]) -> dict[int, int]:
    """The file time of each commit in milliseconds, moved forward where it is not after the one before it."""
    times: dict[int, int] = {}
    previous: int | None = None
    for version in sorted(commits):
        time = commits[version].modification_time
        previous = time if previous is None else max(time, previous + 1)
        times[version] = previous
    return times


class CommitTimes:
    """The timestamp of each commit: in-commit from the version the table has them, file times before.

    ``commits`` are those of ``listing`` up to ``newest``; ``metadata`` is that of ``newest``.
    """

    def __init__(self, listing: LogListing, metadata: Metadata, store: Store, newest: int) -> None:
        self.commits = {v: file for v, file in listing.commits.items() if v <= newest}
        self._earliest = listing.earliest
        self._store = store
        self._known: dict[int, int] = {}
        self.in_commit_since = self._first_in_commit(metadata, newest)
        self._file_times = monotonic_times({v: f for v, f in self.commits.items() if v < self.in_commit_since})

    def _first_in_commit(self, metadata: Metadata, newest: int) -> int:
        """The first version with an in-commit timestamp. Some writers lose what says so when they replace a table; then
        the commits show it.
        """
        if not in_commit_timestamps_enabled(metadata):
            return newest + 1
        since = properties.IN_COMMIT_TIMESTAMPS_SINCE.version.text(metadata.configuration)
        if since is not None:
            return int(since) if since.isdecimal() else 0
        versions = self.versions
        if not versions or self._in_commit(versions[0]) is not None:
            return 0
        found = bisect_left(versions, True, key=lambda version: self._in_commit(version) is not None)
        # One without it among the last ones is a damaged log.
        return versions[found] if found < len(versions) else 0

    def _in_commit(self, version: int) -> int | None:
        """The in-commit timestamp of a version; None if its commit has none."""
        if version not in self._known:
            info = commit_info_of(self._store.read(self.commits[version].path)) or {}
            self._remember(version, info)
        return self._known.get(version)

    def _remember(self, version: int, commit_info: Mapping[str, Any]) -> None:
        value = commit_info.get("inCommitTimestamp")
        if isinstance(value, int):
            self._known[version] = value

    def of(self, version: int, commit_info: Mapping[str, Any] | None = None) -> int:
        """The version's timestamp, in milliseconds; ``commit_info`` saves reading the commit.

        :raises HeadwaterError: ``DELTA_MISSING_COMMIT_TIMESTAMP``.
        """
        if version < self.in_commit_since:
            return self._file_times[version]
        if commit_info is not None:
            self._remember(version, commit_info)
        found = self._in_commit(version)
        if found is None:
            raise HeadwaterError("DELTA_MISSING_COMMIT_TIMESTAMP", {"version": version})
        return found

    @cached_property
    def versions(self) -> list[int]:
        """The versions with a commit that can be rebuilt, ascending."""
        first = self._earliest or 0
        return [version for version in sorted(self.commits) if version >= first]

    def last_not_after(self, timestamp: int) -> int | None:
        """The last version not after a time in milliseconds, None if all are; a few commits are read, not all.

        With in-commit timestamps switched on late, times of the versions before and after need not be in one order: the
        later part decides if the time is not before its first commit, as the protocol recommends.
        """
        versions = self.versions
        split = next((i for i, v in enumerate(versions) if v >= self.in_commit_since), len(versions))
        in_late_part = split < len(versions) and timestamp >= self.of(versions[split])
        low, high = (split, len(versions)) if in_late_part else (0, split)
        while low < high:  # the first index in the part that is after the time
            middle = (low + high) // 2
            if self.of(versions[middle]) <= timestamp:
                low = middle + 1
            else:
                high = middle
        return versions[low - 1] if low > 0 else None

    def range_for(self, timestamp: int) -> dict[str, object]:
        """What an error about a time says of the times there are; there must be a version."""
        first, last = self.versions[0], self.versions[-1]
        return {
            "providedTimestamp": format_timestamp(timestamp),
            "earliestVersion": first,
            "earliestTimestamp": format_timestamp(self.of(first)),
            "latestVersion": last,
            "latestTimestamp": format_timestamp(self.of(last)),
        }
