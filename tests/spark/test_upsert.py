"""Upserts: writes with ``idCols``, by every writer and with every option; and what is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

from headwater.log.snapshot import load_snapshot
from headwater.statements.upserts.deleted_keys_files import _LARGE, _MOST_SMALL
from headwater.stores import LocalStore
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

    @property
    def files(self) -> list[Path]:
        return sorted(file for file in self.path.rglob("*") if file.is_file() and file.suffix not in (".crc", ".tmp"))

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


def test_a_deleted_row_stays_deleted_whatever_becomes_of_the_definition(table):
    """While the table stays the same one: its mapping ends, another engine dates it, a schema is overwritten."""
    settings = "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    run, name = table.spark.sql, f"delta.`{table.path}`"
    run(f"CREATE TABLE {name} (id INT, at INT, v STRING) USING delta {settings}")
    late = [(1, 5, "late", False)]
    table.write([(1, 9, None, True), (2, 1, "b", False)], **ORDERED)
    run(f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'none')")
    table.write(late, **ORDERED)
    snapshot = load_snapshot(str(table.path), LocalStore())
    lines = [line for file in table.path.glob("_delta_log/*.json") for line in file.read_text().splitlines()]
    dated = json.loads([line for line in sorted(lines) if '"metaData"' in line][-1])
    dated["metaData"].update(createdTime=1, schemaString=snapshot.metadata.schema_string, configuration={})
    (table.path / "_delta_log" / f"{snapshot.version + 1:020}.json").write_text(json.dumps(dated))
    table.write(late, **ORDERED)
    frame = table.spark.createDataFrame([(2, 1, "b")], "id INT, at INT, v STRING")
    overwriting = frame.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
    overwriting.save(str(table.path))
    table.write(late, **ORDERED)
    assert table.rows == [(2, 1, "b")]
    assert len(table.companions()) == 1


def test_a_row_that_came_back_is_compared_with_itself(table):
    """RESTORE, INSERT or an overwrite has put it there after the deletion of its key: each newer event replaces it, or
    deletes it; where no row is, the deletion counts as before."""
    table.write([(1, 1, "a", False), (2, 1, "b", False), (3, 1, "c", False)], **ORDERED)
    table.write([(id, 9, None, True) for id in (1, 2, 3)], **ORDERED)
    table.spark.sql(f"RESTORE TABLE delta.`{table.path}` TO VERSION AS OF 0")
    table.write([(1, 5, "newer", False), (2, 0, "older", False), (3, 4, None, True)], **ORDERED)
    assert table.rows == [(1, 5, "newer"), (2, 1, "b")]
    table.write([(3, 5, "late", False)], **ORDERED)
    assert table.rows == [(1, 5, "newer"), (2, 1, "b")]
    table.spark.sql(f"INSERT INTO delta.`{table.path}` VALUES (3, 1, 'inserted')")
    table.write([(3, 6, "newer", False)], **ORDERED)
    assert table.rows == [(1, 5, "newer"), (2, 1, "b"), (3, 6, "newer")]
    table.spark.sql(f"INSERT OVERWRITE delta.`{table.path}` VALUES (1, 2, 'written'), (2, 2, 'written')")
    table.write([(1, 3, "newer", False), (2, 1, "older", False), (3, 7, "late", False)], **ORDERED)
    assert table.rows == [(1, 3, "newer"), (2, 2, "written")]


def test_a_companion_that_was_removed_is_forgotten(table):
    table.write([(1, 9, None, True), (2, 9, None, True)], **ORDERED)
    shutil.rmtree(table.path / "_headwater_upsert")
    table.write([(1, 5, "late", False), (3, 9, None, True)], **ORDERED)
    table.write([(2, 5, "late", False), (3, 5, "late", False)], **ORDERED)
    assert table.rows == [(1, 5, "late"), (2, 5, "late")]


@pytest.mark.soak
def test_a_companion_of_many_deletions(table):
    """Only those of the events' keys are compared; many small files are written together."""
    deleted = "SELECT CAST(id AS INT) AS id, 9 AS at, '' AS v, true AS gone FROM range(0, 600000, 1, 1)"
    table.write(deleted, **ORDERED)
    table.write([(-1, 9, None, True)], **ORDERED)
    (log,) = table.companions()
    assert max(file.stat().st_size for file in log.parent.glob("*.parquet")) > _LARGE
    (add,) = (line for line in (log / f"{1:020}.json").read_text().splitlines() if '"headwater.batch"' in line)
    path = json.loads(add)["add"]["path"]
    for number in range(_MOST_SMALL):
        shutil.copy(log.parent / path, log.parent / f"{number}-{path}")
    copies = [add.replace(path, f"{number}-{path}") for number in range(_MOST_SMALL)]
    (log / f"{2:020}.json").write_text("\n".join(copies) + "\n")
    events = [(5, 8, "late", False), (-1, 8, "late", False), (7, 10, "new", False), (700000, 1, None, True)]
    table.write(events, **ORDERED)
    assert table.rows == [(7, 10, "new")]
    left = load_snapshot(str(log.parent), LocalStore()).files
    assert sorted(json.loads(stats)["numRecords"] for stats in left["stats"].to_pylist()) == [1, 600001]
    table.write([(-1, 8, "late", False), (700000, 0, "late", False)], **ORDERED)
    assert table.rows == [(7, 10, "new")]


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
    # Without a format, Spark keeps the options only where the default is one of ours.
    spark.conf.set("spark.sql.sources.default", "delta")
    positions.selectExpr("x", "y", "'default'").write.option("idCols", "id").insertInto("t")
    spark.conf.unset("spark.sql.sources.default")
    assert sorted(spark.table("t").collect()) == [(1, 4, "written"), (2, 4, "default")]
    spark.sql("INSERT INTO t WITH (idCols = 'id', sequenceBy = 'at') VALUES (1, 2, 'late'), (2, 5, 'sql')")
    assert sorted(spark.table("t").collect()) == [(1, 4, "written"), (2, 5, "sql")]
    gone = spark.sql("SELECT 1 AS id, 6 AS at, 'x' AS v, true AS gone")
    DeltaTable.forName(spark, "t").upsert(gone, ["id"], sequenceBy="at", deleteWhen="gone", exceptColumns=["gone"])
    assert sorted(spark.table("t").collect()) == [(2, 5, "sql")]


