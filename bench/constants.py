"""``python -m bench.constants``: what limits and sizes in the code are worth, each at half, at and at twice its value.

Each constant has a small case, without a JVM. There are two kinds:

- A *batch* has one way to work and a size. The same work is done with each size; the constant is right where neither
  half nor twice is clearly faster.
- A *limit* chooses between two ways. Both do work of each size; the constant is right where the first is faster below
  it, the second above, or where the limit costs little (it may protect memory, or a remote store's requests).

The output is the median of some rounds in milliseconds. The ways of a round alternate.
"""

from __future__ import annotations

import itertools
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import typer
from rich.console import Console
from rich.table import Table

from bench import big_log
from headwater.log import files, history, log_compaction, segment, snapshot
from headwater.log.snapshot import Snapshot, load_snapshot
from headwater.log.statistics import json_values
from headwater.protocol.file_names import commit_name
from headwater.pruning import evaluation, prune
from headwater.pruning.predicates import Column, In
from headwater.statements.dml import source_keys
from headwater.statements.files import file_lists
from headwater.stores import LocalStore, local, parquet_footers
from headwater.stores.parquet_footers import read_footer
from headwater.transaction import keyed

#: Does the work once.
Work = Callable[[], object]


@dataclass(frozen=True)
class Constant:
    """A case. ``ways(directory, size)`` prepares the work of a size, and returns the ways to do it by their names."""

    name: str
    module: ModuleType
    attribute: str
    ways: Callable[[Path, int], Mapping[str, Work]]
    rounds: int = 7

    @property
    def value(self) -> int:
        return int(getattr(self.module, self.attribute))


@contextmanager
def _set(module: ModuleType, attribute: str, value: int) -> Iterator[None]:
    before = getattr(module, attribute)
    setattr(module, attribute, value)
    try:
        yield
    finally:
        setattr(module, attribute, before)


def _with(module: ModuleType, attribute: str, value: int, work: Work) -> Work:
    def changed() -> None:
        with _set(module, attribute, value):
            work()

    return changed


def _batch(name: str, module: ModuleType, attribute: str, prepare: Callable[[Path], Work], rounds: int = 7) -> Constant:
    """The same work with each size."""

    def ways(directory: Path, size: int) -> Mapping[str, Work]:
        return {"": _with(module, attribute, size, prepare(directory))}

    return Constant(name, module, attribute, ways, rounds)


def _limit(
    name: str, module: ModuleType, attribute: str, below: str, above: str, prepare: Callable[[Path, int], Work]
) -> Constant:
    """Work of each size, with the limit far above it and far below."""

    def ways(directory: Path, size: int) -> Mapping[str, Work]:
        work = prepare(directory, size)
        return {below: _with(module, attribute, 1 << 40, work), above: _with(module, attribute, 0, work)}

    return Constant(name, module, attribute, ways)


# Logs


def _log(directory: Path, commits: int, each: int = 1) -> Path:
    """A table of that many commits, each with so many files, and no checkpoint."""
    table = directory / f"log-{commits}-{each}"
    if not table.exists():
        log = table / "_delta_log"
        log.mkdir(parents=True)
        fields = [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]
        metadata = {"id": "bench", "format": {"provider": "parquet", "options": {}}, "partitionColumns": []}
        metadata |= {"schemaString": json.dumps({"type": "struct", "fields": fields}), "configuration": {}}
        for version in range(commits):
            lines: list[Any] = [{"commitInfo": {"timestamp": 1, "operation": "WRITE"}}]
            for number in range(each):
                add = {"path": f"part-{number:05}-{version}.parquet", "partitionValues": {}, "modificationTime": 1}
                add |= {"size": 1, "dataChange": True, "stats": f'{{"numRecords":1,"minValues":{{"id":{version}}}}}'}
                lines.append({"add": add})
            if version == 0:
                lines += [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}]
            (log / commit_name(version)).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return table


def _open(directory: Path) -> Work:
    table = str(_log(directory, 2000))
    return lambda: load_snapshot(table, LocalStore())


def _open_large(directory: Path) -> Work:
    """Commits of 15 KB, so that some hundreds are as large as the limit."""
    table = str(_log(directory, 800, each=80))
    return lambda: load_snapshot(table, LocalStore())


def _history(directory: Path) -> Work:
    table = str(_log(directory, 2000))
    newest = load_snapshot(table, LocalStore())
    return lambda: history.history(table, LocalStore(), snapshot=newest)


def _read_many(directory: Path) -> Work:
    log = _log(directory, 2000) / "_delta_log"
    paths = [str(log / commit_name(version)) for version in range(2000)]
    return lambda: LocalStore().read_many(paths)


