"""Calls about catalogs that manage tables. The settings of a catalog cross with those of the session; names are as the
user has them.
"""

from __future__ import annotations

from headwater.bridge.messages import Answer, Request


class ListCatalogRequest(Request, kw_only=True):
    """Asks for the names of a schema's tables, or of the catalog's schemas. The answer is :class:`CatalogNames`."""

    catalog: str
    schema: str | None


class CatalogNames(Answer, kw_only=True):
    names: list[str]


class FindInCatalogRequest(Request, kw_only=True):
    """Asks where a table is. The answer is :class:`FoundInCatalog`."""

    catalog: str
    schema: str
    table: str


class FoundInCatalog(Answer, kw_only=True):
    """:param path: where the table is; None where there is none."""

    path: str | None = None


class StageInCatalogRequest(Request, kw_only=True):
    """Asks for a place for a new table. The answer is :class:`StagedInCatalog`."""

    catalog: str
    schema: str
    table: str


class StagedInCatalog(Answer, kw_only=True):
    """:param properties: what the catalog wants the table to have."""

    path: str
    properties: dict[str, str]


class DropFromCatalogRequest(Request, kw_only=True):
    """Drops a table; the answer is ``bool``: whether there was one."""

    catalog: str
    schema: str
    table: str


class RenameInCatalogRequest(Request, kw_only=True):
    """Renames a table within its schema."""

    catalog: str
    schema: str
    table: str
    new_name: str
