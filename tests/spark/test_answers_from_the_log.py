"""What the log answers without a scan, or with a scan of fewer files, is what a scan of every file gives.

Random tables and queries: aggregates over the table and by partitions, EXISTS, LIMIT, and the first rows by a column.
The judge is Spark without the rules that look into the log.
"""

from __future__ import annotations

import os
import random
import re

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.random]

_RULES = "headwater.spark.scan.pruning"
BY_SCAN = {
    "spark.sql.optimizer.excludedRules": f"{_RULES}.AggregateFromLog,{_RULES}.PruneFiles",
    "spark.databricks.optimizer.dynamicFilePruning": "false",
}

#: Expressions over a random whole number ``x`` from 0 to 19, by type. Statistics round, cut off or leave out some.
TYPES = {
    "INT": "CAST(x - 9 AS INT)",
    "BIGINT": "(x - 9) * 1000000000000",
    "TINYINT": "CAST(x - 9 AS TINYINT)",
    "DATE": "DATE'1969-12-25' + CAST(x AS INT)",
    "STRING": "concat(repeat('ä', CAST(x % 3 * 30 AS INT)), x)",
    "BOOLEAN": "x % 2 = 0",
    "DECIMAL(20,3)": "CAST(x - 9 AS DECIMAL(20,3)) / 7",
    "DOUBLE": "if(x = 19, DOUBLE('NaN'), if(x = 18, -0.0D, CAST(x - 9 AS DOUBLE)))",
    "TIMESTAMP": "timestamp_micros((x - 9) * 1234567)",
    "TIMESTAMP_NTZ": "CAST(timestamp_micros((x - 9) * 1234567) AS TIMESTAMP_NTZ)",
}
PARTITIONS = ("INT", "DATE", "STRING", "BOOLEAN", "DOUBLE", "TIMESTAMP")
PROPERTIES = (
    "'delta.enableDeletionVectors' = 'true'",
    "'delta.columnMapping.mode' = 'name'",
    "'delta.dataSkippingNumIndexedCols' = '2'",
    "'delta.checkpointInterval' = '2'",
    "'delta.checkpoint.writeStatsAsStruct' = 'true'",
)


def _of(kind, number) -> str:
    """The expression of a type over a number."""
    return "(" + re.sub(r"\bx\b", number, TYPES[kind]) + ")"


