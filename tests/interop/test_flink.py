"""Apache Flink follows a table by its changes as Debezium's events: from files, and from a Kafka topic.

``HEADWATER_TEST_EXAMPLES`` asks for another number of statements.
"""

from __future__ import annotations

import base64
import os
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headwater.tables import DeltaTable
from support import flink
from support.changelogs import CODES, statements

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from support.kafka.broker import Broker

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]
#: Fewer may have no update or no deletion among them.
_FEWEST = 40
STATEMENTS = max(_FEWEST, int(os.environ.get("HEADWATER_TEST_EXAMPLES", "200")))
COLUMNS = "k BIGINT, v BIGINT, p STRING"
FEED = "'delta.enableChangeDataFeed' = 'true'"


@pytest.fixture(scope="module")
def changed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of a table after random statements."""
    path = str(tmp_path_factory.mktemp("changed"))
    print(f"seed {(seed := random.randrange(2**32))}")
    spark.sql(f"CREATE TABLE delta.`{path}` ({COLUMNS}) USING delta PARTITIONED BY (p) TBLPROPERTIES ({FEED})")
    spark.sql(f"INSERT INTO delta.`{path}` SELECT id, id, concat('p', id % 3) FROM range(0, 40, 1, 3)")
    for statement in statements(random.Random(seed), f"delta.`{path}`", STATEMENTS):
        spark.sql(statement)
    return path


def rows(spark: SparkSession, path: str) -> list[list[Any]]:
    return sorted(list(row) for row in spark.read.format("delta").load(path).collect())


@pytest.mark.parametrize("keys", [["k"], []], ids=["keys", "no_keys"])
def test_flink_has_the_table_from_files(spark: SparkSession, changed: str, tmp_path: Path, keys: list[str]) -> None:
    events = DeltaTable.forPath(spark, changed).debezium(1, keys=keys, tombstones=False)
    events.select("value").write.text(str(tmp_path / "events"))
    found, kinds = flink.materialized(COLUMNS, {"connector": "filesystem", "path": (tmp_path / "events").as_uri()})
    assert sorted(found) == rows(spark, changed)
    assert kinds.keys() == CODES.keys()
    assert kinds["-U"] == kinds["+U"]


def test_flink_has_the_table_from_a_topic(
    spark_with_kafka: SparkSession, kafka: Broker, changed: str, tmp_path: Path
) -> None:
    topic = f"followed-{tmp_path.name}"
    kafka.create_topic(topic, 3)
    table = DeltaTable.forPath(spark_with_kafka, changed)
    table.sendChanges(topic, kafka.servers, checkpoint=str(tmp_path / "checkpoint"), keys=["k"], startingVersion=1)
    source = {
        "connector": "kafka",
        "topic": topic,
        "properties.bootstrap.servers": kafka.servers,
        "scan.startup.mode": "earliest-offset",
        "scan.bounded.mode": "latest-offset",
    }
    found, kinds = flink.materialized(COLUMNS, source, jars=flink.connector_jars())
    assert sorted(found) == rows(spark_with_kafka, changed)
    assert kinds.keys() == CODES.keys()


def test_flink_reads_values_of_every_kind(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    spark.sql(
        f"CREATE TABLE delta.`{path}` (k INT, d DECIMAL(20, 7), f DOUBLE, ts TIMESTAMP, n TIMESTAMP_NTZ, day DATE, "
        "b BINARY, yes BOOLEAN, s STRUCT<x: INT, y: ARRAY<STRING>>, m MAP<STRING, DOUBLE>) USING delta "
        f"TBLPROPERTIES ({FEED})"
    )
    spark.sql(
        f"INSERT INTO delta.`{path}` VALUES "
        "(1, 1234567890123.4567891, 0.1D, TIMESTAMP'2024-02-29 12:00:00.000001+01:00', "
        "TIMESTAMP_NTZ'2024-02-29 12:00:00', DATE'2024-02-29', X'00FF', true, "
        "named_struct('x', NULL, 'y', array('a', NULL)), map('k', 1.5D)), "
        "(2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), "
        "(3, -0.0000001, double('NaN'), TIMESTAMP'1969-12-31 23:59:59.5Z', TIMESTAMP_NTZ'0099-01-01 00:00:00.25', "
        "DATE'0099-01-01', X'', false, named_struct('x', 3, 'y', array()), map())"
    )
    spark.sql(f"UPDATE delta.`{path}` SET d = d * 2, f = -double('Infinity') WHERE k = 3")
    events = DeltaTable.forPath(spark, path).debezium(1, keys=["k"], tombstones=False)
    events.select("value").write.text(str(tmp_path / "events"))
    columns = (
        "k INT, d DECIMAL(20, 7), f DOUBLE, ts TIMESTAMP_LTZ(6), n TIMESTAMP(6), `day` DATE, b BYTES, yes BOOLEAN, "
        "s ROW<x INT, y ARRAY<STRING>>, m MAP<STRING, DOUBLE>"
    )
    texts = ("d", "f", "ts", "n", "`day`", "yes")
    select = ", ".join(["k", *(f"CAST({name} AS STRING)" for name in texts), "TO_BASE64(DECODE(b, 'ISO-8859-1'))"])
    select += ", CARDINALITY(s.y), s.y[1], s.y[2], s.x, m['k'], CARDINALITY(m)"
    source = {"connector": "filesystem", "path": (tmp_path / "events").as_uri()}
    found, kinds = flink.materialized(columns, source, select)
    assert kinds == {"+I": 3, "-U": 1, "+U": 1}
    times = ["1969-12-31 23:59:59.500000", "0099-01-01 00:00:00.250000", "0099-01-01"]
    assert sorted(found) == [
        [1, "1234567890123.4567891", "0.1", "2024-02-29 11:00:00.000001", "2024-02-29 12:00:00.000000", "2024-02-29",
         "TRUE", base64.b64encode("\x00\xff".encode()).decode(), 2, "a", None, None, 1.5, 1],
        [2, *[None] * 13],
        [3, "-0.0000002", "-Infinity", *times, "FALSE", "", 0, None, None, 3, None, 0],
    ]  # fmt: skip
