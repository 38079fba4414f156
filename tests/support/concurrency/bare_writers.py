"""A process that writes to banks by bare transactions: ``bare_writers <kind> <name> <diary> <stop> <table>...``.

``append`` adds entries, each under an application's next version; ``copy`` and ``vectors`` make transfers, by
rewriting files and by marking rows deleted; ``optimize`` rewrites files without changing data; ``schema`` adds a column
now and then; ``read`` checks version after version. The tables take turns, and it goes on until the stop file is there.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pyroaring import BitMap64

from headwater.basics.errors import HeadwaterError
from headwater.log import deletion_vectors
from headwater.log.files import vector_of
from headwater.log.snapshot import Snapshot, load_snapshot
from headwater.log.snapshot_cache import SnapshotCache
from headwater.protocol.actions import AddFile
from headwater.statements.running.committing import removals
from headwater.stores import LocalStore
from headwater.transaction import Provenance, Transaction
from headwater.transaction.row_level import Mark
from support.concurrency.bank import CONFLICTS, FIELDS, Diary, Transfer, check_sum, files_for, rows_of, write_file

_STORE, _CACHE = LocalStore(), SnapshotCache()
_MOST_COLUMNS = 8
_SECONDS_BETWEEN_SCHEMAS = 3.0
_SECONDS_BETWEEN_REWRITES = 0.3
#: Writers that never pause leave a machine of few processors nothing for the others.
_PAUSE_SECONDS = float(os.environ.get("HEADWATER_TEST_PAUSE", "0.3"))

Step = Callable[[Transaction, Snapshot, random.Random, str], Transfer | None]


def append(txn: Transaction, snapshot: Snapshot, chance: random.Random, marker: str) -> Transfer | None:
    """One entry, as the application's next version."""
    name, _, number = marker.rpartition("-")
    before = txn.transaction_version(name)
    assert before is None or before < int(number)
    txn.set_transaction(name, int(number))
    txn.add([write_file(txn.table_path, [(None, 0, marker)])])
    return None


def copy(txn: Transaction, snapshot: Snapshot, chance: random.Random, marker: str) -> Transfer | None:
    """A transfer whose files are written anew."""
    transfer = Transfer.drawn(chance)
    txn.read_where([transfer.predicate])
    files = files_for(snapshot, transfer.predicate)
    for number, file in enumerate(files.to_pylist()):
        rows = list(rows_of(snapshot, file).values())
        if any(row[0] in (transfer.giver, transfer.taker) for row in rows):
            txn.remove(removals(files.slice(number, 1)))
            moved = [(a, b if a is None else transfer.after(a, b), entry) for a, b, entry in rows]
            txn.add([write_file(txn.table_path, moved)])
    return transfer


def vectors(txn: Transaction, snapshot: Snapshot, chance: random.Random, marker: str) -> Transfer | None:
    """A transfer whose rows are marked deleted where they are, and written elsewhere."""
    transfer = Transfer.drawn(chance)
    txn.read_where([transfer.predicate])
    files = files_for(snapshot, transfer.predicate)
    moved = []
    for number, file in enumerate(files.to_pylist()):
        rows = rows_of(snapshot, file)
        positions = BitMap64(p for p, row in rows.items() if row[0] in (transfer.giver, transfer.taker))
        if not positions:
            continue
        moved += [(a, transfer.after(a, b), entry) for a, b, entry in (rows[p] for p in positions)]
        before = vector_of(file["deletion_vector"])
        gone = deletion_vectors.read(before, txn.table_path, _STORE) | positions if before else positions
        physical = json.loads(file["stats"])["numRecords"]
        add = None
        if len(gone) < physical:
            (vector,) = deletion_vectors.write_file([gone], txn.table_path, _STORE)
            stats = json.dumps({**json.loads(file["stats"]), "tightBounds": False})
            add = AddFile(
                file["path"], {}, file["size"], file["modification_time"], True, stats, deletion_vector=vector
            )
        (remove,) = removals(files.slice(number, 1))
        txn.mark(Mark(remove, add, positions, physical))
    txn.add([write_file(txn.table_path, moved)])
    return transfer


