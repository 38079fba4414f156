"""Tables of other projects, with the rows that they say a reader must find: Headwater reads them, and writes to copies.

A folder is searched for tables, in ``.tar.zst`` archives as well. The rows of ``NAME/delta`` are the Parquet files of
``NAME/expected``, as the golden tables of Delta's kernels have them, or of ``NAME/expected/latest/table_content``, as
the Delta acceptance tests (``dat``) do. If a table has none, the judge is delta-kernel-rs, through DuckDB: both find
the same rows. To write, Headwater appends each row of a copy once more; delta-kernel-rs reads the result.
"""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from rich.progress import Progress

from conformance.engines import ENGINES, OURS
from conformance.rows import Rows, canonical, sorted_rows
from conformance.running import EngineEnded, Running
from conformance.verdicts import ABSENT, FAILS, PASSES, REFUSES, TABLES_READ, TABLES_WRITE, Verdict, of_error, of_rows

#: Bytes of an archive above which it is left out: tables of 300,000 files or a million rows measure time, no promise.
_LARGEST_ARCHIVE = 2_000_000
_JUDGE = "duckdb"


@dataclass(frozen=True)
class Table:
    """A table: its name, its folder, and the folder with its rows, if there is one."""

    name: str
    path: Path
    expected: Path | None


def found(folder: Path, scratch: Path) -> Iterator[Table]:
    """The tables in a folder, copied to ``scratch``.

    :raises FileNotFoundError: the folder has no table.
    """
    copies = scratch / "copies"
    for archive in sorted(folder.rglob("*.tar.zst")):
        if archive.stat().st_size <= _LARGEST_ARCHIVE:
            with tarfile.open(fileobj=pa.input_stream(str(archive), compression="zstd"), mode="r|") as content:
                content.extractall(copies / archive.relative_to(folder).parent, filter="data")
    for log in sorted(folder.rglob("_delta_log")):
        place = log.parent.parent if log.parent.name == "delta" else log.parent
        if log.is_dir() and not (copies / place.relative_to(folder)).exists():
            shutil.copytree(place, copies / place.relative_to(folder))
    logs = [log for log in sorted(copies.rglob("_delta_log")) if log.is_dir()]
    if not logs:
        raise FileNotFoundError(f"{folder} has no tables")
    for log in logs:
        table = log.parent
        place = table.parent if table.name == "delta" else table
        rows = (place / "expected" / "latest" / "table_content", place / "expected")
        expected = next((each for each in rows if table != place and any(each.glob("**/*.parquet"))), None)
        yield Table(str(place.relative_to(copies)), table, expected)


def compared(
    folder: Path, scratch: Path, progress: Progress
) -> tuple[dict[tuple[str, str, str], Verdict], dict[str, str]]:
    """The cells of the tables in a folder, how Headwater reads each and how a copy that it wrote to is read, and the
    versions of the engines that were run.
    """
    tables = list(found(folder, scratch))
    ours, judge = (Running(ENGINES[name], scratch) for name in (OURS, _JUDGE))
    try:
        task = progress.add_task("acceptance tables", total=len(tables))
        cells = {}
        for table in tables:
            read, rows = _read(ours, judge, table)
            cells[TABLES_READ, OURS, table.name] = read
            cells[TABLES_WRITE, OURS, table.name] = _write(ours, judge, table, rows) if rows else Verdict(ABSENT)
            progress.advance(task)
        return cells, {each.engine.name: each.version for each in (ours, judge)}
    finally:
        ours.stop()
        judge.stop()


def _ask(engine: Running, do: str, path: Path) -> tuple[Verdict | None, Any]:
    try:
        answer = engine.ask(do, path)
    except EngineEnded as error:
        return Verdict(FAILS, str(error)), None
    return (of_error(answer["error"]), None) if "error" in answer else (None, answer["result"])


def _read(ours: Running, judge: Running, table: Table) -> tuple[Verdict, Rows | None]:
    """What Headwater reads, and the rows if they are right."""
    wrong, rows = _ask(ours, "look", table.path)
    if table.expected is not None:
        verdict = wrong or of_rows(canonical(ds.dataset(table.expected, format="parquet").to_table()), rows)
    else:
        theirs, judged = _ask(judge, "look", table.path)
        if wrong is not None:
            # What neither can read is damaged, or has a feature that both refuse.
            verdict = Verdict(REFUSES, wrong.text) if theirs is not None else wrong
        elif theirs is not None:
            verdict = Verdict(ABSENT, f"delta-kernel-rs cannot judge it: {theirs.text}")
        else:
            verdict = of_rows(judged, rows)
    return verdict, rows if verdict.kind == PASSES else None


def _write(ours: Running, judge: Running, table: Table, rows: Rows) -> Verdict:
    copy = table.path.with_name(f"{table.path.name}-doubled")
    shutil.copytree(table.path, copy)
    wrong, _ = _ask(ours, "double", copy)
    if wrong is not None:
        return wrong
    unread, twice = _ask(judge, "look", copy)
    if unread is not None:
        return Verdict(ABSENT, f"delta-kernel-rs cannot judge it: {unread.text}")
    return of_rows(sorted_rows(rows["columns"], [*rows["rows"], *rows["rows"]]), twice)
