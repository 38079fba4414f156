"""A fake session, and a table of it."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from headwater.tables import DeltaTable, statement_inputs
from support.tables_fakes import FakeFunctions, FakeSession


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> FakeSession:
    monkeypatch.setattr(statement_inputs, "_functions", lambda spark: FakeFunctions())
    return FakeSession()


@pytest.fixture
def table(session: FakeSession) -> DeltaTable:
    """``delta.`/t` ``; opening it is forgotten."""
    opened = DeltaTable.forPath(session, "/t")
    session.statements.clear()
    session.seen.clear()
    return opened


@pytest.fixture
def ran(session: FakeSession) -> Callable[[], str]:
    """``ran()``: the last statement in one line, the views' names without their random part."""

    def last() -> str:
        return re.sub(r"_[0-9a-f]{32}", "", re.sub(r"\s+", " ", session.statements[-1]))

    return last


@pytest.fixture
def views(session: FakeSession) -> Callable[[], dict[str, str]]:
    """``views()``: the views the last statement could see."""

    def last() -> dict[str, str]:
        return {re.sub(r"_[0-9a-f]{32}", "", name): made for name, made in session.seen[-1].items()}

    return last
