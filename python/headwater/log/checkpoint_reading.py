"""Reading checkpoints of every kind.

Owns the way from a checkpoint's files (classic, multi-part, V2 in Parquet or JSON, with or without sidecars) to the
table's state at that version. Follows the protocol's chapters "Checkpoints", "V2 Spec", "Sidecar Files" and
"Checkpoint Schema". Only columns that hold something are read: a column chunk whose footer says that all is null
costs nothing. Statistics and tombstones are read when they are asked for, from the files opened at first, so that a
cleanup of the log in between does no harm. Of a small file the content is kept in place of an open file, so that many
small tables need no file descriptors.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headwater.basics.errors import HeadwaterError, plain_reason
from headwater.log.column_cache import FileColumns, columns_of
from headwater.log.commits import ParsedActions, invalid_commit, parse_actions, reason_of
from headwater.log.files import FILE_SCHEMA, JSON_NAMES, TOMBSTONE_SCHEMA, FileBlock, check_sizes, keep, no_values
from headwater.log.memory_estimates import BLOCK_BYTES, Holding
from headwater.log.statistics.from_typed import texts_of
from headwater.protocol.action_shapes import (
    DELETION_VECTOR,
    DELETION_VECTOR_TYPE,
    DOMAIN_METADATA,
    METADATA,
    PROTOCOL,
    SIDECAR,
    TRANSACTION,
)
from headwater.protocol.actions import DomainMetadata, Metadata, Protocol, SetTransaction
from headwater.protocol.file_names import SIDECAR_DIRECTORY, CheckpointName, log_directory, parse_name
from headwater.stores import FileInfo, Store
from headwater.stores.file_calendar import FileCalendar

#: The kinds of actions that are not of files.
_STATE_SHAPES = (PROTOCOL, METADATA, TRANSACTION, DOMAIN_METADATA, SIDECAR)
#: What no classic checkpoint has.
_V2_COLUMNS = ("checkpointMetadata", "sidecar")
#: Rows whose statistics are read at a time, which bounds memory (bench cases ``plan-cold`` and ``memory``).
_STATISTICS_BATCH = 65_536
#: The columns of a block, and the names of what is kept of a file on disk.
_ADD_SCHEMA = FILE_SCHEMA.remove(FILE_SCHEMA.get_field_index("stats"))
_SELECTED_SCHEMA = pa.schema([("is_add", pa.bool_())])
_ADDS, _SELECTED = "adds", "rows of adds"
#: Bytes of a file up to which its content is kept, and not the open file: 26 KB is a checkpoint of ten files, and what
#: its reader keeps of it takes ten times as much (``python -m bench.many_tables``).
_KEPT_BYTES = 256 << 10
#: How many times its bytes the footer of an open file takes in memory, about (same bench).
_FOOTER_FACTOR = 15
#: What comes of a file that is missing, spoiled, or of another schema than a checkpoint's.
_DAMAGED = (OSError, pa.ArrowException, ValueError, KeyError, TypeError, AttributeError, OverflowError, MemoryError)
_UNREADABLE = (*_DAMAGED, HeadwaterError)


@dataclass(frozen=True)
class CheckpointFiles:
    """A complete checkpoint: its one file, or all its parts in order; ``format`` is ``parquet`` or ``json``."""

    version: int
    files: tuple[FileInfo, ...]
    format: str = "parquet"


class UnreadableCheckpoint(Exception):
    """The checkpoint is damaged or not all there; an older one, or the commits, may do instead."""


@dataclass
class CheckpointState:
    """A table's state as a checkpoint holds it."""

    protocol: Protocol
    metadata: Metadata
    transactions: dict[str, SetTransaction] = field(default_factory=dict)
    domains: dict[str, DomainMetadata] = field(default_factory=dict)
    blocks: list[FileBlock] = field(default_factory=list)
    tombstone_sources: list[TombstoneSource] = field(default_factory=list)


