"""The record of a run, and the tables that the documentation's page has from it.

The record keeps, for each engine, the version that was run and when, and each cell. A run of some engines or cases
replaces theirs alone; versions and days are then those of the first run that has left a cell, and of the last.
"""

from __future__ import annotations

import html
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from conformance.cases import CASES, NOT_RUN, Case
from conformance.engines import ENGINES, OURS, Engine
from conformance.verdicts import (
    ABSENT,
    DIRECTIONS,
    FAILS,
    PASSES,
    REFUSES,
    TABLES_READ,
    TABLES_WRITE,
    THEY_ADD,
    THEY_READ,
    Cells,
    Known,
    Verdict,
    known,
)

RECORDED = Path(__file__).with_name("board.json")
_PAIR = re.compile(r'\[\n("\w+"),\n(".*")\n\]')
#: Between the versions or the days of several runs.
_TO = " to "
_MARKS = {PASSES: "✓", ABSENT: "–"}
_HEADINGS = dict(
    zip(
        DIRECTIONS,
        ("they read ours", "they append to ours", "we read theirs", "we append to theirs"),
        strict=True,
    )
)


def recorded(path: Path = RECORDED) -> dict[str, Any] | None:
    """The record, if there is one."""
    return json.loads(path.read_text("utf-8")) if path.is_file() else None


def cells_of(record: Mapping[str, Any]) -> Cells:
    """The cells of a record."""
    return {
        (direction, engine, case): Verdict(verdict) if isinstance(verdict, str) else Verdict(*verdict)
        for direction, engines in record["cells"].items()
        for engine, cases in engines.items()
        for case, verdict in cases.items()
    }


def save(cells: Cells, versions: Mapping[str, str], when: str, machine: str, path: Path = RECORDED) -> None:
    """Put a run into the record; what it did not run stays as it was recorded, unless its case is gone."""
    record = recorded(path) or {"engines": {}, "cells": {}}
    record["machine"] = machine
    for name, version in versions.items():
        run = {"version": version, "when": when}
        if (was := record["engines"].get(name)) and _keeps_some(record, cells, name):
            run = {key: _both(was[key], run[key]) for key in run}  # a date is never that of a run that had not all
        record["engines"][name] = run
    for (direction, engine, case), verdict in cells.items():
        record["cells"].setdefault(direction, {}).setdefault(engine, {})[case] = (
            [verdict.kind, verdict.text] if verdict.text else verdict.kind
        )
    for direction in DIRECTIONS:
        for cases in record["cells"].get(direction, {}).values():
            for gone in cases.keys() - CASES.keys():
                del cases[gone]
    text = json.dumps(record, indent=0, ensure_ascii=False, sort_keys=True)
    path.write_text(_PAIR.sub(r"[\1, \2]", text) + "\n", "utf-8")  # a cell is a line


def _keeps_some(record: Mapping[str, Any], cells: Cells, name: str) -> bool:
    """Whether cells of an engine, or of ours beside any, stay as an earlier run recorded them."""
    return any(
        key not in cells
        for key in cells_of(record)
        if name in (key[1], OURS) and (key[0] not in DIRECTIONS or key[2] in CASES)
    )


def _both(earlier: str, later: str) -> str:
    first = earlier.partition(_TO)[0]
    return first if first == later else f"{first}{_TO}{later}"


def tables(part: str, path: Path = RECORDED) -> str:
    """A part of the page, as Markdown.

    :param part: ``engines``, ``failures``, ``tables``, ``untested`` or a direction.
    :raises KeyError: there is no such part.
    """
    record = recorded(path)
    if record is None:
        return "No run is recorded yet."
    makers: dict[str, Callable[[Mapping[str, Any]], Iterator[str]]] = {
        "engines": _engines,
        "failures": lambda record: _failures(known()),
        "tables": _acceptance,
        "untested": lambda record: _untested(),
        **{direction: lambda record, d=direction: _direction(d, record) for direction in DIRECTIONS},  # type: ignore[misc]
    }
    return "\n".join(makers[part](record))


def _run(record: Mapping[str, Any]) -> list[Engine]:
    """The engines that the record has, in the board's order."""
    return [engine for name, engine in ENGINES.items() if name in record["engines"] and name != OURS]


def _engines(record: Mapping[str, Any]) -> Iterator[str]:
    """An engine per line: what was run, and how many cells pass, refuse and fail in each direction."""
    cells = cells_of(record)
    yield _line(["engine", "run", *(_HEADINGS[direction] for direction in DIRECTIONS)])
    yield _line(["---", "---", *("---" for _ in DIRECTIONS)])
    for engine in _run(record):
        run = record["engines"][engine.name]
        counts = []
        for direction in DIRECTIONS:
            kinds = [verdict.kind for key, verdict in cells.items() if key[:2] == (direction, engine.name)]
            passes, refuses, fails = (kinds.count(kind) for kind in (PASSES, REFUSES, FAILS))
            text = f"{passes} ✓, {refuses} refuse, {fails} fail" if passes + refuses + fails else "–"
            ours = ENGINES[OURS].reads
            asked = [case for case in CASES.values() if direction in (THEY_READ, THEY_ADD) or case.reads in ours]
            left = len(asked) - len(kinds)
            counts.append(f"{text}, {left} not run" if kinds and left else text if kinds else "not run")
        yield _line([engine.title, f"{run['version']}, {run['when']}", *counts])
    ours = record["engines"][OURS]
    yield ""
    yield f"Headwater ran on {ours['version']}, {ours['when']}, on {record['machine']}."


