"""The optimistic transaction: what one attempt to change a table reads and writes.

Owns the first and the last of a transaction's three phases. An open :class:`Transaction` takes what is read
(:mod:`headwater.transaction.read_set`), what is written (:mod:`headwater.transaction.content`) and what changes of the
definition (:mod:`headwater.transaction.redefinition`). :meth:`Transaction.prepare` makes it a commit that may be put
(:mod:`headwater.transaction.prepared`), the commit loop puts it (:mod:`headwater.transaction.commit_loop`), and
:class:`Committed` is the version that it made. Follows the protocol's chapters "Delta Log Entries", "In-Commit
Timestamps" and "Transaction Identifiers".
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa
from pyroaring import BitMap64

from headwater.basics import clock
from headwater.log.checkpoint_writing import Layout
from headwater.log.data_footers import read_data_footer
from headwater.log.snapshot import Snapshot, load_snapshot
from headwater.log.snapshot_cache import SnapshotCache
from headwater.protocol.actions import (
    Action,
    AddCDCFile,
    AddFile,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
)
from headwater.protocol.clustering import DOMAIN as CLUSTERING
from headwater.protocol.table_definition import TableDefinition
from headwater.stores import Store, absolute_path
from headwater.transaction import maintenance
from headwater.transaction.bulk import Bulk
from headwater.transaction.commit_info import Provenance, summarize
from headwater.transaction.commit_loop import Begin, CommitLoop, Put
from headwater.transaction.committers import Committer
from headwater.transaction.content import Content, Values
from headwater.transaction.keyed import KeyReads
from headwater.transaction.moved_rows import Copy
from headwater.transaction.prepared import ParseCondition, PreparedCommit, Work
from headwater.transaction.read_set import ReadSet
from headwater.transaction.reads import FileMatcher, match_by_pruning
from headwater.transaction.redefinition import Redefinition
from headwater.transaction.row_ids import RowIds
from headwater.transaction.row_level import Mark

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


@dataclass(frozen=True)
class Beside:
    """A transaction on another table, which is to stand or fall with this one.

    :param tidy_up: called once both are committed.
    """

    transaction: Transaction
    provenance: Provenance
    tidy_up: Callable[[], None]


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
        #: Makes a predicate of a CHECK constraint that a winner added. None: it cannot.
        self.parse_condition: ParseCondition | None = None
        #: Whether the commit copies rows without their ids, where the table has row tracking.
        self.loses_row_ids = False
        #: Whether it is checked by the level ``Serializable``, whatever the table's is.
        self.serializable = False
        #: Operation metrics beside those of the statement.
        self.metrics: dict[str, int] = {}
        #: The transaction on another table that is committed together with this one.
        self.beside: Beside | None = None
        #: Whether it brings a table to what another one is, whose own rules say which rows may go.
        self.mirrors = False
        #: Whether the rows that it adds are those of another version of the table, as they are.
        self.brings_back = False
        #: Whether each row that it adds has the enforced key of a row that it removes.
        self.keeps_keys = False
        self._cache = cache
        self._max_attempts = max_attempts
        self._committer = committer
        self._reads = ReadSet(snapshot, matcher)
        self._claims: list[KeyReads] = []
        self._definition = Redefinition(table_path, snapshot)
        self._content = Content()
        self._row_ids = RowIds(snapshot, self._count_rows)

    # What is read

    def read_whole_table(self) -> None:
        """Note that the result depends on every row of the table."""
        self._reads.whole_table = True

    def follow_directly(self) -> None:
        """Commit only as the very next version after the snapshot's: any other commit is a conflict."""
        self._reads.follows_directly = True

    def read_where(self, predicates: Sequence[Predicate]) -> None:
        """Note that the result depends on the rows for which all ``predicates`` are true. No predicates mean every
        row.
        """
        self._reads.where(predicates)

    def read_keys(self, keys: KeyReads, predicates: Sequence[Predicate] = ()) -> None:
        """Note that the result depends only on the rows with one of these keys.

        :param predicates: what is true for all of these rows.
        """
        self._reads.keys(keys, predicates)

    def claim_keys(self, *claims: KeyReads) -> None:
        """Note that no other writer may have added a row with one of these keys since the version that is read."""
        self._claims += claims

    @property
    def reads_keys(self) -> bool:
        """Whether it is known by their keys which rows the result depends on."""
        return self._reads.is_by_keys

    @property
    def reads_whole_table(self) -> bool:
        """Whether the result depends on every row of the table."""
        return self._reads.whole_table

    def transaction_version(self, app_id: str) -> int | None:
        """The newest version the application has committed, None if it has not; the commit then depends on it."""
        return self._reads.version_of(app_id)

    # What is written

    @property
    def metadata(self) -> Metadata:
        """The metadata as it will be.

        :raises HeadwaterError: ``DELTA_TABLE_WITHOUT_METADATA`` while a new table has none.
        """
        return self._definition.metadata

    @property
    def protocol(self) -> Protocol:
        """The protocol as it will be.

        :raises HeadwaterError: ``DELTA_TABLE_WITHOUT_METADATA`` while a new table has none.
        """
        return self._definition.protocol

    @property
    def definition(self) -> TableDefinition:
        """The table's definition as it will be; the same value until the next update.

        :raises HeadwaterError: ``DELTA_TABLE_WITHOUT_METADATA`` while a new table has none.
        """
        return self._definition.after

    def redefine(self, definition: TableDefinition) -> None:
        """Commit what is new of a definition. Clustering columns that are declared again are committed again: they
        conflict with another writer's.
        """
        self.update_protocol(definition.protocol)
        self.update_metadata(definition.metadata)
        before, after = self.definition.clustering_domain, definition.clustering_domain
        if after is not before:
            if after is not None:
                self.add_action(after)
            elif before is not None:
                self.add_action(replace(before, removed=True))

    def update_metadata(self, metadata: Metadata) -> None:
        """Commit this metadata. The last call counts; metadata that the table has already is not written again."""
        self._definition.update_metadata(metadata)

    def update_protocol(self, protocol: Protocol) -> None:
        """Commit this protocol. The last call counts; a protocol that the table has already is not written again."""
        self._definition.update_protocol(protocol)

    def set_transaction(self, app_id: str, version: int) -> None:
        """Record the newest version that the application has committed."""
        self.add_action(SetTransaction(app_id, version, clock.milliseconds()))

    def add(self, files: Iterable[AddFile]) -> None:
        """Make the files part of the table."""
        self._content.added.extend(files)

    def add_again(self, files: Iterable[AddFile]) -> None:
        """Commit files of the table once more, with other fields. A winner that removes one of them is a conflict."""
        self._content.again.extend(files)

    def remove(self, files: Iterable[RemoveFile]) -> None:
        """Make the files no longer part of the table."""
        self._content.removed.extend(files)

    @property
    def takes_bulk(self) -> bool:
        """Whether :meth:`replace` does for the table: its files need no row ids, and no look into their statistics."""
        is_whole = self._reads.follows_directly or self.snapshot is None
        return is_whole and not self.definition.assigns_row_ids and not self.definition.iceberg_compat

    def replace(self, removed: pa.Table, added: pa.Table) -> None:
        """Remove and add so many files that they stay Arrow tables, with rows of ``snapshot.files``. Only for a commit
        that creates the table or follows directly, which is not compared with winners; see :attr:`takes_bulk`.
        """
        assert self.takes_bulk
        self._content.bulk = Bulk(removed, added, clock.milliseconds())

    def keep_row_ids_above(self, mark: int) -> None:
        """Give new rows only ids above ``mark``: files are added whose row ids the table no longer has on record."""
        self._row_ids.reserve(mark)

    def mark(self, mark: Mark) -> None:
        """Mark rows of a file deleted. Another writer may mark other rows of the file at the same time, where the
        result depends on the marked rows alone.
        """
        self._content.marks.put(mark)

    def move(self, copies: Iterable[Copy]) -> None:
        """Put files in the place of those whose rows they hold. A writer that deletes some of these rows meanwhile is
        no conflict (:mod:`headwater.transaction.moved_rows`).
        """
        self._content.copies.put(copies)

    def add_action(self, action: Action) -> None:
        """Commit an action of any kind but ``commitInfo``, ``protocol`` and ``metaData``."""
        match action:
            case AddFile():
                self._content.added.append(action)
            case RemoveFile():
                self._content.removed.append(action)
            case AddCDCFile():
                self._content.changes.append(action)
            case SetTransaction():
                self._content.versions[action.app_id] = action
            case DomainMetadata():
                self._content.domains[action.domain] = action
                if action.domain == CLUSTERING:
                    self._definition.update_clustering(action)
            case CommitInfo() | Metadata() | Protocol():
                raise ValueError("a transaction makes its commitInfo itself, and a definition comes by itself")

    @property
    def redefines(self) -> bool:
        """Whether the commit changes the definition of a table that is there, by more than identity values."""
        return self.snapshot is not None and self._definition.changes_something and not self._definition.numbers

    @property
    def has_changes(self) -> bool:
        """Whether the commit would contain anything but its provenance."""
        return self._definition.changes_something or not self._content.is_empty

    # The commit

    def prepare(
        self,
        provenance: Provenance,
    ) -> PreparedCommit:
        """Make of it a commit that may be put. Nothing more may be read or written by it then.

        :raises HeadwaterError: as :class:`~headwater.transaction.prepared.PreparedCommit`.
        """
        work = Work(
            table_path=self.table_path,
            store=self.store,
            transaction_id=self.id,
            snapshot=self.snapshot,
            reads=self._reads,
            definition=self._definition,
            content=self._content,
            row_ids=self._row_ids,
            parse_condition=self.parse_condition,
            loses_row_ids=self.loses_row_ids,
            serializable=self.serializable,
            mirrors=self.mirrors,
            claims=self._claims,
        )
        return PreparedCommit(work, provenance)

    def commit(
        self,
        provenance: Provenance,
        *,
        on_begin: Begin | None = None,
        review: Callable[[PreparedCommit], None] | None = None,
    ) -> Committed:
        """Make the next version of the table, or raise and leave the table as it is.

        :param on_begin: as of :meth:`~headwater.transaction.commit_loop.CommitLoop.put`.
        :param review: is shown the commit once, before the first attempt; what it raises ends the commit.
        :raises HeadwaterError: a conflict (:func:`~headwater.transaction.conflicts.check`);
            ``DELTA_MAX_COMMIT_RETRIES_EXCEEDED``; those of :meth:`prepare`; ``HEADWATER_COMMIT_OUTCOME_UNKNOWN``;
            ``HEADWATER_COMMIT_NOT_READABLE`` before anything is written.
        :raises OSError: the store failed, and the commit is not there.
        """
        prepared = self.prepare(provenance)
        if review is not None:
            review(prepared)
        began = time.monotonic()
        put = CommitLoop(prepared, self._committer).put(self._max_attempts, on_begin=on_begin)
        if _LOG.isEnabledFor(logging.INFO):
            summary = summarize(provenance.operation, *self._content.in_words, time.monotonic() - began, put.attempts)
            _LOG.info("%s: version %d %s", self.table_path, put.version, summary)
        return self.made(prepared, put)

    def made(self, prepared: PreparedCommit, put: Put) -> Committed:
        """Step 7 of the commit protocol. The commit stands: nothing from here on may raise."""
        try:
            since = prepared.since(put.version)
            snapshot = load_snapshot(self.table_path, self.store, put.version, self.snapshot, since)
            if self._cache is not None:
                self._cache.put(snapshot)
            if not self.store.is_provisional:
                maintenance.schedule(snapshot, self.id, self.checkpoint_layout)
            return Committed(put.version, snapshot.timestamp, lambda: snapshot)
        except Exception:
            _LOG.warning(
                "%s: version %d stands, but cannot be read back now", self.table_path, put.version, exc_info=True
            )
            return Committed(put.version, put.timestamp, lambda: self._load(put.version))

    def _load(self, version: int) -> Snapshot:
        return load_snapshot(self.table_path, self.store, version, self.snapshot)

    def _count_rows(self, file: AddFile) -> int:
        version = -1 if self.snapshot is None else self.snapshot.version
        return int(read_data_footer(self.table_path, self.store, version, file.path, file.size).num_rows)

    # What has become of it

    @property
    def moved(self) -> Sequence[Copy]:
        """What of :meth:`move` is part of the commit: a writer may have taken files meanwhile."""
        return self._content.copies.kept

    @property
    def given_up(self) -> Sequence[AddFile]:
        """The files of :meth:`move` that are part of no commit."""
        return self._content.copies.given_up

    def delete_given_up(self) -> None:
        """Delete them, as far as possible."""
        for output in self.given_up:
            try:
                self.store.delete(absolute_path(self.table_path, output.path))
            except OSError:
                _LOG.debug("%s: %s is left to VACUUM", self.table_path, output.path, exc_info=True)

    @property
    def partitions_written(self) -> list[Values]:
        """The partition values of the files that are added with new rows, a mapping for each partition."""
        return self._content.partitions_written

    @property
    def rows_added(self) -> list[AddFile]:
        """The files that are added with rows that the version it began with does not have, or that were written
        again.
        """
        return [file for file in self._content.added if file.data_change]

    @property
    def rows_gone(self) -> tuple[set[str], dict[str, BitMap64]]:
        """The paths of files that are removed, and the positions that are marked deleted in others, by path."""
        content = self._content
        removed = {file.path for file in [*content.removed, *content.copies.removes]}
        whole = {mark.remove.path for mark in content.marks.all if mark.add is None}
        return removed | whole, {m.remove.path: m.positions for m in content.marks.all if m.add is not None}

    @property
    def adds_files(self) -> bool:
        """Whether files are added that the version it began with does not have, rewritten ones too."""
        content = self._content
        return bool(content.added or content.bulk or self.moved)

    @property
    def partitions_changed(self) -> list[Values] | None:
        """The partition values of the files that are added or removed, a mapping for each partition; None if a
        removal does not say.
        """
        return self._content.partitions_changed
