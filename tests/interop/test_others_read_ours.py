"""What we write, the peer and delta-rs read: the same rows, and the peer's log finds nothing to complain of."""

from __future__ import annotations

import functools
import re
import time
from pathlib import Path

import pytest
from deltalake import DeltaTable

from headwater.log.checkpoint_reading import named_sidecars
from headwater.log.checkpoint_writing import write_checkpoint
from headwater.log.snapshot import load_snapshot
from headwater.stores import LocalStore

TYPES = """bo BOOLEAN, by TINYINT, sh SMALLINT, i INT, l BIGINT, f FLOAT, d DOUBLE, de DECIMAL(38,18), sd DECIMAL(5,2),
    s STRING, bi BINARY, da DATE, ts TIMESTAMP, ch CHAR(5), vc VARCHAR(6), ar ARRAY<INT>, m MAP<STRING, INT>,
    st STRUCT<a: INT, b: STRUCT<c: STRING, d: DATE>>, ast ARRAY<STRUCT<x: INT>>"""
VALUES = """(true, 1Y, 2S, 3, 4L, 1.5F, 2.5D, 12345678901234567890.123456789012345678BD, 1.25, 'héllo', X'00FF',
        DATE'2024-02-29',
    TIMESTAMP'2024-01-02 03:04:05.678901', 'ab', 'abc', array(1, NULL), map('k', 1), named_struct('a', 1, 'b',
    named_struct('c', 'q', 'd', DATE'1900-01-01')), array(named_struct('x', 1), NULL)),
    (false, -1Y, -2S, -3, -9223372036854775808, float('NaN'), double('-Infinity'), 0, -999.99, '', X'',
        DATE'0001-01-01',
    TIMESTAMP'1900-01-01 00:00:00', 'abcde', '', array(), map(), NULL, NULL)"""
NULLS = ", ".join(["NULL"] * 19)

PARTITION_TYPES = (
    """id INT, bo BOOLEAN, by TINYINT, l BIGINT, d DOUBLE, de DECIMAL(10,3), da DATE, ts TIMESTAMP, s STRING"""
)
ODD_TEXTS = ["", None, "a/b", "50%", "x=y", "ünïcode", "a b", "c:d", "q'uote", "#h?", "日本", "a%2Fb", ".", "*", "{}"]