class TombstoneSource:
    """The ``remove`` actions of one file of the log: a table, or what is read from a checkpoint when asked for."""

    def __init__(self, source: pa.Table | ParquetActions) -> None:
        self._source = source

    def table(self) -> pa.Table:
        """The tombstones, with :data:`~headwater.log.files.TOMBSTONE_SCHEMA`."""
        if isinstance(self._source, ParquetActions):
            with self._source.in_use():
                return self._source.file_actions("remove", TOMBSTONE_SCHEMA)[0]
        return self._source

    @cached_property
    def holding(self) -> Holding:
        """What it keeps in memory."""
        if isinstance(self._source, ParquetActions):
            return self._source.holding
        return Holding(self._source, BLOCK_BYTES + int(self._source.get_total_buffer_size()))


def read_checkpoint(checkpoint: CheckpointFiles, table_path: str, store: Store) -> CheckpointState:
    """The state that a complete checkpoint holds.

    :raises UnreadableCheckpoint: a file of it is missing or damaged, or it has no protocol or metadata.
    """
    try:
        return _read(checkpoint, table_path, store)
    except _UNREADABLE as error:
        raise UnreadableCheckpoint(reason_of(error)) from error


def _read(checkpoint: CheckpointFiles, table_path: str, store: Store) -> CheckpointState:
    with ExitStack() as used:
        return _read_files(checkpoint, table_path, store, used)


def _read_files(checkpoint: CheckpointFiles, table_path: str, store: Store, used: ExitStack) -> CheckpointState:
    parsed = ParsedActions(checkpoint.files[0].path)
    files: list[ParquetActions] = []
    blocks: list[FileBlock] = []
    tombstones: list[TombstoneSource] = []
    for info in checkpoint.files:
        if checkpoint.format == "json":
            parsed = parse_actions(store.read(info.path), info.path)
            adds = parsed.files.adds()
            if adds.num_rows:
                blocks.append(FileBlock.of_table(adds))
            tombstones.append(TombstoneSource(parsed.files.removes()))
        else:
            file = ParquetActions(store, info.path, info.modification_time)
            used.enter_context(file.in_use())
            file.other_actions(parsed)
            files.append(file)
    for sidecar in parsed.sidecars:
        files.append(ParquetActions(store, _sidecar_path(table_path, sidecar["path"])))
        used.enter_context(files[-1].in_use())
    for file in files:
        block = file.block()
        if block is not None:
            blocks.append(block)
        tombstones.append(TombstoneSource(file))
    if parsed.protocol is None or parsed.metadata is None:
        raise ValueError("it has no protocol or no metaData action")
    return CheckpointState(parsed.protocol, parsed.metadata, parsed.transactions, parsed.domains, blocks, tombstones)


def is_v2(checkpoint: CheckpointFiles, store: Store) -> bool:
    """Whether a checkpoint follows the V2 spec: by its name, or, as such a one may have a classic name, by its columns.
    One that is missing or damaged under a classic name is of no use to any client, and no V2 checkpoint.
    """
    name = parse_name(checkpoint.files[0].name)
    assert isinstance(name, CheckpointName)
    if name.uuid is not None or name.parts > 1:
        return name.uuid is not None
    try:
        file = ParquetActions(store, checkpoint.files[0].path)
        return any(file.row_groups(column) for column in _V2_COLUMNS)
    except _DAMAGED:
        return False


def named_sidecars(checkpoint: CheckpointFiles, store: Store) -> dict[str, Mapping[str, Any]]:
    """The ``sidecar`` actions of a checkpoint, by the names of their files; classic and multi-part ones have none.

    :raises UnreadableCheckpoint: it is missing or damaged.
    """
    parsed = ParsedActions(checkpoint.files[0].path)
    try:
        for info in checkpoint.files:
            if checkpoint.format == "json":
                parsed = parse_actions(store.read(info.path), info.path)
            else:
                ParquetActions(store, info.path).other_actions(parsed)
    except _UNREADABLE as error:
        raise UnreadableCheckpoint(reason_of(error)) from error
    return {_sidecar_name(sidecar["path"]): sidecar for sidecar in parsed.sidecars}