def test_columns_are_matched_by_name(table):
    """One that the rows lack keeps its value in an update; an insert gives it its default, or null."""
    properties = "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
    columns = "id INT, v STRING DEFAULT 'new', n INT, g INT GENERATED ALWAYS AS (id * 2)"
    table.spark.sql(f"CREATE TABLE delta.`{table.path}` ({columns}) USING delta {properties}")
    table.write("SELECT 7 AS n, 1 AS ID, 'a' AS v")
    table.write("SELECT '1' AS id, 8L AS n UNION ALL SELECT '2', 9L")
    assert table.rows == [(1, "a", 8, 2), (2, "new", 9, 4)]
    refused("DELTA_METADATA_MISMATCH", lambda: table.write("SELECT 1 AS id, 1 AS more"), "more")
    table.write("SELECT 1 AS id, 1 AS more", mergeSchema=True)
    assert table.rows == [(1, "a", 8, 2, 1), (2, "new", 9, 4, None)]


def test_nulls_can_leave_the_stored_values(table):
    table.write([(1, 1, "a", False), (2, 1, None, False)])
    table.write([(1, 2, None, None), (3, 1, None, True)], ignoreNullUpdates=True)
    assert table.rows == [(1, 2, "a", False), (2, 1, None, False), (3, 1, None, True)]


