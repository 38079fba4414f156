"""DELETE: what goes, what stays, and how little is read and written for it."""

from __future__ import annotations

import json

import pytest

from support.dml_table import Table

pytestmark = pytest.mark.covering("file")

SIX = "SELECT id, CAST(id AS STRING) AS v FROM range(0, 6, 1, 3)"
both = pytest.mark.parametrize("vectors", [False, True], ids=["copy", "vectors"])


@both
def test_whole_table_needs_no_job(spark, tmp_path, vectors):
    table = Table(spark, tmp_path / "t", "id BIGINT, v STRING", SIX, vectors=vectors, changes=True)
    table.break_files(table.files())
    assert table.jobs("DELETE FROM {t}") == ([(6,)], 0)
    assert table.rows() == []
    assert table.metrics() == {"numRemovedFiles": 3, "numDeletedRows": 6}
    assert not any("add" in a or "cdc" in a for a in table.actions())
    assert table.info()["operation"] == "DELETE"
    assert table.info()["operationParameters"] == {"predicate": "[]"}


@pytest.mark.covering
@pytest.mark.parametrize(
    ("condition", "left"),
    [
        ("p = 'a'", [1, 2, 4, 5]),
        ("p IN ('a', 'b')", [2, 5]),
        ("p = 'a' OR p IS NULL", [1, 4]),
        ("upper(p) = 'B'", [0, 2, 3, 5]),
        ("p IS NOT NULL AND q < 2", [2, 5]),
        ("NOT (p <=> 'a')", [0, 3]),
        ("coalesce(p, 'c') BETWEEN 'b' AND 'd' AND nullif(q, 2) = 1", [0, 3]),
    ],
)
@both
def test_partitions_need_no_job(spark, tmp_path, vectors, condition, left):
    table = Table(
        spark,
        tmp_path / "t",
        "id BIGINT, p STRING, q INT",
        "SELECT id, element_at(array('a', 'b', NULL), CAST(id % 3 + 1 AS INT)), 1 FROM range(0, 6, 1, 1)",
        partitioned="p, q",
        vectors=vectors,
    )
    table.break_files(table.files_of(condition))
    assert table.jobs(f"DELETE FROM {{t}} WHERE {condition}") == ([(6 - len(left),)], 0)
    assert table.values() == left
    assert table.metrics()["numDeletedRows"] == 6 - len(left)


@both
def test_only_files_with_matching_rows_are_touched(spark, tmp_path, vectors):
    """Of three files, one cannot match, one matches whole, one is looked at."""
    table = Table(spark, tmp_path / "t", "id BIGINT, v STRING", SIX, vectors=vectors)
    outside, whole = table.files_of("id < 2"), table.files_of("id > 3")
    rest = table.files() - outside - whole
    table.break_files(whole)
    kept = {file: (table.path / file).read_bytes() for file in outside}
    table.break_files(outside)
    assert table.run("DELETE FROM {t} WHERE id >= 3") == [(3,)]
    for file, content in kept.items():
        (table.path / file).write_bytes(content)
    assert table.values() == [0, 1, 2]
    removed = {a["remove"]["path"] for a in table.actions() if "remove" in a}
    assert removed == whole | rest
    if vectors:
        assert table.metrics() == {"numRemovedFiles": 1, "numDeletedRows": 3, "numDeletionVectorsAdded": 1}
    else:
        assert table.metrics() == {"numRemovedFiles": 2, "numDeletedRows": 3, "numAddedFiles": 1, "numCopiedRows": 1}


def test_files_that_match_whole_are_not_read(spark, tmp_path):
    table = Table(spark, tmp_path / "t", "id BIGINT, v STRING", SIX)
    table.break_files(table.files_of("id >= 2"))
    assert table.jobs("DELETE FROM {t} WHERE id BETWEEN 2 AND 9") == ([(4,)], 0)
    assert table.values() == [0, 1]


def test_deletion_vectors_add_up(spark, tmp_path):
    table = Table(spark, tmp_path / "t", "id BIGINT, v STRING", "SELECT id, 'x' FROM range(0, 6, 1, 1)", vectors=True)
    data = table.files()
    for condition, deleted, cardinality in (("id = 0", 1, 1), ("id % 2 = 0", 2, 3), ("id IN (0, 2, 3)", 1, 4)):
        assert table.run(f"DELETE FROM {{t}} WHERE {condition}") == [(deleted,)]
        (add,) = [a["add"] for a in table.actions() if "add" in a]
        assert add["deletionVector"]["cardinality"] == cardinality
        assert json_stats(add) == {"numRecords": 6, "tightBounds": False}
        assert table.files() == data
    assert table.metrics() == {"numDeletedRows": 1, "numDeletionVectorsUpdated": 1}
    assert table.values() == [1, 5]
    assert table.run("SELECT count(*), min(id), max(id) FROM {t}") == [(2, 1, 5)]
    # Nothing is left of the file: it goes, and so does its vector.
    assert table.run("DELETE FROM {t} WHERE v = 'x' AND id > rand() - 1") == [(2,)]
    assert table.files() == set()
    assert table.metrics() == {"numRemovedFiles": 1, "numDeletedRows": 2, "numDeletionVectorsRemoved": 1}
    assert table.rows() == []


