"""DELETE, UPDATE and MERGE through temporary views of all rows of a table, or refused. Paths with variables."""

from __future__ import annotations

import pytest

#: What a view selects, and how it names the columns id, v and s of its table; None where it has no such column.
CHANGED = {
    "*": ("id", "v", "s"),
    "id, v": ("id", "v", None),
    "v AS id, id AS v, s": ("v", "id", "s"),
    "id AS k, v AS w, s AS t": ("k", "w", "t"),
    "id, v + 1 AS w, s, v": ("id", "v", "s"),
}
REFUSED = {
    "SELECT * FROM base WHERE id < 5": "DELTA_UNEXPECTED_PARTIAL_SCAN",
    "SELECT base.id, base.v FROM base JOIN base b ON base.id = b.id": "DELTA_UNSUPPORTED_SOURCE",
    "SELECT id, max(v) AS v FROM base GROUP BY id": "DELTA_UNSUPPORTED_SOURCE",
    "SELECT * FROM base LIMIT 1": "DELTA_UNSUPPORTED_SOURCE",
    "SELECT id, v + 1 AS v FROM base": "DELTA_CANNOT_RESOLVE_COLUMN",
    "SELECT * FROM base VERSION AS OF 0": "DELTA_TIME_TRAVEL_WRITE_NOT_ALLOWED",
    "SELECT * FROM permanent": "DELTA_UNSUPPORTED_SOURCE",
}


@pytest.fixture
def base(spark, database):
    spark.sql("CREATE TABLE base (id BIGINT, v BIGINT, s STRUCT<x: BIGINT>) USING delta")
    spark.sql("INSERT INTO base SELECT id, id * 10, named_struct('x', id) FROM range(6)")
    spark.sql("CREATE VIEW permanent AS SELECT * FROM base")


def test_changes_of_the_table(spark, rows, base):
    for at, (columns, (key, value, struct)) in enumerate(CHANGED.items()):
        select = f"SELECT {columns} FROM base"
        name = ("through", "global_temp.through")[at % 2]
        if at % 2:
            spark.sql(f"CREATE OR REPLACE GLOBAL TEMP VIEW through AS {select}")
        elif at == 2:
            spark.sql(select).createOrReplaceTempView("through")
        else:
            spark.sql(f"CREATE OR REPLACE TEMP VIEW through AS {select}")
        version = rows("DESCRIBE HISTORY base LIMIT 1")[0][0]
        spark.sql(f"DELETE FROM {name} AS d WHERE d.{key} = 1 OR {key} = (SELECT max({key}) FROM {name}) - 1")
        field = f", {struct}.x = 9" if struct else ""
        spark.sql(f"UPDATE {name} SET {value} = {value} + {key}{field} WHERE {key} = 2")
        source = f"SELECT id AS {key}, -id AS {value} FROM VALUES (3), (8) AS ids(id)"
        spark.sql(
            f"MERGE INTO {name} AS q USING ({source}) AS z ON q.{key} = z.{key} "
            f"WHEN MATCHED THEN UPDATE SET {value} = z.{value} WHEN NOT MATCHED THEN INSERT ({key}, {value}) "
            f"VALUES (z.{key}, z.{value})"
        )
        found = rows("SELECT id, v, s.x FROM base ORDER BY 1")
        spark.sql(f"RESTORE TABLE base TO VERSION AS OF {version}")
        x = 9 if struct else 2
        expected = [(0, 0, 0), (2, 22, x), (3, -3, 3), (5, 50, 5), (8, -8, None)]
        assert found == expected, columns


def test_every_column_of_a_view_is_a_star(spark, rows, fails, base):
    spark.sql("CREATE OR REPLACE TEMP VIEW through AS SELECT id AS k, v FROM base")
    source = "(SELECT 1 AS k, 5 AS v, 7 AS more) z"
    merge = f"MERGE {{}} INTO through USING {source} ON through.k = z.k WHEN MATCHED THEN UPDATE SET *"
    with fails("DELTA_OPERATION_ON_VIEW_NOT_ALLOWED", "WITH SCHEMA EVOLUTION"):
        spark.sql(merge.format("WITH SCHEMA EVOLUTION"))
    spark.sql(merge.format(""))
    assert rows("SELECT * FROM base WHERE id = 1") == [(1, 5, (1,))]


def test_a_view_of_the_whole_table_evolves_as_the_table(spark, rows, settings, base):
    source = "(SELECT 1 AS id, 5 AS v, {} AS {}) z"
    merge = f"MERGE {{}} INTO through AS x USING {source} ON x.id = z.id WHEN MATCHED THEN UPDATE SET *"
    spark.sql("CREATE OR REPLACE TEMP VIEW through AS SELECT * FROM base")
    spark.sql(merge.format("WITH SCHEMA EVOLUTION", 7, "more"))
    with settings({"spark.databricks.delta.schema.autoMerge.enabled": "true"}):
        # A view of the columns that the table had.
        spark.sql(merge.format("", 8, "ignored").replace("SET *", "SET v = z.v + 1"))
        spark.sql("CREATE OR REPLACE TEMP VIEW through AS SELECT * FROM base")
        spark.sql(merge.format("", 9, "last"))
    assert spark.table("base").columns == ["id", "v", "s", "more", "last"]
    assert rows("SELECT * FROM base WHERE id = 1") == [(1, 5, (1,), 7, 9)]


