"""INSERT in every form of SQL: by position, by name, with column lists and defaults, and the three ways of
overwriting."""

from __future__ import annotations

import itertools

import pytest

PARTITIONED = "CREATE TABLE p (a INT, d STRING, e INT) USING delta PARTITIONED BY (d, e)"
DYNAMIC = {"spark.sql.sources.partitionOverwriteMode": "dynamic"}


def run(spark, *statements: str) -> None:
    for statement in statements:
        spark.sql(statement)


def test_by_position_name_and_list(spark, rows, database):
    run(
        spark,
        "CREATE TABLE t (a INT, b STRING) USING delta",
        "INSERT INTO t VALUES (1, 'x')",
        "INSERT INTO t (b, a) VALUES ('y', 2)",
        "INSERT INTO t BY NAME SELECT 'z' AS b, 3 AS a",
        "INSERT INTO t (a) VALUES (4)",
        "INSERT INTO t TABLE t",
    )
    assert rows("SELECT a, b, count(*) FROM t GROUP BY a, b ORDER BY a") == [
        (1, "x", 2),
        (2, "y", 2),
        (3, "z", 2),
        (4, None, 2),
    ]


def test_wrong_columns_are_refused(spark, rows, fails, database):
    run(spark, "CREATE TABLE t (a INT, b STRING, st STRUCT<x: INT>) USING delta")
    with fails("INSERT_COLUMN_ARITY_MISMATCH.NOT_ENOUGH_DATA_COLUMNS", "`a`, `b`", state="21S01"):
        spark.sql("INSERT INTO t VALUES (1)")
    with fails("INSERT_COLUMN_ARITY_MISMATCH.TOO_MANY_DATA_COLUMNS", state="21S01"):
        spark.sql("INSERT INTO t VALUES (1, 'x', NULL, 2)")
    with fails("INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_SAFELY_CAST", "`a`", state="KD000"):
        spark.sql("INSERT INTO t VALUES (DATE'2020-01-01', 'x', NULL)")
    with fails("CAST_INVALID_INPUT", "'q'", state="22018"):
        spark.sql("INSERT INTO t VALUES ('q', 'x', NULL)")
    with fails("CAST_INVALID_INPUT", "'q'", state="22018"):
        spark.sql("INSERT INTO t VALUES (1, 'x', named_struct('x', 'q'))")
    with fails("CAST_OVERFLOW_IN_TABLE_INSERT", "`st`.`x`", state="22003"):
        spark.sql("INSERT INTO t SELECT 1, 'x', named_struct('x', id + 3000000000) FROM range(1)")
    with fails("DELTA_METADATA_MISMATCH", "c (int) is not a column", "mergeSchema"):
        spark.sql("INSERT INTO t BY NAME SELECT 1 AS a, 2 AS c")
    with fails("DELTA_METADATA_MISMATCH", "st.y (int) is not a column"):
        spark.sql("INSERT INTO t BY NAME SELECT 1 AS a, named_struct('x', 1, 'y', 2) AS st")
    assert rows("SELECT count(*) FROM t") == [(0,)]


def test_nested_structs(spark, rows, database):
    run(
        spark,
        "CREATE TABLE t (id INT, st STRUCT<a: INT, b: STRUCT<c: BIGINT, d: STRING>>, ar ARRAY<STRUCT<x: BIGINT>>) "
        "USING delta",
        "INSERT INTO t VALUES (1, named_struct('q', 1, 'r', named_struct('s', 2, 't', 'u')), "
        "array(named_struct('y', 3)))",
        "INSERT INTO t BY NAME SELECT named_struct('b', named_struct('d', 'v', 'c', 5), 'a', 4) AS st, 2 AS id",
    )
    assert rows("SELECT id, st.a, st.b.c, st.b.d, ar[0].x FROM t ORDER BY id") == [
        (1, 1, 2, "u", 3),
        (2, 4, 5, "v", None),
    ]


