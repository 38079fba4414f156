"""``python -m bench``: measure, and print the table.

The sides of a case alternate, and so does which side begins, so that other load on the machine affects all alike.
Medians are compared: ``ratio`` is ours divided by theirs. The exit code is 1 if a target is missed.

``--against REF`` compares with an earlier commit in place of all else, and needs no peer.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from bench import cases as reading
from bench import (
    catalog_commits,
    changelogs,
    cleaning,
    commits,
    compaction,
    dml,
    earlier,
    joins,
    layouts,
    limits,
    many_tables,
    products,
    row_tracking,
    shapes,
    stream_in,
    stream_many,
    stream_out,
    transactions,
    upsert,
)
from bench.cases import Against, Bench, Case, title
from bench.sparks import EARLIER, OURS, PEER, PLAIN, SparkFailed

Times = dict[str, list[float]]


def cases() -> list[Case]:
    """Every case."""
    rooms = (
        reading,
        commits,
        dml,
        compaction,
        layouts,
        joins,
        products,
        cleaning,
        row_tracking,
        shapes,
        limits,
        stream_in,
        stream_out,
        stream_many,
        many_tables,
        upsert,
        changelogs,
        transactions,
        catalog_commits,
    )
    return [case for room in rooms for case in room.cases()]


def main(
    only: Annotated[list[str] | None, typer.Option(help="Only the case of this name; may be repeated.")] = None,
    *,
    against: Annotated[
        str | None, typer.Option(metavar="REF", help="Compare with this commit of Headwater, not with the peer.")
    ] = None,
    rounds: Annotated[int | None, typer.Option(help="Rounds of each case, instead of its own number.")] = None,
    rows: Annotated[int, typer.Option(help="Rows of the large table.")] = 5_000_000,
    files: Annotated[int, typer.Option(help="Files of the table with the generated log.")] = 1_000_000,
    directory: Annotated[Path | None, typer.Option(help="Where to work; a temporary directory if not given.")] = None,
    memory: Annotated[str, typer.Option(help="The heap of each Spark, unless a case wants its own.")] = "4g",
    raw: Annotated[bool, typer.Option(help="Print every measured time too.")] = False,
) -> None:
    """Measure Headwater, its peer and plain Parquet side by side."""
    chosen = [case for case in cases() if not only or case.name in only]
    if unknown := set(only or ()) - {case.name for case in cases()}:
        raise typer.BadParameter(
            f"no case {', '.join(sorted(unknown))}; there are {', '.join(c.name for c in cases())}"
        )
    name = "side by side"
    if against is not None:
        chosen = [case.against_earlier() for case in chosen]
        try:
            commit = earlier.commit_of(against)
        except earlier.NotBuilt as error:
            raise typer.BadParameter(str(error)) from None
        name = f"beside itself at {commit[:12]}"
    console = Console(width=None if Console().is_terminal else 120)
    table = Table("case", "ours", "other", "", "ratio", "target", "met?", title=f"Headwater, {name}")
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
        bench = Bench(Path(work), {}, rows, files, memory)
        if against is not None:
            building = progress.add_task(f"building {commit[:12]}", total=1)
            bench.earlier = stack.enter_context(earlier.checkout(commit, bench.directory / "headwater-earlier"))
            earlier.build(bench.earlier)
            progress.advance(building)
        kinds = {
            OURS,
            *(
                a.other
                for case in chosen
                for a in case.against
                if a.other is not None and a.other.startswith((PEER, EARLIER, f"{OURS}, "))
            ),
        }
        starting = progress.add_task("starting Spark", total=len(kinds))
        for kind in sorted(kinds):
            bench.sparks[kind] = bench.fresh(kind)
            stack.callback(bench.sparks[kind].stop)
            progress.advance(starting)
        for case in chosen:
            try:
                times = measure(case, bench, rounds or case.rounds, progress)
            except NotThere as error:
                table.add_row(title(case, bench), "", "", f"cannot: {error}", "", "", "")
                continue
            if raw:
                for side, taken in times.items():
                    progress.console.print(
                        f"{case.name} {side}: {' '.join(f'{t:.3f}' for t in taken)}", highlight=False
                    )
            for compared in case.against:
                line, met = _line(case, title(case, bench), times, compared)
                table.add_row(*line)
                missed = missed or not met
    console.print(table)
    raise typer.Exit(1 if missed else 0)


class NotThere(Exception):
    """The earlier commit cannot do what a case measures; the message is its error."""


def measure(case: Case, bench: Bench, rounds: int, progress: Progress) -> Times:
    """What each side took, by round, without the warm-up rounds.

    :raises NotThere: the earlier commit fails.
    """
    sides = case.all_sides()
    total = rounds + case.warm_up
    task = progress.add_task(title(case, bench), total=total)
    for side in sides:
        with _failing_alone(side):
            case.prepare(bench, side)
    times: Times = {side: [] for side in sides}
    for number in range(total):
        for side in sides if number % 2 == 0 else reversed(sides):
            with _failing_alone(side):
                taken = case.timed(bench, side, number)
            if number >= case.warm_up:
                times[side].append(taken)
        progress.advance(task)
    return times


@contextmanager
def _failing_alone(side: str) -> Iterator[None]:
    """A case that an earlier commit does not know is left out; every other failure ends the bench."""
    try:
        yield
    except SparkFailed as error:
        if side != EARLIER:
            raise
        raise NotThere(str(error).partition("\n")[0][:200]) from None


def _line(case: Case, name: str, times: Times, against: Against) -> tuple[list[str], bool]:
    ours = median(times[OURS])
    if against.limit is not None:
        met = ours <= against.limit
        shown = [name, f"{ours:.2f} {case.unit}", "", "", ""]
        return [*shown, f"≤ {against.limit:.2f} {case.unit}", _mark(met)], met
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