def _sidecar_name(path: str) -> str:
    """Sidecars always lie in their own directory of the table; a path in front of the name says nothing more."""
    return unquote(path).rpartition("/")[2]


def _sidecar_path(table_path: str, path: str) -> str:
    return f"{log_directory(table_path)}/{SIDECAR_DIRECTORY}/{_sidecar_name(path)}"


class _Adds(NamedTuple):
    """The ``add`` actions of a file, and which of its rows they are (None: all)."""

    table: pa.Table
    selected: np.ndarray | None
    is_mapped: bool = False

    def kept_in(self, kept: FileColumns) -> _Adds:
        """Themselves, mapped, if they can be kept on disk. What selects them comes first: without it, they are of no
        use.
        """
        mapped = None
        if self.selected is None or kept.write(_SELECTED, _table_of(self.selected)) is not None:
            mapped = kept.write(_ADDS, self.table)
        return self if mapped is None else _Adds(mapped, self.selected, is_mapped=True)


def _table_of(selected: np.ndarray) -> pa.Table:
    return pa.table([pa.array(selected)], schema=_SELECTED_SCHEMA)


class _OpenedFile:
    """A Parquet file with its footer parsed."""

    def __init__(self, source: pa.NativeFile | pa.Buffer) -> None:
        given = pa.BufferReader(source) if isinstance(source, pa.Buffer) else source
        # INT96 timestamps, as Spark writes them in stats_parsed, would overflow nanoseconds in year 2262.
        self.file = pq.ParquetFile(given, coerce_int96_timestamp_unit="us")
        self.schema: pa.Schema = self.file.schema_arrow
        self.leaves: list[str] = [self.file.schema.column(i).path for i in range(len(self.file.schema.names))]

    @cached_property
    def calendar(self) -> FileCalendar:
        return FileCalendar.of(self.file.metadata)

    @cached_property
    def positions(self) -> Mapping[str, Sequence[int]]:
        """By the name of a column, and of each that is nested in one, the positions of its leaves."""
        found = defaultdict[str, list[int]](list)
        for position, leaf in enumerate(self.leaves):
            name = ""
            for part in leaf.split("."):
                name = f"{name}.{part}" if name else part
                found[name].append(position)
        return found