def test_defaults(spark, rows, database):
    run(
        spark,
        "CREATE TABLE t (a INT, b STRING DEFAULT 'dd', c INT DEFAULT 40 + 2) USING delta "
        "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')",
        "INSERT INTO t (a) VALUES (1)",
        "INSERT INTO t VALUES (2, DEFAULT, 3)",
        "INSERT INTO t BY NAME SELECT 4 AS a, CAST(NULL AS STRING) AS b",
    )
    spark.sql("SELECT 5 AS a").write.format("delta").mode("append").saveAsTable("t")
    assert rows("SELECT * FROM t ORDER BY a") == [(1, "dd", 42), (2, "dd", 3), (4, None, 42), (5, "dd", 42)]
    spark.sql("INSERT OVERWRITE t (a) VALUES (9)")
    assert rows("SELECT * FROM t") == [(9, "dd", 42)]


def test_static_overwrite(spark, rows, database):
    run(
        spark,
        PARTITIONED,
        "INSERT INTO p VALUES (1, 'x', 1), (2, 'y', 1), (3, 'x', 2)",
        "INSERT INTO p PARTITION (d = 'z', e) VALUES (4, 5)",
        "INSERT OVERWRITE p PARTITION (d = 'x', e = 1) VALUES (10)",
    )
    assert rows("SELECT * FROM p ORDER BY a") == [(2, "y", 1), (3, "x", 2), (4, "z", 5), (10, "x", 1)]
    spark.sql("INSERT OVERWRITE p PARTITION (d = 'x', e) VALUES (20, 7)")
    assert rows("SELECT * FROM p ORDER BY a") == [(2, "y", 1), (4, "z", 5), (20, "x", 7)]
    spark.sql("INSERT OVERWRITE p SELECT * FROM p WHERE a < 10")
    assert rows("SELECT * FROM p ORDER BY a") == [(2, "y", 1), (4, "z", 5)]
    spark.sql("INSERT OVERWRITE p SELECT * FROM p WHERE false")
    assert rows("SELECT * FROM p") == []


def test_dynamic_overwrite(spark, rows, database, settings):
    run(spark, PARTITIONED, "INSERT INTO p VALUES (1, 'x', 1), (2, 'y', 1), (3, 'x', 2), (4, NULL, NULL)")
    with settings(DYNAMIC):
        run(
            spark,
            "INSERT OVERWRITE p VALUES (30, 'x', 2), (40, NULL, NULL)",
            "INSERT OVERWRITE p PARTITION (d = 'x', e) VALUES (10, 1)",
            "INSERT OVERWRITE p SELECT * FROM p WHERE false",
        )
    assert rows("SELECT * FROM p ORDER BY a") == [(2, "y", 1), (10, "x", 1), (30, "x", 2), (40, None, None)]


def test_replace_where(spark, rows, fails, database):
    run(spark, PARTITIONED, "INSERT INTO p SELECT id, IF(id < 5, 'x', 'y'), 1 FROM range(0, 10, 1, 1)")
    spark.sql("INSERT INTO p REPLACE WHERE d = 'x' VALUES (100, 'x', 2)")
    assert rows("SELECT * FROM p ORDER BY a") == [*((a, "y", 1) for a in range(5, 10)), (100, "x", 2)]
    # A predicate on data keeps the other rows of the files it touches.
    spark.sql("INSERT INTO p REPLACE WHERE a BETWEEN 6 AND 7 OR a IS NULL VALUES (6, 'q', 9), (NULL, 'n', 9)")
    assert rows("SELECT a FROM p ORDER BY a") == [(None,), (5,), (6,), (8,), (9,), (100,)]
    before = rows("SELECT * FROM p ORDER BY a")
    for values in ("(5, 'y', 1)", "(100, 'x', 1), (1, 'x', 1)"):
        with fails("DELTA_REPLACE_WHERE_MISMATCH", "> 50", " - a : "):
            spark.sql(f"INSERT INTO p REPLACE WHERE a > 50 VALUES {values}")
    with fails("UNRESOLVED_COLUMN.WITH_SUGGESTION", "nope", state="42703"):
        spark.sql("INSERT INTO p REPLACE WHERE nope > 50 VALUES (1, 'x', 1)")
    assert rows("SELECT * FROM p ORDER BY a") == before


