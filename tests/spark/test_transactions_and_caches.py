"""What Spark caches never has anything of an open transaction, whatever statement would have it computed again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytestmark = pytest.mark.spark

BEFORE = [(1, "one"), (2, "two")]
ADDED = "SELECT 3 AS id, 'three' AS v"
AFTER_ADDED = [*BEFORE, (3, "three")]


def frame(spark: Any) -> Any:
    return spark.sql(ADDED)


#: Each with the rows that the table has after it.
STATEMENTS: dict[str, tuple[Callable[[Any, str], Any], list[tuple]]] = {
    "insert": (lambda spark, path: spark.sql(f"INSERT INTO a {ADDED}"), AFTER_ADDED),
    "insert by path": (lambda spark, path: spark.sql(f"INSERT INTO delta.`{path}` {ADDED}"), AFTER_ADDED),
    "insert overwrite": (lambda spark, path: spark.sql(f"INSERT OVERWRITE a {ADDED}"), AFTER_ADDED[2:]),
    "replace where": (
        lambda spark, path: spark.sql("INSERT INTO a REPLACE WHERE id = 2 SELECT 2, 'new'"),
        [(1, "one"), (2, "new")],
    ),
    "replace using": (
        lambda spark, path: spark.sql("INSERT INTO a REPLACE USING (id) SELECT 2 AS id, 'new' AS v"),
        [(1, "one"), (2, "new")],
    ),
    "saveAsTable": (
        lambda spark, path: frame(spark).write.format("delta").mode("append").saveAsTable("a"),
        AFTER_ADDED,
    ),
    "insertInto": (lambda spark, path: frame(spark).write.insertInto("a"), AFTER_ADDED),
    "append": (lambda spark, path: frame(spark).writeTo("a").append(), AFTER_ADDED),
    "save": (lambda spark, path: frame(spark).write.format("delta").mode("append").save(path), AFTER_ADDED),
    "save overwrite": (
        lambda spark, path: frame(spark).write.format("delta").mode("overwrite").save(path),
        AFTER_ADDED[2:],
    ),
    "update": (lambda spark, path: spark.sql("UPDATE a SET v = 'new' WHERE id = 2"), [(1, "one"), (2, "new")]),
    "delete": (lambda spark, path: spark.sql("DELETE FROM a WHERE id = 2"), [(1, "one")]),
    "merge": (
        lambda spark, path: spark.sql(f"MERGE INTO a USING ({ADDED}) s ON a.id = s.id WHEN NOT MATCHED THEN INSERT *"),
        AFTER_ADDED,
    ),
    "truncate": (lambda spark, path: spark.sql("TRUNCATE TABLE a"), []),
    "add a column": (
        lambda spark, path: spark.sql("ALTER TABLE a ADD COLUMNS (more INT)"),
        [(*row, None) for row in BEFORE],
    ),
    "drop a column": (lambda spark, path: spark.sql("ALTER TABLE a DROP COLUMN v"), [(1,), (2,)]),
    "refresh": (lambda spark, path: [spark.sql(f"INSERT INTO a {ADDED}"), spark.sql("REFRESH TABLE a")], AFTER_ADDED),
    "uncache a part": (
        lambda spark, path: [spark.sql(f"INSERT INTO a {ADDED}"), spark.catalog.uncacheTable("part")],
        AFTER_ADDED,
    ),
}


def rows(frame: Any) -> list[tuple]:
    return sorted(tuple(row) for row in frame.collect())


@pytest.fixture
def cached(spark: Any, database: str) -> Iterator[tuple[Any, str, dict[str, Any]]]:
    """Another session, the table's path, and frames over the table in both sessions that Spark has cached."""
    spark.sql(
        "CREATE TABLE a (id INT, v STRING) USING delta "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.enableDeletionVectors' = 'true')"
    )
    spark.sql("INSERT INTO a VALUES (1, 'one'), (2, 'two')")
    path = spark.sql("DESCRIBE DETAIL a").collect()[0].location.removeprefix("file:")
    other = spark.newSession()
    other.sql(f"USE {database}")
    spark.sql("CACHE TABLE a")
    spark.table("a").where("id < 10").createOrReplaceTempView("part")
    spark.sql("CACHE TABLE part")
    frames = {
        "another's": other.table("a").selectExpr("id").cache(),
        "by path": spark.read.format("delta").load(path).selectExpr("id + 1").cache(),
        "mine": spark.table("a").groupBy().count().cache(),
    }
    yield other, path, frames
    if spark.conf.get("spark.headwater.transaction", None) is not None:
        spark.sql("ROLLBACK")
    spark.catalog.clearCache()


