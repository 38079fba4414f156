"""Which files COPY INTO has loaded into a table.

Owns the files of a table's folder ``_headwater/copy``, and what binds them to its log (protocol chapter "Transaction
Identifiers"). Each COPY INTO that loads files writes one state file, before its commit, under a number that no file
has; the ``txn`` action of the commit, whose version is the number, makes the file count. The other numbers that count
are listed in the file. So:

1. Files are loaded if, and only if, the commit that has their rows is in the log. A statement that dies before its
   commit leaves a state file that no ``txn`` names.
2. Of two statements that load at once, both set the same application's version, which the protocol makes a conflict.
   The one that loses reads the state again.
3. A snapshot is no slower for it: it has one more ``txn``, however many files were loaded. What a statement writes
   is proportional to what it loads, but for merges, whose cost is logarithmic in the number of statements.
4. A file is known by its path alone, so clocks and stores with coarse times do not matter.
5. An entry is forgotten when no COPY INTO has seen its file for the time of a table property; a statement that finds
   entries half that old commits a new state, even if it loads nothing. ``delta.setTransactionRetentionDuration``
   has the ``txn`` expire for every engine, so the shorter of both counts.

The application is that of the table's id, and of a property that CREATE OR REPLACE TABLE sets again: a table that
replaces another begins without loaded files, and RESTORE to a version before it also finds the notes of that time. What
other engines do, with whatever time of creation, makes no other table of it. State files that do not count are deleted
once they are older than what VACUUM deletes and than the versions that the log keeps, and a day at least.
"""

from __future__ import annotations

import io
import json
import logging
import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headwater.basics import clock
from headwater.basics.errors import HeadwaterError
from headwater.definition.changes import changed
from headwater.log.snapshot import Snapshot
from headwater.protocol import properties
from headwater.protocol.table_definition import TableDefinition
from headwater.stores import Store
from headwater.transaction import Transaction

_LOG = logging.getLogger(__name__)
#: What the ids begin with by which commits say which state file counts.
APPLICATIONS = "headwater-copy-into-"
_FOLDER = "_headwater/copy"
_NAME = re.compile(r"(\d{20})\.parquet")
#: Key of a state file's metadata: JSON of the other files that count, oldest first, each with its number and rows.
_PARTS = b"headwater.parts"
#: Key of what no other state file has: so a store that repeats a request finds its own file.
_WRITER = b"headwater.writer"
#: State files that do not count stay for so long at least, in milliseconds: their statement may still commit.
_STAYS = 24 * 3_600_000
#: One row per loaded file. ``path`` as Spark reads it; ``size`` in bytes; ``modified``, ``loaded`` and ``seen`` in
#: milliseconds since the epoch: when the file was written, loaded, and last listed by a COPY INTO.
ENTRIES = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("modified", pa.int64(), nullable=False),
        pa.field("loaded", pa.int64(), nullable=False),
        pa.field("seen", pa.int64(), nullable=False),
    ]
)


@dataclass(frozen=True)
class _Part:
    """A state file that counts: its number, and its entries."""

    number: int
    entries: pa.Table


