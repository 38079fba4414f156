"""A statement whose cached rows were lost runs again from the start, a few times."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.statements.running.rerunning import run_again_after_lost_rows

LOST = "DELTA_MERGE_MATERIALIZE_SOURCE_FAILED_REPEATEDLY"


class Losing:
    """A statement whose first attempts fail; it notes what is let go of."""

    def __init__(self, times: int, condition: str = LOST) -> None:
        self.times, self.condition = times, condition
        self.attempts = self.discarded = self.forgotten = 0

    def discard(self) -> None:
        self.discarded += 1

    def forget(self) -> None:
        self.forgotten += 1

    def attempt(self) -> str:
        self.attempts += 1
        if self.attempts <= self.times:
            raise HeadwaterError(self.condition, {} if self.condition == LOST else {"tableName": "t"})
        return "done"

    def run(self) -> str:
        statement: Any = self
        return run_again_after_lost_rows("t", statement, self.attempt, self.forget)


@pytest.mark.parametrize("times", [0, 1, 3])
def test_it_runs_again_from_the_start(times: int) -> None:
    losing = Losing(times)
    assert losing.run() == "done"
    assert (losing.attempts, losing.discarded, losing.forgotten) == (times + 1, times, times)


@pytest.mark.parametrize(("condition", "attempts"), [(LOST, 4), ("DELTA_CANNOT_MODIFY_APPEND_ONLY", 1)])
def test_it_gives_up(condition: str, attempts: int) -> None:
    losing = Losing(99, condition)
    with pytest.raises(HeadwaterError) as raised:
        losing.run()
    assert raised.value.condition == condition
    assert (losing.attempts, losing.discarded) == (attempts, attempts - 1)
