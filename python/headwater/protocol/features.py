"""Table features: one table of them all, and the check that every reader and every writer makes first.

Owns what the protocol and Headwater say of each feature (:data:`FEATURES`), which features a table supports, and
whether Headwater can read and write the table. Follows the protocol's chapters "Table Features", "Valid Feature Names
in Table Features", "Reader Version Requirements" and "Writer Version Requirements". Promise: a feature that this
version does not know is refused by its name and never ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headwater.errors import HeadwaterError
from headwater.protocol import properties
from headwater.protocol.actions import Metadata, Protocol

READER_VERSION_WITH_FEATURES = 3
WRITER_VERSION_WITH_FEATURES = 7


@dataclass(frozen=True)
class Feature:
    """A table feature.

    ``reader``: readers must support it too. ``legacy``: the lowest (reader, writer) versions that imply it.
    ``requires``: the features it needs. ``switches``: properties that need it where they are true. ``preview``: the
    name of its preview, which serves as well where a table has it already. ``manual``: an existing table gets it only
    when a user names it, because it locks out readers although no property asked for it.

    ``reads``: Headwater reads tables with it; features that are not for readers never prevent reading. ``writes``:
    Headwater meets every requirement on writers. ``writes_without``: Headwater writes the table while this property is
    not true.
    """

    name: str
    reader: bool = False
    legacy: tuple[int, int] | None = None
    requires: tuple[str, ...] = ()
    switches: tuple[str, ...] = ()
    preview: str | None = None
    manual: bool = False
    reads: bool = False
    writes: bool = False
    writes_without: str | None = None


_SHREDDING = "delta.enableVariantShredding"

FEATURES: Mapping[str, Feature] = {
    feature.name: feature
    for feature in (
        Feature("appendOnly", legacy=(1, 2), switches=("delta.appendOnly",), writes=True),
        Feature("invariants", legacy=(1, 2), writes=True),
        Feature("checkConstraints", legacy=(1, 3), writes=True),
        Feature(
            "changeDataFeed",
            legacy=(1, 4),
            switches=("delta.enableChangeDataFeed", "delta.enableChangeDataCapture"),
            writes=True,
        ),
        Feature("generatedColumns", legacy=(1, 4), writes=True),
        Feature("columnMapping", reader=True, legacy=(2, 5), reads=True, writes=True),
        Feature("identityColumns", legacy=(1, 6), writes=True),
        Feature("allowColumnDefaults", manual=True, writes=True),
        Feature("deletionVectors", reader=True, switches=("delta.enableDeletionVectors",), reads=True, writes=True),
        Feature("rowTracking", requires=("domainMetadata",), switches=("delta.enableRowTracking",)),
        Feature("timestampNtz", reader=True, manual=True, reads=True, writes=True),
        Feature("domainMetadata", writes=True),
        Feature("v2Checkpoint", reader=True, reads=True, writes=True),
        Feature("catalogManaged", reader=True, requires=("inCommitTimestamp", "vacuumProtocolCheck")),
        Feature("icebergCompatV1", requires=("columnMapping",), switches=("delta.enableIcebergCompatV1",)),
        Feature("icebergCompatV2", requires=("columnMapping",), switches=("delta.enableIcebergCompatV2",)),
        Feature(
            "icebergCompatV3",
            requires=("columnMapping", "rowTracking"),
            switches=("delta.enableIcebergCompatV3",),
        ),
        Feature("clustering", requires=("domainMetadata",), writes=True),
        Feature("vacuumProtocolCheck", reader=True, reads=True, writes=True),
        Feature("inCommitTimestamp", switches=("delta.enableInCommitTimestamps",), writes=True),
        Feature(
            "typeWidening",
            reader=True,
            switches=("delta.enableTypeWidening",),
            preview="typeWidening-preview",
            reads=True,
            writes=True,
        ),
        Feature("typeWidening-preview", reader=True, reads=True, writes=True),
        Feature("variantType", reader=True, preview="variantType-preview", reads=True, writes=True),
        Feature("variantType-preview", reader=True, reads=True, writes=True),
        Feature(
            "variantShredding",
            reader=True,
            requires=("variantType",),
            switches=(_SHREDDING,),
            preview="variantShredding-preview",
            reads=True,
            writes_without=_SHREDDING,
        ),
        Feature("variantShredding-preview", reader=True, reads=True, writes_without=_SHREDDING),
        Feature("checkpointProtection"),
        Feature("materializePartitionColumns", switches=("delta.enableMaterializePartitionColumnsFeature",)),
    )
}


def implied_features(reader: int, writer: int) -> frozenset[str]:
    """The features that a legacy pair of versions implies; none for writer version 7, which lists every feature."""
    if writer >= WRITER_VERSION_WITH_FEATURES:
        return frozenset()
    return frozenset(f.name for f in FEATURES.values() if f.legacy and f.legacy[0] <= reader and f.legacy[1] <= writer)


def supported_reader_features(protocol: Protocol) -> frozenset[str]:
    """The features that a reader of the table must support: those listed, or those its reader version implies."""
    if protocol.min_reader_version >= READER_VERSION_WITH_FEATURES:
        return protocol.reader_features or frozenset()
    known = (f for f in FEATURES.values() if f.reader and f.legacy)
    return frozenset(f.name for f in known if f.legacy and f.legacy[0] <= protocol.min_reader_version)


def supported_features(protocol: Protocol) -> frozenset[str]:
    """All features that a table supports, listed or implied by its versions."""
    if protocol.min_writer_version >= WRITER_VERSION_WITH_FEATURES:
        writer = protocol.writer_features or frozenset()
    else:
        writer = implied_features(protocol.min_reader_version, protocol.min_writer_version)
    return writer | supported_reader_features(protocol)


def supports(protocol: Protocol, feature: str) -> bool:
    """Whether a table supports a feature, by its own name or that of its preview. It need not be in use."""
    supported = supported_features(protocol)
    return feature in supported or (feature in FEATURES and FEATURES[feature].preview in supported)


def check_readable(protocol: Protocol) -> None:
    """Refuse a table that Headwater cannot read correctly.

    :raises HeadwaterError: ``DELTA_UNSUPPORTED_FEATURES_FOR_READ`` with the names of the features;
        ``DELTA_INVALID_PROTOCOL_VERSION`` where the reader version is unknown and no feature is.
    """
    unknown = [name for name in supported_reader_features(protocol) if name not in FEATURES or not FEATURES[name].reads]
    if unknown:
        raise HeadwaterError("DELTA_UNSUPPORTED_FEATURES_FOR_READ", {"unsupported": _names(unknown)})
    if not 1 <= protocol.min_reader_version <= READER_VERSION_WITH_FEATURES:
        raise _invalid_version(protocol)


def check_writable(protocol: Protocol, metadata: Metadata | None = None) -> None:
    """Refuse a table that Headwater cannot write correctly; a table it can write it can also read.

    :param metadata: shows which features are switched off by a property; without it every feature counts as in use.
    :raises HeadwaterError: as :func:`check_readable`; ``DELTA_UNSUPPORTED_FEATURES_FOR_WRITE`` with the names of the
        features.
    """
    check_readable(protocol)
    unknown = [name for name in supported_features(protocol) if not _can_write(name, metadata)]
    if unknown:
        raise HeadwaterError("DELTA_UNSUPPORTED_FEATURES_FOR_WRITE", {"unsupported": _names(unknown)})
    if not 1 <= protocol.min_writer_version <= WRITER_VERSION_WITH_FEATURES:
        raise _invalid_version(protocol)


def in_commit_timestamps_enabled(metadata: Metadata) -> bool:
    """Whether each commit of the table holds its own timestamp."""
    return properties.boolean(metadata.configuration, "delta.enableInCommitTimestamps")


def _can_write(name: str, metadata: Metadata | None) -> bool:
    feature = FEATURES.get(name)
    if feature is None or feature.writes:
        return feature is not None
    switch = feature.writes_without
    return metadata is not None and switch is not None and not properties.boolean(metadata.configuration, switch)


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