@dataclass(frozen=True)
class CopyState:
    """The loaded files as of a snapshot.

    :param parts: oldest first; none if no file is known.
    :param written: when the newest was written, in milliseconds since the epoch.
    """

    application: str
    folder: str
    parts: Sequence[_Part]
    written: int
    retention: int

    @property
    def paths(self) -> pa.ChunkedArray:
        """The paths of the loaded files."""
        return pa.chunked_array([chunk for part in self.parts for chunk in part.entries["path"].chunks], pa.string())

    @property
    def entries(self) -> pa.Table:
        """All entries, oldest first."""
        return pa.concat_tables([ENTRIES.empty_table(), *(part.entries for part in self.parts)])

    def is_ageing(self, seen: pa.Array, now: int) -> bool:
        """Whether entries of files that a statement sees would be forgotten, unless it writes a state.

        :param seen: the paths of the files it sees; ``now``: milliseconds since the epoch.
        """
        entries = self.entries
        if not entries.num_rows:
            return False
        half = now - self.retention // 2
        listed = entries.filter(pc.is_in(entries["path"], value_set=seen))
        return bool(listed.num_rows) and (self.written < half or pc.min(listed["seen"]).as_py() < half)

    def grown(self, new: pa.Table, seen: pa.Array, now: int) -> tuple[pa.Table, list[tuple[int, int]]]:
        """The entries of the next state file, and the number and rows of each older one that still counts.

        :param new: entries of the files that are loaded now.
        """
        known = self.entries
        oldest = pc.min(known["seen"]).as_py() if known.num_rows else now
        if self.is_ageing(seen, now) or oldest < now - self.retention:
            again = pc.is_in(known["path"], value_set=seen)
            times = pc.if_else(again, pa.scalar(now, pa.int64()), known["seen"])
            known = known.set_column(ENTRIES.get_field_index("seen"), ENTRIES.field("seen"), times)
            known = known.filter(pc.greater_equal(known["seen"], now - self.retention))
            return _without_older(pa.concat_tables([known, new])), []
        # As in a binary counter: each entry is written again once for each doubling of the entries after it.
        rest, merged = list(self.parts), new
        while rest and rest[-1].entries.num_rows <= merged.num_rows:
            merged = pa.concat_tables([rest.pop().entries, merged])
        return _without_older(merged), [(part.number, part.entries.num_rows) for part in rest]


def _without_older(entries: pa.Table) -> pa.Table:
    """The last entry of each path: a file that was loaded again has several."""
    numbered = entries.append_column("number", pa.array(range(entries.num_rows), pa.int64()))
    last = numbered.group_by("path").aggregate([("number", "max")])["number_max"]
    return entries.take(pc.take(last, pc.sort_indices(last)))


def entries_of(files: Sequence[tuple[str, int, int]], now: int) -> pa.Table:
    """Entries of files that are loaded now: path, size in bytes and modification time of each."""
    paths, sizes, times = zip(*files, strict=True) if files else ((), (), ())
    nows = [now] * len(files)
    return pa.table([list(paths), list(sizes), list(times), nows, nows], schema=ENTRIES)


def state_of(snapshot: Snapshot) -> CopyState:
    """The loaded files as of a snapshot.

    :raises HeadwaterError: ``HEADWATER_COPY_STATE_LOST``.
    """
    state = lost_state_of(snapshot)
    newest = snapshot.set_transactions.get(state.application)
    if newest is None:
        return state
    store, folder = snapshot.store, state.folder
    try:
        first = _read(store.read(f"{folder}/{_name(newest.version)}"))
        listed = [int(number) for number, _ in json.loads(first.schema.metadata[_PARTS])]
        older = map(_read, store.read_many([f"{folder}/{_name(number)}" for number in listed]))
        parts = [_Part(number, table) for number, table in zip(listed, older, strict=True)]
    except (FileNotFoundError, KeyError, ValueError, TypeError, pa.ArrowInvalid) as error:
        named = {"tableName": snapshot.metadata.name or snapshot.table_path, "path": folder, "reason": str(error)}
        raise HeadwaterError("HEADWATER_COPY_STATE_LOST", named) from error
    return replace(state, parts=[*parts, _Part(newest.version, first)], written=newest.last_updated or 0)


def lost_state_of(snapshot: Snapshot) -> CopyState:
    """The state of a table of which no loaded file is known any more, or yet."""
    return _no_state(snapshot.table_path, snapshot.definition)


