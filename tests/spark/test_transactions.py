"""Transactions over several statements through Spark: what is read, written, undone, and refused by name."""

from __future__ import annotations

import time
from threading import Thread

import pytest
from pyspark.errors import PySparkException

import headwater
from support.requests import actions

pytestmark = pytest.mark.spark


@pytest.fixture
def tables(spark, database):
    spark.sql("CREATE TABLE a (id INT, v STRING) USING delta")
    spark.sql("CREATE TABLE b (id INT, n INT) USING delta")
    spark.sql("INSERT INTO a VALUES (1, 'one')")
    yield
    if spark.conf.get("spark.headwater.transaction", None) is not None:
        spark.sql("ROLLBACK")


def another(spark):
    """A session beside this one, with the same tables."""
    other = spark.newSession()
    other.sql(f"USE {spark.catalog.currentDatabase()}")
    return other


def rows(spark, table) -> list[tuple]:
    return sorted(tuple(row) for row in spark.table(table).collect())


def condition_of(spark, text) -> str:
    with pytest.raises(PySparkException) as caught:
        spark.sql(text).collect()
    return str(caught.value.getCondition())


@pytest.mark.usefixtures("tables")
def test_statements_build_on_each_other_and_others_see_nothing(spark):
    other = another(spark)
    spark.sql("BEGIN TRANSACTION")
    spark.sql("INSERT INTO a VALUES (2, 'two'), (3, 'three')")
    spark.sql("INSERT INTO b SELECT id, 10 * id FROM a")
    spark.sql("UPDATE a SET v = 'new' WHERE id >= 2")
    spark.sql("DELETE FROM b WHERE id = 1")
    spark.sql(
        "MERGE INTO a USING b ON a.id = b.id WHEN MATCHED THEN UPDATE SET v = concat(a.v, b.n) "
        "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (b.id, 'none')"
    )
    expected = [(1, "one"), (2, "new20"), (3, "new30")], [(2, 20), (3, 30)]
    assert (rows(spark, "a"), rows(spark, "b")) == expected
    assert spark.sql("SELECT count(*) FROM a").collect()[0][0] == 3  # by the log alone
    assert (rows(other, "a"), rows(other, "b")) == ([(1, "one")], [])
    committed = spark.sql("COMMIT").collect()
    assert [row.version for row in committed] == [2, 1]
    for session in (spark, other):
        assert (rows(session, "a"), rows(session, "b")) == expected
    history = spark.sql("DESCRIBE HISTORY a").collect()[0]
    assert (history.operation, history.operationParameters) == (
        "TRANSACTION",
        {"statements": '["WRITE","UPDATE","MERGE"]'},
    )
    # The files that INSERT and UPDATE wrote and a later statement replaced are in no version.
    assert len(actions(committed[0].path, 2, "add")) == 1


def insert_and_fail(spark) -> None:
    with headwater.in_transaction(spark):
        spark.sql("INSERT INTO a VALUES (9, 'nine')")
        raise ZeroDivisionError


@pytest.mark.usefixtures("tables")
def test_what_is_cached_has_nothing_of_an_open_transaction(spark):
    other = another(spark)
    other.sql("CACHE TABLE a")
    spark.sql("BEGIN TRANSACTION")
    spark.sql("INSERT INTO a VALUES (2, 'two')")
    assert condition_of(spark, "CACHE TABLE a") == "HEADWATER_NOT_IN_TRANSACTION"
    assert rows(spark, "a") == [(1, "one"), (2, "two")]
    assert rows(other, "a") == [(1, "one")]
    spark.sql("ROLLBACK")
    assert rows(spark, "a") == rows(other, "a") == [(1, "one")]
    with headwater.in_transaction(spark):
        spark.sql("INSERT INTO a VALUES (3, 'three')")
        assert rows(other, "a") == [(1, "one")]
    assert rows(spark, "a") == rows(other, "a") == [(1, "one"), (3, "three")]
    other.sql("UNCACHE TABLE a")