def optimize(txn: Transaction, snapshot: Snapshot, chance: random.Random, marker: str) -> Transfer | None:
    """Some files as one or two, with the same rows."""
    files = snapshot.files
    chosen = files.take(sorted(chance.sample(range(files.num_rows), min(files.num_rows, chance.randint(2, 12)))))
    rows = [row for file in chosen.to_pylist() for row in rows_of(snapshot, file).values()]
    rows.sort(key=lambda row: (row[0] is None, row[0]))
    half = chance.choice([len(rows), len(rows) // 2])
    txn.remove(removals(chosen, data_change=False))
    txn.add(write_file(txn.table_path, some, data_change=False) for some in (rows[:half], rows[half:]) if some)
    time.sleep(_SECONDS_BETWEEN_REWRITES)
    return None


def schema(txn: Transaction, snapshot: Snapshot, chance: random.Random, marker: str) -> Transfer | None:
    """One column more, until there are enough; a description then."""
    time.sleep(_SECONDS_BETWEEN_SCHEMAS)
    metadata, fields = snapshot.metadata, json.loads(snapshot.metadata.schema_string)["fields"]
    if len(fields) < len(FIELDS) + _MOST_COLUMNS:
        fields.append({**FIELDS[0], "name": f"unused{len(fields)}"})
        text = json.dumps({"type": "struct", "fields": fields})
        txn.update_metadata(replace(metadata, schema_string=text))
    else:
        txn.update_metadata(replace(metadata, description=marker))
    return None


STEPS: dict[str, Step] = {f.__name__: f for f in (append, copy, vectors, optimize, schema)}


def write(kind: str, path: str, chance: random.Random, marker: str, diary: Diary) -> None:
    """One transaction; what became of it goes into the diary."""
    snapshot = _CACHE.get(path, _STORE)
    txn = Transaction(path, _STORE, snapshot, _CACHE)
    try:
        transfer = STEPS[kind](txn, snapshot, chance, marker)
        diary.tries(path, kind, marker, transfer)
        committed = txn.commit(Provenance(kind.upper(), user_metadata=marker))
    except HeadwaterError as error:
        if error.condition not in CONFLICTS:
            raise
        diary.conflict(path, kind, marker, error.condition)
        return
    diary.acknowledged(path, kind, marker, committed.version)
    if committed.version > snapshot.version + 1:
        diary.note(what="rebased", table=path, kind=kind, winners=committed.version - snapshot.version - 1)


class Reader:
    """Reads the newest version, brought up to date or afresh, and older ones; none may show what no commit made."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._last = load_snapshot(path, _STORE)

    def read(self, chance: random.Random) -> int:
        """Check three versions; how many."""
        newest = _CACHE.get(self._path, _STORE)
        afresh = load_snapshot(self._path, _STORE)
        assert self._last.version <= newest.version <= afresh.version, "a version that was there is gone"
        older = load_snapshot(self._path, _STORE, chance.randint(0, afresh.version))
        for snapshot in (newest, afresh, older):
            check_sum(snapshot)
        self._last = newest
        return 3


def main(kind: str, name: str, diary_path: str, stop: str, *paths: str) -> None:
    """Write, or read, until told to stop."""
    chance, diary, number = random.Random(name), Diary(diary_path), 0
    readers: dict[str, Any] = {path: Reader(path) for path in paths} if kind == "read" else {}
    while not os.path.exists(stop):
        path = paths[number % len(paths)]
        number += 1
        if readers:
            diary.note(what="read", table=path, kind=kind, versions=readers[path].read(chance))
        else:
            write(kind, path, chance, f"{name}-{number}", diary)
        time.sleep(_PAUSE_SECONDS * chance.random())


if __name__ == "__main__":
    main(*sys.argv[1:])
