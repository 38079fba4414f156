"""Whether the writer of a group is still working, as other processes see it before they abort the group.

Owns the groups that writers of this process are at work on, and the *sign of life* by which other processes see the
same: a file in the coordinator's log that changes as long as the writer works. It exists only if the writer takes long.
"""

from __future__ import annotations

import contextlib
import json
import logging
import time
from collections.abc import Iterator
from threading import Lock, Timer

from headwater.basics.recent import Recent
from headwater.log import groups
from headwater.log.groups import Group
from headwater.protocol.file_names import log_directory
from headwater.stores import Store

_LOG = logging.getLogger(__name__)
#: Seconds between a writer's signs of life, and those after which it gives no more: a writer that takes so long hangs.
_BETWEEN_SIGNS, _LONGEST_WORK = groups.PATIENCE / 4, 300.0
#: Groups that could not be finished: when each was first seen or its sign of life last changed, by the monotonic clock,
#: and that sign.
_seen: Recent[str, tuple[float, bytes | None]] = Recent()


class AtWork:
    """The groups that writers of this process are at work on."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def __contains__(self, group_id: str) -> bool:
        return time.monotonic() < self._until.get(group_id, 0.0)

    @contextlib.contextmanager
    def on(self, store: Store, group: Group) -> Iterator[None]:
        """Within it, the writer works on a group, and nobody else gives the group up."""
        self._until[group.id] = time.monotonic() + _LONGEST_WORK
        signs = _Signs(store, group)
        try:
            yield
        finally:
            del self._until[group.id]
            signs.end()


AT_WORK = AtWork()


class _Signs:
    """Gives signs of life for other processes, in a thread of its own, so that a slow commit does not delay them."""

    def __init__(self, store: Store, group: Group) -> None:
        self._store, self._group, self._given = store, group, 0
        self._ended = False
        self._lock = Lock()
        self._wait()

    def _wait(self) -> None:
        self._timer = Timer(_BETWEEN_SIGNS, self._give)
        self._timer.daemon = True
        with contextlib.suppress(RuntimeError):  # the interpreter is shutting down: no new threads can start
            self._timer.start()

    def _give(self) -> None:
        with self._lock:
            if self._ended or self._group.id not in AT_WORK:
                return
            self._given += 1
            path = _sign_path(self._group)
            try:
                self._store.make_directory(path.rpartition("/")[0])
                self._store.put(path, json.dumps({"signs": self._given}).encode())
            except Exception as error:
                _LOG.debug("%s: no sign of life: %s", path, error)
            self._wait()

    def end(self) -> None:
        self._timer.cancel()
        with self._lock:
            self._ended = True
            self._timer.cancel()
            if self._given:
                with contextlib.suppress(Exception):
                    self._store.delete(_sign_path(self._group))


def is_at_work(store: Store, record: Group) -> bool:
    """Whether the writer of a group that cannot be finished may be about to do so itself."""
    if record.id in AT_WORK:
        return True
    now = time.monotonic()
    if record.id in _seen and now - _seen[record.id][0] < groups.PATIENCE:
        return True
    sign = groups.read_if_there(store, _sign_path(record))
    since, known = _seen.setdefault(record.id, (now, sign))
    if sign is not None and sign != known:
        _seen[record.id] = now, sign
        return True
    return now - since < groups.PATIENCE


def _sign_path(group: Group) -> str:
    return f"{log_directory(group.coordinator)}/{groups.DIRECTORY}/{group.id}.alive.json"
