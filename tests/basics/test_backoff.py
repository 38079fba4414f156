"""What failed is tried again, as often as is said."""

from __future__ import annotations

import pytest

from headwater.basics.backoff import Backoff

AT_ONCE = Backoff(0.0, 0.0)


class Failing:
    """Fails so many times."""

    def __init__(self, failures: int) -> None:
        self.failures, self.tries = failures, 0

    def __call__(self) -> str:
        self.tries += 1
        if self.tries <= self.failures:
            raise OSError(str(self.tries))
        return "done"


@pytest.mark.parametrize(("failures", "tries"), [(0, 1), (2, 3), (3, 3)])
def test_what_fails_is_tried_so_many_times(failures: int, tries: int) -> None:
    failing = Failing(failures)
    if failures < 3:
        assert AT_ONCE.insist(failing, 3) == "done"
    else:
        with pytest.raises(OSError, match="3"):
            AT_ONCE.insist(failing, 3)
    assert failing.tries == tries


def test_what_no_other_try_helps_is_not_tried_again() -> None:
    failing = Failing(3)
    with pytest.raises(OSError, match="2"):
        AT_ONCE.insist(failing, 9, lambda error: str(error) != "2")
    assert failing.tries == 2
