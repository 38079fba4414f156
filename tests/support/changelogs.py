"""A changelog applied row by row by a plain model, and random statements whose changelog is worth applying."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

#: The columns of a changelog after the table's own.
COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp", "_row_kind", "_row_kind_code", "_ordinal")
CODES = {"+I": 0, "-U": 1, "+U": 2, "-D": 3}
WORDS = {"+I": "insert", "-U": "update_preimage", "+U": "update_postimage", "-D": "delete"}

Row = tuple[Any, ...]


def in_order(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """A changelog's rows in the order in which they apply, which is one order."""
    found = sorted(rows, key=lambda row: (row["_commit_version"], row["_ordinal"]))
    places = [(row["_commit_version"], row["_ordinal"]) for row in found]
    assert len(set(places)) == len(places)
    return found


def values(row: Mapping[str, Any]) -> Row:
    """The table's own columns of a row."""
    return tuple(value for name, value in row.items() if name not in COLUMNS)


def states(rows: Iterable[Mapping[str, Any]], before: Iterable[Row] = ()) -> dict[int, Counter[Row]]:
    """The table after each version of a changelog. Each row of an old state must be there when it goes."""
    table, found = Counter(before), {}
    for row in in_order(rows):
        kind, key = row["_row_kind"], values(row)
        assert row["_row_kind_code"] == CODES[kind]
        assert row["_change_type"] == WORDS[kind]
        if kind in ("-U", "-D"):
            assert table[key] > 0, f"{kind} of a row that is not there: {row}"
            table[key] -= 1
        else:
            table[key] += 1
        found[row["_commit_version"]] = +table
    return found


def pairs(rows: Iterable[Mapping[str, Any]]) -> list[tuple[Row, Row]]:
    """The preimages whose postimages come next, and have the next ordinal, with these."""
    ordered = in_order(rows)
    return [
        (values(one), values(two))
        for one, two in zip(ordered, ordered[1:], strict=False)
        if (one["_row_kind"], two["_row_kind"]) == ("-U", "+U")
        and (one["_commit_version"], one["_ordinal"] + 1) == (two["_commit_version"], two["_ordinal"])
    ]


def statements(rng: random.Random, table: str, number: int) -> Iterator[str]:
    """Random statements over a table of ``k BIGINT, v BIGINT, p STRING``; a key is in it once at most."""
    fresh = 1000
    for _ in range(number):
        low, high = sorted(rng.sample(range(40), 2))
        kind = rng.choice(("insert", "update", "update", "delete", "merge", "merge", "overwrite"))
        if kind == "insert":
            yield f"INSERT INTO {table} SELECT id, id % 7, concat('p', id % 3) FROM range({fresh}, {fresh + 9})"
            fresh += 9
        elif kind == "update":
            yield f"UPDATE {table} SET v = v + {rng.randint(1, 9)} WHERE k % 40 BETWEEN {low} AND {high}"
        elif kind == "delete":
            yield f"DELETE FROM {table} WHERE k % 40 = {low}"
        elif kind == "overwrite":
            yield f"INSERT INTO {table} REPLACE WHERE p = 'p1' SELECT id, -1L, 'p1' FROM range({fresh}, {fresh + 5})"
            fresh += 5
        else:
            yield (
                f"MERGE INTO {table} AS t USING (SELECT id AS k, id % 5 AS v "
                f"FROM range({low}, {high + 5})) AS s ON t.k = s.k "
                "WHEN MATCHED AND s.v = 0 THEN DELETE WHEN MATCHED AND s.v < 3 THEN UPDATE SET v = t.v + 100 "
                "WHEN NOT MATCHED THEN INSERT (k, v, p) VALUES (s.k, s.v, 'm')"
            )


def dicts(rows: Sequence[Any]) -> list[dict[str, Any]]:
    """Spark's rows by the names of their columns."""
    return [row.asDict() for row in rows]
