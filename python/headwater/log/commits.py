"""Commit files: from the bytes of newline-delimited JSON to actions.

Owns the parsing of commits, compaction files and JSON checkpoints. Follows the protocol's chapters "Delta Log
Entries" and "Actions". File actions stay plain dictionaries here, since there can be millions; they become Arrow
columns in bulk. Promise: a file with anything but whole JSON objects is an error that names the file and the line,
never a version with some actions lost.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import orjson
import pyarrow as pa

from headwater.basics.errors import HeadwaterError, plain_reason
from headwater.log.files import FILE_SCHEMA, TOMBSTONE_SCHEMA, FileActions, table_of
from headwater.protocol.actions import AddCDCFile, DeletionVector, DomainMetadata, Metadata, Protocol, SetTransaction

#: What comes of an action whose fields are missing or of another type.
_WRONG = (KeyError, TypeError, AttributeError, ValueError, OverflowError, pa.ArrowException)

_EMPTY = (
    "the file is empty, because its writer was interrupted. If there is no later version and that writer no longer "
    "runs, delete the file: the table is then at the version before it"
)


@dataclass
class ParsedActions:
    """The actions of one file of the log."""

    path: str
    files: FileActions = field(default_factory=FileActions)
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    transactions: dict[str, SetTransaction] = field(default_factory=dict)
    domains: dict[str, DomainMetadata] = field(default_factory=dict)
    commit_info: dict[str, Any] | None = None
    sidecars: list[dict[str, Any]] = field(default_factory=list)
    change_files: list[dict[str, Any]] = field(default_factory=list)


def parse_actions(data: bytes, path: str) -> ParsedActions:
    """The actions of a file's content; ``path`` is for messages. Unknown actions are passed over.

    :raises HeadwaterError: ``DELTA_INVALID_COMMIT`` naming file and line.
    """
    if not data:
        # The put-if-absent of no store leaves an empty file; one that does was cut off, and what it held is unknown.
        raise invalid_commit(path, 1, _EMPTY)
    actions = ParsedActions(path, FileActions(partial(_file_actions, data, path)))
    for number, value in _objects(data, path):
        try:
            for name, content in value.items():
                if content is not None:
                    _take(actions, name, content)
        except _WRONG as error:
            raise _blame(actions, f"line {number}", error) from None
    try:
        actions.files.adds()
        actions.files.removes()
    except _WRONG as error:
        raise _blame(actions, "an add or remove", error) from None
    return actions


def _objects(data: bytes, path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """(line number, parsed line) of each line that is not empty."""
    for number, line in enumerate(_lines(data), 1):
        if not line or line.isspace():
            continue
        try:
            value = orjson.loads(line)
        except ValueError:
            value = _lenient(line, path, number)
        if not isinstance(value, dict):
            raise invalid_commit(path, number, "the line is not a JSON object")
        yield number, value


def _file_actions(data: bytes, path: str) -> Iterator[tuple[bool, dict[str, Any]]]:
    for _, value in _objects(data, path):
        for name in ("add", "remove"):
            if value.get(name) is not None:
                yield name == "add", value[name]


def _lines(data: bytes) -> Iterator[bytes]:
    """The lines one by one: all at once, those of a large commit would be in memory a second time."""
    start = 0
    while start < len(data):
        end = data.find(b"\n", start)
        if end < 0:
            end = len(data)
        yield data[start:end]
        start = end + 1


def _blame(actions: ParsedActions, place: str, error: Exception) -> HeadwaterError:
    """The error for an action that does not fit: of a file whose columns cannot be built, or the one just taken."""
    for action in actions.files.pending():
        try:
            table_of([action], FILE_SCHEMA)
            table_of([action], TOMBSTONE_SCHEMA)
        except _WRONG as cause:
            return invalid_commit(actions.path, f"the action of {action.get('path')}", plain_reason(cause))
    return invalid_commit(actions.path, place, f"an action is damaged ({reason_of(error)})")


def reason_of(error: BaseException) -> str:
    """What is wrong with an action, for people: without names of Python's."""
    if isinstance(error, HeadwaterError):
        return error.text
    return f"it has no {error.args[0]}" if isinstance(error, KeyError) else plain_reason(error)


def commit_info_of(data: bytes) -> dict[str, Any] | None:
    """The commitInfo of a commit's content without parsing the rest of it, None if it has no commitInfo.

    Only lines that mention the word are parsed, so that this is cheap for commits of many files; damaged lines are
    passed over, since provenance is not part of the table's state.
    """
    position = data.find(b'"commitInfo"')
    while position >= 0:
        start = data.rfind(b"\n", 0, position) + 1
        end = data.find(b"\n", position)
        line = data[start : len(data) if end < 0 else end]
        try:
            info = json.loads(line).get("commitInfo")
        except (ValueError, AttributeError, RecursionError):
            info = None
        if isinstance(info, dict):
            return info
        position = -1 if end < 0 else data.find(b'"commitInfo"', end)
    return None


def invalid_commit(path: str, place: int | str, reason: str) -> HeadwaterError:
    """The error for a log file that is not what the protocol says; ``place`` is a line's number or words."""
    where = f"line {place}" if isinstance(place, int) else place
    return HeadwaterError("DELTA_INVALID_COMMIT", {"path": path, "place": where, "reason": reason})


def _take(actions: ParsedActions, name: str, content: Mapping[str, Any]) -> None:
    match name:
        case "add" | "remove":
            if not isinstance(content["path"], str):
                raise TypeError("path is not text")
            values = content.get("partitionValues")
            if values is not None and not isinstance(values, dict):
                raise TypeError("partitionValues is not an object")
            DeletionVector.from_json(content.get("deletionVector"))
            actions.files.append(name == "add", content)
        case "commitInfo":
            actions.commit_info = dict(content)
        case "protocol":
            actions.protocol = Protocol.from_json(content)
        case "metaData":
            actions.metadata = Metadata.from_json(content)
        case "txn":
            transaction = SetTransaction.from_json(content)
            actions.transactions[transaction.app_id] = transaction
        case "domainMetadata":
            domain = DomainMetadata.from_json(content)
            actions.domains[domain.domain] = domain
        case "cdc":
            AddCDCFile.from_json(content)
            actions.change_files.append(dict(content))
        case "sidecar":
            if not isinstance(content["path"], str):
                raise TypeError("path is not text")
            actions.sidecars.append(dict(content))


def _lenient(line: bytes, path: str, number: int) -> Any:
    """What the stricter and quicker parser refuses but JSON in the wild has: NaN, numbers beyond 64 bits, lone
    surrogates.
    """
    try:
        return json.loads(line)
    except ValueError as error:
        raise invalid_commit(path, number, f"the line is not a whole JSON object ({error})") from None
    except RecursionError:
        raise invalid_commit(path, number, "the line is nested too deeply to be an action") from None
