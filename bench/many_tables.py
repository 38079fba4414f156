"""The cases of a session that touches many small tables: a dashboard, a run of models, a crawler of a catalog.

A table has ten files of ten rows, each appended by a commit of its own, and no checkpoint. The tables share their files
by hard links; each has an id of its own. Times are milliseconds a table; the peer reads fewer tables, as 1,000 would
take it ten minutes.

``python -m bench.many_tables`` measures the handler's part alone, and what it keeps in memory.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import typer

from bench.big_log import copy_of
from bench.cases import PARQUET, Against, Bench, Case, Timed
from bench.sparks import PEER
from headwater.log.checkpoint_writing import write_checkpoint
from headwater.log.snapshot import load_snapshot
from headwater.log.snapshot_cache import SnapshotCache
from headwater.statements.running.opening import CACHE
from headwater.stores import FileInfo, LocalStore

#: How many tables are opened, how many of them a second time, and how many before anything is timed.
TABLES, AGAIN, WARM_UP = 1000, 500, 60
#: How many of them at most the peer opens.
_OF_PEER = 100
_FILES, _ROWS = 10, 10
_THREADS = 8
_START = 1_700_000_000_000
_FIELDS = [("id", "long"), ("name", "string"), ("amount", "double"), ("day", "date")]


def make(folder: Path, tables: int) -> list[Path]:
    """Write so many tables into a folder; their paths."""
    first = folder / "files"
    (first / "_delta_log").mkdir(parents=True)
    for number in range(_FILES):
        _write_file(first, number)
    paths = []
    for number in range(tables):
        path = folder / f"table{number:04}"
        copy_of(first, path)
        for file in first.glob("*.parquet"):
            (path / file.name).hardlink_to(file)
        (path / "_delta_log" / f"{0:020}.json").write_text(_created(number))
        paths.append(path)
    return paths


def _created(number: int) -> str:
    fields = [{"name": name, "type": type_, "nullable": True, "metadata": {}} for name, type_ in _FIELDS]
    metadata = {
        "id": str(UUID(int=(number + 1) << 64 | 0x4000_8000_0000_0000_0000)),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": [],
        "configuration": {},
        "createdTime": _START,
    }
    protocol = {"minReaderVersion": 1, "minWriterVersion": 2}
    return _lines(_info("CREATE TABLE"), protocol=protocol, metaData=metadata)


def _write_file(table: Path, number: int) -> None:
    """A data file, and the commit that adds it."""
    name = f"part-00000-{UUID(int=number)}-c000.snappy.parquet"
    ids = list(range(number * _ROWS, (number + 1) * _ROWS))
    columns = {
        "id": pa.array(ids, pa.int64()),
        "name": pa.array([f"name {n:03}" for n in ids]),
        "amount": pa.array([n / 4 for n in ids]),
        "day": pa.array([20_000 + number] * _ROWS, pa.date32()),
    }
    pq.write_table(pa.table(columns), table / name, compression="snappy")
    low, high = ({c: _json(v) for c, v in zip(columns, row, strict=True)} for row in _bounds(columns))
    statistics = {"numRecords": _ROWS, "minValues": low, "maxValues": high, "nullCount": dict.fromkeys(columns, 0)}
    add = {
        "path": name,
        "partitionValues": {},
        "size": (table / name).stat().st_size,
        "modificationTime": _START + number,
        "dataChange": True,
        "stats": json.dumps(statistics),
    }
    (table / "_delta_log" / f"{number + 1:020}.json").write_text(_lines(_info("WRITE"), add=add))


def _bounds(columns: dict[str, pa.Array]) -> tuple[list[object], list[object]]:
    values = [column.to_pylist() for column in columns.values()]
    return [min(each) for each in values], [max(each) for each in values]


def _json(value: object) -> object:
    return value if isinstance(value, (int, float)) else str(value)


def _info(operation: str) -> dict[str, object]:
    info = {"timestamp": _START, "operation": operation, "operationParameters": {}, "isBlindAppend": True}
    return {"commitInfo": info}


def _lines(info: dict[str, object], **actions: object) -> str:
    return "".join(json.dumps(action) + "\n" for action in (info, *({name: each} for name, each in actions.items())))


def _read(bench: Bench, side: str, paths: list[Path], threads: int) -> float:
    provider = "parquet" if side == PARQUET else "delta"
    statements = [f"SELECT * FROM {provider}.`{path}`" for path in paths]
    answer = bench.spark(side).call("each", statements=statements, threads=threads)
    if answer["rows"] != len(paths) * _FILES * _ROWS:
        raise AssertionError(f"{side} reads {answer['rows']} rows of {len(paths)} tables")
    return float(answer["seconds"]) / len(paths) * 1000


def _count(side: str, tables: int) -> int:
    return min(tables, _OF_PEER) if side == PEER else tables


def _warm_up(bench: Bench, side: str) -> None:
    """Let a Spark compile its code, by tables that are not measured."""
    folder = bench.path("many-tables-warm-up", side)
    if not folder.exists():
        for _ in range(2):
            paths = make(folder, WARM_UP)
            _read(bench, side, paths, 1)
            shutil.rmtree(folder)
        folder.mkdir()


def _cold(threads: int) -> Timed:
    """Tables that this Spark has never seen."""

    def timed(bench: Bench, side: str, number: int) -> float:
        folder = bench.path(f"many-tables-{threads}-{number}", side)
        try:
            return _read(bench, side, make(folder, _count(side, TABLES)), threads)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    return timed


def _again_folder(bench: Bench, side: str) -> Path:
    return bench.path("many-tables-again", side)


def _prepare_again(bench: Bench, side: str) -> None:
    folder = _again_folder(bench, side)
    if not folder.exists():
        _warm_up(bench, side)
        _read(bench, side, make(folder, _count(side, AGAIN)), 1)


def _again(bench: Bench, side: str, number: int) -> float:
    return _read(bench, side, sorted(_again_folder(bench, side).glob("table*")), 1)


def cases() -> Iterator[Case]:
    """The cases."""
    parquet = Against(PARQUET, ratio=1.5)
    yield Case(
        "many-tables",
        f"SELECT * of {TABLES:,} small tables, each for the first time",
        (Against(PEER, ratio=0.5), parquet),
        _cold(1),
        1,
        _warm_up,
        warm_up=0,
        unit="ms",
    )
    yield Case(
        "many-tables-threads",
        f"the same by {_THREADS} threads",
        (Against(PEER, ratio=0.5), parquet),
        _cold(_THREADS),
        1,
        _warm_up,
        warm_up=0,
        unit="ms",
    )
    yield Case(
        "many-tables-again",
        f"SELECT * of {AGAIN} small tables, each read before",
        (Against(PEER, ratio=0.5), parquet),
        _again,
        3,
        _prepare_again,
        warm_up=0,
        unit="ms",
    )


# Without Spark


class _Counting(LocalStore):
    """Counts what a store in a network would be asked for."""

    requests = 0

    def list_from(self, directory: str, start_name: str = "") -> list[FileInfo]:
        self.requests += 1
        return super().list_from(directory, start_name)

    def read(self, path: str) -> bytes:
        self.requests += 1
        return super().read(path)

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        self.requests += 1
        return super().read_range(path, offset, length)

    def following(self, paths: Iterable[str]) -> list[FileInfo] | None:
        self.requests += 1
        return super().following(paths)

    def open_input(self, path: str) -> pa.NativeFile:
        self.requests += 1
        return super().open_input(path)


def main(
    tables: Annotated[int, typer.Option(help="How many tables.")] = TABLES,
    *,
    checkpoints: Annotated[bool, typer.Option(help="Write a checkpoint of each table first.")] = False,
) -> None:
    """Measure what the handler does for many tables: to open them, to look at them again, and what it keeps of them."""
    with tempfile.TemporaryDirectory(prefix="headwater-many-") as directory:
        paths = [str(path) for path in make(Path(directory), tables)]
        store = _Counting()
        if checkpoints:
            for path in paths:
                write_checkpoint(load_snapshot(path, store))
        for path in paths[:50]:
            load_snapshot(path, store)
        gc.collect()
        before, open_before = _resident(), len(os.listdir("/proc/self/fd"))
        for what in ("opened", "looked at again"):
            cache_store, began = _Counting(), time.perf_counter()
            for path in paths:
                CACHE.get(path, cache_store)
            taken = time.perf_counter() - began
            print(f"{what}: {taken / tables * 1e3:.3f} ms, {cache_store.requests / tables:.2f} requests a table")
        gc.collect()
        kept = (_resident() - before) / tables / 1024
        print(f"kept: {kept:.0f} KiB a table, {len(os.listdir('/proc/self/fd')) - open_before} files open")
        leaves = [(name,) for name, _ in _FIELDS]
        for path in paths:
            CACHE.get(path, store).statistics(leaves)
        gc.collect()
        kept = (_resident() - before) / tables / 1024
        print(f"kept with the statistics of {len(leaves)} columns: {kept:.0f} KiB a table")
        with ThreadPoolExecutor(_THREADS) as pool:
            began = time.perf_counter()
            list(pool.map(lambda path: SnapshotCache().get(path, store), paths))
            print(f"opened by {_THREADS} threads: {(time.perf_counter() - began) / tables * 1e3:.3f} ms a table")


def _resident() -> int:
    """The bytes of memory this process has (Linux)."""
    with open("/proc/self/statm", encoding="ascii") as status:
        return int(status.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    typer.run(main)
