"""How two definitions of a table differ: their columns one by one, their properties, their protocols.

Owns which column of one schema is which of the other, and what counts as a change of it; how changes are shown is the
caller's. Follows the protocol's chapters "Change Metadata", "Protocol Evolution" and "Column Mapping". Promise: where
columns are mapped, one that was renamed is the same column; elsewhere a column is its name, whatever its case.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from headwater.protocol.actions import Metadata, Protocol
from headwater.protocol.columns import Path, all_fields
from headwater.protocol.properties import COLUMN_MAPPING_MODE
from headwater.protocol.types import ArrayType, DataType, MapType, StructField, StructType


class Changes(NamedTuple):
    """What differs of named values: the new ones, the ones that are gone, and both values of those that changed."""

    added: dict[str, Any]
    removed: dict[str, Any]
    changed: dict[str, tuple[Any, Any]]


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Changes:
    """The differences of values by name."""
    return Changes(
        {name: value for name, value in after.items() if name not in before},
        {name: value for name, value in before.items() if name not in after},
        {name: (value, after[name]) for name, value in before.items() if name in after and after[name] != value},
    )


class Column(NamedTuple):
    """A column, or a field at any depth."""

    path: Path
    field: StructField


class Pair(NamedTuple):
    """What a column was and what it is; None if it did not exist, or does not."""

    before: Column | None
    after: Column | None


class Columns(NamedTuple):
    """The columns of two schemas: ``pairs`` in the order of the newer, then those that are gone."""

    pairs: list[Pair]
    reordered: bool


def columns(before: Metadata | None, after: Metadata) -> Columns:
    """Which columns of two schemas are the same ones, at any depth.

    :raises HeadwaterError: ``DELTA_INVALID_SCHEMA``.
    """
    olds, news = {} if before is None else _by_identity(before), _by_identity(after)
    pairs = [Pair(olds.get(identity), column) for identity, column in news.items()]
    pairs += [Pair(column, None) for identity, column in olds.items() if identity not in news]
    kept = [identity for identity in olds if identity in news]
    return Columns(pairs, kept != [identity for identity in news if identity in olds])


def _by_identity(metadata: Metadata) -> dict[Path, Column]:
    """Each field by the physical names that lead to it, which stay when it is renamed."""
    is_mapped = metadata.configuration.get(COLUMN_MAPPING_MODE.name, "none").lower() != "none"
    physical: dict[Path, Path] = {(): ()}
    found: dict[Path, Column] = {}
    for path, field in all_fields(metadata.schema):
        steps = len(path) - 1
        while path[:steps] not in physical:
            steps -= 1
        name = field.physical_name if is_mapped else field.name.lower()
        physical[path] = (*physical[path[:steps]], *path[steps:-1], name)
        found[physical[path]] = Column(path, field)
    return found


def shape(kind: DataType) -> str:
    """A type without the fields of its structs, which are columns of their own here."""
    match kind:
        case StructType():
            return "struct"
        case ArrayType():
            return f"array<{shape(kind.element)}>"
        case MapType():
            return f"map<{shape(kind.key)},{shape(kind.value)}>"
    return kind.sql()


def versions(protocol: Protocol | None) -> dict[str, int]:
    """The versions of a protocol, by the names that the log has for them; none of no protocol."""
    if protocol is None:
        return {}
    return {"minReaderVersion": protocol.min_reader_version, "minWriterVersion": protocol.min_writer_version}
