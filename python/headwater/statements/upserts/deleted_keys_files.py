"""The files of a companion table: which have expired, which are compacted, and which are deleted; and the files of
companions that a table has left behind.

Owns the limits of a companion's maintenance, which batches do themselves: it needs no VACUUM or OPTIMIZE. Promises: a
file stays on the disk for :data:`_STAYS` after it was removed, or written without being committed; so whoever has just
opened the companion can read it, and a writer can commit what it has just written. Deleting goes by what the folder and
the log have, so one that was cut off is made up for by the next. It never fails a batch.
"""

from __future__ import annotations

import contextlib
import logging
from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from headwater.basics import clock
from headwater.bridge.statement import Statement
from headwater.log.snapshot import Snapshot
from headwater.log.vacuum import is_entered, needed_files, unreferenced, without_other_tables
from headwater.protocol import properties
from headwater.protocol.file_names import LOG_DIRECTORY
from headwater.stores import FileInfo, Tree

_LOG = logging.getLogger(__name__)
#: Smaller files, in bytes, are written together once there are more than so many: each upsert reads all of them. What
#: has grown beyond that is not written again, so a companion is written a few times over, however large it becomes.
#: Bench case ``upsert-stream``.
_SMALL, _MOST_SMALL = 16 << 20, 32
#: Bytes of the files that are written together; more than :data:`_SMALL`.
_WRITTEN_TOGETHER = 64 << 20
#: Bytes of a companion whose entries are not all compared: about 100,000 of one number. Chosen, not measured.
_LARGE = 1 << 20
#: For so long, in milliseconds, files stay after they were removed.
_STAYS = 3_600_000
#: For so long, in milliseconds, the companion of a replaced table stays at least: as entries do unless an option says
#: otherwise.
_REPLACED_STAY = 48 * 3_600_000
#: Of a companion's table. Its versions are of use to nobody but those who have just opened it.
PROPERTIES: Mapping[str, str] = {
    properties.FILE_RETENTION.name: f"interval {_STAYS // 3_600_000} hours",
    properties.LOG_RETENTION.name: "interval 1 days",
}


def is_large(files: pa.Table) -> bool:
    """Whether files have so many entries that upserts look for those of their own keys first."""
    return (pc.sum(files["size"]).as_py() or 0) > _LARGE


class Upkeep(NamedTuple):
    """Rows of a companion's files: those that go, and those of them whose entries are written again."""

    gone: pa.Table
    again: pa.Table

    @property
    def num_written(self) -> int:
        """How many files the entries are written to."""
        return 1 + (pc.sum(self.again["size"]).as_py() or 0) // _WRITTEN_TOGETHER


def upkeep(files: pa.Table, retention: int, *, everything: bool) -> Upkeep:
    """What a batch that adds entries does with the files that count before it.

    :param retention: milliseconds after which entries expire: those of a file once all of them have.
    :param everything: whether all entries are written again.
    """
    expired = pc.less(files["modification_time"], clock.milliseconds() - retention)
    again = pc.and_(pc.invert(expired), pc.or_(pc.less(files["size"], _SMALL), everything))
    if not everything and (pc.sum(again).as_py() or 0) <= _MOST_SMALL:
        again = pc.and_(again, False)
    return Upkeep(files.filter(pc.or_(expired, again)), files.filter(again))


def delete_unneeded(snapshot: Snapshot, statement: Statement) -> None:
    """Delete the files that the newest version does not need, nor one of those that were the newest a while ago.

    :raises HeadwaterError: the statement was cancelled.
    """
    store, before = snapshot.store, clock.milliseconds() - _STAYS
    try:
        tree = without_other_tables(store.walk(snapshot.table_path, is_entered(snapshot), statement.check_cancelled))
        files, _ = unreferenced(tree, needed_files(snapshot, before), before)
        if files:
            store.delete_many(snapshot.table_path, [f"{snapshot.table_path}/{file.path}" for file in files])
            _LOG.info("%s: %d files of deleted keys that are no longer needed", snapshot.table_path, len(files))
    except (OSError, NotImplementedError) as error:
        _LOG.warning("%s: files that are no longer needed stay: %s", snapshot.table_path, error)


def delete_replaced(snapshot: Snapshot, table: str, retention: int, statement: Statement) -> None:
    """Delete the companions of tables that the table has replaced, once nothing was written to them for as long as
    entries are kept, and two days at least: RESTORE brings such a table back.

    :param snapshot: of a companion of the table; ``table``: what the names of its new ones begin with.
    :param retention: milliseconds.
    :raises HeadwaterError: the statement was cancelled.
    """
    store, (above, _, own) = snapshot.store, snapshot.table_path.rpartition("/")
    of_table = (f"{own.partition('-')[0]}-", f"{table}-")
    before = clock.milliseconds() - max(retention, _REPLACED_STAY)
    try:
        tree = store.walk(above, lambda name: not name.startswith(of_table), statement.check_cancelled)
        found = defaultdict[str, Tree](lambda: Tree([], []))
        for file in tree.files:
            found[file.path.partition("/")[0]].files.append(file)
        for directory in tree.directories:
            found[directory.path.partition("/")[0]].directories.append(directory)
        for name, inside in found.items():
            log = list[FileInfo]()
            with contextlib.suppress(FileNotFoundError):
                log = store.list_from(f"{above}/{name}/{LOG_DIRECTORY}")
            if any(each.modification_time >= before for each in (*inside.files, *inside.directories, *log)):
                continue
            # The log first: without it there is no companion, whatever else is there. The newest file first: what a
            # process that dies here leaves is a companion as it was, and what stays of it goes next time.
            names = sorted((each.name for each in log), reverse=True)
            if any(store.delete_many(above, [f"{above}/{name}/{LOG_DIRECTORY}/{each}"]) for each in names):
                continue
            store.delete_many(above, [f"{above}/{file.path}" for file in inside.files])
            for path in sorted((directory.path for directory in inside.directories), reverse=True):
                store.delete_empty(f"{above}/{path}")
            _LOG.info("%s/%s: deleted keys of a table that was replaced", above, name)
    except (OSError, NotImplementedError) as error:
        _LOG.warning("%s: deleted keys of tables that were replaced stay: %s", above, error)
