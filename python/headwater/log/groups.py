"""Commits of several tables that stand or fall together: which of them stand, and finishing what a crash cut off.

Owns what such a commit says of its *group*, and the answer to the question whether it is a version that may be read.
Who makes groups is :mod:`headwater.transaction.groups`, which has the steps and the failure model.

- Each commit of a group has ``transactionGroup`` in its ``commitInfo``: the group's id, and where its *coordinator* is,
  the table whose commit was put first. The coordinator's names all participants, with the staged file of each.
- The *decision* is the file ``_delta_log/_transactions/<id>.json`` of the coordinator, put if absent. Only who has seen
  all commits of the group in their logs proposes that it is committed. Anybody may propose that it is aborted.
- A *note* beside a participant's log, ``_delta_log/_transactions/<id>.settled.json``, says that nothing is left to do
  about the group there, so that a reader needs no right to the coordinator; beside the coordinator's, only that it was
  undone, and by which version.
- A *sign of life* in the coordinator's log, ``_delta_log/_transactions/<id>.alive.json``, changes as long as the
  group's writer is at work. It exists only if the writer takes long.
- What is not there any more was settled: a decision goes only after the commits that it is about. A group is aborted
  only on evidence: another commit has the place of one of its own, or what was staged for a free place is gone.

Who finishes: writers, and readers of a process that said so (:func:`let_readers_finish`), as the handler does. Other
readers, such as the command and the inspector, only look, and show the version before.

Promise: a commit is read only if the group stands, or if it is aborted and undone; then only together with what undid
it, unless its very version is asked for. A version without an answer yet is not shown, nor is any after it. Other
engines see each table's commit as soon as it is in the log.

*Trust.* A log may say anything. Paths in it are those within the store that the log itself is in, whatever its scheme
is called; none leads out of it. Which tables a group has is believed of the coordinator's own log alone, and a staged
file is published only if it says itself that it is of this group and this coordinator, beside the log it is for;
only what says so itself is undone, too. So who may not write to a table has nothing put there by those who may.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from threading import Lock, Timer
from typing import Any
from uuid import UUID

from headwater.basics.errors import HeadwaterError
from headwater.basics.recent import Recent
from headwater.basics.warn_once import warn_once
from headwater.log.commits import commit_info_of
from headwater.protocol.file_names import (
    STAGED_DIRECTORY,
    CheckpointName,
    CommitName,
    commit_name,
    is_staged_commit,
    log_directory,
    parse_name,
    version_prefix,
)
from headwater.stores import SCHEME, FileInfo, Store

_LOG = logging.getLogger(__name__)
#: The member of ``commitInfo``.
FIELD = "transactionGroup"
#: The tag of ``commitInfo`` that has the group's id, as a draft of the protocol names it.
TAG = "delta.multiTableTransaction.transactionId"
_MARKER = b'"transactionGroup"'
_NAME = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(?P<note>\.settled|\.alive)?\.json")
#: The tag of a commit that undoes another: the id of the other's group.
UNDOES = "headwater.undoes"
DIRECTORY = "_transactions"
#: Seconds without a sign of life after which a group that cannot be finished is aborted: its writer may be about to
#: move a commit behind that of another, which takes milliseconds.
PATIENCE = 10.0
#: Seconds between a writer's signs of life, and those after which it gives no more: a writer that takes so long hangs.
_BETWEEN_SIGNS, _LONGEST_WORK = PATIENCE / 4, 300.0
#: How many commits of a log are looked through for that of a group.
_MOST_COMMITS = 1000
#: How many participants a log is believed.
MOST_PARTICIPANTS = 100
#: What reading a log that lies may come to, or one that may not be read.
_NOT_TO_READ = (PermissionError, IsADirectoryError, ValueError, TypeError, KeyError, AttributeError, RecursionError)
#: Groups that are known to be settled here, by table, each with the version that undid it, or 0.
_known: Recent[tuple[str, str], int] = Recent()
#: Groups that could not be finished: when each was first seen or its sign of life last changed, by the monotonic clock,
#: and that sign.
_seen: Recent[str, tuple[float, bytes | None]] = Recent()

#: Takes a commit of a table back, given its version and the group's id: the version that undoes it, or None where that
#: is not possible for good.
Undo = Callable[[str, Store, int, str], int | None]
_readers_undo: Undo | None = None


def let_readers_finish(undo: Undo | None) -> None:
    """Have readers of this process finish what a crash has cut off, as far as their stores let them."""
    global _readers_undo
    _readers_undo = undo


class Standing(Enum):
    """What is known of a commit of a group."""

    STANDS = "stands"
    #: It may still become either.
    OPEN = "open"
    #: It is to be undone.
    ABORTED = "aborted"
    #: Another commit in the log has taken it back.
    UNDONE = "undone"


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
    :param validates: whether only its writer can decide that it is committed, as that depends on what others have done.
    :param table: the path that the commit was made by, where it was read from a log: its table may have others.
    """

    id: str
    coordinator: str
    since: int
    participants: Sequence[Participant] | None = None
    table: str | None = None
    validates: bool = False

    def first_versions(self) -> list[tuple[str, int]]:
        """Each table of the group, as the coordinator names them, and the version from which on its commit is."""
        named = [(each.path, each.version) for each in self.participants or ()]
        return [(self.coordinator, self.since), *named]

    def to_json(self, table_path: str) -> dict[str, Any]:
        """The member of ``commitInfo`` in a commit of a table."""
        value: dict[str, Any] = {
            "id": self.id,
            "table": _within(table_path),
            "coordinator": _within(self.coordinator),
            "since": self.since,
        }
        if self.participants is not None:
            value["participants"] = [{**vars(each), "path": _within(each.path)} for each in self.participants]
        if self.validates:
            value["validates"] = True
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
                if len(named) > MOST_PARTICIPANTS:
                    return None
                participants = [
                    Participant(_at(root, each["path"]), _number(each["version"]), str(each["staged"]))
                    for each in named
                ]
            coordinator, table = _at(root, value["coordinator"]), _at(root, value["table"])
            validates = value.get("validates") is True
            return Group(value["id"], coordinator, _number(value["since"]), participants, table, validates)
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


