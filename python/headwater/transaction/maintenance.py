"""Post-commit maintenance: checksum, checkpoint, log compaction, log cleanup and Iceberg metadata; and other work that
can wait.

Owns when each of them runs: after the commit was acknowledged, in threads of this process, one task at a time for each
table. Follows the protocol's chapters "Checkpoints", "Version Checksum File", "Log Compaction Files" and "Metadata
Cleanup".

Promises: maintenance never fails a commit and never delays one; a failure is a warning in the log. Where a table
commits faster than maintenance can follow, checksums (which are optional) and older checkpoints (which a newer one
replaces) are skipped, and Iceberg metadata (:mod:`headwater.iceberg.conversion`) goes straight to the newest version. A
table that was dropped and re-created at the same path meanwhile, or that another took the name of, gets no file of the
old table, which its readers would take for its own (:func:`~headwater.transaction.same_table.writing_to_same_table`).
Of a table that a catalog manages, a version gets a checkpoint or a compacted log only once it is
published, and the log is not cleaned up.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import cache, partial
from threading import Lock
from typing import NamedTuple

from headwater.basics import clock, counts
from headwater.basics.recent import Recent
from headwater.catalogs.log_view import is_published
from headwater.iceberg import registration, standing
from headwater.iceberg.conversion import convert
from headwater.log.checkpoint_writing import Layout, write_checkpoint
from headwater.log.checksums import write_checksum
from headwater.log.cleanup import clean_up, retention_start
from headwater.log.log_compaction import compaction_is_due, write_compaction
from headwater.log.snapshot import Snapshot
from headwater.protocol import properties
from headwater.schema.iceberg import is_converted
from headwater.transaction.same_table import writing_to_same_table

_LOG = logging.getLogger(__name__)
_CHECKSUM = "checksum"
#: Commits between two checkpoints where ``delta.checkpointInterval`` is not set or not valid.
_DEFAULT_INTERVAL = int(properties.CHECKPOINT_INTERVAL.of({}) or 0)
#: Checksums that may wait for one table; each holds a snapshot. The oldest is skipped.
_MOST_PENDING = 16
#: Seconds that a statement waits for Iceberg metadata, where its session asks for that.
_LONGEST_CONVERSION_SECONDS = 300
#: Seconds that it then waits for a catalog, which may be one that never answers.
_LONGEST_REGISTRATION_SECONDS = 30


@dataclass
class _Pending:
    """The maintenance that waits for one table."""

    checksums: deque[tuple[Snapshot, str]] = field(default_factory=lambda: deque(maxlen=_MOST_PENDING))
    checkpoint: Snapshot | None = None
    compaction: Snapshot | None = None
    layout: Layout | None = None
    iceberg: Snapshot | None = None
    #: The thread that is at it.
    at_work: Future[None] | None = None

    def next_task(self) -> _Task | None:
        """The next task; None if nothing waits."""
        if self.checksums:
            snapshot, transaction_id = self.checksums.popleft()
            return _Task(_CHECKSUM, snapshot, partial(_checksum, transaction_id=transaction_id))
        if self.checkpoint is not None:
            snapshot, self.checkpoint = self.checkpoint, None
            return _Task("checkpoint", snapshot, partial(checkpoint, layout=self.layout))
        if self.compaction is not None:
            snapshot, self.compaction = self.compaction, None
            return _Task("compacted log", snapshot, write_compaction)
        if self.iceberg is not None:
            snapshot, self.iceberg = self.iceberg, None
            return _Task("Iceberg metadata", snapshot, _convert)
        return None


class _Task(NamedTuple):
    """One file of a snapshot to write; ``what`` names it in the log."""

    what: str
    snapshot: Snapshot
    do: Callable[[Snapshot], object]


_lock = Lock()
_pending: dict[str, _Pending] = {}
_running: set[Future[None]] = set()
#: By table, the thread that was last at its maintenance, where that includes Iceberg metadata.
_converting: Recent[str, Future[None]] = Recent()
#: By table, the start of the retention to which this process has cleaned up the log.
_cleaned: Recent[str, int] = Recent()


def schedule(snapshot: Snapshot, transaction_id: str, layout: Layout | None = None) -> None:
    """Schedule the checksum of a version just committed, and a checkpoint or log compaction where one is due."""
    try:
        with _lock:
            idle = snapshot.table_path not in _pending
            pending = _pending.setdefault(snapshot.table_path, _Pending())
            pending.checksums.append((snapshot, transaction_id))
            if checkpoint_is_due(snapshot):
                pending.checkpoint, pending.layout = snapshot, layout
            elif compaction_is_due(snapshot, _interval(snapshot)):
                pending.compaction = snapshot
            if idle:
                pending.at_work = _workers().submit(_drain, snapshot.table_path)
                _running.add(pending.at_work)
                pending.at_work.add_done_callback(_running.discard)
            if is_converted(snapshot.definition) and pending.at_work is not None:
                pending.iceberg = snapshot
                _converting[snapshot.table_path] = pending.at_work
    except RuntimeError:  # the interpreter is shutting down
        _pending.pop(snapshot.table_path, None)
        _LOG.warning("no checksum or checkpoint of %s at version %d", snapshot.table_path, snapshot.version)


def later(what: str, do: Callable[[], object]) -> None:
    """Have something done in the background that no commit depends on; ``what`` names it in the log."""
    try:
        future = _workers().submit(_quietly, what, do)
    except RuntimeError:  # the interpreter is shutting down
        _LOG.warning("%s was not done", what)
        return
    _running.add(future)
    future.add_done_callback(_running.discard)


def _quietly(what: str, do: Callable[[], object]) -> None:
    try:
        do()
    except Exception as error:
        counts.count("maintenanceFailures")
        _LOG.warning("%s failed: %s", what, error)


def checkpoint_is_due(snapshot: Snapshot) -> bool:
    """Whether the table's ``delta.checkpointInterval`` asks for a checkpoint of this version."""
    return snapshot.version > 0 and snapshot.version % _interval(snapshot) == 0


