"""ALTER TABLE's changes of columns: what they give, what they refuse, and what reads and writes do afterwards."""

from __future__ import annotations

import json
from decimal import Decimal

MAPPED = "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"


def history(spark, table, *names):
    """The newest commit: operation, and the parameters of these names, JSON decoded where it is some."""
    row = spark.sql(f"DESCRIBE HISTORY {table} LIMIT 1").first()
    parameters = row["operationParameters"]
    return (
        row["operation"],
        *(json.loads(parameters[n]) if parameters[n][0] in "[{" else parameters[n] for n in names),
    )


def columns(spark, table):
    return spark.table(table).schema.simpleString()[len("struct<") : -1]


def test_rename_columns_partitions_and_fields(spark, rows, database, fails):
    spark.sql(
        """CREATE TABLE t (id INT, s STRUCT<a: INT, l: ARRAY<STRUCT<x: INT>>>, p STRING, v INT) USING delta
        PARTITIONED BY (p) TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.enableChangeDataFeed' = 'true',
        'delta.dataSkippingStatsColumns' = 'id, s.a', 'delta.enableDeletionVectors' = 'true')"""
    )
    spark.sql("INSERT INTO t VALUES (1, named_struct('a', 2, 'l', array(named_struct('x', 3))), 'q', 4)")
    spark.sql("CREATE VIEW seen AS SELECT id, v FROM t")
    spark.table("t").cache().count()
    spark.sql("ALTER TABLE t RENAME COLUMN v TO `new name`")
    assert history(spark, "t", "oldColumnPath", "newColumnPath") == ("RENAME COLUMN", "v", "`new name`")
    assert rows("SELECT `new name` FROM t") == [(4,)]
    with fails("UNRESOLVED_COLUMN.WITH_SUGGESTION", "v", state="42703"):
        spark.sql("SELECT v FROM t").collect()
    with fails("UNRESOLVED_COLUMN.WITH_SUGGESTION", "v", state="42703"):
        spark.sql("SELECT * FROM seen").collect()
    spark.sql("ALTER TABLE t RENAME COLUMN s.a TO b")
    spark.sql("ALTER TABLE t RENAME COLUMN s.l.element.x TO y")
    spark.sql("ALTER TABLE t RENAME COLUMN p TO part")
    spark.sql("ALTER TABLE t RENAME COLUMN id TO v")
    assert rows("SHOW PARTITIONS t") == [("part=q",)]
    assert spark.sql("DESCRIBE DETAIL t").first()["partitionColumns"] == ["part"]
    assert spark.sql("DESCRIBE DETAIL t").first()["properties"]["delta.dataSkippingStatsColumns"] == "v,s.b"
    spark.sql("INSERT INTO t SELECT 10, named_struct('b', 20, 'l', array(named_struct('y', 30))), 'q', 40")
    spark.sql("UPDATE t SET s.b = s.b + 1, `new name` = 5 WHERE v = 1 AND part = 'q'")
    spark.sql("MERGE INTO t USING (SELECT 10 AS v) src ON t.v = src.v WHEN MATCHED THEN UPDATE SET part = 'r'")
    expected = [(1, 3, 3, "q", 5), (10, 20, 30, "r", 40)]
    assert rows("SELECT v, s.b, s.l[0].y, part, `new name` FROM t ORDER BY 1") == expected
    assert rows("SELECT s.b FROM t WHERE s.b > 19 AND part = 'r'") == [(20,)]
    assert rows("SELECT * FROM t VERSION AS OF 1")[0][0] == 1
    assert spark.sql("SELECT * FROM t VERSION AS OF 1").columns == ["id", "s", "p", "v"]
    assert len(rows("SELECT * FROM table_changes('t', 8)")) == 4
    with fails("DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_SCHEMA_CHANGE"):
        rows("SELECT * FROM table_changes('t', 1)")
    for change, condition in (
        ("nosuch TO x", "UNRESOLVED_COLUMN.WITH_SUGGESTION"),
        ("v TO PART", "FIELD_ALREADY_EXISTS"),
        ("s.l.element TO e", "INVALID_FIELD_NAME"),
        ("v TO _change_type", "RESERVED_CDC_COLUMNS_ON_WRITE"),
    ):
        with fails(condition, state=None):
            spark.sql(f"ALTER TABLE t RENAME COLUMN {change}")
    spark.sql("CREATE TABLE plain (a INT) USING delta")
    with fails("DELTA_UNSUPPORTED_RENAME_COLUMN", "ALTER TABLE", "columnMapping.mode"):
        spark.sql("ALTER TABLE plain RENAME COLUMN a TO b")


