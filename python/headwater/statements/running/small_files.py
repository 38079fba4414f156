"""When a table's small files are due to be compacted after a commit (auto-compaction).

Owns who asks for it: the session, then the table properties ``delta.autoOptimize`` and
``delta.autoOptimize.autoCompact``, the first that says something. Owns how many small files of a partition make it due,
and which partitions are. Promises: asking reads the snapshot that is there already, and never fails a commit.

*Who decides.* The handler, after a commit that added rows. It notes the partitions and calls ``compactLater``, which
returns at once: the statement's answer does not wait, where Delta Lake's own connector compacts in the statement's
thread. An error up to here is a warning in the log.

*Where it runs.* It needs Spark's jobs, which post-commit maintenance does not have. So it runs on one of two daemon
threads of the JVM (``AutoCompactions``), with a clone of the session that committed, made at the commit, as the same
user. It makes a call of its own, ``auto_compact``, which is an OPTIMIZE of those partitions; the handler's calls back
run on that thread. One runs for a table at a time; commits meanwhile make it run once more.

*Beside other writers.* It is a compaction like any other: marks follow the rows. If it loses a race, it tries again; in
the end it fails with a warning, the table is as it was, and a later commit makes it due again.

*How it ends.* Its jobs have the job group ``headwater auto-compaction``, by which an application can cancel them, and
end with the SparkContext. An application that ends without ``spark.stop()``, and ``spark-sql``, wait up to 30 s for
those that run or wait their turn, in a shutdown hook before Spark's own. ``spark.stop()`` cannot wait, since Spark
refuses jobs from its first moment on: a compaction that runs, or is due, ends with a line in the log, its files are
deleted, and the next commit makes it due again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from threading import Lock
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from headwater.bridge.statement import Statement
from headwater.catalogs.interface import Maintenance
from headwater.catalogs.log_view import is_allowed
from headwater.key_index import segments
from headwater.key_index.definition import declared, indexes
from headwater.log.snapshot import Snapshot
from headwater.protocol import properties
from headwater.protocol.partition_values import texts_of
from headwater.protocol.table_definition import TableDefinition
from headwater.statements.settings import (
    AUTO,
    AUTO_COMPACT,
    AUTO_COMPACT_FILES,
    AUTO_COMPACT_MAX_SIZE,
    AUTO_COMPACT_MIN_SIZE,
    file_size,
)
from headwater.transaction.same_table import writing_to_same_table
from headwater.transaction.transaction import Committed

_LOG = logging.getLogger(__name__)

#: A partition: its physical columns and the texts of their values, in the order of the names.
Partition = tuple[tuple[str, str | None], ...]

_lock = Lock()
#: The partitions that wait for a compaction, by the path and the id of their table.
_due: dict[str, dict[str, set[Partition]]] = {}


class Limits(NamedTuple):
    """Sizes in bytes: a smaller file than ``min_size`` is small, and compaction makes none above ``max_size``."""

    min_files: int
    min_size: int
    max_size: int

    @staticmethod
    def of(statement: Statement, definition: TableDefinition) -> Limits:
        """:raises HeadwaterError: ``DELTA_ILLEGAL_OPTION``."""
        max_size = file_size(AUTO_COMPACT_MAX_SIZE, statement, definition)
        min_size = AUTO_COMPACT_MIN_SIZE.of(statement)
        return Limits(
            max(2, AUTO_COMPACT_FILES.of(statement)),
            max_size // 2 if min_size is None else min_size,
            max_size,
        )


def is_enabled(statement: Statement, definition: TableDefinition) -> bool:
    """Whether the session or the table asks for it."""
    said = AUTO_COMPACT.of(statement)
    if said is not None:
        return said
    if definition.get(properties.AUTO_OPTIMIZE):
        return True
    return definition.get(properties.AUTO_COMPACT) in AUTO


def partition_of(values: Mapping[str, str | None] | Iterable[tuple[str, str | None]] | None) -> Partition:
    """The partition of a file, by its partition values."""
    return tuple(sorted((name, text or None) for name, text in dict(values or ()).items()))


def of_partitions(snapshot: Snapshot, limits: Limits, partitions: Iterable[Partition]) -> list[pa.Array]:
    """For each of the partitions that have enough small files, which files of the version these are, as a mask."""
    light = snapshot.select(["size", "partition_values"])
    small = pc.less(light["size"], limits.min_size).combine_chunks()
    if (pc.sum(small).as_py() or 0) < limits.min_files:
        return []
    names = [snapshot.partition_field(name).physical_name for name in snapshot.partition_columns]
    values = {name: texts_of(light["partition_values"], name).combine_chunks() for name in names}
    found = []
    for partition in partitions:
        mask = small
        for name, value in partition:
            if name in values:
                same = pc.is_null(values[name]) if value is None else pc.fill_null(pc.equal(values[name], value), False)
                mask = pc.and_(mask, same)
        if (pc.sum(mask).as_py() or 0) >= limits.min_files:
            found.append(mask)
    return found


def compact_if_due(statement: Statement, table_path: str, committed: Committed, written: Iterable[Partition]) -> None:
    """Have a table compacted in the background if a commit that added rows left too many small files. Raises nothing:
    the commit stands.

    :param written: the partitions that the commit added files to.
    """
    partitions = set(written)
    if not partitions:
        return
    try:
        snapshot = committed.snapshot
        if not is_enabled(statement, snapshot.definition) or snapshot.clustering_columns:
            return
        if not of_partitions(snapshot, Limits.of(statement, snapshot.definition), partitions):
            return
        if not is_allowed(snapshot, Maintenance.DATA_REORGANIZATION):
            return
        with _lock:
            _due.setdefault(snapshot.table_path, {}).setdefault(snapshot.metadata.id, set()).update(partitions)
        statement.compact_later(snapshot.table_path)
    except Exception as error:
        _LOG.warning("%s: auto-compaction could not begin (%s); the commit stands", table_path, error)
        _LOG.debug("auto-compaction", exc_info=True)


def index_if_due(statement: Statement, table_path: str, committed: Committed) -> None:
    """Have the key indexes of a table built in the background, by the same call, after a commit that added files.
    Raises nothing: the commit stands.
    """
    try:
        if indexes(committed.snapshot.definition):
            statement.compact_later(committed.snapshot.table_path)
    except Exception as error:
        _LOG.warning("%s: its indexes could not be built (%s); the commit stands", table_path, error)
        _LOG.debug("key indexes", exc_info=True)


def delete_ended_indexes(before: Snapshot | None, committed: Committed) -> None:
    """Delete the files of the indexes that a table no longer has after a commit, whatever ended them. Raises nothing:
    what stays is of no use.
    """
    try:
        had = set() if before is None else {each.name for each in declared(before.definition)}
        if had:
            now = writing_to_same_table(committed.snapshot)
            for name in had - {each.name for each in declared(now.definition)}:
                segments.delete_index(now, name)
    except Exception as error:
        _LOG.warning("files of indexes that ended stay (%s); the commit stands", error)


def take_due(table_path: str) -> Mapping[str, set[Partition]]:
    """The partitions at a path that wait for a compaction, by the id of their table; from here on they do not."""
    with _lock:
        return _due.pop(table_path, {})
