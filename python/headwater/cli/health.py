"""What ``headwater health`` prints: :mod:`headwater.statements.maintenance.health`, as tables or as JSON."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from rich.table import Table
from rich.text import Text

from headwater.basics.amounts import size_text
from headwater.basics.printable import printable
from headwater.cli.locations import reached, snapshot_of
from headwater.cli.printing import console, pairs, print_json, table
from headwater.statements.maintenance.findings import Finding, by_path, findings
from headwater.statements.maintenance.health import Fact, by_section, health, value_text
from headwater.statements.maintenance.layouts import Settings
from headwater.statements.maintenance.planning import ACTIONS

_DAY = 24


_STYLE = {"warning": "yellow", "note": "dim"}


def show_health(path: str, conditions: Sequence[str], *, as_json: bool) -> list[Finding]:
    """Print the health of a table: findings first, then the figures. Returns the findings.

    :param path: local, or a URI of a store that pyarrow or fsspec reach.
    :raises HeadwaterError: those of :func:`~headwater.cli.locations.reached`, of loading a snapshot and of conditions.
    """
    with reached(path) as place:
        snapshot = snapshot_of(place, None, None)
        facts = health(snapshot, Settings.of_table(snapshot.definition), conditions)
        sections = by_section(facts)
        found = findings(sections, by_path(place.shown))
    if as_json:
        print_json({"findings": [each._asdict() for each in found], **sections})
        return found
    out = console()
    for each in found:
        out.print(Text.assemble((f"{each.level}: ", _STYLE[each.level]), printable(each.text)))
    if any(each.name in ACTIONS for each in found):
        command = f"headwater maintain {printable(shlex.quote(path))}"
        out.print(Text(f"{command} does it, in a budget of time; --dry-run shows how."))
    if not found:
        out.print(Text("Nothing to do.", style="green"))
    for section, some in groupby(facts, lambda fact: fact.section):
        out.print(_table(section, list(some)))
    return found


def _table(section: str, facts: Sequence[Fact]) -> Table:
    if facts[0].subject is None:
        return pairs({fact.name: _shown(fact.name, fact.value) for fact in facts}, section)
    names = list(dict.fromkeys(fact.name for fact in facts))
    rows = []
    for subject, some in groupby(facts, lambda fact: fact.subject):
        values = {fact.name: fact.value for fact in some}
        rows.append([subject or "", *(_shown(name, values.get(name)) for name in names)])
    return table(["", *names], rows, section)


def _shown(name: str, value: Any) -> Any:
    """A figure for people: sizes and times have units, which JSON leaves out."""
    if value is not None and (name == "smallerThan" or name.lower().endswith("bytes") or name.startswith("bytes")):
        return size_text(value)
    if value is not None and name.lower().startswith(("hours", "retentionhours")):
        return f"{value:.1f} hours" if value < _DAY else f"{value / _DAY:.1f} days"
    return value if value is None or isinstance(value, int) else value_text(value)
