"""Credentials that catalogs vend for the files of their tables, as this process caches them.

Owns when a catalog is asked for them, and how long they are used again. Promises: they are used again for half of the
time that they are good for, so that a statement which begins has the other half, and that tables are not reached by a
file system of their own for each statement; they are given to nobody who asks the catalog with another token; they are
in no log line, error or text. A catalog that vends none leaves a table to the session's own settings.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from headwater.basics import clock
from headwater.basics.recent import Recent
from headwater.catalogs.interface import CatalogFailure
from headwater.catalogs.unity.requests import Forbidden, NotFound, NotOffered
from headwater.catalogs.unity.tables import Credential, Name, Staging, UnityCatalog
from headwater.catalogs.unity.vended import chosen, is_vended_for, settings

#: Tables whose credentials are kept; the one not used for longest goes first.
_MOST_KEPT = 1000
#: How long credentials are good for where the catalog does not say, in milliseconds.
_LIFETIME = 3_600_000
#: How long a refusal is not asked about again, in milliseconds: rights that are granted take effect as soon.
_LONGEST_REFUSAL = 60_000
#: A commit does not begin with credentials that expire so soon, in milliseconds.
_MARGIN = 30_000

_Ask = Callable[[bool], Sequence[Credential]]


@dataclass(frozen=True)
class Vended:
    """What a table is reached with.

    :param settings: of Hadoop; none where the session's own are to reach it.
    :param expires: when they are good for nothing, in milliseconds since the epoch.
    """

    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    expires: int = 0


class _Kept:
    """What a table is reached with until a time, in milliseconds since the epoch, when the catalog is asked again."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.vended = Vended()
        self.until = 0


_lock = threading.Lock()
_kept: Recent[tuple[str, str, str], _Kept] = Recent(_MOST_KEPT)


def of_table(catalog: UnityCatalog, name: Name, table_id: str, location: str) -> Vended:
    """What a table of a catalog is reached with.

    :raises CatalogFailure: the catalog does not say.
    """
    return _given(
        catalog, table_id, location, lambda writes: catalog.credentials(name.schema, name.table, writes=writes)
    )


def of_staging(catalog: UnityCatalog, staging: Staging) -> Vended:
    """The same for the place of a new table; the table has it from then on."""

    def ask(writes: bool) -> Sequence[Credential]:
        return staging.credentials or catalog.staging_credentials(staging.table_id)

    return _given(catalog, staging.table_id, staging.location, ask)


def renewed(
    catalog: UnityCatalog, name: Name, table_id: str, location: str, expires: int, *, is_new: bool, refused: bool
) -> Vended | None:
    """What a table is to be reached with from here on; None where what the statement began with will do, or where there
    is nothing else.

    :param is_new: whether the table has no name before the statement ends.
    :param expires: of what the statement began with.
    :param refused: whether the store did not take that.
    """
    if not expires or (not refused and expires - clock.milliseconds() > _MARGIN):
        return None

    def ask(writes: bool) -> Sequence[Credential]:
        if is_new:
            return catalog.staging_credentials(table_id)
        return catalog.credentials(name.schema, name.table, writes=writes)

    try:
        found = _given(catalog, table_id, location, ask, than=expires)
    except CatalogFailure:
        return None
    return found if found.settings else None


def _given(catalog: UnityCatalog, table_id: str, location: str, ask: _Ask, than: int | None = None) -> Vended:
    """What is kept, or what the catalog answers.

    :param than: another one than that which expires at this time.
    """
    if not catalog.vends or not is_vended_for(location):
        return Vended()
    with _lock:
        key = (catalog.api.identity, table_id, location)
        kept = _kept[key] = _kept.get(key) or _Kept()
    with kept.lock:
        now = clock.milliseconds()
        if now >= kept.until or kept.vended.expires == than:
            try:
                kept.vended, kept.until = _answer(location, ask, now)
            except CatalogFailure:
                if kept.vended.expires == than or now >= kept.vended.expires:
                    raise
        return kept.vended


def _answer(location: str, ask: _Ask, now: int) -> tuple[Vended, int]:
    """What a catalog answers, and until when it is not asked again."""
    soon = now + _LONGEST_REFUSAL
    readable_until = None
    try:
        try:
            found = ask(True)
        except Forbidden:
            readable_until, found = soon, ask(False)
    except (NotFound, NotOffered):
        return Vended(), soon
    credential = chosen(found, location)
    given = {} if credential is None else settings(credential, location)
    if credential is None or not given:
        return Vended(), soon
    expires = credential.expires or now + _LIFETIME
    until = now + max(expires - now, 0) // 2
    return Vended(given, expires), until if readable_until is None else min(until, readable_until)
