"""Writing checkpoints.

Owns the way from a snapshot to its checkpoint and to ``_last_checkpoint``. Follows the protocol's chapters
"Checkpoints", "Checkpoint Specs", "Checkpoint Schema", "Sidecar Files" and "Last Checkpoint File Schema". A table
whose ``delta.checkpointPolicy`` is ``v2`` and that has the feature gets a UUID-named V2 checkpoint with one sidecar;
every other table a classic one by the V1 spec, which all readers know.

Rows go by row groups of one kind of action: first the few of the table itself, then live files, then tombstones, so
that a reader passes over what it does not want. Files are Arrow columns all the way, never one Python object each. A
checkpoint is put under its name whole; one that exists is replaced by its equal. ``_last_checkpoint`` never moves
back.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headwater.log.checkpoint_statistics import ParsedPartitionValues, ParsedStatistics, whole
from headwater.log.features import supports
from headwater.log.file_names import (
    LAST_CHECKPOINT,
    SIDECAR_DIRECTORY,
    checkpoint_name,
    log_directory,
    sidecar_name,
    v2_checkpoint_name,
)
from headwater.log.files import DELETION_VECTOR_JSON_NAMES, FILE_SCHEMA, JSON_NAMES, TOMBSTONE_SCHEMA
from headwater.log.segment import read_last_checkpoint
from headwater.log.snapshot import Snapshot
from headwater.schema import properties

_ROWS_AT_ONCE = 65_536
_STRING_MAP = pa.map_(pa.string(), pa.string())
_STRINGS = pa.list_(pa.field("element", pa.string()))

#: An action that is not of a file: its kind and content.
_StateAction = tuple[str, Mapping[str, Any]]
#: The columns of actions that are not of files.
_STATE_TYPES: Mapping[str, pa.DataType] = {
    "txn": pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())]),
    "metaData": pa.struct(
        [
            ("id", pa.string()),
            ("name", pa.string()),
            ("description", pa.string()),
            ("format", pa.struct([("provider", pa.string()), ("options", _STRING_MAP)])),
            ("schemaString", pa.string()),
            ("partitionColumns", _STRINGS),
            ("configuration", _STRING_MAP),
            ("createdTime", pa.int64()),
        ]
    ),
    "protocol": pa.struct(
        [
            ("minReaderVersion", pa.int32()),
            ("minWriterVersion", pa.int32()),
            ("readerFeatures", _STRINGS),
            ("writerFeatures", _STRINGS),
        ]
    ),
    "domainMetadata": pa.struct([("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())]),
}
_V2_TYPES: Mapping[str, pa.DataType] = {
    "checkpointMetadata": pa.struct([("version", pa.int64()), ("tags", _STRING_MAP)]),
    "sidecar": pa.struct(
        [
            ("path", pa.string()),
            ("sizeInBytes", pa.int64()),
            ("modificationTime", pa.int64()),
            ("tags", _STRING_MAP),
        ]
    ),
}


@dataclass(frozen=True)
class WrittenCheckpoint:
    """What was written: rows (actions), of these live files, and bytes, sidecars included."""

    path: str
    version: int
    num_actions: int
    num_adds: int
    size_in_bytes: int


def write_checkpoint(snapshot: Snapshot, now: int | None = None) -> WrittenCheckpoint:
    """Write the checkpoint of a committed version and point ``_last_checkpoint`` at it.

    :param now: milliseconds since the epoch, from which the retention of tombstones counts; the clock's by default.
    :raises OSError: the store failed; readers then go on with what was there before.
    """
    now = time.time_ns() // 1_000_000 if now is None else now
    policy = properties.text(snapshot.metadata.configuration, "delta.checkpointPolicy")
    if policy == "v2" and supports(snapshot.protocol, "v2Checkpoint"):
        written = _write_v2(snapshot, now)
    else:
        written = _write_classic(snapshot, now)
    _write_last_checkpoint(snapshot, written)
    return written


def _write_classic(snapshot: Snapshot, now: int) -> WrittenCheckpoint:
    path = f"{log_directory(snapshot.table_path)}/{checkpoint_name(snapshot.version)}"
    files = _Files(snapshot)
    types = {name: t for name, t in _STATE_TYPES.items() if name != "domainMetadata" or snapshot.domain_metadata}
    file = _ActionFile({**types, **files.types})
    file.write_state(_state(snapshot))
    num_adds = files.write_to(file, now)
    data = file.close()
    snapshot.store.put(path, data)
    return WrittenCheckpoint(path, snapshot.version, file.num_rows, num_adds, len(data))


def _write_v2(snapshot: Snapshot, now: int) -> WrittenCheckpoint:
    """Sidecar first: the checkpoint that names it must never be seen without it."""
    directory = log_directory(snapshot.table_path)
    path = f"{directory}/{v2_checkpoint_name(snapshot.version)}"
    state: list[_StateAction] = [("checkpointMetadata", {"version": snapshot.version, "tags": []}), *_state(snapshot)]
    files = _Files(snapshot)
    sidecar = _ActionFile(files.types)
    num_adds = files.write_to(sidecar, now)
    data = sidecar.close()
    size = 0
    if sidecar.num_rows:
        name = sidecar_name()
        snapshot.store.make_directory(f"{directory}/{SIDECAR_DIRECTORY}")
        snapshot.store.put(f"{directory}/{SIDECAR_DIRECTORY}/{name}", data)
        size = len(data)
        state.append(("sidecar", {"path": name, "sizeInBytes": size, "modificationTime": now, "tags": []}))
    # Readers that learn a checkpoint's schema from this file look for the columns of the sidecars in it.
    top = _ActionFile({**_STATE_TYPES, **files.types, **_V2_TYPES})
    top.write_state(state)
    data = top.close()
    snapshot.store.put(path, data)
    return WrittenCheckpoint(path, snapshot.version, top.num_rows + sidecar.num_rows, num_adds, size + len(data))


class _ActionFile:
    """A Parquet file of actions under way, in memory: a struct column a kind, in each row all but one of them null."""

    def __init__(self, types: Mapping[str, pa.DataType]) -> None:
        self.schema = pa.schema(list(types.items()))
        self.num_rows = 0
        self._sink = pa.BufferOutputStream()
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
        columns = [
            pa.array([content if kind == field.name else None for kind, content in actions], field.type)
            for field in self.schema
        ]
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
        return self._sink.getvalue().to_pybytes()


def _state(snapshot: Snapshot) -> list[_StateAction]:
    """The actions that are not of files."""
    metadata, protocol = snapshot.metadata, snapshot.protocol.to_json()["protocol"]
    row = {
        "id": metadata.id,
        "name": metadata.name,
        "description": metadata.description,
        "format": {"provider": metadata.format_provider, "options": list(metadata.format_options.items())},
        "schemaString": metadata.schema_string,
        "partitionColumns": list(metadata.partition_columns),
        "configuration": list(metadata.configuration.items()),
        "createdTime": metadata.created_time,
    }
    actions: list[_StateAction] = [("protocol", protocol), ("metaData", row)]
    actions += [("txn", action.to_json()["txn"]) for action in snapshot.set_transactions.values()]
    actions += [("domainMetadata", a.to_json()["domainMetadata"]) for a in snapshot.domain_metadata.values()]
    return actions


class _Files:
    """The actions of files of one snapshot; :attr:`types` are those of the columns ``add`` and ``remove``."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        configuration = snapshot.metadata.configuration
        as_struct = properties.boolean(configuration, "delta.checkpoint.writeStatsAsStruct")
        self._statistics = ParsedStatistics(snapshot) if as_struct else None
        self._partitions = ParsedPartitionValues.of_snapshot(snapshot) if as_struct else None
        adds = {JSON_NAMES[field.name]: _type(field) for field in FILE_SCHEMA}
        adds["dataChange"] = pa.bool_()
        if not properties.boolean(configuration, "delta.checkpoint.writeStatsAsJson"):
            del adds["stats"]
        if self._statistics is not None:
            adds["stats_parsed"] = self._statistics.type
        if self._partitions is not None:
            adds["partitionValues_parsed"] = self._partitions.type
        removes = {JSON_NAMES[field.name]: _type(field) for field in TOMBSTONE_SCHEMA}
        self.types = {"add": pa.struct(list(adds.items())), "remove": pa.struct(list(removes.items()))}

    def write_to(self, file: _ActionFile, now: int) -> int:
        """Write live files and tombstones that have not expired; returns how many files are live."""
        num_adds = 0
        for adds in self._adds():
            file.write("add", adds)
            num_adds += len(adds)
        for removes in self._removes(now):
            file.write("remove", removes)
        return num_adds

    def _adds(self) -> Iterator[pa.StructArray]:
        partitions = self._partitions.columns() if self._partitions is not None else None
        first = 0
        for live in self._snapshot.state.blocks:
            table = live.select(live.block.columns(FILE_SCHEMA.names))
            statistics = self._statistics.columns(live, table, _ROWS_AT_ONCE) if self._statistics is not None else None
            for start in range(0, table.num_rows, _ROWS_AT_ONCE):
                columns = _columns(table.slice(start, _ROWS_AT_ONCE))
                columns["dataChange"] = pa.repeat(False, len(columns["path"]))
                if statistics is not None:
                    columns["stats_parsed"] = next(statistics)
                if self._partitions is not None and partitions is not None:
                    rows = partitions.slice(first + start, len(columns["path"]))
                    columns["partitionValues_parsed"] = self._partitions.build(rows)
                yield _struct(columns, self.types["add"])
            first += table.num_rows

    def _removes(self, now: int) -> Iterator[pa.StructArray]:
        name = "delta.deletedFileRetentionDuration"
        retention = properties.milliseconds(self._snapshot.metadata.configuration, name) or 0
        tombstones = self._snapshot.tombstones()
        # One without a time counts as expired: it is from a writer that did not want it kept.
        kept = tombstones.filter(pc.greater(tombstones.column("deletion_timestamp"), now - retention))
        for start in range(0, kept.num_rows, _ROWS_AT_ONCE):
            columns = _columns(kept.slice(start, _ROWS_AT_ONCE))
            columns["dataChange"] = pa.repeat(False, len(columns["path"]))
            yield _struct(columns, self.types["remove"])


