"""ALTER TABLE's changes of columns: what they give, what they refuse, and what reads and writes do afterwards.

A test is about one kind of change and one thing that follows from it. Statements that are refused leave their table as
it is, so each test of refusals runs them all against one table.
"""

from __future__ import annotations

import json
from decimal import Decimal

import pytest

MAPPED = "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"


def history(spark, table, *names):
    """The newest commit: operation, and the parameters of these names, JSON decoded where it is some."""
    row = spark.sql(f"DESCRIBE HISTORY {table} LIMIT 1").first()
    parameters = row["operationParameters"]
    return (
        row["operation"],
        *(json.loads(parameters[n]) if parameters[n][0] in "[{" else parameters[n] for n in names),
    )


def detail(spark, table, name):
    return spark.sql(f"DESCRIBE DETAIL {table}").first()[name]


def columns(spark, table):
    return spark.table(table).schema.simpleString()[len("struct<") : -1]


@pytest.fixture
def refuses(spark, fails):
    """``refuses("ALTER …", {change: (condition, words…)})``: each change is refused; all that are not are named."""

    def check(statement, changes):
        wrong = {}
        for change, (condition, *words) in changes.items():
            try:
                with fails(condition, *words):
                    spark.sql(f"{statement} {change}")
            except (AssertionError, pytest.fail.Exception) as error:
                wrong[change] = str(error)
        assert not wrong

    return check


# --- RENAME COLUMN ---------------------------------------------------------------------------------------------------


@pytest.fixture
def renamed(spark, database):
    """A table of whose columns all, and fields at both depths, were renamed in versions 2 to 6, and a row of before."""
    spark.sql(
        """CREATE TABLE t (id INT, s STRUCT<a: INT, l: ARRAY<STRUCT<x: INT>>>, p STRING, v INT) USING delta
        PARTITIONED BY (p) TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.enableChangeDataFeed' = 'true',
        'delta.dataSkippingStatsColumns' = 'id, s.a', 'delta.enableDeletionVectors' = 'true')"""
    )
    spark.sql("INSERT INTO t VALUES (1, named_struct('a', 2, 'l', array(named_struct('x', 3))), 'q', 4)")
    renames = ("v TO `new name`", "s.a TO b", "s.l.element.x TO y", "p TO part", "id TO v")
    for rename in renames:
        spark.sql(f"ALTER TABLE t RENAME COLUMN {rename}")


def test_a_renamed_column_is_known_by_its_new_name_alone(spark, rows, database, fails):
    spark.sql(f"CREATE TABLE t (id INT, v INT) USING delta {MAPPED}")
    spark.sql("INSERT INTO t VALUES (1, 4)")
    spark.sql("CREATE VIEW seen AS SELECT id, v FROM t")
    spark.table("t").cache().count()
    spark.sql("ALTER TABLE t RENAME COLUMN v TO `new name`")
    assert history(spark, "t", "oldColumnPath", "newColumnPath") == ("RENAME COLUMN", "v", "`new name`")
    assert rows("SELECT `new name` FROM t") == [(4,)]
    with fails("UNRESOLVED_COLUMN.WITH_SUGGESTION", "v", state="42703"):
        spark.sql("SELECT v FROM t").collect()
    with fails("UNRESOLVED_COLUMN.WITH_SUGGESTION", "v", state="42703"):
        spark.sql("SELECT * FROM seen").collect()


def test_partitions_and_properties_follow_a_rename(spark, rows, renamed):
    assert rows("SHOW PARTITIONS t") == [("part=q",)]
    assert detail(spark, "t", "partitionColumns") == ["part"]
    assert detail(spark, "t", "properties")["delta.dataSkippingStatsColumns"] == "v,s.b"


