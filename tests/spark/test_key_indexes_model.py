"""Random statements on a table with key indexes, and the same ones on a table without: rows, ids, feed and history are
equal, whatever the indexes know.

Keys are of several types and come again and again. Between the statements, indexes are refreshed or left behind, and
their files are lost.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from headwater.transaction import wait_for_maintenance

_COLUMNS = "s STRING, n INT, d DECIMAL(12,2), t TIMESTAMP, day DATE, v INT"
_ROW = (
    "concat('k', {0} % 90) AS s, cast({0} % 70 AS INT) AS n, cast({0} % 50 AS DECIMAL(12,2)) / 4 AS d, "
    "timestamp_micros(({0} % 40) * 1000000007) AS t, date_from_unix_date(cast({0} % 30 AS INT)) AS day"
)
_INDEXES = {"by_s": "s", "by_n": "n", "by_d": "d", "by_t_and_day": "t, day"}
_METRICS = ("numUpdatedRows", "numDeletedRows", "numTargetRowsUpdated", "numTargetRowsDeleted", "numTargetRowsInserted")


class Twins:
    """Two tables that get the same statements; the first has indexes."""

    names = ("indexed", "plain")

    def __init__(self, spark: Any, random: Random, database: str) -> None:
        self.spark, self.random, self.number = spark, random, 0
        vectors, feed, ids = (random.choice(["true", "false"]) for _ in range(3))
        properties = (
            f"'delta.enableDeletionVectors' = '{vectors}', 'delta.enableChangeDataFeed' = '{feed}', "
            f"'delta.enableRowTracking' = '{ids}', 'delta.columnMapping.mode' = 'name'"
        )
        self.feed, self.ids = feed == "true", ids == "true"
        partitioned = random.choice(["", " PARTITIONED BY (v)"])
        for name in self.names:
            spark.sql(f"CREATE TABLE {name} ({_COLUMNS}) USING delta{partitioned} TBLPROPERTIES ({properties})")
        some = random.sample(sorted(_INDEXES), random.randrange(1, 4))
        for name in some:
            spark.sql(f"CREATE INDEX {name} ON indexed ({_INDEXES[name]})")
        self.folder = Path(spark.sql("DESCRIBE DETAIL indexed").first().location.removeprefix("file:")) / "_headwater"

    def run(self, text: str) -> None:
        for name in self.names:
            self.spark.sql(text.format(name))

    def rows(self, count: int) -> str:
        """Random rows, by a query that gives the same ones each time."""
        start = self.random.randrange(10_000)
        row = _ROW.format(f"(id * 37 + {start})")
        return f"SELECT {row}, {self.random.randrange(3)} AS v FROM range(0, {count}, 1, {self.random.randrange(1, 4)})"

    def condition(self) -> str:
        draw = self.random.randrange
        return self.random.choice(
            [
                f"s = 'k{draw(100)}'",
                f"s IN ('k{draw(100)}', 'k{draw(100)}', NULL)",
                f"n = {draw(80)} AND v < 2",
                f"n IN ({draw(80)}, {draw(80)}, {draw(80)})",
                f"d = {draw(200) / 4}BD",
                f"{draw(80)} = n AND s IN ('k{draw(100)}', 'k{draw(100)}')",
                f"t = timestamp_micros({draw(45)} * 1000000007L) AND day = date_from_unix_date({draw(33)})",
                f"t = timestamp_micros({draw(45)} * 1000000007L) AND day IN (DATE'1970-01-05', DATE'1970-01-20')",
                f"n = {draw(80)} OR s = 'k{draw(100)}'",
            ]
        )

    def step(self) -> None:
        draw = self.random.randrange
        kind = draw(11)
        if kind < 3:
            self.run(f"INSERT INTO {{0}} {self.rows(draw(1, 60))}")
        elif kind == 3:
            self.run(f"UPDATE {{0}} SET v = {draw(3)} WHERE {self.condition()}")
        elif kind == 4:
            self.run(f"DELETE FROM {{0}} WHERE {self.condition()}")
        elif kind < 7:
            on = self.random.choice(
                ["t.s = s.s", "t.n = s.n AND t.d = s.d", "t.t = s.t AND t.day = s.day AND t.v = s.v"]
            )
            keys = (
                on.replace("t.", "", 1).split(" = ")[0] if " AND " not in on else "n, d" if "t.n" in on else "t, day, v"
            )
            source = f"SELECT * FROM ({self.rows(draw(1, 30))}) WHERE s IS NOT NULL"
            once = f"SELECT max_by(struct(*), s) AS r FROM ({source}) GROUP BY {keys}"
            source_rows = f"SELECT r.* FROM ({once})"
            file = f"{self.folder.parent}-source-{self.number}"
            self.spark.sql(f"INSERT OVERWRITE DIRECTORY '{file}' USING parquet {source_rows}")
            source = self.random.choice([f"parquet.`{file}`", f"({source_rows})"])
            matched = self.random.choice(["UPDATE SET v = s.v", "UPDATE SET *", "DELETE"])
            insert = self.random.choice(["", " WHEN NOT MATCHED THEN INSERT *"])
            behind = self.random.choice(["", "", f" WHEN NOT MATCHED BY SOURCE AND t.n = {draw(70)} THEN DELETE"])
            self.run(f"MERGE INTO {{0}} t USING {source} s ON {on} WHEN MATCHED THEN {matched}{insert}{behind}")
        elif kind == 7:
            newest = self.spark.sql(self.rows(draw(1, 30))).dropDuplicates(["s"])
            rows = self.spark.createDataFrame(newest.collect(), newest.schema)
            for name in self.names:
                rows.write.format("delta").mode("append").option("idCols", "s").saveAsTable(name)
        elif kind == 8:
            self.run(self.random.choice(["OPTIMIZE {0}", "REORG TABLE {0} APPLY (PURGE)"]))
        elif kind == 9:
            version = self.spark.sql("DESCRIBE HISTORY plain LIMIT 4").collect()[-1].version
            if version > 0 and self.version("indexed") == self.version("plain"):
                self.run(f"RESTORE TABLE {{0}} TO VERSION AS OF {version}")
        else:
            self.lose()
        self.number += 1

    def version(self, name: str) -> int:
        return int(self.spark.sql(f"DESCRIBE HISTORY {name} LIMIT 1").first().version)

    def lose(self) -> None:
        """Files of the indexes are gone, or damaged."""
        wait_for_maintenance(60)
        found = sorted(path for path in self.folder.rglob("*") if path.is_file())
        for path in self.random.sample(found, min(len(found), 2)):
            if self.random.random() < 0.5:
                path.unlink(missing_ok=True)
            else:
                content = bytearray(path.read_bytes())
                content[self.random.randrange(len(content))] ^= 1 << self.random.randrange(8)
                path.write_bytes(content)

    def check(self) -> None:
        self.same("SELECT * FROM {0}")
        for _ in range(2):
            self.same(f"SELECT * FROM {{0}} WHERE {self.condition()}")
        keys = f"SELECT DISTINCT n FROM ({self.rows(4)})"
        self.same(f"SELECT t.* FROM {{0}} t JOIN ({keys}) k ON t.n = k.n")
        history = [self.history(name) for name in self.names]
        assert history[0] == history[1]
        if self.feed:
            self.same("SELECT s, n, d, t, day, v, _change_type FROM table_changes('{0}', 1)")
        if self.ids:
            self.same("SELECT _metadata.row_id, s, n, d, v FROM {0}")

    def same(self, query: str) -> None:
        found = [sorted(map(str, self.spark.sql(query.format(name)).collect())) for name in self.names]
        assert found[0] == found[1], query

    def history(self, name: str) -> list[Any]:
        rows = self.spark.sql(f"DESCRIBE HISTORY {name}").collect()
        return [
            (row.operation, {metric: row.operationMetrics.get(metric) for metric in _METRICS})
            for row in rows
            if "INDEX" not in row.operation
        ]


@contextmanager
def settings(spark: Any, **given: str) -> Iterator[None]:
    names = {f"spark.headwater.{name.replace('_', '.')}": value for name, value in given.items()}
    for name, value in names.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in names:
            spark.conf.unset(name)


@pytest.mark.random
@pytest.mark.parametrize("seed", [*range(3), *[pytest.param(n, marks=pytest.mark.soak) for n in range(3, 40)]])
def test_statements_do_the_same_with_indexes(spark: Any, database: str, seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    with settings(spark, keyIndex="always", merge_smallTargetBytes="1"):
        twins = Twins(spark, random, database)
        # So many files are built in the background.
        twins.run(f"INSERT INTO {{0}} SELECT /*+ REPARTITION({random.choice([1, 40])}) */ * FROM ({twins.rows(200)})")
        for number in range(14):
            twins.step()
            if random.random() < 0.6:
                spark.sql("REFRESH INDEX ON indexed")
            if number % 4 == 3:
                twins.check()
        twins.check()
        wait_for_maintenance(60)
        for path in twins.folder.parent.parent.glob(f"{twins.folder.parent.name}-source-*"):
            shutil.rmtree(path)
