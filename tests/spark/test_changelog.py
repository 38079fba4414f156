"""Changelogs read through Spark: every way to ask for them, their order and pairs, and what is refused."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.changelogs import dicts, in_order, pairs, states, values
from support.commits import write_commit

FEED = "'delta.enableChangeDataFeed' = 'true'"


class Table:
    """A table of k and v in the partitions p, whose change files may be another writer's."""

    def __init__(self, rows: Any, path: Path) -> None:
        self._rows = rows
        self.path = str(path)

    def create(self, partitioning: str = "") -> None:
        self._rows(
            f"CREATE TABLE t (k INT, v INT, p STRING) USING delta {partitioning} LOCATION '{self.path}' "
            f"TBLPROPERTIES ({FEED})"
        )
        self._rows("INSERT INTO t VALUES (1, 10, 'a'), (2, 20, 'a'), (3, 30, 'b')")

    def commit(self, *files: list[tuple[Any, ...]]) -> None:
        """A commit that only has change files: rows of (k, v, p, change type)."""
        version = len(list(Path(self.path).glob("_delta_log/*.json")))
        actions: list[Any] = [{"commitInfo": {}}]
        for number, rows in enumerate(files):
            k, v, p, kind = zip(*rows, strict=True)
            table = pa.table({"k": pa.array(k, pa.int32()), "v": pa.array(v, pa.int32()), "p": p, "_change_type": kind})
            file = Path(self.path) / f"_change_data/other-{version}-{number}.parquet"
            file.parent.mkdir(exist_ok=True)
            pq.write_table(table, file)
            path = f"_change_data/{file.name}"
            size = file.stat().st_size
            actions.append({"cdc": {"path": path, "size": size, "partitionValues": {}, "dataChange": False}})
        write_commit(self.path, version, *actions)

    def tags(self) -> dict[int, list[Any]]:
        """The tags of the change files by version."""
        found: dict[int, list[Any]] = {}
        for file in sorted((Path(self.path) / "_delta_log").glob("*.json")):
            actions = [json.loads(line) for line in file.read_text().splitlines()]
            files = [action["cdc"].get("tags") for action in actions if "cdc" in action]
            if files:
                found[int(file.stem)] = files
        return found


@pytest.fixture
def table(rows: Any, database: str, tmp_path: Path) -> Table:
    return Table(rows, tmp_path / "t")


def kinds(rows: list[dict[str, Any]], key: str = "k") -> list[tuple[str, Any]]:
    return [(row["_row_kind"], row[key]) for row in in_order(rows)]


def changelog(spark: Any, *arguments: Any) -> list[dict[str, Any]]:
    called = ", ".join(map(str, ("'t'", *arguments)))
    return dicts(spark.sql(f"SELECT * FROM table_changelog({called})").collect())


def test_every_way_to_ask(spark: Any, rows: Any, table: Table) -> None:
    table.create()
    rows("UPDATE t SET v = v + 1 WHERE k < 3")
    rows("DELETE FROM t WHERE k = 3")
    times = {row["version"]: str(row["timestamp"]) for row in spark.sql("DESCRIBE HISTORY t").collect()}

    def reader(**options: Any) -> Any:
        return spark.read.format("delta").options(readChangelog=True, **options)

    asked = {
        "table_changelog": spark.sql("SELECT * FROM table_changelog('t', 1, 2)"),
        "by path": spark.sql(f"SELECT * FROM table_changelog_by_path('{table.path}', 1, 2)"),
        "with keys": spark.sql("SELECT * FROM table_changelog('t', 1, 2, 'K, `k`')"),
        "with an array of keys": spark.sql("SELECT * FROM table_changelog('t', 0, 2, array('K'))"),
        "times": spark.sql(f"SELECT * FROM table_changelog('t', '{times[1]}', '{times[2]}', 'k')"),
        "load": reader(startingVersion=1, endingVersion=2).load(table.path),
        "table": reader(startingTimestamp=times[1], endingTimestamp=times[2], idCols="k").table("t"),
    }
    for way, frame in asked.items():
        assert frame.schema.simpleString() == (
            "struct<k:int,v:int,p:string,_change_type:string,_commit_version:bigint,_commit_timestamp:timestamp,"
            "_row_kind:string,_row_kind_code:tinyint,_ordinal:bigint>"
        )
        ordered = frame.orderBy("_commit_version", "_ordinal").select("_row_kind", "k", "v").collect()
        found = [tuple(row) for row in ordered]
        assert sorted(found[:3]) == [("+I", 1, 10), ("+I", 2, 20), ("+I", 3, 30)], way
        updates = {tuple(found[3:5]), tuple(found[5:7])}
        assert updates == {(("-U", 1, 10), ("+U", 1, 11)), (("-U", 2, 20), ("+U", 2, 21))}, way
    assert kinds(changelog(spark, 3, "'k'")) == [("-D", 3)]
    assert reader(startingVersion=2).table("t").filter("_row_kind = '-D'").select("k").collect() == [(3,)]
    assert spark.sql("SELECT sum(_row_kind_code) FROM table_changelog('t', 1)").collect() == [(2 + 4 + 3,)]
    rows("ALTER TABLE t ADD COLUMNS (w INT)")
    assert changelog(spark, 4, "'w'") == []