def seen_by(session: Any, path: str) -> list[list[tuple]]:
    """The table as a session has it by its name, by its path, and by frames that equal cached ones."""
    return [
        rows(session.table("a")),
        rows(session.read.format("delta").load(path)),
        rows(session.table("a").selectExpr("id")),
        rows(session.table("a").where("id < 10")),
        rows(session.table("a").groupBy().count()),
    ]


def shown(table: list[tuple]) -> list[list[tuple]]:
    """The same of a table with these rows."""
    return [table, table, [row[:1] for row in table], table, [(len(table),)]]


#: Those that the usual run has: Spark's own ways to compute a cache again, and ours.
USUAL = ("insert", "save", "merge", "drop a column", "uncache a part")


@pytest.mark.parametrize(
    "statement", [pytest.param(name, marks=() if name in USUAL else pytest.mark.soak) for name in STATEMENTS]
)
def test_caches_have_nothing_of_a_transaction(spark: Any, cached: Any, statement: str) -> None:
    other, path, frames = cached
    run, after = STATEMENTS[statement]
    spark.sql("BEGIN TRANSACTION")
    run(spark, path)
    assert seen_by(spark, path) == shown(after)
    assert seen_by(other, path) == shown(BEFORE)
    assert rows(frames["another's"]) == [(1,), (2,)]
    spark.sql("ROLLBACK")
    for session in (spark, other):
        assert seen_by(session, path) == shown(BEFORE)
    assert rows(frames["mine"]) == [(2,)]
    # Nobody reads between this one and its end.
    spark.sql("BEGIN TRANSACTION")
    run(spark, path)
    spark.sql("ROLLBACK")
    other.sql("CREATE TABLE copied USING delta AS SELECT * FROM a")
    assert [rows(session.table(name)) for session in (spark, other) for name in ("a", "copied")] == [BEFORE] * 4
    assert rows(frames["by path"]) == [(2,), (3,)]


@pytest.mark.parametrize("statement", ["insert", "merge", "add a column"])
def test_caches_have_what_was_committed(spark: Any, cached: Any, statement: str) -> None:
    other, path, _ = cached
    run, after = STATEMENTS[statement]
    spark.sql("BEGIN TRANSACTION")
    run(spark, path)
    spark.sql("COMMIT")
    for session in (spark, other):
        assert seen_by(session, path) == shown(after)
    if statement == "add a column":
        return  # what was cached has other columns
    # They are caches still.
    planned = other.table("a").where("id < 10")._jdf.queryExecution().executedPlan().toString()
    assert "InMemoryRelation" in planned


def test_a_frame_of_before_has_what_its_own_transaction_did(spark: Any, cached: Any) -> None:
    """Even one that Spark has cached, or a view of it."""
    before = spark.table("a").where("id < 10")
    spark.sql("BEGIN TRANSACTION")
    spark.sql(f"INSERT INTO a {ADDED}")
    spark.sql("UPDATE a SET v = 'new' WHERE id = 3")
    expected = [*BEFORE, (3, "new")]
    assert rows(spark.table("part")) == expected
    assert rows(before.select("*")) == expected
    spark.sql("ROLLBACK")
    assert rows(spark.table("part")) == rows(before.select("id", "v")) == BEFORE


