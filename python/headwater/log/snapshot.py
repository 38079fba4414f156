"""Snapshots: one complete version of a table.

Owns :class:`Snapshot` and its loading, from the log, or from an older snapshot and the commits since. Follows the
protocol's chapters "Action Reconciliation" and "Reader Version Requirements". Promises: a snapshot never changes. It
shows exactly one committed version, and it matches the version's checksum if there is one. A table with features that
this version cannot read is refused before anything else. If the log is cleaned up while it is read, it is listed again.

Live files are Arrow columns, in blocks that successive snapshots share. Statistics are parsed on request and cached
with their block.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial

import pyarrow as pa
import pyarrow.compute as pc

from headwater.basics import clock
from headwater.basics.errors import HeadwaterError
from headwater.basics.warn_once import warn_once
from headwater.log.checkpoint_reading import UnreadableCheckpoint, read_checkpoint
from headwater.log.checksums import MOST_TRANSACTIONS, Checksum, checksum_path, differences, read_checksum
from headwater.log.commits import ParsedActions, commit_info_of, parse_actions
from headwater.log.files import FILE_SCHEMA, FileBlock
from headwater.log.groups import shown_from
from headwater.log.replay import LiveBlock, TableState, apply_commits, count_deletion_vectors, state_of_checkpoint
from headwater.log.segment import (
    MOST_FOLLOWED,
    CommitRange,
    LogListing,
    LogSegment,
    build_segment,
    cover,
    find_segment,
    first_id,
    is_older_than_commit,
    list_log,
    list_newer,
    missing_versions,
    own_id,
    read_last_checkpoint,
    sets_id,
    version_not_found,
)
from headwater.log.statistics.columns import block_statistics, leaf_of
from headwater.protocol import clustering, properties
from headwater.protocol.actions import DomainMetadata, Metadata, Protocol, SetTransaction
from headwater.protocol.columns import Path
from headwater.protocol.features import check_readable, check_writable, is_catalog_managed
from headwater.protocol.file_names import CheckpointName, CommitName, log_directory, parse_name
from headwater.protocol.partition_values import typed_values
from headwater.protocol.table_definition import TableDefinition
from headwater.protocol.types import StructField, StructType
from headwater.schema.definition_checks import check_definition
from headwater.schema.widening import check_readable_types
from headwater.stores import FileInfo, Store

#: How many of a long run of commits are read and parsed at a time (bench cases ``commits-batch`` and ``log-tail``).
_COMMITS_AT_ONCE = 256
#: Commit files of up to so many bytes in all are parsed as one (bench cases ``parsed-together`` and ``log-tail``).
_PARSED_TOGETHER_BYTES = 4 << 20
#: How often the log is listed for one snapshot, if listed files are cleaned up before they are read.
_LISTINGS = 3
#: How long a checkpoint may lie in a log that is not its table's, in milliseconds: a writer that put it while another
#: table took the path looks again and takes it back (:mod:`headwater.transaction.same_table`). Chosen, not measured: to
#: ask costs a small read.
_TAKEN_BACK_WITHIN_MS = 60_000


@dataclass(frozen=True, eq=False)
class Snapshot:
    """One version of a table; build it with :func:`load_snapshot`."""

    table_path: str
    store: Store
    version: int
    definition: TableDefinition
    state: TableState
    segment: LogSegment

    @property
    def protocol(self) -> Protocol:
        return self.definition.protocol

    @property
    def metadata(self) -> Metadata:
        return self.definition.metadata

    def through(self, store: Store) -> Snapshot:
        """The same version, what is yet to be read of it read through another store: one that another session reaches
        it by. A store that sessions share is the same for all.
        """
        return self if store is self.store or self.store.is_shared else self.reached_through(store)

    def reached_through(self, store: Store) -> Snapshot:
        """The same version, read and followed by files through another store."""
        same = copy.copy(self)
        object.__setattr__(same, "store", store)
        return same

    def check_readable(self) -> None:
        """:raises HeadwaterError: what :func:`~headwater.protocol.features.check_readable` raises."""
        check_readable(self.protocol, self.table_path, by_catalog=self.store.of_catalog)

    def check_writable(self) -> None:
        """:raises HeadwaterError: what :func:`~headwater.protocol.features.check_writable` raises."""
        check_writable(self.protocol, self.table_path, by_catalog=self.store.of_catalog)

    @property
    def is_catalog_managed(self) -> bool:
        """Whether a catalog decides which commits are versions of the table."""
        return is_catalog_managed(self.protocol)

    @cached_property
    def timestamp(self) -> int:
        """When the version was committed, in milliseconds since the epoch: its in-commit timestamp, or its file's
        time.
        """
        if self.definition.has_in_commit_timestamps:
            value = (self.commit_info or {}).get("inCommitTimestamp")
            if isinstance(value, int):
                return value
        return self.segment.tip.modification_time

    @cached_property
    def commit_info(self) -> Mapping[str, object] | None:
        """The provenance of this version's commit; None if it has none, or only a checkpoint is left of it."""
        if self.state.commit_info is not None:
            return self.state.commit_info
        commit = self.segment.listing.commits.get(self.version)
        if commit is None:
            return None
        try:
            return commit_info_of(self.store.read(commit.path))
        except FileNotFoundError:
            return None

    @cached_property
    def schema(self) -> StructType:
        """The table's schema, with logical names."""
        try:
            schema = self.metadata.schema
            check_definition(schema, self.metadata.partition_columns)
            return schema
        except HeadwaterError as error:
            where = f"{error.parameters['schema']} (version {self.version} of {self.table_path})"
            raise HeadwaterError(error.condition, {"schema": where}) from None

    @property
    def partition_columns(self) -> list[str]:
        """The logical names of the partition columns, in order."""
        return self.definition.partition_columns

    @cached_property
    def num_files(self) -> int:
        return sum(live.num_files for live in self.state.blocks)

    @cached_property
    def size_in_bytes(self) -> int:
        """Bytes of all live data files."""
        total = 0
        for live in self.state.blocks:
            total += live.block.total_size
            if len(live.dead):
                total -= pc.sum(live.block.table.column("size").take(pa.array(live.dead))).as_py() or 0
        return total

    @cached_property
    def has_deletion_vectors(self) -> bool:
        """Whether any live file has a deletion vector."""
        return any(count_deletion_vectors(live) > 0 for live in self.state.blocks)

    @property
    def set_transactions(self) -> dict[str, SetTransaction]:
        """The newest transaction of each application, by application id; without those that had expired by
        ``delta.setTransactionRetentionDuration`` when this was first asked.
        """
        return dict(self._set_transactions)

    @cached_property
    def _set_transactions(self) -> Mapping[str, SetTransaction]:
        retention = self.definition.get(properties.TRANSACTION_RETENTION)
        if retention is None:
            return self.state.transactions
        since = clock.milliseconds() - retention
        # One without a time counts as expired, as a tombstone does.
        return {app: txn for app, txn in self.state.transactions.items() if (txn.last_updated or 0) > since}

    @property
    def domain_metadata(self) -> dict[str, DomainMetadata]:
        """The live domains, by name."""
        return dict(self.state.domains)

    @property
    def clustering_columns(self) -> tuple[Path, ...] | None:
        """The logical paths of the columns the table is clustered by; None if it is not clustered.

        :raises HeadwaterError: ``HEADWATER_CLUSTERING_UNREADABLE``.
        """
        try:
            return self.definition.clustering_columns
        except HeadwaterError as error:
            named = {**error.parameters, "tableName": self.metadata.name or self.table_path}
            raise HeadwaterError(error.condition, named) from None

    def checksum(self, transaction_id: str | None = None) -> Checksum:
        """The content of this version's checksum file; costs what its commit holds."""
        transactions = self.set_transactions
        return Checksum(
            self.size_in_bytes,
            self.num_files,
            self.metadata,
            self.protocol,
            transaction_id,
            self.timestamp if self.definition.has_in_commit_timestamps else None,
            tuple(transactions.values()) if len(transactions) <= MOST_TRANSACTIONS else None,
            tuple(self.domain_metadata.values()),
        )

    @cached_property
    def files(self) -> pa.Table:
        """The live files with all of :data:`FILE_SCHEMA`. The text of statistics is the bulk of it: see
        :meth:`select`.
        """
        return self.select(FILE_SCHEMA.names)

    def select(self, names: Sequence[str]) -> pa.Table:
        """The named columns of :attr:`files`, in the same order of rows; without ``stats`` it costs next to nothing."""
        tables = [live.select(live.block.columns(names)) for live in self.state.blocks]
        return pa.concat_tables([_no_files(tuple(names)), *tables])

    def statistics(self, leaves: Sequence[tuple[str, ...]]) -> pa.Table:
        """Statistics of each live file, a row a file in the order of :attr:`files`.

        Columns: ``num_records`` int64 and ``tight_bounds`` bool, null where absent (absent bounds are tight), and for
        the i-th leaf, given as a path of physical names, ``min.i`` and ``max.i`` of the leaf's Arrow type and
        ``nulls.i`` int64. Null means nothing is known. Bounds may be wider than the file's values even where
        ``tight_bounds`` is true: texts are truncated, and maxima of timestamps are widened.
        """
        asked = [leaf_of(self.schema, path) for path in leaves]
        tables = [live.select(pa.table(block_statistics(live.block, asked))) for live in self.state.blocks]
        return pa.concat_tables([_no_statistics(tuple(leaf.arrow_type for leaf in asked)), *tables])

    def partition_values(self, name: str, time_zone: str = "UTC") -> pa.ChunkedArray:
        """The typed partition value of each live file, in the order of :attr:`files`; ``name`` is logical.

        :param time_zone: the zone of timestamps whose text has none.
        :raises KeyError: no partition column of that name.
        :raises HeadwaterError: ``DELTA_INVALID_PARTITION_VALUE``.
        """
        column = self.partition_field(name)
        pieces: list[pa.Array] = []
        for live in self.state.blocks:
            maps = live.block.table.column("partition_values")
            values = live.block.derived(
                ("partition", column.physical_name, column.type.sql(), time_zone),
                partial(typed_values, maps, column.physical_name, column.type, time_zone),
            )
            pieces += live.live(values).chunks
        return pa.chunked_array(pieces, column.type.to_arrow())

    def partition_field(self, name: str) -> StructField:
        """A partition column, as of :attr:`TableDefinition.partition_fields`.

        :raises KeyError: no partition column of that name.
        """
        for column in self.definition.partition_fields:
            if column.name.lower() == name.lower():
                return column
        raise KeyError(name)

    def tombstones(self) -> pa.Table:
        """The ``remove`` actions kept for VACUUM and checkpoints, with ``files.TOMBSTONE_SCHEMA``; read when called."""
        return self.state.tombstones()


