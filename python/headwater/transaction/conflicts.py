"""Conflicts: may a transaction still commit after another one did?

Owns the rules, as pure functions of what this transaction read and wants to write (:class:`Intent`) and what a winner
wrote (:class:`WinningCommit`). Follows the protocol's chapters "Action Reconciliation", "Transaction Identifiers" and
"Domain Metadata" and Delta's documented isolation levels:

- ``Serializable``: what was committed could have happened one after the other, in the order of the versions.
- ``WriteSerializable``: the same, except that a blind append (a commit that read nothing) may be ordered before a
  version that precedes it, so that appends never make a running DELETE, UPDATE or MERGE fail.
- ``SnapshotIsolation``: only for commits that change no data (compaction); appends by other writers do not conflict.

Which changes of the table's definition, its protocol and metadata, concern which writers is written down in
:mod:`headwater.transaction.definition_conflicts`.

Promise: each conflict is a documented error that names the winner: its version, operation, time and, where files are
the reason, their partition. Whether a file may match what was read is asked only where the answer matters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from headwater.basics.errors import HeadwaterError
from headwater.basics.times import timestamp_text
from headwater.log.commits import ParsedActions
from headwater.log.files import FileKey, canonical_path
from headwater.protocol.actions import AddFile, DeletionVector, DomainMetadata, Metadata, Protocol, RemoveFile
from headwater.protocol.concerns import Concern
from headwater.protocol.row_tracking import DOMAIN as ROW_TRACKING_DOMAIN
from headwater.protocol.table_definition import TableDefinition
from headwater.transaction.definition_conflicts import Change, definition_changes

if TYPE_CHECKING:
    from headwater.pruning.predicates import Predicate  # not loaded by plain appends


class Isolation(str, Enum):
    """How much of a concurrent commit a transaction must notice; the value is the protocol's word."""

    SERIALIZABLE = "Serializable"
    WRITE_SERIALIZABLE = "WriteSerializable"
    SNAPSHOT = "SnapshotIsolation"


def _no_adds(files: Sequence[AddFile]) -> Sequence[AddFile]:
    return ()


def _no_removes(files: Sequence[RemoveFile]) -> Sequence[RemoveFile]:
    return ()


@dataclass(frozen=True)
class Reads:
    """What of the table's rows a transaction read.

    ``may_match`` returns those of newly added files that may hold rows the predicates are true for, and ``were_read``
    those of removed files that were read because they might. Neither is called for :attr:`whole_table`, nor without
    predicates.
    """

    whole_table: bool = False
    predicates: tuple[Predicate, ...] = ()
    may_match: Callable[[Sequence[AddFile]], Sequence[AddFile]] = _no_adds
    were_read: Callable[[Sequence[RemoveFile]], Sequence[RemoveFile]] = _no_removes

    @property
    def nothing(self) -> bool:
        return not self.whole_table and not self.predicates

    def matching(self, files: Sequence[AddFile]) -> Sequence[AddFile]:
        """Those of ``files``, just added by another, that this transaction would have read."""
        if self.whole_table:
            return files
        return self.may_match(files) if self.predicates and files else ()

    def removed(self, files: Sequence[RemoveFile]) -> Sequence[RemoveFile]:
        """Those of ``files``, just removed by another, that this transaction read."""
        if self.whole_table:
            return files
        return self.were_read(files) if self.predicates and files else ()


def _unproven(change: Change, files: Sequence[AddFile]) -> bool:
    return False


@dataclass(frozen=True)
class Writes:
    """What a transaction means to write.

    :param removed: the keys of the logical files it removes, or adds again as they are.
    :param definition_changed: whether it changes protocol or metadata, high-water marks of identity columns aside.
    :param numbers: whether it gives values to identity columns.
    :param new_files: the data files it adds, those aside in which it marks rows deleted.
    :param removes_rows: whether it removes rows, in files or by marks; compaction removes none.
    :param marks_rows: whether it writes deletion vectors.
    :param domains: the metadata domains it sets.
    :param proves: whether the statistics of all these files prove the condition that a change added.
    """

    removed: frozenset[FileKey] = frozenset()
    definition_changed: bool = False
    numbers: bool = False
    new_files: Sequence[AddFile] = ()
    removes_rows: bool = False
    marks_rows: bool = False
    domains: frozenset[str] = frozenset()
    proves: Callable[[Change, Sequence[AddFile]], bool] = _unproven


@dataclass(frozen=True)
class Intent:
    """What a transaction read and means to write.

    :param definition: what the winners so far left, and this transaction's files conform to; None to create the table.
    :param app_ids: the applications whose versions it asked for or sets.
    :param follows_directly: whether no other version may lie between the one that it read and its own.
    """

    definition: TableDefinition | None
    reads: Reads = Reads()
    writes: Writes = Writes()
    isolation: Isolation = Isolation.WRITE_SERIALIZABLE
    app_ids: frozenset[str] = frozenset()
    follows_directly: bool = False

    def is_concerned(self, change: Change) -> bool:
        """Whether this transaction cannot commit after a change of the definition."""
        match change.concern:
            case Concern.NOBODY:
                return False
            case Concern.NUMBERING:
                return self.writes.numbers
            case Concern.NEW_FILES:
                return bool(self.writes.new_files)
            case Concern.UNPROVEN_FILES:
                return bool(self.writes.new_files) and not self.writes.proves(change, self.writes.new_files)
            case Concern.REMOVED_ROWS:
                return self.writes.removes_rows
            case Concern.MARKED_ROWS:
                return self.writes.marks_rows
            case Concern.READERS:
                return not self.reads.nothing
            case Concern.EVERYBODY:
                return True


