"""A bank in a table: accounts whose balances add up to the same at every version, and entries that are appended.

Owns the table that the mixed run's writers share, whatever engine they are: an account is a row with a balance, an
entry a row without an account whose text is the writer's marker. Transfers move money between two accounts, so that
:data:`TOTAL` holds in every version; schema changes add columns that nobody fills.

What a writer did it tells as a line of JSON in a file of its own (:class:`Diary`), where the test finds it.
"""

from __future__ import annotations

import json
import random
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from headwater.log import deletion_vectors
from headwater.log.files import vector_of
from headwater.log.snapshot import Snapshot
from headwater.protocol.actions import AddFile, Metadata, Protocol
from headwater.pruning import prune_all
from headwater.pruning.predicates import Column, In, IsNull, Not, Predicate
from headwater.stores import LocalStore, absolute_path
from headwater.transaction import Provenance, Transaction

ACCOUNTS = 12
START_BALANCE = 1000
TOTAL = ACCOUNTS * START_BALANCE
FILES_AT_FIRST = 3
#: The column of the writer's marker, and those of an account.
COLUMNS = pa.schema([("account", pa.int64()), ("balance", pa.int64()), ("entry", pa.string())])
FIELDS = [
    {"name": name, "type": kind, "nullable": True, "metadata": {}}
    for name, kind in (("account", "long"), ("balance", "long"), ("entry", "string"))
]
WHOLE = Not(IsNull(Column(("account",))))
#: What a writer may be told whose commit is not there: that it lost a race, or that its handler died before.
CONFLICTS = frozenset(
    f"DELTA_{name}"
    for name in (
        "PROTOCOL_CHANGED",
        "METADATA_CHANGED",
        "CONCURRENT_APPEND",
        "CONCURRENT_DELETE_READ",
        "CONCURRENT_DELETE_DELETE",
        "CONCURRENT_TRANSACTION",
        "COMMIT_NOT_MADE",
        "SCHEMA_CHANGE_SINCE_ANALYSIS",
    )
)


@dataclass(frozen=True)
class Transfer:
    """Money from one account to another."""

    giver: int
    taker: int
    amount: int

    @staticmethod
    def drawn(chance: random.Random) -> Transfer:
        giver, taker = chance.sample(range(ACCOUNTS), 2)
        return Transfer(giver, taker, chance.randint(1, 20))

    @property
    def condition(self) -> str:
        return f"account IN ({self.giver}, {self.taker})"

    @property
    def predicate(self) -> Predicate:
        """The condition as a transaction reads by it."""
        return In(Column(("account",)), "integer", (self.giver, self.taker))

    @property
    def new_balance(self) -> str:
        return f"balance + CASE WHEN account = {self.giver} THEN {-self.amount} ELSE {self.amount} END"

    def after(self, account: int, balance: int) -> int:
        return balance + {self.giver: -self.amount, self.taker: self.amount}.get(account, 0)


def statement(kind: str, path: str, marker: str, transfer: Transfer | None) -> str:
    """The SQL of an ``insert`` of an entry, or of a transfer by ``update`` or ``merge``."""
    if transfer is None:
        return f"INSERT INTO delta.`{path}` (balance, entry) VALUES (0, '{marker}')"
    if kind == "update":
        return f"UPDATE delta.`{path}` SET balance = {transfer.new_balance} WHERE {transfer.condition}"
    return (
        f"MERGE INTO delta.`{path}` t USING (SELECT * FROM VALUES ({transfer.giver}L, {-transfer.amount}L), "
        f"({transfer.taker}L, {transfer.amount}L) AS s(id, amount)) s ON t.account = s.id "
        "WHEN MATCHED THEN UPDATE SET balance = t.balance + s.amount"
    )


class Diary:
    """What one writer was told, a line each, in the order it happened."""

    def __init__(self, path: str | Path) -> None:
        self._path = path

    def note(self, **values: Any) -> None:
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps({**values, "at": time.time()}) + "\n")

    def tries(self, table: str, kind: str, marker: str, transfer: Transfer | None) -> None:
        """A commit of that marker is about to be made."""
        moved = [transfer.giver, transfer.taker, transfer.amount] if transfer else None
        self.note(what="try", table=table, kind=kind, marker=marker, transfer=moved)

    def done(self, table: str, kind: str, marker: str) -> None:
        """A statement that changes no row has ended; its commit is there, unless there was nothing to do."""
        self.note(what="done", table=table, kind=kind, marker=marker)

    def acknowledged(self, table: str, kind: str, marker: str, version: int | None = None) -> None:
        """The commit of that marker stands; its version where the writer knows."""
        self.note(what="ack", table=table, kind=kind, marker=marker, version=version)

    def conflict(self, table: str, kind: str, marker: str, condition: str, text: str = "") -> None:
        """The commit of that marker was refused, and is not there."""
        self.note(what="conflict", table=table, kind=kind, marker=marker, condition=condition, text=text[:500])