def test_schema_evolution(spark, rows, fails, database):
    run(
        spark,
        "CREATE TABLE t (a INT, st STRUCT<x: INT>) USING delta",
        "INSERT INTO t VALUES (1, named_struct('x', 1))",
        "INSERT WITH SCHEMA EVOLUTION INTO t BY NAME SELECT 2 AS a, named_struct('x', 2, 'y', 'new') AS st, 2.5D AS b",
        "INSERT WITH SCHEMA EVOLUTION INTO t BY NAME SELECT 3 AS a",
        "INSERT WITH SCHEMA EVOLUTION INTO t SELECT 4, named_struct('x', 4, 'y', 'z'), 1.5D, true AS fresh",
    )
    assert spark.table("t").schema.simpleString() == "struct<a:int,st:struct<x:int,y:string>,b:double,fresh:boolean>"
    assert rows("SELECT a, st.x, st.y, b, fresh FROM t ORDER BY a") == [
        (1, 1, None, None, None),
        (2, 2, "new", 2.5, None),
        (3, None, None, None, None),
        (4, 4, "z", 1.5, True),
    ]
    with fails("DELTA_FAILED_TO_MERGE_FIELDS", "a"):
        spark.sql("INSERT WITH SCHEMA EVOLUTION INTO t BY NAME SELECT array(1) AS a")


def test_evolution_casts_what_does_not_widen(spark, rows, fails, database, settings, tmp_path):
    evolving = "INSERT WITH SCHEMA EVOLUTION"
    row = "{k} AS k, 1.5 AS d, 2 AS s, '3' AS i, 4 AS t, array(named_struct('x', '5')) AS l"
    run(
        spark,
        "CREATE TABLE t (k INT, d DOUBLE, s SMALLINT, i INT, t STRING, l ARRAY<STRUCT<x: INT>>) USING delta",
        f"{evolving} INTO t SELECT {row.format(k=1)}",
        f"{evolving} INTO t BY NAME SELECT 'new' AS n, {row.format(k=2)}",
        f"{evolving} INTO t (k, d, s, i, t, l) SELECT {row.format(k=3)}",
        f"{evolving} INTO t REPLACE WHERE k = 1 SELECT {row.format(k=1)}, 'new'",
        f"{evolving} INTO t BY NAME REPLACE USING (k) SELECT {row.format(k=2)}, 'new' AS n",
        f"MERGE WITH SCHEMA EVOLUTION INTO t USING (SELECT {row.format(k=4)}) s ON t.k = s.k "
        "WHEN NOT MATCHED THEN INSERT *",
    )
    frame = spark.sql(f"SELECT 5 AS k, {row.split(', ', 1)[1]}")
    frame.writeTo("t").option("mergeSchema", True).append()
    frame.write.format("delta").option("mergeSchema", True).mode("append").saveAsTable("t")
    with settings({"spark.databricks.delta.schema.autoMerge.enabled": "true"}):
        run(spark, f"INSERT INTO t (k, d, s, i, t, l) SELECT {row.format(k=6)}")
        frame.selectExpr("*", "'new' AS n").write.insertInto("t")
    feed = tmp_path / "feed"
    frame.write.parquet(str(feed))
    stream = (
        spark.readStream.schema(frame.schema).parquet(str(feed)).writeStream.format("delta").option("mergeSchema", True)
    )
    stream.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).toTable("t").awaitTermination()
    assert rows("SELECT k, count(*) FROM t GROUP BY k ORDER BY k") == [(1, 1), (2, 1), (3, 1), (4, 1), (5, 4), (6, 1)]
    assert rows("SELECT DISTINCT d, s, i, t, l FROM t") == [(1.5, 2, 3, "4", [(5,)])]
    assert rows("SELECT k FROM t WHERE n = 'new' ORDER BY k") == [(1,), (2,), (5,)]
    refused = fails("INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_SAFELY_CAST", "`i`", state="KD000")
    with settings({"spark.sql.storeAssignmentPolicy": "STRICT"}), refused:
        run(spark, f"{evolving} INTO t BY NAME SELECT 7 AS k, '3' AS i")
    with settings({"spark.sql.storeAssignmentPolicy": "LEGACY"}):
        run(spark, f"{evolving} INTO t BY NAME SELECT 7 AS k, 'no number' AS i")
    with fails("DELTA_FEATURES_REQUIRE_MANUAL_ENABLEMENT", "timestampNtz"):
        run(spark, f"{evolving} INTO t BY NAME SELECT TIMESTAMP_NTZ'2024-01-01 00:00:00' AS at")
    assert spark.table("t").columns == ["k", "d", "s", "i", "t", "l", "n"]