def test_changes_marks_and_partitions_are_those_of_a_merge(table):
    properties = "'delta.enableDeletionVectors' = 'true', 'delta.enableChangeDataFeed' = 'true'"
    columns = "id INT, part STRING, at INT"
    table.spark.sql(
        f"CREATE TABLE delta.`{table.path}` ({columns}) USING delta PARTITIONED BY (part) TBLPROPERTIES ({properties})"
    )
    options = {"idCols": "part,id", "sequenceBy": "at", "deleteWhen": "gone", "exceptColumns": "gone"}
    made = "SELECT CAST(id AS INT), IF(id < 5, 'a', 'b') AS part, 1 AS at, false AS gone FROM range(0, 10, 1, 1)"
    table.write(made, **options)
    table.write("SELECT 3 AS id, 'a' AS part, 2 AS at, true AS gone UNION ALL SELECT 3, 'b', 2, true", **options)
    changed = f"SELECT id, part, at, _change_type FROM table_changes_by_path('{table.path}', 2)"
    assert [tuple(row) for row in table.spark.sql(changed).collect()] == [(3, "a", 1, "delete")]
    newest = table.history()[0]
    assert newest.operationMetrics["numTargetDeletionVectorsAdded"] == "1"
    table.write("SELECT 3 AS id, 'b' AS part, 1 AS at, false AS gone", **options)
    assert len(table.rows) == 9


def test_an_identified_batch_is_written_once(table):
    """A repeated one does nothing, though other writers came between; nor does one that changed nothing."""
    table.write([(1, 1, "a", False)], txnAppId="app", txnVersion=1)
    table.write([(1, 2, "b", False)])
    table.write([(1, 1, "a", False)], txnAppId="app", txnVersion=1)
    assert (table.version, table.rows) == (1, [(1, 2, "b", False)])
    table.write([(1, 1, "late", False)], sequenceBy="at", txnAppId="app", txnVersion=2)
    table.write([(1, 3, "c", False)], sequenceBy="at", txnAppId="app", txnVersion=2)
    assert (table.version, table.rows) == (2, [(1, 2, "b", False)])


#: By type a value; another one; and the same as that, written otherwise.
KEYS = {
    "DOUBLE": ("double('NaN')", "-0.0D", "0.0D"),
    "STRING COLLATE UTF8_LCASE": ("'Ab' COLLATE UTF8_LCASE", "'x' COLLATE UTF8_LCASE", "'X' COLLATE UTF8_LCASE"),
    "CHAR(5)": ("'ab'", "'x'", "'x '"),
}


def test_keys_are_equal_as_spark_has_it(table):
    """NaN equals NaN, 0.0 equals -0.0; of a key with another type than the table's, what is stored counts."""
    columns = ", ".join(f"k{i} {kind}" for i, kind in enumerate(KEYS))
    plain, other, same = (
        ", ".join(f"{value} AS k{i}" for i, value in enumerate(row)) for row in zip(*KEYS.values(), strict=True)
    )
    table.spark.sql(f"CREATE TABLE delta.`{table.path}` ({columns}, at INT) USING delta")
    options = {"idCols": "k0,k1,k2", "sequenceBy": "at", "deleteWhen": "at = 5"}
    table.write(f"SELECT {plain}, 1 AS at UNION ALL SELECT {other}, 1", **options)
    table.write(f"SELECT {same}, 5 AS at UNION ALL SELECT {other}, 4 UNION ALL SELECT {plain}, 3", **options)
    table.write(f"SELECT {other}, 2 AS at", **options)
    assert [at for *_, at in table.rows] == [3]
    twice = f"SELECT {same} UNION ALL SELECT {other}"
    refused("HEADWATER_UPSERT_SEVERAL_ROWS_OF_KEY", lambda: table.write(twice, idCols="k0,k1,k2"))


