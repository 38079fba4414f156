"""Commits of several tables that stand or fall together: which of them stand, and finishing what a crash cut off.

Owns what such a commit says of its *group*, and the answer to the question whether it is a version that may be read.
Who makes groups is :mod:`headwater.transaction.groups`, which has the steps and the failure model.

- Each commit of a group has ``transactionGroup`` in its ``commitInfo``: the group's id, and where its *coordinator* is,
  the table whose commit was put first. The coordinator's names all participants, with the staged file of each.
- The *decision* is the file ``_delta_log/_transactions/<id>.json`` of the coordinator, put if absent. Only who has seen
  all commits of the group in their logs proposes that it is committed. Anybody may propose that it is aborted.
- A *note* beside a participant's log, ``_delta_log/_transactions/<id>.settled.json``, says that nothing is left to do
  about the group there, so that a reader needs no right to the coordinator; beside the coordinator's, only that it was
  undone.
- What is not there any more was settled: a decision goes only after the commits that it is about.

Who finishes: writers, and readers of a process that said so (:func:`let_readers_finish`), as the handler does. Other
readers, such as the command and the inspector, only look, and show the version before.

Promise: a commit is read only if the group stands, or if it is aborted and undone. A version without an answer yet is
not shown, nor is any after it. Other engines see each table's commit as soon as it is in the log.

*Trust.* A log may say anything. Paths in it are those within the store that the log itself is in, whatever its scheme
is called; none leads out of it. Which tables a group has is believed of the coordinator's own log alone, and a staged
file is published only if it says itself that it is of this group and this coordinator, beside the log it is for. So who
may not write to a table has nothing put there by those who may.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any
from uuid import UUID

from headwater.log.commits import commit_info_of
from headwater.protocol.file_names import STAGED_DIRECTORY, commit_name, is_staged_commit, log_directory
from headwater.stores import SCHEME, FileInfo, Store

_LOG = logging.getLogger(__name__)
#: The member of ``commitInfo``.
FIELD = "transactionGroup"
#: The tag of ``commitInfo`` that has the group's id, as a draft of the protocol names it.
TAG = "delta.multiTableTransaction.transactionId"
_MARKER = b'"transactionGroup"'
DIRECTORY = "_transactions"
#: Seconds after which a group that cannot be finished is aborted: its writer may be about to move a commit behind that
#: of another, which takes milliseconds.
_PATIENCE = 10.0
#: How many commits of a log are looked through for that of a group.
_MOST_COMMITS = 10_000
#: Groups that are known to be settled here, by table; forgotten all at once when there are so many.
_MOST_KNOWN = 10_000
_known: set[tuple[str, str]] = set()
#: When a group was first seen that could not be finished, by the monotonic clock.
_seen: dict[str, float] = {}


_readers_finish = False


def let_readers_finish(finish: bool = True) -> None:
    """Have readers of this process finish what a crash has cut off, as far as their stores let them."""
    global _readers_finish
    _readers_finish = finish


class Standing(Enum):
    """What is known of a commit of a group."""

    STANDS = "stands"
    #: It may still become either.
    OPEN = "open"
    #: It is to be undone.
    ABORTED = "aborted"


@dataclass(frozen=True)
class Participant:
    """A table of a group beside its coordinator: the version its commit was staged for, and the staged file's name."""

    path: str
    version: int
    staged: str