def test_truncate_empties_the_table(spark, rows, database):
    run(spark, PARTITIONED, "INSERT INTO p VALUES (1, 'x', 1)", "TRUNCATE TABLE p")
    assert rows("SELECT * FROM p") == []
    assert rows("SELECT * FROM p VERSION AS OF 1") == [(1, "x", 1)]
    spark.sql("TRUNCATE TABLE p")
    assert rows("DESCRIBE HISTORY p")[0][0] == 2  # nothing left to remove, nothing committed


def test_zero_rows(spark, rows, database, log):
    run(
        spark,
        "CREATE TABLE t (a INT) USING delta",
        "INSERT INTO t SELECT 1 WHERE false",
        "INSERT INTO t SELECT id FROM range(9) WHERE id > 10",
    )
    assert rows("SELECT count(*), max(a) FROM t") == [(0, None)]
    path = rows("DESCRIBE DETAIL t")[0][4].removeprefix("file:")
    assert not [a for version in (1, 2) for a in log(path, version) if "add" in a]


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_failed_write_changes_nothing(spark, rows, database, overwrite):
    run(spark, "CREATE TABLE t (a INT, p INT) USING delta PARTITIONED BY (p)", "INSERT INTO t VALUES (1, 1)")
    verb = "OVERWRITE" if overwrite else "INTO"
    with pytest.raises(Exception, match="no such day"):
        spark.sql(
            f"INSERT {verb} t SELECT IF(id = 90, raise_error('no such day'), CAST(id AS INT)), id % 3 FROM range(0, "
            f"100, 1, 2)"
        )
    assert rows("SELECT * FROM t") == [(1, 1)]
    assert rows("DESCRIBE HISTORY t")[0][0] == 1


SEVERAL = "FROM t INSERT INTO t SELECT id + 100, s INSERT INTO t SELECT id + 200, s WHERE id < 3"


@pytest.mark.parametrize("reads", ["t", "(SELECT t.* FROM t JOIN u ON t.id = u.id)", "u"])
def test_inserts_of_one_statement_into_one_table_are_one_commit(spark, rows, database, reads):
    run(
        spark,
        "CREATE TABLE t (id INT, s STRING) USING delta",
        "CREATE TABLE u (id INT, s STRING) USING delta",
        "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')",
        "INSERT INTO u SELECT * FROM t",
        f"FROM {reads} {SEVERAL.removeprefix('FROM t ')}",
    )
    found = [(1, "a"), (2, "b"), (3, "c"), (101, "a"), (102, "b"), (103, "c"), (201, "a"), (202, "b")]
    assert rows("SELECT * FROM t ORDER BY id") == found
    assert [row[4] for row in rows("DESCRIBE HISTORY t")] == ["WRITE", "WRITE", "CREATE TABLE"]


