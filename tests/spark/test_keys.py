"""PRIMARY KEY and FOREIGN KEY: declared, shown, followed through changes, dropped."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException


@pytest.fixture
def tables(spark, database):
    spark.sql(
        "CREATE TABLE p (a INT, b STRING, c INT, CONSTRAINT pk PRIMARY KEY (a, b) RELY) USING delta "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    )
    spark.sql(
        "CREATE TABLE f (id BIGINT PRIMARY KEY, x INT, y STRING, up BIGINT CONSTRAINT self REFERENCES f(id), "
        "CONSTRAINT fk FOREIGN KEY (y, x) REFERENCES p (b, a) NOT ENFORCED) USING delta "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    )


def _described(spark, table):
    found = [tuple(row)[:2] for row in spark.sql(f"DESCRIBE TABLE EXTENDED {table}").collect()]
    names = [name for name, _ in found]
    if "# Constraints" not in names:
        return []
    return [row for row in found[names.index("# Constraints") + 1 :] if row[0]]


def _created(spark, table):
    return spark.sql(f"SHOW CREATE TABLE {table}").first()[0]


def test_keys_are_shown_and_their_text_runs(spark, rows, database, tables):
    here = f"spark_catalog.{database}"
    assert _described(spark, "p") == [("pk", "PRIMARY KEY (a, b) NOT ENFORCED RELY")]
    assert _described(spark, "f") == [
        ("f_pk", "PRIMARY KEY (id) NOT ENFORCED NORELY"),
        ("fk", f"FOREIGN KEY (y, x) REFERENCES {here}.p (b, a) NOT ENFORCED NORELY"),
        ("self", f"FOREIGN KEY (up) REFERENCES {here}.f (id) NOT ENFORCED NORELY"),
    ]
    text = _created(spark, "f")
    assert f"CONSTRAINT fk FOREIGN KEY (y, x) REFERENCES {here}.p (b, a) NOT ENFORCED" in text
    spark.sql("DROP TABLE f")
    spark.sql(text)
    assert _created(spark, "f") == text
    assert [row[5]["properties"].count("headwater.key") for row in rows("DESCRIBE HISTORY f")] == [3]


def test_keys_are_not_enforced_but_not_null_is(spark, rows, tables, fails):
    spark.sql("INSERT INTO p VALUES (1, 'x', 1), (1, 'x', 2)")
    spark.sql("INSERT INTO f VALUES (1, 7, 'nowhere', 9), (1, NULL, NULL, NULL)")
    assert len(rows("SELECT * FROM f JOIN f AS g USING (id)")) == 4
    with fails("DELTA_NOT_NULL_CONSTRAINT_VIOLATED", "b"):
        spark.sql("INSERT INTO p VALUES (1, NULL, 1)")


def test_a_primary_key_that_is_referenced_stays(spark, database, tables, fails):
    drop = f"ALTER TABLE spark_catalog.{database}.f DROP CONSTRAINT fk"
    for change in ("DROP CONSTRAINT pk", "DROP PRIMARY KEY CASCADE", "RENAME COLUMN a TO a2"):
        with fails("HEADWATER_KEY_IS_REFERENCED", drop):
            spark.sql(f"ALTER TABLE p {change}")
    spark.sql(drop)
    spark.sql("ALTER TABLE p RENAME COLUMN a TO a2")
    assert _described(spark, "p") == [("pk", "PRIMARY KEY (a2, b) NOT ENFORCED RELY")]
    spark.sql("ALTER TABLE p DROP PRIMARY KEY")
    spark.sql("ALTER TABLE p DROP COLUMN b")
    with fails("HEADWATER_KEY_IS_REFERENCED", "DROP CONSTRAINT self"):
        spark.sql("ALTER TABLE f DROP CONSTRAINT f_pk RESTRICT")
    spark.sql("ALTER TABLE f DROP CONSTRAINT f_pk CASCADE")
    assert _described(spark, "f") == []
    with fails("DELTA_CONSTRAINT_DOES_NOT_EXIST", "FOREIGN KEY (up)"):
        spark.sql("ALTER TABLE f DROP FOREIGN KEY (up)")
    spark.sql("ALTER TABLE f DROP FOREIGN KEY IF EXISTS (up)")


def test_keys_follow_changes_of_the_table(spark, database, tables, fails):
    with fails("DELTA_CONSTRAINT_DEPENDENT_COLUMN_CHANGE", "fk: FOREIGN KEY (y, x)"):
        spark.sql("ALTER TABLE f DROP COLUMN x")
    with fails("DELTA_CONSTRAINT_DEPENDENT_COLUMN_CHANGE", "f_pk"):
        spark.sql("ALTER TABLE f ALTER COLUMN id DROP NOT NULL")
    spark.sql("ALTER TABLE f RENAME COLUMN x TO z")
    spark.sql("INSERT INTO f SELECT id, 1, 'a', id FROM range(3)")
    wanted = [line for line in _created(spark, "f").split("\n") if "KEY" in line]
    assert "(y, z)" in wanted[1]

    def has_all(table):
        return [line for line in _created(spark, table).split("\n") if "KEY" in line] == wanted

    spark.sql("CREATE TABLE copy SHALLOW CLONE f")
    spark.sql("CREATE TABLE other LIKE f")
    spark.sql("ALTER TABLE f SET TBLPROPERTIES ('delta.columnMapping.mode' = 'none')")
    assert has_all("copy")
    assert has_all("other")
    assert has_all("f")
    rows = spark.table("f").drop("z")
    with fails("DELTA_CONSTRAINT_DEPENDENT_COLUMN_CHANGE", "fk"):
        rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true").saveAsTable("f")
    wider = spark.table("f").selectExpr("up", "id", "y", "z", "'new' AS n")
    wider.write.format("delta").mode("overwrite").option("overwriteSchema", "true").saveAsTable("f")
    assert has_all("f")
    with fails("DELTA_NOT_NULL_CONSTRAINT_VIOLATED", "id"):
        spark.sql("INSERT INTO f (id) VALUES (NULL)")
    spark.sql("RESTORE f TO VERSION AS OF 0")
    assert "(y, x)" in _created(spark, "f")
    spark.sql("CREATE OR REPLACE TABLE f (id INT) USING delta")
    assert "KEY" not in _created(spark, "f")


def test_keys_are_added_by_path_and_in_a_transaction(spark, tmp_path, fails):
    p, f = (f"delta.`{tmp_path}/{name}`" for name in "pf")
    spark.sql(f"CREATE TABLE {p} (a INT NOT NULL) USING delta")
    spark.sql(f"CREATE TABLE {f} (x INT) USING delta")
    with fails("HEADWATER_INVALID_KEY", "no primary key"):
        spark.sql(f"ALTER TABLE {f} ADD FOREIGN KEY (x) REFERENCES {p}")
    spark.sql(f"ALTER TABLE {p} ADD PRIMARY KEY (a)")
    spark.sql(f"ALTER TABLE {f} ADD CONSTRAINT k FOREIGN KEY (x) REFERENCES {p} RELY")
    assert f"FOREIGN KEY (x) REFERENCES spark_catalog.delta.`{tmp_path}/p` (a) NOT ENFORCED RELY" in _created(spark, f)
    spark.sql(f"BEGIN ATOMIC ALTER TABLE {f} DROP FOREIGN KEY (x); INSERT INTO {f} VALUES (1); END")
    assert "KEY" not in _created(spark, f)


_REFUSED = (
    ("ALTER TABLE f ADD PRIMARY KEY (up)", "HEADWATER_INVALID_KEY", "has the primary key f_pk (id)"),
    ("ALTER TABLE g ADD PRIMARY KEY (n)", "HEADWATER_INVALID_KEY", "ALTER COLUMN n SET NOT NULL"),
    ("ALTER TABLE g ADD PRIMARY KEY (nope)", "DELTA_COLUMN_NOT_FOUND_IN_SCHEMA", "nope"),
    ("ALTER TABLE f ADD CONSTRAINT FK CHECK (x > 0)", "DELTA_CONSTRAINT_ALREADY_EXISTS", "FOREIGN KEY (y, x)"),
    ("ALTER TABLE f ADD CONSTRAINT FK FOREIGN KEY (up) REFERENCES f", "DELTA_CONSTRAINT_ALREADY_EXISTS", "FK"),
    ("ALTER TABLE g ADD FOREIGN KEY (n) REFERENCES p", "HEADWATER_INVALID_KEY", "has 2: a, b"),
    ("ALTER TABLE g ADD FOREIGN KEY (n) REFERENCES p (c)", "HEADWATER_INVALID_KEY", "p: a, b"),
    ("ALTER TABLE g ADD FOREIGN KEY (s) REFERENCES f", "HEADWATER_INVALID_KEY", "STRING, but id"),
    ("ALTER TABLE g ADD FOREIGN KEY (n) REFERENCES nowhere", "HEADWATER_INVALID_KEY", "Create it first"),
    ("ALTER TABLE g ADD FOREIGN KEY (n) REFERENCES v", "HEADWATER_INVALID_KEY", "There is no Delta table"),
    ("ALTER TABLE g ADD CONSTRAINT u UNIQUE (n)", "DELTA_UNSUPPORTED_CONSTRAINT", "UNIQUE (n)"),
    ("ALTER TABLE g ADD FOREIGN KEY (n) REFERENCES f ENFORCED", "HEADWATER_KEY_ENFORCED", "NOT ENFORCED"),
    ("CREATE TABLE h (n INT UNIQUE ENFORCED) USING delta", "HEADWATER_KEY_ENFORCED", "NOT ENFORCED"),
    ("CREATE TABLE h (n INT, PRIMARY KEY (m)) USING delta", "DELTA_COLUMN_NOT_FOUND_IN_SCHEMA", "m"),
    ("CREATE TABLE h (n INT, PRIMARY KEY (n, N)) USING delta", "HEADWATER_INVALID_KEY", "twice"),
    (
        "ALTER TABLE g SET TBLPROPERTIES ('headwater.key.k' = '{}')",
        "DELTA_CANNOT_MODIFY_TABLE_PROPERTY",
        "headwater.key.k",
    ),
)


def test_keys_that_are_refused(spark, rows, tables, fails):
    spark.sql("CREATE TABLE g (n INT, s STRING) USING delta")
    spark.sql("CREATE VIEW v AS SELECT * FROM p")
    for statement, condition, words in _REFUSED:
        with fails(condition, words):
            spark.sql(statement)
    assert len(rows("DESCRIBE HISTORY g")) == 1
    assert not spark.catalog.tableExists("h")


def test_two_primary_keys_of_one_statement_are_refused(spark, database):
    with pytest.raises(PySparkException, match="MULTIPLE_PRIMARY_KEYS"):
        spark.sql("CREATE TABLE t (a INT PRIMARY KEY, b INT PRIMARY KEY) USING delta")