def test_rows_of_before_and_after_a_rename_are_read_and_changed_together(spark, rows, renamed):
    spark.sql("INSERT INTO t SELECT 10, named_struct('b', 20, 'l', array(named_struct('y', 30))), 'q', 40")
    spark.sql("UPDATE t SET s.b = s.b + 1, `new name` = 5 WHERE v = 1 AND part = 'q'")
    spark.sql("MERGE INTO t USING (SELECT 10 AS v) src ON t.v = src.v WHEN MATCHED THEN UPDATE SET part = 'r'")
    expected = [(1, 3, 3, "q", 5), (10, 20, 30, "r", 40)]
    assert rows("SELECT v, s.b, s.l[0].y, part, `new name` FROM t ORDER BY 1") == expected
    assert rows("SELECT s.b FROM t WHERE s.b > 19 AND part = 'r'") == [(20,)]
    assert len(rows("SELECT * FROM table_changes('t', 8)")) == 4


def test_versions_of_before_a_rename_have_their_old_names(spark, rows, fails, renamed):
    assert rows("SELECT * FROM t VERSION AS OF 1")[0][0] == 1
    assert spark.sql("SELECT * FROM t VERSION AS OF 1").columns == ["id", "s", "p", "v"]
    with fails("DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_SCHEMA_CHANGE"):
        rows("SELECT * FROM table_changes('t', 1)")


def test_renames_that_are_refused(spark, database, refuses):
    spark.sql(
        """CREATE TABLE t (v INT, part STRING, s STRUCT<l: ARRAY<STRUCT<y: INT>>>) USING delta
        TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.enableChangeDataFeed' = 'true')"""
    )
    refuses(
        "ALTER TABLE t RENAME COLUMN",
        {
            "nosuch TO x": ("UNRESOLVED_COLUMN.WITH_SUGGESTION",),
            "v TO PART": ("FIELD_ALREADY_EXISTS",),
            "s.l.element TO e": ("INVALID_FIELD_NAME",),
            "v TO _change_type": ("RESERVED_CDC_COLUMNS_ON_WRITE",),
        },
    )
    spark.sql("CREATE TABLE plain (a INT) USING delta")
    words = ("DELTA_UNSUPPORTED_RENAME_COLUMN", "ALTER TABLE", "columnMapping.mode")
    refuses("ALTER TABLE plain RENAME COLUMN", {"a TO b": words})


# --- DROP COLUMN -----------------------------------------------------------------------------------------------------


@pytest.fixture
def path(spark, tmp_path):
    """An append-only table by path: its columns ``v`` and ``s.a`` are about to be dropped."""
    table = f"delta.`{tmp_path}/t`"
    spark.sql(
        f"""CREATE TABLE {table} (id INT, v INT, s STRUCT<a: INT, b: INT>, p INT, c INT) USING delta
        PARTITIONED BY (p) TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.appendOnly' = 'true',
        'delta.dataSkippingStatsColumns' = 'v')"""
    )
    spark.sql(f"INSERT INTO {table} VALUES (1, 2, named_struct('a', 3, 'b', 4), 5, 6)")
    return table


def test_a_dropped_column_that_is_added_again_is_empty(spark, rows, path):
    spark.sql(f"ALTER TABLE {path} DROP COLUMNS (v, s.a)")
    assert history(spark, path, "columns") == ("DROP COLUMNS", ["v", "s.a"])
    assert "delta.dataSkippingStatsColumns" not in detail(spark, path, "properties")
    spark.sql(f"ALTER TABLE {path} ADD COLUMNS (v INT AFTER id, s.a INT FIRST)")
    assert rows(f"SELECT * FROM {path}") == [(1, None, (None, 4), 5, 6)]
    assert rows(f"SELECT count(*) FROM {path} WHERE v IS NOT NULL") == [(0,)]
    assert rows(f"SELECT v, s.a, s.b FROM {path} VERSION AS OF 1") == [(2, 3, 4)]


def test_dropping_a_column_if_it_exists(spark, rows, path):
    spark.sql(f"ALTER TABLE {path} DROP COLUMNS IF EXISTS (nosuch, s.nosuch)")
    spark.sql(f"ALTER TABLE {path} DROP COLUMNS IF EXISTS (nosuch, c)")
    assert len(rows(f"DESCRIBE HISTORY {path}")) == 3  # the first had nothing to drop


