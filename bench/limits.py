"""The cases of limits that only a statement can measure: the same statement with and without the limit.

The other side is Headwater, too, with a constant of its handler set to another value. Each case compares the choice
that the limit makes with the other one, so a ratio above 1 says that the limit is wrong there.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator

from bench.cases import COLUMNS, Against, Bench, Case, Timed
from bench.sparks import OURS, with_constant

_REWRITE = "statements.dml.strategy.SMALL_REWRITE_BYTES"
_JSON_LIST = "statements.files.file_lists._LONGEST_JSON_LIST"
#: Rows of :data:`COLUMNS` with a random text that make a MiB.
_ROWS_PER_MIB = 27_500


def _table_of_files(files: int) -> Callable[[Bench, str], None]:
    def prepare(bench: Bench, side: str) -> None:
        path = bench.path(f"files-{files}", "all")
        if not path.exists():
            bench.spark(OURS).run(
                f"CREATE TABLE delta.`{path}` USING delta AS "
                f"SELECT /*+ REPARTITION({files}) */ id FROM range(0, {10 * files})"
            )

    return prepare


def _select(files: int) -> Timed:
    return lambda bench, side, number: bench.spark(side).run(
        f"SELECT * FROM delta.`{bench.path(f'files-{files}', 'all')}`"
    )


def _plan(files: int) -> Timed:
    return lambda bench, side, number: float(
        bench.spark(side).call("plan", sql=f"SELECT * FROM delta.`{bench.path(f'files-{files}', 'all')}`")["seconds"]
    )


def _first_select(bench: Bench, side: str, number: int) -> float:
    """The first SELECT of a Delta table in a Spark that has read Parquet files."""
    path = bench.path("files-1", "all")
    spark = bench.fresh(side)
    try:
        spark.run(f"SELECT * FROM parquet.`{path}`")
        return spark.run(f"SELECT * FROM delta.`{path}`")
    finally:
        spark.stop()


def _merge(mib: int) -> Timed:
    """A MERGE that must read every file of a table of that size, and changes a hundredth of its rows."""

    def timed(bench: Bench, side: str, number: int) -> float:
        rows = mib * _ROWS_PER_MIB
        base = bench.path(f"rewritten-{mib}", "all")
        if not base.exists():
            bench.spark(OURS).run(
                f"CREATE TABLE delta.`{base}` USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'false') "
                f"AS SELECT {COLUMNS}, uuid() AS text FROM range(0, {rows}, 1, 4)"
            )
            size = sum(file.stat().st_size for file in base.glob("*.parquet"))
            if not 0.8 < size / (mib << 20) <= 1.0:
                raise AssertionError(f"the table has {size / 2**20:.1f} MiB")
        copy = bench.directory / f"rewritten-{mib}-{number}-{abs(hash(side))}"
        shutil.copytree(base, copy, copy_function=os.link)
        try:
            return bench.spark(side).run(
                f"MERGE INTO delta.`{copy}` AS t USING (SELECT id FROM range(0, {rows}) WHERE id % 100 != 0) AS s "
                "ON t.id = s.id WHEN NOT MATCHED BY SOURCE THEN UPDATE SET amount = 0"
            )
        finally:
            shutil.rmtree(copy, ignore_errors=True)

    return timed


def cases() -> Iterator[Case]:
    """The cases, the quick ones first."""
    arrow = with_constant(_JSON_LIST, -1)
    for files in (1, 10, 100, 1000):
        timed, what = (_select, "SELECT *") if files < 1000 else (_plan, "plan")
        yield Case(
            f"file-list-{files}",
            f"{what}, {files:,} files, JSON or Arrow",
            (Against(arrow, ratio=1.0),),
            timed(files),
            30,
            _table_of_files(files),
            warm_up=15,
        )
    yield Case(
        "file-list-first",
        "the first SELECT *, JSON or Arrow",
        (Against(arrow, ratio=1.0),),
        _first_select,
        5,
        _table_of_files(1),
        warm_up=0,
    )
    for mib in (16, 32, 64):
        other = with_constant(_REWRITE, 0 if mib <= 32 else 1 << 40)
        title = f"MERGE that reads {mib} MiB, rewriting {'at once or later' if mib <= 32 else 'later or at once'}"
        yield Case(f"small-rewrite-{mib}", title, (Against(other, ratio=1.0),), _merge(mib), 5, warm_up=2)
