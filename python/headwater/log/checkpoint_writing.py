"""Writing checkpoints.

Owns the way from a snapshot to its checkpoint and to ``_last_checkpoint``. Follows the protocol's chapters
"Checkpoints", "Checkpoint Specs", "Checkpoint Schema", "Sidecar Files" and "Last Checkpoint File Schema". A table
whose ``delta.checkpointPolicy`` is ``v2`` and that has the feature gets a UUID-named V2 checkpoint with sidecars;
every other table a classic one by the V1 spec, which all readers know, in parts where ``delta.checkpoint.partSize``
asks for it.

Rows go by row groups of one kind of action: first the few of the table itself, then live files, then tombstones, so
that a reader passes over what it does not want. Files are Arrow columns all the way, never one Python object each. A
checkpoint is put under its name whole; one that exists is replaced by its equal. ``_last_checkpoint`` never moves
back.

A V2 checkpoint names the sidecars of the one before it again as long as all their files are live, so that what it
costs depends on what has changed and not on the size of the table (:mod:`headwater.log.shared_sidecars`).
"""

from __future__ import annotations

import copy
import hashlib
import io
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headwater.basics import clock
from headwater.log.checkpoint_columns import ParsedPartitionValues, ParsedStatistics, whole
from headwater.log.files import FILE_SCHEMA, JSON_NAMES, TOMBSTONE_SCHEMA
from headwater.log.replay import LiveBlock
from headwater.log.segment import list_log, read_last_checkpoint
from headwater.log.shared_sidecars import shared_sidecars
from headwater.log.snapshot import Snapshot
from headwater.protocol import properties
from headwater.protocol.action_shapes import (
    CHECKPOINT_METADATA,
    DOMAIN_METADATA,
    METADATA,
    PROTOCOL,
    SIDECAR,
    TRANSACTION,
    checkpoint_row,
    checkpoint_type,
)
from headwater.protocol.actions import Action, serialize
from headwater.protocol.file_names import (
    LAST_CHECKPOINT,
    SIDECAR_DIRECTORY,
    checkpoint_name,
    checkpoint_part_names,
    log_directory,
    sidecar_name,
    v2_checkpoint_name,
)
from headwater.stores.file_calendar import PROLEPTIC_GREGORIAN

#: Rows that are converted and written at a time, which bounds memory. Bench: ``python -m bench.checkpoint``.
_ROWS_AT_ONCE = 65_536

#: The most actions in a sidecar where nobody says: what is written again for each file that changes. Bench:
#: ``python -m bench.checkpoint --v2``.
_SIDECAR_ROWS = 250_000

#: An action that is not of a file: its kind and content.
_StateAction = tuple[str, Mapping[str, Any]]
#: The columns of actions that are not of files.
_STATE_TYPES = {shape.kind: shape.checkpoint_type() for shape in (TRANSACTION, METADATA, PROTOCOL, DOMAIN_METADATA)}
#: The columns that only V2 checkpoints have.
_V2_TYPES = {shape.kind: shape.checkpoint_type() for shape in (CHECKPOINT_METADATA, SIDECAR)}


@dataclass(frozen=True)
class WrittenCheckpoint:
    """What was written: rows (actions), of these live files, and bytes, sidecars included.

    ``v2_file`` describes the V2 checkpoint's own file as ``_last_checkpoint`` does: name, bytes, time.
    """

    path: str
    version: int
    num_actions: int
    num_adds: int
    size_in_bytes: int
    parts: int = 1
    v2_file: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Layout:
    """What a session asks of checkpoints, where the table's properties leave it open.

    ``part_size`` is the most actions in a file: a classic checkpoint of more has several parts, a V2 checkpoint
    several sidecars; where nobody says, a classic one is one file. ``top_level`` is the format of a V2 checkpoint's own
    file, ``parquet`` or ``json``.
    """

    part_size: int | None = None
    top_level: str = "parquet"


def write_checkpoint(snapshot: Snapshot, now: int | None = None, layout: Layout | None = None) -> WrittenCheckpoint:
    """Write the checkpoint of a committed version and point ``_last_checkpoint`` at it.

    :param now: milliseconds since the epoch, from which the retention of tombstones counts; by default the clock's, but
        not later than the version itself: a clock that is ahead must not cost anyone a tombstone.
    :raises OSError: the store failed; readers then go on with what was there before.
    """
    now = min(clock.milliseconds(), snapshot.timestamp) if now is None else now
    definition = snapshot.definition
    layout = layout or Layout()
    layout = replace(layout, part_size=definition.get(properties.CHECKPOINT_PART_SIZE) or layout.part_size)
    files = _Files(snapshot, now)
    if not definition.supports("v2Checkpoint"):
        written = _write_classic(snapshot, files, layout.part_size)
    elif definition.get(properties.CHECKPOINT_POLICY) == "v2":
        written = _write_v2(snapshot, files, layout)
    else:  # where V2 checkpoints are enabled, no checkpoint may have several parts
        written = _write_classic(snapshot, files, None)
    _write_last_checkpoint(snapshot, written)
    return written