def test_drops_that_are_refused(spark, path, tmp_path, refuses):
    refuses(
        f"ALTER TABLE {path} DROP",
        {
            "COLUMN p": ("DELTA_UNSUPPORTED_DROP_PARTITION_COLUMN", "p"),
            "COLUMN ix": ("UNRESOLVED_COLUMN.WITH_SUGGESTION", "`id`"),
        },
    )
    refuses(f"ALTER TABLE delta.`{tmp_path}/t@v1`", {"DROP COLUMN v": ("DELTA_TIME_TRAVEL_WRITE_NOT_ALLOWED",)})


def test_the_last_field_of_a_struct_cannot_be_dropped(spark, path, refuses):
    spark.sql(f"ALTER TABLE {path} DROP COLUMN s.a")
    refuses(
        f"ALTER TABLE {path} DROP",
        {
            "COLUMN s.b": ("DELTA_DROP_COLUMN_ON_SINGLE_FIELD_SCHEMA", "s.b", "the struct s"),
            "COLUMNS (id, v, s, c)": ("DELTA_DROP_COLUMN_ON_SINGLE_FIELD_SCHEMA", "the table"),
        },
    )


def test_tables_and_views_that_cannot_lose_a_column(spark, database, tmp_path, fails):
    spark.sql("CREATE TABLE plain (a INT, b INT) USING delta")
    with fails("DELTA_UNSUPPORTED_DROP_COLUMN", "columnMapping.mode"):
        spark.sql("ALTER TABLE plain DROP COLUMN a")
    spark.sql("CREATE VIEW plainly AS SELECT a FROM plain")
    with fails("EXPECT_TABLE_NOT_VIEW.NO_ALTERNATIVE", state="42809"):
        spark.sql("ALTER TABLE plainly DROP COLUMN a")
    with fails("DELTA_MISSING_DELTA_TABLE", state="42P01"):
        spark.sql(f"ALTER TABLE delta.`{tmp_path}/absent` DROP COLUMN a")


def test_clustering_columns_are_renamed_but_not_dropped(spark, database, refuses):
    spark.sql(f"CREATE TABLE clustered (a INT, s STRUCT<x: INT, y: INT>) USING delta CLUSTER BY (a, s.x) {MAPPED}")
    spark.sql("ALTER TABLE clustered RENAME COLUMN a TO b")
    refused = ("DELTA_UNSUPPORTED_DROP_CLUSTERING_COLUMN",)
    refuses("ALTER TABLE clustered DROP COLUMN", dict.fromkeys(("b", "s.x", "s"), refused))
    assert detail(spark, "clustered", "clusteringColumns") == ["b", "s.x"]


# --- ALTER COLUMN … TYPE ---------------------------------------------------------------------------------------------


@pytest.fixture
def widened(spark, database):
    """A row of before, changes of type at every depth, and a row that only the wider types can hold."""
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
    changed = history(spark, "t", "columns")
    spark.sql(
        """INSERT INTO t VALUES (5000000000, 0.5, array(6000000000), map(70000, named_struct('f', 1e300D)),
        TIMESTAMP_NTZ'2024-05-06 07:08:09', 12345.6789, 'abcde', struct('yy', 7), TIMESTAMP_NTZ'2024-05-06 07:08:09')"""
    )
    return changed


def test_the_history_says_which_types_were_changed(widened):
    operation, described = widened
    assert (operation, described[2]["name"], described[2]["type"], described[7]["metadata"]) == (
        "CHANGE COLUMNS",
        "l.element",
        "long",
        {"__CHAR_VARCHAR_TYPE_STRING": "varchar(5)"},
    )