def test_keys_of_a_wider_type_are_those_that_were_deleted(table):
    properties = "TBLPROPERTIES ('delta.enableTypeWidening' = 'true')"
    table.spark.sql(f"CREATE TABLE delta.`{table.path}` (id INT, at INT) USING delta {properties}")
    options = {"sequenceBy": "at", "deleteWhen": "at = 6", "mergeSchema": True}
    table.write("SELECT 1 AS id, 6 AS at", **options)
    table.write("SELECT 5000000000L AS id, 6 AS at UNION ALL SELECT 2L, 4", **options)
    table.write("SELECT 5000000000L AS id, 5L AS at UNION ALL SELECT 1L, 5L UNION ALL SELECT 2L, 5L", **options)
    assert table.rows == [(2, 5)]
    assert [len(list(companion.parent.glob("_delta_log/*.json"))) for companion in table.companions()] == [2]


@pytest.mark.soak
def test_deletions_of_a_narrower_and_of_a_wider_type(table):
    """RESTORE undoes that a key became wider; a struct that becomes another one cannot be compared."""
    properties = "TBLPROPERTIES ('delta.enableTypeWidening' = 'true')"
    table.spark.sql(f"CREATE TABLE delta.`{table.path}` (id INT, at INT, part INT) USING delta {properties}")
    options = {"sequenceBy": "at", "deleteWhen": "part = 6", "mergeSchema": True}
    table.write("SELECT 5000000000L AS id, 9 AS at, 6 AS part UNION ALL SELECT 1, 9, 6", **options)
    table.spark.sql(f"RESTORE TABLE delta.`{table.path}` TO VERSION AS OF 0")
    options["mergeSchema"] = False
    table.write("SELECT 2 AS id, 9 AS at, 6 AS part", **options)
    table.write("SELECT 2 AS id, 8 AS at, 1 AS part UNION ALL SELECT 1, 8, 1 UNION ALL SELECT 3, 8, 1", **options)
    assert table.rows == [(3, 8, 1)]
    options["sequenceBy"] = "struct(at)"
    table.write("SELECT 4 AS id, 9 AS at, 6 AS part", **options)
    table.write("SELECT 4 AS id, 8 AS at, 1 AS part", **options)
    assert table.rows == [(3, 8, 1)]
    options["sequenceBy"] = "struct(at, part)"
    table.write("SELECT 4 AS id, 8 AS at, 1 AS part UNION ALL SELECT 5, 9, 6", **options)
    table.write("SELECT 5 AS id, 9 AS at, 1 AS part", **options)
    assert table.rows == [(3, 8, 1), (4, 8, 1)]


def test_deletions_of_a_date_that_becomes_a_time(table):
    """The companion needs the feature that the table has got."""
    properties = "'delta.enableTypeWidening' = 'true', 'delta.feature.timestampNtz' = 'supported'"
    table.spark.sql(f"CREATE TABLE delta.`{table.path}` (id DATE, at DATE) USING delta TBLPROPERTIES ({properties})")
    options = {"sequenceBy": "at", "deleteWhen": "day(id) < 5 AND day(at) = 9"}

    def dates(*days: tuple[int, int], kind: str = "DATE") -> str:
        rows = ", ".join(f"({kind}'2024-01-0{id}', {kind}'2024-02-0{at}')" for id, at in days)
        return f"SELECT * FROM VALUES {rows} AS t(id, at)"

    table.write(dates((1, 9), (5, 1)), **options)
    for column in ("id", "at"):
        table.spark.sql(f"ALTER TABLE delta.`{table.path}` ALTER COLUMN {column} TYPE TIMESTAMP_NTZ")
    table.write(dates((1, 8), (2, 9), kind="TIMESTAMP_NTZ"), **options)
    table.write(dates((1, 8), (2, 8), (5, 2), kind="TIMESTAMP_NTZ"), **options)
    assert [(id.day, at.day) for id, at in table.rows] == [(5, 2)]


