"""Which files two versions of a table do not share.

Owns these figures, which the command ``headwater diff`` and the inspector show. Follows the protocol's chapter "Add
File and Remove File": a file is its path and its deletion vector, so one whose deleted rows differ is counted apart.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from headwater.log.files import keys_of
from headwater.log.snapshot import Snapshot


def file_differences(older: Snapshot, newer: Snapshot) -> dict[str, int]:
    """Files and bytes that were added and removed, and the files of both versions that have other deleted rows."""
    before, after = (snapshot.select(["path", "size", "deletion_vector"]) for snapshot in (older, newer))
    keys = keys_of(before), keys_of(after)
    removed = before.filter(pc.invert(pc.is_in(keys[0], _values(keys[1]))))
    added = after.filter(pc.invert(pc.is_in(keys[1], _values(keys[0]))))
    same = pc.is_in(added["path"], _values(removed["path"]))
    count = pc.sum(same).as_py() or 0
    return {
        "added": len(added) - count,
        "addedBytes": pc.sum(added.filter(pc.invert(same))["size"]).as_py() or 0,
        "removed": len(removed) - count,
        "removedBytes": (pc.sum(removed["size"]).as_py() or 0) - (pc.sum(added.filter(same)["size"]).as_py() or 0),
        "withOtherDeletedRows": count,
    }


def _values(texts: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(texts.chunks) if texts.num_chunks else pa.array([], pa.string())