@lru_cache(maxsize=256)
def _no_files(names: tuple[str, ...]) -> pa.Table:
    """No rows with these columns of :data:`FILE_SCHEMA`."""
    return pa.schema([FILE_SCHEMA.field(name) for name in names]).empty_table()


@lru_cache(maxsize=256)
def _no_statistics(leaves: tuple[pa.DataType, ...]) -> pa.Table:
    """No rows with the columns of :meth:`Snapshot.statistics`."""
    fields = [pa.field("num_records", pa.int64()), pa.field("tight_bounds", pa.bool_())]
    for i, leaf in enumerate(leaves):
        fields += [pa.field(f"{bound}.{i}", leaf) for bound in ("min", "max")]
        fields.append(pa.field(f"nulls.{i}", pa.int64()))
    return pa.schema(fields).empty_table()


def load_snapshot(
    table_path: str,
    store: Store,
    version: int | None = None,
    base: Snapshot | None = None,
    since: Sequence[ParsedActions] = (),
    *,
    settled: bool = True,
) -> Snapshot:
    """The table at ``version``, or at its newest one.

    With ``base``, an older snapshot of the table, only commits since then are read where the log still has them all;
    a ``base`` that is of another table now gone from the path is noticed and not used. Where nothing is newer, it is
    returned itself, with the store it has.

    :param since: all commits after ``base``, or from the first one, up to ``version``, in order, where the caller knows
        them: they are not read.
    :param settled: whether versions are left out that may yet be undone (:mod:`headwater.log.groups`).
    :raises HeadwaterError: what :func:`~headwater.log.segment.find_segment` raises; ``DELTA_INVALID_COMMIT``,
        ``DELTA_CHECKPOINT_UNREADABLE``, ``DELTA_STATE_RECOVER_ERROR`` for a damaged log;
        ``DELTA_UNSUPPORTED_FEATURES_FOR_READ``, ``DELTA_INVALID_PROTOCOL_VERSION``.
    """
    shows = _shows(table_path, store, as_newest=version is None) if settled else _shows_all
    target, tries = version, 0
    while True:
        try:
            return _newest(table_path, store, target, base, () if tries else since, shows)
        except _NotSettled as hidden:
            if version is not None:
                raise version_not_found(hidden.listing, version) from None
            tries += 1
            if not hidden.is_undone or target is not None or tries == _LISTINGS:
                target = hidden.version - 1


