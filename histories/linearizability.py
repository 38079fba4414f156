"""Whether each table behaves as if its ops took effect one after the other, each between its call and its end.

Owns how a history becomes the histories of single objects that Porcupine checks (``checker/``, a program in Go that is
built at first use), and what is taken of each op.

- Of a table of lists the object is the whole table: queries of several keys are of one version.
- Of a table of rows the objects are its keys.
- Of a transaction, each table is checked by itself; it takes effect on all at once, so each object must be
  linearizable. That all of it is seen or nothing is :mod:`histories.anomalies`'s.
- Of a transaction that is not serializable, what its queries read of a table is an op of its own.
- On a table at ``WriteSerializable`` whose rows are also deleted, queries are left out but for the last ones: only
  writers have a serial order, in which rows that were appended meanwhile may come after a DELETE that did not see them.
- An op without an answer has no end, nor has one of another engine (:attr:`~histories.history.Op.is_foreign`). If
  something was seen of it, it had taken effect by then. If nothing was seen of it until the end, and nothing that it
  wrote may have been deleted, it had no effect.
- Lists only get longer, and each element is written once. So the longest list that was read says what was in it right
  before each of its elements. That is given to Porcupine as if the op had read it, which changes no verdict: without,
  the search would keep every order of appends that no query saw until the end.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from histories.anomalies import items_of, seen_of
from histories.history import History, MicroOp, Op

_SOURCES = Path(__file__).with_name("checker")
_PROGRAM = _SOURCES.parents[1] / "target" / "histories" / "checker"
_BUILD_SECONDS = 600


class Verdict(msgspec.Struct):
    """What Porcupine says of one object; ``unknown`` if the time was not enough."""

    name: str
    verdict: str
    ops: int
    seconds: float


class NoCheckerError(Exception):
    """The program cannot be built; the text says why."""


def program() -> Path:
    """The checker, built if its sources are newer.

    :raises NoCheckerError: there is no Go, or it cannot build it.
    """
    newest = max(file.stat().st_mtime for file in _SOURCES.iterdir())
    if _PROGRAM.exists() and _PROGRAM.stat().st_mtime >= newest:
        return _PROGRAM
    if shutil.which("go") is None:
        raise NoCheckerError(
            "Go is not installed (the command go is not on the PATH), and Porcupine is a library of Go"
        )
    _PROGRAM.parent.mkdir(parents=True, exist_ok=True)
    coming = _PROGRAM.with_name(f"checker-{os.getpid()}")
    command = ["go", "build", "-o", str(coming), "."]
    done = subprocess.run(command, cwd=_SOURCES, capture_output=True, text=True, timeout=_BUILD_SECONDS, check=False)
    if done.returncode:
        raise NoCheckerError(f"go build failed: {done.stderr[-800:]}")
    coming.rename(_PROGRAM)
    return _PROGRAM


def check(history: History, seconds: float = 30.0) -> list[Verdict]:
    """What Porcupine says of each object.

    :param seconds: the most time for one object.
    :raises NoCheckerError: there is no checker.
    """
    given = {"seconds": seconds, "parts": list(parts(history))}
    done = subprocess.run([program()], input=json.dumps(given).encode(), capture_output=True, check=False)
    if done.returncode:
        raise NoCheckerError(f"the checker failed: {done.stderr.decode()[-800:]}")
    return msgspec.json.decode(done.stdout, type=list[Verdict])


def parts(history: History) -> Iterator[dict[str, Any]]:
    """The histories of single objects, as ``checker/main.go`` takes them."""
    objects: dict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
    seen_by, longest = _first_seen(history), _longest(history)
    for op in history.ops:
        if op.outcome == "failed":
            continue
        known = op.outcome == "ok"
        ends = [seen_by[item] for item in _items(op) if item in seen_by]
        if not known and not ends and not _may_be_unseen(history, op):
            continue
        for where, made in _of_op(history, op, longest):
            end = op.end
            if not known or op.is_foreign:
                own = [seen_by[item] for item in _items(op) if item in seen_by and item[0] == where[0]]
                may_go = not known and _may_be_unseen(history, op)
                end = None if may_go else min(own, default=None)
            objects[where].append({"process": op.process, "call": op.call, "return": end, **made})
    for where, made_of in sorted(objects.items()):
        yield {"name": "/".join(where), "model": history.header.tables[where[0]].holds, "ops": made_of}


def _items(op: Op) -> list[tuple[str, int, int]]:
    return [(each[1], each[2], item) for each in op.does for item in items_of(each)]


def _first_seen(history: History) -> dict[tuple[str, int, int], int]:
    """When the first query ended that saw an element or id."""
    found: dict[tuple[str, int, int], int] = {}
    for op in history.ops:
        if op.outcome != "ok" or op.end is None:
            continue
        own = set(_items(op))
        for each in op.does:
            for item in seen_of(each) or ():
                where = (each[1], each[2], item)
                if where not in own:
                    found[where] = min(found.get(where, op.end), op.end)
    return found


def _longest(history: History) -> dict[tuple[str, int], list[int]]:
    """The longest list that a query saw of each key."""
    found: dict[tuple[str, int], list[int]] = {}
    for each in (each for op in history.ops if op.outcome == "ok" for each in op.does):
        if each[0] == "read" and each[3] is not None:
            found[each[1], each[2]] = max(found.get((each[1], each[2]), []), each[3], key=len)
    return found


def _may_be_unseen(history: History, op: Op) -> bool:
    """Whether an op of which nothing was seen may have had an effect: its rows may be deleted again."""
    tables = history.header.tables
    return any(
        tables[each[1]].holds == "rows" and not tables[each[1]].appends_only
        for each in op.does
        if each[0] not in ("read", "scan")
    )


def _of_op(
    history: History, op: Op, longest: dict[tuple[str, int], list[int]]
) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    by_table: dict[str, list[MicroOp]] = defaultdict(list)
    for each in op.does:
        by_table[each[1]].append(each)
    for table, does in by_table.items():
        facts = history.header.tables[table]
        if facts.holds == "lists":
            for made in _of_lists(op, does, longest):
                yield (table,), made
            continue
        hides_queries = facts.level == "WriteSerializable" and not facts.appends_only and not op.is_last
        own = {item for each in does for item in items_of(each)}
        for each in does:
            if each[0] != "scan":
                yield (table, str(each[2])), _of_rows(op, each)
            elif each[3] is not None and not hides_queries:
                rows = [row for row in each[3] if row[0] not in own]
                yield (table, str(each[2])), {"do": "scan", "rows": rows}


def _of_rows(op: Op, each: MicroOp) -> dict[str, Any]:
    match each[0]:
        case "insert":
            return {"do": "insert", "ids": each[3]}
        case "merge" | "replace":
            return {"do": each[0], "ids": [each[3]]}
    return {"do": each[0], "count": each[3]}


def _of_lists(op: Op, does: list[MicroOp], longest: dict[tuple[str, int], list[int]]) -> Iterator[dict[str, Any]]:
    """The queries and writes of one table: one op, but for queries that nothing promises to be still so at the end."""
    appends: dict[str, list[int]] = defaultdict(list)
    reads: dict[str, list[int]] = {}
    for each in does:
        if each[0] == "append":
            appends[str(each[2])].append(each[3])
        elif each[3] is not None:
            own = appends.get(str(each[2]), [])
            reads.setdefault(str(each[2]), [item for item in each[3] if item not in own])
    alone = {key: seen for key, seen in reads.items() if op.isolation == "transaction" and key not in appends}
    if alone:
        yield {"reads": alone}
    rest = {key: seen for key, seen in reads.items() if key not in alone}
    for key, elements in appends.items():
        known = longest.get((does[0][1], int(key)), [])
        if elements[0] in known:
            rest.setdefault(key, known[: known.index(elements[0])])
    if appends or rest:
        yield {"reads": rest, "appends": dict(appends)}