class Table:
    """A random table; its columns are ``k``, then one of each of some types, then its partition columns."""

    def __init__(self, spark, draw, path) -> None:
        self.spark, self.draw, self.name = spark, draw, f"delta.`{path}`"
        self.columns = dict(enumerate(draw.sample(sorted(TYPES), 5)))
        self.partitions = draw.sample(PARTITIONS, draw.randrange(3))
        named = [f"c{i} {kind}" for i, kind in self.columns.items()]
        named += [f"p{i} {kind}" for i, kind in enumerate(self.partitions)]
        by = ", ".join(f"p{i}" for i in range(len(self.partitions)))
        properties = ", ".join(draw.sample(PROPERTIES, draw.randrange(4)))
        spark.sql(
            f"CREATE TABLE {self.name} (k BIGINT, {', '.join(named)}) USING delta "
            + (f"PARTITIONED BY ({by}) " if by else "")
            + (f"TBLPROPERTIES ({properties})" if properties else "")
        )
        for number in range(draw.randrange(1, 4)):
            self.insert(number)
        for _ in range(draw.randrange(3)):
            self.change()

    @property
    def names(self) -> list[str]:
        return ["k", *(f"c{i}" for i in self.columns), *(f"p{i}" for i in range(len(self.partitions)))]

    def insert(self, number) -> None:
        nulls = self.draw.choice([0, 0.3, 1])
        seed = self.draw.randrange(10**6)
        values = [self._value(kind, nulls if i else 0, seed + i) for i, kind in self.columns.items()]
        # Few values, so that partitions have several files, and files are of one partition.
        values += [self._value(kind, 0.1, seed + 50 + i, 3) for i, kind in enumerate(self.partitions)]
        self.spark.sql(
            f"INSERT INTO {self.name} SELECT {1000 * number} + id, {', '.join(values)} "
            f"FROM range(0, {self.draw.choice([0, 1, 40])}, 1, {self.draw.randrange(1, 4)})"
        )

    def _value(self, kind, nulls, seed, most=20) -> str:
        value = _of(kind, f"pmod(hash(id, {seed}), {most})")
        return f"CAST(if(pmod(hash(id, {seed + 7}), 100) < {100 * nulls}, NULL, {value}) AS {kind})"

    def change(self) -> None:
        some = f"k % {self.draw.randrange(2, 5)} = 0"
        statement = self.draw.choice(
            [
                f"DELETE FROM {self.name} WHERE {some}",
                f"DELETE FROM {self.name} WHERE k < 500",
                f"UPDATE {self.name} SET c1 = NULL WHERE {some}",
                f"UPDATE {self.name} SET k = k + 1 WHERE {some}",
                f"OPTIMIZE {self.name}",
                f"ALTER TABLE {self.name} ADD COLUMN c{len(self.columns)} INT",
            ]
        )
        self.spark.sql(statement)
        if statement.startswith("ALTER"):
            self.columns[len(self.columns)] = "INT"

    def query(self) -> str:
        """One whose rows do not depend on how they are read, but for their order."""
        draw = self.draw
        where = self._where()
        kind = draw.choice(["whole", "whole", "grouped", "exists", "limit", "first"])
        if kind == "exists":
            return f"SELECT 1 WHERE EXISTS (SELECT 1 FROM {self.name}{where})"
        if kind == "limit":
            return f"SELECT count(*) FROM (SELECT k FROM {self.name}{where} LIMIT {draw.randrange(1, 60)})"
        if kind == "first":
            column = draw.choice(self.names)
            order = f"{column} {draw.choice(['ASC', 'DESC'])} {draw.choice(['', 'NULLS FIRST', 'NULLS LAST'])}"
            return f"SELECT {column} FROM {self.name}{where} ORDER BY {order} LIMIT {draw.randrange(1, 30)}"
        found = [self._aggregate() for _ in range(draw.randrange(1, 4))]
        by = draw.sample(self.names, 1) if not self.partitions else [f"p{draw.randrange(len(self.partitions))}"]
        if kind == "whole":
            return f"SELECT {', '.join(found)} FROM {self.name}{where}"
        shown = draw.choice([f"{by[0]}, {', '.join(found)}", f"DISTINCT {by[0]}"])
        group = "" if shown.startswith("DISTINCT") else f" GROUP BY {by[0]}"
        return f"SELECT {shown} FROM {self.name}{where}{group}"

    def _aggregate(self) -> str:
        return f"{self.draw.choice(['count', 'min', 'max'])}({self.draw.choice(['k', *self.names])})".replace(
            "count(k)", self.draw.choice(["count(k)", "count(*)", "count(1)"])
        )

    def _where(self) -> str:
        conditions = ["", "", " WHERE k >= 1000", " WHERE c1 IS NULL", " WHERE c0 IS NOT NULL AND k < 1010"]
        for i, kind in enumerate(self.partitions):
            value = _of(kind, str(self.draw.randrange(4)))
            conditions += [
                f" WHERE p{i} = {value}",
                f" WHERE p{i} > {value}",
                f" WHERE p{i} IS NULL",
                f" WHERE p{i} IN ({value}) OR p{i} IS NULL",
                f" WHERE NOT p{i} <=> {value}",
            ]
        return self.draw.choice(conditions)


def test_random_queries(spark, settings, tmp_path):
    draw = random.Random(int(os.environ.get("HEADWATER_TEST_SEED", "7")))
    answered = 0
    for example in range(int(os.environ.get("HEADWATER_TEST_EXAMPLES", "1"))):
        table = Table(spark, draw, tmp_path / str(example))
        for _ in range(20 if "HEADWATER_TEST_EXAMPLES" in os.environ else 10):
            text = table.query()
            frame = spark.sql(text)
            found = sorted(map(repr, frame.collect()))
            answered += "LocalTableScan" in frame._jdf.queryExecution().executedPlan().toString()
            with settings(BY_SCAN):
                expected = spark.sql(text)
                assert "LocalTableScan" not in expected._jdf.queryExecution().executedPlan().toString()
                assert found == sorted(map(repr, expected.collect())), text
    assert answered > 0
