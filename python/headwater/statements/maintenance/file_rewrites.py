"""Rewriting data files, so that the same rows are in other files.

Owns the copy of rows for statements that change no data: files without deletion vectors, under logical names, or with
the types that the columns have now. Follows the protocol's chapters "Deletion Vectors", "Type Widening" and "Row
Tracking". Promises: every row is in the new files once, with its row id; nothing here commits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.bridge.statement import Statement
from headwater.log.files import FileKey, canonical_path, vector_of
from headwater.log.snapshot import Snapshot
from headwater.log.statistics.from_footers import field_id
from headwater.protocol.column_metadata import COLUMN_ID, TYPE_CHANGES
from headwater.protocol.columns import ELEMENT, KEY, Path, all_fields, find_path
from headwater.protocol.row_tracking import reserved_names
from headwater.protocol.types import (
    INTERVAL_FIELDS,
    PRIMITIVES,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    parse_type,
)
from headwater.schema import mapping
from headwater.statements.files.bins import pack
from headwater.statements.files.copying import copy_bins, max_file_size
from headwater.statements.files.data_footers import data_footer
from headwater.statements.files.rows import Target
from headwater.statements.running.committing import commit, transaction
from headwater.statements.running.opening import open_snapshot
from headwater.statements.running.rerunning import run_again_after_losses
from headwater.stores.interface import in_parallel
from headwater.transaction.commit_info import Provenance
from headwater.transaction.conflicts import file_key
from headwater.transaction.moved_rows import Copy

#: Bytes of files that one commit rewrites: what a conflict with a writer that changes one of them makes to be done
#: again. Chosen, not measured.
_BYTES_OF_A_COMMIT = 32 << 30


def rewrite_files(table: str, statement: Statement, choose: Callable[[Snapshot], pa.Table]) -> int:
    """Rewrite files of a table until none is left to rewrite, in commits that no append conflicts with.

    :param choose: the files to rewrite, rows of ``snapshot.files``; asked again for each commit.
    :returns: how many files were rewritten.
    :raises HeadwaterError: the last conflict, once ``spark.headwater.dml.retrySeconds`` have passed.
    """

    def attempt() -> int:
        snapshot = open_snapshot(table, statement)
        files = _first(choose(snapshot))
        if files.num_rows:
            txn = transaction(table, statement, snapshot)
            target = Target(snapshot.table_path, txn.definition)
            statement.step("rewrite files")
            copies = _in_their_order(statement, snapshot, files, target)
            txn.move(copies)
            parameters = {"predicate": [], "applyPurge": True}
            commit(txn, statement, Provenance("REORG", parameters, metrics_of(copies)), is_last=False)
        return int(files.num_rows)

    count = 0
    while done := run_again_after_losses(table, statement, attempt):
        count += done
        statement.check_cancelled()
    return count


def _first(files: pa.Table) -> pa.Table:
    """The first files, about as many bytes as one commit rewrites."""
    before = pc.subtract(pc.cumulative_sum(files["size"]), files["size"])
    return files.filter(pc.less(before, _BYTES_OF_A_COMMIT))


def metrics_of(copies: Sequence[Copy]) -> dict[str, int]:
    """A rewrite in the history."""
    sources = [source for copy in copies for source in copy.sources]
    outputs = [output for copy in copies for output in copy.outputs]
    return {
        "numRemovedFiles": len(sources),
        "numRemovedBytes": sum(source.size or 0 for source in sources),
        "numAddedFiles": len(outputs),
        "numAddedBytes": sum(output.size for output in outputs),
        "numDeletionVectorsRemoved": sum(source.deletion_vector is not None for source in sources),
    }


class KeptCopies:
    """The copies that the attempts of one statement make: those of files that are still there are not made again.

    :param copied: makes copies of files, rows of ``snapshot.files``.
    """

    def __init__(self, copied: Callable[[Statement, Snapshot, pa.Table, Target], list[Copy]] | None = None) -> None:
        self._copied = copied or _in_their_order
        self._target: Target | None = None
        #: The logical files that were copied together, and their copies.
        self._made: list[tuple[frozenset[FileKey], list[Copy]]] = []

    def of(self, statement: Statement, snapshot: Snapshot, files: pa.Table, target: Target) -> list[Copy]:
        """The copies of files, as ``copied`` makes them."""
        if target != self._target:  # another definition wants other files
            self._target, self._made = target, []
        vectors = [vector_of(value) for value in files["deletion_vector"].to_pylist()]
        keys = [file_key(path, vector) for path, vector in zip(files["path"].to_pylist(), vectors, strict=True)]
        self._made = [made for made in self._made if made[0] <= set(keys)]
        known = frozenset().union(*(made[0] for made in self._made))
        new = files.filter(pa.array([key not in known for key in keys], pa.bool_()))
        copied = self._copied(statement, snapshot, new, target)
        self._made.append((frozenset(keys) - known, copied))
        return [copy for _, copies in self._made for copy in copies]


def _in_their_order(statement: Statement, snapshot: Snapshot, files: pa.Table, target: Target) -> list[Copy]:
    return copy_bins(statement, snapshot, files, pack(files, max_file_size(statement, snapshot.definition)), target)


class _ByFooters(ABC):
    """Which files have something that only their footers say.

    A footer is read once, however often one asks.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], bool] = {}

    @abstractmethod
    def _test(self, snapshot: Snapshot) -> Callable[[pa.Schema], bool] | None:
        """What tells it, asked with the schema that a file has; None if no file of a version can have it."""

    def files(self, snapshot: Snapshot) -> pa.Table:
        """The files; rows of ``snapshot.files``."""
        if self._test(snapshot) is None:
            return snapshot.files.slice(0, 0)
        return snapshot.files.filter(self.among(snapshot, pa.array(np.ones(snapshot.num_files, bool))))

    def among(self, snapshot: Snapshot, asked: pa.Array) -> pa.Array:
        """Which of the files that are asked about, each given by true."""
        test = self._test(snapshot)
        if test is None:
            return pa.array(np.zeros(snapshot.num_files, bool))
        schema = snapshot.metadata.schema_string
        light = snapshot.select(["path", "size"])
        paths, sizes, wanted = light["path"].to_pylist(), light["size"].to_pylist(), asked.to_pylist()
        keys = [(schema, canonical_path(path)) for path in paths]
        unknown = [
            (key, path, size)
            for key, path, size, want in zip(keys, paths, sizes, wanted, strict=True)
            if want and key not in self._known
        ]

        def has(file: tuple[tuple[str, str], str, int]) -> bool:
            return test(data_footer(snapshot, *file[1:]).schema.to_arrow_schema())

        for (key, _, _), found in zip(unknown, in_parallel(has, unknown), strict=True):
            self._known[key] = found
        return pa.array([want and self._known[key] for key, want in zip(keys, wanted, strict=True)], pa.bool_())


