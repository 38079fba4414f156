"""VACUUM, RESTORE and clones of a table with many files, which are empty: only their names and the log count.

The table has a tenth of ``--files``: 100,000 unless that says otherwise. Each side has its own. CONVERT TO DELTA has
small Parquet files, as their footers are what counts. DEEP CLONE has a file of 1 MB for 200 of ``--files``: 5 GB.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bench import big_log
from bench.cases import Against, Bench, Case
from bench.sparks import PEER

#: The version that the generated log begins with.
_FIRST = big_log.VERSION
#: A two hundredth of the files: 5,000.
_FILES_A_CONVERTED = 200
_LONG_AGO = 1_600_000_000
_COPY = "cp -r"


def _files(bench: Bench) -> int:
    return bench.files // 10


def _touch(path: Path) -> None:
    path.touch()
    os.utime(path, (_LONG_AGO, _LONG_AGO))


def _half_of_it_garbage(bench: Bench, path: Path) -> None:
    """A table whose second half of files no version knows."""
    half = _files(bench) // 2
    big_log.make(path, half)
    for number in range(2 * half):
        _touch(path / big_log.path_of(number))


def _prepare_dry(bench: Bench, side: str) -> None:
    path = bench.path("vacuum-dry", side)
    _half_of_it_garbage(bench, path)
    bench.spark(side).run(f"SELECT count(*) FROM delta.`{path}` WHERE id < 0")


def _dry(bench: Bench, side: str, number: int) -> float:
    return bench.spark(side).run(f"VACUUM delta.`{bench.path('vacuum-dry', side)}` DRY RUN")


def _vacuum(bench: Bench, side: str, number: int) -> float:
    path = bench.path(f"vacuum-{number}", side)
    _half_of_it_garbage(bench, path)
    spark = bench.spark(side)
    spark.run(f"SELECT count(*) FROM delta.`{path}` WHERE id < 0")
    try:
        seconds = spark.run(f"VACUUM delta.`{path}`")
        left = sum(1 for _ in path.glob("*.parquet"))
        if left != _files(bench) // 2:
            raise AssertionError(f"{side} leaves {left:,} files")
        return seconds
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _prepare_restore(bench: Bench, side: str) -> None:
    path = bench.path("restore", side)
    big_log.make(path, _files(bench))
    for number in range(_files(bench)):
        _touch(path / big_log.path_of(number))


def _restore(bench: Bench, side: str, number: int) -> float:
    path, spark = bench.path("restore", side), bench.spark(side)
    spark.run(f"DELETE FROM delta.`{path}`")
    return spark.run(f"RESTORE delta.`{path}` TO VERSION AS OF {_FIRST}")


def _prepare_clone(bench: Bench, side: str) -> None:
    big_log.make(bench.path("clone", side), _files(bench))


def _clone(bench: Bench, side: str, number: int) -> float:
    source = bench.path("clone", side)
    target = source.with_name(f"{source.name}-{number}")
    try:
        return bench.spark(side).run(f"CREATE TABLE delta.`{target}` SHALLOW CLONE delta.`{source}`")
    finally:
        shutil.rmtree(target, ignore_errors=True)


def _prepare_copies(bench: Bench, side: str) -> None:
    path = bench.path("deep-clone", "source")
    if path.exists():
        return
    files = bench.files // 200
    big_log.make(path, files)
    some = os.urandom(big_log.size_of(4095))
    for number in range(files):
        file = path / big_log.path_of(number)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(some[: big_log.size_of(number)])


def _copies(bench: Bench, side: str, number: int) -> float:
    source, target = (bench.path("deep-clone", name) for name in ("source", f"{side}-{number}".replace(" ", "")))
    try:
        if side != _COPY:
            return bench.spark(side).run(f"CREATE TABLE delta.`{target}` DEEP CLONE delta.`{source}`")
        begun = time.perf_counter()
        subprocess.run(["cp", "-r", source, target], check=True)
        return time.perf_counter() - begun
    finally:
        shutil.rmtree(target, ignore_errors=True)


def _prepare_convert(bench: Bench, side: str) -> None:
    path = bench.path("convert", side)
    path.mkdir(parents=True)
    first = path / "part-00000.parquet"
    columns = {name: pa.array(range(100)) for name in ("id", "a", "b", "c")} | {"name": pa.array(map(str, range(100)))}
    pq.write_table(pa.table(columns), first)
    for number in range(1, bench.files // _FILES_A_CONVERTED):
        shutil.copyfile(first, path / f"part-{number:05}.parquet")


def _convert(bench: Bench, side: str, number: int) -> float:
    path = bench.path("convert", side)
    shutil.rmtree(path / "_delta_log", ignore_errors=True)
    return bench.spark(side).run(f"CONVERT TO DELTA parquet.`{path}`")


def cases() -> Iterator[Case]:
    """Every case of this module."""
    against = (Against(PEER, 0.1),)
    files, half = "{tenth:,} files", "half of them garbage"
    yield Case("vacuum-dry", f"VACUUM DRY RUN, {files}, {half}", against, _dry, 3, _prepare_dry, 1)
    yield Case("vacuum", f"VACUUM, {files}, {half}", against, _vacuum, 3, warm_up=1)
    yield Case("restore", f"RESTORE of {files} that a DELETE removed", against, _restore, 3, _prepare_restore, 1)
    yield Case("shallow-clone", f"SHALLOW CLONE of {files}", against, _clone, 3, _prepare_clone, 1)
    copies = "DEEP CLONE, files of 1 MB, one for 200 of {files:,}"
    yield Case("deep-clone", copies, (Against(_COPY, 1.25),), _copies, 3, _prepare_copies, 1)
    yield Case("convert", "CONVERT TO DELTA of 5,000 files", (Against(PEER, 0.25),), _convert, 3, _prepare_convert, 1)
