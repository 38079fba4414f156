"""Managed tables of Unity Catalog: loaded, created, committed to, renamed and dropped.

Owns :class:`UnityCatalog` and :class:`UnityTable`, which speak version 1.0 of Unity Catalog's interface for Delta
tables. Sources: ``api/delta.yaml`` and the specification of managed tables in the public repository unitycatalog.
Promise: an answer that does not say what the specification has it say is an error, and no table.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headwater.catalogs.interface import (
    Maintenance,
    NotProposed,
    Ratified,
    Redefinition,
    StagedCommit,
    Unanswered,
)
from headwater.catalogs.unity.requests import Api, Changed, NotFound, escaped
from headwater.protocol.actions import DomainMetadata, Metadata, Protocol
from headwater.protocol.file_names import is_staged_commit

_PROTOCOL_VERSION = "1.0"
_DELTA = "/delta/v1"
#: The domains of metadata that the catalog shows, and what it knows of each: it refuses what else a log says there.
_DOMAINS = {"delta.clustering": "clusteringColumns", "delta.rowTracking": "rowIdHighWaterMark"}
#: The property that binds a table's log to its entry in the catalog.
TABLE_ID = "io.unitycatalog.tableId"


@dataclass(frozen=True)
class Name:
    """A table's name."""

    catalog: str
    schema: str
    table: str

    def __str__(self) -> str:
        return ".".join((self.catalog, self.schema, self.table))


@dataclass(frozen=True)
class Loaded:
    """What a catalog says of a table."""

    name: Name
    table_id: str
    is_managed: bool
    location: str
    etag: str
    properties: Mapping[str, str]
    ratified: Ratified


@dataclass(frozen=True)
class Credential:
    """Credentials for the files below a prefix. ``config``: by the interface's keys. ``expires``: milliseconds since
    the epoch; None if the catalog does not say.
    """

    prefix: str
    expires: int | None
    config: Mapping[str, str]

    def __repr__(self) -> str:
        return f"Credential({self.prefix!r}, …)"


@dataclass(frozen=True)
class Staging:
    """Where a new table is to be made, and what its first commit must have.

    :param required: properties; None is a value that the writer chooses.
    :param credentials: for the files at the place, as far as the answer has some.
    """

    name: Name
    table_id: str
    location: str
    protocol: Protocol
    required: Mapping[str, str | None]
    suggested: Mapping[str, str | None]
    credentials: tuple[Credential, ...] = ()


