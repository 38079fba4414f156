"""Changes read through Spark: every way to ask for them, which rows come, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

from headwater.log import deletion_vectors
from headwater.stores import LocalStore
from support.commits import write_commit
from support.inline_vectors import inline

FEED = "'delta.enableChangeDataFeed' = 'true'"
#: What the table of ``fed`` has recorded: a, p, kind, version.
CHANGES = [
    (1, "x", "insert", 1),
    (2, "y", "insert", 1),
    (2, "y", "update_preimage", 2),
    (2, "z", "update_postimage", 2),
    (1, "x", "delete", 3),
    (2, "y", "delete", 3),
    (9, "o", "insert", 3),
]


class Fed:
    """A table of a and p, partitioned by p, by name and by path; ``commit`` adds one made by hand."""

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self.path = str(path)

    def commit(self, *actions: dict[str, Any]) -> int:
        version = len(list(Path(self.path).glob("_delta_log/*.json")))
        write_commit(self.path, version, {"commitInfo": {}}, *actions)
        return version

    def file(self, name: str, **columns: list[Any]) -> dict[str, Any]:
        """A Parquet file below the table, as the start of an action."""
        path = Path(self.path) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        arrays = {k: pa.array(v, pa.int32() if isinstance(v[0], int) else pa.string()) for k, v in columns.items()}
        pq.write_table(pa.table(arrays), path)
        return {"path": name, "size": path.stat().st_size, "dataChange": True, "modificationTime": 1}

    def changes(self, *bounds: Any) -> str:
        return f"SELECT * FROM table_changes({', '.join([repr(self.name), *map(str, bounds)])})"

    def query(self, rows: Callable[..., list[Any]], *bounds: Any) -> list[Any]:
        """Rows without their time, in the order of version, kind and a."""
        return ordered([row[:-1] for row in rows(self.changes(*bounds))])


def ordered(found: list[Any]) -> list[Any]:
    return sorted((tuple(row) for row in found), key=lambda row: (row[3], row[2] != "update_preimage", row[2], row[0]))


@pytest.fixture
def fed(rows: Any, database: str, tmp_path: Path) -> Fed:
    """Rows inserted, one updated by another's hand, all overwritten: versions 1 to 3."""
    table = Fed("fed", tmp_path / "fed table")
    rows(
        f"CREATE TABLE fed (a INT, p STRING) USING delta PARTITIONED BY (p) LOCATION '{table.path}' "
        f"TBLPROPERTIES ({FEED})"
    )
    rows("INSERT INTO fed VALUES (1, 'x'), (2, 'y')")
    changed = []
    for kind, p in (("preimage", "y"), ("postimage", "z")):
        file = table.file(f"_change_data/p={p}/{kind}.parquet", a=[2], _change_type=[f"update_{kind}"])
        changed.append({**file, "dataChange": False, "partitionValues": {"p": p}})
    table.commit(*({"cdc": action} for action in changed))
    rows("INSERT OVERWRITE fed VALUES (9, 'o')")
    return table


def test_every_way_to_ask(spark: Any, rows: Any, database: str, fed: Fed) -> None:
    reader = spark.read.format("delta").option("readChangeFeed", True).option("startingVersion", 1)
    asked = {
        "table_changes": rows(fed.changes(1)),
        "with the schema": rows(fed.changes("2 - 1").replace("'fed'", f"'{database}.' || 'fed'")),
        "by path": rows(f"SELECT * FROM table_changes_by_path('{fed.path}', 0L, 3)"),
        "load": reader.load(fed.path).collect(),
        "table": reader.table("fed").select("*").collect(),
        "table of a path": reader.table(f"delta.`{fed.path}`").collect(),
        "the older option": spark.read.options(readChangeData="TRUE", startingVersion="0").table("fed").collect(),
        "options in SQL": rows("SELECT * FROM fed WITH ('readChangeFeed' = 'true', 'startingVersion' = '0')"),
        "CHANGES": rows("SELECT * FROM fed CHANGES FROM VERSION 0 TO VERSION 3"),
        "CHANGES of a path": rows(f"SELECT * FROM delta.`{fed.path}` CHANGES FROM VERSION 0 EXCLUSIVE"),
        "changes()": spark.read.option("startingVersion", 0).changes("fed").collect(),
    }
    for way, found in asked.items():
        assert ordered([row[:-1] for row in found]) == ordered(CHANGES), way