#: Given the version of a commit and its content: the oldest version that may be shown with it; None if none may.
_Shows = Callable[[int, bytes], int | None]


def _shows(table_path: str, store: Store, as_newest: bool) -> _Shows:
    """What may be shown of a table: as it is now, or else as of a version that was asked for."""

    def show(version: int, content: bytes) -> int | None:
        first = shown_from(table_path, store, version, content)
        return first if first is None or as_newest else version

    return show


def _shows_all(version: int, content: bytes) -> int:
    return version


class _NotSettled(Exception):
    """A commit that may not be shown yet; ``listing`` is what is before it.

    :param is_undone: whether it is only the listing that lacks what has undone it.
    """

    def __init__(self, version: int, listing: LogListing, is_undone: bool) -> None:
        self.version, self.is_undone = version, is_undone
        commits = {number: file for number, file in listing.commits.items() if number < version}
        self.listing = replace(listing, commits=commits, checkpoints=())


def _newest(
    table_path: str,
    store: Store,
    version: int | None,
    base: Snapshot | None,
    since: Sequence[ParsedActions],
    shows: _Shows,
) -> Snapshot:
    if base is not None and (version is None or version >= base.version):
        with contextlib.suppress(FileNotFoundError):
            newer = _advance(base, store, version, since, shows)
            if newer is not None:
                return newer
    for _ in range(_LISTINGS):
        segment = find_segment(table_path, store, version)
        try:
            return _load(segment, store, since if base is None else (), shows)
        except FileNotFoundError as error:  # cleaned up since it was listed
            gone = error
    raise HeadwaterError(
        "DELTA_TRUNCATED_TRANSACTION_LOG",
        {"version": segment.version, "path": log_directory(table_path), "missing": str(gone)},
    )


