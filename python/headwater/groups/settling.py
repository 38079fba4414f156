"""Finishing groups that a crash interrupted.

Owns :data:`SETTLER`, which the handler gives to :func:`headwater.log.groups.settle_by`, and :func:`settle_newest`, by
which VACUUM makes sure that nothing of a table is open. Promise: a group is committed only if all of its commits are in
their logs, and aborted only if one never can be, or if its writer gives no sign of life.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import time

from headwater.basics import backoff
from headwater.groups.at_work import is_at_work
from headwater.groups.undoing import undo
from headwater.log import groups
from headwater.log.groups import Group, Participant, Settler
from headwater.log.snapshot import Snapshot, load_snapshot
from headwater.protocol.file_names import STAGED_DIRECTORY, commit_name, is_staged_commit, log_directory
from headwater.stores import Store

_LOG = logging.getLogger(__name__)


class _Settler:
    def finish(self, store: Store, record: Group) -> str | None:
        if not record.validates and all(_is_there(store, record, each) for each in record.participants or ()):
            return groups.decide(store, record, "committed")
        return None if is_at_work(store, record) else groups.decide(store, record, "aborted")

    def undo(self, table_path: str, store: Store, version: int, group_id: str) -> int | None:
        return undo(table_path, store, version, group_id)

    def undo_all(self, store: Store, record: Group) -> None:
        for path, since in record.first_versions():
            try:
                found = groups.published_by(store, record, path, since)
                if found is not None:
                    self.undo(path, store, found, record.id)
            except Exception as error:
                _LOG.warning("%s: what is to be undone is left to the next reader or writer: %s", path, error)


#: Finishes groups in the process that it is given to.
SETTLER: Settler = _Settler()


def _finish_staged(table_path: str, store: Store) -> list[int]:
    """Finish the groups that have something staged beside a table's log, which names files that are in no version yet.

    :return: the versions that are staged for groups that must wait for their writers.
    """
    directory, waiting = f"{log_directory(table_path)}/{STAGED_DIRECTORY}", []
    try:
        listed = store.list_from(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []
    for file in listed:
        version = int(file.name[:20]) if file.name[:20].isdecimal() else -1
        data = groups.read_if_there(store, file.path) if is_staged_commit(file.name, version) else None
        group = None if data is None else Group.of(data, table_path)
        if group is None:
            continue
        try:
            record = groups.record_of(table_path, store, group) if groups.decision(store, group) is None else None
            decided = None if record is None else SETTLER.finish(store, record)
            if record is not None and decided == "aborted":
                SETTLER.undo_all(store, record)
            is_settled = record is None or decided is not None
        except groups.NOT_TO_READ as error:
            groups.warn_unsettled(table_path, version, f"what became of it is not known yet: {error}")
            is_settled = False
        if not is_settled:
            waiting.append(version)
    return waiting


def settle_newest(shown: Snapshot) -> Snapshot:
    """The newest version, after all is settled that is in the log after the version that is shown, or staged for it:
    for who deletes what no version needs.

    :param shown: the newest version that may be read.
    :raises HeadwaterError: ``HEADWATER_TRANSACTION_OPEN`` if that is not possible.
    """
    table_path, store = shown.table_path, shown.store
    until = time.monotonic() + groups.PATIENCE + groups.GRACE
    for losses in itertools.count():
        staged = _finish_staged(table_path, store)
        if not staged and not store.exists(f"{log_directory(table_path)}/{commit_name(shown.version + 1)}"):
            return shown
        newest = load_snapshot(table_path, store, base=shown, settled=False)
        for version in range(shown.version + 1, newest.version + 1):
            with contextlib.suppress(FileNotFoundError):
                groups.settle(
                    table_path, store, version, store.read(f"{log_directory(table_path)}/{commit_name(version)}")
                )
        shown = load_snapshot(table_path, store, base=shown)
        if shown.version >= newest.version and not staged:
            return shown
        if time.monotonic() >= until:
            raise groups.not_settled(table_path, min(staged, default=shown.version + 1))
        backoff.OF_COMMITS.wait(losses, until)
    raise AssertionError("unreachable")


def _is_there(store: Store, group: Group, participant: Participant) -> bool:
    """Whether a participant has its commit, published now if only that remained to be done. A log that is gone, and one
    that has later versions only, were left by a table that had it, or that can have nothing of it any more.
    """
    path, wanted = participant.path, participant.version
    commits, newest = groups.listed(store, path, max(wanted - 1, 0))
    file = f"{log_directory(path)}/{commit_name(wanted)}"
    if newest is None and wanted == 0:  # the group creates it; one that is gone again is as one that never was
        return _publish(store, group, participant)
    if newest is None or (newest >= wanted and wanted not in commits and not store.exists(file)):
        return True
    if newest >= wanted:
        return groups.published_by(store, group, path, wanted) is not None
    return _publish(store, group, participant)


def _publish(store: Store, group: Group, participant: Participant) -> bool:
    """Publish a staged commit; False if that is not possible."""
    if not is_staged_commit(participant.staged, participant.version):
        return False
    directory = log_directory(participant.path)
    data = groups.read_if_there(store, f"{directory}/{STAGED_DIRECTORY}/{participant.staged}")
    found = None if data is None else Group.of(data, participant.path)
    if data is None or found is None:
        return False
    if (found.id, found.coordinator, found.table) != (group.id, group.coordinator, participant.path):
        return False
    try:
        store.put_if_absent(f"{directory}/{commit_name(participant.version)}", data)
    except FileExistsError:
        return groups.published_by(store, group, participant.path, participant.version) is not None
    _LOG.info("%s: version %d was staged and is published now", participant.path, participant.version)
    return True