def test_drop_columns_and_add_them_again(spark, rows, database, fails, tmp_path):
    path = f"delta.`{tmp_path}/t`"
    spark.sql(
        f"""CREATE TABLE {path} (id INT, v INT, s STRUCT<a: INT, b: INT>, p INT, c INT) USING delta
        PARTITIONED BY (p) TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.appendOnly' = 'true',
        'delta.dataSkippingStatsColumns' = 'v')"""
    )
    spark.sql(f"INSERT INTO {path} VALUES (1, 2, named_struct('a', 3, 'b', 4), 5, 6)")
    with fails("DELTA_UNSUPPORTED_DROP_PARTITION_COLUMN", "p"):
        spark.sql(f"ALTER TABLE {path} DROP COLUMN p")
    spark.sql(f"ALTER TABLE {path} DROP COLUMNS (v, s.a)")
    assert history(spark, path, "columns") == ("DROP COLUMNS", ["v", "s.a"])
    assert "delta.dataSkippingStatsColumns" not in spark.sql(f"DESCRIBE DETAIL {path}").first()["properties"]
    spark.sql(f"ALTER TABLE {path} ADD COLUMNS (v INT AFTER id, s.a INT FIRST)")
    assert rows(f"SELECT * FROM {path}") == [(1, None, (None, 4), 5, 6)]
    assert rows(f"SELECT count(*) FROM {path} WHERE v IS NOT NULL") == [(0,)]
    assert rows(f"SELECT v, s.a, s.b FROM {path} VERSION AS OF 1") == [(2, 3, 4)]
    with fails("UNRESOLVED_COLUMN.WITH_SUGGESTION", "`id`", state="42703"):
        spark.sql(f"ALTER TABLE {path} DROP COLUMN ix")
    spark.sql(f"ALTER TABLE {path} DROP COLUMNS IF EXISTS (nosuch, s.nosuch)")
    spark.sql(f"ALTER TABLE {path} DROP COLUMNS IF EXISTS (nosuch, c)")
    assert len(rows(f"DESCRIBE HISTORY {path}")) == 5
    spark.sql(f"ALTER TABLE {path} DROP COLUMN s.a")
    with fails("DELTA_DROP_COLUMN_ON_SINGLE_FIELD_SCHEMA", "s.b", "the struct s"):
        spark.sql(f"ALTER TABLE {path} DROP COLUMN s.b")
    with fails("DELTA_DROP_COLUMN_ON_SINGLE_FIELD_SCHEMA", "the table"):
        spark.sql(f"ALTER TABLE {path} DROP COLUMNS (id, v, s)")
    with fails("DELTA_TIME_TRAVEL_WRITE_NOT_ALLOWED"):
        spark.sql(f"ALTER TABLE delta.`{tmp_path}/t@v1` DROP COLUMN v")
    spark.sql("CREATE TABLE plain (a INT, b INT) USING delta")
    with fails("DELTA_UNSUPPORTED_DROP_COLUMN", "columnMapping.mode"):
        spark.sql("ALTER TABLE plain DROP COLUMN a")
    spark.sql("CREATE VIEW plainly AS SELECT a FROM plain")
    with fails("EXPECT_TABLE_NOT_VIEW.NO_ALTERNATIVE", state="42809"):
        spark.sql("ALTER TABLE plainly DROP COLUMN a")
    with fails("DELTA_MISSING_DELTA_TABLE", state="42P01"):
        spark.sql(f"ALTER TABLE delta.`{tmp_path}/absent` DROP COLUMN a")
    spark.sql(f"CREATE TABLE clustered (a INT, s STRUCT<x: INT, y: INT>) USING delta CLUSTER BY (a, s.x) {MAPPED}")
    spark.sql("ALTER TABLE clustered RENAME COLUMN a TO b")
    for dropped in ("b", "s.x", "s"):
        with fails("DELTA_UNSUPPORTED_DROP_CLUSTERING_COLUMN"):
            spark.sql(f"ALTER TABLE clustered DROP COLUMN {dropped}")
    assert spark.sql("DESCRIBE DETAIL clustered").first()["clusteringColumns"] == ["b", "s.x"]


