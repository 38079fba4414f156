"""``python -m bench``: measure, and print the table.

The sides of a case alternate, and so does which side begins, so that other load on the machine affects all alike.
Medians are compared: ``ratio`` is ours divided by theirs. The exit code is 1 if a target is missed.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from bench import cases as reading
from bench import (
    changelogs,
    cleaning,
    commits,
    compaction,
    dml,
    layouts,
    limits,
    row_tracking,
    stream_in,
    stream_many,
    stream_out,
    upsert,
)
from bench.cases import Against, Bench, Case, title
from bench.sparks import OURS, PEER, PLAIN, Spark

Times = dict[str, list[float]]


def cases() -> list[Case]:
    """Every case."""
    rooms = (
        reading,
        commits,
        dml,
        compaction,
        layouts,
        cleaning,
        row_tracking,
        limits,
        stream_in,
        stream_out,
        stream_many,
        upsert,
        changelogs,
    )
    return [case for room in rooms for case in room.cases()]


def main(
    only: Annotated[list[str] | None, typer.Option(help="Only the case of this name; may be repeated.")] = None,
    rounds: Annotated[int | None, typer.Option(help="Rounds of each case, instead of its own number.")] = None,
    rows: Annotated[int, typer.Option(help="Rows of the large table.")] = 5_000_000,
    files: Annotated[int, typer.Option(help="Files of the table with the generated log.")] = 1_000_000,
    directory: Annotated[Path | None, typer.Option(help="Where to work; a temporary directory if not given.")] = None,
    raw: Annotated[bool, typer.Option(help="Print every measured time too.")] = False,
) -> None:
    """Measure Headwater, its peer and plain Parquet side by side."""
    chosen = [case for case in cases() if not only or case.name in only]
    if unknown := set(only or ()) - {case.name for case in cases()}:
        raise typer.BadParameter(
            f"no case {', '.join(sorted(unknown))}; there are {', '.join(c.name for c in cases())}"
        )
    console = Console(width=None if Console().is_terminal else 120)
    table = Table("case", "ours", "other", "", "ratio", "target", "met?", title="Headwater, side by side")
    missed = False
    with tempfile.TemporaryDirectory(prefix="headwater-bench-", dir=directory) as work, ExitStack() as stack:
        progress = stack.enter_context(
            Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                console=console,
            )
        )
        kinds = {
            OURS,
            *(
                a.other
                for case in chosen
                for a in case.against
                if a.other is not None and a.other.startswith((PEER, f"{OURS}, "))
            ),
        }
        starting = progress.add_task("starting Spark", total=len(kinds))
        bench = Bench(Path(work), {}, rows, files)
        for kind in sorted(k for k in kinds if k):
            bench.sparks[kind] = Spark(kind, bench.directory)
            stack.callback(bench.sparks[kind].stop)
            progress.advance(starting)
        for case in chosen:
            count = rounds or case.rounds
            times = measure(case, bench, count, progress)
            if raw:
                for side, taken in times.items():
                    progress.console.print(
                        f"{case.name} {side}: {' '.join(f'{t:.3f}' for t in taken)}", highlight=False
                    )
            for against in case.against:
                line, met = _line(case, title(case, bench), times, against)
                table.add_row(*line)
                missed = missed or not met
    console.print(table)
    raise typer.Exit(1 if missed else 0)


def measure(case: Case, bench: Bench, rounds: int, progress: Progress) -> Times:
    """What each side took, by round, without the warm-up rounds."""
    sides = case.all_sides()
    total = rounds + case.warm_up
    task = progress.add_task(title(case, bench), total=total)
    for side in sides:
        case.prepare(bench, side)
    times: Times = {side: [] for side in sides}
    for number in range(total):
        for side in sides if number % 2 == 0 else reversed(sides):
            taken = case.timed(bench, side, number)
            if number >= case.warm_up:
                times[side].append(taken)
        progress.advance(task)
    return times


def _line(case: Case, name: str, times: Times, against: Against) -> tuple[list[str], bool]:
    ours = median(times[OURS])
    if against.limit is not None:
        met = ours <= against.limit
        return [name, f"{ours / 2**30:.2f} GiB", "", "", "", f"≤ {against.limit / 2**30:.2f} GiB", _mark(met)], met
    assert against.other is not None
    theirs = median(times[against.other])
    shown = [
        name,
        f"{ours:.3f} {case.unit}",
        f"{theirs:.3f} {case.unit}",
        "plain Spark" if against.other == PLAIN else against.other,
    ]
    if against.plus is not None:
        met = ours - theirs <= against.plus
        return [*shown, f"{ours - theirs:+.2f} s", f"≤ +{against.plus:.1f} s", _mark(met)], met
    assert against.ratio is not None
    met = ours / theirs <= against.ratio
    return [*shown, f"{ours / theirs:.3f}", f"≤ {against.ratio:.2f}", _mark(met)], met


def _mark(met: bool) -> str:
    return "[green]yes[/green]" if met else "[red]no[/red]"


if __name__ == "__main__":
    typer.run(main)
