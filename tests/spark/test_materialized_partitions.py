"""Partition columns in data files: every statement writes them where the table asks for it, and none reads them."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.requests import actions

FEATURE = "'delta.enableMaterializePartitionColumnsFeature' = 'true'"
PROPERTY = "'delta.writePartitionColumnsToParquet' = 'true'"
VECTORS = "'delta.enableDeletionVectors' = 'true'"
#: Each adds a data file: rows that are new, rows that changed, and rows that are copied beside them.
STATEMENTS = [
    "INSERT INTO {t} VALUES (1, 'x', 1), (2, '', 1), (3, NULL, 2), (4, 'x', 2)",
    "UPDATE {t} SET a = 10 WHERE a = 1",
    "UPDATE {t} SET p = 'moved' WHERE a = 4",
    "MERGE INTO {t} USING (SELECT 2 AS a, 'y' AS p UNION ALL SELECT 20, 'z') AS s ON {t}.a = s.a "
    "WHEN MATCHED THEN UPDATE SET a = 21 WHEN NOT MATCHED THEN INSERT (a, p, q) VALUES (s.a, s.p, 3)",
    "INSERT INTO {t} VALUES (30, 'w', 7), (31, 'w', 7)",
    "DELETE FROM {t} WHERE a = 30",
    "INSERT INTO {t} REPLACE WHERE a = 20 VALUES (20, 'z', 4)",
    "INSERT OVERWRITE {t} PARTITION (p = 'w', q = 7) VALUES (32)",
]
ROWS = [(10, "x", 1), (20, "z", 4), (21, None, 1), (3, None, 2), (32, "w", 7), (4, "moved", 2)]


def added(path):
    """The ``add`` and ``cdc`` actions of a table, by version."""
    versions = range(len(list((Path(path) / "_delta_log").glob("*.json"))))
    return [action for version in versions for kind in ("add", "cdc") for action in actions(path, version, kind)]


def in_file(path, action):
    return pq.ParquetFile(Path(path) / action["path"]).read().to_pydict()


@pytest.mark.parametrize(
    "properties",
    [
        pytest.param([FEATURE, "'delta.enableChangeDataFeed' = 'true'"], marks=pytest.mark.soak),
        [FEATURE, "'delta.columnMapping.mode' = 'id'", VECTORS, "'delta.enableRowTracking' = 'true'"],
        [PROPERTY],
    ],
    ids=["change data", "mapped, vectors, row ids", "property"],
)
def test_files_of_every_statement_have_them(spark, rows, database, tmp_path, properties):
    path = tmp_path / "t"
    spark.sql(
        f"CREATE TABLE t (a INT, p STRING, q INT) USING delta PARTITIONED BY (p, q) LOCATION '{path}' "
        f"TBLPROPERTIES ({', '.join(properties)})"
    )
    for statement in STATEMENTS:
        spark.sql(statement.replace("{t}", "t"))
    assert rows("SELECT * FROM t", ordered=False) == sorted(ROWS, key=repr)
    files = added(path)
    assert len(files) >= 10
    for action in files:
        columns = in_file(path, action)
        count = len(next(iter(columns.values())))
        for name, text in action["partitionValues"].items():
            assert set(map(str, columns[name])) == {str(text)}, (action, columns)
            assert name not in action.get("stats", "")
            assert len(columns[name]) == count
    if "changes" in str(properties):
        assert {action["path"].split("/")[0] for action in files} >= {"_change_data"}


def test_the_log_has_the_last_word(spark, rows, settings, tmp_path):
    """A file that says another partition than the log, as a table has whose partitions were renamed in place."""
    path = tmp_path / "t"
    table = f"delta.`{path}`"
    spark.sql(
        f"CREATE TABLE {table} (a INT, p INT) USING delta PARTITIONED BY (p) TBLPROPERTIES ({FEATURE}, {VECTORS})"
    )
    columns = {"p": [9] * 4, "a": list(range(4))}
    pq.write_table(pa.table({k: pa.array(v, pa.int32()) for k, v in columns.items()}), path / "f.parquet")
    add = {"path": "f.parquet", "partitionValues": {"p": "1"}, "dataChange": True, "modificationTime": 1}
    add["size"] = (path / "f.parquet").stat().st_size
    (path / "_delta_log" / f"{1:020d}.json").write_text(json.dumps({"add": add}))
    for vectorized in ("true", "false"):
        with settings({"spark.sql.parquet.enableVectorizedReader": vectorized}):
            assert rows(f"SELECT a, p FROM {table} WHERE p = 1 ORDER BY a") == [(i, 1) for i in range(4)]
            assert rows(f"SELECT a FROM {table} WHERE p = 9") == []
    spark.sql(f"UPDATE {table} SET a = 40 WHERE a = 3 AND p = 1")
    assert rows(f"SELECT * FROM {table} ORDER BY a") == [(0, 1), (1, 1), (2, 1), (40, 1)]
    assert {tuple(in_file(path, action)["p"]) for action in added(path)} == {(9, 9, 9, 9), (1,)}


def test_only_tables_that_ask_for_them_have_them(spark, tmp_path):
    path = tmp_path / "t"
    table = f"delta.`{path}`"
    spark.sql(f"CREATE TABLE {table} (a INT, p INT) USING delta PARTITIONED BY (p)")
    spark.sql(f"INSERT INTO {table} VALUES (1, 1)")
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ({FEATURE})")
    spark.sql(f"INSERT INTO {table} VALUES (2, 1)")
    # The feature stays when the property goes.
    spark.sql(f"ALTER TABLE {table} UNSET TBLPROPERTIES ('delta.enableMaterializePartitionColumnsFeature')")
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.writePartitionColumnsToParquet' = 'false')")
    spark.sql(f"INSERT INTO {table} VALUES (3, 1)")
    assert [list(in_file(path, action)) for action in added(path)] == [["a"], ["a", "p"], ["a", "p"]]
