"""The commits of a table as a timeline: what each added and removed, its writer, and the table's size afterwards.

Owns the summary of a commit and the growth that follows from them. Promise: a figure is what the log says, or None.
What a ``remove`` leaves out is taken from the ``add`` it removes, where that is among the commits that are read, and
from checksum files. Commits of very many files are not parsed for it; what their ``commitInfo`` says stands in, and
they are marked as estimated.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from headwater.basics.errors import HeadwaterError
from headwater.inspector.plain import json_value, short, whole
from headwater.inspector.table import InspectedTable
from headwater.log.checksums import read_checksum
from headwater.log.commits import commit_info_of
from headwater.log.files import FileKey, action_key
from headwater.log.history import CommitTimes, monotonic_times
from headwater.log.segment import LogListing
from headwater.log.snapshot import Snapshot
from headwater.protocol.actions import num_records
from headwater.stores import FileInfo, Store

#: Commits that one answer has.
PAGE = 1000
#: Bytes up to which a commit is parsed for the timeline.
_MOST_BYTES = 32 << 20
#: Bytes at the beginning of a larger one that are searched for its ``commitInfo``.
_BEGINNING = 1 << 20
#: Files whose sizes are remembered.
_MOST_FILES = 1_000_000
#: Bytes of commits that are read at a time.
_AT_ONCE = 64 << 20


@dataclass
class Amount:
    """Files with their bytes and rows; None for what is not known."""

    files: int = 0
    bytes: int | None = 0
    rows: int | None = 0

    def take(self, size: int | None, rows: int | None) -> None:
        """Count one more file."""
        self.files += 1
        self.bytes = None if self.bytes is None or size is None else self.bytes + size
        self.rows = None if self.rows is None or rows is None else self.rows + rows

    def to_json(self) -> list[int | None]:
        return [self.files, whole(self.bytes), whole(self.rows)]


@dataclass
class Summary:
    """What a commit did."""

    version: int
    commit_bytes: int
    info: Mapping[str, Any] = field(default_factory=dict)
    added: Amount = field(default_factory=Amount)
    removed: Amount = field(default_factory=Amount)
    change_files: int = 0
    applications: list[str] = field(default_factory=list)
    defines: list[str] = field(default_factory=list)
    #: What tells the schema that the commit declares from another one; None if it declares none.
    schema: int | None = None
    data_change: bool = False
    is_estimated: bool = False
    error: str | None = None


class History:
    """The summaries of a table's commits, each read once."""

    def __init__(self, table: InspectedTable) -> None:
        self._table = table
        self._lock = threading.Lock()
        self._known: dict[tuple[int, int], Summary] = {}
        #: Sizes and rows of files that commits added, for those that remove them and do not say so.
        self._files: dict[FileKey, tuple[int | None, int | None]] = {}
        #: What the table was before a version, where an answer ended with it.
        self._before: dict[int, list[int | None]] = {}

    def page(
        self, before: int | None = None, snapshot: Snapshot | None = None, rows: int | None = None
    ) -> dict[str, Any]:
        """The newest commits, or those before a version, newest first.

        :param snapshot: the newest one; None if the log is damaged.
        :param rows: of that snapshot; None if they are not known, or not yet.
        """
        listing = self._table.listing()
        newest = listing.latest if snapshot is None else snapshot.version
        last = (newest or 0) if before is None else before - 1
        versions = sorted((v for v in listing.commits if v <= last), reverse=True)
        some = versions[:PAGE]
        with self._lock:
            summaries = self._summaries(listing, some)
        times = _times(listing, summaries, snapshot, self._table.store)
        newest_size: list[int | None] | None = None
        if snapshot is not None and before is None:
            newest_size = [snapshot.num_files, snapshot.size_in_bytes, rows]
        totals = self._totals(listing, summaries, self._before.get(last + 1) if newest_size is None else newest_size)
        changed = _schema_changes(summaries)
        entries = [
            {**_entry(each, times.get(each.version), totals.get(each.version)), "schemaChanged": changed[each.version]}
            for each in reversed(summaries)
        ]
        return {"entries": entries, "more": len(versions) > len(some), "commits": len(listing.commits)}

    def _summaries(self, listing: LogListing, versions: Sequence[int]) -> list[Summary]:
        """Oldest first."""
        files = [(version, listing.commits[version]) for version in reversed(versions)]
        new = [(version, file) for version, file in files if (version, file.modification_time) not in self._known]
        if len(self._files) > _MOST_FILES:
            self._files.clear()
        for batch in _batches(new):
            small = [(v, file) for v, file in batch if file.size <= _MOST_BYTES]
            contents = self._read([file for _, file in small])
            for (version, file), content in zip(small, contents, strict=True):
                self._known[version, file.modification_time] = _summarize(version, file, content, self._files)
            for version, file in batch:
                if file.size > _MOST_BYTES:
                    self._known[version, file.modification_time] = _estimate(version, file, self._table.store)
        return [self._known[version, file.modification_time] for version, file in files]

    def _read(self, files: Sequence[FileInfo]) -> Sequence[bytes | str]:
        """The content of each file, or why there is none."""
        try:
            return self._table.store.read_many([file.path for file in files])
        except OSError:
            return [self._read_one(file) for file in files]

    def _read_one(self, file: FileInfo) -> bytes | str:
        try:
            return self._table.store.read(file.path)
        except FileNotFoundError:
            return "The commit was cleaned up while the log was read."
        except OSError as error:
            return f"The commit cannot be read: {error.strerror or error}."

    def _totals(
        self, listing: LogListing, summaries: Sequence[Summary], after: list[int | None] | None
    ) -> dict[int, list[int | None]]:
        """Files, bytes and rows of the table after each commit, from the newest back."""
        totals: dict[int, list[int | None]] = {}
        for each in reversed(summaries):
            version = each.version
            if (after is None or None in after[:2]) and version in listing.checksums:
                checksum = read_checksum(self._table.path, self._table.store, version)
                if checksum is not None:
                    after = [checksum.num_files, checksum.table_size, None if after is None else after[2]]
            if after is None:
                continue
            totals[version] = after
            if each.error is not None or each.is_estimated:
                after = None
                continue
            pairs = zip(after, each.added.to_json(), each.removed.to_json(), strict=True)
            after = [None if None in pair else pair[0] - pair[1] + pair[2] for pair in pairs]  # type: ignore[operator]
            after = [whole(value) for value in after]
        if summaries and after is not None:
            self._before[summaries[0].version] = after
        return totals