class ParquetActions:
    """One Parquet file of actions: a struct column for each kind, a row for each action. Of a small one, what its
    footer says is kept only while it is :meth:`in_use`.

    :param modified: the file's time, if it is known, in milliseconds since the epoch.
    """

    def __init__(self, store: Store, path: str, modified: int | None = None) -> None:
        self.path = path
        self._modified, self._identity = modified, store.identity
        source = store.open_input(path)
        self._content: pa.Buffer | None = None
        if source.size() <= _KEPT_BYTES:
            with source:
                self._content = source.read_buffer()
        self._source = source if self._content is None else None
        # Stores of other machines copy what they open.
        is_copy = isinstance(self._source, pa.OSFile) and not store.is_local
        self._copied_bytes = source.size() if is_copy else 0
        self._lock = Lock()
        self._users, self._users_lock = 0, Lock()
        self._opened: _OpenedFile | None = _OpenedFile(source if self._content is None else self._content)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """What is read within needs the footer parsed once. Safe for threads."""
        with self._users_lock:
            self._users += 1
        try:
            yield
        finally:
            with self._users_lock:
                self._users -= 1
                if self._users == 0 and self._content is not None:
                    self._opened = None

    @property
    def _reader(self) -> _OpenedFile:
        reader = self._opened
        if reader is None:
            assert self._content is not None
            reader = self._opened = _OpenedFile(self._content)
        return reader

    @property
    def _file(self) -> pq.ParquetFile:
        return self._reader.file

    @property
    def schema(self) -> pa.Schema:
        return self._reader.schema

    @property
    def calendar(self) -> FileCalendar:
        """The calendar of its typed columns."""
        return self._reader.calendar

    @property
    def _leaves(self) -> list[str]:
        return self._reader.leaves

    @cached_property
    def kept(self) -> FileColumns | None:
        """What is kept on disk of its columns; None if that is not done."""
        return None if self._source is None else columns_of(self.path, self._source, self._modified, self._identity)

    @cached_property
    def holding(self) -> Holding:
        """What it keeps in memory."""
        if self._content is not None:
            return Holding(self, self._content.size)
        footer = self._file.metadata.serialized_size * _FOOTER_FACTOR
        return Holding(self, footer, open_files=1, copied_bytes=self._copied_bytes)

    def field_type(self, *path: str) -> pa.DataType | None:
        """The type of a nested column; None if the file has none of that name."""
        if path[0] not in self.schema.names:
            return None
        found = self.schema.field(path[0]).type
        for name in path[1:]:
            position = found.get_field_index(name) if pa.types.is_struct(found) else -1
            if position < 0:
                return None
            found = found.field(position).type
        return found

    def row_groups(self, *path: str) -> list[int]:
        """The row groups that may hold something in the column: not those whose footer counts nothing but nulls."""
        leaves = self._reader.positions.get(".".join(path), ())
        metadata = self._file.metadata
        return [
            group
            for group in range(metadata.num_row_groups)
            if any(not _all_null(metadata.row_group(group).column(leaf)) for leaf in leaves)
        ]

    def read(self, columns: Sequence[str], row_groups: Sequence[int] | None = None) -> pa.Table:
        """The columns' values.

        :raises HeadwaterError: ``DELTA_INVALID_COMMIT`` if they are spoiled.
        """
        with self._lock, self._spoiled(columns):
            if row_groups is None and self._file.metadata.num_row_groups > 1:
                # One array of all paths would have room for twice as many.
                groups = range(self._file.metadata.num_row_groups)
                return pa.concat_tables([self._file.read_row_group(group, columns=list(columns)) for group in groups])
            if row_groups is None:
                return self._file.read(columns=list(columns))
            return self._file.read_row_groups(list(row_groups), columns=list(columns))

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The columns' values in pieces; raises as :meth:`read`. Between two row groups, others may read the file."""
        for group in range(self._file.metadata.num_row_groups):
            yield from self.read(columns, [group]).to_batches(_STATISTICS_BATCH)

    def is_int96(self, *path: str) -> bool:
        """Whether a nested column has the type of times that has no zone, and means UTC."""
        name = ".".join(path)
        return name in self._leaves and self._file.schema.column(self._leaves.index(name)).physical_type == "INT96"

    def count_nulls(self, *path: str) -> int | None:
        """In how many rows a nested column is null; None if a footer does not say."""
        leaf = self._leaves.index(".".join(path))
        metadata = self._file.metadata
        chunks = [metadata.row_group(group).column(leaf).statistics for group in range(metadata.num_row_groups)]
        known = [chunk.null_count for chunk in chunks if chunk is not None and chunk.has_null_count]
        return sum(known) if len(known) == len(chunks) else None

    @contextmanager
    def _spoiled(self, columns: Sequence[str]) -> Iterator[None]:
        try:
            yield
        except _DAMAGED as error:
            raise invalid_commit(self.path, f"column {', '.join(columns)}", plain_reason(error)) from None

    def other_actions(self, into: ParsedActions) -> None:
        """Add the actions that are not of files to ``into``."""
        for shape in _STATE_SHAPES:
            kind, required = shape.kind, shape.fields[0].json  # never null in a row with an action of the kind
            if self.field_type(kind, required) is None:
                continue
            groups = self.row_groups(kind, required)
            if not groups:
                continue
            for row in self.read([kind], groups).column(kind).drop_null().to_pylist():
                if row[required] is not None:
                    _take(into, kind, {name: value for name, value in row.items() if value is not None})

    def block(self) -> FileBlock | None:
        """The file's ``add`` actions; None if it has none."""
        adds = self._kept_adds()
        if adds is None:
            adds = _Adds(*self.file_actions("add", _ADD_SCHEMA))
            check_sizes(adds.table)
            if self._may_have("add") and self.kept is not None:
                adds = adds.kept_in(self.kept)
        if adds.table.num_rows == 0:
            return None
        statistics = CheckpointStatistics(self, adds.selected)
        return FileBlock(adds.table, statistics, in_memory=False, is_mapped=adds.is_mapped)

    def _kept_adds(self) -> _Adds | None:
        """The ``add`` actions from the disk, where they are kept."""
        if not self._may_have("add") or self.kept is None:
            return None
        rows = self._file.metadata.num_rows
        table = self.kept.read(_ADDS, _ADD_SCHEMA)
        if table is None or table["path"].null_count or table["size"].null_count:
            return None
        if table.num_rows == rows:
            return _Adds(table, None, is_mapped=True)
        selected = self.kept.read(_SELECTED, _SELECTED_SCHEMA, rows)
        if selected is None:
            return None
        mask = selected.column(0).to_numpy()
        return _Adds(table, mask, is_mapped=True) if int(mask.sum()) == table.num_rows else None

    def _may_have(self, kind: str) -> bool:
        """Whether there may be ``add`` or ``remove`` actions."""
        return self.field_type(kind, "path") is not None and bool(self.row_groups(kind, "path"))

    def file_actions(self, kind: str, schema: pa.Schema) -> tuple[pa.Table, np.ndarray | None]:
        """The ``add`` or ``remove`` rows with ``schema``, and which of the file's rows they are (None: all).

        :raises HeadwaterError: ``DELTA_INVALID_COMMIT`` if they are spoiled.
        """
        with self._spoiled([kind]):
            return self._file_actions(kind, schema)

    def _file_actions(self, kind: str, schema: pa.Schema) -> tuple[pa.Table, np.ndarray | None]:
        if not self._may_have(kind):
            return schema.empty_table(), np.zeros(self._file.metadata.num_rows, np.bool_)
        names = [
            column.name
            for column in schema
            if self.field_type(kind, JSON_NAMES[column.name]) is not None
            and self.row_groups(kind, JSON_NAMES[column.name])
        ]
        table = self.read([f"{kind}.{JSON_NAMES[name]}" for name in names])
        actions = table.column(kind)
        paths = _child(actions, "path")
        selected = None if paths.null_count == 0 else paths.is_valid().to_numpy(zero_copy_only=False)
        columns = []
        for column in schema:
            if column.name in names:
                columns.append(_as(_child(actions, JSON_NAMES[column.name]), column.type))
            elif column.name == "partition_values":
                columns.append(pa.chunked_array([_empty_maps(table.num_rows)]))
            else:
                columns.append(pa.chunked_array([no_values(column.type, table.num_rows)]))
        return keep(pa.table(columns, schema=schema), selected), selected


