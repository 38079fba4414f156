"""The companion of a table that is upserted: a Delta table of the keys that were deleted, with the sequence of each.

Owns where the companion is, what it has and when entries go. An event that is older than the deletion of its key must
not bring the row back, and the table itself no longer has the row to compare with. Where it has one, events are
compared with the row alone: had the deletion been the newer one, the row would be gone. So a row that RESTORE, an
overwrite or an INSERT has put there after the deletion is replaced by each event that is newer than it.

The companion lies in the table's folder, below a name with a leading underscore: readers and VACUUM do not look there,
and it goes with the folder. Its id is derived from the table's id, the time it was created and its key columns. So a
table that replaces another, or is upserted by other keys, starts with an empty one; a table for which these change
otherwise keeps the one that it has (:mod:`headwater.statements.upserts.finding`). Its own folder's name begins with
what is derived from the table alone: those of tables that were replaced are deleted once their entries have expired.

Promises. A batch writes its deletions here before it commits to the table. They count from the table's commit on, and
never if that fails, whatever happens in between: :mod:`headwater.statements.upserts.binding` says how. The commit to
the table has a ``txn`` action with the companion's id, and each upsert depends on it: one that did not see a deletion
that has been committed loses the race, and runs again. Entries of a file go together, once all are older than the
retention. :mod:`headwater.statements.upserts.deleted_keys_files` knows what maintenance the files need; the batches
do it, in the commit of their deletions.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeVar

import msgspec
import pyarrow as pa

from headwater.basics import backoff, clock
from headwater.basics.errors import HeadwaterError
from headwater.bridge.statement import Statement
from headwater.definition.changes import Declared, begun, changed
from headwater.groups.pending import PendingLog
from headwater.log.snapshot import Snapshot
from headwater.protocol.actions import Metadata, RemoveFile
from headwater.protocol.types import (
    INTEGERS,
    ArrayType,
    DataType,
    DecimalType,
    PrimitiveType,
    StructField,
    StructType,
)
from headwater.schema import visible
from headwater.schema.widening import can_widen
from headwater.sql.composing import (
    FALSE,
    STAR,
    Alias,
    Cast,
    Column,
    Expression,
    Join,
    Named,
    Number,
    Query,
    Relation,
    Rows,
    call,
    equal,
    every,
    infix,
    select,
)
from headwater.statements.files.file_lists import relation_over
from headwater.statements.files.partitions import collated
from headwater.statements.files.rows import Target, Written, describe_files, specification
from headwater.statements.running.committing import Application, commit, removals, transaction
from headwater.statements.running.opening import Options, open_if_there, open_snapshot
from headwater.statements.running.rerunning import RETRIED
from headwater.statements.upserts import binding, deleted_keys_files
from headwater.statements.upserts.binding import Mark
from headwater.statements.upserts.deleted_keys_files import Upkeep
from headwater.statements.upserts.events import Events, of_same_keys
from headwater.transaction import Transaction
from headwater.transaction.commit_info import Provenance, default_engine_info

T = TypeVar("T")

FOLDER = "_headwater_upsert"
#: What the ids begin with by which commits to tables say that they have written to a companion.
APPLICATIONS = "headwater-upsert-"
#: The property of a companion that has its note, and what its key columns begin with.
_NOTE, _KEY = "headwater.upsert.of", "key_"
#: How often a batch tries to write its entries, as other batches do at the same time.
_ATTEMPTS = 100
_RETRIED = RETRIED | {"DELTA_CONCURRENT_TRANSACTION", "DELTA_CONCURRENT_WRITE"}
_SEQUENCE, _WRITTEN = "sequence", "written"
_TIMES = ("date", "timestamp", "timestamp_ntz")
_NUMBERS = (*INTEGERS, "float", "double")


class Note(NamedTuple):
    """Whose a companion is, as of its newest batch.

    :param table: what is derived from the table's definition.
    :param keys: physical name and name of the table's key columns, by the companion's columns.
    :param history: whether the table keeps a history; None if that is not noted.
    """

    table: str
    keys: Mapping[str, Sequence[str]]
    history: bool | None


@dataclass(frozen=True)
class Companion:
    """Where a table's deleted keys are remembered.

    :param columns: the names of the key columns in the companion, in the order of the events' keys.
    """

    id: str
    path: str
    columns: Sequence[str]
    note: Note

    @property
    def application(self) -> str:
        """The application id by which commits to the table say that they have written here."""
        return f"{APPLICATIONS}{self.id}"

    @property
    def properties(self) -> Mapping[str, str]:
        """The table properties that it has."""
        note = msgspec.json.encode(self.note._asdict(), order="deterministic").decode()
        return {**deleted_keys_files.PROPERTIES, _NOTE: note}


def companion_of(table_path: str, metadata: Metadata, events: Events) -> Companion:
    """The companion that is named after a table's definition, whether it is there or not."""
    # Columns keep their physical names when they are renamed.
    names = [metadata.schema.find(key.name) or key for key in events.keys]
    columns = [f"{_KEY}{column.physical_name}" for column in names]
    parts = [metadata.id, str(metadata.created_time), *sorted(column.lower() for column in columns)]
    # Of a history, all deletions are kept, not the newest of each key alone.
    identity = _derived([*parts, "history"] if events.upsert.keeps_history else parts)
    table = derived_from(metadata)
    keys = {column: (key.physical_name, key.name) for column, key in zip(columns, names, strict=True)}
    note = Note(table, keys, events.upsert.keeps_history)
    return Companion(identity, f"{table_path}/{FOLDER}/{table}-{identity}", columns, note)


