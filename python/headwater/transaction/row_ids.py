"""Row ids of the files that a commit adds.

Owns which files of a commit get new row ids and a new row commit version, and which keep those they have; for the
version that an attempt tries, and above the high-water mark that the winners left. Follows the protocol's chapter "Row
Tracking". Promise: two commits never give the same row id, in whatever order they win; nor is an id given that a file
of the table has, where another writer stored a mark below it, or one beyond the last there is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater.basics.errors import HeadwaterError
from headwater.log.files import FILE_SCHEMA, canonical_path, canonical_paths
from headwater.log.snapshot import Snapshot
from headwater.protocol.actions import AddFile, DomainMetadata, num_records
from headwater.protocol.row_tracking import DOMAIN, LAST_ROW_ID, NO_MARK, high_water_mark, mark_action
from headwater.transaction.conflicts import WinningCommit


@dataclass(frozen=True)
class _Given:
    """What a file has already, None if nothing was given."""

    base_row_id: int | None
    default_row_commit_version: int | None


class RowIds:
    """What a transaction knows of the row ids that the table has given.

    :param snapshot: the version that was read; None to create the table.
    :param count_rows: how many rows a file has, those marked deleted included, where its statistics do not say.
    """

    def __init__(self, snapshot: Snapshot | None, count_rows: Callable[[AddFile], int]) -> None:
        self._snapshot = snapshot
        self._mark = high_water_mark(snapshot.domain_metadata.get(DOMAIN) if snapshot else None)
        #: What files have already is only looked at by a transaction that gives ids.
        self._is_compared = False
        self._reserved = NO_MARK
        self._count_rows = count_rows
        #: What winners gave to files that this transaction may add again, by canonical path.
        self._given: dict[str, _Given] = {}
        self._counts: dict[str, int] = {}

    def reserve(self, mark: int) -> None:
        """Note that row ids up to ``mark`` were given, whatever the table's domain says."""
        self._reserved = max(self._reserved, mark)

    def follow(self, winner: WinningCommit) -> None:
        """Learn what a winner gave."""
        self._mark = max(self._mark, high_water_mark(winner.row_id_domain))
        for file in winner.adds:
            if file.base_row_id is not None:
                self.reserve(_last_id(file.base_row_id, file.num_records))
                self._given[canonical_path(file.path)] = _Given(file.base_row_id, file.default_row_commit_version)

    def assign(self, files: Sequence[AddFile], version: int) -> tuple[list[AddFile], DomainMetadata | None]:
        """The files as a version adds them, and the domain where its high-water mark rises.

        :raises HeadwaterError: ``HEADWATER_ROW_IDS_EXHAUSTED``.
        """
        if not self._is_compared:
            self.reserve(_highest_id(self._snapshot))
            self._is_compared = True
        mark = max(self._mark, self._reserved)
        assigned = []
        for file in files:
            if file.base_row_id is None or file.default_row_commit_version is None:
                given = self._given.get(canonical_path(file.path))
                base = file.base_row_id if given is None else given.base_row_id
                since = file.default_row_commit_version if given is None else given.default_row_commit_version
                if base is None:
                    base = mark + 1
                    mark += self._rows(file)
                    if mark > LAST_ROW_ID or base > LAST_ROW_ID:
                        raise HeadwaterError("HEADWATER_ROW_IDS_EXHAUSTED", {"mark": base - 1, "rows": mark - base + 1})
                file = replace(file, base_row_id=base, default_row_commit_version=version if since is None else since)
            assigned.append(file)
        return assigned, mark_action(mark) if mark > self._mark else None

    def _rows(self, file: AddFile) -> int:
        if file.path not in self._counts:
            known = file.num_records
            self._counts[file.path] = self._count_rows(file) if known is None else known
        return self._counts[file.path]


def ids_of_before(snapshot: Snapshot) -> dict[tuple[str, int | None], dict[str, Any]]:
    """The row ids of each file of a table, and of each that a tombstone remembers, by canonical path and size.

    A file that is added again keeps the row ids that it was last added with, as the protocol wants: a reader or a
    RESTORE that knows the file from another version takes its rows for the same. A file of another size has other rows:
    programs that write Parquet files without a log may overwrite a file.
    """
    if not snapshot.definition.assigns_row_ids:
        return {}
    names = ("base_row_id", "default_row_commit_version")
    rows = [*snapshot.tombstones().select(["path", "size", *names]).to_pylist()]  # in the order of the log
    rows += snapshot.select(["path", "size", *names]).to_pylist()
    return {(canonical_path(row.pop("path")), row.pop("size")): row for row in rows}


def with_ids_of_before(added: pa.Table, snapshot: Snapshot) -> pa.Table:
    """Files (:data:`~headwater.log.files.FILE_SCHEMA`) to add to a table, with their :func:`ids_of_before`."""
    known = ids_of_before(snapshot)
    if not known:
        return added
    keys = zip(canonical_paths(added["path"]).to_pylist(), added["size"].to_pylist(), strict=True)
    kept = [known.get(key, {}) for key in keys]
    for name in ("base_row_id", "default_row_commit_version"):
        at = added.schema.get_field_index(name)
        added = added.set_column(at, FILE_SCHEMA.field(name), pa.array([row.get(name) for row in kept], pa.int64()))
    return added


def _highest_id(snapshot: Snapshot | None) -> int:
    """The highest row id that a file of the table has, :data:`NO_MARK` where none has any: that of the file whose ids
    begin last, as the ranges of files do not overlap.
    """
    if snapshot is None:
        return NO_MARK
    bases = snapshot.files["base_row_id"]
    last = pc.max(bases).as_py()
    if last is None:
        return NO_MARK
    index = pc.index(bases, last).as_py()
    return _last_id(last, num_records(snapshot.files["stats"][index].as_py()))


def _last_id(base: int, rows: int | None) -> int:
    return base + max(rows or 1, 1) - 1