class CheckpointStatistics:
    """The statistics of a checkpoint file's ``add`` rows, read again each time; ``selected`` says which rows those
    are.
    """

    def __init__(self, file: ParquetActions, selected: np.ndarray | None) -> None:
        self._file = file
        self._selected = selected

    @property
    def whole_file(self) -> ParquetActions | None:
        """The file, where it has the block's ``add`` actions and no others."""
        return self._file if self._selected is None else None

    @property
    def kept(self) -> FileColumns | None:
        return self._file.kept

    @property
    def holding(self) -> Holding:
        return self._file.holding

    def texts(self) -> Iterator[pa.Array]:
        """The texts; those that the file lacks are written from the typed columns."""
        with self._file.in_use():
            yield from self._texts()

    def _texts(self) -> Iterator[pa.Array]:
        has_texts = self._has("stats")
        fills = self._has("stats_parsed") and not (has_texts and self._has_all_texts())
        if not has_texts and not fills:
            yield pa.nulls(self._count(), pa.string())
            return
        columns = [f"add.{name}" for name, reads in (("stats", has_texts), ("stats_parsed", fills)) if reads]
        position = 0
        for batch in self._file.batches(columns):
            with self._file._spoiled(columns):
                adds = batch.column(0)
                if self._selected is not None:
                    part = self._selected[position : position + len(adds)]
                    if not part.all():
                        adds = adds.filter(pa.array(part))
                texts = adds.field("stats").cast(pa.string()) if has_texts else pa.nulls(len(adds), pa.string())
                if fills and texts.null_count:
                    typed = texts_of(adds.field("stats_parsed"), self._is_instant, self._file.calendar.certain)
                    texts = pc.coalesce(texts, typed)
            position += batch.num_rows
            if len(texts):
                yield texts

    def _has(self, name: str) -> bool:
        return self._file.field_type("add", name) is not None and bool(self._file.row_groups("add", name))

    def _has_all_texts(self) -> bool:
        nulls = self._file.count_nulls("add", "stats")
        return nulls is not None and nulls == self._file.count_nulls("add", "path")

    def _is_instant(self, path: tuple[str, ...]) -> bool:
        return self._file.is_int96("add", "stats_parsed", *path)

    def parsed(self, paths: Sequence[tuple[str, ...]]) -> dict[tuple[str, ...], pa.ChunkedArray] | None:
        with self._file.in_use(), self._file._spoiled(["add.stats_parsed"]):
            return self._parsed(paths)

    def _parsed(self, paths: Sequence[tuple[str, ...]]) -> dict[tuple[str, ...], pa.ChunkedArray] | None:
        if not self._has("stats_parsed"):
            return None
        existing = [path for path in paths if self._file.field_type("add", "stats_parsed", *path) is not None]
        if not existing:
            return {}
        table = self._file.read([".".join(("add", "stats_parsed", *path)) for path in existing])
        found = {}
        for path in existing:
            column = table.column("add")
            for name in ("stats_parsed", *path):
                column = _child(column, name)
            found[path] = keep(pa.table([self._file.calendar.certain(column)], ["x"]), self._selected).column(0)
        return found

    def _count(self) -> int:
        return self._file._file.metadata.num_rows if self._selected is None else int(self._selected.sum())