# Rows of a table without partitions are side by side in the tests above; here, they are sorted once less.
@pytest.mark.parametrize("partitioning", [pytest.param("", marks=pytest.mark.soak), "PARTITIONED BY (p)"])
def test_pairs_are_side_by_side_however_they_are_sorted(
    spark: Any, rows: Any, table: Table, settings: Any, partitioning: str
) -> None:
    """Sorts that spill keep no order among equal rows; a partition column makes the writer sort."""
    conf = spark.sparkContext._jsc.sc().env().conf()
    rule = "spark.shuffle.spill.numElementsForceSpillThreshold"
    table.create(partitioning)
    rows("INSERT INTO t SELECT id, id, concat('p', id % 2) FROM range(10, 300, 1, 1)")
    conf.set(rule, "37")
    try:
        rows("UPDATE t SET v = v + 1")
        rows(
            "MERGE INTO t USING (SELECT id FROM range(0, 400)) s ON t.k = s.id WHEN MATCHED AND t.k % 3 = 0 THEN "
            "DELETE WHEN MATCHED AND t.k % 3 = 1 THEN UPDATE SET v = v + 1 WHEN NOT MATCHED THEN INSERT (k, v, p) "
            "VALUES (s.id, 0, 'p0')"
        )
    finally:
        conf.remove(rule)
    found = changelog(spark, 1)
    states(found)
    updates = [row for row in found if row["_row_kind"] == "-U"]
    assert len(pairs(found)) == len(updates) == 293 + sum(k % 3 == 1 for k in range(1, 300) if k in (1, 2, 3) or k > 9)
    assert all((a[0], a[1] + 1) == (b[0], b[1]) for a, b in pairs(found))
    assert {tag["headwater.pairedImages"] for tags in table.tags().values() for tag in tags} == {"true"}


def test_updates_that_move_rows_and_files_that_are_cut_are_paired_by_keys(
    spark: Any, rows: Any, table: Table, settings: Any
) -> None:
    table.create("PARTITIONED BY (p)")
    rows("UPDATE t SET p = if(p = 'a', 'b', 'a'), v = v + 1")
    with settings({"spark.sql.files.maxRecordsPerFile": "1"}):
        rows("UPDATE t SET v = v + 1")
    assert table.tags() == {2: [None] * len(table.tags()[2]), 3: [None] * len(table.tags()[3])}
    without, with_keys = changelog(spark, 1), changelog(spark, 1, "'k'")
    for found in (without, with_keys):
        assert states(found)[3] == Counter(rows("SELECT * FROM t"))
    assert pairs(without) == []
    assert [kind for kind, _ in kinds(without)][3:] == ["-U"] * 3 + ["+U"] * 3 + ["-U"] * 3 + ["+U"] * 3
    assert len(pairs(with_keys)) == 6
    assert all((a[0], a[1] + 1) == (b[0], b[1]) for a, b in pairs(with_keys))


def test_files_of_other_writers(spark: Any, rows: Any, table: Table) -> None:
    table.create()
    table.commit(
        [(2, 21, "a", "update_postimage"), (1, 11, "a", "update_postimage"), (9, 90, "c", "insert")],
        [(1, 10, "a", "update_preimage"), (2, 20, "a", "update_preimage"), (3, 30, "b", "delete")],
    )
    table.commit(
        # A row whose key changed, and a key deleted and inserted.
        [
            (9, 0, "c", "insert"),
            (9, 90, "c", "delete"),
            (5, 5, "a", "update_postimage"),
            (1, 11, "a", "update_preimage"),
        ],
    )
    unpaired = changelog(spark, 2)
    assert kinds(unpaired) == [
        ("-D", 3), ("-U", 1), ("-U", 2), ("+U", 2), ("+U", 1), ("+I", 9),
        ("-D", 9), ("-U", 1), ("+U", 5), ("+I", 9),
    ]  # fmt: skip
    assert pairs(unpaired) == []
    paired = changelog(spark, 2, "array('k')")
    assert kinds(paired) == [
        ("-D", 3), ("-U", 1), ("+U", 1), ("-U", 2), ("+U", 2), ("+I", 9),
        ("-D", 9), ("-U", 1), ("+U", 5), ("+I", 9),
    ]  # fmt: skip
    assert [(a[0], b[0]) for a, b in pairs(paired)] == [(1, 1), (2, 2)]
    assert states(changelog(spark, 1, "'k'"))[3] == Counter([(2, 21, "a"), (9, 0, "c"), (5, 5, "a")])


