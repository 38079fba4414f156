"""Log cleanup: deletes the files of the log that no version within the retention needs.

Owns the choice of the files, by ``delta.logRetentionDuration`` and ``delta.enableExpiredLogCleanup``, and their
deletion. Follows the protocol's chapter "Metadata Cleanup". Promises: every version that was the newest at some time
within the retention can be read before, during and after the cleanup. No file is deleted before the checkpoint that
replaces it was read to the end. An interrupted cleanup has deleted only files that were to be deleted, and the next one
continues.

Where a table supports ``checkpointProtection``, the versions before
``delta.requireCheckpointProtectionBeforeVersion`` go together or stay together: older writers must never meet a part of
a history whose features they do not know. There, commits are deleted before checkpoints.

**Invariants** of the log and the files while cleanup, VACUUM, checkpoints, readers and paused writers are at work;
``python -m model`` checks them by these names (``model/cleaning.pml``):

- *every version within the retention can be read*.
- *no file that a version needs is deleted*, of versions within the retention.
- *no reader is stopped*: it lists the log again, three times at most.
- *a reader sees a whole version*, with the commits that it has and no others.
- *what was acknowledged is seen* by readers that begin later.
- *nothing is lost*: an acknowledged commit is in the newest version, even if the log was cleaned up beyond the version
  that its writer had read (:mod:`headwater.transaction.commit_loop` sees to that).
- *a failed statement writes nothing*: a commit that is taken back is in no version.
- *conflicts are found*: a commit that is a version has been checked against all of the versions before it.

The retention begins at midnight (UTC), so a table is cleaned up once a day, not a little with each checkpoint. The
oldest files are deleted first.
"""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass

from headwater.basics import clock
from headwater.catalogs.interface import Maintenance
from headwater.catalogs.log_view import files_of, first_on_record, is_allowed
from headwater.log import groups
from headwater.log.checkpoint_reading import CheckpointFiles, UnreadableCheckpoint, named_sidecars, read_checkpoint
from headwater.log.history import last_version_at
from headwater.log.segment import LogListing, is_older_than_commit, sort_files
from headwater.log.snapshot import Snapshot
from headwater.protocol import properties
from headwater.protocol.features import CHECKPOINT_PROTECTION, supports
from headwater.protocol.file_names import (
    SIDECAR_DIRECTORY,
    STAGED_DIRECTORY,
    CheckpointName,
    ChecksumName,
    CommitName,
    CompactionName,
    is_staged_commit,
    log_directory,
    parse_name,
    version_prefix,
)
from headwater.stores import FileInfo, Store

_LOG = logging.getLogger(__name__)
_DAY = 24 * 3600 * 1000


@dataclass(frozen=True)
class CleanedUp:
    """The oldest version that is left whole, and how many files went."""

    earliest: int
    num_files: int


def retention_start(snapshot: Snapshot, now: int) -> int | None:
    """The midnight, in milliseconds since the epoch, from which on versions are kept; None if all are."""
    if not snapshot.definition.get(properties.EXPIRED_LOG_CLEANUP):
        return None
    retention = snapshot.definition.get(properties.LOG_RETENTION)
    return (now - retention) // _DAY * _DAY


def clean_up(snapshot: Snapshot, now: int | None = None) -> CleanedUp | None:
    """Delete what the table's retention does not keep; None if nothing may go.

    :param snapshot: the newest version; nothing counts as older than it is by the time of this commit.
    :param now: milliseconds since the epoch; the clock's by default.
    :raises OSError: the store failed; the table is as whole as before.
    """
    now = _not_ahead(snapshot, now)
    start = retention_start(snapshot, now)
    return None if start is None else _clean_up(snapshot, now, start)


def truncate(snapshot: Snapshot, retention: int, now: int | None = None) -> CleanedUp | None:
    """Delete what a user who truncates the history does not keep, whatever the table's own retention is.

    :param retention: milliseconds; not rounded to days.
    """
    now = _not_ahead(snapshot, now)
    return _clean_up(snapshot, now, now - retention)


def _not_ahead(snapshot: Snapshot, now: int | None) -> int:
    """The time to count from: a clock that is ahead of the others must not cost anyone a version."""
    return min(clock.milliseconds() if now is None else now, snapshot.timestamp)


