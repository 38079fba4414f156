"""``python -m bench.checkpoint``: time and memory of a checkpoint of a table with many files.

A process of its own opens the table, commits and writes the checkpoint. The output is the seconds to open and to write
the checkpoint, and the peak memory of the process. With ``--v2``, another checkpoint follows, after an append and the
removal of a file: what it costs once the table has sidecars.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from bench import big_log
from headwater.log.checkpoint_writing import write_checkpoint
from headwater.log.snapshot import Snapshot, load_snapshot
from headwater.protocol.actions import AddFile, Metadata, Protocol, RemoveFile
from headwater.stores import LocalStore
from headwater.transaction import Provenance, Transaction, wait_for_maintenance

#: Linux counts kilobytes, macOS bytes.
_UNIT = 1 if sys.platform == "darwin" else 1024


def main(
    files: Annotated[int, typer.Option(help="Files of the table.")] = 1_000_000,
    v2: Annotated[bool, typer.Option(help="Write V2 checkpoints, and another one after a small change.")] = False,
) -> None:
    """Measure one checkpoint, or two."""
    with tempfile.TemporaryDirectory(prefix="headwater-checkpoint-") as directory:
        table = Path(directory) / "table"
        big_log.make(table, files)
        before = _peak()
        started = time.perf_counter()
        snapshot = load_snapshot(str(table), LocalStore())
        opened = time.perf_counter() - started
        print(f"{files:,} files: opened in {opened:.1f} s; peak memory {_peak():.2f} GiB ({before:.2f} before)")
        txn = Transaction(str(table), LocalStore(), snapshot)
        txn.add([_file("one-more.parquet")])
        if v2:
            make_v2(txn, snapshot.metadata)
        _checkpoint(txn.commit(Provenance("WRITE", {"mode": "Append"})).snapshot)
        if v2:
            snapshot = load_snapshot(str(table), LocalStore())
            txn = Transaction(str(table), LocalStore(), snapshot)
            txn.add([_file("another.parquet")])
            txn.remove([RemoveFile(big_log.path_of(files // 2), 1, True, True, {}, big_log.size_of(files // 2))])
            _checkpoint(txn.commit(Provenance("WRITE", {"mode": "Append"})).snapshot)


def make_v2(txn: Transaction, metadata: Metadata) -> None:
    """Have the table's checkpoints be V2 ones from this commit on."""
    features = frozenset({"v2Checkpoint"})
    txn.update_protocol(Protocol(3, 7, features, features | {"appendOnly", "invariants"}))
    policy = {"delta.checkpointPolicy": "v2"}
    txn.update_metadata(replace(metadata, configuration={**metadata.configuration, **policy}))


def _file(path: str) -> AddFile:
    return AddFile(path, {}, 1000, 1, stats='{"numRecords":1}')


def _checkpoint(snapshot: Snapshot) -> None:
    wait_for_maintenance()
    sidecars = Path(snapshot.table_path, "_delta_log", "_sidecars")
    there = {file.name for file in sidecars.iterdir()} if sidecars.exists() else set()
    started = time.perf_counter()
    written = write_checkpoint(snapshot)
    taken = time.perf_counter() - started
    new = [file.stat().st_size for file in sidecars.iterdir() if file.name not in there] if sidecars.exists() else []
    of_them = f", {sum(new) / 2**20:.0f} MiB of them new" if new else ""
    print(
        f"checkpoint of {written.num_adds:,} files in {taken:.1f} s: {written.size_in_bytes / 2**20:.0f} MiB{of_them}; "
        f"peak memory {_peak():.2f} GiB"
    )


def _peak() -> float:
    """The peak memory of this process, in GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _UNIT / float(2**30)


if __name__ == "__main__":
    typer.run(main)
