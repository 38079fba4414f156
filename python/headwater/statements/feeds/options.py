"""Options of a stream that reads a table, and the settings of its session.

Owns their defaults and what they may not be. The names are those of Delta Lake's own connector; ``wholeCommits`` is
Headwater's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from headwater.basics.errors import HeadwaterError, illegal_option
from headwater.bridge.messages.read import ChangesForm
from headwater.bridge.statement import Statement
from headwater.statements.known_options import check_options
from headwater.statements.reads.change_feed import asked_form
from headwater.statements.running.opening import Options
from headwater.statements.settings import (
    STREAM_TRACKS_WIDENING,
    STREAM_WIDENS,
    UNSAFE_NULLS,
    UNSAFE_PARTITIONING,
    UNSAFE_RENAMES,
    UNSAFE_START,
)
from headwater.streams.compatibility import Rules
from headwater.streams.source import Reading

_DEFAULT_FILES = 1000
#: What Spark's limits hold.
_MOST_FILES, _MOST_BYTES = (1 << 31) - 1, (1 << 63) - 1
_LATEST = "latest"
#: Set by Spark's side beside ``withEventTimeOrder``: the column of the query's watermark; empty if the watermark is
#: on something else than one column of the table.
EVENT_COLUMN = "headwater.eventTimeColumn"
_SIZE = re.compile(r"(?i)\s*(\d+)\s*([kmgtp]?)(?:i?b)?\s*")
_UNITS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}


class Start(NamedTuple):
    """Where a new stream begins, as its options say; all None means with the newest version, whole.

    :param version: with the changes of this version.
    :param timestamp: with the first commit that is not before this time, as the user wrote it.
    :param is_latest: with the first commit after the newest.
    """

    version: int | None = None
    timestamp: str | None = None
    is_latest: bool = False

    @property
    def is_told(self) -> bool:
        return self.version is not None or self.timestamp is not None or self.is_latest


class SourceOptions(NamedTuple):
    """The options of a stream's source. ``max_files`` and ``max_bytes`` a micro-batch; ``changes`` how it reads
    changes, None if it reads rows.
    """

    reading: Reading
    changes: ChangesForm | None
    start: Start
    max_files: int | None
    max_bytes: int | None


def source_options(given: Mapping[str, str | None], statement: Statement) -> SourceOptions:
    """The options as they are meant.

    :raises HeadwaterError: ``DELTA_ILLEGAL_OPTION``, ``HEADWATER_UNKNOWN_OPTION``,
        ``HEADWATER_CHANGELOG_AND_CHANGE_FEED``,
        ``DELTA_STARTING_VERSION_AND_TIMESTAMP_BOTH_SET``, ``DELTA_UNSUPPORTED_TIME_TRAVEL_VIEWS``.
    """
    options = Options(given)
    check_options(given, "A streaming query that reads a Delta table")
    if "versionasof" in options or "timestampasof" in options:
        raise HeadwaterError("DELTA_UNSUPPORTED_TIME_TRAVEL_VIEWS", {"tableName": options.get("path", "")})
    start = _start(options)
    max_bytes = None if "maxbytespertrigger" not in options else _size("maxBytesPerTrigger", options)
    files = options.get("maxfilespertrigger")
    max_files = _positive("maxFilesPerTrigger", files) if files is not None else None
    changes = asked_form(options)
    event_time = _event_time(options, start, reads_changes=changes is not None)
    return SourceOptions(
        Reading(
            ignores_deletes=_flag(options, "ignoreDeletes") or _flag(options, "ignoreFileDeletion"),
            ignores_changes=_flag(options, "ignoreChanges") or _flag(options, "ignoreFileDeletion"),
            skips_changes=_flag(options, "skipChangeCommits"),
            tolerates_loss=not _flag(options, "failOnDataLoss", default=True),
            whole_commits=_flag(options, "wholeCommits"),
            excludes=_pattern(options),
            told_where_to_start=start.is_told,
            reads_changes=changes is not None,
            event_time=event_time,
            rules=_rules(statement),
        ),
        changes,
        start,
        _DEFAULT_FILES if max_files is None and max_bytes is None else max_files,
        max_bytes,
    )


def _start(options: Options) -> Start:
    version, timestamp = options.get("startingversion"), options.get("startingtimestamp")
    if version is not None and timestamp is not None:
        raise HeadwaterError(
            "DELTA_STARTING_VERSION_AND_TIMESTAMP_BOTH_SET",
            {"version": "startingVersion", "timestamp": "startingTimestamp"},
        )
    if version is None:
        return Start(timestamp=timestamp)
    text = version.strip()
    if text.lower() == _LATEST:
        return Start(is_latest=True)
    if not (text.isascii() and text.isdigit()):
        raise illegal_option("startingVersion", version, "must be a version, that is zero or greater, or 'latest'")
    return Start(version=int(text))


def _event_time(options: Options, start: Start, *, reads_changes: bool) -> str | None:
    """The column in whose order the initial snapshot is read. Without a watermark, no row can be late in any order; a
    stream that begins with a commit has no initial snapshot.
    """
    if not _flag(options, "withEventTimeOrder") or start.is_told:
        return None
    if reads_changes:
        explain = "cannot be used with a stream of changes. Leave it out, or set startingVersion"
        raise illegal_option("withEventTimeOrder", "true", explain)
    column = options.get(EVENT_COLUMN.lower())
    if column == "":
        explain = (
            "needs a watermark on one column of the table, or on another name of it. Store the time in a column of "
            "type TIMESTAMP, or leave the option out"
        )
        raise illegal_option("withEventTimeOrder", "true", explain)
    return column


def _rules(statement: Statement) -> Rules:
    return Rules(
        renames_and_drops=UNSAFE_RENAMES.of(statement),
        partitioning=UNSAFE_PARTITIONING.of(statement),
        nulls=UNSAFE_NULLS.of(statement),
        at_start=UNSAFE_START.of(statement),
        widening=STREAM_WIDENS.of(statement),
        tracks_widening=STREAM_TRACKS_WIDENING.of(statement),
    )


def _flag(options: Options, name: str, *, default: bool = False) -> bool:
    value = options.flag(name)
    return default if value is None else value


def _positive(name: str, text: str) -> int:
    stripped = text.strip()
    if not (stripped.isascii() and stripped.isdigit()) or not 0 < int(stripped) <= _MOST_FILES:
        raise illegal_option(name, text, f"must be a whole number from 1 to {_MOST_FILES}")
    return int(stripped)


def _size(name: str, options: Options) -> int:
    text = options[name.lower()]
    match = _SIZE.fullmatch(text)
    size = int(match.group(1)) * 1024 ** _UNITS[match.group(2).lower()] if match else 0
    if not 0 < size <= _MOST_BYTES:
        raise illegal_option(name, text, "must be a positive size, such as '10m' or '1g'")
    return size


def _pattern(options: Options) -> re.Pattern[str] | None:
    text = options.get("excluderegex")
    if text is None:
        return None
    try:
        return re.compile(text)
    except re.error as error:
        raise illegal_option("excludeRegex", text, f"must be a regular expression ({error})") from None
