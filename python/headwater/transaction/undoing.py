"""Taking back a commit of a group that did not come about.

Owns :func:`undo`: a commit that gives a table the files, metadata and application versions back that it had before
another one. It is made on the newest version, whatever was committed meanwhile, and computed anew where it loses a
race. Follows the protocol's chapters "Add File and Remove File" and "Change Metadata". Promise: it takes back nothing
that another commit has built on; where one has, or where the table takes no removals, nothing is done, and who asks is
told.

What stays: the protocol, high-water marks of row ids and of identity columns, which only ever grow.
"""

from __future__ import annotations

import logging
import uuid

import pyarrow as pa
import pyarrow.compute as pc

from headwater import backoff, clock
from headwater.errors import HeadwaterError
from headwater.log import groups
from headwater.log.commits import parse_actions
from headwater.log.files import FileKey, canonical_path, file_of, vector_of
from headwater.log.snapshot import Snapshot, load_snapshot
from headwater.protocol.actions import AddFile, RemoveFile, SetTransaction
from headwater.protocol.file_names import commit_name, log_directory
from headwater.protocol.row_tracking import DOMAIN
from headwater.stores import Store
from headwater.transaction.commit_info import Provenance, default_engine_info
from headwater.transaction.committers import Made, StoreCommitter, Unknown
from headwater.transaction.conflicts import file_key
from headwater.transaction.content import Content
from headwater.transaction.prepared import PreparedCommit, Work
from headwater.transaction.read_set import ReadSet
from headwater.transaction.reads import match_by_pruning
from headwater.transaction.redefinition import Redefinition
from headwater.transaction.row_ids import RowIds

_LOG = logging.getLogger(__name__)
#: What a commit that undoes another says in its ``tags``: the group's id.
UNDOES = "headwater.undoes"
_ATTEMPTS = 100


def undo(table_path: str, store: Store, version: int, group_id: str) -> bool:
    """Take a commit back; False where another commit has built on it. What became of it is noted beside the log.

    :raises OSError: the store failed; whoever comes next tries again.
    """
    for _ in backoff.OF_COMMITS.tries(_ATTEMPTS):
        newest = load_snapshot(table_path, store, settled=False)
        if is_undone(newest, version, group_id):
            break
        prepared = _prepared(table_path, store, version, group_id, newest)
        if prepared is None:
            groups.note(table_path, store, group_id, "not undone")
            return False
        data, _ = prepared.encode(newest.version + 1, clock.milliseconds(), newest.timestamp)
        outcome = StoreCommitter(table_path, store).commit(newest.version + 1, data, prepared.transaction_id)
        if isinstance(outcome, Unknown):
            raise OSError(f"{outcome.path}: {outcome.failure}") from outcome.reported
        if isinstance(outcome, Made):
            break
    else:
        raise OSError(f"{table_path}: version {version} could not be undone, as others committed all the time")
    groups.note(table_path, store, group_id, "undone")
    return True


def settle(table_path: str, store: Store, version: int, commit: bytes) -> None:
    """Return once it is settled whether a commit stands: what may yet be undone, nobody builds on.

    :raises HeadwaterError: ``HEADWATER_TRANSACTION_OPEN`` where that cannot be found out.
    """
    for _ in backoff.OF_COMMITS.tries(_ATTEMPTS):
        found = groups.standing(table_path, store, version, commit, for_writing=True)
        if found is groups.Standing.ABORTED:
            group = groups.Group.of(commit, table_path)
            assert group is not None
            undo(table_path, store, version, group.id)
            return
        if found is groups.Standing.STANDS:
            return
    raise HeadwaterError("HEADWATER_TRANSACTION_OPEN", {"tableLocation": table_path, "version": version})


def is_undone(newest: Snapshot, version: int, group_id: str) -> bool:
    """Whether a commit up to the newest one undoes the group's."""
    directory = log_directory(newest.table_path)
    for later in range(version + 1, newest.version + 1):
        data = newest.store.read(f"{directory}/{commit_name(later)}")
        info = parse_actions(data, f"{directory}/{commit_name(later)}").commit_info or {}
        if (info.get("tags") or {}).get(UNDOES) == group_id:
            return True
    return False


def _prepared(table_path: str, store: Store, version: int, group_id: str, newest: Snapshot) -> PreparedCommit | None:
    """The commit that undoes; None where another has built on what it is to undo."""
    before = load_snapshot(table_path, store, version - 1)
    path = f"{log_directory(table_path)}/{commit_name(version)}"
    done = parse_actions(store.read(path), path)
    adds = [AddFile.from_json(file) for is_add, file in done.files if is_add]
    removes = [RemoveFile.from_json(file) for is_add, file in done.files if not is_add]
    live, added = _keys(newest), {file_key(file.path, file.deletion_vector) for file in adds}
    if not added <= live:
        return None
    changes = any(file.data_change for file in removes)
    gone = pa.array([file.path for file in removes], pa.string())
    listed = before.files
    back = [file_of(row, changes) for row in listed.filter(pc.is_in(listed["path"], gone)).to_pylist()]
    if {canonical_path(file.path) for file in back} & {path for path, _ in live - added}:
        return None
    definition, content = Redefinition(table_path, newest), Content()
    if done.metadata is not None and done.metadata != before.metadata:
        if newest.metadata != done.metadata:
            return None
        definition.update_metadata(before.metadata)
    now = clock.milliseconds()
    content.removed.extend(file.removal(now, file.data_change) for file in adds)
    content.added.extend(back)
    for app_id, made in done.transactions.items():
        known = before.set_transactions.get(app_id)
        content.versions[app_id] = SetTransaction(app_id, made.version - 1 if known is None else known.version, now)
    for name, domain in before.domain_metadata.items():
        if name in done.domains and name != DOMAIN:
            content.domains[name] = domain
    reads = ReadSet(newest, match_by_pruning)
    reads.whole_table = reads.follows_directly = True
    work = Work(table_path, store, newest, reads, definition, content, RowIds(newest, _count))
    provenance = Provenance(
        "ROLLBACK TRANSACTION",
        {"version": version},
        {},
        default_engine_info(),
        str(uuid.uuid4()),
        newest.version,
        tags={UNDOES: group_id},
    )
    try:
        return PreparedCommit(work, provenance)
    except HeadwaterError as error:
        _LOG.warning("%s: version %d cannot be undone: %s", table_path, version, error)
        return None


def _keys(snapshot: Snapshot) -> set[FileKey]:
    rows = snapshot.select(("path", "deletion_vector")).to_pylist()
    return {file_key(row["path"], vector_of(row["deletion_vector"])) for row in rows}


def _count(file: AddFile) -> int:
    raise HeadwaterError("DELTA_INTERNAL_ERROR", {"reason": f"{file.path} has no row count on record"})