def test_types_grow_wider(spark, rows, database, fails):
    spark.sql(
        """CREATE TABLE t (b TINYINT, i INT, l ARRAY<INT>, m MAP<SMALLINT, STRUCT<f: FLOAT>>, d DATE, e DECIMAL(5,2),
        v VARCHAR(3), s STRUCT<c: CHAR(2), n: INT>, p DATE) USING delta PARTITIONED BY (p)
        TBLPROPERTIES ('delta.enableTypeWidening' = 'true', 'delta.checkpointInterval' = '2',
        'delta.enableDeletionVectors' = 'true')"""
    )
    spark.sql(
        """INSERT INTO t VALUES (1, 2, array(3), map(4S, named_struct('f', 5.5F)), DATE'2024-01-02', 1.25, 'abc',
        struct('x', 6), DATE'2024-02-03')"""
    )
    spark.sql("ALTER TABLE t SET TBLPROPERTIES ('delta.feature.timestampNtz' = 'supported')")
    spark.sql(
        """ALTER TABLE t ALTER COLUMN b TYPE BIGINT, i TYPE DOUBLE, l.element TYPE BIGINT, m.key TYPE INT,
        m.value.f TYPE DOUBLE, d TYPE TIMESTAMP_NTZ, e TYPE DECIMAL(12,4), v TYPE VARCHAR(5), s.n COMMENT 'n',
        p TYPE TIMESTAMP_NTZ"""
    )
    operation, described = history(spark, "t", "columns")
    assert (operation, described[2]["name"], described[2]["type"], described[7]["metadata"]) == (
        "CHANGE COLUMNS",
        "l.element",
        "long",
        {"__CHAR_VARCHAR_TYPE_STRING": "varchar(5)"},
    )
    spark.sql(
        """INSERT INTO t VALUES (5000000000, 0.5, array(6000000000), map(70000, named_struct('f', 1e300D)),
        TIMESTAMP_NTZ'2024-05-06 07:08:09', 12345.6789, 'abcde', struct('yy', 7), TIMESTAMP_NTZ'2024-05-06 07:08:09')"""
    )
    where = {
        "b": ("b = 1", "b > 1000000"),
        "i": ("i = 2", "i < 1"),
        "d": ("d < TIMESTAMP_NTZ'2024-01-02 00:00:01'", "d > TIMESTAMP_NTZ'2024-05-01 00:00:00'"),
        "e": ("e = 1.25", "e > 1000"),
        "p": ("p = TIMESTAMP_NTZ'2024-02-03 00:00:00'", "p > TIMESTAMP_NTZ'2024-03-01 00:00:00'"),
    }
    for name, (old, new) in where.items():
        assert rows(f"SELECT v FROM t WHERE {old}") == [("abc",)], name
        assert rows(f"SELECT v FROM t WHERE {new}") == [("abcde",)], name
    assert rows("SELECT b, i, l[0], m[4].f, m[70000].f, e FROM t ORDER BY b") == [
        (1, 2.0, 3, 5.5, None, Decimal("1.2500")),
        (5000000000, 0.5, 6000000000, None, 1e300, Decimal("12345.6789")),
    ]
    assert rows("SELECT min(b), max(b), min(d), max(i) FROM t")[0][:2] == (1, 5000000000)
    spark.sql("UPDATE t SET i = i + 1 WHERE b = 1")
    spark.sql("DELETE FROM t WHERE l[0] = 6000000000")
    assert rows("SELECT b, i, s.c FROM t") == [(1, 3.0, "x ")]
    assert spark.sql("SELECT * FROM t VERSION AS OF 1").schema["b"].dataType.simpleString() == "tinyint"
    with fails("DELTA_EXCEED_CHAR_VARCHAR_LIMIT", state="22001"):
        spark.sql("INSERT INTO t (v) VALUES ('abcdef')")
    for change, condition in (
        ("b TYPE INT", "NOT_SUPPORTED_CHANGE_COLUMN"),
        ("v TYPE VARCHAR(4)", "NOT_SUPPORTED_CHANGE_COLUMN"),
        ("b TYPE STRING", "DELTA_UNSUPPORTED_ALTER_TABLE_CHANGE_COL_OP"),
        ("b.element TYPE INT", "INVALID_FIELD_NAME"),
        ("l TYPE ARRAY<DOUBLE>", "CANNOT_UPDATE_FIELD.ARRAY_TYPE"),
    ):
        with fails(condition, state=None):
            spark.sql(f"ALTER TABLE t ALTER COLUMN {change}")
    spark.sql("ALTER TABLE t ALTER COLUMN v TYPE STRING, s.n TYPE BIGINT")
    spark.sql("ALTER TABLE t ADD COLUMN s.z VARCHAR(2) AFTER c")
    spark.sql("INSERT INTO t (v, s) VALUES ('abcdef', struct('yy', 'zz', 5000000000))")
    with fails("DELTA_EXCEED_CHAR_VARCHAR_LIMIT", state="22001"):
        spark.sql("INSERT INTO t (s) SELECT struct('y', 'zzz', 1)")
    spark.sql("CREATE TABLE plain (a INT, c STRING) USING delta")
    with fails("DELTA_UNSUPPORTED_ALTER_TABLE_CHANGE_COL_OP", "enableTypeWidening"):
        spark.sql("ALTER TABLE plain ALTER COLUMN a TYPE BIGINT")
    with fails("NOT_SUPPORTED_CHANGE_COLUMN", state=None):
        spark.sql("ALTER TABLE plain ALTER COLUMN c TYPE VARCHAR(3)")


