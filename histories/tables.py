"""Tables, and the statements that clients run on them without Spark.

Owns what Spark would do for a statement: reading rows, writing files. All else is Headwater's own: snapshots, pruning,
transactions, row-level concurrency, what a statement does after a lost race, BEGIN and COMMIT. Every table has the
columns ``k`` (the key), ``id`` and ``text``. A row of a table of lists has a list as text, elements by commas; a row
of any other table has the number of times that it was counted up.
"""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from headwater.basics import clock
from headwater.log import deletion_vectors
from headwater.log.files import vector_of
from headwater.log.snapshot import Snapshot
from headwater.protocol.actions import AddFile, Metadata, Protocol
from headwater.pruning import prune_all
from headwater.pruning.predicates import Column, In, Predicate
from headwater.statements.running.committing import Application, commit, has_committed, removals, transaction
from headwater.statements.running.opening import note_read, open_snapshot
from headwater.statements.running.rerunning import run_again_after_losses
from headwater.stores import Store, absolute_path
from headwater.transaction import Provenance, Transaction
from headwater.transaction.keyed import KeyReads
from headwater.transaction.moved_rows import Copy
from headwater.transaction.row_level import Mark, marked_file
from histories.history import TableFacts
from support.recording_statement import RecordingStatement
from support.transactions import Session

_COLUMNS = pa.schema([("k", pa.int64()), ("id", pa.int64()), ("text", pa.string())])
_CHECKPOINT_INTERVAL = 10
_MOST_COMPACTED = 12


class Row(NamedTuple):
    """A row of any table."""

    k: int
    id: int
    text: str

    @property
    def elements(self) -> list[int]:
        """The list in its text."""
        return [int(each) for each in self.text.split(",") if each]

    def with_element(self, element: int) -> Row:
        """The row with one more element at the end."""
        return self._replace(text=f"{self.text},{element}" if self.text else str(element))

    def counted_up(self) -> Row:
        """The row, counted up once more."""
        return self._replace(text=str(int(self.text) + 1))


def create(path: str, store: Store, facts: TableFacts) -> None:
    """Make a table, which must not exist."""
    txn = Transaction(path, store, None)
    configuration = {
        "delta.checkpointInterval": str(_CHECKPOINT_INTERVAL),
        "delta.isolationLevel": facts.level,
        "delta.enableDeletionVectors": str(facts.vectors).lower(),
    }
    vectors = frozenset({"deletionVectors"})
    txn.update_protocol(Protocol(3, 7, vectors, vectors) if facts.vectors else Protocol(1, 2))
    kinds = {"k": "long", "id": "long", "text": "string"}
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in kinds.items()]
    schema = json.dumps({"type": "struct", "fields": fields})
    txn.update_metadata(Metadata(str(uuid.uuid4()), schema, (), configuration, created_time=1))
    txn.commit(Provenance("CREATE TABLE"))


class BareStatement(RecordingStatement):
    """A statement of a client, which reaches stores that are not local through ``files`` of Hadoop's."""

    files: Any = None

    @property
    def hadoop(self) -> Any:
        """Hadoop's file systems; None if all stores are local."""
        return self.files


class _BareSession(Session):
    """A session, each statement of which is a :class:`BareStatement`."""

    def run(self, do: Callable[..., Any], *args: Any) -> Any:
        statement = BareStatement(self.confs)  # type: ignore[no-untyped-call]
        try:
            return do(*args, statement)
        finally:
            self.confs = dict(statement.confs)


