"""Finds the companion table of a version of a table, whatever happened to the table since its first deletion.

Owns what makes a table the same one: its id, and that no REPLACE TABLE or CLONE came in between that no RESTORE undid.
What a companion is named after may change while the table stays the same: its key columns get other physical names when
column mapping ends or an overwrite brings a schema, and another engine may date the ``metaData`` action that it writes.
So each batch of deletions notes in the companion whose it is, and if a table has deletions, but none under the names of
its definition, they are looked for by these notes. Promise: no such change makes a table forget a deletion, and those
of a table that was replaced, or of other keys, are not remembered. Limits: if there was no deletion in between, a key
is not found again that was renamed and then overwritten, or whose old name another column got before the mapping ended;
nor is one that was renamed if the log has lost its definitions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial

from headwater.basics.recent import Recent
from headwater.bridge.statement import Statement
from headwater.log.commits import parse_actions
from headwater.log.segment import list_log
from headwater.log.snapshot import Snapshot
from headwater.protocol import properties
from headwater.protocol.actions import Metadata
from headwater.protocol.file_names import LOG_DIRECTORY
from headwater.statements.running.opening import open_if_there
from headwater.statements.upserts import binding
from headwater.statements.upserts.deleted_keys import (
    APPLICATIONS,
    FOLDER,
    Companion,
    Note,
    companion_of,
    derived_from,
    note_of,
)
from headwater.statements.upserts.events import Events
from headwater.stores import Store
from headwater.stores.interface import in_parallel

_NAME = re.compile(r"[0-9a-f]{8}(-[0-9a-f]+)+")
#: The operations of commits that make another table of a table, unless they keep its id and the time it was created.
_REPLACES = (
    "REPLACE TABLE",
    "REPLACE TABLE AS SELECT",
    "CREATE OR REPLACE TABLE",
    "CREATE OR REPLACE TABLE AS SELECT",
    "CLONE",
)
_RESTORES = "RESTORE"
#: Commits that are read at a time.
_COMMITS_AT_ONCE = 256
#: Whether a table was replaced since it had a definition: by path, and by what is derived from that definition and from
#: the one that it has.
_REPLACED: Recent[tuple[str, str, str], bool] = Recent(1000)
#: What companions note, with newer names of the columns: by their path, and the table's schema.
_RENAMED: Recent[tuple[str, str], Note] = Recent(1000)


def companion_in(table: Snapshot, events: Events, statement: Statement) -> Companion:
    """The companion of a version of a table, whether it is there or not."""
    own = companion_of(table.table_path, table.metadata, events)
    known = {name for name in table.state.transactions if name.startswith(APPLICATIONS)}
    if own.application in known or not (known or binding.may_have_expired(table)):
        return own
    above = f"{table.table_path}/{FOLDER}"
    names = _folders(above, table, statement)
    if own.path.rpartition("/")[2] in names:
        return own
    for name in names:
        snapshot = open_if_there(f"{above}/{name}", statement)
        if snapshot is None or not _is_of(note := note_of(snapshot), table):
            continue
        columns = _columns(note, own.note, table, events)
        if columns is None:
            columns = _columns(_renamed(note, snapshot, table), own.note, table, events)
        if columns is not None:
            keys = dict(zip(columns, own.note.keys.values(), strict=True))
            return Companion(snapshot.metadata.id, snapshot.table_path, columns, own.note._replace(keys=keys))
    return own


def _folders(above: str, table: Snapshot, statement: Statement) -> Sequence[str]:
    """The names of the folders that a table's companions are in."""
    try:
        tree = table.store.walk(above, lambda name: bool(_NAME.fullmatch(name)), statement.check_cancelled)
    except (FileNotFoundError, NotImplementedError):
        return []
    inside = (directory.path.partition("/") for directory in tree.directories)
    return sorted({name for name, _, log in inside if log == LOG_DIRECTORY})