def test_keys_that_a_partition_stores_as_null_are_refused(table):
    """Such a row would be inserted again by each upsert."""
    schema = "(id STRING, b BINARY, c CHAR(2), n INT)"
    table.spark.sql(f"CREATE TABLE delta.`{table.path}` {schema} USING delta PARTITIONED BY (id, b, c)")
    wrong = [("''", "X'01'"), ("'__HIVE_DEFAULT_PARTITION__'", "X'01'"), ("'a'", "X''")]
    for id, b in wrong:
        rows = f"SELECT {id} AS id, {b} AS b, '' AS c, 1 AS n"
        refused("HEADWATER_UPSERT_KEY_STORED_AS_NULL", lambda rows=rows: table.write(rows, idCols="id,b,c"))
    for _ in range(2):
        table.write("SELECT 'a' AS id, X'01' AS b, '' AS c, 1 AS n", idCols="id,b,c")
    assert len(table.rows) == 1


def test_a_stream_upserts_each_batch_once(spark, tmp_path):
    """In output modes append and update."""
    source, target, counts = (str(tmp_path / name) for name in ("source", "target", "counts"))
    for rows in (
        [(1, 1, "a", False), (1, 2, "b", False), (2, 5, None, True)],
        [(2, 4, "late", False), (3, 1, "c", False)],
    ):
        spark.createDataFrame(rows, COLUMNS).coalesce(1).write.format("delta").mode("append").save(source)
    events = spark.readStream.format("delta").option("maxFilesPerTrigger", 1).load(source)
    counted = events.groupBy("id").count().writeStream.outputMode("update").option("idCols", "id")
    queries = [
        writer.format("delta").option("checkpointLocation", f"{path}-c").trigger(availableNow=True).start(path)
        for writer, path in ((events.writeStream.options(**ORDERED), target), (counted, counts))
    ]
    for query in queries:
        query.awaitTermination()
    found = [sorted(map(tuple, spark.read.format("delta").load(path).collect())) for path in (target, counts)]
    assert found == [[(1, 2, "b"), (3, 1, "c")], [(1, 2), (2, 2), (3, 1)]]
    history = spark.sql(f"DESCRIBE HISTORY delta.`{target}`").collect()
    assert [row.operationParameters.get("epochId") for row in history] == ["1", "0", None]


def test_a_batch_of_a_stream_that_failed_is_applied_once(spark, tmp_path):
    """Its deletions do not count before it is repeated, and count once it is."""
    source, target, checkpoint = (str(tmp_path / name) for name in ("source", "target", "checkpoint"))
    spark.sql(
        f"CREATE TABLE delta.`{target}` (id INT, at INT, v STRING, CONSTRAINT short CHECK (length(v) < 3)) USING delta"
    )
    rows = [(1, 6, None, True), (2, 1, "long", False)]
    spark.createDataFrame(rows, COLUMNS).write.format("delta").save(source)
    events = spark.readStream.format("delta").load(source).writeStream.format("delta").options(**ORDERED)
    writer = events.option("checkpointLocation", checkpoint).trigger(availableNow=True)
    with pytest.raises(Exception, match="DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"):
        writer.start(target).awaitTermination()
    kept = spark.createDataFrame([(1, 4, "x", False)], COLUMNS)
    kept.write.format("delta").mode("append").options(**ORDERED).save(target)
    assert [tuple(row) for row in spark.read.format("delta").load(target).collect()] == [(1, 4, "x")]
    spark.sql(f"ALTER TABLE delta.`{target}` DROP CONSTRAINT short")
    writer.start(target).awaitTermination()
    late = spark.createDataFrame([(1, 5, "late", False)], COLUMNS)
    late.write.format("delta").mode("append").options(**ORDERED).save(target)
    assert [tuple(row) for row in spark.read.format("delta").load(target).collect()] == [(2, 1, "long")]


