"""The commit protocol: how a transaction becomes the next version of a table, exactly once and completely.

Owns the loop that puts a commit: the next version to try, conflict check after a lost race, backoff with jitter. Who
makes bytes a version, and looks for a commit whose outcome is open, is a committer
(:mod:`headwater.transaction.committers`): the table's store, or the catalog that manages the table
(:mod:`headwater.transaction.catalog_commits`). Follows the protocol's chapters "Delta Log Entries" and
"Creation of New Log Entries". What a commit contains is :mod:`headwater.transaction.prepared`'s; the loop sees bytes
and winners.

**Failure model.** The process or its machine may die at any moment. A store may report an error although it did what it
was asked, repeat a request, answer late, or do what it was asked after it has reported an error. Any number of writers,
of other programs and machines too, commit to the same table. The store must keep three promises: an acknowledged file
stays, whole, under its name; of several writers that create one name, exactly one succeeds; a listing shows every file
whose creation was acknowledged before it.

**Steps.**

1. *Read.* The transaction works on one snapshot and records what it reads. Nothing is locked. A crash leaves nothing
   behind.
2. *Write data files.* The caller does this, under names that no other writer chooses. A crash leaves files that no
   version names; VACUUM removes them.
3. *Validate* (:mod:`headwater.transaction.validation`): protocol, features, append-only, duplicate actions; and
   read the commit back from its bytes, as readers will. A commit that may never be made is refused before the first
   attempt.
4. *Put if absent* the file of the next version, after a check that the table is still the same one
   (:mod:`headwater.transaction.same_table`). This step decides: before it, the table is unchanged; after it, every
   reader sees the whole commit. No reader sees part of the file, and after a power failure the file is there whole or
   not at all.
5. *Lost race: the name exists.* After backoff with jitter, all winners since are read and checked one by one
   (:mod:`headwater.transaction.conflicts`). A conflict ends the transaction, and its data files are as after step 2.
   Without a conflict, the commit is tried again at once, as the version after the newest. It is made
   under the protocol and metadata that the winners left (:mod:`headwater.transaction.definition_conflicts`), and
   validated by them. Its in-commit timestamp is computed again; its file actions are unchanged, with two exceptions of
   row-level concurrency: rows marked deleted in a file where a winner marked other rows are carried over to the
   winner's deletion vector (:mod:`headwater.transaction.row_level`), and marks follow rows that a compaction moves,
   whichever of the two commits first (:mod:`headwater.transaction.moved_rows`). A MERGE that knows the keys of its rows
   ignores changes to rows with other keys (:mod:`headwater.transaction.keyed`). A transaction that claims the keys of
   the rows it adds, as enforced primary keys do, loses to a winner that added a row with one of them.
6. *The store failed* (:mod:`headwater.transaction.committers`). Whether the file was created is unknown, so it is read:
   each commit has an identifier of its own. If it is this commit, the commit stands and is reported as done; if not,
   the failure is reported. The same look distinguishes a lost race from a retry inside the store, which finds its own
   file and reports that it exists. If the store cannot be read either, several times, the outcome is open: the error
   says so, and names the file and the identifier to look for.
   A request may also be carried out after that look. So unless the store rules that out
   (:meth:`headwater.stores.Store.may_come_late`), a commit that is not there is put again, with the same
   bytes. Then the name is taken, and the late request fails. If the second put fails as well, the outcome is open.
   If the version before is gone by now, log cleanup may have gone beyond the version that was read, while this writer
   was paused: the name was free, but no version follows from the commit. It is taken back, and reported as a conflict.
   A writer that dies before that leaves it, and another paused writer may lose its race to it. So each looks for the
   commit that it read itself, and follows no winner if that is gone. A commit is taken back only if no reader needs it:
   the log has a gap right after it, or goes on with a commit that was put before it and has no checkpoint up to it. If
   these signs differ, as after a clock was set back, the outcome is open.
7. *Post-commit maintenance* (:mod:`headwater.transaction.maintenance`) writes checksum and checkpoint in the
   background. It cannot undo or fail the commit. A crash that prevents it costs readers time and nothing else.

**Invariants,** in every state, whoever died. ``python -m model`` checks them in all states of a small model, by these
names (``model/rows.pml``):

- *one or none*: a commit is at most one version.
- *nothing is lost*: an acknowledged commit is a version.
- *a failed statement writes nothing*: a commit that was reported as failed is no version.
- *conflicts are found*: a row that a commit changes is as the statement read it.
- *a file has one state*: a removed file is removed as the version before has it.
- *no row is lost*, *no row is there twice*, *no deleted row comes back*, *no update is lost*: the rows of a version are
  those that its commits mean, one after the other.
- *row ids are unique*: no two rows ever have the same id.
- *a row keeps its id*, whoever updates or moves it.

**How each step is tested.**

- All steps, with up to four writers in every order: ``python -m model``.
- All steps: ``tests/faults/test_every_call.py`` makes every store call of a table's life fail, tear, repeat, come late
  or be the last of the process. ``tests/faults/test_kills.py`` and ``test_kills_of_spark.py`` kill writers, handlers
  and JVMs at random moments. ``tests/faults/test_faults_of_definitions.py`` makes every store call of each statement
  that changes a definition fail.
- Step 3: ``tests/transaction/test_transaction.py``.
- Step 4: ``tests/faults/test_local_steps.py`` does the same to each call to the operating system;
  ``tests/stores/test_commits.py`` runs on HDFS and an S3 server; ``tests/transaction/test_same_table.py``.
- Step 5: ``tests/transaction/test_conflicts.py``, ``test_definition.py``, ``test_row_level.py``, ``test_moved_rows.py``
  and ``test_keyed.py`` for the rules;
  ``tests/concurrency/test_model.py`` compares every interleaving it reaches with a model; ``test_writers.py`` and
  ``test_mixed.py`` race processes of every engine, some of which are killed. Clocks: ``tests/faults/test_clocks.py``.
- Steps 6 and 7: ``tests/transaction/test_faults.py``, ``test_committers.py``, ``test_late_puts.py`` and
  ``tests/faults/test_cleaned_logs.py``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from headwater.basics import backoff, clock, counts
from headwater.basics.errors import HeadwaterError
from headwater.catalogs.log_view import RatifiedLog
from headwater.log.commits import parse_actions
from headwater.log.groups import Group, settle
from headwater.log.segment import list_log
from headwater.protocol import properties
from headwater.protocol.features import in_commit_timestamps_enabled
from headwater.protocol.file_names import (
    CheckpointName,
    CommitName,
    commit_name,
    log_directory,
    parse_name,
)
from headwater.stores import FileInfo
from headwater.transaction.catalog_commits import CatalogCommitter
from headwater.transaction.committers import (
    LOOKS,
    CommitFile,
    Committer,
    CommittingStore,
    Made,
    StoreCommitter,
    Unknown,
)
from headwater.transaction.conflicts import WinningCommit, cleaned_up
from headwater.transaction.prepared import PreparedCommit
from headwater.transaction.same_table import check_same_table

#: Within this age, in milliseconds, a commit is not looked for, unless its table keeps its log for less than twice as
#: long: this machine's clock may differ from the store's.
_CLEANED_UP_AFTER = 3600 * 1000
_RETENTIONS = (properties.LOG_RETENTION, properties.TRUNCATED_HISTORY_RETENTION)
#: By how much files of one log may be dated in another order than they were put, in milliseconds, as clocks are set
#: back and servers of a store differ. Chosen, not measured.
_CLOCKS_DIFFER = 3600 * 1000
#: Receives the version and the transaction identifier of an attempt.
Begin = Callable[[int, str], None]


class Put(NamedTuple):
    """A commit that is in the log; ``timestamp`` in milliseconds since the epoch."""

    version: int
    timestamp: int
    attempts: int


class Encoded(NamedTuple):
    """A commit as bytes, for one version; ``timestamp`` in milliseconds since the epoch."""

    data: bytes
    timestamp: int


class CommitLoop:
    """Steps 4 to 6 for one prepared commit.

    :param committer: who makes a commit a version of the table; None is the catalog that manages it, or its store.
    """

    def __init__(self, prepared: PreparedCommit, committer: Committer | None = None) -> None:
        self._prepared = prepared
        self._store = prepared.store
        self._snapshot = snapshot = prepared.snapshot
        self._directory = log_directory(prepared.table_path)
        self._committer = committer or _committer_of(prepared)
        #: Whether the newest version known goes by its in-commit timestamp; otherwise by the time of its file.
        self._stamped = snapshot is None or snapshot.definition.has_in_commit_timestamps
        self._previous = snapshot.timestamp if snapshot else None
        #: Called with a winner's bytes before a wait until the winner's group is decided.
        self.before_waiting: Callable[[bytes], None] = lambda winner: None
        #: The version to try next.
        self.version = snapshot.version + 1 if snapshot else 0
        #: The commit that was read. Not that of a winner: it may have taken a name that was free as wrongly.
        self._read: FileInfo | None = None
        if snapshot is not None:
            self._read = snapshot.segment.listing.commits.get(snapshot.version)
        #: How old it is at least, by any of the clocks, if log cleanup has deleted it.
        self._kept_for = _CLEANED_UP_AFTER
        if snapshot is not None:
            self._kept_for = min(_CLEANED_UP_AFTER, *(snapshot.definition.get(each) // 2 for each in _RETENTIONS))

    def put(
        self,
        max_attempts: int,
        first: Encoded | None = None,
        *,
        group: Group | None = None,
        on_begin: Begin | None = None,
    ) -> Put:
        """Put the commit as the next version that no other writer took.

        :param first: what :meth:`encode` made for the first attempt already.
        :param group: as of :meth:`encode`.
        :param on_begin: called right before each attempt; what it raises ends the commit.
        :raises HeadwaterError: a conflict; ``DELTA_MAX_COMMIT_RETRIES_EXCEEDED``;
            ``HEADWATER_COMMIT_OUTCOME_UNKNOWN``; those of :func:`~headwater.transaction.same_table.check_same_table`.
        :raises OSError: the store failed, and the commit is not there.
        """
        started, since = time.monotonic(), self.version
        if self._snapshot is None:
            self._store.make_directory(self._directory)
            self._check_absent()
        elif first is None:
            check_same_table(self._snapshot, self._store)
        for attempt in range(max_attempts):
            encoded = first if first is not None and attempt == 0 else self.encode(group)
            if on_begin is not None:
                on_begin(self.version, self._prepared.transaction_id)
            outcome = self._committer.commit(self.version, encoded.data, self._prepared.transaction_id)
            if isinstance(outcome, Made):
                self._check_follows(encoded.data)
                counts.count("commits")
                counts.count("commitBytes", len(encoded.data))
                return Put(self.version, encoded.timestamp, attempt + 1)
            if isinstance(outcome, Unknown):
                raise self._unknown(outcome) from outcome.reported
            counts.count("lostRaces")
            _back_off(attempt)
            last = self.follow_winners(outcome.version)
        raise HeadwaterError(
            "DELTA_MAX_COMMIT_RETRIES_EXCEEDED",
            {
                "numAttempts": max_attempts,
                "startVersion": since,
                "attemptVersion": self.version,
                "totalTime": int((time.monotonic() - started) * 1000),
                "numActions": self._prepared.num_actions,
                **last.description,
            },
        )

    def encode(self, group: Group | None = None) -> Encoded:
        """The commit as the version to try next.

        :param group: the tables that it is committed together with; None if it stands alone.
        """
        rows_version = self._committer.rows_version
        encoded = self._prepared.encode(self.version, _now(), self._previous, group=group, rows_version=rows_version)
        return Encoded(*encoded)

    def follow_winners(self, version: int) -> WinningCommit:
        """Check the commits of a version, which exists, and after for conflicts; the last of them.

        :raises HeadwaterError: a conflict.
        """
        files = self._committer.commits_from(version)
        self._check_unbroken(version, files)
        contents = self._store.read_many([file.path for file in files])
        if self._snapshot is not None:
            check_same_table(self._snapshot, self._store)
        for number, (file, data) in enumerate(zip(files, contents, strict=True), version):
            # One by one: after a conflict with one, there is no reason to wait for those after it.
            self.before_waiting(data)
            settle(self._prepared.table_path, self._store, number, data)
            winner = self._winner(number, file, data)
            self._follow(winner)
            if winner.timestamp is not None:
                self._previous = max(self._previous or 0, winner.timestamp)
        self.version = winner.version + 1
        return winner

    def catch_up(self) -> None:
        """Check what was committed since the snapshot, before anything is put.

        :raises HeadwaterError: a conflict.
        """
        if self._snapshot is not None:
            check_same_table(self._snapshot, self._store)
        if self._store.exists(self._path_of(self.version)):
            self.follow_winners(self.version)

    def _follow(self, winner: WinningCommit) -> None:
        try:
            self._prepared.follow(winner)
        except HeadwaterError:
            counts.count("conflicts")
            raise

    def _is_cleaned_up(self) -> bool:
        """Whether the commit that was read is gone. The oldest are deleted first: if it is there, so are all later."""
        read = self._read
        if read is None or not isinstance(self._committer, StoreCommitter):
            return False
        if abs(clock.milliseconds() - read.modification_time) < self._kept_for:
            return False
        return not self._store.exists(read.path)

    def _check_unbroken(self, version: int, files: Sequence[CommitFile]) -> None:
        """Refuse winners if the commit that was read is gone: log cleanup may have deleted others of their names, whose
        changes are not known.

        :raises HeadwaterError: ``DELTA_CONCURRENT_WRITE``.
        """
        if self._is_cleaned_up():
            counts.count("conflicts")
            raise cleaned_up(version + len(files) - 1, files[-1].modification_time, version - 1)

    def _check_follows(self, data: bytes) -> None:
        """Take a commit back if its version was free only because log cleanup had deleted another's commit: no version
        of the table follows from it.

        :raises HeadwaterError: ``DELTA_CONCURRENT_WRITE``; ``HEADWATER_COMMIT_OUTCOME_UNKNOWN``.
        """
        failure: Exception | None = None
        for _ in backoff.OF_COMMITS.tries(LOOKS):
            try:
                conflict = self._take_back(data)
            except OSError as error:
                failure = error
                continue
            if conflict is None:
                return
            counts.count("conflicts")
            raise conflict
        assert failure is not None
        raise self._unknown(Unknown(self._path_of(self.version), failure, failure)) from failure

    def _path_of(self, version: int) -> str:
        return f"{self._directory}/{commit_name(version)}"

    def _take_back(self, data: bytes) -> HeadwaterError | None:
        """The conflict for which a commit was taken back; None if it stands.

        :raises HeadwaterError: ``HEADWATER_COMMIT_OUTCOME_UNKNOWN``.
        :raises OSError: the store failed.
        """
        if not self._is_cleaned_up():
            return None
        path = self._path_of(self.version)
        log = list_log(self._prepared.table_path, self._store)
        commits, newest = log.commits, max(log.commits, default=self.version)
        gone = OSError("log cleanup has deleted the commit that was read")
        own, following = commits.get(self.version), commits.get(self.version + 1)
        if own is None or self._is_another(path, data):
            # It was cleaned up as well, and the name may be another paused writer's by now.
            raise self._unknown(Unknown(path, gone, OSError("the commit is not there any more")))
        is_last = newest == self.version
        if is_last and all(checkpoint.version <= self.version for checkpoint in log.checkpoints):
            return None
        if not is_last and following is None and self._store.exists(self._path_of(self.version + 1)):
            raise OSError("a listing lacks the commit that follows")  # some do, beside writers
        conflict = cleaned_up(newest, commits[newest].modification_time, self.version - 1)
        if is_last or following is not None:
            # Either the log goes on from this commit, and a checkpoint leads to it; or cleanup ended right after it. If
            # no checkpoint leads to it, no reader needs it, whatever the times say.
            is_reached = any(checkpoint.version <= self.version for checkpoint in log.checkpoints)
            later = own.modification_time - (following or own).modification_time
            if is_reached and later <= 0:
                return None
            if is_reached or later < _CLOCKS_DIFFER:
                raise self._unknown(Unknown(path, gone, OSError("the log does not show whether a version follows")))
        try:
            self._store.delete(path)
        except OSError as error:  # another look would find it gone
            raise self._unknown(Unknown(path, error, error)) from error
        return conflict

    def _is_another(self, path: str, data: bytes) -> bool:
        try:
            return self._store.read(path) != data
        except FileNotFoundError:
            return True

    def _unknown(self, outcome: Unknown) -> HeadwaterError:
        return HeadwaterError(
            "HEADWATER_CATALOG_OUTCOME_UNKNOWN" if self._store.of_catalog else "HEADWATER_COMMIT_OUTCOME_UNKNOWN",
            {
                "path": outcome.path,
                "txnId": self._prepared.transaction_id,
                "reported": str(outcome.reported),
                "reason": str(outcome.failure),
            },
        )

    def _check_absent(self) -> None:
        """Refuse to create a table where one exists, even one whose log no longer has version 0."""
        try:
            listed = self._store.list_from(self._directory, "")
        except FileNotFoundError:  # within a transaction, which makes no directory before its end
            return
        for file in listed:
            if isinstance(name := parse_name(file.name), (CommitName, CheckpointName)) and name.version > 0:
                self._prepared.follow(WinningCommit(name.version, file.modification_time))

    def _winner(self, version: int, file: CommitFile, data: bytes) -> WinningCommit:
        winner = WinningCommit.of_actions(version, parse_actions(data, file.path), file.modification_time)
        if winner.metadata is not None:
            self._stamped = in_commit_timestamps_enabled(winner.metadata)
        by_file = not self._stamped and file.modification_time is not None
        return replace(winner, timestamp=file.modification_time) if by_file else winner


def _committer_of(prepared: PreparedCommit) -> Committer:
    if isinstance(prepared.store, CommittingStore):
        return prepared.store.committer(prepared)
    if isinstance(prepared.store, RatifiedLog):
        return CatalogCommitter(prepared.store, lambda: prepared.before)
    return StoreCommitter(prepared.table_path, prepared.store)


def _now() -> int:
    """What an attempt is dated, read once for each."""
    return clock.milliseconds()


def _back_off(attempt: int) -> None:
    """Backoff with jitter; none after the first lost race.

    Before the winners are read, not after: what commits during the wait would win the next race as well, so that a
    writer among quick ones would never get its turn.
    """
    if attempt > 0:
        backoff.OF_COMMITS.wait(attempt)
