"""What a table's definition was at a version, and what a commit changed of it.

Owns finding the protocol and metadata before a commit without rebuilding the table, and the wording of differences.
Follows the protocol's chapters "Change Metadata" and "Protocol Evolution".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headwater.errors import HeadwaterError
from headwater.inspector.plain import short
from headwater.log.checkpoint_reading import UnreadableCheckpoint, read_checkpoint
from headwater.log.checksums import read_checksum
from headwater.log.commits import ParsedActions, parse_actions
from headwater.log.segment import LogListing
from headwater.protocol.actions import Metadata, Protocol
from headwater.protocol.column_metadata import COLUMN_ID
from headwater.protocol.columns import all_fields, format_name
from headwater.protocol.types import ArrayType, MapType, StructField, StructType
from headwater.stores import Store

#: How many commits are read in search of a definition before the search is given up.
_MOST_COMMITS = 2000
Definition = tuple[Protocol | None, Metadata | None]


def definition_before(version: int, listing: LogListing, table_path: str, store: Store) -> Definition:
    """The protocol and metadata that were in force before a version; None for what the log no longer says."""
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    for earlier in range(version - 1, max(version - 1 - _MOST_COMMITS, -1), -1):
        if earlier in listing.checksums and (checksum := read_checksum(table_path, store, earlier)) is not None:
            return protocol or checksum.protocol, metadata or checksum.metadata
        commit = listing.commits.get(earlier)
        if commit is not None:
            found = definitions_in(store.read(commit.path), commit.path)
            protocol, metadata = protocol or found.protocol, metadata or found.metadata
            if protocol is not None and metadata is not None:
                return protocol, metadata
        for checkpoint in listing.checkpoints:
            if checkpoint.version == earlier:
                try:
                    state = read_checkpoint(checkpoint, table_path, store)
                except UnreadableCheckpoint:
                    continue
                return protocol or state.protocol, metadata or state.metadata
        if commit is None:
            break
    return protocol, metadata


def definitions_in(data: bytes, path: str) -> ParsedActions:
    """The protocol and metadata of a commit's content, without parsing its files; damaged lines are passed over."""
    lines = [line for line in data.splitlines() if b'"metaData"' in line or b'"protocol"' in line]
    kept = []
    for line in lines:
        try:
            parse_actions(line, path)
            kept.append(line)
        except HeadwaterError:
            continue
    return parse_actions(b"\n".join(kept), path) if kept else ParsedActions(path)


def protocol_changes(before: Protocol | None, after: Protocol) -> list[dict[str, Any]]:
    """Each difference of two protocols; the whole one where there was none before."""
    changes = []
    for name, old, new in (
        ("reader version", before and before.min_reader_version, after.min_reader_version),
        ("writer version", before and before.min_writer_version, after.min_writer_version),
    ):
        if old != new:
            changes.append(_change("changed" if old is not None else "set", name, old, new))
    for kind in ("reader", "writer"):
        olds: frozenset[str] = getattr(before, f"{kind}_features", None) or frozenset()
        news: frozenset[str] = getattr(after, f"{kind}_features") or frozenset()
        changes += [_change("added", f"{kind} feature", None, feature) for feature in sorted(news - olds)]
        changes += [_change("dropped", f"{kind} feature", feature, None) for feature in sorted(olds - news)]
    return changes


def property_changes(before: Metadata | None, after: Metadata) -> list[dict[str, Any]]:
    """Each difference of the properties, the name, the description, the format and the partitioning."""
    old, new = _named(before), _named(after)
    changes = []
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) != new.get(name):
            kind = "set" if name not in old else "unset" if name not in new else "changed"
            changes.append(_change(kind, name, old.get(name), new.get(name)))
    return changes


def _named(metadata: Metadata | None) -> Mapping[str, str]:
    if metadata is None:
        return {}
    own = {
        "(name)": metadata.name,
        "(description)": metadata.description,
        "(id)": metadata.id,
        "(format)": metadata.format_provider,
        "(partition columns)": ", ".join(metadata.partition_columns) or None,
    }
    return {**{name: value for name, value in own.items() if value is not None}, **metadata.configuration}


def schema_changes(before: Metadata | None, after: Metadata) -> list[dict[str, Any]]:
    """Each column that was added, dropped, renamed or changed, at any depth.

    :raises HeadwaterError: ``DELTA_INVALID_SCHEMA``.
    """
    olds = {} if before is None else _fields(before.schema)
    news = _fields(after.schema)
    changes = []
    for key, (name, field) in news.items():
        if key not in olds:
            changes.append(_change("added", name, None, _type(field)))
            continue
        old_name, old = olds[key]
        if name.split(".")[-1] != old_name.split(".")[-1]:
            changes.append(_change("renamed", name, old_name, name))
        if _type(old) != _type(field):
            changes.append(_change("type", name, _type(old), _type(field)))
        if old.nullable != field.nullable:
            changes.append(_change("nullability", name, _nullable(old), _nullable(field)))
        changes += [
            _change("metadata", f"{name}: {item}", _text(old.metadata.get(item)), _text(field.metadata.get(item)))
            for item in sorted(old.metadata.keys() | field.metadata.keys())
            if old.metadata.get(item) != field.metadata.get(item)
        ]
    changes += [_change("dropped", name, _type(f), None) for key, (name, f) in olds.items() if key not in news]
    if not changes and [name for name, _ in olds.values()] != [name for name, _ in news.values()]:
        changes.append(_change("order", "columns", ", ".join(before.schema.names) if before else None, _names(after)))
    return changes


def _names(metadata: Metadata) -> str:
    return ", ".join(metadata.schema.names)


def _fields(schema: StructType) -> dict[Any, tuple[str, StructField]]:
    """Every field by what stays the same when it is renamed: its id where it has one."""
    return {
        field.metadata.get(COLUMN_ID, tuple(step.lower() for step in path)): (format_name(path), field)
        for path, field in all_fields(schema)
    }


def _type(field: StructField) -> str:
    """The type without the fields inside it, which are told of one by one."""
    match field.type:
        case StructType():
            return "struct"
        case ArrayType(element) if isinstance(element, StructType):
            return "array<struct>"
        case MapType():
            return "map" if "struct" in field.type.sql() else field.type.sql()
    return field.type.sql()


def _nullable(field: StructField) -> str:
    return "nullable" if field.nullable else "NOT NULL"


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _change(kind: str, name: str, before: Any, after: Any) -> dict[str, Any]:
    return {
        "kind": kind,
        "name": short(name),
        "before": None if before is None else short(str(before), 2000),
        "after": None if after is None else short(str(after), 2000),
    }
