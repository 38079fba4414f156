"""What ``headwater health`` prints: the facts of :mod:`headwater.statements.maintain.health`, as tables or as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from headwater.errors import HeadwaterError
from headwater.log.snapshot import load_snapshot
from headwater.statements.maintain.health import SECTIONS, Fact, health, value_text
from headwater.statements.maintain.layouts import Settings
from headwater.stores import store_for
from headwater.stores.interface import SCHEME


def show_health(path: str, conditions: Sequence[str], *, as_json: bool) -> None:
    """Print the health of a table.

    :param path: on the local file system.
    :raises HeadwaterError: ``HEADWATER_HEALTH_NEEDS_SPARK`` for a path elsewhere; those of loading a snapshot.
    """
    scheme = SCHEME.match(path)
    if scheme is not None and scheme.group(1).lower() != "file":
        raise HeadwaterError("HEADWATER_HEALTH_NEEDS_SPARK", {"path": path, "scheme": scheme.group(1)})
    store, table_path = store_for(path)
    facts = health(load_snapshot(table_path, store), Settings(), conditions)
    if as_json:
        print(json.dumps(as_object(facts), indent=2, ensure_ascii=False))
        return
    console = Console()
    for section, some in groupby(facts, lambda fact: fact.section):
        console.print(_table(section, list(some)))


def as_object(facts: Sequence[Fact]) -> dict[str, Any]:
    """Facts as an object with all sections; those about columns or predicates have an object of each."""
    found: dict[str, Any] = {section: {} for section in SECTIONS}
    for fact in facts:
        section = found[fact.section]
        (section if fact.subject is None else section.setdefault(fact.subject, {}))[fact.name] = fact.value
    return found


def _table(section: str, facts: Sequence[Fact]) -> Table:
    table = Table(title=section, title_justify="left", show_header=facts[0].subject is not None)
    if facts[0].subject is None:
        table.add_column(overflow="fold")
        table.add_column(overflow="fold")
        for fact in facts:
            table.add_row(escape(fact.name), _shown(fact.value))
        return table
    names = list(dict.fromkeys(fact.name for fact in facts))
    table.add_column("", overflow="fold")
    for name in names:
        table.add_column(name, overflow="fold")
    for subject, some in groupby(facts, lambda fact: fact.subject):
        values = {fact.name: fact.value for fact in some}
        table.add_row(escape(subject or ""), *[_shown(values.get(name)) for name in names])
    return table


def _shown(value: Any) -> str:
    if value is None:
        return "[dim]none[/dim]"
    return f"{value:,}" if isinstance(value, int) else escape(value_text(value) or "")
