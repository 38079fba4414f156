"""Table features: one table of all of them, and the check that every reader and every writer makes first.

Owns what the protocol and Headwater say of each feature (:data:`FEATURES`), which features a table supports, and
whether Headwater can read and write the table. Follows the protocol's chapters "Table Features", "Valid Feature Names
in Table Features", "Reader Version Requirements" and "Writer Version Requirements". Promise: a feature that this
version does not know is refused by its name and never ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from headwater.basics.errors import HeadwaterError
from headwater.protocol import properties
from headwater.protocol.actions import Metadata, Protocol
from headwater.protocol.column_metadata import (
    CURRENT_DEFAULT,
    GENERATION_EXPRESSION,
    IDENTITY_START,
    IDENTITY_STEP,
    INVARIANTS,
    TYPE_CHANGES,
)
from headwater.protocol.columns import Path, all_fields, parts
from headwater.protocol.row_tracking import DOMAIN as ROW_TRACKING_DOMAIN
from headwater.protocol.types import StructType

READER_VERSION_WITH_FEATURES = 3
WRITER_VERSION_WITH_FEATURES = 7
CHECKPOINT_PROTECTION = "checkpointProtection"
MATERIALIZED_PARTITIONS = "materializePartitionColumns"
CATALOG_MANAGED = "catalogManaged"
#: The features of Iceberg compatibility by version.
ICEBERG_COMPAT = {1: "icebergCompatV1", 2: "icebergCompatV2", 3: "icebergCompatV3"}


@dataclass(frozen=True)
class Feature:
    """A table feature.

    ``reader``: readers must support it too. ``legacy``: the lowest (reader, writer) versions that imply it.
    ``requires``: the features it needs. ``preview``: the name of its preview, or one that other writers have given it,
    which serves as well where a table has it already. ``manual``: an existing table gets it only when a user names it,
    because it locks out readers although no property asked for it. ``droppable``: a user may take it away from a table.
    ``binds_files``: it asks something of data files as soon as a table supports it, before a property or a column uses
    it.

    What uses it: ``switches``, properties that are true; ``choices``, properties with the value named;
    ``prefix``, a property whose name begins so; ``column_keys``, keys in a column's metadata; ``types``, primitive
    types of columns, at any depth; ``not_null``, a column that is NOT NULL.

    What dropping it takes away: ``own_properties`` and ``own_domains``, table properties and metadata domains that
    mean nothing without it; ``file_fields``, the fields of ``add`` actions that only it fills; ``column_records``, keys
    in a column's metadata that its older files need, whether or not it is still switched on.

    ``reads``: Headwater reads tables with it; features that are not for readers never prevent reading. ``writes``:
    Headwater meets every requirement on writers. ``note``: what Headwater does about it, for the table in
    ``docs/features.md``.
    """

    name: str
    reader: bool = False
    legacy: tuple[int, int] | None = None
    requires: tuple[str, ...] = ()
    switches: tuple[properties.Property[bool], ...] = ()
    choices: tuple[tuple[properties.Property[str], tuple[str, ...]], ...] = ()
    prefix: str | None = None
    column_keys: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    not_null: bool = False
    preview: str | None = None
    manual: bool = False
    droppable: bool = False
    binds_files: bool = False
    own_properties: tuple[properties.Property[Any], ...] = ()
    own_domains: tuple[str, ...] = ()
    file_fields: tuple[str, ...] = ()
    column_records: tuple[str, ...] = ()
    reads: bool = False
    writes: bool = False
    note: str = ""

    def is_used_by(self, configuration: Mapping[str, str]) -> bool:
        """Whether table properties use the feature."""
        return (
            any(switch.of(configuration) for switch in self.switches)
            or any(known.of(configuration) in values for known, values in self.choices)
            or (self.prefix is not None and any(key.lower().startswith(self.prefix) for key in configuration))
        )

    def is_left_in(self, metadata: Metadata) -> bool:
        """Whether readers of a version with this metadata need the feature: its data files aside, which may have
        :attr:`file_fields`.
        """
        if self.column_records:
            return any(key in metadata.schema_string for key in self.column_records)
        return self.is_used_by(metadata.configuration) or any(self.columns_with_types(metadata.schema))

    def columns_with_types(self, schema: StructType) -> Iterator[Path]:
        """The columns, at any depth, of a type that needs the feature, or with elements, keys or values of one."""
        for path, field in all_fields(schema) if self.types else ():
            if any(getattr(part, "name", None) in self.types for part, _ in parts(field.type)):
                yield path


_MANAGED = ("inCommitTimestamp", "vacuumProtocolCheck")
_SHREDDING_NOTE = (
    "Reads shredded values. While shredding is on, a writer may shred or not; Headwater leaves it to Spark."
)
_GEOSPATIAL_NOTE = (
    "Reads and writes GEOMETRY and GEOGRAPHY in the coordinate reference systems that Spark supports; files have no "
    "statistics of them."
)

FEATURES: Mapping[str, Feature] = {
    feature.name: feature
    for feature in (
        Feature(
            "appendOnly",
            legacy=(1, 2),
            switches=(properties.APPEND_ONLY,),
            writes=True,
            note="Refuses statements that remove rows while `delta.appendOnly` is true.",
        ),
        Feature(
            "invariants",
            legacy=(1, 2),
            column_keys=(INVARIANTS,),
            not_null=True,
            writes=True,
            note="Enforces NOT NULL and column invariants.",
        ),
        Feature(
            "checkConstraints",
            legacy=(1, 3),
            prefix=properties.CONSTRAINT_PREFIX,
            droppable=True,
            writes=True,
            note="Enforces CHECK constraints on new rows.",
        ),
        Feature(
            "changeDataFeed",
            legacy=(1, 4),
            switches=(properties.CHANGE_DATA_FEED, properties.CHANGE_DATA_CAPTURE),
            writes=True,
            note="Writes change data, and reads changes by version and time.",
        ),
        Feature(
            "generatedColumns",
            legacy=(1, 4),
            column_keys=(GENERATION_EXPRESSION,),
            writes=True,
            note="Computes and checks generated columns.",
        ),
        Feature(
            "columnMapping",
            reader=True,
            legacy=(2, 5),
            choices=((properties.COLUMN_MAPPING_MODE, ("name", "id")),),
            droppable=True,
            own_properties=(properties.COLUMN_MAPPING_MODE, properties.MAX_COLUMN_ID),
            reads=True,
            writes=True,
            note="Reads and writes both modes, `name` and `id`.",
        ),
        Feature(
            "identityColumns",
            legacy=(1, 6),
            column_keys=(IDENTITY_START, IDENTITY_STEP),
            writes=True,
            note="Generates values and keeps the high-water mark.",
        ),
        Feature(
            "allowColumnDefaults",
            column_keys=(CURRENT_DEFAULT,),
            manual=True,
            writes=True,
            note="Applies defaults when rows are written.",
        ),
        Feature(
            "deletionVectors",
            reader=True,
            switches=(properties.DELETION_VECTORS,),
            droppable=True,
            own_properties=(properties.DELETION_VECTORS,),
            file_fields=("deletion_vector",),
            reads=True,
            writes=True,
            note="DELETE, UPDATE and MERGE mark rows while `delta.enableDeletionVectors` is true.",
        ),
        Feature(
            "rowTracking",
            requires=("domainMetadata",),
            switches=(properties.ROW_TRACKING,),
            droppable=True,
            own_properties=(
                properties.ROW_TRACKING,
                properties.ROW_TRACKING_SUSPENDED,
                properties.ROW_ID_COLUMN,
                properties.ROW_COMMIT_VERSION_COLUMN,
            ),
            own_domains=(ROW_TRACKING_DOMAIN,),
            file_fields=("base_row_id", "default_row_commit_version"),
            writes=True,
            note="Gives row ids, and keeps them in rewritten rows.",
        ),
        Feature(
            "timestampNtz",
            reader=True,
            types=("timestamp_ntz",),
            preview="timestampWithoutTimezone",
            manual=True,
            reads=True,
            writes=True,
            note="Reads and writes the type.",
        ),
        Feature("timestampWithoutTimezone", reader=True, reads=True, writes=True, note="Read as `timestampNtz`."),
        Feature("domainMetadata", droppable=True, writes=True, note="Keeps the domains of other writers."),
        Feature(
            "v2Checkpoint",
            reader=True,
            choices=((properties.CHECKPOINT_POLICY, ("v2",)),),
            droppable=True,
            reads=True,
            writes=True,
            note="Writes them while `delta.checkpointPolicy` is `v2`, otherwise classic checkpoints of one part. "
            "A checkpoint shares sidecars with the previous one.",
        ),
        Feature(
            CATALOG_MANAGED,
            reader=True,
            binds_files=True,
            requires=_MANAGED,
            reads=True,
            writes=True,
            note="By name, in a catalog that manages the table; refused by its path.",
        ),
        Feature(
            "coordinatedCommits-preview",
            binds_files=True,
            requires=_MANAGED,
            droppable=True,
            note="Commits that the log does not have yet are not seen.",
        ),
        Feature(
            "icebergCompatV1",
            binds_files=True,
            requires=("columnMapping",),
            switches=(properties.ICEBERG_COMPAT_V1,),
            writes=True,
            note="Enforces its rules for data files and schema; writes no Iceberg metadata.",
        ),
        Feature(
            "icebergCompatV2",
            binds_files=True,
            requires=("columnMapping",),
            switches=(properties.ICEBERG_COMPAT_V2,),
            writes=True,
            note="Iceberg metadata follows each commit if `delta.universalFormat.enabledFormats` is `iceberg`.",
        ),
        Feature(
            "icebergCompatV3",
            binds_files=True,
            requires=("columnMapping", "rowTracking"),
            switches=(properties.ICEBERG_COMPAT_V3,),
            writes=True,
            note="Enforces its rules for data files and schema; writes no Iceberg metadata.",
        ),
        Feature(
            "clustering",
            requires=("domainMetadata",),
            writes=True,
            note="OPTIMIZE lays rows out by the clustering columns.",
        ),
        Feature(
            "vacuumProtocolCheck",
            reader=True,
            droppable=True,
            reads=True,
            writes=True,
            note="Checks the protocol first.",
        ),
        Feature(
            "inCommitTimestamp",
            switches=(properties.IN_COMMIT_TIMESTAMPS,),
            droppable=True,
            own_properties=properties.IN_COMMIT_TIMESTAMPS_SINCE,
            writes=True,
            note="Each commit contains its timestamp; time travel and the history use it.",
        ),
        Feature(
            "typeWidening",
            reader=True,
            switches=(properties.TYPE_WIDENING,),
            preview="typeWidening-preview",
            droppable=True,
            own_properties=(properties.TYPE_WIDENING,),
            column_records=(TYPE_CHANGES,),
            reads=True,
            writes=True,
            note="Reads files with the narrower type; widens in schema evolution.",
        ),
        Feature(
            "typeWidening-preview", reader=True, droppable=True, reads=True, writes=True, note="As `typeWidening`."
        ),
        Feature(
            "variantType",
            reader=True,
            types=("variant",),
            preview="variantType-preview",
            reads=True,
            writes=True,
            note="Reads and writes the type.",
        ),
        Feature("variantType-preview", reader=True, reads=True, writes=True, note="As `variantType`."),
        Feature(
            "variantShredding",
            reader=True,
            requires=("variantType",),
            switches=(properties.VARIANT_SHREDDING,),
            preview="variantShredding-preview",
            reads=True,
            writes=True,
            note=_SHREDDING_NOTE,
        ),
        Feature("variantShredding-preview", reader=True, reads=True, writes=True, note=_SHREDDING_NOTE),
        Feature(
            "geospatial",
            reader=True,
            types=("geometry", "geography"),
            preview="geospatial-dev",
            droppable=True,
            reads=True,
            writes=True,
            note=_GEOSPATIAL_NOTE,
        ),
        Feature("geospatial-dev", reader=True, droppable=True, reads=True, writes=True, note="As `geospatial`."),
        Feature(
            CHECKPOINT_PROTECTION,
            droppable=True,
            own_properties=(properties.PROTECTED_BEFORE,),
            writes=True,
            note="Log cleanup deletes all versions before `delta.requireCheckpointProtectionBeforeVersion`, or none.",
        ),
        Feature(
            MATERIALIZED_PARTITIONS,
            binds_files=True,
            switches=(properties.MATERIALIZED_PARTITION_COLUMNS,),
            droppable=True,
            own_properties=(properties.MATERIALIZED_PARTITION_COLUMNS,),
            writes=True,
            note="Writes the partition columns into data files as well; reads their values from the log.",
        ),
    )
}

#: What a table may have, and be read or written: all that Headwater does, and the feature whose tables are refused for
#: the way they were reached.
_READ = frozenset(name for name, feature in FEATURES.items() if feature.reads)
_WRITTEN = frozenset(name for name, feature in FEATURES.items() if feature.writes)

#: Legacy versions whose implied features are kept: few pairs are in use, and each statement asks a dozen times.
_KNOWN_VERSIONS = 64


@lru_cache(_KNOWN_VERSIONS)
def implied_features(reader: int, writer: int) -> frozenset[str]:
    """The features that a legacy pair of versions implies; none for writer version 7, which lists every feature."""
    if writer >= WRITER_VERSION_WITH_FEATURES:
        return frozenset()
    return frozenset(f.name for f in FEATURES.values() if f.legacy and f.legacy[0] <= reader and f.legacy[1] <= writer)


def supported_reader_features(protocol: Protocol) -> frozenset[str]:
    """The features that a reader of the table must support: those listed, or those its reader version implies."""
    if protocol.min_reader_version >= READER_VERSION_WITH_FEATURES:
        return protocol.reader_features or frozenset()
    return _implied_for_readers(protocol.min_reader_version)


@lru_cache(_KNOWN_VERSIONS)
def _implied_for_readers(version: int) -> frozenset[str]:
    return frozenset(f.name for f in FEATURES.values() if f.reader and f.legacy and f.legacy[0] <= version)


def supported_features(protocol: Protocol) -> frozenset[str]:
    """All features that a table supports, listed or implied by its versions."""
    if protocol.min_writer_version >= WRITER_VERSION_WITH_FEATURES:
        writer = protocol.writer_features or frozenset()
    else:
        writer = implied_features(protocol.min_reader_version, protocol.min_writer_version)
    return writer | supported_reader_features(protocol)


def with_previews(feature: Feature) -> tuple[Feature, ...]:
    """A feature and its preview, whichever of them is given; the feature alone where it has no preview."""
    final = next((other for other in FEATURES.values() if other.preview == feature.name), feature)
    return (final,) if final.preview is None else (final, FEATURES[final.preview])


def supports(protocol: Protocol, feature: str) -> bool:
    """Whether a table supports a feature, by its own name or that of its preview. It need not be in use."""
    supported = supported_features(protocol)
    return feature in supported or (feature in FEATURES and FEATURES[feature].preview in supported)


def check_readable(protocol: Protocol, path: str = "", *, by_catalog: bool = False) -> None:
    """Refuse a table that Headwater cannot read correctly.

    :param path: the table's, for the error.
    :param by_catalog: whether the catalog that manages the table was asked for its commits.
    :raises HeadwaterError: ``DELTA_UNSUPPORTED_FEATURES_FOR_READ`` with the names of the features;
        ``DELTA_PATH_BASED_ACCESS_TO_CATALOG_MANAGED_TABLE_BLOCKED`` for a table that a catalog manages, where that was
        not asked; ``DELTA_INVALID_PROTOCOL_VERSION`` if the reader version is unknown and no feature is.
    """
    if unknown := supported_reader_features(protocol) - _READ:
        raise HeadwaterError("DELTA_UNSUPPORTED_FEATURES_FOR_READ", {"unsupported": _names(unknown)})
    if not 1 <= protocol.min_reader_version <= READER_VERSION_WITH_FEATURES:
        raise _invalid_version(protocol)
    if CATALOG_MANAGED in supported_reader_features(protocol) and not by_catalog:
        raise _managed(path)


def check_writable(protocol: Protocol, path: str = "", *, by_catalog: bool = False) -> None:
    """Refuse a table that Headwater cannot write correctly; a table it can write it can also read.

    :raises HeadwaterError: as :func:`check_readable`; ``DELTA_UNSUPPORTED_FEATURES_FOR_WRITE`` with the names of the
        features.
    """
    check_readable(protocol, path, by_catalog=by_catalog)
    if unknown := supported_features(protocol) - _WRITTEN:
        raise HeadwaterError("DELTA_UNSUPPORTED_FEATURES_FOR_WRITE", {"unsupported": _names(unknown)})
    if is_catalog_managed(protocol) and not by_catalog:
        raise _managed(path)
    if not 1 <= protocol.min_writer_version <= WRITER_VERSION_WITH_FEATURES:
        raise _invalid_version(protocol)


def is_catalog_managed(protocol: Protocol) -> bool:
    """Whether a catalog decides which commits are versions of the table. One that lists the feature for writers only is
    damaged, and is no table to commit to by its path either.
    """
    return CATALOG_MANAGED in supported_features(protocol)


def in_commit_timestamps_enabled(metadata: Metadata) -> bool:
    """Whether each commit of the table holds its own timestamp."""
    return properties.IN_COMMIT_TIMESTAMPS.of(metadata.configuration)


_BY_NAME = "Use the table by its name in that catalog, with an engine that commits through it."


def _managed(path: str) -> HeadwaterError:
    return HeadwaterError(
        "DELTA_PATH_BASED_ACCESS_TO_CATALOG_MANAGED_TABLE_BLOCKED", {"path": path, "advice": _BY_NAME}
    )


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
