"""Tables that a catalog manages, as sessions use them: by name, with the settings of a catalog.

Owns the clients of catalogs, and the store that a session reaches a managed table through: the log as the catalog has
ratified it (:mod:`headwater.catalogs.log_view`). A table that was found by its name has a *handle*, a text that goes
with its path through the JVM, so that nothing about it has to be remembered here. Promise: a path alone gives nothing.
Who comes with a handle asks the catalog with the address and the token of his own session's settings.

The settings of a catalog ``NAME`` begin with ``spark.sql.catalog.NAME``: ``.uri``, ``.token``; or ``.auth.type`` =
``oauth`` with ``.auth.oauth.uri``, ``.auth.oauth.clientId``, ``.auth.oauth.clientSecret`` and ``.auth.oauth.scope``.
``.vendedCredentials`` = ``false`` leaves the files of its tables to the session's own settings of Hadoop.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

import msgspec

from headwater.basics.errors import HeadwaterError, illegal_option
from headwater.basics.recent import Recent
from headwater.bridge.statement import Statement
from headwater.catalogs.interface import CatalogFailure, Maintenance
from headwater.catalogs.log_view import RatifiedLog, is_allowed, refused_by_catalog
from headwater.catalogs.unity.requests import Api, Request, over_http
from headwater.catalogs.unity.tables import TABLE_ID, Name, NewUnityTable, UnityCatalog, UnityTable
from headwater.catalogs.unity.tokens import ClientCredentials, StaticToken, Tokens
from headwater.log.snapshot import Snapshot
from headwater.protocol import properties
from headwater.protocol.columns import quote
from headwater.protocol.features import CATALOG_MANAGED
from headwater.protocol.properties import FEATURE_PREFIX
from headwater.statements.running import vended
from headwater.stores import Store, store_for

_PREFIX = "spark.sql.catalog."
#: The option of a table's location that has its handle.
HANDLE = "fs.headwater.managed"
#: What the statement may say of a table that is managed anyway.
_MANAGED_FEATURE = (f"{FEATURE_PREFIX}{CATALOG_MANAGED}".lower(), "supported")
#: What a table that is replaced keeps: its id in the catalog, and what catalogs require of the tables that they manage.
_KEPT = (
    TABLE_ID,
    properties.CHECKPOINT_POLICY.name,
    properties.STATISTICS_AS_JSON.name,
    properties.STATISTICS_AS_STRUCT.name,
    properties.DELETION_VECTORS.name,
    properties.IN_COMMIT_TIMESTAMPS.name,
)
#: The classes of catalogs of a server: Headwater's, and Unity Catalog's own, which has Headwater's below it.
_CATALOG_CLASSES = (".HeadwaterUnityCatalog", ".UCSingleCatalog")
_BLOCKED = "DELTA_PATH_BASED_ACCESS_TO_CATALOG_MANAGED_TABLE_BLOCKED"
#: How many schemas of a catalog are looked through for the name of a table that was named by its path, at most, and how
#: long, in seconds.
_MOST_SCHEMAS = 20
_LONGEST_SEARCH = 5.0
#: Logs that are remembered with what their catalog has said; the one not used for longest goes first.
_MOST_LOGS = 1000
#: Clients of OAuth servers that are remembered, so that each statement needs no token of its own.
_MOST_CLIENTS = 100


class Handle(msgspec.Struct, frozen=True, omit_defaults=True):
    """A table that was found by its name, or a place for a new one.

    :param location: as the catalog spells it.
    :param required: the properties that a new table must have; None for a table that there is.
    :param expires: when the credentials that go with it expire, in milliseconds since the epoch; 0 for none.
    """

    catalog: str
    schema: str
    table: str
    id: str
    location: str
    required: dict[str, str] | None = None
    expires: int = 0

    def text(self) -> str:
        return msgspec.json.encode(self).decode()


_lock = threading.Lock()
_logs: Recent[tuple[str, str], RatifiedLog] = Recent(_MOST_LOGS)
_clients: Recent[tuple[str, ...], ClientCredentials] = Recent(_MOST_CLIENTS)


def catalog_named(name: str, confs: Mapping[str, str]) -> UnityCatalog:
    """A catalog by the session's settings.

    :raises HeadwaterError: ``HEADWATER_CATALOG_NOT_CONFIGURED``; ``HEADWATER_CATALOG_FAILED`` for an address that is
        none.
    """
    settings = {key.removeprefix(f"{_PREFIX}{name}."): value for key, value in confs.items()}
    uri = settings.get("uri", "").strip()
    if not uri:
        raise HeadwaterError("HEADWATER_CATALOG_NOT_CONFIGURED", {"catalog": name, "setting": f"{_PREFIX}{name}.uri"})
    vends = settings.get("vendedCredentials", "true").strip().lower()
    if vends not in ("true", "false"):
        raise illegal_option(f"{_PREFIX}{name}.vendedCredentials", vends, "must be true or false")
    try:
        return UnityCatalog(Api(uri, _tokens(name, settings)), name, vends=vends == "true")
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
        return known


def _poster(uri: str) -> Callable[[dict[str, str], bytes], tuple[int, bytes]]:
    parts = urlsplit(uri)
    send = over_http(f"{parts.scheme}://{parts.netloc}")

    def post(headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        answer = send(Request("POST", parts.path or "/", headers, body))
        return answer.status, answer.body

    return post


def reached(path: str, store: Store, statement: Statement) -> Store:
    """The store that a session reaches a path by: the log as a catalog has ratified it, where the path comes with the
    handle of a table that lies there; else the path's own store.

    :raises HeadwaterError: ``HEADWATER_CATALOG_NOT_CONFIGURED``.
    """
    text = statement.managed(path)
    if text is None:
        return store
    handle = msgspec.json.decode(text, type=Handle)
    if store_for(handle.location, statement.hadoop, statement.confs)[1] != path:
        return store
    catalog = catalog_named(handle.catalog, statement.confs)
    name = Name(handle.catalog, handle.schema, handle.table)
    renew = _renewing(catalog, name, handle, path, statement)
    if handle.required is not None:
        return RatifiedLog(store, path, NewUnityTable(catalog, name, handle.id, handle.location), renew)
    log = RatifiedLog(store, path, UnityTable(catalog, name, handle.id, handle.location), renew)
    if not store.is_shared:
        return log
    with _lock:
        key = text, log.identity
        found = _logs[key] = _logs.get(key, log)
        return found


def _renewing(
    catalog: UnityCatalog, name: Name, handle: Handle, path: str, statement: Statement
) -> Callable[[bool], bool]:
    """Has the statement reach a table with other credentials, where those that it began with expire; whether it does.
    The argument: whether the store refused them.
    """

    def renew(refused: bool) -> bool:
        nonlocal handle
        is_new = handle.required is not None
        found = vended.renewed(
            catalog, name, handle.id, handle.location, handle.expires, is_new=is_new, refused=refused
        )
        if found is None:
            return False
        handle = msgspec.structs.replace(handle, expires=found.expires)
        statement.reach(path, {HANDLE: handle.text()} | dict(found.settings))
        return True

    return renew


def named(error: HeadwaterError, statement: Statement) -> HeadwaterError:
    """The error, or where it refuses a path, one that says by which name the session's catalogs have the table."""
    path = error.parameters.get("path")
    if error.condition != _BLOCKED or not path:
        return error
    until = time.monotonic() + _LONGEST_SEARCH
    for catalog in _catalogs(statement.confs):
        try:
            found = catalog_named(catalog, statement.confs).located(
                lambda location: _spelled(location) == _spelled(path), _MOST_SCHEMAS, until
            )
        except (CatalogFailure, HeadwaterError):
            continue
        if found is not None:
            name = quote([found.catalog, found.schema, found.table])
            return HeadwaterError(_BLOCKED, {"path": path, "advice": f"Use the table by its name, {name}."})
        if time.monotonic() > until:
            break
    return error


