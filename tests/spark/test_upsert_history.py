"""Upserts with ``storedAs=scd2``: a row for each event, from its sequence to that of the next; and what is refused.

Random orders of events are judged without Spark, in ``tests/statements/upserts/test_history.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

from support.gates import Gate, register

pytestmark = pytest.mark.spark
Row = tuple[Any, ...]
COLUMNS = "id INT, at INT, v STRING, gone BOOLEAN"
OPTIONS = {
    "idCols": "id",
    "sequenceBy": "at",
    "deleteWhen": "gone",
    "exceptColumns": "at, gone",
    "storedAs": "scd2",
}
IGNORING = {"ignoreNullUpdates": True}
FEED_AND_VECTORS = "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', 'delta.enableChangeDataFeed' = 'true')"


class History:
    """A table at a path that keeps a history, and writes to it."""

    def __init__(self, spark: Any, path: Path) -> None:
        self.spark, self.path = spark, path

    def create(self, columns: str = "id INT, v STRING", properties: str = FEED_AND_VECTORS) -> None:
        columns += ", __START_AT INT, __END_AT INT"
        self.spark.sql(f"CREATE TABLE delta.`{self.path}` ({columns}) USING delta {properties}")

    def write(self, rows: Sequence[Row] | str, schema: str = COLUMNS, **options: Any) -> None:
        frame = self.spark.sql(rows) if isinstance(rows, str) else self.spark.createDataFrame(rows, schema).coalesce(1)
        frame.write.format("delta").mode("append").options(**{**OPTIONS, **options}).save(str(self.path))

    @property
    def rows(self) -> list[Row]:
        read = self.spark.read.format("delta").load(str(self.path))
        return list(map(tuple, read.orderBy("id", "__START_AT").collect()))

    def history(self) -> list[Any]:
        return self.spark.sql(f"DESCRIBE HISTORY delta.`{self.path}`").collect()


@pytest.fixture
def large_targets(spark: Any) -> Iterator[None]:
    """The MERGE, too, treats every table as too large to be read whole."""
    spark.conf.set("spark.headwater.merge.smallTargetBytes", 0)
    yield
    spark.conf.unset("spark.headwater.merge.smallTargetBytes")


@pytest.fixture
def table(spark: Any, tmp_path: Path) -> History:
    return History(spark, tmp_path / "t")


def refused(condition: str, attempt: Callable[[], Any], *words: str) -> None:
    with pytest.raises(PySparkException) as caught:
        attempt()
    assert caught.value.getCondition() == condition, caught.value
    assert [word for word in words if word not in str(caught.value)] == []


#: A row each: whatever comes late, again or deletes.
FIRST = [(1, 10, "a", False), (1, 30, "c", False), (2, 50, None, True), (1, 30, "c", False)]
SECOND = [(1, 20, "b", False), (2, 5, "x", False), (1, 40, None, True)]
THIRD = [(1, 50, "d", False), (1, 30, None, True), (3, 1, "n", False), (1, 15, None, True)]


@pytest.fixture
def feed_and_vectors(spark: Any) -> Iterator[None]:
    """New tables have them."""
    names = [
        f"spark.databricks.delta.properties.defaults.enable{what}" for what in ("ChangeDataFeed", "DeletionVectors")
    ]
    for name in names:
        spark.conf.set(name, "true")
    yield
    for name in names:
        spark.conf.unset(name)


def test_each_event_is_a_row_until_the_next(table, feed_and_vectors):
    """The first write makes the table; a repeated one changes nothing."""
    table.write(FIRST)
    assert table.rows == [(1, "a", 10, 30), (1, "c", 30, None)]
    table.write(SECOND)
    assert table.rows == [(1, "a", 10, 20), (1, "b", 20, 30), (1, "c", 30, 40), (2, "x", 5, 50)]
    expected = [(1, "a", 10, 15), (1, "b", 20, 30), (1, "d", 50, None), (2, "x", 5, 50), (3, "n", 1, None)]
    table.write(THIRD)
    assert table.rows == expected
    table.write([*FIRST[:1], *FIRST[2:3], *SECOND, *THIRD])
    assert table.rows == expected
    newest, third, *_ = table.history()
    assert third.operationParameters["storedAs"] == "scd2"
    found = [third.operationMetrics[f"numTargetRows{what}"] for what in ("Inserted", "Updated", "Deleted")]
    assert found == ["2", "1", "1"]
    found = [newest.operationMetrics[f"numTargetRows{what}"] for what in ("Inserted", "Updated", "Deleted")]
    assert found == ["0", "0", "0"]
    feed = table.spark.read.format("delta").option("readChangeFeed", True).option("startingVersion", 1)
    second = feed.option("endingVersion", 1).load(str(table.path))
    kinds = sorted((row._change_type, row.id, row["__START_AT"], row["__END_AT"]) for row in second.collect())
    assert kinds == [
        ("insert", 1, 20, 30),
        ("insert", 2, 5, 50),
        ("update_postimage", 1, 10, 20),
        ("update_postimage", 1, 30, 40),
        ("update_preimage", 1, 10, 30),
        ("update_preimage", 1, 30, None),
    ]


@pytest.mark.parametrize("mapped", [pytest.param(False, marks=pytest.mark.soak), True], ids=["", "column_mapping"])
def test_values_of_any_type_and_new_columns(table, mapped):
    """A repeated event changes nothing, whatever its types are; keys are those of a composite, too."""
    keys = {"idCols": "id,day", "sequenceBy": "struct(at, part)", "exceptColumns": "at,part", "mergeSchema": True}
    keys |= {"deleteWhen": "v IS NULL"}
    first = "SELECT 1 AS id, DATE'2024-01-01' AS day, 1L AS at, 1 AS part, map('k', 1) AS v, parse_json('[1]') AS w"
    if mapped:
        columns = "id INT, day DATE, v MAP<STRING, INT>, w VARIANT"
        ends = ", ".join(f"{name} STRUCT<at: BIGINT COMMENT 'first', part: INT>" for name in ("__START_AT", "__END_AT"))
        properties = "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
        table.spark.sql(f"CREATE TABLE delta.`{table.path}` ({columns}, {ends}) USING delta {properties}")
    table.write(first, **keys)
    table.write(first, **keys)
    assert table.history()[0].version == (1 if mapped else 0)
    table.write(first.replace("1L AS at", "2L AS at") + ", array(1) AS n", **keys)
    found = table.spark.read.format("delta").load(str(table.path)).orderBy("__START_AT")
    shown = found.selectExpr("v['k']", "to_json(w)", "n", "__START_AT.at", "__START_AT.part", "__END_AT.at")
    assert list(map(tuple, shown.collect())) == [(1, "[1]", None, 1, 1, 2), (1, "[1]", [1], 2, 1, None)]


def test_nulls_can_leave_the_values_before(table):
    """Within a batch and over batches, but not over a deletion."""
    table.write([(1, 1, "a", False), (1, 2, None, False), (2, 1, "x", False), (2, 2, None, True)], **IGNORING)
    table.write([(1, 3, None, False), (1, 4, "b", False), (1, 5, None, False), (2, 3, None, False)], **IGNORING)
    ones = [(1, "a", 1, 2), (1, "a", 2, 3), (1, "a", 3, 4), (1, "b", 4, 5), (1, "b", 5, None)]
    assert table.rows == [*ones, (2, "x", 1, 2), (2, None, 3, None)]


def test_deletions_that_are_forgotten_still_end_rows(table):
    """The table itself has the ends of its rows."""
    table.write([(1, 10, "a", False), (1, 20, None, True)], tombstoneRetention="0 seconds", ignoreNullUpdates=True)
    for file in (table.path / "_headwater_upsert").rglob("*"):
        if file.is_file():
            file.unlink()
    table.write([(1, 15, "b", False), (1, 30, None, False)], ignoreNullUpdates=True)
    assert table.rows == [(1, "a", 10, 15), (1, "b", 15, 20), (1, None, 30, None)]


@pytest.mark.soak
def test_a_row_that_came_back_is_compared_with_itself(table):
    """RESTORE or an overwrite has put it there after the deletion of its key, which no longer ends it."""
    table.write([(1, 10, "a", False), (2, 10, "b", False)])
    table.write([(1, 30, None, True), (2, 30, None, True)])
    table.spark.sql(f"RESTORE TABLE delta.`{table.path}` TO VERSION AS OF 0")
    table.write([(1, 20, "newer", False), (2, 40, "newer", False), (3, 1, "c", False)])
    expected = [(1, "a", 10, 20), (1, "newer", 20, None), (2, "b", 10, 40), (2, "newer", 40, None), (3, "c", 1, None)]
    assert table.rows == expected
    table.spark.sql(f"INSERT OVERWRITE delta.`{table.path}` VALUES (1, 'written', 25, NULL)")
    table.write([(1, 35, "newer", False), (2, 20, "late", False)])
    assert table.rows == [(1, "written", 25, 35), (1, "newer", 35, None), (2, "late", 20, 30)]


def test_only_files_that_can_have_the_keys_are_read(table, large_targets):
    """A file of other keys that cannot be read does no harm."""
    table.write([(1, 1, "a", False)])
    table.write([(1000, 1, "b", False)])
    (other,) = table.spark.read.format("delta").load(str(table.path)).where("id = 1000").inputFiles()
    (table.path / Path(other).name).write_bytes(b"no Parquet")
    table.write([(1, 2, "c", False), (2, 1, "d", False)])
    found = table.spark.read.format("delta").load(str(table.path)).where("id < 1000").orderBy("id", "__START_AT")
    assert list(map(tuple, found.collect())) == [(1, "a", 1, 2), (1, "c", 2, None), (2, "d", 1, None)]


def test_a_batch_that_failed_deletes_nothing(table):
    """Its deletions are in the companion and its rows are not in the table. Others go on as if there had been no such
    batch; repeated, it gives what it would have given."""
    table.create("id INT, v STRING, CONSTRAINT short CHECK (length(v) < 5)")
    table.write([(1, 1, "a", False)])
    batch = [(1, 6, None, True), (3, 6, None, True), (2, 2, "too long", False)]
    refused("DELTA_VIOLATE_CONSTRAINT_WITH_VALUES", lambda: table.write(batch))
    assert list((table.path / "_headwater_upsert").glob("*/_delta_log/*.json"))
    assert table.rows == [(1, "a", 1, None)]
    table.write([(3, 5, "late", False)])
    assert table.rows == [(1, "a", 1, None), (3, "late", 5, None)]
    table.spark.sql(f"ALTER TABLE delta.`{table.path}` DROP CONSTRAINT short")
    table.write(batch)
    assert table.rows == [(1, "a", 1, 6), (2, "too long", 2, None), (3, "late", 5, 6)]


@pytest.mark.soak
def test_writers_of_a_key_do_not_lose_an_event(table, tmp_path):
    """The event of the one that lost goes between those of the winner, whose rows it had not seen."""
    gate = tmp_path / "gate"
    gate.mkdir()
    register(table.spark, gate, only=5)
    # A version that is replaced is refused to users at once, and not to a statement that works on it.
    table.create(properties="TBLPROPERTIES ('delta.deletedFileRetentionDuration' = 'interval 0 hours')")
    table.write([(1, 1, "a", False), (2, 1, "x", False)])
    slow = (
        table.spark.createDataFrame([(1, 5, "late", False)], COLUMNS)
        .coalesce(1)
        .selectExpr("id", "gate(at) AS at", "v", "gone")
    )
    writer = slow.write.format("delta").mode("append").options(**OPTIONS)
    Gate(lambda _: writer.save(str(table.path)), gate).lose(
        "", lambda: table.write([(1, 4, "b", False), (1, 7, None, True), (3, 7, None, True)])
    )
    assert table.rows == [(1, "a", 1, 4), (1, "b", 4, 5), (1, "late", 5, 7), (2, "x", 1, None)]


ONE = "SELECT 1 AS id, 1 AS at"
HISTORY = "id INT, at INT, __START_AT INT, __END_AT INT"
EQUAL = "VALUES (1, 2, 'a'), (1, 2, 'b'), (1, 3, 'c') AS t(id, at, v)"
REFUSED: list[tuple[str, str | None, str, dict[str, str], Sequence[str]]] = [
    ("HEADWATER_UPSERT_HISTORY_COLUMN_GIVEN", None, f"{ONE}, 2 AS __end_at", {}, ["__end_at"]),
    ("HEADWATER_UPSERT_SEQUENCE_TYPE", None, f"{ONE}, map(1, 2) AS m", {"sequenceBy": "m"}, ["map<int,int>"]),
    ("HEADWATER_UPSERT_EQUAL_SEQUENCES", None, EQUAL, {}, ["id = 1", "v = a", "v = b"]),
    (
        "HEADWATER_UPSERT_TABLE_WITHOUT_HISTORY",
        "id INT, at INT",
        ONE,
        {},
        ["ADD COLUMNS (__START_AT int, __END_AT int)"],
    ),
    ("HEADWATER_UPSERT_HISTORY_SEQUENCE_TYPE", HISTORY, ONE, {"sequenceBy": "at + 1L"}, ["bigint", "int"]),
    ("HEADWATER_UPSERT_TABLE_HAS_HISTORY", HISTORY, ONE, {"storedAs": "scd1"}, ["scd2"]),
]


@pytest.mark.parametrize(("condition", "columns", "rows", "options", "words"), REFUSED, ids=[r[0] for r in REFUSED])
def test_what_cannot_be(table, condition, columns, rows, options, words):
    if columns is not None:
        table.spark.sql(f"CREATE TABLE delta.`{table.path}` ({columns}) USING delta")
    rows = f"SELECT *, false AS gone FROM ({rows})"
    refused(condition, lambda: table.write(rows, **{"exceptColumns": "gone", **options}), *words)


def test_a_history_needs_a_sequence(table):
    frame = table.spark.sql(ONE).write.format("delta").mode("append").options(idCols="id", storedAs="scd2")
    refused("DELTA_ILLEGAL_OPTION", lambda: frame.save(str(table.path)), "storedAs", "sequenceBy")


@pytest.mark.parametrize("each", [1, pytest.param(10, marks=pytest.mark.soak)])
def test_many_writers_of_the_same_keys(table, each):
    """None fails, and the history is that of the ordered events."""
    table.create()

    def write(writer: int) -> None:
        for number in range(each):
            at = 10 * (2 * number + writer)
            table.write([(1, at, f"v{writer}", False), (1, at + 5, None, True), (2, at, "x", False)])

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write, range(2)))
    starts = range(0, 20 * each, 10)
    ones = [(1, f"v{at // 10 % 2}", at, at + 5) for at in starts]
    assert table.rows == [*ones, *((2, "x", at, at + 10 if at < starts[-1] else None) for at in starts)]