def test_types_and_times(spark: Any, fed: Fed) -> None:
    frame = spark.sql(fed.changes(0))
    assert frame.schema.simpleString() == (
        "struct<a:int,p:string,_change_type:string,_commit_version:bigint,_commit_timestamp:timestamp>"
    )
    times = {row["version"]: row["timestamp"] for row in spark.sql("DESCRIBE HISTORY fed").collect()}
    assert {row._commit_version: row._commit_timestamp for row in frame.collect()} == {v: times[v] for v in (1, 2, 3)}


def test_parts_of_a_range(spark: Any, rows: Any, fed: Fed) -> None:
    assert fed.query(rows, 2, 2) == CHANGES[2:4]
    assert fed.query(rows, 1, 2) == CHANGES[:4]
    times = {row["version"]: str(row["timestamp"]) for row in spark.sql("DESCRIBE HISTORY fed").collect()}
    assert fed.query(rows, repr(times[2]), repr(times[2])) == CHANGES[2:4]
    assert fed.query(rows, f"timestamp'{times[2]}' - interval 1 microsecond", 2) == CHANGES[2:4]
    found = rows(f"SELECT * FROM fed CHANGES FROM TIMESTAMP '{times[1]}' EXCLUSIVE TO TIMESTAMP '{times[3]}' EXCLUSIVE")
    assert ordered([row[:-1] for row in found]) == CHANGES[2:4]


def test_filters_reach_the_files(spark: Any, fed: Fed) -> None:
    (Path(fed.path) / "_change_data/p=z/postimage.parquet").unlink()
    frame = spark.sql(fed.changes(0)).drop("_commit_timestamp")
    # Files of other versions, kinds and partitions are not opened, nor looked for.
    assert ordered(frame.filter("_commit_version <> 2").collect()) == ordered(CHANGES[:2] + CHANGES[4:])
    assert frame.filter("p = 'y'").count() == 3
    assert frame.filter("_commit_timestamp < '2000-01-01'").collect() == []
    plan = frame.filter("a > 1")._jdf.queryExecution().executedPlan().toString()
    assert plan.count("PushedFilters: [IsNotNull(a), GreaterThan(a,1)]") == 2


def test_a_query_of_changes_is_a_relation_like_any(spark: Any, rows: Any, fed: Fed) -> None:
    changes = spark.read.option("readChangeFeed", True).option("startingVersion", 0).table("fed")
    assert changes.filter(changes["a"] == 9).select(changes["p"]).collect() == [("o",)]
    assert changes.join(changes.alias("again"), ["a", "_change_type", "_commit_version"]).count() == 7
    changes.createOrReplaceTempView("seen")
    rows("INSERT INTO fed VALUES (10, 'n')")
    assert spark.table("seen").count() == 7  # the range was fixed when it was asked for
    assert len(fed.query(rows, 0)) == 8
    rows(f"CREATE VIEW kept AS {fed.changes(0)}")
    rows("INSERT INTO fed VALUES (11, 'n')")
    assert rows("SELECT count(*), count(DISTINCT a) FROM kept") == [(9, 5)]
    assert rows(f"WITH c AS ({fed.changes(3)}) SELECT count(*) FROM c, c AS d, fed") == [(5 * 5 * 3,)]