def _compacted(directory: Path, commits: int) -> Mapping[str, Work]:
    """To open a table of 1,000 commits that was compacted at each so many, and to write one such file."""
    table = _log(directory / f"compacted-{commits}", 1000)
    with _set(log_compaction, "COMMITS", commits):
        for version in range(commits, 1000, commits):
            log_compaction.write_compaction(load_snapshot(str(table), LocalStore(), version))
    last = load_snapshot(str(table), LocalStore(), 999 // commits * commits)

    def write() -> None:
        for file in (table / "_delta_log").glob(f"*.{last.version:020}.compacted.json"):
            file.unlink()
        log_compaction.write_compaction(last)

    return {
        "open": lambda: load_snapshot(str(table), LocalStore()),
        "write": _with(log_compaction, "COMMITS", commits, write),
    }


def _followed(directory: Path, size: int) -> Mapping[str, Work]:
    """How many new commits there are in a log of 5,000: looked up by their names, or listed."""
    log = _log(directory, 5000) / "_delta_log"
    names = [f"{log}/{commit_name(version)}" for version in range(5000 - size, 5000)]
    return {
        "by name": lambda: LocalStore().following(names),
        "listed": lambda: LocalStore().list_from(str(log), commit_name(5000 - size)),
    }


# A snapshot of many files


def _many_files(directory: Path) -> Snapshot:
    table = directory / "many"
    if not table.exists():
        big_log.make(table, 50_000)
    found = load_snapshot(str(table), LocalStore())
    found.statistics([("id",)])  # they are read once
    return found


def _slices(directory: Path, size: int) -> Work:
    """A table of files without some: as many runs as the size."""
    table = _many_files(directory).files
    mask = np.ones(len(table), bool)
    mask[:: len(table) // size] = False
    return lambda: files.keep(table, mask)


def _in_list(directory: Path, size: int) -> Work:
    """Which of 50,000 files may hold one of so many values."""
    found = _many_files(directory)
    values = tuple(range(17, 50_000 * big_log.ROWS_PER_FILE, 50_000 * big_log.ROWS_PER_FILE // size))
    return lambda: prune(found, In(Column(("id",)), "long", values[:size]))


def _scan_bytes(directory: Path) -> Work:
    paths = _many_files(directory).files["path"].combine_chunks().cast(pa.string())
    return lambda: files._has_byte(paths, b"%:")


def _statistics(directory: Path) -> Work:
    texts = list(itertools.islice(big_log._statistics(range(50_000)), 50_000))
    wanted = {("numRecords",): int | None, ("minValues", "id"): Any, ("maxValues", "id"): Any}
    return lambda: json_values.values_of(texts, wanted)


def _present(directory: Path, size: int) -> Mapping[str, Work]:
    """The check that the files of a scan are there: beside nothing."""
    folder = directory / "present"
    if not folder.exists():
        folder.mkdir()
        for n in range(10_000):
            (folder / f"{n}").touch()
    listed = pa.table({"path": [f"{folder}/{n}" for n in range(size)]})
    found = _many_files(directory)
    check = partial(file_lists._check_present, found, listed)
    return {"checked": _with(file_lists, "MOST_FILES_CHECKED", 1 << 40, check)}


# Parquet files


def _parquet(directory: Path, columns: int, rows: int, number: int = 0) -> Path:
    path = directory / f"columns-{columns}-{rows}-{number}.parquet"
    if not path.exists():
        first = date(2020, 1, 1)
        names = {f"column_number_{n}": [first + timedelta(n + r) for r in range(rows)] for n in range(columns)}
        pq.write_table(pa.table(names), path)
    return path


def _footer(directory: Path, size: int) -> Mapping[str, Work]:
    """Footers of files with few, many and very many columns. A request takes a local disk nothing, so each counts as
    one of 10 ms, to which a remote store's bytes add 10 ms a megabyte."""

    class Remote(LocalStore):
        def read_range(self, path: str, offset: int, length: int) -> bytes:
            time.sleep(0.01 + length / (100 << 20))
            return super().read_range(path, offset, length)

    def read(path: Path) -> Work:
        return lambda: read_footer(Remote(), str(path), path.stat().st_size)

    paths = {f"{columns} columns": _parquet(directory, columns, 100) for columns in (10, 100, 300, 1000)}
    return {
        name: _with(parquet_footers, "_TAIL_BYTES", size, read(path))
        for name, path in paths.items()
    }  # fmt: skip


def _few_footers(directory: Path, size: int) -> Mapping[str, Work]:
    """The footers of so many local files of ten columns, one after the other; a query takes 60 ms or more."""
    paths = [_parquet(directory, 10, 100, n) for n in range(size)]
    return {"read": lambda: [read_footer(LocalStore(), str(path), path.stat().st_size) for path in paths]}


def _key_rows(directory: Path, size: int) -> Mapping[str, Work]:
    """The key column of a file of so many rows; a MERGE that runs again takes as long as it did, seconds as a rule."""
    path = directory / f"keys-{size}.parquet"
    if not path.exists():
        ids = np.random.default_rng(1).permutation(size)
        pq.write_table(pa.table({"id": ids, "amount": ids / 4}), path)
    wanted = pa.array(range(1000))

    def read() -> None:
        column = pq.ParquetFile(path).read(columns=["id"])["id"]
        pa.compute.is_in(column, value_set=wanted)

    return {"read": read}


def _key_files(directory: Path, size: int) -> Mapping[str, Work]:
    """The key columns of so many small files."""
    paths = [_parquet(directory, 2, 1000, n) for n in range(size)]
    return {"read": lambda: [pq.ParquetFile(path).read(columns=["column_number_0"]) for path in paths]}


def cases() -> list[Constant]:
    """Every case."""
    return [
        _batch("history-batch", history, "_READ_AT_ONCE", _history),
        _batch("commits-batch", snapshot, "_COMMITS_AT_ONCE", _open),
        _batch("parsed-together", snapshot, "_PARSED_TOGETHER_BYTES", _open_large),
        _batch("local-reads", local, "_READ_IN_A_ROW", _read_many),
        _batch("scan-bytes", files, "_SCANNED_BYTES", _scan_bytes),
        _batch("statistics-batch", json_values, "_AT_ONCE", _statistics),
        Constant("log-compaction", log_compaction, "COMMITS", _compacted),
        Constant("commits-by-name", segment, "MOST_FOLLOWED", _followed),
        _limit("kept-slices", files, "_MOST_SLICES", "slices", "filter", _slices),
        _limit("in-list", evaluation, "_SHORT_LIST", "one by one", "as a set", _in_list),
        Constant("files-checked", file_lists, "MOST_FILES_CHECKED", _present),
        Constant("footer-tail", parquet_footers, "_TAIL_BYTES", _footer, rounds=3),
        Constant("footers-of-source", source_keys, "_FEW_FILES", _few_footers),
        Constant("key-rows", keyed, "_MOST_ROWS", _key_rows, rounds=3),
        Constant("key-files", keyed, "_MOST_FILES", _key_files, rounds=3),
    ]


def measure(case: Constant, directory: Path, rounds: int) -> dict[str, list[float]]:
    """The median milliseconds of each way at half, at and at twice the constant."""
    sizes = (max(case.value // 2, 1), case.value, case.value * 2)
    ways = [(at, name, work) for at, size in enumerate(sizes) for name, work in case.ways(directory, size).items()]
    times: dict[tuple[str, int], list[float]] = {}
    for number in range(rounds + 1):
        for at, name, work in ways if number % 2 else reversed(ways):
            began = time.perf_counter()
            work()
            if number:  # the first round only warms up
                times.setdefault((name, at), []).append((time.perf_counter() - began) * 1000)
    names = dict.fromkeys(name for _, name, _ in ways)
    return {name: [median(times[name, at]) for at in range(3)] for name in names}


def main(
    only: Annotated[list[str] | None, typer.Option(help="Only the case of this name; may be repeated.")] = None,
    rounds: Annotated[int | None, typer.Option(help="Rounds of each case, instead of its own number.")] = None,
) -> None:
    """Measure constants."""
    every = cases()
    if unknown := set(only or ()) - {case.name for case in every}:
        raise typer.BadParameter(f"no case {', '.join(sorted(unknown))}; there are {', '.join(c.name for c in every)}")
    console = Console(width=None if Console().is_terminal else 120)
    table = Table("case", "constant", "value", "way", "half", "at", "twice", title="Milliseconds by size")
    with tempfile.TemporaryDirectory(prefix="headwater-constants-") as directory:
        for case in every:
            if only and case.name not in only:
                continue
            constant = f"{case.module.__name__.removeprefix('headwater.')}.{case.attribute}"
            for way, taken in measure(case, Path(directory), rounds or case.rounds).items():
                table.add_row(case.name, constant, f"{case.value:,}", way, *(f"{t:.2f}" for t in taken))
    console.print(table)


if __name__ == "__main__":
    typer.run(main)
