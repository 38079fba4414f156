"""Undoing a commit of a group that was aborted.

Owns :func:`undo`: a commit that gives a table the files, metadata and application versions back that it had before
another one. It is made on the newest version, whatever was committed meanwhile, and computed again if it loses a
race. Follows the protocol's chapters "Add File and Remove File" and "Change Metadata". Promise: it takes back nothing
that another commit has built on; where one has, or where the table takes no removals, nothing is done, and who asks is
told.

Of the commit that created a table, an empty table is left: a log is not taken apart that others may have read.

What stays: the protocol, high-water marks of row ids and of identity columns, which only ever grow.
"""

from __future__ import annotations

import logging
import uuid
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from headwater.basics import backoff, clock
from headwater.basics.errors import HeadwaterError
from headwater.log import groups
from headwater.log.commits import parse_actions
from headwater.log.files import FileKey, canonical_path, file_of, vector_of
from headwater.log.snapshot import Snapshot, load_snapshot
from headwater.protocol.actions import AddFile, RemoveFile, SetTransaction
from headwater.protocol.file_names import commit_name, log_directory
from headwater.protocol.row_tracking import DOMAIN
from headwater.stores import Store
from headwater.transaction.commit_info import Provenance
from headwater.transaction.committers import Made, StoreCommitter, Unknown
from headwater.transaction.conflicts import file_key
from headwater.transaction.content import Content
from headwater.transaction.prepared import PreparedCommit, Work
from headwater.transaction.read_set import ReadSet
from headwater.transaction.reads import match_by_pruning
from headwater.transaction.redefinition import Redefinition
from headwater.transaction.row_ids import RowIds

_LOG = logging.getLogger(__name__)
_ATTEMPTS = 100
#: Seconds that a writer waits, beyond those after which a group is given up, until it is settled.
_GRACE = 10.0


def undo(table_path: str, store: Store, version: int, group_id: str) -> int | None:
    """Take a commit back; None if another commit has built on it. What became of it is noted beside the log.

    :return: the version that undoes it.

    :raises OSError: the store failed; whoever comes next tries again.
    """
    for _ in backoff.OF_COMMITS.tries(_ATTEMPTS):
        by = groups.undone_by(table_path, store, version, group_id)
        if by is not None:
            break
        newest = load_snapshot(table_path, store, settled=False)
        prepared = _prepared(table_path, store, version, group_id, newest)
        if prepared is None:
            if groups.undone_by(table_path, store, version, group_id) is not None:
                continue  # by another, since it was looked for
            groups.note(table_path, store, group_id, "not undone")
            return None
        data, _ = prepared.encode(newest.version + 1, clock.milliseconds(), newest.timestamp)
        outcome = StoreCommitter(table_path, store).commit(newest.version + 1, data, prepared.transaction_id)
        if isinstance(outcome, Unknown):
            raise OSError(f"{outcome.path}: {outcome.failure}") from outcome.reported
        if isinstance(outcome, Made):
            by = newest.version + 1
            break
    else:
        raise OSError(f"{table_path}: version {version} could not be undone, because other writers kept committing")
    groups.note(table_path, store, group_id, "undone", by)
    return by


def _prepared(table_path: str, store: Store, version: int, group_id: str, newest: Snapshot) -> PreparedCommit | None:
    """The commit that undoes; None if another has built on what it is to undo.

    :raises HeadwaterError: ``DELTA_UNSUPPORTED_FEATURES_FOR_WRITE``: another writer may know them.
    """
    newest.check_writable()
    before = load_snapshot(table_path, store, version - 1, settled=False) if version > 0 else None
    path = f"{log_directory(table_path)}/{commit_name(version)}"
    done = parse_actions(store.read(path), path)
    adds = [AddFile.from_json(file) for is_add, file in done.files if is_add]
    removes = [RemoveFile.from_json(file) for is_add, file in done.files if not is_add]
    live, added = _keys(newest), {file_key(file.path, file.deletion_vector) for file in adds}
    if not added <= live:
        return None
    changes = any(file.data_change for file in removes)
    gone = pa.array([file.path for file in removes], pa.string())
    back: list[AddFile] = []
    if before is not None:
        listed = before.files
        back = [file_of(row, changes) for row in listed.filter(pc.is_in(listed["path"], gone)).to_pylist()]
    if {canonical_path(file.path) for file in back} & {path for path, _ in live - added}:
        return None
    definition, content = Redefinition(table_path, newest), Content()
    if before is not None and done.metadata is not None and done.metadata != before.metadata:
        if newest.version > version:
            return None  # others may have written by the new definition
        definition.update_metadata(before.metadata)
    now = clock.milliseconds()
    content.removed.extend(file.removal(now, file.data_change) for file in adds)
    content.added.extend(back)
    for app_id, made in done.transactions.items():
        if newest.state.transactions.get(app_id) == made:
            known = None if before is None else before.state.transactions.get(app_id)
            content.versions[app_id] = SetTransaction(app_id, made.version - 1 if known is None else known.version, now)
    for name, domain in done.domains.items():
        if name == DOMAIN or newest.state.domains.get(name) != (None if domain.removed else domain):
            continue
        old = None if before is None else before.state.domains.get(name)
        if before is not None and (old is not None or not domain.removed):
            content.domains[name] = replace(domain, removed=True) if old is None else old
    reads = ReadSet(newest, match_by_pruning)
    reads.whole_table = reads.follows_directly = True
    work = Work(table_path, store, str(uuid.uuid4()), newest, reads, definition, content, RowIds(newest, _count))
    said = Provenance("ROLLBACK TRANSACTION", {"version": version}, tags={groups.UNDOES: group_id})
    try:
        return PreparedCommit(work, said)
    except HeadwaterError as error:
        _LOG.warning("%s: version %d cannot be undone: %s", table_path, version, error)
        return None


def _keys(snapshot: Snapshot) -> set[FileKey]:
    rows = snapshot.select(("path", "deletion_vector")).to_pylist()
    return {file_key(row["path"], vector_of(row["deletion_vector"])) for row in rows}


def _count(file: AddFile) -> int:
    raise HeadwaterError("DELTA_INTERNAL_ERROR", {"reason": f"{file.path} has no row count on record"})
