"""Measuring and comparing: sides take turns statement by statement, and their answers must be the same.

Which side begins alternates, so that other load on the machine affects all alike. What a side cannot run, and where
answers differ, is part of what a run finds; neither is ever left out silently.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from rich.progress import Progress

from bench.lakehouse.sides import Side
from bench.sparks import SparkFailed

#: Relative difference of two doubles below which they are the same: sums depend on the order of their terms.
_TOLERANCE = 1e-9

Row = list[Any]
#: Runs one round of a side; the seconds of what counts.
Action = Callable[[Side, int], float]


@dataclass
class Found:
    """What a workload found. ``groups`` has seconds by group, by what ran, and by side, the median of the rounds;
    ``cannot`` the errors by what ran and side; ``differs`` how answers differ, by what ran; ``native``, by side, how
    many scans of files Comet did of how many.
    """

    groups: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)
    cannot: dict[str, dict[str, str]] = field(default_factory=dict)
    differs: dict[str, str] = field(default_factory=dict)
    native: dict[str, list[int]] = field(default_factory=dict)


@dataclass
class Run:
    """A run of one workload on some sides."""

    directory: Path
    sides: list[Side]
    scale: float
    #: How many count; none if answers are compared only.
    rounds: int
    progress: Progress
    #: Names of queries to run; all if empty.
    only_queries: frozenset[str] = frozenset()
    clustered: bool = False
    #: The most files of a table with many.
    most_files: int = 10_000
    found: Found = field(default_factory=Found)

    def time(self, group: str, name: str, action: Action, *, warm_up: int = 1, rounds: int | None = None) -> None:
        """Measure on every side: after rounds that only warm up, the median of those that count."""
        counted = rounds or self.rounds if self.rounds else 0
        total = max(counted + warm_up, 1)
        task = self.progress.add_task(f"{group}: {name}", total=total)
        times: dict[str, list[float]] = {side.name: [] for side in self.sides}
        failed: dict[str, str] = {}
        for number in range(total):
            for side in self.sides if number % 2 == 0 else reversed(self.sides):
                if side.name in failed:
                    continue
                try:
                    taken = action(side, number)
                except SparkFailed as error:
                    failed[side.name] = self._cannot(name, side, error)
                    continue
                if number >= warm_up:
                    times[side.name].append(taken)
            self.progress.advance(task)
        self.progress.remove_task(task)
        if not counted:
            return
        taken_by = {side: median(seconds) for side, seconds in times.items() if side not in failed}
        self.found.groups.setdefault(group, {})[name] = taken_by
        shown = "  ".join(f"{side} {seconds:.3f} s" for side, seconds in taken_by.items())
        self.progress.console.print(f"{group}: {name}  {shown}", highlight=False)

    def query(self, group: str, name: str, sql: str, compared: str | None = None) -> None:
        """Measure a query on every side, its rows fetched, after its answers were compared.

        :param compared: the query to compare the answers of; the same if not given.
        """
        self.compare(name, compared or sql)
        self._count_scans(name, sql)
        if self.rounds:
            self.time(group, name, lambda side, number: side.spark.run(sql))

    def compare(self, name: str, sql: str) -> None:
        """Run a query on every side, and note where the answers differ."""
        first: tuple[str, list[Row]] | None = None
        for side in self.sides:
            try:
                rows = side.spark.call("answer", sql=sql)["rows"]
            except SparkFailed as error:
                self._cannot(name, side, error)
                continue
            if first is None:
                first = side.name, rows
            elif (what := difference(first[1], rows)) is not None:
                self.found.differs[name] = f"{first[0]} and {side.name}: {what}"
                self.progress.console.print(f"[red]{name} differs[/red], {self.found.differs[name]}", highlight=False)
        if not self.rounds:
            self.progress.console.print(f"compared: {name}", highlight=False)

    def _count_scans(self, name: str, sql: str) -> None:
        for side in self.sides:
            if side.comet and side.name not in self.found.cannot.get(name, {}):
                found = side.spark.call("native_scans", sql=sql)
                native, every = self.found.native.get(side.name, (0, 0))
                self.found.native[side.name] = [native + found["native"], every + found["all"]]

    def _cannot(self, name: str, side: Side, error: SparkFailed) -> str:
        if "the process ended" in str(error):
            raise error
        text = str(error).partition("\n")[0][:300]
        self.found.cannot.setdefault(name, {})[side.name] = text
        self.progress.console.print(f"[red]{name} cannot run[/red]: {text}", highlight=False)
        return text


def difference(one: Sequence[Row], other: Sequence[Row]) -> str | None:
    """Where two answers differ, their rows in any order; nothing if they are the same. Doubles may differ a little."""
    if len(one) != len(other):
        return f"{len(one)} rows and {len(other)}"
    for left, right in zip(sorted(one, key=_order), sorted(other, key=_order), strict=True):
        if len(left) != len(right) or not all(map(_same, left, right)):
            return f"{left} and {right}"
    return None


def _order(row: Row) -> tuple[list[str], list[float]]:
    """What is exact comes first, so that doubles which differ a little do not reorder rows that differ otherwise."""
    exact = [f"{number} {value}" for number, value in enumerate(row) if not isinstance(value, float)]
    return exact, [value for value in row if isinstance(value, float)]


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE) or (one != one and other != other)
    return bool(one == other)
