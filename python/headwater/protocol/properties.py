"""Table properties: the ``delta.*`` names, what values they take, and their defaults.

Owns the list of known properties, spelling and validation when a user sets one, the session's defaults for new tables,
and typed reading. Follows the protocol's chapter "Table Properties" and the properties its other chapters name.
Promise: reading never fails for a property a writer of this list accepted; names compare ignoring case and are stored
in their one spelling.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from headwater.errors import HeadwaterError
from headwater.suggestions import did_you_mean

PREFIX = "delta."
#: The name of a CHECK constraint follows it; the value is its condition, Spark SQL.
CONSTRAINT_PREFIX = "delta.constraints."
#: The name of a table feature follows it; the value asks for the feature.
FEATURE_PREFIX = "delta.feature."
#: Session settings that give new tables a property: what follows the prefix is the name without ``delta.``.
SESSION_DEFAULTS_PREFIX = "spark.databricks.delta.properties.defaults."
#: The formats whose metadata a writer with UniForm keeps beside the log.
UNIVERSAL_FORMATS = "delta.universalFormat.enabledFormats"
LOG_RETENTION = "delta.logRetentionDuration"
FILE_RETENTION = "delta.deletedFileRetentionDuration"
#: The session setting that lets any ``delta.`` name through.
ALLOW_ARBITRARY = "spark.databricks.delta.allowArbitraryProperties.enabled"

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


#: The longest interval, in milliseconds: what other engines and Arrow can hold.
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
    """Bytes of a size like ``134217728`` or ``128mb``.

    :raises ValueError: where it is none.
    """
    match = _BYTES.fullmatch(text.strip())
    if not match:
        raise ValueError(text)
    return int(match.group(1)) * _BYTE_UNITS[match.group(2).lower()]


@dataclass(frozen=True)
class Property:
    """A known property. ``accepts`` returns whether a text is a valid value, ``expected`` says in words which are.

    ``unused`` says why nothing here acts on it, in a sentence; None of one that something does. A property that is
    unused is recorded, for other engines and for versions to come, and whoever sets it is warned.
    """

    name: str
    default: str | None
    accepts: Callable[[str], bool]
    expected: str
    settable: bool = True
    unused: str | None = None


def _boolean(name: str, default: str | None = "false") -> Property:
    return Property(name, default, lambda text: text.lower() in ("true", "false"), "true or false")


def _whole(name: str, default: str | None, lowest: int, *, settable: bool = True) -> Property:
    def accepts(text: str) -> bool:
        try:
            return int(text) >= lowest
        except ValueError:
            return False

    return Property(name, default, accepts, f"a whole number, {lowest} or more", settable)


def _interval(name: str, default: str | None) -> Property:
    def accepts(text: str) -> bool:
        return parse_interval(text) >= 0

    return Property(name, default, accepts, "an interval that is not negative, like 'interval 7 days'")


def _choice(name: str, default: str | None, *choices: str) -> Property:
    folded = {choice.lower() for choice in choices}
    return Property(name, default, lambda text: text.lower() in folded, " or ".join(choices))


def _text(name: str, default: str | None = None, *, settable: bool = True) -> Property:
    return Property(name, default, lambda text: True, "any text", settable)


def _size(name: str) -> Property:
    def accepts(text: str) -> bool:
        try:
            return parse_bytes(text) > 0
        except ValueError:
            return False

    return Property(name, None, accepts, "a size above 0 like '128mb' or a number of bytes")


def _pattern(name: str, default: str, pattern: str, expected: str) -> Property:
    return Property(name, default, lambda text: re.fullmatch(pattern, text) is not None, expected)


_FILE_SIZES = (
    "settings say how large files become: spark.databricks.delta.optimize.maxFileSize, "
    "spark.databricks.delta.autoCompact.maxFileSize and spark.databricks.delta.optimizeWrite.binSize"
)
_CONVERT = "CONVERT TO DELTA is not there yet"


def _unused(why: str, known: Property) -> Property:
    return replace(known, unused=why)


PROPERTIES: Mapping[str, Property] = {
    known.name: known
    for known in (
        _boolean("delta.appendOnly"),
        _boolean("delta.autoOptimize", None),
        _choice("delta.autoOptimize.autoCompact", None, "true", "false", "auto"),
        _boolean("delta.autoOptimize.optimizeWrite", None),
        _unused(_CONVERT, _boolean("delta.castIcebergTimeType")),
        _whole("delta.checkpointInterval", "10", 1),
        _whole("delta.checkpoint.partSize", None, 1),
        _choice("delta.checkpointPolicy", "classic", "classic", "v2"),
        _unused(
            "checkpoints are deleted with the commits before them, after delta.logRetentionDuration",
            _interval("delta.checkpointRetentionDuration", "interval 2 days"),
        ),
        _boolean("delta.checkpoint.writeStatsAsJson", "true"),
        _boolean("delta.checkpoint.writeStatsAsStruct", "true"),
        _choice("delta.columnMapping.mode", "none", "none", "name", "id"),
        _whole("delta.columnMapping.maxColumnId", "0", 0, settable=False),
        _boolean("delta.compatibility.symlinkFormatManifest.enabled"),
        _whole("delta.dataSkippingNumIndexedCols", "32", -1),
        _text("delta.dataSkippingStatsColumns"),
        _unused(
            "statistics keep prefixes of a length of their own", _whole("delta.dataSkippingStringPrefixLength", None, 0)
        ),
        _interval("delta.deletedFileRetentionDuration", "interval 1 week"),
        _interval("delta.dropFeatureTruncateHistory.retentionDuration", "interval 24 hours"),
        _boolean("delta.enableChangeDataCapture"),
        _boolean("delta.enableChangeDataFeed"),
        _boolean("delta.enableDeletionVectors"),
        _boolean("delta.enableExpiredLogCleanup", "true"),
        _unused(
            "RESTORE goes back as far as delta.deletedFileRetentionDuration",
            _boolean("delta.enableFullRetentionRollback", "true"),
        ),
        _boolean("delta.enableIcebergCompatV1", None),
        _boolean("delta.enableIcebergCompatV2", None),
        _boolean("delta.enableIcebergCompatV3", None),
        _boolean("delta.enableInCommitTimestamps"),
        _boolean("delta.enableMaterializePartitionColumnsFeature", None),
        _boolean("delta.enableRowTracking"),
        _boolean("delta.enableTypeWidening"),
        _boolean("delta.enableVariantShredding"),
        _unused(_CONVERT, _boolean("delta.ignoreIcebergBucketPartition")),
        _boolean("delta.ignoreProtocolDefaults"),
        _whole("delta.inCommitTimestampEnablementTimestamp", None, 0, settable=False),
        _whole("delta.inCommitTimestampEnablementVersion", None, 0, settable=False),
        _choice("delta.isolationLevel", "WriteSerializable", "Serializable", "WriteSerializable"),
        _interval("delta.logRetentionDuration", "interval 30 days"),
        _whole("delta.minReaderVersion", None, 1),
        _whole("delta.minWriterVersion", None, 1),
        _choice(
            "delta.parquet.compression.codec",
            None,
            *("uncompressed", "none", "snappy", "gzip", "lz4", "lz4_raw", "zstd", "brotli"),
        ),
        _unused(
            "Spark writes the version it is set to",
            _pattern("delta.parquet.format.version", "1.0.0", r"1\.0\.0|2\.\d+\.\d+", "1.0.0 or 2.x.x"),
        ),
        _unused("files are named and placed without random prefixes", _boolean("delta.randomizeFilePrefixes")),
        _unused("files are named and placed without random prefixes", _whole("delta.randomPrefixLength", "2", 1)),
        _whole("delta.requireCheckpointProtectionBeforeVersion", "0", 0, settable=False),
        _boolean("delta.rowTrackingSuspended"),
        _text("delta.rowTracking.materializedRowIdColumnName", settable=False),
        _text("delta.rowTracking.materializedRowCommitVersionColumnName", settable=False),
        _unused("no samples are kept", _interval("delta.sampleRetentionDuration", "interval 7 days")),
        _interval("delta.setTransactionRetentionDuration", None),
        _unused(_FILE_SIZES, _size("delta.targetFileSize")),
        _unused(_FILE_SIZES, _boolean("delta.tuneFileSizesForRewrites", None)),
        _text(UNIVERSAL_FORMATS),
        _boolean("delta.writePartitionColumnsToParquet", None),
    )
}
_BY_FOLDED_NAME = {name.lower(): name for name in PROPERTIES}
#: Properties whose names the user makes up; their values are checked where they are used.
_OPEN_PREFIXES = (CONSTRAINT_PREFIX, FEATURE_PREFIX, "delta.universalFormat.config.")


def canonical_name(name: str, *, allow_arbitrary: bool = False) -> str:
    """A property's one spelling; names without the ``delta.`` prefix are the user's own and stay as they are.

    :raises HeadwaterError: ``DELTA_UNKNOWN_CONFIGURATION`` for an unknown ``delta.`` name unless ``allow_arbitrary``.
    """
    folded = name.lower()
    if not folded.startswith(PREFIX):
        return name
    if folded in _BY_FOLDED_NAME:
        return _BY_FOLDED_NAME[folded]
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
    if known.name == "delta.isolationLevel":
        raise HeadwaterError("DELTA_INVALID_ISOLATION_LEVEL", {"isolationLevel": value})
    raise HeadwaterError(
        "DELTA_INVALID_PROPERTY_VALUE", {"property": known.name, "value": value, "expected": known.expected}
    )


def normalize(properties: Mapping[str, str], *, allow_arbitrary: bool = False) -> dict[str, str]:
    """The properties a user sets, under their canonical names, each validated.

    :raises HeadwaterError: as :func:`canonical_name` and :func:`validate`; ``DELTA_CANNOT_MODIFY_TABLE_PROPERTY`` for
        one that only a writer may keep.
    """
    normal: dict[str, str] = {}
    for name, value in properties.items():
        canonical = canonical_name(name, allow_arbitrary=allow_arbitrary)
        known = PROPERTIES.get(canonical)
        if known is not None and not known.settable:
            raise HeadwaterError("DELTA_CANNOT_MODIFY_TABLE_PROPERTY", {"prop": canonical})
        validate(canonical, value)
        normal[canonical] = value
    return normal


def session_defaults(session: Mapping[str, str]) -> dict[str, str]:
    """The properties a session gives to each new table, normalised.

    :param session: the session's settings.
    :raises HeadwaterError: as :func:`normalize`.
    """
    prefix = SESSION_DEFAULTS_PREFIX
    return normalize(
        {PREFIX + key[len(prefix) :]: value for key, value in session.items() if key.startswith(prefix)},
        allow_arbitrary=allows_arbitrary(session),
    )


def for_new_table(properties: Mapping[str, str], session: Mapping[str, str]) -> dict[str, str]:
    """The configuration of a new table: what the statement sets, over what the session gives by default.

    :raises HeadwaterError: as :func:`normalize`.
    """
    return {**session_defaults(session), **normalize(properties, allow_arbitrary=allows_arbitrary(session))}


def refuse_universal_format(
    configuration: Mapping[str, str], table: str, existing: Mapping[str, str] | None = None
) -> None:
    """Refuse to switch UniForm on; a table that has it already keeps what it has.

    :raises HeadwaterError: ``DELTA_UNIVERSAL_FORMAT_VIOLATION``.
    """
    formats = configuration.get(UNIVERSAL_FORMATS, "").strip()
    if formats and formats != (existing or {}).get(UNIVERSAL_FORMATS, "").strip():
        raise HeadwaterError("DELTA_UNIVERSAL_FORMAT_VIOLATION", {"tableName": table, "formats": formats})


def check_retention(given: Mapping[str, str], configuration: Mapping[str, str]) -> None:
    """Refuse to keep the log for less time than deleted files: VACUUM LITE, time travel and RESTORE need the log's
    part of these files.

    :param given: what a statement sets; nothing is checked where it sets neither of the two.
    :param configuration: all properties as they will be.
    :raises HeadwaterError: ``DELTA_INVALID_PROPERTY_VALUE``.
    """
    if not {LOG_RETENTION, FILE_RETENTION} & given.keys():
        return
    log, files = (milliseconds(configuration, name) or 0 for name in (LOG_RETENTION, FILE_RETENTION))
    if log >= files:
        return
    sets_log = LOG_RETENTION in given
    name, other = (LOG_RETENTION, FILE_RETENTION) if sets_log else (FILE_RETENTION, LOG_RETENTION)
    expected = f"{'no shorter' if sets_log else 'no longer'} than {other}, which is {text(configuration, other)}"
    raise HeadwaterError(
        "DELTA_INVALID_PROPERTY_VALUE", {"property": name, "value": configuration[name], "expected": expected}
    )


def allows_arbitrary(session: Mapping[str, str]) -> bool:
    return session.get(ALLOW_ARBITRARY, "false").lower() == "true"


def text(configuration: Mapping[str, str], name: str) -> str | None:
    """A property's value, its default where it is not set; ``name`` in its canonical spelling."""
    return configuration.get(name, PROPERTIES[name].default)


def boolean(configuration: Mapping[str, str], name: str) -> bool:
    """A switch; one that is neither set nor has a default is off."""
    return (text(configuration, name) or "false").lower() == "true"


def whole(configuration: Mapping[str, str], name: str) -> int | None:
    """A number, None where neither set nor with a default.

    :raises HeadwaterError: ``DELTA_INVALID_PROPERTY_VALUE`` where another writer stored none.
    """
    value = text(configuration, name)
    if value is not None and not PROPERTIES[name].accepts(value):
        validate(name, value)
    return None if value is None else int(value)


def milliseconds(configuration: Mapping[str, str], name: str) -> int | None:
    """An interval's length in milliseconds, at most :data:`LONGEST`; None where neither set nor with a default.

    :raises HeadwaterError: ``DELTA_INVALID_INTERVAL`` where another writer stored none, or one below zero.
    """
    value = text(configuration, name)
    if value is None:
        return None
    length = parse_interval(value)
    if length < 0:  # it would end in the future: what is being written would count as old
        raise HeadwaterError("DELTA_INVALID_INTERVAL", {"interval": value})
    return min(length, LONGEST)
