"""MERGE into a table so large that its source is looked at first: which files are read, and inserts in a job of their
own."""

from __future__ import annotations

import pytest

from support.dml_table import Table

pytestmark = pytest.mark.covering("file")

both = pytest.mark.parametrize("vectors", [False, True], ids=["copy", "vectors"])
COLUMNS = "id BIGINT, v INT, k STRING, ts TIMESTAMP, pad STRING"
#: Ten files of two rows, 120 kB each, and less than all of them have.
PAD = "repeat(CAST(id AS STRING), 60000)"
SMALL = 800_000
ROWS = f"SELECT id, 0, CAST(id AS STRING), timestamp_seconds(id * 86400), {PAD} FROM range(0, 20, 1, 10)"
UPSERT = "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (id, v, k) VALUES (s.id, s.v, 'new')"


@pytest.fixture
def large(spark, tmp_path, settings):
    """A table of 1.2 MB, as nothing is compressed."""

    def make(**given) -> Table:
        with settings({"spark.sql.parquet.compression.codec": "uncompressed"}):
            columns = given.pop("columns", COLUMNS)
            rows = given.pop("rows", ROWS)
            table = Table(spark, tmp_path / "t", columns, rows, **given)
        assert sum((table.path / file).stat().st_size for file in table.files()) > SMALL
        return table

    with settings({"spark.headwater.merge.smallTargetBytes": str(SMALL)}):
        yield make


def merged(table, rows, clauses=UPSERT, on="t.id = s.id", columns="id, v"):
    return table.run(
        f"MERGE INTO {{t}} t USING (SELECT * FROM VALUES {', '.join(rows)} AS s({columns})) s ON {on} {clauses}"
    )


@both
@pytest.mark.parametrize("changes", [False, True])
def test_files_without_the_sources_keys_are_not_read(large, vectors, changes):
    table = large(vectors=vectors, changes=changes)
    outside = table.files_of("id NOT IN (2, 3, 14, 15)")
    kept = {file: (table.path / file).read_bytes() for file in outside}
    table.break_files(outside)
    assert merged(table, ["(2L, -2)", "(15L, -15)", "(NULL, 1)", "(100L, -100)", "(101L, -101)"]) == [(5, 2, 0, 3)]
    assert outside < table.files()
    for file, content in kept.items():
        (table.path / file).write_bytes(content)
    expected = dict.fromkeys(range(20), 0) | {2: -2, 15: -15, 100: -100, 101: -101, None: 1}
    assert dict(table.rows("id, v")) == expected
    assert table.metrics("numSourceRows", "numTargetRowsInserted") == {"numSourceRows": 5, "numTargetRowsInserted": 3}
    if changes:
        kinds = sorted((row[0], row[1], row[5]) for row in table.change_rows() if row[0] is not None)
        assert kinds == [
            (2, -2, "update_postimage"),
            (2, 0, "update_preimage"),
            (15, -15, "update_postimage"),
            (15, 0, "update_preimage"),
            (100, -100, "insert"),
            (101, -101, "insert"),
        ]


@pytest.mark.parametrize(
    ("on", "columns", "rows"),
    [
        ("t.k = s.k AND t.v < 1", "k, v", ["('3', 7)", "(NULL, 7)"]),
        ("t.ts = s.ts", "ts, v", ["(TIMESTAMP'1970-01-04 00:00:00', 7)"]),
        ("s.id + 1 = t.id AND t.k = CAST(s.id + 1 AS STRING)", "id, v", ["(2L, 7)"]),
        pytest.param("t.id = s.id", "id, v", ["(3S, 7)"], marks=pytest.mark.soak),
    ],
)
def test_keys_of_other_types(large, on, columns, rows):
    table = large(vectors=True)
    table.break_files(table.files_of("id NOT IN (2, 3)"))
    assert merged(table, rows, "WHEN MATCHED THEN UPDATE SET v = s.v", on, columns) == [(1, 1, 0, 0)]
    assert table.run("SELECT id, v FROM {t} WHERE id IN (2, 3) ORDER BY id") == [(2, 0), (3, 7)]


def test_keys_that_match_nothing(large):
    table = large()
    table.break_files(table.files())
    assert merged(table, ["(50L, 1)", "(NULL, 2)"]) == [(2, 0, 0, 2)]
    assert merged(table, ["(60L, 1)"], "WHEN MATCHED THEN DELETE") == [(0, 0, 0, 0)]
    assert merged(table, ["(NULL, 1)"], "WHEN MATCHED THEN DELETE") == [(0, 0, 0, 0)]
    assert table.version == 2