@dataclass(frozen=True)
class Group:
    """What a commit says of its group. Paths as the store of the commit's own table spells them; in the log they are
    without scheme and authority.

    :param coordinator: the path of the table whose commit was put first.
    :param since: the coordinator's commit is of this version, or a later one.
    :param participants: the other tables; None in commits but the coordinator's.
    """

    id: str
    coordinator: str
    since: int
    participants: Sequence[Participant] | None = None

    def first_versions(self) -> list[tuple[str, int]]:
        """Each table of the group, as the coordinator names them, and the version from which on its commit is."""
        named = [(each.path, each.version) for each in self.participants or ()]
        return [(self.coordinator, self.since), *named]

    def to_json(self) -> dict[str, Any]:
        """The member of ``commitInfo``."""
        value: dict[str, Any] = {"id": self.id, "coordinator": _within(self.coordinator), "since": self.since}
        if self.participants is not None:
            value["participants"] = [{**vars(each), "path": _within(each.path)} for each in self.participants]
        return value

    @staticmethod
    def of(commit: bytes, table_path: str) -> Group | None:
        """What a table's commit says; None where it says nothing, or nothing that can be true."""
        end = commit.find(b"\n")
        if commit.find(_MARKER, 0, len(commit) if end < 0 else end) < 0:
            return None  # the first line is the commitInfo: the others need no look
        value = (commit_info_of(commit) or {}).get(FIELD)
        root = _root(table_path)
        try:
            if value is None or str(UUID(value["id"])) != value["id"]:
                return None
            named = value.get("participants")
            participants = None
            if named is not None:
                participants = [
                    Participant(_at(root, each["path"]), _number(each["version"]), str(each["staged"]))
                    for each in named
                ]
            return Group(value["id"], _at(root, value["coordinator"]), _number(value["since"]), participants)
        except (KeyError, TypeError, ValueError, AttributeError):
            return None


def may_be_together(path: str, other: str) -> bool:
    """Whether two tables may be in one group: both are in one store, and their paths are ones that a log may name."""
    try:
        return all(_at(_root(path), _within(each)) == each for each in (path, other))
    except ValueError:
        return False


def _root(path: str) -> str:
    return "/".join(path.split("/", 3)[:3]) if SCHEME.match(path) else ""


def _within(path: str) -> str:
    """A path without scheme and authority."""
    return path.removeprefix(_root(path))


def _at(root: str, path: str) -> str:
    """Where a path of a log leads.

    :raises ValueError: out of the store, or to nowhere.
    """
    parts = path.split("/")
    if len(parts) < 2 or parts[0] or any(part in ("", ".", "..") for part in parts[1:]):
        raise ValueError(path)
    return f"{root}{path}"


def _number(value: int) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(value)
    return value


def standing(table_path: str, store: Store, version: int, commit: bytes, *, for_writing: bool = False) -> Standing:
    """Whether a commit of a table may be read. What a crash has cut off is finished, as far as this store may.

    :param for_writing: whether a writer asks, who finishes it in any process.
    """
    group = Group.of(commit, table_path)
    if group is None or (table_path, group.id) in _known:
        return Standing.STANDS
    try:
        found = _standing(table_path, store, group, for_writing or _readers_finish)
    except Exception as error:  # a store that fails, a table that may not be read: who can settles it
        _LOG.warning("%s: what became of version %d is not known yet: %s", table_path, version, error)
        return Standing.OPEN
    if found is Standing.STANDS:
        _remember(table_path, group.id)
    return found


def _standing(table_path: str, store: Store, group: Group, finishes: bool) -> Standing:
    is_coordinator = group.coordinator == table_path
    decided = decision(store, group) if is_coordinator else None
    if decided != "committed" and _read(store, note_path(table_path, group.id)) is not None:
        return Standing.STANDS
    if decided is None and not is_coordinator:
        decided = decision(store, group)
    if decided is None:
        record = record_of(table_path, store, group)
        if record is None:
            return Standing.STANDS
        decided = _finish(store, record) if finishes else None
    if decided == "committed" and not is_coordinator and finishes:
        note(table_path, store, group.id, decided)
    return {"committed": Standing.STANDS, "aborted": Standing.ABORTED}.get(decided or "", Standing.OPEN)


def _finish(store: Store, record: Group) -> str | None:
    """Publish what is staged, and decide; None where that must wait for the group's writer."""
    there = [is_published(store, record, each) or _publish(store, record, each) for each in record.participants or ()]
    if all(there):
        return decide(store, record, "committed")
    if time.monotonic() - _seen.setdefault(record.id, time.monotonic()) < _PATIENCE:
        return None
    return decide(store, record, "aborted")


