"""Which protocol a table needs.

Owns the list of table features with the versions that imply them, and the step from a table's metadata to its
``protocol`` action. Follows the protocol's chapters "Protocol Evolution", "Table Features" and "Valid Feature Names in
Table Features". Promise: the result is the narrowest protocol that has every feature needed and every one the table
had; nothing is ever taken away. Where exactly the features of a legacy version pair are needed it is that pair,
otherwise features are listed by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headwater.errors import HeadwaterError
from headwater.protocol.actions import Metadata, Protocol
from headwater.protocol.types import ArrayType, DataType, MapType, PrimitiveType, StructType, parse_schema
from headwater.schema.columns import all_fields
from headwater.schema.constraints import CONSTRAINT_PREFIX, INVARIANTS, has_defaults
from headwater.schema.generated import has_generated_columns
from headwater.schema.identity import is_identity

TABLE_FEATURES_READER, TABLE_FEATURES_WRITER = 3, 7
MIN_READER, MIN_WRITER = "delta.minReaderVersion", "delta.minWriterVersion"
FEATURE_PREFIX = "delta.feature."
IGNORE_DEFAULTS = "delta.ignoreProtocolDefaults"
#: The versions of a table for which nothing else is asked.
DEFAULT_READER, DEFAULT_WRITER = 1, 2


@dataclass(frozen=True)
class Feature:
    """A table feature. ``reader``: readers must support it too. ``legacy``: the (reader, writer) versions that imply
    it.

    ``manual``: an existing table gets it only when a user names it, as it shuts out readers that no setting was about.
    """

    name: str
    reader: bool = False
    legacy: tuple[int, int] | None = None
    requires: tuple[str, ...] = ()
    manual: bool = False


FEATURES: Mapping[str, Feature] = {
    feature.name: feature
    for feature in (
        Feature("appendOnly", legacy=(1, 2)),
        Feature("invariants", legacy=(1, 2)),
        Feature("checkConstraints", legacy=(1, 3)),
        Feature("changeDataFeed", legacy=(1, 4)),
        Feature("generatedColumns", legacy=(1, 4)),
        Feature("columnMapping", reader=True, legacy=(2, 5)),
        Feature("identityColumns", legacy=(1, 6)),
        Feature("allowColumnDefaults", manual=True),
        Feature("deletionVectors", reader=True),
        Feature("rowTracking", requires=("domainMetadata",)),
        Feature("timestampNtz", reader=True, manual=True),
        Feature("domainMetadata"),
        Feature("v2Checkpoint", reader=True),
        Feature("catalogManaged", reader=True, requires=("inCommitTimestamp", "vacuumProtocolCheck")),
        Feature("icebergCompatV1", requires=("columnMapping",)),
        Feature("icebergCompatV2", requires=("columnMapping",)),
        Feature("icebergCompatV3", requires=("columnMapping", "rowTracking")),
        Feature("clustering", requires=("domainMetadata",)),
        Feature("vacuumProtocolCheck", reader=True),
        Feature("inCommitTimestamp"),
        Feature("typeWidening", reader=True),
        Feature("typeWidening-preview", reader=True),
        Feature("variantType", reader=True),
        Feature("variantType-preview", reader=True),
        Feature("variantShredding", reader=True, requires=("variantType",)),
        Feature("variantShredding-preview", reader=True),
        Feature("checkpointProtection"),
        Feature("materializePartitionColumns"),
    )
}
_BY_FOLDED_NAME = {name.lower(): name for name in FEATURES}
_LEGACY_PAIRS = ((1, 1), (1, 2), (1, 3), (1, 4), (2, 5), (2, 6))

#: Properties that, where true, need a feature.
_SWITCHES = {
    "delta.appendOnly": "appendOnly",
    "delta.enableChangeDataFeed": "changeDataFeed",
    "delta.enableChangeDataCapture": "changeDataFeed",
    "delta.enableDeletionVectors": "deletionVectors",
    "delta.enableRowTracking": "rowTracking",
    "delta.enableInCommitTimestamps": "inCommitTimestamp",
    "delta.enableTypeWidening": "typeWidening",
    "delta.enableVariantShredding": "variantShredding",
    "delta.enableIcebergCompatV1": "icebergCompatV1",
    "delta.enableIcebergCompatV2": "icebergCompatV2",
    "delta.enableIcebergCompatV3": "icebergCompatV3",
    "delta.enableMaterializePartitionColumnsFeature": "materializePartitionColumns",
}
#: A preview name that does for the final one where a table has it already.
_STANDS_IN = {
    "typeWidening": "typeWidening-preview",
    "variantType": "variantType-preview",
    "variantShredding": "variantShredding-preview",
}


def implied_features(reader: int, writer: int) -> frozenset[str]:
    """What a legacy version pair supports; nothing for writer version 7, where every feature has to be listed."""
    if writer >= TABLE_FEATURES_WRITER:
        return frozenset()
    return frozenset(f.name for f in FEATURES.values() if f.legacy and f.legacy[0] <= reader and f.legacy[1] <= writer)


def supported_features(protocol: Protocol) -> frozenset[str]:
    """Every feature a table supports, listed or implied."""
    listed = (protocol.writer_features or frozenset()) | (protocol.reader_features or frozenset())
    return listed | implied_features(protocol.min_reader_version, protocol.min_writer_version)


def supports(protocol: Protocol, feature: str) -> bool:
    """Whether a table supports a feature, under its own name or the name of its preview."""
    supported = supported_features(protocol)
    return feature in supported or _STANDS_IN.get(feature) in supported


def needed_features(metadata: Metadata) -> frozenset[str]:
    """The features a table's schema and configuration make use of, and what those require in turn.

    ``delta.feature.*`` and version properties are requests, not uses, and do not count here.
    """
    configuration = metadata.configuration
    needed = {feature for name, feature in _SWITCHES.items() if configuration.get(name, "").lower() == "true"}
    if any(key.lower().startswith(CONSTRAINT_PREFIX) for key in configuration):
        needed.add("checkConstraints")
    if configuration.get("delta.columnMapping.mode", "none").lower() != "none":
        needed.add("columnMapping")
    if configuration.get("delta.checkpointPolicy", "classic").lower() == "v2":
        needed.add("v2Checkpoint")
    return _closed(needed | _schema_features(parse_schema(metadata.schema_string)))


def _schema_features(schema: StructType) -> set[str]:
    needed: set[str] = set()
    names = _primitive_names(schema)
    if "timestamp_ntz" in names:
        needed.add("timestampNtz")
    if "variant" in names:
        needed.add("variantType")
    for _, field in all_fields(schema):
        if not field.nullable or INVARIANTS in field.metadata:
            needed.add("invariants")
        if is_identity(field):
            needed.add("identityColumns")
    if has_generated_columns(schema):
        needed.add("generatedColumns")
    if has_defaults(schema):
        needed.add("allowColumnDefaults")
    return needed


def _primitive_names(kind: DataType) -> set[str]:
    match kind:
        case PrimitiveType(name):
            return {name}
        case StructType():
            return set().union(*(_primitive_names(f.type) for f in kind))
        case ArrayType():
            return _primitive_names(kind.element)
        case MapType():
            return _primitive_names(kind.key) | _primitive_names(kind.value)
    return set()


def _closed(features: Iterable[str]) -> frozenset[str]:
    closed: set[str] = set()
    waiting = list(features)
    while waiting:
        name = waiting.pop()
        if name not in closed:
            closed.add(name)
            waiting += FEATURES[name].requires
    return frozenset(closed)


@dataclass(frozen=True)
class Request:
    """What table properties ask of the protocol: versions, None where not named, and features."""

    reader: int | None = None
    writer: int | None = None
    features: frozenset[str] = frozenset()
    ignore_defaults: bool = False


def requested(configuration: Mapping[str, str]) -> Request:
    """The request that ``delta.minReaderVersion``, ``delta.minWriterVersion`` and ``delta.feature.*`` make.

    :raises HeadwaterError: ``DELTA_PROTOCOL_PROPERTY_NOT_INT``, ``DELTA_UNSUPPORTED_FEATURES_IN_CONFIG``,
        ``DELTA_UNSUPPORTED_FEATURE_STATUS``.
    """
    folded = {key.lower(): value for key, value in configuration.items()}
    features: set[str] = set()
    unknown: list[str] = []
    for key, value in folded.items():
        if not key.startswith(FEATURE_PREFIX):
            continue
        name = _BY_FOLDED_NAME.get(key[len(FEATURE_PREFIX) :])
        if name is None:
            unknown.append(key)
        elif value.lower() not in ("supported", "enabled"):
            raise HeadwaterError("DELTA_UNSUPPORTED_FEATURE_STATUS", {"feature": name, "status": value})
        else:
            features.add(name)
    if unknown:
        raise HeadwaterError(
            "DELTA_UNSUPPORTED_FEATURES_IN_CONFIG",
            {"configurations": ", ".join(sorted(unknown)), "known": ", ".join(sorted(FEATURES))},
        )
    return Request(
        _version(folded, MIN_READER, TABLE_FEATURES_READER),
        _version(folded, MIN_WRITER, TABLE_FEATURES_WRITER),
        frozenset(features),
        folded.get(IGNORE_DEFAULTS.lower(), "false").lower() == "true",
    )


def _version(folded: Mapping[str, str], name: str, highest: int) -> int | None:
    text = folded.get(name.lower())
    if text is None:
        return None
    if not text.strip().isdecimal() or not 1 <= int(text) <= highest:
        raise HeadwaterError("DELTA_PROTOCOL_PROPERTY_NOT_INT", {"key": name, "value": text, "highest": highest})
    return int(text)


def without_protocol_properties(configuration: Mapping[str, str]) -> dict[str, str]:
    """The configuration as the log must have it: what :func:`requested` reads lives in the protocol action alone."""
    taken = (MIN_READER.lower(), MIN_WRITER.lower(), IGNORE_DEFAULTS.lower())
    return {
        key: value
        for key, value in configuration.items()
        if key.lower() not in taken and not key.lower().startswith(FEATURE_PREFIX)
    }


def protocol_for(metadata: Metadata, current: Protocol | None = None, extra: Iterable[str] = ()) -> Protocol:
    """The protocol a table needs for ``metadata``.

    :param metadata: its configuration may still have the properties :func:`without_protocol_properties` takes away.
    :param current: the table's protocol, None for a new table; the same object comes back where it will do.
    :param extra: names of features needed for other reasons: a domain's metadata, clustering, a feature the caller
        decided on.
    :raises HeadwaterError: ``DELTA_FEATURES_REQUIRE_MANUAL_ENABLEMENT`` where an existing table's new schema needs a
        feature that only the user may decide on; and those of :func:`requested`.
    """
    request = requested(metadata.configuration)
    named = _closed([*request.features, *extra])
    needed = needed_features(metadata)
    if current is None:
        base = (1, 1) if request.ignore_defaults else (DEFAULT_READER, DEFAULT_WRITER)
        had: frozenset[str] = frozenset()
        wanted = implied_features(request.reader or base[0], request.writer or base[1])
    else:
        had = supported_features(current)
        wanted = implied_features(max(request.reader or 1, current.min_reader_version), request.writer or 1)
        _check_manual(needed - named, current)
        needed = frozenset(name for name in needed if not supports(current, name))
    features = had | wanted | needed | named
    if current is not None and features == had:
        return current
    return _narrowest(features, current)


def _check_manual(needed: frozenset[str], current: Protocol) -> None:
    manual = sorted(name for name in needed if FEATURES[name].manual and not supports(current, name))
    if manual:
        raise HeadwaterError(
            "DELTA_FEATURES_REQUIRE_MANUAL_ENABLEMENT",
            {
                "features": ", ".join(manual),
                "properties": ", ".join(f"'{FEATURE_PREFIX}{name}' = 'supported'" for name in manual),
            },
        )


def _narrowest(features: frozenset[str], current: Protocol | None) -> Protocol:
    least_reader = current.min_reader_version if current else 1
    if current is None or current.min_writer_version < TABLE_FEATURES_WRITER:
        least_writer = current.min_writer_version if current else 1
        for reader, writer in _LEGACY_PAIRS:
            if implied_features(reader, writer) == features and reader >= least_reader and writer >= least_writer:
                return Protocol(reader, writer)
    reader_features = frozenset(n for n in features if n not in FEATURES or FEATURES[n].reader)
    # Names this version does not know can only come from the table's own lists; each stays in those it was in.
    if current is not None:
        known_to_readers = current.reader_features or frozenset()
        reader_features = frozenset(n for n in reader_features if n in FEATURES or n in known_to_readers)
    native = any(n not in FEATURES or FEATURES[n].legacy is None for n in reader_features)
    reader = max(least_reader, TABLE_FEATURES_READER if native else 2 if "columnMapping" in features else 1)
    return Protocol(
        reader,
        TABLE_FEATURES_WRITER,
        reader_features if reader >= TABLE_FEATURES_READER else None,
        features,
    )
