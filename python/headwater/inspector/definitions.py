"""A table's definition at a version, and how a commit changed it.

Owns finding the protocol and metadata before a commit without rebuilding the table, and the wording of differences.
Follows the protocol's chapters "Change Metadata" and "Protocol Evolution".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headwater.basics.errors import HeadwaterError
from headwater.inspector.plain import short
from headwater.log.checkpoint_reading import UnreadableCheckpoint, read_checkpoint
from headwater.log.checksums import read_checksum
from headwater.log.commits import ParsedActions, parse_actions
from headwater.log.segment import LogListing
from headwater.protocol.actions import Metadata, Protocol
from headwater.protocol.columns import format_name
from headwater.protocol.differences import Column, changes, columns, shape, versions
from headwater.protocol.types import StructField
from headwater.stores import Store

#: How many commits are read in search of a definition before the search is given up.
_MOST_COMMITS = 2000
#: What the page calls the versions of a protocol.
_VERSIONS = {"minReaderVersion": "reader version", "minWriterVersion": "writer version"}
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
    """Each difference of two protocols; the whole one if there was no protocol before."""
    found = changes(versions(before), versions(after))
    listed = [change("set", _VERSIONS[name], None, value) for name, value in found.added.items()]
    listed += [change("changed", _VERSIONS[name], *values) for name, values in found.changed.items()]
    for kind in ("reader", "writer"):
        features = changes(_features(before, kind), _features(after, kind))
        listed += [change("added", f"{kind} feature", None, feature) for feature in features.added]
        listed += [change("dropped", f"{kind} feature", feature, None) for feature in features.removed]
    return listed


def _features(protocol: Protocol | None, kind: str) -> dict[str, None]:
    return dict.fromkeys(sorted(getattr(protocol, f"{kind}_features", None) or ()))


def property_changes(before: Metadata | None, after: Metadata) -> list[dict[str, Any]]:
    """Each difference of the properties, the name, the description, the format and the partitioning."""
    found = changes(_named(before), _named(after))
    listed = [change("set", name, None, value) for name, value in found.added.items()]
    listed += [change("unset", name, value, None) for name, value in found.removed.items()]
    listed += [change("changed", name, *values) for name, values in found.changed.items()]
    return sorted(listed, key=lambda change: change["name"])


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
    pairs, reordered = columns(before, after)
    listed: list[dict[str, Any]] = []
    for old, new in pairs:
        if old is None and new is not None:
            listed.append(change("added", format_name(new.path), None, shape(new.field.type)))
        elif new is None and old is not None:
            listed.append(change("dropped", format_name(old.path), shape(old.field.type), None))
        elif old is not None and new is not None:
            listed += _column_changes(old, new)
    if not listed and reordered:
        listed.append(change("order", "columns", None if before is None else _names(before), _names(after)))
    return listed


def _column_changes(old: Column, new: Column) -> list[dict[str, Any]]:
    name = format_name(new.path)
    listed = []
    if new.path[-1] != old.path[-1]:
        listed.append(change("renamed", name, format_name(old.path), name))
    for kind, show in (("type", lambda field: shape(field.type)), ("nullability", _nullable)):
        if show(old.field) != show(new.field):
            listed.append(change(kind, name, show(old.field), show(new.field)))
    metadata = changes(old.field.metadata, new.field.metadata)
    for item in sorted({*metadata.added, *metadata.removed, *metadata.changed}):
        values = (_text(column.field.metadata.get(item)) for column in (old, new))
        listed.append(change("metadata", f"{name}: {item}", *values))
    return listed


def _names(metadata: Metadata) -> str:
    return ", ".join(metadata.schema.names)


def _nullable(field: StructField) -> str:
    return "nullable" if field.nullable else "NOT NULL"


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def change(kind: str, name: str, before: Any, after: Any) -> dict[str, Any]:
    """A difference as the page shows it."""
    return {
        "kind": kind,
        "name": short(name),
        "before": None if before is None else short(str(before), 2000),
        "after": None if after is None else short(str(after), 2000),
    }