def _catalogs(confs: Mapping[str, str]) -> list[str]:
    """The names of the session's catalogs that are of a server."""
    found = (key for key, value in confs.items() if key.startswith(_PREFIX) and value.endswith(_CATALOG_CLASSES))
    return sorted(name for name in (key.removeprefix(_PREFIX) for key in found) if "." not in name)


def _spelled(location: str) -> str:
    """A location, so that two spellings of it are equal."""
    plain = re.sub(r"^file:(//)?(?=/)", "", location)
    return re.sub(r"^s3[an]://", "s3://", plain).rstrip("/")


def properties_for(
    given: Mapping[str, str], path: str, statement: Statement, replaced: Snapshot | None
) -> dict[str, str]:
    """The properties of a table that is created or replaced, with those that the catalog wants it to have.

    :raises HeadwaterError: ``HEADWATER_CATALOG_PROPERTY_REQUIRED`` if the statement says otherwise.
    """
    if replaced is not None:
        before = replaced.metadata.configuration if replaced.is_catalog_managed else {}
        required = {name: before[name] for name in _KEPT if name in before}
    else:
        text = statement.managed(path)
        required = dict((text and msgspec.json.decode(text, type=Handle).required) or {})
    if not required:
        return dict(given)
    folded = {name.lower(): value for name, value in required.items()}
    own = {name: value for name, value in given.items() if (name.lower(), value.lower()) != _MANAGED_FEATURE}
    for name, value in own.items():
        if (wanted := folded.get(name.lower(), value)).lower() != value.lower():
            raise HeadwaterError(
                "HEADWATER_CATALOG_PROPERTY_REQUIRED", {"property": name, "value": value, "required": wanted}
            )
    return {name: value for name, value in own.items() if name.lower() not in folded} | required


def own_properties(configuration: Mapping[str, str]) -> dict[str, str]:
    """The properties that another table may have as well: not its id in a catalog."""
    return {name: value for name, value in configuration.items() if name != TABLE_ID}


def check_allowed(snapshot: Snapshot, maintenance: Maintenance, operation: str, name: str | None = None) -> None:
    """Refuse what the catalog that manages a table does not allow its clients.

    :raises HeadwaterError: ``DELTA_UNSUPPORTED_CATALOG_MANAGED_TABLE_OPERATION``, ``HEADWATER_CATALOG_FAILED``.
    """
    if not is_allowed(snapshot, maintenance):
        raise refused_by_catalog(operation, name or snapshot.metadata.name or snapshot.table_path, maintenance)