class OldTypes(_ByFooters):
    """Which files have a column with a type that it had before type widening."""

    def _test(self, snapshot: Snapshot) -> Callable[[pa.Schema], bool] | None:
        changed = _changed_types(snapshot)
        if not changed:
            return None
        by_id = snapshot.definition.mapping_mode == "id"
        return lambda stored: any(_is_old(stored, steps, kind, by_id) for steps, kind in changed.items())


class DroppedColumns(_ByFooters):
    """Which files have a column, or a field of one, that the table has no more."""

    def _test(self, snapshot: Snapshot) -> Callable[[pa.Schema], bool] | None:
        by_id = snapshot.definition.mapping_mode == "id"
        hidden = {name.lower() for name in reserved_names(snapshot.metadata.configuration) if name is not None}
        schema = snapshot.schema

        def has_more(stored: pa.Schema) -> bool:
            return _has_more([field for field in stored if field.name.lower() not in hidden], schema, by_id)

        return has_more


def _has_more(stored: Iterable[pa.Field], schema: StructType, by_id: bool) -> bool:
    """Whether a struct of a file has a field that the table's has not."""
    by_name = {field.physical_name.lower(): field for field in schema}
    ids = {_id(field): field for field in schema}
    for each in stored:
        number = field_id(each)
        # A file without ids was written before the table had them.
        field = ids.get(number) if by_id and number is not None else by_name.get(each.name.lower())
        if field is None or _within_has_more(each.type, field.type, by_id):
            return True
    return False


