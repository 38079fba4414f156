"""A process that counts a transaction identifier up: ``counting <table> <name> <times>``."""

import sys

from headwater.basics.errors import HeadwaterError
from headwater.log.snapshot import load_snapshot
from headwater.protocol.actions import AddFile
from headwater.stores import LocalStore
from headwater.transaction import Provenance, Transaction


def count(path: str, name: str, times: int) -> None:
    store, done = LocalStore(), 0
    while done < times:
        txn = Transaction(path, store, load_snapshot(path, store))
        txn.set_transaction("counter", (txn.transaction_version("counter") or 0) + 1)
        txn.add([AddFile(f"{name}-{done}", {}, 1, 1)])
        try:
            txn.commit(Provenance("WRITE"))
        except HeadwaterError as error:
            if error.condition != "DELTA_CONCURRENT_TRANSACTION":
                raise
        else:
            done += 1


if __name__ == "__main__":
    count(sys.argv[1], sys.argv[2], int(sys.argv[3]))
