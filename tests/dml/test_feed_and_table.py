"""The change data feed says what the table says, also where values, conditions and sources differ whenever they are
computed.

Random statements with ``rand()``, ``uuid()`` and Python functions that count, in every clause, for every strategy: of
each commit, the feed's postimages and inserts are the rows that are in the table after it and were not before; its
preimages and deletes are those that were and are no more. ``HEADWATER_TEST_EXAMPLES`` asks for another number of
statements, drawn anew.
"""

from __future__ import annotations

import itertools
import os
import random
from collections import Counter
from typing import Any

import pytest

EXAMPLES = int(os.environ.get("HEADWATER_TEST_EXAMPLES", "8"))
SEED = "HEADWATER_TEST_EXAMPLES" not in os.environ
#: Settings that send small tables the ways of large ones, too.
WAYS: dict[str, dict[str, str]] = {
    "small": {},
    "large target": {"spark.headwater.merge.smallTargetBytes": "0"},
    "large target, late columns": {
        "spark.headwater.merge.smallTargetBytes": "0",
        "spark.headwater.dml.lateFileBytes": "0",
    },
}
#: Values that are others each time they are computed; ``{a}`` is the row's table.
VALUES = {
    "v": ["rand()", "{a}.v + rand()", "drawn({a}.v)", "double(hash(uuid()))", "{a}.v", "if(rand() < 0.5, 1.5, {a}.v)"],
    "s": ["uuid()", "concat({a}.s, uuid())", "string(drawn({a}.v))", "{a}.s", "if(rand() < 0.5, 'x', uuid())"],
}
CONDITIONS = ["rand() < 0.5", "{a}.v < rand()", "{a}.k % 2 = 0", "pmod(hash(uuid()), 3) > 0", "drawn({a}.v) % 2 = 0"]
COLUMNS = "k BIGINT, v DOUBLE, s STRING, p INT, g BIGINT GENERATED ALWAYS AS (CAST(v * 1000 AS BIGINT))"


class Statements:
    """Draws statements about a table with the columns above."""

    def __init__(self, rng: random.Random, view: str) -> None:
        self.rng = rng
        self.view = view

    def assigned(self, alias: str, names: tuple[str, ...] = ("v", "s")) -> dict[str, str]:
        chosen = self.rng.sample(names, self.rng.randint(1, len(names)))
        return {name: self.rng.choice(VALUES[name]).format(a=alias) for name in chosen}

    def setting(self, alias: str) -> str:
        return ", ".join(f"{name} = {value}" for name, value in self.assigned(alias).items())

    def condition(self, alias: str) -> str:
        return self.rng.choice(CONDITIONS).format(a=alias)

    def maybe(self, alias: str, before: str) -> str:
        return f" {before} {self.condition(alias)}" if self.rng.random() < 0.6 else ""

    def source(self) -> str:
        rows = f"SELECT id AS k, rand() AS v, uuid() AS s, int(id % 3) AS p FROM range({self.rng.randint(1, 14)})"
        return self.rng.choice(
            [
                f"({rows})",
                f"({rows} WHERE rand() < 0.7)",
                "(SELECT k, drawn(v) AS v, s, p FROM {v})",
                "(SELECT k, v, s, p FROM {v} WHERE rand() < 0.6)",
                "(SELECT k, v, s, p FROM {v} ORDER BY rand() LIMIT 4)",
                "(SELECT k, max(v) AS v, max(s) AS s, 1 AS p FROM (SELECT k, rand() AS v, s FROM {v}) GROUP BY k)",
                "{v}",
            ]
        ).format(v=self.view)

    def update(self) -> str:
        return f"UPDATE {{t}} AS t SET {self.setting('t')}{self.maybe('t', 'WHERE')}"

    def delete(self) -> str:
        return f"DELETE FROM {{t}} AS t WHERE {self.condition('t')}"

    def merge(self) -> str:
        clauses = []
        kinds = self.rng.sample(["update", "delete", "insert", "update unmatched", "delete unmatched"], 3)
        if "delete" in kinds and "update" in kinds:
            clauses.append(f"WHEN MATCHED AND {self.condition('s')} THEN DELETE")
        elif "delete" in kinds:
            clauses.append(f"WHEN MATCHED{self.maybe('t', 'AND')} THEN DELETE")
        if "update" in kinds:
            clauses.append(f"WHEN MATCHED{self.maybe('t', 'AND')} THEN UPDATE SET {self.setting('s')}")
        if "insert" in kinds:
            given = {"k": "s.k", "p": "s.p"} | self.assigned("s")
            columns, values = ", ".join(given), ", ".join(given.values())
            clauses.append(f"WHEN NOT MATCHED{self.maybe('s', 'AND')} THEN INSERT ({columns}) VALUES ({values})")
        if "update unmatched" in kinds and "delete unmatched" in kinds:
            clauses.append(f"WHEN NOT MATCHED BY SOURCE AND {self.condition('t')} THEN DELETE")
        elif "delete unmatched" in kinds:
            clauses.append(f"WHEN NOT MATCHED BY SOURCE{self.maybe('t', 'AND')} THEN DELETE")
        if "update unmatched" in kinds:
            condition = self.maybe("t", "AND")
            clauses.append(f"WHEN NOT MATCHED BY SOURCE{condition} THEN UPDATE SET {self.setting('t')}")
        return f"MERGE INTO {{t}} AS t USING {self.source()} AS s ON t.k = s.k " + " ".join(clauses)

    def insert(self) -> str:
        columns = "k, v, s, p"
        return f"INSERT INTO {{t}} ({columns}) SELECT {columns} FROM {self.source()}"

    def replace(self) -> str:
        rows = "SELECT id AS k, rand() AS v, uuid() AS s, 1 AS p FROM range(4)"
        return f"INSERT INTO {{t}} REPLACE WHERE p = 1 AND k < {self.rng.randint(2, 9)} {rows}"

    def any(self) -> str:
        kinds = [self.merge] * 5 + [self.update] * 3 + [self.delete, self.insert, self.replace]
        return self.rng.choice(kinds)()


