"""Tables by name in a catalog that manages them: listed, found, staged, added, renamed and dropped."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from headwater.basics.errors import HeadwaterError
from headwater.bridge.messages.catalogs import (
    AddToCatalogRequest,
    CatalogNames,
    DropFromCatalogRequest,
    FindInCatalogRequest,
    FoundInCatalog,
    ListCatalogRequest,
    RenameInCatalogRequest,
    StageInCatalogRequest,
)
from headwater.bridge.statement import Statement
from headwater.catalogs.interface import CatalogFailure
from headwater.catalogs.unity.requests import NotDelta, NotFound
from headwater.catalogs.unity.tables import Name
from headwater.protocol.features import CATALOG_MANAGED, supported_features
from headwater.statements.calls import call, reads
from headwater.statements.running import vended
from headwater.statements.running.managed_tables import HANDLE, Handle, catalog_named, failed
from headwater.statements.running.opening import open_snapshot

_T = TypeVar("_T")
_OfTable = (
    FindInCatalogRequest | StageInCatalogRequest | AddToCatalogRequest | DropFromCatalogRequest | RenameInCatalogRequest
)


@reads
def list_catalog(request: ListCatalogRequest, statement: Statement) -> CatalogNames:
    """The names of a schema's tables, or of the catalog's schemas."""
    catalog, schema = catalog_named(request.catalog, statement.confs), request.schema
    names = _asked(request.catalog, lambda: catalog.schemas() if schema is None else catalog.tables(schema))
    return CatalogNames(names=names)


@reads
def find_in_catalog(request: FindInCatalogRequest, statement: Statement) -> FoundInCatalog:
    """Where a table is, and what it is reached with."""
    catalog = catalog_named(request.catalog, statement.confs)
    none: tuple[type[CatalogFailure], ...] = (NotFound, NotDelta) if request.others else (NotFound,)
    try:
        loaded = _asked(_name(request), lambda: catalog.load(request.schema, request.table), passes=none)
    except none:
        return FoundInCatalog(options={})
    given = _asked(_name(request), lambda: vended.of_table(catalog, loaded.name, loaded.table_id, loaded.location))
    options = dict(given.settings)
    if loaded.is_managed:
        handle = Handle(
            request.catalog, request.schema, request.table, loaded.table_id, loaded.location, expires=given.expires
        )
        options[HANDLE] = handle.text()
    return FoundInCatalog(location=loaded.location, managed=loaded.is_managed, options=options)


@call(commits=False, in_transaction=False, words="CREATE TABLE")
def stage_in_catalog(request: StageInCatalogRequest, statement: Statement) -> FoundInCatalog:
    """A place for a new table, and what the table must have."""
    catalog = catalog_named(request.catalog, statement.confs)
    staging = _asked(_name(request), lambda: catalog.stage(request.schema, request.table))
    # That a catalog manages it follows from its place.
    features = supported_features(staging.protocol) - {CATALOG_MANAGED}
    required = {f"delta.feature.{feature}": "supported" for feature in features}
    required |= {key: value for key, value in staging.required.items() if value is not None}
    given = _asked(_name(request), lambda: vended.of_staging(catalog, staging))
    handle = Handle(
        request.catalog,
        request.schema,
        request.table,
        staging.table_id,
        staging.location,
        required=required,
        expires=given.expires,
    )
    options = dict(given.settings) | {HANDLE: handle.text()}
    return FoundInCatalog(location=staging.location, managed=True, options=options)


@call(commits=False, in_transaction=False, words="CREATE TABLE")
def add_to_catalog(request: AddToCatalogRequest, statement: Statement) -> None:
    """Name a table that lies where its user has said.

    :raises HeadwaterError: ``HEADWATER_CATALOG_OPERATION_UNSUPPORTED`` for one of another format.
    """
    if request.provider.lower() != "delta" or request.location is None:
        raise _unsupported(request.catalog, f"CREATE TABLE ... USING {request.provider}")
    catalog = catalog_named(request.catalog, statement.confs)
    name, location = _name(request), request.location
    table = open_snapshot(location, statement)
    _asked(
        name,
        lambda: catalog.create(
            name,
            location,
            table.metadata,
            table.protocol,
            table.timestamp,
            tuple(table.domain_metadata.values()),
            managed=False,
        ),
    )


@call(commits=False, in_transaction=False, words="DROP TABLE")
def drop_from_catalog(request: DropFromCatalogRequest, statement: Statement) -> bool:
    """Drop a table; whether there was one. The catalog deletes the files of those that it manages."""
    catalog = catalog_named(request.catalog, statement.confs)
    return _asked(_name(request), lambda: catalog.drop(request.schema, request.table))


@call(commits=False, in_transaction=False, words="ALTER TABLE … RENAME TO")
def rename_in_catalog(request: RenameInCatalogRequest, statement: Statement) -> None:
    """Rename a table within its schema.

    :raises HeadwaterError: ``HEADWATER_CATALOG_OPERATION_UNSUPPORTED`` for another schema.
    """
    if request.new_schema not in (None, request.schema):
        raise _unsupported(request.catalog, "ALTER TABLE ... RENAME TO another schema")
    catalog = catalog_named(request.catalog, statement.confs)
    _asked(_name(request), lambda: catalog.rename(request.schema, request.table, request.new_name))


def _name(request: _OfTable) -> Name:
    return Name(request.catalog, request.schema, request.table)


def _unsupported(catalog: str, operation: str) -> HeadwaterError:
    return HeadwaterError("HEADWATER_CATALOG_OPERATION_UNSUPPORTED", {"catalog": catalog, "operation": operation})


def _asked(name: Name | str, ask: Callable[[], _T], passes: tuple[type[CatalogFailure], ...] = ()) -> _T:
    """What a catalog answers.

    :raises HeadwaterError: ``HEADWATER_CATALOG_FAILED``.
    """
    try:
        return ask()
    except passes:
        raise
    except CatalogFailure as error:
        raise failed(str(name), error) from error
