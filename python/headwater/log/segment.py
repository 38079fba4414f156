"""Log segments: which files of the log make up one version of a table.

Owns the listing of ``_delta_log`` and the choice of checkpoint, commits and compaction files to read. Follows the
protocol's chapters "Checkpoints", "Log Compaction Files" and "Last Checkpoint File". ``_last_checkpoint`` is only
a hint where to begin the listing: if it is damaged or wrong, the whole directory is listed. A segment
that cannot be built is an error that names the files or versions that are missing.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import orjson

from headwater.basics import clock
from headwater.basics.errors import HeadwaterError
from headwater.basics.warn_once import warn_once
from headwater.log.checkpoint_reading import CheckpointFiles, UnreadableCheckpoint, read_checkpoint
from headwater.log.commits import parse_actions
from headwater.protocol.file_names import (
    LAST_CHECKPOINT,
    CheckpointName,
    ChecksumName,
    CommitName,
    CompactionName,
    checksum_name,
    commit_name,
    log_directory,
    parse_name,
    version_prefix,
)
from headwater.stores import FileInfo, Store

#: More new commits than this are listed, so that a checkpoint among them is found. To look up single names is no slower
#: before that (bench case ``commits-by-name``).
MOST_FOLLOWED = 200
#: No cleanup takes a commit younger than this, in milliseconds.
_OLD = 24 * 3600 * 1000
#: What a listing that was overtaken by writers may look like, and how often it is made before that is believed.
_MISSING = frozenset({"DELTA_VERSIONS_NOT_CONTIGUOUS", "DELTA_TRUNCATED_TRANSACTION_LOG", "DELTA_MISSING_PART_FILES"})
_LISTINGS = 4
#: Bytes of a commit that are read for the table's definition, before all of it is. Chosen, not measured.
_HEAD = 256 << 10


@dataclass(frozen=True)
class CommitRange:
    """A file with the actions of the commits ``first`` to ``last``: a commit (both the same) or a compaction."""

    first: int
    last: int
    file: FileInfo


@dataclass(frozen=True)
class LastCheckpoint:
    """The content of ``_last_checkpoint`` that a reader uses."""

    version: int
    size: int | None = None
    parts: int | None = None


@dataclass(frozen=True)
class LogListing:
    """The files of a log directory, sorted into kinds; ``start`` is the version the listing began from."""

    table_path: str
    start: int
    commits: Mapping[int, FileInfo]
    compactions: tuple[CommitRange, ...]
    checkpoints: tuple[CheckpointFiles, ...]  #: complete ones, newest first
    incomplete: Mapping[int, tuple[str, ...]]  #: by checkpoint version, the missing parts as "2 of 3"
    checksums: frozenset[int] = frozenset()  #: the versions that have one

    @cached_property
    def latest(self) -> int | None:
        """The newest version there is a commit or a complete checkpoint of; None if the log has neither of these."""
        versions = [*self.commits, *(c.version for c in self.checkpoints)]
        return max(versions, default=None)

    @cached_property
    def earliest(self) -> int | None:
        """The oldest version that can be rebuilt, given that the listing began from version 0."""
        versions = [c.version for c in self.checkpoints]
        return 0 if 0 in self.commits else min(versions, default=None)


@dataclass(frozen=True)
class LogSegment:
    """The files that rebuild one version.

    Invariants:

    1. ``checkpoint`` is complete and not newer than ``version``; None only where ``ranges`` begin with version 0.
    2. ``ranges`` are in ascending order, without gap or overlap: the first begins right after the checkpoint.
    3. The last range ends with ``version``, or there is none and the checkpoint is of ``version``.
    """

    table_path: str
    version: int
    checkpoint: CheckpointFiles | None
    ranges: tuple[CommitRange, ...]
    listing: LogListing = field(repr=False, compare=False)

    @property
    def tip(self) -> FileInfo:
        """The file that distinguishes this version from one of another table at the same path."""
        commit = self.listing.commits.get(self.version)
        if commit is not None:
            return commit
        if self.checkpoint is not None and self.checkpoint.version == self.version:
            return self.checkpoint.files[0]
        return self.ranges[-1].file


def read_last_checkpoint(table_path: str, store: Store) -> LastCheckpoint | None:
    """The hint of the newest checkpoint; None if it is missing or damaged, which is logged once a table."""
    path = f"{log_directory(table_path)}/{LAST_CHECKPOINT}"
    try:
        content = orjson.loads(store.read(path))
        version, size, parts = content["version"], content.get("size"), content.get("parts")
        if not isinstance(version, int) or version < 0:
            raise ValueError("version is not a number of a commit")
        return LastCheckpoint(version, size, parts)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        warn_once(path, f"{path} is damaged and ignored ({error}); the log is listed from its beginning instead")
        return None


def list_log(table_path: str, store: Store, start: int = 0) -> LogListing:
    """The log's files of version ``start`` and after, without checkpoints that another table has left.

    :raises HeadwaterError: ``DELTA_TABLE_NOT_FOUND`` if the table has no log directory.
    """
    try:
        files = store.list_from(log_directory(table_path), version_prefix(start))
    except (FileNotFoundError, NotADirectoryError):
        raise HeadwaterError("DELTA_TABLE_NOT_FOUND", {"tableName": table_path}) from None
    return _of_one_table(sort_files(table_path, files, start), store)


def _of_one_table(listing: LogListing, store: Store) -> LogListing:
    """The listing without checkpoints after the newest commit that are of another table than the commits.

    A table that was here before may have left such a checkpoint. But it may also be this table's newest version, if the
    commits before it were cleaned up and older ones were not. So the table's id decides. A checkpoint that cannot be
    read is kept: an old version must not pass for the newest one.
    """
    newest = max(listing.commits, default=None)
    after = [c for c in listing.checkpoints if newest is not None and c.version > newest]
    if not after:
        return listing
    own = own_id(listing, store, after[-1])
    foreign = [c for c in after if own is not None and _id_in(c, listing.table_path, store) not in (None, own)]
    for checkpoint in foreign:
        path = checkpoint.files[0].path
        warn_once(path, f"the checkpoint {path} is ignored: it is of another table, and the log is of {own}")
    return replace(listing, checkpoints=tuple(c for c in listing.checkpoints if c not in foreign))


def own_id(listing: LogListing, store: Store, doubtful: CheckpointFiles) -> str | None:
    """The table's id in the first commit, or in a checkpoint before one that may be of another table: best, the newest
    that was written after its commit. None if the log has neither of these.
    """
    first = first_id(listing.table_path, store)
    before = [c for c in listing.checkpoints if c.version < doubtful.version]
    if first is not None or not before:
        return first
    sure = (c for c in before if c.version in listing.commits and not is_older_than_commit(c, listing))
    return _id_in(next(sure, before[-1]), listing.table_path, store)


def first_id(table_path: str, store: Store) -> str | None:
    """The table's id in the first commit; None if the log has that no more, or if it cannot be read: a newer checkpoint
    has all that it said.
    """
    path = f"{log_directory(table_path)}/{commit_name(0)}"
    try:
        data = store.read_range(path, 0, _HEAD)
        if len(data) == _HEAD:  # the definition comes before the files, of which there may be a million
            first_lines = data[: data.rfind(b"\n") + 1]
            found = parse_actions(first_lines, path).metadata if first_lines else None
            if found is not None:
                return found.id
            data = store.read(path)
        metadata = parse_actions(data, path).metadata
    except (FileNotFoundError, PermissionError, HeadwaterError):
        return None
    return None if metadata is None else metadata.id


def sets_id(table_path: str, store: Store, table_id: str, until: int) -> bool:
    """Whether a commit up to version ``until`` gave the table this id: delta-rs does when it creates a table again."""
    newest_first = sorted(list_log(table_path, store).commits.items(), reverse=True)
    return any(_sets_id(store, file.path, table_id) for version, file in newest_first if version <= until)


def _sets_id(store: Store, path: str, table_id: str) -> bool:
    try:
        data = store.read(path)
        metadata = parse_actions(data, path).metadata if b'"metaData"' in data else None
    except (FileNotFoundError, PermissionError, HeadwaterError):
        return False
    return metadata is not None and metadata.id == table_id


def _id_in(checkpoint: CheckpointFiles, table_path: str, store: Store) -> str | None:
    """The table's id in a checkpoint; None if that cannot be read."""
    try:
        return read_checkpoint(checkpoint, table_path, store).metadata.id
    except UnreadableCheckpoint:
        return None