def record_of(table_path: str, store: Store, group: Group) -> Group | None:
    """What the coordinator's commit says of a group; None where it is there no more.

    :param group: as a commit of the table says it.
    """
    if group.participants is not None and group.coordinator == table_path:
        return group
    for version in range(group.since, group.since + _MOST_COMMITS):
        data = _read(store, f"{log_directory(group.coordinator)}/{commit_name(version)}")
        if data is None:
            return None
        found = Group.of(data, group.coordinator)
        if found is not None and found.id == group.id and found.participants is not None:
            return found if found.coordinator == group.coordinator else None
    return None


def is_published(store: Store, group: Group, participant: Participant) -> bool:
    """Whether a participant's commit is in its log, at the version it was staged for or a later one."""
    return published_version(store, group.id, participant.path, participant.version) is not None


def published_version(store: Store, group_id: str, path: str, since: int) -> int | None:
    """The version of a table that is its commit of a group; None where there is none of ``since`` or after."""
    for version in range(since, since + _MOST_COMMITS):
        data = _read(store, f"{log_directory(path)}/{commit_name(version)}")
        if data is None:
            return None
        found = Group.of(data, path)
        if found is not None and found.id == group_id:
            return version
    return None


def _publish(store: Store, group: Group, participant: Participant) -> bool:
    """Publish a staged commit; False where that is not possible, as another commit has the version."""
    if not is_staged_commit(participant.staged, participant.version):
        return False
    directory = log_directory(participant.path)
    data = _read(store, f"{directory}/{STAGED_DIRECTORY}/{participant.staged}")
    found = None if data is None else Group.of(data, participant.path)
    if data is None or found is None or (found.id, found.coordinator) != (group.id, group.coordinator):
        return False
    if not store.exists(f"{directory}/{commit_name(participant.version - 1)}"):
        return False  # another table's log
    try:
        store.put_if_absent(f"{directory}/{commit_name(participant.version)}", data)
    except FileExistsError:
        return is_published(store, group, participant)
    _LOG.info("%s: version %d was staged and is published now", participant.path, participant.version)
    return True


def decision(store: Store, group: Group) -> str | None:
    """``committed`` or ``aborted``; None where it is not decided."""
    data = _read(store, decision_path(group))
    return None if data is None else _outcome(data)


def decide(store: Store, group: Group, outcome: str) -> str:
    """Have a group decided; what it was decided to be, which is another's word where that came first.

    :raises OSError: the store failed, and it is not known to be decided.
    """
    path = decision_path(group)
    store.make_directory(path.rpartition("/")[0])
    try:
        store.put_if_absent(path, json.dumps({"outcome": outcome}).encode())
    except Exception:
        data = _read(store, path)
        if data is None:
            raise
        return _outcome(data)
    return outcome


def note(table_path: str, store: Store, group_id: str, outcome: str) -> None:
    """Note beside a table's log that nothing is left to do about a group there, as far as that is possible."""
    path = note_path(table_path, group_id)
    try:
        store.make_directory(path.rpartition("/")[0])
        store.put(path, json.dumps({"outcome": outcome}).encode())
    except Exception as error:
        _LOG.debug("%s: not noted: %s", path, error)
    _remember(table_path, group_id)


def _remember(table_path: str, group_id: str) -> None:
    _seen.pop(group_id, None)
    if len(_known) >= _MOST_KNOWN:
        _known.clear()
    _known.add((table_path, group_id))


def decision_path(group: Group) -> str:
    return f"{log_directory(group.coordinator)}/{DIRECTORY}/{group.id}.json"


def note_path(table_path: str, group_id: str) -> str:
    return f"{log_directory(table_path)}/{DIRECTORY}/{group_id}.settled.json"


def is_kept(file: FileInfo, store: Store) -> bool:
    """Whether a file of :data:`DIRECTORY` stays for good: a decision that a group is aborted."""
    if f"/{DIRECTORY}/" not in file.path or file.name.endswith(".settled.json"):
        return False
    data = _read(store, file.path)
    return data is not None and _outcome(data) == "aborted"


def _outcome(data: bytes) -> str:
    return "committed" if json.loads(data).get("outcome") == "committed" else "aborted"


def _read(store: Store, path: str) -> bytes | None:
    try:
        return store.read(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
