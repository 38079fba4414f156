"""The change data feeds the peer writes, read by both of us: every row, its kind, its version and its time."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

import headwater
from headwater.change_data.changelog import PAIRED, PAIRED_TAG
from support.changelogs import dicts, pairs, states

FEED = "'delta.enableChangeDataFeed' = 'true'"
MERGE = (
    "MERGE INTO {t} t USING (SELECT 2 AS a, 'merged' AS b, 1 AS p UNION ALL SELECT 90, 'new', 3) s ON t.a = s.a "
    "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE AND t.a = 5 THEN DELETE"
)
ROWS = "SELECT /*+ COALESCE(1) */ CAST(id AS INT), concat('v', id), CAST(id % 2 AS INT) FROM range(8)"

#: name: the peer's statements about table {t}.
CASES: dict[str, list[str]] = {
    "copied_on_write": [
        f"CREATE TABLE {{t}} (a INT NOT NULL, b STRING, p INT) USING delta PARTITIONED BY (p) TBLPROPERTIES ({FEED})",
        f"INSERT INTO {{t}} {ROWS}",
        "UPDATE {t} SET b = 'u', p = 2 WHERE a < 2",
        "DELETE FROM {t} WHERE a = 3",
        MERGE,
        "ALTER TABLE {t} ADD COLUMNS (c DATE)",
        "INSERT INTO {t} VALUES (100, NULL, NULL, DATE'2024-02-29')",
        "INSERT INTO {t} REPLACE WHERE p = 1 VALUES (101, 'r', 1, NULL)",
        "INSERT OVERWRITE {t} VALUES (1, 'o', 1, NULL)",
    ],
    "deletion_vectors": [
        f"CREATE TABLE {{t}} (a INT, b STRING, p INT) USING delta PARTITIONED BY (p) TBLPROPERTIES ({FEED}, "
        "'delta.enableDeletionVectors' = 'true', 'delta.enableInCommitTimestamps' = 'true')",
        f"INSERT INTO {{t}} {ROWS}",
        "DELETE FROM {t} WHERE a = 1",
        "DELETE FROM {t} WHERE a = 3",
        MERGE,
        "RESTORE TABLE {t} TO VERSION AS OF 2",
    ],
    "column_mapping": [
        f"CREATE TABLE {{t}} (a INT, b STRING, p INT) USING delta PARTITIONED BY (p) TBLPROPERTIES ({FEED}, "
        "'delta.columnMapping.mode' = 'name', 'delta.enableDeletionVectors' = 'true')",
        f"INSERT INTO {{t}} {ROWS}",
        "DELETE FROM {t} WHERE a = 6",
        "ALTER TABLE {t} ADD COLUMNS (st STRUCT<`x y`: INT, z: STRING>)",
        "INSERT INTO {t} VALUES (10, 'n', 0, named_struct('x y', 1, 'z', 'q'))",
        "UPDATE {t} SET b = 'u' WHERE a IN (2, 10)",
    ],
    "column_mapping_by_id": [
        f"CREATE TABLE {{t}} (a INT, b STRING) USING delta TBLPROPERTIES ({FEED}, 'delta.columnMapping.mode' = 'id')",
        "INSERT INTO {t} VALUES (1, 'x'), (2, 'y')",
        "UPDATE {t} SET b = 'z' WHERE a > 0",
    ],
}
IN_BRIEF = {"deletion_vectors", "column_mapping_by_id"}


@pytest.fixture
def written(peer: Any, tmp_path: Any) -> Any:
    """``written(name)``: the path of a case's table, made by the peer."""

    def write(name: str) -> str:
        path = str(tmp_path / "t")
        for statement in CASES[name]:
            peer.sql(statement.replace("{t}", f"delta.`{path}`"))
        return path

    return write


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    # The usual run has the longest, and mapping by its smallest.
    [pytest.param(case, marks=[] if case in IN_BRIEF else pytest.mark.soak) for case in CASES],
)
def test_the_same_changes(name: str, spark: Any, peer: Any, settings: Any, written: Any, to_plain: Any) -> None:
    path = written(name)

    def ours(query: str) -> list[Any]:
        return sorted((to_plain(row) for row in spark.sql(query).collect()), key=repr)

    def theirs(query: str) -> list[Any]:
        return sorted(peer.sql(query), key=repr)

    everything = f"SELECT * FROM table_changes_by_path('{path}', 0)"
    expected = theirs(everything)
    assert len(expected) > 5
    assert ours(everything) == expected
    with settings({"spark.sql.parquet.enableVectorizedReader": "false"}):
        assert ours(everything) == expected
    *_, kind, version, _ = range(len(expected[0]))
    part = f"SELECT a, _change_type FROM table_changes_by_path('{path}', 1, 2) WHERE _commit_version = 2 AND a > 0"
    in_part = [[row[0], row[kind]] for row in expected if row[version] == 2 and row[0] > 0]
    assert ours(part) == sorted(in_part, key=repr)
    assert ours(everything.replace("*", "count(*)")) == [[len(expected)]]
    one_kind = f"{everything} WHERE _change_type = 'update_postimage'"
    assert ours(one_kind) == [row for row in expected if row[kind] == "update_postimage"] != []