def read_diary(path: Path) -> list[dict[str, Any]]:
    """The notes; a writer that was killed may have left half a line."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]


def create(
    path: str, vectors: bool, checkpoint_interval: int = 20, tracked: bool = False, **properties: str
) -> Snapshot:
    """The table, with its accounts in a few files; one with deletion vectors has in-commit timestamps too.

    :param tracked: whether rows have ids.
    :param properties: further ones; underscores in their names stand for dots.
    """
    txn = Transaction(path, LocalStore(), None)
    configuration = {"delta.checkpointInterval": str(checkpoint_interval)}
    configuration |= {name.replace("_", "."): value for name, value in properties.items()}
    features: set[str] = set()
    if vectors:
        configuration |= {"delta.enableDeletionVectors": "true", "delta.enableInCommitTimestamps": "true"}
        features |= {"deletionVectors", "inCommitTimestamp"}
    if tracked:
        names = {
            f"delta.rowTracking.materialized{each}ColumnName": f"_{each}" for each in ("RowId", "RowCommitVersion")
        }
        configuration |= {"delta.enableRowTracking": "true", **names}
        features |= {"rowTracking", "domainMetadata"}
    if features:
        txn.update_protocol(Protocol(3, 7, frozenset(features & {"deletionVectors"}), frozenset(features)))
    else:
        txn.update_protocol(Protocol(1, 2))
    schema = json.dumps({"type": "struct", "fields": FIELDS})
    txn.update_metadata(Metadata(str(uuid.uuid4()), schema, (), configuration, created_time=1))
    for part in range(FILES_AT_FIRST):
        rows = [(n, START_BALANCE, None) for n in range(part, ACCOUNTS, FILES_AT_FIRST)]
        txn.add([write_file(path, rows)])
    return txn.commit(Provenance("CREATE TABLE", user_metadata="create")).snapshot


def write_file(path: str, rows: Sequence[tuple[Any, ...]], data_change: bool = True) -> AddFile:
    """A data file of such rows, and its action."""
    name = f"part-{uuid.uuid4()}.parquet"
    Path(path).mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist([dict(zip(COLUMNS.names, row, strict=True)) for row in rows], COLUMNS)
    pq.write_table(table, f"{path}/{name}")
    accounts = [row[0] for row in rows if row[0] is not None]
    stats: dict[str, Any] = {"numRecords": len(rows), "nullCount": {"account": len(rows) - len(accounts)}}
    if accounts:
        stats |= {"minValues": {"account": min(accounts)}, "maxValues": {"account": max(accounts)}}
    size = (Path(path) / name).stat().st_size
    return AddFile(name, {}, size, int(time.time() * 1000), data_change, json.dumps(stats))


def files_for(snapshot: Snapshot, predicate: Predicate | None) -> pa.Table:
    """The files that may hold such rows."""
    files = snapshot.files
    return files if predicate is None else files.filter(prune_all(snapshot, [predicate]))


def rows_of(snapshot: Snapshot, file: Mapping[str, Any]) -> dict[int, tuple[Any, ...]]:
    """A file's rows that are not marked deleted, by their position."""
    table = pq.read_table(absolute_path(snapshot.table_path, file["path"]), columns=COLUMNS.names, partitioning=None)
    rows = enumerate(zip(*(table.column(name).to_pylist() for name in COLUMNS.names), strict=True))
    vector = vector_of(file["deletion_vector"])
    gone = deletion_vectors.read(vector, snapshot.table_path, snapshot.store) if vector else BitMap64()
    return {position: row for position, row in rows if position not in gone}


def balances(snapshot: Snapshot) -> dict[int, int]:
    """The balance of each account; each must be there once."""
    found: dict[int, int] = {}
    for file in files_for(snapshot, WHOLE).to_pylist():
        for account, balance, _ in rows_of(snapshot, file).values():
            if account is not None:
                assert account not in found, f"version {snapshot.version} has account {account} twice"
                found[account] = balance
    return found


def entries(snapshot: Snapshot) -> Counter[str]:
    """How often each entry is there."""
    files = files_for(snapshot, IsNull(Column(("account",)))).to_pylist()
    return Counter(row[2] for file in files for row in rows_of(snapshot, file).values() if row[0] is None)


def check_sum(snapshot: Snapshot) -> None:
    """That the version holds every account once, and all the money."""
    found = balances(snapshot)
    assert len(found) == ACCOUNTS, f"version {snapshot.version} has {len(found)} accounts"
    assert sum(found.values()) == TOTAL, f"version {snapshot.version} has {sum(found.values())}"


def after_all(transfers: Iterable[Sequence[int]], before: Mapping[int, int] | None = None) -> dict[int, int]:
    """The balances that such transfers lead to, from those of the beginning or from others."""
    found = dict(before) if before is not None else dict.fromkeys(range(ACCOUNTS), START_BALANCE)
    for giver, taker, amount in transfers:
        found[giver] -= amount
        found[taker] += amount
    return found
