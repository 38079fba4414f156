"""Table properties: the ``delta.*`` names, the values they accept, and their defaults.

Owns the list of known properties, each with its type and what depends on it, spelling and validation when a user sets
one, and the session's defaults for new tables. Code names a property by its value here, never by its text. Follows the
protocol's chapter "Table Properties" and the properties its other chapters name.
Promise: reading never fails for a property a writer of this list accepted; names compare ignoring case and are stored
in their one spelling.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeVar, overload

from headwater.basics.errors import HeadwaterError
from headwater.basics.suggestions import did_you_mean
from headwater.protocol.concerns import Concern

T = TypeVar("T")

PREFIX = "delta."
#: The name of a CHECK constraint follows it; the value is its condition, Spark SQL.
CONSTRAINT_PREFIX = "delta.constraints."
#: The name of a primary or foreign key, in lower case, follows it; the value is of :mod:`headwater.schema.keys`.
KEY_PREFIX = "headwater.key."
#: The name of an expectation, in lower case, follows it; the value is of :mod:`headwater.schema.expectations`.
EXPECT_PREFIX = "headwater.expect."
#: The name of an index, in lower case, follows it, and then :data:`INDEX_COLUMNS`; the value lists its columns.
INDEX_PREFIX, INDEX_COLUMNS = "headwater.index.", ".columns"
#: The name of a table feature follows it; the value asks for the feature.
FEATURE_PREFIX = "delta.feature."
#: Session settings that give new tables a property: what follows the prefix is the name without ``delta.``.
SESSION_DEFAULTS_PREFIX = "spark.databricks.delta.properties.defaults."

_UNIT_MICROSECONDS = {
    "week": 7 * 24 * 3600 * 1_000_000,
    "day": 24 * 3600 * 1_000_000,
    "hour": 3600 * 1_000_000,
    "minute": 60 * 1_000_000,
    "second": 1_000_000,
    "millisecond": 1000,
    "microsecond": 1,
}
_INTERVAL_PART = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*([a-z]+)")
_BYTES = re.compile(r"(\d+)\s*([kmgt]?)i?b?", re.IGNORECASE)
_BYTE_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


#: The longest interval, in milliseconds, and the largest size, in bytes: what other engines and Arrow can hold.
LONGEST = 2**63 - 1


def parse_interval(text: str) -> int:
    """Milliseconds of an interval like ``interval 7 days`` or ``1 day 12 hours``; the word ``interval`` may be missing.

    :raises HeadwaterError: ``DELTA_INVALID_INTERVAL``, also for months and years, which have no fixed length.
    """
    rest = text.strip().lower()
    if rest.startswith("interval"):
        rest = rest[len("interval") :]
    total = Fraction(0)
    position = 0
    while position < len(rest.rstrip()):
        part = _INTERVAL_PART.match(rest, position)
        unit = part and _UNIT_MICROSECONDS.get(part.group(2).removesuffix("s"))
        if not part or not unit:
            raise HeadwaterError("DELTA_INVALID_INTERVAL", {"interval": text})
        total += Fraction(part.group(1)) * unit
        position = part.end()
    if position == 0:
        raise HeadwaterError("DELTA_INVALID_INTERVAL", {"interval": text})
    return int(total / 1000)


def parse_bytes(text: str) -> int:
    """Bytes of a size like ``134217728`` or ``128mb``; at most :data:`LONGEST`, which is more than any file has.

    :raises ValueError: if it is not one.
    """
    match = _BYTES.fullmatch(text.strip())
    if not match:
        raise ValueError(text)
    return min(int(match.group(1)) * _BYTE_UNITS[match.group(2).lower()], LONGEST)


@dataclass(frozen=True)
class Property(Generic[T]):
    """A known property; :meth:`of` reads it from a table's configuration.

    :param default: the text that counts where a table does not set it.
    :param accepts: whether a text is a valid value; ``expected`` says in words which are.
    :param parse: the value of a text; it raises what :meth:`of` raises for one that another writer stored.
    :param absent: the value where the property is neither set nor has a default.
    :param unused: why nothing here acts on it, in a sentence; None of one that something does. A property that is
        unused is recorded, for other engines and for versions to come, and whoever sets it is warned.
    :param concern: whom it concerns that another writer changed the value; called with the text before and after,
        None if it is not set.
    """

    name: str
    default: str | None
    accepts: Callable[[str], bool]
    expected: str
    parse: Callable[[str], T]
    absent: T
    settable: bool = True
    unused: str | None = None
    concern: Callable[[str | None, str | None], Concern] = lambda before, after: Concern.NOBODY

    def of(self, configuration: Mapping[str, str]) -> T:
        """The value in a configuration, whose names are in their canonical spelling: what is set, or the default.

        :raises HeadwaterError: ``DELTA_INVALID_PROPERTY_VALUE`` for a number, ``DELTA_INVALID_INTERVAL`` for an
            interval that another writer stored and that is none.
        """
        text = self.text(configuration)
        return self.absent if text is None else self.parse(text)

    def text(self, configuration: Mapping[str, str]) -> str | None:
        """The text of the value: what is set, or the default; None for neither."""
        return configuration.get(self.name, self.default)


def _boolean(
    name: str,
    default: str | None = "false",
    *,
    unused: str | None = None,
    on: Concern = Concern.NOBODY,
    off: Concern = Concern.NOBODY,
) -> Property[bool]:
    """A switch; one that is neither set nor has a default is off.

    :param on: whom it concerns that another writer turned it on; ``off``: that another writer turned it off.
    """

    def is_on(text: str) -> bool:
        return text.lower() == "true"

    def concern(before: str | None, after: str | None) -> Concern:
        was, now = is_on(before or ""), is_on(after or "")
        return Concern.NOBODY if was == now else on if now else off

    return Property(
        name,
        default,
        lambda text: text.lower() in ("true", "false"),
        "true or false",
        is_on,
        absent=False,
        unused=unused,
        concern=concern,
    )


@overload
def _whole(
    name: str, default: str, lowest: int, *, settable: bool = ..., unused: str | None = ...
) -> Property[int]: ...
@overload
def _whole(
    name: str, default: None, lowest: int, *, settable: bool = ..., unused: str | None = ...
) -> Property[int | None]: ...
def _whole(
    name: str, default: str | None, lowest: int, *, settable: bool = True, unused: str | None = None
) -> Property[int] | Property[int | None]:
    expected = f"a whole number, {lowest} or more"

    def accepts(text: str) -> bool:
        try:
            return int(text) >= lowest
        except ValueError:
            return False

    def parse(text: str) -> int:
        if not accepts(text):
            raise _invalid(name, text, expected)
        return int(text)

    return Property[int | None](name, default, accepts, expected, parse, absent=None, settable=settable, unused=unused)


@overload
def _interval(name: str, default: str, *, unused: str | None = ...) -> Property[int]: ...
@overload
def _interval(name: str, default: None, *, unused: str | None = ...) -> Property[int | None]: ...
def _interval(name: str, default: str | None, *, unused: str | None = None) -> Property[int] | Property[int | None]:
    """A length of time, in milliseconds, at most :data:`LONGEST`."""
    expected = "an interval that is not negative, like 'interval 7 days'"

    def parse(text: str) -> int:
        length = parse_interval(text)
        if length < 0:  # it would end in the future: what is being written would count as old
            raise HeadwaterError("DELTA_INVALID_INTERVAL", {"interval": text})
        return min(length, LONGEST)

    return Property[int | None](
        name, default, lambda text: parse_interval(text) >= 0, expected, parse, absent=None, unused=unused
    )


def _choice(
    name: str,
    default: str | None,
    *choices: str,
    is_checked: bool = False,
    concerns: Mapping[str, Concern] = MappingProxyType({}),
) -> Property[str]:
    """One of a few words, in lower case; empty if it is neither set nor has a default.

    :param is_checked: whether a word that another writer stored and that is no choice is refused; else it is read.
    :param concerns: by choice, in lower case: whom it concerns that another writer made it.
    """
    folded = {choice.lower() for choice in choices}
    expected = " or ".join(choices)

    def parse(text: str) -> str:
        if is_checked and text.lower() not in folded:
            raise _invalid(name, text, expected)
        return text.lower()

    return Property(
        name,
        default,
        lambda text: text.lower() in folded,
        expected,
        parse,
        absent="",
        concern=lambda before, after: concerns.get((after or "").lower(), Concern.NOBODY),
    )


def _text(name: str, *, settable: bool = True) -> Property[str]:
    """Any text; empty if it is not set."""
    return Property(name, None, lambda text: True, "any text", str, absent="", settable=settable)


def _column_name(name: str) -> Property[str]:
    """The name of a column that data files have once it is set; empty if it is not set."""
    return replace(
        _text(name, settable=False),
        concern=lambda before, after: Concern.NOBODY if before is None else Concern.EVERYBODY,
    )


def _size(name: str) -> Property[int | None]:
    """A number of bytes; None if it is not set, or is no size that another writer stored."""

    def accepts(text: str) -> bool:
        try:
            return parse_bytes(text) > 0
        except ValueError:
            return False

    def parse(text: str) -> int | None:
        return parse_bytes(text) if accepts(text) else None

    return Property[int | None](
        name, None, accepts, "a size above 0 like '128mb' or a number of bytes", parse, absent=None
    )


def _pattern(name: str, default: str, pattern: str, expected: str, *, unused: str) -> Property[str]:
    return Property(
        name, default, lambda text: re.fullmatch(pattern, text) is not None, expected, str, absent="", unused=unused
    )


def _invalid(name: str, value: str, expected: str) -> HeadwaterError:
    return HeadwaterError("DELTA_INVALID_PROPERTY_VALUE", {"property": name, "value": value, "expected": expected})


class _Since(NamedTuple):
    version: Property[int | None]
    timestamp: Property[int | None]


_FILE_SIZES = "delta.targetFileSize says how large files become, and rewrites of DML keep to what they rewrite"
_CONVERT = "tables of Iceberg are not converted"
_NO_PREFIXES = "files are named and placed without random prefixes"

APPEND_ONLY = _boolean("delta.appendOnly", on=Concern.REMOVED_ROWS)
AUTO_OPTIMIZE = _boolean("delta.autoOptimize", None)
AUTO_COMPACT = _choice("delta.autoOptimize.autoCompact", None, "true", "false", "auto")
OPTIMIZE_WRITE = _boolean("delta.autoOptimize.optimizeWrite", None)
CHECKPOINT_INTERVAL = _whole("delta.checkpointInterval", "10", 1)
CHECKPOINT_PART_SIZE = _whole("delta.checkpoint.partSize", None, 1)
CHECKPOINT_POLICY = _choice("delta.checkpointPolicy", "classic", "classic", "v2")
STATISTICS_AS_JSON = _boolean("delta.checkpoint.writeStatsAsJson", "true")
STATISTICS_AS_STRUCT = _boolean("delta.checkpoint.writeStatsAsStruct", "true")
COLUMN_MAPPING_MODE = _choice("delta.columnMapping.mode", "none", "none", "name", "id", is_checked=True)
MAX_COLUMN_ID = _whole("delta.columnMapping.maxColumnId", "0", 0, settable=False)
SYMLINK_MANIFEST = _boolean("delta.compatibility.symlinkFormatManifest.enabled")
INDEXED_COLUMNS_LIMIT = _whole("delta.dataSkippingNumIndexedCols", "32", -1)
INDEXED_COLUMNS = _text("delta.dataSkippingStatsColumns")
#: How long files that the log no longer names stay, for readers of old versions.
FILE_RETENTION = _interval("delta.deletedFileRetentionDuration", "interval 1 week")
TRUNCATED_HISTORY_RETENTION = _interval("delta.dropFeatureTruncateHistory.retentionDuration", "interval 24 hours")
#: The older name of :data:`CHANGE_DATA_FEED`.
CHANGE_DATA_CAPTURE = _boolean("delta.enableChangeDataCapture", on=Concern.REMOVED_ROWS)
CHANGE_DATA_FEED = _boolean("delta.enableChangeDataFeed", on=Concern.REMOVED_ROWS)
DELETION_VECTORS = _boolean("delta.enableDeletionVectors", off=Concern.MARKED_ROWS)
EXPIRED_LOG_CLEANUP = _boolean("delta.enableExpiredLogCleanup", "true")
ICEBERG_COMPAT_V1 = _boolean("delta.enableIcebergCompatV1", None, on=Concern.NEW_FILES)
ICEBERG_COMPAT_V2 = _boolean("delta.enableIcebergCompatV2", None, on=Concern.NEW_FILES)
ICEBERG_COMPAT_V3 = _boolean("delta.enableIcebergCompatV3", None, on=Concern.NEW_FILES)
IN_COMMIT_TIMESTAMPS = _boolean("delta.enableInCommitTimestamps")
MATERIALIZED_PARTITION_COLUMNS = _boolean("delta.enableMaterializePartitionColumnsFeature", None, on=Concern.NEW_FILES)
ROW_TRACKING = _boolean("delta.enableRowTracking")
TYPE_WIDENING = _boolean("delta.enableTypeWidening")
VARIANT_SHREDDING = _boolean("delta.enableVariantShredding", on=Concern.NEW_FILES)
IGNORE_PROTOCOL_DEFAULTS = _boolean("delta.ignoreProtocolDefaults")
#: The first version with an in-commit timestamp, where not every version has one, and that timestamp.
IN_COMMIT_TIMESTAMPS_SINCE = _Since(
    _whole("delta.inCommitTimestampEnablementVersion", None, 0, settable=False),
    _whole("delta.inCommitTimestampEnablementTimestamp", None, 0, settable=False),
)
ISOLATION_LEVEL = _choice(
    "delta.isolationLevel",
    "WriteSerializable",
    *("Serializable", "WriteSerializable"),
    concerns={"serializable": Concern.READERS},
)
#: How long versions stay that a checkpoint covers.
LOG_RETENTION = _interval("delta.logRetentionDuration", "interval 30 days")
#: What a user asks of the protocol's versions; the log has them in the protocol alone.
MIN_READER_VERSION = _whole("delta.minReaderVersion", None, 1)
MIN_WRITER_VERSION = _whole("delta.minWriterVersion", None, 1)
COMPRESSION_CODEC = _choice(
    "delta.parquet.compression.codec",
    None,
    *("uncompressed", "none", "snappy", "gzip", "lz4", "lz4_raw", "zstd", "brotli"),
)
#: The first version that checkpoint protection does not protect.
PROTECTED_BEFORE = _whole("delta.requireCheckpointProtectionBeforeVersion", "0", 0, settable=False)
ROW_TRACKING_SUSPENDED = _boolean("delta.rowTrackingSuspended")
ROW_ID_COLUMN = _column_name("delta.rowTracking.materializedRowIdColumnName")
ROW_COMMIT_VERSION_COLUMN = _column_name("delta.rowTracking.materializedRowCommitVersionColumnName")
#: How large OPTIMIZE, auto-compaction and optimized writes make files, in bytes.
TARGET_FILE_SIZE = _size("delta.targetFileSize")
#: Whether a table takes the rows that expectations of other tables turn away.
TAKES_QUARANTINED = _boolean("headwater.quarantine")
TRANSACTION_RETENTION = _interval("delta.setTransactionRetentionDuration", None)
#: How long COPY INTO knows of a file that it has loaded, since it last saw the file.
COPY_RETENTION = _interval("headwater.copyInto.retentionDuration", "interval 365 days")
#: Tells the files that COPY INTO has loaded from those of a table that this one replaced.
COPY_GENERATION = _text("headwater.copyInto.generation", settable=False)
#: The formats whose metadata a writer with UniForm keeps beside the log.
UNIVERSAL_FORMATS = _text("delta.universalFormat.enabledFormats")
#: Before the name of a format and a property that its metadata shall have.
UNIVERSAL_CONFIG_PREFIX = "delta.universalFormat.config."
PARTITION_COLUMNS_IN_FILES = _boolean("delta.writePartitionColumnsToParquet", None)
#: Whether scheduled maintenance takes the table; without it, what its schema says counts.
PREDICTIVE_OPTIMIZATION = _choice("headwater.predictiveOptimization", None, "ENABLE", "DISABLE")

_UNUSED: tuple[Property[Any], ...] = (
    _boolean("delta.castIcebergTimeType", unused=_CONVERT),
    _interval(
        "delta.checkpointRetentionDuration",
        "interval 2 days",
        unused=f"checkpoints are deleted with the commits before them, after {LOG_RETENTION.name}",
    ),
    _whole(
        "delta.dataSkippingStringPrefixLength",
        None,
        0,
        unused="statistics keep prefixes of a length of their own",
    ),
    _boolean("delta.enableFullRetentionRollback", "true", unused=f"RESTORE goes back as far as {FILE_RETENTION.name}"),
    _boolean("delta.ignoreIcebergBucketPartition", unused=_CONVERT),
    _pattern(
        "delta.parquet.format.version",
        "1.0.0",
        r"1\.0\.0|2\.\d+\.\d+",
        "1.0.0 or 2.x.x",
        unused="Spark writes the version it is set to",
    ),
    _boolean("delta.randomizeFilePrefixes", unused=_NO_PREFIXES),
    _whole("delta.randomPrefixLength", "2", 1, unused=_NO_PREFIXES),
    _interval("delta.sampleRetentionDuration", "interval 7 days", unused="no samples are kept"),
    _boolean("delta.tuneFileSizesForRewrites", None, unused=_FILE_SIZES),
)

#: All known properties by name.
PROPERTIES: Mapping[str, Property[Any]] = {
    known.name: known
    for known in (
        *(value for value in list(globals().values()) if isinstance(value, Property)),
        *IN_COMMIT_TIMESTAMPS_SINCE,
        *_UNUSED,
    )
}
_BY_FOLDED_NAME = {name.lower(): name for name in PROPERTIES}
#: Properties whose names the user makes up; their values are checked where they are used.
_OPEN_PREFIXES = (CONSTRAINT_PREFIX, FEATURE_PREFIX, UNIVERSAL_CONFIG_PREFIX)


def canonical_name(name: str, *, allow_arbitrary: bool = False) -> str:
    """A property's one spelling; names without the ``delta.`` prefix are the user's own and stay as they are, but for
    those of indexes, which are in lower case.

    :raises HeadwaterError: ``DELTA_UNKNOWN_CONFIGURATION`` for an unknown ``delta.`` name unless ``allow_arbitrary``.
    """
    folded = name.lower()
    if folded in _BY_FOLDED_NAME:
        return _BY_FOLDED_NAME[folded]
    if folded.startswith(INDEX_PREFIX):
        return folded
    if not folded.startswith(PREFIX):
        return name
    for prefix in _OPEN_PREFIXES:
        if folded.startswith(prefix.lower()) and len(name) > len(prefix):
            return prefix + name[len(prefix) :]
    if allow_arbitrary:
        return name
    suggestion = did_you_mean(name, _BY_FOLDED_NAME.values())
    raise HeadwaterError("DELTA_UNKNOWN_CONFIGURATION", {"config": name, "suggestion": suggestion})


def validate(name: str, value: str) -> None:
    """Refuse a value the property cannot have; unknown names pass.

    :raises HeadwaterError: ``DELTA_INVALID_PROPERTY_VALUE``, ``DELTA_INVALID_INTERVAL``,
        ``DELTA_INVALID_ISOLATION_LEVEL``.
    """
    known = PROPERTIES.get(_BY_FOLDED_NAME.get(name.lower(), ""))
    if known is None or known.accepts(value):
        return
    if known is ISOLATION_LEVEL:
        raise HeadwaterError("DELTA_INVALID_ISOLATION_LEVEL", {"isolationLevel": value})
    raise _invalid(known.name, value, known.expected)


def normalize(properties: Mapping[str, str], *, allow_arbitrary: bool = False) -> dict[str, str]:
    """The properties a user sets, under their canonical names, each validated.

    :raises HeadwaterError: as :func:`canonical_name` and :func:`validate`; ``DELTA_CANNOT_MODIFY_TABLE_PROPERTY`` for
        one that only a writer may keep.
    """
    normal: dict[str, str] = {}
    for name, value in properties.items():
        canonical = canonical_name(name, allow_arbitrary=allow_arbitrary)
        known = PROPERTIES.get(canonical)
        if (known is not None and not known.settable) or canonical.lower().startswith(KEY_PREFIX):
            raise HeadwaterError("DELTA_CANNOT_MODIFY_TABLE_PROPERTY", {"prop": canonical})
        validate(canonical, value)
        normal[canonical] = value
    return normal


def session_defaults(session: Mapping[str, str], *, allow_arbitrary: bool = False) -> dict[str, str]:
    """The properties a session gives to each new table, normalised.

    :param session: the session's settings.
    :raises HeadwaterError: as :func:`normalize`.
    """
    prefix = SESSION_DEFAULTS_PREFIX
    return normalize(
        {PREFIX + key[len(prefix) :]: value for key, value in session.items() if key.startswith(prefix)},
        allow_arbitrary=allow_arbitrary,
    )


def for_new_table(
    properties: Mapping[str, str], session: Mapping[str, str], *, allow_arbitrary: bool = False
) -> dict[str, str]:
    """The configuration of a new table: what the statement sets, over what the session gives by default.

    :raises HeadwaterError: as :func:`normalize`.
    """
    defaults = session_defaults(session, allow_arbitrary=allow_arbitrary)
    return {**defaults, **normalize(properties, allow_arbitrary=allow_arbitrary)}


def with_log_of(configuration: Mapping[str, str], before: Mapping[str, str]) -> dict[str, str]:
    """A configuration that takes the place of another, with what that one says of the log: what commits there are does
    not change with the definition.
    """
    kept = [PROTECTED_BEFORE.name]
    if IN_COMMIT_TIMESTAMPS.of(before) and IN_COMMIT_TIMESTAMPS.of(configuration):
        kept += [known.name for known in IN_COMMIT_TIMESTAMPS_SINCE]
    others = {name: value for name, value in configuration.items() if name not in kept}
    return others | {name: before[name] for name in kept if name in before}


def universal_formats(configuration: Mapping[str, str]) -> frozenset[str]:
    """The formats whose metadata a table wants, in lower case."""
    return frozenset(UNIVERSAL_FORMATS.of(configuration).lower().replace(",", " ").split())


def check_retention(given: Mapping[str, str], configuration: Mapping[str, str]) -> None:
    """Refuse to keep the log for less time than deleted files: VACUUM LITE, time travel and RESTORE need the log's
    part of these files.

    :param given: what a statement sets; nothing is checked where it sets neither of the two.
    :param configuration: all properties as they will be.
    :raises HeadwaterError: ``DELTA_INVALID_PROPERTY_VALUE``.
    """
    sets_log = LOG_RETENTION.name in given
    if not sets_log and FILE_RETENTION.name not in given:
        return
    if LOG_RETENTION.of(configuration) >= FILE_RETENTION.of(configuration):
        return
    refused, other = (LOG_RETENTION, FILE_RETENTION) if sets_log else (FILE_RETENTION, LOG_RETENTION)
    expected = f"{'no shorter' if sets_log else 'no longer'} than {other.name}, which is {other.text(configuration)}"
    raise _invalid(refused.name, configuration[refused.name], expected)