@dataclass(frozen=True)
class WinningCommit:
    """A commit that took the version this transaction tried. ``timestamp`` in milliseconds since the epoch; ``actions``
    are all that it has, where it was read.
    """

    version: int
    timestamp: int | None = None
    operation: str = "an unnamed operation"
    blind_append: bool = False
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    adds: Sequence[AddFile] = ()
    removes: Sequence[RemoveFile] = ()
    app_ids: frozenset[str] = frozenset()
    domains: frozenset[str] = frozenset()
    commit_info: Mapping[str, Any] = field(default_factory=dict)
    row_id_domain: DomainMetadata | None = None
    actions: ParsedActions | None = field(default=None, repr=False, compare=False)

    @staticmethod
    def of_actions(version: int, actions: ParsedActions, modification_time: int | None = None) -> WinningCommit:
        """The winner that a commit file holds; ``modification_time`` of the file is used where the commit has no
        time.
        """
        info = actions.commit_info or {}
        recorded = info.get("inCommitTimestamp") or info.get("timestamp")
        return WinningCommit(
            version,
            timestamp=recorded if isinstance(recorded, int) else modification_time,
            operation=str(info.get("operation") or "an unnamed operation"),
            # Only a writer's own word makes a commit a blind append: one that says nothing may have read the table.
            blind_append=info.get("isBlindAppend") is True,
            protocol=actions.protocol,
            metadata=actions.metadata,
            adds=[AddFile.from_json(file) for is_add, file in actions.files if is_add],
            removes=[RemoveFile.from_json(file) for is_add, file in actions.files if not is_add],
            app_ids=frozenset(actions.transactions),
            domains=frozenset(actions.domains),
            commit_info=info,
            row_id_domain=actions.domains.get(ROW_TRACKING_DOMAIN),
            actions=actions,
        )

    @property
    def description(self) -> dict[str, str]:
        """The parameters by which every conflict's message names the winner."""
        when = "at an unknown time"
        if self.timestamp is not None:
            when = f"{timestamp_text(self.timestamp * 1000, digits=3)} UTC"
        return {"version": str(self.version), "operation": self.operation, "timestamp": when}


def file_key(path: str, deletion_vector: DeletionVector | None) -> FileKey:
    """The key of the logical file an action is about."""
    return canonical_path(path), deletion_vector.unique_id if deletion_vector else None


def check(mine: Intent, winner: WinningCommit) -> None:
    """Return if ``mine`` may be committed after ``winner``, as if it had seen it.

    :raises HeadwaterError: ``DELTA_CONCURRENT_WRITE``, ``DELTA_PROTOCOL_CHANGED``, ``DELTA_METADATA_CHANGED``,
        ``DELTA_CONCURRENT_APPEND``, ``DELTA_CONCURRENT_DELETE_READ``, ``DELTA_CONCURRENT_DELETE_DELETE`` or
        ``DELTA_CONCURRENT_TRANSACTION``.
    """
    for rule in _RULES:
        rule(mine, winner)


def _creation(mine: Intent, winner: WinningCommit) -> None:
    """Two creations of one table never merge: each has its own identifier, schema and properties."""
    if mine.definition is None:
        raise _conflict("DELTA_CONCURRENT_WRITE", winner, reason="it created the table that this statement creates")


def _definition(mine: Intent, winner: WinningCommit) -> None:
    """The winner changed the table's definition so that prepared files or removals would be wrong. Two changes of the
    definition never merge: each was decided without the other.
    """
    if mine.definition is None or winner.protocol is None and winner.metadata is None:
        return
    after = mine.definition.after(winner.protocol, winner.metadata)
    changes = definition_changes(mine.definition, after)
    found = changes if mine.writes.definition_changed else [change for change in changes if mine.is_concerned(change)]
    if found or mine.writes.definition_changed and after != mine.definition:
        of_protocol = any(change.of_protocol for change in found) or after.metadata == mine.definition.metadata
        condition = "DELTA_PROTOCOL_CHANGED" if of_protocol else "DELTA_METADATA_CHANGED"
        raise _conflict(condition, winner, changes=_in_words(found) or "its definition was written in another form")


def _direct_succession(mine: Intent, winner: WinningCommit) -> None:
    """Any winner may have written what this transaction relies on not to be there, such as files of an old form that
    hold no new rows; or have the row ids that rows of this transaction have in files already.
    """
    if mine.follows_directly:
        raise _conflict(
            "DELTA_METADATA_CHANGED", winner, changes="it may use what this statement removes, or row ids that it gave"
        )


#: How many changes a message names; the others are counted.
_MOST_CHANGES = 4


