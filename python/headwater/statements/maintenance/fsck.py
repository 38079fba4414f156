"""FSCK REPAIR TABLE: removes from the log the files that it names and the store does not have.

Owns the statement's answer, its commit, and what has to be certain before it. Only the log changes. Promises:

1. A store that fails is an error, and nothing is committed. A file is missing if its store says so twice, and if the
   place where it was named can be trusted: the table's own log is still in its folder; no link on the way to the file
   leads nowhere; of a folder elsewhere, such as the source of a shallow clone or where a link leads, something is
   there.
2. No row is lost, and none comes back, unless somebody said so: a data file that is there and whose deletion vector is
   not stops the statement, until a setting says what becomes of it.
3. The commit removes files as a DELETE does: a writer that removed or changed one of them meanwhile is a conflict,
   after which the statement looks again. Appends do not conflict. If the files come back, RESTORE undoes the commit.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from headwater.basics import clock
from headwater.basics.errors import HeadwaterError
from headwater.bridge.messages.define import CommitAnswer
from headwater.bridge.messages.maintain import FsckRequest
from headwater.bridge.statement import Statement
from headwater.log.files import canonical_path, file_of
from headwater.log.lost_files import Named, missing_files, named_files, root_of
from headwater.log.segment import list_log
from headwater.log.snapshot import Snapshot
from headwater.log.vacuum import inside_table
from headwater.protocol.file_names import log_directory
from headwater.protocol.types import PrimitiveType, StructField, StructType
from headwater.statements.calls import own_statement
from headwater.statements.running.committing import commit, removals, transaction
from headwater.statements.running.opening import open_snapshot
from headwater.statements.running.rerunning import run_again_after_losses
from headwater.statements.settings import FSCK_LOST_FOLDERS, FSCK_LOST_VECTORS, FSCK_MOST_ROWS
from headwater.stores import Store, store_for
from headwater.transaction.commit_info import Provenance

#: How many files an error names.
_MOST_NAMED = 5
_PARTITION = re.compile(r"[^/=]+=[^/]*")
_STRING, _BOOLEAN = PrimitiveType("string"), PrimitiveType("boolean")
FSCK_SCHEMA = StructType(
    (
        StructField("dataFilePath", _STRING, nullable=False),
        StructField("dataFileMissing", _BOOLEAN, nullable=False),
        StructField("deletionVectorPath", _STRING),
        StructField("deletionVectorFileMissing", _BOOLEAN, nullable=False),
    )
)


@own_statement("fsck", output=FSCK_SCHEMA, commits=True, in_transaction=False, words="FSCK REPAIR TABLE")
def fsck(request: FsckRequest, statement: Statement) -> CommitAnswer:
    """Remove missing files from the log; with DRY RUN, find them. One row of :data:`FSCK_SCHEMA` for each entry with a
    missing file, and no commit without any.

    :raises HeadwaterError: ``HEADWATER_FSCK_VECTORS_MISSING``, ``HEADWATER_FSCK_NOT_CERTAIN``,
        ``DELTA_CANNOT_MODIFY_APPEND_ONLY``, ``DELTA_ILLEGAL_OPTION``, those of a commit.
    :raises OSError: a store failed.
    """

    def attempt() -> CommitAnswer:
        began = clock.milliseconds()
        snapshot = open_snapshot(request.table, statement)
        found = _Search(request, statement, snapshot).run()
        rows = [found.row(number) for number in found.positions[: FSCK_MOST_ROWS.of(statement)]]
        if request.arguments.dry_run or not found.positions:
            return CommitAnswer(version=snapshot.version, rows=rows)
        return _repair(found, snapshot, request, statement, rows, began)

    if request.arguments.dry_run:
        return attempt()
    return run_again_after_losses(request.table, statement, attempt)


@dataclass(frozen=True)
class _Found:
    """What is missing.

    :param names: of each live file, as the log has it.
    :param positions: the live files with a missing file, in order.
    """

    table_path: str
    names: list[str]
    named: Named
    missing: set[str]
    positions: list[int]

    def row(self, number: int) -> dict[str, Any]:
        vector = self.named.vectors[number]
        return {
            "dataFilePath": canonical_path(self.names[number]),
            "dataFileMissing": self.lacks_data(number),
            "deletionVectorPath": vector and (inside_table(vector, self.table_path) or vector),
            "deletionVectorFileMissing": vector in self.missing,
        }

    def lacks_data(self, number: int) -> bool:
        return self.named.data[number] in self.missing

    def vectors_alone(self) -> list[int]:
        """The files that are there, and whose deletion vectors are not."""
        return [number for number in self.positions if not self.lacks_data(number)]


class _Search:
    """One search in one snapshot."""

    def __init__(self, request: FsckRequest, statement: Statement, snapshot: Snapshot) -> None:
        self._request, self._statement, self._snapshot = request, statement, snapshot

    def run(self) -> _Found:
        """What is certainly missing.

        :raises HeadwaterError: ``HEADWATER_FSCK_NOT_CERTAIN``.
        """
        snapshot, statement = self._snapshot, self._statement
        statement.step("look for files")
        names = snapshot.select(["path"])["path"].to_pylist()
        named = named_files(snapshot)
        paths = named.paths()
        missing = missing_files(paths, self._store_of, statement.check_cancelled)
        if missing:
            self._check_log()
            self._check_links(missing)
            self._check_spelling(names, named, missing)
            self._check_folders(paths, missing)
        pairs = zip(named.data, named.vectors, strict=True)
        positions = [i for i, (data, vector) in enumerate(pairs) if data in missing or vector in missing]
        return _Found(snapshot.table_path, names, named, missing, positions)

    def _store_of(self, path: str) -> Store:
        if root_of(path) == root_of(self._snapshot.table_path):
            return self._snapshot.store
        return store_for(path, self._statement.hadoop, self._statement.confs)[0]

    def _check_log(self) -> None:
        """The folder that lacks files still has the log that names them, so it is no empty mount point."""
        snapshot = self._snapshot
        directory = log_directory(snapshot.table_path)
        try:
            newest = list_log(snapshot.table_path, snapshot.store).latest
        except HeadwaterError:
            newest = None
        if newest is None or newest < snapshot.version:
            raise self._not_certain([directory], "the table's log is no longer there either", _MOUNT)

    def _check_links(self, missing: set[str]) -> None:
        """A link that leads nowhere leads to what is not mounted; so does one to an empty folder, unless a setting says
        that it is empty for good.
        """
        known: set[str] = set()
        for path in sorted(missing):
            above = path
            while above.startswith("/") and above != "/" and above not in known:
                known.add(above)
                self._check_link(above, path)
                above = os.path.dirname(above)

    def _check_link(self, above: str, path: str) -> None:
        if not os.path.islink(above):
            return
        target = os.path.realpath(above)
        if not os.path.lexists(target):
            raise self._not_certain([path], f"the link {above} leads to {target}, which does not exist", _MOUNT)
        if os.path.isdir(target) and not os.listdir(target) and FSCK_LOST_FOLDERS.of(self._statement) != "remove":
            raise self._not_certain([path], f"the link {above} leads to {target}, which is empty", _MOUNT_OR_LOST)

    def _check_spelling(self, names: Sequence[str], named: Named, missing: set[str]) -> None:
        """Some writers do not encode the names of files in the log; then the file is there by another name."""
        table = self._snapshot.table_path
        literal = {
            f"{table}/{name}": name
            for name, data in zip(names, named.data, strict=True)
            if data in missing and "%" in name and inside_table(data, table)
        }
        there = literal.keys() - missing_files(literal, self._store_of)
        if there:
            advice = "Read the rows of the files that there are, and write them to the table again."
            raise self._not_certain(sorted(there), "files of these names are there, and the log has others", advice)

    def _check_folders(self, paths: Sequence[str], missing: set[str]) -> None:
        """Of each folder elsewhere something is there, or a setting says that it is gone for good."""
        table = self._snapshot.table_path
        if FSCK_LOST_FOLDERS.of(self._statement) == "remove":
            return
        elsewhere = [path for path in paths if not inside_table(path, table)]
        there = {_folder(path) for path in elsewhere if path not in missing}
        lost = Counter(_folder(path) for path in elsewhere if path in missing)
        for folder, count in lost.items():
            if folder not in there and not self._has_something(folder):
                reason = f"none of the {count} files that the table has in {folder} is there, nor anything else"
                raise self._not_certain([folder], reason, _MOUNT_OR_LOST)

    def _has_something(self, folder: str) -> bool:
        store = self._store_of(folder)
        if store.exists(log_directory(folder)):
            return True
        try:
            return bool(store.list_from(folder))
        except (FileNotFoundError, NotADirectoryError):
            return False

    def _not_certain(self, paths: Sequence[str], reason: str, advice: str) -> HeadwaterError:
        named = {"tableName": self._request.name, "files": _some(paths), "reason": reason, "advice": advice}
        return HeadwaterError("HEADWATER_FSCK_NOT_CERTAIN", named)


_MOUNT = "Check that the disk is mounted, or that the bucket is there, and run it again."
_MOUNT_OR_LOST = f"{_MOUNT} If the folder is gone for good, set {FSCK_LOST_FOLDERS.name}=remove."


def _folder(path: str) -> str:
    """The folder of the table that a file belongs to, as far as its path shows."""
    *folders, _ = path.split("/")
    while len(folders) > 1 and _PARTITION.fullmatch(folders[-1]):
        folders.pop()
    return "/".join(folders) or "/"


def _some(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _MOST_NAMED} more" if len(paths) > _MOST_NAMED else ""
    return ", ".join(paths[:_MOST_NAMED]) + more


def _repair(
    found: _Found,
    snapshot: Snapshot,
    request: FsckRequest,
    statement: Statement,
    rows: list[dict[str, Any]],
    began: int,
) -> CommitAnswer:
    alone = found.vectors_alone()
    choice = FSCK_LOST_VECTORS.of(statement)
    if alone and choice == "error":
        vectors = list(dict.fromkeys(str(found.named.vectors[number]) for number in alone))
        named = {"tableName": request.name, "count": len(alone), "files": _some(vectors)}
        raise HeadwaterError("HEADWATER_FSCK_VECTORS_MISSING", named | {"setting": FSCK_LOST_VECTORS.name})
    txn = transaction(request.table, statement, snapshot)
    files = snapshot.files.take(pa.array(found.positions, pa.int64()))
    txn.remove(removals(files))
    kept = set(alone) if choice == "removevector" else set()
    if kept:
        of_kept = snapshot.files.take(pa.array(sorted(kept), pa.int64())).to_pylist()
        txn.add(replace(file_of(row, data_change=True), deletion_vector=None) for row in of_kept)
    return commit(txn, statement, _provenance(found, kept, files["size"], began), rows=rows)


def _provenance(found: _Found, kept: set[int], sizes: pa.ChunkedArray, began: int) -> Provenance:
    pairs = zip(found.positions, sizes.to_pylist(), strict=True)
    removed = [size for number, size in pairs if number not in kept]
    metrics: Mapping[str, int] = {
        "numRemovedFiles": len(removed),
        "numRemovedBytes": sum(removed),
        "numMissingFiles": sum(map(found.lacks_data, found.positions)),
        "numMissingDVs": sum(found.named.vectors[number] in found.missing for number in found.positions),
        "numFilesScanned": len(found.names),
        "executionTimeMs": clock.milliseconds() - began,
    }
    return Provenance("FSCK", {"numRemovedFiles": len(removed)}, metrics)
