"""The tables of the page on upgrades, from the record of ``python -m upgrades --record``.

Needs nothing but the record and the names of what was run, so that the site is built without Spark.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from upgrades import jobs, story, together
from upgrades.revisions import REVISIONS, Revision

RECORDED = Path(__file__).with_name("upgrades.json")
PASSES = "passes"
#: What became of a part, by its direction.
DIRECTIONS = ("begun", "up", "back", "again", "today", "down", "both")
#: By heading of a column, the directions that it is about.
_COLUMNS = {
    "today continues what it began": ("begun", "up"),
    "it and today continue that in turn": ("back", "again"),
    "it continues what today began": ("down",),
}
_JOBS = {"killed under it, continued today": ("up",), "killed today, continued under it": ("down",)}
_PAIRS = {"both at once": ("both",)}


def is_failure(earlier: Revision, name: str, direction: str, text: str) -> bool:
    """Whether a result breaks a promise: none is made for what the earlier version does not have, and the known
    conditions stand in the documents.
    """
    lacks = name in earlier.lacks and direction == "down"
    return text != PASSES and not lacks and _known(earlier, name, direction, text) is None


def _known(earlier: Revision, name: str, direction: str, text: str) -> str | None:
    """Why a failure breaks no promise, if it is a known one."""
    why, says = earlier.known.get((name, direction), (None, ""))
    return why if says in text else None


def tables() -> str:
    """For each version that is recorded, what it and today's make of what the other left."""
    recorded = json.loads(RECORDED.read_text("utf-8"))
    return "\n".join(line for earlier in REVISIONS if earlier.date in recorded for line in _of(earlier, recorded))


def _of(earlier: Revision, recorded: Mapping[str, Any]) -> Iterator[str]:
    found = recorded[earlier.date]
    yield from (f"### {found['date']}, commit {found['commit']}", "", f"Has {earlier.what}.", "")
    demo = found["results"].get("demo", {}).get("begun")
    yield (
        f"Run on {found['when']} with commit {found['today']} as today's, {found['processors']} processors, "
        f"{found['gigabytes']} GB. Its own demo {demo or 'was not run'}."
    )
    notes: list[str] = []
    for heading, titles, columns in (
        ("tables and streams", {each.name: each.title for each in story.CHAPTERS}, _COLUMNS),
        ("jobs that were killed", {each.name: each.title for each in jobs.JOBS}, _JOBS),
        ("two versions on one table", {each.name: each.title for each in together.PAIRS}, _PAIRS),
    ):
        yield from ("", f"| {' | '.join([heading, *columns])} |", f"| --- | {' | '.join('---' for _ in columns)} |")
        for name, title in titles.items():
            results = found["results"].get(name, {})
            cells = [_cell(earlier, name, results, directions, notes) for directions in columns.values()]
            yield f"| {title} | {' | '.join(cells)} |"
    yield ""
    yield from (f"{number}. {note}" for number, note in enumerate(notes, 1))
    yield ""


def _cell(
    earlier: Revision, name: str, results: Mapping[str, str], directions: tuple[str, ...], notes: list[str]
) -> str:
    if name in earlier.lacks and directions != ("down",):
        return "not in it"
    found = {direction: results[direction] for direction in directions if direction in results}
    if not found:
        return "not run"
    for direction, text in found.items():
        if text != PASSES:
            if name in earlier.lacks:
                return "not in it"
            note = _known(earlier, name, direction, text) or f"`{text[:200]}`"
            if note not in notes:
                notes.append(note)
            return f"fails ({notes.index(note) + 1})"
    return PASSES