REFUSED_OPTIONS: list[tuple[str, dict[str, Any], tuple[str, ...]]] = [
    ("HEADWATER_UPSERT_COLUMN_NOT_FOUND", {"idCols": "ids"}, ("ids", "Did you mean id?")),
    ("HEADWATER_UPSERT_COLUMN_NOT_FOUND", {"exceptColumns": "hone"}, ("hone", "Did you mean gone?")),
    ("HEADWATER_UPSERT_NESTED_COLUMN", {"idCols": "id,v.x"}, ("v.x",)),
    ("DELTA_ILLEGAL_OPTION", {"idCols": " "}, ("idCols",)),
    ("DELTA_ILLEGAL_OPTION", {"idCols": "id,ID"}, ("more than once",)),
    ("DELTA_ILLEGAL_OPTION", {"exceptColumns": "ID"}, ("key columns",)),
    ("DELTA_ILLEGAL_OPTION", {"storedAs": "scd3"}, ("scd3",)),
    ("DELTA_ILLEGAL_OPTION", {"ignoreNullUpdates": "perhaps"}, ("perhaps",)),
    ("DELTA_ILLEGAL_OPTION", {"tombstoneRetention": "1 day"}, ("sequenceBy",)),
    ("DELTA_INVALID_INTERVAL", {"sequenceBy": "at", "deleteWhen": "gone", "tombstoneRetention": "soon"}, ("soon",)),
    ("HEADWATER_UNKNOWN_OPTION", {"sequenceBy ": "at"}, ("Did you mean sequenceBy?",)),
    ("HEADWATER_UPSERT_WITHOUT_KEYS", {"idCols": None, "deleteWhen": "gone"}, ("deleteWhen",)),
    ("HEADWATER_UPSERT_NEEDS_APPEND", {"mode": "overwrite"}, ("overwrite",)),
    ("DELTA_INCOMPATIBLE_DATAFRAME_OPTIONS", {"partitionOverwriteMode": "dynamic"}, ("idCols",)),
    ("DELTA_INCOMPATIBLE_DATAFRAME_OPTIONS", {"replaceWhere": "id = 1"}, ("replaceWhere",)),
    ("DELTA_INCOMPATIBLE_DATAFRAME_OPTIONS", {"replaceUsing": "id"}, ("replaceUsing",)),
    ("DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS", {"txnAppId": "a"}, ("txnVersion",)),
    ("HEADWATER_UPSERT_SEQUENCE_NOT_STORED", {"sequenceBy": "at", "exceptColumns": "at"}, ("at",)),
    ("HEADWATER_UPSERT_SEQUENCE_OF_NO_COLUMN", {"sequenceBy": "1"}, ()),
    ("HEADWATER_UPSERT_SEQUENCE_TYPE", {"sequenceBy": "map(at, v)"}, ("map<int,string>",)),
    ("HEADWATER_UPSERT_EXPRESSION_NOT_OF_ONE_ROW", {"sequenceBy": "at + rand()"}, ("rand",)),
    ("HEADWATER_UPSERT_EXPRESSION_NOT_OF_ONE_ROW", {"deleteWhen": "rand() > 1"}, ("rand",)),
    ("UNRESOLVED_COLUMN.WITH_SUGGESTION", {"sequenceBy": "ate"}, ("ate",)),
    ("DATATYPE_MISMATCH.FILTER_NOT_BOOLEAN", {"deleteWhen": "at"}, ("at",)),
]


@pytest.mark.parametrize("exists", [False, True], ids=["new", "existing"])
def test_options_that_cannot_be(table, exists):
    """Nothing is made, nothing is changed."""
    if exists:
        table.write([(1, 1, "a", False)])
    before = table.files
    for condition, options, words in REFUSED_OPTIONS:
        given = {"deleteWhen": "gone"} if "sequenceBy" in options else {}
        refused(condition, partial(table.write, [(1, 2, "b", False)], **{**given, **options}), *words)
    assert table.files == before


REFUSED_ROWS: list[tuple[str, list[Row], tuple[str, ...]]] = [
    ("HEADWATER_UPSERT_NULL_KEY", [(None, 1, "a", False)], ("id", "at = 1, v = a")),
    ("HEADWATER_UPSERT_NULL_SEQUENCE", [(1, None, "a", False)], ("id = 1",)),
    ("HEADWATER_UPSERT_EQUAL_SEQUENCES", [(1, 2, "a", False), (1, 2, "b", False)], ("id = 1", "v = a", "v = b")),
    ("HEADWATER_UPSERT_EQUAL_SEQUENCES", [(1, 2, "a", False), (1, 2, "a", True)], ("id = 1",)),
]


