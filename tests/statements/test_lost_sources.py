"""A statement whose kept source rows were lost runs again from the start, a few times."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from headwater.errors import HeadwaterError
from headwater.statements.change import attempt as module

LOST = "DELTA_MERGE_MATERIALIZE_SOURCE_FAILED_REPEATEDLY"


@pytest.fixture
def first(monkeypatch: pytest.MonkeyPatch) -> Any:
    """An attempt whose successors are numbered; ``discarded`` counts the files let go of."""
    statement = SimpleNamespace(discarded=0)

    def discard() -> None:
        statement.discarded += 1

    statement.discard = discard
    request = SimpleNamespace(message=SimpleNamespace(table="t"))
    numbers = iter(range(1, 100))
    monkeypatch.setattr(module, "begin", lambda r, s: SimpleNamespace(request=r, statement=s, number=next(numbers)))
    return SimpleNamespace(request=request, statement=statement, number=0)


def losing(times: int, condition: str = LOST) -> Any:
    def work(attempt: Any) -> int:
        if attempt.number < times:
            raise HeadwaterError(condition, {} if condition == LOST else {"tableName": "t"})
        return attempt.number

    return work


@pytest.mark.parametrize("times", [0, 1, 3])
def test_it_runs_again_from_a_new_snapshot(first: Any, times: int) -> None:
    assert module._with_cached_source(first, losing(times)) == times
    assert first.statement.discarded == times


def test_it_gives_up(first: Any) -> None:
    with pytest.raises(HeadwaterError) as raised:
        module._with_cached_source(first, losing(99))
    assert raised.value.condition == LOST
    assert first.statement.discarded == 3


def test_other_errors_are_not_its_business(first: Any) -> None:
    with pytest.raises(HeadwaterError) as raised:
        module._with_cached_source(first, losing(1, "DELTA_CANNOT_MODIFY_APPEND_ONLY"))
    assert raised.value.condition == "DELTA_CANNOT_MODIFY_APPEND_ONLY"
    assert first.statement.discarded == 0
