"""Comet scans Delta tables natively where Spark's own Parquet class would read the same rows, and no others."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.comet import CometSpark, comet_jar, comet_spark, spark_packages
from support.fetched_packages import fetched_packages
from support.paths import ROOT

pytestmark = [pytest.mark.spark, pytest.mark.soak, pytest.mark.timeout(1800)]

_NATIVE = "CometNativeScan"
_ROWS = (
    "SELECT id, CAST(id % 3 AS INT) AS p, CAST(id AS STRING) AS s, id * 0.5D AS d, CAST(id AS DECIMAL(10, 2)) AS n, "
    "DATE'2020-01-01' + CAST(id % 100 AS INT) AS day, named_struct('a', id, 'b', array(id)) AS st FROM range(1000)"
)
_TABLES = {
    "plain": "",
    "parts": "PARTITIONED BY (p)",
    "mapped": "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
    "both": "PARTITIONED BY (p) TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
    "vectors": "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
    "tracked": "TBLPROPERTIES ('delta.enableRowTracking' = 'true')",
}
_QUERIES = [
    "SELECT * FROM {t} WHERE {i} = 7",
    "SELECT p, count(*), sum({i}), max(day), sum(n) FROM {t} WHERE {i} > 100 GROUP BY p ORDER BY p",
    "SELECT {i}, st.a, st.b[0] FROM {t} WHERE day = DATE'2020-01-05' ORDER BY {i}",
    "SELECT count(*) FROM {t} WHERE d > 20.5D AND s LIKE '1%'",
    "SELECT a.{i}, b.s FROM {t} AS a JOIN {t} AS b ON a.{i} = b.{i} + 1 WHERE a.p = 1 ORDER BY a.{i} LIMIT 5",
]


@pytest.fixture(scope="module")
def comet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CometSpark]:
    with comet_spark(tmp_path_factory.mktemp("comet")) as running:
        for table, how in _TABLES.items():
            running.query(f"CREATE TABLE {table} USING delta {how} AS {_ROWS}")
        for table in ("mapped", "both"):
            running.query(f"ALTER TABLE {table} RENAME COLUMN id TO number")
        running.query(f"CREATE TABLE files USING parquet AS {_ROWS}")
        yield running


def _of(table: str, query: str) -> str:
    return query.format(t=table, i="number" if table in ("mapped", "both") else "id")


@pytest.mark.parametrize("query", _QUERIES)
@pytest.mark.parametrize("table", _TABLES)
def test_it_scans_what_it_can_and_the_rows_are_the_same(comet: CometSpark, table: str, query: str) -> None:
    expected, _ = comet.query(_of("files", query))
    rows, plan = comet.query(_of(table, query))
    assert rows == expected
    assert _NATIVE in plan, plan


#: Tables of which some files have deletion vectors.
_MARKED = {
    "marked": "",
    "marked_parts": "PARTITIONED BY (p)",
    "marked_mapped": "PARTITIONED BY (p) TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
}
_GONE = (5, 17, 250, 251, 252)
_MARKED_QUERIES = [
    "SELECT count(*), sum(id), max(st.a) FROM {t} WHERE s <> ''",
    "SELECT p, count(s), sum(id), avg(d), sum(n), max(day) FROM {t} GROUP BY p ORDER BY p",
    "SELECT * FROM {t} WHERE id BETWEEN 3 AND 20 OR id BETWEEN 500 AND 510 ORDER BY id",
    "SELECT id, st FROM {t} WHERE p = 2 AND id < 500 ORDER BY id % 250, id LIMIT 70",
    "SELECT a.id, b.s FROM {t} a JOIN {t} b ON a.id = b.id + 1 WHERE a.p = 1 ORDER BY a.id",
    "SELECT a.p, count(*) FROM {t} a LEFT ANTI JOIN {t} b ON a.id = b.id + 100 GROUP BY a.p ORDER BY a.p",
    "WITH c AS (SELECT p, sum(id) AS x FROM {t} GROUP BY p) SELECT p, a.x + b.x FROM c a JOIN c b USING (p) ORDER BY 1",
    "SELECT count(*) FROM {t} WHERE id > (SELECT avg(id) FROM {t} WHERE p = 1)",
    "SELECT id FROM (SELECT id, rank() OVER (PARTITION BY p ORDER BY id DESC) AS r FROM {t}) WHERE r < 3 ORDER BY 1",
    "SELECT /*+ BROADCAST(k) */ t.p, sum(t.id) FROM {t} t JOIN keys k ON t.p = k.p WHERE k.name = 'two' GROUP BY t.p",
    "SELECT count(st), count(p) FROM {t}",
]
#: Settings under which other plans are made.
_PLANS: list[dict[str, str]] = [
    {},
    {"spark.comet.convert.parquet.enabled": "true"},
    {"spark.sql.adaptive.enabled": "false", "spark.comet.convert.parquet.enabled": "true"},
    {"spark.sql.adaptive.enabled": "false"},
    {"spark.comet.exec.columnarToRow.native.enabled": "true"},
    {"spark.comet.enabled": "false"},
]


@pytest.fixture(scope="module")
def marked(comet: CometSpark) -> CometSpark:
    gone = f"id IN ({', '.join(map(str, _GONE))})"
    for table, how in _MARKED.items():
        comet.query(f"CREATE TABLE {table} USING delta {how} AS {_ROWS} LIMIT 0")
        comet.query(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
        for low in range(0, 1000, 200):
            comet.query(f"INSERT INTO {table} SELECT * FROM ({_ROWS}) WHERE id >= {low} AND id < {low + 200}")
    comet.query("ALTER TABLE marked_mapped RENAME COLUMN st.a TO z")
    comet.query("ALTER TABLE marked_mapped RENAME COLUMN st.z TO a")
    for table in _MARKED:
        comet.query(f"DELETE FROM {table} WHERE {gone}")
    comet.query(f"CREATE TABLE unmarked USING parquet AS SELECT * FROM ({_ROWS}) WHERE NOT ({gone})")
    comet.query("CREATE TABLE keys USING delta AS SELECT * FROM VALUES (1, 'one'), (2, 'two') AS (p, name)")
    return comet


@contextmanager
def _set(comet: CometSpark, settings: dict[str, str]) -> Iterator[None]:
    for name, value in settings.items():
        comet.run(f"spark.conf.set({name!r}, {value!r})")
    try:
        yield
    finally:
        for name in settings:
            comet.run(f"spark.conf.unset({name!r})")


@pytest.mark.parametrize("table", _MARKED)
@pytest.mark.parametrize("settings", _PLANS, ids=str)
def test_files_with_deletion_vectors_are_read_beside_the_others(
    marked: CometSpark, table: str, settings: dict[str, str]
) -> None:
    """The scan is a union of Comet's, and of Headwater's, where Comet scans at all."""
    natively = settings != {"spark.comet.enabled": "false"}
    for query in _MARKED_QUERIES:
        expected, _ = marked.query(query.format(t="unmarked"))
        with _set(marked, settings):
            rows, plan = marked.query(query.format(t=table))
        assert rows == expected, plan
        assert (_NATIVE in plan) == natively, plan
        assert ("all with deletion vectors" in plan) == natively, plan


def test_files_of_one_kind_are_one_scan(marked: CometSpark) -> None:
    """Filters leave files out before they are divided, and other versions have other vectors."""
    rows, plan = marked.query("SELECT count(s) FROM marked WHERE id >= 400")
    assert (rows, _NATIVE in plan, "FileScan delta" in plan) == ([[600]], True, False), plan
    rows, plan = marked.query("SELECT count(s) FROM marked WHERE id < 200")
    assert (rows, _NATIVE in plan, "FileScan delta" in plan) == ([[198]], False, True), plan
    ((version,),) = marked.query("SELECT max(version) FROM (DESCRIBE HISTORY marked)")[0]
    before = f"marked VERSION AS OF {version - 1}"
    rows, plan = marked.query(f"SELECT count(s) FROM {before} WHERE s <> ''")
    assert (rows, _NATIVE in plan, "FileScan delta" in plan) == ([[1000]], True, False), plan
    rows, plan = marked.query(f"SELECT id FROM {before} EXCEPT ALL SELECT id FROM marked ORDER BY id")
    assert [row[0] for row in rows] == sorted(_GONE)


def test_keys_of_a_join_leave_out_partitions_of_both_scans(marked: CometSpark) -> None:
    query = "SELECT count(t.s) FROM marked_parts t JOIN keys k ON t.p = k.p WHERE k.name = 'two'"
    ((expected,),) = marked.query(query.replace("marked_parts", "unmarked"))[0]
    for settings in _PLANS[:4]:
        with _set(marked, {**settings, "spark.sql.optimizer.dynamicPartitionPruning.reuseBroadcastOnly": "false"}):
            rows, plan = marked.query(query)
        assert rows == [[expected]]
        assert _NATIVE in plan
        assert "dynamicpruning" in plan


def test_plans_that_are_kept_read_what_they_did(marked: CometSpark) -> None:
    """Cached rows, before and after a change, and a DataFrame that is run again."""
    marked.query("CREATE TABLE kept USING delta AS SELECT * FROM marked")
    marked.query("ALTER TABLE kept SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    marked.query("INSERT INTO kept SELECT * FROM marked WHERE id < 100")
    marked.query("DELETE FROM kept WHERE id = 1")
    total = "SELECT count(s), sum(id) FROM {}"
    first = [[1091, marked.query("SELECT sum(id) FROM marked")[0][0][0] + sum(range(100)) - 2 - 5 - 17]]
    assert marked.query(total.format("kept"))[0] == first
    marked.run("frame = spark.table('kept').select('id', 's')\nresult = None\nspark._kept = frame")
    assert marked.run("result = [spark._kept.count(), spark._kept.count()]") == [1091, 1091]
    marked.query("CACHE TABLE held AS SELECT id, s FROM kept")
    assert marked.query(total.format("held"))[0] == first
    marked.query("DELETE FROM kept WHERE id = 2")
    assert marked.query(total.format("held"))[0] == [[1089, first[0][1] - 4]]
    assert marked.run("result = spark._kept.where('s is not null').count()") == 1089
    marked.query("UNCACHE TABLE held")
    plan = marked.query("EXPLAIN SELECT s FROM kept")[0][0][0]
    assert _NATIVE in plan
    assert "all with deletion vectors" in plan


def test_statements_and_streams_over_files_with_deletion_vectors(marked: CometSpark) -> None:
    marked.query(
        "CREATE TABLE worked USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true') AS SELECT * FROM plain"
    )
    marked.query("INSERT INTO worked SELECT id + 1000, p, s, d, n, day, st FROM plain")
    marked.query("DELETE FROM worked WHERE id IN (1, 2)")
    marked.query("UPDATE worked SET s = 'x' WHERE id IN (3, 1500)")
    marked.query(
        "MERGE INTO worked t USING marked s ON t.id = s.id "
        "WHEN MATCHED AND s.id = 9 THEN DELETE WHEN NOT MATCHED THEN INSERT *"
    )
    marked.query("INSERT INTO worked SELECT id + 5000, p, s, d, n, day, st FROM worked WHERE id < 10")
    rows, plan = marked.query("SELECT count(s), sum(id), count_if(s = 'x') FROM worked")
    gone = [row[0] for row in marked.query("SELECT id FROM range(2000) EXCEPT SELECT id FROM worked ORDER BY id")[0]]
    assert gone == [9]
    kept = sum(range(2000)) - 9
    assert rows == [[1999 + 9, kept + sum(5000 + i for i in range(9)), 3]], plan
    streamed = marked.run(
        "writer = spark.readStream.table('worked').writeStream.format('delta').trigger(availableNow=True)\n"
        f"query = writer.option('checkpointLocation', {str(marked.home / 'offsets')!r}).toTable('streamed')\n"
        "query.awaitTermination()\nresult = spark.table('streamed').count()"
    )
    assert streamed == 2008
    marked.query("OPTIMIZE worked")
    rows, plan = marked.query("SELECT count(s) FROM worked WHERE s <> ''")
    assert (rows, _NATIVE in plan, "FileScan delta" in plan) == ([[2008]], True, False), plan


def test_it_reads_no_positions_of_rows(comet: CometSpark) -> None:
    """Once it does, a filter on positions can leave out the rows that deletion vectors name."""
    reasons = comet.run(
        "frame = spark.sql('SELECT id, _metadata.row_index FROM files WHERE id < 5')\n"
        "plan = frame._jdf.queryExecution().executedPlan()\n"
        "result = spark._jvm.org.apache.comet.ExtendedExplainInfo().generateExtendedInfo(plan)"
    )
    assert "Metadata column(s) _tmp_metadata_row_index is not supported" in reasons


def test_row_ids_are_read_by_spark(comet: CometSpark) -> None:
    rows, plan = comet.query("SELECT count(DISTINCT _metadata.row_id) FROM tracked")
    assert rows == [[1000]]
    assert _NATIVE not in plan


def test_columns_that_old_files_lack_are_null(comet: CometSpark) -> None:
    comet.query("CREATE TABLE evolved (id BIGINT) USING delta")
    comet.query("INSERT INTO evolved VALUES (1), (2)")
    comet.query("ALTER TABLE evolved ADD COLUMN s STRING")
    comet.query("INSERT INTO evolved VALUES (3, 'c')")
    rows, plan = comet.query("SELECT id, s FROM evolved WHERE id > 1 ORDER BY id")
    assert rows == [[2, None], [3, "c"]]
    assert _NATIVE in plan


def test_columns_whose_names_were_exchanged(comet: CometSpark) -> None:
    comet.query("CREATE TABLE swapped (a BIGINT, b BIGINT) USING delta")
    comet.query("INSERT INTO swapped VALUES (1, 100), (2, 200)")
    comet.query("ALTER TABLE swapped SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    for one, other in (("a", "x"), ("b", "a"), ("x", "b")):
        comet.query(f"ALTER TABLE swapped RENAME COLUMN {one} TO {other}")
    rows, plan = comet.query("SELECT a, b FROM swapped WHERE a > 150")
    assert rows == [[200, 2]]
    assert _NATIVE in plan


def test_a_column_called_in_files_what_a_partition_is_called(comet: CometSpark) -> None:
    comet.query("CREATE TABLE met (k INT, v INT) USING delta PARTITIONED BY (k)")
    comet.query("INSERT INTO met VALUES (1, 10), (2, 20)")
    comet.query("ALTER TABLE met SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    comet.query("ALTER TABLE met RENAME COLUMN v TO w")
    comet.query("ALTER TABLE met RENAME COLUMN k TO v")
    assert comet.query("SELECT w, v FROM met WHERE w > 5 ORDER BY w")[0] == [[10, 1], [20, 2]]
    comet.query("INSERT OVERWRITE met SELECT * FROM met")
    assert comet.query("SELECT w, v FROM met ORDER BY w")[0] == [[10, 1], [20, 2]]


@pytest.mark.parametrize("more", ["", ", u STRING COLLATE UTF8_LCASE", ", u VARIANT"])
def test_days_that_a_calendar_skips(comet: CometSpark, more: str) -> None:
    comet.query("DROP TABLE IF EXISTS days")
    comet.query(f"CREATE TABLE days (id INT, d DATE{more}) USING delta")
    comet.query("INSERT INTO days (id, d) VALUES (1, DATE'1582-10-10')")
    comet.query("INSERT INTO days (id, d) VALUES (2, DATE'2020-01-01')")
    for condition in ("= DATE'1582-10-10'", "IN (DATE'1582-10-10', DATE'1582-10-06')"):
        rows, plan = comet.query(f"SELECT * FROM days WHERE d {condition}")
        assert [row[0] for row in rows] == [1]
        assert (_NATIVE in plan) == (not more)


def test_widened_columns_are_read_by_spark(comet: CometSpark) -> None:
    comet.query("CREATE TABLE wide (id INT) USING delta TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
    comet.query("INSERT INTO wide VALUES (1), (2)")
    comet.query("ALTER TABLE wide ALTER COLUMN id TYPE BIGINT")
    comet.query("INSERT INTO wide VALUES (5000000000)")
    rows, plan = comet.query("SELECT id FROM wide WHERE id > 1 ORDER BY id")
    assert rows == [[2], [5000000000]]
    assert _NATIVE not in plan


def test_statements_that_change_rows_work(comet: CometSpark) -> None:
    comet.query(f"CREATE TABLE changed USING delta AS {_ROWS}")
    comet.query("DELETE FROM changed WHERE id < 10")
    comet.query("UPDATE changed SET s = 'x' WHERE id = 10")
    comet.query("MERGE INTO changed USING plain ON changed.id = plain.id WHEN NOT MATCHED THEN INSERT *")
    comet.query("OPTIMIZE changed")
    rows, _ = comet.query("SELECT count(*), sum(id), count_if(s = 'x') FROM changed")
    assert rows == [[1000, 499500, 1]]


def test_nothing_is_given_to_it_once_it_is_off(comet: CometSpark) -> None:
    comet.run("spark.conf.set('spark.comet.enabled', 'false')")
    try:
        _, plan = comet.query("SELECT sum(id) FROM plain WHERE s <> ''")
        assert _NATIVE not in plan
        assert "FileScan delta" in plan
    finally:
        comet.run("spark.conf.set('spark.comet.enabled', 'true')")


def test_tpc_h_has_the_same_answers_as_without_it(tmp_path: Path) -> None:
    """With deletion vectors and without; the bench exits with 1 if answers differ."""
    duckdb = fetched_packages("test-duckdb-1.1.3", "duckdb==1.1.3")
    done = subprocess.run(
        [*(sys.executable, "-m", "bench.lakehouse", "--comet", "--side", "ours", "--side", "spark", "--rounds", "0")]
        + ["--scale", "0.01", "--memory", "1g", "--spark", str(spark_packages()), "--directory", str(tmp_path)],
        env={**os.environ, "HEADWATER_COMET_JAR": comet_jar(), "PYTHONPATH": str(duckdb)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=1700,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("compared: q") == 2 * 22
    plain, vectors = re.findall(r"ours: Comet did (\d+) of (\d+) scans", done.stdout)
    assert plain[0] == plain[1]
    assert 0 < int(vectors[0]) < int(vectors[1])
