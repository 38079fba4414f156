"""Imports go down the floors only, and rooms and modules of a floor form no circle."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "python" / "headwater"
#: From the ground up. A room imports rooms of lower floors; within a floor, imports may go one way.
FLOORS: tuple[frozenset[str], ...] = (
    frozenset({"__init__", "errors", "redaction", "suggestions", "time_zones", "times", "versions"}),
    frozenset({"protocol"}),
    frozenset({"stores"}),
    frozenset({"log", "schema"}),
    frozenset({"pruning"}),
    frozenset({"transaction", "layout", "changes", "streaming"}),
    frozenset({"bridge", "sql"}),
    frozenset({"statements"}),
    frozenset({"changelog", "handler", "launch", "tables"}),
    frozenset({"cli", "__main__"}),
)
FLOOR = {room: number for number, floor in enumerate(FLOORS) for room in floor}


def _module(file: Path) -> str:
    return ".".join(("headwater", *file.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")


MODULES = {_module(file): file for file in sorted(PACKAGE.rglob("*.py"))}


def _room(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def _imported(module: str, *, lazily: bool = False) -> Iterator[str]:
    """The modules of the package that a module imports.

    :param lazily: with those imported inside functions.
    """
    tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
    for node in ast.walk(tree) if lazily else tree.body:
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            for name in node.names:
                full = f"{node.module}.{name.name}"
                if full in MODULES or node.module in MODULES:
                    yield full if full in MODULES else node.module
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name in MODULES)


def _circle(arrows: dict[str, set[str]]) -> list[str] | None:
    """A circle of arrows, None where there is none."""
    done: set[str] = set()

    def visit(node: str, way: list[str]) -> list[str] | None:
        if node in way:
            return [*way[way.index(node) :], node]
        if node in done:
            return None
        for other in sorted(arrows.get(node, ())):
            if (found := visit(other, [*way, node])) is not None:
                return found
        done.add(node)
        return None

    for start in sorted(arrows):
        if (found := visit(start, [])) is not None:
            return found
    return None


def test_every_room_has_a_floor() -> None:
    assert {_room(module) for module in MODULES} <= FLOOR.keys()


def test_imports_go_down() -> None:
    up = [
        f"{module} imports {other}"
        for module in MODULES
        for other in _imported(module, lazily=True)
        if FLOOR[_room(other)] > FLOOR[_room(module)] and module != "headwater"
    ]
    assert up == []


def test_rooms_form_no_circle() -> None:
    arrows: dict[str, set[str]] = {}
    for module in MODULES:
        for other in _imported(module, lazily=True):
            if _room(other) != _room(module) and module != "headwater":
                arrows.setdefault(_room(module), set()).add(_room(other))
    assert _circle(arrows) is None


def test_modules_form_no_circle() -> None:
    assert _circle({module: {o for o in _imported(module, lazily=True) if o != module} for module in MODULES}) is None
