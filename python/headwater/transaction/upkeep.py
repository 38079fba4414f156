"""Upkeep: what follows a commit and makes the next reading cheap.

Owns when the checksum of a version and a checkpoint are written: after the commit was acknowledged, in threads of the
process's own, one at a time for a table. Follows the protocol's chapters "Checkpoints" and "Version Checksum File".
Promise: nothing here fails a commit or holds one up; a failure is a line in the log. A table that commits faster than
upkeep can follow skips checksums, which are optional, and older checkpoints, which a newer one makes useless.
"""

from __future__ import annotations

import logging
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import cache
from threading import Lock

from headwater.log.checkpoint_writing import write_checkpoint
from headwater.log.checksums import write_checksum
from headwater.log.snapshot import Snapshot

_LOG = logging.getLogger(__name__)
_DEFAULT_INTERVAL = 10
_MOST_PENDING = 16


@dataclass
class _Pending:
    """What is still to do for one table."""

    checksums: deque[tuple[Snapshot, str]] = field(default_factory=lambda: deque(maxlen=_MOST_PENDING))
    checkpoint: Snapshot | None = None


_lock = Lock()
_pending: dict[str, _Pending] = {}
_running: set[Future[None]] = set()


def schedule(snapshot: Snapshot, transaction_id: str) -> None:
    """Have the checksum of a version just committed written, and a checkpoint where one is due."""
    try:
        with _lock:
            idle = snapshot.table_path not in _pending
            pending = _pending.setdefault(snapshot.table_path, _Pending())
            pending.checksums.append((snapshot, transaction_id))
            if checkpoint_is_due(snapshot):
                pending.checkpoint = snapshot
            if idle:
                future = _workers().submit(_drain, snapshot.table_path)
                _running.add(future)
                future.add_done_callback(_running.discard)
    except RuntimeError:  # the interpreter is shutting down
        _pending.pop(snapshot.table_path, None)
        _LOG.warning("no checksum or checkpoint of %s at version %d", snapshot.table_path, snapshot.version)


def checkpoint_is_due(snapshot: Snapshot) -> bool:
    """Whether the table's ``delta.checkpointInterval`` asks for a checkpoint of this version."""
    text = snapshot.metadata.configuration.get("delta.checkpointInterval", "")
    interval = int(text) if text.isdecimal() and int(text) > 0 else _DEFAULT_INTERVAL
    return snapshot.version > 0 and snapshot.version % interval == 0


def wait_for_upkeep(timeout: float | None = None) -> bool:
    """Wait until all that was scheduled is done; False where ``timeout`` seconds were not enough."""
    return not wait(tuple(_running), timeout).not_done


def _drain(table_path: str) -> None:
    """Do a table's upkeep until there is none."""
    while True:
        with _lock:
            pending = _pending[table_path]
            if pending.checksums:
                checksum, checkpoint = pending.checksums.popleft(), None
            elif pending.checkpoint is not None:
                checksum, checkpoint, pending.checkpoint = None, pending.checkpoint, None
            else:
                del _pending[table_path]
                return
        try:
            if checksum is not None:
                write_checksum(*checksum)
            if checkpoint is not None:
                write_checkpoint(checkpoint)
        except Exception as error:
            what = "checksum" if checksum is not None else "checkpoint"
            _LOG.warning("%s: the %s could not be written (%s); the commit stands", table_path, what, error)
            _LOG.debug("upkeep", exc_info=True)


@cache
def _workers() -> ThreadPoolExecutor:
    """The threads; an interpreter that ends in the normal way waits until they have done what was scheduled."""
    return ThreadPoolExecutor(2, "headwater-upkeep")
