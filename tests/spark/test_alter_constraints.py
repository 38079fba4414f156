"""ALTER TABLE: constraints, clustering columns, SYNC IDENTITY; SHOW COLUMNS."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException


def _jobs(spark):
    return len(spark.sparkContext.statusTracker().getJobIdsForGroup("counted"))


def test_a_constraint_is_added_where_all_rows_meet_it(spark, rows, database, fails):
    spark.sql("CREATE TABLE t (id INT, s STRING) USING delta")
    spark.sql("INSERT INTO t VALUES (1, 'a'), (2, NULL)")
    spark.sql("ALTER TABLE t ADD CONSTRAINT positive CHECK (id > 0)")
    with fails("DELTA_CONSTRAINT_ALREADY_EXISTS", "POSITIVE"):
        spark.sql("ALTER TABLE t ADD CONSTRAINT POSITIVE CHECK (id > 1)")
    with fails("DELTA_NEW_CHECK_CONSTRAINT_VIOLATION", "s > 'A'", "id : 2", "s : null"):
        spark.sql("ALTER TABLE t ADD CONSTRAINT known CHECK (s > 'A' OR id > 7)")
    with fails("DELTA_VIOLATE_CONSTRAINT_WITH_VALUES", "positive"):
        spark.sql("INSERT INTO t VALUES (-1, 'x')")
    # Spark counts the constraint, and so does a script with parameters and a name that is computed.
    name = "identifier(:t)"
    spark.sql(f"ALTER TABLE {name} DROP CONSTRAINT positive", args={"t": "t"})
    with fails("DELTA_CONSTRAINT_DOES_NOT_EXIST", "positive"):
        spark.sql("ALTER TABLE t DROP CONSTRAINT positive")
    spark.sql("ALTER TABLE t DROP CONSTRAINT IF EXISTS positive")
    spark.sql("INSERT INTO t VALUES (-1, 'x')")
    history = rows("DESCRIBE HISTORY t")
    operations = [(row[4], row[5]) for row in history]
    assert operations[1] == ("DROP CONSTRAINT", {"name": "positive", "expr": "id > 0"})
    assert operations[2] == ("ADD CONSTRAINT", {"name": "positive", "expr": "id > 0"})
    assert len(operations) == 5


def test_statistics_answer_where_they_can(spark, database):
    spark.sql("CREATE TABLE t (id INT, s STRING) USING delta")
    spark.sql("INSERT INTO t SELECT id, 'x' FROM range(100)")
    spark.sparkContext.setJobGroup("counted", "")
    try:
        spark.sql("ALTER TABLE t ADD CONSTRAINT small CHECK (id >= 0 AND id < 100 AND s IS NOT NULL)")
        assert _jobs(spark) == 0
        spark.sql("ALTER TABLE t ADD CONSTRAINT odd CHECK (id % 200 = id)")
        assert _jobs(spark) > 0
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)


@pytest.mark.parametrize(
    ("constraint", "condition"),
    [
        ("c CHECK (nope > 1)", "UNRESOLVED_COLUMN"),
        ("c CHECK (id + 1)", "DELTA_NON_BOOLEAN_CHECK_CONSTRAINT"),
        ("c CHECK (rand() > 2)", "DELTA_UNSUPPORTED_CHECK_CONSTRAINT"),
        ("c CHECK (id IN (SELECT 1))", "DELTA_UNSUPPORTED_CHECK_CONSTRAINT"),
        ("c CHECK (sum(id) > 1)", "INVALID_WHERE_CONDITION"),
        ("k PRIMARY KEY (id)", "HEADWATER_INVALID_KEY"),
        ("k UNIQUE (id)", "DELTA_UNSUPPORTED_CONSTRAINT"),
    ],
)
def test_constraints_that_are_refused(spark, rows, database, constraint, condition):
    spark.sql("CREATE TABLE t USING delta AS SELECT 1 AS id")
    with pytest.raises(PySparkException) as raised:
        spark.sql(f"ALTER TABLE t ADD CONSTRAINT {constraint}")
    assert condition in (raised.value.getCondition() or "") + str(raised.value).split("\n")[0], str(raised.value)[:500]
    assert "Traceback" not in str(raised.value)
    assert len(rows("DESCRIBE HISTORY t")) == 1


def test_constraints_by_path_and_in_a_script(spark, rows, tmp_path, fails):
    table = f"delta.`{tmp_path}/t`"
    spark.sql(f"CREATE TABLE {table} USING delta AS SELECT 1 AS id")
    spark.sql(f"BEGIN ALTER TABLE {table} ADD CONSTRAINT c CHECK (id < 5); INSERT INTO {table} VALUES (3); END")
    with fails("DELTA_VIOLATE_CONSTRAINT_WITH_VALUES", "id < 5"):
        spark.sql(f"INSERT INTO {table} VALUES (7)")
    assert rows(f"SELECT * FROM {table} ORDER BY id") == [(1,), (3,)]


def test_cluster_by(spark, rows, database, fails):
    spark.sql("CREATE TABLE t (a INT, s STRUCT<b: INT, m: MAP<INT, INT>>, c INT, d INT, e INT) USING delta")
    spark.sql("ALTER TABLE t CLUSTER BY (a, s.b)")
    detail = spark.sql("DESCRIBE DETAIL t").first()
    assert detail["clusteringColumns"] == ["a", "s.b"]
    assert {"clustering", "domainMetadata"} <= set(detail["tableFeatures"])
    spark.sql("ALTER TABLE t CLUSTER BY (a, s.b)")
    assert len(rows("DESCRIBE HISTORY t")) == 2
    spark.sql("ALTER TABLE t CLUSTER BY NONE")
    assert spark.sql("DESCRIBE DETAIL t").first()["clusteringColumns"] == []
    assert [(row[4], row[5]) for row in rows("DESCRIBE HISTORY t LIMIT 2")] == [
        ("CLUSTER BY", {"oldClusteringColumns": "a,s.b", "newClusteringColumns": ""}),
        ("CLUSTER BY", {"oldClusteringColumns": "", "newClusteringColumns": "a,s.b"}),
    ]
    with fails("DELTA_CLUSTER_BY_INVALID_NUM_COLUMNS", "at most 4"):
        spark.sql("ALTER TABLE t CLUSTER BY (a, s.b, c, d, e)")
    with fails("DELTA_CLUSTERING_COLUMNS_DATATYPE_NOT_SUPPORTED", "s.m"):
        spark.sql("ALTER TABLE t CLUSTER BY (s.m)")
    with pytest.raises(PySparkException, match="nope"):
        spark.sql("ALTER TABLE t CLUSTER BY (nope)")
    spark.sql("CREATE TABLE few (a INT, b INT) USING delta TBLPROPERTIES ('delta.dataSkippingNumIndexedCols' = '1')")
    with fails("DELTA_CLUSTERING_COLUMN_MISSING_STATS", "b"):
        spark.sql("ALTER TABLE few CLUSTER BY (b)")
    spark.sql("CREATE TABLE parts (a INT, b INT) USING delta PARTITIONED BY (b)")
    with fails("DELTA_CLUSTER_BY_INVALID_NUM_COLUMNS", "at most 4"):
        spark.sql("ALTER TABLE parts CLUSTER BY (a, b, a, b, a)")
    spark.sql("ALTER TABLE parts CLUSTER BY NONE")
    assert len(rows("DESCRIBE HISTORY parts")) == 1


def test_sync_identity(spark, rows, database, tmp_path, fails):
    spark.sql(
        "CREATE TABLE t (id BIGINT GENERATED BY DEFAULT AS IDENTITY (START WITH 3 INCREMENT BY 5), "
        "down BIGINT GENERATED BY DEFAULT AS IDENTITY (START WITH -1 INCREMENT BY -2), v STRING) USING delta"
    )
    spark.sql("ALTER TABLE t ALTER COLUMN id SYNC IDENTITY")
    assert len(rows("DESCRIBE HISTORY t")) == 1
    spark.sql("INSERT INTO t VALUES (19, -6, 'a')")
    spark.sql("ALTER TABLE t ALTER COLUMN id SYNC IDENTITY")
    spark.sql("alter table identifier(:t) alter `DOWN` sync identity;", args={"t": "t"})
    spark.sql("INSERT INTO t (v) VALUES ('b')")
    assert rows("SELECT * FROM t ORDER BY v") == [(19, -6, "a"), (28, -9, "b")]
    spark.sql("DELETE FROM t WHERE v = 'b'")
    spark.sql("ALTER TABLE t ALTER COLUMN id SYNC IDENTITY")
    spark.sql("INSERT INTO t (v) VALUES ('c')")
    assert rows("SELECT id FROM t WHERE v = 'c'") == [(33,)]
    for column, condition in (
        ("v", "DELTA_IDENTITY_COLUMNS_ALTER_NON_IDENTITY_COLUMN"),
        ("nope", "UNRESOLVED_COLUMN.WITH_SUGGESTION"),
        ("id.x", "UNRESOLVED_COLUMN.WITH_SUGGESTION"),
    ):
        with fails(condition, "id, down"):
            spark.sql(f"ALTER TABLE t ALTER COLUMN {column} SYNC IDENTITY")
    with pytest.raises(PySparkException, match="PARSE_SYNTAX_ERROR"):
        spark.sql("ALTER TABLE t ALTER COLUMN id SYNC IDENTITIES")
    with pytest.raises(PySparkException, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.sql("ALTER TABLE nowhere ALTER COLUMN id SYNC IDENTITY")


def test_show_columns(spark, rows, database, fails):
    spark.sql(
        "CREATE TABLE t (a INT, `odd name` STRING) USING delta TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    )
    assert rows("SHOW COLUMNS IN t") == [("a",), ("odd name",)]
    current = spark.catalog.currentDatabase()
    assert rows(f"SHOW COLUMNS IN t IN {current}") == [("a",), ("odd name",)]


def test_rename_to_and_back(spark, rows, database):
    spark.sql("CREATE TABLE t USING delta AS SELECT 1 AS id")
    spark.sql("ALTER TABLE t RENAME TO u")
    spark.sql("INSERT INTO u VALUES (2)")
    spark.sql("ALTER TABLE u RENAME TO t")
    assert rows("SELECT * FROM t ORDER BY id") == [(1,), (2,)]


def test_generated_columns_follow_from_the_row(spark, rows, database, fails):
    for expression in (
        "current_date()",
        "now()",
        "unix_timestamp()",
        "current_user()",
        "current_schema()",
        "version()",
    ):
        with fails("DELTA_UNSUPPORTED_EXPRESSION_GENERATED_COLUMN", "column b"):
            spark.sql(
                f"CREATE TABLE t (a INT, b STRING GENERATED ALWAYS AS (CAST({expression} AS STRING))) USING delta"
            )
    with fails("DELTA_UNSUPPORTED_CHECK_CONSTRAINT", "rand"):
        spark.sql("CREATE TABLE t (a INT) USING delta TBLPROPERTIES ('delta.constraints.x' = 'rand() > a')")
    spark.sql("CREATE TABLE t (a TIMESTAMP, b DATE GENERATED ALWAYS AS (CAST(a AS DATE))) USING delta")
    spark.sql("INSERT INTO t (a) VALUES (TIMESTAMP '2024-01-02 03:04:05')")
    assert str(rows("SELECT b FROM t")[0][0]) == "2024-01-02"


def test_column_mapping_goes_back_to_none_by_property(spark, rows, database, fails):
    mode = "'delta.columnMapping.mode'"
    for number, change in enumerate((f"SET TBLPROPERTIES ({mode} = 'none')", f"UNSET TBLPROPERTIES ({mode})")):
        name = f"t{number}"
        spark.sql(f"CREATE TABLE {name} (a INT, `x y` INT) USING delta TBLPROPERTIES ({mode} = 'name')")
        spark.sql(f"INSERT INTO {name} VALUES (1, 2)")
        spark.sql(f"ALTER TABLE {name} RENAME COLUMN a TO b")
        before = len(rows(f"DESCRIBE HISTORY {name}"))
        with fails("DELTA_INVALID_COLUMN_NAMES_WHEN_REMOVING_COLUMN_MAPPING", "x y"):
            spark.sql(f"ALTER TABLE {name} {change}")
        spark.sql(f"ALTER TABLE {name} RENAME COLUMN `x y` TO c")
        if number == 0:  # nothing is written again for a statement that is refused
            with fails("DELTA_INVALID_PROPERTY_VALUE", "delta.appendOnly"):
                spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ({mode} = 'none', 'delta.appendOnly' = 'maybe')")
        assert len(rows(f"DESCRIBE HISTORY {name}")) == before + 1
        spark.sql(f"ALTER TABLE {name} {change}")
        spark.sql(f"INSERT INTO {name} VALUES (3, 4)")
        assert rows(f"SELECT b, c FROM {name}") == [(1, 2), (3, 4)]
        files = [row[0] for row in rows(f"SELECT DISTINCT _metadata.file_path FROM {name}")]
        assert spark.read.parquet(*files).columns == ["b", "c"]


def test_a_session_s_version_of_a_write_is_used_once(spark, rows, database):
    prefix = "spark.databricks.delta.write."
    spark.sql("CREATE TABLE t (a INT) USING delta")
    try:
        spark.conf.set(f"{prefix}txnVersion.autoReset.enabled", "true")
        spark.conf.set(f"{prefix}txnAppId", "app")
        for version, repeated in (("1", False), ("1", True), ("2", False)):
            spark.conf.set(f"{prefix}txnVersion", version)
            spark.sql("INSERT INTO t VALUES (1)" if not repeated else "UPDATE t SET a = 5")
            assert spark.conf.get(f"{prefix}txnVersion", None) is None
    finally:
        for name in ("txnVersion.autoReset.enabled", "txnAppId", "txnVersion"):
            spark.conf.unset(f"{prefix}{name}")
    assert rows("SELECT * FROM t") == [(1,), (1,)]
