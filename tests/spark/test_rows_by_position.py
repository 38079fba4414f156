"""Rows that an index has are read by their positions, and no others, whatever the file is like."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from support.dml_table import Table
from support.other_writers import COLUMNS, ROWS, WRITERS, adopt, arrow

pytestmark = pytest.mark.spark

#: What a value by value reader knows; of others, a file is read as a whole.
FLAT = [name for name in COLUMNS if name != "s"]
#: Rows of which each takes some hundred bytes, in files of several row groups and many pages, with random keys.
SELECTED = (
    "SELECT CAST(id AS STRING) AS k, id, IF(id % 5 = 0, NULL, concat(sha2(string(id), 512), id)) AS a, "
    "concat('b', id % 7) AS b, CAST(id AS DECIMAL(20, 2)) AS d, 0 AS v, id % 2 AS p"
)
_COLUMNS = "k STRING, id BIGINT, a STRING, b STRING, d DECIMAL(20, 2), v INT, p BIGINT"


@pytest.fixture(autouse=True)
def _always(settings: Any) -> Any:
    with settings({"spark.headwater.keyIndex": "always", "spark.headwater.merge.smallTargetBytes": "1"}):
        yield


@pytest.mark.parametrize(
    "writer", [name if name == "other encodings" else pytest.param(name, marks=pytest.mark.soak) for name in WRITERS]
)
def test_values_are_those_of_their_rows_whoever_wrote_the_file(spark, tmp_path, writer):
    columns = ", ".join(f"{name} {COLUMNS[name][0]}" for name in FLAT)
    table = Table(spark, tmp_path / "t", columns, vectors=True)
    adopt(table, arrow(names=FLAT), write_page_index=True, **WRITERS[writer])
    adopt(table, arrow(nulls=False, names=FLAT), **WRITERS[writer])
    table.run("CREATE INDEX by_id ON {t} (id)")
    expected = table.rows()
    at = FLAT.index("v")
    for number, wanted in enumerate([[0, 1099, 1100, ROWS - 1, ROWS], range(7, ROWS, 70), [1101]]):
        condition = f"id IN ({', '.join(map(str, wanted))})"
        expected = [(*row[:at], number + 1, *row[at + 1 :]) if row[0] in wanted else row for row in expected]
        found = sum(row[0] in wanted for row in expected)
        assert table.run(f"UPDATE {{t}} SET v = {number + 1} WHERE {condition}") == [(found,)]
        assert table.rows() == sorted(expected, key=repr)


def spoil(path: Path, first: int, last: int) -> None:
    """Overwrites the part of a file between two shares of its length, in thousandths."""
    data = bytearray(path.read_bytes())
    start, end = len(data) * first // 1000, len(data) * last // 1000
    data[start:end] = b"\xff" * (end - start)
    path.write_bytes(bytes(data))


def pages_of_first_column(spark: Any, path: Path) -> int:
    """Of the first row group of a file."""
    hadoop, parquet = spark._jvm.org.apache.hadoop, spark._jvm.org.apache.parquet.hadoop
    opened = parquet.util.HadoopInputFile.fromPath(hadoop.fs.Path(str(path)), hadoop.conf.Configuration())
    reader = parquet.ParquetFileReader.open(opened)
    try:
        column = reader.getRowGroups().get(0).getColumns().get(0).getPath()
        return int(reader.getColumnIndexStore(0).getOffsetIndex(column).getPageCount())
    finally:
        reader.close()


@pytest.mark.parametrize("declared_first", [True, False])
def test_no_page_is_read_that_has_none_of_the_rows(spark, tmp_path, settings, declared_first):
    """Files of a table with an index have small pages."""
    with settings({} if declared_first else {"parquet.page.row.count.limit": "1000"}):
        table = Table(spark, tmp_path / "t", "k STRING, v INT", vectors=True)
        if declared_first:
            table.run("ALTER TABLE {t} SET TBLPROPERTIES ('headwater.index.by_k.columns' = 'k')")
        table.run("INSERT INTO {t} SELECT sha2(string(id), 512), 0 FROM range(0, 60000, 1, 1)")
    table.run("CREATE INDEX IF NOT EXISTS by_k ON {t} (k)")
    (path,) = table.path.glob("part-*.parquet")
    (path.parent / f".{path.name}.crc").unlink()
    assert pq.read_metadata(path).num_row_groups == 1
    assert pages_of_first_column(spark, path) == 60
    spoil(path, 300, 700)
    assert table.run("UPDATE {t} SET v = 1 WHERE k = sha2('5', 512)") == [(1,)]
    assert table.run("DELETE FROM {t} WHERE k IN (sha2('59999', 512), 'none')") == [(1,)]
    with pytest.raises(Exception, match=r"\[HEADWATER_DATA_FILE_DAMAGED\]"):
        table.run("UPDATE {t} SET v = 1 WHERE k = sha2('30000', 512)")


@pytest.mark.parametrize("used", ["always", "never"])
def test_a_damaged_file_is_skipped_where_the_session_says_so(spark, tmp_path, settings, used):
    with settings({"parquet.page.row.count.limit": "1000"}):
        table = Table(spark, tmp_path / "t", "k STRING, v INT", vectors=True)
        table.run("INSERT INTO {t} SELECT sha2(string(id), 512), 0 FROM range(0, 60000, 1, 2)")
    table.run("CREATE INDEX by_k ON {t} (k)")
    (name,) = {name for (name,) in table.run("SELECT _metadata.file_name FROM {t} WHERE k = sha2('15000', 512)")}
    (table.path / f".{name}.crc").unlink()
    spoil(table.path / name, 300, 700)
    with settings({"spark.sql.files.ignoreCorruptFiles": "true", "spark.headwater.keyIndex": used}):
        assert table.run("UPDATE {t} SET v = 1 WHERE k IN (sha2('15000', 512), sha2('45000', 512))") == [(1,)]
        assert table.run("DELETE FROM {t} WHERE k = sha2('15000', 512)") == [(0,)]


def test_long_texts_of_a_dictionary_are_not_all_in_memory(spark, tmp_path):
    """1500 rows of 300 kB, of which the file has three."""
    columns = "k INT, v INT, a STRING, b STRING"
    long = "array_join(transform(sequence(1, 140), i -> sha2(string(id * 1000 + i), 512)), '')"
    rows = f"SELECT int(id), 0, {long}, repeat(string(id % 3), 300000) FROM range(0, 1500, 1, 1)"
    table = Table(spark, tmp_path / "t", columns, rows, vectors=True)
    table.run("CREATE INDEX by_k ON {t} (k)")
    (path,) = table.path.glob("part-*.parquet")
    assert path.stat().st_size > 1500 * 8192
    assert table.run(f"UPDATE {{t}} SET v = 1 WHERE k IN ({', '.join(map(str, range(1500)))})") == [(1500,)]
    assert table.run("SELECT v, count(*), sum(length(b)) FROM {t} GROUP BY v") == [(1, 1500, 450_000_000)]


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(2, 30))])
def test_random_statements_change_what_they_change_without_an_index(spark, tmp_path, settings, seed):
    draw = random.Random(seed)
    mode = draw.choice(["none", "name", "id"])
    properties = [
        f"'delta.columnMapping.mode' = '{mode}'",
        f"'delta.enableRowTracking' = '{str(draw.random() < 0.5).lower()}'",
    ]
    shape = {"vectors": True, "changes": draw.random() < 0.5, "partitioned": draw.choice(["", "p"])}
    twins = [Table(spark, tmp_path / name, _COLUMNS, properties=properties, **shape) for name in ("t", "u")]
    writing = {
        "parquet.page.row.count.limit": str(draw.choice([300, 20000])),
        "parquet.block.size": str(draw.choice([500_000, 128 << 20])),
        "parquet.writer.version": draw.choice(["v1", "v2"]),
        "parquet.enable.dictionary": str(draw.random() < 0.5).lower(),
    }
    with settings(writing):
        for table in twins:
            table.run(f"INSERT INTO {{t}} {SELECTED} FROM range(0, 50000, 1, 2)")
            table.run("ALTER TABLE {t} ADD COLUMN new INT")
    twins[0].run("CREATE INDEX by_k ON {t} (k)")
    reading = {"spark.sql.files.maxPartitionBytes": str(draw.choice([700_000, 128 << 20]))}
    for step in range(8):
        keys = [draw.randrange(51_000) for _ in range(draw.choice([1, 3, 100]))]
        listed = ", ".join(f"'{key}'" for key in keys)
        extra = draw.choice(["", " AND a IS NOT NULL", " AND b = 'b3'", " AND p = 1"])
        source = (
            f"(SELECT DISTINCT CAST(n AS STRING) AS k, n FROM (SELECT explode(array({', '.join(map(str, keys))})) n))"
        )
        statement = draw.choice(
            [
                f"UPDATE {{t}} SET v = {step}, new = v WHERE k IN ({listed}){extra}",
                f"DELETE FROM {{t}} WHERE k IN ({listed}){extra}",
                f"MERGE INTO {{t}} t USING {source} s ON t.k = s.k{extra.replace('AND ', 'AND t.')} "
                f"WHEN MATCHED AND t.id % 3 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET v = t.v + 1, d = s.n "
                "WHEN NOT MATCHED THEN INSERT (k, id, b, p) VALUES (s.k, s.n, 'new', s.n % 2)",
            ]
        )
        answers = []
        for table, used in zip(twins, ["always", "never"], strict=True):
            with settings({**reading, "spark.headwater.keyIndex": used}):
                answers.append(table.run(statement))
        assert answers[0] == answers[1], statement
    assert twins[0].rows() == twins[1].rows()
    if shape["changes"]:
        columns = "k, id, a, v, new, p, _change_type, _commit_version"
        feeds = [table.run(f"SELECT {columns} FROM table_changes_by_path('{table.path}', 3)") for table in twins]
        # The index's property is a version of its own.
        shifted = [(*row[:-1], row[-1] + 1) for row in feeds[1]]
        assert sorted(feeds[0], key=repr) == sorted(shifted, key=repr)