def test_lengths_within_columns_grow(spark, database, fails):
    spark.sql(
        """CREATE TABLE t (s STRUCT<c: VARCHAR(2), o: CHAR(2), u: STRUCT<d: VARCHAR(1)>>, l ARRAY<VARCHAR(2)>)
        USING delta"""
    )
    spark.sql("ALTER TABLE t ALTER COLUMN S.C TYPE VARCHAR(3), s.u.d TYPE VARCHAR(4), l.element TYPE VARCHAR(5)")
    assert [field.metadata["__CHAR_VARCHAR_TYPE_STRING"] for field in spark.table("t").schema] == [
        "struct<c:varchar(3),o:char(2),u:struct<d:varchar(4)>>",
        "array<varchar(5)>",
    ]
    spark.sql("INSERT INTO t VALUES (struct('abc', 'o', struct('abcd')), array('abcde'))")
    with fails("NOT_SUPPORTED_CHANGE_COLUMN", state=None):
        spark.sql("ALTER TABLE t ALTER COLUMN s.c TYPE VARCHAR(2)")


def test_not_null_defaults_and_places(spark, rows, database, fails):
    spark.sql(
        """CREATE TABLE t (a INT, b STRING, s STRUCT<x: INT, y: INT NOT NULL>, l ARRAY<STRUCT<q: INT, r: INT>>)
        USING delta"""
    )
    spark.sql(
        """INSERT INTO t VALUES (1, 'one', named_struct('x', NULL, 'y', 2), NULL),
        (2, NULL, named_struct('x', 1, 'y', 2), NULL)"""
    )
    with fails("DELTA_NEW_NOT_NULL_VIOLATION", "column b", " - a : 2"):
        spark.sql("ALTER TABLE t ALTER COLUMN b SET NOT NULL")
    with fails("DELTA_NEW_NOT_NULL_VIOLATION", "s.x"):
        spark.sql("ALTER TABLE t ALTER COLUMN s.x SET NOT NULL")
    with fails("DELTA_NESTED_NOT_NULL_CONSTRAINT"):
        spark.sql("ALTER TABLE t ALTER COLUMN l.element.q SET NOT NULL")
    with fails("DELTA_UNSUPPORTED_FIELD_UPDATE_NON_STRUCT"):
        spark.sql("ALTER TABLE t ALTER COLUMN l.element SET NOT NULL")
    spark.sql("ALTER TABLE t ALTER COLUMN a SET NOT NULL, b COMMENT 'text', s AFTER a, l.element.r FIRST")
    operation, described = history(spark, "t", "columns")
    assert (operation, described[0]["nullable"], described[2]["position"]) == ("CHANGE COLUMNS", False, "AFTER a")
    spark.sql("ALTER TABLE t ALTER COLUMN s.y DROP NOT NULL")
    assert columns(spark, "t") == "a:int,s:struct<x:int,y:int>,b:string,l:array<struct<r:int,q:int>>"
    with fails("DELTA_INSERT_COLUMN_MISMATCH", "a"):
        spark.sql("INSERT INTO t (b) VALUES ('x')")
    spark.sql("ALTER TABLE t ALTER COLUMN a SET NOT NULL")
    spark.sql("ALTER TABLE t ALTER COLUMN a DROP NOT NULL")
    spark.sql("INSERT INTO t VALUES (NULL, NULL, 'x', array(named_struct('r', 1, 'q', 2)))")
    assert rows("SELECT l[0].q, s FROM t WHERE b = 'x'") == [(2, None)]
    spark.sql("ALTER TABLE t CHANGE COLUMN a A INT COMMENT 'hive' AFTER b")
    assert history(spark, "t", "position")[1] == "AFTER b"
    assert rows("SELECT a FROM t WHERE a IS NOT NULL ORDER BY a") == [(1,), (2,)]
    for change, condition in (
        ("a AFTER nosuch", "UNRESOLVED_COLUMN.WITH_SUGGESTION"),
        ("a.element FIRST", "INVALID_FIELD_NAME"),
        ("a SET DEFAULT 5", "WRONG_COLUMN_DEFAULTS_FOR_DELTA_FEATURE_NOT_ENABLED"),
        ("a TYPE BIGINT, a FIRST", "NOT_SUPPORTED_CHANGE_SAME_COLUMN"),
    ):
        with fails(condition, state=None):
            spark.sql(f"ALTER TABLE t ALTER COLUMN {change}")
    with fails("WRONG_COLUMN_DEFAULTS_FOR_DELTA_ALTER_TABLE_ADD_COLUMN_NOT_SUPPORTED", "SET DEFAULT 1 + 2"):
        spark.sql("ALTER TABLE t ADD COLUMN z INT DEFAULT 1 + 2")
    spark.sql("ALTER TABLE t SET TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')")
    spark.sql("ALTER TABLE t ALTER COLUMN a SET DEFAULT 40 + 2, b SET DEFAULT current_user()")
    spark.sql("INSERT INTO t (s) VALUES (named_struct('x', 7, 'y', 8))")
    assert rows("SELECT a, b IS NOT NULL FROM t WHERE s.x = 7") == [(42, True)]
    assert rows("SELECT count(*) FROM t WHERE a = 42") == [(1,)]
    with fails("INVALID_DEFAULT_VALUE.DATA_TYPE", state=None):
        spark.sql("ALTER TABLE t ALTER COLUMN a SET DEFAULT 'text'")
    with fails("DELTA_OPERATION_NOT_ALLOWED", "s.x"):
        spark.sql("ALTER TABLE t ALTER COLUMN s.x SET DEFAULT 1")
    spark.sql("ALTER TABLE t ALTER COLUMN a DROP DEFAULT")
    spark.sql("INSERT INTO t (s) VALUES (named_struct('x', 9, 'y', 8))")
    assert rows("SELECT a FROM t WHERE s.x = 9") == [(None,)]


