"""The schema by which changes are read, and whether every file of the range can be read by it.

Changes of a table with column mapping are read by the schema of the range's last version, as is documented for Delta
tables; those of other tables by the newest schema, or by that of the last version if the newest cannot read the range.
Promise: an added column is null in older rows. A column that was renamed or dropped, or whose type or nullability
changed so that old files cannot be read, is an error that names the version, never a wrong value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.basics.errors import HeadwaterError
from headwater.log.snapshot import Snapshot
from headwater.protocol import properties
from headwater.protocol.columns import Path, format_name
from headwater.protocol.table_definition import TableDefinition
from headwater.protocol.types import DataType, StructType
from headwater.schema.walk import held
from headwater.schema.widening import can_widen


@dataclass(frozen=True)
class VersionedDefinition(TableDefinition):
    """A table's definition, and the version that set it."""

    version: int

    @staticmethod
    def of(snapshot: Snapshot) -> VersionedDefinition:
        """That of a version of a table."""
        return VersionedDefinition(snapshot.protocol, snapshot.metadata, snapshot.version)


def choose(
    definitions: Sequence[VersionedDefinition],
    before: VersionedDefinition | None,
    latest: VersionedDefinition,
    first: int,
    last: int,
    mode: str,
) -> VersionedDefinition:
    """The definition by which the versions ``first`` to ``last`` are read.

    :param definitions: those in force in the range, ascending; the first of them was at ``first``.
    :param before: that of the version before ``first``, where ``first`` itself changed it and removed files.
    :param mode: the schema of a table with column mapping: ``endVersion`` or ``latest``.
    :raises HeadwaterError: ``DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_SCHEMA_CHANGE``, or
        ``DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_DATA_SCHEMA`` if the first version removed what another schema wrote.
    """
    end = definitions[-1]
    written = [*([] if before is None else [before]), *definitions]
    by_latest = latest.mapping_mode == "none" or mode.lower() == "latest"
    if by_latest and all(conflict(latest, old) is None for old in written):
        return latest
    for old, following in reversed(list(zip(definitions, definitions[1:], strict=False))):
        reason = conflict(end, old)
        if reason is not None:
            raise HeadwaterError(
                "DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_SCHEMA_CHANGE",
                {"start": first, "end": last, "incompatibleVersion": following.version, "reason": reason,
                 "before": following.version - 1},
            )  # fmt: skip
    reason = None if before is None else conflict(end, before)
    if reason is not None:
        raise HeadwaterError(
            "DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_DATA_SCHEMA",
            {"start": first, "end": last, "incompatibleVersion": first, "reason": reason},
        )
    return end


def conflict(read: VersionedDefinition, written: VersionedDefinition) -> str | None:
    """Why files written under one definition cannot be read by another, in words; None if they can."""
    if read.metadata.schema_string != written.metadata.schema_string:
        reason = _structs(read.schema, written.schema, ())
        if reason is not None:
            modes = (definition.get(properties.COLUMN_MAPPING_MODE) for definition in (written, read))
            return "column mapping was removed" if _removes_mapping(*modes) else reason
    ours, theirs = _partitioning(read), _partitioning(written)
    if ours != theirs:
        return f"the table was partitioned by ({', '.join(theirs)}) and is by ({', '.join(ours)})"
    return None


def _removes_mapping(before: str, after: str) -> bool:
    """Whether the names that columns have in files went, though the columns are there."""
    return after == "none" != before


def _partitioning(definition: VersionedDefinition) -> list[str]:
    schema = definition.schema
    fields = [schema.find(name) for name in definition.metadata.partition_columns]
    return sorted(field.physical_name.lower() for field in fields if field is not None)


def _structs(read: StructType, written: StructType, path: Path) -> str | None:
    found = {field.physical_name.lower(): field for field in written}
    for field in read:
        where = (*path, field.name)
        old = found.pop(field.physical_name.lower(), None)
        if old is None:
            if not field.nullable:
                return f"column {format_name(where)} is new and NOT NULL"
            continue
        if old.name.lower() != field.name.lower():
            return f"column {format_name((*path, old.name))} was renamed to {format_name(where)}"
        if old.nullable and not field.nullable:
            return f"column {format_name(where)} became NOT NULL"
        reason = _types(field.type, old.type, where)
        if reason is not None:
            return reason
    dropped = next(iter(found.values()), None)
    return None if dropped is None else f"column {format_name((*path, dropped.name))} was dropped"


def _types(read: DataType, written: DataType, path: Path) -> str | None:
    if isinstance(read, StructType) and isinstance(written, StructType):
        return _structs(read, written, path)
    both = held(read, written)
    if any(each.two_nulls and not each.one_nulls for each in both):
        return f"nulls in column {format_name(path)} are no longer allowed"
    if both or read == written or can_widen(written, read):
        reasons = (_types(each.one, each.two, (*path, each.step)) for each in both)
        return next(filter(None, reasons), None)
    return f"column {format_name(path)} was {written.sql()} and is {read.sql()}"
