"""The tables of the pages on benchmarks and accelerators, from the record of a run: medians, ratios, and their mean.

Also the bars of the front page: the time of a whole workload on each side. Needs nothing but the record, so that the
site is built without Spark.
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
LONGEVITY = RECORDED.with_name("longevity.json")
COMET = RECORDED.with_name("comet.json")
#: A group with more lines than this is shown as its summary, and each line on demand.
_LONG = 25
#: A ratio above which the other side is called faster; below is noise.
_CLEARLY = 1.1
#: The workloads, and the sections of the page that have them.
_SECTIONS = {
    "tpcds": ("TPC-DS", "tpc-ds"),
    "tpch": ("TPC-H", "tpc-h"),
    "refresh": ("Refreshes", "refreshes"),
    "merge": ("Merges", "merges"),
    "files": ("Many files", "many-files"),
}
_HEADINGS = {
    "load": "load",
    "queries": "query",
    "before": "query, before",
    "after": "query, after",
    "merge": "MERGE",
    "read": "read",
}

#: The groups that the front page shows: the workload, its group, what was run, and the section of the page on
#: benchmarks that has all of it. ``{}`` is the number of statements.
_FRONT = (
    ("tpcds", "queries", "TPC-DS, {} queries", "tpc-ds"),
    ("tpch", "queries", "TPC-H, {} queries", "tpc-h"),
    ("tpcds", "load", "TPC-DS, {} tables loaded", "tpc-ds"),
    ("refresh", "merge", "TPC-DS refreshed, {} MERGEs", "refreshes"),
    ("merge", "merge", "One table of a million rows, {} MERGEs", "merges"),
)
_PLURALS = {
    "load": "loads",
    "queries": "queries",
    "before": "queries before the MERGEs",
    "after": "queries after the MERGEs",
    "merge": "MERGEs",
    "read": "reads",
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
    record = json.loads(path.read_text("utf-8")).get(workload) if path.is_file() else None
    if record is None:
        return "No run of it is recorded yet."
    parts = [_opening(record)]
    for name, group in record["groups"].items():
        parts.append("\n".join(_group(_HEADINGS.get(name, name), group, record)))
    parts.extend(
        f"{record['sides'][side]}: Comet did {native} of {every} scans of files."
        for side, (native, every) in record.get("native", {}).items()
    )
    parts.extend(_behind(record))
    parts.extend(_exceptions(record))
    return "\n\n".join(parts)


def comet(workload: str) -> str:
    """A workload's part of the page on accelerators, as Markdown."""
    return tables(workload, COMET)


def results(path: Path = RECORDED) -> str:
    """All groups of all workloads in a line each, as Markdown: sums of medians, and means of ratios."""
    found = {name: record for name, record in json.loads(path.read_text("utf-8")).items() if name in _SECTIONS}
    compared = dict.fromkeys(side for record in found.values() for side in others(record))
    names = {side: title for record in found.values() for side, title in record["sides"].items()}
    lines = [
        *_header(["statements", names[OURS], *(cell for side in compared for cell in (names[side], "mean ratio"))])
    ]
    for workload, record in found.items():
        title, anchor = _SECTIONS[workload]
        for name, group in record["groups"].items():
            ran = [times for times in group.values() if all(side in times for side in record["sides"])]
            ran_what = f"{len(group)} {_PLURALS.get(name, f'queries of {name}')}"
            cells = [f"[{title}](#{anchor}): {ran_what}", _seconds(ran, OURS)]
            for side in compared:
                mean = summary(group, side)
                cells += [_seconds(ran, side), _bar(mean.mean)] if mean else ["", ""]
            lines.append(_line(cells))
    return "\n\n".join(["\n".join(lines), " ".join(dict.fromkeys(_conditions(record) for record in found.values()))])


def longevity(path: Path = LONGEVITY) -> str:
    """The record of ``bench.longevity``, as Markdown: each phase at the beginning and at the end, and the memory."""
    if not path.is_file():
        return "No run of it is recorded yet."
    record = json.loads(path.read_text("utf-8"))
    phases = list(next(iter(record["variants"].values()))["first"])
    lines = [*_header(["", *phases, "degradation", "driver", "handler"])]
    for name, found in record["variants"].items():
        times = (f"{found['first'][phase]:.1f} → {found['last'][phase]:.1f} s" for phase in phases)
        rates = " / ".join(f"{found['degradation'][phase]:+.3f}" for phase in phases)
        memory = (f"{first} → {last} MiB" for first, last in found["memory"].values())
        lines.append(_line([name, *times, rates, *memory]))
    conditions = (
        f"{record['cycles']} cycles of {record['rows']:,} rows in {record['loads']} INSERTs, "
        f"{record['minutes']} minutes on {record['when']}, Spark {record['spark']}, {record['processors']} processors "
        f"(load {record['load']} when it began). Medians of the first and of the last quarter of the cycles."
    )
    return "\n\n".join([conditions, "\n".join(lines)])


