"""The protocol that a table needs, from its metadata.

Owns which features a schema and table properties need, what properties ask of the protocol, and the step from both to
the ``protocol`` action. Follows the protocol's chapters "Protocol Evolution" and "Table Features". Promise: the result
is the narrowest protocol with every feature that is needed and every feature the table had; only
:func:`without_feature` takes one away. Where a legacy pair of versions implies exactly the needed features, the result
is that pair; otherwise it lists the features by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from headwater.basics.errors import HeadwaterError
from headwater.protocol import properties
from headwater.protocol.actions import Metadata, Protocol
from headwater.protocol.columns import all_fields, parts
from headwater.protocol.features import (
    CATALOG_MANAGED,
    FEATURES,
    READER_VERSION_WITH_FEATURES,
    WRITER_VERSION_WITH_FEATURES,
    implied_features,
    supported_features,
    supported_reader_features,
    supports,
)
from headwater.protocol.properties import FEATURE_PREFIX
from headwater.protocol.types import PrimitiveType, SpatialType, StructType

#: The versions of a new table that needs no feature.
DEFAULT_READER, DEFAULT_WRITER = 1, 2

_BY_FOLDED_NAME = {name.lower(): name for name in FEATURES}
#: Few readers know the other name.
_BY_FOLDED_NAME["timestampwithouttimezone"] = "timestampNtz"
_LEGACY_PAIRS = ((1, 1), (1, 2), (1, 3), (1, 4), (2, 5), (2, 6))
#: The feature that a key in a column's metadata needs, at any depth.
_BY_COLUMN_KEY = {
    key: feature.name for feature in FEATURES.values() for key in (*feature.column_keys, *feature.column_records)
}
#: The feature that a column of a primitive type needs, at any depth.
_BY_TYPE = {name: feature.name for feature in FEATURES.values() for name in feature.types}
#: The features that a column needs that is NOT NULL, at any depth.
_BY_NOT_NULL = frozenset(feature.name for feature in FEATURES.values() if feature.not_null)


def needed_features(metadata: Metadata) -> frozenset[str]:
    """The features that a table's schema and configuration use, and the features those require in turn.

    ``delta.feature.*`` and version properties are requests, not uses, and do not count here.
    """
    needed = {feature.name for feature in FEATURES.values() if feature.is_used_by(metadata.configuration)}
    return _closed(needed | _schema_features(metadata.schema))


def _schema_features(schema: StructType) -> set[str]:
    needed: set[str] = set()
    for _, field in all_fields(schema):
        names = (kind.name for kind, _ in parts(field.type) if isinstance(kind, PrimitiveType | SpatialType))
        needed |= {_BY_TYPE[name] for name in names if name in _BY_TYPE}
        needed |= {_BY_COLUMN_KEY[key] for key in field.metadata if key in _BY_COLUMN_KEY}
        if not field.nullable:
            needed |= _BY_NOT_NULL
    return needed


def _closed(features: Iterable[str]) -> frozenset[str]:
    closed: set[str] = set()
    waiting = list(features)
    while waiting:
        name = waiting.pop()
        if name not in closed:
            closed.add(name)
            waiting += FEATURES[name].requires if name in FEATURES else ()
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
        ``DELTA_UNSUPPORTED_FEATURE_STATUS``, ``DELTA_UNSUPPORTED_CATALOG_MANAGED_TABLE_CREATION``.
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
        elif name == "catalogManaged":
            raise HeadwaterError(
                "DELTA_UNSUPPORTED_CATALOG_MANAGED_TABLE_CREATION", {"property": f"{FEATURE_PREFIX}{name}"}
            )
        else:
            features.add(name)
    if unknown:
        raise HeadwaterError(
            "DELTA_UNSUPPORTED_FEATURES_IN_CONFIG",
            {"configurations": ", ".join(sorted(unknown)), "known": ", ".join(sorted(FEATURES))},
        )
    return Request(
        _version(folded, properties.MIN_READER_VERSION.name, READER_VERSION_WITH_FEATURES),
        _version(folded, properties.MIN_WRITER_VERSION.name, WRITER_VERSION_WITH_FEATURES),
        frozenset(features),
        folded.get(properties.IGNORE_PROTOCOL_DEFAULTS.name.lower(), "false").lower() == "true",
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
    taken = (
        properties.MIN_READER_VERSION.name.lower(),
        properties.MIN_WRITER_VERSION.name.lower(),
        properties.IGNORE_PROTOCOL_DEFAULTS.name.lower(),
    )
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
    :raises HeadwaterError: ``DELTA_FEATURES_REQUIRE_MANUAL_ENABLEMENT`` if an existing table's new schema needs a
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


def managed(protocol: Protocol, of_catalog: bool) -> Protocol:
    """The protocol of a table that a catalog manages, or that none manages."""
    readers, writers = supported_reader_features(protocol), supported_features(protocol)
    if of_catalog:
        return Protocol(3, 7, frozenset({*readers, CATALOG_MANAGED}), frozenset({*writers, CATALOG_MANAGED}))
    if CATALOG_MANAGED not in writers:
        return protocol
    return replace(protocol, reader_features=readers - {CATALOG_MANAGED}, writer_features=writers - {CATALOG_MANAGED})


def without_feature(protocol: Protocol, feature: str, added: Iterable[str] = ()) -> Protocol:
    """The narrowest protocol with the features of a table but one; its versions may be lower.

    :param added: features that the table gets in exchange.
    """
    return _narrowest((supported_features(protocol) | frozenset(added)) - {feature}, None)


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
    if current is None or current.min_writer_version < WRITER_VERSION_WITH_FEATURES:
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
    reader = max(least_reader, READER_VERSION_WITH_FEATURES if native else 2 if "columnMapping" in features else 1)
    return Protocol(
        reader,
        WRITER_VERSION_WITH_FEATURES,
        reader_features if reader >= READER_VERSION_WITH_FEATURES else None,
        features,
    )