def test_what_depends_on_a_column_is_named(spark, rows, database, fails):
    spark.sql(
        """CREATE TABLE t (a INT, b INT, s STRUCT<x: INT, y: INT>, g INT GENERATED ALWAYS AS (a * 2),
        h INT GENERATED ALWAYS AS (s.x), i BIGINT GENERATED ALWAYS AS IDENTITY,
        CONSTRAINT few CHECK (b < 9 AND s.y > 0)) USING delta
        TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.enableTypeWidening' = 'true')"""
    )
    spark.sql("INSERT INTO t (a, b, s) VALUES (1, 2, named_struct('x', 3, 'y', 4))")
    constraint, generated = (
        "DELTA_CONSTRAINT_DEPENDENT_COLUMN_CHANGE",
        "DELTA_GENERATED_COLUMNS_DEPENDENT_COLUMN_CHANGE",
    )
    for change, condition, named in (
        ("RENAME COLUMN b TO c", constraint, "few"),
        ("DROP COLUMN b", constraint, "few"),
        ("ALTER COLUMN b TYPE BIGINT", constraint, "few"),
        ("RENAME COLUMN s.y TO z", constraint, "few"),
        ("RENAME COLUMN a TO c", generated, "g: "),
        ("DROP COLUMN s.x", generated, "h: "),
        ("ALTER COLUMN s.x TYPE BIGINT", generated, "h: "),
        ("ALTER COLUMN g TYPE BIGINT", "DELTA_OPERATION_NOT_ALLOWED", "g"),
        ("ALTER COLUMN i TYPE DECIMAL(20,0)", "DELTA_IDENTITY_COLUMNS_ALTER_COLUMN_NOT_SUPPORTED", "i"),
    ):
        with fails(condition, named):
            spark.sql(f"ALTER TABLE t {change}")
    spark.sql("ALTER TABLE t DROP COLUMNS (a, g)")
    spark.sql("ALTER TABLE t RENAME COLUMN i TO n")
    spark.sql("ALTER TABLE t ALTER COLUMN b SET NOT NULL")
    spark.sql("INSERT INTO t (b, s) VALUES (5, named_struct('x', 6, 'y', 7))")
    with fails("DELTA_VIOLATE_CONSTRAINT_WITH_VALUES", "few"):
        spark.sql("INSERT INTO t (b, s) VALUES (9, named_struct('x', 6, 'y', 7))")
    assert rows("SELECT b, s.x, h, n FROM t ORDER BY b") == [(2, 3, 3, 1), (5, 6, 6, 2)]


