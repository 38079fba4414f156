"""``spark.headwater.timestampAsOf``: the tables of a query as of a time that a session or a view has as its default."""

from __future__ import annotations

import os
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from headwater.tables import DeltaTable

NAME = "spark.headwater.timestampAsOf"
_FIRST = datetime.now(timezone.utc) - timedelta(hours=10)
#: After version 0 of each table and before its others, and long after the last one; in UTC.
EARLY, LATE = (f"{_FIRST + timedelta(hours=hours):%Y-%m-%d %H:%M:%S}Z" for hours in (1, 50))


def _dated(location: str) -> None:
    """Have two hours between the versions of a table."""
    for file in Path(location.removeprefix("file:"), "_delta_log").glob("*.json"):
        time = (_FIRST + timedelta(hours=2 * int(file.stem))).timestamp()
        os.utime(file, (time, time))


@pytest.fixture
def tables(spark, database, rows):
    """``t`` has the row 1, and later another column and the row 2; ``s`` has the row 1 in all versions."""
    for name in "ts":
        spark.sql(f"CREATE TABLE {name} USING delta AS SELECT 1 AS id")
    spark.sql("CREATE TABLE p USING parquet AS SELECT 1 AS id UNION ALL SELECT 2")
    spark.sql("ALTER TABLE t ADD COLUMN more STRING")
    spark.sql("INSERT INTO t VALUES (2, 'x')")
    places = {name: rows(f"DESCRIBE DETAIL {name}")[0][4] for name in "ts"}
    for place in places.values():
        _dated(place)
    return places


def test_queries_read_all_tables_as_of_the_time(spark, rows, tables, settings):
    with settings({NAME: EARLY}):
        assert rows("SELECT * FROM t") == [(1,)]
        assert rows("SELECT t.id FROM t JOIN s USING (id) WHERE id IN (SELECT id FROM t)") == [(1,)]
        assert rows("WITH c AS (SELECT * FROM t) SELECT count(*) FROM c a CROSS JOIN c b") == [(1,)]
        assert rows("SELECT (SELECT count(*) FROM t), EXISTS (SELECT * FROM t WHERE id = 2)") == [(1, False)]
        assert rows(f"SELECT * FROM delta.`{tables['t']}`") == [(1,)]
        assert [tuple(row) for row in spark.table("t").collect()] == [(1,)]
        assert spark.read.format("delta").load(tables["t"]).count() == 1
        # What says itself which version it reads does; other formats have none.
        assert rows("SELECT * FROM t VERSION AS OF 2 ORDER BY id") == [(1, None), (2, "x")]
        assert spark.read.option("versionAsOf", 2).table("t").count() == 2
        assert spark.read.format("delta").option("versionAsOf", 2).load(tables["t"]).count() == 2
        assert rows("SELECT count(*) FROM p") == [(2,)]
    with settings({NAME: LATE}):
        assert rows("SELECT * FROM t ORDER BY id") == [(1, None), (2, "x")]
    assert rows("SELECT count(*) FROM t") == [(2,)]


def test_statements_write_to_the_newest_version(spark, rows, tables, settings):
    with settings({NAME: EARLY}):
        spark.sql("INSERT INTO t SELECT id + 10, 'new' FROM t")
        spark.sql("MERGE INTO t USING t AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET more = 'merged'")
        spark.sql("UPDATE t SET more = 'updated' WHERE id = 2 AND NOT EXISTS (SELECT * FROM t AS o WHERE o.id = 2)")
        by_path = spark.range(20, 21).selectExpr("int(id)", "'path' AS more")
        by_path.write.format("delta").mode("append").save(tables["t"])
        spark.sql("CREATE TABLE made USING delta AS SELECT * FROM t")
        spark.sql("DELETE FROM t WHERE id = 11 AND 20 NOT IN (SELECT id FROM t)")
        assert rows("DESCRIBE HISTORY t LIMIT 1")[0][0] == 7
    assert rows("SELECT * FROM t ORDER BY id") == [(1, "merged"), (2, "updated"), (20, "path")]
    assert rows("SELECT * FROM made") == [(1,)]


