"""The settings that count only as they were when Spark started.

Owns the beginnings of their names, and what this process was given of them. They name code (a store, a hook, a catalog,
an interpreter) or places of the driver. Whoever may only run SQL, or is a client of Spark Connect, can set any setting
of a session, and must choose none of these. Promise: no statement sees one of them, whatever its session sets
(:attr:`headwater.bridge.statement.Statement.confs`).
"""

from __future__ import annotations

from collections.abc import Mapping

from headwater.warn_once import warn_once

PYTHON = "spark.headwater.python"
LOG_LEVEL = "spark.headwater.log.level"
HOOK = "spark.headwater.hook."
STORE = "spark.headwater.store."
ICEBERG_CATALOG = "spark.headwater.iceberg.catalog"
CACHE = "spark.headwater.cache."
#: What the names of all of them begin with.
PREFIXES = (PYTHON, LOG_LEVEL, HOOK, STORE, ICEBERG_CATALOG, CACHE)

_given: dict[str, str] = {}


def take(settings: Mapping[str, str]) -> None:
    """Take what Spark's own configuration had when it started, by whole names; other settings do not matter."""
    global _given
    _given = {name: value for name, value in settings.items() if name.startswith(PREFIXES)}


def under(prefix: str) -> dict[str, str]:
    """Those whose names begin so, by the rest of their names."""
    return {name[len(prefix) :]: value for name, value in _given.items() if name.startswith(prefix)}


def of_session(confs: Mapping[str, str]) -> Mapping[str, str]:
    """The settings of a session without these. A session that has set one of them is warned of once."""
    found = [name for name in confs if name.startswith(PREFIXES)]
    for name in found:
        if confs[name] != _given.get(name):
            warn_once(name, f"{name} counts only if it is set when Spark starts: what a session sets is ignored")
    return {name: value for name, value in confs.items() if name not in found} if found else confs
