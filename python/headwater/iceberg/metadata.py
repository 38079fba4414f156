"""Metadata files of Iceberg: the table as Iceberg's readers see it, and its snapshots.

Owns ``metadata/v<n>.metadata.json`` and ``metadata/version-hint.text`` below a Delta table: which is the newest, and
the next one's content. Follows the chapters "Table Metadata" and "File System Tables" of Iceberg's specification,
format version 2. Promises: a metadata file is put if absent, so of several writers one makes the next version; what a
reader may still need of older snapshots stays.

A metadata file goes on with the *history* of the one before, its snapshots and its partition spec, or begins another
one. A history has one spec, and no field id in it gets a type that old values cannot be read as. So a reader of the
newest file, which looks at all its specs and may look at all its snapshots, finds nothing against the schema.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from headwater.iceberg.types import is_promotion
from headwater.stores import Store

#: Below the table.
DIRECTORY = "metadata"
_HINT = "version-hint.text"
#: By these a metadata file says of which version of the Delta table it is; as Delta Lake's connector names them.
DELTA_VERSION, DELTA_TIMESTAMP, BASE_DELTA_VERSION = "delta-version", "delta-timestamp", "base-delta-version"
NAME_MAPPING = "schema.name-mapping.default"
#: The number of the metadata file that the history began with.
HISTORY = "headwater-history"
#: The summary of snapshots that this writer made, whose manifests it knows how to change.
ENGINE = {"engine-name": "headwater"}
#: Snapshots that stay at least, where they are not older than the table's deleted files are kept.
_SNAPSHOTS = 100
#: Milliseconds for which any snapshot stays, so that a query that is being planned finds its manifests.
ANY_SNAPSHOT = 15 * 60 * 1000
_MOST_SNAPSHOTS = 1000


@dataclass(frozen=True)
class Current:
    """The newest metadata file: its number, its JSON object, and whether the hint names it. One that is damaged has an
    object without members.
    """

    number: int
    content: dict[str, Any]
    is_hinted: bool = True

    @property
    def delta_version(self) -> int | None:
        """The version of the Delta table that it is of."""
        found = self.content.get("properties", {}).get(DELTA_VERSION, "")
        return int(found) if found.isdecimal() else None

    @property
    def snapshot(self) -> dict[str, Any] | None:
        """The current snapshot."""
        wanted = self.content.get("current-snapshot-id")
        return next((each for each in self.content.get("snapshots", ()) if each["snapshot-id"] == wanted), None)

    @property
    def is_own(self) -> bool:
        """Whether this writer made the current snapshot; a table without one is anyone's."""
        found = self.snapshot
        return found is None or ENGINE.items() <= found["summary"].items()


def path_of(table_path: str, number: int) -> str:
    """The path of a metadata file."""
    return f"{table_path}/{DIRECTORY}/v{number}.metadata.json"


def location(path: str) -> str:
    """A path as Iceberg's readers find it: with its scheme."""
    return f"file://{path}" if path.startswith("/") else path


def newest(table_path: str, store: Store) -> Current | None:
    """The newest metadata file; None if the table has no such file."""
    hinted = number = _hinted(table_path, store)
    if number is None:
        # Whoever wrote the first may have been cut off before the hint.
        number = 1 if store.exists(path_of(table_path, 1)) else None
        if number is None:
            return None
    while store.exists(path_of(table_path, number + 1)):
        number += 1
    return Current(number, _parsed(store.read(path_of(table_path, number))), number == hinted)


def _parsed(data: bytes) -> dict[str, Any]:
    with contextlib.suppress(ValueError):
        content = json.loads(data)
        if isinstance(content, dict):
            return content
    return {}


def _hinted(table_path: str, store: Store) -> int | None:
    with contextlib.suppress(FileNotFoundError):
        text = store.read(f"{table_path}/{DIRECTORY}/{_HINT}").decode(errors="replace").strip()
        if text.isdecimal() and store.exists(path_of(table_path, int(text))):
            return int(text)
    return None


