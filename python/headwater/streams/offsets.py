"""Offsets of a stream that reads a table: its position, and how that is written into a checkpoint.

Owns the JSON of offsets, in the format that Delta Lake's own connector writes: a checkpoint begun by one goes on
with the other. Promise: an offset of another table, of a newer format or a damaged one is an error.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from headwater.basics.errors import HeadwaterError

#: The index before everything in a version.
BASE = -100
#: The index of a change of the definition that a stream with a schema log stops at, and the one right after it.
DEFINITION_CHANGE, AFTER_DEFINITION_CHANGE = -20, -19
#: What :data:`BASE` is in JSON of format 1.
_WRITTEN_BASE = -1
_PLAIN, _RESERVED, _WITH_DEFINITION_CHANGES = 1, 2, 3
#: Headwater's own, of an initial snapshot that is read in the order of event time. A number that Delta Lake's connector
#: refuses: it would take such an offset for one before all files, and read their rows twice.
_BY_EVENT_TIME = 1000


@dataclass(frozen=True)
class Offset:
    """A position in a table's files: all before it and itself are read.

    :param table_id: the ``id`` in the table's metadata.
    :param index: the position in the version: of files of the initial snapshot by modification time and path, or of the
        files that a commit adds, in its order. :data:`BASE` is before all of them.
    :param is_initial: whether the version is read whole, as the stream's initial snapshot, and not as a commit.
    :param event_time: before which time the rows of the initial snapshot are read, in microseconds since the epoch,
        UTC; None if it is read file by file.
    :param event_column: the column that has these times.
    """

    table_id: str
    version: int
    index: int
    is_initial: bool
    event_time: int | None = None
    event_column: str | None = None

    @property
    def position(self) -> tuple[int, int]:
        """What orders the offsets of a table."""
        return self.version, self.index

    def to_json(self) -> str:
        """The offset as a checkpoint has it."""
        changes = self.index in (DEFINITION_CHANGE, AFTER_DEFINITION_CHANGE)
        source_version = _WITH_DEFINITION_CHANGES if changes else _PLAIN
        of_event_time: dict[str, object] = {}
        if self.event_time is not None:
            source_version = _BY_EVENT_TIME
            of_event_time = {"eventTimeMicros": self.event_time, "eventTimeColumn": self.event_column}
        return json.dumps(
            {
                "sourceVersion": source_version,
                "reservoirId": self.table_id,
                "reservoirVersion": self.version,
                "index": _WRITTEN_BASE if self.index == BASE else self.index,
                "isStartingVersion": self.is_initial,
                **of_event_time,
            },
            separators=(",", ":"),
        )


def parse_offset(text: str, table_id: str) -> Offset:
    """The offset of a checkpoint, of a stream that reads the table with this id.

    :raises HeadwaterError: ``DELTA_INVALID_SOURCE_OFFSET_FORMAT``, ``DELTA_INVALID_SOURCE_VERSION``,
        ``DELTA_INVALID_FORMAT_FROM_SOURCE_VERSION``, ``DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE``.
    """
    try:
        content = json.loads(text)
        source_version = _whole(content["sourceVersion"])
    except (ValueError, KeyError, TypeError):
        raise _damaged(text) from None
    by_event_time = source_version == _BY_EVENT_TIME
    if source_version > _WITH_DEFINITION_CHANGES and not by_event_time:
        raise HeadwaterError(
            "DELTA_INVALID_FORMAT_FROM_SOURCE_VERSION",
            {"expectedVersion": _WITH_DEFINITION_CHANGES, "realVersion": source_version},
        )
    if source_version < _PLAIN or source_version == _RESERVED:
        raise HeadwaterError("DELTA_INVALID_SOURCE_VERSION", {"version": source_version})
    try:
        read_id, initial = content["reservoirId"], content["isStartingVersion"]
        version, index = _whole(content["reservoirVersion"]), _whole(content["index"])
        event_time = _whole(content["eventTimeMicros"]) if by_event_time else None
        event_column = str(content["eventTimeColumn"]) if by_event_time else None
    except (ValueError, KeyError, TypeError):
        raise _damaged(text) from None
    if not isinstance(read_id, str) or not isinstance(initial, bool) or version < 0:
        raise _damaged(text)
    if read_id != table_id:
        raise other_table(table_id, read_id)
    if source_version != _WITH_DEFINITION_CHANGES and index == _WRITTEN_BASE:
        index = BASE
    return Offset(read_id, version, index, initial, event_time, event_column)


def other_table(new_id: str, old_id: str) -> HeadwaterError:
    """The error for a stream whose table was replaced by another of the same name or path."""
    return HeadwaterError(
        "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE", {"newTableId": new_id, "oldTableId": old_id}
    )


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value} is not a whole number")
    return value


def _damaged(text: str) -> HeadwaterError:
    return HeadwaterError("DELTA_INVALID_SOURCE_OFFSET_FORMAT", {"offset": text[:200]})
