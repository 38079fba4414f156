"""The command: run workloads, print medians and ratios, and keep them in ``bench/lakehouse.json`` with ``--record``.

With ``--comet``, all sides but one run with Comet, and the record is ``bench/comet.json``.

The exit code is 1 if answers differ, or if Headwater cannot run something.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from bench.lakehouse.data import NoGenerator
from bench.lakehouse.page import COMET, RECORDED, others, ratio, summary
from bench.lakehouse.running import Run
from bench.lakehouse.sides import TITLES, Side, comet_version, started, usual
from bench.lakehouse.workloads import ACCELERATED, CHANGING, WORKLOADS
from bench.sparks import OURS, SparkFailed


def main(
    only: Annotated[list[str] | None, typer.Option(help=f"Of {', '.join(WORKLOADS)}; may be repeated.")] = None,
    side: Annotated[list[str] | None, typer.Option(help=f"Of {', '.join(TITLES)}; may be repeated.")] = None,
    *,
    scale: Annotated[float, typer.Option(help="TPC's scale factor: gigabytes of text.")] = 0.1,
    queries: Annotated[str | None, typer.Option(help="Only these queries of TPC-DS and TPC-H, as q3,q9.")] = None,
    rounds: Annotated[
        int, typer.Option(help="Rounds that count, after one that warms up; 0 only compares answers.")
    ] = 3,
    clustered: Annotated[bool, typer.Option(help="Cluster fact tables by date, where a side can.")] = False,
    most_files: Annotated[int, typer.Option(help="The most files of a table with many.")] = 10_000,
    memory: Annotated[str, typer.Option(help="The heap of each Spark.")] = "4g",
    directory: Annotated[Path | None, typer.Option(help="Where to work; a temporary directory if not given.")] = None,
    spark: Annotated[
        Path | None, typer.Option(help="A folder with the package pyspark to run, in place of the installed one.")
    ] = None,
    comet: Annotated[
        bool, typer.Option(help=f"TPC-H with Comet on all sides and Parquet without; of {', '.join(ACCELERATED)}.")
    ] = False,
    record: Annotated[bool, typer.Option(help="Keep what is found, for the pages of the documentation.")] = False,
) -> None:
    """Measure Headwater, Delta Lake, plain Parquet, and Iceberg if its JARs are named, side by side."""
    workloads = ACCELERATED if comet else WORKLOADS
    for given, known in ((only, workloads), (side, TITLES)):
        if unknown := set(given or ()) - set(known):
            raise typer.BadParameter(f"no {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    if record and (queries or not rounds):
        raise typer.BadParameter(
            "--record keeps whole workloads, so it goes neither with --queries nor with --rounds 0"
        )
    console = Console(width=None if Console().is_terminal else 120)
    failed = False
    with tempfile.TemporaryDirectory(prefix="headwater-lakehouse-", dir=directory) as work:
        place = Path(work).resolve()
        with (
            started(side or usual(comet), place, memory, spark and spark.resolve(), comet) as sides,
            _progress(console) as progress,
        ):
            for name in only or workloads:
                able = [each for each in sides.values() if each.changes_rows or name not in CHANGING]
                chosen = frozenset(filter(None, (queries or "").split(",")))
                run = Run(place, able, scale, rounds, progress, chosen, clustered, most_files)
                found = _measured(workloads[name], run)
                _print(console, name, found)
                failed |= bool(found["differs"]) or any(OURS in errors for errors in found["cannot"].values())
                if record:
                    _keep(name, found, workloads, COMET if comet else RECORDED)
    raise typer.Exit(1 if failed else 0)


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console
    )


def _measured(workload: Callable[[Run], None], run: Run) -> dict[str, Any]:
    """The record of a workload."""
    load = round(os.getloadavg()[0], 1)
    try:
        workload(run)
    except (NoGenerator, SparkFailed) as error:
        raise SystemExit(str(error)) from None
    return {
        "when": datetime.now(timezone.utc).date().isoformat(),
        "processors": os.cpu_count(),
        "gigabytes": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9),
        "load": load,
        "scale": run.scale,
        "rounds": run.rounds,
        "clustered": run.clustered,
        "spark": _spark_of(run.sides[0]),
        "sides": {side.name: side.version() for side in run.sides},
        **({"comet": comet_version()} if any(side.comet for side in run.sides) else {}),
        **asdict(run.found),
    }


def _spark_of(side: Side) -> str:
    ((version,),) = side.spark.call("rows", sql="SELECT split(version(), ' ')[0]")["rows"]
    return str(version)


def _print(console: Console, name: str, found: dict[str, Any]) -> None:
    compared = others(found) if OURS in found["sides"] else []
    table = Table(name, *found["sides"], *(f"÷ {side}" for side in compared), title=f"{name}, scale {found['scale']:g}")
    for heading, group in found["groups"].items():
        for what, times in group.items():
            seconds = [f"{times[side]:.3f} s" if side in times else "cannot" for side in found["sides"]]
            ratios = (ratio(times, side) for side in compared)
            table.add_row(what, *seconds, *("" if each is None else f"{each:.2f}" for each in ratios))
        sums = [sum(times.get(side, 0.0) for times in group.values()) for side in found["sides"]]
        means = [summary(group, side) for side in compared]
        total = [f"{each:.1f} s" for each in sums]
        table.add_row(f"{heading}: total, mean", *total, *(f"{m.mean:.2f}" if m else "" for m in means), style="bold")
        table.add_section()
    console.print(table)
    for side, (native, every) in found["native"].items():
        console.print(f"{side}: Comet did {native} of {every} scans", highlight=False)
    for what, errors in found["cannot"].items():
        for side, text in errors.items():
            console.print(f"{side} cannot run {what}: {text}", highlight=False, markup=False)
    for what, text in found["differs"].items():
        console.print(f"The answers of {what} differ: {text}", style="red", highlight=False, markup=False)


def _keep(name: str, found: dict[str, Any], workloads: Iterable[str], path: Path) -> None:
    there = json.loads(path.read_text("utf-8")) if path.exists() else {}
    there[name] = found
    ordered = {each: there[each] for each in workloads if each in there}
    path.write_text(json.dumps(ordered, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    typer.run(main)