def standing(table_path: str, store: Store, version: int, commit: bytes, *, undo: Undo | None = None) -> Standing:
    """Whether a commit of a table may be read. What a crash has cut off is finished, as far as this store may.

    :param undo: given by a writer, who finishes it in any process.
    :raises OSError: the store failed. Who only reads is told that the commit is not settled where that is all there is
        to it; but that the answer is not known is no answer.
    """
    group = Group.of(commit, table_path)
    if group is None:
        return Standing.STANDS
    known = _known.get((table_path, group.id))
    if known is not None:
        return Standing.UNDONE if known else Standing.STANDS
    try:
        return _standing(table_path, store, version, group, undo)
    except _NOT_TO_READ as error:  # who can settles it
        _warn(table_path, version, f"what became of it is not known yet: {error}")
        return Standing.OPEN


def shown_from(table_path: str, store: Store, version: int, commit: bytes) -> int | None:
    """The oldest version of a table that readers may be shown as its newest, of a commit and those after it; None where
    there is none yet.
    """
    match standing(table_path, store, version, commit):
        case Standing.STANDS:
            return version
        case Standing.UNDONE:
            group = Group.of(commit, table_path)
            assert group is not None
            known = _known.get((table_path, group.id))
            return undone_by(table_path, store, version, group.id) if known is None else known
    return None


def _standing(table_path: str, store: Store, version: int, group: Group, writer: Undo | None) -> Standing:
    is_coordinator, undo = group.coordinator == table_path, writer or _readers_undo
    decided = decision(store, group) if is_coordinator else None
    if decided != "committed":
        noted = _noted(table_path, store, group.id)
        if noted is not None:
            return _remember(table_path, group.id, noted)
    if decided is None and not is_coordinator:
        decided = decision(store, group)
    record = record_of(table_path, store, group) if decided is None else None
    if decided is None and record is None:
        return _remember(table_path, group.id)
    try:
        if record is not None and undo is not None:
            decided = _finish(store, record)
        if decided == "aborted":
            return _given_up(table_path, store, version, group, undo)
    except (OSError, HeadwaterError) as error:
        if writer is not None:
            raise
        _warn(table_path, version, f"it cannot be finished here: {error}")
        return Standing.ABORTED if decided == "aborted" else Standing.OPEN
    if decided is None:
        return Standing.OPEN
    if not is_coordinator and undo is not None:
        note(table_path, store, group.id, decided)
    return _remember(table_path, group.id)


def _given_up(table_path: str, store: Store, version: int, group: Group, undo: Undo | None) -> Standing:
    """What an aborted commit is to be taken for. Where it is undone, all of its group is."""
    if undo is not None:
        record = record_of(table_path, store, group)
        if record is not None:
            _undo_all(store, record, undo)
        return _remember(table_path, group.id, undo(table_path, store, version, group.id) or 0)
    by = undone_by(table_path, store, version, group.id)
    if by is not None:
        return _remember(table_path, group.id, by)
    _warn(table_path, version, "it was given up and is not undone yet")
    return Standing.ABORTED


