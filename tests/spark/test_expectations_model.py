"""Expectations in random sequences of statements, compared with a model that is lists of rows."""

from __future__ import annotations

import os
import random
from collections import Counter

import pytest

SEED = int(os.environ.get("HEADWATER_TEST_SEED", "20260101"))
EXAMPLES = int(os.environ.get("HEADWATER_TEST_EXAMPLES", "1"))
LAYOUTS = {
    "vectors, changes": "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', 'delta.enableChangeDataFeed' = 'true')",
    "copies, partitions": "PARTITIONED BY (p) TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
    "mapped, tracked": (
        "PARTITIONED BY (p) TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.enableRowTracking' = 'true', "
        "'delta.enableDeletionVectors' = 'true')"
    ),
}
CONDITIONS = {
    "has_id": ("id IS NOT NULL", lambda row: row[0] is not None),
    "positive": ("amount > 0", lambda row: row[1] is not None and row[1] > 0),
    "usual": ("amount < 50 OR p = 'b'", lambda row: row[2] == "b" or (row[1] is not None and row[1] < 50)),
    "even": ("id % 2 = 0", lambda row: row[0] is not None and row[0] % 2 == 0),
}


class Model:
    """The rows that the table and the quarantine table are to have, and what the last statement counted."""

    def __init__(self, actions: dict[str, str]) -> None:
        self.actions = actions
        self.table: list[tuple] = []
        self.bad: Counter = Counter()
        self.counts: Counter = Counter()

    def judge(self, row: tuple, operation: str) -> bool | None:
        """Whether a new row is written; None if it fails the statement."""
        violated = [name for name in sorted(self.actions) if not CONDITIONS[name][1](row)]
        actions = {self.actions[name] for name in violated}
        if "fail" in actions:
            return None
        for name in violated:
            self.counts[f"numViolations.{name}"] += 1
        if "quarantine" in actions:
            turned_away = (*row, tuple(violated), operation)
            self.bad[turned_away] += 1
            self.counts["numRowsQuarantinedByExpectations"] += 1
            return False
        if "drop" in actions:
            self.counts["numRowsDroppedByExpectations"] += 1
            return False
        self.counts["numRowsKeptAgainstExpectations"] += bool(violated)
        return True

    def apply(self, changes: list[tuple[tuple | None, tuple | None]], operation: str) -> bool:
        """Replace rows, each by another or by none; False if the statement fails."""
        before = self.table[:], self.bad.copy()
        self.counts = Counter()
        for old, new in changes:
            written = new is not None and self.judge(new, operation)
            if written is None:
                self.table, self.bad = before
                return False
            if old is not None and (new is None or written):
                self.table.remove(old)
            if written:
                self.table.append(new)
        return True


def _row(draw):
    return draw.choice([None, *range(8)]), draw.choice([None, -1, 0, 1, 20, 70]), draw.choice(["a", "b"])


def _literal(rows):
    said = ", ".join(f"({'NULL' if i is None else i}, {'NULL' if a is None else a}, '{p}')" for i, a, p in rows)
    return f"(SELECT * FROM VALUES {said} AS s(id, amount, p))"


