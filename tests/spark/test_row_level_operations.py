"""Spark may ask whether it can run MERGE on a table, and does not plan DELETE, UPDATE and MERGE for that itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

_OPERATIONS = ("DELETE", "UPDATE", "MERGE")
_INSERT = "WHEN NOT MATCHED THEN INSERT *"
#: Statements that Spark's rules can resolve in one step, so that its own rewrites could come before ours.
STATEMENTS = {
    "delete": "DELETE FROM t WHERE id = 1",
    "delete all": "DELETE FROM t",
    "delete by a subquery of the target": "DELETE FROM t WHERE id IN (SELECT id - 1 FROM t)",
    "update of one column": "UPDATE t SET v = 'x' WHERE id = 1",
    "update of all columns": "UPDATE t SET id = 5L, v = 'x'",
    "merge that deletes": "MERGE INTO t USING u ON t.id = u.id WHEN MATCHED THEN DELETE",
    "merge that inserts": f"MERGE INTO t USING u ON t.id = u.id {_INSERT}",
    "merge of typed values": "MERGE INTO t USING u ON t.id = u.id "
    "WHEN MATCHED THEN UPDATE SET id = u.id, v = u.v WHEN NOT MATCHED THEN INSERT (id, v) VALUES (u.id, u.v)",
    "merge by source": f"MERGE INTO t USING u ON t.id = u.id {_INSERT} WHEN NOT MATCHED BY SOURCE THEN DELETE",
    "merge with itself": f"MERGE INTO t USING t AS s ON t.id = s.id + 1 WHEN MATCHED THEN DELETE {_INSERT}",
    "merge with a query of itself before": "WITH s AS (SELECT * FROM t) "
    "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN DELETE",
    "merge with a view of itself": "MERGE INTO t USING seen AS s ON t.id = s.id WHEN MATCHED THEN DELETE",
    "merge with evolution": "MERGE WITH SCHEMA EVOLUTION INTO t USING u ON t.id = u.id "
    f"WHEN MATCHED THEN DELETE {_INSERT}",
}


@pytest.fixture
def tables(spark: SparkSession, database: str) -> str:
    vectors = "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    spark.sql(f"CREATE TABLE t USING delta {vectors} AS SELECT id, string(id) AS v FROM range(0, 4, 1, 1)")
    spark.sql("CREATE TABLE u USING delta AS SELECT id, 'u' AS v FROM range(2, 6, 1, 1)")
    spark.sql("CREATE VIEW seen AS SELECT * FROM t WHERE id < 3")
    return database


def test_pipelines_are_told_that_they_may_merge(spark: SparkSession, tables: str) -> None:
    jvm = spark._jvm
    catalog = spark._jsparkSession.sessionState().catalogManager().catalog("spark_catalog")
    namespace = spark.sparkContext._gateway.new_array(jvm.java.lang.String, 1)
    namespace[0] = tables
    loaded = catalog.loadTable(jvm.org.apache.spark.sql.connector.catalog.Identifier.of(namespace, "t"))
    interface = jvm.java.lang.Class.forName("org.apache.spark.sql.connector.catalog.SupportsRowLevelOperations")
    assert interface.isInstance(loaded)


@pytest.mark.parametrize("name", STATEMENTS)
def test_statements_are_ours(spark: SparkSession, tables: str, name: str) -> None:
    statement = STATEMENTS[name]
    spark.sql(statement)
    newest = spark.sql("DESCRIBE HISTORY t").collect()[0]
    assert (newest.version, newest.operation) == (1, next(w for w in statement.split() if w in _OPERATIONS))


def test_the_merge_of_a_frame_is_ours(spark: SparkSession, tables: str, rows: Callable[..., Any]) -> None:
    from pyspark.sql import functions as F

    merge = spark.table("u").alias("u").mergeInto("t", F.col("t.id") == F.col("u.id"))
    merge.whenMatched().update({"t.v": F.col("u.v")}).whenNotMatched().insertAll().merge()
    assert rows("SELECT id, v FROM t ORDER BY id") == [
        (0, "0"), (1, "1"), (2, "u"), (3, "u"), (4, "u"), (5, "u")
    ]  # fmt: skip
    newest = spark.sql("DESCRIBE HISTORY t").collect()[0]
    assert (newest.version, newest.operation) == (1, "MERGE")
    assert newest.operationMetrics["numTargetDeletionVectorsAdded"] == "1"
