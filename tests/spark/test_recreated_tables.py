"""A table that is deleted and created again, under frames and views that were analysed and snapshots kept.

Frames and views of the old table read the new one, as those of any table of Spark's do. If its columns are not there,
or if they name a version of the old one, they say so.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from headwater.log.snapshot import load_snapshot
from headwater.stores import LocalStore

pytestmark = pytest.mark.covering("file")


@pytest.fixture
def anew(tmp_path: Path) -> Any:
    """``anew(ids)``: the table at ``path`` gone, and another in its place, of a commit for each id."""
    deltalake = pytest.importorskip("deltalake")
    import pyarrow as pa

    def make(ids: list[int]) -> str:
        path = str(tmp_path / "t")
        shutil.rmtree(path, ignore_errors=True)
        for number in ids:
            deltalake.write_deltalake(path, pa.table({"id": pa.array([number], pa.int64())}), mode="append")
        return path

    return make


OLD = [1, 2, 3]
#: Fewer commits, as many, more.
NEW = [[7], [7, 8, 9], [7, 8, 9, 10, 11]]


@pytest.mark.parametrize("ids", NEW, ids=["shorter", "as long", "longer"])
def test_by_path_there_is_only_the_new_table(spark: Any, rows: Any, anew: Any, ids: list[int]) -> None:
    name = f"delta.`{anew(OLD)}`"
    assert rows(f"SELECT * FROM {name}", ordered=False) == [(n,) for n in OLD]
    assert rows(f"SELECT * FROM {name} VERSION AS OF 1", ordered=False) == [(1,), (2,)]
    anew(ids)
    assert rows(f"SELECT * FROM {name}", ordered=False) == sorted([(n,) for n in ids], key=repr)
    assert rows(f"SELECT count(*), min(id) FROM {name}") == [(len(ids), 7)]
    assert rows(f"SELECT * FROM {name} VERSION AS OF 0") == [(7,)]
    assert len(rows(f"DESCRIBE HISTORY {name}")) == len(ids)
    rows(f"UPDATE {name} SET id = id + 100 WHERE id = 7")
    rows(f"INSERT INTO {name} VALUES (1)")
    expected = [1, 107, *ids[1:]]
    assert rows(f"SELECT * FROM {name}", ordered=False) == sorted([(n,) for n in expected], key=repr)


@pytest.mark.parametrize("ids", NEW, ids=["shorter", "as long", "longer"])
def test_a_frame_of_the_old_table_reads_the_new_one(spark: Any, anew: Any, ids: list[int]) -> None:
    path = anew(OLD)
    frame = spark.read.format("delta").load(path)
    count = spark.sql(f"SELECT count(*), min(id) FROM delta.`{path}`")
    run_before = spark.read.format("delta").load(path)
    assert len(run_before.collect()) == 3
    anew(ids)
    now = spark.read.format("delta").load(path)
    assert sorted(row.id for row in frame.where("id > 0").collect()) == ids
    assert count.collect() == [(len(ids), 7)]
    assert frame.join(now, "id").count() == len(ids)
    # A frame that has run keeps its plan, and the plan its files, as Spark has it for any table.
    with pytest.raises(Exception, match=r"FAILED_READ_FILE.*parquet"):
        run_before.collect()


#: Definitions of a table that has these columns at least, whose files have them in different places.
COLUMNS = "id INT, name STRING, at STRUCT<x: INT, y: STRING>"
MAPPED = "TBLPROPERTIES ('delta.columnMapping.mode' = '{}')"
DEFINITIONS = {
    "plain": f"({COLUMNS}) USING delta",
    "mapped by name": f"({COLUMNS}) USING delta {MAPPED.format('name')}",
    "partitioned": f"({COLUMNS}) USING delta PARTITIONED BY (name)",
    "mapped by id": f"({COLUMNS}) USING delta PARTITIONED BY (id) {MAPPED.format('id')}",
    "reordered": "(more INT, at STRUCT<x: INT, y: STRING>, name STRING, id INT) USING delta",
    "by another column": f"({COLUMNS}, day INT) USING delta PARTITIONED BY (day)",
}


def create(spark: Any, name: str, definition: str, first: int) -> None:
    """A table of four rows."""
    spark.sql(f"CREATE OR REPLACE TABLE {name} {DEFINITIONS[definition]}")
    spark.sql(
        f"INSERT INTO {name} (id, name, at) SELECT id, concat('n', id % 3), named_struct('x', id, 'y', 'y') "
        f"FROM (SELECT CAST(id AS INT) FROM range({first}, {first + 4}, 1, 1))"
    )


def folder(spark: Any, name: str) -> Path:
    return Path(spark.sql(f"DESCRIBE DETAIL {name}").collect()[0].location.removeprefix("file:"))


@pytest.mark.covering
@pytest.mark.parametrize("how", ["drop", "replace", "move"])
@pytest.mark.parametrize("further", range(1, len(DEFINITIONS)))
@pytest.mark.parametrize("old", DEFINITIONS)
@pytest.mark.usefixtures("database")
def test_views_and_frames_read_the_table_that_is_there_now(
    spark: Any, rows: Any, fails: Any, old: str, further: int, how: str
) -> None:
    """Wherever the files of the old and the new table have the columns. The rows are known without a table.

    :param further: so many definitions after the old one comes the new one.
    """
    kinds = list(DEFINITIONS)
    new = kinds[(kinds.index(old) + further) % len(kinds)]
    create(spark, "t", old, 0)
    frame = spark.table("t")
    frame.createOrReplaceTempView("v")
    if how == "drop":
        spark.sql("DROP TABLE t")
    create(spark, "u" if how == "move" else "t", new, 100)
    if how == "move":  # by a program that knows no names
        here, there = folder(spark, "t"), folder(spark, "u")
        shutil.rmtree(here, ignore_errors=True)
        shutil.copytree(there, here, dirs_exist_ok=True)
    spark.sql("DELETE FROM t WHERE id = 101")
    if not set(frame.columns) <= set(spark.table("t").columns):
        with fails("DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS", "define the DataFrame or view again"):
            frame.collect()
        return
    found = rows("SELECT id, name, at.x FROM v WHERE name >= 'n0' AND at.y = 'y'", ordered=False)
    assert found == [(n, f"n{n % 3}", n) for n in (100, 102, 103)]
    assert frame.where("id > 102").select("at.x").collect() == [(103,)]
    assert rows("SELECT count(*), min(id), max(name) FROM v") == [(3, 100, "n1")]


@pytest.mark.usefixtures("database")
def test_what_is_written_from_a_frame_of_the_old_table_is_of_the_new_one(spark: Any, rows: Any) -> None:
    create(spark, "t", "partitioned", 0)
    frame = spark.table("t")
    frame.createOrReplaceTempView("v")
    cached = frame.where("id >= 0").cache()
    assert cached.count() == 4
    spark.sql("DROP TABLE t")
    create(spark, "t", "mapped by name", 100)
    assert sorted(row.id for row in cached.collect()) == [100, 101, 102, 103]
    cached.unpersist()
    spark.sql("MERGE INTO t USING v ON t.id = v.id WHEN MATCHED THEN UPDATE SET name = concat(v.name, '!')")
    spark.sql("DELETE FROM t WHERE id IN (SELECT id FROM v WHERE id > 101)")
    frame.write.insertInto("t")
    assert rows("SELECT id, name FROM t", ordered=False) == [(100, "n1!")] * 2 + [(101, "n2!")] * 2


@pytest.mark.parametrize("ids", NEW, ids=["shorter", "as long", "longer"])
def test_a_frame_of_an_old_version_says_so(spark: Any, fails: Any, anew: Any, ids: list[int]) -> None:
    """Whether the new table has a version of that number or not."""
    path = anew(OLD)
    frame = spark.read.format("delta").option("versionAsOf", 1).load(path)
    anew(ids)
    words = ("DELTA_TABLE_ID_MISMATCH", path, "define that again") if len(ids) > 1 else ("DELTA_VERSION_NOT_FOUND", "1")
    with fails(*words):
        frame.collect()


def test_a_table_that_is_gone_says_so(spark: Any, fails: Any, anew: Any) -> None:
    path = anew(OLD)
    frame = spark.read.format("delta").load(path)
    assert frame.count() == 3
    shutil.rmtree(path)
    with fails("DELTA_TABLE_NOT_FOUND", path):
        frame.count()


CHANGES = {
    "nothing": [],
    "drop": ["DROP TABLE t", "CREATE TABLE t (id INT) USING delta", "INSERT INTO t VALUES (1), (2)"],
    "replace": ["CREATE OR REPLACE TABLE t USING delta AS SELECT * FROM VALUES (1), (2) AS v(id)"],
    "alter": ["ALTER TABLE t ADD COLUMN more INT"],
    "insert": ["INSERT INTO t VALUES (3)"],
}


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id FROM t WHERE id > 0",
        "SELECT * FROM t",
        "SELECT * FROM t VERSION AS OF 1",
        "SELECT id FROM table_changes('t', 0, 1)",
    ],
)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.usefixtures("database")
def test_a_table_is_not_dropped_for_rows_that_are_read_from_it(
    spark: Any, rows: Any, fails: Any, settings: Any, query: str, change: str
) -> None:
    """Overwritten in another format, a table is dropped before the query runs; whatever became of it since."""
    spark.sql("CREATE TABLE t (id INT) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    spark.sql("INSERT INTO t VALUES (1), (2)")
    frame = spark.sql(query)
    for statement in CHANGES[change]:
        spark.sql(statement)
    before = rows("SELECT * FROM t", ordered=False)
    with settings({"spark.sql.sources.default": "parquet"}), fails("UNSUPPORTED_OVERWRITE.TABLE", state="42902"):
        frame.write.mode("overwrite").saveAsTable("t")
    assert rows("SELECT * FROM t", ordered=False) == before
    with settings({"spark.sql.sources.default": "parquet"}):
        spark.range(3).write.mode("overwrite").saveAsTable("t")
    assert rows("SELECT count(*) FROM t") == [(3,)]


@pytest.mark.parametrize(
    "query", ["SELECT * FROM c", "SELECT * FROM d", "SELECT id FROM range(9) WHERE id IN (SELECT id FROM c)"]
)
@pytest.mark.usefixtures("database")
def test_a_table_is_not_dropped_for_rows_that_come_from_its_files(
    spark: Any, rows: Any, fails: Any, query: str
) -> None:
    """A shallow clone, and a clone of that, name files in the table's folder."""
    spark.sql("CREATE TABLE t (id INT) USING delta")
    spark.sql("INSERT INTO t VALUES (1), (2)")
    spark.sql("CREATE TABLE c SHALLOW CLONE t")
    spark.sql("CREATE TABLE d SHALLOW CLONE c")
    with fails("UNSUPPORTED_OVERWRITE.TABLE", state="42902"):
        spark.sql(query).write.mode("overwrite").format("parquet").saveAsTable("t")
    assert [rows(f"SELECT count(*) FROM {name}") for name in "tcd"] == [[(2,)]] * 3
    # An own copy of the rows depends on nothing.
    spark.sql("CREATE TABLE own USING delta AS SELECT * FROM c")
    spark.table("own").write.mode("overwrite").format("parquet").saveAsTable("t")
    assert rows("SELECT count(*) FROM t") == [(2,)]


