"""Actions: what a commit file holds, one JSON object a line.

Owns the typed form of each action and its JSON, both ways. Follows the protocol's chapter "Actions". Fields a newer
writer added are kept in ``extra`` where the protocol wants unknown content preserved (``commitInfo``, ``metaData``),
and ignored elsewhere. Live files of a whole table are never held as these objects: a snapshot keeps them as an Arrow
table.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


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
        value: dict[str, Any] = {"storageType": self.storage_type, "pathOrInlineDv": self.path_or_inline}
        if self.offset is not None:
            value["offset"] = self.offset
        value["sizeInBytes"] = self.size
        value["cardinality"] = self.cardinality
        return value

    @staticmethod
    def from_json(value: Mapping[str, Any] | None) -> DeletionVector | None:
        if not value:
            return None
        return DeletionVector(
            _text(value, "storageType"),
            _text(value, "pathOrInlineDv"),
            _count(value, "sizeInBytes"),
            _count(value, "cardinality"),
            None if value.get("offset") is None else _count(value, "offset"),
        )


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
        value: dict[str, Any] = {
            "path": self.path,
            "partitionValues": dict(self.partition_values),
            "size": self.size,
            "modificationTime": self.modification_time,
            "dataChange": self.data_change,
        }
        _put(value, "stats", self.stats)
        _put(value, "tags", self.tags)
        _put(value, "deletionVector", self.deletion_vector and self.deletion_vector.to_json())
        _put(value, "baseRowId", self.base_row_id)
        _put(value, "defaultRowCommitVersion", self.default_row_commit_version)
        _put(value, "clusteringProvider", self.clustering_provider)
        return {"add": value}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> AddFile:
        return AddFile(
            value["path"],
            value.get("partitionValues") or {},
            value["size"],
            value["modificationTime"],
            value.get("dataChange", True),
            value.get("stats"),
            value.get("tags"),
            DeletionVector.from_json(value.get("deletionVector")),
            value.get("baseRowId"),
            value.get("defaultRowCommitVersion"),
            value.get("clusteringProvider"),
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
        value: dict[str, Any] = {"path": self.path}
        _put(value, "deletionTimestamp", self.deletion_timestamp)
        value["dataChange"] = self.data_change
        _put(value, "extendedFileMetadata", self.extended_file_metadata)
        if self.partition_values is not None:
            value["partitionValues"] = dict(self.partition_values)
        _put(value, "size", self.size)
        _put(value, "stats", self.stats)
        _put(value, "tags", self.tags)
        _put(value, "deletionVector", self.deletion_vector and self.deletion_vector.to_json())
        _put(value, "baseRowId", self.base_row_id)
        _put(value, "defaultRowCommitVersion", self.default_row_commit_version)
        return {"remove": value}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> RemoveFile:
        return RemoveFile(
            value["path"],
            value.get("deletionTimestamp"),
            value.get("dataChange", True),
            value.get("extendedFileMetadata"),
            value.get("partitionValues"),
            value.get("size"),
            value.get("stats"),
            value.get("tags"),
            DeletionVector.from_json(value.get("deletionVector")),
            value.get("baseRowId"),
            value.get("defaultRowCommitVersion"),
        )


@dataclass(frozen=True)
class AddCDCFile:
    """A change data file (chapter "Add CDC File"); ``size`` in bytes."""

    path: str
    partition_values: Mapping[str, str | None]
    size: int
    tags: Mapping[str, str] | None = None

    def to_json(self) -> dict[str, Any]:
        value: dict[str, Any] = {
            "path": self.path,
            "partitionValues": dict(self.partition_values),
            "size": self.size,
            "dataChange": False,
        }
        _put(value, "tags", self.tags)
        return {"cdc": value}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> AddCDCFile:
        return AddCDCFile(
            _text(value, "path"),
            _texts_by_name(value, "partitionValues", nulls=True),
            _whole(value, "size"),
            value.get("tags"),
        )


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

    def to_json(self) -> dict[str, Any]:
        value: dict[str, Any] = {"id": self.id}
        _put(value, "name", self.name)
        _put(value, "description", self.description)
        value["format"] = {"provider": self.format_provider, "options": dict(self.format_options)}
        value["schemaString"] = self.schema_string
        value["partitionColumns"] = list(self.partition_columns)
        value["configuration"] = dict(self.configuration)
        _put(value, "createdTime", self.created_time)
        return {"metaData": {**self.extra, **value}}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Metadata:
        known = {
            "id",
            "name",
            "description",
            "format",
            "schemaString",
            "partitionColumns",
            "configuration",
            "createdTime",
        }
        file_format = value.get("format") or {}
        return Metadata(
            _text(value, "id"),
            _text(value, "schemaString", ""),  # some engines write none for a table without columns
            tuple(_texts(value, "partitionColumns") or ()),
            _texts_by_name(value, "configuration"),
            _text(value, "name", None),
            _text(value, "description", None),
            _whole(value, "createdTime", None),
            _text(file_format, "provider", "parquet"),
            _texts_by_name(file_format, "options"),
            {k: v for k, v in value.items() if k not in known},
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
        value: dict[str, Any] = {
            "minReaderVersion": self.min_reader_version,
            "minWriterVersion": self.min_writer_version,
        }
        if self.reader_features is not None:
            value["readerFeatures"] = sorted(self.reader_features)
        if self.writer_features is not None:
            value["writerFeatures"] = sorted(self.writer_features)
        return {"protocol": value}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Protocol:
        reader, writer = _texts(value, "readerFeatures"), _texts(value, "writerFeatures")
        return Protocol(
            _whole(value, "minReaderVersion"),
            _whole(value, "minWriterVersion"),
            None if reader is None else frozenset(reader),
            None if writer is None else frozenset(writer),
        )


@dataclass(frozen=True)
class SetTransaction:
    """The newest version an application has committed (chapter "Transaction Identifiers"); ``last_updated`` in
    milliseconds.
    """

    app_id: str
    version: int
    last_updated: int | None = None

    def to_json(self) -> dict[str, Any]:
        value: dict[str, Any] = {"appId": self.app_id, "version": self.version}
        _put(value, "lastUpdated", self.last_updated)
        return {"txn": value}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> SetTransaction:
        return SetTransaction(_text(value, "appId"), _whole(value, "version"), _whole(value, "lastUpdated", None))


@dataclass(frozen=True)
class DomainMetadata:
    """Configuration of a named domain (chapter "Domain Metadata")."""

    domain: str
    configuration: str
    removed: bool = False

    def to_json(self) -> dict[str, Any]:
        return {"domainMetadata": {"domain": self.domain, "configuration": self.configuration, "removed": self.removed}}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> DomainMetadata:
        return DomainMetadata(_text(value, "domain"), _text(value, "configuration", ""), _flag(value, "removed"))


@dataclass(frozen=True)
class CommitInfo:
    """Provenance of a commit, any JSON object (chapter "Commit Provenance Information").

    ``inCommitTimestamp`` must be here, and this action first in the commit, where the table has in-commit timestamps.
    """

    values: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        return {"commitInfo": dict(self.values)}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> CommitInfo:
        return CommitInfo(dict(value))


Action = AddFile | RemoveFile | AddCDCFile | Metadata | Protocol | SetTransaction | DomainMetadata | CommitInfo

_PARSERS: Mapping[str, Any] = {
    "add": AddFile.from_json,
    "remove": RemoveFile.from_json,
    "cdc": AddCDCFile.from_json,
    "metaData": Metadata.from_json,
    "protocol": Protocol.from_json,
    "txn": SetTransaction.from_json,
    "domainMetadata": DomainMetadata.from_json,
    "commitInfo": CommitInfo.from_json,
}


def parse_action(value: Mapping[str, Any]) -> Action | None:
    """The action of one parsed line; None for an action this version does not know, which readers must pass over."""
    for name, content in value.items():
        parser = _PARSERS.get(name)
        if parser is not None and content is not None:
            action: Action = parser(content)
            return action
    return None


def serialize(actions: Iterable[Action]) -> bytes:
    """The bytes of a commit file: one action a line, UTF-8, a newline after each."""
    lines = (json.dumps(action.to_json(), separators=(",", ":"), ensure_ascii=False) for action in actions)
    return "".join(f"{line}\n" for line in lines).encode("utf-8")


_REQUIRED: Any = object()
_LONG = 1 << 63


def _text(value: Mapping[str, Any], name: str, default: Any = _REQUIRED) -> Any:
    """A field that is text, ``default`` where it is null or missing.

    :raises KeyError, TypeError, UnicodeEncodeError: it is missing, no text, or none that UTF-8 has.
    """
    content = _content(value, name, default)
    if content is default and default is not _REQUIRED:
        return default
    if not isinstance(content, str):
        raise TypeError(f"{name} is not text")
    content.encode()
    return content


def _whole(value: Mapping[str, Any], name: str, default: Any = _REQUIRED) -> Any:
    """A field that is a whole number of 64 bits, ``default`` where it is null or missing; raises as :func:`_text`."""
    content = _content(value, name, default)
    if content is default and default is not _REQUIRED:
        return default
    if type(content) is not int or not -_LONG <= content < _LONG:
        raise TypeError(f"{name} is not a whole number of 64 bits")
    return content


def _count(value: Mapping[str, Any], name: str) -> int:
    number: int = _whole(value, name)
    if number < 0:
        raise TypeError(f"{name} is negative")
    return number


def _flag(value: Mapping[str, Any], name: str) -> bool:
    content = value.get(name)
    if content is not None and not isinstance(content, bool):
        raise TypeError(f"{name} is neither true nor false")
    return bool(content)


def _texts(value: Mapping[str, Any], name: str) -> list[str] | None:
    content = value.get(name)
    if content is None:
        return None
    if not isinstance(content, list):
        raise TypeError(f"{name} is not a list")
    return [_text({name: each}, name) for each in content]


def _texts_by_name(value: Mapping[str, Any], name: str, *, nulls: bool = False) -> dict[str, Any]:
    """An object with text in each field; a map, in a checkpoint's rows, is a list of pairs."""
    content = value.get(name)
    if content is not None and not isinstance(content, (Mapping, list)):
        raise TypeError(f"{name} is not an object")
    found = dict(content or {})
    for key, each in found.items():
        _text({"key": key}, "key")
        if each is not None or not nulls:
            _text({f"{name}.{key}": each}, f"{name}.{key}")
    return found


def _content(value: Mapping[str, Any], name: str, default: Any) -> Any:
    content = value.get(name)
    if content is not None:
        return content
    if default is _REQUIRED:
        raise KeyError(name)
    return default


def _put(value: dict[str, Any], name: str, content: Any) -> None:
    if content is not None:
        value[name] = dict(content) if isinstance(content, Mapping) else content
