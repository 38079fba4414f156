"""The statements of key indexes through Spark: their forms, answers and errors, and the property by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.transaction import wait_for_maintenance
from support.denying import not_to_be_written

pytestmark = pytest.mark.spark

BUILT = ["index", "files", "rows", "bytes"]
SHOWN = ["index", "columns", "coveredFiles", "files", "segments", "bytes", "problem"]


@pytest.fixture
def path(spark, tmp_path, database):
    """A table ``t`` of four files."""
    path = tmp_path / "a t"
    spark.sql(
        "CREATE TABLE t (id BIGINT, email STRING, `a b` INT, d DOUBLE, v VARCHAR(9), l STRING COLLATE UTF8_LCASE, "
        f"p INT, s STRUCT<x: INT>) USING delta PARTITIONED BY (p) LOCATION '{path}' "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    )
    spark.sql(
        "INSERT INTO t SELECT id, 'k' || id, CAST(id AS INT), id, 'v', 'l', 1, named_struct('x', 1) "
        "FROM range(0, 40, 1, 2)"
    )
    spark.sql("INSERT INTO t SELECT id, 'k' || id, CAST(id AS INT), id, 'v', 'l', 1, NULL FROM range(40, 80, 1, 2)")
    return path


def files_of(path: Path, name: str) -> list[Path]:
    return [each for each in (path / "_headwater/index" / name).glob("*") if each.is_file()]


def test_an_index_from_its_statement_to_its_end(spark, rows, path, fails):
    made = spark.sql("CREATE INDEX By_Email ON t (email)")
    assert made.columns == BUILT
    ((name, files, count, size),) = made.collect()
    assert (name, files, count) == ("by_email", 4, 80)
    assert size > 0
    last = spark.sql("DESCRIBE HISTORY t LIMIT 1").first()
    assert (last.version, last.operation) == (3, "CREATE INDEX")
    assert last.operationParameters == {"name": "by_email", "columns": '["email"]'}
    assert rows("SELECT id FROM t WHERE email = 'k77'") == [(77,)]
    with fails("HEADWATER_INDEX_ALREADY_EXISTS", "REFRESH INDEX by_email ON `spark_catalog`."):
        spark.sql("CREATE INDEX BY_EMAIL ON t (id)")
    assert rows("CREATE INDEX IF NOT EXISTS by_email ON t (email)") == [("by_email", 0, 0, 0)]
    # By its path, in both forms; by an expression; with names that need quotes.
    assert rows(f"CREATE INDEX `2nd-one` ON TABLE delta.`{path}` (`a b`, ID)")[0][:3] == ("2nd-one", 4, 80)
    assert rows(f"CREATE INDEX IF NOT EXISTS third ON '{path}' (id)")[0][:3] == ("third", 4, 80)
    by_marker = spark.sql("CREATE INDEX fourth ON IDENTIFIER(:t) (id, email)", args={"t": "t"})
    assert by_marker.collect()[0][:3] == ("fourth", 4, 80)
    shown = spark.sql("SHOW INDEXES ON t")
    assert shown.columns == SHOWN
    found = {row["index"]: row for row in shown.collect()}
    assert list(found) == ["2nd-one", "by_email", "fourth", "third"]
    assert found["2nd-one"]["columns"] == "`a b`, id"
    assert tuple(found["by_email"])[1:5] == ("email", 4, 4, 1)
    assert found["by_email"].problem is None
    for text in (f"delta.`{path}`", f"'{path}'", "IDENTIFIER('t')", "TABLE t"):
        assert len(rows(f"SHOW INDEXES IN {text}")) == 4
    with fails("HEADWATER_INDEX_NOT_FOUND", "Did you mean by_email?", "SHOW INDEXES"):
        spark.sql("DROP INDEX by_mail ON t")
    with fails("HEADWATER_INDEX_NOT_FOUND", "Did you mean by_email?"):
        spark.sql("REFRESH INDEX by_emial ON t")
    assert rows("DROP INDEX IF EXISTS by_mail ON t") == []
    assert files_of(path, "by_email")
    assert rows("DROP INDEX By_Email ON t") == []
    assert not files_of(path, "by_email")
    assert spark.sql("DESCRIBE HISTORY t LIMIT 1").first().operation == "DROP INDEX"
    rows(f"DROP INDEX third ON '{path}'")
    assert len(rows("SHOW INDEXES ON t")) == 2
    assert rows("SELECT count(*) FROM t") == [(80,)]


def test_what_is_missing_is_built(spark, rows, path):
    spark.sql("ALTER TABLE t SET TBLPROPERTIES ('headwater.index.By_Id.Columns' = 'id')")
    assert rows("SHOW INDEXES FROM t") == [("by_id", "id", 0, 4, 0, 0, None)]
    (found,) = spark.sql("DESCRIBE HEALTH t").where("section = 'findings' AND name = 'indexes'").collect()
    assert "The index by_id lacks 4 of 4 files" in found.value
    assert "REFRESH INDEX ON `spark_catalog`" in found.value
    assert rows("REFRESH INDEX by_id ON t")[0][:3] == ("by_id", 4, 80)
    assert not any("REFRESH INDEX" in str(row) for row in rows("DESCRIBE HEALTH t"))
    spark.sql("ALTER TABLE t SET TBLPROPERTIES ('headwater.index.other.columns' = '`a b`')")
    assert [row[:3] for row in rows("REFRESH INDEX ON t")] == [("by_id", 0, 0), ("other", 4, 80)]
    spark.sql("ALTER TABLE t UNSET TBLPROPERTIES ('HEADWATER.index.other.columns')")
    assert [row[0] for row in rows("SHOW INDEX FROM t")] == ["by_id"]
    # Maintenance builds what is missing.
    spark.sql("ALTER TABLE t SET TBLPROPERTIES ('headwater.index.other.columns' = 'email')")
    done = {row.action: row for row in spark.sql("MAINTAIN TABLE t ONLY (REFRESH INDEX)").collect()}
    assert done["REFRESH INDEX"].outcome == "done"
    assert [row[2:4] for row in rows("SHOW INDEXES FROM t")] == [(4, 4), (4, 4)]
    spark.sql("VACUUM t")
    assert [row[2:4] for row in rows("SHOW INDEXES FROM t")] == [(4, 4), (4, 4)]


def test_what_no_table_can_have(spark, path, fails):
    for columns, words in {
        "p": "partition column",
        "d": "type double",
        "v": "declared length",
        "l": "collation",
        "s": "is of the type",
        "s.x": "field of a struct",
        "id, ID": "twice",
        "id) OPTIONS ('a' = 'b'": "no options",
        "id OPTIONS ('a' = 'b')": "no options",
    }.items():
        with fails("HEADWATER_INVALID_INDEX", words):
            spark.sql(f"CREATE INDEX i ON t ({columns})")
    with fails("HEADWATER_INVALID_INDEX", "no column gone"):
        spark.sql(f"CREATE INDEX i ON '{path}' (gone)")
    with fails("UNRESOLVED_COLUMN.WITH_SUGGESTION", "gone", state="42703"):
        spark.sql("CREATE INDEX i ON t (gone)")
    with fails("HEADWATER_INVALID_INDEX", "USING bloom"):
        spark.sql("CREATE INDEX i ON t USING bloom (id)")
    for name in ("a b", "ä", "x" * 65, "../x", "a.b"):
        with fails("HEADWATER_INVALID_INDEX", "letters, digits"):
            spark.sql(f"CREATE INDEX `{name}` ON t (id)")
    with fails("HEADWATER_INVALID_INDEX", "no column gone"):
        spark.sql("ALTER TABLE t SET TBLPROPERTIES ('headwater.index.i.columns' = 'id, gone')")
    with fails("HEADWATER_INVALID_INDEX", "'headwater.index.<name>.columns'"):
        spark.sql("ALTER TABLE t SET TBLPROPERTIES ('headwater.index.i.column' = 'id')")
    given = ", ".join(f"'headwater.index.i{number}.columns' = 'id'" for number in range(8))
    spark.sql(f"ALTER TABLE t SET TBLPROPERTIES ({given})")
    with fails("HEADWATER_INVALID_INDEX", "at most 8"):
        spark.sql("CREATE INDEX i8 ON t (id)")
    spark.sql("CREATE VIEW v AS SELECT * FROM t")
    spark.sql("CREATE TEMPORARY VIEW w AS SELECT * FROM t")
    for name in ("v", "w"):
        for text in ("CREATE INDEX i ON {} (id)", "DROP INDEX i ON {}", "SHOW INDEXES ON {}", "REFRESH INDEX ON {}"):
            with fails("EXPECT_TABLE_NOT_VIEW.NO_ALTERNATIVE", state="42809"):
                spark.sql(text.format(name))
    spark.sql("DROP VIEW w")
    spark.sql("CREATE TABLE other (id INT) USING parquet")
    with fails("DELTA_ONLY_OPERATION", "SHOW INDEXES"):
        spark.sql("SHOW INDEXES ON other")
    for text in ("CREATE INDEX i ON other (id)", "DROP INDEX i ON other"):
        with pytest.raises(Exception, match="Index is not supported in this table"):
            spark.sql(text)
    spark.sql("BEGIN TRANSACTION")
    try:
        for text in ("CREATE INDEX i ON t (id)", "DROP INDEX i1 ON t", "REFRESH INDEX ON t", "SHOW INDEXES ON t"):
            with fails("HEADWATER_NOT_IN_TRANSACTION", " ".join(text.split()[:2])):
                spark.sql(text)
        with fails("HEADWATER_NOT_IN_TRANSACTION", "headwater.index.i.columns"):
            spark.sql("ALTER TABLE t SET TBLPROPERTIES ('headwater.index.i.columns' = 'id')")
    finally:
        spark.sql("ROLLBACK")


def test_an_index_follows_its_columns(spark, rows, path, fails):
    spark.sql("CREATE INDEX both ON t (email, id)")
    spark.sql("CREATE INDEX one ON t (`a b`)")
    spark.sql("ALTER TABLE t RENAME COLUMN email TO `e mail`")
    assert rows("SHOW INDEXES ON t")[0][:4] == ("both", "`e mail`, id", 4, 4)
    assert rows("SELECT id FROM t WHERE `e mail` = 'k7' AND id = 7") == [(7,)]
    (text,) = rows("SHOW CREATE TABLE t")[0]
    assert "'headwater.index.both.columns' = '`e mail`, id'" in text
    spark.sql("ALTER TABLE t DROP COLUMN `e mail`")
    assert [row[0] for row in rows("SHOW INDEXES ON t")] == ["one"]
    spark.sql("CREATE TABLE c SHALLOW CLONE t")
    assert rows("SHOW INDEXES ON c")[0][:4] == ("one", "`a b`", 0, 4)
    spark.sql("CREATE TABLE l LIKE t")
    assert rows("SHOW INDEXES ON l")[0][:4] == ("one", "`a b`", 0, 0)
    spark.range(3).write.format("delta").mode("overwrite").option("overwriteSchema", "true").saveAsTable("c")
    assert rows("SHOW INDEXES ON c") == []
    spark.sql("CREATE OR REPLACE TABLE c (n INT) USING delta TBLPROPERTIES ('headwater.index.n.columns' = 'n')")
    assert rows("SHOW INDEXES ON c") == [("n", "n", 0, 0, 0, 0, None)]
    with fails("HEADWATER_INVALID_INDEX", "no column m"):
        spark.sql("CREATE OR REPLACE TABLE c (n INT) USING delta TBLPROPERTIES ('headwater.index.n.columns' = 'm')")
    spark.range(3).write.format("delta").option("headwater.index.of_id.columns", "id").saveAsTable("o")
    assert rows("SHOW INDEXES ON o")[0][:2] == ("of_id", "id")
    with fails("HEADWATER_INVALID_INDEX", "no column key"):
        spark.range(3).write.format("delta").option("headwater.index.of_id.columns", "key").saveAsTable("q")


def test_tables_of_other_catalogs_keep_sparks_statements(spark, settings, fails):
    """A catalog of JDBC hands an index to its database; this one has none to offer."""
    derby = "spark.sql.catalog.derby"
    given = {
        derby: "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog",
        f"{derby}.url": "jdbc:derby:memory:indexes;create=true",
        f"{derby}.driver": "org.apache.derby.iapi.jdbc.AutoloadedDriver",
    }
    with settings(given):
        spark.sql("CREATE TABLE derby.APP.t (id INT)")
        for text in (
            "CREATE INDEX i ON derby.APP.t USING btree (id OPTIONS ('a' = 'b'))",
            "DROP INDEX i ON derby.APP.t",
        ):
            with pytest.raises(Exception, match="(create|drop)Index is not supported"):
                spark.sql(text)
        with fails("DELTA_ONLY_OPERATION", "SHOW INDEXES"):
            spark.sql("SHOW INDEXES ON derby.APP.t")
        spark.sql("DROP TABLE derby.APP.t")


def test_without_rights_on_its_folder_an_index_is_not_built_and_all_else_works(spark, rows, path, fails):
    folder = path / "_headwater" / "index"
    folder.mkdir(parents=True, exist_ok=True)
    with not_to_be_written(folder):
        with fails("HEADWATER_INDEX_NOT_BUILT", "by_id", "REFRESH INDEX"):
            spark.sql("CREATE INDEX by_id ON t (id)")
        rows("INSERT INTO t (id, p) VALUES (100, 1)")
        merge = "MERGE INTO t USING (SELECT 7L AS id UNION ALL SELECT 101L) s ON t.id = s.id "
        assert rows(f"{merge} WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, p) VALUES (s.id, 1)") == [
            (2, 0, 1, 1)
        ]
        assert rows("SELECT id FROM t WHERE id IN (7, 100, 101) ORDER BY id") == [(100,), (101,)]
        with fails("HEADWATER_INDEX_NOT_BUILT", "by_id"):
            spark.sql("REFRESH INDEX by_id ON t")
        wait_for_maintenance(60)
    assert rows("REFRESH INDEX by_id ON t")[0][2] == 81
    assert rows("SELECT id FROM t WHERE id IN (7, 100, 101) ORDER BY id") == [(100,), (101,)]