def _within_has_more(stored: pa.DataType, kind: DataType, by_id: bool) -> bool:
    match kind:
        case StructType() if pa.types.is_struct(stored):
            return _has_more(list(stored), kind, by_id)
        case ArrayType(element) if pa.types.is_list(stored):
            return _within_has_more(stored.value_type, element, by_id)
        case MapType(key, value) if pa.types.is_map(stored):
            return _within_has_more(stored.key_type, key, by_id) or _within_has_more(stored.item_type, value, by_id)
    return False


class _Step(NamedTuple):
    """A step to a column, or into an array or a map: the name in files, and the id that a struct's field has."""

    name: str
    id: int | None = None


def _changed_types(snapshot: Snapshot) -> dict[tuple[_Step, ...], DataType]:
    """The types, by the steps that lead to them, of the columns that ever had others."""
    partitions = {name.lower() for name in snapshot.partition_columns}
    changed: dict[tuple[_Step, ...], DataType] = {}
    for path, field in all_fields(snapshot.schema):
        if path[0].lower() in partitions:  # their values are in the log
            continue
        for change in field.metadata.get(TYPE_CHANGES, ()):
            within = tuple(change["fieldPath"].split(".")) if change.get("fieldPath") else ()
            # The last change of a path counts.
            changed[_steps(snapshot, (*path, *within))] = parse_type(change["toType"])
    return changed


def _steps(snapshot: Snapshot, path: Path) -> tuple[_Step, ...]:
    ids = [_id(find_path(snapshot.schema, path[:length])) for length in range(1, len(path) + 1)]
    return tuple(map(_Step, mapping.physical_path(snapshot.schema, path), ids))


def _id(field: StructField | None) -> int | None:
    found = None if field is None else field.metadata.get(COLUMN_ID)
    return found if isinstance(found, int) else None


def _is_old(schema: pa.Schema, steps: Sequence[_Step], kind: DataType, by_id: bool) -> bool:
    """Whether a file has a column in another type than it has now, or may have.

    :param by_id: whether columns are found in files by their ids (column mapping mode ``id``), else by their names,
        which may differ in case.
    """
    stored: pa.DataType = pa.struct(list(schema))
    for step in steps:
        if pa.types.is_map(stored):
            stored = stored.key_type if step.name == KEY else stored.item_type
        elif pa.types.is_nested(stored) and not pa.types.is_struct(stored) and step.name == ELEMENT:
            stored = stored.value_type
        elif pa.types.is_struct(stored):
            fields = list(stored)
            if by_id and step.id is not None:
                found = [field for field in fields if field_id(field) == step.id]
                # A file without ids was written before the table had them: only the reader knows which is meant.
                if not found and any(field_id(field) is None for field in fields):
                    return True
            else:
                found = [field for field in fields if field.name.lower() == step.name.lower()]
            if len(found) != 1:
                return len(found) > 1  # the file is older than the column; or it has several of the name
            stored = found[0].type
        else:
            return True
    return _differs(stored, kind)


_STORED = {
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    **{name: PRIMITIVES[name] for name in INTERVAL_FIELDS},
}


def _differs(stored: pa.DataType, kind: DataType) -> bool:
    """Whether a file has a column in another type than it has now."""
    match kind:
        case DecimalType(precision, scale):
            return not (pa.types.is_decimal(stored) and (stored.precision, stored.scale) == (precision, scale))
        case PrimitiveType("timestamp_ntz" | "timestamp"):
            return not pa.types.is_timestamp(stored)
        case PrimitiveType(name) if name in _STORED:
            return bool(stored != _STORED[name])
    return True
