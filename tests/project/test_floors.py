"""Imports go down the floors only, inside ``statements/`` too; rooms, members of a room and modules form no circle."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "python" / "headwater"
#: From the ground up. A room imports rooms of lower floors; within a floor, imports may go one way.
FLOORS: tuple[frozenset[str], ...] = (
    frozenset({"__init__", "basics", "hooks"}),
    frozenset({"protocol"}),
    frozenset({"stores"}),
    frozenset({"catalogs"}),
    frozenset({"log", "schema"}),
    frozenset({"definition", "iceberg", "pruning"}),
    frozenset({"change_data", "key_index", "streams", "transaction"}),
    frozenset({"groups"}),
    frozenset({"bridge", "sql"}),
    frozenset({"statements"}),
    frozenset({"changelog", "exceptions", "handler", "inspector", "progress", "tables"}),
    frozenset({"cli", "__main__"}),
)
FLOOR = {room: number for number, floor in enumerate(FLOORS) for room in floor}
#: The same inside ``statements/``: what statements share, then the statements themselves in their order.
STATEMENTS: tuple[frozenset[str], ...] = (
    frozenset({"calls", "column_uses", "expressions", "internal_names", "known_options", "settings"}),
    frozenset({"failures", "notices"}),
    frozenset({"running"}),
    frozenset({"files"}),
    frozenset({"maintenance"}),
    frozenset({"reads"}),
    frozenset({"writes"}),
    frozenset({"dml"}),
    frozenset({"tables"}),
    frozenset({"feeds"}),
    frozenset({"upserts"}),
    frozenset({"parsing", "begin_and_commit", "maintain_table", "write_routes"}),
    frozenset({"registry"}),
)
STATEMENT_FLOOR = {member: number for number, floor in enumerate(STATEMENTS) for member in floor}


def _module(file: Path) -> str:
    return ".".join(("headwater", *file.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")


MODULES = {_module(file): file for file in sorted(PACKAGE.rglob("*.py"))}


def _room(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def _member(module: str) -> str | None:
    """The module or folder of a room that a module is or lies in; None for the room itself."""
    parts = module.split(".")
    return parts[2] if len(parts) > 2 else None


@cache
def _imported(module: str) -> frozenset[str]:
    """The modules of the package that a module imports, those inside functions too."""
    return frozenset(_imports(ast.parse(MODULES[module].read_text(encoding="utf-8"))))


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
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
        for other in _imported(module)
        if FLOOR[_room(other)] > FLOOR[_room(module)] and module != "headwater"
    ]
    assert up == []


def test_rooms_form_no_circle() -> None:
    arrows: dict[str, set[str]] = {}
    for module in MODULES:
        for other in _imported(module):
            if _room(other) != _room(module) and module != "headwater":
                arrows.setdefault(_room(module), set()).add(_room(other))
    assert _circle(arrows) is None


def test_modules_form_no_circle() -> None:
    assert _circle({module: {o for o in _imported(module) if o != module} for module in MODULES}) is None


def test_every_member_of_statements_has_a_floor() -> None:
    members = {_member(module) for module in MODULES if _room(module) == "statements"} - {None}
    assert members == STATEMENT_FLOOR.keys()


def test_imports_inside_statements_go_down() -> None:
    up = [
        f"{module} imports {other}"
        for module, other in _arrows_inside("statements")
        if STATEMENT_FLOOR[_member(other) or ""] > STATEMENT_FLOOR[_member(module) or ""]
    ]
    assert up == []


@pytest.mark.parametrize("room", sorted({_room(module) for module in MODULES if _member(module)}))
def test_members_of_a_room_form_no_circle(room: str) -> None:
    arrows: dict[str, set[str]] = {}
    for module, other in _arrows_inside(room):
        arrows.setdefault(_member(module) or "", set()).add(_member(other) or "")
    assert _circle(arrows) is None


def _arrows_inside(room: str) -> Iterator[tuple[str, str]]:
    """Imports from one member of a room to another."""
    for module in MODULES:
        for other in _imported(module):
            members = _member(module), _member(other)
            if _room(module) == _room(other) == room and None not in members and members[0] != members[1]:
                yield module, other