class UnityCatalog:
    """One catalog of a server.

    :param vends: whether its tables are reached with the credentials that it vends.
    """

    def __init__(self, api: Api, name: str, *, vends: bool = True) -> None:
        self.api = api
        self.name = name
        self.vends = vends

    def check(self) -> None:
        """Refuse a server that does not speak this version of the interface.

        :raises CatalogFailure:
        """
        query = {"catalog": self.name, "protocol-versions": _PROTOCOL_VERSION}
        try:
            answer = self.api.call("GET", f"{_DELTA}/config", query=query)
        except NotFound as error:
            raise NotProposed(f"{error}; it has no interface for Delta tables of version {_PROTOCOL_VERSION}") from None
        if str(answer.get("protocol-version", "")).partition(".")[0] != _PROTOCOL_VERSION.partition(".")[0]:
            raise NotProposed(f"the catalog speaks version {answer.get('protocol-version')} of its interface")

    def schemas(self) -> list[str]:
        """The names of its schemas."""
        return [_text(each, "name") for each in self._pages("/schemas", "schemas", {"catalog_name": self.name})]

    def tables(self, schema: str) -> list[str]:
        """The names of a schema's tables."""
        query = {"catalog_name": self.name, "schema_name": schema}
        return [_text(each, "name") for each in self._pages("/tables", "tables", query)]

    def located(self, is_there: Callable[[str], bool], most: int, until: float) -> Name | None:
        """The table at a place, as far as it is found soon.

        :param most: how many schemas are looked through.
        :param until: when to stop, by ``time.monotonic()``.
        :raises CatalogFailure:
        """
        for schema in self.schemas()[:most]:
            query = {"catalog_name": self.name, "schema_name": schema}
            for each in self._pages("/tables", "tables", query):
                if is_there(str(each.get("storage_location") or "")):
                    return Name(self.name, schema, _text(each, "name"))
                if time.monotonic() > until:
                    return None
        return None

    def load(self, schema: str, table: str) -> Loaded:
        """What the catalog says of a table.

        :raises NotFound:
        :raises CatalogFailure:
        """
        name = Name(self.name, schema, table)
        return _loaded(name, self.api.call("GET", self._path(schema, table)))

    def stage(self, schema: str, table: str) -> Staging:
        """A place for a new table. It has no name before :meth:`create`."""
        path = f"{_DELTA}/catalogs{escaped(self.name)}/schemas{escaped(schema)}/staging-tables"
        answer = self.api.call("POST", path, {"name": table})
        return Staging(
            Name(self.name, schema, table),
            _text(answer, "table-id"),
            _text(answer, "location"),
            _protocol(_object(answer, "required-protocol")),
            _object(answer, "required-properties"),
            answer.get("suggested-properties") or {},
            tuple(_credentials(answer)) if answer.get("storage-credentials") else (),
        )

    def create(
        self,
        name: Name,
        location: str,
        metadata: Metadata,
        protocol: Protocol,
        timestamp: int,
        domains: Sequence[DomainMetadata] = (),
        *,
        managed: bool = True,
    ) -> Loaded:
        """Give a table its name, whose version 0 is in the log of the place; one that is not managed may have more.

        :param location: of a managed table, as :meth:`stage` gave it.
        :param timestamp: of the version, in milliseconds since the epoch; of version 0, its in-commit timestamp.
        :raises AlreadyExists: there is a table of that name.
        :raises CatalogFailure:
        """
        body = {
            "name": name.table,
            "location": location,
            "table-type": "MANAGED" if managed else "EXTERNAL",
            "columns": _columns(json.loads(metadata.schema_string)),
            "partition-columns": list(metadata.partition_columns),
            "protocol": _shown(protocol),
            "properties": dict(metadata.configuration),
            "last-commit-timestamp-ms": timestamp,
        }
        if metadata.description:
            body["comment"] = metadata.description
        if shown := {each.domain: _of_domain(each) for each in domains if each.domain in _DOMAINS}:
            body["domain-metadata"] = shown
        path = f"{_DELTA}/catalogs{escaped(self.name)}/schemas{escaped(name.schema)}/tables"
        return _loaded(name, self.api.call("POST", path, body))

    def exists(self, schema: str, table: str) -> bool:
        try:
            self.api.call("HEAD", self._path(schema, table))
        except NotFound:
            return False
        return True

    def rename(self, schema: str, table: str, new_name: str) -> None:
        """Rename a table within its schema."""
        self.api.call("POST", f"{self._path(schema, table)}/rename", {"new-name": new_name})

    def drop(self, schema: str, table: str) -> bool:
        """Drop a table; False if it does not exist."""
        try:
            self.api.call("DELETE", self._path(schema, table))
        except NotFound:
            return False
        return True

    def credentials(self, schema: str, table: str, *, writes: bool) -> list[Credential]:
        """Credentials for a table's files.

        :raises Forbidden: who asks may not do that with the table.
        :raises NotFound: there is no such table, or none are vended for it.
        :raises NotOffered: the server vends none.
        :raises CatalogFailure:
        """
        query = {"operation": "READ_WRITE" if writes else "READ"}
        return _credentials(self.api.call("GET", f"{self._path(schema, table)}/credentials", query=query))

    def staging_credentials(self, table_id: str) -> list[Credential]:
        """Credentials for the place of a table that is not created yet; raises as :meth:`credentials`."""
        return _credentials(self.api.call("GET", f"{_DELTA}/staging-tables{escaped(table_id)}/credentials"))

    @staticmethod
    def path_of(name: Name) -> str:
        """The path of a table's requests."""
        return f"{_DELTA}/catalogs{escaped(name.catalog)}/schemas{escaped(name.schema)}/tables{escaped(name.table)}"

    def _path(self, schema: str, table: str) -> str:
        return self.path_of(Name(self.name, schema, table))

    def _pages(self, path: str, key: str, query: dict[str, str]) -> Iterator[dict[str, Any]]:
        token = ""
        while True:
            answer = self.api.call("GET", path, query=query | ({"page_token": token} if token else {}))
            found = answer.get(key) or []
            if not isinstance(found, list):
                raise _nonsense(key)
            yield from found
            following = answer.get("next_page_token") or ""
            if not following or following == token:
                return
            token = str(following)