@pytest.mark.usefixtures("tables")
def test_what_others_cache_again_or_read_by_a_view_has_nothing_of_an_open_transaction(spark):
    others = [another(spark), another(spark)]
    spark.sql("CACHE TABLE a")
    spark.table("a").createOrReplaceGlobalTempView("shared")
    spark.sql("BEGIN TRANSACTION")
    spark.sql("INSERT INTO a VALUES (2, 'two')")
    others[0].sql("INSERT INTO a VALUES (3, 'three')")  # Spark caches it again
    others[1].sql("BEGIN TRANSACTION")
    others[1].sql("INSERT INTO a VALUES (4, 'four')")
    assert rows(others[0], "a") == rows(others[0], "global_temp.shared") == [(1, "one"), (3, "three")]
    assert others[0].sql("SELECT count(*) FROM global_temp.shared").collect()[0][0] == 2
    assert rows(others[1], "a") == [(1, "one"), (3, "three"), (4, "four")]
    assert rows(spark, "a") == [(1, "one"), (2, "two")]
    others[1].sql("ROLLBACK")
    spark.sql("ROLLBACK")
    assert rows(others[1], "a") == rows(spark, "a") == [(1, "one"), (3, "three")]
    spark.sql("UNCACHE TABLE a")


@pytest.mark.usefixtures("tables")
def test_a_stream_is_refused_whatever_it_writes(spark, tmp_path):
    stream = spark.readStream.format("rate").load().writeStream.option("checkpointLocation", f"{tmp_path}/s")
    spark.sql("BEGIN TRANSACTION")
    with pytest.raises(PySparkException, match="HEADWATER_NOT_IN_TRANSACTION"):
        stream.foreachBatch(lambda rows, number: None).start()
    spark.sql("ROLLBACK")


@pytest.mark.usefixtures("tables")
def test_rollback_and_a_block_that_raises(spark):
    spark.sql("BEGIN TRANSACTION")
    spark.sql("INSERT OVERWRITE a VALUES (9, 'nine')")
    assert rows(spark, "a") == [(9, "nine")]
    spark.sql("ROLLBACK")
    assert rows(spark, "a") == [(1, "one")]
    with pytest.raises(ZeroDivisionError):
        insert_and_fail(spark)
    assert rows(spark, "a") == [(1, "one")]
    with headwater.in_transaction(spark) as done:
        spark.createDataFrame([(2, "two")], "id INT, v STRING").writeTo("a").append()
    assert list(done.versions.values()) == [2]


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_definitions_and_rows_change_together(spark, end):
    other = another(spark)
    spark.sql("BEGIN TRANSACTION")
    spark.sql("ALTER TABLE a ADD COLUMNS (z INT COMMENT 'new')")
    spark.sql("UPDATE a SET z = 10 * id")
    spark.sql("ALTER TABLE a ADD CONSTRAINT tens CHECK (z % 10 = 0)")
    spark.sql("ALTER TABLE a SET TBLPROPERTIES ('made.by' = 'me')")
    assert condition_of(spark, "INSERT INTO a VALUES (2, 'two', 21)") == "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"
    spark.sql("INSERT INTO a VALUES (2, 'two', 20)")
    assert rows(spark, "a") == [(1, "one", 10), (2, "two", 20)]
    assert rows(other, "a") == [(1, "one")]
    answered = spark.sql(end).collect()
    if end == "ROLLBACK":
        assert rows(spark, "a") == rows(other, "a") == [(1, "one")]
        return
    assert [row.version for row in answered] == [2]
    assert rows(spark, "a") == rows(other, "a") == [(1, "one", 10), (2, "two", 20)]
    assert condition_of(other, "INSERT INTO a VALUES (3, 'three', 31)") == "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"
    shown = {row.key: row.value for row in other.sql("SHOW TBLPROPERTIES a").collect()}
    assert (shown["made.by"], shown["delta.constraints.tens"]) == ("me", "z % 10 = 0")