def test_rows_of_both_types_are_found(rows, widened):
    """By the filters that skip files, and by what a query reads."""
    where = {
        "b": ("b = 1", "b > 1000000"),
        "i": ("i = 2", "i < 1"),
        "d": ("d < TIMESTAMP_NTZ'2024-01-02 00:00:01'", "d > TIMESTAMP_NTZ'2024-05-01 00:00:00'"),
        "e": ("e = 1.25", "e > 1000"),
        "p": ("p = TIMESTAMP_NTZ'2024-02-03 00:00:00'", "p > TIMESTAMP_NTZ'2024-03-01 00:00:00'"),
    }
    found = {
        name: tuple(rows(f"SELECT v FROM t WHERE {filter}") for filter in filters) for name, filters in where.items()
    }
    assert found == dict.fromkeys(where, ([("abc",)], [("abcde",)]))
    assert rows("SELECT b, i, l[0], m[4].f, m[70000].f, e FROM t ORDER BY b") == [
        (1, 2.0, 3, 5.5, None, Decimal("1.2500")),
        (5000000000, 0.5, 6000000000, None, 1e300, Decimal("12345.6789")),
    ]
    assert rows("SELECT min(b), max(b), min(d), max(i) FROM t")[0][:2] == (1, 5000000000)


def test_rows_of_both_types_are_changed_and_old_versions_keep_theirs(spark, rows, widened):
    spark.sql("UPDATE t SET i = i + 1 WHERE b = 1")
    spark.sql("DELETE FROM t WHERE l[0] = 6000000000")
    assert rows("SELECT b, i, s.c FROM t") == [(1, 3.0, "x ")]
    assert spark.sql("SELECT * FROM t VERSION AS OF 1").schema["b"].dataType.simpleString() == "tinyint"


def test_lengths_grow_until_they_are_gone(spark, fails, widened):
    with fails("DELTA_EXCEED_CHAR_VARCHAR_LIMIT", state="22001"):
        spark.sql("INSERT INTO t (v) VALUES ('abcdef')")
    spark.sql("ALTER TABLE t ALTER COLUMN v TYPE STRING, s.n TYPE BIGINT")
    spark.sql("ALTER TABLE t ADD COLUMN s.z VARCHAR(2) AFTER c")
    spark.sql("INSERT INTO t (v, s) VALUES ('abcdef', struct('yy', 'zz', 5000000000))")
    with fails("DELTA_EXCEED_CHAR_VARCHAR_LIMIT", state="22001"):
        spark.sql("INSERT INTO t (s) SELECT struct('y', 'zzz', 1)")


def test_types_that_cannot_be_changed(spark, database, refuses):
    spark.sql(
        """CREATE TABLE t (b BIGINT, l ARRAY<BIGINT>, v VARCHAR(5)) USING delta
        TBLPROPERTIES ('delta.enableTypeWidening' = 'true')"""
    )
    refuses(
        "ALTER TABLE t ALTER COLUMN",
        {
            "b TYPE INT": ("NOT_SUPPORTED_CHANGE_COLUMN",),
            "v TYPE VARCHAR(4)": ("NOT_SUPPORTED_CHANGE_COLUMN",),
            "b TYPE STRING": ("DELTA_UNSUPPORTED_ALTER_TABLE_CHANGE_COL_OP",),
            "b.element TYPE INT": ("INVALID_FIELD_NAME",),
            "l TYPE ARRAY<DOUBLE>": ("CANNOT_UPDATE_FIELD.ARRAY_TYPE",),
        },
    )
    spark.sql("CREATE TABLE plain (a INT, c STRING) USING delta")
    refuses(
        "ALTER TABLE plain ALTER COLUMN",
        {
            "a TYPE BIGINT": ("DELTA_UNSUPPORTED_ALTER_TABLE_CHANGE_COL_OP", "enableTypeWidening"),
            "c TYPE VARCHAR(3)": ("NOT_SUPPORTED_CHANGE_COLUMN",),
        },
    )


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
    with fails("NOT_SUPPORTED_CHANGE_COLUMN"):
        spark.sql("ALTER TABLE t ALTER COLUMN s.c TYPE VARCHAR(2)")