def derived_from(metadata: Metadata) -> str:
    """What a definition has in common with those that are not of a table that replaced it."""
    return _derived([metadata.id, str(metadata.created_time)])[:8]


def note_of(companion: Snapshot) -> Note:
    """What a companion notes. One of an older release notes nothing: its columns and its folder's name say most."""
    text = companion.metadata.configuration.get(_NOTE)
    if text is not None:
        with contextlib.suppress(msgspec.DecodeError, TypeError):
            return Note(**msgspec.json.decode(text))
    names = [column.name for column in companion.schema if column.name.startswith(_KEY)]
    table = companion.table_path.rpartition("/")[2].partition("-")[0]
    return Note(table, {name: (name.removeprefix(_KEY),) * 2 for name in names}, None)


def _derived(parts: Sequence[str]) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, "\n".join(parts)))


def newest(companion: Companion, statement: Statement) -> Snapshot | None:
    """The companion's newest snapshot; None if nothing was ever deleted."""
    return open_if_there(companion.path, statement)


# -- Reading -----------------------------------------------------------------------------------------------------------


class Deletions(NamedTuple):
    """What is remembered, as of a version of the table.

    :param files: rows of ``snapshot.files`` of the companion, at least one.
    """

    snapshot: Snapshot
    files: pa.Table


def deletions_of(companion: Companion, table: Snapshot, statement: Statement) -> Deletions | None:
    """What is remembered, for upserts into a version of the table; None if nothing is."""
    named = binding.batch_named(table, companion.application)
    if named is None and not binding.may_have_expired(table):
        return None
    # Read after the table: what was deleted by this version of it is there.
    snapshot = newest(companion, statement)
    if snapshot is None:
        return None
    if named is None:
        found = binding.batches_in(table, companion.application, snapshot.files)
        if found:
            confirm(companion, found, statement)
            snapshot = newest(companion, statement) or snapshot
        files = binding.counted(snapshot.files, found)
    else:
        files = binding.counted(snapshot.files, (named,))
    return Deletions(snapshot, files) if files.num_rows else None


def confirm(companion: Companion, batches: Collection[int], statement: Statement) -> None:
    """Have the deletions of batches that are in the table count whatever its ``txn`` names, as it may expire."""

    def attempt() -> None:
        snapshot = newest(companion, statement)
        if snapshot is None or snapshot.store.is_provisional:
            return  # the batches of a transaction are in no version of the table until COMMIT
        again = binding.unmarked(binding.confirmed(snapshot.files, batches))
        if again:
            txn = transaction(companion.path, statement, snapshot)
            txn.add_again(again)
            txn.commit(Provenance("WRITE", engine_info=default_engine_info(statement.spark_version)))

    _insist(attempt, statement)


