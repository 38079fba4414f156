"""Rows of changed files as Arrow, read without Spark.

Owns the way from a Parquet file of some version to columns as a definition of the table has them. Follows the
protocol's chapters "Column Mapping", "Type Widening", "Deletion Vectors" and "Partition Value Serialization": columns
are found by their physical names or ids, values of older types are widened, days and times of Spark 2's calendar become
those that Spark reads, a column that a file lacks is null, and partition values come from the log. Promise: at most a
row group's part of ``batch_rows`` rows is in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyroaring import BitMap64

from headwater.basics.errors import HeadwaterError
from headwater.change_data.changelog import CHANGE_TYPE, RowKind
from headwater.change_data.files import ChangedFile, file_not_found
from headwater.change_data.kinds_in_files import possible_types
from headwater.change_data.schemas import VersionedDefinition
from headwater.log import deletion_vectors
from headwater.protocol.actions import DeletionVector
from headwater.protocol.column_metadata import COLUMN_ID
from headwater.protocol.partition_values import text_of, typed_value
from headwater.protocol.types import ArrayType, DataType, MapType, PrimitiveType, StructField, StructType
from headwater.stores import Store, absolute_path
from headwater.stores.file_calendar import FileCalendar

_FIELD_ID = b"PARQUET:field_id"


@dataclass(frozen=True)
class ChangedRows:
    """Some rows of a file: the columns asked for, the positions in the file, and what the change feed calls each."""

    columns: list[pa.Array]
    positions: np.ndarray
    change_types: pa.Array

    def __len__(self) -> int:
        return len(self.positions)


class ChangeReader:
    """Reads files of a range of changes.

    :param definition: what they are read with.
    :param columns: those of the table's columns that are read.
    """

    def __init__(
        self,
        table_path: str,
        store: Store,
        definition: VersionedDefinition,
        columns: Sequence[StructField],
        batch_rows: int,
    ) -> None:
        self._path = table_path
        self._store = store
        self._columns = columns
        self._batch_rows = batch_rows
        self._by_id = definition.mapping_mode == "id"
        self._partitions = {name.lower() for name in definition.metadata.partition_columns}

    def read(self, file: ChangedFile, kinds: Sequence[RowKind]) -> Iterator[ChangedRows]:
        """The rows of some kinds, in the order of the file.

        :raises HeadwaterError: ``DELTA_CHANGE_DATA_FILE_NOT_FOUND``, ``DELTA_UNSUPPORTED_DATA_TYPE``; those of
            reading deletion vectors.
        """
        if file.change_type is not None and all(kind.change_type != file.change_type for kind in kinds):
            return
        try:
            without, only = self._positions(file.without), self._positions(file.only)
            with self._store.open_input(absolute_path(self._path, file.path)) as source:
                for rows in self._groups(pq.ParquetFile(source, coerce_int96_timestamp_unit="us"), file, kinds):
                    kept = _live(rows.positions, without, only)
                    found = rows if kept is None else _filtered(rows, kept)
                    if len(found):
                        yield found
        except FileNotFoundError as error:
            raise file_not_found(file.version, str(error.filename or file.path), self._path) from None

    def _positions(self, vector: DeletionVector | None) -> np.ndarray | None:
        if vector is None:
            return None
        bitmap: BitMap64 = deletion_vectors.read(vector, self._path, self._store)
        return np.fromiter(bitmap, np.int64, len(bitmap))

    def _groups(self, parquet: pq.ParquetFile, file: ChangedFile, kinds: Sequence[RowKind]) -> Iterator[ChangedRows]:
        words = {kind.change_type for kind in kinds}
        shape, calendar = parquet.schema_arrow, FileCalendar.of(parquet.metadata)
        sources = [self._source(field, shape) for field in self._columns]
        names = sorted({source.name for source in sources if source is not None})
        is_change_file = file.change_type is None
        first = 0
        for number in range(parquet.num_row_groups):
            group = parquet.metadata.row_group(number)
            start, first = first, first + group.num_rows
            possible = set(possible_types(group)) if is_change_file else {file.change_type}
            if not possible & words:
                continue
            asked = [*names, CHANGE_TYPE] if is_change_file else names
            for batch in _batches(parquet, number, asked, self._batch_rows):
                positions = np.arange(start, start + batch.num_rows)
                start += batch.num_rows
                if is_change_file:
                    types = batch.column(CHANGE_TYPE).cast(pa.string())
                else:
                    types = pa.repeat(pa.scalar(file.change_type, pa.string()), batch.num_rows)
                columns = [
                    self._column(batch, field, source, file, calendar)
                    for field, source in zip(self._columns, sources, strict=True)
                ]
                rows = ChangedRows(columns, positions, types)
                if possible <= words:
                    yield rows
                else:
                    yield of_kinds(rows, kinds)

    def _source(self, field: StructField, shape: pa.Schema) -> pa.Field | None:
        """The column of a file that holds a column of the table; None if its value is not in the file."""
        if field.name.lower() in self._partitions:
            return None
        return _find(field, list(shape), by_id=self._by_id)

    def _column(
        self,
        batch: pa.RecordBatch,
        field: StructField,
        source: pa.Field | None,
        file: ChangedFile,
        calendar: FileCalendar,
    ) -> pa.Array:
        kind = field.type.to_arrow()
        if source is not None:
            return _shaped(batch.column(source.name), field.type, _Reading(self._by_id, calendar))
        value = None
        if field.name.lower() in self._partitions:
            value = typed_value(text_of(file.partition_values, field.physical_name), field.name, field.type)
        return pa.nulls(batch.num_rows, kind) if value is None else pa.repeat(pa.scalar(value, kind), batch.num_rows)


def _batches(parquet: pq.ParquetFile, group: int, names: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
    if names:
        yield from parquet.iter_batches(rows, row_groups=[group], columns=list(names))
        return
    left = parquet.metadata.row_group(group).num_rows
    while left > 0:  # no column is needed: a batch of so many rows without any has to be made
        some = min(left, rows)
        yield pa.RecordBatch.from_struct_array(pa.array([{}] * some, pa.struct([])))
        left -= some


def _live(positions: np.ndarray, without: np.ndarray | None, only: np.ndarray | None) -> pa.Array | None:
    """Which positions count; None if all do."""
    if without is None and only is None:
        return None
    kept = np.ones(len(positions), bool)
    if only is not None:
        kept &= np.isin(positions, only, assume_unique=True)
    if without is not None:
        kept &= ~np.isin(positions, without, assume_unique=True)
    return pa.array(kept)


def of_kinds(rows: ChangedRows, kinds: Sequence[RowKind]) -> ChangedRows:
    """Those of the rows that are of some kinds."""
    return _filtered(rows, pc.is_in(rows.change_types, pa.array([kind.change_type for kind in kinds])))


def _filtered(rows: ChangedRows, kept: pa.Array) -> ChangedRows:
    if kept.true_count == len(rows):
        return rows
    return ChangedRows(
        [column.filter(kept) for column in rows.columns],
        rows.positions[kept.to_numpy(zero_copy_only=False)],
        rows.change_types.filter(kept),
    )


def _find(field: StructField, columns: Sequence[pa.Field], *, by_id: bool) -> pa.Field | None:
    if by_id and COLUMN_ID in field.metadata:
        wanted = str(field.metadata[COLUMN_ID]).encode()
        return next((c for c in columns if (c.metadata or {}).get(_FIELD_ID) == wanted), None)
    name = field.physical_name
    exact = next((column for column in columns if column.name == name), None)
    return exact or next((column for column in columns if column.name.lower() == name.lower()), None)


class _Reading(NamedTuple):
    """How a file is read: whether columns are found by their ids, and the calendar of its days and times."""

    by_id: bool
    calendar: FileCalendar


def _shaped(values: pa.Array, kind: DataType, reading: _Reading) -> pa.Array:
    """Values as a type of the table has them, at any depth."""
    target = kind.to_arrow()
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    nulls = values.is_null()

    match kind:
        case StructType():
            arrays = [_child(values, field, reading) for field in kind]
            if not arrays:
                return values
            return pa.StructArray.from_arrays(arrays, fields=list(target), mask=nulls)
        case PrimitiveType(name="variant"):
            names = [values.type.field(i).name for i in range(values.type.num_fields)]
            if "typed_value" in names:
                raise HeadwaterError("DELTA_UNSUPPORTED_DATA_TYPE", {"dataType": "shredded variant"})
            parts = [values.field(names.index(field.name)).cast(pa.binary()) for field in target]
            return pa.StructArray.from_arrays(parts, fields=list(target), mask=nulls)
        case ArrayType():
            elements = _shaped(values.flatten(), kind.element, reading)
            return pa.ListArray.from_arrays(_offsets(values), elements, type=target, mask=nulls)
        case MapType():
            entry = pa.struct([("key", values.type.key_type), ("value", values.type.item_type)])
            entries = values.cast(pa.list_(entry))
            pairs = entries.flatten()
            keys = _shaped(pairs.field(0), kind.key, reading)
            items = _shaped(pairs.field(1), kind.value, reading)
            return pa.MapArray.from_arrays(_offsets(entries), keys, items, type=target, mask=nulls)
    values = reading.calendar.rebased(values, target)
    if values.type == target:
        return values
    # Times of other units; all else is widened, and a value that does not fit is an error.
    return values.cast(target, safe=not pa.types.is_timestamp(values.type))


def _child(values: pa.Array, field: StructField, reading: _Reading) -> pa.Array:
    columns = [values.type.field(i) for i in range(values.type.num_fields)]
    found = _find(field, columns, by_id=reading.by_id)
    if found is None:
        return pa.nulls(len(values), field.type.to_arrow())
    return _shaped(values.field(columns.index(found)), field.type, reading)


def _offsets(lists: pa.Array) -> pa.Array:
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
