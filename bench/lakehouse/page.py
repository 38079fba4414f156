"""The tables of the page on benchmarks, from the record of a run: ratios of medians, and their geometric mean.

Needs nothing but the record, so that the site is built without Spark.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp, log
from pathlib import Path
from typing import Any

from bench.sparks import OURS

RECORDED = Path(__file__).resolve().parents[1] / "lakehouse.json"
#: A group with more lines than this is shown as its summary, and each line on demand.
_LONG = 25
#: A ratio above which the other side is called faster; below is noise.
_CLEARLY = 1.1
_HEADINGS = {
    "load": "load",
    "queries": "query",
    "before": "query, before",
    "after": "query, after",
    "merge": "MERGE",
    "read": "read",
}

#: Seconds by side.
Times = dict[str, float]


@dataclass(frozen=True)
class Summary:
    """Of what both sides ran: our time divided by the other's, and how often it is at most as long."""

    mean: float
    total: float
    not_slower: int
    of: int


def ratio(times: Times, other: str) -> float | None:
    """Our time divided by another side's; none if one of them has none."""
    return times[OURS] / times[other] if OURS in times and other in times else None


def summary(group: dict[str, Times], other: str) -> Summary | None:
    """The geometric mean of a group's ratios, and the ratio of the sums; none if the other side ran nothing of it."""
    both = [times for times in group.values() if ratio(times, other) is not None]
    if not both:
        return None
    ratios = [times[OURS] / times[other] for times in both]
    return Summary(
        exp(sum(map(log, ratios)) / len(ratios)),
        sum(times[OURS] for times in both) / sum(times[other] for times in both),
        sum(each <= 1 for each in ratios),
        len(ratios),
    )


def others(record: dict[str, Any]) -> list[str]:
    """The sides of a workload's record that ours is compared with."""
    return [side for side in record["sides"] if side != OURS]


def tables(workload: str, path: Path = RECORDED) -> str:
    """A workload's part of the page, as Markdown."""
    record = json.loads(path.read_text("utf-8")).get(workload)
    if record is None:
        return "No run of it is recorded yet."
    parts = [_opening(record)]
    for name, group in record["groups"].items():
        parts.append("\n".join(_group(_HEADINGS.get(name, name), group, record)))
    parts.extend(_behind(record))
    parts.extend(_exceptions(record))
    return "\n\n".join(parts)


def _opening(record: dict[str, Any]) -> str:
    sides = ", ".join(record["sides"].values())
    return (
        f"{sides}; Spark {record['spark']}; scale {record['scale']:g}, medians of {record['rounds']} rounds, "
        f"{record['when']}, on {record['processors']} processors and {record['gigabytes']} GB "
        f"(load {record['load']} when it began). Below 1, Headwater is faster."
    )


def _group(heading: str, group: dict[str, Times], record: dict[str, Any]) -> Iterator[str]:
    compared = others(record)
    titles = [f"÷ {record['sides'][side]}" for side in compared]
    long = len(group) > _LONG
    yield from _header([f"{heading}, {len(group)} in all" if long else heading, *titles])
    if not long:
        yield from _lines(group, compared)
    found = [summary(group, side) for side in compared]
    yield _line(["**geometric mean**", *(f"**{each.mean:.2f}**" if each else "" for each in found)])
    yield _line(["total time", *(f"{each.total:.2f}" if each else "" for each in found)])
    yield _line(["not slower", *(f"{each.not_slower} of {each.of}" if each else "" for each in found)])
    if long:
        yield from ("", f'??? note "Each {heading}"', "")
        yield from (f"    {line}" for line in (*_header([heading, *titles]), *_lines(group, compared)))


def _lines(group: dict[str, Times], compared: Sequence[str]) -> Iterator[str]:
    for name, times in group.items():
        ratios = (ratio(times, side) for side in compared)
        yield _line([name, *("cannot" if each is None else f"{each:.2f}" for each in ratios)])


def _header(cells: Sequence[str]) -> Iterator[str]:
    yield _line(cells)
    yield _line(["---", *("--:" for _ in cells[1:])])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _behind(record: dict[str, Any]) -> Iterator[str]:
    """Where another side is clearly faster, the worst first."""
    for side in others(record):
        ratios = [
            (found, name)
            for group in record["groups"].values()
            for name, times in group.items()
            if (found := ratio(times, side)) is not None and found > _CLEARLY
        ]
        names = ", ".join(f"{name} ({found:.2f})" for found, name in sorted(ratios, reverse=True))
        yield f"Behind {record['sides'][side]} by more than a tenth: {names or 'nothing'}."


def _exceptions(record: dict[str, Any]) -> Iterator[str]:
    for name, errors in record["cannot"].items():
        for side, text in errors.items():
            yield f"{record['sides'][side]} cannot run {name}: `{text}`"
    for name, text in record["differs"].items():
        yield f"The answers of {name} differ, {text}"