# --- Places, nullability and defaults --------------------------------------------------------------------------------


@pytest.fixture
def with_nulls(spark, database):
    spark.sql(
        """CREATE TABLE t (a INT, b STRING, s STRUCT<x: INT, y: INT NOT NULL>, l ARRAY<STRUCT<q: INT, r: INT>>)
        USING delta"""
    )
    spark.sql(
        """INSERT INTO t VALUES (1, 'one', named_struct('x', NULL, 'y', 2), NULL),
        (2, NULL, named_struct('x', 1, 'y', 2), NULL)"""
    )


def test_not_null_is_refused_where_there_are_nulls_or_none_can_be_checked(with_nulls, refuses):
    refuses(
        "ALTER TABLE t ALTER COLUMN",
        {
            "b SET NOT NULL": ("DELTA_NEW_NOT_NULL_VIOLATION", "column b", " - a : 2"),
            "s.x SET NOT NULL": ("DELTA_NEW_NOT_NULL_VIOLATION", "s.x"),
            "l.element.q SET NOT NULL": ("DELTA_NESTED_NOT_NULL_CONSTRAINT",),
            "l.element SET NOT NULL": ("DELTA_UNSUPPORTED_FIELD_UPDATE_NON_STRUCT",),
        },
    )


def test_not_null_holds_until_it_is_dropped(spark, rows, with_nulls, fails):
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


def test_the_statement_that_hive_has_for_a_column(spark, rows, with_nulls):
    spark.sql("ALTER TABLE t CHANGE COLUMN a A INT COMMENT 'hive' AFTER b")
    assert history(spark, "t", "position")[1] == "AFTER b"
    assert rows("SELECT a FROM t WHERE a IS NOT NULL ORDER BY a") == [(1,), (2,)]


def test_places_and_defaults_that_are_refused(spark, with_nulls, fails, refuses):
    refuses(
        "ALTER TABLE t ALTER COLUMN",
        {
            "a AFTER nosuch": ("UNRESOLVED_COLUMN.WITH_SUGGESTION",),
            "a.element FIRST": ("INVALID_FIELD_NAME",),
            "a SET DEFAULT 5": ("WRONG_COLUMN_DEFAULTS_FOR_DELTA_FEATURE_NOT_ENABLED",),
            "a TYPE BIGINT, a FIRST": ("NOT_SUPPORTED_CHANGE_SAME_COLUMN",),
        },
    )
    with fails("WRONG_COLUMN_DEFAULTS_FOR_DELTA_ALTER_TABLE_ADD_COLUMN_NOT_SUPPORTED", "SET DEFAULT 1 + 2"):
        spark.sql("ALTER TABLE t ADD COLUMN z INT DEFAULT 1 + 2")


def test_defaults_hold_for_rows_to_come_until_they_are_dropped(spark, rows, with_nulls, refuses):
    spark.sql("ALTER TABLE t SET TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')")
    spark.sql("ALTER TABLE t ALTER COLUMN a SET DEFAULT 40 + 2, b SET DEFAULT current_user()")
    spark.sql("INSERT INTO t (s) VALUES (named_struct('x', 7, 'y', 8))")
    assert rows("SELECT a, b IS NOT NULL FROM t WHERE s.x = 7") == [(42, True)]
    assert rows("SELECT count(*) FROM t WHERE a = 42") == [(1,)]
    refuses(
        "ALTER TABLE t ALTER COLUMN",
        {
            "a SET DEFAULT 'text'": ("INVALID_DEFAULT_VALUE.DATA_TYPE",),
            "s.x SET DEFAULT 1": ("DELTA_OPERATION_NOT_ALLOWED", "s.x"),
        },
    )
    spark.sql("ALTER TABLE t ALTER COLUMN a DROP DEFAULT")
    spark.sql("INSERT INTO t (s) VALUES (named_struct('x', 9, 'y', 8))")
    assert rows("SELECT a FROM t WHERE s.x = 9") == [(None,)]