def _seconds(ran: Sequence[Times], side: str) -> str:
    return f"{sum(times[side] for times in ran):.1f} s"


def _bar(ratio: float) -> str:
    """A ratio as a figure, and as a bar with a mark where both sides take the same time."""
    return f'<span class="hw-ratio" style="--hw-ratio: {ratio:.2f}"></span> {ratio:.2f}'


def race(path: Path = RECORDED) -> str:
    """The bars of the front page, as Markdown: how long each side took for all statements of a group."""
    found = json.loads(path.read_text("utf-8"))
    shown = [each for each in _FRONT if each[0] in found]
    lanes = [_lanes(found[workload], group, title, anchor) for workload, group, title, anchor in shown]
    conditions = dict.fromkeys(_conditions(found[workload]) for workload, *_ in shown)
    return "\n\n".join(
        [
            *lanes,
            f"Each bar is the sum of the medians of its statements. {' '.join(conditions)} Parquet has no MERGE. These "
            "tables are small, which favours the side that does least once per statement. [Benchmarks](benchmarks.md) "
            "has the method and every statement, including those in which Headwater is slower.",
        ]
    )


def _lanes(record: dict[str, Any], group: str, title: str, anchor: str) -> str:
    """One group: a bar for each side that ran all of its statements, as long as the time that it took."""
    times = list(record["groups"][group].values())
    sums = {side: sum(each[side] for each in times) for side in record["sides"] if all(side in each for each in times)}
    longest = max(sums.values())
    lines = [
        f'<div class="hw-lane hw-{side}"><span>{record["sides"][side]}</span>'
        f'<i style="--hw-share: {seconds / longest:.3f}"></i><b>{seconds:.1f} s</b></div>'
        for side, seconds in sums.items()
    ]
    heading = f"[{title.format(len(times))}](benchmarks.md#{anchor})"
    return "\n".join(['<div class="hw-race" markdown>', "", heading, "", *lines, "", "</div>"])


def _conditions(record: dict[str, Any]) -> str:
    """What was run, when and on what, as a sentence."""
    return (
        f"Scale {record['scale']:g}, {record['rounds']} rounds on {record['when']}, Spark {record['spark']}, "
        f"{record['processors']} processors and {record['gigabytes']} GB."
    )


def _opening(record: dict[str, Any]) -> str:
    sides = ", ".join(record["sides"].values())
    comet = f" with Comet {record['comet']}" if "comet" in record else ""
    return (
        f"{sides}; Spark {record['spark']}{comet}; scale {record['scale']:g}, medians of {record['rounds']} rounds, "
        f"{record['when']}, on {record['processors']} processors and {record['gigabytes']} GB "
        f"(load {record['load']} when it began). A ratio is Headwater's time divided by the other's: below 1, "
        "Headwater is faster. The bars have a mark at 1."
    )


def _group(heading: str, group: dict[str, Times], record: dict[str, Any]) -> Iterator[str]:
    compared, sides = others(record), record["sides"]
    titles = [sides[OURS], *(cell for side in compared for cell in (sides[side], "ratio"))]
    long = len(group) > _LONG
    yield from _header([f"{heading}, {len(group)} in all" if long else heading, *titles])
    if not long:
        yield from _lines(group, compared)
    found = [summary(group, side) for side in compared]
    ours = f"{sum(times.get(OURS, 0) for times in group.values()):.2f} s"
    sums = [f"{sum(times.get(side, 0) for times in group.values()):.2f} s" for side in compared]
    ratios = [each and f"{each.total:.2f}" or "" for each in found]
    yield _line(["total time", ours, *(cell for pair in zip(sums, ratios, strict=True) for cell in pair)])
    yield _line(["**geometric mean**", "", *(cell for each in found for cell in ("", _bar(each.mean) if each else ""))])
    slower = [f"{each.not_slower} of {each.of}" if each else "" for each in found]
    yield _line(["not slower", "", *(cell for text in slower for cell in ("", text))])
    if long:
        yield from ("", f'??? note "Each {heading}"', "")
        yield from (f"    {line}" for line in (*_header([heading, *titles]), *_lines(group, compared)))


def _lines(group: dict[str, Times], compared: Sequence[str]) -> Iterator[str]:
    for name, times in group.items():
        cells = [name, _median(times, OURS)]
        for side in compared:
            found = ratio(times, side)
            cells += [_median(times, side), "" if found is None else _bar(found)]
        yield _line(cells)


def _median(times: Times, side: str) -> str:
    return f"{times[side]:.2f} s" if side in times else "cannot"


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
