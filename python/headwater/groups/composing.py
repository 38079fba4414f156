"""Composes one commit from all that a transaction over several statements did to a table; and finds versions of tables
that are consistent with each other.

Owns :func:`composed`: what the pending commits of a table (:mod:`headwater.groups.pending`) come to on the version
that was read, as one transaction for the table's own log. A file that one statement added and another removed is in
none; marks of several in one file are one; what was read is what any of them read; of change data, what the net has
(:mod:`headwater.groups.net_changes`). Winners are checked against the whole. Of a table that the transaction
creates, version 0 has what is left of all. Owns also :func:`version_together`, by which a transaction reads nothing of
a group that it has read before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from headwater.basics.errors import HeadwaterError
from headwater.groups import net_changes
from headwater.groups.pending import PendingLog
from headwater.log import groups
from headwater.log.commits import parse_actions
from headwater.log.files import canonical_path
from headwater.log.groups import Standing
from headwater.log.segment import list_log
from headwater.log.snapshot import Snapshot
from headwater.log.snapshot_cache import SnapshotCache
from headwater.protocol.actions import AddCDCFile, AddFile, DomainMetadata, RemoveFile
from headwater.protocol.file_names import commit_name, log_directory
from headwater.protocol.row_tracking import DOMAIN as ROW_IDS
from headwater.protocol.row_tracking import high_water_mark
from headwater.transaction.content import Content
from headwater.transaction.prepared import Work
from headwater.transaction.read_set import ReadSet
from headwater.transaction.row_level import Mark
from headwater.transaction.transaction import Transaction

#: Commits of a table that are older than the first look of a transaction by more than this, in milliseconds, are part
#: of no group that was decided since: clocks differ, and a group takes milliseconds, or seconds after a crash.
_DECIDED_WITHIN = 600_000
#: How many versions a listing goes back at a time.
_LISTED_AT_ONCE = 200


def version_together(newest: Snapshot, pinned: Sequence[Snapshot], since: int) -> int:
    """The newest version of a table that goes with versions of others: of no group, one has a commit and another not.

    :param newest: of the table.
    :param pinned: the versions of other tables that are read.
    :param since: when the first of these was read, in milliseconds since the epoch.
    :raises HeadwaterError: ``HEADWATER_TRANSACTION_VERSIONS_APART`` if no version fits.
    """
    version, others = newest.version, {snapshot.table_path: snapshot for snapshot in pinned if _has_moved(snapshot)}
    for number, made in _groups_of(newest, since) if others else ():
        if any(path in others and at > others[path].version for path, at in made.items()):
            version = min(version, number - 1)
    if version < newest.version:
        for other in pinned:
            for _, made in _groups_of(other, since):
                if made.get(newest.table_path, -1) > version:
                    raise _apart(newest, others)
    if version < 0:  # it was not there yet
        raise _apart(newest, others)
    return version


def _has_moved(snapshot: Snapshot) -> bool:
    """Whether a table has commits after a version. Before that, of no group that a newer look at another table shows
    is one of its commits missing: all of them are in their logs when the group is decided about.
    """
    following = f"{log_directory(snapshot.table_path)}/{commit_name(snapshot.version + 1)}"
    try:
        return snapshot.store.exists(following)
    except OSError:
        return True


def _apart(table: Snapshot, others: Iterable[str]) -> HeadwaterError:
    tables = f"{table.table_path}, {', '.join(others)}"
    return HeadwaterError("HEADWATER_TRANSACTION_VERSIONS_APART", {"tables": tables})


def _groups_of(snapshot: Snapshot, since: int) -> Iterator[tuple[int, dict[str, int]]]:
    """The versions of a table that are commits of groups and may have been decided about after a time, newest first;
    each with the versions of all tables that are of its group.
    """
    recent = dict(_commits_since(snapshot, since - _DECIDED_WITHIN))
    contents = snapshot.store.read_many(list(recent.values()))
    for number, commit in zip(recent, contents, strict=True):
        group = groups.Group.of(commit, snapshot.table_path)
        if group is None or groups.standing(snapshot.table_path, snapshot.store, number, commit) is Standing.UNDONE:
            continue
        record = groups.record_of(snapshot.table_path, snapshot.store, group)
        if record is not None:
            found = {
                path: groups.published_version(snapshot.store, record.id, path, first)
                for path, first in record.first_versions()
            }
            yield number, {path: at for path, at in found.items() if at is not None}


def _commits_since(snapshot: Snapshot, time: int) -> Iterator[tuple[int, str]]:
    """The versions up to a snapshot's that were committed after a time, newest first, and their files."""
    following = snapshot.version + 1
    while following > 0:
        first = max(0, following - _LISTED_AT_ONCE)
        listed = list_log(snapshot.table_path, snapshot.store, first).commits
        for number in range(following - 1, first - 1, -1):
            file = listed.get(number)
            if file is None or file.modification_time < time:
                return
            yield number, file.path
        following = first