def test_replace_columns(spark, rows, database, fails):
    spark.sql(f"CREATE TABLE t (a INT COMMENT 'kept', b STRING, s STRUCT<x: INT, y: INT>) USING delta {MAPPED}")
    spark.sql("INSERT INTO t VALUES (1, 'b', named_struct('x', 2, 'y', 3))")
    spark.sql("ALTER TABLE t REPLACE COLUMNS (s STRUCT<y: INT, z: STRING>, A INT, new DATE COMMENT 'n')")
    operation, described = history(spark, "t", "columns")
    assert (operation, [c["name"] for c in described]) == ("REPLACE COLUMNS", ["s", "a", "new"])
    assert rows("SELECT * FROM t") == [((3, None), 1, None)]
    with fails("DELTA_UNSUPPORTED_ALTER_TABLE_REPLACE_COL_OP", "a"):
        spark.sql("ALTER TABLE t REPLACE COLUMNS (a STRING)")
    spark.sql("CREATE TABLE plain (a INT, b INT) USING delta")
    spark.sql("INSERT INTO plain VALUES (1, 2)")
    with fails("DELTA_UNSUPPORTED_ALTER_TABLE_REPLACE_COL_OP", "b"):
        spark.sql("ALTER TABLE plain REPLACE COLUMNS (a INT)")
    spark.sql("ALTER TABLE plain REPLACE COLUMNS (b INT COMMENT 'b', c INT, a INT)")
    assert rows("SELECT * FROM plain") == [(2, None, 1)]


def test_the_ways_to_name_a_table_and_columns(spark, rows, database):
    spark.sql(f"CREATE TABLE t (a INT, b INT) USING delta {MAPPED}")
    spark.sql("ALTER TABLE IDENTIFIER(:t) RENAME COLUMN a TO c", args={"t": "t"})
    spark.sql("BEGIN ALTER TABLE t ALTER COLUMN c COMMENT 'in a script'; ALTER TABLE t DROP COLUMN b; END")
    assert columns(spark, "t") == "c:int"
    assert spark.table("t").schema["c"].metadata["comment"] == "in a script"


def test_a_script_has_statements_that_spark_does_not_know(spark, rows, database, fails):
    spark.sql("CREATE TABLE t (id BIGINT GENERATED BY DEFAULT AS IDENTITY, s STRING) USING delta")
    script = """BEGIN
      DECLARE n INT DEFAULT 1;
      INSERT INTO t VALUES (40, ':n; ALTER TABLE t ALTER COLUMN id SYNC IDENTITY;');
      IF n = 1 THEN
        ALTER TABLE t ALTER COLUMN id SYNC IDENTITY;
      END IF;
      INSERT INTO t (s) VALUES (:s);
      ALTER TABLE t SET TBLPROPERTIES ('delta.feature.vacuumProtocolCheck' = 'supported');
      ALTER TABLE t DROP FEATURE 'vacuumProtocolCheck';
    END"""
    spark.sql(script, args={"s": "second"})
    assert rows("SELECT * FROM t ORDER BY id") == [
        (40, ":n; ALTER TABLE t ALTER COLUMN id SYNC IDENTITY;"),
        (41, "second"),
    ]
    assert history(spark, "t") == ("DROP FEATURE",)
    with fails("PARSE_SYNTAX_ERROR", state="42601"):
        spark.sql("BEGIN ALTER TABLE t ALTER COLUMN id SYNC IDENTITY; ALTER TABLE t NO SUCH; END")