def test_streams_are_in_order_within_a_batch(spark: Any, rows: Any, table: Table, tmp_path: Path) -> None:
    table.create()
    rows("UPDATE t SET v = v + 1 WHERE k < 3")
    rows("DELETE FROM t WHERE k = 3")
    batches: list[list[dict[str, Any]]] = []

    def read(**options: Any) -> None:
        batches.clear()
        reader = spark.readStream.format("delta").options(readChangelog=True, **options)
        query = reader.load(table.path).writeStream.foreachBatch(lambda some, _: batches.append(dicts(some.collect())))
        query = query.option("checkpointLocation", str(tmp_path / f"c{options}")).trigger(availableNow=True).start()
        query.awaitTermination()

    read(startingVersion=1, maxFilesPerTrigger=1, idCols="k")
    assert len(batches) == 3
    assert all(batch == in_order(batch) for batch in batches)
    whole = changelog(spark, 1)
    assert [row for batch in batches for row in batch] == in_order(whole)
    # The version that a stream finds at its start is inserted, a file a batch.
    rows("INSERT INTO t VALUES (4, 40, 'c')")
    read(maxFilesPerTrigger=1)
    assert len(batches) > 1
    start = [row for batch in batches for row in batch]
    assert {row["_row_kind"] for row in start} == {"+I"}
    assert Counter(map(values, in_order(start))) == Counter(rows("SELECT * FROM t"))


def test_what_is_refused(spark: Any, rows: Any, fails: Any, table: Table, tmp_path: Path) -> None:
    rows(f"CREATE TABLE t (k INT, ab INT, p STRUCT<x: INT>) USING delta LOCATION '{table.path}'")
    rows("INSERT INTO t VALUES (1, 2, named_struct('x', 3))")
    with fails("DELTA_MISSING_CHANGE_DATA", "version 1 did not record", "ALTER TABLE"):
        rows("SELECT * FROM table_changelog('t', 1)")
    rows(f"ALTER TABLE t SET TBLPROPERTIES ({FEED})")
    rows("INSERT INTO t VALUES (2, 3, named_struct('x', 4))")
    with fails("DELTA_MISSING_CHANGE_DATA", "version 0 did not record", "from version 2 on"):
        rows("SELECT * FROM table_changelog('t', 0)")
    with fails("DELTA_MISSING_CHANGE_DATA", "from version 2 on"):
        rows("SELECT * FROM table_changelog('t', 1, 1)")
    assert len(rows("SELECT * FROM table_changelog('t', 2, '`ab`,k')")) == 1
    for arguments, condition, *words in (
        ("2, 'kk'", "HEADWATER_KEY_COLUMN_NOT_FOUND", "'kk'", "one of: k?"),
        ("2, array('k', 'nothing like it')", "HEADWATER_KEY_COLUMN_NOT_FOUND", "k, ab, p"),
        ("2, 3, 'p.x'", "HEADWATER_KEY_COLUMN_NESTED", "`p`"),
        ("2, 3, ''", "HEADWATER_NO_KEY_COLUMNS"),
        ("2, 3, 4", "DELTA_UNSUPPORTED_EXPRESSION", "keys"),
        ("3, 2", "DELTA_INVALID_CDC_RANGE", "from version 3 to 2"),
        ("9", "DELTA_CDC_START_VERSION_AFTER_LATEST"),
        ("2, '1999-01-01'", "DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION"),
        ("2, 3, 'k', 'k'", "INCORRECT_NUMBER_OF_ARGUMENTS", "two to four", "key columns"),
    ):
        with fails(condition, *words):
            rows(f"SELECT * FROM table_changelog('t', {arguments})")
    both = {"readChangelog": True, "readChangeFeed": True, "startingVersion": 2}
    with fails("HEADWATER_CHANGELOG_AND_CHANGE_FEED"):
        spark.read.format("delta").options(**both).load(table.path)
    with fails("HEADWATER_CHANGELOG_AND_CHANGE_FEED"):
        spark.readStream.format("delta").options(**both).load(table.path)
    with fails("HEADWATER_KEY_COLUMN_NOT_FOUND"):
        spark.readStream.format("delta").options(readChangelog=True, idCols="q", startingVersion=2).load(table.path)
    with fails("DELTA_ILLEGAL_OPTION", "readChangelog"):
        spark.read.format("delta").options(readChangelog="perhaps", startingVersion=2).load(table.path)
    with fails("DELTA_NO_START_FOR_CDC_READ"):
        spark.read.format("delta").option("readChangelog", True).load(table.path)
    rows("ALTER TABLE t ADD COLUMNS (_ordinal INT)")
    with fails("HEADWATER_CHANGELOG_COLUMN_TAKEN", "_ordinal"):
        rows("SELECT * FROM table_changelog('t', 2)")