def publish(table_path: str, store: Store, number: int, content: Mapping[str, Any]) -> None:
    """Make a metadata file the newest.

    :raises FileExistsError: another writer made it.
    """
    put_once(store, path_of(table_path, number), json.dumps(content, separators=(",", ":")).encode())
    point_to(table_path, store, number)


def put_once(store: Store, path: str, data: bytes) -> None:
    """The same as the store's, for a file in a table's folder of metadata, which need not be there."""
    try:
        store.put_once(path, data)
    except FileNotFoundError:  # the directory is not there, on stores that have some
        store.make_directory(path.rpartition("/")[0])
        store.put_once(path, data)


def point_to(table_path: str, store: Store, number: int) -> None:
    """Have the hint name a metadata file, or a newer one."""
    hint = number
    while True:
        store.put(f"{table_path}/{DIRECTORY}/{_HINT}", str(hint).encode())
        # Another writer's hint may have been replaced by this older one.
        if not store.exists(path_of(table_path, hint + 1)):
            return
        hint += 1


def with_schema(schemas: Sequence[Mapping[str, Any]], schema: Mapping[str, Any]) -> tuple[list[dict[str, Any]], int]:
    """The schemas with one more, if it is not among them, and its id."""
    fields = schema["fields"]
    known = [dict(each) for each in schemas]
    for each in known:
        if each["fields"] == fields:
            return known, each["schema-id"]
    number = max((each["schema-id"] for each in known), default=-1) + 1
    return [*known, {**schema, "schema-id": number}], number


class Continuation(NamedTuple):
    """How a metadata file goes on with the history of the one before.

    :param spec: the partition spec.
    :param is_widened: whether a column has a wider type than when the manifests were written.
    """

    spec: dict[str, Any]
    is_widened: bool


def continuation(
    content: Mapping[str, Any], schema: Mapping[str, Any], fields: Sequence[Mapping[str, Any]]
) -> Continuation | None:
    """How a table with these columns and partition fields goes on with a history; None if it begins another one.

    A partition field keeps its name if its column is renamed, as Iceberg's own writers have it. But no column may have
    the name of another column's field.
    """
    spec = _current(content, "partition-specs", "spec-id", "default-spec-id")
    old = _current(content, "schemas", "schema-id", "current-schema-id")
    if HISTORY not in content.get("properties", {}) or spec is None or old is None:
        return None
    names = {each["source-id"]: each["name"].lower() for each in spec["fields"]}
    taken = {each["name"].lower(): each["id"] for each in schema["fields"]}
    if [*names] != [each["source-id"] for each in fields]:
        return None
    if any(taken.get(name, number) != number for number, name in names.items()):
        return None
    before, now = dict(_types(old)), dict(_types(schema))
    changed = [(before[number], kind) for number, kind in now.items() if before.get(number, kind) != kind]
    return Continuation(spec, bool(changed)) if all(is_promotion(*each) for each in changed) else None


def _current(content: Mapping[str, Any], members: str, key: str, wanted: str) -> dict[str, Any] | None:
    return next((each for each in content.get(members, ()) if each[key] == content.get(wanted)), None)


def _types(kind: Any, number: int = 0) -> Iterator[tuple[int, str]]:
    """The type of each field, element, key and value by its id; of one with parts, what kind it is."""
    if not isinstance(kind, Mapping):
        yield number, kind
        return
    yield number, kind["type"]
    for field in kind.get("fields", ()):
        yield from _types(field["type"], field["id"])
    for part in ("element", "key", "value"):
        if part in kind:
            yield from _types(kind[part], kind[f"{part}-id"])


def expired(snapshots: Sequence[Mapping[str, Any]], now: int, retention: int) -> int:
    """How many of the snapshots, the oldest first, go.

    :param now: milliseconds since the epoch.
    :param retention: milliseconds for which the files of old versions stay.
    """
    last = len(snapshots) - 1
    for position, snapshot in enumerate(snapshots):
        age = now - snapshot["timestamp-ms"]
        newer = last - position
        if position == last or newer < _SNAPSHOTS and age < retention or age < ANY_SNAPSHOT and newer < _MOST_SNAPSHOTS:
            return position
    return 0
