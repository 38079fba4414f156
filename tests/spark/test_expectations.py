"""Expectations: rows that violate them are counted, fail the write, are dropped or go to a quarantine table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

QUARANTINE = (
    "CREATE TABLE bad (id INT, amount INT, quarantine_reason ARRAY<STRING>, quarantine_time TIMESTAMP, "
    "quarantine_source STRUCT<table: STRING, operation: STRING>) USING delta "
    "TBLPROPERTIES ('headwater.quarantine' = 'true')"
)


def _metrics(rows, table):
    found = rows(f"SELECT operationMetrics FROM (DESCRIBE HISTORY {table} LIMIT 1)")[0][0]
    return {name: int(value) for name, value in found.items() if "Expectations" in name or "numViolations" in name}


@pytest.fixture
def dropping(spark, database):
    spark.sql(
        "CREATE TABLE t (id INT, amount INT, CONSTRAINT has_id EXPECT (id IS NOT NULL) ON VIOLATION DROP ROW, "
        "CONSTRAINT Small EXPECT (amount < 100)) USING delta"
    )


def test_rows_are_dropped_and_counted(spark, rows, dropping):
    spark.sql("INSERT INTO t VALUES (1, 1), (NULL, 2), (2, 200), (NULL, NULL), (3, NULL)")
    assert rows("SELECT * FROM t ORDER BY id") == [(1, 1), (2, 200), (3, None)]
    assert _metrics(rows, "t") == {
        "numRowsDroppedByExpectations": 2,
        "numRowsKeptAgainstExpectations": 2,
        "numRowsQuarantinedByExpectations": 0,
        "numViolations.has_id": 2,
        "numViolations.Small": 3,
    }


def test_an_update_that_violates_leaves_the_row(spark, rows, dropping):
    spark.sql("INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)")
    assert rows("UPDATE t SET id = IF(amount = 2, NULL, id + 10)") == [(2,)]
    assert rows("SELECT * FROM t ORDER BY amount") == [(11, 1), (2, 2), (13, 3)]
    assert _metrics(rows, "t")["numRowsDroppedByExpectations"] == 1


def test_a_merge_leaves_rows_and_inserts_none_that_violate(spark, rows, dropping):
    spark.sql("INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)")
    source = "(SELECT * FROM VALUES (1, 10, 1), (2, 20, NULL), (4, 40, 4), (5, 50, NULL), (3, 500, 3) AS s(k, v, n))"
    merged = rows(
        f"MERGE INTO t USING {source} AS s ON t.id = s.k WHEN MATCHED THEN UPDATE SET id = n, amount = v "
        "WHEN NOT MATCHED THEN INSERT (id, amount) VALUES (n, v)"
    )
    assert merged == [(3, 2, 0, 1)]
    assert rows("SELECT * FROM t ORDER BY id") == [(1, 10), (2, 2), (3, 500), (4, 40)]
    assert _metrics(rows, "t")["numRowsDroppedByExpectations"] == 2


def test_quarantined_rows_are_in_the_other_table(spark, rows, database):
    spark.sql(QUARANTINE)
    spark.sql(
        "CREATE TABLE t (id INT, amount INT, CONSTRAINT ok EXPECT (amount > 0) ON VIOLATION QUARANTINE INTO bad, "
        "CONSTRAINT has_id EXPECT (id IS NOT NULL) ON VIOLATION DROP ROW) USING delta"
    )
    spark.sql("INSERT INTO t VALUES (1, 1), (2, -2), (NULL, -3), (NULL, 4)")
    assert rows("SELECT * FROM t") == [(1, 1)]
    found = rows("SELECT id, amount, quarantine_reason, quarantine_source.operation FROM bad ORDER BY amount")
    assert found == [(None, -3, ["has_id", "ok"], "WRITE"), (2, -2, ["ok"], "WRITE")]
    assert _metrics(rows, "t")["numRowsQuarantinedByExpectations"] == 2
    spark.sql("UPDATE t SET amount = -9")
    assert rows("SELECT * FROM t") == [(1, 1)]
    assert rows("SELECT id, amount FROM bad WHERE quarantine_source.operation = 'UPDATE'") == [(1, -9)]


@pytest.fixture
def quarantining(spark, database):
    spark.sql(QUARANTINE)
    spark.sql(
        "CREATE TABLE t (id INT, amount INT, CONSTRAINT ok EXPECT (amount > 0) ON VIOLATION QUARANTINE INTO bad) "
        "USING delta"
    )


def _bad(rows):
    return sorted(rows("SELECT id, amount FROM bad"))


def test_each_row_is_computed_once(spark, rows, quarantining):
    spark.sql("INSERT INTO t SELECT id, CAST(rand() * 1000 AS INT) - 500 FROM range(200)")
    ids = [row[0] for row in rows("SELECT id FROM t UNION ALL SELECT id FROM bad")]
    assert sorted(ids) == list(range(200))
    assert not rows("SELECT * FROM t WHERE amount <= 0")
    assert not rows("SELECT * FROM bad WHERE amount > 0")
    assert rows("SELECT count(DISTINCT quarantine_time), any_value(size(quarantine_reason)) FROM bad") == [(1, 1)]


def test_staged_files_do_not_stay(spark, quarantining, rows):
    spark.sql("INSERT INTO t VALUES (1, -1), (2, 2)")
    place = Path(rows("SELECT location FROM (DESCRIBE DETAIL t)")[0][0].removeprefix("file:"))
    assert not [found for found in place.rglob("*") if "cdc-staged" in found.name]


def test_dataframes_streams_and_upserts(spark, rows, quarantining, tmp_path):
    frame = spark.createDataFrame([(1, 1), (2, -2)], "id INT, amount INT")
    frame.write.format("delta").mode("append").saveAsTable("t")
    frame.selectExpr("id + 10 AS id", "amount").writeTo("t").append()
    assert _bad(rows) == [(2, -2), (12, -2)]
    frame.selectExpr("id", "amount - 3 AS amount").write.format("delta").mode("append").option(
        "idCols", "id"
    ).saveAsTable("t")
    assert sorted(rows("SELECT * FROM t")) == [(1, 1), (11, 1)]
    assert _bad(rows) == [(1, -2), (2, -5), (2, -2), (12, -2)]
    source = tmp_path / "source"
    frame.selectExpr("id + 100 AS id", "amount").write.format("delta").save(str(source))

    def stream():
        query = spark.readStream.format("delta").load(str(source)).writeStream.format("delta")
        query.option("checkpointLocation", str(tmp_path / "point")).trigger(availableNow=True).toTable(
            "t"
        ).awaitTermination()

    stream()
    assert _metrics(rows, "t")["numRowsQuarantinedByExpectations"] == 1
    assert rows("SELECT quarantine_source.operation FROM bad WHERE id = 102") == [("STREAMING UPDATE",)]
    # The commit of the batch is forgotten, as after a crash: it is in both tables.
    for commit in (tmp_path / "point" / "commits").iterdir():
        commit.unlink()
    stream()
    assert len(rows("SELECT * FROM bad WHERE id = 102")) == len(rows("SELECT * FROM t WHERE id = 101")) == 1


def test_both_tables_are_part_of_a_transaction(spark, rows, quarantining):
    spark.sql("BEGIN TRANSACTION")
    spark.sql("INSERT INTO t VALUES (1, 1), (2, -2)")
    assert _bad(rows) == [(2, -2)]
    spark.sql("ROLLBACK")
    assert (rows("SELECT * FROM t"), _bad(rows)) == ([], [])
    spark.sql("BEGIN TRANSACTION")
    spark.sql("INSERT INTO t VALUES (3, 3), (4, -4)")
    spark.sql("UPDATE t SET amount = -1")
    assert len(rows("COMMIT")) == 2
    assert (rows("SELECT * FROM t"), _bad(rows)) == ([(3, 3)], [(3, -1), (4, -4)])


def test_constraints_hold_for_rows_that_are_written(spark, rows, database, fails):
    spark.sql(
        "CREATE TABLE t (id INT NOT NULL, amount INT, CONSTRAINT has_id EXPECT (id IS NOT NULL) ON VIOLATION DROP ROW, "
        "CONSTRAINT strict EXPECT (amount >= 0) ON VIOLATION FAIL UPDATE) USING delta"
    )
    spark.sql("ALTER TABLE t ADD CONSTRAINT small CHECK (amount < 10)")
    spark.sql("INSERT INTO t VALUES (1, 1), (NULL, 99)")
    assert rows("SELECT * FROM t") == [(1, 1)]
    with fails("DELTA_VIOLATE_CONSTRAINT_WITH_VALUES", "small"):
        spark.sql("INSERT INTO t VALUES (2, 99)")
    with fails("HEADWATER_EXPECTATION_VIOLATED", "strict", "DROP CONSTRAINT strict"):
        spark.sql("INSERT INTO t VALUES (NULL, -1)")
    with fails("HEADWATER_EXPECTATION_VIOLATED", "strict"):
        spark.sql("UPDATE t SET amount = -1")
    assert rows("SELECT * FROM t") == [(1, 1)]


def test_expectations_are_shown_and_their_text_runs(spark, rows, quarantining, database):
    spark.sql("ALTER TABLE t ADD CONSTRAINT `My own` EXPECT (id > 0 OR id = length('it''s'))")
    text = rows("SHOW CREATE TABLE t")[0][0]
    assert "CONSTRAINT `My own` EXPECT (id > 0 OR id = length('it''s'))" in text
    assert f"CONSTRAINT ok EXPECT (amount > 0) ON VIOLATION QUARANTINE INTO spark_catalog.{database}.bad" in text
    spark.sql("DROP TABLE t")
    spark.sql(text)
    assert rows("SHOW CREATE TABLE t")[0][0] == text
    assert "headwater.expect.ok" in str(rows("DESCRIBE EXTENDED t"))
    spark.sql("CREATE TABLE copy SHALLOW CLONE t")
    assert rows("SHOW CREATE TABLE copy")[0][0].count("EXPECT (") == 2
    found = rows("DESCRIBE HEALTH t")
    assert [row[1] for row in found if row[2] == "expectations" and row[0] == "findings"] + [
        row[3] for row in found if row[2] == "expectations" and row[0] == "table"
    ] == ["note", "My own, ok"]
    spark.sql("ALTER TABLE t DROP CONSTRAINT OK")
    spark.sql("INSERT INTO t VALUES (1, -1)")
    assert rows("SELECT * FROM t") == [(1, -1)]
    spark.sql("RESTORE TABLE t TO VERSION AS OF 0")
    spark.sql("INSERT INTO t VALUES (1, -1)")
    assert rows("SELECT * FROM t") == []


def test_new_columns_reach_the_quarantine_table(spark, rows, quarantining, fails):
    frame = spark.createDataFrame([(1, -1, "x")], "id INT, amount INT, more STRING")
    frame.write.format("delta").mode("append").option("mergeSchema", "true").saveAsTable("t")
    assert rows("SELECT id, amount, more FROM bad") == [(1, -1, "x")]
    with fails("DELTA_CONSTRAINT_DEPENDENT_COLUMN_CHANGE", "amount", "ok"):
        spark.sql("ALTER TABLE t SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
        spark.sql("ALTER TABLE t DROP COLUMN amount")
    spark.sql("ALTER TABLE t RENAME COLUMN more TO other")
    spark.sql("INSERT INTO t VALUES (2, -2, 'y')")
    assert sorted(rows("SELECT id, more, other FROM bad")) == [(1, "x", None), (2, None, "y")]


@pytest.mark.parametrize(
    ("clause", "condition", "said"),
    [
        ("EXPECT (amount)", "DELTA_NON_BOOLEAN_CHECK_CONSTRAINT", "amount"),
        ("EXPECT (rand() > 0)", "DELTA_UNSUPPORTED_CHECK_CONSTRAINT", "rand"),
        ("EXPECT (id IN (SELECT 1))", "DELTA_UNSUPPORTED_CHECK_CONSTRAINT", "SELECT"),
        ("EXPECT (id > 0) ON VIOLATION IGNORE", "PARSE_SYNTAX_ERROR", "DROP ROW"),
        ("EXPECT (id > 0) ON VIOLATION QUARANTINE INTO none", "HEADWATER_QUARANTINE_TABLE", "Create it: CREATE TABLE"),
        ("EXPECT (id > 0) ON VIOLATION QUARANTINE INTO t", "HEADWATER_QUARANTINE_TABLE", "the table itself"),
        ("EXPECT (id > 0) ON VIOLATION QUARANTINE INTO other", "HEADWATER_QUARANTINE_TABLE", "ADD COLUMN"),
    ],
)
def test_what_cannot_be_expected(spark, quarantining, fails, clause, condition, said):
    spark.sql("CREATE TABLE other (id INT) USING delta")
    with fails(condition, said):
        spark.sql(f"ALTER TABLE t ADD CONSTRAINT c {clause}")


def test_the_statement_of_a_missing_quarantine_table_runs(spark, rows, database):
    spark.sql(
        "CREATE TABLE t (id INT, `a b` STRUCT<x: INT>) USING delta TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    )
    add = "ALTER TABLE t ADD CONSTRAINT c EXPECT (id > 0) ON VIOLATION QUARANTINE INTO bad"
    with pytest.raises(Exception, match="HEADWATER_QUARANTINE_TABLE") as raised:
        spark.sql(add)
    create = str(raised.value).split("Create it: ")[1].split(" SQLSTATE")[0]
    spark.sql(create)
    spark.sql(add)
    spark.sql("INSERT INTO t VALUES (-1, named_struct('x', 7))")
    assert rows("SELECT id, `a b`.x FROM bad") == [(-1, 7)]


def test_a_table_that_takes_no_quarantined_rows(spark, rows, quarantining, fails):
    spark.sql("ALTER TABLE bad UNSET TBLPROPERTIES ('headwater.quarantine')")
    with fails("HEADWATER_QUARANTINE_TABLE", "SET TBLPROPERTIES"):
        spark.sql("INSERT INTO t VALUES (1, 1), (2, -2)")
    assert rows("SELECT * FROM t") == []
    spark.sql("INSERT INTO t VALUES (1, 1)")


def test_names_are_those_of_all_constraints(spark, dropping, fails):
    for clause in ("EXPECT (id > 0)", "CHECK (id > 0)"):
        with fails("DELTA_CONSTRAINT_ALREADY_EXISTS", "SMALL"):
            spark.sql(f"ALTER TABLE t ADD CONSTRAINT SMALL {clause}")
    with fails("DELTA_CONSTRAINT_DOES_NOT_EXIST", "none"):
        spark.sql("ALTER TABLE t DROP CONSTRAINT none")


def test_properties_scripts_and_parameter_markers(spark, rows, database, fails):
    spark.sql(
        "CREATE TABLE t (id INT) USING delta TBLPROPERTIES ('headwater.expect.Own' = "
        """'{"condition": "id > 0", "onViolation": "drop row"}')"""
    )
    spark.sql("BEGIN ALTER TABLE t ADD CONSTRAINT even EXPECT (id % 2 = 0) ON VIOLATION DROP ROW; END")
    spark.sql("ALTER TABLE t ADD CONSTRAINT small EXPECT (id < :most) ON VIOLATION DROP ROW", args={"most": 9})
    spark.sql("INSERT INTO t SELECT id - 5 FROM range(30)")
    assert sorted(rows("SELECT id FROM t")) == [(2,), (4,), (6,), (8,)]
    with fails("HEADWATER_EXPECTATION_NOT_READABLE", "headwater.expect.x"):
        spark.sql("ALTER TABLE t SET TBLPROPERTIES ('headwater.expect.x' = 'no JSON')")


def test_columns_that_expectations_use_stay(spark, quarantining, fails):
    with fails("DELTA_CONSTRAINT_DEPENDENT_COLUMN_CHANGE", "amount", "ok"):
        frame = spark.createDataFrame([(1,)], "id INT")
        frame.write.format("delta").mode("overwrite").option("overwriteSchema", "true").saveAsTable("t")


_DECLARED = (
    "id BIGINT GENERATED ALWAYS AS IDENTITY, at TIMESTAMP, day DATE GENERATED ALWAYS AS (CAST(at AS DATE)), "
    "code CHAR(3), s STRUCT<x: INT, `y z`: ARRAY<STRUCT<k: STRING>>>, m MAP<STRING, DECIMAL(5, 2)>, n INT DEFAULT 7"
)


@pytest.mark.parametrize("layout", ["PARTITIONED BY (day, at)", "PARTITIONED BY (code)", "CLUSTER BY (n)"])
def test_quarantined_values_are_those_of_the_row(spark, rows, database, layout):
    properties = "'delta.columnMapping.mode' = 'name', 'delta.feature.allowColumnDefaults' = 'supported'"
    spark.sql(
        "CREATE TABLE bad (id BIGINT, at TIMESTAMP, day DATE, code STRING, s STRUCT<x: INT, `y z`: ARRAY<STRUCT<k: "
        "STRING>>>, m MAP<STRING, DECIMAL(5, 2)>, n INT, quarantine_reason ARRAY<STRING>, quarantine_time TIMESTAMP, "
        "quarantine_source STRUCT<table: STRING, operation: STRING>) USING delta TBLPROPERTIES "
        "('headwater.quarantine' = 'true', 'delta.columnMapping.mode' = 'id')"
    )
    spark.sql(
        f"CREATE TABLE t ({_DECLARED}, CONSTRAINT c EXPECT (n <> 7) ON VIOLATION QUARANTINE INTO bad) USING delta "
        f"{layout} TBLPROPERTIES ({properties})"
    )
    spark.sql("ALTER TABLE t RENAME COLUMN s TO s2")
    spark.sql("ALTER TABLE t RENAME COLUMN s2 TO s")
    values = (
        "code, s, m) SELECT {at}, {code}, named_struct('x', 1, 'y z', array(named_struct('k', 'v'))), map('a', 1.5)"
    )
    for at, code in (("TIMESTAMP '2026-05-01 23:30:00.123456'", "'a'"), ("NULL", "NULL")):
        spark.sql(f"INSERT INTO t (at, {values.format(at=at, code=code)}")
        spark.sql(f"INSERT INTO t (n, at, {values.format(at='8, ' + at, code=code)}")
    columns = "CAST(at AS STRING), CAST(day AS STRING), code, to_json(s), to_json(m)"
    good = sorted(rows(f"SELECT {columns} FROM t WHERE n = 8"), key=str)
    assert sorted(rows(f"SELECT {columns} FROM bad WHERE n = 7"), key=str) == good
    assert len(good) == 2
    assert rows("SELECT count(DISTINCT id) FROM (SELECT id FROM t UNION ALL SELECT id FROM bad)") == [(4,)]


def test_overwrites_by_predicates_and_keys(spark, rows, quarantining):
    spark.sql("ALTER TABLE t SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    spark.sql("INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)")
    spark.sql("INSERT INTO t REPLACE WHERE id < 3 VALUES (1, 10), (2, -20)")
    assert sorted(rows("SELECT * FROM t")) == [(1, 10), (3, 3)]
    changes = rows("SELECT id, amount, _change_type FROM table_changes('t', 3)")
    assert sorted(changes) == [(1, 1, "delete"), (1, 10, "insert"), (2, 2, "delete")]
    spark.sql("INSERT INTO t REPLACE USING (id) SELECT * FROM VALUES (1, -5), (3, 30) AS s(id, amount)")
    assert sorted(rows("SELECT * FROM t")) == [(3, 30)]
    assert _bad(rows) == [(1, -5), (2, -20)]
    assert rows("SELECT count(*) FROM bad WHERE quarantine_source.operation = 'WRITE'") == [(2,)]


def test_a_table_has_so_many_expectations(spark, rows, database, fails):
    listed = ", ".join(f"CONSTRAINT c{n} EXPECT (id <> {n})" for n in range(24))
    spark.sql(f"CREATE TABLE t (id INT, {listed}) USING delta")
    with fails("HEADWATER_INVALID_EXPECTATION", "24"):
        spark.sql("ALTER TABLE t ADD CONSTRAINT more EXPECT (id > 0)")
    spark.sql("INSERT INTO t SELECT id FROM range(25)")
    spark.sql(
        "MERGE INTO t USING (SELECT * FROM range(23, 26)) AS s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert _metrics(rows, "t")["numViolations.c23"] == 1
    assert rows("SELECT count(*) FROM t") == [(26,)]


def test_copied_files_meet_them(spark, rows, database, tmp_path):
    spark.sql(QUARANTINE)
    spark.sql(
        "CREATE TABLE t (id INT, amount INT, CONSTRAINT ok EXPECT (amount > 0) ON VIOLATION QUARANTINE INTO bad, "
        "CONSTRAINT has_id EXPECT (id IS NOT NULL) ON VIOLATION DROP ROW, CHECK (amount <> 9)) USING delta"
    )
    spark.sql("SELECT * FROM VALUES (1, 1), (2, -2), (NULL, 9) AS t(id, amount)").write.json(str(tmp_path / "landing"))
    copy = f"COPY INTO t FROM '{tmp_path / 'landing'}' FILEFORMAT = JSON"
    assert rows(f"{copy} VALIDATE ALL") == [(1, 1)]
    assert [rows(copy), rows(copy)] == [[(1, 1, 0)], [(0, 0, 0)]]
    assert rows("SELECT * FROM t") == [(1, 1)]
    assert rows("SELECT id, quarantine_reason, quarantine_source.operation FROM bad") == [(2, ["ok"], "COPY INTO")]
    assert _metrics(rows, "t")["numRowsDroppedByExpectations"] == 1


def test_a_table_made_by_a_query_and_overwritten(spark, rows, database):
    spark.sql(QUARANTINE)
    said = '{"condition": "amount > 0", "onViolation": "QUARANTINE", "into": ["bad"]}'
    spark.sql(
        f"CREATE TABLE t USING delta TBLPROPERTIES ('headwater.expect.c' = '{said}') AS "
        "SELECT * FROM VALUES (1, 1), (2, -2) AS s(id, amount)"
    )
    assert (rows("SELECT * FROM t"), _bad(rows)) == ([(1, 1)], [(2, -2)])
    assert rows("SELECT quarantine_source.operation FROM bad") == [("CREATE TABLE AS SELECT",)]
    frame = spark.createDataFrame([(3, 3), (4, -4)], "id INT, amount INT")
    frame.write.format("delta").mode("overwrite").saveAsTable("t")
    assert (rows("SELECT * FROM t"), _bad(rows)) == ([(3, 3)], [(2, -2), (4, -4)])
    shown = rows("EXPLAIN MERGE INTO t USING bad ON t.id = bad.id WHEN MATCHED THEN UPDATE SET amount = bad.amount")
    assert "violated" in shown[0][0]
    assert "violated" in rows("EXPLAIN UPDATE t SET amount = -1")[0][0]


@pytest.mark.parametrize("vectors", ["true", "false"])
def test_files_that_a_write_gives_up_are_not_those_of_the_quarantine_table(spark, rows, quarantining, vectors):
    spark.sql(
        "ALTER TABLE t SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true', "
        f"'delta.enableDeletionVectors' = '{vectors}')"
    )
    spark.sql("INSERT INTO t SELECT /*+ COALESCE(1) */ * FROM VALUES (1, 1), (10, 10)")
    spark.sql("INSERT INTO t REPLACE WHERE id = 5 SELECT 5, -1")
    spark.sql("BEGIN TRANSACTION")
    spark.sql("INSERT INTO t VALUES (7, -7)")
    spark.sql("INSERT INTO t REPLACE WHERE id = 6 SELECT 6, -6")
    spark.sql("COMMIT")
    assert sorted(rows("SELECT * FROM t")) == [(1, 1), (10, 10)]
    assert _bad(rows) == [(5, -1), (6, -6), (7, -7)]
    # The copies of rows that stay are not needed, and gone.
    place = Path(rows("SELECT location FROM (DESCRIBE DETAIL t)")[0][0].removeprefix("file:"))
    assert len(list(place.rglob("*.parquet"))) == 1


_ADDED = (
    "quarantine_reason ARRAY<STRING>, quarantine_time TIMESTAMP, "
    "quarantine_source STRUCT<table: STRING, operation: STRING>"
)
_DROPS = '{"condition": "amount > 0", "onViolation": "DROP ROW"}'


def _foreign(rows, table, configuration):
    """Give a table properties as another writer does."""
    log = Path(rows(f"SELECT location FROM (DESCRIBE DETAIL {table})")[0][0].removeprefix("file:")) / "_delta_log"
    commits = sorted(log.glob("*.json"))
    actions = [json.loads(line) for line in commits[0].read_text().splitlines()]
    metadata = next(each["metaData"] for each in actions if "metaData" in each)
    metadata["configuration"] = configuration
    said = [{"commitInfo": {"timestamp": 0, "operation": "SET TBLPROPERTIES", "operationParameters": {}}}]
    text = "\n".join(json.dumps(each) for each in [*said, {"metaData": metadata}])
    (log / f"{int(commits[-1].stem) + 1:020}.json").write_text(text + "\n")


def test_a_quarantine_table_has_no_expectations(spark, rows, database, fails):
    spark.sql(f"CREATE TABLE bad (id INT, amount INT, {_ADDED}) USING delta")
    takes = "'headwater.quarantine' = 'true'"
    with fails("HEADWATER_INVALID_EXPECTATION", "headwater.quarantine"):
        spark.sql(f"ALTER TABLE bad SET TBLPROPERTIES ({takes}, 'headwater.expect.x' = '{_DROPS}')")
    spark.sql(f"ALTER TABLE bad SET TBLPROPERTIES ('headwater.expect.x' = '{_DROPS}')")
    with fails("HEADWATER_INVALID_EXPECTATION", "headwater.quarantine"):
        spark.sql(f"ALTER TABLE bad SET TBLPROPERTIES ({takes})")
    with fails("HEADWATER_INVALID_EXPECTATION", "headwater.quarantine"):
        spark.sql(f"CREATE TABLE o (amount INT, CONSTRAINT x EXPECT (amount > 0)) USING delta TBLPROPERTIES ({takes})")
    spark.sql(
        "CREATE TABLE t (id INT, amount INT, CONSTRAINT ok EXPECT (amount > 0) ON VIOLATION QUARANTINE INTO bad) "
        "USING delta"
    )
    _foreign(rows, "bad", {"headwater.quarantine": "true", "headwater.expect.x": _DROPS})
    with fails("HEADWATER_QUARANTINE_TABLE", "DROP CONSTRAINT x"):
        spark.sql("INSERT INTO t VALUES (1, 1), (2, -2)")
    assert (rows("SELECT * FROM t"), _bad(rows)) == ([], [])


@pytest.mark.parametrize(
    "configuration",
    [
        {f"headwater.expect.c{n:02}": json.dumps({"condition": f"id <> {n}"}) for n in range(25)},
        {
            f"headwater.expect.{name}": json.dumps(
                {"condition": "id > 0", "onViolation": "QUARANTINE", "into": ["spark_catalog", "default", name]}
            )
            for name in ("one", "two")
        },
        {"headwater.expect.half": '{"condition": "id <> \'\\ud800\'"}'},
    ],
)
def test_what_only_a_foreign_log_can_have(spark, rows, database, fails, configuration):
    spark.sql("CREATE TABLE t (id INT) USING delta")
    _foreign(rows, "t", configuration)
    with fails("HEADWATER_EXPECTATION_NOT_READABLE", max(configuration)):
        spark.sql("INSERT INTO t VALUES (1)")
    assert rows("SELECT * FROM t") == []
    spark.sql(f"ALTER TABLE t UNSET TBLPROPERTIES ('{max(configuration)}')")


def test_what_a_quarantine_table_computes(spark, rows, database):
    spark.sql(
        f"CREATE TABLE bad (n BIGINT GENERATED ALWAYS AS IDENTITY, id INT, amount INT, {_ADDED}, "
        "state STRING NOT NULL DEFAULT 'open', day DATE GENERATED ALWAYS AS (CAST(quarantine_time AS DATE))) "
        "USING delta TBLPROPERTIES ('headwater.quarantine' = 'true', "
        "'delta.feature.allowColumnDefaults' = 'supported')"
    )
    spark.sql(
        "CREATE TABLE t (ID INT, Amount INT, CONSTRAINT ok EXPECT (Amount > 0) ON VIOLATION QUARANTINE INTO bad) "
        "USING delta"
    )
    spark.sql("INSERT INTO t VALUES (1, -1), (2, -2)")
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        spark.sql("INSERT INTO t VALUES (3, -3)")
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
    assert sorted(rows("SELECT id, amount, state, day IS NULL FROM bad")) == [(n, -n, "open", False) for n in (1, 2, 3)]
    assert rows("SELECT count(DISTINCT n) FROM bad") == [(3,)]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("id INT NOT NULL, code VARCHAR(5)", "DROP NOT NULL"),
        ("id INT, code VARCHAR(5), state STRING NOT NULL", "DROP NOT NULL"),
        ("id INT, code VARCHAR(3)", "must be string"),
    ],
)
def test_what_rows_that_are_turned_away_would_not_meet(spark, database, fails, columns, said):
    spark.sql(f"CREATE TABLE bad ({columns}, {_ADDED}) USING delta TBLPROPERTIES ('headwater.quarantine' = 'true')")
    with fails("HEADWATER_QUARANTINE_TABLE", said):
        spark.sql(
            "CREATE TABLE t (id INT NOT NULL, code VARCHAR(5), CONSTRAINT c EXPECT (id > 0) ON VIOLATION QUARANTINE "
            "INTO bad) USING delta"
        )


def test_writers_spell_the_table_alike(spark, rows, database, tmp_path):
    spark.sql(QUARANTINE)
    expected = json.dumps({"condition": "amount > 0", "onViolation": "QUARANTINE", "into": [database, "bad"]})
    for number, name in enumerate(("t", f"{database}.`2nd`", f"spark_catalog.{database}.third"), 1):
        spark.sql(
            f"CREATE TABLE {name} USING delta TBLPROPERTIES ('headwater.expect.ok' = '{expected}') "
            f"AS SELECT {number} AS id, -1 AS amount"
        )
        spark.sql(f"INSERT INTO {name} VALUES ({number}, -2)")
        spark.sql(
            f"MERGE INTO {name} USING (SELECT {number} AS k) ON id = k "
            "WHEN NOT MATCHED THEN INSERT (id, amount) VALUES (k, -3)"
        )
    found = rows("SELECT quarantine_source.table, count(*) FROM bad GROUP BY ALL ORDER BY any_value(id)")
    quoted = [f"`spark_catalog`.`{database}`.`{name}`" for name in ("t", "2nd", "third")]
    assert found == [(name, 3) for name in quoted]


def test_writers_options_are_properties_of_new_tables(spark, rows, database, tmp_path):
    frame = spark.createDataFrame([(1, 1), (2, -2)], "id INT, amount INT")
    frame.write.format("delta").option("headwater.expect.ok", _DROPS).saveAsTable("t")
    frame.write.format("delta").option("headwater.expect.ok", _DROPS).save(str(tmp_path / "b"))
    source = str(tmp_path / "source")
    frame.write.format("delta").option("headwater.quarantine", "true").save(source)
    assert ("headwater.quarantine", "true") in rows(f"SHOW TBLPROPERTIES delta.`{source}`")
    written = spark.readStream.format("delta").load(source).writeStream.format("delta")
    written = written.option("checkpointLocation", str(tmp_path / "point")).option("headwater.expect.ok", _DROPS)
    written.trigger(availableNow=True).start(str(tmp_path / "c")).awaitTermination()
    for table in ("t", f"delta.`{tmp_path / 'b'}`", f"delta.`{tmp_path / 'c'}`"):
        assert rows(f"SELECT * FROM {table}") == [(1, 1)]


def test_names_that_quarantined_rows_need(spark, rows, quarantining, fails):
    for name in ("_change_type", "quarantine_time"):
        with fails("HEADWATER_INVALID_EXPECTATION", name):
            spark.sql(f"ALTER TABLE t ADD COLUMN {name} STRING")
    spark.sql("ALTER TABLE t ADD COLUMN more STRING")
    spark.sql("INSERT INTO t VALUES (1, -1, 'x')")
    assert rows("SELECT more FROM bad") == [("x",)]


def test_the_quarantine_table_in_a_session_without_time_zones(spark, rows, database, fails):
    spark.sql("CREATE TABLE t (id INT, at TIMESTAMP, s STRUCT<`timestamp`: TIMESTAMP>) USING delta")
    add = "ALTER TABLE t ADD CONSTRAINT c EXPECT (id > 0) ON VIOLATION QUARANTINE INTO bad"
    spark.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    try:
        with pytest.raises(Exception, match="HEADWATER_QUARANTINE_TABLE") as raised:
            spark.sql(add)
        spark.sql(str(raised.value).split("Create it: ")[1].split(" SQLSTATE")[0])
        spark.sql(add)
        spark.sql("INSERT INTO t SELECT -1, current_timestamp(), named_struct('timestamp', current_timestamp())")
    finally:
        spark.conf.unset("spark.sql.timestampType")
    assert rows("SELECT id, at = s.timestamp FROM bad") == [(-1, True)]
    spark.sql(f"CREATE TABLE other (id INT, at TIMESTAMP_NTZ, s STRUCT<`timestamp`: TIMESTAMP>, {_ADDED}) USING delta")
    spark.sql("ALTER TABLE t DROP CONSTRAINT c")
    with fails("HEADWATER_QUARANTINE_TABLE", "at is timestamp_ntz, and must be timestamp_ltz"):
        spark.sql(add.replace("bad", "other"))
