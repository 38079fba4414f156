"""The settings that are read only when Spark starts.

Owns the prefixes of their names, and the values that this process was given. They name code (a store, a hook, a
catalog, an interpreter) or places on the driver. Users who may only run SQL, and clients of Spark Connect, can set any
setting of a session, but must not choose these. Promise: no statement sees one of them, whatever its session sets
(:attr:`headwater.bridge.statement.Statement.confs`).
"""

from __future__ import annotations

from collections.abc import Mapping

from headwater.basics.warn_once import warn_once

PYTHON = "spark.headwater.python"
LOG_LEVEL = "spark.headwater.log.level"
PROGRESS = "spark.headwater.progress"
HOOK = "spark.headwater.hook."
STORE = "spark.headwater.store."
ICEBERG_CATALOG = "spark.headwater.iceberg.catalog"
CACHE = "spark.headwater.cache."
#: What their names begin with.
PREFIXES = (PYTHON, LOG_LEVEL, PROGRESS, HOOK, STORE, ICEBERG_CATALOG, CACHE)

_given: dict[str, str] = {}


def take(settings: Mapping[str, str]) -> None:
    """Take them from Spark's configuration at its start, by whole names; other settings are left out."""
    global _given
    _given = {name: value for name, value in settings.items() if name.startswith(PREFIXES)}


def under(prefix: str) -> dict[str, str]:
    """Those whose names begin with a prefix, by the rest of their names."""
    return {name[len(prefix) :]: value for name, value in _given.items() if name.startswith(prefix)}


def of_session(confs: Mapping[str, str]) -> Mapping[str, str]:
    """The settings of a session without these. A session that has set one of them is warned of once."""
    found = [name for name in confs if name.startswith(PREFIXES)]
    for name in found:
        if confs[name] != _given.get(name):
            warn_once(name, f"{name} counts only if it is set when Spark starts: the session's value is ignored")
    return {name: value for name, value in confs.items() if name not in found} if found else confs
