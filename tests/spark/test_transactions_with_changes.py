"""The change feed of transactions over several statements: what the table has more and less than before."""

from __future__ import annotations

import os
import random
from collections import Counter

import pytest
from pyspark.errors import PySparkException

import headwater
from headwater.log.commits import parse_actions
from headwater.log.segment import list_log
from headwater.stores import LocalStore

pytestmark = pytest.mark.spark

#: Transactions, of three statements each.
EXAMPLES = int(os.environ.get("HEADWATER_TEST_EXAMPLES", "24")) // 3
SEED = 4 if "HEADWATER_TEST_EXAMPLES" not in os.environ else None


def create(spark, name="t", *, vectors, partitioning="") -> None:
    spark.sql(
        f"CREATE TABLE {name} (k BIGINT, v BIGINT, p STRING) USING delta {partitioning} TBLPROPERTIES "
        f"('delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = '{vectors}')"
    )
    spark.sql(f"INSERT INTO {name} SELECT id, id, concat('p', id % 3) FROM range(0, 12, 1, 3)")


def table(spark, version=None, name="t") -> Counter:
    at = "" if version is None else f" VERSION AS OF {version}"
    return Counter(tuple(row) for row in spark.sql(f"SELECT k, v, p FROM {name}{at}").collect())


def feed(spark, version, name="t") -> list[tuple]:
    read = f"SELECT _change_type, k, v, p FROM table_changes('{name}', {version}, {version})"
    return sorted(tuple(row) for row in spark.sql(read).collect())


def applied(before: Counter, changes: list[tuple]) -> Counter:
    """A table after changes, each row of which takes away only what is there."""
    after = before.copy()
    for kind, *row in changes:
        if kind in ("delete", "update_preimage"):
            after[tuple(row)] -= 1
    assert min(after.values(), default=0) >= 0
    for kind, *row in changes:
        if kind in ("insert", "update_postimage"):
            after[tuple(row)] += 1
    return +after


def change_files(spark, name="t") -> int:
    (path,) = spark.sql(f"DESCRIBE DETAIL {name}").select("location").first()
    store, path = LocalStore(), path.removeprefix("file:")
    newest = max(list_log(path, store).commits.items())[1].path
    return len(parse_actions(store.read(newest), newest).change_files)


def statement(rng: random.Random, number: int) -> str:
    """One about a few rows; values of rows that it writes say which statement that was."""
    key, other = rng.randrange(16), rng.randrange(16)
    return rng.choice(
        [
            f"INSERT INTO t VALUES ({20 + number}, {number}00, 'p{rng.randrange(3)}'), ({key}, {number}01, 'p0')",
            f"UPDATE t SET v = v + {number}00 WHERE k = {key}",
            f"DELETE FROM t WHERE k IN ({key}, {other})",
            f"DELETE FROM t WHERE p = 'p{rng.randrange(3)}'",
            f"MERGE INTO t USING (VALUES ({key}), ({30 + number}) AS s(n)) ON k = n "
            f"WHEN MATCHED AND k % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET v = {number}00 "
            f"WHEN NOT MATCHED THEN INSERT (k, v, p) VALUES (n, {number}, 'p1')",
            f"INSERT INTO t REPLACE USING (k) SELECT {key} AS k, {number}00 AS v, 'p2' AS p",
            f"INSERT INTO t REPLACE WHERE p = 'p1' VALUES ({number}, {number}00, 'p1')",
        ]
    )


def is_taken(spark, text: str) -> bool:
    """Run a statement; False where it cannot be part of the transaction."""
    try:
        spark.sql(text)
    except PySparkException as error:
        if error.getCondition() != "HEADWATER_NOT_IN_TRANSACTION":
            raise
        return False
    return True


@pytest.mark.parametrize("vectors", ["true", pytest.param("false", marks=pytest.mark.soak)])
def test_what_one_statement_did_not_record_is_recorded_beside_another(spark, database, vectors):
    create(spark, vectors=vectors, partitioning="PARTITIONED BY (p)")
    spark.sql("DELETE FROM t WHERE k = 6")
    before = table(spark)
    with headwater.in_transaction(spark):
        spark.sql("INSERT INTO t VALUES (20, 1, 'p0'), (21, 2, 'p0')")
        spark.sql("ALTER TABLE t ADD COLUMNS (n INT)")
        spark.sql("DELETE FROM t WHERE p = 'p2'")
        spark.sql("UPDATE t SET v = 100, n = 1 WHERE k = 1")
        spark.sql("DELETE FROM t WHERE k = 20")
        if vectors == "true":
            spark.sql("UPDATE t SET v = 101 WHERE k = 4")  # in the same file
        assert not is_taken(spark, "UPDATE t SET v = 102 WHERE k = 1")
        expected = table(spark)
    changes = feed(spark, 3)
    updates = {(1, 100), (4, 101)} if vectors == "true" else {(1, 100)}
    assert changes == sorted(
        [
            *(("delete", k, k, "p2") for k in (2, 5, 8, 11)),
            ("insert", 21, 2, "p0"),
            *(("update_preimage", k, k, "p1") for k, _ in updates),
            *(("update_postimage", k, v, "p1") for k, v in updates),
        ]
    )
    assert applied(before, changes) == expected == table(spark)
    assert change_files(spark) > 1
    with headwater.in_transaction(spark):
        spark.sql("INSERT INTO t VALUES (30, 1, 'p0', 1), (31, 2, 'p0', 1)")
        spark.sql("UPDATE t SET v = 100 WHERE k >= 30")
        spark.sql("DELETE FROM t WHERE p = 'p1'")
    assert change_files(spark) == 0
    assert applied(expected, feed(spark, 4)) == table(spark)


@pytest.mark.soak
@pytest.mark.random
@pytest.mark.parametrize(
    ("vectors", "partitioning"), [("true", ""), ("false", "PARTITIONED BY (p)"), ("true", "PARTITIONED BY (p)")]
)
def test_the_feed_is_the_difference_of_versions(spark, database, vectors, partitioning):
    rng = random.Random(SEED)
    create(spark, vectors=vectors, partitioning=partitioning)
    taken = 0
    for number in range(1, EXAMPLES + 1):
        before = table(spark)
        with headwater.in_transaction(spark) as done:
            some = 0
            for part in range(rng.randrange(2, 5)):
                seen = table(spark)
                if is_taken(spark, statement(rng, number * 10 + part)):
                    some += 1
                else:
                    assert table(spark) == seen
            expected = table(spark)
        assert table(spark) == expected
        for version in done.versions.values():
            taken += some > 1
            assert applied(before, feed(spark, version)) == expected
    assert taken > EXAMPLES / 3
