"""A process that writes to a table until a file is there: ``writing <table> <kind> <name> <seed> <stop file>``.

Each commit carries a marker in ``userMetadata``. A line of standard output tells of each outcome: ``ack <marker>
<version>``, ``conflict <condition>``, ``rebased <versions that were passed>``. Accounts are partitions, each one file
whose tag ``balance`` says what is on it; a transfer rewrites two. The files exist in the log only, except those of
delta-rs, which writes its own.
"""

from __future__ import annotations

import os
import random
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import replace

from headwater.basics.errors import HeadwaterError
from headwater.log.snapshot import Snapshot
from headwater.log.snapshot_cache import SnapshotCache
from headwater.protocol.actions import AddFile, RemoveFile
from headwater.pruning.predicates import Column, Comparison, Literal
from headwater.stores import LocalStore
from headwater.transaction import Committed, Provenance, Transaction

ACCOUNTS = 6
START_BALANCE = 100
CONFLICTS = frozenset(
    f"DELTA_{name}"
    for name in ("METADATA_CHANGED", "CONCURRENT_APPEND", "CONCURRENT_DELETE_READ", "CONCURRENT_DELETE_DELETE")
)
_STORE, _CACHE = LocalStore(), SnapshotCache()


def account_file(account: str, balance: int) -> AddFile:
    return AddFile(f"{account}/{uuid.uuid4()}", {"account": account}, 10, 1, True, None, {"balance": str(balance)})


def main(path: str, kind: str, name: str, seed: str, stop: str) -> None:
    chance, number = random.Random(int(seed)), 0
    write: Callable[[str, random.Random, str], None] = delta_rs if kind == "delta-rs" else ours(kind)
    while not os.path.exists(stop):
        number += 1
        write(path, chance, f"{name}-{number}")


def ours(kind: str) -> Callable[[str, random.Random, str], None]:
    step = {"append": append, "shared": transfer, "disjoint": transfer, "metadata": change_metadata}[kind]

    def write(path: str, chance: random.Random, marker: str) -> None:
        snapshot = _CACHE.get(path, _STORE)
        txn = Transaction(path, _STORE, snapshot, _CACHE)
        step(txn, snapshot, chance, marker if kind == "disjoint" else "")
        try:
            committed: Committed = txn.commit(Provenance(kind.upper(), user_metadata=marker))
        except HeadwaterError as error:
            if error.condition not in CONFLICTS:
                raise
            say("conflict", error.condition)
            return
        say("ack", marker, committed.version)
        if committed.version > snapshot.version + 1:
            say("rebased", committed.version - snapshot.version - 1)
        if kind == "metadata":
            time.sleep(1)

    return write


def append(txn: Transaction, snapshot: Snapshot, chance: random.Random, own: str) -> None:
    txn.add([AddFile(f"appended/{uuid.uuid4()}", {"account": "none"}, 10, 1)])


def transfer(txn: Transaction, snapshot: Snapshot, chance: random.Random, own: str) -> None:
    """From one account to another: of any two, or of two that no other writer uses."""
    names = [f"{own.rpartition('-')[0]}{n}" if own else str(n) for n in range(2 if own else ACCOUNTS)]
    accounts = {}
    for row in snapshot.select(["path", "partition_values", "tags"]).to_pylist():
        accounts[dict(row["partition_values"])["account"]] = row
    for name in names:
        if name not in accounts:  # a new writer opens its accounts, with nothing on them
            txn.add([account_file(name, 0)])
    if txn.has_changes:
        return
    giver, taker = chance.sample(names, 2)
    amount = chance.randint(1, 10)
    for name, change in ((giver, -amount), (taker, amount)):
        txn.read_where([Comparison("=", Column(("account",)), Literal("string", name))])
        row = accounts[name]
        txn.remove([RemoveFile(row["path"], int(time.time() * 1000), True, True, {"account": name}, 10)])
        txn.add([account_file(name, int(dict(row["tags"])["balance"]) + change)])


def change_metadata(txn: Transaction, snapshot: Snapshot, chance: random.Random, own: str) -> None:
    configuration = {**snapshot.metadata.configuration, "changed": str(chance.random())}
    txn.update_metadata(replace(snapshot.metadata, configuration=configuration))


def delta_rs(path: str, chance: random.Random, marker: str) -> None:
    import deltalake
    import pyarrow as pa
    from deltalake.exceptions import CommitFailedError, DeltaError

    rows = pa.table({"id": pa.array([chance.randint(0, 9)], pa.int64()), "account": ["none"]})
    properties = deltalake.CommitProperties(custom_metadata={"userMetadata": marker})
    try:
        deltalake.write_deltalake(path, rows, mode="append", commit_properties=properties)
    except DeltaError as error:
        # A directory that gets files while it is listed may be listed with a gap, or with a checksum without its
        # commit, which delta-rs does not read again.
        listed_badly = any(text in str(error) for text in ("found gap", "is newer than log segment version"))
        if not isinstance(error, CommitFailedError) and not listed_badly:
            raise
        say("conflict", "delta-rs")
    else:
        say("ack", marker, -1)


def say(*words: object) -> None:
    print(*words, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