def test_inserts_of_one_statement_into_several_tables(spark, rows, database):
    run(
        spark,
        "CREATE TABLE t (id INT, s STRING) USING delta",
        "CREATE TABLE u (id INT, s STRING, n INT GENERATED ALWAYS AS (id + 1)) USING delta",
        "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
        "FROM (SELECT id AS i, s FROM t) INSERT INTO u (id, s) SELECT i, s INSERT INTO t SELECT i + 10, s "
        "INSERT INTO u (id, s) SELECT i + 5L, upper(s) INSERT INTO t SELECT i + 20, s",
    )
    assert rows("SELECT id FROM t ORDER BY id") == [(1,), (2,), (11,), (12,), (21,), (22,)]
    assert rows("SELECT * FROM u ORDER BY id") == [(1, "a", 2), (2, "b", 3), (6, "A", 7), (7, "B", 8)]
    assert (rows("DESCRIBE HISTORY t")[0][0], rows("DESCRIBE HISTORY u")[0][0]) == (2, 1)


@pytest.mark.parametrize(
    "inserts",
    [
        "INSERT INTO t SELECT id + 1, s INSERT OVERWRITE t SELECT *",
        "INSERT OVERWRITE t SELECT * INSERT INTO t SELECT *",
    ],
)
def test_inserts_that_cannot_be_one_are_done_whole_or_not_at_all(spark, rows, fails, database, inserts):
    run(
        spark,
        "CREATE TABLE t (id INT, s STRING) USING delta",
        "CREATE TABLE u (id INT, s STRING) USING delta",
        "INSERT INTO t VALUES (1, 'a')",
        "INSERT INTO u VALUES (7, 'u')",
    )
    with fails("HEADWATER_INSERTS_OF_OWN_ROWS", "Nothing was written"):
        spark.sql(f"FROM t {inserts}")
    assert rows("SELECT * FROM t") == [(1, "a")]
    spark.sql(f"FROM u {inserts}")
    assert rows("SELECT * FROM t") == ([(7, "u")] if inserts.endswith("T OVERWRITE t SELECT *") else [(7, "u")] * 2)


@pytest.mark.parametrize("in_transaction", [False, True])
def test_inserts_of_one_statement_read_what_was_before_it(spark, rows, database, tmp_path, in_transaction):
    run(
        spark,
        "CREATE TABLE a (x INT) USING delta",
        "CREATE TABLE d (x INT) USING delta",
        "CREATE TABLE p (x INT) USING parquet",
    )
    spark.table("a").where("x IN (SELECT x FROM a)").createOrReplaceTempView("before")  # older than the rows
    elsewhere = {"INTO p": "p", f"OVERWRITE DIRECTORY '{tmp_path}/rows' USING parquet": f"parquet.`{tmp_path}/rows`"}
    kinds = {
        "INTO d": "d",
        "INTO d WITH (idCols = 'x')": "d",
        **({} if in_transaction else elsewhere),
        "OVERWRITE d": "d",
    }
    firsts = {"INTO a SELECT x + 10": [1, 2, 11, 12], "OVERWRITE a SELECT x + 10 WHERE x > 1": [12]}
    for (kind, written), (first, left) in zip(kinds.items(), itertools.cycle(firsts.items()), strict=False):
        run(spark, "TRUNCATE TABLE d", "INSERT OVERWRITE a VALUES (2), (1)")
        if in_transaction:
            run(spark, "BEGIN TRANSACTION", "INSERT OVERWRITE a VALUES (1), (2)")
        spark.sql(f"FROM before INSERT {first} INSERT {kind} SELECT x + 100 AS x")
        if in_transaction:
            spark.sql("COMMIT")
        assert rows(f"SELECT x FROM {written} ORDER BY x") == [(101,), (102,)], kind
        assert rows("SELECT x FROM a ORDER BY x") == [(x,) for x in left]