def json_stats(add):
    stats = json.loads(add["stats"])
    return {name: stats[name] for name in ("numRecords", "tightBounds")}


@both
def test_file_whose_rows_all_match_is_removed(spark, tmp_path, vectors):
    """Statistics cannot tell that all rows match: the job does, and nothing is copied."""
    table = Table(spark, tmp_path / "t", "id BIGINT, v STRING", SIX, vectors=vectors)
    assert table.run("DELETE FROM {t} WHERE length(v) = 1 AND (id % 7) IN (2, 3)") == [(2,)]
    assert table.values() == [0, 1, 4, 5]
    assert table.metrics() == {"numRemovedFiles": 1, "numDeletedRows": 2}


@pytest.mark.covering
@both
@pytest.mark.parametrize("condition", ["id > 100", "id % 10 = 8", "v = 'none'", "false", "CAST(NULL AS BOOLEAN)"])
def test_nothing_matched_is_no_commit(spark, tmp_path, vectors, condition):
    table = Table(spark, tmp_path / "t", "id BIGINT, v STRING", SIX, vectors=vectors)
    before = table.files_on_disk()
    assert table.run(f"DELETE FROM {{t}} WHERE {condition}") == [(0,)]
    assert table.version == 1
    assert table.files_on_disk() == before


def test_empty_table(spark, tmp_path):
    table = Table(spark, tmp_path / "t", "id BIGINT")
    assert table.jobs("DELETE FROM {t}") == ([(0,)], 0)
    assert table.jobs("DELETE FROM {t} WHERE id = 1") == ([(0,)], 0)
    assert table.version == 0


@both
def test_null_is_no_match(spark, tmp_path, vectors):
    table = Table(
        spark, tmp_path / "t", "id BIGINT, n INT", "SELECT id, IF(id < 3, id, NULL) FROM range(6)", vectors=vectors
    )
    assert table.run("DELETE FROM {t} WHERE n > 1") == [(1,)]
    assert table.run("DELETE FROM {t} WHERE NOT (n > 0)") == [(1,)]
    assert table.values() == [1, 3, 4, 5]
    assert table.run("DELETE FROM {t} WHERE n <=> NULL") == [(3,)]
    assert table.values() == [1]


SUBQUERIES = {
    "id = (SELECT max(k) FROM keys)": [5],
    "id > (SELECT avg(id) FROM {t})": [3, 4, 5],
    "id IN (SELECT k FROM keys)": [1, 5],
    "id NOT IN (SELECT k FROM keys)": [],  # a null among the keys
    "id NOT IN (SELECT k FROM keys WHERE k IS NOT NULL)": [0, 2, 3, 4],
    "EXISTS (SELECT 1 FROM keys WHERE k = 5)": [0, 1, 2, 3, 4, 5],
    "EXISTS (SELECT 1 FROM keys WHERE k = id)": [1, 5],
    "NOT EXISTS (SELECT 1 FROM keys WHERE k = id)": [0, 2, 3, 4],
    "EXISTS (SELECT 1 FROM {t} AS o WHERE o.id = target.id + 4)": [0, 1],
    "id = (SELECT max(o.id) FROM {t} AS o WHERE o.v % 2 = target.v % 2)": [4, 5],
    "id > 1 AND (id IN (SELECT k FROM keys) OR v = (SELECT min(k) + 1 FROM keys))": [2, 5],
    "CASE WHEN id IN (SELECT k FROM keys) THEN v = 1 ELSE id = 0 END": [0, 1],
    "(id, v) IN (SELECT k, k FROM keys)": [1, 5],
}


@pytest.mark.covering
@pytest.mark.parametrize("condition", SUBQUERIES)
def test_subqueries(spark, tmp_path, condition):
    spark.sql("CREATE OR REPLACE TEMP VIEW keys AS SELECT * FROM VALUES (1L), (5L), (9L), (NULL) AS s(k)")
    condition_text, gone = condition, SUBQUERIES[condition]
    if "max(k)" in condition:
        condition_text = condition.replace("keys", "keys WHERE k < 9")
    vectors = len(condition) % 2 == 0
    table = Table(spark, tmp_path / "t", "id BIGINT, v BIGINT", "SELECT id, id FROM range(0, 6, 1, 3)", vectors=vectors)
    assert table.run(f"DELETE FROM {{t}} AS target WHERE {condition_text}") == [(len(gone),)]
    assert table.values() == [i for i in range(6) if i not in gone]


@both
def test_functions_of_the_user(spark, tmp_path, vectors):
    spark.udf.register("is_even", lambda x: x % 2 == 0, "boolean")
    table = Table(spark, tmp_path / "t", "id BIGINT, v STRING", SIX, vectors=vectors)
    assert table.run("DELETE FROM {t} WHERE is_even(id)") == [(3,)]
    assert table.run("DELETE FROM {t} WHERE NOT is_even(id) AND id > 3") == [(1,)]
    assert table.values() == [1, 3]


