"""Random statements on a table with an enforced key, compared with a model: a statement fails if, and only if, two rows
would have one key after it, and then it changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from pyspark.errors import PySparkException

from headwater.transaction import wait_for_maintenance

_KEYS = 40

Rows = list[tuple[int, int, int]]


class Keyed:
    """A table of rows (a, b, v), and its rows. The key is ``a``, or ``a`` and ``b``."""

    def __init__(self, spark: Any, random: Random) -> None:
        self.spark, self.random = spark, random
        self.size = random.choice([1, 2])
        vectors, feed, mode = (random.choice(each) for each in (["true", "false"],) * 2 + (["name", "none"],))
        # A key of both columns, of which one is a partition column, has an index of the other.
        partitioned = " PARTITIONED BY (b)" if random.random() < 0.5 and self.size == 2 else ""
        spark.sql(
            f"CREATE TABLE t (a INT, b INT, v INT, PRIMARY KEY ({'a, b' if self.size == 2 else 'a'}) ENFORCED) USING "
            f"delta{partitioned} TBLPROPERTIES ('delta.enableDeletionVectors' = '{vectors}', "
            f"'delta.enableChangeDataFeed' = '{feed}', 'delta.columnMapping.mode' = '{mode}')"
        )
        self.model: Rows = []
        self.versions: dict[int, Rows] = {0: []}

    def drawn(self, count: int) -> Rows:
        draw = self.random.randrange
        return [(draw(_KEYS), draw(3), draw(100)) for _ in range(count)]

    def step(self) -> None:
        draw, model = self.random.randrange, self.model
        kind = draw(9)
        some, bound = self.drawn(draw(1, 5)), draw(_KEYS)
        values = ", ".join(map(str, some))
        if kind < 3:
            self.run(f"INSERT INTO t VALUES {values}", [*model, *some])
        elif kind == 3:
            self.run(f"DELETE FROM t WHERE a < {bound // 2}", [row for row in model if row[0] >= bound // 2])
        elif kind == 4:
            by = draw(1, 3)
            changed = [(a + by, b, v) if a >= bound else (a, b, v) for a, b, v in model]
            self.run(f"UPDATE t SET a = a + {by} WHERE a >= {bound}", changed)
        elif kind == 5:
            source = list({row[: self.size]: row for row in some}.values())
            on = "t.a = s.a AND t.b = s.b" if self.size == 2 else "t.a = s.a"
            found = {row[: self.size]: row for row in source}
            kept = [
                (a, b, found[(a, b)[: self.size]][2]) if (a, b)[: self.size] in found else (a, b, v)
                for a, b, v in model
            ]
            there = {row[: self.size] for row in model}
            new = [row for row in source if row[: self.size] not in there]
            self.run(
                f"MERGE INTO t USING (SELECT * FROM VALUES {', '.join(map(str, source))} AS x (a, b, v)) s ON {on} "
                "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *",
                [*kept, *new],
            )
        elif kind == 6:
            kept = [row for row in model if row[0] != some[0][0]]
            text = f"BEGIN ATOMIC DELETE FROM t WHERE a = {some[0][0]}; INSERT INTO t VALUES {values}; END"
            self.run(text, [*kept, *some])
        elif kind == 7:
            self.spark.sql(self.random.choice(["OPTIMIZE t", "REORG TABLE t APPLY (PURGE)", "REFRESH INDEX ON t"]))
        else:
            version = self.random.choice(sorted(self.versions))
            self.spark.sql(f"RESTORE t TO VERSION AS OF {version}")
            self.model = self.versions[version]
        self.versions[self.spark.sql("DESCRIBE HISTORY t LIMIT 1").first().version] = self.model

    def run(self, text: str, after: Rows) -> None:
        is_unique = max(Counter(row[: self.size] for row in after).values(), default=0) < 2
        if is_unique:
            self.spark.sql(text).collect()
            self.model = after
            return
        with pytest.raises(PySparkException) as refused:
            self.spark.sql(text).collect()
        assert refused.value.getCondition() == "HEADWATER_DUPLICATE_KEY", refused.value

    def check(self) -> None:
        found = sorted(tuple(row) for row in self.spark.sql("SELECT a, b, v FROM t").collect())
        assert found == sorted(self.model)


@pytest.mark.spark
@pytest.mark.random
@pytest.mark.parametrize("seed", [*range(4), *[pytest.param(n, marks=pytest.mark.soak) for n in range(4, 40)]])
def test_no_statement_writes_a_second_row(spark: Any, database: str, seed: int, settings: Callable[..., Any]) -> None:
    random = Random(seed)
    with settings({"spark.headwater.keyIndex": random.choice(["always", "always", "auto", "never"])}):
        table = Keyed(spark, random)
        for _ in range(18):
            table.step()
            table.check()
    wait_for_maintenance(60)
