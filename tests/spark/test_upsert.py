"""Upserts: writes with ``idCols``, by every writer and with every option; and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

from headwater.tables import DeltaTable

Row = tuple[Any, ...]
COLUMNS = "id INT, at INT, v STRING, gone BOOLEAN"
ORDERED = {"idCols": "id", "sequenceBy": "at", "deleteWhen": "gone", "exceptColumns": "gone"}


class Upserted:
    """A table at a path, and writes to it by key."""

    def __init__(self, spark: Any, path: Path) -> None:
        self.spark, self.path = spark, path

    def write(self, rows: Sequence[Row] | str, schema: str = COLUMNS, mode: str = "append", **options: Any) -> None:
        """Upsert rows, or those of a query; by the column ``id`` unless the options say otherwise."""
        frame = self.spark.sql(rows) if isinstance(rows, str) else self.spark.createDataFrame(rows, schema)
        frame.write.format("delta").mode(mode).options(**{"idCols": "id", **options}).save(str(self.path))

    @property
    def rows(self) -> list[Row]:
        return sorted(map(tuple, self.spark.read.format("delta").load(str(self.path)).collect()), key=repr)

    def history(self) -> list[Any]:
        return self.spark.sql(f"DESCRIBE HISTORY delta.`{self.path}`").collect()

    @property
    def version(self) -> int:
        return self.history()[0].version

    def companions(self) -> list[Path]:
        return sorted((self.path / "_headwater_upsert").glob("*/_delta_log"))


@pytest.fixture
def table(spark: Any, tmp_path: Path) -> Upserted:
    return Upserted(spark, tmp_path / "t")


def refused(condition: str, attempt: Callable[[], Any], *words: str) -> None:
    with pytest.raises(PySparkException) as caught:
        attempt()
    assert caught.value.getCondition() == condition, caught.value
    assert [word for word in words if word not in str(caught.value)] == []


def test_rows_with_known_keys_are_replaced(table):
    """The first write makes the table; each write is one commit; the history says what it was."""
    table.write([(1, 1, "a", False), (2, 1, "b", False)])
    table.write([(1, 2, "A", False), (3, 1, "c", False)])
    assert table.rows == [(1, 2, "A", False), (2, 1, "b", False), (3, 1, "c", False)]
    newest, first = table.history()
    assert (first.operation, newest.operation, newest.version) == ("WRITE", "MERGE", 1)
    assert json.loads(newest.operationParameters["idCols"]) == ["id"]
    assert json.loads(newest.operationParameters["predicate"]) == ["target.id = event.id"]
    assert newest.operationMetrics["numTargetRowsUpdated"] == newest.operationMetrics["numTargetRowsInserted"] == "1"


def test_the_newest_event_of_a_key_wins(table):
    """In a batch and against the table, in any order; an equal one replaces; repeated ones are one."""
    events = [(1, 1, "old", False), (1, 3, "new", False), (1, 2, "mid", False), (2, 5, "x", False), (2, 5, "x", False)]
    table.write(events, **ORDERED)
    assert table.rows == [(1, 3, "new"), (2, 5, "x")]
    table.write([(1, 2, "late", False), (2, 5, "again", False), (3, 1, "c", False)], **ORDERED)
    assert table.rows == [(1, 3, "new"), (2, 5, "again"), (3, 1, "c")]


def test_a_deleted_key_stays_deleted(table):
    """An event older than the deletion loses, whether the row was there or not; a newer one brings the key back."""
    table.write([(1, 1, "a", False), (2, 6, None, True), (4, 1, "d", False)], **ORDERED)
    assert table.rows == [(1, 1, "a"), (4, 1, "d")]
    table.write([(1, 6, None, True), (3, 6, None, True), (4, 0, None, True)], **ORDERED)
    assert table.rows == [(4, 1, "d")]
    table.write([(1, 5, "late", False), (2, 5, "late", False), (3, 5, "late", False)], **ORDERED)
    assert table.rows == [(4, 1, "d")]
    table.write([(1, 7, "back", False)], **ORDERED)
    assert table.rows == [(1, 7, "back"), (4, 1, "d")]
    assert len(table.companions()) == 1


def test_the_companion_is_only_made_where_it_is_needed(table):
    table.write([(1, 1, "a", False)], deleteWhen="gone")
    table.write([(1, 1, "a", True), (2, 2, "b", False)], deleteWhen="gone")
    table.write([(2, 1, "b", False)], sequenceBy="at")
    table.write([(3, 1, "b", False)], sequenceBy="at", deleteWhen="gone")
    assert table.rows == [(2, 2, "b", False), (3, 1, "b", False)]
    assert table.companions() == []


def test_a_table_that_replaces_another_forgets_its_deletions(table):
    """As does one that is upserted by other keys; renamed keys are the same ones."""
    settings = "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    table.spark.sql(f"CREATE TABLE delta.`{table.path}` (id INT, at INT, v STRING) USING delta {settings}")
    table.write([(1, 9, None, True)], **ORDERED)
    table.spark.sql(f"ALTER TABLE delta.`{table.path}` RENAME COLUMN id TO number")
    table.write([(1, 5, "late", False)], COLUMNS.replace("id", "number"), **{**ORDERED, "idCols": "number"})
    assert table.rows == []
    table.spark.sql(f"CREATE OR REPLACE TABLE delta.`{table.path}` (id INT, at INT, v STRING) USING delta")
    table.write([(1, 5, "first", False)], **ORDERED)
    assert table.rows == [(1, 5, "first")]


def test_every_writer_upserts(spark, database):
    """``saveAsTable``, ``writeTo``, ``insertInto``, INSERT in SQL, and ``DeltaTable.upsert``."""

    def frame(*rows: Row) -> Any:
        return spark.createDataFrame(rows, "id INT, at INT, v STRING")

    frame((1, 1, "a"), (1, 2, "b"), (2, 1, "z")).write.format("delta").options(
        idCols="id", sequenceBy="at"
    ).saveAsTable("t")
    frame((1, 3, "saved")).write.format("delta").mode("append").option("idCols", "id").saveAsTable("t")
    assert sorted(spark.table("t").collect()) == [(1, 3, "saved"), (2, 1, "z")]
    frame((1, 4, "written")).writeTo("t").option("idCols", "id").append()
    positions = frame((2, 4, "inserted")).toDF("x", "y", "z")
    positions.write.format("delta").option("idCols", "id").insertInto("t")
    assert sorted(spark.table("t").collect()) == [(1, 4, "written"), (2, 4, "inserted")]
    spark.sql("INSERT INTO t WITH (idCols = 'id', sequenceBy = 'at') VALUES (1, 2, 'late'), (2, 5, 'sql')")
    assert sorted(spark.table("t").collect()) == [(1, 4, "written"), (2, 5, "sql")]
    gone = spark.sql("SELECT 1 AS id, 6 AS at, 'x' AS v, true AS gone")
    DeltaTable.forName(spark, "t").upsert(gone, ["id"], sequenceBy="at", deleteWhen="gone", exceptColumns=["gone"])
    assert sorted(spark.table("t").collect()) == [(2, 5, "sql")]
