"""``python -m bench.checkpoint``: time and memory of a checkpoint of a table with many files.

A process of its own opens the table, commits and writes the checkpoint. The output is the seconds to open and to write
the checkpoint, and the peak memory of the process.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

from bench import big_log
from headwater.log.checkpoint_writing import write_checkpoint
from headwater.log.snapshot import load_snapshot
from headwater.protocol.actions import AddFile
from headwater.stores import LocalStore
from headwater.transaction import Transaction, wait_for_maintenance

#: Linux counts kilobytes, macOS bytes.
_UNIT = 1 if sys.platform == "darwin" else 1024


def main(files: Annotated[int, typer.Option(help="Files of the table.")] = 1_000_000) -> None:
    """Measure one checkpoint."""
    with tempfile.TemporaryDirectory(prefix="headwater-checkpoint-") as directory:
        table = Path(directory) / "table"
        big_log.make(table, files)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _UNIT
        started = time.perf_counter()
        snapshot = load_snapshot(str(table), LocalStore())
        opened = time.perf_counter() - started
        txn = Transaction(str(table), LocalStore(), snapshot)
        txn.add([AddFile("one-more.parquet", {}, 1000, 1, stats='{"numRecords":1}')])
        committed = txn.commit("WRITE", {"mode": "Append"})
        wait_for_maintenance()
        started = time.perf_counter()
        written = write_checkpoint(committed.snapshot)
        taken = time.perf_counter() - started
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _UNIT
        print(f"{files:,} files: opened in {opened:.1f} s; checkpoint of {written.num_adds:,} files in {taken:.1f} s")
        print(
            f"{written.size_in_bytes / 2**20:.0f} MiB; peak memory {peak / 2**30:.2f} GiB ({before / 2**30:.2f} before)"
        )


if __name__ == "__main__":
    typer.run(main)