def _direction(direction: str, record: Mapping[str, Any]) -> Iterator[str]:
    """A table per group of cases, and what the engines said that refused."""
    cells = {key[1:]: verdict for key, verdict in cells_of(record).items() if key[0] == direction}
    engines = [
        engine
        for engine in _run(record)
        if any(cells.get((engine.name, case), Verdict(ABSENT)).kind != ABSENT for case in CASES)
    ]
    numbers = {
        (engine.name, case): number
        for number, each in enumerate(known(), 1)
        for engine in engines
        for case in CASES
        if each.has(direction, engine.name, case)
    }
    groups: dict[str, list[Case]] = defaultdict(list)
    for case in CASES.values():
        if any(cells.get((engine.name, case.name), Verdict(ABSENT)).kind != ABSENT for engine in engines):
            groups[case.group].append(case)
    for group, cases in groups.items():
        yield from (f'??? note "{group[0].upper()}{group[1:]}: {len(cases)} tables"', "")
        yield "    " + _line(["case", *(_short(engine) for engine in engines)])
        yield "    " + _line(["---", *(":-:" for _ in engines)])
        for case in cases:
            marks = (
                _mark(cells.get((engine.name, case.name)), numbers.get((engine.name, case.name))) for engine in engines
            )
            yield "    " + _line([case.name, *marks])
        yield ""
    yield from _refusals(cells, engines)


def _mark(verdict: Verdict | None, number: int | None) -> str:
    if verdict is None:
        return _MARKS[ABSENT]
    if verdict.kind == FAILS:
        return f"[✗ {number}](#failure-{number})" if number else "✗"
    if verdict.kind == REFUSES or verdict.text:
        shown = _MARKS.get(verdict.kind, verdict.kind)
        return f'<abbr title="{html.escape(verdict.text, quote=True).replace("|", "&#124;")}">{shown}</abbr>'
    return _MARKS[verdict.kind]


def _refusals(cells: Mapping[tuple[str, str], Verdict], engines: list[Engine]) -> Iterator[str]:
    refused: dict[tuple[Engine, str], list[str]] = defaultdict(list)
    for engine in engines:
        for case in CASES:
            verdict = cells.get((engine.name, case))
            if verdict is not None and verdict.kind == REFUSES:
                refused[engine, verdict.text].append(case)
    if not refused:
        return
    yield from (f'??? note "What the engines say that refuse: {len(refused)} texts"', "")
    yield "    " + _line(["engine", "what it says", "cases"])
    yield "    " + _line(["---", "---", "---"])
    for (engine, text), cases in refused.items():
        yield "    " + _line([_short(engine), _code(text), ", ".join(cases)])
    yield ""


def _failures(listed: list[Known]) -> Iterator[str]:
    """The known failures, by the numbers that the cells have."""
    if not listed:
        yield "None."
        return
    yield _line(["number", "engine", "cells", "whose fault", "why"])
    yield _line(["--:", "---", "---", "---", "---"])
    for number, each in enumerate(listed, 1):
        places = dict.fromkeys(direction for direction, _ in sorted(each.cells))
        where = "; ".join(
            f"{_HEADINGS.get(place, place)}: {', '.join(case for at, case in sorted(each.cells) if at == place)}"
            for place in places
        )
        anchor = f'<span id="failure-{number}">{number}</span>'
        yield _line([anchor, ", ".join(ENGINES[name].title for name in each.engines), where, each.fault, each.why])


def _acceptance(record: Mapping[str, Any]) -> Iterator[str]:
    """How many acceptance tables pass in each direction, and which do not, and why."""
    cells = cells_of(record)
    listed = known()
    if not any(direction in (TABLES_READ, TABLES_WRITE) for direction, *_ in cells):
        yield "No run of them is recorded yet."
        return
    yield _line(["direction", "tables", "✓", "refused", "not judged", "fail"])
    yield _line(["---", "--:", "--:", "--:", "--:", "--:"])
    for direction in (TABLES_READ, TABLES_WRITE):
        kinds = [verdict.kind for key, verdict in cells.items() if key[0] == direction]
        counts = [kinds.count(kind) for kind in (PASSES, REFUSES, ABSENT, FAILS)]
        yield _line([direction, *map(str, (len(kinds), *counts))])
    yield from ("", '??? note "All that do not pass"', "")
    yield "    " + _line(["direction", "table", "what happens"])
    yield "    " + _line(["---", "---", "---"])
    for (direction, engine, table), verdict in sorted(cells.items()):
        if direction in (TABLES_READ, TABLES_WRITE) and verdict.text:
            numbers = [number for number, each in enumerate(listed, 1) if each.has(direction, engine, table)]
            mark = "".join(f"[✗ {number}](#failure-{number}): " for number in numbers)
            yield "    " + _line([direction, f"`{table}`", f"{mark}{verdict.kind}: {_code(verdict.text)}"])
    yield ""


def _untested() -> Iterator[str]:
    for feature, why in NOT_RUN.items():
        yield f"- `{feature}`: {why}"


def _code(text: str) -> str:
    return f"<code>{html.escape(text).replace('|', '&#124;')}</code>"


def _short(engine: Engine) -> str:
    return engine.title.partition(" (")[0]


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
