"""The files of DEEP CLONE: which are copied, by Spark tasks, and which the clone already has.

Owns the comparison of a clone with its source, the job that copies, and what a clone must be to be cloned into again.
Promises: nothing is committed unless each file is there with the size that the source's log has; what an interrupted
run has copied is not copied again; a clone that has other commits than those of clones of the same table, and of
maintenance, is refused.
"""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from headwater.basics.errors import HeadwaterError
from headwater.bridge.messages.callbacks import CopySpecification, FileCopy
from headwater.bridge.statement import Statement
from headwater.log.copied_files import Copy, copied, in_tasks, is_copy
from headwater.log.files import FILE_SCHEMA, keys_of
from headwater.log.history import history
from headwater.log.snapshot import Snapshot
from headwater.statements.running.opening import Location
from headwater.statements.tables.create import check_empty
from headwater.stores import absolute_path
from headwater.stores.interface import SCHEME
from headwater.stores.schemes import Promise, promise_of

_LOG = logging.getLogger(__name__)
#: Bytes and files that a task copies, at most: small enough that many tasks share the work, and show how far it is.
_TASK_BYTES = 256 << 20
_TASK_FILES = 200
#: How many commits of maintenance there may be since the last clone.
_MOST_COMMITS = 1000
#: How many files an error names.
_MOST_NAMED = 5
#: What moves rows between the clone's own files, and what changes none of them.
_LAYOUT = ("OPTIMIZE", "REORG")
_MAINTENANCE = (*_LAYOUT, "VACUUM START", "VACUUM END", "COMPUTE STATS")
#: Stores that show a file when it is complete.
_WHOLE = (Promise.CONDITION, Promise.GENERATION)


class Change(NamedTuple):
    """What a clone's commit removes and adds, rows of ``snapshot.files``; how many data files it has copied, and their
    bytes.
    """

    removed: pa.Table
    added: pa.Table
    copied: int
    copied_bytes: int


NO_CHANGE = Change(FILE_SCHEMA.empty_table(), FILE_SCHEMA.empty_table(), 0, 0)


class Last(NamedTuple):
    """The version of the source that a table is a deep clone of, and whether its rows lie in other files since."""

    version: int
    is_laid_out: bool


def check_begun(location: Location, statement: Statement) -> None:
    """The directory of a new clone may hold copies that an interrupted run has made, and nothing else.

    :raises HeadwaterError: ``DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION``.
    """
    check_empty(location, statement, is_copy)


def last_version(target: Snapshot, source: Snapshot, name: str) -> Last:
    """What a table is a deep clone of.

    :raises HeadwaterError: ``HEADWATER_DEEP_CLONE_TARGET_CHANGED``.
    """
    because, is_laid_out = "its log does not show what it was cloned from", False
    for entry in history(target.table_path, target.store, _MOST_COMMITS, target):
        operation = entry.commit_info.get("operation")
        if operation in _MAINTENANCE:
            is_laid_out = is_laid_out or operation in _LAYOUT
            continue
        said = entry.commit_info.get("operationParameters") or {}
        if operation != "CLONE" or said.get("isShallow") != "false":
            because = f"its version {entry.version} was made by {operation or 'another writer'}, not by DEEP CLONE"
        elif said.get("sourceTableId") != source.metadata.id:
            because = f"it is a clone of another table, {said.get('source')}"
        else:
            return Last(int(said["sourceVersion"]), is_laid_out)
        break
    raise HeadwaterError(
        "HEADWATER_DEEP_CLONE_TARGET_CHANGED", {"tableName": name, "source": source.table_path, "reason": because}
    )


def has_only_moved_rows(source: Snapshot, last: Last) -> bool:
    """Whether a source has had nothing but maintenance since it was cloned: its rows lie in other files, if at all."""
    count = source.version - last.version
    if count < 0:
        return False
    since = history(source.table_path, source.store, count, source) if count else []
    return len(since) == count and all(entry.commit_info.get("operation") in _MAINTENANCE for entry in since)


def bring(source: Snapshot, target: Snapshot | None, location: Location, statement: Statement) -> Change:
    """Copy what a clone does not have yet.

    :raises HeadwaterError: ``HEADWATER_CLONE_FILES_MISSING``, ``HEADWATER_CLONE_FILE_DIFFERS``; what a job of Spark
        raises.
    """
    wanted, copies = copied(source.files, source, location.path)
    removed, known = FILE_SCHEMA.empty_table(), set[str]()
    added = wanted
    if target is not None:
        now, then = keys_of(target.files), keys_of(wanted)
        is_new = pc.invert(pc.is_in(then, value_set=now))
        removed = target.files.filter(pc.invert(pc.is_in(now, value_set=then)))
        known = set(target.files["path"].to_pylist())
        added, copies = copied(source.files.filter(is_new), source, location.path)
    brought = added.filter(pc.invert(pc.is_in(added["path"], value_set=pa.array(known, pa.string()))))
    there = {absolute_path(location.path, path) for path in known}
    _copy([copy for copy in copies if copy.target not in there], source, location, statement)
    return Change(removed, added, len(brought), pc.sum(brought["size"]).as_py() or 0)


def _copy(copies: list[Copy], source: Snapshot, location: Location, statement: Statement) -> None:
    if not copies:
        return
    _LOG.info("%s: %d files of %s are copied", location.path, len(copies), source.table_path)
    statement.step(f"copy {len(copies)} files of version {source.version}")
    tasks = in_tasks(copies, _TASK_BYTES, _TASK_FILES)
    scheme = SCHEME.match(location.path)
    specification = CopySpecification(
        source=source.table_path,
        target=location.path,
        renames=scheme is None or promise_of(scheme.group(1).lower()) not in _WHOLE,
        tasks=[[FileCopy(source=c.source, target=c.target, size=c.size) for c in task] for task in tasks],
    )
    found = list(zip([c for task in tasks for c in task], statement.copy_files(specification), strict=True))
    _LOG.info("%s: %d files were copied, others were there", location.path, sum(made.copied for _, made in found))
    facts: dict[str, Any] = {"source": source.table_path, "version": source.version}
    if missing := [copy.source for copy, made in found if made.size is None]:
        more = f" and {len(missing) - _MOST_NAMED} more" if len(missing) > _MOST_NAMED else ""
        files = ", ".join(missing[:_MOST_NAMED]) + more
        raise HeadwaterError(
            "HEADWATER_CLONE_FILES_MISSING", {**facts, "count": len(missing), "total": len(found), "files": files}
        )
    for copy, made in found:
        if copy.size not in (None, made.size):
            sizes = {"file": copy.source, "size": made.size, "expected": copy.size}
            raise HeadwaterError("HEADWATER_CLONE_FILE_DIFFERS", {**facts, **sizes})
