"""Changes of a table's definition under a running stream: which ones it continues after, and which ones end it.

Owns the rules of a stream without a schema log. A stream reads with one schema from its start to its end, so a new
column ends it, and the next start reads it. A column that was renamed or dropped, or took another type, cannot be read
with any one schema: that needs a schema log.
"""

from __future__ import annotations

from dataclasses import dataclass

from headwater.basics.errors import HeadwaterError
from headwater.change_data.schemas import VersionedDefinition
from headwater.protocol import properties
from headwater.protocol.actions import Metadata
from headwater.protocol.features import supports
from headwater.protocol.types import DataType, StructField, StructType
from headwater.schema import mapping
from headwater.schema.walk import held
from headwater.schema.widening import can_widen
from headwater.streams.unblocking import column_changes


@dataclass(frozen=True)
class Rules:
    """What a stream tolerates, by settings of the session.

    :param renames_and_drops: read on though columns were renamed or dropped under column mapping.
    :param partitioning: read on though the partition columns are others.
    :param nulls: read on though a column of which the stream was promised no nulls may hold some now.
    :param at_start: do not look for changes between the stream's offset and the table's newest version at its start.
    :param widening: read on with the wider type after a restart, where the table supports type widening.
    :param tracks_widening: a wider type needs a schema log, as a renamed column does.
    """

    renames_and_drops: bool = False
    partitioning: bool = False
    nulls: bool = False
    at_start: bool = False
    widening: bool = True
    tracks_widening: bool = False


def check_change(
    reading: VersionedDefinition, changed: Metadata, version: int, rules: Rules, *, starting_options: bool = False
) -> None:
    """That a stream can read on after a commit that changed the table's metadata.

    :param starting_options: whether the stream was told where to start, for the message.
    :raises HeadwaterError: ``DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE_USE_SCHEMA_LOG``,
        ``DELTA_SCHEMA_CHANGED_WITH_VERSION``, ``DELTA_SCHEMA_CHANGED_WITH_STARTING_OPTIONS``.
    """
    backfilling = version < reading.version
    old, new = (changed, reading.metadata) if backfilling else (reading.metadata, changed)
    widening = rules.widening and supports(reading.protocol, "typeWidening")
    if widening and rules.tracks_widening and _widens(old.schema, new.schema):
        raise _needs_schema_log(reading.schema, changed.schema)
    if not rules.renames_and_drops and not _same_mapping(old, new, ignores_partitioning=rules.partitioning):
        raise _needs_schema_log(reading.schema, changed.schema)
    wider = widening and not rules.tracks_widening
    may_miss = rules.renames_and_drops and backfilling and reading.mapping_mode != "none"
    if _reads(changed.schema, reading.schema, nulls=rules.nulls, wider=wider and backfilling, may_miss=may_miss) and (
        rules.partitioning or old.partition_columns == new.partition_columns
    ):
        return
    retries = not backfilling and _reads(reading.schema, changed.schema, nulls=rules.nulls, wider=wider)
    condition = (
        "DELTA_SCHEMA_CHANGED_WITH_STARTING_OPTIONS" if starting_options else "DELTA_SCHEMA_CHANGED_WITH_VERSION"
    )
    if not retries:
        condition = "DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE"
    raise HeadwaterError(
        condition,
        {"version": version, "readSchema": reading.schema.sql(), "dataSchema": changed.schema.sql()},
    )


def check_mapping(reading: VersionedDefinition, before: Metadata, rules: Rules) -> None:
    """That no column was renamed or dropped since a stream has read: what it has written has the column.

    :param before: of the version that it has read.
    :raises HeadwaterError: ``DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE_USE_SCHEMA_LOG``.
    """
    if not rules.renames_and_drops and not _same_mapping(
        before, reading.metadata, ignores_partitioning=rules.partitioning
    ):
        raise _needs_schema_log(reading.schema, before.schema)


def _needs_schema_log(reading: StructType, changed: StructType) -> HeadwaterError:
    return HeadwaterError(
        "DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE_USE_SCHEMA_LOG",
        {"readSchema": reading.sql(), "incompatibleSchema": changed.sql()},
    )


def _same_mapping(old: Metadata, new: Metadata, *, ignores_partitioning: bool) -> bool:
    """Whether no column of the old metadata was renamed or dropped in the new one."""
    if not _is_mapped(new):
        return not _is_mapped(old)
    # Mapping that is switched on calls each column in the files what it was called before.
    before = old.schema if _is_mapped(old) else mapping.strip(old.schema)
    if not ignores_partitioning and _partitioning(old, before) != _partitioning(new, new.schema):
        return False
    changes = column_changes(before, new.schema)
    return not (changes.renamed or changes.dropped)


def _is_mapped(metadata: Metadata) -> bool:
    return properties.COLUMN_MAPPING_MODE.of(metadata.configuration) != "none"


def _partitioning(metadata: Metadata, schema: StructType) -> list[str]:
    fields = (schema.find(name) for name in metadata.partition_columns)
    return [field.physical_name for field in fields if field is not None]


def _widens(old: DataType, new: DataType) -> bool:
    """Whether a column that both have took a wider type."""
    if isinstance(old, StructType) and isinstance(new, StructType):
        fields = {field.name.lower(): field for field in new}
        return any((now := fields.get(f.name.lower())) is not None and _widens(f.type, now.type) for f in old)
    both = held(old, new)
    return any(_widens(each.one, each.two) for each in both) or not both and old != new and can_widen(old, new)


def _reads(data: DataType, reading: DataType, *, nulls: bool, wider: bool, may_miss: bool = False) -> bool:
    """Whether files of one schema can be read with another: it has all of their columns, and what it has besides may be
    null.
    """
    if isinstance(data, StructType) and isinstance(reading, StructType):
        return _reads_struct(data, reading, nulls=nulls, wider=wider, may_miss=may_miss)
    if both := held(data, reading):
        return all(
            (nulls or each.two_nulls or not each.one_nulls)
            and _reads(each.one, each.two, nulls=nulls, wider=wider, may_miss=may_miss)
            for each in both
        )
    return data == reading or (wider and can_widen(data, reading))


def _reads_struct(data: StructType, reading: StructType, *, nulls: bool, wider: bool, may_miss: bool) -> bool:
    fields: dict[str, StructField] = {field.name.lower(): field for field in reading}
    for field in data:
        now = fields.pop(field.name.lower(), None)
        if now is None:
            if not may_miss:
                return False
            continue
        if now.name != field.name or not (nulls or now.nullable or not field.nullable):
            return False
        if not _reads(field.type, now.type, nulls=nulls, wider=wider, may_miss=may_miss):
            return False
    return all(field.nullable for field in fields.values())
