"""Calls about catalogs that manage tables. A catalog's settings are sent with the session's settings; names are spelled
as the user spelled them.
"""

from __future__ import annotations

from headwater.bridge.messages import Answer, Request


class ListCatalogRequest(Request, kw_only=True):
    """Asks for the names of a schema's tables, or of the catalog's schemas. The answer is :class:`CatalogNames`."""

    catalog: str
    schema: str | None = None


class CatalogNames(Answer, kw_only=True):
    names: list[str]


class FindInCatalogRequest(Request, kw_only=True):
    """Asks where a table is. The answer is :class:`FoundInCatalog`.

    :param others: whether somebody else has the tables of other formats: one of these is then as none.
    """

    catalog: str
    schema: str
    table: str
    others: bool


class FoundInCatalog(Answer, kw_only=True):
    """What a catalog has of a table.

    :param location: where it is; None if it has no location.
    :param managed: whether the catalog manages it.
    :param options: what it is reached with: credentials, as settings of Hadoop, and what the handler calls it.
    """

    location: str | None = None
    managed: bool = False
    comment: str | None = None
    options: dict[str, str]


class StageInCatalogRequest(Request, kw_only=True):
    """Asks for a place for a new table. The answer is :class:`FoundInCatalog`."""

    catalog: str
    schema: str
    table: str


class AddToCatalogRequest(Request, kw_only=True):
    """Adds a table that lies where its user has said, and that the catalog does not manage."""

    catalog: str
    schema: str
    table: str
    provider: str
    location: str | None = None


class DropFromCatalogRequest(Request, kw_only=True):
    """Drops a table; the answer is ``bool``: whether there was one."""

    catalog: str
    schema: str
    table: str


class RenameInCatalogRequest(Request, kw_only=True):
    """Renames a table within its schema; ``new_schema`` is None if the user named none."""

    catalog: str
    schema: str
    table: str
    new_schema: str | None = None
    new_name: str
