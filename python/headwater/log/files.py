"""Live files as Arrow: the columns of ``add`` actions, in blocks that versions share.

Owns :data:`FILE_SCHEMA`, the building of its columns from parsed actions, and :class:`FileBlock`, an unchanging run
of ``add`` actions from one source (a checkpoint file, or the commits after it). A snapshot is a list of blocks, each
with the positions that later commits have removed, so that a new version costs what its commit holds and not what the
table holds. Follows the protocol's chapters "Add File and Remove File" and "Action Reconciliation". Statistics text,
the bulk of a checkpoint, is not kept in memory: it is read again on request.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import repeat
from threading import Lock
from typing import Any, Protocol
from urllib.parse import unquote

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from headwater.log.memory_estimates import BLOCK_BYTES, DERIVED_BYTES, Holding
from headwater.protocol.action_shapes import ADD, DELETION_VECTOR, REMOVE, Shape, text_map
from headwater.protocol.actions import AddFile, DeletionVector

#: One row per live file. ``path`` as in the log, ``partition_values`` by physical name, sizes in bytes, times in
#: milliseconds.
FILE_SCHEMA = ADD.arrow_schema(without=("data_change",))

#: One row per tombstone.
TOMBSTONE_SCHEMA = REMOVE.arrow_schema(without=("stats", "tags"))

#: Tables without a row; to build one takes longer than to parse a small commit.
NO_FILES = FILE_SCHEMA.empty_table()
NO_TOMBSTONES = TOMBSTONE_SCHEMA.empty_table()

#: The JSON and checkpoint name of each column of the two schemas.
JSON_NAMES: Mapping[str, str] = {**ADD.json_names, **REMOVE.json_names}

#: The JSON object of an ``add`` or ``remove``.
Action = Mapping[str, Any]

#: A logical file: canonical path, and its deletion vector's unique id or None.
FileKey = tuple[str, str | None]

#: Bytes compared at a time: what fits into a processor's cache (bench case ``scan-bytes``).
_SCANNED_BYTES = 1 << 18

#: Up to this many runs are cut out of a table as slices, without copying; more are filtered (bench case
#: ``kept-slices``).
_MOST_SLICES = 256

#: Lines of a log that are put together at once: few enough to stay in a processor's cache (bench case
#: ``shallow-clone``).
_LINES_AT_ONCE = 4096
#: Stand for the quotes and backslashes of JSON itself until those of values are escaped.
_QUOTE, _BACKSLASH = "\x01", "\x02"


def canonical_path(path: str) -> str:
    """The path by which two actions name the same file: decoded, and local files without their scheme."""
    if "%" in path:
        path = unquote(path)
    if path.startswith("file:"):
        path = "/" + path[5:].lstrip("/")
    return path


def action_key(action: Action) -> FileKey:
    """The key of a parsed ``add`` or ``remove``."""
    vector = action.get("deletionVector")
    return canonical_path(action["path"]), None if not vector else _unique_id(vector, "pathOrInlineDv", "storageType")


def row_key(row: Mapping[str, Any]) -> FileKey:
    """The key of a row of :data:`FILE_SCHEMA` or :data:`TOMBSTONE_SCHEMA`, of which it needs path and deletion
    vector.
    """
    vector = row["deletion_vector"]
    return canonical_path(row["path"]), None if not vector else _unique_id(vector, "path_or_inline", "storage_type")


def row_keys(files: pa.Table) -> list[FileKey]:
    """:func:`row_key` of each row."""
    if files["deletion_vector"].null_count == len(files):
        return [(path, None) for path in canonical_paths(files["path"]).to_pylist()]
    return [row_key(row) for row in files.select(["path", "deletion_vector"]).to_pylist()]


def keys_of(files: pa.Table) -> pa.ChunkedArray:
    """The key of each row of :data:`FILE_SCHEMA` or :data:`TOMBSTONE_SCHEMA` as one text, for many rows at once."""
    paths = canonical_paths(files["path"])
    vectors = files["deletion_vector"]
    if vectors.null_count == len(vectors):
        return paths
    offsets = pc.cast(pc.struct_field(vectors, "offset"), pa.string())
    at = pc.if_else(pc.is_valid(offsets), pc.binary_join_element_wise("@", pc.fill_null(offsets, ""), ""), "")
    parts = (pc.struct_field(vectors, name) for name in ("storage_type", "path_or_inline"))
    ids = pc.binary_join_element_wise(*parts, at, "")
    return pc.coalesce(pc.binary_join_element_wise(paths, ids, "\0"), paths)


def canonical_paths(paths: pa.ChunkedArray) -> pa.ChunkedArray:
    """:func:`canonical_path` of each."""
    encoded = pc.match_substring(paths, "%")
    local = pc.starts_with(paths, "file:")
    if pc.any(local).as_py():
        paths = pc.if_else(pc.and_not(local, encoded), pc.replace_substring_regex(paths, "^file:/*", "/"), paths)
    if not pc.any(encoded).as_py():
        return paths
    spelled = pa.array([canonical_path(path) for path in paths.filter(encoded).to_pylist()], pa.string())
    return pc.replace_with_mask(paths, encoded.combine_chunks(), spelled)


def _unique_id(vector: Mapping[str, Any], path_name: str, type_name: str) -> str:
    offset = vector.get("offset")
    base = f"{vector[type_name]}{vector[path_name]}"
    return base if offset is None else f"{base}@{offset}"


class FileActions:
    """``add`` and ``remove`` actions in the order of a log file, as Arrow tables, and the key of each.

    Parsed objects are turned into columns a few thousand at a time: kept all until the end, those of a commit of a
    million files took a third more time and half as much memory again.
    """

    _AT_ONCE = 4096

    def __init__(self, read_again: Callable[[], Iterator[tuple[bool, dict[str, Any]]]] | None = None) -> None:
        """``read_again`` parses the objects once more, in order; iteration uses it."""
        self._read_again = read_again
        self._keys: list[FileKey] = []
        #: Actions whose keys nobody has asked for.
        self._unkeyed: list[pa.Table] = []
        #: Whether it is known that no file is named twice.
        self.are_distinct = False
        self.kinds = bytearray()  #: for each key whether it is that of an add
        self._pending: tuple[list[Action], list[Action]] = ([], [])
        self._tables: tuple[list[pa.Table], list[pa.Table]] = ([], [])

    def __iter__(self) -> Iterator[tuple[bool, dict[str, Any]]]:
        """(is an add, the action's JSON object) for each, with fields that are no columns; parsed again from the
        text.
        """
        return iter(()) if self._read_again is None else self._read_again()

    @property
    def keys(self) -> list[FileKey]:
        """The key of each, in order."""
        for files in self._unkeyed:
            self._keys += row_keys(files)
        self._unkeyed.clear()
        return self._keys

    def append(self, is_add: bool, action: Action) -> None:
        """Take the next action. Those of :meth:`extend` come last.

        :raises pa.ArrowException, TypeError, AttributeError, ValueError, KeyError: a field of it, or of one of a few
            thousand before it, is missing or of the wrong type.
        """
        self._keys.append(action_key(action))
        self.kinds.append(is_add)
        pending = self._pending[is_add]
        pending.append(action)
        if len(pending) == self._AT_ONCE:
            self._flush(is_add)

    def extend(self, is_add: bool, files: pa.Table) -> None:
        """Take actions that are rows of a table of their kind, and were never text: iteration leaves them out."""
        self._flush(is_add)
        self._unkeyed.append(files)
        self.kinds += bytes([is_add]) * files.num_rows
        self._tables[is_add].append(files)

    def adds(self) -> pa.Table:
        """The ``add`` actions, with :data:`FILE_SCHEMA`; raises as :meth:`append` does."""
        return self._table(True)

    def removes(self) -> pa.Table:
        """The ``remove`` actions, with :data:`TOMBSTONE_SCHEMA`; raises as :meth:`append` does."""
        return self._table(False)

    def pending(self) -> list[Action]:
        """The actions not yet in a table: one of them is to blame for what was raised."""
        return [*self._pending[True], *self._pending[False]]

    def _flush(self, is_add: bool) -> None:
        pending = self._pending[is_add]
        if pending:
            self._tables[is_add].append(table_of(pending, FILE_SCHEMA if is_add else TOMBSTONE_SCHEMA))
            pending.clear()

    def _table(self, is_add: bool) -> pa.Table:
        self._flush(is_add)
        tables = self._tables[is_add]
        if not tables:
            return NO_FILES if is_add else NO_TOMBSTONES
        table = pa.concat_tables(tables)
        if is_add:
            check_sizes(table)
        return table


def check_sizes(adds: pa.Table) -> None:
    """Refuse files without a size: Spark would read no row of them, and nobody would see it.

    :param adds: with the columns ``path`` and ``size`` of :data:`FILE_SCHEMA`.
    :raises ValueError: a size is missing or negative.
    """
    sizes = adds["size"]
    if sizes.null_count or (pc.min(sizes).as_py() or 0) < 0:
        bad = adds.filter(pc.fill_null(pc.less(sizes, 0), True)).select(["path", "size"]).slice(0, 1).to_pylist()[0]
        raise ValueError(f"the size of file {bad['path']} is {bad['size']}")


def table_of(actions: Sequence[Action], schema: pa.Schema) -> pa.Table:
    """Parsed file actions as a table.

    :raises pa.ArrowInvalid, TypeError: a field has a value of the wrong type.
    """
    return pa.table([_column(actions, f) for f in schema], schema=schema)


def _column(actions: Sequence[Action], column: pa.Field) -> pa.Array:
    name = JSON_NAMES[column.name]
    values = [action.get(name) for action in actions]
    if pa.types.is_map(column.type):
        if column.name == "partition_values":
            values = [value or {} for value in values]
        try:
            return pa.array([None if value is None else list(value.items()) for value in values], column.type)
        except (TypeError, pa.ArrowException):  # a number without quotes, for example
            texts = [None if value is None else list(text_map(value, name).items()) for value in values]
            return pa.array(texts, column.type)
    if column.name == "deletion_vector":
        renamed = DELETION_VECTOR.json_names.items()
        values = [value and {ours: value.get(theirs) for ours, theirs in renamed} for value in values]
    return pa.array(values, column.type)


def json_lines(kind: str, files: pa.Table, shape: Shape, more: Mapping[str, Any]) -> Iterator[bytes]:
    """The lines of a log with an ``add`` or ``remove`` for each row of :data:`FILE_SCHEMA`, in pieces.

    The text is put together by columns, with other characters in the place of its quotes: what is a quote then, is one
    of a value. That takes a quarter of the time that an object for each line takes (bench case ``shallow-clone``).

    :param more: by attribute, fields of all rows that are no columns.
    """
    for batch in files.combine_chunks().to_batches(_LINES_AT_ONCE):
        pieces: list[Any] = [_structural({kind: {}})[:-2]]
        is_plain = True
        for number, field in enumerate(shape.fields):
            name = ("," if number else "") + _structural(field.json) + ":"
            if field.attribute in more:
                pieces.append(name + _structural(more[field.attribute]))
            elif field.attribute in batch.schema.names:
                column = batch.column(field.attribute)
                is_plain = is_plain and not (pa.types.is_string(column.type) and _has_control(column))
                pieces += _field_texts(name, column, field.attribute)
        if not is_plain:
            actions = _json_objects(pa.Table.from_batches([batch]), shape, more)
            yield b"".join(orjson.dumps({kind: action}, option=orjson.OPT_APPEND_NEWLINE) for action in actions)
            continue
        joined = pc.binary_join_element_wise(*pieces, "}}\n", "")
        data = joined.buffers()[2].to_pybytes()
        if b"\\" in data:
            data = data.replace(b"\\", b"\\\\")
        data = data.replace(b'"', b'\\"').replace(_QUOTE.encode(), b'"')
        yield data.replace(_BACKSLASH.encode(), b"\\")


def _structural(value: Any) -> str:
    """JSON with other characters for its quotes and backslashes."""
    return orjson.dumps(value).decode().replace("\\", _BACKSLASH).replace('"', _QUOTE)


def _field_texts(name: str, column: pa.Array, attribute: str) -> list[Any]:
    """A field as texts to be joined, for each row; nothing if it is null."""
    if column.null_count == len(column):
        return []
    if pa.types.is_string(column.type):
        texts = [name + _QUOTE, column, _QUOTE]
    elif pa.types.is_map(column.type) or attribute == "deletion_vector":
        if column.null_count == 0 and pa.types.is_map(column.type) and column.offsets[0] == column.offsets[-1]:
            return [name + "{}"]
        values = _json_values(pa.chunked_array([column]), attribute)
        texts = [name, pa.array([None if value is None else _structural(value) for value in values], pa.string())]
    else:
        texts = [name, pc.cast(column, pa.string())]
    if not column.null_count:
        return texts
    return [pc.fill_null(pc.binary_join_element_wise(*texts, ""), "")]


def _json_objects(files: pa.Table, shape: Shape, more: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The JSON object of an ``add`` or ``remove`` for each row of :data:`FILE_SCHEMA`, with the shape's fields.

    :param more: by attribute, fields of all rows that are no columns.
    """
    count = files.num_rows
    names, columns, may_lack = [], [], False
    for field in shape.fields:
        if field.attribute in more:
            values: Iterable[Any] = repeat(more[field.attribute], count)
        elif field.attribute not in files.column_names or (column := files[field.attribute]).null_count == count:
            continue
        else:
            may_lack = may_lack or column.null_count > 0
            values = _json_values(column, field.attribute)
        names.append(field.json)
        columns.append(values)
    for row in zip(*columns, strict=True):
        value = dict(zip(names, row, strict=True))
        yield {name: each for name, each in value.items() if each is not None} if may_lack else value


def _json_values(column: pa.ChunkedArray, attribute: str) -> Iterable[Any]:
    values: list[Any] = column.to_pylist()
    if pa.types.is_map(column.type):
        return (None if value is None else dict(value) for value in values)
    if attribute == "deletion_vector":
        renamed = DELETION_VECTOR.json_names.items()
        return (
            value and {theirs: value[ours] for ours, theirs in renamed if value[ours] is not None} for value in values
        )
    return values


def keep(table: pa.Table, mask: np.ndarray | None) -> pa.Table:
    """The rows where ``mask`` is true, all of them where it is None; few long runs are not copied."""
    if mask is None or bool(mask.all()):
        return table
    between = np.zeros(len(mask) + 2, np.bool_)
    between[1:-1] = mask
    edges = np.flatnonzero(between[1:] != between[:-1])
    if len(edges) > 2 * _MOST_SLICES:
        return table.filter(pa.array(mask))
    if len(edges) == 0:
        return table.slice(0, 0)
    starts, ends = edges[0::2], edges[1::2]
    return pa.concat_tables(
        [table.slice(int(start), int(end - start)) for start, end in zip(starts, ends, strict=True)]
    )


def no_values(kind: pa.DataType, count: int) -> pa.Array:
    """So many nulls. The array's buffers are one, of zeros, which takes no memory while nobody writes to it: those of
    ``pa.nulls`` take 75 bytes a file in a table that has no column of :data:`FILE_SCHEMA` which may be absent.
    """
    widest = 8 * (count + 1)
    return _of_zeros(kind, count, pa.py_buffer(np.zeros(widest, np.uint8)))


def _of_zeros(kind: pa.DataType, count: int, zeros: pa.Buffer) -> pa.Array:
    if pa.types.is_struct(kind):
        children = [_of_zeros(field.type, count, zeros) for field in kind]
        return pa.Array.from_buffers(kind, count, [zeros], null_count=count, children=children)
    if pa.types.is_map(kind):
        entries = pa.struct([kind.key_field, kind.item_field])
        return pa.Array.from_buffers(kind, count, [zeros, zeros], null_count=count, children=[pa.array([], entries)])
    if pa.types.is_string(kind):
        return pa.Array.from_buffers(kind, count, [zeros, zeros, zeros], null_count=count)
    if not pa.types.is_primitive(kind) or kind.bit_width > 64:  # no column of the log, but perhaps a bound
        return pa.nulls(count, kind)
    return pa.Array.from_buffers(kind, count, [zeros, zeros], null_count=count)


class KeptColumns(Protocol):
    """Where columns that come from a block are kept beyond this process, each table under a name."""

    def read(self, name: str, schema: pa.Schema, rows: int | None = None) -> pa.Table | None:
        """The table of a name, if there is one of this schema and length; it takes no memory of this process."""

    def write(self, name: str, table: pa.Table) -> pa.Table | None:
        """Keep a table; the same one as :meth:`read` gives it, or None if it could not be kept."""


class StatisticsSource(Protocol):
    """Where a block's statistics are read from, in the block's order."""

    @property
    def kept(self) -> KeptColumns | None:
        """Where what is derived from them is kept; None if it is not."""

    @property
    def holding(self) -> Holding:
        """What it keeps in memory."""

    def texts(self) -> Iterator[pa.Array]:
        """The JSON statistics of each file, in pieces."""

    def parsed(self, paths: Sequence[tuple[str, ...]]) -> dict[tuple[str, ...], pa.ChunkedArray] | None:
        """The asked columns of ``stats_parsed``, those that exist; None if there is no ``stats_parsed``."""


class TextStatistics:
    """Statistics held as text."""

    kept: KeptColumns | None = None

    def __init__(self, texts: pa.ChunkedArray) -> None:
        self._texts = texts

    @cached_property
    def holding(self) -> Holding:
        return Holding(self._texts, int(self._texts.get_total_buffer_size()))

    def texts(self) -> Iterator[pa.Array]:
        yield from (chunk for chunk in self._texts.chunks if len(chunk))

    def parsed(self, paths: Sequence[tuple[str, ...]]) -> dict[tuple[str, ...], pa.ChunkedArray] | None:
        return None


class FileBlock:
    """``add`` actions of one source, which never change. ``table`` has :data:`FILE_SCHEMA` without ``stats``.

    ``cache`` holds what others derive from the block (typed statistics, typed partition values) as columns of as many
    rows; use it under ``lock``.

    :param in_memory: whether it holds the text of its statistics.
    :param is_mapped: whether ``table`` is mapped from a file, and takes no memory of this process.
    """

    def __init__(self, table: pa.Table, statistics: StatisticsSource, in_memory: bool, is_mapped: bool = False) -> None:
        self.table = table
        self.statistics = statistics
        self.in_memory = in_memory
        self.is_mapped = is_mapped
        self.cache: dict[Any, Any] = {}
        #: The keys of those in ``cache`` that are mapped.
        self.mapped: set[Any] = set()
        self.lock = Lock()
        #: How many columns were derived when their bytes were last counted, and these bytes.
        self._derived_bytes = (0, 0)

    @staticmethod
    def of_actions(adds: Sequence[Action]) -> FileBlock:
        """A block of parsed ``add`` actions."""
        return FileBlock.of_table(table_of(adds, FILE_SCHEMA))

    @staticmethod
    def of_table(table: pa.Table) -> FileBlock:
        """A block of a table with all of :data:`FILE_SCHEMA`."""
        position = table.schema.get_field_index("stats")
        return FileBlock(table.remove_column(position), TextStatistics(table.column(position)), in_memory=True)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def texts(self) -> pa.ChunkedArray:
        """All of the block's statistics text; large."""
        return pa.chunked_array(list(self.statistics.texts()), pa.string())

    def columns(self, names: Iterable[str]) -> pa.Table:
        """The named columns of :data:`FILE_SCHEMA`, ``stats`` read for it if asked."""
        return pa.table({name: self.texts() if name == "stats" else self.table.column(name) for name in names})

    def positions_of(self, keys: Collection[FileKey]) -> np.ndarray:
        """Where the block has the logical files of these keys (a set or a dictionary's): positions, ascending."""
        if not keys or len(self) == 0:
            return np.empty(0, np.int64)
        wanted = {path for path, _ in keys}
        paths = self.table.column("path")
        candidates = np.flatnonzero(
            pc.is_in(paths, value_set=pa.array(sorted(wanted), pa.string())).to_numpy(zero_copy_only=False)
        ).tolist()
        candidates += [position for path in wanted for position in self._respelled.get(path, ())]
        if not candidates:
            return np.empty(0, np.int64)
        positions = np.array(sorted(set(candidates)), np.int64)
        return positions[[row_key(row) in keys for row in self.rows_at(positions)]]

    def rows_at(self, positions: np.ndarray) -> list[dict[str, Any]]:
        """What is in the keys of the files at these positions, which ascend. ``Table.take`` would copy all paths of a
        table that has them in several chunks.
        """
        rows: list[dict[str, Any]] = []
        start = 0
        for batch in self.table.select(["path", "deletion_vector"]).to_batches():
            first, last = np.searchsorted(positions, (start, start + batch.num_rows))
            if first < last:
                rows += batch.take(pa.array(positions[first:last] - start)).to_pylist()
            start += batch.num_rows
        return rows

    @cached_property
    def _respelled(self) -> dict[str, list[int]]:
        """The positions of paths that are not spelled canonically, by canonical path; mostly none."""
        found: dict[str, list[int]] = {}
        start = 0
        for chunk in self.table.column("path").chunks:
            if _has_byte(chunk, b"%:"):
                special = pc.or_(pc.match_substring(chunk, "%"), pc.starts_with(chunk, "file:"))
                for position in np.flatnonzero(special.to_numpy(zero_copy_only=False)).tolist():
                    raw = chunk[position].as_py()
                    if (canonical := canonical_path(raw)) != raw:
                        found.setdefault(canonical, []).append(start + position)
            start += len(chunk)
        return found

    def holdings(self) -> tuple[Holding, Holding]:
        """What it keeps in memory, with what was derived from it up to now."""
        count, derived = self._derived_bytes
        if count != len(self.cache):
            columns = list(self.cache.items())
            derived = sum(DERIVED_BYTES + (0 if key in self.mapped else _bytes(each)) for key, each in columns)
            self._derived_bytes = len(columns), derived
        return Holding(self, BLOCK_BYTES + self._table_bytes + derived), self.statistics.holding

    @cached_property
    def _table_bytes(self) -> int:
        return 0 if self.is_mapped else int(self.table.get_total_buffer_size())

    @cached_property
    def total_size(self) -> int:
        """Bytes of all the block's files."""
        return pc.sum(self.table.column("size")).as_py() or 0

    def derived(self, key: Any, build: Callable[[], pa.ChunkedArray]) -> pa.ChunkedArray:
        """The cached column of that key, built once."""
        with self.lock:
            if key not in self.cache:
                self.cache[key] = build()
            return self.cache[key]


def _bytes(derived: pa.ChunkedArray | tuple[pa.ChunkedArray, ...]) -> int:
    columns = derived if isinstance(derived, tuple) else (derived,)
    return sum(int(column.get_total_buffer_size()) for column in columns)


def _has_byte(chunk: pa.Array, wanted: bytes) -> bool:
    """Whether the text of a string array has one of the bytes; scans the buffer, since a kernel takes ten times as
    long.
    """
    return any(bool((piece == byte).any()) for piece in _pieces(chunk) for byte in wanted)


def _has_control(chunk: pa.Array) -> bool:
    """Whether the text of a string array has a control character."""
    return any(bool((piece < 0x20).any()) for piece in _pieces(chunk))


def _pieces(chunk: pa.Array) -> Iterator[np.ndarray]:
    """The bytes of a string array's text."""
    data = chunk.buffers()[2]
    if data is None or len(chunk) == 0:
        return
    offsets = np.frombuffer(chunk.buffers()[1], np.int32)
    start, end = int(offsets[chunk.offset]), int(offsets[chunk.offset + len(chunk)])
    content = np.frombuffer(data, np.uint8, end - start, start)
    for at in range(0, len(content), _SCANNED_BYTES):
        yield content[at : at + _SCANNED_BYTES]


def file_of(row: Mapping[str, Any], data_change: bool = False) -> AddFile:
    """The ``add`` action of a row with all of :data:`FILE_SCHEMA`, as it is."""
    return AddFile(
        path=row["path"],
        partition_values=dict(row["partition_values"] or ()),
        size=row["size"],
        modification_time=row["modification_time"],
        data_change=data_change,
        stats=row["stats"],
        tags=dict(row["tags"]) if row["tags"] is not None else None,
        deletion_vector=vector_of(row["deletion_vector"]),
        base_row_id=row["base_row_id"],
        default_row_commit_version=row["default_row_commit_version"],
        clustering_provider=row["clustering_provider"],
    )


def vector_of(value: Mapping[str, Any] | None) -> DeletionVector | None:
    """The descriptor in such a row."""
    if value is None:
        return None
    return DeletionVector(
        value["storage_type"], value["path_or_inline"], value["size"], value["cardinality"], value["offset"]
    )
