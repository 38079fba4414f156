"""Detects that a table was deleted and re-created at the same path since the transaction began.

Owns the look at the log right before a commit is put: in the log of another table, the commit would leave a gap, or
name files that the table never had. A table is recognized by the file of the version that was read; if that is another
file, by the identifier in its metadata (the protocol's chapter "Change Metadata"). It looks only on stores that can
look up one file without a listing: elsewhere it would cost as much as the commit.
"""

from __future__ import annotations

from headwater.errors import HeadwaterError
from headwater.log.segment import version_not_found
from headwater.log.snapshot import Snapshot, load_snapshot
from headwater.stores import Store


def check_same_table(snapshot: Snapshot, store: Store) -> None:
    """Return if the log a snapshot was read from is there still, versions that were cleaned up aside.

    :raises HeadwaterError: ``DELTA_TABLE_ID_MISMATCH``, ``DELTA_TABLE_NOT_FOUND``; ``DELTA_VERSION_NOT_FOUND`` where
        the log ends before the version, as that of a table put back from a backup does.
    """
    tip = snapshot.segment.listing.commits.get(snapshot.version)
    if tip is None:
        return
    try:
        found = store.following([tip.path])
    except OSError:  # the put will show whether the store works
        return
    if found is None or tip in found:
        return
    newest = load_snapshot(snapshot.table_path, store)
    if newest.metadata.id != snapshot.metadata.id:
        raise HeadwaterError(
            "DELTA_TABLE_ID_MISMATCH",
            {"tableLocation": snapshot.table_path, "seen": snapshot.metadata.id, "found": newest.metadata.id},
        )
    if newest.version < snapshot.version:
        raise version_not_found(newest.segment.listing, snapshot.version)