@pytest.mark.usefixtures("tables")
def test_a_script_is_one_transaction(spark):
    spark.sql(
        "BEGIN ATOMIC DECLARE n INT DEFAULT 5; INSERT INTO a VALUES (n, 'five'); "
        "INSERT INTO b SELECT id, n FROM a WHERE id = n; END"
    )
    assert (rows(spark, "a"), rows(spark, "b")) == ([(1, "one"), (5, "five")], [(5, 5)])
    failed = "BEGIN ATOMIC INSERT INTO a VALUES (6, 'six'); INSERT INTO b SELECT raise_error('no'), 1; END"
    assert condition_of(spark, failed) == "USER_RAISED_EXCEPTION"
    assert rows(spark, "a") == [(1, "one"), (5, "five")]
    assert condition_of(spark, "COMMIT") == "HEADWATER_NO_TRANSACTION"
    assert condition_of(spark, "BEGIN ATOMIC BEGIN TRANSACTION; END") == "HEADWATER_TRANSACTION_NESTED"
    for end in ("ROLLBACK", "EXECUTE IMMEDIATE 'ROLLBACK'", "EXECUTE IMMEDIATE 'COMMIT'"):
        script = f"BEGIN ATOMIC INSERT INTO a VALUES (6, 'six'); {end}; INSERT INTO a VALUES (7, 'seven'); END"
        assert condition_of(spark, script) == "HEADWATER_TRANSACTION_OF_SCRIPT"
    assert rows(spark, "a") == [(1, "one"), (5, "five")]


@pytest.mark.usefixtures("tables")
def test_frames_and_views_of_a_transaction_read_the_table_after_it(spark):
    spark.sql("BEGIN TRANSACTION")
    spark.sql("INSERT INTO a VALUES (2, 'two')")
    spark.sql("INSERT INTO a VALUES (3, 'three')")
    frame, named = spark.table("a"), spark.read.option("versionAsOf", 3).table("a")
    frame.createOrReplaceTempView("v")
    assert (frame.count(), named.count()) == (3, 3)
    spark.sql("ROLLBACK")
    assert rows(spark, "v") == [(1, "one")]
    assert condition_of(spark, "SELECT * FROM a VERSION AS OF 3") == "DELTA_VERSION_NOT_FOUND"
    # Other commits take the numbers.
    spark.sql("INSERT INTO a VALUES (4, 'four')")
    spark.sql("CREATE OR REPLACE TABLE a (v INT, id INT) USING delta PARTITIONED BY (v)")
    with pytest.raises(PySparkException, match="DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS"):
        frame.where("id > 0").collect()
    with pytest.raises(PySparkException, match="DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS"):
        named.collect()
    spark.sql("CREATE OR REPLACE TABLE a (v STRING, id INT) USING delta PARTITIONED BY (v)")
    spark.sql("INSERT INTO a VALUES ('five', 5)")
    assert rows(spark, "v") == [(5, "five")]


@pytest.mark.usefixtures("tables")
def test_what_rollback_would_not_undo_is_refused_and_the_transaction_goes_on(spark, tmp_path):
    spark.sql("CREATE TABLE parquet_table (id INT) USING parquet")
    spark.sql("BEGIN TRANSACTION")
    spark.sql("INSERT INTO a VALUES (2, 'two')")
    for text in (
        "CREATE TABLE c (id INT) USING parquet",
        "CREATE OR REPLACE TABLE a USING delta AS SELECT 1 AS id",
        "CREATE TABLE c LIKE a USING delta",
        "CREATE TABLE c SHALLOW CLONE a",
        "CREATE VIEW c AS SELECT * FROM a",
        "DROP TABLE a",
        "INSERT INTO parquet_table VALUES (1)",
        f"INSERT OVERWRITE DIRECTORY '{tmp_path}/d' USING parquet SELECT 1",
        "ALTER TABLE a SET TBLPROPERTIES ('delta.appendOnly' = 'true')",
        "ALTER TABLE a UNSET TBLPROPERTIES ('delta.appendOnly')",
        "ALTER TABLE a CLUSTER BY (id)",
        f"ALTER TABLE a SET LOCATION '{tmp_path}/d'",
        "ALTER TABLE parquet_table SET TBLPROPERTIES ('x' = 'y')",
        "ALTER TABLE a RENAME TO c",
        "OPTIMIZE a",
        "VACUUM a",
        "RESTORE a TO VERSION AS OF 0",
        "ANALYZE TABLE a COMPUTE DELTA STATISTICS",
        "RESET",
    ):
        assert condition_of(spark, text) == "HEADWATER_NOT_IN_TRANSACTION", text
    with pytest.raises(PySparkException, match="HEADWATER_NOT_IN_TRANSACTION"):
        spark.readStream.table("a").writeStream.option("checkpointLocation", f"{tmp_path}/s").toTable("b")
    option = {"readChangeFeed": "true", "startingVersion": "0"}
    for changes in (
        lambda: spark.sql("SELECT * FROM table_changes('a', 0)"),
        lambda: spark.read.options(**option).table("a"),
    ):
        with pytest.raises(PySparkException, match="HEADWATER_NOT_IN_TRANSACTION. A read of changes cannot"):
            changes().collect()
    assert spark.read.option("readChangeFeed", "false").table("a").count() == 2
    spark.sql("COMMIT")
    assert rows(spark, "a") == [(1, "one"), (2, "two")]


