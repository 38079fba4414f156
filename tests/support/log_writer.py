"""A table's log written file by file: commits, checkpoints of every kind, compactions and their hints."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headwater.log.snapshot import Snapshot, load_snapshot
from headwater.protocol.actions import Action, AddFile, Metadata, Protocol, RemoveFile, serialize
from headwater.protocol.file_names import (
    checkpoint_name,
    checkpoint_part_names,
    commit_name,
    compaction_name,
    v2_checkpoint_name,
)
from headwater.stores import LocalStore

_MAP = pa.map_(pa.string(), pa.string())
_VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
_LIST = pa.list_(pa.string())
ADD = pa.struct(
    [
        ("path", pa.string()),
        ("partitionValues", _MAP),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
        ("stats", pa.string()),
        ("tags", _MAP),
        ("deletionVector", _VECTOR),
    ]
)
REMOVE = pa.struct(
    [
        ("path", pa.string()),
        ("deletionTimestamp", pa.int64()),
        ("dataChange", pa.bool_()),
        ("deletionVector", _VECTOR),
    ]
)
CHECKPOINT = pa.schema(
    [
        ("txn", pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())])),
        ("add", ADD),
        ("remove", REMOVE),
        (
            "metaData",
            pa.struct(
                [
                    ("id", pa.string()),
                    ("format", pa.struct([("provider", pa.string()), ("options", _MAP)])),
                    ("schemaString", pa.string()),
                    ("partitionColumns", _LIST),
                    ("configuration", _MAP),
                    ("createdTime", pa.int64()),
                ]
            ),
        ),
        (
            "protocol",
            pa.struct(
                [
                    ("minReaderVersion", pa.int32()),
                    ("minWriterVersion", pa.int32()),
                    ("readerFeatures", _LIST),
                    ("writerFeatures", _LIST),
                ]
            ),
        ),
        (
            "domainMetadata",
            pa.struct([("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())]),
        ),
        ("checkpointMetadata", pa.struct([("version", pa.int64()), ("tags", _MAP)])),
        (
            "sidecar",
            pa.struct(
                [("path", pa.string()), ("sizeInBytes", pa.int64()), ("modificationTime", pa.int64()), ("tags", _MAP)]
            ),
        ),
    ]
)

PROTOCOL = Protocol(1, 2)


def schema_json(columns: Mapping[str, Any]) -> str:
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}} if not isinstance(kind, dict) else kind
        for name, kind in columns.items()
    ]
    return json.dumps({"type": "struct", "fields": fields})


class LogWriter:
    """Writes the files of a log. Rows of checkpoints are JSON actions, as in commits."""

    def __init__(self, directory: Path) -> None:
        self.path = str(directory)
        self.log = directory / "_delta_log"
        self.store = LocalStore()

    def create(
        self,
        columns: Mapping[str, Any] | None = None,
        partitions: Sequence[str] = (),
        protocol: Protocol = PROTOCOL,
        configuration: Mapping[str, str] | None = None,
        actions: Sequence[Action] = (),
    ) -> None:
        """Version 0."""
        self.commit(0, *self.header(columns, partitions, protocol, configuration), *actions)

    def header(
        self,
        columns: Mapping[str, Any] | None = None,
        partitions: Sequence[str] = (),
        protocol: Protocol = PROTOCOL,
        configuration: Mapping[str, str] | None = None,
    ) -> list[Action]:
        schema = schema_json(columns or {"id": "long"})
        return [protocol, Metadata("table-id", schema, tuple(partitions), configuration or {}, created_time=1)]

    def commit(self, version: int, *actions: Action) -> None:
        self.raw(commit_name(version), serialize(actions))

    def compact(self, first: int, last: int, *actions: Action) -> None:
        self.raw(compaction_name(first, last), serialize(actions))

    def raw(self, name: str, content: bytes) -> None:
        self.log.mkdir(parents=True, exist_ok=True)
        (self.log / name).write_bytes(content)

    def parquet(self, name: str, rows: Sequence[Mapping[str, Any]], schema: pa.Schema = CHECKPOINT) -> None:
        path = self.log / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist([_parquet_row(row) for row in rows], schema), path)

    def checkpoint(self, version: int, *actions: Action, schema: pa.Schema = CHECKPOINT) -> None:
        """A classic checkpoint, V1."""
        self.parquet(checkpoint_name(version), [action.to_json() for action in actions], schema)

    def multi_part(self, version: int, parts: Sequence[Sequence[Action]]) -> None:
        for name, actions in zip(checkpoint_part_names(version, len(parts)), parts, strict=True):
            self.parquet(name, [action.to_json() for action in actions])

    def v2_checkpoint(
        self, version: int, actions: Sequence[Action], sidecars: Sequence[Sequence[Action]], file_format: str
    ) -> list[str]:
        """A V2 checkpoint; returns the names of its sidecars."""
        rows: list[dict[str, Any]] = [{"checkpointMetadata": {"version": version}}]
        rows += [action.to_json() for action in actions]
        names = []
        for number, contents in enumerate(sidecars):
            names.append(f"side-{version}-{number}.parquet")
            schema = pa.schema([CHECKPOINT.field("add"), CHECKPOINT.field("remove")])
            self.parquet(f"_sidecars/{names[-1]}", [action.to_json() for action in contents], schema)
            rows.append({"sidecar": {"path": names[-1], "sizeInBytes": 1, "modificationTime": 1}})
        name = v2_checkpoint_name(version, file_format=file_format)
        if file_format == "json":
            self.raw(name, "".join(json.dumps(row) + "\n" for row in rows).encode())
        else:
            self.parquet(name, rows)
        return names

    def last_checkpoint(self, **content: Any) -> None:
        self.raw("_last_checkpoint", json.dumps(content).encode())

    def load(self, version: int | None = None, base: Snapshot | None = None) -> Snapshot:
        return load_snapshot(self.path, self.store, version, base)


def _parquet_row(row: Mapping[str, Any]) -> dict[str, Any]:
    return {kind: dict(content) for kind, content in row.items()}


def add(path: str, stats: str | None = None, **values: Any) -> AddFile:
    return AddFile(path, values.pop("partition_values", {}), 10, 1, stats=stats, **values)


def remove(path: str, **values: Any) -> RemoveFile:
    return RemoveFile(path, 1_000, **values)


def paths(snapshot: Snapshot) -> list[str]:
    return sorted(snapshot.select(["path"]).column("path").to_pylist())
