"""The schema log of a stream: the definitions with which it has read its table, in order.

Owns the log's files, in the format of Delta Lake's own connector: the directory
``<location>/_schema_log_<table id>[_<tracking id>]`` has an entry a file, named by its number, of a line with the
format's version and one of JSON. An entry is put only if no file has its number, so that two streams which share a
location by mistake are noticed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from headwater.basics.errors import HeadwaterError
from headwater.change_data.schemas import VersionedDefinition
from headwater.protocol.actions import Metadata, Protocol
from headwater.protocol.column_metadata import IDENTITY_HIGH_WATER_MARK
from headwater.protocol.columns import map_fields
from headwater.protocol.types import StructType, parse_schema, schema_string
from headwater.stores import Store
from headwater.streams.commits import StreamCommit

_FORMAT = "v1"


@dataclass(frozen=True)
class Entry:
    """One definition that a stream reads with.

    :param version: the version from which on the stream reads with it.
    :param source: the source's directory in the stream's checkpoint.
    :param previous: the number of the entry that was in force before, where that is not the one before this.
    """

    table_id: str
    version: int
    schema: str
    partition_schema: str
    source: str
    configuration: dict[str, str] | None = None
    protocol: dict[str, Any] | None = None
    previous: int | None = None

    @property
    def definition_schema(self) -> StructType:
        """The schema, parsed."""
        return parse_schema(self.schema)

    def definition(self, newest: VersionedDefinition) -> VersionedDefinition:
        """What to read with; what an older entry lacks is that of the newest version.

        :raises HeadwaterError: ``DELTA_STREAMING_SCHEMA_LOG_PARSE_SCHEMA_FAILED``.
        """
        try:
            partition_columns = tuple(parse_schema(self.partition_schema).names)
            parse_schema(self.schema)
        except HeadwaterError:
            raise HeadwaterError("DELTA_STREAMING_SCHEMA_LOG_PARSE_SCHEMA_FAILED", {}) from None
        metadata = replace(
            newest.metadata,
            schema_string=self.schema,
            partition_columns=partition_columns,
            configuration=newest.metadata.configuration if self.configuration is None else self.configuration,
        )
        protocol = newest.protocol if self.protocol is None else Protocol.from_json(self.protocol)
        return VersionedDefinition(protocol, metadata, self.version)


def entry_of(definition: VersionedDefinition, source: str) -> Entry:
    """The entry for a definition."""
    metadata = definition.metadata
    columns = [field for name in metadata.partition_columns if (field := metadata.schema.find(name)) is not None]
    return Entry(
        metadata.id,
        definition.version,
        metadata.schema_string,
        schema_string(StructType(tuple(columns))),
        source,
        dict(metadata.configuration),
        definition.protocol.to_json()["protocol"],
    )


class SchemaLog:
    """The schema log of one source of one stream.

    :param location: the directory that the user gave.
    """

    def __init__(self, store: Store, location: str, table_id: str, tracking_id: str | None = None) -> None:
        self._store = store
        self.path = f"{location}/_schema_log_{table_id}" + (f"_{tracking_id}" if tracking_id else "")
        self._table_id = table_id

    def numbers(self) -> list[int]:
        """The numbers of all entries, ascending."""
        try:
            names = [file.name for file in self._store.list_from(self.path)]
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(int(name) for name in names if name.isascii() and name.isdigit())

    def entry(self, number: int) -> Entry:
        """An entry.

        :raises HeadwaterError: ``DELTA_STREAMING_SCHEMA_LOG_DESERIALIZE_FAILED``,
            ``DELTA_STREAMING_SCHEMA_LOG_INCOMPATIBLE_DELTA_TABLE_ID``.
        """
        try:
            head, _, text = self._store.read(f"{self.path}/{number}").decode().partition("\n")
            if head.strip() != _FORMAT:
                raise ValueError(f"format {head}")
            found = _from_json(json.loads(text))
        except (ValueError, KeyError, TypeError, FileNotFoundError):
            raise HeadwaterError("DELTA_STREAMING_SCHEMA_LOG_DESERIALIZE_FAILED", {"location": self.path}) from None
        if found.table_id != self._table_id:
            raise HeadwaterError(
                "DELTA_STREAMING_SCHEMA_LOG_INCOMPATIBLE_DELTA_TABLE_ID",
                {"persistedId": found.table_id, "tableId": self._table_id},
            )
        return found

    def latest(self) -> Entry | None:
        """The entry in force; None if no entry is in force yet."""
        numbers = self.numbers()
        return self.entry(numbers[-1]) if numbers else None

    def previous(self) -> Entry | None:
        """The entry that was in force before the latest; None if the latest is the first."""
        numbers = self.numbers()
        number = self._before(numbers)
        return self.entry(number) if number in numbers else None

    def _before(self, numbers: list[int]) -> int:
        """The number of the entry in force before the latest, whether there is one or not."""
        if not numbers:
            return -1
        number = self.entry(numbers[-1]).previous
        return numbers[-1] - 1 if number is None else number

    def replace_latest(self, entry: Entry) -> None:
        """Put an entry in the place of the one in force: the one before that is then the one before this.

        :raises HeadwaterError: as :meth:`add`.
        """
        self.add(replace(entry, previous=self._before(self.numbers())))

    def add(self, entry: Entry) -> None:
        """Make an entry the one in force; nothing if it is already.

        :raises HeadwaterError: ``DELTA_STREAMING_SCHEMA_LOCATION_CONFLICT`` if another stream adds one.
        """
        numbers = self.numbers()
        if numbers and self.entry(numbers[-1]) == entry:
            return
        self._store.make_directory(self.path)
        try:
            self._store.put_once(
                f"{self.path}/{numbers[-1] + 1 if numbers else 0}", f"{_FORMAT}\n{json.dumps(_to_json(entry))}".encode()
            )
        except FileExistsError:
            raise HeadwaterError(
                "DELTA_STREAMING_SCHEMA_LOCATION_CONFLICT", {"loc": self.path, "table": entry.table_id}
            ) from None


def _to_json(entry: Entry) -> dict[str, Any]:
    found: dict[str, Any] = {
        "tableId": entry.table_id,
        "deltaCommitVersion": entry.version,
        "dataSchemaJson": entry.schema,
        "partitionSchemaJson": entry.partition_schema,
        "sourceMetadataPath": entry.source,
    }
    if entry.configuration is not None:
        found["tableConfigurations"] = entry.configuration
    if entry.protocol is not None:
        found["protocolJson"] = json.dumps({"protocol": entry.protocol}, separators=(",", ":"))
    if entry.previous is not None:
        found["previousMetadataSeqNum"] = entry.previous
    return found


def _from_json(value: dict[str, Any]) -> Entry:
    protocol = value.get("protocolJson")
    return Entry(
        value["tableId"],
        int(value["deltaCommitVersion"]),
        value["dataSchemaJson"],
        value["partitionSchemaJson"],
        value["sourceMetadataPath"],
        value.get("tableConfigurations"),
        None if protocol is None else json.loads(protocol)["protocol"],
        value.get("previousMetadataSeqNum"),
    )


def merged_changes(reading: VersionedDefinition, commits: Iterable[StreamCommit]) -> VersionedDefinition | None:
    """The definition after consecutive commits that change nothing else; None if there is but one such commit.

    :param reading: the definition that a commit set, and ``commits`` that one and those after it.
    """
    found = reading
    for commit in commits:
        actions = commit.actions
        metadata = actions.metadata or found.metadata
        sets = actions.metadata is not None or actions.protocol is not None
        has_files = any(True for _ in actions.files) or bool(actions.change_files)
        if not sets or has_files or metadata.id != reading.metadata.id:
            break
        found = VersionedDefinition(actions.protocol or found.protocol, metadata, commit.version)
    return found if found.version > reading.version else None


def differs(reading: VersionedDefinition, metadata: Metadata | None, protocol: Protocol | None) -> bool:
    """Whether a commit's new metadata or protocol is another definition than a stream reads with."""
    if protocol is not None and protocol.to_json() != reading.protocol.to_json():
        return True
    if metadata is None:
        return False
    before = reading.metadata
    return (
        _comparable(metadata.schema) != _comparable(before.schema)
        or metadata.partition_columns != before.partition_columns
        or _own_properties(metadata) != _own_properties(before)
    )


def _comparable(schema: StructType) -> StructType:
    """A schema without what changes with each write."""
    return map_fields(
        schema,
        lambda field, _: replace(
            field, metadata={key: v for key, v in field.metadata.items() if key != IDENTITY_HIGH_WATER_MARK}
        ),
    )


def _own_properties(metadata: Metadata) -> dict[str, str]:
    return {key: value for key, value in metadata.configuration.items() if key.startswith("delta.")}