def _all_null(chunk: pq.ColumnChunkMetaData) -> bool:
    statistics = chunk.statistics
    return bool(statistics is not None and statistics.has_null_count and statistics.null_count == chunk.num_values)


def _take(into: ParsedActions, kind: str, row: dict[str, Any]) -> None:
    match kind:
        case "protocol":
            into.protocol = Protocol.from_json(row)
        case "metaData":
            into.metadata = Metadata.from_json(row)
        case "txn":
            into.transactions[row["appId"]] = SetTransaction.from_json(row)
        case "domainMetadata":
            domain = DomainMetadata.from_json(row)
            if not domain.removed:
                into.domains[domain.domain] = domain
        case "sidecar":
            into.sidecars.append(row)


def _child(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """A struct column's field, null wherever the struct is.

    Of a field that may not be null, as some writers declare ``path``, Arrow itself knows no nulls: where the struct is
    null it has a value of no meaning.
    """
    position = column.type.get_field_index(name)
    chunks = [pc.struct_field(c, [position]) if c.null_count else c.field(position) for c in column.chunks]
    return pa.chunked_array(chunks, column.type.field(position).type)


def _as(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    """The column in our type: other engines' checkpoints have large strings, other field names and orders."""
    if column.type == wanted:
        return column
    if wanted == DELETION_VECTOR_TYPE:
        return pa.chunked_array([_deletion_vectors(chunk) for chunk in column.chunks], wanted)
    return column.cast(wanted)


def _deletion_vectors(chunk: pa.StructArray) -> pa.StructArray:
    children = []
    for wanted in DELETION_VECTOR_TYPE:
        position = chunk.type.get_field_index(DELETION_VECTOR.json_names[wanted.name])
        children.append(pa.nulls(len(chunk), wanted.type) if position < 0 else chunk.field(position).cast(wanted.type))
    return pa.StructArray.from_arrays(children, fields=list(DELETION_VECTOR_TYPE), mask=chunk.is_null())


def _empty_maps(count: int) -> pa.MapArray:
    nothing = pa.array([], pa.string())
    return pa.MapArray.from_arrays(pa.array(np.zeros(count + 1, np.int32)), nothing, nothing)
