"""Protocol versions and table features: which tables can be read, and which can be written.

Owns the two lists of supported features and the one check that every reader and every writer goes through before it
does anything else. Follows the protocol's chapters "Table Features", "Reader Version Requirements" and "Writer
Version Requirements". Promise: a feature this version does not know is refused by its name, never passed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headwater.errors import HeadwaterError
from headwater.protocol.actions import Metadata, Protocol

READER_VERSION_WITH_FEATURES = 3
WRITER_VERSION_WITH_FEATURES = 7

#: Features that change how a table is read, and that Headwater reads.
READABLE = frozenset(
    {
        "columnMapping",
        "deletionVectors",
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "variantType",
        "variantType-preview",
        "variantShredding",
        "variantShredding-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
    }
)

#: Features whose every requirement on writers Headwater keeps.
WRITABLE = frozenset(
    {
        "appendOnly",
        "invariants",
        "checkConstraints",
        "generatedColumns",
        "identityColumns",
        "changeDataFeed",
        "columnMapping",
        "deletionVectors",
        "timestampNtz",
        "inCommitTimestamp",
        "domainMetadata",
        "v2Checkpoint",
        "vacuumProtocolCheck",
        "typeWidening",
        "typeWidening-preview",
        "variantType",
        "variantType-preview",
        "allowColumnDefaults",
        "clustering",
    }
)

#: Features that bind writers only while a table property turns them on; the table may be written while it does not.
_WRITABLE_WHILE_OFF: Mapping[str, str] = {
    "variantShredding": "delta.enableVariantShredding",
    "variantShredding-preview": "delta.enableVariantShredding",
}

#: What each writer version before table features asks for, on top of the versions below it.
_LEGACY_WRITER: Mapping[int, tuple[str, ...]] = {
    2: ("appendOnly", "invariants"),
    3: ("checkConstraints",),
    4: ("changeDataFeed", "generatedColumns"),
    5: ("columnMapping",),
    6: ("identityColumns",),
}
_LEGACY_READER: Mapping[int, tuple[str, ...]] = {2: ("columnMapping",)}


def enabled_reader_features(protocol: Protocol) -> frozenset[str]:
    """The features a reader must respect: those named, or those the legacy reader version stands for."""
    if protocol.min_reader_version >= READER_VERSION_WITH_FEATURES:
        return protocol.reader_features or frozenset()
    return _implied(_LEGACY_READER, protocol.min_reader_version)


def enabled_features(protocol: Protocol) -> frozenset[str]:
    """All features of the table: those named in ``protocol``, and those its legacy versions stand for."""
    if protocol.min_writer_version >= WRITER_VERSION_WITH_FEATURES:
        writer = protocol.writer_features or frozenset()
    else:
        writer = _implied(_LEGACY_WRITER, protocol.min_writer_version)
    return writer | enabled_reader_features(protocol)


def supports(protocol: Protocol, feature: str) -> bool:
    """Whether the table supports the feature, whether or not it is in use."""
    return feature in enabled_features(protocol)


def check_readable(protocol: Protocol) -> None:
    """Refuse a table that cannot be read right.

    :raises HeadwaterError: ``DELTA_UNSUPPORTED_FEATURES_FOR_READ`` naming the features, or
        ``DELTA_INVALID_PROTOCOL_VERSION`` for a reader version newer than any known, also naming unknown features if
        it lists some.
    """
    unknown = enabled_reader_features(protocol) - READABLE
    if unknown:
        raise HeadwaterError("DELTA_UNSUPPORTED_FEATURES_FOR_READ", {"unsupported": _names(unknown)})
    if not 1 <= protocol.min_reader_version <= READER_VERSION_WITH_FEATURES:
        raise _invalid_version(protocol)


def check_writable(protocol: Protocol, metadata: Metadata | None = None) -> None:
    """Refuse a table that cannot be written right; what can be written can also be read.

    ``metadata`` tells whether a feature that only a table property activates is in use; without it, it counts as in
    use.

    :raises HeadwaterError: as :func:`check_readable`; ``DELTA_UNSUPPORTED_FEATURES_FOR_WRITE`` naming the features.
    """
    check_readable(protocol)
    unknown = enabled_features(protocol) - WRITABLE
    if metadata is not None:
        unknown = frozenset(name for name in unknown if not _is_off(name, metadata))
    if unknown:
        raise HeadwaterError("DELTA_UNSUPPORTED_FEATURES_FOR_WRITE", {"unsupported": _names(unknown)})
    if not 1 <= protocol.min_writer_version <= WRITER_VERSION_WITH_FEATURES:
        raise _invalid_version(protocol)


def in_commit_timestamps_enabled(metadata: Metadata) -> bool:
    """Whether each commit of the table carries its own time."""
    return metadata.configuration.get("delta.enableInCommitTimestamps", "false").lower() == "true"


def _is_off(feature: str, metadata: Metadata) -> bool:
    switch = _WRITABLE_WHILE_OFF.get(feature)
    return switch is not None and metadata.configuration.get(switch, "false").lower() != "true"


def _implied(features: Mapping[int, tuple[str, ...]], version: int) -> frozenset[str]:
    return frozenset(name for since, names in features.items() if since <= version for name in names)


def _names(features: Iterable[str]) -> str:
    return ", ".join(sorted(features))


def _invalid_version(protocol: Protocol) -> HeadwaterError:
    return HeadwaterError(
        "DELTA_INVALID_PROTOCOL_VERSION",
        {
            "reader": protocol.min_reader_version,
            "writer": protocol.min_writer_version,
            "supportedReader": READER_VERSION_WITH_FEATURES,
            "supportedWriter": WRITER_VERSION_WITH_FEATURES,
        },
    )