@pytest.mark.usefixtures("tables")
def test_a_statement_that_is_refused_has_its_own_error_and_the_transaction_goes_on(spark):
    spark.sql("CREATE TABLE parquet_table (id INT) USING parquet")
    spark.sql("BEGIN TRANSACTION")
    spark.sql("INSERT INTO a VALUES (2, 'two')")
    for text, condition in {
        "UPDATE a SET id = max(id)": "DELTA_AGGREGATION_NOT_SUPPORTED",
        "UPDATE a SET id = 1, id = 2": "DELTA_CONFLICT_SET_COLUMN",
        "SELECT * FROM a VERSION AS OF 'x'": "DELTA_TIME_TRAVEL_INVALID_BEGIN_VALUE",
        "OPTIMIZE parquet_table": "DELTA_ONLY_OPERATION",
    }.items():
        assert condition_of(spark, text) == condition, text
    spark.sql("COMMIT")
    assert rows(spark, "a") == [(1, "one"), (2, "two")]


@pytest.mark.usefixtures("tables")
def test_a_conflict_changes_no_table(spark):
    other = another(spark)
    spark.sql("BEGIN TRANSACTION")
    spark.sql("INSERT INTO b VALUES (1, 1)")
    spark.sql("UPDATE a SET v = 'mine'")
    other.sql("UPDATE a SET v = 'theirs'")
    assert condition_of(spark, "COMMIT").startswith("DELTA_CONCURRENT_")
    assert (rows(spark, "a"), rows(spark, "b")) == ([(1, "theirs")], [])


