"""VACUUM: deletes the files that no version within the retention needs.

Owns the statement's forms, its guards, and the state that VACUUM LITE goes on from. Which files may go is
:mod:`headwater.log.vacuum`'s. FULL lists what lies below the table, LITE finds it in the commits since the last
VACUUM, USING INVENTORY takes a listing that a store made. Promises: nothing outside of the table's folder is deleted,
nor a file that a running statement of this process may have written, nor one of a version that is not settled yet
(:mod:`headwater.log.groups`); an interrupted VACUUM can be run again; one on a
full disk makes room, even without a record in the history. With
RETAIN 0 it is unsafe beside writers of other processes: files that they have yet to commit look like garbage.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headwater.basics import clock
from headwater.basics.errors import HeadwaterError, illegal_option
from headwater.bridge.calls import running_since
from headwater.bridge.messages.define import CommitAnswer
from headwater.bridge.messages.maintain import VacuumRequest
from headwater.bridge.statement import Statement
from headwater.catalogs.interface import Maintenance
from headwater.groups.settling import settle_newest
from headwater.log.history import last_version_at
from headwater.log.segment import list_log
from headwater.log.snapshot import Snapshot
from headwater.log.vacuum import (
    Garbage,
    inside_table,
    is_entered,
    needed_files,
    removals_since,
    removed_between,
    unreferenced,
    without_links,
    without_other_tables,
)
from headwater.protocol import properties
from headwater.protocol.file_names import LAST_VACUUM, log_directory
from headwater.protocol.types import PrimitiveType, StructType, parse_schema
from headwater.sql.composing import Column, Relation, Text, call, select
from headwater.statements.calls import own_statement
from headwater.statements.expressions import number_of
from headwater.statements.running.committing import check_target, commit, transaction
from headwater.statements.running.managed_tables import check_allowed
from headwater.statements.running.open_transactions import open_since
from headwater.statements.running.opening import open_snapshot
from headwater.statements.settings import VACUUM_CHECKS_RETENTION, VACUUM_LITE, VACUUM_LOGGING
from headwater.stores import Failed, FileInfo, Tree
from headwater.transaction.commit_info import Provenance

_LOG = logging.getLogger(__name__)
_HOUR = 3_600_000
#: Clocks of stores and machines differ: a statement's files may seem older than it is by so many milliseconds.
_CLOCK_SKEW = 60_000
#: Files that are deleted between two looks whether the statement was cancelled.
_AT_ONCE = 20_000
#: How many files that could not be deleted an error names.
_MOST_NAMED = 5
#: Errors of a disk, or of a share of it, that is full.
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_STATE = "latestCommitVersionOutsideOfRetentionWindow"
_STRING, _LONG = PrimitiveType("string"), PrimitiveType("long")
VACUUM_SCHEMA = StructType.of(path=_STRING)
_MODIFIED = "modificationTime"
_INVENTORY = {"path": _STRING, "length": _LONG, "isDir": PrimitiveType("boolean"), _MODIFIED: _LONG}


@own_statement("vacuum", output=VACUUM_SCHEMA, commits=True, in_transaction=False, words="VACUUM")
def vacuum(request: VacuumRequest, statement: Statement) -> CommitAnswer:
    """Delete what is no longer needed; with DRY RUN, the paths of what would be deleted.

    :raises HeadwaterError: ``DELTA_VACUUM_RETENTION_PERIOD_TOO_SHORT``, ``DELTA_VACUUM_RETENTION_PERIOD_NEGATIVE``,
        ``DELTA_CANNOT_VACUUM_LITE``, ``DELTA_INVALID_INVENTORY_SCHEMA``, ``HEADWATER_VACUUM_FILES_LEFT``,
        ``HEADWATER_VACUUM_STORE_NOT_LISTED``, ``HEADWATER_TRANSACTION_OPEN``, those of a commit.
    """
    snapshot = open_snapshot(request.table, statement)
    check_allowed(snapshot, Maintenance.DATA_CLEANUP, "VACUUM", request.name)
    snapshot.check_writable()
    if not request.arguments.dry_run:
        check_target(request.table, statement, snapshot)
    snapshot = settle_newest(snapshot)
    snapshot.check_writable()
    run = _Run(request, statement, snapshot, _retention(request, snapshot, statement))
    found = run.garbage()
    _LOG.info(
        "%s: VACUUM finds %d files (%d bytes) and %d empty folders that no version of the last %g hours needs",
        *(snapshot.table_path, len(found.files), found.size, len(found.directories)),
        run.retention.milliseconds / _HOUR,
    )
    if request.arguments.dry_run:
        paths = [_shown(f"{snapshot.table_path}/{each.path}") for each in (*found.files, *found.directories)]
        return CommitAnswer(version=snapshot.version, rows=[{"path": path} for path in paths])
    return run.delete(found)


@dataclass(frozen=True)
class _Retention:
    """How long files stay, in milliseconds.

    :param specified: what RETAIN says; None if the statement has none.
    :param configured: what the table's property says.
    """

    specified: int | None
    configured: int

    @property
    def milliseconds(self) -> int:
        return self.configured if self.specified is None else self.specified


def _retention(request: VacuumRequest, snapshot: Snapshot, statement: Statement) -> _Retention:
    configured = snapshot.definition.get(properties.FILE_RETENTION)
    if request.arguments.hours is None:
        return _Retention(None, configured)
    text = number_of(request.arguments.hours, statement)
    try:
        specified = round(float(text) * _HOUR)
    except (ValueError, OverflowError):
        explain = "must be a number of hours"
        raise illegal_option("RETAIN", text, explain) from None
    if specified < 0:
        raise HeadwaterError("DELTA_VACUUM_RETENTION_PERIOD_NEGATIVE", {"hours": text})
    if specified < configured and VACUUM_CHECKS_RETENTION.of(statement):
        raise HeadwaterError(
            "DELTA_VACUUM_RETENTION_PERIOD_TOO_SHORT",
            {"tableName": request.name, "hours": text, "configuredRetentionHours": f"{configured / _HOUR:g}"},
        )
    return _Retention(min(specified, properties.LONGEST), configured)


class _Run:
    """One run over one snapshot."""

    def __init__(self, request: VacuumRequest, statement: Statement, snapshot: Snapshot, retention: _Retention) -> None:
        self.retention = retention
        self._request, self._statement, self._snapshot = request, statement, snapshot
        self._listing = list_log(snapshot.table_path, snapshot.store)
        #: Files of this time, in milliseconds since the epoch, or later stay.
        self._before = max(clock.milliseconds() - retention.milliseconds, 0)

    def garbage(self) -> Garbage:
        """What may go."""
        arguments, snapshot = self._request.arguments, self._snapshot
        mode = arguments.mode or ("lite" if VACUUM_LITE.of(self._statement) else "full")
        outside = last_version_at(self._listing, snapshot, self._before)
        if arguments.inventory is not None:
            listed = without_links(snapshot, self._inventory(arguments.inventory))
            chosen = self._choose(listed, self._before_open_statements())
            return Garbage(*self._own(*chosen), None)
        if mode == "lite":
            return self._since_last(outside)
        _LOG.info("%s: VACUUM lists the table's files", snapshot.table_path)
        try:
            tree = snapshot.store.walk(snapshot.table_path, is_entered(snapshot), self._statement.check_cancelled)
        except NotImplementedError as error:
            named = {"tableName": self._request.name, "reason": str(error)}
            raise HeadwaterError("HEADWATER_VACUUM_STORE_NOT_LISTED", named) from None
        before = self._before_open_statements()
        files, directories = self._choose(without_other_tables(tree), before)
        return Garbage(files, directories, outside if before == self._before else None)

    def _before_open_statements(self) -> int:
        """From when on files stay, as a statement or transaction of this process may have written them that is yet to
        commit.
        """
        begun = (running_since(self._request.table), open_since(self._snapshot, self._statement))
        return min([self._before, *(since - _CLOCK_SKEW for since in begun if since is not None)])

    def _choose(self, tree: Tree, before: int) -> tuple[list[FileInfo], list[FileInfo]]:
        """Those of some files and folders that may go, where they are older than a time."""
        snapshot, since = self._snapshot, []
        if not tree.files and not tree.directories:
            return [], []
        if self.retention.milliseconds > self.retention.configured:
            # Checkpoints keep tombstones no longer than the table's own retention.
            since = removals_since(snapshot, self._listing, self._before)
        _LOG.info("%s: VACUUM compares %d files with the log", snapshot.table_path, len(tree.files))
        return unreferenced(tree, needed_files(snapshot, self._before, since), before)

    def _since_last(self, outside: int | None) -> Garbage:
        """What the commits since the last VACUUM removed, for LITE."""
        snapshot, listing = self._snapshot, self._listing
        known = last_vacuum(snapshot)
        if outside is None:
            return Garbage([], [], known)
        earliest = min(listing.commits, default=snapshot.version + 1)
        if earliest > 0 and (known is None or known < earliest - 1):
            raise HeadwaterError("DELTA_CANNOT_VACUUM_LITE", {"tableName": self._request.name})
        first = earliest if known is None else known + 1
        removed, up_to = removed_between(snapshot, listing, first, outside, self._before)
        files, _ = self._choose(without_links(snapshot, Tree(removed, [])), self._before)
        own, _ = self._own(files, [])
        return Garbage(self._present(own), [], max(up_to, known or 0))

    def _present(self, files: Sequence[FileInfo]) -> list[FileInfo]:
        """Those of the files that are still there."""
        missing: set[str] = set()
        base = self._snapshot.table_path
        for start in range(0, len(files), _AT_ONCE):
            self._statement.check_cancelled()
            some = [f"{base}/{file.path}" for file in files[start : start + _AT_ONCE]]
            missing.update(self._snapshot.store.missing(some))
        return [file for file in files if f"{base}/{file.path}" not in missing]

    def _own(self, files: Sequence[FileInfo], directories: Sequence[FileInfo]) -> tuple[list[FileInfo], list[FileInfo]]:
        """Those of files and folders that are not in a folder of another table, which a listing would have shown."""
        base, folders = self._snapshot.table_path, set[str]()
        for parent in {each.path.rpartition("/")[0] for each in (*files, *directories)}:
            while parent and parent not in folders:
                folders.add(parent)
                parent = parent.rpartition("/")[0]
        logs = {log_directory(f"{base}/{folder}"): folder for folder in sorted(folders)}
        missing = set(self._snapshot.store.missing(list(logs)))
        tables = tuple(f"{folder}/" for log, folder in logs.items() if log not in missing)
        own, own_directories = ([e for e in some if not e.path.startswith(tables)] for some in (files, directories))
        return own, own_directories

    def _inventory(self, query: str) -> Tree:
        """The files of USING INVENTORY that are the table's.

        :raises HeadwaterError: ``DELTA_INVALID_INVENTORY_SCHEMA``.
        """
        plan, schema = self._statement.place_query(query)
        found = {field.name: field.type for field in parse_schema(schema)}
        if any(found.get(name) != kind for name, kind in _INVENTORY.items()):
            wanted = ", ".join(f"{name} {kind.sql()}" for name, kind in _INVENTORY.items())
            had = ", ".join(f"{name} {kind.sql()}" for name, kind in found.items())
            raise HeadwaterError("DELTA_INVALID_INVENTORY_SCHEMA", {"expectedSchema": wanted, "actualSchema": had})
        path = self._snapshot.table_path
        self._statement.step("read the inventory")
        columns = [Column(name) for name in _INVENTORY]
        below = call("contains", Column("path"), Text(f"{path}/"))
        rows = self._statement.query(select(*columns, rows=Relation(plan), where=below).text())
        enters = is_entered(self._snapshot)
        tree = Tree([], [])
        for row in rows:
            inside, is_directory, modified = inside_table(str(row["path"]), path), row.get("isDir"), row.get(_MODIFIED)
            if inside is None or not all(map(enters, inside.split("/"))):
                continue
            if is_directory is None or modified is None:  # it may be what a running statement has written
                continue
            info = FileInfo(inside, int(row.get("length", 0)), int(modified))
            (tree.directories if is_directory else tree.files).append(info)
        return tree

    def delete(self, found: Garbage) -> CommitAnswer:
        """Delete it, between two commits that say so in the history."""
        snapshot = self._snapshot
        self._record_start(found)
        try:
            failed, count, directories = self._delete(found)
        except BaseException:
            with contextlib.suppress(Exception):
                self._record_end("FAILED", {}, is_last=False)
            raise
        if failed:
            self._record_end("FAILED", {}, is_last=False)
            named = "; ".join(f"{each.path} ({each.reason})" for each in failed[:_MOST_NAMED])
            raise HeadwaterError(
                "HEADWATER_VACUUM_FILES_LEFT",
                {"tableName": self._request.name, "count": len(failed), "total": len(found.files), "files": named},
            )
        if found.up_to is not None:
            _save(snapshot, found.up_to)
        _LOG.info("%s: VACUUM deleted %d files and %d folders", snapshot.table_path, count, directories)
        metrics = {"numDeletedFiles": count + directories, "numVacuumedDirectories": directories + 1}
        return self._record_end("COMPLETED", metrics, is_last=True)

    def _delete(self, found: Garbage) -> tuple[list[Failed], int, int]:
        """What could not be deleted; how many files and folders were."""
        store, base = self._snapshot.store, self._snapshot.table_path
        failed: list[Failed] = []
        for start in range(0, len(found.files), _AT_ONCE):
            self._statement.check_cancelled()
            some = [f"{base}/{file.path}" for file in found.files[start : start + _AT_ONCE]]
            failed += store.delete_many(base, some)
            _LOG.info("%s: VACUUM has deleted %d of %d files", base, start + len(some), len(found.files))
        self._statement.check_cancelled()
        gone = sum(store.delete_empty(f"{base}/{each.path}") for each in found.directories)
        return failed, len(found.files) - len(failed), gone

    def _record_start(self, found: Garbage) -> None:
        parameters = {
            "retentionCheckEnabled": VACUUM_CHECKS_RETENTION.of(self._statement),
            "defaultRetentionMillis": self.retention.configured,
            "specifiedRetentionMillis": self.retention.specified,
        }
        count = len(found.files) + len(found.directories)
        metrics = {"numFilesToDelete": count, "sizeOfDataToDelete": found.size}
        self._record(Provenance("VACUUM START", parameters, metrics), is_last=False)

    def _record_end(self, status: str, metrics: Mapping[str, int], *, is_last: bool) -> CommitAnswer:
        return self._record(Provenance("VACUUM END", {"status": status}, metrics), is_last=is_last)

    def _record(self, provenance: Provenance, *, is_last: bool) -> CommitAnswer:
        rows = [{"path": _shown(self._snapshot.table_path)}] if is_last else None
        if not VACUUM_LOGGING.of(self._statement):
            return CommitAnswer(version=self._snapshot.version, rows=rows)
        statement, table = self._statement, self._request.table
        txn = transaction(table, statement, open_snapshot(table, statement))
        try:
            return commit(txn, statement, provenance, is_last=is_last, rows=rows)
        except OSError as error:
            if error.errno not in _FULL:
                raise
            # To delete what is not needed is what helps.
            text = "%s: the disk is full, so the history will not contain %s"
            _LOG.warning(text, txn.table_path, provenance.operation)
            return CommitAnswer(version=self._snapshot.version, rows=rows)


def _shown(path: str) -> str:
    """A path as users of the format see it: with its scheme."""
    return f"file:{path}" if path.startswith("/") else path


def _state_path(snapshot: Snapshot) -> str:
    return f"{log_directory(snapshot.table_path)}/{LAST_VACUUM}"


def last_vacuum(snapshot: Snapshot) -> int | None:
    """The version up to which the last VACUUM has deleted what commits removed; None if that is not known, as with
    the note of a table that was at this place before.
    """
    try:
        found = json.loads(snapshot.store.read(_state_path(snapshot)))
    except (OSError, ValueError, RecursionError):  # LITE then looks at all commits, or says that it cannot
        return None
    version = found.get(_STATE) if isinstance(found, dict) else None
    return version if isinstance(version, int) and 0 <= version <= snapshot.version else None


def _save(snapshot: Snapshot, version: int) -> None:
    """Note where VACUUM LITE goes on from; it is of no other use, so a failure is only logged."""
    try:
        snapshot.store.put(_state_path(snapshot), json.dumps({_STATE: version}, separators=(",", ":")).encode())
    except OSError as error:
        _LOG.warning("%s: VACUUM LITE will not know of this VACUUM: %s", snapshot.table_path, error)