def list_newer(table_path: str, store: Store, known: LogSegment) -> LogListing | None:
    """The commits after a version that is known, found one after the other by name, and a newer one's checksum.

    None if a listing of the log costs less, or finds more: where the known version's own file is not there any
    more, or so many commits have come that a checkpoint among them is worth finding.
    """
    directory = log_directory(table_path)
    tip = known.listing.commits.get(known.version)
    if tip is None:
        return None
    names = (f"{directory}/{commit_name(version)}" for version in itertools.count(known.version))
    files = store.following(itertools.islice(names, MOST_FOLLOWED))
    if files and len(files) == 1 and clock.milliseconds() - tip.modification_time > _OLD:
        return None  # a cleanup that is under way may have taken the next commit before this one
    if not files or len(files) == MOST_FOLLOWED or len(known.ranges) + len(files) > MOST_FOLLOWED:
        return None
    newest = known.version + len(files) - 1
    checksum = store.following([f"{directory}/{checksum_name(newest)}"]) if newest > known.version else None
    return sort_files(table_path, [*files, *(checksum or ())], known.version)


def sort_files(table_path: str, files: Iterable[FileInfo], start: int = 0) -> LogListing:
    """The listing's files by kind; a checkpoint does not count if parts of it are missing or if its file is empty."""
    commits: dict[int, FileInfo] = {}
    compactions: list[CommitRange] = []
    single: list[tuple[tuple[int, int], CheckpointFiles]] = []
    parts: dict[tuple[int, int], dict[int, FileInfo]] = defaultdict(dict)
    checksums: set[int] = set()
    for file in files:
        match parse_name(file.name):
            case CommitName(version):
                commits[version] = file
            case ChecksumName(version):
                checksums.add(version)
            case CompactionName(version, last):
                compactions.append(CommitRange(version, last, file))
            case CheckpointName(version, part, count, uuid, file_format) if file.size > 0:
                if count > 1:
                    parts[version, count][part] = file
                else:  # of one version, one Parquet file is quicker to read than JSON with sidecars
                    preference = 3 if uuid is None else 2 if file_format == "parquet" else 1
                    single.append(((version, preference), CheckpointFiles(version, (file,), file_format)))
    incomplete: dict[int, tuple[str, ...]] = {}
    for (version, count), found in parts.items():
        if len(found) == count:
            single.append(((version, 0), CheckpointFiles(version, tuple(found[i] for i in sorted(found)))))
        else:
            incomplete[version] = tuple(f"{i} of {count}" for i in range(1, count + 1) if i not in found)
    single.sort(key=lambda entry: entry[0], reverse=True)
    checkpoints = tuple(checkpoint for _, checkpoint in single)
    return LogListing(table_path, start, commits, tuple(compactions), checkpoints, incomplete, frozenset(checksums))


