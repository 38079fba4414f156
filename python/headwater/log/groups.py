"""Commits of several tables that succeed or fail together: what the log says of them, and which of them are committed.

Owns what such a commit says of its *group*, and the answer to the question whether it is a version that may be read.
:mod:`headwater.groups`, which makes groups, has the steps and the failure model.

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

Readers and writers of a process that has a :class:`Settler`, as the handler has, finish what a crash has cut off.
Readers of others, such as the command and the inspector, only look, and show the version before.

Promise: a commit is read only if the group stands, or if it is aborted and undone; then only together with what undid
it, unless its very version is asked for. A version without an answer yet is not shown, nor is any after it. Other
engines see each table's commit as soon as it is in the log.

*Trust.* A log may say anything. Paths in it are those within the store that the log itself is in, whatever its scheme
is called; none leads out of it. Which tables a group has is believed of the coordinator's own log alone, and a staged
file is published only if it says itself that it is of this group and this coordinator, beside the log it is for;
only a table that says so itself is undone as well. So a user without the right to write to a table cannot have others
write to it.
"""

from __future__ import annotations

import itertools
import json
import logging
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol
from uuid import UUID

from headwater.basics import backoff
from headwater.basics.errors import HeadwaterError
from headwater.basics.recent import Recent
from headwater.basics.warn_once import warn_once
from headwater.log.commits import commit_info_of
from headwater.protocol.file_names import (
    CheckpointName,
    CommitName,
    commit_name,
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
#: How often a decision is put until it is known what is decided.
_DECISIONS_PUT = 2
#: Seconds without a sign of life after which a group that cannot be finished is aborted: its writer may be about to
#: move a commit behind that of another, which takes milliseconds.
PATIENCE = 10.0
#: Seconds that a writer waits, beyond those after which a group is given up, until it is settled.
GRACE = 10.0
#: How many commits of a log are looked through for that of a group.
_MOST_COMMITS = 1000
#: How many participants a log is believed.
MOST_PARTICIPANTS = 100
#: What reading a log that lies may come to, or one that may not be read.
NOT_TO_READ = (PermissionError, IsADirectoryError, ValueError, TypeError, KeyError, AttributeError, RecursionError)
#: Groups that are known to be settled here, by table, each with the version that undid it, or 0.
_known: Recent[tuple[str, str], int] = Recent()


class Settler(Protocol):
    """Finishes groups that a crash has cut off (:mod:`headwater.groups.settling`).

    The handler gives it to :func:`settle_by` once: logs are opened in a hundred places, and whether a process may write
    to tables is a fact about the process, not about one of these.
    """

    def finish(self, store: Store, record: Group) -> str | None:
        """Publish what is staged, in order, and decide; None if that must wait for the group's writer."""

    def undo(self, table_path: str, store: Store, version: int, group_id: str) -> int | None:
        """Take a commit of a table back: the version that undoes it, or None if that is not possible for good."""

    def undo_all(self, store: Store, record: Group) -> None:
        """Undo all commits of a group: whoever meets one later may not find the decision any more."""


_settler: Settler | None = None


def settle_by(settler: Settler | None) -> None:
    """Have readers and writers of this process finish what a crash has cut off, as far as their stores let them; with
    None, as at first, they only look.
    """
    global _settler
    _settler = settler


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
        """What a table's commit says; None if it says nothing, or nothing that can be true."""
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


def standing(table_path: str, store: Store, version: int, commit: bytes, *, writes: bool = False) -> Standing:
    """Whether a commit of a table may be read. What a crash has cut off is finished, as far as process and store may.

    :param writes: whether a writer asks. Only it gets the error if the group cannot be finished; for a reader, the
        commit is not settled then.
    :raises OSError: the store failed, and the answer is not known.
    """
    group = Group.of(commit, table_path)
    if group is None:
        return Standing.STANDS
    known = _known.get((table_path, group.id))
    if known is not None:
        return Standing.UNDONE if known else Standing.STANDS
    try:
        return _standing(table_path, store, version, group, writes)
    except NOT_TO_READ as error:  # who can settles it
        warn_unsettled(table_path, version, f"what became of it is not known yet: {error}")
        return Standing.OPEN


def settle(table_path: str, store: Store, version: int, commit: bytes) -> None:
    """Return once it is settled whether a commit stands: what may yet be undone, nobody builds on.

    :raises HeadwaterError: ``HEADWATER_TRANSACTION_OPEN`` if that cannot be found out.
    """
    until = time.monotonic() + PATIENCE + GRACE
    for losses in itertools.count():
        found = standing(table_path, store, version, commit, writes=True)
        if found in (Standing.STANDS, Standing.UNDONE):
            return
        if time.monotonic() >= until:
            raise not_settled(table_path, version)
        backoff.OF_COMMITS.wait(losses, until)


def not_settled(table_path: str, version: int) -> HeadwaterError:
    return HeadwaterError("HEADWATER_TRANSACTION_OPEN", {"tableLocation": table_path, "version": version})


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


def _standing(table_path: str, store: Store, version: int, group: Group, writes: bool) -> Standing:
    is_coordinator = group.coordinator == table_path
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
        if record is not None and _settler is not None:
            decided = _settler.finish(store, record)
        if decided == "aborted":
            return _given_up(table_path, store, version, group)
    except (OSError, HeadwaterError) as error:
        if writes:
            raise
        warn_unsettled(table_path, version, f"it cannot be finished here: {error}")
        return Standing.ABORTED if decided == "aborted" else Standing.OPEN
    if decided is None:
        return Standing.OPEN
    if not is_coordinator and _settler is not None:
        note(table_path, store, group.id, decided)
    return _remember(table_path, group.id)


def _given_up(table_path: str, store: Store, version: int, group: Group) -> Standing:
    """What an aborted commit is to be taken for. Where it is undone, all of its group is."""
    if _settler is not None:
        record = record_of(table_path, store, group)
        if record is not None:
            _settler.undo_all(store, record)
        return _remember(table_path, group.id, _settler.undo(table_path, store, version, group.id) or 0)
    by = undone_by(table_path, store, version, group.id)
    if by is not None:
        return _remember(table_path, group.id, by)
    warn_unsettled(table_path, version, "it was given up and is not undone yet")
    return Standing.ABORTED


def warn_unsettled(table_path: str, version: int, why: str) -> None:
    warn_once(
        table_path,
        f"{table_path}: version {version} and those after it are not shown; it is part of a transaction over several "
        f"tables, and {why}",
    )


def record_of(table_path: str, store: Store, group: Group) -> Group | None:
    """What the coordinator's commit says of a group; None if it is there no more.

    :param group: as a commit of the table says it.
    """
    if group.participants is not None and group.coordinator == table_path:
        return group
    found = _commit_of(store, group.id, group.coordinator, listed(store, group.coordinator, group.since)[0])
    if found is None or found[1].participants is None or found[1].coordinator != group.coordinator:
        return None
    return found[1]


def published_version(store: Store, group_id: str, path: str, since: int) -> int | None:
    """The version of a table that is its commit of a group; None if no version from ``since`` on is."""
    found = _commit_of(store, group_id, path, listed(store, path, since)[0])
    return None if found is None else found[0]


def published_by(store: Store, record: Group, path: str, since: int) -> int | None:
    """As :func:`published_version`, of a commit that itself names the record's coordinator."""
    found = _commit_of(store, record.id, path, listed(store, path, since)[0])
    return found[0] if found is not None and found[1].coordinator == record.coordinator else None


def undone_by(table_path: str, store: Store, version: int, group_id: str) -> int | None:
    """The version that undoes a table's commit of a group; None if the log has none."""
    for later in _looked_through(listed(store, table_path, version + 1)[0]):
        data = read_if_there(store, f"{log_directory(table_path)}/{commit_name(later)}")
        if data is not None and undoes(commit_info_of(data)) == group_id:
            return later
    return None


def undoes(commit_info: Mapping[str, Any] | None) -> str | None:
    """The id of the group whose commit is undone by one that says this of itself; None if it undoes nothing."""
    tags = (commit_info or {}).get("tags")
    found = tags.get(UNDOES) if isinstance(tags, dict) else None
    return found if isinstance(found, str) else None


def listed(store: Store, path: str, since: int) -> tuple[list[int], int | None]:
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
        data = read_if_there(store, f"{log_directory(path)}/{commit_name(version)}")
        found = None if data is None else Group.of(data, path)
        if found is not None and (found.id, found.table) == (group_id, path):
            return version, found
    return None


def decision(store: Store, group: Group) -> str | None:
    """``committed`` or ``aborted``; None if it is not decided."""
    data = read_if_there(store, decision_path(group))
    return None if data is None else _outcome(data)


def decide(store: Store, group: Group, outcome: str) -> str:
    """Have a group decided; what it was decided to be, which is another's word where that came first.

    A failure says nothing about the decision: a request may be carried out after it has failed.

    :raises OSError: the store failed, and it is not known to be decided.
    """
    path = decision_path(group)
    store.make_directory(path.rpartition("/")[0])

    def propose() -> str:
        try:
            store.put_if_absent(path, json.dumps({"outcome": outcome}).encode())
        except Exception:
            data = read_if_there(store, path)
            if data is None:
                raise
            return _outcome(data)
        return outcome

    return backoff.OF_COMMITS.insist(propose, _DECISIONS_PUT)


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
    """What a note says: the version that has undone the commit, or 0; None if there is no note, or a damaged one."""
    data = read_if_there(store, note_path(table_path, group_id))
    try:
        value = {} if data is None else json.loads(data)
        return _number(value["version"]) if value["outcome"] == "undone" else 0
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _remember(table_path: str, group_id: str, by: int = 0) -> Standing:
    _known[table_path, group_id] = by
    return Standing.UNDONE if by else Standing.STANDS


def decision_path(group: Group) -> str:
    return f"{log_directory(group.coordinator)}/{DIRECTORY}/{group.id}.json"


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
        data = read_if_there(store, file.path)
        return data is not None and json.loads(data).get("outcome") == "committed"
    except (ValueError, AttributeError, RecursionError):
        return False


def _outcome(data: bytes) -> str:
    return "committed" if json.loads(data).get("outcome") == "committed" else "aborted"


def read_if_there(store: Store, path: str) -> bytes | None:
    try:
        return store.read(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
