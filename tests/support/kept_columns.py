"""A process that reads a table's log with a cache of columns on disk, and shows all that it finds.

``python -m support.kept_columns TABLE DIRECTORY MOST_BYTES UNTIL`` opens the table again and again until that time, and
three times at least. The answer is JSON: hits and misses of the cache, and the different texts of :func:`shown`.
"""

from __future__ import annotations

import json
import sys
import time

from headwater.basics import counts
from headwater.log import checkpoint_reading, column_cache
from headwater.log.snapshot import Snapshot, load_snapshot
from headwater.pruning import prune
from headwater.stores import LocalStore
from support.predicate_text import parse_predicate

COLUMNS = {
    "i": "long",
    "j": "long",
    "d": "double",
    "s": "string",
    "t": "timestamp",
    "n": "decimal(25,3)",
    "day": "date",
    "flag": "boolean",
    "never": "integer",
    "p": "integer",
}
LEAVES = [(name,) for name in COLUMNS if name != "p"]
PREDICATES = ["(`i` > 500)", "(`s` = 'm')", "(`p` = 1)", "(`i` < 300)", "(`d` > 0.5)"]


def counted() -> tuple[int, int]:
    """Hits and misses since this was last asked."""
    found = (counts.take() or {}).get("counts", {})
    return found.get("columnCacheHits", 0), found.get("columnCacheMisses", 0)


def shown(snapshot: Snapshot) -> str:
    """All that a snapshot says of its files, as text."""
    partitions = snapshot.partition_values("p")
    return repr(
        [
            # A typed pipeline first, then what reads the texts.
            snapshot.statistics(LEAVES).to_pylist(),
            snapshot.files.to_pylist(),
            snapshot.files.schema,
            partitions.to_pylist(),
            [prune(snapshot, parse_predicate(text, "UTC")).to_pylist() for text in PREDICATES],
            sorted(map(repr, snapshot.tombstones().to_pylist())),
            (snapshot.num_files, snapshot.size_in_bytes, snapshot.has_deletion_vectors),
        ]
    )


def keep_columns_in(directory: str, most_bytes: str = "") -> None:
    """Keep the columns of checkpoints of any size."""
    checkpoint_reading._KEPT_BYTES = column_cache.FEWEST_BYTES = 0
    column_cache.configure({"directory": directory, "maxBytes": most_bytes})


def main(table: str, directory: str, most_bytes: str, until: str) -> None:
    keep_columns_in(directory, most_bytes)
    hits = misses = rounds = 0
    found: set[str] = set()
    while rounds < 3 or time.time() < float(until):
        found.add(shown(load_snapshot(table, LocalStore())))
        seen = counted()
        hits, misses, rounds = hits + seen[0], misses + seen[1], rounds + 1
    print(json.dumps([hits, misses, sorted(found)]))


if __name__ == "__main__":
    main(*sys.argv[1:])