class UnityTable:
    """A managed table of Unity Catalog; a :class:`~headwater.catalogs.interface.ManagedTable`.

    :param table_id: as the catalog said when the table was found. It stays: a table that takes the name later is
        another one, and is refused.
    """

    def __init__(self, catalog: UnityCatalog, name: Name, table_id: str, location: str) -> None:
        self._catalog = catalog
        self._name = name
        self._id = table_id
        self._location = location
        self._path = catalog.path_of(name)

    @property
    def identity(self) -> str:
        return f"{self._catalog.api.identity}|{self._id}"

    @property
    def name(self) -> str:
        return str(self._name)

    def ratified(self) -> Ratified:
        loaded = _loaded(self._name, self._catalog.api.call("GET", self._path))
        if loaded.table_id != self._id:
            raise Changed(f"the table {self._name} was dropped, and another one was created by its name")
        if not loaded.is_managed or loaded.location != self._location:
            raise Changed(f"the table {self._name} is another one than that which was found by its name")
        return loaded.ratified

    def propose(self, commit: StagedCommit, change: Redefinition, published: int | None) -> Ratified:
        added = {
            "version": commit.version,
            "timestamp": commit.timestamp,
            "file-name": commit.file_name,
            "file-size": commit.size,
            "file-modification-timestamp": commit.modification_time,
        }
        updates = [{"action": "add-commit", "commit": added}, *_changes(change)]
        if published is not None and published > 0:
            updates.append(_published(published))
        return self._update(updates)

    def report_published(self, version: int) -> None:
        self._update([_published(version)])

    def _update(self, updates: list[dict[str, Any]]) -> Ratified:
        body = {"requirements": [{"type": "assert-table-uuid", "uuid": self._id}], "updates": updates}
        return _loaded(self._name, self._catalog.api.call("POST", self._path, body)).ratified


class NewUnityTable:
    """A table that has a place, and gets its name with its version 0; a
    :class:`~headwater.catalogs.interface.ManagedTable` for the commit that creates it, and for those that follow.
    """

    def __init__(self, catalog: UnityCatalog, name: Name, table_id: str, location: str) -> None:
        self._catalog = catalog
        self._name = name
        self._id = table_id
        self._location = location
        self._named = UnityTable(catalog, name, table_id, location)

    @property
    def identity(self) -> str:
        return f"{self._catalog.api.identity}|{self._id}|new"

    @property
    def name(self) -> str:
        return str(self._name)

    def ratified(self) -> Ratified:
        try:
            loaded = self._catalog.load(self._name.schema, self._name.table)
        except NotFound:
            return Ratified(-1)
        return loaded.ratified if loaded.table_id == self._id else Ratified(-1)

    def propose(self, commit: StagedCommit, change: Redefinition, published: int | None) -> Ratified:
        if commit.version > 0:
            return self._named.propose(commit, change, published)
        assert change.metadata is not None
        assert change.protocol is not None
        return self._catalog.create(
            self._name, self._location, change.metadata, change.protocol, commit.timestamp, change.domains
        ).ratified

    def report_published(self, version: int) -> None:
        self._named.report_published(version)


def _published(version: int) -> dict[str, Any]:
    return {"action": "set-latest-backfilled-version", "latest-published-version": version}


def _changes(change: Redefinition) -> Iterator[dict[str, Any]]:
    """The updates that go with a commit that changes the definition: only what it changes."""
    if change.protocol is not None:
        yield {"action": "set-protocol", "protocol": _shown(change.protocol)}
    if (metadata := change.metadata) is not None:
        yield {"action": "set-columns", "columns": _columns(json.loads(metadata.schema_string))}
        now = dict(metadata.configuration)
        if put := {key: value for key, value in now.items() if change.configuration.get(key) != value}:
            yield {"action": "set-properties", "updates": put}
        if gone := sorted(change.configuration.keys() - now.keys()):
            yield {"action": "remove-properties", "removals": gone}
        if tuple(metadata.partition_columns) != change.partition_columns:
            yield {"action": "set-partition-columns", "partition-columns": list(metadata.partition_columns)}
        if metadata.description != change.description:
            yield {"action": "set-table-comment", "comment": metadata.description or ""}
    shown = [domain for domain in change.domains if domain.domain in _DOMAINS]
    if put_domains := {each.domain: _of_domain(each) for each in shown if not each.removed}:
        yield {"action": "set-domain-metadata", "updates": put_domains}
    if gone_domains := [each.domain for each in shown if each.removed]:
        yield {"action": "remove-domain-metadata", "domains": gone_domains}


def _of_domain(domain: DomainMetadata) -> Any:
    known = _DOMAINS[domain.domain]
    try:
        return {known: json.loads(domain.configuration)[known]}
    except (ValueError, KeyError, TypeError):
        return {}