def test_names_that_expressions_compute(spark, rows, base):
    spark.sql("CREATE OR REPLACE TEMP VIEW through AS SELECT id, v AS w FROM base")
    spark.sql("DECLARE OR REPLACE VARIABLE target STRING DEFAULT 'through'")
    using = "x USING (SELECT 3L AS id) z ON x.id = z.id WHEN MATCHED THEN UPDATE SET w = 7"
    for number, name in enumerate(("'through'", "'thr' || 'ough'", "concat('through', '')", "target", ":name")):
        args = {"name": "through"} if name == ":name" else None
        spark.sql(f"UPDATE IDENTIFIER({name}) AS y SET w = {number} WHERE y.id = 1", args=args)
        assert rows("SELECT v FROM base WHERE id = 1") == [(number,)]
        spark.sql(f"DELETE FROM IDENTIFIER({name}) WHERE id = 5", args=args)
        spark.sql(f"MERGE INTO IDENTIFIER({name}) {using}", args=args)
    assert rows("SELECT id, v FROM base WHERE id > 2 ORDER BY id") == [(3, 7), (4, 40)]


def test_texts_of_declared_lengths(spark, rows, fails, database):
    spark.sql("CREATE TABLE base (id INT, c CHAR(3), v VARCHAR(3)) USING delta")
    spark.sql("INSERT INTO base VALUES (1, 'a', 'a'), (2, 'b', 'b'), (3, 'c', 'c')")
    spark.sql("CREATE OR REPLACE TEMP VIEW through AS SELECT id, c AS d, v FROM base")
    spark.sql("UPDATE through SET d = 'x', v = 'yy' WHERE d = 'a  '")
    spark.sql("DELETE FROM through WHERE d = 'b  '")
    source = "(SELECT 3 AS id, 'z' AS d, 'z' AS v UNION ALL SELECT 4, 'n', 'n') z"
    spark.sql(
        f"MERGE INTO through USING {source} ON through.id = z.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert rows("SELECT * FROM base ORDER BY id") == [(1, "x  ", "yy"), (3, "z  ", "z"), (4, "n  ", "n")]
    for column in ("d", "v"):
        with fails("DELTA_EXCEED_CHAR_VARCHAR_LIMIT", "long"):
            spark.sql(f"UPDATE through SET {column} = 'long'")


def test_other_views_are_refused(spark, rows, fails, base):
    for select, condition in REFUSED.items():
        spark.sql(f"CREATE OR REPLACE TEMP VIEW through AS {select}")
        for statement in (
            "DELETE FROM through WHERE id = 0",
            "UPDATE through SET v = 1",
            "MERGE INTO through USING (SELECT 1 AS id) r ON through.id = r.id WHEN MATCHED THEN UPDATE SET v = 1",
        ):
            if condition != "DELTA_CANNOT_RESOLVE_COLUMN" or "v = 1" in statement:
                with fails(condition):
                    spark.sql(statement)
    assert len(rows("DESCRIBE HISTORY base")) == 2


def test_columns_that_are_assigned_twice(spark, fails, base):
    for values in ("v = 1, V = 2", "s.x = 1, s = NULL", "s.x = 1, s.X = 2"):
        with fails("DELTA_CONFLICT_SET_COLUMN", state="42701"):
            spark.sql(f"UPDATE base SET {values}")
    merge = "MERGE INTO base USING (SELECT 1 AS id) r ON base.id = r.id"
    with fails("DELTA_DUPLICATE_COLUMNS_ON_INSERT", state="42701"):
        spark.sql(f"{merge} WHEN NOT MATCHED THEN INSERT (id, v, ID) VALUES (1, 2, 3)")
    with fails("DELTA_AGGREGATION_NOT_SUPPORTED", "max"):
        spark.sql(f"{merge} AND max(r.id) = 1 WHEN MATCHED THEN DELETE")
    with fails("DELTA_TRUNCATE_TABLE_PARTITION_NOT_SUPPORTED", "DELETE FROM", "`v` = '1'"):
        spark.sql("TRUNCATE TABLE base PARTITION (v = 1)")


def test_paths_with_variables(spark, rows, settings, tmp_path):
    spark.sql(f"CREATE TABLE delta.`{tmp_path}/a b%41` USING delta AS SELECT 1 AS id")
    with settings({"headwater.test.root": str(tmp_path), "headwater.test.n": "200"}):
        path = "${headwater.test.root}/a b%41"
        forms = [f"'{path}'", f'"{path}"', f"r'{path}'", f"'file:{path}'", f"'file://{path}'", f"delta.`{path}`"]
        for quoted in (*forms, f"'{tmp_path}/\\u0061 b%41'"):
            assert rows(f"DESCRIBE HISTORY {quoted} LIMIT 1")[0][0] == 0, quoted
        for statement in ("VACUUM {} RETAIN ${{headwater.test.n}} HOURS DRY RUN", "OPTIMIZE {}", "DESCRIBE DETAIL {}"):
            spark.sql(statement.format(f"'{path}'"))
        inventory = "(path STRING, length BIGINT, isDir BOOLEAN, modificationTime BIGINT)"
        spark.sql(f"CREATE TABLE delta.`{tmp_path}/inventory` {inventory} USING delta")
        spark.sql(f"VACUUM '{path}' USING INVENTORY '${{headwater.test.root}}/inventory' DRY RUN")
