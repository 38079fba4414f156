"""Actions: the content of a commit file, one JSON object per line.

Owns the typed form of each action, and its JSON both ways; the fields themselves are declared in
:mod:`headwater.protocol.action_shapes`. Follows the protocol's chapter "Actions". Unknown fields are kept where the
protocol asks for it (``commitInfo``, ``metaData``) and ignored elsewhere. The live files of a table are never held as
these objects: a snapshot keeps them as an Arrow table.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec
import orjson

from headwater.protocol import action_shapes
from headwater.protocol.types import StructType, parse_schema


@dataclass(frozen=True)
class DeletionVector:
    """Where a file's deleted row positions are (chapter "Deletion Vector Descriptor Schema").

    ``storage_type`` is ``u`` (relative, random prefix and UUID), ``i`` (inline) or ``p`` (absolute path); sizes in
    bytes.
    """

    storage_type: str
    path_or_inline: str
    size: int
    cardinality: int
    offset: int | None = None

    @property
    def unique_id(self) -> str:
        """Identifies the vector in a file's replay key (chapter "Derived Fields")."""
        base = f"{self.storage_type}{self.path_or_inline}"
        return base if self.offset is None else f"{base}@{self.offset}"

    def to_json(self) -> dict[str, Any]:
        return action_shapes.DELETION_VECTOR.to_json(self)

    @staticmethod
    def from_json(value: Mapping[str, Any] | None) -> DeletionVector | None:
        if not value:
            return None
        vector = DeletionVector(**action_shapes.DELETION_VECTOR.read_checked(value))
        if vector.size < 0 or vector.cardinality < 0 or (vector.offset or 0) < 0:
            raise TypeError("sizeInBytes, cardinality or offset of a deletion vector is negative")
        return vector


class _Statistics(msgspec.Struct):
    numRecords: int | None = None


_STATISTICS = msgspec.json.Decoder(_Statistics)


def num_records(stats: str | None) -> int | None:
    """The number of rows in the statistics of a file, deleted ones included (chapter "Per-file Statistics").

    None if it is not there, or is no number: statistics are informative, and other writers' may be damaged.
    """
    if not stats:
        return None
    try:
        rows = _STATISTICS.decode(stats).numRecords
    except msgspec.MsgspecError:
        return None
    return None if rows is None or rows < 0 else rows


@dataclass(frozen=True)
class AddFile:
    """A data file that becomes part of the table. ``path`` as in the log: relative and URL-encoded, or absolute.

    ``size`` in bytes, ``modification_time`` in milliseconds since the epoch; ``partition_values`` by physical column
    name, as the protocol serialises them (null is None); ``stats`` is the JSON text of the per-file statistics.
    """

    path: str
    partition_values: Mapping[str, str | None]
    size: int
    modification_time: int
    data_change: bool = True
    stats: str | None = None
    tags: Mapping[str, str] | None = None
    deletion_vector: DeletionVector | None = None
    base_row_id: int | None = None
    default_row_commit_version: int | None = None
    clustering_provider: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {"add": action_shapes.ADD.to_json(self)}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> AddFile:
        fields = action_shapes.ADD.read(value)
        fields["partition_values"] = fields["partition_values"] or {}
        fields["deletion_vector"] = DeletionVector.from_json(fields["deletion_vector"])
        return AddFile(**fields)

    @property
    def num_records(self) -> int | None:
        """The number of rows, deleted ones included; None if the statistics do not have it."""
        return num_records(self.stats)

    def removal(self, now: int, data_change: bool = True) -> RemoveFile:
        """The tombstone of the file as it is.

        :param now: the time of the removal, in milliseconds since the epoch.
        """
        return RemoveFile(
            path=self.path,
            deletion_timestamp=now,
            data_change=data_change,
            extended_file_metadata=True,
            partition_values=self.partition_values,
            size=self.size,
            stats=self.stats,
            tags=self.tags,
            deletion_vector=self.deletion_vector,
            base_row_id=self.base_row_id,
            default_row_commit_version=self.default_row_commit_version,
        )


@dataclass(frozen=True)
class RemoveFile:
    """A data file that stops being part of the table; a tombstone until its retention ends.

    ``deletion_timestamp`` in milliseconds since the epoch.
    """

    path: str
    deletion_timestamp: int | None
    data_change: bool = True
    extended_file_metadata: bool | None = None
    partition_values: Mapping[str, str | None] | None = None
    size: int | None = None
    stats: str | None = None
    tags: Mapping[str, str] | None = None
    deletion_vector: DeletionVector | None = None
    base_row_id: int | None = None
    default_row_commit_version: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {"remove": action_shapes.REMOVE.to_json(self)}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> RemoveFile:
        fields = action_shapes.REMOVE.read(value)
        fields["deletion_vector"] = DeletionVector.from_json(fields["deletion_vector"])
        return RemoveFile(**fields)

    @property
    def num_records(self) -> int | None:
        """The number of rows, deleted ones included; None if the statistics do not have it."""
        return num_records(self.stats)