def test_the_changes_of_a_transaction(spark: Any, peer: Any, to_plain: Any, tmp_path: Any) -> None:
    path = str(tmp_path / "t")
    spark.sql(
        f"CREATE TABLE delta.`{path}` (a INT, b STRING, p INT) USING delta PARTITIONED BY (p) "
        f"TBLPROPERTIES ({FEED}, 'delta.enableDeletionVectors' = 'true')"
    )
    spark.sql(f"INSERT INTO delta.`{path}` {ROWS}")
    with headwater.in_transaction(spark):
        for statement in (
            "INSERT INTO {t} VALUES (10, 'n', 2), (11, 'n', 2)",
            "DELETE FROM {t} WHERE p = 0",
            "DELETE FROM {t} WHERE a IN (1, 10)",
            "UPDATE {t} SET b = 'u' WHERE a = 3",
        ):
            spark.sql(statement.replace("{t}", f"delta.`{path}`"))
    query = f"SELECT * FROM table_changes_by_path('{path}', 2)"
    found = sorted((to_plain(row) for row in spark.sql(query).collect()), key=repr)
    assert found == sorted(peer.sql(query), key=repr)
    kinds = [(row[0], row[3]) for row in found]
    assert sorted(kinds) == [
        *((a, "delete") for a in (0, 1, 2)),
        (3, "update_postimage"),
        (3, "update_preimage"),
        *((a, "delete") for a in (4, 6)),
        (11, "insert"),
    ]


def test_changes_on_both_sides_of_a_rename(spark: Any, peer: Any, fails: Any, tmp_path: Any) -> None:
    path = str(tmp_path / "t")
    for statement in [
        f"CREATE TABLE delta.`{path}` (a INT, b STRING) USING delta TBLPROPERTIES "
        f"({FEED}, 'delta.columnMapping.mode' = 'name')",
        f"INSERT INTO delta.`{path}` VALUES (1, 'x')",
        f"ALTER TABLE delta.`{path}` RENAME COLUMN b TO bb",
        f"INSERT INTO delta.`{path}` VALUES (2, 'y')",
        f"ALTER TABLE delta.`{path}` DROP COLUMN bb",
    ]:
        peer.sql(statement)
    for versions in ((0, 1), (1, 1), (2, 3), (3, 3), (4, 4)):
        query = "SELECT * FROM table_changes_by_path('{}', {}, {})".format(path, *versions)
        found = spark.sql(query)
        assert [list(row)[:-1] for row in found.collect()] == [row[:-1] for row in peer.sql(query)]
    with fails("DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_SCHEMA_CHANGE", "was renamed to", "1 to 1, and 2 to 3"):
        spark.sql(f"SELECT * FROM table_changes_by_path('{path}', 1, 3)")
    with fails("DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_SCHEMA_CHANGE", "bb was dropped", "0 to 3, and 4 to 4"):
        spark.sql(f"SELECT * FROM table_changes_by_path('{path}', 0)")


#: Statements of ours about table {t}, and the rows each must have recorded: a, kind.
WRITTEN = [
    (f"INSERT INTO {{t}} {ROWS}", [(a, "insert") for a in range(8)]),
    ("UPDATE {t} SET b = 'u', p = 2 WHERE a < 1", [(0, "update_preimage"), (0, "update_postimage")]),
    ("DELETE FROM {t} WHERE a = 3", [(3, "delete")]),
    ("DELETE FROM {t} WHERE p = 2", [(0, "delete")]),
    (MERGE, [(2, "update_preimage"), (2, "update_postimage"), (5, "delete"), (90, "insert")]),
    ("INSERT OVERWRITE {t} VALUES (1, 'o', 1)", [*((a, "delete") for a in (1, 2, 4, 6, 7, 90)), (1, "insert")]),
    ("TRUNCATE TABLE {t}", [(1, "delete")]),
]  # fmt: skip


