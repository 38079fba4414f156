"""The names of the files in a table's log.

Owns what each file name under ``_delta_log`` means and how each is spelled. Follows the protocol's chapters "Delta
Log Entries", "Catalog-managed tables", "Checkpoints", "Checkpoint Naming Scheme", "Log Compaction Files", "Last
Checkpoint File" and "Version Checksum File". Names it does not know parse to None, which readers pass over.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from uuid import UUID, uuid4

LOG_DIRECTORY = "_delta_log"
SIDECAR_DIRECTORY = "_sidecars"
STAGED_DIRECTORY = "_staged_commits"
LAST_CHECKPOINT = "_last_checkpoint"
LAST_VACUUM = "_last_vacuum_info"
CHANGE_DATA_DIRECTORY = "_change_data"

_NAME = re.compile(
    r"""(?P<version>\d{20})
    (?: \.json (?P<commit>)
      | \.crc (?P<checksum>)
      | \.(?P<last>\d{20})\.compacted\.json
      | \.checkpoint\.parquet (?P<classic>)
      | \.checkpoint\.(?P<part>\d{10})\.(?P<parts>\d{10})\.parquet
      | \.checkpoint\.(?P<uuid>[0-9A-Fa-f-]{36})\.(?P<format>json|parquet)
    )""",
    re.VERBOSE,
)


_STAGED = re.compile(r"(?P<version>\d{20})\.[0-9A-Za-z-]+\.json")


@dataclass(frozen=True)
class CommitName:
    """``00000000000000000007.json``."""

    version: int


@dataclass(frozen=True)
class ChecksumName:
    """``00000000000000000007.crc``."""

    version: int


@dataclass(frozen=True)
class CompactionName:
    """``00000000000000000004.00000000000000000006.compacted.json``: the commits of both versions and all between."""

    version: int
    last_version: int


@dataclass(frozen=True)
class CheckpointName:
    """One file of a checkpoint: classic, one part of several, or V2 named by a UUID in Parquet or JSON."""

    version: int
    part: int = 1
    parts: int = 1
    uuid: str | None = None
    format: str = "parquet"


LogFileName = CommitName | ChecksumName | CompactionName | CheckpointName


def parse_name(name: str) -> LogFileName | None:
    """What a file name in the log directory means; None if it is not one of the protocol's."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    version = int(match["version"])
    if match["commit"] is not None:
        return CommitName(version)
    if match["checksum"] is not None:
        return ChecksumName(version)
    if match["last"] is not None:
        last = int(match["last"])
        return CompactionName(version, last) if last > version else None
    if match["parts"] is not None:
        part, parts = int(match["part"]), int(match["parts"])
        return CheckpointName(version, part, parts) if 1 <= part <= parts else None
    if match["uuid"] is not None:
        return CheckpointName(version, uuid=match["uuid"], format=match["format"])
    return CheckpointName(version)


def last_version(name: str) -> int:
    """The newest version that a file of the log is about; -1 for a file that is about none."""
    parsed = parse_name(name)
    if parsed is None:
        return -1
    return parsed.last_version if isinstance(parsed, CompactionName) else parsed.version


def version_prefix(version: int) -> str:
    """The 20 digits that every file of a version begins with: the place to start a listing from."""
    return f"{version:020d}"


def commit_name(version: int) -> str:
    return f"{version:020d}.json"


def checksum_name(version: int) -> str:
    return f"{version:020d}.crc"


def compaction_name(first: int, last: int) -> str:
    return f"{first:020d}.{last:020d}.compacted.json"


def checkpoint_name(version: int) -> str:
    """The classic checkpoint's name."""
    return f"{version:020d}.checkpoint.parquet"


def checkpoint_part_names(version: int, parts: int) -> list[str]:
    """The names of a multi-part checkpoint, in order."""
    return [f"{version:020d}.checkpoint.{part:010d}.{parts:010d}.parquet" for part in range(1, parts + 1)]


def v2_checkpoint_name(version: int, uuid: UUID | None = None, file_format: str = "parquet") -> str:
    """A V2 checkpoint's unique name; ``file_format`` is ``parquet`` or ``json``."""
    return f"{version:020d}.checkpoint.{uuid or uuid4()}.{file_format}"


def sidecar_name(uuid: UUID | None = None) -> str:
    """A new sidecar's name, inside :data:`SIDECAR_DIRECTORY`."""
    return f"{uuid or uuid4()}.parquet"


def staged_commit_name(version: int, uuid: UUID | None = None) -> str:
    """A new staged commit's name, inside :data:`STAGED_DIRECTORY`."""
    return f"{version:020d}.{uuid or uuid4()}.json"


def is_staged_commit(name: str, version: int) -> bool:
    """Whether a file name is one of a staged commit of a version: a name, and no path."""
    match = _STAGED.fullmatch(name)
    return match is not None and int(match["version"]) == version


def log_directory(table_path: str) -> str:
    return f"{table_path}/{LOG_DIRECTORY}"
