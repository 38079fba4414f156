"""``python -m bench.column_cache``: what a cache on disk saves processes that open a large table one after another.

Three processes open a table that is new to them and look for one row: without the cache, with an empty one, and with
what the second has kept. The output is the seconds until each has opened the table, has found the file by a filter on
``id``, and has then found files by one on ``day``; and its memory: its own, what it has mapped of files, and its peak.
With ``--v2``, the checkpoint has sidecars and typed statistics, where the classic one has their text alone.
"""

from __future__ import annotations

import multiprocessing
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Annotated, Any

import typer

from bench import big_log
from bench.checkpoint import make_v2
from headwater.log import column_cache
from headwater.log.checkpoint_writing import write_checkpoint
from headwater.log.snapshot import load_snapshot
from headwater.protocol.types import PrimitiveType
from headwater.pruning import prune
from headwater.pruning.predicates import Column, Comparison, literal
from headwater.stores import LocalStore
from headwater.transaction import Provenance, Transaction, wait_for_maintenance

#: 2010-01-01, a day that one of 420 files has, in days since the epoch.
_DAY = 14_610


def main(
    files: Annotated[int, typer.Option(help="Files of the table.")] = 1_000_000,
    v2: Annotated[bool, typer.Option(help="Give it a V2 checkpoint.")] = False,
) -> None:
    """Measure the three processes."""
    with tempfile.TemporaryDirectory(prefix="headwater-column-cache-") as directory:
        table, cache = Path(directory) / "table", Path(directory) / "cache"
        _apart(_make, table, files, v2)
        for title, kept in (("without", None), ("first", cache), ("second", cache)):
            seconds, memory = _apart(opened, table, files, kept)
            total = seconds[0] + seconds[1]
            print(
                f"{files:,} files, {title + ':':8} {total:.2f} s to the first file: opened in {seconds[0]:.2f} s, "
                f"filter on id {seconds[1]:.2f} s; on day {seconds[2]:.2f} s; {memory}"
            )
        entries = list(cache.glob("*.arrow"))
        print(f"the cache: {len(entries)} entries, {sum(path.stat().st_size for path in entries) / 2**20:,.0f} MiB")


def _apart(do: Any, *arguments: Any) -> Any:
    """Do it in a process of its own."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(do, *arguments).result()


def _make(table: Path, files: int, v2: bool) -> None:
    big_log.make(table, files)
    if v2:
        before = load_snapshot(str(table), LocalStore())
        txn = Transaction(str(table), LocalStore(), before)
        make_v2(txn, before.metadata)
        snapshot = txn.commit(Provenance("SET TBLPROPERTIES")).snapshot
        wait_for_maintenance()
        write_checkpoint(snapshot)


def opened(table: Path, files: int, cache: Path | None) -> tuple[list[float], str]:
    """The seconds of the three steps, and the memory of this process after them."""
    column_cache.configure({} if cache is None else {"directory": str(cache)})
    number = files // 2
    row = literal(PrimitiveType("long"), number * big_log.ROWS_PER_FILE + 17)
    times = [time.perf_counter()]
    snapshot = load_snapshot(str(table), LocalStore())
    times.append(time.perf_counter())
    found = snapshot.select(["path"]).filter(prune(snapshot, Comparison("=", Column(("id",)), row)))
    assert found["path"].to_pylist() == [big_log.path_of(number)]
    times.append(time.perf_counter())
    day = prune(snapshot, Comparison("=", Column(("day",)), literal(PrimitiveType("date"), _DAY)))
    assert day.true_count == -(-files // 420)
    times.append(time.perf_counter())
    return [after - before for before, after in zip(times, times[1:], strict=False)], _memory()


def _memory() -> str:
    """What Linux says of this process."""
    if not sys.platform.startswith("linux"):
        return "memory unknown"
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    own, shared, peak = (int(status[name].split()[0]) / 2**20 for name in ("RssAnon", "RssFile", "VmHWM"))
    return f"{own:.2f} GiB of its own, {shared:.2f} mapped, peak {peak:.2f}"


if __name__ == "__main__":
    typer.run(main)
