"""``python -m bench.many_commits``: the cost of a commit in a young table and in an old one.

One writer appends to a table on the local file system, as many times as asked, with bare transactions. The output is
the commits per second, the median time of the commits around the hundredth and of the last ones, and the time of a
reader that opens the table for the first time.
"""

from __future__ import annotations

import tempfile
import time
from statistics import median
from typing import Annotated

import typer

from headwater.log.snapshot import load_snapshot
from headwater.protocol.actions import AddFile, Metadata, Protocol
from headwater.stores import LocalStore
from headwater.transaction import Provenance, Transaction, wait_for_maintenance

_AROUND = 50


def main(commits: Annotated[int, typer.Option(help="How many commits.")] = 10_000) -> None:
    """Measure commits one after the other."""
    with tempfile.TemporaryDirectory(prefix="headwater-commits-") as directory:
        times = commit_all(f"{directory}/table", commits)
        young, old = median(times[50 : 50 + 2 * _AROUND]), median(times[-2 * _AROUND :])
        print(f"{commits} commits, {len(times) / sum(times):.0f} a second")
        print(f"around the 100th: {young * 1000:.2f} ms, around the last: {old * 1000:.2f} ms, ratio {old / young:.2f}")
        wait_for_maintenance()
        started = time.perf_counter()
        load_snapshot(f"{directory}/table", LocalStore())
        print(f"opened anew in {(time.perf_counter() - started) * 1000:.0f} ms")


def commit_all(path: str, commits: int) -> list[float]:
    """The seconds each commit took."""
    store = LocalStore()
    txn = Transaction(path, store, None)
    txn.update_protocol(Protocol(1, 2))
    txn.update_metadata(Metadata("the-id", '{"type":"struct","fields":[]}', created_time=1))
    snapshot = txn.commit(Provenance("CREATE TABLE")).snapshot
    times = []
    for number in range(commits):
        started = time.perf_counter()
        txn = Transaction(path, store, snapshot)
        txn.add([AddFile(f"part-{number:05}.parquet", {}, 1000, 1, stats='{"numRecords":1}')])
        snapshot = txn.commit(Provenance("WRITE", {"mode": "Append"})).snapshot
        times.append(time.perf_counter() - started)
    return times


if __name__ == "__main__":
    typer.run(main)