def _warn(table_path: str, version: int, why: str) -> None:
    warn_once(
        table_path,
        f"{table_path}: version {version} and those after it are not shown; it is part of a transaction over several "
        f"tables, and {why}",
    )


def _finish(store: Store, record: Group) -> str | None:
    """Publish what is staged, in order, and decide; None where that must wait for the group's writer."""
    if not record.validates and all(_is_there(store, record, each) for each in record.participants or ()):
        return decide(store, record, "committed")
    return None if _is_at_work(store, record) else decide(store, record, "aborted")


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


def _is_at_work(store: Store, record: Group) -> bool:
    """Whether the writer of a group that cannot be finished may be about to do so itself."""
    if record.id in AT_WORK:
        return True
    now = time.monotonic()
    if record.id in _seen and now - _seen[record.id][0] < PATIENCE:
        return True
    sign = _read(store, _sign_path(record))
    since, known = _seen.setdefault(record.id, (now, sign))
    if sign is not None and sign != known:
        _seen[record.id] = now, sign
        return True
    return now - since < PATIENCE


def _undo_all(store: Store, record: Group, undo: Undo) -> None:
    """Undo all commits of a group: whoever meets one later may not find the decision any more."""
    for path, since in record.first_versions():
        try:
            found = _published(store, record, path, since)
            if found is not None:
                undo(path, store, found, record.id)
        except Exception as error:
            _LOG.warning("%s: what is to be undone is left to who comes next: %s", path, error)


