"""A script run by an engine, each statement held to the model: the rows after it, the row it returns, its changes.

An engine is anything with ``sql(text)`` that gives rows in plain form and raises :class:`Refused` for an error. What
goes wrong is an ``AssertionError`` that ends with the script as SQL.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from support.dml.expressions import Row, quoted
from support.dml.model import Outcome, Statement, Table
from support.dml.scripts import Script, name_of
from support.plain import plain

Multiset = Counter[str]


class Refused(Exception):
    """A statement's error; ``condition`` is its name."""

    def __init__(self, condition: str, text: str) -> None:
        super().__init__(text)
        self.condition = condition


class Engine(Protocol):
    def sql(self, text: str) -> list[Any]: ...


def multiset(rows: Iterable[Any]) -> Multiset:
    """Rows in plain form without their order."""
    return Counter(repr(plain(row)) for row in rows)


def as_list(row: Row, table: Table) -> list[Any]:
    return [row[name] for name in table.columns]


def version_of(path: Path) -> int:
    """The last commit in the log."""
    return max(int(file.stem) for file in (path / "_delta_log").glob("*.json") if file.stem.isdigit())


class Run:
    """A script's run: ``step`` runs a statement and compares, ``expected`` is the table as the model has it.

    ``changes`` gathers the changes the model expects of each commit, ``outcomes`` what it says of each statement.
    """

    def __init__(self, engine: Engine, script: Script, path: Path) -> None:
        self.engine, self.script, self.path = engine, script, path
        self.name = name_of(path)
        self.expected = replace(script.table, rows=tuple(script.first_rows()))
        self.others = [script.others.row(row) for row in script.others.rows]
        self.changes: dict[int, Multiset] = {}
        self.outcomes: list[Outcome] = []
        self.done: list[str] = []

    def set_up(self, statements: Iterable[str]) -> None:
        for text in statements:
            self.done.append(text)
            self._query(text)
        self.changes[version_of(self.path)] = self._changes(("insert", row) for row in self.expected.rows)
        self.compare_rows()

    def step(self, statement: Statement) -> Outcome:
        """Run the statement; a statement that is to fail must fail so, and change nothing."""
        before = version_of(self.path)
        outcome = statement.apply(self.expected, self.others)
        self.outcomes.append(outcome)
        self.done.append(statement.sql(self.name, self.script.table))
        try:
            returned = self.engine.sql(self.done[-1])
        except Refused as refused:
            self.same(refused.condition, outcome.error, f"the error\n{refused}")
            self.same(version_of(self.path), before, "the version after a failure")
        else:
            self.same(None, outcome.error, "the error")
            if outcome.returned is not None:
                self.same(returned, [list(outcome.returned.values())], "the row the statement returns")
        self.expected = outcome.table
        self.compare_rows()
        after = version_of(self.path)
        assert after <= before + 1, self.said("more than one commit")
        if after == before:
            self.same(outcome.changes, (), "the changes of a statement without a commit")
        elif outcome.error is None:
            self.changes[after] = self._changes(outcome.changes)
        return outcome

    def run(self) -> None:
        """All the statements."""
        self.set_up(self.script.setup(self.path))
        for statement in self.script.statements:
            self.step(statement)

    def compare_rows(self) -> None:
        names = ", ".join(map(quoted, self.expected.columns))
        found = multiset(self._query(f"SELECT {names} FROM {self.name}"))
        self.same_rows(found, self.rows(), "the rows")

    def rows(self) -> Multiset:
        """The rows the table is to have now."""
        return multiset(as_list(row, self.expected) for row in self.expected.rows)

    def compare_changes(self) -> None:
        """The change data of every commit, as ``table_changes_by_path`` gives it."""
        names = ", ".join(map(quoted, self.expected.columns))
        rows = self._query(
            f"SELECT _commit_version, _change_type, {names} FROM table_changes_by_path('{self.path}', 0)"
        )
        for version, wanted in self.changes.items():
            found = multiset(row[1:] for row in rows if row[0] == version)
            self.same_rows(found, wanted, f"the changes of version {version}")

    def _changes(self, changes: Iterable[tuple[str, Row]]) -> Multiset:
        return multiset([kind, *as_list(row, self.expected)] for kind, row in changes)

    def _query(self, text: str) -> list[Any]:
        """What must not fail."""
        try:
            return self.engine.sql(text)
        except Refused as refused:
            raise AssertionError(self.said(f"{text}\n{refused}")) from refused

    def same(self, found: Any, wanted: Any, what: str) -> None:
        assert found == wanted, self.said(f"{what}: {found}, expected {wanted}")

    def same_rows(self, found: Multiset, wanted: Multiset, what: str) -> None:
        assert found == wanted, self.said(
            f"{what}:\n  not expected: {sorted((found - wanted).elements())}"
            f"\n  missing: {sorted((wanted - found).elements())}"
        )

    def said(self, what: str) -> str:
        return f"{what}\nafter:\n" + ";\n".join(self.done) + ";"
