"""Hooks of commits: Python functions of users, which may refuse a commit before it is made or are called after it.

Owns what such a function is given (:class:`Commit`), what it raises to refuse (:class:`Veto`), and which hooks this
process has: settings of Spark's start name them, so a user who can only run SQL cannot make the driver run other code.

    # checks.py, which the driver's Python can import
    from headwater.hooks import Commit, Veto

    def not_empty(commit: Commit) -> None:
        if commit.operation == "WRITE" and commit.metrics.get("numOutputRows") == 0:
            raise Veto("the load has no rows")

``spark.headwater.hook.<name>.before`` and ``spark.headwater.hook.<name>.after`` name functions, as ``module:function``
or ``/path/file.py:function``. :mod:`headwater.statements.running.hooks` decides
for which commits they are called. Promise: a function is loaded when it is first needed, and once.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from headwater.basics import start_settings

_LOG = logging.getLogger(__name__)
#: The beginning of the settings that name functions.
PREFIX = start_settings.HOOK
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_BEFORE, _AFTER = "before", "after"


class Veto(Exception):
    """What a hook raises to refuse a commit; its text is the reason that the user reads."""


@dataclass(frozen=True)
class Commit:
    """A commit, as a hook sees it.

    :param table: the table's path, as its store spells it.
    :param version: the version that it made; None before it is made.
    :param operation: as the table's history names it: ``WRITE``, ``MERGE``, ``OPTIMIZE``.
    :param parameters: the operation's parameters, as in the history.
    :param metrics: the operation's metrics, as in the history; counts, bytes and milliseconds are numbers.
    :param timestamp: when it was made, in milliseconds since the epoch, UTC; None before it is made.
    :param user_metadata: what the session's user gave with the commit.
    """

    table: str
    version: int | None
    operation: str
    parameters: Mapping[str, Any]
    metrics: Mapping[str, Any]
    timestamp: int | None = None
    user_metadata: str | None = None
    _actions: Callable[[], Iterable[Mapping[str, Any]]] = field(default=tuple, repr=False, compare=False)
    _history: Callable[[int], Sequence[Commit]] = field(default=lambda _: (), repr=False, compare=False)

    def actions(self) -> Iterator[Mapping[str, Any]]:
        """Its actions except ``commitInfo``, in the log's form: ``{"add": {"path": …}}``. Before the commit is made,
        row ids are not given yet.
        """
        return iter(self._actions())

    def history(self, limit: int = 10) -> Sequence[Commit]:
        """The commits before it that the log still has, newest first, at most ``limit`` of them."""
        return self._history(limit)


@dataclass(frozen=True)
class Hook:
    """A hook's name and its functions, as the settings name them; None if it has none."""

    name: str
    before: str | None = None
    after: str | None = None


_hooks: dict[str, Hook] = {}


def configure(settings: Mapping[str, str]) -> None:
    """Take the hooks that settings name: ``<name>.before`` and ``<name>.after``, without :data:`PREFIX`."""
    _hooks.clear()
    for key, value in settings.items():
        name, _, part = key.rpartition(".")
        if part not in (_BEFORE, _AFTER) or not _NAME.fullmatch(name) or not value.strip():
            _LOG.warning(
                "the setting %s%s is ignored: a hook is %s<name>.before or .after = module:function, with a name of "
                "letters, digits, _ and -",
                PREFIX,
                key,
                PREFIX,
            )
            continue
        hook = _hooks.get(name, Hook(name))
        before = value.strip() if part == _BEFORE else hook.before
        _hooks[name] = Hook(name, before, value.strip() if part == _AFTER else hook.after)


def configured(name: str) -> Hook | None:
    """The hook of a name; None if no setting names it."""
    return _hooks.get(name)


@cache
def load(reference: str) -> Callable[[Commit], object]:
    """The function that ``module:function`` or ``/path/file.py:function`` names.

    :raises Exception: whatever importing it raises; ``ImportError`` if it is no function.
    """
    module, _, function = reference.rpartition(":")
    if module.endswith(".py"):
        specification = importlib.util.spec_from_file_location(f"headwater_hook_{abs(hash(module))}", module)
        if specification is None or specification.loader is None:
            raise ImportError(f"{module} cannot be imported")
        loaded = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(loaded)
    elif module:
        loaded = importlib.import_module(module)
    else:
        raise ImportError(f"{reference} is not module:function")
    found = getattr(loaded, function, None)
    if not callable(found):
        raise ImportError(f"{module} has no function {function}")
    named: Callable[[Commit], object] = found
    return named
