"""A writer in a process of its own: ``racing REACHED NAME COMMITS TABLE…`` appends to each table in turn.

``REACHED`` is the JSON list of what :func:`support.stores.hadoop_jvm.stores` takes.

It says ``ready`` when it could begin, begins when told to by a line, and prints ``[table, version, path]`` of every
commit that was acknowledged, as one JSON list.
"""

from __future__ import annotations

import json
import random
import sys
import time

from headwater.log.snapshot import load_snapshot
from headwater.protocol.actions import AddFile
from headwater.transaction import Provenance, Transaction, wait_for_maintenance
from support.stores import hadoop_jvm


def main() -> None:
    reached, name, commits, *tables = sys.argv[1:]
    acknowledged = []
    with hadoop_jvm.stores(*json.loads(reached)) as open_store:
        opened = {table: open_store(table) for table in tables}
        snapshots = {table: load_snapshot(table, store) for table, store in opened.items()}
        for (
            table,
            store,
        ) in opened.items():  # the first write of a connector takes seconds, in which the other could end
            store.check_writable(table)
        print("ready", flush=True)
        sys.stdin.readline()
        for number in range(int(commits)):
            for table, store in opened.items():
                txn = Transaction(table, store, snapshots[table])
                path = f"{name}-{number}"
                txn.add([AddFile(path, {}, 1, 1)])
                committed = txn.commit(Provenance("WRITE"))
                acknowledged.append([table, committed.version, path])
                snapshots[table] = committed.snapshot
                time.sleep(random.random() / 5)  # who has lost waits, and is to have its turn
        wait_for_maintenance(60)
    print(json.dumps(acknowledged), flush=True)


if __name__ == "__main__":
    main()
