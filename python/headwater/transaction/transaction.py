"""The optimistic transaction: how a version of a table comes to be.

Owns the commit protocol. Follows the protocol's chapters "Delta Log Entries", "Creation of New Log Entries", "Commit
Provenance Information", "In-Commit Timestamps" and "Append-only Tables".

**What may fail.** The process may die at any moment, the machine with it; a store may answer with an error although
it did what it was asked, or be slow; any number of writers, of other programs and machines too, commit to the same
table. What a store is relied on for: an acknowledged file stays, whole, under its name; of all that create one name,
exactly one succeeds; a listing shows every file whose creation was acknowledged before it.

**The steps.**

1. *Read.* The transaction works on one snapshot and notes what of it is read. Nothing is locked. A crash leaves
   nothing.
2. *Write data files* (the caller does), under names that nobody else chooses. A crash leaves files that no version
   names; VACUUM removes them.
3. *Validate.* Protocol, features, append-only, duplicate actions: a commit that must not be is refused before
   anything is tried.
4. *Put if absent* the file of the next version, of the same table: one deleted and made anew meanwhile is not written
   to (:mod:`headwater.transaction.same_table`). This is the one moment: before it, the table is as it was; from it on,
   every reader sees all of the commit. A file is never seen in part, and a machine that loses power has the file or has
   not.
5. *The name was taken.* The winners since are read and checked one by one (:mod:`headwater.transaction.conflicts`).
   With no conflict the commit moves to the version after the newest, after a short wait of random length. In-commit
   timestamp and read version's successor are worked out anew; file actions stay as they are. A conflict ends the
   transaction: its data files are as in 2. Rows marked deleted in a file where the winner marked others are carried
   over to the winner's marks (:mod:`headwater.transaction.row_level`). A MERGE whose rows are known by their keys
   does not notice what winners did to rows with other keys (:mod:`headwater.transaction.keyed`).
6. *The store failed instead.* Whether the file was created is then unknown, so it is looked for: each commit carries an
   identifier of its own. If it is there, the commit stands, and is reported so; if it is not, the failure is reported.
   The same look tells a retry inside a store, which finds its own file and calls it taken, from a lost race. A store
   that does not let itself be looked at, time and again, leaves the outcome open: the error says so, and names the
   file and the identifier to look for.
7. *Post-commit maintenance* (:mod:`headwater.transaction.maintenance`): checksum, checkpoint and cleanup, in the
   background. Nothing in it can undo or fail the commit; a crash that prevents it costs readers only speed.

How each is tested: ``tests/faults`` makes every call to a store, and to the operating system below it, fail, tear,
repeat, come late or be the process's last, and kills writers, handlers and whole Sparks at random;
``tests/concurrency`` checks all of it against a model with every interleaving of several writers it can reach, races
processes that are killed at random, and has every engine there is write to the same tables.
"""

from __future__ import annotations

import itertools
import logging
import random
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import orjson
from pyroaring import BitMap64

from headwater.errors import HeadwaterError
from headwater.log import deletion_vectors
from headwater.log.checkpoints.writing import Layout
from headwater.log.commits import commit_info_of, parse_actions
from headwater.log.files import canonical_path
from headwater.log.snapshot import Snapshot, load_snapshot
from headwater.log.snapshot_cache import SnapshotCache
from headwater.protocol import properties
from headwater.protocol.actions import (
    Action,
    AddCDCFile,
    AddFile,
    CommitInfo,
    DeletionVector,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
    serialize,
)
from headwater.protocol.features import check_writable, in_commit_timestamps_enabled, supports
from headwater.protocol.file_names import (
    CheckpointName,
    CommitName,
    commit_name,
    log_directory,
    parse_name,
    version_prefix,
)
from headwater.stores import Store
from headwater.transaction import maintenance
from headwater.transaction.commit_info import commit_info, default_engine_info
from headwater.transaction.conflicts import Intent, Isolation, Reads, WinningCommit, check, counts_appends, file_key
from headwater.transaction.keyed import KeyReads
from headwater.transaction.reads import FileMatcher, PredicateReads, match_by_pruning
from headwater.transaction.row_level import Mark, Marks
from headwater.transaction.same_table import check_same_table
from headwater.transaction.validation import check_partitions, check_unique