def composed(log: PendingLog, cache: SnapshotCache | None) -> Transaction:
    """One transaction, on the version that was read, with all that the pending commits read and wrote."""
    txn = Transaction(log.table_path, log.inner, None if log.is_new else log.pinned, cache)
    works = [commit.prepared.work for commit in log.commits]
    net = _Net()
    for work in works:
        net.take(work.content)
        if not log.is_new:  # there was nothing to read; and the change feed of a first version is its rows
            _read(txn, work.reads, alone=len(works) == 1 and not log.noted)
        txn.claim_keys(*work.claims)
        txn.loses_row_ids = txn.loses_row_ids or work.loses_row_ids
        if work.definition.new_protocol is not None:
            txn.update_protocol(work.definition.new_protocol)
        if work.definition.new_metadata is not None:
            txn.update_metadata(work.definition.new_metadata)
        for action in work.content.state_actions:
            if not (isinstance(action, DomainMetadata) and action.domain == ROW_IDS):
                txn.add_action(action)
    for change in () if log.is_new else _changes(log, works):
        txn.add_action(change)
    if net.rewrites_own and txn.definition.assigns_row_ids:
        _keep_row_ids(txn, log, net)
    txn.remove(net.removed.values())
    txn.add(net.added.values())
    if log.noted is not None:
        txn.serializable = True
        for predicates in log.noted:
            txn.read_where(predicates)
    if not log.noted and _may_share_files(works):
        for mark in net.marks.values():
            txn.mark(mark)
    else:
        txn.remove([mark.remove for mark in net.marks.values()])
        txn.add([mark.add for mark in net.marks.values() if mark.add is not None])
    return txn


def _changes(log: PendingLog, works: Sequence[Work]) -> list[AddCDCFile]:
    """The change data files of one commit of all."""
    contents = [work.content for work in works]
    if len(contents) == 1:
        return contents[0].changes
    own = zip(contents, net_changes.are_plain(contents), strict=True)
    return [*(change for content, is_plain in own if not is_plain for change in content.changes), *log.changes]


def _keep_row_ids(txn: Transaction, log: PendingLog, net: _Net) -> None:
    """Keep the row ids that pending commits gave: rows of files that were written and rewritten have them, and the
    version that they have it by, in the new files. So another commit that gave the same ids, or made the version, is a
    conflict.
    """
    if not log.is_new:
        txn.follow_directly()
    for commit in log.commits:
        actions = parse_actions(commit.data, commit_name(commit.version))
        txn.keep_row_ids_above(high_water_mark(actions.domains.get(ROW_IDS)))
        for file in (AddFile.from_json(file) for is_add, file in actions.files if is_add):
            path = canonical_path(file.path)
            if path in net.added:
                net.added[path] = replace(
                    net.added[path],
                    base_row_id=file.base_row_id,
                    default_row_commit_version=file.default_row_commit_version,
                )


def _may_share_files(works: Sequence[Work]) -> bool:
    """Whether another writer may mark other rows of the files in which these mark some: not where one of several read
    rows that it does not mark, as what the winner did to such a file is not checked against that.
    """
    if len(works) == 1:
        return True
    return not any(
        work.reads.whole_table or work.reads.key_reads or (work.reads.predicates and not work.content.marks.all)
        for work in works
    )


def _read(txn: Transaction, reads: ReadSet, *, alone: bool) -> None:
    """Note what a statement has read. Keys are checked alone: winners are cut to what concerns them, so where anything
    else was read, its predicates stand for them.
    """
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
        #: Whether a statement took rows out of a file that another had written.
        self.rewrites_own = False

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
            self.rewrites_own = True
            return
        marked = self.marks.pop(path, None)
        self.removed[path] = file if marked is None else replace(file, deletion_vector=marked.remove.deletion_vector)

    def _mark(self, mark: Mark) -> None:
        path = canonical_path(mark.remove.path)
        before = self.marks.get(path)
        if path in self.added:
            self.rewrites_own = True
            del self.added[path]
            if mark.add is not None:
                self.added[path] = mark.add
        elif before is not None:
            self.marks[path] = replace(mark, remove=before.remove, positions=before.positions | mark.positions)
        else:
            self.marks[path] = mark