def _no_state(table_path: str, definition: TableDefinition) -> CopyState:
    metadata = definition.metadata
    # A table that replaces another keeps its id; an ALTER of another engine may change the time of creation.
    own = uuid.uuid5(uuid.NAMESPACE_URL, f"{metadata.id}\n{definition.get(properties.COPY_GENERATION)}")
    lengths = [definition.get(properties.COPY_RETENTION)]
    if (of_transactions := definition.get(properties.TRANSACTION_RETENTION)) is not None:
        lengths.append(of_transactions)
    return CopyState(f"{APPLICATIONS}{own}", f"{table_path}/{_FOLDER}/{own}", (), 0, min(lengths))


def continued(made: TableDefinition, before: Snapshot | None, *, is_same: bool) -> TableDefinition:
    """The definition of a table in the place of another. It knows the loaded files of that one, or none.

    :param is_same: whether it stays the same table.
    """
    if before is None:
        return made
    name = properties.COPY_GENERATION.name
    generation = before.metadata.configuration.get(name)
    if not is_same:
        has_loaded = any(application.startswith(APPLICATIONS) for application in before.set_transactions)
        generation = uuid.uuid4().hex if has_loaded else None
    rest = {key: value for key, value in made.metadata.configuration.items() if key != name}
    wanted = rest if generation is None else {**rest, name: generation}
    return made if wanted == made.metadata.configuration else changed(made, configuration=wanted)


def hand_over(source: Snapshot, txn: Transaction) -> None:
    """Have a transaction that makes a table a copy of another also take over which files were loaded. A copy of a table
    that has lost this, or of a version of which it is not kept any more, knows no file.
    """
    try:
        state = state_of(source)
    except HeadwaterError as error:
        _LOG.warning("%s: the clone knows no file that was loaded: %s", txn.table_path, error)
        return
    own = _no_state(txn.table_path, txn.definition)
    known = txn.snapshot.set_transactions.get(own.application) if txn.snapshot is not None else None
    # A source that knows no file any more, as it was replaced, also has its clone forget them.
    if state.parts or known is not None:
        entries = _without_older(state.entries)
        number = write(own, txn.store, entries, [], -1 if known is None else known.version)
        txn.set_transaction(own.application, number)


def write(state: CopyState, store: Store, entries: pa.Table, older: Sequence[tuple[int, int]], after: int) -> int:
    """Write a state file that counts once a commit names it; its number.

    :param after: the number that it is higher than.
    """
    number = after + 1
    metadata = {_PARTS: json.dumps(older).encode(), _WRITER: uuid.uuid4().hex.encode()}
    sink = io.BytesIO()
    pq.write_table(entries.cast(ENTRIES).replace_schema_metadata(metadata), sink, compression="zstd")
    store.make_directory(state.folder)
    while True:
        try:
            store.put_once(f"{state.folder}/{_name(number)}", sink.getvalue())
        except FileExistsError:  # of another statement, which runs or never committed
            number += 1
        else:
            return number


def delete_outdated(state: CopyState, snapshot: Snapshot, counts: Sequence[int]) -> None:
    """Delete the state files that do not count any more; a failure fails no statement.

    :param counts: the numbers of the state files that do.
    """
    store = snapshot.store
    lengths = [snapshot.definition.get(each) for each in (properties.FILE_RETENTION, properties.LOG_RETENTION)]
    before = clock.milliseconds() - max(*lengths, _STAYS)
    try:
        found = [
            file.name
            for file in store.list_from(state.folder)
            if (name := _NAME.fullmatch(file.name)) is not None
            and int(name.group(1)) not in counts
            and file.modification_time < before
        ]
        if found:
            store.delete_many(state.folder, [f"{state.folder}/{name}" for name in found])
    except OSError as error:
        _LOG.warning("%s: state files of COPY INTO that do not count stay: %s", snapshot.table_path, error)


def _read(data: bytes) -> pa.Table:
    table = pq.read_table(pa.BufferReader(data))
    if not table.schema.equals(ENTRIES):
        raise ValueError("it has other columns than a state of COPY INTO")
    return table


def _name(number: int) -> str:
    return f"{number:020}.parquet"
