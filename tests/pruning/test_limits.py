"""The files that a LIMIT leaves hold enough rows, and with an order every row that may be among the first."""

from __future__ import annotations

import datetime
from random import Random
from typing import Any

import pytest

from headwater.pruning.limits import Order, first_rows
from support.predicate_text import parse_predicate
from support.pruning_fakes import FakeSnapshot, File, struct

SCHEMA = struct(a="integer", d="date", s="string", f="double", p="integer")


def kept(files: list[File], limit: int, order: Order | None = None, where: str | None = None) -> list[int]:
    predicates = [] if where is None else [parse_predicate(where)]
    mask = first_rows(FakeSnapshot(SCHEMA, files, ["p"]), predicates, limit, order)
    return [i for i, keeps in enumerate(mask.to_pylist()) if keeps]


def of(*values: Any, **more: Any) -> File:
    return File([{"a": v, "f": v, "s": None if v is None else f"{v:03}"} for v in values], **more)


def test_as_many_files_as_hold_the_rows() -> None:
    files = [of(1), of(2, 3, 4), of(5, 6), of()]
    assert kept(files, 1) == [1]
    assert kept(files, 3) == [1]
    assert kept(files, 4) == [1, 2]
    assert kept(files, 6) == [0, 1, 2]
    assert kept(files, 7) == [0, 1, 2, 3]
    assert kept(files, 0) == []
    assert kept([], 3) == []


def test_deleted_and_unknown_rows_do_not_count() -> None:
    assert kept([of(1, 2), of(3, deleted=[{"a": 4}, {"a": 5}])], 2) == [0]
    assert kept([of(1), of(2, 3, missing=frozenset("*"))], 2) == [0, 1]
    assert kept([of(1), of(2, 3, missing=frozenset("*"))], 1) == [0]


def test_rows_that_a_filter_may_leave_out_do_not_count() -> None:
    files = [of(1, 2, 3, 9, partition={"p": 1}), of(5, 6, partition={"p": 2}), of(7, 8, partition={"p": 2})]
    assert kept(files, 1, where="p = 2") == [1]
    assert kept(files, 3, where="p = 2") == [1, 2]
    assert kept(files, 1, where="a > 4") == [1]
    assert kept(files, 5, where="a > 4") == [0, 1, 2]
    assert kept(files, 5, where="p = 2") == [1, 2]


def test_the_first_of_an_order() -> None:
    files = [of(1, 2), of(3, 4), of(5, 6), of(4, 7)]
    assert kept(files, 1, Order("a", descending=True, nulls_first=False)) == [2, 3]
    assert kept(files, 2, Order("a", descending=False, nulls_first=True)) == [0]
    assert kept(files, 3, Order("a", descending=False, nulls_first=False)) == [0, 1, 3]
    for column in ("s", "f", "nothing"):
        assert kept(files, 1, Order(column, descending=True, nulls_first=False)) == [0, 1, 2, 3]


def test_nulls_come_first_or_last() -> None:
    files = [of(None, 9), of(1, 2), of(None, None), of(7, 8)]
    assert kept(files, 2, Order("a", descending=False, nulls_first=True)) == [0, 1, 2]
    assert kept(files, 2, Order("a", descending=False, nulls_first=False)) == [1]
    assert kept(files, 5, Order("a", descending=False, nulls_first=False)) == [0, 1, 3]
    # Fewer values than rows asked for: the nulls are among the result.
    assert kept(files, 6, Order("a", descending=False, nulls_first=False)) == [0, 1, 2, 3]


@pytest.mark.parametrize("seed", range(4))
def test_random_tables_against_a_sorted_list(seed: int) -> None:
    draw = Random(seed)
    for _ in range(60):
        files = []
        for _ in range(draw.randrange(1, 7)):
            low = draw.randrange(20)
            values = [draw.choice([None, low, low + draw.randrange(6)]) for _ in range(draw.randrange(5))]
            day = datetime.date(2020, 1, 1)
            rows = [{"a": v, "d": None if v is None else day + datetime.timedelta(v)} for v in values]
            gone = [{"a": draw.randrange(30), "d": day} for _ in range(draw.choice([0, 0, 1, 2]))]
            files.append(
                File(rows, {"p": draw.choice([None, 1, 2])}, gone, tight=draw.random() < 0.7,
                     missing=frozenset(draw.choice([(), (), ("*",), ("a",)])))
            )  # fmt: skip
        where = draw.choice([None, "p = 1", "a > 9"])

        def met(row: Any, partition: Any, where: str | None = where) -> bool:
            value = partition if where == "p = 1" else row["a"]
            return where is None or (value is not None and (value == 1 if where == "p = 1" else value > 9))

        found = [(i, row) for i, f in enumerate(files) for row in f.rows if met(row, f.partition["p"])]
        limit = draw.randrange(1, 9)
        chosen = kept(files, limit, None, where)
        assert sum(i in chosen for i, _ in found) >= min(limit, len(found))
        order = Order(draw.choice(["a", "d", "p"]), draw.random() < 0.5, draw.random() < 0.5)

        def key(entry: Any, order: Order = order, files: list[File] = files) -> Any:
            i, row = entry
            value = files[i].partition["p"] if order.column == "p" else row[order.column]
            if value is None:
                return (0 if order.nulls_first else 2, 0)
            number = value.toordinal() if isinstance(value, datetime.date) else value
            return (1, -number if order.descending else number)

        ranked = sorted(found, key=key)
        needed = ranked[:limit] + [
            e for e in ranked[limit:] if limit <= len(ranked) and key(e) == key(ranked[limit - 1])
        ]
        chosen = kept(files, limit, order, where)
        assert all(i in chosen for i, _ in needed if i is not None), (files, order, limit)
