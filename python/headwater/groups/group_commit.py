"""Steps 1 to 6 of a group of commits (:mod:`headwater.groups`), as its writer takes them.

Owns :func:`commit_together`, which puts one commit into the log of each table, in the order of all groups.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from headwater.basics.errors import HeadwaterError
from headwater.groups.at_work import AT_WORK
from headwater.groups.only_read import OnlyRead
from headwater.groups.undoing import undo
from headwater.log import groups
from headwater.log.groups import Group, Participant
from headwater.protocol import properties
from headwater.protocol.file_names import STAGED_DIRECTORY, log_directory, staged_commit_name
from headwater.stores import Store
from headwater.transaction import maintenance
from headwater.transaction.commit_loop import Begin, CommitLoop, Encoded, Put
from headwater.transaction.prepared import PreparedCommit
from headwater.transaction.transaction import MAX_ATTEMPTS, Committed, Transaction

_LOG = logging.getLogger(__name__)
_UNKNOWN = ("HEADWATER_COMMIT_OUTCOME_UNKNOWN", "HEADWATER_CATALOG_OUTCOME_UNKNOWN")


@dataclass
class Member:
    """One table of a group: its transaction, and what that was prepared to.

    :param on_begin: called with version and transaction identifier right before each attempt to put the commit, if it
        is the first of its group: where it is in the log, the group is to be found out about there.
    """

    transaction: Transaction
    prepared: PreparedCommit
    on_begin: Begin | None = None
    _loop: CommitLoop | None = field(default=None, init=False)
    encoded: Encoded | None = field(default=None, init=False)
    staged: str = field(default="", init=False)
    put: Put | None = field(default=None, init=False)

    @property
    def path(self) -> str:
        return self.prepared.table_path

    @property
    def store(self) -> Store:
        return self.prepared.store

    @property
    def loop(self) -> CommitLoop:
        if self._loop is None:
            self._loop = CommitLoop(self.prepared)
        return self._loop


def commit_together(members: Sequence[Member], only_read: Sequence[OnlyRead] = ()) -> list[Committed]:
    """Make the next version of each table, or of none; in the order of ``members``.

    :param only_read: tables that are to be as they were read when the group is decided about.

    :param members: of different tables of one store (:func:`~headwater.log.groups.may_be_together`).
    :raises HeadwaterError: a conflict, as :meth:`~headwater.transaction.transaction.Transaction.commit`;
        ``HEADWATER_TRANSACTION_OF_TOO_MANY_TABLES``;
        ``HEADWATER_TRANSACTION_ABORTED`` if another process gave it up, or the store does not say whether one of the
        commits was made;
        ``HEADWATER_TRANSACTION_OUTCOME_UNKNOWN`` if the store does not say what became of it;
        ``HEADWATER_TRANSACTION_NOT_UNDONE`` if another engine has built on a part of it.
    :raises OSError: the store failed, and nothing is committed.
    """
    if len(members) > groups.MOST_PARTICIPANTS:
        named = {"count": len(members), "most": groups.MOST_PARTICIPANTS}
        raise HeadwaterError("HEADWATER_TRANSACTION_OF_TOO_MANY_TABLES", named)
    for member in members:
        member.loop.catch_up()
    ordered = sorted(members, key=place)
    for table in only_read:
        table.check()
    if not ordered:
        return []
    if len(ordered) == 1 and not only_read:
        ordered[0].put = ordered[0].loop.put(MAX_ATTEMPTS, on_begin=ordered[0].on_begin)
    else:
        _Group(ordered[0], ordered[1:], only_read).commit()
    return [member.transaction.made(member.prepared, _made(member)) for member in members]


def _made(member: Member) -> Put:
    assert member.put is not None
    return member.put


def place(member: Member) -> tuple[int, str, str]:
    """A table's place in the order of all groups, by its definition before the commit; lowest first."""
    prepared = member.prepared
    if prepared.before is None:
        return 2, "", member.path  # undone, it is an empty table
    # What is added to an append-only table cannot be taken back. A copy of a table has the identifier of its original.
    return int(prepared.before.get(properties.APPEND_ONLY)), prepared.before.metadata.id, member.path