# --- What depends on a column ----------------------------------------------------------------------------------------


@pytest.fixture
def dependent(spark, database):
    """A table with a constraint, generated columns and an identity column over columns and fields."""
    spark.sql(
        """CREATE TABLE t (a INT, b INT, s STRUCT<x: INT, y: INT>, g INT GENERATED ALWAYS AS (a * 2),
        h INT GENERATED ALWAYS AS (s.x), i BIGINT GENERATED ALWAYS AS IDENTITY,
        CONSTRAINT few CHECK (b < 9 AND s.y > 0)) USING delta
        TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.enableTypeWidening' = 'true')"""
    )


def test_what_depends_on_a_column_is_named(dependent, refuses):
    constraint = ("DELTA_CONSTRAINT_DEPENDENT_COLUMN_CHANGE", "few")
    generated = "DELTA_GENERATED_COLUMNS_DEPENDENT_COLUMN_CHANGE"
    refuses(
        "ALTER TABLE t",
        {
            "RENAME COLUMN b TO c": constraint,
            "DROP COLUMN b": constraint,
            "ALTER COLUMN b TYPE BIGINT": constraint,
            "RENAME COLUMN s.y TO z": constraint,
            "RENAME COLUMN a TO c": (generated, "g: "),
            "DROP COLUMN s.x": (generated, "h: "),
            "ALTER COLUMN s.x TYPE BIGINT": (generated, "h: "),
            "ALTER COLUMN g TYPE BIGINT": ("DELTA_OPERATION_NOT_ALLOWED", "g"),
            "ALTER COLUMN i TYPE DECIMAL(20,0)": ("DELTA_IDENTITY_COLUMNS_ALTER_COLUMN_NOT_SUPPORTED", "i"),
        },
    )


def test_a_column_goes_together_with_what_depends_on_it(spark, rows, dependent, fails):
    spark.sql("INSERT INTO t (a, b, s) VALUES (1, 2, named_struct('x', 3, 'y', 4))")
    spark.sql("ALTER TABLE t DROP COLUMNS (a, g)")
    spark.sql("ALTER TABLE t RENAME COLUMN i TO n")
    spark.sql("ALTER TABLE t ALTER COLUMN b SET NOT NULL")
    spark.sql("INSERT INTO t (b, s) VALUES (5, named_struct('x', 6, 'y', 7))")
    with fails("DELTA_VIOLATE_CONSTRAINT_WITH_VALUES", "few"):
        spark.sql("INSERT INTO t (b, s) VALUES (9, named_struct('x', 6, 'y', 7))")
    assert rows("SELECT b, s.x, h, n FROM t ORDER BY b") == [(2, 3, 3, 1), (5, 6, 6, 2)]


# --- REPLACE COLUMNS, names and scripts ------------------------------------------------------------------------------


def test_replace_columns_with_mapping(spark, rows, database, fails):
    spark.sql(f"CREATE TABLE t (a INT COMMENT 'kept', b STRING, s STRUCT<x: INT, y: INT>) USING delta {MAPPED}")
    spark.sql("INSERT INTO t VALUES (1, 'b', named_struct('x', 2, 'y', 3))")
    spark.sql("ALTER TABLE t REPLACE COLUMNS (s STRUCT<y: INT, z: STRING>, A INT, new DATE COMMENT 'n')")
    operation, described = history(spark, "t", "columns")
    assert (operation, [c["name"] for c in described]) == ("REPLACE COLUMNS", ["s", "a", "new"])
    assert rows("SELECT * FROM t") == [((3, None), 1, None)]
    with fails("DELTA_UNSUPPORTED_ALTER_TABLE_REPLACE_COL_OP", "a"):
        spark.sql("ALTER TABLE t REPLACE COLUMNS (a STRING)")


def test_replace_columns_without_mapping(spark, rows, database, fails):
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