#: name: statements; the table is t.
CASES: dict[str, list[str]] = {
    "types": [
        f"CREATE TABLE t ({TYPES}) USING delta",
        f"INSERT INTO t VALUES {VALUES}",
        f"INSERT INTO t VALUES ({NULLS})",
    ],
    "partition_types": [
        f"CREATE TABLE t ({PARTITION_TYPES}) USING delta PARTITIONED BY (bo, by, l, d, de, da, ts, s)",
        """INSERT INTO t VALUES (1, true, 1Y, 2L, 2.5D, 3.125, DATE'2024-02-29',
        TIMESTAMP'2024-01-02 03:04:05.678901', 'a/b=c%d'),
           (2, false, -1Y, -2L, -0.5D, 0.001, DATE'1969-12-31', TIMESTAMP'1969-01-02 03:04:05', 'é x')""",
        "INSERT INTO t (id) VALUES (3)",
    ],
    "constraints": [
        "CREATE TABLE t (a INT NOT NULL, b STRING, CONSTRAINT positive CHECK (a > 0)) USING delta",
        "INSERT INTO t VALUES (1, 'x')",
    ],
    "generated": [
        """CREATE TABLE t (ts TIMESTAMP, d DATE GENERATED ALWAYS AS (CAST(ts AS DATE)), v INT,
        w INT GENERATED ALWAYS AS (v * 2))
           USING delta PARTITIONED BY (d)""",
        "INSERT INTO t (ts, v) VALUES (TIMESTAMP'2024-01-02 03:04:05', 4), (NULL, NULL)",
    ],
    "overwritten": [
        "CREATE TABLE t (a INT, p STRING) USING delta PARTITIONED BY (p)",
        "INSERT INTO t VALUES (1, 'x'), (2, 'y'), (3, 'z')",
        "INSERT OVERWRITE t PARTITION (p = 'x') VALUES (10)",
        "INSERT INTO t REPLACE WHERE a >= 3 VALUES (30, 'z'), (31, 'w')",
        "INSERT WITH SCHEMA EVOLUTION INTO t BY NAME SELECT 5 AS a, 'x' AS p, 1.5D AS extra",
    ],
    "truncated": [
        "CREATE TABLE t (a INT) USING delta",
        "INSERT INTO t VALUES (1), (2)",
        "TRUNCATE TABLE t",
        "INSERT INTO t VALUES (3)",
    ],
    "properties": [
        """CREATE TABLE t (a INT, b STRING) USING delta COMMENT 'a table' TBLPROPERTIES ('delta.appendOnly' = 'true',
           'delta.dataSkippingNumIndexedCols' = '1', 'delta.logRetentionDuration' = 'interval 7 days',
           'my.own' = 'x')""",
        "INSERT INTO t VALUES (1, 'x')",
    ],
    "change_data_feed": [
        "CREATE TABLE t (a INT, b STRING) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
        "INSERT INTO t VALUES (1, 'x')",
        "INSERT OVERWRITE t VALUES (2, 'y')",
    ],
    "laid_out": [
        "CREATE TABLE t (a INT, p STRING) USING delta PARTITIONED BY (p)",
        "INSERT INTO t VALUES (1, 'x'), (2, NULL)",
        "INSERT INTO t VALUES (3, 'x'), (4, NULL)",
        "OPTIMIZE t ZORDER BY (a)",
    ],
    "from_partitions_to_clusters": [
        "CREATE TABLE t (a INT, p STRING, i INT) USING delta PARTITIONED BY (p, i)",
        "INSERT INTO t VALUES (1, 'x', 1), (2, NULL, NULL), (3, 'ü/%', 2)",
        "ALTER TABLE t CLUSTER BY (i, a)",
        "INSERT INTO t VALUES (4, 'y', 2)",
        "OPTIMIZE t",
    ],
}
#: The same, with features delta-rs does not read or not read whole.
PEER_ONLY: dict[str, list[str]] = {
    "timestamp_ntz": ["CREATE TABLE t (a TIMESTAMP_NTZ, p TIMESTAMP_NTZ) USING delta PARTITIONED BY (p)",
                      "INSERT INTO t VALUES (TIMESTAMP_NTZ'2024-01-02 03:04:05.678901', TIMESTAMP_NTZ'1969-01-02 "
                      "03:04:05.5'), (NULL, NULL)"],
    "variant": ["CREATE TABLE t (id INT, v VARIANT) USING delta", """INSERT INTO t SELECT 1, parse_json('{"a": [1,
        2.5, "x"]}')"""],
    "column_mapping_name": [
        "CREATE TABLE t (`a b` INT, p STRING, st STRUCT<`x,y`: INT, z: STRING>) USING delta PARTITIONED BY (p) "
        "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
        "INSERT INTO t VALUES (1, 'x', named_struct('x', 1, 'z', 'q')), (2, NULL, NULL)",
        "INSERT OVERWRITE t PARTITION (p = 'x') VALUES (3, named_struct('x', 7, 'z', 'r'))",
        "INSERT WITH SCHEMA EVOLUTION INTO t BY NAME SELECT 4 AS `a b`, 'w' AS p, 9 AS `new one`",
    ],
    "column_mapping_id": [
        "CREATE TABLE t (a INT, m MAP<STRING, STRUCT<k: INT>>) USING delta TBLPROPERTIES "
        "('delta.columnMapping.mode' = 'id')",
        "INSERT INTO t VALUES (1, map('x', named_struct('k', 1))), (2, NULL)",
    ],
    "identity": [
        "CREATE TABLE t (id BIGINT GENERATED ALWAYS AS IDENTITY (START WITH 10 INCREMENT BY 5), v STRING) USING delta",
        "INSERT INTO t (v) VALUES ('a'), ('b')",
    ],
    "defaults": [
        "CREATE TABLE t (a INT, b STRING DEFAULT 'dd') USING delta TBLPROPERTIES "
        "('delta.feature.allowColumnDefaults' = 'supported')",
        "INSERT INTO t (a) VALUES (1)",
    ],
    "in_commit_timestamps": [
        "CREATE TABLE t (a INT) USING delta TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')",
        "INSERT INTO t VALUES (1)",
    ],
    "clustered": ["CREATE TABLE t (a INT, b STRING) USING delta CLUSTER BY (b)", "INSERT INTO t VALUES (1, 'x')"],
    "compacted": [
        "CREATE TABLE t (a INT, p STRING) USING delta PARTITIONED BY (p) TBLPROPERTIES "
        "('delta.enableDeletionVectors' = 'true', 'delta.enableRowTracking' = 'true')",
        "INSERT INTO t VALUES (1, 'x'), (2, 'x'), (3, NULL)",
        "INSERT INTO t VALUES (4, 'x'), (5, 'x'), (6, NULL)",
        "DELETE FROM t WHERE a = 2",
        "OPTIMIZE t",
        "DELETE FROM t WHERE a = 5",
    ],
    "purged": [
        "CREATE TABLE t (a INT, b STRING, c INT) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', "
        "'delta.columnMapping.mode' = 'name')",
        "INSERT INTO t VALUES (1, 'x', 1), (2, 'y', 2), (3, 'z', 3)",
        "DELETE FROM t WHERE a = 2",
        "ALTER TABLE t DROP COLUMN c",
        "REORG TABLE t APPLY (PURGE)",
    ],
    "deletion_vectors_enabled": [
        "CREATE TABLE t (a INT) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
        "INSERT INTO t VALUES (1), (2)",
    ],
}  # fmt: skip