class Client:
    """A session that runs statements on tables by name; between :meth:`begin` and :meth:`commit`, in a transaction.

    :param paths: of the tables, by name.
    :param retry_seconds: for how long a statement that lost to another is run again.
    """

    def __init__(self, paths: Mapping[str, str], facts: Mapping[str, TableFacts], retry_seconds: int = 5) -> None:
        session = _BareSession(spark_headwater_dml_retrySeconds=str(retry_seconds))
        self._run, self.begin, self.commit, self.rollback = session.run, session.begin, session.commit, session.rollback
        self._paths, self._facts = paths, facts

    # Queries

    def query(self, table: str, keys: Sequence[int] | None) -> list[Row]:
        """The rows with these keys, or all, of one version."""

        def query(statement: Any) -> list[Row]:
            snapshot = open_snapshot(self._paths[table], statement)
            predicates = [] if keys is None else [_of_keys(keys)]
            note_read(snapshot.store, predicates)
            found = (row for file in _files(snapshot, predicates) for row in _rows(snapshot, file).values())
            return [row for row in found if keys is None or row.k in keys]

        found: list[Row] = self._run(query)
        return found

    # Statements

    def insert(self, table: str, rows: Sequence[Row], batch: tuple[str, int] | None = None) -> bool:
        """INSERT, which reads nothing; with a batch, the micro-batch of a stream. False if the table has it already."""

        def insert(statement: Any) -> bool:
            snapshot = open_snapshot(self._paths[table], statement)
            application = Application(*batch) if batch is not None else None
            if application is not None and has_committed(snapshot, application):
                return False
            txn = transaction(self._paths[table], statement, snapshot)
            txn.add([_write(snapshot, rows)])
            name = "WRITE" if batch is None else "STREAMING UPDATE"
            commit(txn, statement, Provenance(name), application=application)
            return True

        return bool(self._run(lambda statement: self._rerun(table, statement, insert)))

    def append(self, table: str, elements: Mapping[int, int]) -> None:
        """MERGE: an element for the list of each key, which it makes if there is no row."""
        missing = [Row(key, 0, str(element)) for key, element in elements.items()]
        self._rewrite(table, list(elements), lambda row: row.with_element(elements[row.k]), missing)

    def delete(self, table: str, key: int) -> int:
        """DELETE of the rows with a key; how many there were."""
        return self._rewrite(table, [key], lambda row: None)

    def touch(self, table: str, key: int) -> int:
        """UPDATE that counts up the rows with a key; how many there were."""
        return self._rewrite(table, [key], Row.counted_up)

    def merge(self, table: str, key: int, id: int) -> None:
        """MERGE that counts up a row, or inserts it."""
        self._rewrite(table, [key], Row.counted_up, [Row(key, id, "0")])

    def replace(self, table: str, key: int, id: int) -> None:
        """An upsert by ``k`` and ``id``, which sets a row's count to 0, or inserts it."""
        new = Row(key, id, "0")
        self._rewrite(table, [key], lambda row: new, [new])

    def _rewrite(
        self, table: str, keys: Sequence[int], change: Callable[[Row], Row | None], missing: Sequence[Row] = ()
    ) -> int:
        """The rows with these keys become what a function returns, None to delete one; how many there were.

        :param missing: a MERGE's rows, of which those are inserted whose ``k`` and ``id`` no row has; only rows that
            have both of one of them are matched.
        """
        return int(
            self._run(
                lambda statement: self._rerun(
                    table, statement, lambda inner: self._change(table, keys, change, missing, inner)
                )
            )
        )

    def compact(self, table: str, choose: Callable[[int], Sequence[int]]) -> None:
        """OPTIMIZE of some files, whose marks follow the rows that it moves.

        :param choose: of so many files, the numbers of those to compact.
        """

        def compact(statement: Any) -> None:
            snapshot = open_snapshot(self._paths[table], statement)
            files = snapshot.files
            chosen = files.take(pa.array(sorted(choose(files.num_rows))[:_MOST_COMPACTED], pa.int64()))
            if chosen.num_rows < 2:
                return
            txn = transaction(self._paths[table], statement, snapshot)
            rows = [list(_rows(snapshot, file).values()) for file in chosen.to_pylist()]
            moved = [row for some in rows for row in some]
            outputs = [_write(snapshot, moved, data_change=False)] if moved else []
            txn.move([Copy(removals(chosen, data_change=False), list(map(len, rows)), outputs)])
            commit(txn, statement, Provenance("OPTIMIZE"))

        self._run(compact)

    # How

    def _rerun(self, table: str, statement: Any, attempt: Callable[[Any], Any]) -> Any:
        return run_again_after_losses(self._paths[table], statement, lambda: attempt(statement))

    def _change(
        self,
        table: str,
        keys: Sequence[int],
        change: Callable[[Row], Row | None],
        missing: Sequence[Row],
        statement: Any,
    ) -> int:
        path = self._paths[table]
        snapshot = open_snapshot(path, statement)
        txn = transaction(path, statement, snapshot)
        predicates = [_of_keys(keys)]
        wanted = {(row.k, row.id) for row in missing}
        if missing:
            txn.read_keys(KeyReads(snapshot, ["k", "id"], lambda: list(wanted)), predicates)
        else:
            txn.read_where(predicates)
        matched: list[Row] = []
        files = _files(snapshot, predicates)
        for file in files:
            rows = _rows(snapshot, file)
            positions = [p for p, row in rows.items() if ((row.k, row.id) in wanted if missing else row.k in keys)]
            if not positions:
                continue
            matched += (rows[position] for position in positions)
            if self._facts[table].vectors:
                txn.mark(_marked(snapshot, file, BitMap64(positions)))
            else:
                txn.remove(removals(_one(snapshot, file)))
                kept = [row for position, row in rows.items() if position not in positions]
                if kept:
                    txn.add([_write(snapshot, kept)])
        there = {(row.k, row.id) for row in matched}
        new = [each for each in map(change, matched) if each is not None]
        new += [row for row in missing if (row.k, row.id) not in there]
        if new:
            txn.add([_write(snapshot, new)])
        if txn.has_changes:
            commit(txn, statement, Provenance("MERGE" if missing else "UPDATE" if new else "DELETE"))
        return len(matched)


