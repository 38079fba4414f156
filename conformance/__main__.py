"""The command: run cases on engines, print the board, and keep it in ``conformance/board.json`` with ``--record``.

The exit code is 1 if a cell fails that ``conformance/known.json`` does not list, or in another way than in the recorded
run, if one that it lists does not fail, if one that passed in the recorded run refuses now, or if an engine does not
start.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))  # what fetches packages

from conformance.cases import CASES, Case
from conformance.engines import ENGINES, OURS, Engine
from conformance.page import RECORDED, cells_of, recorded, save
from conformance.running import Run
from conformance.tables import compared
from conformance.verdicts import FAILS, PASSES, REFUSES, Cells, complaints, known


def main(
    engine: Annotated[list[str] | None, typer.Option(help="Only this engine; may be repeated.")] = None,
    case: Annotated[
        list[str] | None, typer.Option(help="Only cases whose name has this text; may be repeated.")
    ] = None,
    *,
    record: Annotated[bool, typer.Option("--record", help=f"Keep what was run in {RECORDED.name}.")] = False,
    names: Annotated[bool, typer.Option("--list", help="List engines and cases, and run nothing.")] = False,
    keep: Annotated[Path | None, typer.Option(help="Keep the tables in this folder.")] = None,
    tables: Annotated[
        Path | None,
        typer.Option(help="Only read the tables in this folder, a clone of delta-io/delta-kernel-rs for example."),
    ] = None,
) -> None:
    """Run the conformance board."""
    console = Console()
    if names:
        _list(console)
        return
    folder = (keep or Path(tempfile.mkdtemp(prefix="headwater-conformance-"))).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        absent: Mapping[str, str] = {}
        if tables is not None:
            cells, versions = compared(tables, folder, progress)
        else:
            run = Run(folder, _engines(engine), _cases(case), progress)
            run.run()
            cells, versions, absent = run.cells, run.versions, run.absent
    if keep is None:
        shutil.rmtree(folder, ignore_errors=True)
    before = recorded()
    found = [f"{ENGINES[name].title} did not start, so nothing of it was run: {why}" for name, why in absent.items()]
    found += complaints(cells, known(), cells_of(before) if before else None)
    _print(console, cells)
    for text in found:
        console.print(text, style="red", highlight=False, markup=False)
    if record:
        when = datetime.now(timezone.utc).strftime("%Y-%m-%d")
        save(cells, versions, when, f"{os.cpu_count()} processors")
    raise typer.Exit(1 if found else 0)


def _cases(chosen: list[str] | None) -> list[Case]:
    found = [each for each in CASES.values() if not chosen or any(text in each.name for text in chosen)]
    if not found:
        raise typer.BadParameter("no case has a name with this text; --list shows all")
    return found


def _engines(chosen: list[str] | None) -> list[Engine]:
    if unknown := set(chosen or ()) - (ENGINES.keys() - {OURS}):
        raise typer.BadParameter(f"{', '.join(sorted(unknown))}: one of {', '.join(ENGINES)}")
    return [each for each in ENGINES.values() if each.name != OURS and (each.name in chosen if chosen else each.usual)]


def _list(console: Console) -> None:
    for engine in ENGINES.values():
        console.print(f"{engine.name}: {engine.title}{'' if engine.usual else ' (with --engine alone)'}")
    for case in CASES.values():
        console.print(f"{case.group}: {case.name}", highlight=False)


def _print(console: Console, cells: Cells) -> None:
    """How many cells of each engine pass, refuse and fail in each direction."""
    table = Table("direction", "engine", "pass", "refuse", "fail")
    for direction, engine in dict.fromkeys(key[:2] for key in cells):
        kinds = [verdict.kind for key, verdict in cells.items() if key[:2] == (direction, engine)]
        counts = [kinds.count(kind) for kind in (PASSES, REFUSES, FAILS)]
        if any(counts):
            table.add_row(direction, ENGINES[engine].title, *map(str, counts))
    console.print(table)


if __name__ == "__main__":
    typer.run(main)
