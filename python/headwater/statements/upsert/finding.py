"""Which companion a version of a table has, whatever became of the table since its first deletion.

Owns what makes a table the same one: its id, and that no REPLACE TABLE came in between. What a companion is named after
may change while the table stays the same: its key columns get other physical names when column mapping ends or an
overwrite brings a schema, and another engine may date the ``metaData`` action that it writes. So each batch of
deletions notes in the companion whose it is, and if a table has deletions, but none under the names of its definition,
they are looked for by these notes. Promise: no such change makes a table forget a deletion, unless a key column got
both another name and another physical name with no deletion in between; those of a table that was replaced, or of other
keys, are not remembered.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from headwater.bridge.statement import Statement
from headwater.log.commits import parse_actions
from headwater.log.segment import list_log
from headwater.log.snapshot import Snapshot
from headwater.protocol.file_names import LOG_DIRECTORY
from headwater.recent import Recent
from headwater.statements.commit.opening import open_if_there
from headwater.statements.upsert import binding
from headwater.statements.upsert.companion import (
    APPLICATIONS,
    FOLDER,
    Companion,
    Note,
    companion_of,
    derived_from,
    note_of,
)
from headwater.statements.upsert.events import Events

_NAME = re.compile(r"[0-9a-f]{8}(-[0-9a-f]+)+")
#: The operations of commits that make another table of a table.
_REPLACES = ("REPLACE TABLE", "REPLACE TABLE AS SELECT", "CREATE OR REPLACE TABLE", "CREATE OR REPLACE TABLE AS SELECT")
#: Commits that are read at a time.
_COMMITS_AT_ONCE = 256
#: Whether a table was replaced since it had a definition: by path, and by what is derived from that definition and from
#: the one that it has.
_REPLACED: Recent[tuple[str, str, str], bool] = Recent(1000)


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
        if (columns := _columns(note, own.note, table, events)) is not None:
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


def _was_replaced(table: Snapshot, since: str) -> bool:
    """Whether the log has a REPLACE TABLE after the definition that something is derived from, or has lost that."""
    commits = list_log(table.table_path, table.store).commits
    versions = sorted((version for version in commits if version <= table.version), reverse=True)
    for start in range(0, len(versions), _COMMITS_AT_ONCE):
        paths = [commits[version].path for version in versions[start : start + _COMMITS_AT_ONCE]]
        for path, data in zip(paths, table.store.read_many(paths), strict=True):
            if b'"metaData"' not in data or (found := parse_actions(data, path)).metadata is None:
                continue
            if derived_from(found.metadata) == since:
                return False
            if (found.commit_info or {}).get("operation") in _REPLACES:
                return True
    return True
