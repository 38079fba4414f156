"""The part of a matrix that CI runs."""

from __future__ import annotations

import itertools

from support.covering import covering


def matrix(*sizes: int) -> list[dict[str, int]]:
    names = "abcdef"
    return [dict(zip(names, values, strict=False)) for values in itertools.product(*map(range, sizes))]


def test_each_value_occurs_and_values_are_mixed() -> None:
    for sizes in [(1,), (5,), (2, 9), (9, 2), (2, 2, 5), (3, 4, 5), (2, 2, 2, 2)]:
        cases = matrix(*sizes)
        kept = [cases[number] for number in covering(cases)]
        assert {pair for case in kept for pair in case.items()} == {pair for case in cases for pair in case.items()}
        assert len(kept) == max(sizes)
        if sizes[0] == 2:
            by_first = sum(case["a"] for case in kept)
            assert abs(2 * by_first - len(kept)) <= 1, sizes


def test_no_case_no_part() -> None:
    assert covering([]) == []
