"""The optimistic transaction: what one attempt to change a table reads and writes.

Owns the state of a transaction: the reads that conflicts are checked against, the actions to commit, and the commit as
a whole. How the commit gets into the log, step by step and through every failure, is
:mod:`headwater.transaction.commit_loop`'s. Follows the protocol's chapters "Delta Log Entries", "In-Commit Timestamps"
and "Transaction Identifiers".
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyroaring import BitMap64

from headwater import clock
from headwater.errors import HeadwaterError
from headwater.log import deletion_vectors
from headwater.log.checkpoint_writing import Layout
from headwater.log.commits import ParsedActions, parse_actions
from headwater.log.data_footers import read_data_footer
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
from headwater.protocol.features import check_writable
from headwater.protocol.file_names import commit_name, log_directory
from headwater.protocol.row_tracking import PRESERVED
from headwater.protocol.table_definition import TableDefinition
from headwater.schema import iceberg, manifests
from headwater.stores import Store, absolute_path
from headwater.transaction import maintenance
from headwater.transaction.bulk import Bulk, partitions_of
from headwater.transaction.commit_info import (
    Provenance,
    default_engine_info,
    describe_files,
    stamped,
    summarize,
)
from headwater.transaction.commit_loop import CommitLoop, Put
from headwater.transaction.committers import Committer
from headwater.transaction.conflicts import (
    Intent,
    Isolation,
    Reads,
    WinningCommit,
    check,
    counts_appends,
    file_key,
    took,
)
from headwater.transaction.definition import Change, changes_marks_only, with_marks_of
from headwater.transaction.keyed import KeyReads
from headwater.transaction.moved_rows import Copies, Copy, follow
from headwater.transaction.reads import FileMatcher, PredicateReads, match_by_pruning
from headwater.transaction.row_ids import RowIds
from headwater.transaction.row_level import Mark, Marks
from headwater.transaction.validation import check_append_only, check_domains, check_partitions, check_unique

if TYPE_CHECKING:
    from headwater.pruning.predicates import Predicate

_LOG = logging.getLogger(__name__)

#: How many lost races a transaction survives. Each lost race is a commit of another writer, so giving up means
#: starvation, never deadlock.
MAX_ATTEMPTS = 1000


@dataclass(frozen=True)
class Committed:
    """A commit that is in the log. ``timestamp`` in milliseconds since the epoch, as the table's history shows it."""

    version: int
    timestamp: int
    load: Callable[[], Snapshot] = field(repr=False)

    @cached_property
    def snapshot(self) -> Snapshot:
        """The version that the commit made. It is loaded already, unless loading failed; then it is loaded again."""
        return self.load()