def test_many_keys_are_a_range(large, spark):
    """And a table is large by default that has 12 MB."""
    spark.conf.unset("spark.headwater.merge.smallTargetBytes")
    table = large(rows=ROWS.replace("60000", "600000"), vectors=True)
    table.break_files(table.files_of("id < 10"))
    wide = "(SELECT id + 10 AS id, 1 AS v FROM range(0, 3000, 1, 2)) s"
    assert table.run(f"MERGE INTO {{t}} t USING {wide} ON t.id = s.id {UPSERT}") == [(3000, 10, 0, 2990)]
    assert table.run("SELECT sum(v), count(*) FROM {t} WHERE id >= 10") == [(3000, 3000)]


@both
@pytest.mark.parametrize("changes", [False, True])
def test_not_matched_by_source_reads_all(large, vectors, changes):
    table = large(vectors=vectors, changes=changes)
    clauses = (
        f"{UPSERT} WHEN NOT MATCHED BY SOURCE AND t.id < 2 THEN DELETE "
        "WHEN NOT MATCHED BY SOURCE AND t.id > 17 THEN UPDATE SET v = 9"
    )
    assert merged(table, ["(5L, 5)", "(18L, 18)", "(30L, 30)"], clauses) == [(6, 3, 2, 1)]
    assert dict(table.rows("id, v")) == dict.fromkeys(range(2, 18), 0) | {5: 5, 18: 18, 19: 9, 30: 30}
    assert table.metrics("numSourceRows") == {"numSourceRows": 3}
    if changes:
        kinds = [row[5] for row in table.change_rows()]
        assert {kind: kinds.count(kind) for kind in set(kinds)} == {
            "update_preimage": 3,
            "update_postimage": 3,
            "delete": 2,
            "insert": 1,
        }


@both
@pytest.mark.parametrize("changes", [False, True])
def test_rows_that_no_clause_holds_for_stay(large, vectors, changes):
    """They matched, so that their source rows are not inserted."""
    table = large(vectors=vectors, changes=changes)
    clauses = UPSERT.replace("WHEN MATCHED", "WHEN MATCHED AND s.v > 6")
    assert merged(table, ["(5L, 5)", "(6L, 6)", "(7L, 7)", "(30L, 3)"], clauses) == [(2, 1, 0, 1)]
    assert dict(table.rows("id, v")) == dict.fromkeys(range(20), 0) | {7: 7, 30: 3}


@both
@pytest.mark.parametrize(
    ("clauses", "fine"),
    [
        (UPSERT, False),
        ("WHEN MATCHED AND s.v = 2 THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)", True),
        ("WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)", True),
    ],
)
def test_several_matches(large, fails, vectors, clauses, fine):
    table = large(vectors=vectors, changes=True)
    before = table.state
    rows = ["(5L, 1)", "(5L, 2)", "(40L, 3)", "(40L, 4)"]
    if fine:
        assert merged(table, rows, clauses)[0][0] == 3
        assert table.values().count(40) == 2
        changed = [row for row in table.change_rows() if row[0] == 5]
        assert len(changed) == (1 if "DELETE" in clauses else 2)
    else:
        with fails("DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE"):
            merged(table, rows, clauses)
        assert table.comes_to(before)


def identified(large, start, **given):
    """The same with a generated key, from ``start``."""
    return large(
        columns=f"key BIGINT GENERATED ALWAYS AS IDENTITY (START WITH {start}), id BIGINT, v INT, k STRING, pad STRING",
        rows=f"(id, v, k, pad) SELECT id, 0, 'k', {PAD} FROM range(0, 20, 1, 10)",
        **given,
    )


@both
def test_identity_columns(large, vectors):
    table = identified(large, 5, vectors=vectors, changes=True)
    assert table.values("key") == list(range(5, 25))
    assert merged(table, ["(3L, 1)", "(50L, 2)", "(51L, 3)"]) == [(3, 1, 0, 2)]
    assert table.run("SELECT key FROM {t} WHERE id >= 50 ORDER BY key") == [(25,), (26,)]
    assert sorted(row[0] for row in table.change_rows() if row[-1] == "insert") == [25, 26]
    assert merged(table, ["(3L, 1)", "(50L, 2)"], "WHEN MATCHED THEN DELETE") == [(2, 0, 2, 0)]
    assert merged(table, ["(3L, 1)", "(50L, 2)"]) == [(2, 0, 0, 2)]
    assert table.run("SELECT key FROM {t} WHERE id IN (3, 50) ORDER BY key") == [(27,), (28,)]


