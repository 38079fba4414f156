"""Which hooks are called for a commit, before it is made and after.

Owns the two moments. *Before*, once the commit is validated and before its first attempt: a hook may refuse it
(:class:`~headwater.hooks.Veto`). *After*, in a thread of this process: each version from the one at which the hook was
first known is shown in order, including the versions of other writers.

A hook sees the commits to a table if the table's property ``headwater.hooks`` names it, or the setting
``spark.headwater.hooks`` of the session does. What is named must be there: a commit to a table that asks for a check
is not made without it.

Promises. A hook delays a commit by its deadline at most, and breaks none: what it raises beside a veto, and a deadline
that it misses, are warnings in the log, and the commit goes on. After the commit, each version is shown at least once:
which was shown last is in ``_headwater/hooks/<name>.json`` of the table, written before the first commit and after each
version, so whoever commits next shows what a process that died did not. A version is shown again until the function
returns; after :data:`TRIES` it waits for the next commit. Versions that are no longer in the log are not shown, with a
warning.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from headwater.basics import backoff
from headwater.basics.errors import HeadwaterError
from headwater.basics.recent import Recent
from headwater.bridge.statement import Statement
from headwater.hooks import PREFIX, Commit, Hook, Veto, configured, load
from headwater.log.commits import commit_info_of
from headwater.log.history import CommitEntry, history
from headwater.log.snapshot import Snapshot
from headwater.protocol.file_names import CommitName, commit_name, log_directory, parse_name, version_prefix
from headwater.statements.settings import HOOKS, HOOKS_DEADLINE
from headwater.stores import Store
from headwater.transaction import Transaction
from headwater.transaction.prepared import PreparedCommit
from headwater.transaction.transaction import Committed

_LOG = logging.getLogger(__name__)
#: The table property that names the hooks of a table's commits, separated by commas.
PROPERTY = "headwater.hooks"
#: How often a version is shown to a hook that fails.
TRIES = 4


#: The threads of hooks that have missed a deadline, by the reference of the function.
_late: dict[str, threading.Thread] = {}


class _Look:
    """One look of a hook at a commit that is not made yet, and what came of it."""

    def __init__(self, reference: str, commit: Commit) -> None:
        self._reference = reference
        self._commit = commit
        self.reason: str | None = None
        self.failure: BaseException | None = None
        self.not_loaded: BaseException | None = None

    def run(self) -> None:
        try:
            function = load(self._reference)
        except BaseException as error:  # SystemExit too: a hook ends nothing but itself
            self.not_loaded = error
            return
        try:
            function(self._commit)
        except Veto as veto:
            self.reason = str(veto)
        except BaseException as error:
            self.failure = error


class Hooks:
    """The hooks of one commit.

    :raises HeadwaterError: ``HEADWATER_COMMIT_HOOK_NOT_USABLE`` if one is named that this Spark has not.
    """

    def __init__(self, txn: Transaction, statement: Statement) -> None:
        named = _names(HOOKS.of(statement)) | _names(txn.metadata.configuration.get(PROPERTY))
        self._txn = txn
        self._hooks = [_hook(name, txn) for name in named]
        self._deadline = HOOKS_DEADLINE.of(statement) if self._hooks else 0.0

    def __bool__(self) -> bool:
        return bool(self._hooks)

    def review(self, prepared: PreparedCommit) -> None:
        """Show a commit that is not made yet.

        :raises HeadwaterError: ``HEADWATER_COMMIT_REFUSED`` if a hook refuses it;
            ``HEADWATER_COMMIT_HOOK_NOT_USABLE`` if its function cannot be loaded.
        """
        said = prepared.provenance
        commit = Commit(
            self._txn.table_path,
            None,
            said.operation,
            said.parameters,
            _numbers(said.metrics),
            user_metadata=said.user_metadata,
            _actions=lambda: _objects(prepared.action_lines()),
            _history=self._before,
        )
        for hook in self._hooks:
            if hook.before is not None:
                self._ask(hook, hook.before, commit)
        if self._txn.snapshot is not None:
            for hook in self._hooks:
                if hook.after is not None:
                    _begin(hook, self._txn.store, self._txn.snapshot, self._txn.snapshot.version)

    def tell(self, committed: Committed) -> None:
        """Show a version that was made, and those before it that were not shown yet, in the background."""
        after = [hook for hook in self._hooks if hook.after is not None]
        if not after:
            return
        try:
            first = committed.version if self._txn.snapshot is None else self._txn.snapshot.version + 1
            for hook in after:
                if self._txn.snapshot is None:  # before the next commit does, which would begin after this one
                    _begin(hook, self._txn.store, committed.snapshot, first - 1)
                _lane(hook).show(_Shown(committed.snapshot, first))
        except Exception as error:  # the commit stands
            _LOG.warning("%s: the hooks hear of version %d later (%s)", self._txn.table_path, committed.version, error)

    def _ask(self, hook: Hook, reference: str, commit: Commit) -> None:
        """Show a commit to a hook that may refuse it."""
        if (earlier := _late.get(reference)) is not None and earlier.is_alive():
            _LOG.warning(
                "%s: the hook %s is still busy with an earlier commit; this one continues", commit.table, hook.name
            )
            return
        look = _Look(reference, commit)
        thread = threading.Thread(target=look.run, name=f"headwater-hook-{hook.name}", daemon=True)
        thread.start()
        thread.join(self._deadline)
        if thread.is_alive():
            _late[reference] = thread
            text = "%s: the hook %s took longer than %g s; the commit continues"
            _LOG.warning(text, commit.table, hook.name, self._deadline)
        elif look.reason is not None:
            raise HeadwaterError(
                "HEADWATER_COMMIT_REFUSED",
                {
                    "operation": commit.operation,
                    "tableLocation": commit.table,
                    "hook": hook.name,
                    "reason": look.reason or "it gives none",
                },
            )
        elif look.not_loaded is not None:
            raise _not_usable(hook.name, self._txn, f"{reference}: {_in_words(look.not_loaded)}")
        elif look.failure is not None:
            text = "%s: the hook %s failed (%s); the commit continues"
            _LOG.warning(text, commit.table, hook.name, _in_words(look.failure))
            _LOG.debug("a hook", exc_info=look.failure)

    def _before(self, limit: int) -> Sequence[Commit]:
        snapshot = self._txn.snapshot
        return () if snapshot is None else _history(snapshot, snapshot.version + 1, limit)


def _names(text: str | None) -> dict[str, None]:
    return {name: None for each in (text or "").split(",") if (name := each.strip())}


def _hook(name: str, txn: Transaction) -> Hook:
    hook = configured(name)
    if hook is None:
        raise _not_usable(name, txn, f"no setting {PREFIX}{name}.before or .after was there when Spark started")
    return hook


def _not_usable(name: str, txn: Transaction, reason: str) -> HeadwaterError:
    table = txn.metadata.name or txn.table_path
    return HeadwaterError("HEADWATER_COMMIT_HOOK_NOT_USABLE", {"hook": name, "tableName": table, "reason": reason})


def _in_words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


# After a commit

#: The hooks, and the tables' paths and ids, for which it is noted where they are.
_noted: Recent[tuple[str, str, str], None] = Recent()
_lanes: dict[Hook, _Lane] = {}
_lock = threading.Lock()


@dataclass(frozen=True)
class _Shown:
    """A version to show.

    :param first: the first version to show to a hook that is new to the table.
    """

    snapshot: Snapshot
    first: int


class _Lane:
    """The commits that one hook is yet to be shown, by one thread that lives as long as there are any."""

    def __init__(self, hook: Hook) -> None:
        self._hook = hook
        self._waiting: dict[str, _Shown] = {}
        self._thread: threading.Thread | None = None

    def show(self, shown: _Shown) -> None:
        with _lock:
            table = shown.snapshot.table_path
            earlier = self._waiting.get(table)
            self._waiting[table] = shown if earlier is None else _Shown(shown.snapshot, earlier.first)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=f"headwater-hook-{self._hook.name}", daemon=True)
                self._thread.start()

    def wait(self, seconds: float) -> bool:
        """Whether it has shown everything within the time."""
        thread = self._thread
        if thread is not None:
            thread.join(max(0.0, seconds))
        return thread is None or not thread.is_alive()

    def _run(self) -> None:
        while True:
            with _lock:
                if not self._waiting:
                    self._thread = None
                    return
                shown = self._waiting.pop(next(iter(self._waiting)))
            try:
                _show(self._hook, shown)
            except Exception as error:
                _LOG.warning(
                    "%s: the hook %s failed at what led to version %d (%s); it is shown again after the next commit",
                    shown.snapshot.table_path,
                    self._hook.name,
                    shown.snapshot.version,
                    _in_words(error),
                )
                _LOG.debug("a hook", exc_info=True)


def _lane(hook: Hook) -> _Lane:
    with _lock:
        return _lanes.setdefault(hook, _Lane(hook))


def wait_for_hooks(seconds: float) -> bool:
    """Wait until the hooks were shown what they were to be; False if the time was not enough."""
    end = time.monotonic() + seconds
    return not [lane for lane in list(_lanes.values()) if not lane.wait(end - time.monotonic())]


def _show(hook: Hook, shown: _Shown) -> None:
    """Show each version after the last one that was shown."""
    snapshot, function = shown.snapshot, load(str(hook.after))
    position = _position(hook, snapshot.store, snapshot)
    if position is None:
        position = shown.first - 1
    for version in range(position + 1, snapshot.version + 1):
        commit = _commit(snapshot, version)
        if commit is not None:
            backoff.OF_HOOKS.insist(partial(function, commit), TRIES)
        _keep(hook, snapshot.store, snapshot, version)


def _begin(hook: Hook, store: Store, snapshot: Snapshot, shown: int) -> None:
    """Note, of a hook that is new to a table, from which version on it hears: also if this process dies.

    :param shown: the version before that one.
    """
    key = (hook.name, snapshot.table_path, snapshot.metadata.id)  # a copy has the identifier of its original
    try:
        if key not in _noted and _position(hook, store, snapshot) is None:
            _keep(hook, store, snapshot, shown)
        _noted[key] = None
    except Exception as error:
        _LOG.warning(
            "%s: the first version for the hook %s could not be recorded (%s)", snapshot.table_path, hook.name, error
        )


def _position(hook: Hook, store: Store, snapshot: Snapshot) -> int | None:
    """The last version of the table that the hook was shown; None if it is new to it."""
    try:
        stored = json.loads(store.read(_path(hook, snapshot)))
        version = stored["version"] if stored["tableId"] == snapshot.metadata.id else None
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
    return version if isinstance(version, int) else None


def _keep(hook: Hook, store: Store, snapshot: Snapshot, version: int) -> None:
    path = _path(hook, snapshot)
    store.make_directory(path.rpartition("/")[0])
    store.put(path, json.dumps({"tableId": snapshot.metadata.id, "version": version}).encode())


def _path(hook: Hook, snapshot: Snapshot) -> str:
    return f"{snapshot.table_path}/_headwater/hooks/{hook.name}.json"


def _commit(snapshot: Snapshot, version: int) -> Commit | None:
    """A version as a hook sees it; None if the log no longer has it."""
    directory = log_directory(snapshot.table_path)
    path = f"{directory}/{commit_name(version)}"
    try:
        data = snapshot.store.read(path)
    except FileNotFoundError:
        later = [name for file in snapshot.store.list_from(directory, version_prefix(version)) if (name := file.name)]
        if not any(isinstance(parse_name(name), CommitName) for name in later):
            raise
        _LOG.warning("%s: no hook is shown version %d, which the log no longer has", snapshot.table_path, version)
        return None
    info = commit_info_of(data) or {}
    return Commit(
        snapshot.table_path,
        version,
        str(info.get("operation", "")),
        info.get("operationParameters") or {},
        _numbers(info.get("operationMetrics") or {}),
        info.get("inCommitTimestamp") or info.get("timestamp"),
        info.get("userMetadata"),
        _actions=lambda: _objects([data]),
        _history=partial(_history, snapshot, version),
    )


def _history(snapshot: Snapshot, before: int, limit: int) -> Sequence[Commit]:
    """The commits before a version, newest first."""
    asked = max(0, limit) + max(0, snapshot.version + 1 - before)
    entries = history(snapshot.table_path, snapshot.store, asked, snapshot) if limit > 0 else []
    return [_past(snapshot, entry) for entry in entries if entry.version < before][:limit]


def _past(snapshot: Snapshot, entry: CommitEntry) -> Commit:
    def actions() -> Iterator[Mapping[str, Any]]:
        path = f"{log_directory(snapshot.table_path)}/{commit_name(entry.version)}"
        return _objects([snapshot.store.read(path)])

    info = entry.commit_info
    return Commit(
        snapshot.table_path,
        entry.version,
        str(info.get("operation", "")),
        info.get("operationParameters") or {},
        _numbers(info.get("operationMetrics") or {}),
        entry.timestamp,
        info.get("userMetadata"),
        _actions=actions,
        _history=partial(_history, snapshot, entry.version),
    )


def _objects(chunks: Sequence[bytes] | Iterator[bytes]) -> Iterator[Mapping[str, Any]]:
    """The actions in bytes of a commit, but for its provenance."""
    for chunk in chunks:
        for line in chunk.splitlines():
            if line.strip():
                action = json.loads(line)
                if "commitInfo" not in action:
                    yield action


def _numbers(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Metrics, with the numbers that a log has as texts as numbers."""
    return {
        name: int(value) if isinstance(value, str) and value.lstrip("-").isdecimal() else value
        for name, value in metrics.items()
    }