def made(spark, statements: list[str], path: Path) -> Path:
    """Make the table t of the statements at a path."""
    for statement in statements:
        spark.sql(
            re.sub(
                r"(?<=TABLE )t\b|(?<=INTO )t\b|(?<=WRITE )t\b|(?<=FROM )t\b|(?<=OPTIMIZE )t\b",
                f"delta.`{path}`",
                statement,
            )
        )
    return path


@pytest.fixture
def make(spark, tmp_path):
    """``make(statements)``: the path of the table t they make."""
    return lambda statements, name="t": made(spark, statements, tmp_path / name)


@pytest.fixture(scope="module")
def case(spark, tmp_path_factory):
    """``case(name)``: the path of a case's table, which tests read and leave as it is."""
    home = tmp_path_factory.mktemp("cases")
    return functools.cache(lambda name: made(spark, {**CASES, **PEER_ONLY}[name], home / name))


@pytest.fixture(autouse=True)
def _of_this_test(request):
    """What the peer logged about other tests' tables is theirs."""
    if "peer" in request.fixturenames:
        request.getfixturevalue("peer").warnings()


def accepted(peer):
    """Nothing the peer logged is about this table's log."""
    complaints = [line for line in peer.warnings().splitlines() if "checksum" in line.lower() or " ERROR " in line]
    assert not complaints, "\n".join(complaints)


#: Those whose features the peer meets in another test, below or in test_changes.py, and two that need none.
_ELSEWHERE = {
    *("truncated", "properties", "identity", "in_commit_timestamps", "clustered", "deletion_vectors_enabled"),
    *("constraints", "generated", "overwritten", "change_data_feed"),
}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.soak if n in _ELSEWHERE else []) for n in (*CASES, *PEER_ONLY)]
)
def test_peer_reads(name, case, ours, peer):
    path = case(name)
    expected = ours(path)
    assert expected
    assert peer.table(path) == expected
    accepted(peer)