#: How the interface spells the keys of types, which the log spells in another way.
_KEYS = {
    "elementType": "element-type",
    "containsNull": "contains-null",
    "keyType": "key-type",
    "valueType": "value-type",
    "valueContainsNull": "value-contains-null",
}


def _columns(type_: Any) -> Any:
    """A type of the log as the interface spells it; the metadata of columns stays."""
    if not isinstance(type_, dict):
        return type_
    if type_.get("type") == "struct":
        return type_ | {"fields": [each | {"type": _columns(each["type"])} for each in type_["fields"]]}
    return {_KEYS.get(key, key): _columns(value) for key, value in type_.items()}


def _shown(protocol: Protocol) -> dict[str, Any]:
    return {
        "min-reader-version": protocol.min_reader_version,
        "min-writer-version": protocol.min_writer_version,
        "reader-features": sorted(protocol.reader_features or ()),
        "writer-features": sorted(protocol.writer_features or ()),
    }


def _protocol(answer: Mapping[str, Any]) -> Protocol:
    readers, writers = answer.get("reader-features") or [], answer.get("writer-features") or []
    if not all(isinstance(name, str) for name in [*readers, *writers]):
        raise _nonsense("reader-features, writer-features")
    return Protocol(
        _number(answer, "min-reader-version"),
        _number(answer, "min-writer-version"),
        frozenset(readers),
        frozenset(writers),
    )


def _loaded(name: Name, answer: Mapping[str, Any]) -> Loaded:
    metadata = _object(answer, "metadata")
    is_managed = _text(metadata, "table-type") == "MANAGED"
    return Loaded(
        name,
        _text(metadata, "table-uuid"),
        is_managed,
        _text(metadata, "location"),
        _text(metadata, "etag"),
        {str(key): str(value) for key, value in _object(metadata, "properties").items()},
        _ratified(answer) if is_managed else Ratified(-1),
    )


def _ratified(answer: Mapping[str, Any]) -> Ratified:
    """The commits of an answer, which are without gaps up to the newest version."""
    latest = _number(answer, "latest-table-version")
    found = answer.get("commits", [])
    if not isinstance(found, list):
        raise _nonsense("commits")
    commits: dict[int, StagedCommit] = {}
    for each in found:
        version, file_name = _number(each, "version"), _text(each, "file-name")
        # It becomes part of a path: nothing but a name of that version's is taken.
        if not is_staged_commit(file_name, version):
            raise _nonsense("file-name")
        commits[version] = StagedCommit(
            version,
            file_name,
            _number(each, "timestamp"),
            _number(each, "file-size"),
            _number(each, "file-modification-timestamp"),
        )
    if sorted(commits) != list(range(latest - len(commits) + 1, latest + 1)) or len(commits) != len(found):
        raise _nonsense("commits")
    return Ratified(latest, commits, _allowed(answer.get("allowed-maintenance-operations")))


def _allowed(answer: Any) -> frozenset[Maintenance]:
    """The maintenance that an answer allows: the names that are known. Anything else allows nothing, and does not make
    an answer about a commit one that says nothing.
    """
    names = answer if isinstance(answer, list) else ()
    return frozenset(each for each in Maintenance if each.value in names)


def _credentials(answer: Mapping[str, Any]) -> list[Credential]:
    found = answer.get("storage-credentials")
    if not isinstance(found, list):
        raise _nonsense("storage-credentials")
    return [
        Credential(
            _text(each, "prefix"),
            _number(each, "expiration-time-ms") if each.get("expiration-time-ms") is not None else None,
            {key: str(value) for key, value in _object(each, "config").items() if value is not None},
        )
        for each in found
    ]


def _text(answer: Any, key: str) -> str:
    value = answer.get(key) if isinstance(answer, dict) else None
    if not isinstance(value, str) or not value:
        raise _nonsense(key)
    return value


def _number(answer: Any, key: str) -> int:
    value = answer.get(key) if isinstance(answer, Mapping) else None
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise _nonsense(key)
    return value


def _object(answer: Any, key: str) -> dict[str, Any]:
    value = answer.get(key) if isinstance(answer, Mapping) else None
    if not isinstance(value, dict):
        raise _nonsense(key)
    return value


def _nonsense(key: str) -> Unanswered:
    """After an answer that says nothing, nobody knows what the server has done."""
    return Unanswered(f"the catalog's answer has no {key} as the interface defines it")