# Copied files have their changes in tests/spark/test_change_feed.py.
@pytest.mark.parametrize("vectors", [pytest.param("false", marks=pytest.mark.soak), "true"])
def test_the_changes_we_write(spark: Any, peer: Any, to_plain: Any, tmp_path: Any, vectors: str) -> None:
    path = str(tmp_path / "t")
    table = f"delta.`{path}`"
    spark.sql(
        f"CREATE TABLE {table} (a INT, b STRING, p INT) USING delta PARTITIONED BY (p) "
        f"TBLPROPERTIES ({FEED}, 'delta.enableDeletionVectors' = '{vectors}')"
    )
    for statement, _ in WRITTEN:
        spark.sql(statement.replace("{t}", table))
    everything = f"SELECT * FROM table_changes_by_path('{path}', 0)"
    ours = sorted((to_plain(row) for row in spark.sql(everything).collect()), key=repr)
    for version, (statement, changes) in enumerate(WRITTEN, 1):
        assert sorted((row[0], row[3]) for row in ours if row[4] == version) == sorted(changes), statement
    assert ours == sorted(peer.sql(everything), key=repr)


def test_others_read_the_files_that_say_which_images_are_pairs(
    spark: Any, peer: Any, to_plain: Any, tmp_path: Any, log: Any
) -> None:
    path = str(tmp_path / "t")
    spark.sql(f"CREATE TABLE delta.`{path}` (a INT, b STRING, p INT) USING delta TBLPROPERTIES ({FEED})")
    spark.sql(f"INSERT INTO delta.`{path}` {ROWS}")
    spark.sql(f"UPDATE delta.`{path}` SET b = concat(b, '!') WHERE a < 3")
    assert [action["cdc"]["tags"] for action in log(path, 2) if "cdc" in action] == [{PAIRED_TAG: PAIRED}]
    everything = f"SELECT * FROM table_changes_by_path('{path}', 0)"
    ours = sorted((to_plain(row) for row in spark.sql(everything).collect()), key=repr)
    assert len(ours) == 8 + 6
    assert ours == sorted(peer.sql(everything), key=repr)
    read = pa.table(DeltaTable(path).load_cdf(starting_version=0).read_all())
    columns = [read[name].to_pylist() for name in ("a", "b", "p", "_change_type", "_commit_version")]
    assert sorted(map(list, zip(*columns, strict=True)), key=repr) == [row[:5] for row in ours]


def test_updates_of_the_peer_are_paired_by_keys(spark: Any, peer: Any, tmp_path: Any) -> None:
    path = str(tmp_path / "t")
    for statement in (
        f"CREATE TABLE {{t}} (a INT, b STRING, p INT) USING delta TBLPROPERTIES ({FEED})",
        f"INSERT INTO {{t}} {ROWS}",
        "UPDATE {t} SET b = concat(b, '!') WHERE a < 6",
        MERGE,
    ):
        peer.sql(statement.replace("{t}", f"delta.`{path}`"))
    found = dicts(spark.sql(f"SELECT * FROM table_changelog_by_path('{path}', 1, 'a')").collect())
    assert states(found)[3] == Counter(tuple(row) for row in peer.table(path))
    updates = [*((a, f"v{a}", f"v{a}!") for a in range(6)), (2, "v2!", "merged")]
    assert sorted((one[0], one[1], two[1]) for one, two in pairs(found)) == sorted(updates)
    assert all(one[0] == two[0] for one, two in pairs(found))


@pytest.mark.parametrize(
    "name", ["cdf-table", "cdf-table-non-partitioned", "cdf-table-with-cdc-and-dvs", "simple_table_with_cdc"]
)
def test_changes_others_wrote(spark: Any, peer: Any, to_plain: Any, shared_tables: Any, name: str) -> None:
    everything = f"SELECT * FROM table_changes_by_path('{shared_tables / name}', 0)"
    ours = sorted((to_plain(row) for row in spark.sql(everything).collect()), key=repr)
    assert ours
    assert ours == sorted(peer.sql(everything), key=repr)