@pytest.mark.parametrize("name", CASES)
def test_delta_rs_reads(name, case, ours):
    path = case(name)
    table = DeltaTable(str(path))
    assert table.to_pyarrow_table().num_rows == len(ours(path))
    names = table.schema().to_arrow().names
    simple = [n for n in names if n in ("a", "b", "id", "i", "l", "s", "v", "w", "p")]
    read = table.to_pyarrow_table(columns=simple).to_pylist()
    assert sorted(([row[n] for n in simple] for row in read), key=repr) == ours(path, ", ".join(simple))


def test_both_read_what_leaves_few_files(spark, make, ours, peer):
    """An optimized write, and the compaction behind the commit after it."""
    settings = {"autoCompact.enabled": "true", "autoCompact.minNumFiles": "2"}
    path = make(
        [
            "CREATE TABLE t (a BIGINT, p STRING) USING delta PARTITIONED BY (p) TBLPROPERTIES "
            "('delta.autoOptimize.optimizeWrite' = 'true')",
            "INSERT INTO t SELECT id, 'a b:' || id % 3 FROM range(0, 100, 1, 4)",
        ]
    )
    for name, value in settings.items():
        spark.conf.set(f"spark.databricks.delta.{name}", value)
    spark.sql(f"INSERT INTO delta.`{path}` SELECT id, 'a b:' || id % 2 FROM range(0, 100, 1, 4)")
    for name in settings:
        spark.conf.unset(f"spark.databricks.delta.{name}")
    until = time.monotonic() + 60
    while not (path / "_delta_log" / f"{3:020d}.json").exists():
        assert time.monotonic() < until
        time.sleep(0.05)
    assert len(peer.sql(f"SELECT DISTINCT _metadata.file_path FROM delta.`{path}`")) == 3
    expected = ours(path)
    assert len(expected) == 200
    assert peer.table(path) == expected
    assert DeltaTable(str(path)).to_pyarrow_table().num_rows == 200
    accepted(peer)


def test_odd_partition_texts(spark, ours, peer, tmp_path):
    path = tmp_path / "t"
    spark.createDataFrame(list(enumerate(ODD_TEXTS)), "id INT, p STRING").coalesce(1).write.format("delta").partitionBy(
        "p"
    ).save(str(path))
    expected = sorted(([i, text or None] for i, text in enumerate(ODD_TEXTS)), key=repr)
    assert ours(path) == expected
    assert peer.table(path) == expected
    read = DeltaTable(str(path)).to_pyarrow_table(columns=["id", "p"]).to_pylist()
    assert sorted(([row["id"], row["p"]] for row in read), key=repr) == expected


@pytest.mark.parametrize("policy", ["classic", "v2"])
def test_checkpoints_and_checksums(policy, spark, ours, peer, tmp_path):
    path = tmp_path / "t"
    spark.sql(
        f"CREATE TABLE delta.`{path}` (a INT, s STRING, p INT) USING delta PARTITIONED BY (p) "
        f"TBLPROPERTIES ('delta.checkpointInterval' = '4', 'delta.checkpointPolicy' = '{policy}')"
    )
    for i in range(5):
        spark.sql(f"INSERT INTO delta.`{path}` VALUES ({i}, 'text {i}', {i % 2})")
    spark.sql(f"INSERT OVERWRITE delta.`{path}` PARTITION (p = 0) VALUES (100, 'o')")
    log = path / "_delta_log"
    # Checksums and checkpoints are written behind the commit they are of.
    deadline = time.monotonic() + 30
    while not ((log / f"{6:020d}.crc").exists() and (log / "_last_checkpoint").exists()):
        assert time.monotonic() < deadline, sorted(file.name for file in log.iterdir())
        time.sleep(0.1)
    assert any(".checkpoint." in file.name for file in log.iterdir())
    for version in range(4):  # readers must start from the checkpoint
        (path / "_delta_log" / f"{version:020d}.json").unlink()
    assert peer.table(path) == ours(path)
    peer.sql(f"INSERT INTO delta.`{path}` VALUES (7, 'theirs', 1)")
    assert peer.table(path) == ours(path)
    if policy == "classic":
        assert DeltaTable(str(path)).to_pyarrow_table().num_rows == len(ours(path))
    accepted(peer)