def finish_staged(table_path: str, store: Store, undo: Undo) -> list[int]:
    """Finish the groups that have something staged beside a table's log, which names files that are in no version yet.

    :return: the versions that are staged for groups that must wait for their writers.
    """
    directory, waiting = f"{log_directory(table_path)}/{STAGED_DIRECTORY}", []
    try:
        listed = store.list_from(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []
    for file in listed:
        version = int(file.name[:20]) if file.name[:20].isdecimal() else -1
        data = _read(store, file.path) if is_staged_commit(file.name, version) else None
        group = None if data is None else Group.of(data, table_path)
        if group is None:
            continue
        try:
            record = record_of(table_path, store, group) if decision(store, group) is None else None
            decided = None if record is None else _finish(store, record)
            if record is not None and decided == "aborted":
                _undo_all(store, record, undo)
            is_settled = record is None or decided is not None
        except _NOT_TO_READ as error:
            _warn(table_path, version, f"what became of it is not known yet: {error}")
            is_settled = False
        if not is_settled:
            waiting.append(version)
    return waiting


def record_of(table_path: str, store: Store, group: Group) -> Group | None:
    """What the coordinator's commit says of a group; None where it is there no more.

    :param group: as a commit of the table says it.
    """
    if group.participants is not None and group.coordinator == table_path:
        return group
    found = _commit_of(store, group.id, group.coordinator, _listed(store, group.coordinator, group.since)[0])
    if found is None or found[1].participants is None or found[1].coordinator != group.coordinator:
        return None
    return found[1]


def published_version(store: Store, group_id: str, path: str, since: int) -> int | None:
    """The version of a table that is its commit of a group; None where there is none of ``since`` or after."""
    found = _commit_of(store, group_id, path, _listed(store, path, since)[0])
    return None if found is None else found[0]


def _published(store: Store, record: Group, path: str, since: int) -> int | None:
    """As :func:`published_version`, of a commit that itself names the record's coordinator."""
    found = _commit_of(store, record.id, path, _listed(store, path, since)[0])
    return found[0] if found is not None and found[1].coordinator == record.coordinator else None


def undone_by(table_path: str, store: Store, version: int, group_id: str) -> int | None:
    """The version that undoes a table's commit of a group; None where the log has none."""
    for later in _looked_through(_listed(store, table_path, version + 1)[0]):
        data = _read(store, f"{log_directory(table_path)}/{commit_name(later)}")
        if data is not None and undoes(commit_info_of(data)) == group_id:
            return later
    return None


def undoes(commit_info: Mapping[str, Any] | None) -> str | None:
    """The id of the group whose commit is undone by one that says this of itself; None where it undoes nothing."""
    tags = (commit_info or {}).get("tags")
    found = tags.get(UNDOES) if isinstance(tags, dict) else None
    return found if isinstance(found, str) else None


def _listed(store: Store, path: str, since: int) -> tuple[list[int], int | None]:
    """The versions of a table's commits from one on, and the newest that its log has a commit or checkpoint of."""
    try:
        listed = store.list_from(log_directory(path), version_prefix(since))
    except (FileNotFoundError, NotADirectoryError):
        return [], None
    names = [parse_name(file.name) for file in listed]
    commits = [name.version for name in names if isinstance(name, CommitName)]
    newest = max((name.version for name in names if isinstance(name, (CommitName, CheckpointName))), default=None)
    return commits, newest


def _looked_through(commits: Sequence[int]) -> range:
    """The versions to look at. A listing beside writers may lack one that is older than another it has."""
    return range(commits[0], min(commits[-1] + 1, commits[0] + _MOST_COMMITS)) if commits else range(0)


def _commit_of(store: Store, group_id: str, path: str, commits: Sequence[int]) -> tuple[int, Group] | None:
    """The commit of a group that was made of a table by this path, among some, and what it says."""
    for version in _looked_through(commits):
        data = _read(store, f"{log_directory(path)}/{commit_name(version)}")
        found = None if data is None else Group.of(data, path)
        if found is not None and (found.id, found.table) == (group_id, path):
            return version, found
    return None


def _is_there(store: Store, group: Group, participant: Participant) -> bool:
    """Whether a participant has its commit, published now if that is what is left. A log that is gone, and one that has
    later versions only, were left by a table that had it, or that can have nothing of it any more.
    """
    path, wanted = participant.path, participant.version
    commits, newest = _listed(store, path, max(wanted - 1, 0))
    file = f"{log_directory(path)}/{commit_name(wanted)}"
    if newest is None and wanted == 0:  # the group creates it; one that is gone again is as one that never was
        return _publish(store, group, participant)
    if newest is None or (newest >= wanted and wanted not in commits and not store.exists(file)):
        return True
    if newest >= wanted:
        return _published(store, group, path, wanted) is not None
    return _publish(store, group, participant)


def _publish(store: Store, group: Group, participant: Participant) -> bool:
    """Publish a staged commit; False where that is not possible."""
    if not is_staged_commit(participant.staged, participant.version):
        return False
    directory = log_directory(participant.path)
    data = _read(store, f"{directory}/{STAGED_DIRECTORY}/{participant.staged}")
    found = None if data is None else Group.of(data, participant.path)
    if data is None or found is None:
        return False
    if (found.id, found.coordinator, found.table) != (group.id, group.coordinator, participant.path):
        return False
    try:
        store.put_if_absent(f"{directory}/{commit_name(participant.version)}", data)
    except FileExistsError:
        return _published(store, group, participant.path, participant.version) is not None
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


def note(table_path: str, store: Store, group_id: str, outcome: str, by: int = 0) -> None:
    """Note beside a table's log that nothing is left to do about a group there, as far as that is possible.

    :param by: the version that has undone its commit, or 0.
    """
    path = note_path(table_path, group_id)
    try:
        store.make_directory(path.rpartition("/")[0])
        store.put(path, json.dumps({"outcome": outcome, **({"version": by} if by else {})}).encode())
    except Exception as error:
        _LOG.debug("%s: not noted: %s", path, error)
    _remember(table_path, group_id, by)


def _noted(table_path: str, store: Store, group_id: str) -> int | None:
    """What a note says: the version that has undone the commit, or 0; None where there is no note, or a damaged one."""
    data = _read(store, note_path(table_path, group_id))
    try:
        value = {} if data is None else json.loads(data)
        return _number(value["version"]) if value["outcome"] == "undone" else 0
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _remember(table_path: str, group_id: str, by: int = 0) -> Standing:
    _seen.pop(group_id, None)
    _known[table_path, group_id] = by
    return Standing.UNDONE if by else Standing.STANDS


def decision_path(group: Group) -> str:
    return f"{log_directory(group.coordinator)}/{DIRECTORY}/{group.id}.json"


def _sign_path(group: Group) -> str:
    return f"{log_directory(group.coordinator)}/{DIRECTORY}/{group.id}.alive.json"


def note_path(table_path: str, group_id: str) -> str:
    return f"{log_directory(table_path)}/{DIRECTORY}/{group_id}.settled.json"


def is_to_clean_up(file: FileInfo, store: Store) -> bool:
    """Whether a file of :data:`DIRECTORY`, once it is old, is of no use. A decision that a group is aborted is, as one
    of its commits may come late; what is none of ours is not touched.
    """
    name = _NAME.fullmatch(file.name)
    if name is None or name["note"] is not None:
        return name is not None
    try:
        data = _read(store, file.path)
        return data is not None and json.loads(data).get("outcome") == "committed"
    except (ValueError, AttributeError, RecursionError):
        return False


def _outcome(data: bytes) -> str:
    return "committed" if json.loads(data).get("outcome") == "committed" else "aborted"


def _read(store: Store, path: str) -> bytes | None:
    try:
        return store.read(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
