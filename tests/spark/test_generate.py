"""GENERATE symlink_format_manifest through Spark: its forms, what it writes, and that statements keep it up."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.log.snapshot import load_snapshot
from headwater.stores import LocalStore
from headwater.tables import DeltaTable

pytestmark = pytest.mark.spark

KEPT = "'delta.compatibility.symlinkFormatManifest.enabled' = 'true'"


def lines(path: Path) -> list[str]:
    """The data files that the manifests name, without their scheme."""
    found = (path / "_symlink_format_manifest").rglob("manifest")
    return sorted(line.removeprefix("file:") for file in found for line in file.read_text().splitlines())


def live(path: Path) -> int:
    return load_snapshot(str(path), LocalStore()).num_files


def rows_of_manifests(spark, path: Path) -> list[tuple]:
    """The rows that a reader of the manifests sees."""
    schema = "id INT"
    return sorted(tuple(row) for row in spark.read.schema(schema).parquet(*lines(path)).select("id").collect())


def test_each_form_of_the_statement_writes_manifests(spark, tmp_path, database, fails) -> None:
    path = tmp_path / "a t"
    spark.sql(f"CREATE TABLE t (id INT, p STRING) USING delta PARTITIONED BY (p) LOCATION '{path}'")
    spark.sql("INSERT INTO t SELECT id, 'a b:' || id % 2 || '/é%' FROM range(0, 10, 1, 1)")
    root = path / "_symlink_format_manifest"

    def generates(text: str, **parameters) -> None:
        for file in root.rglob("manifest"):
            file.write_text("")
        made = spark.sql(text, **parameters)
        assert made.columns == []
        assert made.collect() == []
        assert len(lines(path)) == 2
        assert rows_of_manifests(spark, path) == [(n,) for n in range(10)]

    generates("GENERATE symlink_format_manifest FOR TABLE t")
    generates("generate `SYMLINK_FORMAT_MANIFEST` for table spark_catalog.default.t;".replace("default", database))
    generates(f"GENERATE symlink_format_manifest FOR TABLE delta.`{path}`")
    generates(f"GENERATE symlink_format_manifest FOR TABLE '{path}'")
    generates("GENERATE symlink_format_manifest FOR TABLE IDENTIFIER(:t)", args={"t": "t"})
    generates("BEGIN GENERATE symlink_format_manifest FOR TABLE t; END")
    for table in (DeltaTable.forName(spark, "t"), DeltaTable.forPath(spark, str(path))):
        (root / "p=a b%3A0%2Fé%25" / "manifest").write_text("")
        table.generate("symlink_format_manifest")
        assert len(lines(path)) == 2
    assert live(path) == 2
    # Hidden: VACUUM leaves them alone.
    spark.sql("ALTER TABLE t SET TBLPROPERTIES ('delta.deletedFileRetentionDuration' = 'interval 0 hours')")
    before = lines(path)
    spark.sql("VACUUM t")
    assert lines(path) == before
    with fails("DELTA_MODE_NOT_SUPPORTED", "symlink_format_manifest"):
        spark.sql("GENERATE hudi FOR TABLE t")
    with fails("PARSE_SYNTAX_ERROR"):
        spark.sql("GENERATE symlink_format_manifest FOR TABLE t u v")
    spark.sql("CREATE TABLE p (a INT) USING parquet")
    with fails("DELTA_ONLY_OPERATION"):
        spark.sql("GENERATE symlink_format_manifest FOR TABLE p")
    spark.sql("ALTER TABLE t SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    spark.sql("DELETE FROM t WHERE id = 1")
    with fails("DELTA_UNSUPPORTED_GENERATE_WITH_DELETION_VECTORS", "REORG"):
        spark.sql("GENERATE symlink_format_manifest FOR TABLE t")
    spark.sql("ALTER TABLE t SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')")
    rule = "EXISTING_DELETION_VECTORS_WITH_INCREMENTAL_MANIFEST_GENERATION"
    with fails(f"DELTA_VIOLATE_TABLE_PROPERTY_VALIDATION_FAILED.{rule}", "REORG"):
        spark.sql(f"ALTER TABLE t SET TBLPROPERTIES ({KEPT})")
    spark.sql("REORG TABLE t APPLY (PURGE)")
    spark.sql(f"ALTER TABLE t SET TBLPROPERTIES ({KEPT})")
    assert len(rows_of_manifests(spark, path)) == 9


def test_statements_keep_them_up(spark, rows, tmp_path, database) -> None:
    path = tmp_path / "t"
    spark.sql(
        f"CREATE TABLE t USING delta PARTITIONED BY (p) LOCATION '{path}' "
        f"TBLPROPERTIES ({KEPT}) AS SELECT CAST(id AS INT) AS id, CAST(id % 3 AS INT) AS p FROM range(9)"
    )
    for statement in (
        "INSERT INTO t VALUES (20, 5)",
        "DELETE FROM t WHERE p = 1",
        "UPDATE t SET id = id + 100 WHERE id = 3",
        "MERGE INTO t USING (SELECT 6 AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET p = 8 "
        "WHEN NOT MATCHED THEN INSERT (id, p) VALUES (1, 1)",
        "INSERT INTO t REPLACE WHERE p = 5 SELECT 21, 5",
        "INSERT INTO t SELECT id, 2 FROM range(50, 60)",
        "OPTIMIZE t",
        "RESTORE TABLE t TO VERSION AS OF 0",
        "INSERT OVERWRITE t VALUES (1, 1), (2, 2)",
        "TRUNCATE TABLE t",
        "INSERT INTO t VALUES (4, 1)",
        f"CREATE OR REPLACE TABLE t USING delta TBLPROPERTIES ({KEPT}) AS SELECT 7 AS id",
    ):
        spark.sql(statement)
        assert len(lines(path)) == live(path), statement
        if live(path):
            assert rows_of_manifests(spark, path) == rows("SELECT id FROM t ORDER BY id"), statement
    checkpoint = tmp_path / "checkpoint"
    source = spark.readStream.format("delta").option("maxFilesPerTrigger", 1).load(str(path))
    target = tmp_path / "target"
    spark.sql(f"CREATE TABLE delta.`{target}` (id INT) USING delta TBLPROPERTIES ({KEPT})")
    query = source.writeStream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    query.format("delta").start(str(target)).awaitTermination()
    assert rows_of_manifests(spark, target) == [(7,)]