def _statement(draw, model):
    """A statement, and the changes that it is to make."""
    kind = draw.choice(["insert", "insert", "update", "merge", "merge", "overwrite", "delete"])
    if kind == "insert":
        new = [_row(draw) for _ in range(draw.randint(1, 6))]
        return f"INSERT INTO t {_literal(new)}", [(None, row) for row in new], "WRITE"
    if kind == "overwrite":
        new = [_row(draw) for _ in range(3)]
        changes = [(row, None) for row in model.table] + [(None, row) for row in new]
        return f"INSERT OVERWRITE t {_literal(new)}", changes, "WRITE"
    if kind == "delete":
        changes = [(row, None) for row in model.table if row[0] == 3]
        return "DELETE FROM t WHERE id = 3", changes, "DELETE"
    if kind == "update":
        step = draw.choice([-30, 30])
        found = [row for row in model.table if row[2] == "a" and row[1] is not None]
        return (
            f"UPDATE t SET amount = amount + {step}, p = IF(amount > 10, 'b', p) WHERE p = 'a' AND amount IS NOT NULL",
            [(row, (row[0], row[1] + step, "b" if row[1] > 10 else row[2])) for row in found],
            "UPDATE",
        )
    source = {key: _row(draw)[1:] for key in draw.sample(range(10), 4)}
    changes = []
    for key, (amount, part) in source.items():
        matched = [row for row in model.table if row[0] == key]
        if amount == 70:
            changes += [(row, None) for row in matched]
        else:
            changes += [(row, (key, amount, part)) for row in matched]
        if not matched:
            changes.append((None, (key, amount, part)))
    return (
        f"MERGE INTO t USING {_literal([(key, *rest) for key, rest in source.items()])} AS s ON t.id = s.id "
        "WHEN MATCHED AND s.amount = 70 THEN DELETE WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        changes,
        "MERGE",
    )


@pytest.mark.random
@pytest.mark.parametrize("layout", LAYOUTS)
def test_random_statements_and_a_model(spark, rows, database, layout):
    for example in range(EXAMPLES):
        draw = random.Random(f"{SEED} {layout} {example}")
        names = draw.sample(sorted(CONDITIONS), 3)
        actions = dict(
            zip(names, draw.choice([["drop", "quarantine", "keep"], ["quarantine", "fail", "drop"]]), strict=True)
        )
        words = {"drop": "DROP ROW", "fail": "FAIL UPDATE", "quarantine": "QUARANTINE INTO q"}
        clauses = ", ".join(
            f"CONSTRAINT {name} EXPECT ({CONDITIONS[name][0]})"
            + ("" if action == "keep" else f" ON VIOLATION {words[action]}")
            for name, action in actions.items()
        )
        for table in ("t", "q"):
            spark.sql(f"DROP TABLE IF EXISTS {table}")
        spark.sql(
            "CREATE TABLE q (id INT, amount INT, p STRING, quarantine_reason ARRAY<STRING>, quarantine_time TIMESTAMP, "
            "quarantine_source STRUCT<table: STRING, operation: STRING>) USING delta "
            "TBLPROPERTIES ('headwater.quarantine' = 'true')"
        )
        spark.sql(f"CREATE TABLE t (id INT, amount INT, p STRING, {clauses}) USING delta {LAYOUTS[layout]}")
        model = Model(actions)
        for _ in range(7):
            sql, changes, operation = _statement(draw, model)
            said = f"{actions}: {sql}; seed {SEED}"
            # Before, as the model knows whether the statement is to fail.
            there = model.table[:]
            if not model.apply(changes, operation):
                with pytest.raises(Exception, match="HEADWATER_EXPECTATION_VIOLATED"):
                    spark.sql(sql)
                assert Counter(rows("SELECT id, amount, p FROM t")) == Counter(there), said
                continue
            spark.sql(sql)
            assert Counter(rows("SELECT id, amount, p FROM t")) == Counter(model.table), said
            bad = rows("SELECT id, amount, p, quarantine_reason, quarantine_source.operation FROM q")
            assert Counter((*row[:3], tuple(row[3]), row[4]) for row in bad) == model.bad, said
            if model.counts:
                found = rows("SELECT operationMetrics FROM (DESCRIBE HISTORY t LIMIT 1)")[0][0]
                counts = {k: int(v) for k, v in found.items() if "Expectations" in k or "numViolations" in k}
                assert {k: v for k, v in counts.items() if v} == {k: v for k, v in model.counts.items() if v}, said
        if "enableChangeDataFeed" in LAYOUTS[layout]:
            net: Counter = Counter()
            for *row, kind in rows("SELECT id, amount, p, _change_type FROM table_changes('t', 1)"):
                net[tuple(row)] += {"insert": 1, "update_postimage": 1}.get(kind, -1)
            assert {row: count for row, count in net.items() if count} == dict(Counter(model.table))
