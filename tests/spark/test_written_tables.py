"""Spark's own query listeners and its SQL tab name the table that a statement wrote, and the plan has what it wrote.

``tests/interop/test_openlineage.py``, in the long run, has a listener of others tell of the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


class _Listener:
    """A query listener of Spark's that keeps the executions which ended well."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def onSuccess(self, name: str, execution: Any, nanoseconds: int) -> None:
        self.seen.append(execution)

    def onFailure(self, name: str, execution: Any, error: Any) -> None:
        pass

    class Java:
        implements = ["org.apache.spark.sql.util.QueryExecutionListener"]


@pytest.fixture
def listener(spark: SparkSession) -> Iterator[_Listener]:
    ensure_callback_server_started(spark.sparkContext._gateway)
    listening = _Listener()
    manager = spark._jsparkSession.listenerManager()
    manager.register(listening)
    yield listening
    manager.unregister(listening)


def _source(spark: SparkSession) -> Any:
    return spark.sql("SELECT * FROM VALUES (1, 'a'), (2, 'b'), (3, 'c') AS v(id, s)")


def _stream(spark: SparkSession, home: Path) -> None:
    query = (
        spark.readStream.table("wt_t")
        .writeStream.format("delta")
        .option("checkpointLocation", str(home / "checkpoint"))
        .trigger(availableNow=True)
        .toTable("wt_streamed")
    )
    query.awaitTermination()


#: Each kind of write in turn, on the table that those before it left: the table, and how many rows are written.
_KINDS: list[tuple[str, Any, str, int]] = [
    ("insert", "INSERT INTO wt_t VALUES (1, 'a'), (2, 'b'), (3, 'c')", "wt_t", 3),
    ("ctas", "CREATE TABLE wt_c USING delta AS SELECT * FROM wt_t", "wt_c", 3),
    ("overwrite", "INSERT OVERWRITE wt_t VALUES (1, 'a'), (2, 'b')", "wt_t", 2),
    ("by_path", lambda spark, home: _source(spark).write.format("delta").save(str(home / "wt_path")), "wt_path", 3),
    (
        "append_by_path",
        lambda spark, home: _source(spark).write.format("delta").mode("append").save(str(home / "wt_path")),
        "wt_path",
        3,
    ),
    ("delete", "DELETE FROM wt_t WHERE id = 2", "wt_t", 1),
    ("update", "UPDATE wt_t SET s = 'z' WHERE id = 1", "wt_t", 1),
    (
        "merge",
        "MERGE INTO wt_t USING wt_c ON wt_t.id = wt_c.id WHEN MATCHED THEN UPDATE SET s = wt_c.s "
        "WHEN NOT MATCHED THEN INSERT *",
        "wt_t",
        3,
    ),
    ("stream", _stream, "wt_streamed", 3),
    ("insert_again", "INSERT INTO wt_t VALUES (4, 'd')", "wt_t", 1),
    ("optimize", "OPTIMIZE wt_t", "wt_t", 4),
]


def _drain(spark: SparkSession) -> None:
    spark._jsc.sc().listenerBus().waitUntilEmpty()  # type: ignore[attr-defined]


def _newest(store: Any) -> list[Any]:
    """The newest executions that the SQL tab shows; it forgets old ones."""
    most = 50
    return list(_items(store.executionsList(max(0, int(store.executionsCount()) - most), most)))


def test_listeners_and_the_sql_tab_name_the_table(spark: SparkSession, listener: _Listener, tmp_path: Path) -> None:
    spark.sql("CREATE TABLE wt_t (id INT, s STRING) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    noted = spark._jvm.headwater.spark.bridge.NotedCommit  # type: ignore[union-attr]
    store = spark._jsparkSession.sharedState().statusStore()
    unnamed, counted, not_in_tab = [], {}, []
    try:
        for kind, write, table, rows in _KINDS:
            _drain(spark)
            listener.seen.clear()
            before = max((each.executionId() for each in _newest(store)), default=-1)
            spark.sql(write).collect() if isinstance(write, str) else write(spark, tmp_path)
            _drain(spark)
            made = [
                commit
                for execution in listener.seen
                for commit in _items(noted.of(execution.optimizedPlan()))
                if table in commit.location().path()
            ]
            counted[kind] = ([_value(commit.commit().rows()) for commit in made], [rows])
            if kind == "stream":  # Spark reports no micro-batch to query listeners, and shows it without its sink
                del counted[kind]
                continue
            if not any(table in execution.toString() for execution in listener.seen):
                unnamed.append(kind)
            shown = [each for each in _newest(store) if each.executionId() > before]
            if not any(table in each.physicalPlanDescription() for each in shown):
                not_in_tab.append(kind)
    finally:
        for table in ("wt_t", "wt_c", "wt_streamed"):
            spark.sql(f"DROP TABLE IF EXISTS {table}")
    assert {kind: found for kind, (found, expected) in counted.items() if found != expected} == {}
    assert unnamed == []
    assert not_in_tab == []


def test_a_quarantine_table_is_written_too(spark: SparkSession, listener: _Listener) -> None:
    spark.sql(
        "CREATE TABLE wt_bad (id INT, quarantine_reason ARRAY<STRING>, quarantine_time TIMESTAMP, quarantine_source "
        "STRUCT<table: STRING, operation: STRING>) USING delta TBLPROPERTIES ('headwater.quarantine' = 'true')"
    )
    spark.sql(
        "CREATE TABLE wt_good (id INT, CONSTRAINT c EXPECT (id > 0) ON VIOLATION QUARANTINE INTO wt_bad) USING delta"
    )
    noted = spark._jvm.headwater.spark.bridge.NotedCommit  # type: ignore[union-attr]
    try:
        _drain(spark)
        listener.seen.clear()
        spark.sql("INSERT INTO wt_good VALUES (1), (2), (-3)")
        _drain(spark)
        made = [commit for each in listener.seen for commit in _items(noted.of(each.optimizedPlan()))]
        found = {str(each.location().path()).rpartition("/")[2]: _value(each.commit().rows()) for each in made}
    finally:
        for table in ("wt_good", "wt_bad"):
            spark.sql(f"DROP TABLE IF EXISTS {table}")
    assert found == {"wt_good": 2, "wt_bad": 1}


def _items(sequence: Any) -> list[Any]:
    return [sequence.apply(position) for position in range(sequence.size())]


def _value(option: Any) -> Any:
    return option.get() if option.isDefined() else None