def snapshot_of_files(
    table_path: str, store: Store, version: int, definition: TableDefinition, files: pa.Table
) -> Snapshot:
    """What a snapshot would be that has these files, with all of :data:`FILE_SCHEMA`, and no others: for pruning files
    that no single version has, by their own statistics.
    """
    state = TableState(definition.protocol, definition.metadata, blocks=(LiveBlock(FileBlock.of_table(files)),))
    segment = LogSegment(table_path, version, None, (), LogListing(table_path, version, {}, (), (), {}))
    return Snapshot(table_path, store, version, definition, state, segment)


def table_exists(table_path: str, store: Store) -> bool:
    """Whether there is a Delta table: a log with at least a commit or a checkpoint, even one that cannot be read."""
    try:
        files = store.list_from(log_directory(table_path))
    except (FileNotFoundError, NotADirectoryError):
        return False
    return any(isinstance(parse_name(file.name), (CommitName, CheckpointName)) for file in files)


def _load(segment: LogSegment, store: Store, known: Sequence[ParsedActions], shows: _Shows) -> Snapshot:
    """Replay a segment; where its checkpoint cannot be read, an older one or the commits from the beginning.

    :param known: all commits of the segment's version, where the caller knows them.
    """
    if len(known) == segment.version + 1:
        return _snapshot(segment, store, apply_commits(TableState(), known))
    failure: tuple[int, str] | None = None
    while True:
        state = TableState()
        if segment.checkpoint is not None:
            try:
                state = state_of_checkpoint(read_checkpoint(segment.checkpoint, segment.table_path, store))
                _check_fits(segment, state, store)
            except UnreadableCheckpoint as error:
                failure = failure or (segment.checkpoint.version, str(error))
                segment = _without_checkpoint(segment, store, failure)
                continue
        return _snapshot(segment, store, _replay(state, segment.ranges, segment.listing, store, shows))


