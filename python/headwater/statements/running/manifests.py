"""Manifests that commits and GENERATE update: their files follow the table's newest version.

Owns which manifests a commit changes, where the table has ``delta.compatibility.symlinkFormatManifest.enabled``: those
of partitions whose files it added or removed; all of them where it enabled the property or changed the partition
columns, or where the table has no manifests yet. The statement ends when they are written, so that readers of manifests
see what it did. Promises: a failure is a warning in the log and never fails the commit, which stands; the next commit
to the same partitions, or GENERATE, repairs them. Of writers that commit at the same time, in any process, the last to
write a manifest writes the newest version's, since each compares again once it has written. If the process dies
between commit and manifests, these are old until the next commit to the partition, or GENERATE.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial

from headwater.log import manifests
from headwater.log.manifests import Values
from headwater.log.snapshot import Snapshot
from headwater.protocol import properties
from headwater.protocol.actions import Metadata
from headwater.statements.running.opening import CACHE
from headwater.transaction import Transaction
from headwater.transaction.same_table import check_id, writing_to_same_table
from headwater.transaction.transaction import Committed

_LOG = logging.getLogger(__name__)
#: How often manifests are written again because other writers changed the same partitions meanwhile.
_MOST_ROUNDS = 100


def follow(table: Snapshot, newest: Callable[[], Snapshot], partitions: Iterable[Values] | None) -> None:
    """Bring manifests to a table's newest version.

    :param newest: reads it.
    :param partitions: those to look at; None for all.
    :raises HeadwaterError: as :func:`headwater.log.manifests.check`; ``DELTA_TABLE_ID_MISMATCH`` if another table has
        taken its place.
    """

    def current() -> Snapshot:
        found = newest()
        check_id(table, found)
        return writing_to_same_table(found)

    asked = None if partitions is None else list(partitions)
    snapshot = current()
    wanted = manifests.manifests(snapshot, asked)
    manifests.write(snapshot, wanted)
    if asked is None:
        manifests.delete_others(snapshot, wanted.keys())
    for _ in range(_MOST_ROUNDS):
        later = current()
        if later.version == snapshot.version:
            return
        snapshot, written, wanted = later, wanted, manifests.manifests(later, asked)
        # A partition that has no files any more is not in the answer for all of them.
        changed = {path: wanted.get(path, b"") for path in {*written, *wanted} if written.get(path) != wanted.get(path)}
        manifests.write(later, changed)
    message = "%s: other writers change the same partitions again and again; they write the manifests"
    _LOG.warning(message, table.table_path)


def keep_up(txn: Transaction, committed: Committed) -> None:
    """Bring the manifests that a commit changed to the newest version, where the table asks for it."""
    try:
        snapshot = committed.snapshot
        if not is_kept_up(snapshot.metadata):
            return
        before = txn.snapshot.metadata if txn.snapshot is not None else None
        partitions: list[Values] | None = txn.partitions_changed
        if partitions == [] and before is not None and is_kept_up(before):
            return
        if (
            before is None
            or not is_kept_up(before)
            or before.partition_columns != snapshot.metadata.partition_columns
            or not manifests.are_there(snapshot)
        ):
            partitions = None
        follow(snapshot, partial(CACHE.get, snapshot.table_path, snapshot.store), partitions)
    except Exception as error:
        _LOG.warning(
            "%s: the manifests could not be updated to version %d (%s); the commit is valid. GENERATE "
            "symlink_format_manifest FOR TABLE … writes them",
            *(txn.table_path, committed.version, error),
        )
        _LOG.debug("manifests", exc_info=True)


def is_kept_up(metadata: Metadata) -> bool:
    """Whether a table's commits bring its manifests up to date."""
    return properties.SYMLINK_MANIFEST.of(metadata.configuration)