@pytest.fixture(scope="module")
def drawn_values(spark: Any) -> None:
    """A Python function whose value is another one at each call."""
    from pyspark.sql.functions import udf
    from pyspark.sql.types import DoubleType

    function = udf(lambda value: float(random.randrange(1 << 40)), DoubleType(), useArrow=False)
    spark.udf.register("drawn", function.asNondeterministic())


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("vectors", [False, True], ids=["copy_on_write", "deletion_vectors"])
def test_the_feed_says_what_the_table_says(
    spark: Any, tmp_path: Any, settings: Any, drawn_values: None, vectors: bool
) -> None:
    rng = random.Random(1 + vectors if SEED else None)
    spark.range(12).selectExpr("id * 2 AS k", "rand() AS v", "uuid() AS s", "int(id % 3) AS p").write.format(
        "parquet"
    ).save(str(tmp_path / "source"))
    view = f"parquet.`{tmp_path / 'source'}`"
    done = 0
    for number in itertools.count():
        table = f"delta.`{tmp_path / f't{number}'}`"
        way = rng.choice(list(WAYS))
        partitioned = rng.choice(["", " PARTITIONED BY (p)"])
        properties = f"'delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = '{str(vectors).lower()}'"
        spark.sql(f"CREATE TABLE {table} ({COLUMNS}) USING delta{partitioned} TBLPROPERTIES ({properties})")
        for part in range(rng.choice([1, 1, 3])):
            rows = f"SELECT id + {part * 5} AS k, rand() AS v, uuid() AS s, int(id % 3) AS p FROM range(0, 5, 1, 1)"
            spark.sql(f"INSERT INTO {table} (k, v, s, p) {rows}")
        statements = Statements(rng, view)
        with settings(WAYS[way]):
            for _ in range(4):
                check(spark, table, statements.any().format(t=table), f"{way}, vectors {vectors}{partitioned}")
                done += 1
        if done >= EXAMPLES:
            return


def check(spark: Any, table: str, statement: str, way: str) -> None:
    before, old = contents(spark, table)
    try:
        spark.sql(statement)
    except Exception as error:
        if "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE" in str(error):
            return
        raise AssertionError(f"{way}: {statement}") from error
    after, new = contents(spark, table)
    gone: Counter[Any] = Counter()
    come: Counter[Any] = Counter()
    if new > old:
        rows = spark.read.format("delta").option("readChangeFeed", True).option("startingVersion", old + 1)
        for row in rows.load(table.split("`")[1]).collect():
            kind = row["_change_type"]
            (come if kind in ("insert", "update_postimage") else gone)[tuple(row[:5])] += 1
    assert not gone - before, f"{way}: {statement}"
    assert before - gone + come == after, f"{way}: {statement}"


def contents(spark: Any, table: str) -> tuple[Counter[Any], int]:
    version = spark.sql(f"DESCRIBE HISTORY {table} LIMIT 1").first()["version"]
    return Counter(tuple(row) for row in spark.table(table).collect()), version