SECONDS = float(os.environ.get("HEADWATER_TEST_SECONDS", "4"))


@pytest.mark.random
@pytest.mark.usefixtures("database")
def test_a_story_of_names_that_change_their_tables(spark: Any, rows: Any) -> None:
    """DROP, CREATE, writes and swaps of two names, while checkpoints of the last commits are under way. Another process
    sees what the session sees.
    """
    chance = random.Random(0 if SECONDS <= 4 else None)
    model: dict[str, list[int]] = {}
    until, number = time.monotonic() + SECONDS, 0
    while time.monotonic() < until or number < 20:
        number += 1
        name = chance.choice("ab")
        what = chance.random()
        if name not in model:
            columns = ", ".join(f"{chance.choice('pqr')}{n} INT" for n in range(chance.randint(0, 2)))
            spark.sql(
                f"CREATE TABLE {name} (id INT{', ' + columns if columns else ''}) USING delta "
                "TBLPROPERTIES ('delta.checkpointInterval' = '2')"
            )
            model[name] = []
        elif what < 0.6:
            spark.sql(f"INSERT INTO {name} (id) VALUES ({number})")
            model[name].append(number)
        elif what < 0.8:
            spark.sql(f"DROP TABLE {name}")
            del model[name]
        elif len(model) == 2:
            for old, new in (("a", "old"), ("b", "a"), ("old", "b")):
                spark.sql(f"ALTER TABLE {old} RENAME TO {new}")
            model["a"], model["b"] = model["b"], model["a"]
        for each, expected in model.items():
            assert rows(f"SELECT id FROM {each} ORDER BY id") == [(n,) for n in expected], number
            assert load_snapshot(str(folder(spark, each)), LocalStore()).num_files == len(expected), number