def _in_words(changes: Sequence[Change]) -> str:
    listed = list(dict.fromkeys(change.text for change in changes))
    more = f"; and {len(listed) - _MOST_CHANGES} more" if len(listed) > _MOST_CHANGES else ""
    return "; ".join(listed[:_MOST_CHANGES]) + more


def counts_appends(mine: Intent, winner: WinningCommit) -> bool:
    """Whether rows that a winner added can be a conflict at all."""
    if mine.isolation is Isolation.SNAPSHOT or mine.reads.nothing:
        return False
    unnoticed = winner.blind_append and mine.isolation is Isolation.WRITE_SERIALIZABLE
    return not unnoticed or mine.writes.definition_changed


def _appends(mine: Intent, winner: WinningCommit) -> None:
    """The winner added rows that this transaction would have read. Files that only rearrange rows add none."""
    if not counts_appends(mine, winner):
        return
    # A file that is removed and added again, with another deletion vector, brings no rows: its removal is what matters.
    known = {canonical_path(file.path) for file in winner.removes}
    new = [file for file in winner.adds if file.data_change and canonical_path(file.path) not in known]
    matching = mine.reads.matching(new)
    check_added(winner, matching)


def check_added(winner: WinningCommit, files: Sequence[AddFile]) -> None:
    """Return if there are none of these files, in which a winner added rows that this transaction relied on not to be
    there.

    :raises HeadwaterError: ``DELTA_CONCURRENT_APPEND``.
    """
    if files:
        raise _conflict("DELTA_CONCURRENT_APPEND", winner, partition=_partitions(files))


def _deletes_of_read_files(mine: Intent, winner: WinningCommit) -> None:
    """The winner deleted or changed rows that this transaction read."""
    if mine.isolation is Isolation.SNAPSHOT or mine.reads.nothing:
        return
    gone = mine.reads.removed([file for file in winner.removes if file.data_change])
    if gone:
        raise _conflict("DELTA_CONCURRENT_DELETE_READ", winner, partition=_partitions(gone), file=gone[0].path)


def _deletes_of_deleted_files(mine: Intent, winner: WinningCommit) -> None:
    """A file is rewritten by both, so that the second would bring back rows, or write them twice.

    Only paths are compared: a writer that changes a file's deletion vector removes the file as it was.
    """
    mine_paths = {path for path, _ in mine.writes.removed}
    both = [file for file in winner.removes if canonical_path(file.path) in mine_paths]
    if both:
        raise took(winner, both)


def took(winner: WinningCommit, files: Sequence[RemoveFile]) -> HeadwaterError:
    """The conflict that a winner took files whose place this transaction's were to take."""
    return _conflict("DELTA_CONCURRENT_DELETE_DELETE", winner, partition=_partitions(files), file=files[0].path)


def cleaned_up(newest: int, timestamp: int | None, read: int) -> HeadwaterError:
    """The conflict that the log was cleaned up beyond the version that this transaction follows. ``timestamp`` of the
    newest version in milliseconds since the epoch.
    """
    reason = f"the log was cleaned up beyond version {read}, which this statement follows"
    return _conflict("DELTA_CONCURRENT_WRITE", WinningCommit(newest, timestamp), reason=reason)


def _transactions(mine: Intent, winner: WinningCommit) -> None:
    """The same stream or job is writing twice at once."""
    both = mine.app_ids & winner.app_ids
    if both:
        raise _conflict("DELTA_CONCURRENT_TRANSACTION", winner, appId=", ".join(sorted(both)))


def _domains(mine: Intent, winner: WinningCommit) -> None:
    # Row ids are given by each attempt, above the mark that the winners left.
    both = (mine.writes.domains & winner.domains) - {ROW_TRACKING_DOMAIN}
    if both:
        reason = f"both change the metadata domain {', '.join(sorted(both))}"
        raise _conflict("DELTA_CONCURRENT_WRITE", winner, reason=reason)


_RULES: tuple[Callable[[Intent, WinningCommit], None], ...] = (
    _creation,
    _definition,
    _appends,
    _deletes_of_read_files,
    _deletes_of_deleted_files,
    _transactions,
    _domains,
    _direct_succession,
)

#: How many partitions a message names; the others are counted.
_MOST_PARTITIONS = 3


def _partitions(files: Iterable[AddFile] | Iterable[RemoveFile]) -> str:
    """Where the files are, in words."""
    names: dict[str, None] = {}
    for file in files:
        values = file.partition_values or {}
        names[", ".join(f"{column}={value}" for column, value in values.items())] = None
    if set(names) == {""}:
        return "the table"
    listed = [f"[{name}]" for name in names if name]
    more = f" and {len(listed) - _MOST_PARTITIONS} more" if len(listed) > _MOST_PARTITIONS else ""
    return f"partition {', '.join(listed[:_MOST_PARTITIONS])}{more}"


def _conflict(condition: str, winner: WinningCommit, **parameters: str) -> HeadwaterError:
    # A caller that runs a statement again puts the number of its attempts here.
    return HeadwaterError(condition, {**winner.description, "tried": "", **parameters})
