"""Imports between the packages of the Scala sources go down, but for the arrows that are listed here.

A statement's rules call the handler through ``bridge``, and ``bridge`` gives the handler the statement's plans, queries
and writes: that is one circle of most topics. The list keeps it from growing, and what leaves it stays out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

JVM = Path(__file__).parents[2] / "jvm"
#: Short names of the packages; ``sql`` and ``execution`` are those that lie in Spark's own.
ROOTS = {
    "headwater.spark": "",
    "org.apache.spark.sql.headwater": "sql",
    "org.apache.spark.sql.execution.headwater": "execution",
}
#: The classes of the topmost package that everything throws.
ERRORS = {"HeadwaterException", "HeadwaterRowException", "HeadwaterThrowable"}
#: From the ground up.
ORDER = (
    "bridge.wire",
    "bridge.messages",
    "errors",
    "shims",
    "layout",
    "sql",
    "execution.bridge",
    "execution.scan",
    "sql.streaming",
    "sql.dml",
    "scan.rows",
    "scan.late",
    "scan.filters",
    "scan.files",
    "scan.tables",
    "scan.pruning",
    "write",
    "sql.scan",
    "sql.catalog",
    "catalog",
    "dml",
    "sql.bridge",
    "sql.write",
    "bridge",
    "changes",
    "streaming",
    "sql.statements",
    "statements",
    "lineage",
    "entry",
)
#: Arrows that run up: package, then what it imports.
UP: dict[str, set[str]] = {
    # What an error extends differs between Sparks; a shim refuses a Spark by such an error.
    "errors": {"bridge", "shims"},
    # Spark 4.0 has no keys: its shim reads them from properties, as JSON.
    "shims": {"bridge"},
    "sql": {"bridge", "scan.tables", "sql.scan", "sql.streaming", "write"},
    "sql.dml": {"dml"},
    "scan.rows": {"bridge", "write"},
    "scan.late": {"bridge"},
    "scan.filters": {"bridge"},
    "scan.files": {"bridge", "write"},
    "scan.tables": {"bridge", "catalog", "changes", "dml", "sql.scan"},
    "scan.pruning": {"bridge", "sql.scan"},
    "write": {"bridge", "catalog", "dml", "sql.bridge", "sql.write"},
    # A table that is created asks the catalog that it is created in, and may be one that a stream has planned.
    "catalog": {"bridge", "entry", "streaming"},
    "dml": {"bridge"},
    "sql.scan": {"bridge"},
    "sql.write": {"bridge"},
    "streaming": {"entry"},
    "statements": {"entry"},
}
FLOOR = {package: floor for floor, package in enumerate(ORDER)}
_IMPORT = re.compile(r"^\s*import ([\w.]+)\.(?:\{([^}]*)\}|(\w+))", re.M)
_WHOLE_NAME = re.compile(
    r"\b((?:headwater\.spark|org\.apache\.spark\.sql(?:\.execution)?\.headwater)(?:\.[a-z]\w*)*)\.(\w+)"
)


def _short(package: str, name: str) -> str | None:
    for root, short in ROOTS.items():
        if package == root or package.startswith(f"{root}."):
            topic = package[len(root) :].strip(".")
            if not topic and not short:
                return "errors" if name in ERRORS else "entry"
            return ".".join(part for part in (short, topic) if part)
    return None


def _uses(text: str) -> Iterator[tuple[str, str]]:
    """Package and name of each class that a source imports or names in full."""
    for package, names, name in _IMPORT.findall(text):
        for each in names.split(",") if names else [name]:
            yield package, each.split("=>")[0].strip()
    code = re.sub(r"^\s*import .*|//.*", "", re.sub(r"/\*.*?\*/", "", text, flags=re.S), flags=re.M)
    yield from _WHOLE_NAME.findall(code)


@cache
def _arrows() -> frozenset[tuple[str, str]]:
    found = set()
    for file in [*(JVM / "src" / "main" / "scala").rglob("*.scala"), *(JVM / "shims").rglob("*.scala")]:
        text = file.read_text("utf-8")
        package = re.match(r"package ([\w.]+)\n", text)
        assert package is not None, file
        own = _short(package[1], file.stem)
        for other in (_short(*use) for use in _uses(text.partition("\n")[2])):
            if own is not None and other not in (None, own):
                found.add((own, other))
    return frozenset((own, other) for own, other in found if other is not None)


def test_every_package_has_its_place() -> None:
    assert {package for arrow in _arrows() for package in arrow} == FLOOR.keys()


def test_imports_go_down_but_for_those_listed() -> None:
    up: dict[str, set[str]] = {}
    for own, other in _arrows():
        if FLOOR[other] > FLOOR[own]:
            up.setdefault(own, set()).add(other)
    assert up == UP