def test_a_frame_that_was_cached_within_a_transaction_has_nothing_of_it_after_a_rollback(
    spark: Any, cached: Any
) -> None:
    """And what was cached before is still a cache."""
    spark.sql("BEGIN TRANSACTION")
    spark.sql(f"INSERT INTO a {ADDED}")
    within = spark.table("a").selectExpr("id * 2").cache()
    assert rows(within) == [(2,), (4,), (6,)]
    spark.sql("ROLLBACK")
    assert rows(within.select("*")) == [(2,), (4,)]
    planned = spark.table("a").where("id < 10")._jdf.queryExecution().executedPlan().toString()
    assert "InMemoryRelation" in planned


def cached_queries(spark: Any) -> int:
    return int(spark._jsparkSession.sharedState().cacheManager().numCachedEntries())


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
@pytest.mark.parametrize("changes", [True, False])
def test_a_frame_that_a_transaction_defines_is_cached_until_its_end(
    spark: Any, cached: Any, end: str, changes: bool
) -> None:
    already = cached_queries(spark)
    spark.sql("BEGIN TRANSACTION")
    if changes:
        spark.sql(f"INSERT INTO a {ADDED}")
    defined = spark.table("a").where("id > 0").cache()
    assert rows(defined) == (AFTER_ADDED if changes else BEFORE)
    assert cached_queries(spark) == already + 1
    spark.sql(end)
    assert cached_queries(spark) == already
    assert not defined.storageLevel.useMemory
    assert rows(spark.table("a").where("id > 0")) == (AFTER_ADDED if changes and end == "COMMIT" else BEFORE)


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
@pytest.mark.parametrize("has_run", [True, False])
def test_a_frame_of_before_that_a_transaction_caches_is_seen_by_none_and_let_go(
    spark: Any, cached: Any, end: str, has_run: bool
) -> None:
    other = cached[0]
    already = cached_queries(spark)
    before = spark.table("a").where("id > 0")
    if has_run:
        before.collect()
    spark.sql("BEGIN TRANSACTION")
    spark.sql(f"INSERT INTO a {ADDED}")
    before.cache()
    before.count()
    assert rows(other.table("a").where("id > 0")) == BEFORE
    spark.sql(end)
    for session in (spark, other):
        assert rows(session.table("a").where("id > 0")) == (AFTER_ADDED if end == "COMMIT" else BEFORE)
    before.unpersist()
    assert cached_queries(spark) == already


@pytest.mark.usefixtures("cached")
def test_uncache_table_waits_for_the_end(spark: Any) -> None:
    """It would find nothing: what was cached before is not the transaction's."""
    spark.sql("BEGIN TRANSACTION")
    with pytest.raises(Exception, match="HEADWATER_NOT_IN_TRANSACTION"):
        spark.sql("UNCACHE TABLE part")


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_what_is_computed_again_after_a_transaction_has_the_settings_of_its_session(
    spark: Any, cached: Any, settings: Any, end: str
) -> None:
    with settings({"spark.sql.session.timeZone": "America/New_York"}):
        zones = spark.table("a").selectExpr("id", "current_timezone()").cache()
        expected = [(1, "America/New_York"), (2, "America/New_York")]
        assert rows(zones) == expected
        spark.sql("BEGIN TRANSACTION")
        assert rows(zones.select("*")) == expected
        spark.sql(end)
        assert rows(zones.select("*")) == expected


def transactions_with_caches(spark: Any) -> int:
    """How many transactions Spark's side knows the queries of."""
    jvm = spark._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    kind = jvm.java.lang.Class.forName("headwater.spark.scan.tables.KeyByTransaction$", True, loader)
    known = kind.getDeclaredField("read")
    known.setAccessible(True)
    return int(known.get(kind.getField("MODULE$").get(None)).size())


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_nothing_is_kept_of_the_queries_of_a_transaction_that_has_ended(spark: Any, cached: Any, end: str) -> None:
    before = transactions_with_caches(spark)
    spark.sql("BEGIN TRANSACTION")
    spark.table("a").collect()
    spark.sql(f"INSERT INTO a {ADDED}")
    spark.table("part").collect()
    assert transactions_with_caches(spark) == before + 1
    spark.sql(end)
    assert transactions_with_caches(spark) == before
