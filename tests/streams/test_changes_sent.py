"""A table's changes as Debezium's events: their form and order, and a real broker that gets them."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headwater.tables import DeltaTable
from support.kafka.broker import IMPATIENT

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from support.kafka.broker import Broker

pytestmark = pytest.mark.spark
FEED = "'delta.enableChangeDataFeed' = 'true'"


def materialized(messages: list[tuple[str | None, str | None]]) -> dict[str, Any]:
    """The rows by key that a reader has who checks each old image, and knows what comes again by its place."""
    table: dict[str, Any] = {}
    places: dict[str, tuple[int, int]] = {}
    for key, value in messages:
        assert key is not None
        if value is None:
            assert key not in table
            continue
        event = json.loads(value)
        place = event["source"]["commit_version"], event["source"]["ordinal"]
        if place <= places.get(key, (-1, -1)):
            continue
        places[key] = place
        if event["op"] in ("u", "d"):
            assert table.pop(key) == event["before"]
        else:
            assert event["before"] is None
            assert key not in table
        if event["op"] in ("u", "c"):
            table[key] = event["after"]
    return table


def events(frame: Any) -> list[tuple[str | None, str | None]]:
    return [(row.key, row.value) for row in frame.collect()]


def rows_by_key(spark: SparkSession, keys: str) -> dict[str, Any]:
    row = "to_json(struct(*), map('ignoreNullFields', 'false')) AS row"
    found = spark.table("t").selectExpr(f"to_json(struct({keys})) AS key", row)
    return {row.key: json.loads(row.row) for row in found.collect()}


def test_events_of_inserts_updates_deletes_and_moved_keys(
    spark: SparkSession, database: str, tmp_path: Path, fails: Any
) -> None:
    spark.sql(f"CREATE TABLE t (k INT, v INT, before STRING) USING delta TBLPROPERTIES ({FEED})")
    spark.sql("INSERT INTO t VALUES (1, 10, 'a'), (2, 20, NULL), (3, 30, 'c')")
    spark.sql("UPDATE t SET v = v + 1 WHERE k < 3")
    spark.sql("UPDATE t SET k = 9 WHERE k = 3")
    spark.sql("DELETE FROM t WHERE k = 1")
    spark.sql(
        "MERGE INTO t USING (SELECT 2 AS k) s ON t.k = s.k AND t.v = 0 WHEN NOT MATCHED THEN INSERT (k, v) "
        "VALUES (2, 0) WHEN NOT MATCHED BY SOURCE AND t.k = 2 THEN DELETE"
    )
    table = DeltaTable.forName(spark, "t")
    sent = events(table.debezium(1, keys=["K"]))
    assert materialized(sent) == rows_by_key(spark, "k")
    ops = [(key, json.loads(value)["op"] if value else None) for key, value in sent]
    assert ops.count(('{"k":1}', "u")) == 1
    assert [op for key, op in ops if key == '{"k":3}'] == ["c", "d", None]
    assert [op for key, op in ops if key == '{"k":9}'] == ["c"]
    assert sum(value is None for _, value in sent) == 3
    assert not [value for _, value in events(table.debezium(1, keys=["k"], tombstones=False)) if value is None]
    first = json.loads(next(value for _, value in sent if value))
    committed = spark.sql("DESCRIBE HISTORY t").where("version = 1").selectExpr("unix_millis(timestamp)").first()[0]
    assert list(first) == ["before", "after", "source", "op", "ts_ms"]
    assert (first["ts_ms"], first["source"]["ts_ms"], first["source"]["commit_version"]) == (committed, committed, 1)
    assert sorted(sent, key=repr) == sorted(events(spark.sql("SELECT * FROM table_debezium('t', 1, 'k')")), key=repr)
    stream = spark.readStream.format("delta").options(readChangelog=True, changelogFormat="DEBEZIUM", idCols="k")
    read = stream.option("startingVersion", 1).table("t").writeStream.format("memory").queryName("sent")
    read.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start().awaitTermination()
    streamed = spark.table("sent")
    assert streamed.columns == ["key", "value", "_commit_version", "_ordinal"]
    assert materialized(events(streamed)) == rows_by_key(spark, "k")
    assert sorted(events(streamed), key=repr) == sorted(sent, key=repr)
    keyless = events(table.debezium(1))
    assert {key for key, _ in keyless} == {None}
    assert [json.loads(value)["source"]["commit_version"] for _, value in keyless] == [1, 1, 1, 2, 2, 3, 4, 5, 5]
    with fails("HEADWATER_KEY_COLUMN_NOT_FOUND", "'q'"):
        table.debezium(1, keys=["q"])
    for options in ({"changelogFormat": "debezium"}, {"changelogFormat": "avro", "readChangelog": True}):
        for reader in (spark.read, spark.readStream):
            with fails("DELTA_ILLEGAL_OPTION", "changelogFormat"):
                reader.format("delta").options(startingVersion=1, **options).table("t").schema  # noqa: B018
    with fails("HEADWATER_NO_KEY_COLUMNS"):
        table.sendChanges("t", "127.0.0.1:1", checkpoint="/nowhere", keys=[])


def test_values_of_every_kind(spark: SparkSession, database: str) -> None:
    spark.sql(
        "CREATE TABLE t (k INT, d DECIMAL(20, 7), ts TIMESTAMP, n TIMESTAMP_NTZ, day DATE, b BINARY, "
        f"s STRUCT<x: INT, y: ARRAY<STRING>>, m MAP<STRING, DOUBLE>) USING delta TBLPROPERTIES ({FEED})"
    )
    spark.sql(
        "INSERT INTO t VALUES (1, 12.5, TIMESTAMP'2024-02-29 12:00:00.5+01:00', TIMESTAMP_NTZ'2024-02-29 12:00:00', "
        "DATE'2024-02-29', X'00FF', named_struct('x', NULL, 'y', array('a', NULL)), map('k', 1.5D))"
    )
    ((key, value),) = events(DeltaTable.forName(spark, "t").debezium(1, keys=["k", "day"]))
    assert key == '{"k":1,"day":"2024-02-29"}'
    assert json.loads(str(value))["after"] == {
        "k": 1, "d": 12.5, "ts": "2024-02-29 11:00:00.500000Z", "n": "2024-02-29 12:00:00.000000", "day": "2024-02-29",
        "b": "AP8=", "s": {"x": None, "y": ["a", None]}, "m": {"k": 1.5},
    }  # fmt: skip


def test_keys_of_maps_are_as_values_are(spark: SparkSession, database: str) -> None:
    spark.sql(
        "CREATE TABLE t (k INT, days MAP<DATE, INT>, b MAP<BINARY, INT>, s MAP<STRUCT<x: INT, y: DATE>, INT>, "
        "n ARRAY<STRUCT<m: MAP<TIMESTAMP, MAP<ARRAY<INT>, STRING>>, i: MAP<INT, DOUBLE>>>, `o.d` STRUCT<m: "
        f"MAP<TIMESTAMP_NTZ, INT>>) USING delta TBLPROPERTIES ({FEED})"
    )
    spark.sql(
        "INSERT INTO t VALUES (1, map(DATE'2024-02-29', 1), map(X'00FF', 2), map(named_struct('x', 1, 'y', DATE"
        "'2024-02-29'), 3), array(named_struct('m', map(TIMESTAMP'2024-02-29 12:00:00+01:00', map(array(1, 2), 'q')), "
        "'i', map(7, 0.5D)), NULL), named_struct('m', map(TIMESTAMP_NTZ'2024-02-29 12:00:00', NULL))), "
        "(2, NULL, NULL, NULL, NULL, NULL)"
    )
    spark.sql("UPDATE t SET k = k + 10")
    sent = events(DeltaTable.forName(spark, "t").debezium(1, keys=["b"]))
    assert materialized(sent) == {
        '{"b":{"AP8=":2}}': {
            "k": 11, "days": {"2024-02-29": 1}, "b": {"AP8=": 2}, "s": {'{"x":1,"y":"2024-02-29"}': 3},
            "n": [{"m": {"2024-02-29 11:00:00.000000Z": {"[1,2]": "q"}}, "i": {"7": 0.5}}, None],
            "o.d": {"m": {"2024-02-29 12:00:00.000000": None}},
        },
        '{"b":null}': {"k": 12, "days": None, "b": None, "s": None, "n": None, "o.d": None},
    }  # fmt: skip
    assert [json.loads(str(value))["op"] for _, value in sent].count("u") == 2


@pytest.mark.soak  # the usual run has it over Spark Connect, with a broker that lives
def test_a_topic_gets_them_and_goes_on(
    spark_with_kafka: SparkSession, kafka: Broker, database: str, tmp_path: Path, fails: Any
) -> None:
    """Where the topic is not there, and where the broker is killed while it gets them."""
    spark, topic = spark_with_kafka, f"changes-{tmp_path.name}"
    spark.sql(f"CREATE TABLE t (k INT, v INT, pad STRING) USING delta TBLPROPERTIES ({FEED})")
    spark.sql("INSERT INTO t SELECT id, 0, repeat('x', 500) FROM range(6000)")
    table = DeltaTable.forName(spark, "t")

    def send() -> None:
        """The same call each time."""
        checkpoint = str(tmp_path / "checkpoint")
        table.sendChanges(topic, kafka.servers, checkpoint=checkpoint, keys=["k"], startingVersion=1, options=IMPATIENT)

    def received() -> list[tuple[str | None, str | None]]:
        reader = spark.read.format("kafka").option("kafka.bootstrap.servers", kafka.servers).option("subscribe", topic)
        return events(reader.load().orderBy("partition", "offset").selectExpr("string(key)", "string(value)"))

    with fails("HEADWATER_CHANGES_NOT_SENT", topic, kafka.servers, "same checkpoint"):
        send()
    kafka.create_topic(topic, 3)
    send()
    spark.sql("DELETE FROM t WHERE k % 5 = 0")
    send()
    before = received()
    assert len(before) == 6000 + 2 * 1200
    assert materialized(before) == rows_by_key(spark, "k")
    send()  # there is nothing new
    there = kafka.bytes_of(topic)
    spark.sql("UPDATE t SET v = -1")
    killer = threading.Thread(target=kill_once, args=(kafka, lambda: kafka.bytes_of(topic) > there))
    killer.start()
    try:
        with fails("HEADWATER_CHANGES_NOT_SENT", topic):
            send()
    finally:
        killer.join()
        kafka.start()
    some = received()
    assert len(before) < len(some) < len(before) + 4800, "it was not killed in the middle"
    send()
    every = received()
    assert len(every) > len(before) + 4800
    assert materialized(every) == rows_by_key(spark, "k")


def kill_once(kafka: Broker, reached: Callable[[], bool]) -> None:
    """Kill the broker as soon as something is so."""
    until = time.monotonic() + 120
    while not reached() and time.monotonic() < until:
        time.sleep(0.001)
    kafka.kill()