def _of_keys(keys: Iterable[int]) -> Predicate:
    return In(Column(("k",)), "long", tuple(keys))


def _files(snapshot: Snapshot, predicates: Sequence[Predicate]) -> list[dict[str, Any]]:
    files = snapshot.files.filter(prune_all(snapshot, predicates)) if predicates else snapshot.files
    found: list[dict[str, Any]] = files.to_pylist()
    return found


def _one(snapshot: Snapshot, file: Mapping[str, Any]) -> pa.Table:
    """A file as a row of ``snapshot.files``."""
    return snapshot.files.filter(pa.array([path == file["path"] for path in snapshot.files["path"].to_pylist()]))


def _rows(snapshot: Snapshot, file: Mapping[str, Any]) -> dict[int, Row]:
    """The rows of a file that are not deleted, by position."""
    with snapshot.store.open_input(absolute_path(snapshot.table_path, file["path"])) as opened:
        columns = pq.read_table(opened).select(_COLUMNS.names).to_pydict().values()
    vector = vector_of(file["deletion_vector"])
    gone = deletion_vectors.read(vector, snapshot.table_path, snapshot.store) if vector else BitMap64()
    rows = enumerate(zip(*columns, strict=True))
    return {position: Row(*values) for position, values in rows if position not in gone}


def _write(snapshot: Snapshot, rows: Sequence[Row], data_change: bool = True) -> AddFile:
    name = f"part-{uuid.uuid4()}.snappy.parquet"
    columns = dict(zip(_COLUMNS.names, zip(*rows, strict=True), strict=True))
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns, _COLUMNS), buffer)
    data, path = buffer.getvalue(), f"{snapshot.table_path}/{name}"
    if snapshot.store.is_local:
        Path(path).write_bytes(data)
    else:
        snapshot.store.put_once(path, data)
    keys = [row.k for row in rows]
    stats = {
        "numRecords": len(rows),
        "minValues": {"k": min(keys)},
        "maxValues": {"k": max(keys)},
        "nullCount": {"k": 0, "id": 0, "text": 0},
    }
    return AddFile(name, {}, len(data), clock.milliseconds(), data_change, json.dumps(stats))


def _marked(snapshot: Snapshot, file: Mapping[str, Any], positions: BitMap64) -> Mark:
    before = vector_of(file["deletion_vector"])
    gone = (
        positions if before is None else positions | deletion_vectors.read(before, snapshot.table_path, snapshot.store)
    )
    physical = json.loads(file["stats"])["numRecords"]
    add = None
    if len(gone) < physical:
        (vector,) = deletion_vectors.write_file([gone], snapshot.table_path, snapshot.store)
        plain = AddFile(file["path"], {}, file["size"], file["modification_time"], True, file["stats"])
        add = marked_file(plain, vector, physical)
    (remove,) = removals(_one(snapshot, file))
    return Mark(remove, add, positions, physical)
