"""What the peer and delta-rs write, we read: every type and every feature, and both sides write to one table in
turn."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest
from deltalake import write_deltalake

TYPES = """bo BOOLEAN, by TINYINT, sh SMALLINT, i INT, l BIGINT, f FLOAT, d DOUBLE, de DECIMAL(38,18), sd DECIMAL(5,2),
    s STRING, bi BINARY, da DATE, ts TIMESTAMP, tn TIMESTAMP_NTZ, ch CHAR(5), vc VARCHAR(6), ar ARRAY<INT>,
        m MAP<STRING, INT>,
    st STRUCT<a: INT, b: STRUCT<c: STRING, d: DATE>>, ast ARRAY<STRUCT<x: INT>>, v VARIANT"""
VALUES = """(true, 1Y, 2S, 3, 4L, 1.5F, 2.5D, 12345678901234567890.123456789012345678BD, 1.25, 'héllo', X'00FF',
        DATE'2024-02-29',
    TIMESTAMP'2024-01-02 03:04:05.678901', TIMESTAMP_NTZ'2024-01-02 03:04:05.678901', 'ab', 'abc', array(1, NULL),
        map('k', 1),
    named_struct('a', 1, 'b', named_struct('c', 'q', 'd', DATE'1900-01-01')), array(named_struct('x', 1), NULL),
    parse_json('{"a": [1, 2.5, "x"]}')), (false, -1Y, -2S, -3, -9223372036854775808, float('NaN'),
        double('-Infinity'), 0, -999.99,
    '', X'', DATE'0001-01-01', TIMESTAMP'1900-01-01 00:00:00', NULL, 'abcde', '', array(), map(), NULL, NULL, NULL)"""

#: name: the peer's statements about table t.
CASES: dict[str, list[str]] = {
    "types": [f"CREATE TABLE t ({TYPES}) USING delta", f"INSERT INTO t VALUES {VALUES}"],
    "partition_types": [
        "CREATE TABLE t (id INT, bo BOOLEAN, l BIGINT, d DOUBLE, de DECIMAL(10,3), da DATE, ts TIMESTAMP, tn "
        "TIMESTAMP_NTZ, s STRING) "
        "USING delta PARTITIONED BY (bo, l, d, de, da, ts, tn, s)",
        """INSERT INTO t VALUES (1, true, 2L, 2.5D, -3.125, DATE'2024-02-29', TIMESTAMP'2024-01-02 03:04:05.678901',
           TIMESTAMP_NTZ'2024-01-02 03:04:05.5', 'a/b=c%d é'), (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)""",
    ],
    "deletion_vectors": [
        "CREATE TABLE t (a INT, b STRING) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
        "INSERT INTO t SELECT id, 'x' FROM range(0, 20, 1, 1)",
        "DELETE FROM t WHERE a % 3 = 0",
        "UPDATE t SET b = 'y' WHERE a = 4",
    ],
    "column_mapping": [
        "CREATE TABLE t (a INT, b STRING, c INT, st STRUCT<x: INT, y: INT>) USING delta TBLPROPERTIES "
        "('delta.columnMapping.mode' = 'name')",
        "INSERT INTO t VALUES (1, 'x', 10, named_struct('x', 1, 'y', 2))",
        "ALTER TABLE t RENAME COLUMN a TO `new a`",
        "ALTER TABLE t DROP COLUMN c",
        "ALTER TABLE t RENAME COLUMN st.x TO z",
        "ALTER TABLE t ADD COLUMN c STRING",
        "INSERT INTO t VALUES (2, 'y', named_struct('z', 3, 'y', 4), 'again')",
    ],
    "type_widening": [
        "CREATE TABLE t (a TINYINT, f FLOAT, d DATE, de DECIMAL(5,2), st STRUCT<x: SMALLINT>) USING delta "
        "TBLPROPERTIES ('delta.enableTypeWidening' = 'true', 'delta.feature.timestampNtz' = 'supported')",
        "INSERT INTO t VALUES (1, 1.5, DATE'2024-01-01', 1.25, named_struct('x', 3S))",
        "ALTER TABLE t ALTER COLUMN a TYPE INT",
        "ALTER TABLE t ALTER COLUMN f TYPE DOUBLE",
        "ALTER TABLE t ALTER COLUMN d TYPE TIMESTAMP_NTZ",
        "ALTER TABLE t ALTER COLUMN de TYPE DECIMAL(10,4)",
        "ALTER TABLE t ALTER COLUMN st.x TYPE INT",
        "INSERT INTO t VALUES (100000, 2.5, TIMESTAMP_NTZ'2024-01-02 03:04:05', 12345.6789, named_struct('x', 100000))",
    ],
    "change_data_feed": [
        "CREATE TABLE t (a INT, b STRING) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
        "INSERT INTO t VALUES (1, 'x'), (2, 'y')",
        "UPDATE t SET b = 'z' WHERE a = 1",
        "DELETE FROM t WHERE a = 2",
    ],
    "v2_checkpoints": [
        "CREATE TABLE t (a INT) USING delta TBLPROPERTIES ('delta.checkpointPolicy' = 'v2', "
        "'delta.checkpointInterval' = '2')",
        *(f"INSERT INTO t VALUES ({i})" for i in range(3)),
    ],
    "classic_checkpoints": [
        "CREATE TABLE t (a INT, p INT) USING delta PARTITIONED BY (p) TBLPROPERTIES ('delta.checkpointInterval' = '3', "
        "'delta.checkpoint.writeStatsAsStruct' = 'true', 'delta.checkpoint.writeStatsAsJson' = 'false')",
        *(f"INSERT INTO t VALUES ({i}, {i % 2})" for i in range(4)),
    ],
    "in_commit_timestamps": [
        "CREATE TABLE t (a INT) USING delta TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')",
        "INSERT INTO t VALUES (1)",
    ],
    "clustering": [
        "CREATE TABLE t (a INT, b STRING) USING delta CLUSTER BY (a)",
        "INSERT INTO t VALUES (1, 'x')",
        "OPTIMIZE t",
    ],
    "row_tracking": [
        "CREATE TABLE t (a INT) USING delta TBLPROPERTIES ('delta.enableRowTracking' = 'true')",
        "INSERT INTO t VALUES (1), (2)",
        "DELETE FROM t WHERE a = 1",
    ],
    "merged": [
        "CREATE TABLE t (a INT, b STRING) USING delta",
        "INSERT INTO t VALUES (1, 'x'), (2, 'y')",
        "MERGE INTO t USING (SELECT 2 AS a, 'merged' AS b UNION ALL SELECT 3, 'new') s ON t.a = s.a "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
    ],
}


def named(statement: str, path) -> str:
    """The statement with table t at a path."""
    found = re.sub(
        r"(?<=TABLE )t\b|(?<=INTO )t\b|(?<=UPDATE )t\b|(?<=FROM )t\b|(?<=OPTIMIZE )t\b", f"delta.`{path}`", statement
    )
    return found.replace(" USING (SELECT", " t USING (SELECT") if found.startswith("MERGE") else found


#: Tables that others of these tests read and write to, and one that is like the first; of change data, test_changes.py
#: has the rows, of clustering, test_others_read_ours.py what the peer clustered.
_ELSEWHERE = {
    *("column_mapping", "deletion_vectors", "in_commit_timestamps", "row_tracking", "merged"),
    *("change_data_feed", "clustering", "classic_checkpoints"),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.soak if name in _ELSEWHERE else []) for name in CASES]
)
def test_reads_the_peers(name, spark, peer, ours, tmp_path):
    path = tmp_path / "t"
    for statement in CASES[name]:
        peer.sql(named(statement, path))
    expected = peer.table(path)
    assert expected
    assert ours(path) == expected
    assert spark.sql(f"SELECT count(*) FROM delta.`{path}`").first()[0] == len(expected)


@pytest.mark.parametrize(
    "name",
    [
        *("deletion_vectors", "column_mapping"),  # which writers must know of; readers of all find our checkpoints
        *(pytest.param(name, marks=pytest.mark.soak) for name in ("v2_checkpoints", "clustering")),
    ],
)
def test_writes_to_the_peers(name, spark, peer, ours, tmp_path):
    """Appends to and overwrites what the peer made."""
    path = tmp_path / "t"
    for statement in CASES[name]:
        peer.sql(named(statement, path))
    before = peer.table(path)
    copy = f"SELECT * FROM delta.`{path}`"
    spark.sql(f"INSERT INTO delta.`{path}` {copy}")
    assert ours(path) == sorted(before + before, key=repr)
    spark.sql(f"INSERT OVERWRITE delta.`{path}` {copy} LIMIT 1")
    assert peer.table(path) == ours(path)
    assert len(ours(path)) == 1


def test_append_in_turn(spark, peer, ours, tmp_path):
    """Both append to one table, across checkpoints, with in-commit timestamps that never go back."""
    path = tmp_path / "t"
    peer.sql(
        f"CREATE TABLE delta.`{path}` (a INT, who STRING) USING delta "
        "TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true', 'delta.checkpointInterval' = '3')"
    )
    for i in range(3):
        spark.sql(f"INSERT INTO delta.`{path}` VALUES ({i}, 'ours')")
        peer.sql(f"INSERT INTO delta.`{path}` VALUES ({i}, 'theirs')")
    spark.sql(f"INSERT OVERWRITE delta.`{path}` SELECT * FROM delta.`{path}` WHERE a > 0")
    peer.sql(f"DELETE FROM delta.`{path}` WHERE a = 2")
    assert ours(path) == peer.table(path) == [[1, "ours"], [1, "theirs"]]
    seen = [row.timestamp for row in spark.sql(f"DESCRIBE HISTORY delta.`{path}`").collect()]
    assert seen == sorted(seen, reverse=True)
    assert len(set(seen)) == len(seen)
    assert [row[1][:19] for row in peer.sql(f"DESCRIBE HISTORY delta.`{path}`")] == [s.isoformat()[:19] for s in seen]


def test_identity_in_turn(spark, peer, ours, tmp_path):
    path = tmp_path / "t"
    peer.sql(
        f"CREATE TABLE delta.`{path}` (id BIGINT GENERATED ALWAYS AS IDENTITY (START WITH 5 INCREMENT BY 10), v "
        f"STRING) USING delta"
    )
    for i in range(2):
        peer.sql(f"INSERT INTO delta.`{path}` (v) VALUES ('theirs {i}')")
        spark.sql(f"INSERT INTO delta.`{path}` (v) VALUES ('ours {i}'), ('ours too {i}')")
    found = ours(path)
    assert found == peer.table(path)
    ids = [row[0] for row in found]
    assert len(set(ids)) == len(ids) == 6
    assert all(i % 10 == 5 for i in ids)


def test_delta_rs_in_turn(spark, ours, tmp_path):
    path = tmp_path / "t"
    write_deltalake(path, pa.table({"a": pa.array([1, 2], pa.int32()), "p": ["x", "y"]}), partition_by=["p"])
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (3, 'z'), (4, NULL)")
    write_deltalake(path, pa.table({"a": pa.array([5], pa.int32()), "p": ["x"]}), mode="append")
    spark.sql(f"INSERT OVERWRITE delta.`{path}` PARTITION (p = 'y') VALUES (20)")
    write_deltalake(
        path, pa.table({"a": pa.array([30], pa.int32()), "p": ["z"]}), mode="overwrite", predicate="p = 'z'"
    )
    assert ours(path) == [[1, "x"], [20, "y"], [30, "z"], [4, None], [5, "x"]]


def test_delta_rs_types(spark, ours, tmp_path):
    import datetime
    from decimal import Decimal

    path = tmp_path / "t"
    when = datetime.datetime(2024, 1, 2, 3, 4, 5, 678901, tzinfo=datetime.timezone.utc)
    table = pa.table(
        {
            "b": [True, None], "i": pa.array([1, None], pa.int8()),
            "l": [2**62, None], "f": pa.array([1.5, None], pa.float32()),
            "s": ["é", None], "bi": [b"\x00\xff", None], "da": [datetime.date(2024, 2, 29), None],
            "ts": pa.array([when, None], pa.timestamp("us", "UTC")),
            "tn": pa.array([when.replace(tzinfo=None), None], pa.timestamp("us")),
            "de": pa.array([Decimal("1.25"), None], pa.decimal128(10, 2)), "li": [[1, None], None],
            "st": [{"x": 1, "y": "q"}, None], "m": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int32())),
        }
    )  # fmt: skip
    write_deltalake(path, table)
    assert ours(path) == [
        [None] * 13,
        [True, 1, 2**62, "1.5", "é", "00ff", "2024-02-29", "2024-01-02T03:04:05.678901",
         "2024-01-02T03:04:05.678901", "1.25",
         [1, None], [1, "q"], [["k", 1]]],
    ]  # fmt: skip
