"""Time travel: reading older versions by number and time, and never writing to one."""

from __future__ import annotations

import os

import pytest

DAYS = ["2024-01-01T00:00:00", "2024-01-02T00:00:00", "2024-01-03T00:00:00"]


@pytest.fixture
def path(spark, tmp_path):
    """A table of three versions, one a day."""
    import datetime

    path = tmp_path / "t"
    # Its versions are of years ago.
    names = ("delta.deletedFileRetentionDuration", "delta.logRetentionDuration")
    kept = "TBLPROPERTIES (" + ", ".join(f"'{name}' = 'interval 10000 weeks'" for name in names) + ")"
    spark.sql(f"CREATE TABLE delta.`{path}` (a INT) USING delta {kept}")
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (1)")
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (2)")
    for version, day in enumerate(DAYS):
        seconds = datetime.datetime.fromisoformat(day).replace(tzinfo=datetime.timezone.utc).timestamp()
        os.utime(path / "_delta_log" / f"{version:020d}.json", (seconds, seconds))
    # A copy, so that nothing remembers the commits' first times.
    return path.rename(tmp_path / "moved")


def test_by_version(spark, rows, fails, path):
    assert rows(f"SELECT * FROM delta.`{path}` VERSION AS OF 1") == [(1,)]
    assert rows(f"SELECT * FROM delta.`{path}@v1`") == [(1,)]
    assert spark.read.format("delta").option("versionAsOf", 1).load(str(path)).collect() == [(1,)]
    assert spark.read.format("delta").load(f"{path}@v0").collect() == []
    with fails("DELTA_VERSION_NOT_FOUND", "3", "from 0 to 2"):
        spark.sql(f"SELECT * FROM delta.`{path}` VERSION AS OF 3").collect()
    with fails("DELTA_VERSION_NOT_FOUND", "from 0 to 2"):
        spark.read.format("delta").option("versionAsOf", 7).load(str(path))
    with fails("DELTA_TIME_TRAVEL_INVALID_VERSION", "abc"):
        spark.sql(f"SELECT * FROM delta.`{path}` VERSION AS OF 'abc'").collect()
    with fails("DELTA_TIME_TRAVEL_INVALID_VERSION", "abc"):
        spark.read.format("delta").option("versionAsOf", "abc").load(str(path))


def test_by_time(spark, rows, fails, path):
    assert rows(f"SELECT * FROM delta.`{path}` TIMESTAMP AS OF '2024-01-02 12:00:00'") == [(1,)]
    assert rows(f"SELECT count(*) FROM delta.`{path}` TIMESTAMP AS OF '2024-01-03'") == [(2,)]
    assert rows(f"SELECT * FROM delta.`{path}` TIMESTAMP AS OF to_date('2024-01-04') - INTERVAL 36 HOURS") == [(1,)]
    assert spark.read.format("delta").option("timestampAsOf", "2024-01-02").load(str(path)).collect() == [(1,)]
    assert spark.read.format("delta").load(f"{path}@20240102120000000").collect() == [(1,)]
    with fails("DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION", "2024-01-01 00:00:00"):
        spark.sql(f"SELECT * FROM delta.`{path}` TIMESTAMP AS OF '2023-12-31'").collect()
    with fails("DELTA_TIMESTAMP_GREATER_THAN_COMMIT", "2024-01-03 00:00:00"):
        spark.read.format("delta").option("timestampAsOf", "2024-01-04").load(str(path))
    with fails("DELTA_TIMESTAMP_INVALID", "bad"):
        spark.read.format("delta").option("timestampAsOf", "bad").load(str(path))
    with fails("DELTA_ONEOF_IN_TIMETRAVEL"):
        spark.read.format("delta").option("timestampAsOf", "2024-01-02").option("versionAsOf", 1).load(str(path))


def test_time_is_the_sessions(rows, settings, path):
    with settings({"spark.sql.session.timeZone": "Asia/Tokyo"}):
        assert rows(f"SELECT count(*) FROM delta.`{path}` TIMESTAMP AS OF '2024-01-02 08:59:59'") == [(0,)]
        assert rows(f"SELECT count(*) FROM delta.`{path}` TIMESTAMP AS OF '2024-01-02 09:00:00'") == [(1,)]


def test_old_versions_are_not_written_to(spark, rows, fails, path):
    more = spark.sql("SELECT 9 AS a").write.format("delta").mode("append")
    with fails("DELTA_TIME_TRAVEL_WRITE_NOT_ALLOWED"):
        more.option("versionAsOf", 1).save(str(path))
    with fails("DELTA_TIME_TRAVEL_WRITE_NOT_ALLOWED"):
        spark.sql("SELECT 9 AS a").write.format("delta").mode("append").save(f"{path}@v1")
    for statement in (
        "INSERT INTO {} VALUES (9)",
        "INSERT OVERWRITE {} VALUES (9)",
        "TRUNCATE TABLE {}",
        "ALTER TABLE {} ADD COLUMNS (b INT)",
    ):
        with fails("DELTA_TIME_TRAVEL_WRITE_NOT_ALLOWED", str(path)):
            spark.sql(statement.format(f"delta.`{path}@v1`"))
    assert rows(f"SELECT count(*) FROM delta.`{path}`") == [(2,)]


def test_versions_keep_their_columns(spark, rows, path):
    spark.sql(f"INSERT WITH SCHEMA EVOLUTION INTO delta.`{path}` BY NAME SELECT 3 AS a, 'new' AS b")
    assert rows(f"SELECT * FROM delta.`{path}` VERSION AS OF 2 ORDER BY a") == [(1,), (2,)]
    joined = (
        f"SELECT n.a, o.a FROM delta.`{path}` n LEFT JOIN delta.`{path}` VERSION AS OF 1 o ON n.a = o.a ORDER BY n.a"
    )
    assert rows(joined) == [(1, 1), (2, None), (3, None)]


def test_names_with_a_version(spark, rows, fails, database, path):
    spark.sql(f"CREATE TABLE days USING delta LOCATION '{path}'")
    assert rows("SELECT * FROM `days@v1`") == [(1,)]
    assert rows(f"SELECT * FROM {database}.`days@v0`") == []
    assert rows("SELECT * FROM `days@20240102120000000`") == [(1,)]
    assert spark.read.table("`days@v1`").collect() == [(1,)]
    joined = "SELECT n.a, o.a FROM days n LEFT JOIN `days@v1` o ON n.a = o.a ORDER BY n.a"
    assert rows(joined) == [(1, 1), (2, None)]
    with fails("DELTA_VERSION_NOT_FOUND", "from 0 to 2"):
        spark.sql("SELECT * FROM `days@v3`").collect()
    for name in ("days@v", "days@1", "days@vx", "nights@v1"):
        with fails("TABLE_OR_VIEW_NOT_FOUND", name, state="42P01"):
            spark.sql(f"SELECT * FROM `{name}`").collect()


@pytest.mark.parametrize(
    "statement",
    ["INSERT INTO {} VALUES (9)", "DELETE FROM {}", "TRUNCATE TABLE {}", "ALTER TABLE {} ADD COLUMNS (b INT)"],
)
def test_old_versions_are_not_written_to_by_name(spark, rows, fails, database, path, statement):
    spark.sql(f"CREATE TABLE days USING delta LOCATION '{path}'")
    with fails("DELTA_TIME_TRAVEL_WRITE_NOT_ALLOWED"):
        spark.sql(statement.format("`days@v1`"))
    assert rows("SELECT count(*) FROM days") == [(2,)]