@both
def test_identity_columns_with_a_large_source(large, vectors):
    """The source, which Spark takes for 6 GB, is sent to no task whole, and the inserts are a job of their own."""
    table = identified(large, 1, vectors=vectors)
    source = "(SELECT a.id, 9 AS v FROM range(15, 1000) a JOIN range(100000) b ON a.id = b.id WHERE b.id < 25)"
    text = (
        f"MERGE INTO {{t}} t USING {source} s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)"
    )
    assert "BROADCAST" not in table.run("EXPLAIN " + text)[0][0]
    assert table.run(text) == [(10, 5, 0, 5)]
    assert dict(table.run("SELECT id, v FROM {t}")) == {i: 9 if i >= 15 else 0 for i in range(25)}
    assert table.values("key") == list(range(1, 26))
    assert table.metrics("numSourceRows") == {"numSourceRows": 10}


def test_source_that_is_not_deterministic_is_read_once(large):
    table = large(vectors=True)
    drawn = "(SELECT id + IF(rand() < 0.5, 0, 1000) AS id, 1 AS v FROM range(0, 20, 1, 2)) s"
    ((affected, updated, _, inserted),) = table.run(f"MERGE INTO {{t}} t USING {drawn} ON t.id = s.id {UPSERT}")
    assert (affected, updated + inserted) == (20, 20)
    assert table.run("SELECT count(*) FROM {t} WHERE id < 20 AND v = 1") == [(updated,)]
    assert table.run("SELECT count(*) FROM {t}") == [(20 + inserted,)]


@both
def test_source_is_the_target(large, vectors):
    table = large(vectors=vectors)
    merging = "MERGE INTO {t} t USING (SELECT id + 19 AS id, v + 1 AS v FROM {t}) s ON t.id = s.id"
    assert table.run(f"{merging} {UPSERT}") == [(20, 1, 0, 19)]
    assert dict(table.rows("id, v")) == {i: int(i >= 19) for i in range(39)}


@pytest.fixture
def scanned(spark, tmp_path):
    """A source that is files, and so may be read as often as is of use."""

    def make(*rows: str) -> str:
        path = tmp_path / "source"
        values = f"SELECT * FROM VALUES {', '.join(rows)} AS s(id, v)"
        spark.sql(f"INSERT OVERWRITE DIRECTORY '{path}' USING parquet {values}")
        return f"parquet.`{path}`"

    return make


@pytest.mark.covering
@both
@pytest.mark.parametrize("changes", [False, True])
@pytest.mark.parametrize("new", [[], ["(100L, -100)", "(NULL, 1)"]], ids=["none", "new"])
def test_the_files_left_are_read_once(large, scanned, vectors, changes, new):
    table = large(vectors=vectors, changes=changes)
    source = scanned("(2L, -2)", "(14L, -14)", "(15L, -15)", *new)
    concerned = table.files_of("id IN (2, 3, 14, 15)")
    outside = table.files() - concerned
    clauses = f"WHEN MATCHED AND s.id = 14 THEN DELETE {UPSERT}"
    merging = f"MERGE INTO {{t}} t USING {source} s ON t.id = s.id {clauses}"
    assert table.run(merging) == [(3 + len(new), 2, 1, len(new))]
    assert outside < table.files()
    expected = dict.fromkeys(range(20), 0) | {2: -2, 15: -15} | ({100: -100, None: 1} if new else {})
    del expected[14]
    assert dict(table.rows("id, v")) == expected
    counts = {
        "numSourceRows": 3 + len(new),
        "numTargetRowsCopied": 0 if vectors else 1,
        "numTargetRowsInserted": len(new),
    }
    assert table.metrics(*counts) == counts
    if not vectors:
        assert not concerned & table.files()
        assert table.metrics("numTargetFilesRemoved") == {"numTargetFilesRemoved": 2}
    if changes:
        kinds = sorted((row[0], row[5]) for row in table.change_rows() if row[0] is not None)
        assert kinds == [
            (2, "update_postimage"),
            (2, "update_preimage"),
            (14, "delete"),
            (15, "update_postimage"),
            (15, "update_preimage"),
            *([(100, "insert")] if new else []),
        ]


