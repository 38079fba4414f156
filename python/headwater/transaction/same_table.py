"""Whether a transaction's table is still the table it began with.

Owns the look at the log, right before a commit is put, that tells a table which was deleted and made anew under the
same path from the one that was read: a commit that goes into the other table's log would leave a gap there, or name
files the other never had. A table is known by the file of the version that was read; where that is another one, by the
identifier in its metadata (the protocol's chapter "Change Metadata"). Only on stores that tell of one file without a
listing: elsewhere the look would cost as much as the commit.
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
    except OSError:  # the put will tell whether the store works
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