def _columns(table: pa.Table) -> dict[str, pa.Array]:
    """The columns of some files or tombstones under the names a checkpoint has for them."""
    columns = {}
    for name in table.column_names:
        column = whole(table.column(name))
        if name == "deletion_vector":
            fields = list(_type(table.schema.field(name)))
            children = [column.field(i) for i in range(len(fields))]
            column = pa.StructArray.from_arrays(children, fields=fields, mask=column.is_null())
        columns[JSON_NAMES[name]] = column
    return columns


def _type(field: pa.Field) -> pa.DataType:
    """The type a column of :data:`FILE_SCHEMA` or :data:`TOMBSTONE_SCHEMA` has in a checkpoint."""
    if field.name != "deletion_vector":
        return field.type
    return pa.struct([(DELETION_VECTOR_JSON_NAMES[child.name], child.type) for child in field.type])


def _struct(columns: Mapping[str, pa.Array], wanted: pa.StructType) -> pa.StructArray:
    """The columns that ``wanted`` names, in its order, as one struct column."""
    return pa.StructArray.from_arrays([columns[field.name] for field in wanted], fields=list(wanted))


def _write_last_checkpoint(snapshot: Snapshot, written: WrittenCheckpoint) -> None:
    known = read_last_checkpoint(snapshot.table_path, snapshot.store)
    if known is not None and known.version > written.version:
        return
    content: dict[str, Any] = {
        "version": written.version,
        "size": written.num_actions,
        "sizeInBytes": written.size_in_bytes,
        "numOfAddFiles": written.num_adds,
    }
    content["checksum"] = last_checkpoint_checksum(content)
    path = f"{log_directory(snapshot.table_path)}/{LAST_CHECKPOINT}"
    snapshot.store.put(path, orjson.dumps(content))


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