@both
def test_nested_fields(spark, tmp_path, vectors):
    table = Table(
        spark,
        tmp_path / "t",
        "id BIGINT, s STRUCT<a: STRUCT<b: INT>>, l ARRAY<INT>, m MAP<STRING, INT>",
        "SELECT id, IF(id = 5, NULL, named_struct('a', named_struct('b', id))), array(id, 7), map('k', id) "
        "FROM range(0, 6, 1, 2)",
        vectors=vectors,
    )
    assert table.run("DELETE FROM {t} WHERE s.a.b >= 4") == [(1,)]
    assert table.run("DELETE FROM {t} AS x WHERE x.s.a.b = 0 OR l[0] = 1 OR m['k'] = 2") == [(3,)]
    assert table.run("DELETE FROM {t} WHERE s IS NULL") == [(1,)]
    assert table.values() == [3]


@both
def test_random_conditions_are_asked_once(spark, tmp_path, vectors):
    table = Table(spark, tmp_path / "t", "id BIGINT", "SELECT id FROM range(0, 400, 1, 2)", vectors=vectors)
    ((deleted,),) = table.run("DELETE FROM {t} WHERE rand() < 0.5")
    assert 0 < deleted < 400
    assert len(table.values()) == 400 - deleted


def test_answer_and_history(spark, tmp_path):
    table = Table(spark, tmp_path / "t", "id BIGINT, v STRING", SIX)
    answer = spark.sql(f"DELETE FROM {table.name} WHERE id % 3 = 1 AND v <> 'x'")
    assert answer.schema.simpleString() == "struct<num_affected_rows:bigint>"
    assert answer.collect() == [(2,)]
    assert answer.count() == 1  # asking again does not run it again
    assert table.version == 2
    history = spark.sql(f"DESCRIBE HISTORY {table.name} LIMIT 1").first()
    assert (history.operation, history.readVersion) == ("DELETE", 1)
    assert "id % " in history.operationParameters["predicate"]
    assert int(history.operationMetrics["numDeletedRows"]) == 2
    assert int(history.operationMetrics["numCopiedRows"]) == 2
    assert {"executionTimeMs", "scanTimeMs", "rewriteTimeMs"} <= set(history.operationMetrics)


@both
def test_caches_show_the_new_rows(spark, tmp_path, database, vectors):
    table = Table(spark, tmp_path / "t", "id BIGINT, v STRING", SIX, vectors=vectors)
    spark.sql(f"CREATE TABLE named USING delta LOCATION '{table.path}'")
    spark.sql("CACHE TABLE named")
    frame = spark.read.format("delta").load(str(table.path)).where("id > 1").cache()
    try:
        assert (spark.table("named").count(), frame.count()) == (6, 4)
        table.run("DELETE FROM {t} WHERE id = 3")
        assert (spark.table("named").count(), frame.count()) == (5, 3)
        spark.sql("DELETE FROM named WHERE id IN (0, 5)")
        assert (spark.table("named").count(), frame.count()) == (3, 2)
        spark.sql("DELETE FROM named")
        assert (spark.table("named").count(), frame.count()) == (0, 0)
    finally:
        frame.unpersist()
        spark.sql("UNCACHE TABLE named")


def test_column_mapping(spark, tmp_path):
    mapped = ["'delta.columnMapping.mode' = 'name'"]
    table = Table(
        spark,
        tmp_path / "t",
        "id BIGINT, `a b` STRING, p INT",
        "SELECT id, CAST(id AS STRING), CAST(id % 2 AS INT) FROM range(0, 6, 1, 2)",
        partitioned="p",
        properties=mapped,
    )
    assert table.jobs("DELETE FROM {t} WHERE p = 1") == ([(3,)], 0)
    assert table.run("DELETE FROM {t} WHERE `a b` = '2'") == [(1,)]
    assert table.rows() == [(0, "0", 0), (4, "4", 0)]


def test_alias_that_is_a_column_too(spark, tmp_path):
    """What the log is asked is about the column that is meant, also inside of what a function stands for."""
    table = Table(
        spark,
        tmp_path / "t",
        "id BIGINT, t STRUCT<id: BIGINT>",
        "SELECT id, named_struct('id', 5 - id) FROM range(0, 6, 1, 3)",
    )
    assert table.run("DELETE FROM {t} AS t WHERE t.id BETWEEN 0 AND 1") == [(2,)]
    assert table.run("DELETE FROM {t} AS u WHERE nullif(u.t.id, 9) BETWEEN 0 AND 1") == [(2,)]
    assert table.values() == [2, 3]


@both
def test_columns_named_as_ours_and_sparks(spark, tmp_path, vectors):
    """A table may have columns called as Spark's hidden one."""
    table = Table(
        spark,
        tmp_path / "t",
        "id BIGINT, _metadata STRING, `a.b` INT",
        "SELECT id, 'm', id FROM range(4)",
        vectors=vectors,
    )
    assert table.run("DELETE FROM {t} WHERE _metadata = 'm' AND `a.b` = 2") == [(1,)]
    assert table.values() == [0, 1, 3]
