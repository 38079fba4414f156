"""Groups of limited size."""

from __future__ import annotations

import pytest

from headwater.basics.grouping import next_fit


@pytest.mark.parametrize(
    ("sizes", "groups"),
    [([], []), ([9], [[9]]), ([2, 3, 1, 5, 9, 1], [[2, 3], [1], [5], [9], [1]]), ([1, 1, 1, 1, 1, 1], [[1] * 5, [1]])],
)
def test_groups_follow_the_order(sizes: list[int], groups: list[list[int]]) -> None:
    assert list(next_fit(sizes, int, 5)) == groups