def _clean_up(snapshot: Snapshot, now: int, start: int) -> CleanedUp | None:
    """Keep every version that was the newest at ``start`` or later. Of a table that a catalog manages, all, unless it
    allows its clients to clean up.
    """
    if not is_allowed(snapshot, Maintenance.METADATA_CLEANUP):
        return None
    store = files_of(snapshot.store)
    files = snapshot.store.list_from(log_directory(snapshot.table_path), version_prefix(0))
    listing = sort_files(snapshot.table_path, files)
    oldest_needed = last_version_at(listing, snapshot, start)
    if oldest_needed is None:
        return None
    if (on_record := first_on_record(snapshot.store)) is not None:  # whoever publishes needs each of these
        oldest_needed = min(oldest_needed, on_record)
    checkpoint, expired = _what_may_go(files, listing, snapshot, oldest_needed)
    if checkpoint is None:
        return None
    if (protected := _protected_before(snapshot)) is not None:
        if checkpoint.version < protected:
            return None
        expired = sorted(expired, key=lambda file: isinstance(parse_name(file.name), CheckpointName))
    for file in expired:
        store.delete(file.path)
    left = [c for c in listing.checkpoints if c.version >= checkpoint.version]
    sidecars = _expired_sidecars(snapshot, left, now) if supports(snapshot.protocol, "v2Checkpoint") else []
    for file in sidecars:
        store.delete(file.path)
    of_groups = _expired_of_groups(snapshot, listing, checkpoint.version)
    for file in of_groups:
        store.delete(file.path)
    count = len(expired) + len(sidecars) + len(of_groups)
    if count:
        _LOG.info("%s: %d files of versions before %d cleaned up", snapshot.table_path, count, checkpoint.version)
    return CleanedUp(checkpoint.version, count)


def _expired_of_groups(snapshot: Snapshot, listing: LogListing, version: int) -> list[FileInfo]:
    """What was decided about groups of commits, and staged for them, that are older than any commit that is left. A
    decision that a group is aborted stays, as one of its commits may come late; so does what a link leads to, and
    what is staged for a version that is left: the catalog may have ratified it, and nobody published it, however old it
    is.
    """
    oldest, store = listing.commits.get(version), snapshot.store
    if oldest is None:
        return []
    log = log_directory(snapshot.table_path)
    found: list[FileInfo] = []
    for directory in (groups.DIRECTORY, STAGED_DIRECTORY):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            found += store.list_from(f"{log}/{directory}")
    old = [file for file in found if file.modification_time < oldest.modification_time - _DAY]
    links = store.links(log, [file.path for file in old])
    return [file for file in old if file.path not in links and _is_of_groups(file, store, version)]


def _is_of_groups(file: FileInfo, store: Store, before: int) -> bool:
    if f"/{STAGED_DIRECTORY}/" in file.path:
        version = file.name[: len(version_prefix(0))]
        return version.isdecimal() and int(version) < before and is_staged_commit(file.name, int(version))
    return groups.is_to_clean_up(file, store)


def _protected_before(snapshot: Snapshot) -> int | None:
    """The version before which checkpoints are protected; None if none are."""
    if not supports(snapshot.protocol, CHECKPOINT_PROTECTION):
        return None
    return snapshot.definition.get(properties.PROTECTED_BEFORE)


def _what_may_go(
    files: list[FileInfo], listing: LogListing, snapshot: Snapshot, version: int
) -> tuple[CheckpointFiles | None, list[FileInfo]]:
    """The newest checkpoint of a version or before that can be read, and that the log goes on from without gap; and
    the files it stands in for. The checkpoint is not read if it stands in for no files.
    """
    for checkpoint in listing.checkpoints:
        needed = range(checkpoint.version, snapshot.version + 1)
        if checkpoint.version > version or any(v not in listing.commits for v in needed):
            continue
        expired = [file for file in files if _is_expired(file, checkpoint.version)]
        if not expired:
            return checkpoint, []
        try:
            state = read_checkpoint(checkpoint, snapshot.table_path, snapshot.store)
            if state.metadata.id != snapshot.metadata.id and is_older_than_commit(checkpoint, listing):
                raise UnreadableCheckpoint(f"its checkpoint {checkpoint.files[0].path} is of another table")
        except UnreadableCheckpoint as error:
            _LOG.warning("%s: the log is not cleaned up to version %d: %s", snapshot.table_path, version, error)
            continue
        return checkpoint, expired
    return None, []


def _is_expired(file: FileInfo, version: int) -> bool:
    """Whether a file of the log is only of use for versions before the one that is kept."""
    match parse_name(file.name):
        case CommitName(of) | ChecksumName(of):
            return of < version
        case CheckpointName(version=of):
            return of < version
        case CompactionName(first, _):
            return first <= version
    return False


def _expired_sidecars(snapshot: Snapshot, checkpoints: list[CheckpointFiles], now: int) -> list[FileInfo]:
    """Sidecars that no checkpoint names, and that are too old to belong to a checkpoint being written."""
    store = snapshot.store
    try:
        listed = store.list_from(f"{log_directory(snapshot.table_path)}/{SIDECAR_DIRECTORY}")
        named = set().union(*(named_sidecars(checkpoint, store) for checkpoint in checkpoints))
    except FileNotFoundError:
        return []
    except UnreadableCheckpoint:  # what it names is unknown
        return []
    before = now // _DAY * _DAY - _DAY
    return [file for file in listed if file.name not in named and file.modification_time < before]
