"""What this process counts, for monitoring: commits, lost races, the snapshot cache, the log.

Owns the counts and levels since they were last taken, by name; the bridge sends them along with the answers of calls,
and the JVM shows them in Spark's metrics system. :data:`MEANINGS` names them all. Promises: to count costs a lock and
an addition, and nothing is ever waited for. The first that are taken have every count, so that a monitor sees a count
rise from 0 instead of appear.
"""

from __future__ import annotations

from collections import Counter
from threading import Lock

#: Every name. Levels are what there is now; all others have been counted since Spark started.
MEANINGS = {
    "commits": "versions that this process made",
    "commitBytes": "bytes of their commit files",
    "lostRaces": "attempts to commit a version that another writer had made first",
    "conflicts": "commits that could not be made, because of what another writer had changed",
    "reruns": "statements that ran again from a newer version after a conflict",
    "checkpoints": "checkpoints written",
    "icebergConversions": "commits that Iceberg metadata was brought up to",
    "icebergConversionFailures": "times that it could not be, until the table's next commit",
    "icebergRegistrations": "times that a table's entry in an Iceberg catalog was brought up to date",
    "icebergRegistrationFailures": "times that it could not be, until the table's next commit",
    "maintenanceFailures": "checksums, checkpoints and other work after a commit that failed",
    "snapshotCacheHits": "uses of a table whose newest version was in the cache",
    "snapshotCacheMisses": "uses of a table that had to read commits or a checkpoint",
    "cachedTables": "tables in the cache",
    "cachedFiles": "live files of the newest versions in the cache",
    "cachedBytes": "bytes of memory that the cache takes, about",
    "columnCacheHits": "columns of large checkpoints that were found in the cache on disk",
    "columnCacheMisses": "columns of large checkpoints that were not, and had to be read",
    "columnCacheBytes": "bytes of the cache on disk, when this process last wrote to it",
}
LEVELS = frozenset({"cachedTables", "cachedFiles", "cachedBytes", "columnCacheBytes"})

_lock = Lock()
_counted: Counter[str] = Counter(dict.fromkeys(MEANINGS.keys() - LEVELS, 0))
_levels: dict[str, int] = {}


def count(name: str, number: int = 1) -> None:
    """Add to a count."""
    with _lock:
        _counted[name] += number


def level(name: str, number: int) -> None:
    """Set a level."""
    with _lock:
        _levels[name] = number


def take() -> dict[str, dict[str, int]] | None:
    """The counts and levels since the last call; None if nothing was counted."""
    if not _counted and not _levels:
        return None
    with _lock:
        taken = {"counts": dict(_counted), "levels": dict(_levels)}
        _counted.clear()
        _levels.clear()
    return taken