def _schema_changes(summaries: Sequence[Summary]) -> dict[int, bool | None]:
    """Whether each commit, the oldest first, declares another schema than the one before; None if that is unknown."""
    found: dict[int, bool | None] = {}
    last: int | None = None
    for each in summaries:
        if each.schema is None:
            found[each.version] = False
            continue
        found[each.version] = each.schema != last if last is not None else None if each.version > 0 else False
        last = each.schema
    return found


def _batches(files: Sequence[tuple[int, FileInfo]]) -> list[list[tuple[int, FileInfo]]]:
    batches: list[list[tuple[int, FileInfo]]] = [[]]
    size = 0
    for version, file in files:
        if batches[-1] and size + file.size > _AT_ONCE:
            batches.append([])
            size = 0
        batches[-1].append((version, file))
        size += file.size
    return batches


def _summarize(
    version: int, file: FileInfo, content: bytes | str, known: dict[FileKey, tuple[int | None, int | None]]
) -> Summary:
    summary = Summary(version, file.size)
    if isinstance(content, str):
        summary.error = content
        return summary
    if not content:
        summary.error = "The commit is empty."
    for number, line in enumerate(content.split(b"\n"), 1):
        if not line or line.isspace():
            continue
        try:
            for kind, action in orjson.loads(line).items():
                if action is not None:
                    _take(summary, kind, action, known)
        except (ValueError, KeyError, TypeError, AttributeError):
            summary.error = summary.error or f"Line {number} of the commit is damaged."
    return summary