def test_a_replacement_with_rows_of_an_earlier_insert_is_refused(spark, rows, fails, database):
    run(
        spark,
        "CREATE TABLE a (x INT) USING delta",
        "CREATE TABLE d (x INT) USING delta",
        "INSERT INTO a VALUES (1)",
        "FROM a INSERT INTO d SELECT x INSERT INTO a REPLACE USING (x) SELECT x + 1 AS x",
    )
    assert rows("SELECT x FROM a ORDER BY x") == [(1,), (2,)]
    for inserts in (
        "INSERT INTO a SELECT x + 10 INSERT INTO d REPLACE USING (x) SELECT x",
        "INSERT INTO a REPLACE USING (x) SELECT x INSERT OVERWRITE a SELECT x + 10",
    ):
        with fails("HEADWATER_INSERTS_OF_OWN_ROWS", "`a`, into which", "Nothing was written"):
            spark.sql(f"FROM a {inserts}")
    assert (rows("SELECT x FROM a ORDER BY x"), rows("SELECT x FROM d")) == ([(1,), (2,)], [(1,)])


def test_inserts_are_joined_beside_those_of_other_formats(spark, rows, database):
    run(
        spark,
        "CREATE TABLE t (id INT, s STRING) USING delta",
        "CREATE TABLE p (id INT, s STRING) USING parquet",
        "INSERT INTO t VALUES (1, 'a')",
        "FROM t INSERT INTO t SELECT id + 100, s INSERT INTO p SELECT id, s INSERT INTO t SELECT id + 1000, s",
    )
    assert rows("SELECT id FROM t ORDER BY id") == [(1,), (101,), (1001,)]
    assert rows("SELECT id FROM p") == [(1,)]
    assert rows("DESCRIBE HISTORY t")[0][0] == 2


@pytest.mark.parametrize("in_transaction", [False, True])
def test_an_insert_that_fails_speaks_for_itself_alone(spark, rows, fails, database, in_transaction):
    """What an INSERT before it in the same statement has done stays, unless a transaction holds both."""
    run(
        spark,
        "CREATE TABLE t (id INT) USING delta",
        "CREATE TABLE u (id INT, CONSTRAINT small CHECK (id < 5)) USING delta",
    )
    if in_transaction:
        spark.sql("BEGIN TRANSACTION")
    with fails("DELTA_VIOLATE_CONSTRAINT_WITH_VALUES", "This write stored nothing"):
        spark.sql("FROM range(4, 6) INSERT INTO t SELECT int(id) INSERT INTO u SELECT int(id)")
    if in_transaction:
        spark.sql("ROLLBACK")
    assert rows("SELECT * FROM t ORDER BY id") == ([] if in_transaction else [(4,), (5,)])
    assert rows("SELECT * FROM u") == []


@pytest.mark.parametrize("by", ["session", "options"])
def test_inserts_that_one_transaction_version_would_lose_are_refused(spark, rows, fails, database, settings, by):
    run(
        spark,
        "CREATE TABLE t (id INT) USING delta",
        "CREATE TABLE u (id INT) USING delta",
        "INSERT INTO t VALUES (0)",
    )
    session = {
        f"spark.databricks.delta.write.{name}": value for name, value in (("txnAppId", "load"), ("txnVersion", "7"))
    }
    named = "WITH (txnAppId = 'load', txnVersion = '7')" if by == "options" else ""
    with settings(session if by == "session" else {}):
        for first, second in (("OVERWRITE", "INTO"), ("INTO", "OVERWRITE")):
            with fails(
                "HEADWATER_INSERTS_OF_ONE_TXN_VERSION", "version 7 of the application load", "Nothing was written"
            ):
                spark.sql(f"FROM range(2) INSERT {first} t {named} SELECT id INSERT {second} t {named} SELECT id")
        spark.sql(
            f"FROM range(1, 3) INSERT INTO t {named} SELECT id INSERT INTO t {named} SELECT id + 2 "
            f"INSERT INTO u {named} SELECT id"
        )
    assert rows("SELECT id FROM t ORDER BY id") == [(0,), (1,), (2,), (3,), (4,)]
    assert rows("SELECT id FROM u ORDER BY id") == [(1,), (2,)]


