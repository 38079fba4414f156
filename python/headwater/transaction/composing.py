"""One commit of all that a transaction over several statements did to a table; and versions of tables that go together.

Owns :func:`composed`: what the pending commits of a table (:mod:`headwater.transaction.pending`) come to on the version
that was read, as one transaction for the table's own log. A file that one statement added and another removed is in
none; marks of several in one file are one; what was read is what any of them read. Winners are checked against the
whole. Owns also :func:`version_together`, by which a transaction reads nothing of a group that it has read before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from headwater.log import groups
from headwater.log.files import canonical_path
from headwater.log.snapshot import Snapshot
from headwater.log.snapshot_cache import SnapshotCache
from headwater.protocol.actions import AddFile, DomainMetadata, RemoveFile
from headwater.protocol.row_tracking import DOMAIN as ROW_IDS
from headwater.transaction.content import Content
from headwater.transaction.pending import PendingLog
from headwater.transaction.read_set import ReadSet
from headwater.transaction.row_level import Mark
from headwater.transaction.transaction import Transaction

#: Commits of a table that are older than the first look of a transaction by more than this, in milliseconds, are part
#: of no group that was decided since: clocks differ, and a group takes milliseconds, or seconds after a crash.
_DECIDED_WITHIN = 600_000


def version_together(newest: Snapshot, pinned: Sequence[Snapshot], since: int) -> int:
    """The newest version of a table that goes with versions of others: it has no commit of a group of which these have
    none.

    :param newest: of the table.
    :param pinned: the versions of other tables.
    :param since: when the first of these was read, in milliseconds since the epoch.
    """
    version = newest.version
    others = {snapshot.table_path: snapshot for snapshot in pinned}
    for number in range(newest.version, 0, -1):
        file = newest.segment.listing.commits.get(number)
        if not others or file is None or file.modification_time < since - _DECIDED_WITHIN:
            break
        group = groups.Group.of(newest.store.read(file.path), newest.table_path)
        record = None if group is None else groups.record_of(newest.table_path, newest.store, group)
        for path, first in () if record is None else record.first_versions():
            other = others.get(path)
            if other is None or record is None:
                continue
            made = groups.published_version(other.store, record.id, path, first)
            if made is not None and made > other.version:
                version = number - 1
    return version


def composed(log: PendingLog, cache: SnapshotCache | None) -> Transaction:
    """One transaction, on the version that was read, with all that the pending commits read and wrote."""
    txn = Transaction(log.table_path, log.inner, log.pinned, cache)
    works = [commit.prepared.work for commit in log.commits]
    net = _Net()
    for work in works:
        net.take(work.content)
        _read(txn, work.reads, alone=len(works) == 1)
        txn.loses_row_ids = txn.loses_row_ids or work.loses_row_ids
        if work.definition.new_protocol is not None:
            txn.update_protocol(work.definition.new_protocol)
        if work.definition.new_metadata is not None:
            txn.update_metadata(work.definition.new_metadata)
        for action in work.content.state_actions:
            if not (isinstance(action, DomainMetadata) and action.domain == ROW_IDS):
                txn.add_action(action)
        for change in work.content.changes:
            txn.add_action(change)
    txn.remove(net.removed.values())
    txn.add(net.added.values())
    for mark in net.marks.values():
        txn.mark(mark)
    return txn


def _read(txn: Transaction, reads: ReadSet, *, alone: bool) -> None:
    if reads.whole_table:
        txn.read_whole_table()
    if reads.follows_directly:
        txn.follow_directly()
    for predicates in reads.predicates:
        txn.read_where(predicates)
    for app_id in reads.app_ids:
        txn.transaction_version(app_id)
    if reads.key_reads is not None:
        keys, predicates = reads.key_reads
        if alone:
            txn.read_keys(keys, predicates)
        else:
            txn.read_where(predicates)


class _Net:
    """What file actions one after the other come to."""

    def __init__(self) -> None:
        #: By canonical path: files of the version that was read, files that are new, marks in files of that version.
        self.removed: dict[str, RemoveFile] = {}
        self.added: dict[str, AddFile] = {}
        self.marks: dict[str, Mark] = {}

    def take(self, content: Content) -> None:
        for file in content.removed:
            self._remove(file)
        for mark in content.marks.all:
            self._mark(mark)
        for added in content.added:
            self.added[canonical_path(added.path)] = added

    def _remove(self, file: RemoveFile) -> None:
        path = canonical_path(file.path)
        if self.added.pop(path, None) is not None:
            return
        marked = self.marks.pop(path, None)
        self.removed[path] = file if marked is None else replace(file, deletion_vector=marked.remove.deletion_vector)

    def _mark(self, mark: Mark) -> None:
        path = canonical_path(mark.remove.path)
        before = self.marks.get(path)
        if path in self.added:
            del self.added[path]
            if mark.add is not None:
                self.added[path] = mark.add
        elif before is not None:
            self.marks[path] = replace(mark, remove=before.remove, positions=before.positions | mark.positions)
        else:
            self.marks[path] = mark
