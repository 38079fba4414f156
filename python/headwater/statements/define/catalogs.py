"""Tables by name in a catalog that manages them: listed, found, staged, renamed and dropped."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from headwater.bridge.messages.catalogs import (
    CatalogNames,
    DropFromCatalogRequest,
    FindInCatalogRequest,
    FoundInCatalog,
    ListCatalogRequest,
    RenameInCatalogRequest,
    StagedInCatalog,
    StageInCatalogRequest,
)
from headwater.bridge.statement import Statement
from headwater.catalogs.interface import CatalogFailure
from headwater.catalogs.unity.requests import NotFound
from headwater.protocol.features import CATALOG_MANAGED, supported_features
from headwater.statements.commit.managed import catalog_named, failed, remember
from headwater.stores.choice import store_for

_T = TypeVar("_T")


def list_catalog(request: ListCatalogRequest, statement: Statement) -> CatalogNames:
    """The names of a schema's tables, or of the catalog's schemas."""
    catalog, schema = catalog_named(request.catalog, statement.confs), request.schema
    names = _asked(request.catalog, lambda: catalog.schemas() if schema is None else catalog.tables(schema))
    return CatalogNames(names=names)


def find_in_catalog(request: FindInCatalogRequest, statement: Statement) -> FoundInCatalog:
    """Where a table is, which is from now on reached through its catalog if that manages it."""
    catalog = catalog_named(request.catalog, statement.confs)
    name = f"{request.catalog}.{request.schema}.{request.table}"
    try:
        loaded = _asked(name, lambda: catalog.load(request.schema, request.table), passes=NotFound)
    except NotFound:
        return FoundInCatalog()
    path = _path(loaded.location, statement)
    if loaded.is_managed:
        remember(path, request.catalog, loaded)
    return FoundInCatalog(path=path)


def stage_in_catalog(request: StageInCatalogRequest, statement: Statement) -> StagedInCatalog:
    """A place for a new table, and what the table must have."""
    catalog = catalog_named(request.catalog, statement.confs)
    name = f"{request.catalog}.{request.schema}.{request.table}"
    staging = _asked(name, lambda: catalog.stage(request.schema, request.table))
    path = _path(staging.location, statement)
    remember(path, request.catalog, staging)
    features = supported_features(staging.protocol) - {CATALOG_MANAGED}
    properties = {f"delta.feature.{feature}": "supported" for feature in features}
    properties |= {key: value for key, value in staging.required.items() if value is not None}
    return StagedInCatalog(path=path, properties=properties)


def drop_from_catalog(request: DropFromCatalogRequest, statement: Statement) -> bool:
    """Drop a table; whether there was one. The catalog deletes its files."""
    catalog = catalog_named(request.catalog, statement.confs)
    name = f"{request.catalog}.{request.schema}.{request.table}"
    return _asked(name, lambda: catalog.drop(request.schema, request.table))


def rename_in_catalog(request: RenameInCatalogRequest, statement: Statement) -> None:
    """Rename a table within its schema."""
    catalog = catalog_named(request.catalog, statement.confs)
    name = f"{request.catalog}.{request.schema}.{request.table}"
    _asked(name, lambda: catalog.rename(request.schema, request.table, request.new_name))


def _path(location: str, statement: Statement) -> str:
    return store_for(location, statement.hadoop, statement.confs)[1]


def _asked(name: str, ask: Callable[[], _T], passes: type[CatalogFailure] | tuple[()] = ()) -> _T:
    """What a catalog answers.

    :raises HeadwaterError: ``HEADWATER_CATALOG_FAILED``.
    """
    try:
        return ask()
    except passes:
        raise
    except CatalogFailure as error:
        raise failed(name, error) from error