@pytest.mark.usefixtures("tables")
def test_row_level_concurrency_holds_for_several_statements(spark):
    spark.sql("ALTER TABLE a SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    spark.sql("INSERT INTO a SELECT /*+ COALESCE(1) */ CAST(id AS INT), 'x' FROM range(10, 20)")
    other = another(spark)
    spark.sql("BEGIN TRANSACTION")
    spark.sql("DELETE FROM a WHERE id = 11")
    spark.sql("DELETE FROM a WHERE id = 12")
    spark.sql("INSERT INTO b VALUES (1, 1)")
    other.sql("DELETE FROM a WHERE id = 15")
    spark.sql("COMMIT")
    assert [row[0] for row in rows(spark, "a")] == [1, 10, 13, 14, 16, 17, 18, 19]


@pytest.mark.usefixtures("tables")
def test_of_two_serializable_transactions_that_read_what_the_other_changes_one_fails(spark):
    """Both hold one sum over two tables below a limit; each by its own reads alone, they would break it."""
    other = another(spark)
    queries = {spark: "SELECT count(*) FROM b", other: "SELECT v FROM a WHERE id > 1"}
    changes = {spark: "INSERT INTO a VALUES (2, 'two')", other: "INSERT INTO b VALUES (2, 20)"}
    for session, query in queries.items():
        session.sql("BEGIN TRANSACTION ISOLATION LEVEL SERIALIZABLE")
        session.sql(query).collect()
        session.sql(changes[session])
    spark.sql("COMMIT")
    assert condition_of(other, "COMMIT") == "DELTA_CONCURRENT_APPEND"
    assert (rows(other, "a"), rows(other, "b")) == ([(1, "one"), (2, "two")], [])
    with headwater.in_transaction(other, serializable=True):
        other.sql("SELECT v FROM a WHERE id < 2").collect()
        spark.sql("INSERT INTO a VALUES (3, 'three')")  # not what was read
        other.sql(changes[other])
    assert rows(spark, "b") == [(2, 20)]


@pytest.mark.usefixtures("tables")
def test_created_tables_are_there_by_their_names_and_for_others_after_commit(spark, tmp_path):
    other = another(spark)
    spark.sql("BEGIN TRANSACTION")
    spark.sql("CREATE TABLE c (id INT, v STRING) USING delta PARTITIONED BY (id) COMMENT 'made'")
    spark.sql("INSERT INTO c SELECT * FROM a")
    spark.sql(
        f"CREATE TABLE D USING delta LOCATION '{tmp_path}/d' TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true') "
        "AS SELECT id, v AS name FROM c UNION ALL SELECT 2, 'two'"
    )
    spark.sql("UPDATE d SET name = 'zwei' WHERE id = 2")
    spark.sql("ALTER TABLE c ADD COLUMNS (n INT)")
    spark.sql("INSERT INTO b SELECT id, 2 FROM d WHERE id = 2")
    spark.range(2).write.format("delta").save(f"{tmp_path}/e")
    spark.range(2, 3).write.format("delta").mode("append").save(f"{tmp_path}/e")
    spark.sql("CREATE TABLE IF NOT EXISTS c (other INT) USING delta")
    assert condition_of(spark, "CREATE TABLE c (other INT) USING delta") == "TABLE_OR_VIEW_ALREADY_EXISTS"
    named = f"CREATE TABLE f USING delta LOCATION '{tmp_path}/e'"
    assert condition_of(spark, named) == "HEADWATER_NOT_IN_TRANSACTION"
    expected = {"c": [(1, "one", None)], "d": [(1, "one"), (2, "zwei")], f"delta.`{tmp_path}/e`": [(0,), (1,), (2,)]}
    assert {name: rows(spark, name) for name in expected} == expected
    assert not any(other.catalog.tableExists(name) for name in ("c", "d"))
    assert condition_of(other, "SELECT * FROM c") == "TABLE_OR_VIEW_NOT_FOUND"
    assert not (tmp_path / "d" / "_delta_log").exists()
    spark.sql("COMMIT")
    for session in (spark, other):
        assert {name: rows(session, name) for name in expected} == expected
    assert rows(other, "b") == [(2, 2)]
    changes = other.sql("SELECT id, name, _change_type FROM table_changes('d', 0)").collect()
    assert sorted(map(tuple, changes)) == [(1, "one", "insert"), (2, "zwei", "insert")]
    described = {row.col_name: row.data_type for row in other.sql("DESCRIBE TABLE EXTENDED c").collect()}
    assert (described["Type"], described["Comment"]) == ("MANAGED", "made")
    spark.sql("DROP TABLE c")
    spark.sql("DROP TABLE d")
    assert (tmp_path / "d" / "_delta_log").exists()  # it is external


@pytest.mark.usefixtures("tables")
def test_rollback_leaves_nothing_of_a_table_and_a_name_that_was_taken_ends_commit(spark):
    spark.sql("BEGIN TRANSACTION")
    spark.sql("CREATE TABLE c USING delta AS SELECT * FROM a")
    spark.sql("UPDATE c SET v = 'x'")
    spark.sql("ROLLBACK")
    assert condition_of(spark, "SELECT * FROM c") == "TABLE_OR_VIEW_NOT_FOUND"
    with headwater.in_transaction(spark):
        spark.sql("CREATE TABLE c USING delta AS SELECT * FROM a")
    assert rows(spark, "c") == [(1, "one")]
    spark.sql("BEGIN TRANSACTION")
    spark.table("a").write.format("delta").saveAsTable("d")
    spark.sql("INSERT INTO a VALUES (2, 'two')")
    another(spark).sql("CREATE VIEW d AS SELECT 1 AS one")
    assert condition_of(spark, "COMMIT") == "HEADWATER_TRANSACTION_NAME_TAKEN"
    assert (rows(spark, "a"), rows(spark, "d")) == ([(1, "one")], [(1,)])
    spark.sql("DROP VIEW d")
    spark.sql("DROP TABLE c")


@pytest.mark.usefixtures("tables")
def test_a_metastore_that_fails_has_no_free_names(spark):
    """Its failure is not the answer that no table has the name: COMMIT ends with it, before anything is committed."""
    spark.sql("BEGIN TRANSACTION")
    spark.sql("CREATE TABLE d USING delta AS SELECT * FROM a")
    spark.sql("INSERT INTO a VALUES (2, 'two')")
    metastore = spark._jsparkSession.sessionState().catalog().externalCatalog().unwrapped()
    field = metastore.getClass().getDeclaredField("catalog")
    field.setAccessible(True)
    entries = field.get(metastore).apply(spark.catalog.currentDatabase()).tables()
    entries.put("d", None)  # an entry that cannot be read
    try:
        with pytest.raises(Exception, match="NullPointerException"):
            spark.sql("COMMIT")
    finally:
        entries.remove("d")
    assert rows(spark, "a") == [(1, "one")]
    assert not spark.catalog.tableExists("d")


@pytest.mark.usefixtures("tables")
def test_rows_that_are_changed_twice_keep_their_ids(spark):
    spark.sql("CREATE TABLE t (id INT, v STRING) USING delta TBLPROPERTIES ('delta.enableRowTracking' = 'true')")
    spark.sql("INSERT INTO t SELECT /*+ COALESCE(1) */ CAST(id AS INT), 'old' FROM range(3)")
    tracked = "SELECT id, v, _metadata.row_id, _metadata.row_commit_version FROM t ORDER BY id"
    spark.sql("BEGIN TRANSACTION")
    spark.sql("INSERT INTO t VALUES (10, 'new'), (11, 'new')")
    spark.sql("UPDATE t SET v = 'once' WHERE id IN (1, 10)")
    spark.sql(
        "MERGE INTO t USING (VALUES (1), (20) AS s(n)) ON id = n "
        "WHEN MATCHED THEN UPDATE SET v = 'twice' WHEN NOT MATCHED THEN INSERT (id, v) VALUES (n, 'new')"
    )
    seen = [tuple(row) for row in spark.sql(tracked).collect()]
    spark.sql("COMMIT")
    found = [tuple(row) for row in spark.sql(tracked).collect()]
    assert found == seen
    assert [(row[0], row[1], row[3]) for row in found] == [
        (0, "old", 1), (1, "twice", 2), (2, "old", 1), (10, "once", 2), (11, "new", 2), (20, "new", 2),
    ]  # fmt: skip
    assert [row[2] for row in found[:3]] == [0, 1, 2]
    assert len({row[2] for row in found}) == 6
    spark.sql("DROP TABLE t")


@pytest.mark.usefixtures("tables")
def test_a_transaction_of_which_a_statement_runs_for_long_is_not_idle(spark):
    other = another(spark)
    spark.conf.set("spark.headwater.transactions.idleSeconds", "3")
    try:
        spark.sql("BEGIN TRANSACTION")
        spark.sql("INSERT INTO b VALUES (1, 10)")
        slow = "SELECT java_method('java.lang.Thread', 'sleep', 6500L) FROM a"
        reading = Thread(target=lambda: spark.sql(slow).collect())
        reading.start()
        time.sleep(5)
        for statement in ("BEGIN TRANSACTION", "ROLLBACK"):  # ends those that are idle
            other.sql(statement)
        reading.join()
        spark.sql("COMMIT")
    finally:
        spark.conf.unset("spark.headwater.transactions.idleSeconds")
    assert rows(other, "b") == [(1, 10)]