_LOG = logging.getLogger(__name__)

#: How many lost races a transaction survives. Each lost race is a commit of another writer, so giving up means
#: starvation, never deadlock.
MAX_ATTEMPTS = 1000
#: Backoff with jitter after a lost race: the range of the first wait doubles up to the longest (bench case
#: ``appends-4``).
_FIRST_WAIT_SECONDS = 0.002
_LONGEST_WAIT_SECONDS = 0.25
#: How often a commit is looked for if the store leaves its outcome open.
_LOOKS = 4


@dataclass(frozen=True)
class Committed:
    """A commit that stands. ``timestamp`` in milliseconds since the epoch, as the table's history shows it."""

    version: int
    timestamp: int
    load: Callable[[], Snapshot] = field(repr=False)

    @cached_property
    def snapshot(self) -> Snapshot:
        """The version that the commit made; loaded already, unless that failed, and then once more."""
        return self.load()


class Transaction:
    """One attempt to make the next version of a table. Not for use by several threads; commit it once.

    :param table_path: as the store spells it, without a trailing slash.
    :param snapshot: the version that is read; None to create the table.
    :param cache: gets the snapshot the commit makes.
    :param matcher: decides which files a predicate concerns.
    """

    def __init__(
        self,
        table_path: str,
        store: Store,
        snapshot: Snapshot | None,
        cache: SnapshotCache | None = None,
        *,
        matcher: FileMatcher = match_by_pruning,
        max_attempts: int = MAX_ATTEMPTS,
    ) -> None:
        self.table_path = table_path
        self.store = store
        self.snapshot = snapshot
        self.id = str(uuid.uuid4())
        #: What checkpoints that follow the commit are to look like, where the session says so.
        self.checkpoint_layout: Layout | None = None
        self._cache = cache
        self._matcher = matcher
        self._max_attempts = max_attempts
        self._metadata: Metadata | None = None
        self._protocol: Protocol | None = None
        self._whole_table = False
        self._keys: KeyReads | None = None
        self._key_predicates: tuple[str, ...] = ()
        self._reads: list[tuple[tuple[str, ...], str]] = []
        self._read_app_ids: set[str] = set()
        self._transactions: dict[str, SetTransaction] = {}
        self._domains: dict[str, DomainMetadata] = {}
        self._marks = Marks()
        self._removes: list[RemoveFile] = []
        self._adds: list[AddFile] = []
        self._changes: list[AddCDCFile] = []
        self._attempts = 0

    # What is read

    def read_whole_table(self) -> None:
        """Note that the result depends on every row of the table."""
        self._whole_table = True

    def read_where(self, predicates: Sequence[str], time_zone: str = "UTC") -> None:
        """Note that the result depends on the rows for which all ``predicates`` (Spark SQL texts) are true; none is
        every row.
        """
        if predicates:
            self._reads.append((tuple(predicates), time_zone))
        else:
            self.read_whole_table()

    def read_keys(self, keys: KeyReads, predicates: Sequence[str] = ()) -> None:
        """Note that the result depends only on the rows with one of these keys.

        :param predicates: Spark SQL texts, times in UTC, which are all true for these rows.
        """
        self._keys, self._key_predicates = keys, tuple(predicates)

    @property
    def reads_keys(self) -> bool:
        """Whether it is known by their keys which rows the result depends on."""
        return self._keys is not None and not self._whole_table

    @property
    def reads_whole_table(self) -> bool:
        """Whether the result depends on every row of the table."""
        return self._whole_table

    def transaction_version(self, app_id: str) -> int | None:
        """The newest version the application has committed, None where it has not; the commit then depends on it."""
        self._read_app_ids.add(app_id)
        known = self.snapshot.set_transactions.get(app_id) if self.snapshot else None
        return known.version if known else None

    # What is written

    @property
    def metadata(self) -> Metadata:
        """The metadata as it will be.

        :raises HeadwaterError: ``DELTA_TABLE_WITHOUT_METADATA`` while a new table has none.
        """
        metadata = self._metadata or (self.snapshot.metadata if self.snapshot else None)
        if metadata is None:
            raise HeadwaterError("DELTA_TABLE_WITHOUT_METADATA", {"tableName": self.table_path, "missing": "metadata"})
        return metadata

    @property
    def protocol(self) -> Protocol:
        """The protocol as it will be.

        :raises HeadwaterError: ``DELTA_TABLE_WITHOUT_METADATA`` while a new table has none.
        """
        protocol = self._protocol or (self.snapshot.protocol if self.snapshot else None)
        if protocol is None:
            raise HeadwaterError("DELTA_TABLE_WITHOUT_METADATA", {"tableName": self.table_path, "missing": "protocol"})
        return protocol

    def update_metadata(self, metadata: Metadata) -> None:
        """Commit this metadata; the last call counts, and metadata the table has already is not written again."""
        self._metadata = None if self.snapshot and self.snapshot.metadata == metadata else metadata

    def update_protocol(self, protocol: Protocol) -> None:
        """Commit this protocol; the last call counts, and a protocol the table has already is not written again."""
        self._protocol = None if self.snapshot and self.snapshot.protocol == protocol else protocol

    def set_transaction(self, app_id: str, version: int) -> None:
        """Record that the application has got this far."""
        self._transactions[app_id] = SetTransaction(app_id, version, _now())

    def add(self, files: Iterable[AddFile]) -> None:
        """Make the files part of the table."""
        self._adds.extend(files)

    def remove(self, files: Iterable[RemoveFile]) -> None:
        """Make the files no longer part of the table."""
        self._removes.extend(files)

    def mark(self, mark: Mark) -> None:
        """Mark rows of a file deleted. Where the result depends on no other rows of it (each row it was read for is
        marked), another writer may mark others at the same time.
        """
        self._marks.put(mark)

    def add_action(self, action: Action) -> None:
        """Commit an action of any kind but ``commitInfo``, which is made here."""
        match action:
            case AddFile():
                self._adds.append(action)
            case RemoveFile():
                self._removes.append(action)
            case AddCDCFile():
                self._changes.append(action)
            case Metadata():
                self.update_metadata(action)
            case Protocol():
                self.update_protocol(action)
            case SetTransaction():
                self._transactions[action.app_id] = action
            case DomainMetadata():
                self._domains[action.domain] = action
            case CommitInfo():
                raise ValueError("a transaction makes its commitInfo itself")

    @property
    def has_changes(self) -> bool:
        """Whether a commit would hold anything beside its provenance."""
        state = self._metadata or self._protocol or self._transactions or self._domains
        return bool(state or self._file_actions())

    # The commit

    def commit(
        self,
        operation: str,
        parameters: Mapping[str, Any],
        metrics: Mapping[str, int | str] | None = None,
        *,
        user_metadata: str | None = None,
        tags: Mapping[str, str] | None = None,
        engine_info: str | None = None,
        on_begin: Callable[[int, str], None] | None = None,
    ) -> Committed:
        """Make the next version of the table, or raise and leave the table as it is.

        :param on_begin: called with version and transaction identifier right before each attempt; what it raises ends
            the commit.
        :raises HeadwaterError: a conflict (:func:`~headwater.transaction.conflicts.check`);
            ``DELTA_MAX_COMMIT_RETRIES_EXCEEDED``; for what may never be committed
            ``DELTA_CANNOT_MODIFY_APPEND_ONLY``, ``DELTA_DUPLICATE_ACTIONS_FOUND``,
            ``DELTA_DOMAIN_METADATA_NOT_SUPPORTED``, ``DELTA_TABLE_WITHOUT_METADATA`` and what
            :func:`~headwater.protocol.features.check_writable` raises.
            ``HEADWATER_COMMIT_OUTCOME_UNKNOWN``.
        :raises OSError: the store failed, and the commit is not there.
        """
        self._validate()
        intent = self._intent()

        def provenance(timestamp: int, in_commit_timestamp: int | None) -> CommitInfo:
            return commit_info(
                timestamp=timestamp,
                operation=operation,
                parameters=parameters,
                metrics=metrics or {},
                read_version=self.snapshot.version if self.snapshot else None,
                isolation=intent.isolation,
                blind_append=intent.reads.nothing and not self._all_removes,
                engine_info=engine_info or default_engine_info(),
                transaction_id=self.id,
                in_commit_timestamp=in_commit_timestamp,
                user_metadata=user_metadata,
                tags=tags,
            )

        began = time.monotonic()
        version, timestamp = self._put(intent, provenance, on_begin)
        if _LOG.isEnabledFor(logging.INFO):
            _LOG.info("%s", self._describe(version, operation, time.monotonic() - began))
        return self._committed(version, timestamp)

    def _describe(self, version: int, operation: str, seconds: float) -> str:
        """The commit in one line of a log."""
        added, removed = (
            f"{len(files)} files with {_live_rows(files)} rows" for files in (self._all_adds, self._all_removes)
        )
        return (
            f"{self.table_path}: version {version} committed by {operation}: {added} added, {removed} removed, "
            f"{seconds * 1000:.0f} ms, attempts: {self._attempts}"
        )

    def _put(
        self,
        intent: Intent,
        provenance: Callable[[int, int | None], CommitInfo],
        on_begin: Callable[[int, str], None] | None,
    ) -> tuple[int, int]:
        """Steps 4 to 6: put the commit, at the next version nobody else took; returns that version and its time."""
        directory = log_directory(self.table_path)
        body = serialize(self._file_actions())  # the bulk of a commit, which an attempt seldom changes
        started = time.monotonic()
        previous = self.snapshot.timestamp if self.snapshot else None
        first = version = self.snapshot.version + 1 if self.snapshot else 0
        if self.snapshot is None:
            self.store.make_directory(directory)
            self._check_absent(intent)
        else:
            check_same_table(self.snapshot, self.store)
        for attempt in range(self._max_attempts):
            self._attempts = attempt + 1
            now = _now()
            metadata, stamp = self._stamped_metadata(version, now, previous)
            data = serialize([provenance(now, stamp), *self._table_actions(metadata)]) + body
            if on_begin is not None:
                on_begin(version, self.id)
            path = f"{directory}/{commit_name(version)}"
            try:
                self.store.put_if_absent(path, data)
                return version, stamp or now
            except FileExistsError as error:
                if self._is_there(path, error):
                    return version, stamp or now
            except Exception as error:
                if self._is_there(path, error):
                    _LOG.warning("%s: the store reported a failure, but the commit is there", path, exc_info=True)
                    return version, stamp or now
                raise
            winners = self._winners(version)
            if self.snapshot is not None:
                check_same_table(self.snapshot, self.store)
            for winner in winners:
                concerning, disputed = self._concerning(winner, intent)
                left = self._marks.after(concerning, self._read_vector, self._write_vectors, disputed)
                check(intent, left)
                if left is not concerning:
                    intent, body = self._intent(), serialize(self._file_actions())
                if winner.timestamp is not None:
                    previous = max(previous or 0, winner.timestamp)
            version = winners[-1].version + 1
            _wait(attempt)
        raise HeadwaterError(
            "DELTA_MAX_COMMIT_RETRIES_EXCEEDED",
            {
                "numAttempts": self._max_attempts,
                "startVersion": first,
                "attemptVersion": version,
                "totalTime": int((time.monotonic() - started) * 1000),
                "numActions": len(self._file_actions()),
                **winners[-1].description,
            },
        )

    def _check_absent(self, intent: Intent) -> None:
        """Refuse to create a table where one is, though its log may have no version 0 any more."""
        for file in self.store.list_from(log_directory(self.table_path), ""):
            if isinstance(name := parse_name(file.name), (CommitName, CheckpointName)) and name.version > 0:
                check(intent, WinningCommit(name.version, file.modification_time))

    def _winners(self, version: int) -> list[WinningCommit]:
        """The commits of ``version`` and after, in order, without gap; at least one."""
        directory = log_directory(self.table_path)
        files = self.store.following(f"{directory}/{commit_name(v)}" for v in itertools.count(version))
        if files is None:
            listed = self.store.list_from(directory, version_prefix(version))
            commits = {name.version: file for file in listed if isinstance(name := parse_name(file.name), CommitName)}
            files = []
            while (file := commits.get(version + len(files))) is not None:
                files.append(file)
        if not files:  # listed by a store that lags behind its own acknowledgements: the one we know of is enough
            path = f"{directory}/{commit_name(version)}"
            return [WinningCommit.of_actions(version, parse_actions(self.store.read(path), path))]
        contents = self.store.read_many([file.path for file in files])
        winners = []
        for number, (file, content) in enumerate(zip(files, contents, strict=True), version):
            winner = WinningCommit.of_actions(number, parse_actions(content, file.path), file.modification_time)
            if self.snapshot is not None and not in_commit_timestamps_enabled(self.snapshot.metadata):
                winner = replace(winner, timestamp=file.modification_time)
            winners.append(winner)
        return winners

    def _concerning(self, winner: WinningCommit, intent: Intent) -> tuple[WinningCommit, frozenset[str]]:
        """What of a winner is about rows that this transaction read, and the files in which it marked such rows that
        this transaction has marks in, too.
        """
        if self._keys is None or self._whole_table:
            return winner, frozenset()
        assert self.snapshot is not None
        removed = {canonical_path(file.path) for file in self._removes}
        excluded: frozenset[str] = frozenset()
        if self._key_predicates and winner.metadata is None:
            reads = PredicateReads(self.snapshot, [(self._key_predicates, "UTC")], self._matcher)
            excluded = reads.excluded(winner.adds, winner.removes)
        appends = counts_appends(intent, winner)
        return self._keys.after(winner, removed, self._marks.paths, excluded, appends=appends)

    def _is_there(self, path: str, reported: Exception) -> bool:
        """Step 6: whether the file of that name is this transaction's commit, after the store reported a failure.

        :raises HeadwaterError: ``HEADWATER_COMMIT_OUTCOME_UNKNOWN`` where the store does not answer that either.
        """
        for attempt in range(_LOOKS):
            _wait(attempt)
            try:
                return (commit_info_of(self.store.read(path)) or {}).get("txnId") == self.id
            except FileNotFoundError:
                return False
            except Exception as error:
                failure = error
        if isinstance(reported, HeadwaterError):
            raise reported  # the store refused, and did nothing
        raise HeadwaterError(
            "HEADWATER_COMMIT_OUTCOME_UNKNOWN",
            {"path": path, "txnId": self.id, "reported": str(reported), "reason": str(failure)},
        ) from reported

    def _table_actions(self, metadata: Metadata | None) -> list[Action]:
        """All actions that are not of files, in the order the log has them."""
        state: list[Action | None] = [self._protocol, metadata]
        return [a for a in state if a is not None] + [*self._transactions.values(), *self._domains.values()]

    def _file_actions(self) -> list[Action]:
        return [*self._all_removes, *self._all_adds, *self._changes]

    @property
    def _all_removes(self) -> list[RemoveFile]:
        return [*self._removes, *self._marks.removes]

    @property
    def _all_adds(self) -> list[AddFile]:
        return [*self._adds, *self._marks.adds]

    def _read_vector(self, vector: DeletionVector) -> BitMap64:
        return deletion_vectors.read(vector, self.table_path, self.store)

    def _write_vectors(self, vectors: Sequence[BitMap64]) -> Sequence[DeletionVector]:
        return deletion_vectors.write_file(vectors, self.table_path, self.store)

    def _stamped_metadata(self, version: int, now: int, previous: int | None) -> tuple[Metadata | None, int | None]:
        """The metadata to commit, if any, and the in-commit timestamp, if the table has them.

        ``previous`` is the time of the version before, milliseconds, by whichever clock that version goes. An
        existing table that gets in-commit timestamps also gets the two properties which say since when.
        """
        metadata = self.metadata
        if not in_commit_timestamps_enabled(metadata):
            return self._metadata, None
        stamp = now if previous is None else max(now, previous + 1)
        if self.snapshot is None or in_commit_timestamps_enabled(self.snapshot.metadata):
            return self._metadata, stamp
        since = {
            "delta.inCommitTimestampEnablementVersion": str(version),
            "delta.inCommitTimestampEnablementTimestamp": str(stamp),
        }
        return replace(metadata, configuration={**metadata.configuration, **since}), stamp

    def _intent(self) -> Intent:
        """What conflicts are checked against."""
        removed = frozenset(file_key(file.path, file.deletion_vector) for file in self._all_removes)
        return Intent(
            self.snapshot.metadata if self.snapshot else None,
            self._reads_so_far(),
            removed,
            self._isolation(),
            self._metadata is not None,
            frozenset(self._read_app_ids | self._transactions.keys()),
            frozenset(self._domains),
            self.snapshot is None,
        )

    def _reads_so_far(self) -> Reads:
        if self._keys is not None and self.snapshot is not None:
            return Reads(True)  # of what _concerning leaves
        if self._whole_table or not self._reads or self.snapshot is None:
            return Reads(self._whole_table and self.snapshot is not None)
        answers = PredicateReads(self.snapshot, self._reads, self._matcher)
        predicates = tuple(predicate for some, _ in self._reads for predicate in some)
        return Reads(False, predicates, answers.may_match, answers.were_read)

    def _isolation(self) -> Isolation:
        """A commit of files that changes no data needs only what it rewrites to be there still; others what the table
        says.
        """
        files: list[AddFile | RemoveFile] = [*self._all_adds, *self._all_removes]
        if files and self._metadata is None and self._protocol is None and not any(file.data_change for file in files):
            return Isolation.SNAPSHOT
        level = properties.text(self.metadata.configuration, "delta.isolationLevel") or ""
        return Isolation.SERIALIZABLE if level.lower() == "serializable" else Isolation.WRITE_SERIALIZABLE

    def _load(self, version: int | None) -> Snapshot:
        return load_snapshot(self.table_path, self.store, version, self.snapshot)

    def _validate(self) -> None:
        """Step 3."""
        protocol, metadata = self.protocol, self.metadata
        if self.snapshot is not None:
            check_writable(self.snapshot.protocol, self.snapshot.metadata)
        check_writable(protocol, metadata)
        before = self.snapshot.metadata if self.snapshot else metadata
        append_only = before.configuration.get("delta.appendOnly", "false").lower() == "true"
        if append_only and any(file.data_change for file in self._all_removes):
            raise HeadwaterError("DELTA_CANNOT_MODIFY_APPEND_ONLY", {"tableName": metadata.name or self.table_path})
        if self._domains and not supports(protocol, "domainMetadata"):
            names = ", ".join(sorted(self._domains))
            raise HeadwaterError("DELTA_DOMAIN_METADATA_NOT_SUPPORTED", {"domainNames": names})
        check_unique(self._all_removes, self._all_adds)
        check_partitions(self._all_adds, metadata)

    def _committed(self, version: int, now: int) -> Committed:
        """Step 7. The commit stands: nothing from here on may raise."""
        try:
            snapshot = self._load(version)
            if self._cache is not None:
                self._cache.put(snapshot)
            maintenance.schedule(snapshot, self.id, self.checkpoint_layout)
            return Committed(version, snapshot.timestamp, lambda: snapshot)
        except Exception:
            _LOG.warning("%s: version %d stands, but cannot be read back now", self.table_path, version, exc_info=True)
            return Committed(version, now, lambda: self._load(version))


def _live_rows(files: Sequence[AddFile | RemoveFile]) -> int | str:
    """How many rows files have that are not marked deleted, as the log says."""
    rows = 0
    for file in files:
        count = orjson.loads(file.stats).get("numRecords") if file.stats else None
        if not isinstance(count, int):
            return "an unknown number of"
        rows += count - (file.deletion_vector.cardinality if file.deletion_vector else 0)
    return rows


def _now() -> int:
    return time.time_ns() // 1_000_000


def _wait(attempt: int) -> None:
    """The first loser tries again at once; those that lose again and again leave ever more room, at random."""
    if attempt > 0:
        time.sleep(random.uniform(0, min(_LONGEST_WAIT_SECONDS, _FIRST_WAIT_SECONDS * 2 ** min(attempt, 10))))