def _take(
    summary: Summary, kind: str, action: dict[str, Any], known: dict[FileKey, tuple[int | None, int | None]]
) -> None:
    match kind:
        case "add":
            key = action_key(action)
            size, rows = whole(action.get("size")), whole(num_records(action.get("stats")))
            vector = action.get("deletionVector")
            if rows is not None and vector:
                rows = max(rows - int(vector["cardinality"]), 0)
            known[key] = size, rows
            summary.added.take(size, rows)
            summary.data_change = summary.data_change or action.get("dataChange") is True
        case "remove":
            size, rows = known.pop(action_key(action), (None, None))
            if rows is None and (rows := whole(num_records(action.get("stats")))) is not None:
                rows = max(rows - int((action.get("deletionVector") or {}).get("cardinality", 0)), 0)
            summary.removed.take(whole(action.get("size")) if size is None else size, rows)
            summary.data_change = summary.data_change or action.get("dataChange") is True
        case "commitInfo":
            summary.info = dict(action)
        case "cdc":
            summary.change_files += 1
        case "txn":
            summary.applications.append(str(action["appId"]))
        case "metaData" | "protocol" | "domainMetadata":
            summary.defines.append(kind)
            if kind == "metaData":
                summary.schema = hash(str(action.get("schemaString")))


def _estimate(version: int, file: FileInfo, store: Store) -> Summary:
    """What the provenance of a large commit says of it."""
    summary = Summary(version, file.size, is_estimated=True, data_change=True)
    try:
        summary.info = commit_info_of(store.read_range(file.path, 0, _BEGINNING)) or {}
    except OSError as error:
        summary.error = f"The commit cannot be read: {error.strerror or error}."
    metrics = summary.info.get("operationMetrics")
    found = metrics if isinstance(metrics, dict) else {}
    for amount, names in (
        (summary.added, ("numFiles", "numAddedFiles", "numTargetFilesAdded")),
        (summary.removed, ("numRemovedFiles", "numTargetFilesRemoved")),
    ):
        files = next((n for name in names if (n := whole(found.get(name))) is not None), None)
        amount.files, amount.bytes, amount.rows = files or 0, None, None
    summary.added.bytes = next(
        (n for name in ("numOutputBytes", "numAddedBytes") if (n := whole(found.get(name))) is not None), None
    )
    summary.added.rows = whole(found.get("numOutputRows"))
    return summary


def _times(
    listing: LogListing, summaries: Sequence[Summary], snapshot: Snapshot | None, store: Store
) -> dict[int, int]:
    """When each was committed, in milliseconds since the epoch."""
    files = monotonic_times(listing.commits)
    if snapshot is None:
        return files
    times = CommitTimes(listing, snapshot.metadata, store, snapshot.version)
    found = {}
    for each in summaries:
        try:
            found[each.version] = times.of(each.version, each.info)
        except (HeadwaterError, KeyError):
            found[each.version] = files[each.version]
    return found


def _entry(summary: Summary, time: int | None, total: list[int | None] | None) -> dict[str, Any]:
    info = summary.info
    return {
        "version": summary.version,
        "time": time,
        "operation": _text(info.get("operation")),
        "engine": _text(info.get("engineInfo")) or _text(info.get("clientVersion")),
        "user": _text(info.get("userName")) or _text(info.get("userId")),
        "message": None if info.get("userMetadata") is None else short(str(info["userMetadata"])),
        "isolation": _text(info.get("isolationLevel")),
        "parameters": json_value(info.get("operationParameters") or {}),
        "added": summary.added.to_json(),
        "removed": summary.removed.to_json(),
        "changeFiles": summary.change_files,
        "applications": summary.applications[:5],
        "defines": sorted(set(summary.defines)),
        "dataChange": summary.data_change,
        "estimated": summary.is_estimated,
        "error": summary.error,
        "commitBytes": summary.commit_bytes,
        "total": total,
    }


def _text(value: Any) -> str | None:
    return short(str(value)) if value not in (None, "") else None