def find_segment(table_path: str, store: Store, version: int | None = None) -> LogSegment:
    """The segment of ``version``, or of the newest one.

    A listing that other writers add to meanwhile may lack a file that is older than another it has: file systems
    promise no more than to list what was there all the time. So the log is listed again, for the newest version that
    the listing before had: its files are all older than the new listing, however quickly more come.

    :raises HeadwaterError: ``DELTA_TABLE_NOT_FOUND``, ``DELTA_EMPTY_DIRECTORY``, ``DELTA_VERSION_NOT_FOUND``,
        ``DELTA_VERSIONS_NOT_CONTIGUOUS``, ``DELTA_TRUNCATED_TRANSACTION_LOG`` or ``DELTA_MISSING_PART_FILES``.
    """
    target = version
    for number in itertools.count(1):
        listing = _list_for(table_path, store, version)
        if listing.latest is not None and target is not None and target > listing.latest:
            target = version  # the newest files of the listing before are gone
        try:
            return build_segment(listing, target)
        except HeadwaterError as error:
            if error.condition not in _MISSING or number == _LISTINGS:
                raise
            target = listing.latest if version is None else version
    raise AssertionError("unreachable")


def _list_for(table_path: str, store: Store, version: int | None) -> LogListing:
    """The log from the newest checkpoint that ``_last_checkpoint`` names, or all of it where that does not suffice."""
    hint = read_last_checkpoint(table_path, store)
    if hint is not None and hint.version > 0 and (version is None or hint.version <= version):
        listing = list_log(table_path, store, hint.version)
        usable = [c for c in listing.checkpoints if version is None or c.version <= version]
        # Without the commit, only the rest of the log shows whether the checkpoint is this table's.
        if usable and listing.commits and (version is None or version <= (listing.latest or 0)):
            return listing
        if not usable:
            warn_once(
                f"{log_directory(table_path)}/{LAST_CHECKPOINT}",
                f"{table_path}: {LAST_CHECKPOINT} names version {hint.version}, but has no such checkpoint; "
                "the log is listed from its beginning instead",
            )
    return list_log(table_path, store)


