"""Tables that a catalog of :mod:`support.unity_server` manages, for tests without a JVM."""

from __future__ import annotations

from dataclasses import replace

from headwater.catalogs.log_view import RatifiedLog
from headwater.catalogs.unity.requests import Api, Send
from headwater.catalogs.unity.tables import NewUnityTable, Staging, UnityCatalog, UnityTable
from headwater.catalogs.unity.tokens import StaticToken
from headwater.protocol.actions import Metadata, Protocol
from headwater.stores import Store
from headwater.transaction import Committed, Provenance, Transaction
from support.commits import metadata
from support.unity_server import UnityModel

TOKEN = "dapi-secret-of-the-user"


def catalog_of(model: UnityModel, send: Send | None = None) -> UnityCatalog:
    return UnityCatalog(Api("http://localhost:1", StaticToken(TOKEN), send or model.handle), model.catalog)


def definition_of(staging: Staging, **more: str) -> tuple[Protocol, Metadata]:
    """What a table must have to be created at a place."""
    properties = {key: value for key, value in staging.required.items() if value is not None}
    return staging.protocol, replace(metadata(), configuration=properties | more)


def create_managed(
    catalog: UnityCatalog, store: Store, name: str = "t", staging: Staging | None = None, **more: str
) -> Committed:
    staging = staging or catalog.stage("s", name)
    log = RatifiedLog(store, staging.location, NewUnityTable(catalog, staging.name, staging.table_id, staging.location))
    txn = Transaction(staging.location, log, None)
    protocol, its_metadata = definition_of(staging, **more)
    txn.update_protocol(protocol)
    txn.update_metadata(its_metadata)
    return txn.commit(Provenance("CREATE TABLE"))


def log_of(catalog: UnityCatalog, store: Store, name: str = "t") -> RatifiedLog:
    """A table's log, as a writer of its own would open it."""
    loaded = catalog.load("s", name)
    return RatifiedLog(store, loaded.location, UnityTable(catalog, loaded.name, loaded.table_id, loaded.location))
