"""How two versions of a table differ: size, files, schema, properties and protocol.

Owns what the page shows beside each other. Promise: the differences are those of the two versions as they are, however
many commits lie between them; the older version comes first, whichever was named first.
"""

from __future__ import annotations

from typing import Any

from headwater.basics.amounts import plural, size_text
from headwater.inspector.definitions import change, property_changes, protocol_changes, schema_changes
from headwater.inspector.overview import counts
from headwater.inspector.table import InspectedTable, View
from headwater.log.file_differences import file_differences
from headwater.protocol.columns import format_name


def comparison(table: InspectedTable, one: int, other: int) -> dict[str, Any]:
    """The differences of two versions, and a sentence about them.

    :raises HeadwaterError: those of loading a snapshot; ``DELTA_INVALID_SCHEMA``.
    """
    older, newer = table.view(min(one, other)), table.view(max(one, other))
    before, after = older.snapshot, newer.snapshot
    sides = [_side(older), _side(newer)]
    files = file_differences(before, after)
    return {
        "sides": sides,
        "files": files,
        "sentence": _sentence(sides, files),
        "changes": {
            "schema": schema_changes(before.metadata, after.metadata),
            "properties": property_changes(before.metadata, after.metadata) + _clustering(older, newer),
            "protocol": protocol_changes(before.protocol, after.protocol),
            "unknown": [],
        },
    }


def _side(view: View) -> dict[str, Any]:
    snapshot = view.snapshot
    return {
        "version": snapshot.version,
        "time": snapshot.timestamp,
        "files": snapshot.num_files,
        "bytes": snapshot.size_in_bytes,
        "rows": view.once(counts, counts)["rows"],
    }


def _sentence(sides: list[dict[str, Any]], files: dict[str, int]) -> str:
    older, newer = (f"version {side['version']:,}" for side in sides)
    if older == newer:
        return f"This is {older} beside itself."
    parts = []
    if files["added"]:
        parts.append(f"has {plural(files['added'], 'new file')} ({size_text(files['addedBytes'])})")
    if files["removed"]:
        parts.append(f"no longer has {plural(files['removed'], 'file')} ({size_text(files['removedBytes'])})")
    if files["withOtherDeletedRows"]:
        parts.append(f"has other deleted rows in {plural(files['withOtherDeletedRows'], 'file')}")
    said = " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]])) or "has the same files"
    return f"Compared with {older}, {newer} {said}."


def _clustering(older: View, newer: View) -> list[dict[str, Any]]:
    before, after = (
        ", ".join(format_name(path) for path in view.snapshot.clustering_columns or ()) or None
        for view in (older, newer)
    )
    if before == after:
        return []
    return [change("changed", "(clustering columns)", before, after)]
