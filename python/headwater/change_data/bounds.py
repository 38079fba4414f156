"""The bounds of a range of changes: versions or times become a first and a last version.

Promise: a range is never silently changed, with one exception: an end after the newest version means the newest
version.
"""

from __future__ import annotations

from dataclasses import dataclass

from headwater.basics.errors import HeadwaterError
from headwater.log.history import CommitTimes


@dataclass(frozen=True)
class Bound:
    """One end of a range: a version, or a time in microseconds since the epoch, UTC."""

    version: int | None = None
    timestamp: int | None = None
    inclusive: bool = True


@dataclass(frozen=True)
class VersionRange:
    """The versions ``first`` to ``last``, both included."""

    first: int
    last: int

    def all(self) -> range:
        return range(self.first, self.last + 1)


def resolve(
    start: Bound, end: Bound | None, times: CommitTimes, latest: int, *, may_be_after_latest: bool = False
) -> VersionRange | None:
    """The versions between two bounds, up to the newest if there is no end; None if the range has no versions.

    :param latest: the newest version of the table.
    :param may_be_after_latest: if True, a range that begins after the newest version is empty, and an end at a time
        after it means the newest version; otherwise both are errors.
    :raises HeadwaterError: ``DELTA_CDC_START_VERSION_AFTER_LATEST``, ``DELTA_INVALID_CDC_RANGE``,
        ``DELTA_TIMESTAMP_GREATER_THAN_COMMIT``, ``DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION``, and
        ``DELTA_VERSION_NOT_FOUND`` for a version whose commit the log no longer has.
    """
    first = _first(start, times, latest, may_be_after_latest)
    last = latest if end is None else _last(end, times, latest, may_be_after_latest)
    if first is None:
        return None
    if first > last:
        if _is_gap_between_commits(start, end) or _is_one_version_left_out(start, end):
            return None
        if first > latest and end is None:
            return None  # the newest version was left out as a start
        raise HeadwaterError("DELTA_INVALID_CDC_RANGE", {"start": first, "end": last})
    readable = set(times.versions)
    missing = next((version for version in range(first, last + 1) if version not in readable), None)
    if missing is not None:
        earliest = min(readable, default=latest)
        raise HeadwaterError(
            "DELTA_VERSION_NOT_FOUND", {"userVersion": missing, "earliest": earliest, "latest": latest}
        )
    return VersionRange(first, last)


def _first(start: Bound, times: CommitTimes, latest: int, may_be_after_latest: bool) -> int | None:
    if start.version is not None:
        if start.version > latest:
            if may_be_after_latest:
                return None
            raise HeadwaterError("DELTA_CDC_START_VERSION_AFTER_LATEST", {"start": start.version, "latest": latest})
        return start.version if start.inclusive else start.version + 1
    assert start.timestamp is not None
    # The first commit whose time, in milliseconds, is not before the bound, in microseconds; or is after it.
    before = -(-start.timestamp // 1000) - 1 if start.inclusive else start.timestamp // 1000
    version = times.last_not_after(before)
    if version is None:
        return times.versions[0] if times.versions else latest
    if version < times.versions[-1]:
        return version + 1
    if may_be_after_latest:
        return None
    raise HeadwaterError("DELTA_TIMESTAMP_GREATER_THAN_COMMIT", times.range_for(start.timestamp // 1000))


def _last(end: Bound, times: CommitTimes, latest: int, may_be_after_latest: bool) -> int:
    if end.version is not None:
        return min(end.version if end.inclusive else end.version - 1, latest)
    assert end.timestamp is not None
    until = end.timestamp // 1000 if end.inclusive else -(-end.timestamp // 1000) - 1
    version = times.last_not_after(until)
    if not times.versions:
        return latest
    if version is None:
        raise HeadwaterError("DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION", times.range_for(end.timestamp // 1000))
    if version == times.versions[-1] and until > times.of(version) and not may_be_after_latest:
        raise HeadwaterError("DELTA_TIMESTAMP_GREATER_THAN_COMMIT", times.range_for(end.timestamp // 1000))
    return version


def _is_gap_between_commits(start: Bound, end: Bound | None) -> bool:
    """Whether two times are in order: then a range without a version means that nothing was committed in it."""
    if end is None or start.timestamp is None or end.timestamp is None:
        return False
    return start.timestamp <= end.timestamp


def _is_one_version_left_out(start: Bound, end: Bound | None) -> bool:
    """Whether two versions are in order: then the range is empty only because its exclusive bounds leave nothing."""
    if end is None or start.version is None or end.version is None:
        return False
    return start.version <= end.version and not (start.inclusive and end.inclusive)
