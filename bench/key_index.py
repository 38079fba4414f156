"""``python -m bench.key_index``: upserts and point queries by random keys, with an index and without.

Each size is a table of 500 files whose keys are hashes, so minimum and maximum prune nothing. It is loaded when its
index is declared, so its files have the small pages of such tables. The sides work on copies made of hard links,
alternate, and are: *indexed*, ours with the index; *ours*, the same session settings with
``spark.headwater.keyIndex = never``; and the peer. The output has medians, ratios, the bytes of the index by byte of
data, and the time of its build beside that of a scan of the whole table.

``--inserts`` measures INSERTs into a table with an index, whose entries are made afterwards, beside one without;
``--batches`` many upserts one after the other, as those of a stream, the first of them beside the last.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Annotated

import typer

from bench.sparks import OURS, PEER, Spark

_KEYS = 10_000
_FILES = 500
_NEW = 10
_COLUMNS = (
    "md5(string(id)) AS k, id, concat('customer ', id % 9973, ' of ', md5(string(id * 7))) AS name, "
    "concat(md5(string(id * 3)), '@example.com') AS email, id % 1000 / 7 AS amount, "
    "DATE'2024-01-01' + INT(id % 700) AS day, id % 50 AS kind"
)
_MERGE = (
    "MERGE INTO delta.`{path}` t USING parquet.`{source}` s ON t.k = s.k "
    "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
)
INDEXED = "indexed"


def main(
    rows: Annotated[list[int] | None, typer.Option(help="Rows of a table; may be repeated.")] = None,
    *,
    rounds: Annotated[int, typer.Option(help="Rounds of each statement.")] = 5,
    side: Annotated[list[str] | None, typer.Option(help="Only this side; may be repeated.")] = None,
    directory: Annotated[Path | None, typer.Option(help="Where to work.")] = None,
    memory: Annotated[str, typer.Option(help="The heap of each Spark.")] = "6g",
    inserts: Annotated[int, typer.Option(help="Measure so many INSERTs of each side instead.")] = 0,
    batches: Annotated[int, typer.Option(help="Measure so many upserts of each side instead.")] = 0,
) -> None:
    """Measure, and print a line for each figure."""
    sides = side or [INDEXED, OURS, PEER]
    with tempfile.TemporaryDirectory(prefix="headwater-bench-", dir=directory) as work:
        if inserts or batches:
            lines = _inserts(Path(work), inserts, memory) if inserts else _batches(Path(work), batches, memory)
            typer.echo("\n".join(lines))
            return
        for count in rows or [5_000_000, 50_000_000]:
            typer.echo("\n".join(_measure(Path(work), count, rounds, sides, memory)))
            shutil.rmtree(Path(work) / f"base-{count}", ignore_errors=True)


def _measure(work: Path, count: int, rounds: int, sides: list[str], memory: str) -> Iterator[str]:
    base = work / f"base-{count}"
    maker = Spark(OURS, work, memory)
    size = f"{count // 1_000_000} M rows"
    try:
        properties = "'delta.enableDeletionVectors' = 'true', 'headwater.index.by_k.columns' = 'k'"
        table = f"CREATE TABLE delta.`{base}` USING delta TBLPROPERTIES ({properties})"
        # Such a session leaves the entries to others.
        maker.run("SET spark.sql.caseSensitive = true")
        maker.run(f"{table} AS SELECT {_COLUMNS} FROM range(0, {count}, 1, {_FILES})")
        maker.run("SET spark.sql.caseSensitive = false")
        for number in range(rounds + 1):
            maker.run(f"INSERT OVERWRITE DIRECTORY '{work}/source-{number}' USING parquet {_source(count, number)}")
        _copy(base, work / INDEXED)
        scan = min(maker.run(f"SELECT sum(hash(*)) FROM delta.`{base}`") for _ in range(2))
        build = maker.run(f"REFRESH INDEX by_k ON delta.`{work / INDEXED}`")
        data, index = _bytes(base), _bytes(work / INDEXED / "_headwater")
        yield f"{size}: data {data / 1e9:.2f} GB, index {index / data:.3f} of it"
        yield f"{size}: build {build:.1f} s, a scan of all columns {scan:.1f} s: {build / scan:.2f}"
    finally:
        maker.stop()
    for other in sides:
        if other != INDEXED:
            _copy(base, work / other)
    sparks = {each: Spark(PEER if each == PEER else OURS, work, memory) for each in sides}
    try:
        if OURS in sparks:
            sparks[OURS].run("SET spark.headwater.keyIndex = never")
        draw = random.Random(count)
        points = [draw.randrange(count) for _ in range(3 * rounds + 2)]
        upserts: dict[str, list[float]] = {each: [] for each in sides}
        selects: dict[str, list[float]] = {each: [] for each in sides}
        for number in range(rounds + 1):
            for each in sides if number % 2 else reversed(sides):
                taken = sparks[each].run(_MERGE.format(path=work / each, source=work / f"source-{number}"))
                upserts[each].append(taken)
        for number, point in enumerate(points):
            for each in sides if number % 2 else reversed(sides):
                taken = sparks[each].run(f"SELECT * FROM delta.`{work / each}` WHERE k = md5(string({point}))")
                selects[each].append(taken)
        # The first of each warms up.
        yield _line(f"{size}: upsert of {_KEYS:,} keys", {each: times[1:] for each, times in upserts.items()})
        yield _line(f"{size}: SELECT of a key", {each: times[2:] for each, times in selects.items()})
    finally:
        for spark in sparks.values():
            spark.stop()
        for each in {*sides, INDEXED}:
            shutil.rmtree(work / each, ignore_errors=True)


def _inserts(work: Path, count: int, memory: str) -> Iterator[str]:
    """INSERTs of 500,000 rows, by turns with an index and without. Each begins when the entries of those before are
    made."""
    spark = Spark(OURS, work, memory)
    try:
        times: dict[str, list[float]] = {INDEXED: [], OURS: []}
        for each in times:
            spark.run(f"CREATE TABLE delta.`{work / each}` USING delta AS SELECT {_COLUMNS} FROM range(1000)")
        spark.run(f"CREATE INDEX by_k ON delta.`{work / INDEXED}` (k)")
        for number in range(count + 2):
            for each in times if number % 2 else reversed(times):
                rows = f"SELECT {_COLUMNS} FROM range({number}000000, {number}500000, 1, 2)"
                times[each].append(spark.run(f"INSERT INTO delta.`{work / each}` {rows}"))
                spark.run(f"REFRESH INDEX by_k ON delta.`{work / INDEXED}`")
        yield _line("INSERT of 500,000 rows", {each: taken[2:] for each, taken in times.items()})
    finally:
        spark.stop()


def _batches(work: Path, count: int, memory: str) -> Iterator[str]:
    """Upserts of 1,000 random keys into a table of 2 M rows that compacts itself."""
    spark = Spark(OURS, work, memory)
    try:
        for each in (INDEXED, OURS):
            path, draw = work / each, random.Random(1)
            properties = "'delta.enableDeletionVectors' = 'true', 'delta.autoOptimize.autoCompact' = 'true'"
            spark.run(
                f"CREATE TABLE delta.`{path}` USING delta TBLPROPERTIES ({properties}) "
                f"AS SELECT {_COLUMNS} FROM range(0, 2000000, 1, 20)"
            )
            if each == INDEXED:
                spark.run(f"CREATE INDEX by_k ON delta.`{path}` (k)")
            times = []
            for _ in range(count):
                ids = f"SELECT DISTINCT pmod(xxhash64(id, {draw.randrange(1 << 30)}), 2200000) AS id FROM range(1000)"
                times.append(
                    spark.run(f"INSERT INTO delta.`{path}` WITH (idCols = 'k') SELECT {_COLUMNS} FROM ({ids})")
                )
            some = max(1, count // 20)
            first, last = median(times[some : 2 * some]), median(times[-some:])
            yield (
                f"{each}: {count} upserts, the first {first:.2f} s, the last {last:.2f} s: {last / first:.2f} "
                f"(medians of {some}, after {some} that warm up)"
            )
    finally:
        spark.stop()


def _source(count: int, number: int) -> str:
    """Random keys of the table, and one new one for each nine of them."""
    draw = random.Random(number)
    known = _KEYS - _KEYS // _NEW
    ids = f"SELECT pmod(xxhash64(id, {draw.randrange(1 << 30)}), {count}) AS id FROM range(0, {known})"
    new = f"SELECT {count * (number + 2)} + id AS id FROM range(0, {_KEYS // _NEW})"
    return f"SELECT {_COLUMNS} FROM (SELECT DISTINCT id FROM ({ids}) UNION ALL {new})"


def _copy(base: Path, copy: Path) -> None:
    shutil.copytree(base, copy, copy_function=os.link)


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and "_delta_log" not in path.parts)


def _line(title: str, times: dict[str, list[float]]) -> str:
    medians = {each: median(found) for each, found in times.items()}
    shown = ", ".join(f"{each} {taken:.2f} s" for each, taken in medians.items())
    first = medians.get(INDEXED)
    ratios = [
        f"{first / taken:.2f} of {each}" for each, taken in medians.items() if first is not None and each != INDEXED
    ]
    return f"{title}: {shown}" + (f" ({', '.join(ratios)})" if ratios else "")


if __name__ == "__main__":
    typer.run(main)