class Transaction:
    """One attempt to make the next version of a table. Not for use by several threads; commit it once.

    :param table_path: as the store spells it, without a trailing slash.
    :param snapshot: the version that is read; None to create the table.
    :param cache: receives the snapshot that the commit makes.
    :param matcher: decides which files a predicate matches.
    :param committer: who makes the commit a version; None is the store.
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
        committer: Committer | None = None,
    ) -> None:
        self.table_path = table_path
        self.store = store
        self.snapshot = snapshot
        self.id = str(uuid.uuid4())
        #: The layout of a checkpoint that follows the commit, where the session asks for one.
        self.checkpoint_layout: Layout | None = None
        #: Makes a predicate of a CHECK constraint that a winner added: (Spark SQL, schema string). None: it cannot.
        self.parse_condition: Callable[[str, str], Predicate | None] | None = None
        #: Whether the commit copies rows without their ids, where the table has row tracking.
        self.loses_row_ids = False
        self._cache = cache
        self._matcher = matcher
        self._max_attempts = max_attempts
        self._committer = committer
        #: The table's definition as the last winner left it: the commit is made, and checked, under it.
        self._definition = snapshot.definition if snapshot else None
        self._metadata: Metadata | None = None
        self._protocol: Protocol | None = None
        self._whole_table = False
        self._follows_directly = False
        self._keys: KeyReads | None = None
        self._key_predicates: tuple[Predicate, ...] = ()
        self._reads: list[tuple[Predicate, ...]] = []
        self._read_app_ids: set[str] = set()
        self._transactions: dict[str, SetTransaction] = {}
        self._domains: dict[str, DomainMetadata] = {}
        self._marks = Marks()
        self._copies = Copies()
        self._removes: list[RemoveFile] = []
        self._adds: list[AddFile] = []
        self._again: list[AddFile] = []
        self._row_ids = RowIds(snapshot, self._count_rows)
        self._changes: list[AddCDCFile] = []
        self._bulk: Bulk | None = None

    # What is read

    def read_whole_table(self) -> None:
        """Note that the result depends on every row of the table."""
        self._whole_table = True

    def follow_directly(self) -> None:
        """Commit only as the very next version after the snapshot's: any other commit is a conflict."""
        self._follows_directly = True

    def read_where(self, predicates: Sequence[Predicate]) -> None:
        """Note that the result depends on the rows for which all ``predicates`` are true. No predicates mean every
        row.
        """
        if predicates:
            self._reads.append(tuple(predicates))
        else:
            self.read_whole_table()

    def read_keys(self, keys: KeyReads, predicates: Sequence[Predicate] = ()) -> None:
        """Note that the result depends only on the rows with one of these keys.

        :param predicates: what is true for all of these rows.
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
        metadata = self._metadata or (self._definition.metadata if self._definition else None)
        if metadata is None:
            raise HeadwaterError("DELTA_TABLE_WITHOUT_METADATA", {"tableName": self.table_path, "missing": "metadata"})
        return metadata

    @property
    def protocol(self) -> Protocol:
        """The protocol as it will be.

        :raises HeadwaterError: ``DELTA_TABLE_WITHOUT_METADATA`` while a new table has none.
        """
        protocol = self._protocol or (self._definition.protocol if self._definition else None)
        if protocol is None:
            raise HeadwaterError("DELTA_TABLE_WITHOUT_METADATA", {"tableName": self.table_path, "missing": "protocol"})
        return protocol

    @property
    def definition(self) -> TableDefinition:
        """The table's definition as it will be.

        :raises HeadwaterError: ``DELTA_TABLE_WITHOUT_METADATA`` while a new table has none.
        """
        if self._definition is None:
            return TableDefinition(self.protocol, self.metadata)
        return self._definition.after(self._protocol, self._metadata)

    def update_metadata(self, metadata: Metadata) -> None:
        """Commit this metadata. The last call counts; metadata that the table has already is not written again."""
        self._metadata = None if self.snapshot and self.snapshot.metadata == metadata else metadata

    def update_protocol(self, protocol: Protocol) -> None:
        """Commit this protocol. The last call counts; a protocol that the table has already is not written again."""
        self._protocol = None if self.snapshot and self.snapshot.protocol == protocol else protocol

    def set_transaction(self, app_id: str, version: int) -> None:
        """Record the newest version that the application has committed."""
        self._transactions[app_id] = SetTransaction(app_id, version, clock.milliseconds())

    def add(self, files: Iterable[AddFile]) -> None:
        """Make the files part of the table."""
        self._adds.extend(files)

    def add_again(self, files: Iterable[AddFile]) -> None:
        """Commit files of the table once more, with other fields. A winner that removes one of them is a conflict."""
        self._again.extend(files)

    def remove(self, files: Iterable[RemoveFile]) -> None:
        """Make the files no longer part of the table."""
        self._removes.extend(files)

    @property
    def takes_bulk(self) -> bool:
        """Whether :meth:`replace` does for the table: its files need no row ids, and no look into their statistics."""
        is_whole = self._follows_directly and self.snapshot is not None
        return is_whole and not self._assigns_row_ids and not self.definition.iceberg_compat

    def replace(self, removed: pa.Table, added: pa.Table) -> None:
        """Remove and add so many files that they stay Arrow tables, with rows of ``snapshot.files``. Only for a commit
        that follows directly, which is not compared with winners; see :attr:`takes_bulk`.
        """
        assert self.takes_bulk
        self._bulk = Bulk(removed, added, clock.milliseconds())

    def keep_row_ids_above(self, mark: int) -> None:
        """Give new rows only ids above ``mark``: files are added whose row ids the table no longer has on record."""
        self._row_ids.reserve(mark)

    def mark(self, mark: Mark) -> None:
        """Mark rows of a file deleted. Another writer may mark other rows of the file at the same time, where the
        result depends on the marked rows alone.
        """
        self._marks.put(mark)

    def move(self, copies: Iterable[Copy]) -> None:
        """Put files in the place of those whose rows they hold. A writer that deletes some of these rows meanwhile is
        no conflict (:mod:`headwater.transaction.moved_rows`).
        """
        self._copies.put(copies)

    @property
    def moved(self) -> Sequence[Copy]:
        """What of it is part of the commit: a writer may have taken files meanwhile."""
        return self._copies.kept

    def delete_given_up(self) -> None:
        """Delete, as far as possible, files that were to take others' places and are part of no commit."""
        for output in self._copies.given_up:
            try:
                self.store.delete(absolute_path(self.table_path, output.path))
            except OSError:
                _LOG.debug("%s: %s is left to VACUUM", self.table_path, output.path, exc_info=True)

    def add_action(self, action: Action) -> None:
        """Commit an action of any kind but ``commitInfo``, which the transaction makes itself."""
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
        """Whether the commit would contain anything but its provenance."""
        state = self._metadata or self._protocol or self._transactions or self._domains
        return bool(state or self._file_actions() or self._bulk)

    # The commit

    @property
    def partitions_written(self) -> list[Mapping[str, str | None]]:
        """The partition values of the files that are added with new rows, a mapping for each partition."""
        values = {tuple(sorted(add.partition_values.items())): add for add in self._adds if add.data_change}
        bulk = [] if self._bulk is None else partitions_of(self._bulk.added)
        return [*(add.partition_values for add in values.values()), *bulk]

    @property
    def partitions_changed(self) -> list[Mapping[str, str | None]] | None:
        """The partition values of the files that are added or removed, a mapping for each partition; None where a
        removal does not say.
        """
        values: dict[tuple[tuple[str, str | None], ...], Mapping[str, str | None]] = {}
        files: list[AddFile | RemoveFile] = [*self._all_removes, *self._all_adds]
        for file in files:
            if file.partition_values is None:
                return None
            values[tuple(sorted(file.partition_values.items()))] = file.partition_values
        if self._bulk is not None:
            for some in (*partitions_of(self._bulk.removed), *partitions_of(self._bulk.added)):
                values[tuple(sorted(some.items()))] = some
        return list(values.values())

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
            ``HEADWATER_COMMIT_OUTCOME_UNKNOWN``; ``HEADWATER_COMMIT_NOT_READABLE`` before anything is written.
        :raises OSError: the store failed, and the commit is not there.
        """
        self._validate()
        provenance = Provenance(
            operation,
            parameters,
            metrics or {},
            engine_info or default_engine_info(),
            self.id,
            self.snapshot.version if self.snapshot else None,
            user_metadata,
            tags,
        )
        began = time.monotonic()
        loop = CommitLoop(self.table_path, self.store, self.snapshot, self.id, self._committer)
        content = _Content(self, provenance, on_begin)
        put = loop.put(content, self._max_attempts)
        if _LOG.isEnabledFor(logging.INFO):
            added, removed = describe_files(self._all_adds), describe_files(self._all_removes)
            if self._bulk is not None:
                added, removed = (f"{files.num_rows} files" for files in (self._bulk.added, self._bulk.removed))
            summary = summarize(operation, added, removed, time.monotonic() - began, put.attempts)
            _LOG.info("%s: version %d %s", self.table_path, put.version, summary)
        return self._committed(put, content.tip)

    def _concerning(self, winner: WinningCommit, intent: Intent) -> tuple[WinningCommit, frozenset[str]]:
        """The part of a winner that concerns rows this transaction read; and, of the files in which both marked rows,
        those where the winner marked such rows.
        """
        if self._keys is None or self._whole_table:
            return winner, frozenset()
        assert self.snapshot is not None
        removed = {canonical_path(file.path) for file in self._removes}
        excluded: frozenset[str] = frozenset()
        if self._key_predicates and winner.metadata is None:
            reads = PredicateReads(self.snapshot, [self._key_predicates], self._matcher)
            excluded = reads.excluded(winner.adds, winner.removes)
        appends = counts_appends(intent, winner)
        return self._keys.after(winner, removed, self._marks.paths, excluded, appends=appends)

    def _table_actions(self, metadata: Metadata | None) -> list[Action]:
        """All actions that are not of files, in the order of the log."""
        state: list[Action | None] = [self._protocol, metadata]
        return [a for a in state if a is not None] + [*self._transactions.values(), *self._domains.values()]

    def _file_actions(self) -> list[Action]:
        return [*self._all_removes, *self._all_adds, *self._changes]

    @property
    def _all_removes(self) -> list[RemoveFile]:
        return [*self._removes, *self._copies.removes, *self._marks.removes]

    @property
    def _all_adds(self) -> list[AddFile]:
        return [*self._adds, *self._copies.adds, *self._marks.adds, *self._again]

    @property
    def _assigns_row_ids(self) -> bool:
        return self.definition.assigns_row_ids

    def _preserves_row_ids(self) -> bool:
        """Whether rows that the commit updates or copies keep their ids; each statement sees to it where row tracking
        was enabled when it began.
        """
        if self.loses_row_ids:
            return False
        if self.snapshot is not None and self.snapshot.definition.tracks_rows:
            return True
        return not self._adds or not any(file.data_change for file in self._all_removes)

    def _count_rows(self, file: AddFile) -> int:
        version = -1 if self.snapshot is None else self.snapshot.version
        return int(read_data_footer(self.table_path, self.store, version, file.path, file.size).num_rows)

    def _read_vector(self, vector: DeletionVector) -> BitMap64:
        return deletion_vectors.read(vector, self.table_path, self.store)

    def _write_vectors(self, vectors: Sequence[BitMap64]) -> Sequence[DeletionVector]:
        return deletion_vectors.write_file(vectors, self.table_path, self.store)

    def _intent(self) -> Intent:
        """The reads and writes that winners are checked against."""
        gone: list[AddFile | RemoveFile] = [*self._all_removes, *self._again]
        removed = frozenset(file_key(file.path, file.deletion_vector) for file in gone)
        return Intent(
            self._definition,
            self._reads_so_far(),
            removed,
            self._isolation(),
            self._protocol is not None or self._metadata is not None and not self._numbers,
            frozenset(self._read_app_ids | self._transactions.keys()),
            frozenset(self._domains),
            self.snapshot is None,
            self._numbers,
            self._adds,
            any(file.data_change for file in self._all_removes),
            bool(self._marks.paths) or any(file.deletion_vector for file in self._adds),
            self._proves,
            self._follows_directly,
        )

    @property
    def _numbers(self) -> bool:
        """Whether the metadata to commit differs in values given to identity columns, and in nothing else."""
        if self._metadata is None or self._definition is None or self._protocol is not None:
            return False
        return changes_marks_only(self._definition, self._definition.after(None, self._metadata))

    def _proves(self, change: Change, files: Sequence[AddFile]) -> bool:
        """Whether the statistics of the files prove the condition that a winner added."""
        assert self.snapshot is not None
        condition = self._condition(change)
        return condition is not None and PredicateReads(self.snapshot, []).all_rows_match(files, condition)

    def _condition(self, change: Change) -> Predicate | None:
        """A condition that a winner added; None where it cannot be evaluated."""
        from headwater.pruning.predicates import Column, IsNull, Not  # not loaded by plain appends

        if change.not_null is not None:
            return Not(IsNull(Column(change.not_null)))
        if change.check is None or self.parse_condition is None:
            return None
        return self.parse_condition(change.check, self.metadata.schema_string)

    def _may_mark(self) -> bool:
        """Whether the table may have new deletion vectors."""
        return properties.DELETION_VECTORS.of(self.metadata.configuration)

    def _follow_moves(self, winner: WinningCommit) -> WinningCommit:
        """Go with rows that a winner moved, and take along rows that it deleted; what of it is still to be checked.

        :raises HeadwaterError: ``DELTA_CONCURRENT_DELETE_DELETE`` where no copy of this transaction is left.
        """
        vectors = self._read_vector, self._write_vectors
        left, self._removes = follow(winner, self._marks, self._removes, *vectors, may_mark=self._may_mark())
        sources = self._copies.sources
        left = self._copies.after(left, *vectors, may_mark=self._may_mark())
        if sources and not self._copies:
            raise took(winner, sources)
        return left

    def _follow_definition(self, winner: WinningCommit) -> bool:
        """Go on under the definition that a winner left; whether it is another one.

        :raises HeadwaterError: those of :meth:`_validate`.
        """
        if self._definition is None or winner.protocol is None and winner.metadata is None:
            return False
        after = self._definition.after(winner.protocol, winner.metadata)
        if after == self._definition:
            return False
        if self._metadata is not None:  # identity values: any other change would have been a conflict
            self._metadata = with_marks_of(after.metadata, self._metadata)
        self._definition = after
        self._validate()
        return True

    def _reads_so_far(self) -> Reads:
        if self._keys is not None and self.snapshot is not None:
            return Reads(True)  # of what _concerning leaves
        if self._whole_table or not self._reads or self.snapshot is None:
            return Reads(self._whole_table and self.snapshot is not None)
        answers = PredicateReads(self.snapshot, self._reads, self._matcher)
        predicates = tuple(predicate for some in self._reads for predicate in some)
        return Reads(False, predicates, answers.may_match, answers.were_read)

    def _isolation(self) -> Isolation:
        """Snapshot isolation for a commit that only rearranges rows, such as compaction; else the table's level."""
        files: list[AddFile | RemoveFile] = [*self._all_adds, *self._all_removes]
        if files and self._metadata is None and self._protocol is None and not any(file.data_change for file in files):
            return Isolation.SNAPSHOT
        level = properties.ISOLATION_LEVEL.of(self.metadata.configuration) or ""
        return Isolation.SERIALIZABLE if level.lower() == "serializable" else Isolation.WRITE_SERIALIZABLE

    def _load(self, version: int | None, tip: ParsedActions | None = None) -> Snapshot:
        return load_snapshot(self.table_path, self.store, version, self.snapshot, tip)

    def _validate(self) -> None:
        """Step 3 of the commit protocol."""
        definition, adds, removes = self.definition, self._all_adds, self._all_removes
        protocol, metadata = definition.protocol, definition.metadata
        if self._definition is not None:
            check_writable(self._definition.protocol)
        check_writable(protocol)
        before = self._definition.metadata if self._definition else metadata
        removes_rows = self._bulk is not None and bool(self._bulk.removed.num_rows)
        check_append_only(
            before,
            removes_rows or any(file.data_change for file in removes),
            metadata.name or self.table_path,
        )
        check_domains(self._domains, protocol)
        check_unique(removes, adds)
        if self._bulk is not None:
            self._bulk.check(metadata)
        check_partitions(adds, metadata)
        iceberg.check_definition(self._definition, definition)
        iceberg.check_files(definition, adds)
        manifests.check_definition(self._definition, definition)

    def _committed(self, put: Put, tip: Callable[[int], ParsedActions | None]) -> Committed:
        """Step 7 of the commit protocol. The commit stands: nothing from here on may raise.

        :param tip: what the commit of a version has, where that need not be read.
        """
        try:
            snapshot = self._load(put.version, tip(put.version))
            if self._cache is not None:
                self._cache.put(snapshot)
            maintenance.schedule(snapshot, self.id, self.checkpoint_layout)
            return Committed(put.version, snapshot.timestamp, lambda: snapshot)
        except Exception:
            _LOG.warning(
                "%s: version %d stands, but cannot be read back now", self.table_path, put.version, exc_info=True
            )
            return Committed(put.version, put.timestamp, lambda: self._load(put.version))


