"""Registration: tables with Iceberg metadata get entries in an Iceberg catalog, so that readers find them by name.

Owns the catalog that settings of Spark's start name, the thread that brings the entries of tables up to date, and what
became of that. A table names its entry by the property ``headwater.iceberg.table``.

Promises: no commit waits for the catalog or fails with it. What failed is tried again with the table's next commit;
the log has each reason once, until the entry is up to date again. No text shows a secret of the catalog's properties.
Nobody who can only run SQL chooses the catalog.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from headwater.basics import counts, start_settings
from headwater.basics.recent import Recent
from headwater.basics.redaction import without_credentials
from headwater.iceberg import metadata
from headwater.log.snapshot import Snapshot

_LOG = logging.getLogger(__name__)
#: The setting that names the catalog, and what those of its properties begin with.
SETTING = start_settings.ICEBERG_CATALOG
_PROPERTIES = "spark.headwater.iceberg.catalog."
#: The table property that names a table's entry: ``namespace.table``.
PROPERTY = "headwater.iceberg.table"
_SECRET = re.compile(r"secret|password|passphrase|token|credential|key", re.IGNORECASE)
#: Characters; what is shorter would take letters from any text.
_SHORTEST_SECRET = 4
#: Characters of a reason that are shown.
_LONGEST_REASON = 400


@dataclass(frozen=True)
class Configured:
    """A catalog: its name and its properties, as pyiceberg's ``load_catalog`` takes them."""

    name: str
    properties: Mapping[str, str] = field(repr=False)

    def shown(self, error: BaseException) -> str:
        """What an error says, without secrets of the properties."""
        text = f"{type(error).__name__}: {error}".partition("\n")[0]
        secrets = [part for name, value in self.properties.items() for part in _secrets(name, value)]
        for secret in sorted(secrets, key=len, reverse=True):
            text = text.replace(secret, "***")
        return without_credentials(text)[:_LONGEST_REASON]


def _secrets(name: str, value: str) -> list[str]:
    """What of a property's value no text shows: the login of a URI; else the value, if its name says so."""
    if "://" in value:
        login, at, _ = value.partition("://")[2].rpartition("@")
        found = [login, login.partition(":")[2]] if at else []
    else:
        found = [value, *value.split(":")] if _SECRET.search(name) else []
    return [part for part in found if len(part) >= _SHORTEST_SECRET]


@dataclass(frozen=True)
class State:
    """What became of a table's entry in this process.

    :param version: the version of the Delta table that the entry was brought to last; None: to none yet.
    :param failure: why it could not be brought to a later one; None if it could.
    """

    version: int | None = None
    failure: str | None = None


_configured: Configured | None = None
_changed = threading.Condition()
#: By table, the newest version whose metadata is written and whose entry is not up to date.
_waiting: dict[str, Snapshot] = {}
_at_work: str | None = None
_thread: threading.Thread | None = None
_states: Recent[str, State] = Recent()
_catalog: Any = None


def configure(settings: Mapping[str, str]) -> None:
    """Take the catalog that settings name, given without :data:`SETTING` at their beginning."""
    global _configured, _catalog
    name = settings.get("", "").strip()
    given = {key[1:]: value for key, value in settings.items() if key.startswith(".") and len(key) > 1}
    if given and not name:
        _LOG.warning("the settings %s<property> are ignored: %s is to name the catalog", _PROPERTIES, SETTING)
    _configured, _catalog = (Configured(name, given) if name else None), None
    _states.clear()


def entry_of(snapshot: Snapshot) -> str | None:
    """The entry that a table names; None if it names none."""
    configuration = snapshot.metadata.configuration
    return configuration.get(PROPERTY, "").strip() or None


def state_of(table_path: str) -> State:
    """What became of a table's entry in this process."""
    return _states.get(table_path, State())


def schedule(snapshot: Snapshot) -> None:
    """Have the entry of a table brought to its newest metadata, which is of this version or a newer one."""
    global _thread
    if _configured is None or entry_of(snapshot) is None:
        return
    with _changed:
        _waiting[snapshot.table_path] = snapshot
        if _thread is None:
            # No thread that an interpreter waits for: a catalog may never answer.
            _thread = threading.Thread(target=_work, name="headwater-iceberg-catalog", daemon=True)
            _thread.start()


def wait(timeout: float | None = None, table_path: str | None = None) -> bool:
    """Wait until the entries of all tables, or of one, are up to date or could not be brought there; False where
    ``timeout`` seconds were not enough.
    """

    def is_done() -> bool:
        waiting = {*_waiting, _at_work} - {None}
        return not waiting if table_path is None else table_path not in waiting

    with _changed:
        return _changed.wait_for(is_done, timeout)


def _work() -> None:
    global _at_work, _thread
    while True:
        with _changed:
            _at_work = next(iter(_waiting), None)
            _changed.notify_all()
            if _at_work is None:
                _thread = None
                return
            snapshot = _waiting.pop(_at_work)
        configured = _configured
        if configured is not None:
            _bring_up(configured, snapshot)


def _bring_up(configured: Configured, snapshot: Snapshot) -> None:
    global _catalog
    path, entry = snapshot.table_path, entry_of(snapshot) or ""
    before = state_of(path)
    try:
        name = tuple(part.strip() for part in entry.split("."))
        if len(name) < 2 or not all(name):
            raise ValueError(f"{PROPERTY} = {entry} is not namespace.table")
        current = metadata.newest(path, snapshot.store)
        if current is None:
            raise ValueError("it has no Iceberg metadata")
        if _catalog is None:
            _catalog = _loaded(configured)
        from headwater.iceberg.entries import bring_up

        bring_up(_catalog, name, current.content, metadata.location(metadata.path_of(path, current.number)))
    except Exception as error:
        counts.count("icebergRegistrationFailures")
        _catalog = None  # a token may have expired, a connection may be broken
        reason = configured.shown(error)
        if reason != before.failure:
            _LOG.warning(
                "%s: its entry %s in the Iceberg catalog %s could not be updated to version %d (%s); the commit "
                "is valid, and the next one tries again",
                *(path, entry, configured.name, snapshot.version, reason),
            )
        _states[path] = replace(before, failure=reason)
    else:
        counts.count("icebergRegistrations")
        _states[path] = State(current.delta_version)


def _loaded(configured: Configured) -> Any:
    """The catalog.

    :raises ImportError: pyiceberg is not there.
    """
    try:
        from pyiceberg.catalog import load_catalog
    except ImportError as error:
        raise ImportError(f"{error}. Install headwater[iceberg] for the driver's Python") from None
    from headwater.iceberg import entries

    entries.import_only(configured.properties.values())
    return load_catalog(configured.name, **configured.properties)