@dataclass(frozen=True)
class AddCDCFile:
    """A change data file (chapter "Add CDC File"); ``size`` in bytes."""

    path: str
    partition_values: Mapping[str, str | None]
    size: int
    tags: Mapping[str, str] | None = None

    def to_json(self) -> dict[str, Any]:
        return {"cdc": {**action_shapes.CDC.to_json(self), "dataChange": False}}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> AddCDCFile:
        fields = action_shapes.CDC.read_checked(value)
        fields["partition_values"] = fields["partition_values"] or {}
        return AddCDCFile(**fields)


@dataclass(frozen=True)
class Metadata:
    """A table's metadata (chapter "Change Metadata"). ``created_time`` in milliseconds since the epoch."""

    id: str
    schema_string: str
    partition_columns: tuple[str, ...] = ()
    configuration: Mapping[str, str] = field(default_factory=dict)
    name: str | None = None
    description: str | None = None
    created_time: int | None = None
    format_provider: str = "parquet"
    format_options: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def schema(self) -> StructType:
        """The schema of ``schema_string``, parsed once. It is no field: comparing and ``replace`` leave it out.

        :raises HeadwaterError: ``DELTA_INVALID_SCHEMA``.
        """
        return parse_schema(self.schema_string)

    @property
    def format(self) -> dict[str, Any]:
        """The format of the data files: ``provider`` and ``options``."""
        return {"provider": self.format_provider, "options": dict(self.format_options)}

    def to_json(self) -> dict[str, Any]:
        return {"metaData": {**self.extra, **action_shapes.METADATA.to_json(self)}}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Metadata:
        fields = action_shapes.METADATA.read_checked(value)
        file_format = action_shapes.FORMAT.read_checked(fields.pop("format") or {})
        fields["partition_columns"] = tuple(fields["partition_columns"])
        fields["configuration"] = fields["configuration"] or {}
        known = action_shapes.METADATA.json_names.values()
        return Metadata(
            **fields,
            format_provider=file_format["provider"],
            format_options=file_format["options"] or {},
            extra={name: content for name, content in value.items() if name not in known},
        )


@dataclass(frozen=True)
class Protocol:
    """The versions and features a table needs (chapter "Protocol Evolution").

    Features are None below reader version 3 or writer version 7, as the protocol says; :meth:`to_json` leaves them out
    then.
    """

    min_reader_version: int
    min_writer_version: int
    reader_features: frozenset[str] | None = None
    writer_features: frozenset[str] | None = None

    def to_json(self) -> dict[str, Any]:
        return {"protocol": action_shapes.PROTOCOL.to_json(self)}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Protocol:
        fields = action_shapes.PROTOCOL.read_checked(value)
        for features in ("reader_features", "writer_features"):
            fields[features] = None if fields[features] is None else frozenset(fields[features])
        return Protocol(**fields)


@dataclass(frozen=True)
class SetTransaction:
    """The newest version an application has committed (chapter "Transaction Identifiers"); ``last_updated`` in
    milliseconds.
    """

    app_id: str
    version: int
    last_updated: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {"txn": action_shapes.TRANSACTION.to_json(self)}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> SetTransaction:
        return SetTransaction(**action_shapes.TRANSACTION.read_checked(value))


@dataclass(frozen=True)
class DomainMetadata:
    """Configuration of a named domain (chapter "Domain Metadata")."""

    domain: str
    configuration: str
    removed: bool = False

    def to_json(self) -> dict[str, Any]:
        return {"domainMetadata": action_shapes.DOMAIN_METADATA.to_json(self)}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> DomainMetadata:
        return DomainMetadata(**action_shapes.DOMAIN_METADATA.read_checked(value))


@dataclass(frozen=True)
class CommitInfo:
    """Provenance of a commit, any JSON object (chapter "Commit Provenance Information").

    ``inCommitTimestamp`` must be here, and this action first in the commit, where the table has in-commit timestamps.
    """

    values: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        return {"commitInfo": dict(self.values)}


Action = AddFile | RemoveFile | AddCDCFile | Metadata | Protocol | SetTransaction | DomainMetadata | CommitInfo


def serialize(actions: Iterable[Action]) -> bytes:
    """The bytes of a commit file: one action a line, UTF-8, a newline after each."""
    return b"".join([_line(action.to_json()) for action in actions])


def _line(value: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:  # what the quicker encoder refuses, such as whole numbers beyond 64 bits
        return f"{json.dumps(value, separators=(',', ':'), ensure_ascii=False)}\n".encode()