def _interval(snapshot: Snapshot) -> int:
    text = properties.CHECKPOINT_INTERVAL.text(snapshot.metadata.configuration) or ""
    return int(text) if text.isdecimal() and int(text) > 0 else _DEFAULT_INTERVAL


def wait_for_maintenance(timeout: float | None = None) -> bool:
    """Wait until all scheduled maintenance has ended, and catalogs of Iceberg have what it wrote; False where
    ``timeout`` seconds were not enough.
    """
    began = time.monotonic()
    if wait(tuple(_running), timeout).not_done:
        return False
    return registration.wait(None if timeout is None else max(timeout - (time.monotonic() - began), 0))


def wait_for_iceberg(table_path: str) -> None:
    """Wait until the Iceberg metadata of a table's last commit here is written and in the catalog, or could not be; at
    most :data:`_LONGEST_CONVERSION_SECONDS`, and :data:`_LONGEST_REGISTRATION_SECONDS` for the catalog.
    """
    with _lock:
        future = _converting.pop(table_path, None)
    if future is not None:
        wait((future,), _LONGEST_CONVERSION_SECONDS)
        registration.wait(_LONGEST_REGISTRATION_SECONDS, table_path)


def _drain(table_path: str) -> None:
    """Run the tasks of a table until none waits."""
    while True:
        with _lock:
            task = _pending[table_path].next_task()
            if task is None:
                del _pending[table_path]
                return
        try:
            if task.what == _CHECKSUM or is_published(task.snapshot):
                task.do(writing_to_same_table(task.snapshot))
            else:
                _LOG.info(
                    "%s: no %s of version %d, which is not published", table_path, task.what, task.snapshot.version
                )
        except Exception as error:
            counts.count("maintenanceFailures")
            _LOG.warning("%s: the %s could not be written (%s); the commit stands", table_path, task.what, error)
            _LOG.debug("post-commit maintenance", exc_info=True)


def _checksum(snapshot: Snapshot, transaction_id: str) -> None:
    write_checksum(snapshot.table_path, snapshot.store, snapshot.version, snapshot.checksum(transaction_id))


def _convert(snapshot: Snapshot) -> None:
    try:
        convert(snapshot)
    except Exception as error:
        counts.count("icebergConversionFailures")
        standing.note(snapshot, error)
        raise
    standing.note(snapshot, None)
    counts.count("icebergConversions")
    registration.schedule(snapshot)


def checkpoint(snapshot: Snapshot, layout: Layout | None) -> None:
    """Write a checkpoint, and clean up the log once for each start of its retention (a day).

    :param snapshot: as :func:`~headwater.transaction.same_table.writing_to_same_table` gives it; of a version that is
        published.
    """
    write_checkpoint(snapshot, layout=layout)
    counts.count("checkpoints")
    start = retention_start(snapshot, clock.milliseconds())
    if start is None or _cleaned.get(snapshot.table_path, start - 1) >= start:
        return
    try:
        clean_up(snapshot)
    except Exception as error:
        _LOG.warning("%s: the log could not be cleaned up (%s); nothing is lost", snapshot.table_path, error)
        _LOG.debug("post-commit maintenance", exc_info=True)
    else:
        _cleaned[snapshot.table_path] = start


@cache
def _workers() -> ThreadPoolExecutor:
    """The threads. An interpreter that exits normally waits until they have done all scheduled tasks."""
    return ThreadPoolExecutor(2, "headwater-maintenance")
