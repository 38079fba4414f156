"""What ``headwater health`` prints: :mod:`headwater.statements.maintenance.health`, as tables or as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from rich.table import Table

from headwater.cli.locations import reached, snapshot_of
from headwater.cli.printing import console, pairs, print_json, table
from headwater.statements.maintenance.health import SECTIONS, Fact, health, value_text
from headwater.statements.maintenance.layouts import Settings


def show_health(path: str, conditions: Sequence[str], *, as_json: bool) -> None:
    """Print the health of a table.

    :param path: local, or a URI of a store that pyarrow or fsspec reach.
    :raises HeadwaterError: those of :func:`~headwater.cli.locations.reached` and of loading a snapshot.
    """
    with reached(path) as place:
        facts = health(snapshot_of(place, None, None), Settings(), conditions)
    if as_json:
        print_json(as_object(facts))
        return
    out = console()
    for section, some in groupby(facts, lambda fact: fact.section):
        out.print(_table(section, list(some)))


def as_object(facts: Sequence[Fact]) -> dict[str, Any]:
    """Facts as an object with all sections; those about columns or predicates have an object of each."""
    found: dict[str, Any] = {section: {} for section in SECTIONS}
    for fact in facts:
        section = found[fact.section]
        (section if fact.subject is None else section.setdefault(fact.subject, {}))[fact.name] = fact.value
    return found


def _table(section: str, facts: Sequence[Fact]) -> Table:
    if facts[0].subject is None:
        return pairs({fact.name: _shown(fact.value) for fact in facts}, section)
    names = list(dict.fromkeys(fact.name for fact in facts))
    rows = []
    for subject, some in groupby(facts, lambda fact: fact.subject):
        values = {fact.name: fact.value for fact in some}
        rows.append([subject or "", *(_shown(values.get(name)) for name in names)])
    return table(["", *names], rows, section)


def _shown(value: Any) -> Any:
    return value if value is None or isinstance(value, int) else value_text(value)