@pytest.mark.parametrize("vectorized", [True, pytest.param(False, marks=pytest.mark.soak)])
def test_deletion_vectors_that_grow_and_shrink(
    rows: Any, settings: Any, database: str, tmp_path: Path, vectorized: bool
) -> None:
    table = Fed("grown", tmp_path / "grown")
    rows(
        f"CREATE TABLE grown (a INT, p STRING) USING delta PARTITIONED BY (p) LOCATION '{table.path}' "
        f"TBLPROPERTIES ({FEED}, 'delta.enableDeletionVectors' = 'true')"
    )
    file = {**table.file("p=x/f.parquet", a=list(range(10))), "partitionValues": {"p": "x"}}
    small, large = (BitMap64(positions) for positions in ([2], [2, 3, 9]))
    first = {**file, "deletionVector": inline(small).to_json()}
    stored = deletion_vectors.write_file([large], table.path, LocalStore())[0].to_json()
    second = {**file, "deletionVector": stored}
    table.commit({"add": file})
    table.commit({"remove": file}, {"add": first})
    table.commit({"remove": first}, {"add": second})
    table.commit({"remove": second}, {"add": file})
    table.commit({"add": {**first, "dataChange": False}}, {"remove": {**file, "dataChange": False}})
    table.commit({"remove": first})
    with settings({"spark.sql.parquet.enableVectorizedReader": str(vectorized).lower()}):
        found = [(kind, version, a) for a, p, kind, version in table.query(rows, 1) if p == "x"]
        assert rows("SELECT count(*) FROM table_changes('grown', 3, 4) WHERE a > 2") == [(4,)]
    assert found == [
        *(("insert", 1, a) for a in range(10)),
        ("delete", 2, 2),
        *(("delete", 3, a) for a in (3, 9)),
        *(("insert", 4, a) for a in (2, 3, 9)),
        *(("delete", 6, a) for a in range(10) if a != 2),
    ]


def test_only_metadata_changes_nothing(rows: Any, fed: Fed) -> None:
    rows("ALTER TABLE fed ADD COLUMNS (c DATE)")
    assert rows(fed.changes(4)) == []
    rows("INSERT INTO fed VALUES (1, 'x', DATE'2024-02-29')")
    assert [row[:3] for row in rows(f"{fed.changes(3)} WHERE _change_type = 'insert' ORDER BY _commit_version")] == [
        (9, "o", None), (1, "x", rows("SELECT DATE'2024-02-29'")[0][0])
    ]  # fmt: skip


def test_ranges_that_are_refused(rows: Any, fails: Any, settings: Any, fed: Fed) -> None:
    for bounds, condition, words in (
        (("4",), "DELTA_CDC_START_VERSION_AFTER_LATEST", "newest version of the table is 3"),
        (("3", "2"), "DELTA_INVALID_CDC_RANGE", "from version 3 to 2"),
        (("-1",), "DELTA_VERSION_INVALID", "'-1'"),
        (("NULL",), "DELTA_CDC_READ_NULL_RANGE_BOUNDARY", "null"),
        (("1", "NULL"), "DELTA_CDC_READ_NULL_RANGE_BOUNDARY", "null"),
        (("'1'",), "DELTA_TIMESTAMP_INVALID", "'1'"),
        (("1.5D",), "DELTA_UNSUPPORTED_EXPRESSION", "DOUBLE"),
        (("rand()",), "DELTA_CDC_NON_CONSTANT_ARGUMENT", "rand()"),
        (("'2999-01-01'",), "DELTA_TIMESTAMP_GREATER_THAN_COMMIT", "2999"),
        (("1", "'2999-01-01'"), "DELTA_TIMESTAMP_GREATER_THAN_COMMIT", "2999"),
        (("1", "'1999-01-01'"), "DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION", "1999"),
        ((), "INCORRECT_NUMBER_OF_ARGUMENTS", "not 1"),
        (("1", "2", "3"), "INCORRECT_NUMBER_OF_ARGUMENTS", "not 4"),
    ):
        with fails(condition, words):
            rows(fed.changes(*bounds))
    with settings({"spark.databricks.delta.changeDataFeed.timestampOutOfRange.enabled": "true"}):
        assert rows(fed.changes(4)) == rows(fed.changes("'2999-01-01'")) == []
        assert len(rows(fed.changes(3, "'2999-01-01'"))) == 3


def test_options_that_are_refused(spark: Any, fails: Any, fed: Fed) -> None:
    for options, condition in (
        ({}, "DELTA_NO_START_FOR_CDC_READ"),
        ({"endingVersion": 1}, "DELTA_NO_START_FOR_CDC_READ"),
        ({"startingVersion": 1, "startingTimestamp": "2024-01-01"}, "DELTA_MULTIPLE_CDC_BOUNDARY"),
        ({"startingVersion": 1, "endingVersion": 1, "endingTimestamp": "2024-01-01"}, "DELTA_MULTIPLE_CDC_BOUNDARY"),
        ({"startingVersion": "latest"}, "DELTA_VERSION_INVALID"),
        ({"startingTimestamp": "soon"}, "DELTA_TIMESTAMP_INVALID"),
        ({"startingVersion": 1, "versionAsOf": 1}, "DELTA_UNSUPPORTED_TIME_TRAVEL_VIEWS"),
        ({"readChangeFeed": "perhaps"}, "DELTA_ILLEGAL_OPTION"),
    ):
        reader = spark.read.format("delta").option("readChangeFeed", True).options(**options)
        with fails(condition):
            reader.load(fed.path)
        with fails(condition):
            reader.table("fed")
    assert spark.read.format("delta").option("readChangeFeed", False).load(fed.path).collect() == [(9, "o")]


