"""Which columns a table would best be clustered by, from the predicates that queries used.

Owns the rule. Promise: it follows from the counts (:mod:`headwater.statements.maintenance.predicate_use`) and the log
alone.

*The rule.* A column's weight is the bytes that scans with a filter on it still read after pruning: what a better layout
could save. Ranges count half, and so do the keys of joins, as they select more rows. The columns with at least
:data:`_LEAST_SHARE` of the bytes of all counted scans are proposed, the heaviest first, at most as many as the protocol
allows. A column that the files are laid out by already leaves few bytes to read, and so loses its weight: hence columns
that the table is clustered by stay in the proposal while queries use them, and a new one has to be worth more than all
of them to start a rewrite.
"""

from __future__ import annotations

from dataclasses import dataclass

from headwater.basics.amounts import plural, size_text
from headwater.basics.errors import HeadwaterError
from headwater.log.snapshot import Snapshot
from headwater.protocol.columns import Path, format_name
from headwater.schema import mapping
from headwater.schema.clustering import MOST_COLUMNS, check_clustering_columns
from headwater.statements.maintenance.curves import files_of
from headwater.statements.maintenance.predicate_use import EQUAL, JOIN, RANGE, Uses

# Chosen, not measured.
_LEAST_SCANS, _LEAST_SHARE, _LEAST_FILES = 20, 0.1, 8
_WEIGHTS = {EQUAL: 1.0, RANGE: 0.5, JOIN: 0.5}
#: The part of the table's bytes that counted scans have to read on average: below it, pruning does well.
_LEAST_READ = 0.2


@dataclass(frozen=True)
class Proposal:
    """Columns to cluster by.

    :param columns: their logical paths, the best first.
    :param share: the part of the table's bytes that scans read which filter by them.
    """

    columns: tuple[Path, ...]
    share: float
    reason: str

    def statement(self, table: str) -> str:
        """The statement that does it."""
        return f"ALTER TABLE {table} CLUSTER BY ({', '.join(map(format_name, self.columns))})"


def propose(snapshot: Snapshot, uses: Uses, max_file_size: int) -> Proposal | None:
    """The clustering that a table would gain by; None if the counts are too few, or it would gain little.

    :param max_file_size: bytes of the files that OPTIMIZE writes.
    """
    if uses.scans < _LEAST_SCANS or files_of(snapshot.size_in_bytes, max_file_size) < _LEAST_FILES:
        return None
    weights = {
        path: weight
        for path, weight in _weights(snapshot, uses).items()
        if weight >= _LEAST_SHARE * uses.bytes_read and _is_possible(snapshot, path)
    }
    current = [tuple(path) for path in snapshot.clustering_columns or ()]
    new = [path for path in weights if path not in current]
    known = sum(weights.get(path, 0.0) for path in current)
    if not new or max(weights[path] for path in new) <= known:
        return None
    kept = [path for path in current if path in weights]
    columns = tuple(sorted((*new, *kept), key=lambda path: (-weights[path], path))[:MOST_COLUMNS])
    scans = max(sum(_counts(snapshot, uses, path)) for path in columns)
    average = uses.bytes_read / uses.scans
    share = min(1.0, average / max(snapshot.size_in_bytes, 1))
    if share < _LEAST_READ:
        return None
    names = ", ".join(map(format_name, columns))
    text = (
        f"{scans:,} of {plural(uses.scans, 'counted scan')} filter by {names}, and scans read {size_text(int(average))}"
    )
    return Proposal(columns, share, f"{text} of {size_text(snapshot.size_in_bytes)} on average")


def _weights(snapshot: Snapshot, uses: Uses) -> dict[Path, float]:
    """Bytes by logical path, for columns that the table still has."""
    found = {}
    for path, counted in uses.columns.items():
        scans = sum(counted[kind] for kind in _WEIGHTS)
        logical = mapping.logical_path(snapshot.schema, path)
        if logical is not None and scans:
            selective = sum(counted[kind] * weight for kind, weight in _WEIGHTS.items()) / scans
            found[tuple(logical)] = counted["bytes"] * selective
    return found


def _counts(snapshot: Snapshot, uses: Uses, path: Path) -> tuple[int, ...]:
    counted = uses.columns[mapping.physical_path(snapshot.schema, path)]
    return tuple(counted[kind] for kind in _WEIGHTS)


def _is_possible(snapshot: Snapshot, path: Path) -> bool:
    """Whether a table can be clustered by a column."""
    try:
        check_clustering_columns(snapshot.schema, (), snapshot.metadata.configuration, [path])
    except HeadwaterError:
        return False
    return True