def build_segment(listing: LogListing, version: int | None = None, below: int | None = None) -> LogSegment:
    """The segment of a version out of a listing. With ``below``, only checkpoints older than that version are used.

    :raises HeadwaterError: as :func:`find_segment`.
    """
    if listing.latest is None:
        if listing.incomplete:
            raise _missing_parts(listing, max(listing.incomplete), max(listing.incomplete))
        raise HeadwaterError("DELTA_EMPTY_DIRECTORY", {"directory": log_directory(listing.table_path)})
    target = listing.latest if version is None else version
    if target > listing.latest or target < 0:
        raise version_not_found(listing, target)
    limit = target if below is None else min(target, below - 1)
    checkpoint = next((c for c in listing.checkpoints if c.version <= limit), None)
    after = -1 if checkpoint is None else checkpoint.version
    ranges = cover(listing, after, target)
    if ranges is not None:
        return LogSegment(listing.table_path, target, checkpoint, tuple(ranges), listing)
    if checkpoint is None and 0 not in listing.commits:
        broken = [v for v in listing.incomplete if v <= target]
        if broken:
            raise _missing_parts(listing, max(broken), target)
        if listing.checkpoints and below is None:
            raise version_not_found(listing, target)
        raise HeadwaterError(
            "DELTA_TRUNCATED_TRANSACTION_LOG",
            {
                "version": target,
                "path": log_directory(listing.table_path),
                "missing": missing_versions(listing, after, target),
            },
        )
    raise HeadwaterError(
        "DELTA_VERSIONS_NOT_CONTIGUOUS",
        {
            "version": target,
            "path": log_directory(listing.table_path),
            "missing": missing_versions(listing, after, target),
        },
    )


def cover(listing: LogListing, after: int, target: int) -> list[CommitRange] | None:
    """The fewest files with every commit from ``after + 1`` to ``target``; None if one is in no file."""
    widest: dict[int, CommitRange] = {}
    for compaction in listing.compactions:
        best = widest.get(compaction.first)
        if compaction.last <= target and (best is None or compaction.last > best.last) and _fits(compaction, listing):
            widest[compaction.first] = compaction
    ranges = []
    position = after + 1
    while position <= target:
        chosen = widest.get(position)
        if chosen is None:
            commit = listing.commits.get(position)
            if commit is None:
                return None
            chosen = CommitRange(position, position, commit)
        ranges.append(chosen)
        position = chosen.last + 1
    return ranges


def _fits(compaction: CommitRange, listing: LogListing) -> bool:
    """Whether a compacted log may be used. One that is older than its last commit may be of a table that was here
    before, and the commits say the same.
    """
    tip = listing.commits.get(compaction.last)
    if tip is None or tip.modification_time <= compaction.file.modification_time:
        return True
    return any(version not in listing.commits for version in range(compaction.first, compaction.last))


def is_older_than_commit(checkpoint: CheckpointFiles, listing: LogListing) -> bool:
    """Whether a checkpoint may be of a table that was here before: it is older than the commit of its version. The
    checkpoint of a log that was copied may also be older.
    """
    commit = listing.commits.get(checkpoint.version)
    return commit is not None and any(f.modification_time < commit.modification_time for f in checkpoint.files)


def version_not_found(listing: LogListing, version: int) -> HeadwaterError:
    """The error for a version outside of what the log can rebuild, with the range it can."""
    earliest = listing.earliest
    return HeadwaterError(
        "DELTA_VERSION_NOT_FOUND",
        {
            "userVersion": version,
            "earliest": "none" if earliest is None else earliest,
            "latest": "none" if listing.latest is None else listing.latest,
        },
    )


def missing_versions(listing: LogListing, after: int, target: int) -> str:
    """The versions without a commit in the range, as text like ``3, 7-9``."""
    present = [(version, version) for version in listing.commits]
    present += [(compaction.first, compaction.last) for compaction in listing.compactions]
    # By ranges: a file's name may claim any version, and to count up to it may never end.
    missing, next_version = [], after + 1
    for first, last in sorted([*present, (target + 1, target + 1)]):
        if first > target + 1:
            break
        if first > next_version:
            missing.append((next_version, first - 1))
        next_version = max(next_version, last + 1)
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in missing)


def _missing_parts(listing: LogListing, version: int, target: int) -> HeadwaterError:
    return HeadwaterError(
        "DELTA_MISSING_PART_FILES",
        {
            "version": version,
            "missing": ", ".join(listing.incomplete[version]),
            "missingVersions": missing_versions(listing, -1, target),
            "path": log_directory(listing.table_path),
        },
    )