@pytest.mark.covering
@pytest.mark.parametrize(
    ("source", "asked"),
    [
        ("SELECT * FROM {s}", False),
        ("SELECT v AS w, id AS k FROM (SELECT * FROM {s}) inner_one", False),
        ("SELECT * FROM {s} WHERE id < 5000", True),
        pytest.param("SELECT id + 0 AS id, v FROM {s}", True, marks=pytest.mark.soak),
    ],
    ids=["files", "renamed", "filtered", "computed"],
)
@pytest.mark.parametrize("kind", ["INT", "BIGINT"])
def test_keys_that_footers_tell_are_not_asked_for(large, spark, tmp_path, source, asked, kind):
    table = large(vectors=True)
    table.break_files(table.files_of("id NOT IN (18, 19)"))
    rows = f"SELECT CAST(id AS {kind}) AS id, 7 AS v FROM range(18, 1518, 1, 3)"
    spark.sql(f"INSERT OVERWRITE DIRECTORY '{tmp_path}/source' USING parquet {rows}")
    spark.read.parquet(f"{tmp_path}/source").createOrReplaceTempView("source_of_merge")
    on, v = ("t.id = s.k", "s.w") if " k " in source else ("t.id = s.id", "s.v")
    source = source.format(s="source_of_merge")
    text = f"MERGE INTO {{t}} t USING ({source}) s ON {on} WHEN MATCHED THEN UPDATE SET v = {v}"
    counts, jobs = table.jobs(text)
    assert counts == [(2, 2, 0, 0)]
    assert table.run("SELECT v FROM {t} WHERE id >= 18") == [(7,), (7,)]
    assert table.metrics("numSourceRows") == {"numSourceRows": 1500}
    assert (jobs > 2) == asked, jobs  # the source's own two: it is sent to the tasks, and joined


def test_no_file_is_left(large, scanned):
    table = large()
    table.break_files(table.files())
    merging = f"MERGE INTO {{t}} t USING {scanned('(50L, 1)', '(NULL, 2)')} s ON t.id = s.id"
    assert table.run(f"{merging} {UPSERT}") == [(2, 0, 0, 2)]
    assert table.run(f"{merging} AND s.id > 50 WHEN MATCHED THEN DELETE") == [(0, 0, 0, 0)]
    assert table.version == 2


@both
@pytest.mark.parametrize("changes", [False, True])
def test_files_left_without_a_match_stay(large, scanned, vectors, changes):
    table = large(vectors=vectors, changes=changes)
    files, source = table.files(), scanned("(2L, -2)", "(14L, -14)")
    merging = f"MERGE INTO {{t}} t USING {source} s ON t.id = s.id AND s.v > 0"
    assert table.run(f"{merging} {UPSERT}") == [(2, 0, 0, 2)]
    assert files < table.files()
    assert sorted(table.values("v")) == [-14, -2, *[0] * 20]
    before = table.state
    assert table.run(f"{merging} WHEN MATCHED THEN DELETE") == [(0, 0, 0, 0)]
    assert table.comes_to(before)


@pytest.mark.covering
@both
@pytest.mark.parametrize("changes", [False, True])
@pytest.mark.parametrize(
    ("clauses", "counts"),
    [
        ("WHEN MATCHED AND s.v = 2 THEN UPDATE SET v = s.v", (1, 1, 0, 0)),
        pytest.param("WHEN MATCHED AND s.v > 2 THEN UPDATE SET v = s.v", (0, 0, 0, 0), marks=pytest.mark.soak),
        ("WHEN MATCHED THEN DELETE", (1, 0, 1, 0)),
        ("WHEN MATCHED THEN UPDATE SET v = s.v", None),
    ],
)
def test_several_matches_in_the_files_left(large, scanned, fails, vectors, changes, clauses, counts):
    table = large(vectors=vectors, changes=changes)
    before = table.state
    merging = f"MERGE INTO {{t}} t USING {scanned('(5L, 1)', '(5L, 2)')} s ON t.id = s.id {clauses}"
    if counts is None:
        with fails("DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE"):
            table.run(merging)
        assert table.comes_to(before)
        return
    assert table.run(merging) == [counts]
    gone = {5} if counts[2] else set()
    assert table.values("id") == [i for i in range(20) if i not in gone]
    assert dict(table.rows("id, v")).get(5, 2) == (2 if counts[0] else 0)
    if changes and counts[0]:
        assert [row[5] for row in table.change_rows()].count("update_preimage") == counts[1]
        assert [row[5] for row in table.change_rows()].count("delete") == counts[2]