def test_checkpoints_that_share_sidecars(spark, ours, peer, tmp_path):
    path = tmp_path / "t"
    spark.sql(
        f"CREATE TABLE delta.`{path}` (a INT, p INT) USING delta PARTITIONED BY (p) TBLPROPERTIES "
        "('delta.checkpointInterval' = '100', 'delta.checkpointPolicy' = 'v2', 'delta.checkpoint.partSize' = '2')"
    )
    sidecars = []
    for i in range(1, 6):
        spark.sql(
            f"INSERT INTO delta.`{path}` SELECT /*+ REPARTITION(2) */ id, {i % 2} FROM range({10 * i}, {10 * i + 4})"
        )
        if i in (3, 5):
            # This process reads the table's checkpoint each time, as one that has just started does.
            snapshot = load_snapshot(str(path), LocalStore())
            write_checkpoint(snapshot)
            newest = load_snapshot(str(path), LocalStore()).segment.checkpoint
            assert newest.version == snapshot.version
            sidecars.append(named_sidecars(newest, LocalStore()).keys())
        if i == 3:
            spark.sql(f"DELETE FROM delta.`{path}` WHERE a = 10")
    assert sidecars[0] & sidecars[1]
    assert sidecars[1] - sidecars[0]
    for version in range(6):
        (path / "_delta_log" / f"{version:020d}.json").unlink()
    assert peer.table(path) == ours(path)
    peer.sql(f"INSERT INTO delta.`{path}` VALUES (7, 0)")
    assert len(ours(path)) == 20
    assert peer.table(path) == ours(path)
    accepted(peer)


def test_peer_changes_our_tables(make, ours, peer):
    path = make(CASES["overwritten"])
    assert peer.sql(f"SELECT count(*) FROM delta.`{path}`") == [[len(ours(path))]]
    # Their history shows what ours does.
    assert len(peer.sql(f"DESCRIBE HISTORY delta.`{path}`")) == len(CASES["overwritten"])
    peer.sql(f"UPDATE delta.`{path}` SET a = a + 1 WHERE p = 'x'")
    peer.sql(f"DELETE FROM delta.`{path}` WHERE a = 2")
    peer.sql(f"OPTIMIZE delta.`{path}`")
    assert ours(path) == peer.table(path)
    accepted(peer)


def test_peer_keeps_our_constraints(make, ours, peer):
    path = make(CASES["constraints"])
    for row in ("(0, 'x')", "(NULL, 'x')"):
        with pytest.raises(Exception, match="violated"):
            peer.sql(f"INSERT INTO delta.`{path}` VALUES {row}")
    path = make(CASES["generated"], "t2")
    peer.sql(f"INSERT INTO delta.`{path}` (ts, v) VALUES (TIMESTAMP'2025-01-02 03:04:05', 7)")
    assert ["2025-01-02T03:04:05", "2025-01-02", 7, 14] in ours(path)


def test_peer_goes_on_with_our_cubes_and_we_with_its(spark, make, ours, peer):
    path = make(
        [
            "CREATE TABLE t (a INT, b STRING) USING delta CLUSTER BY (b, a)",
            "INSERT INTO t SELECT id, 'v' || id % 10 FROM range(100)",
            "OPTIMIZE t",
        ]
    )
    optimize = f"OPTIMIZE delta.`{path}`"
    assert spark.sql(optimize).first().metrics.numFilesRemoved == 0
    peer.sql(optimize)  # all is one cube of ours: nothing is left to do
    assert [row.operation for row in spark.sql(f"DESCRIBE HISTORY delta.`{path}`").collect()].count("OPTIMIZE") == 1
    peer.sql(f"INSERT INTO delta.`{path}` SELECT id, 'w' || id % 10 FROM range(100)")
    peer.sql(optimize)
    assert ours(path) == peer.table(path)
    answer = spark.sql(optimize).first().metrics
    assert (answer.numFilesRemoved, answer.clusteringStats.inputOtherFiles.numFiles) == (0, 0)
    accepted(peer)