def _insist(attempt: Callable[[], T], statement: Statement) -> T:
    """Make an attempt at a commit to the companion, and another after each lost race."""

    def lost(error: Exception) -> bool:
        if not isinstance(error, HeadwaterError) or error.condition not in _RETRIED:
            return False
        statement.check_cancelled()
        return True

    return backoff.OF_STATEMENTS.insist(attempt, _ATTEMPTS, lost)


def with_outdated(
    companion: Companion, remembered: Deletions | None, events: Events, rows: Rows, statement: Statement
) -> Query | None:
    """The events, and whether each is older than the deletion of its key; None if nothing is remembered."""
    if remembered is None or not _fits(companion, remembered.snapshot, events):
        return None
    names, keys = events.names, [Column(key.name) for key in events.keys]
    taken = [names.of(f"deleted_{i}") for i in range(len(keys))]
    gone = events.deleted_at_name
    deletions = _deletions(companion, remembered, events, statement)
    if isinstance(rows, Relation) and deleted_keys_files.is_large(remembered.files):
        # The events are computed already, so their keys cost little beside grouping all that were ever deleted.
        deletions = of_same_keys(deletions, events, rows)
    newest_of_each = select(
        *(Alias(key, name) for key, name in zip(keys, taken, strict=True)),
        Alias(call("max", Column(events.sequence_name)), gone),
        rows=deletions,
        group_by=keys,
    )
    matches = every(*(equal(key, Column(name)) for key, name in zip(keys, taken, strict=True)))
    assert matches is not None
    joined = Join(Named(rows, names.of("events")), "LEFT OUTER", Named(newest_of_each, names.of("deletions")), matches)
    is_older = infix("<", Column(events.sequence_name), Column(gone))
    return select(STAR, Alias(call("coalesce", is_older, FALSE), events.outdated_name), rows=joined)


def all_deletions(
    companion: Companion, remembered: Deletions | None, events: Events, statement: Statement
) -> Query | None:
    """All deletions: keys and sequence, under the events' names; None if nothing was deleted."""
    if remembered is None or not _fits(companion, remembered.snapshot, events):
        return None
    return _deletions(companion, remembered, events, statement)


def _deletions(companion: Companion, remembered: Deletions, events: Events, statement: Statement) -> Query:
    """Keys and sequence of the deletions, under the events' names and as the events are compared."""
    snapshot = remembered.snapshot
    stored, wanted = snapshot.schema.find(_SEQUENCE), _kind(events)
    sequence: Expression = Column(_SEQUENCE)
    if events.upsert.keeps_history or (stored is not None and isinstance(stored.type, StructType)):
        # Others are compared as the wider of the two types.
        sequence = Cast(sequence, wanted, or_null=True)
    return select(
        *(
            Alias(collated(Column(name), key), key.name)
            for name, key in zip(companion.columns, events.keys, strict=True)
        ),
        Alias(sequence, events.sequence_name),
        rows=relation_over(statement, snapshot, remembered.files),
    )


def _kind(events: Events) -> DataType:
    assert events.sequence is not None
    return events.sequence


def _fits(companion: Companion, snapshot: Snapshot, events: Events) -> bool:
    """Whether keys and sequences of a companion can be compared with those of the events: not if a column now has
    another type than a wider one, or the option means something else, a number instead of a time."""
    sequence = snapshot.schema.find(_SEQUENCE)
    if sequence is None or _family(sequence.type) != _family(_kind(events)):
        return False
    keys = [snapshot.schema.find(name) for name in companion.columns]
    return all(
        stored is not None and _is_same_key(stored.type, key.type)
        for stored, key in zip(keys, events.keys, strict=True)
    )


def _is_same_key(stored: DataType, given: DataType) -> bool:
    # RESTORE can undo that a column became wider.
    is_whole = {stored, given} <= {PrimitiveType(name) for name in INTEGERS}
    return stored == given or is_whole or can_widen(stored, given)


def _family(kind: DataType) -> object:
    """What types have in common whose values can be compared."""
    match kind:
        case StructType():
            return tuple(_family(field.type) for field in kind)
        case ArrayType():
            return [_family(kind.element)]
        case DecimalType():
            return "number"
        case PrimitiveType():
            return "number" if kind.name in _NUMBERS else "time" if kind.name in _TIMES else kind.name
    return type(kind).__name__


