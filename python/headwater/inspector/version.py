"""One version: the actions of its commit, and how it changed the table's definition.

Owns what the page shows of a single commit. Promise: a damaged line is shown as it is, with what is wrong; the others
are shown anyway.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import orjson

from headwater.basics.amounts import effects, plural
from headwater.basics.errors import HeadwaterError
from headwater.inspector.definitions import definition_before, property_changes, protocol_changes, schema_changes
from headwater.inspector.plain import json_value, short, whole
from headwater.inspector.table import InspectedTable
from headwater.log.segment import LogListing, version_not_found
from headwater.protocol.actions import Metadata, Protocol, num_records

#: Actions that one answer has.
PAGE = 200
#: Bytes of a commit that are looked at; the rest of a larger one is left out, which the answer says.
_MOST_BYTES = 48 << 20
_FILE_KINDS = ("add", "remove", "cdc")


def version_details(table: InspectedTable, version: int, offset: int = 0) -> dict[str, Any]:
    """The actions of a commit from a place on, their numbers by kind, and the differences it made.

    :raises HeadwaterError: ``DELTA_VERSION_NOT_FOUND``.
    """
    listing = table.listing()
    commit = listing.commits.get(version)
    if commit is None:
        raise version_not_found(listing, version)
    content = table.store.read_range(commit.path, 0, _MOST_BYTES) if commit.size > _MOST_BYTES else None
    cut_off = content is not None
    if content is None:
        content = table.store.read(commit.path)
    lines = [line for line in content.split(b"\n") if line and not line.isspace()]
    if cut_off and lines:
        lines.pop()
    kinds: Counter[str] = Counter()
    shown: list[dict[str, Any]] = []
    info: Any = None
    definition: dict[str, Any] = {}
    for number, line in enumerate(lines):
        kind = _kind_of(line)
        wanted = offset <= number < offset + PAGE
        if wanted or kind not in _FILE_KINDS:
            kind, action, problem = _parsed(line)
            if wanted:
                shown.append(_shown(number, kind, action, line, problem))
            if kind == "commitInfo":
                info = action
            elif kind in ("protocol", "metaData"):
                definition[kind] = action
        kinds[kind] += 1
    answer = {
        "version": version,
        "bytes": commit.size,
        "cutOff": cut_off,
        "commitInfo": json_value(info),
        "counts": dict(sorted(kinds.items())),
        "actions": shown,
        "total": len(lines),
        "offset": offset,
    }
    if offset == 0:
        answer["changes"] = _changes(table, listing, version, definition)
        answer["sentence"] = _sentence(version, info, kinds, answer["changes"])
    return answer


def _sentence(version: int, info: Any, kinds: Counter[str], changes: dict[str, Any]) -> str:
    """What the commit did, by its metrics if it has some, else by its actions."""
    known = info if isinstance(info, dict) else {}
    operation, engine = (_words(known.get(name)) for name in ("operation", "engineInfo"))
    metrics, parameters = (
        each if isinstance(each := known.get(name), dict) else None
        for name in ("operationMetrics", "operationParameters")
    )
    done = effects(metrics, parameters) or [
        f"{plural(kinds[kind], 'file')} {does}"
        for kind, does in (("add", "added"), ("remove", "removed"))
        if kinds[kind]
    ]
    maker = f"{operation or 'an unnamed operation'}{f' by {engine}' if engine else ''}"
    text = f"Version {version:,} is the result of {maker}: {', '.join(done) or 'no file changed'}."
    changed = [name for name in ("schema", "properties", "protocol") if changes[name]]
    if changed and version > 0:
        text += f" It changed the table's {' and '.join(filter(None, [', '.join(changed[:-1]), changed[-1]]))}."
    return short(text, 1000)


def _words(value: Any) -> str | None:
    return short(value) if isinstance(value, str) and value else None


def _changes(table: InspectedTable, listing: LogListing, version: int, definition: dict[str, Any]) -> dict[str, Any]:
    """The differences to the version before; empty if the commit defines nothing."""
    found: dict[str, Any] = {"protocol": [], "properties": [], "schema": [], "unknown": []}
    if not definition:
        return found
    old_protocol, old_metadata = (None, None)
    if version > 0:
        old_protocol, old_metadata = definition_before(version, listing, table.path, table.store)
    for kind, old in (("protocol", old_protocol), ("metaData", old_metadata)):
        if kind in definition and old is None and version > 0:
            found["unknown"].append(kind)
    try:
        if "protocol" in definition:
            found["protocol"] = protocol_changes(old_protocol, Protocol.from_json(definition["protocol"]))
        if "metaData" in definition:
            metadata = Metadata.from_json(definition["metaData"])
            found["properties"] = property_changes(old_metadata, metadata)
            found["schema"] = schema_changes(old_metadata, metadata)
    except HeadwaterError as error:
        found["error"] = error.text
    except (KeyError, TypeError, ValueError, AttributeError):
        found["error"] = "The protocol or metaData action is damaged."
    return found


def _kind_of(line: bytes) -> str:
    """The kind of an action by the beginning of its line: to parse those of a large commit takes long."""
    start = line[:16]
    return next((kind for kind in _FILE_KINDS if start.startswith(b'{"' + kind.encode() + b'":')), "other")


def _parsed(line: bytes) -> tuple[str, Any, str | None]:
    """The kind of an action, its content, and what is wrong with the line."""
    try:
        value = orjson.loads(line)
    except ValueError as error:
        return "damaged", None, f"The line is not a whole JSON object: {error}"
    if not isinstance(value, dict):
        return "damaged", None, "The line is not a JSON object."
    kinds = [(kind, content) for kind, content in value.items() if content is not None]
    return kinds[0] + (None,) if kinds else ("empty", None, None)


def _shown(number: int, kind: str, action: Any, line: bytes, problem: str | None) -> dict[str, Any]:
    shown: dict[str, Any] = {"line": number + 1, "kind": short(kind), "problem": problem}
    if not isinstance(action, dict):
        return {**shown, "text": short(line.decode("utf-8", "replace"), 2000)}
    if kind in _FILE_KINDS:
        stats, vector = action.get("stats"), action.get("deletionVector")
        shown |= {
            "path": short(str(action.get("path")), 500),
            "size": whole(action.get("size")),
            "rows": whole(num_records(stats)) if isinstance(stats, str) else None,
            "deletedRows": whole(vector.get("cardinality")) if isinstance(vector, dict) else None,
            "partition": json_value(action.get("partitionValues") or {}),
        }
    return {**shown, "content": json_value(_with_parsed_stats(action))}


def _with_parsed_stats(action: dict[str, Any]) -> dict[str, Any]:
    """The action with what it holds as JSON text as an object, which is easier to read."""
    found = dict(action)
    for name in ("stats", "schemaString", "configuration"):
        if isinstance(found.get(name), str):
            try:
                found[name] = orjson.loads(found[name])
            except ValueError:
                continue
    return found