def _check_fits(segment: LogSegment, state: TableState, store: Store) -> None:
    """Refuse a checkpoint that was written for a table that was here before.

    :raises UnreadableCheckpoint: its table's id is not the log's.
    """
    checkpoint = segment.checkpoint
    assert checkpoint is not None
    if state.metadata is None:
        return
    if is_older_than_commit(checkpoint, segment.listing):
        own = own_id(segment.listing, store, checkpoint)
    elif any(abs(clock.milliseconds() - f.modification_time) < _TAKEN_BACK_WITHIN_MS for f in checkpoint.files):
        own = first_id(segment.table_path, store)
    else:
        return
    if own not in (None, state.metadata.id) and not sets_id(
        segment.table_path, store, state.metadata.id, checkpoint.version
    ):
        raise UnreadableCheckpoint(f"it is of another table, {state.metadata.id}, and the log is of {own}")


def _without_checkpoint(segment: LogSegment, store: Store, failure: tuple[int, str]) -> LogSegment:
    """The segment of the same version with the next checkpoint to try, in place of one that cannot be read."""
    bad = segment.checkpoint
    assert bad is not None
    warn_once(
        bad.files[0].path,
        f"the checkpoint {bad.files[0].path} cannot be read ({failure[1]}); an older state of the log is used instead",
    )
    listing = segment.listing if segment.listing.start == 0 else list_log(segment.table_path, store)
    position = next((i for i, c in enumerate(listing.checkpoints) if c == bad), None)
    older = [c for c in listing.checkpoints if c.version < bad.version]
    others = older if position is None else listing.checkpoints[position + 1 :]
    try:
        return build_segment(replace(listing, checkpoints=tuple(others)), segment.version)
    except HeadwaterError:
        raise HeadwaterError(
            "DELTA_CHECKPOINT_UNREADABLE",
            {
                "version": failure[0],
                "path": log_directory(segment.table_path),
                "reason": failure[1],
                "missing": missing_versions(listing, -1, segment.version),
            },
        ) from None


def _replay(
    state: TableState, ranges: Sequence[CommitRange], listing: LogListing, store: Store, shows: _Shows
) -> TableState:
    for start in range(0, len(ranges), _COMMITS_AT_ONCE):
        some = ranges[start : start + _COMMITS_AT_ONCE]
        contents = store.read_many([r.file.path for r in some])
        for r, content in zip(some, contents, strict=True):
            first = shows(r.first, content) if r.first == r.last else r.first
            if first is None or first > ranges[-1].last:
                raise _NotSettled(r.first, listing, is_undone=first is not None)
        together = _parse_together(some, contents)
        if together is None:
            commits: list[ParsedActions] = []
            for r, content in zip(some, contents, strict=True):
                commits += _parse(r, content, listing, store)
        else:
            commits = [together]
        state = apply_commits(state, commits)
    return state


def _parse_together(ranges: Sequence[CommitRange], contents: Sequence[bytes]) -> ParsedActions | None:
    """Many small files as one, which come to the same: to build columns for each takes longer than to parse it.

    None if they are large; or damaged, so that parsing them one by one shows which.
    """
    if len(ranges) < 2 or sum(map(len, contents)) > _PARSED_TOGETHER_BYTES or not all(contents):
        return None
    try:
        actions = parse_actions(b"\n".join(contents), ranges[-1].file.path)
    except HeadwaterError:
        return None
    actions.commit_info = commit_info_of(contents[-1])
    return actions


def _parse(r: CommitRange, content: bytes, listing: LogListing, store: Store) -> list[ParsedActions]:
    try:
        return [parse_actions(content, r.file.path)]
    except HeadwaterError as error:
        if r.first == r.last or any(v not in listing.commits for v in range(r.first, r.last + 1)):
            raise
        warn_once(r.file.path, f"the compacted log {r.file.path} is not used: {error}")
        files = [listing.commits[v] for v in range(r.first, r.last + 1)]
        contents = store.read_many([file.path for file in files])
        return [parse_actions(data, file.path) for file, data in zip(files, contents, strict=True)]