# -- Writing -----------------------------------------------------------------------------------------------------------


class Remembering:
    """The deletions of one batch: they are computed once, and marked for each version of the table that the batch is to
    follow.

    :param application: the batch's own, if it has one.
    """

    def __init__(
        self,
        companion: Companion,
        events: Events,
        rows: Rows,
        application: Application | None,
        statement: Statement,
    ) -> None:
        self.companion, self.events, self.rows = companion, events, rows
        self.application, self.statement = application, statement
        #: The files of the deletions, which an attempt that lost has written, and their columns.
        self.written: Written | None = None
        self.columns: StructType | None = None
        #: What the files are marked with in the companion; None before they are there.
        self.mark: Mark | None = None
        #: False after the first attempt: what another batch tidies at the same time, it tidies well enough.
        self.tidies = True

    def bind(self, table: Snapshot | None) -> int | None:
        """Have the deletions in the companion, to count once the table's ``txn`` names the number that is returned,
        directly after what it names in a version; None if it has no columns.

        :param table: None if the batch creates the table.
        """
        after = None if table is None else binding.batch_named(table, self.companion.application)
        if self.mark is not None and self.mark.after == after:
            return self.mark.batch
        if self.written is not None and not self.written.files:
            return None
        mark = Mark.new(after, _version_in_log(table))
        try:
            is_there = _insist(partial(self._attempt, mark, table), self.statement)
        except HeadwaterError:
            raise
        except BaseException:
            # What a job that failed has written is deleted.
            self.written = self.mark = None
            raise
        self.mark = mark if is_there else None
        return mark.batch if is_there else None

    def _attempt(self, mark: Mark, table: Snapshot | None) -> bool:
        snapshot = newest(self.companion, self.statement)
        wanted = self._schema()
        txn = transaction(self.companion.path, self.statement, snapshot)
        declared = Declared(wanted, (), self.companion.properties, id=self.companion.id)
        is_same = snapshot is None or _types(snapshot.schema) == _types(wanted)
        if snapshot is None or not is_same:
            # It is nobody's decision but this one's which features a companion has.
            txn.redefine(begun(declared, None if snapshot is None else snapshot.definition, is_companion=True))
        elif not self._notes(snapshot) and not txn.store.is_provisional:
            noted = {**snapshot.metadata.configuration, **self.companion.properties}
            txn.redefine(changed(snapshot.definition, configuration=noted))
        target = Target(txn.table_path, txn.definition)
        if self.written is None or self._is_lost(snapshot, wanted):
            self.statement.step("remember deleted keys")
            self.written, self.columns = self._write(target, self._deletions()), wanted
            self.mark = None
        written = self.written
        if not written.files:
            return False
        txn.add(mark.put_on(written.files))
        has_removed = False
        # COMMIT makes one commit of each: within a transaction, the companion only gets rows, and is not tidied up.
        in_transaction = txn.store.is_provisional
        if snapshot is not None and (self.tidies and not in_transaction or not is_same):
            has_removed = self._tidy(txn, snapshot, table, target, is_same=is_same)
        commit(
            txn,
            self.statement,
            Provenance(
                "WRITE",
                {"mode": "Append", "partitionBy": []},
                {"numFiles": len(written.files), "numOutputRows": written.rows, "numOutputBytes": written.bytes},
            ),
            is_last=False,
            application=self.application,
        )
        if has_removed and not in_transaction and (now := newest(self.companion, self.statement)) is not None:
            deleted_keys_files.delete_unneeded(now, self.statement)
            table_now = self.companion.note.table
            deleted_keys_files.delete_replaced(now, table_now, self.events.upsert.retention, self.statement)
        return True

    def _is_lost(self, snapshot: Snapshot | None, wanted: StructType) -> bool:
        """Whether the files cannot be marked again: other batches have given them up, so that they may have left the
        disk, or the columns are others now."""
        if self.columns is None or _types(self.columns) != _types(wanted):
            return True
        if self.mark is None:
            return False
        return snapshot is None or not self._own_paths() <= set(snapshot.files["path"].to_pylist())

    def _notes(self, snapshot: Snapshot) -> bool:
        return self.companion.properties.items() <= snapshot.metadata.configuration.items()

    def _own_paths(self) -> set[str]:
        return set() if self.written is None else {file.path for file in self.written.files}

    def _tidy(
        self, txn: Transaction, snapshot: Snapshot, table: Snapshot | None, target: Target, *, is_same: bool
    ) -> bool:
        """Take the marks off files of batches that are in the table, remove what has expired or was given up, and write
        what many small files hold, or files of other types, again; whether files are removed."""
        self.tidies = False
        retention, application = self.events.upsert.retention, self.companion.application
        named = None if table is None else binding.batch_named(table, application)
        given_up = partial(
            binding.given_up,
            snapshot.files,
            expired_before=clock.milliseconds() - retention,
            without=self._own_paths(),
        )
        gone: list[RemoveFile] = []
        if table is not None and given_up(named).num_rows:
            # The companion may be ahead of what is known of the table.
            now = open_snapshot(table.table_path, self.statement)
            is_known = binding.batch_named(now, application) is not None or not binding.may_have_expired(now)
            if now.metadata.id == table.metadata.id and is_known:
                named = binding.batch_named(now, application)
                gone = removals(given_up(named))
                # Another batch may mark its files again meanwhile.
                txn.follow_directly()
        counted = binding.counted(snapshot.files, () if named is None else (named,))
        due = deleted_keys_files.upkeep(counted, retention, everything=not is_same)
        if due.again.num_rows and _fits(self.companion, snapshot, self.events):
            txn.add(self._write(target, self._compacted(snapshot, due)).files)
        gone += removals(due.gone)
        txn.remove(gone)
        paths = {file.path for file in gone}
        is_in = () if named is None else (named,)
        txn.add_again(file for file in binding.unmarked(binding.confirmed(counted, is_in)) if file.path not in paths)
        return bool(gone)

    def _schema(self) -> StructType:
        columns = [
            StructField(name, key.type) for name, key in zip(self.companion.columns, self.events.keys, strict=True)
        ]
        return visible.for_reading(
            StructType(
                (
                    *columns,
                    StructField(_SEQUENCE, _kind(self.events)),
                    StructField(_WRITTEN, PrimitiveType("timestamp")),
                )
            )
        )

    def _deletions(self) -> Query:
        events = self.events
        columns: list[Expression] = [
            Alias(Column(key.name), name) for key, name in zip(events.keys, self.companion.columns, strict=True)
        ]
        return select(
            *columns,
            Alias(Column(events.sequence_name), _SEQUENCE),
            Alias(call("current_timestamp"), _WRITTEN),
            rows=self.rows,
            where=Column(events.deletes_name),
            hint="REBALANCE",
        )

    def _compacted(self, snapshot: Snapshot, due: Upkeep) -> Query:
        """One entry for each key, of a history one for each deletion, without those that have expired."""
        keys = [Column(name) for name in self.companion.columns]
        since = clock.milliseconds() - self.events.upsert.retention
        wanted = {column.name: column.type for column in self._schema()}
        recent = infix(">=", call("unix_millis", Column(_WRITTEN)), Number(since, is_long=True))
        return select(
            # A value that is none of the type, a null, is no event's.
            *(Alias(Cast(key, wanted[key.name], or_null=True), key.name) for key in keys),
            Alias(Cast(call("max", Column(_SEQUENCE)), wanted[_SEQUENCE], or_null=True), _SEQUENCE),
            Alias(call("max", Column(_WRITTEN)), _WRITTEN),
            rows=select(STAR, rows=relation_over(self.statement, snapshot, due.again), where=recent),
            hint=f"COALESCE({due.num_written})",
            group_by=[*keys, Column(_SEQUENCE)] if self.events.upsert.keeps_history else keys,
        )

    def _write(self, target: Target, query: Query) -> Written:
        files = self.statement.write(specification(target, query, Options(None)))
        return describe_files(target, files, data_change=True)


def _version_in_log(table: Snapshot | None) -> int:
    """The newest version of the table that others see; -1 if the table does not exist yet."""
    if table is None:
        return -1
    return table.store.base if isinstance(table.store, PendingLog) else table.version


def _types(schema: StructType) -> list[tuple[str, DataType]]:
    return sorted(((column.name, column.type) for column in schema), key=lambda column: column[0])
