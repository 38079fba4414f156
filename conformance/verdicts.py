"""What a cell of the board says, and which failures are known.

A reader *passes* if it finds exactly the rows of the case. It *refuses* if it raises an error that says what it does
not support; nobody is at fault then. Anything else *fails*: other rows, an error that says nothing of the kind, a
process that ends. A failure must stand in ``known.json`` with whose fault it is and why, and what stands there must
fail.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from conformance.rows import Rows

#: What a cell says. ``absent``: the engine has no such statement, was not asked, or does without what it is about.
PASSES, REFUSES, FAILS, ABSENT = "passes", "refuses", "fails", "absent"

#: The directions: who made the table, and what is done then.
THEY_READ, THEY_ADD, WE_READ, WE_ADD = "they read ours", "they add to ours", "we read theirs", "we add to theirs"
DIRECTIONS = (THEY_READ, THEY_ADD, WE_READ, WE_ADD)
#: What Headwater does with the acceptance tables of other projects; the engine is Headwater.
TABLES_READ, TABLES_WRITE = "we read acceptance tables", "we append to acceptance tables"

KNOWN = Path(__file__).with_name("known.json")
_LONGEST = 300
#: How an error says that something is not supported.
_SAYS_SO = re.compile(
    r"unsupported|not (?:yet |currently |a )?(?:be )?(?:supported|implemented)|n[o']t support|no support|cannot support"
    r"|unimplemented|unknown (?:reader|writer|table)? ?feature|invalid_protocol_version|not_implemented"
    r"|parse_syntax_error|unknown type|error parsing property|does not (?:yet )?know|not allowed"
    r"|requires? (?:minimum )?(?:reader|writer)"
    r"|features? .{0,80}not enabled",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Verdict:
    """What one cell says; ``text`` is the error or the difference, and empty if it passes."""

    kind: str
    text: str = ""


def of_rows(expected: Rows, found: Rows) -> Verdict:
    """Compare the rows that were read with those of the case."""
    if _text(expected) == _text(found):
        return Verdict(PASSES)
    if expected["columns"] != found["columns"]:
        return Verdict(FAILS, f"columns {found['columns']} for {expected['columns']}")
    missing = _without(expected["rows"], found["rows"])
    extra = _without(found["rows"], expected["rows"])
    return Verdict(
        FAILS,
        _short(
            f"{len(missing)} of {len(expected['rows'])} rows missing, {len(extra)} that are not there; "
            f"the first: {missing[:1]}, {extra[:1]}"
        ),
    )


def _text(rows: Rows) -> str:
    """Rows as JSON has them: true is not 1 there, as it is in Python."""
    return json.dumps(rows, sort_keys=True)


def of_error(text: str) -> Verdict:
    """What an error says of the engine that raised it."""
    said = _sentence(text)
    return Verdict(REFUSES if _SAYS_SO.search(text) else FAILS, said)


def _without(some: Iterable[Any], others: Iterable[Any]) -> list[Any]:
    """The rows of the first that the second has not, each as often as it is missing."""
    as_text = partial(json.dumps, sort_keys=True)
    missing = Counter(map(as_text, some)) - Counter(map(as_text, others))
    return [json.loads(row) for row in missing.elements()]


def _sentence(text: str) -> str:
    """An error's text without stack traces, colours and paths, on one line."""
    text = re.sub(r"\x1b\[[0-9;]*m|\bo\d+\.", "", text)
    first, *causes = text.split("Caused by: ")
    lines = [line.strip() for line in (f"{first[:100]}… {causes[-1]}" if causes else text).splitlines() if line.strip()]
    kept = [line for line in lines if not line.startswith(("at ", "File ", "JVM stacktrace"))]
    joined = re.sub(r"/[^\s'\"`]*/", "…/", " ".join(kept))
    found = _SAYS_SO.search(joined)
    if found and found.start() > _LONGEST - 60:
        joined = f"… {joined[max(found.start() - 100, 0) :]}"
    return _short(joined)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


@dataclass(frozen=True)
class Known:
    """Known failures of engines: whose ``fault`` they are, ``why``, and the cells, as direction and case."""

    engines: tuple[str, ...]
    cells: frozenset[tuple[str, str]]
    fault: str
    why: str

    def has(self, direction: str, engine: str, case: str) -> bool:
        """Whether a cell is one of them."""
        return engine in self.engines and (direction, case) in self.cells


def known(path: Path = KNOWN) -> list[Known]:
    """The known failures."""
    return [
        Known(
            tuple(each["engine"]) if isinstance(each["engine"], list) else (each["engine"],),
            frozenset((direction, case) for direction, cases in each["cells"].items() for case in cases),
            each["fault"],
            each["why"],
        )
        for each in json.loads(path.read_text("utf-8"))
    ]


#: Cells by direction, engine and case.
Cells = Mapping[tuple[str, str, str], Verdict]
_CONDITION = re.compile(r"^\w+: \[\w+\]")


def way_of(text: str) -> str:
    """How a cell fails, of its text: what stays from run to run, so that another failure is not taken for a known one.
    Of rows, how many are wrong; of an error, its class, and its condition if it has one.
    """
    condition = _CONDITION.match(text)
    return condition[0] if condition else re.split("[;:]", text, maxsplit=1)[0]


def complaints(cells: Cells, listed: Iterable[Known], before: Cells | None = None) -> list[str]:
    """Why a run does not hold what the board promises; empty if it does.

    :param before: the cells of the recorded run; one that passed there must not refuse now, and one that failed must
        not fail in another way: why it fails was said of the failure that is recorded.
    """
    found = []
    listed = list(listed)
    for (direction, engine, case), verdict in cells.items():
        is_known = any(each.has(direction, engine, case) for each in listed)
        where = f"{direction}, {engine}, {case}"
        was = before.get((direction, engine, case)) if before else None
        if verdict.kind == FAILS and not is_known:
            found.append(f"{where} fails: {verdict.text}")
        elif verdict.kind == FAILS and was and was.kind == FAILS and way_of(was.text) != way_of(verdict.text):
            found.append(f"{where} fails in another way than in the recorded run, {was.text!r}: {verdict.text}")
        elif verdict.kind != FAILS and is_known:
            found.append(f"{where} {verdict.kind}, but stands in {KNOWN.name} as a failure")
        elif verdict.kind in (REFUSES, ABSENT) and was == Verdict(PASSES):
            found.append(f"{where} passed in the recorded run, and now {verdict.kind}: {verdict.text}")
    return found