def test_rows_that_cannot_be_stored(table):
    """Each is shown; nothing of its batch is written, deletions neither."""
    table.write([(1, 1, "a", False)])
    for condition, rows, words in REFUSED_ROWS:
        refused(condition, partial(table.write, [(9, 1, None, True), *rows], **ORDERED), *words)
    again = [(1, 1, "x", False), (1, 1, "x", False)]
    refused("HEADWATER_UPSERT_SEVERAL_ROWS_OF_KEY", lambda: table.write(again), "id = 1")
    refused("HEADWATER_UPSERT_COLUMN_NOT_FOUND", lambda: table.write([(1, "a")], "at INT, v STRING"), "id")
    assert (table.version, table.companions()) == (0, [])


@pytest.mark.parametrize("kind", ["ARRAY<INT>", "STRUCT<a: INT>", "MAP<INT, INT>", "VARIANT"])
def test_keys_of_many_values_are_refused(table, kind):
    refused("HEADWATER_UPSERT_KEY_TYPE", lambda: table.write(f"SELECT CAST(NULL AS {kind}) AS id"), "id")


def test_keys_that_the_table_computes_are_refused(table):
    columns = "id INT GENERATED ALWAYS AS (n + 1), n INT, i BIGINT GENERATED BY DEFAULT AS IDENTITY"
    table.spark.sql(f"CREATE TABLE delta.`{table.path}` ({columns}) USING delta")
    refused("HEADWATER_UPSERT_COMPUTED_KEY", lambda: table.write("SELECT 1 AS id, 1 AS n"), "generated")
    refused("HEADWATER_UPSERT_COMPUTED_KEY", lambda: table.write("SELECT 1L AS i, 1 AS n", idCols="i"), "identity")


def test_streams_that_cannot_be(spark, tmp_path):
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()

    def start(mode: str, **options: Any) -> Callable[[], Any]:
        writer = rows.groupBy("value").count().writeStream.format("delta").outputMode(mode).options(**options)
        return lambda: writer.option("checkpointLocation", str(tmp_path / "c")).start(str(tmp_path / "t"))

    refused("HEADWATER_UPSERT_NEEDS_APPEND", start("complete", idCols="value"), "complete")
    refused("DELTA_UNSUPPORTED_OUTPUT_MODE", start("update"), "update")
    refused("HEADWATER_UNKNOWN_OPTION", start("update", idCols="value", sequencBy="count"), "sequenceBy")
    refused("HEADWATER_UPSERT_WITHOUT_KEYS", start("complete", sequenceBy="count"), "sequenceBy")
    refused("DELTA_ILLEGAL_OPTION", start("update", idCols="value", storedAs="scd3"), "scd3")
    assert not (tmp_path / "t").exists()


def test_upserts_of_a_transaction_give_what_they_give_one_by_one(spark, table):
    """Rows, and which keys are remembered as deleted: none by a transaction that is rolled back."""
    table.write([(1, 5, "a", False), (2, 5, "b", False), (3, 5, "c", False)], **ORDERED)

    def run(*batches, end):
        spark.sql("BEGIN TRANSACTION")
        for batch in batches:
            table.write(batch, **ORDERED)
        return table.rows, [row.path for row in spark.sql(end).collect()]

    found, _ = run([(3, 9, "", True)], [(4, 9, "", True), (1, 9, "", True)], end="ROLLBACK")
    assert found == [(2, 5, "b")]
    found, changed = run([(1, 6, "", True)], [(2, 6, "", True), (1, 5, "late", False)], end="COMMIT")
    assert (found, changed) == ([(3, 5, "c")], [str(table.path)])
    table.write([(1, 5, "late", False), (2, 5, "late", False), (3, 6, "C", False), (4, 1, "d", False)], **ORDERED)
    assert table.rows == [(3, 6, "C"), (4, 1, "d")]