def test_upserts_of_one_statement_follow_one_another(spark, rows, fails, database):
    run(
        spark,
        "CREATE TABLE t (id INT, s STRING) USING delta",
        "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
        "FROM (SELECT 2 AS id) INSERT INTO t WITH (idCols = 'id') SELECT id, 'c' AS s "
        "INSERT INTO t WITH (idCols = 'id') SELECT id + n AS id, 'd' AS s LATERAL VIEW explode(array(0, 1)) e AS n",
    )
    assert rows("SELECT * FROM t ORDER BY id") == [(1, "a"), (2, "d"), (3, "d")]
    upsert = "INSERT INTO t WITH (idCols = 'id') SELECT id + 5 AS id, s"
    with fails("HEADWATER_INSERTS_OF_OWN_ROWS"):
        spark.sql(f"FROM t {upsert} {upsert}")
    assert rows("SELECT count(*) FROM t") == [(3,)]


@pytest.mark.covering
@pytest.mark.parametrize("computed", ["g INT GENERATED ALWAYS AS (id * 2)", "g BIGINT GENERATED ALWAYS AS IDENTITY"])
@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("evolves", [True, False])
def test_rows_by_position_lack_computed_columns_wherever_they_are(
    spark, rows, database, settings, computed, place, evolves
):
    columns = ["id INT", "s STRING"]
    columns.insert(place, computed)
    run(spark, f"CREATE TABLE t ({', '.join(columns)}) USING delta")
    with settings({"spark.databricks.delta.schema.autoMerge.enabled": str(evolves).lower()}):
        run(spark, "INSERT INTO t VALUES (1, 'a')", "INSERT INTO t REPLACE WHERE id = 1 SELECT 1, 'b'")
        spark.sql("SELECT 2, 'c'").write.insertInto("t")
        run(spark, "INSERT INTO t REPLACE USING (id) SELECT 2 AS id, 'd' AS s")
    assert rows("SELECT id, s FROM t ORDER BY id") == [(1, "b"), (2, "d")]
    if "id * 2" in computed:
        assert rows("SELECT g FROM t ORDER BY id") == [(2,), (4,)]


@pytest.mark.covering
@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.parametrize(("start", "step"), [(2**63 - 3, 1), (2**63 - 6, 3), (-(2**63) + 2, -1)])
def test_identity_values_end_with_the_last_one(spark, rows, fails, database, settings, ansi, start, step):
    with settings({"spark.sql.ansi.enabled": ansi}):
        run(
            spark,
            "CREATE TABLE t (i BIGINT GENERATED BY DEFAULT AS IDENTITY "
            f"(START WITH {start} INCREMENT BY {step}), s STRING) USING delta",
        )
        left = len(range(start, 2**63 if step > 0 else -(2**63) - 1, step))
        with fails("DELTA_IDENTITY_COLUMN_OVERFLOW"):
            run(spark, f"INSERT INTO t (s) SELECT 'x' FROM range({left + 1})")
        run(spark, f"INSERT INTO t (s) SELECT 'x' FROM range({left - 1})")
        values = [start + step * number for number in range(left)]
        assert rows("SELECT i FROM t", ordered=False) == sorted([(v,) for v in values[:-1]], key=repr)
        with fails("DELTA_IDENTITY_COLUMN_OVERFLOW"):
            source = "(SELECT CAST(id AS STRING) AS id FROM range(2)) u"
            spark.sql(f"MERGE INTO t USING {source} ON t.s = u.id WHEN NOT MATCHED THEN INSERT (s) VALUES (u.id)")
        assert rows("SELECT count(*) FROM t") == [(left - 1,)]