def _write_classic(snapshot: Snapshot, files: _Files, part_size: int | None) -> WrittenCheckpoint:
    state = _state(snapshot)
    count = _count_parts(len(state), files.count, part_size)
    names = checkpoint_part_names(snapshot.version, count) if count > 1 else [checkpoint_name(snapshot.version)]
    paths = [f"{log_directory(snapshot.table_path)}/{name}" for name in names]
    types = {name: t for name, t in _STATE_TYPES.items() if name != "domainMetadata" or snapshot.domain_metadata}
    types = {**types, **files.types}
    first = _ActionFile(types)
    first.write_state(state)
    size = 0
    for path, part in zip(paths, _split(files, first, types, part_size), strict=True):
        data = part.close()
        snapshot.store.put(path, data)
        size += len(data)
    return WrittenCheckpoint(paths[0], snapshot.version, len(state) + files.count, files.num_adds, size, count)


def _write_v2(snapshot: Snapshot, files: _Files, layout: Layout) -> WrittenCheckpoint:
    """Sidecars first: the checkpoint that names them must never be seen without them."""
    directory = log_directory(snapshot.table_path)
    path = f"{directory}/{v2_checkpoint_name(snapshot.version, file_format=layout.top_level)}"
    most = layout.part_size or _SIDECAR_ROWS
    fewest = max(most // 2, 1)
    shared = shared_sidecars(snapshot, files.types, fewest)
    sidecars: list[_StateAction] = [("sidecar", action) for action in shared.values()]
    size = sum(action["sizeInBytes"] for action in shared.values())
    for sidecar in _split(files.without(shared), _ActionFile(files.types), files.types, most, fewest):
        if sidecar.num_rows == 0:
            continue
        data, name = sidecar.close(), sidecar_name()
        snapshot.store.make_directory(f"{directory}/{SIDECAR_DIRECTORY}")
        snapshot.store.put(f"{directory}/{SIDECAR_DIRECTORY}/{name}", data)
        size += len(data)
        sidecars.append(("sidecar", {"path": name, "sizeInBytes": len(data), "modificationTime": files.now}))
    own: _StateAction = ("checkpointMetadata", {"version": snapshot.version})
    if layout.top_level == "json":
        data = _json_lines([own, *sidecars]) + serialize(_state_actions(snapshot))
    else:
        # Readers that learn a checkpoint's schema from this file look for the columns of the sidecars in it.
        top = _ActionFile({**_STATE_TYPES, **files.types, **_V2_TYPES})
        tagged = [(kind, {**content, "tags": {}}) for kind, content in (own, *sidecars)]
        top.write_state([tagged[0], *_state(snapshot), *tagged[1:]])
        data = top.close()
    snapshot.store.put(path, data)
    num_actions = 1 + len(sidecars) + len(_state_actions(snapshot)) + files.count
    v2_file = {"path": path.rpartition("/")[2], "sizeInBytes": len(data), "modificationTime": files.now}
    return WrittenCheckpoint(path, snapshot.version, num_actions, files.num_adds, size + len(data), v2_file=v2_file)


def _json_lines(actions: Sequence[_StateAction]) -> bytes:
    return b"".join(orjson.dumps({kind: content}) + b"\n" for kind, content in actions)


def _count_parts(state: int, files: int, size: int | None) -> int:
    """How many files :func:`_split` gives where the first has the actions that are not of files in it."""
    if size is None:
        return 1
    rest = files - max(size - state, 0)
    return 1 + max(0, -(-rest // size))


def _split(
    files: _Files, first: _ActionFile, types: Mapping[str, pa.DataType], size: int | None, alone: int | None = None
) -> Iterator[_ActionFile]:
    """The files' actions in files of at most ``size`` actions, each given when it is full.

    :param alone: no tombstones come into a file of so many live files: a later checkpoint may share it.
    """
    file = first
    last = ""
    for kind, column in files.actions():
        if alone is not None and kind != last and file.num_rows >= alone:
            yield file
            file = _ActionFile(types)
        last = kind
        start = 0
        while start < len(column):
            room = len(column) if size is None else size - file.num_rows
            if room <= 0:
                yield file
                file = _ActionFile(types)
                continue
            piece = column.slice(start, room)
            file.write(kind, piece)
            start += len(piece)
    yield file


class _ActionFile:
    """A Parquet file of actions under way, in memory: a struct column a kind, in each row all but one of them null."""

    def __init__(self, types: Mapping[str, pa.DataType]) -> None:
        # Without it, a Spark in another mode would refuse days before 1582 in the statistics, or move them.
        self.schema = pa.schema(list(types.items()), metadata=dict(PROLEPTIC_GREGORIAN))
        self.num_rows = 0
        self._sink = io.BytesIO()
        # Paths and statistics hardly ever repeat: a dictionary would be built for each page and thrown away.
        self._writer = pq.ParquetWriter(
            self._sink,
            self.schema,
            compression="snappy",
            use_dictionary=["add.partitionValues.key_value.key", "add.partitionValues.key_value.value"],
            store_decimal_as_integer=True,
        )

    def write_state(self, actions: Sequence[_StateAction]) -> None:
        """Actions that are not of files, as (kind, content)."""
        columns = []
        for field in self.schema:
            rows = [checkpoint_row(content, field.type) if kind == field.name else None for kind, content in actions]
            columns.append(pa.array(rows, field.type))
        self._write(pa.table(columns, schema=self.schema))

    def write(self, kind: str, column: pa.Array) -> None:
        """Actions of one kind."""
        columns = [column if f.name == kind else pa.nulls(len(column), f.type) for f in self.schema]
        self._write(pa.table(columns, schema=self.schema))

    def _write(self, table: pa.Table) -> None:
        if table.num_rows:
            self._writer.write_table(table, row_group_size=_ROWS_AT_ONCE)
            self.num_rows += table.num_rows

    def close(self) -> bytes:
        """The file's content."""
        self._writer.close()
        return self._sink.getvalue()


def _state(snapshot: Snapshot) -> list[_StateAction]:
    """The actions that are not of files, as (kind, content)."""
    return [pair for action in _state_actions(snapshot) for pair in action.to_json().items()]


def _state_actions(snapshot: Snapshot) -> list[Action]:
    """The actions that are not of files: protocol, metadata, and the rest."""
    transactions, domains = snapshot.set_transactions.values(), snapshot.domain_metadata.values()
    return [snapshot.protocol, snapshot.metadata, *transactions, *domains]


class _Files:
    """The actions of files of one snapshot: live ones, and tombstones that have not expired.

    :attr:`types` are those of the columns ``add`` and ``remove``.
    """

    def __init__(self, snapshot: Snapshot, now: int) -> None:
        self.now = now
        self.num_adds = snapshot.num_files
        self._snapshot = snapshot
        self._shared: Container[int] = ()
        self._tombstones = self._kept()
        self.count = self.num_adds + self._tombstones.num_rows
        as_struct = snapshot.definition.get(properties.STATISTICS_AS_STRUCT)
        self._statistics = ParsedStatistics(snapshot) if as_struct else None
        self._partitions = ParsedPartitionValues.of_snapshot(snapshot) if as_struct else None
        adds = {JSON_NAMES[field.name]: checkpoint_type(field.type) for field in FILE_SCHEMA}
        adds["dataChange"] = pa.bool_()
        if not snapshot.definition.get(properties.STATISTICS_AS_JSON):
            del adds["stats"]
        if self._statistics is not None:
            adds["stats_parsed"] = self._statistics.type
        if self._partitions is not None:
            adds["partitionValues_parsed"] = self._partitions.type
        removes = {JSON_NAMES[field.name]: checkpoint_type(field.type) for field in TOMBSTONE_SCHEMA}
        self.types = {"add": pa.struct(list(adds.items())), "remove": pa.struct(list(removes.items()))}

    def without(self, shared: Container[int]) -> _Files:
        """The same but for the live files of the snapshot's blocks of these numbers."""
        others = copy.copy(self)
        others._shared = shared
        return others

    def actions(self) -> Iterator[tuple[str, pa.StructArray]]:
        """(kind, column) for some files at a time."""
        for adds in self._adds():
            yield "add", adds
        for start in range(0, self._tombstones.num_rows, _ROWS_AT_ONCE):
            columns = _columns(self._tombstones.slice(start, _ROWS_AT_ONCE))
            columns["dataChange"] = pa.repeat(False, len(columns["path"]))
            yield "remove", _struct(columns, self.types["remove"])

    def _adds(self) -> Iterator[pa.StructArray]:
        partitions = self._partitions.columns() if self._partitions is not None else None
        first = 0
        for number, live in enumerate(self._snapshot.state.blocks):
            if number in self._shared:
                first += live.num_files
                continue
            pieces = self._pieces(live)
            parsed = self._statistics.columns(live, pieces) if self._statistics is not None else None
            for piece, statistics in parsed or ((piece, None) for piece in pieces):
                columns = _columns(piece)
                columns["dataChange"] = pa.repeat(False, piece.num_rows)
                if statistics is not None:
                    columns["stats_parsed"] = statistics
                if self._partitions is not None and partitions is not None:
                    columns["partitionValues_parsed"] = self._partitions.build(partitions.slice(first, piece.num_rows))
                first += piece.num_rows
                yield _struct(columns, self.types["add"])

    def _pieces(self, live: LiveBlock) -> Iterator[pa.Table]:
        """The block's live files, some at a time. Texts that are in the log are read piece by piece too: of a large
        table they are most of what there is.
        """
        names = self._columns_of(live)
        if "stats" not in names or live.block.in_memory:
            table = live.select(live.block.columns(names))
            yield from (table.slice(start, _ROWS_AT_ONCE) for start in range(0, table.num_rows, _ROWS_AT_ONCE))
            return
        position = 0
        for texts in live.block.statistics.texts():
            rows = live.block.table.slice(position, len(texts))
            piece = live.select(rows.append_column(FILE_SCHEMA.field("stats"), texts).select(names), position)
            position += len(texts)
            yield from (piece.slice(start, _ROWS_AT_ONCE) for start in range(0, piece.num_rows, _ROWS_AT_ONCE))

    def _columns_of(self, live: LiveBlock) -> list[str]:
        """The columns to read: not the texts of statistics where they are not written, and typed ones are there."""
        typed = self._statistics is None or self._statistics.are_typed(live)
        if typed and self.types["add"].get_field_index("stats") < 0:
            return [name for name in FILE_SCHEMA.names if name != "stats"]
        return list(FILE_SCHEMA.names)

    def _kept(self) -> pa.Table:
        retention = self._snapshot.definition.get(properties.FILE_RETENTION)
        tombstones = self._snapshot.tombstones()
        # One without a time counts as expired: it is from a writer that did not want it kept.
        return tombstones.filter(pc.greater(tombstones.column("deletion_timestamp"), self.now - retention))


def _columns(table: pa.Table) -> dict[str, pa.Array]:
    """The columns of some files or tombstones under the names a checkpoint has for them."""
    columns = {}
    for name in table.column_names:
        column = whole(table.column(name))
        if name == "deletion_vector":
            fields = list(checkpoint_type(column.type))
            children = [column.field(i) for i in range(len(fields))]
            column = pa.StructArray.from_arrays(children, fields=fields, mask=column.is_null())
        columns[JSON_NAMES[name]] = column
    return columns


def _struct(columns: Mapping[str, pa.Array], wanted: pa.StructType) -> pa.StructArray:
    """The columns that ``wanted`` names, in its order, as one struct column."""
    return pa.StructArray.from_arrays([columns[field.name] for field in wanted], fields=list(wanted))


def _write_last_checkpoint(snapshot: Snapshot, written: WrittenCheckpoint) -> None:
    known = read_last_checkpoint(snapshot.table_path, snapshot.store)
    if known is not None and known.version > written.version and _has(snapshot, known.version):
        return
    content: dict[str, Any] = {
        "version": written.version,
        "size": written.num_actions,
        "sizeInBytes": written.size_in_bytes,
        "numOfAddFiles": written.num_adds,
    }
    if written.parts > 1:
        content["parts"] = written.parts
    if written.v2_file is not None:  # Trino looks for a classic checkpoint if this does not name the file
        content["v2Checkpoint"] = written.v2_file
    content["checksum"] = last_checkpoint_checksum(content)
    path = f"{log_directory(snapshot.table_path)}/{LAST_CHECKPOINT}"
    snapshot.store.put(path, orjson.dumps(content))


def _has(snapshot: Snapshot, version: int) -> bool:
    """Whether the log has a version: one that it has not was of a table that was here before."""
    latest = list_log(snapshot.table_path, snapshot.store, min(version, snapshot.version)).latest
    return latest is not None and latest >= version


def last_checkpoint_checksum(content: Mapping[str, Any]) -> str:
    """The MD5 of the content's canonical form, as the protocol's section "JSON checksum" defines it."""
    pairs = _canonical({name: value for name, value in content.items() if name != "checksum"}, "")
    text = ",".join(f"{path}={value}" for path, value in sorted(pairs, key=lambda pair: pair[0].encode()))
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def _canonical(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """(path, scalar) of everything in a JSON value, both spelled canonically."""
    if isinstance(value, Mapping):
        named = [(_quoted(name), child) for name, child in value.items()]
    elif isinstance(value, (list, tuple)):
        named = [(str(position), child) for position, child in enumerate(value)]
    else:
        yield path, _quoted(value) if isinstance(value, str) else orjson.dumps(value).decode()
        return
    for name, child in named:
        yield from _canonical(child, f"{path}+{name}" if path else name)


def _quoted(text: str) -> str:
    return f'"{quote(text, safe="-._~")}"'
