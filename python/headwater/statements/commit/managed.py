"""Tables that a catalog manages, as sessions reach them: by name, with the settings of a catalog.

Owns which paths were found by a name, in this process, and the store that a session reaches them through: the log as
the catalog has ratified it (:mod:`headwater.catalogs.log_view`). Promise: a path that was found by one session's name
gives another session nothing: each asks the catalog with the address and the token of its own settings.

The settings of a catalog ``NAME`` begin with ``spark.sql.catalog.NAME``: ``.uri``, ``.token``; or ``.auth.type`` =
``oauth`` with ``.auth.oauth.uri``, ``.auth.oauth.clientId``, ``.auth.oauth.clientSecret`` and ``.auth.oauth.scope``.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from headwater.bridge.statement import Statement
from headwater.catalogs.interface import CatalogFailure, ManagedTable
from headwater.catalogs.log_view import RatifiedLog, refused_by_catalog
from headwater.catalogs.unity.requests import Api, Request, over_http
from headwater.catalogs.unity.tables import Loaded, NewUnityTable, Staging, UnityCatalog, UnityTable
from headwater.catalogs.unity.tokens import ClientCredentials, StaticToken, Tokens
from headwater.errors import HeadwaterError
from headwater.log.snapshot import Snapshot
from headwater.stores import Store

_PREFIX = "spark.sql.catalog."
#: Tables that are remembered; the one not used for longest goes first, and is found again by its name.
_MOST_TABLES = 1000
#: Clients of OAuth servers that are remembered, so that each statement needs no token of its own.
_MOST_CLIENTS = 100


@dataclass(frozen=True)
class _Found:
    """A table that was found by its name, or a place for a new one."""

    catalog: str
    table: Loaded | Staging


_lock = threading.Lock()
_tables: OrderedDict[str, _Found] = OrderedDict()
_logs: OrderedDict[tuple[str, str], RatifiedLog] = OrderedDict()
_clients: OrderedDict[tuple[str, ...], ClientCredentials] = OrderedDict()


def catalog_named(name: str, confs: Mapping[str, str]) -> UnityCatalog:
    """A catalog by the session's settings.

    :raises HeadwaterError: ``HEADWATER_CATALOG_NOT_CONFIGURED``; ``HEADWATER_CATALOG_FAILED`` for an address that is
        none.
    """
    settings = {key.removeprefix(f"{_PREFIX}{name}."): value for key, value in confs.items()}
    uri = settings.get("uri", "").strip()
    if not uri:
        raise HeadwaterError("HEADWATER_CATALOG_NOT_CONFIGURED", {"catalog": name, "setting": f"{_PREFIX}{name}.uri"})
    try:
        return UnityCatalog(Api(uri, _tokens(name, settings)), name)
    except CatalogFailure as error:
        raise failed(name, error) from None


def failed(name: str, error: CatalogFailure) -> HeadwaterError:
    """The error for a catalog that did not do what it was asked."""
    return HeadwaterError("HEADWATER_CATALOG_FAILED", {"tableName": name, "reason": str(error)})


def _tokens(name: str, settings: Mapping[str, str]) -> Tokens:
    if settings.get("auth.type", "").strip().lower() != "oauth":
        token = settings.get("token") or settings.get("auth.token") or ""
        if not token:
            setting = f"{_PREFIX}{name}.token"
            raise HeadwaterError("HEADWATER_CATALOG_NOT_CONFIGURED", {"catalog": name, "setting": setting})
        return StaticToken(token)
    named = [settings.get(f"auth.oauth.{key}", "") for key in ("uri", "clientId", "clientSecret", "scope")]
    for key, value in zip(("uri", "clientId", "clientSecret"), named, strict=False):
        if not value:
            setting = f"{_PREFIX}{name}.auth.oauth.{key}"
            raise HeadwaterError("HEADWATER_CATALOG_NOT_CONFIGURED", {"catalog": name, "setting": setting})
    with _lock:
        if (known := _clients.get(tuple(named))) is None:
            uri, client, secret, scope = named
            known = _clients[tuple(named)] = ClientCredentials(client, secret, _poster(uri), scope)
            while len(_clients) > _MOST_CLIENTS:
                _clients.popitem(last=False)
        return known


def _poster(uri: str):  # type: ignore[no-untyped-def]
    parts = urlsplit(uri)
    send = over_http(f"{parts.scheme}://{parts.netloc}")

    def post(headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        return tuple(send(Request("POST", parts.path or "/", headers, body)))

    return post


def remember(path: str, catalog: str, table: Loaded | Staging) -> None:
    """Have a path be reached through its catalog from now on."""
    with _lock:
        _tables[path] = _Found(catalog, table)
        _tables.move_to_end(path)
        while len(_tables) > _MOST_TABLES:
            _tables.popitem(last=False)


def reached(path: str, store: Store, statement: Statement) -> Store:
    """The store that a session reaches a path by: the log as a catalog has ratified it, where the path was found by a
    name of a catalog that the session has settings of; else the path's own store.
    """
    with _lock:
        found = _tables.get(path)
    if found is None or f"{_PREFIX}{found.catalog}.uri" not in statement.confs:
        return store
    catalog = catalog_named(found.catalog, statement.confs)
    table: ManagedTable = (
        UnityTable(catalog, found.table) if isinstance(found.table, Loaded) else NewUnityTable(catalog, found.table)
    )
    log = RatifiedLog(store, path, table)
    if not store.is_shared:
        return log
    with _lock:
        return _logs.setdefault((path, log.identity), log)


def refuse_maintenance(snapshot: Snapshot, operation: str, name: str | None = None) -> None:
    """Refuse what only a catalog may do with the tables that it manages.

    :raises HeadwaterError: ``DELTA_UNSUPPORTED_CATALOG_MANAGED_TABLE_OPERATION``.
    """
    if snapshot.is_catalog_managed:
        raise refused_by_catalog(operation, name or snapshot.metadata.name or snapshot.table_path)