def _snapshot(segment: LogSegment, store: Store, state: TableState, before: TableDefinition | None = None) -> Snapshot:
    """The snapshot of a replayed state; ``before`` is the definition of an older one, which is likely the same."""
    for kind, action in (("protocol", state.protocol), ("metaData", state.metadata)):
        if action is None:
            raise HeadwaterError(
                "DELTA_STATE_RECOVER_ERROR",
                {"operation": kind, "version": segment.version, "path": log_directory(segment.table_path)},
            )
    assert state.protocol is not None
    assert state.metadata is not None
    check_readable(state.protocol, segment.table_path, by_catalog=store.of_catalog)
    if before is None:
        before = TableDefinition(state.protocol, state.metadata)
    definition = before.after(state.protocol, state.metadata).with_clustering(state.domains.get(clustering.DOMAIN))
    check_readable_types(definition)
    pa.default_memory_pool().release_unused()
    snapshot = Snapshot(segment.table_path, store, segment.version, definition, state, segment)
    if segment.version in segment.listing.checksums:
        _check(snapshot)
    return snapshot


def _check(snapshot: Snapshot) -> None:
    """Compare a snapshot with the checksum of its version; one that is missing or damaged, or of a table that was here
    before, proves nothing.

    :raises HeadwaterError: ``DELTA_TXN_LOG_FAILED_INTEGRITY`` with both values of each difference.
    """
    checksum = read_checksum(snapshot.table_path, snapshot.store, snapshot.version)
    if checksum is None:
        return
    # Not Snapshot.checksum(): application transactions expire when they are first asked for, and are not compared.
    found = differences(
        checksum, Checksum(snapshot.size_in_bytes, snapshot.num_files, snapshot.metadata, snapshot.protocol)
    )
    if found:
        path, ours = checksum_path(snapshot.table_path, snapshot.version), snapshot.metadata.id
        if checksum.metadata.id != ours and first_id(snapshot.table_path, snapshot.store) == ours:
            there = log_directory(snapshot.table_path)
            warn_once(there, f"checksums in {there} are ignored: they are of another table, {checksum.metadata.id}")
            return
        raise HeadwaterError(
            "DELTA_TXN_LOG_FAILED_INTEGRITY",
            {"version": snapshot.version, "path": path, "mismatch": "; ".join(found)},
        )


def _start_of_listing(base: Snapshot, store: Store) -> int:
    """Where to list from for what is newer than ``base``: its version, or where it has had many commits since its
    checkpoint, at a newer one.
    """
    if len(base.segment.ranges) < MOST_FOLLOWED // 2:
        return base.version
    hint = read_last_checkpoint(base.table_path, store)
    known = -1 if base.segment.checkpoint is None else base.segment.checkpoint.version
    return hint.version if hint is not None and known < hint.version <= base.version else base.version


def _advance(
    base: Snapshot, store: Store, version: int | None, since: Sequence[ParsedActions], shows: _Shows
) -> Snapshot | None:
    """The snapshot that newer commits make of ``base``; None if it cannot be built from it."""
    listing = list_newer(base.table_path, store, base.segment)
    if listing is None:
        listing = list_log(base.table_path, store, _start_of_listing(base, store))
    files: list[FileInfo | None] = [listing.commits.get(base.version)]
    files += [file for c in listing.checkpoints if c.version == base.version for file in c.files]
    files += [c.file for c in base.segment.listing.compactions if c.last == base.version]
    if base.segment.tip not in files:
        return None  # the log was cleaned up beyond it, or the table dropped and re-created
    if version is None:
        target = max(listing.latest or 0, base.version)
    elif version <= (listing.latest or 0):
        target = version
    else:
        return None
    if target == base.version:
        return base
    ranges = cover(listing, base.version, target)
    if ranges is None:
        return None
    checkpoint, covered = base.segment.checkpoint, (*base.segment.ranges, *ranges)
    after = -1 if checkpoint is None else checkpoint.version
    newer = next((c for c in listing.checkpoints if after < c.version <= target), None)
    after_newer = None if newer is None else cover(listing, newer.version, target)
    if after_newer is not None:  # else the list of ranges would grow for as long as the process lives
        checkpoint, covered = newer, tuple(after_newer)
    segment = LogSegment(base.table_path, target, checkpoint, covered, listing)
    is_known = len(since) == target - base.version
    state = apply_commits(base.state, since) if is_known else _replay(base.state, ranges, listing, store, shows)
    return _snapshot(segment, store, state, base.definition)