def test_what_is_no_delta_table(spark: Any, rows: Any, fails: Any, fed: Fed, tmp_path: Path) -> None:
    rows("CREATE TABLE other (a INT) USING parquet")
    rows("CREATE VIEW looking AS SELECT * FROM fed")
    for name in ("other", "looking"):
        with fails("DELTA_TABLE_ONLY_OPERATION", name):
            rows(f"SELECT * FROM table_changes('{name}', 0)")
    with fails("DELTA_TABLE_ONLY_OPERATION", "looking"):
        spark.read.option("readChangeFeed", True).option("startingVersion", 0).table("looking")
    with fails("TABLE_OR_VIEW_NOT_FOUND", "missing", state="42P01"):
        rows("SELECT * FROM table_changes('missing', 0)")
    with fails("DELTA_MISSING_DELTA_TABLE", "nothing"):
        rows(f"SELECT * FROM table_changes_by_path('{tmp_path}/nothing', 0)")
    with fails("UNSUPPORTED_FEATURE.CHANGE_DATA_CAPTURE", state="0A000"):
        rows("SELECT * FROM other CHANGES FROM VERSION 0")
    with fails("DELTA_UNSUPPORTED_TIME_TRAVEL_VIEWS"):
        rows("SELECT * FROM fed VERSION AS OF 1 WITH ('readChangeFeed' = 'true', 'startingVersion' = '0')")
    with fails("DELTA_CHANGELOG_UNSUPPORTED_OPTION", "netChanges"):
        rows("SELECT * FROM fed CHANGES FROM VERSION 0 WITH (deduplicationMode = 'netChanges')")


def test_versions_without_their_changes(rows: Any, fails: Any, settings: Any, fed: Fed) -> None:
    rows("ALTER TABLE fed SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'false')")
    with fails("DELTA_MISSING_CHANGE_DATA", "version 4 did not record"):
        rows(fed.changes(0))
    assert len(rows(fed.changes(0, 3))) == 7
    (Path(fed.path) / "_change_data/p=z/postimage.parquet").unlink()
    with fails("DELTA_CHANGE_DATA_FILE_NOT_FOUND", "postimage.parquet", "version 2", "VACUUM"):
        rows(fed.changes(0, 3))
    with settings({"spark.sql.files.ignoreMissingFiles": "true"}):
        assert fed.query(rows, 0, 3) == CHANGES[:3] + CHANGES[4:]


def test_columns_renamed_inside_the_range(rows: Any, fails: Any, database: str, tmp_path: Path) -> None:
    rows(f"CREATE TABLE mapped (a INT, b STRING) USING delta TBLPROPERTIES ({FEED}, 'delta.columnMapping.mode' = 'id')")
    rows("INSERT INTO mapped VALUES (1, 'x')")
    assert [row[:4] for row in rows("SELECT * FROM table_changes('mapped', 0)")] == [(1, "x", "insert", 1)]
    path = Path(rows("DESCRIBE DETAIL mapped")[0][4].removeprefix("file:"))
    created = (path / "_delta_log" / f"{0:020d}.json").read_text().splitlines()
    metadata = next(json.loads(line) for line in created if "metaData" in line)
    metadata["metaData"]["schemaString"] = metadata["metaData"]["schemaString"].replace('"name":"b"', '"name":"bb"')
    assert Fed("mapped", path).commit(metadata) == 2
    rows("INSERT INTO mapped VALUES (2, 'y')")
    with fails("DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_SCHEMA_CHANGE", "b was renamed to bb", "0 to 1, and 2 to 3"):
        rows("SELECT * FROM table_changes('mapped', 0)")
    assert [row[:4] for row in rows("SELECT * FROM table_changes('mapped', 2)")] == [(2, "y", "insert", 3)]