def _columns(noted: Note, own: Note, table: Snapshot, events: Events) -> list[str] | None:
    """The companion's columns of the events' keys; None if it has others.

    Without column mapping, the name says which column it is. With it, that is the physical name; a key that has another
    than the one that is noted is the same one if it has the same name, or had it when it was mapped again, unless
    another column of the table is the one that was meant.
    """
    if len(noted.keys) != len(events.keys) or noted.history not in (None, own.history):
        return None
    is_mapped = table.definition.maps_columns
    there = {column.physical_name.lower() for column in table.schema} if is_mapped else set[str]()
    by_physical_name = {physical: column for column, (physical, _) in noted.keys.items()}
    by_name = {name.lower(): c for c, (physical, name) in noted.keys.items() if physical.lower() not in there}
    columns = []
    for physical, name in own.keys.values():
        found = (by_physical_name.get(physical) if is_mapped else None) or by_name.get(physical.lower())
        if found is None and name.lower() not in there:
            found = by_name.get(name.lower())
        columns += [] if found is None else [found]
    return columns if len(set(columns)) == len(events.keys) else None


def _is_of(note: Note, table: Snapshot) -> bool:
    """Whether the table that is noted is the one that the table still is."""
    now = derived_from(table.metadata)
    if note.table == now:
        return True
    key = (table.table_path, note.table, now)
    if key not in _REPLACED:
        _REPLACED[key] = _was_replaced(table, note.table)
    return not _REPLACED[key]


def _renamed(note: Note, companion: Snapshot, table: Snapshot) -> Note:
    """What a companion notes, with the names that the key columns had last while they were mapped. The log is not asked
    if the table still has the columns that are noted: then its keys are others.
    """
    mapped = table.definition.maps_columns
    there = {column.physical_name if mapped else column.name for column in table.schema}
    if all(physical in there and (mapped or name == physical) for physical, name in note.keys.values()):
        return note
    key = (companion.table_path, table.metadata.schema_string)
    if key not in _RENAMED:
        _RENAMED[key] = note
        for metadata, _ in _definitions(table):
            names = {column.physical_name: column.name for column in metadata.schema}
            was_mapped = properties.COLUMN_MAPPING_MODE.of(metadata.configuration) != "none"
            if was_mapped and names.keys() >= {physical for physical, _ in note.keys.values()}:
                keys = {column: (physical, names[physical]) for column, (physical, _) in note.keys.items()}
                _RENAMED[key] = note._replace(keys=keys)
                break
    return _RENAMED[key]


def _was_replaced(table: Snapshot, since: str) -> bool:
    """Whether a version is of another table than the definition that something is derived from, or the log has lost
    that definition.
    """
    found: list[tuple[str, object]] = []
    has_restored = False
    for metadata, operation in _definitions(table):
        derived = derived_from(metadata)
        is_other = bool(found) and found[-1][1] in _REPLACES and found[-1][0] != derived
        found.append((derived, operation))
        has_restored = has_restored or operation == _RESTORES
        # What RESTORE brings back may be older than the next replacement.
        if (is_other or derived == since) and not has_restored:
            break
    found.reverse()
    numbers, now = _numbered(found)
    return numbers.get(since) != now


def _numbered(found: Sequence[tuple[str, object]]) -> tuple[dict[str, int], int]:
    """Which of the tables that there have been each definition is of, and the last one; the oldest comes first."""
    numbers: dict[str, int] = {}
    now, before = 0, None
    for number, (derived, operation) in enumerate(found, 1):
        if operation == _RESTORES:
            # The log keeps all definitions that can come back but the one that its oldest checkpoint has.
            now = numbers.get(derived, 0)
        elif operation in _REPLACES and derived != before:
            now = number
        numbers[derived], before = now, derived
    return numbers, now


def _definitions(table: Snapshot) -> Iterator[tuple[Metadata, object]]:
    """The definitions that the log still has up to a version, the newest first, and the operation that made each."""
    commits = list_log(table.table_path, table.store).commits
    versions = sorted((version for version in commits if version <= table.version), reverse=True)
    for start in range(0, len(versions), _COMMITS_AT_ONCE):
        paths = [commits[version].path for version in versions[start : start + _COMMITS_AT_ONCE]]
        for path, data in zip(paths, in_parallel(partial(_content, table.store), paths), strict=True):
            if b'"metaData"' in data and (found := parse_actions(data, path)).metadata is not None:
                yield found.metadata, (found.commit_info or {}).get("operation")


def _content(store: Store, path: str) -> bytes:
    """A commit; empty if it has been cleaned up meanwhile."""
    try:
        return store.read(path)
    except FileNotFoundError:
        return b""