class _Group:
    """Steps 2 to 6."""

    def __init__(self, first: Member, others: Sequence[Member], only_read: Sequence[OnlyRead]) -> None:
        self._first, self._others, self._only_read = first, others, only_read
        #: What the commits say of it; once the others are staged, what the first says.
        self._group = self._of_others = Group(str(uuid.uuid4()), first.path, first.loop.version)
        self._members = [first, *others]

    def commit(self) -> None:
        with AT_WORK.on(self._first.store, self._group):
            self._put_first()
            self._put_others()
        maintenance.later(f"tidying up after the transaction {self._group.id}", self._tidy_up)

    def _put_first(self) -> None:
        """Steps 2 and 3."""
        try:
            for member in self._others:
                self._stage(member)
            named = [Participant(m.path, m.loop.version, m.staged) for m in self._others]
            self._group = replace(self._of_others, participants=named, validates=bool(self._only_read))
            self._first.put = self._first.loop.put(MAX_ATTEMPTS, group=self._group, on_begin=self._first.on_begin)
        except Exception as error:
            if not _is_unknown(error):
                self._delete_staged()
            raise

    def _put_others(self) -> None:
        """Steps 4 to 6."""
        taken = place(self._first)
        try:
            for member in self._others:
                member.loop.before_waiting = partial(self._check_order, member, taken)
                member.put = member.loop.put(MAX_ATTEMPTS, member.encoded, group=self._of_others)
                taken = max(taken, place(member))
            for table in self._only_read:
                table.check()
        except Exception as error:
            if not self._give_up(error):
                if _is_unknown(error):
                    raise self._aborted() from error
                raise
        else:
            self._decide()

    def _check_order(self, member: Member, taken: tuple[int, str, str], winner: bytes) -> None:
        """Do not wait for another group that may wait for this one, because a writer has changed whether the table is
        append-only. Nor for this group itself, if it has the table twice, by two paths.
        """
        group = Group.of(winner, member.path)
        if group is not None and (group.id == self._group.id or place(member) < taken):
            raise self._aborted()

    def _tidy_up(self) -> None:
        """What spares others a look at the coordinator, and files that nobody reads any more."""
        for member in self._others:
            groups.note(member.path, member.store, self._group.id, "committed")
        self._delete_staged()

    def _stage(self, member: Member) -> None:
        member.encoded = member.loop.encode(self._of_others)
        member.staged = staged_commit_name(member.loop.version)
        path = self._staged_path(member)
        member.store.make_directory(path.rpartition("/")[0])
        member.store.put_once(path, member.encoded.data)

    def _staged_path(self, member: Member) -> str:
        return f"{log_directory(member.path)}/{STAGED_DIRECTORY}/{member.staged}"

    def _delete_staged(self) -> None:
        for member in self._others:
            if member.staged:
                try:
                    member.store.delete(self._staged_path(member))
                except Exception:
                    _LOG.debug("%s is left", self._staged_path(member), exc_info=True)

    def _decide(self) -> None:
        """Step 5."""
        if self._decided("committed") == "aborted":
            raise self._aborted()

    def _decided(self, proposed: str, cause: Exception | None = None) -> str:
        """The decision, once one is proposed; an aborted group is undone."""
        try:
            outcome = groups.decide(self._first.store, self._group, proposed)
        except Exception as failure:
            raise self._unknown(failure) from cause or failure
        if outcome == "aborted":
            self._undo()
        return outcome

    def _give_up(self, error: Exception) -> bool:
        """Step 6; True if the group is committed anyway, because another process has finished it."""
        if self._decided("aborted", error) == "aborted":
            return False
        for member in self._others:
            if member.put is None:
                member.put = self._found(member)
        return True

    def _found(self, member: Member) -> Put:
        assert member.encoded is not None
        version = groups.published_version(member.store, self._group.id, member.path, self._since(member))
        if version is None:  # its table is gone
            version = member.loop.version
        return Put(version, member.encoded.timestamp, 1)

    def _since(self, member: Member) -> int:
        known = {each.path: each.version for each in self._group.participants or ()}
        return known.get(member.path, self._group.since)

    def _undo(self) -> None:
        """Take back what is in the logs. What cannot be done now, whoever comes next does."""
        kept: list[str] = []
        for member in self._members:
            try:
                since = self._since(member)
                version = groups.published_version(member.store, self._group.id, member.path, since)
                if version is not None and undo(member.path, member.store, version, self._group.id) is None:
                    kept.append(f"version {version} of {member.path}")
            except Exception:
                _LOG.warning("%s: what is to be undone is left to the next writer", member.path, exc_info=True)
        self._delete_staged()
        if kept:
            raise HeadwaterError("HEADWATER_TRANSACTION_NOT_UNDONE", {"kept": ", ".join(kept)})

    def _aborted(self) -> HeadwaterError:
        return HeadwaterError("HEADWATER_TRANSACTION_ABORTED", {"tables": self._names()})

    def _unknown(self, error: Exception) -> HeadwaterError:
        path = groups.decision_path(self._group)
        named = {"tables": self._names(), "path": path, "reason": str(error)}
        return HeadwaterError("HEADWATER_TRANSACTION_OUTCOME_UNKNOWN", named)

    def _names(self) -> str:
        return ", ".join(member.path for member in self._members)


def _is_unknown(error: Exception) -> bool:
    return isinstance(error, HeadwaterError) and error.condition in _UNKNOWN
