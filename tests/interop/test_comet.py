"""Comet scans Delta tables natively where Spark's own Parquet class would read the same rows, and no others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.comet import CometSpark, comet_spark

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


def test_it_reads_no_file_that_lost_rows(comet: CometSpark) -> None:
    comet.query(f"CREATE TABLE marked USING delta {_TABLES['vectors']} AS {_ROWS}")
    comet.query("DELETE FROM marked WHERE id = 5")
    rows, plan = comet.query("SELECT count(*), sum(id) FROM marked WHERE id < 10 AND s <> ''")
    assert rows == [[9, 40]]
    assert _NATIVE not in plan


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