class _Content:
    """A transaction's commit as the commit loop asks for it, version by version."""

    def __init__(
        self, transaction: Transaction, provenance: Provenance, on_begin: Callable[[int, str], None] | None
    ) -> None:
        self._transaction = transaction
        self._provenance = provenance
        self._on_begin = on_begin
        #: The lines of the last attempt but for those of files in bulk.
        self._others = b""
        #: What reading them comes to, where it was the whole commit.
        self._parsed: ParsedActions | None = None
        #: The lines of files that were read last.
        self._read_body: bytes | None = None
        self._prepare()

    def _prepare(self) -> None:
        """The intent, and the file actions as bytes: the bulk of a commit, which a lost race seldom changes. Row ids
        are another matter: each attempt gives them again.
        """
        transaction = self._transaction
        self._intent = transaction._intent()
        self._body = b"" if transaction._assigns_row_ids else serialize(transaction._file_actions())

    def _files(self, version: int) -> tuple[list[Action], bytes]:
        """What the commit of a version has for its files: the domain of row ids where it changes, and the file actions
        as bytes.
        """
        transaction = self._transaction
        if not transaction._assigns_row_ids:
            return [], self._body
        adds, domain = transaction._row_ids.assign(transaction._all_adds, version)
        body = serialize([*transaction._all_removes, *adds, *transaction._changes])
        return [] if domain is None else [domain], body

    @property
    def num_actions(self) -> int:
        return len(self._transaction._file_actions()) + len(self._transaction._bulk or ())

    def tip(self, version: int) -> ParsedActions | None:
        """What the commit has, where it follows the version that was read: it is not read again."""
        bulk, snapshot = self._transaction._bulk, self._transaction.snapshot
        if bulk is not None:
            return bulk.parsed_with(self._others, self._path(version))
        return self._parsed if snapshot is not None and version == snapshot.version + 1 else None

    def _path(self, version: int) -> str:
        return f"{log_directory(self._transaction.table_path)}/{commit_name(version)}"

    def _read_back(self, version: int, head: bytes, body: bytes) -> bytes:
        """Read a commit before it is written, as any reader will: what cannot be read must not become part of a log.
        Of a large commit that lost a race, only what changed is read again. Returns its bytes.

        :raises HeadwaterError: ``HEADWATER_COMMIT_NOT_READABLE``.
        """
        is_whole, data = body is not self._read_body, head + body
        try:
            parsed = parse_actions(data if is_whole else head, self._path(version))
        except HeadwaterError as error:
            reason = error.parameters.get("reason", str(error))
            table = self._transaction.metadata.name or self._transaction.table_path
            raise HeadwaterError("HEADWATER_COMMIT_NOT_READABLE", {"tableName": table, "reason": reason}) from None
        self._parsed, self._read_body = (parsed if is_whole else None), body
        return data

    def encode(self, version: int, now: int, previous: int | None) -> tuple[bytes, int]:
        transaction = self._transaction
        before = transaction._definition.metadata if transaction._definition else None
        metadata, stamp = stamped(transaction._metadata, transaction.metadata, before, version, now, previous)
        info = self._provenance.commit_info(
            timestamp=now,
            isolation=self._intent.isolation,
            blind_append=self._intent.reads.nothing
            and not (transaction._all_removes or transaction._again or transaction._bulk),
            in_commit_timestamp=stamp,
            tags=self._tags(),
            more=transaction._copies.record(len(transaction._removes), len(transaction._adds)),
        )
        domains, body = self._files(version)
        head = serialize([info, *transaction._table_actions(metadata), *domains])
        self._others = self._read_back(version, head, body)
        data = self._others if transaction._bulk is None else b"".join([self._others, *transaction._bulk.lines()])
        if self._on_begin is not None:
            self._on_begin(version, transaction.id)
        return data, stamp or now

    def _tags(self) -> dict[str, str]:
        transaction = self._transaction
        if not transaction.definition.tracks_rows:
            return {}
        return {PRESERVED: "true" if transaction._preserves_row_ids() else "false"}

    def follow(self, winner: WinningCommit) -> None:
        """Check a winner for conflicts, go on under its definition of the table, and carry deletion marks over to the
        files as it left them.
        """
        transaction = self._transaction
        staying = transaction._follow_moves(winner)
        concerning, disputed = transaction._concerning(staying, self._intent)
        left = transaction._marks.after(concerning, transaction._read_vector, transaction._write_vectors, disputed)
        check(self._intent, left)
        transaction._row_ids.follow(winner)
        if transaction._follow_definition(winner) or left is not concerning or staying is not winner:
            self._prepare()
