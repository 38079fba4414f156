"""The change feed of a range of versions: its schema, the times of its commits, and its files.

Promise: every version of the range recorded its changes, by the metadata in force at that version; each commit is read
once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from headwater.basics.errors import HeadwaterError
from headwater.change_data.bounds import VersionRange
from headwater.change_data.files import ChangedFile, changed_files, removes_data
from headwater.change_data.schemas import VersionedDefinition, choose
from headwater.log.commits import ParsedActions, parse_actions
from headwater.log.history import CommitTimes
from headwater.log.snapshot import Snapshot
from headwater.protocol import properties
from headwater.protocol.actions import Metadata

#: The snapshot of a version.
Opener = Callable[[int], Snapshot]


@dataclass(frozen=True)
class ChangeFeed:
    """The files of a range and how to read them. ``timestamps`` in milliseconds since the epoch, UTC, by version."""

    definition: VersionedDefinition
    files: list[ChangedFile]
    timestamps: dict[int, int]


def open_feed(
    versions: VersionRange, latest: Snapshot, times: CommitTimes, open_version: Opener, schema_mode: str
) -> ChangeFeed:
    """The feed of a range whose commits are all in the log.

    :raises HeadwaterError: ``DELTA_MISSING_CHANGE_DATA``; those of
        :func:`~headwater.change_data.schemas.choose` and :func:`~headwater.change_data.files.changed_files`.
    """
    paths = [times.commits[version].path for version in versions.all()]
    contents = latest.store.read_many(paths)
    commits = {
        version: parse_actions(content, path)
        for version, path, content in zip(versions.all(), paths, contents, strict=True)
    }
    definitions = _definitions(versions, commits, latest, open_version)
    for definition in definitions:
        if not _records(definition.metadata):
            raise _not_recorded(definition, versions, _recorded_since(definitions, versions, latest, times))
    before = None
    first = commits[versions.first]
    if first.metadata is not None and versions.first > 0 and removes_data(first):
        before = _definition(open_version(versions.first - 1))
    definition = choose(definitions, before, _definition(latest), versions.first, versions.last, schema_mode)
    files = [
        file
        for version, commit in commits.items()
        for file in changed_files(version, commit, latest.table_path, latest.store)
    ]
    timestamps = {
        version: times.of(version, commits[version].commit_info or {}) for version in {f.version for f in files}
    }
    return ChangeFeed(definition, files, timestamps)


def _definitions(
    versions: VersionRange, commits: Mapping[int, ParsedActions], latest: Snapshot, open_version: Opener
) -> list[VersionedDefinition]:
    """The definitions in force in the range, ascending. For the first version, as little as possible is read."""
    changes = {v: c for v, c in commits.items() if c.metadata is not None or c.protocol is not None}
    first = changes.pop(versions.first, None)
    if first is not None and first.metadata is not None and first.protocol is not None:
        known = VersionedDefinition(first.protocol, first.metadata, versions.first)
    elif versions.last == latest.version and not changes:
        known = VersionedDefinition(latest.protocol, latest.metadata, versions.first)
    else:
        known = _definition(open_version(versions.first))
    found = [known]
    for version, commit in changes.items():
        known = VersionedDefinition(commit.protocol or known.protocol, commit.metadata or known.metadata, version)
        found.append(known)
    return found


def _definition(snapshot: Snapshot) -> VersionedDefinition:
    return VersionedDefinition.of(snapshot)


def require_recorded(definition: VersionedDefinition, versions: VersionRange) -> None:
    """That changes were recorded from the version of a definition on.

    :raises HeadwaterError: ``DELTA_MISSING_CHANGE_DATA``.
    """
    if not _records(definition.metadata):
        raise _not_recorded(definition, versions, None)


def _records(metadata: Metadata) -> bool:
    return properties.CHANGE_DATA_FEED.of(metadata.configuration)


def _recorded_since(
    definitions: Sequence[VersionedDefinition], versions: VersionRange, latest: Snapshot, times: CommitTimes
) -> int | None:
    """The first version from which on all changes are recorded; None if the newest does not record its own."""
    if not _records(latest.metadata):
        return None
    since: int | None = None
    known = [(definition.version, definition.metadata) for definition in definitions]
    for version in range(versions.last + 1, latest.version + 1):
        if version in times.commits:
            path = times.commits[version].path
            metadata = parse_actions(latest.store.read(path), path).metadata
            if metadata is not None:
                known.append((version, metadata))
    for version, metadata in known:
        if not _records(metadata):
            since = None
        elif since is None:
            since = version
    return since


def _not_recorded(definition: VersionedDefinition, versions: VersionRange, since: int | None) -> HeadwaterError:
    if since is None:
        advice = (
            f"ALTER TABLE ... SET TBLPROPERTIES ('{properties.CHANGE_DATA_FEED.name}' = 'true') turns the change data "
            "feed on for later versions; DESCRIBE HISTORY shows when it was on."
        )
    else:
        advice = f"The table records its changes from version {since} on: start there."
    return HeadwaterError(
        "DELTA_MISSING_CHANGE_DATA",
        {
            "startVersion": versions.first,
            "endVersion": versions.last,
            "version": definition.version,
            "advice": advice,
        },
    )