def test_a_view_keeps_the_time_that_it_was_created_with(spark, rows, tables, settings):
    spark.sql("CREATE VIEW now AS SELECT count(*) AS n FROM t")
    spark.sql("CREATE VIEW fixed AS SELECT count(*) AS n FROM t VERSION AS OF 2")
    with settings({NAME: EARLY}):
        spark.sql("CREATE VIEW early AS SELECT count(*) AS n FROM t")
        spark.sql("CREATE TEMPORARY VIEW early_too AS SELECT count(*) AS n FROM t")
        # A view without a time of its own has the session's.
        assert rows("SELECT now.n, early.n, fixed.n FROM now, early, fixed") == [(1, 1, 2)]
    assert rows("SELECT now.n, early.n, early_too.n FROM now, early, early_too") == [(2, 1, 1)]
    with settings({NAME: LATE}):
        assert rows("SELECT now.n, early.n, early_too.n FROM now, early, early_too") == [(2, 1, 1)]


def test_views_over_views(spark, rows, tables, settings):
    spark.sql("CREATE VIEW plain AS SELECT id FROM t")
    spark.table("t").createOrReplaceTempView("of_frame")
    spark.sql("CREATE TABLE ids USING delta AS SELECT 1 AS id")
    spark.sql("INSERT INTO ids VALUES (2)")
    _dated(rows("SELECT location FROM (DESCRIBE DETAIL ids)")[0][0])
    spark.table("ids").createOrReplaceTempView("of_ids")
    with settings({NAME: EARLY}):
        spark.sql("CREATE VIEW outer_early AS SELECT count(*) AS n FROM plain")
        assert rows("SELECT count(*) FROM of_ids") == [(1,)]
        with pytest.raises(PySparkException) as raised:
            spark.sql("SELECT * FROM of_frame").collect()
        assert raised.value.getCondition() == "DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS"
    for time in (None, LATE):
        with settings({NAME: time} if time else {}):
            assert rows("SELECT n FROM outer_early") == [(1,)]
            assert rows("SELECT count(*) FROM of_frame") == [(2,)]
    for view in ("of_frame", "of_ids"):
        spark.catalog.dropTempView(view)


def test_a_younger_table_is_written_to(spark, rows, tables, settings, tmp_path):
    spark.sql("CREATE TEMPORARY VIEW through AS SELECT * FROM t")
    with settings({NAME: EARLY}):
        spark.sql("CREATE TABLE young (id INT, more STRING) USING delta")
        spark.sql("INSERT INTO young VALUES (1, 'a'), (2, 'b')")
        spark.sql("UPDATE through SET more = 'through' WHERE id = 2")
        opened = DeltaTable.forName(spark, "young")
        opened.update(F.col("more") == "a", {"more": F.lit("api")})
        path = rows("SELECT location FROM (DESCRIBE DETAIL young)")[0][0]
        DeltaTable.forPath(spark, path).delete(F.col("more") == "b")
        stream = spark.readStream.table("young").writeStream.option("checkpointLocation", str(tmp_path / "c"))
        stream.trigger(availableNow=True).toTable("copied").awaitTermination()
        assert spark.read.option("newestVersion", "true").table("copied").count() == 1
    spark.catalog.dropTempView("through")
    assert rows("SELECT * FROM young") == [(1, "api")]
    assert rows("SELECT more FROM t WHERE id = 2") == [("through",)]


def test_a_time_that_is_none_keeps_no_other_statement_from_running(spark, rows, tables):
    spark.sql(f"SET {NAME} = yesterday evening")
    assert rows("SELECT 1") == [(1,)]
    spark.sql("INSERT INTO t VALUES (3, 'y')")
    spark.sql(f"RESET {NAME}")
    assert rows("SELECT count(*) FROM t") == [(3,)]


def test_errors_name_the_time(spark, tables, settings, fails):
    for time, condition in (
        ("2026-01-01", "DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION"),
        ("yesterday evening", "DELTA_TIMESTAMP_INVALID"),
    ):
        with settings({NAME: time}), pytest.raises(PySparkException) as raised:
            spark.sql("SELECT * FROM t").collect()
        assert raised.value.getCondition() == condition
    with settings({NAME: " "}):
        assert spark.table("t").count() == 2


def test_a_younger_table_can_be_refreshed(spark, rows, tables, settings, fails):
    """Refreshing reads no rows."""
    spark.sql("CREATE VIEW v AS SELECT * FROM t")
    with settings({NAME: f"{_FIRST - timedelta(hours=1):%Y-%m-%d %H:%M:%S}Z"}):
        for name in ("t", "v"):
            spark.catalog.refreshTable(name)
            spark.sql(f"REFRESH TABLE {name}")
            with fails("DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION"):
                spark.sql(f"SELECT * FROM {name}")
    with fails("TABLE_OR_VIEW_NOT_FOUND"):
        spark.catalog.refreshTable("missing")
