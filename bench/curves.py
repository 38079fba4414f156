"""``python -m bench.curves``: how planning grows with a table's files, and a commit with the log's age; as pictures.

Measures the log layer alone, without Spark: opening a table of so many files for the first time and finding the file
of one row; the same again with the table open; one commit after so many. Records what it saw in ``bench/curves.json``
and draws it into ``docs/images``; ``--draw`` draws what is recorded. Of repeated times the fastest counts, of commits
the first quartile: what else the machine does only adds. Times of two runs do not compare: only what one run saw beside
each other does.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from statistics import quantiles
from typing import Annotated, Any

import typer

from bench import big_log, many_commits
from headwater.cli.pictures import Bar, Picture, svg
from headwater.log.snapshot import load_snapshot
from headwater.protocol.types import PrimitiveType
from headwater.pruning import prune
from headwater.pruning.predicates import Column, Comparison, literal
from headwater.stores import LocalStore
from headwater.transaction import wait_for_maintenance

ROOT = Path(__file__).resolve().parents[1]
RECORDED = ROOT / "bench" / "curves.json"
PICTURES = ROOT / "docs" / "images"
#: How many commits before an age are looked at: twice as many.
_AROUND = 50
#: How often a query of an open table is planned for each opening.
_WARM = 5


def main(
    most_files: Annotated[int, typer.Option(help="The largest table; the others have a tenth each.")] = 1_000_000,
    most_commits: Annotated[int, typer.Option(help="The oldest log.")] = 10_000,
    rounds: Annotated[int, typer.Option(help="How often a table is opened.")] = 5,
    draw: Annotated[bool, typer.Option(help="Draw what is recorded, and measure nothing.")] = False,
) -> None:
    """Measure, record and draw."""
    if not draw:
        found = {
            "when": datetime.now(timezone.utc).date().isoformat(),
            "processors": os.cpu_count(),
            "load": round(os.getloadavg()[0], 1),
            "rounds": rounds,
            "plan": [plan(files, rounds) for files in _tenths(most_files)],
            "commit": commits(most_commits),
        }
        RECORDED.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    for name, picture in pictures(json.loads(RECORDED.read_text("utf-8"))).items():
        (PICTURES / f"{name}.svg").write_text(svg(picture) + "\n", "utf-8")
        print(f"{picture.title}: {', '.join(f'{bar.label} {bar.text}' for bar in picture.bars)}")


def _tenths(most: int, least: int = 1000) -> list[int]:
    sizes = [most]
    while sizes[0] >= 10 * least:
        sizes.insert(0, sizes[0] // 10)
    return sizes


def plan(files: int, rounds: int) -> dict[str, Any]:
    """Seconds until it is known which file has one row: the table new to the process, and open."""
    cold, warm = [], []
    with tempfile.TemporaryDirectory(prefix="headwater-curves-") as directory:
        table = Path(directory) / "table"
        big_log.make(table, files)
        for number in range(rounds):
            row = (files // 2 + number) * big_log.ROWS_PER_FILE + 17
            wanted = Comparison("=", Column(("id",)), literal(PrimitiveType("long"), row))
            copy = Path(directory) / f"copy-{number}"
            big_log.copy_of(table, copy)
            started = time.perf_counter()
            snapshot = load_snapshot(str(copy), LocalStore())
            assert prune(snapshot, wanted).true_count == 1
            cold.append(time.perf_counter() - started)
            for _ in range(_WARM):
                started = time.perf_counter()
                assert prune(snapshot, wanted).true_count == 1
                warm.append(time.perf_counter() - started)
    return {"files": files, "cold": min(cold), "warm": min(warm)}


def commits(most: int) -> list[dict[str, Any]]:
    """Seconds of a commit, by the commits before it."""
    with tempfile.TemporaryDirectory(prefix="headwater-curves-") as directory:
        many_commits.commit_all(f"{directory}/warm", 200)  # the first commits of a process are slower
        times = many_commits.commit_all(f"{directory}/table", most)
        wait_for_maintenance()
    ages = [age for age in _tenths(most, 100) if age >= 2 * _AROUND]
    return [{"commits": age, "seconds": quantiles(times[max(age - 2 * _AROUND, 10) : age])[0]} for age in ages]


def pictures(found: dict[str, Any]) -> dict[str, Picture]:
    """The pictures of a record, by the names of their files; none of what it has no times of."""
    drawn = (
        ("plan-cold", "Plan a query of a table that is new", "plan", "files", "cold"),
        ("plan-warm", "Plan a query of a table that is open", "plan", "files", "warm"),
        ("commit-age", "One commit, by the age of the log", "commit", "commits", "seconds"),
    )
    return {name: _picture(title, found[rows], unit, value) for name, title, rows, unit, value in drawn if found[rows]}


def _picture(title: str, rows: Sequence[dict[str, Any]], unit: str, value: str) -> Picture:
    return Picture(
        title,
        f"times, relative to {rows[0][unit]:,} {unit}",
        [Bar(f"{row[unit]:,} {unit}", (row[value],), f"{row[value] / rows[0][value]:.1f} times") for row in rows],
    )


if __name__ == "__main__":
    typer.run(main)
