"""Keys of an enforced primary key that are in several rows, which other writers wrote.

Owns their count for DESCRIBE HEALTH. The index by which the key is enforced says which rows may have the same key; the
keys of some of these rows are read, as different keys may have one hash. Nothing else of a data file is read.
"""

from __future__ import annotations

from collections import defaultdict

import pyarrow as pa

from headwater.basics.errors import HeadwaterError
from headwater.key_index.definition import KeyIndex
from headwater.key_index.lookup import Place, repeated
from headwater.log.snapshot import Snapshot
from headwater.schema.keys import enforced_key
from headwater.transaction.keyed import keys_at

#: Of so many hashes that several rows have, the keys are read. If there are more, all of them count if one does.
_MOST_READ = 32


def duplicate_keys(snapshot: Snapshot, index: KeyIndex) -> int | None:
    """How many keys of the enforced primary key are in several rows of the files that its index covers; None if the
    index is of no such key, or if it cannot be said.
    """
    key = enforced_key(snapshot.definition)
    beside = [] if key is None else [column for column in key.columns if column in snapshot.partition_columns]
    columns = [column.name for column in index.columns]
    if key is None or {*beside, *columns} != set(key.columns):
        return None
    found = repeated(snapshot, index, beside)
    if not found:
        return None if found is None else 0
    try:
        confirmed = _confirmed(snapshot, columns, found[:_MOST_READ])
    except (OSError, ValueError, HeadwaterError, pa.ArrowException):
        return None
    return len(found) if confirmed and len(found) > _MOST_READ else confirmed


def _confirmed(snapshot: Snapshot, columns: list[str], found: list[list[Place]]) -> int:
    """Of how many lists of rows several have the same key."""
    rows = defaultdict[int, list[int]](list)
    for place in (place for places in found for place in places):
        rows[place.file].append(place.position)
    paths, keys = snapshot.files["path"], {}
    for file, positions in rows.items():
        for position, key in zip(positions, keys_at(snapshot, columns, paths[file].as_py(), positions), strict=True):
            keys[Place(file, position)] = key
    return sum(len({keys[place] for place in places}) < len(places) for places in found)
