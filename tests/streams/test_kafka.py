"""Kafka's topics as sources and sinks of streams over tables, with a real broker; README's example among them."""

from __future__ import annotations

import json
import os
import random
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.documents import indented
from support.sparks.running import wait_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from support.kafka.broker import Broker

pytestmark = pytest.mark.spark
SECONDS = int(os.environ.get("HEADWATER_TEST_SECONDS", "60"))
#: How a table is what the newest events leave.
UPSERT = {"idCols": "sensor", "sequenceBy": "at", "deleteWhen": "removed", "exceptColumns": "removed"}
#: A source that does not wait for a broker that is gone.
IMPATIENT = {
    "kafka.request.timeout.ms": 2000,
    "kafka.default.api.timeout.ms": 3000,
    "kafkaConsumer.pollTimeoutMs": 3000,
    "fetchOffset.numRetries": 1,
}


class Topic:
    """A topic of JSON messages, and the stream that brings them to the table at ``table``."""

    columns = "sensor INT, at INT, celsius DOUBLE, removed BOOLEAN"

    def __init__(self, spark: SparkSession, broker: Broker, name: str, home: Path) -> None:
        self.spark = spark
        self.broker = broker
        self.name = name
        self.home = home
        self.table = str(home / "table")
        self.sent: list[dict[str, Any]] = []

    def send(self, *events: dict[str, Any]) -> None:
        """One after the other; a topic keeps the order."""
        self.sent += events
        self.broker.send(self.name, [(str(event["sensor"]), json.dumps(event)) for event in events])

    def messages(self, **options: Any) -> DataFrame:
        """A stream of the topic's messages."""
        from pyspark.sql import functions as F

        topic = {"kafka.bootstrap.servers": self.broker.servers, "subscribe": self.name, "startingOffsets": "earliest"}
        loaded = self.spark.readStream.format("kafka").options(**topic, **options).load()
        return loaded.select(F.from_json(F.col("value").cast("string"), self.columns).alias("m")).select("m.*")

    def start(self, source: dict[str, Any], **sink: Any) -> Any:
        """A query that goes on until the topic ends it."""
        writer = self.messages(**source).writeStream.format("delta").options(**sink)
        return writer.option("checkpointLocation", str(self.home / "checkpoint")).start(self.table)

    def run(self, **sink: Any) -> None:
        """Bring what there is to the table."""
        writer = self.messages().writeStream.format("delta").options(**sink).trigger(availableNow=True)
        writer.option("checkpointLocation", str(self.home / "checkpoint")).start(self.table).awaitTermination()

    def rows(self) -> list[tuple[Any, ...]]:
        return sorted(tuple(row) for row in self.spark.read.format("delta").load(self.table).collect())

    def newest(self) -> list[tuple[Any, ...]]:
        """What the messages leave: the newest of each sensor, unless it removes it."""
        last = {event["sensor"]: event for event in sorted(self.sent, key=lambda event: event["at"])}
        return sorted((key, event["at"], event["celsius"]) for key, event in last.items() if not event["removed"])

    def versions(self) -> int:
        return len(list(Path(self.table, "_delta_log").glob("*.json")))


@pytest.fixture
def topic(spark_with_kafka: SparkSession, kafka: Broker, tmp_path: Path) -> Topic:
    kafka.create_topic(tmp_path.name)
    return Topic(spark_with_kafka, kafka, tmp_path.name, tmp_path)


def drawn(draw: random.Random, first: int, count: int, keys: int = 6) -> list[dict[str, Any]]:
    """Events of few sensors, each with a time of its own, in no order, some of them twice."""
    times = list(range(first, first + count))
    draw.shuffle(times)
    events = [
        {"sensor": draw.randrange(keys), "at": at, "celsius": draw.randrange(40) / 2, "removed": draw.random() < 0.3}
        for at in times
    ]
    return [*events, *draw.sample(events, count // 4)]


def test_messages_become_rows_and_rows_messages(topic: Topic, kafka: Broker) -> None:
    back = f"{topic.name}-back"
    kafka.create_topic(back)
    topic.send({"sensor": 1, "at": 1, "celsius": 0.5, "removed": False}, {"sensor": 2, "at": 1, "celsius": None})
    topic.run()
    topic.send({"sensor": 1, "at": 2, "celsius": 1.5, "removed": True})
    topic.run()
    assert topic.rows() == [(1, 1, 0.5, False), (1, 2, 1.5, True), (2, 1, None, None)]
    to_kafka = {"kafka.bootstrap.servers": kafka.servers, "topic": back}
    rows = topic.spark.readStream.format("delta").load(topic.table)
    writer = rows.selectExpr("string(at) AS key", "string(celsius) AS value").writeStream.format("kafka")
    writer = writer.options(**to_kafka, checkpointLocation=str(topic.home / "checkpoint-back"))
    writer.trigger(availableNow=True).start().awaitTermination()
    reader = topic.spark.read.format("kafka").options(**to_kafka | {"subscribe": back})
    found = {tuple(row) for row in reader.load().selectExpr("string(key)", "string(value)").collect()}
    assert found == {("1", "0.5"), ("1", None), ("2", "1.5")}


def test_the_documented_stream_keeps_the_newest_of_each_key(topic: Topic) -> None:
    """Repeated, late and deleting messages, and some of them again after a restart."""
    example = indented("from pyspark.sql import functions as F\n\nmessages")
    given = {
        "/tmp/sensors_from_kafka_checkpoint": str(topic.home / "checkpoint"),
        "/tmp/sensors_from_kafka": topic.table,
    }
    given |= {"127.0.0.1:9092": topic.broker.servers, '"sensors"': repr(topic.name)}
    for written, meant in given.items():
        assert written in example
        example = example.replace(written, meant)
    draw = random.Random(16)
    events = drawn(draw, 0, 20)
    for part in (events[:15], [*events[15:], *drawn(draw, 20, 8), *events[::5]]):
        topic.send(*part)
        exec(example, {"spark": topic.spark})
        assert topic.rows() == topic.newest()


def test_tombstones_delete(topic: Topic, kafka: Broker) -> None:
    kafka.send(topic.name, [("1", "a"), ("2", "b"), ("1", None), ("3", None), ("2", "B"), ("3", "c")])
    loaded = topic.spark.readStream.format("kafka").option("kafka.bootstrap.servers", kafka.servers)
    messages = loaded.option("subscribe", topic.name).option("startingOffsets", "earliest").load()
    keyed = messages.selectExpr("string(key) AS id", "string(value) AS value", "offset")
    upsert = {"idCols": "id", "sequenceBy": "offset", "deleteWhen": "value IS NULL"}
    writer = keyed.writeStream.format("delta").options(**upsert, checkpointLocation=str(topic.home / "checkpoint"))
    writer.trigger(availableNow=True).start(topic.table).awaitTermination()
    assert topic.rows() == [("2", "B", 4), ("3", "c", 5)]


def test_a_broker_that_goes_away_ends_the_stream_which_goes_on(topic: Topic, kafka: Broker) -> None:
    from pyspark.errors import StreamingQueryException

    draw = random.Random(17)
    topic.send(*drawn(draw, 0, 16))
    query = topic.start({**IMPATIENT, "maxOffsetsPerTrigger": 4}, **UPSERT)
    wait_for(lambda: topic.versions() > 1 or not query.isActive, 120, "two micro-batches")
    kafka.kill()
    try:
        with pytest.raises(StreamingQueryException) as ended:
            query.awaitTermination()
    finally:
        kafka.start()
    told = str(ended.value)
    assert "imeout" in told or "imed out" in told, told
    assert "Traceback" not in told.partition("JVM stacktrace")[0]
    topic.send(*drawn(draw, 16, 8))
    topic.run(**UPSERT)
    assert topic.rows() == topic.newest()


def test_a_topic_that_is_not_there_is_named(topic: Topic) -> None:
    from pyspark.errors import StreamingQueryException

    topic.name = "nowhere"
    with pytest.raises(StreamingQueryException, match="UnknownTopicOrPartition"):
        topic.start(IMPATIENT).awaitTermination()
    assert not Path(topic.table, "_delta_log").exists()


@pytest.mark.soak
def test_a_broker_comes_and_goes(topic: Topic, kafka: Broker) -> None:
    """Killed at any moment, again and again: rows of plain appends come once, and upserts are what the events leave."""
    from pyspark.errors import StreamingQueryException

    print(f"seed {(seed := random.randrange(2**32))}")
    draw = random.Random(seed)
    appended = Topic(topic.spark, kafka, topic.name, topic.home / "appended")
    until, first = time.monotonic() + SECONDS, 0
    while time.monotonic() < until:
        events = drawn(draw, first, 40, keys=12)
        first += 40
        topic.send(*events)
        source = {**IMPATIENT, "maxOffsetsPerTrigger": draw.randrange(1, 10)}
        queries = [topic.start(source, **UPSERT), appended.start(source)]
        time.sleep(draw.random() * 10)
        kafka.kill()
        for query in queries:
            with pytest.raises(StreamingQueryException):
                query.awaitTermination()
        kafka.start()
        topic.run(**UPSERT)
        appended.run()
        assert topic.rows() == topic.newest()
        assert appended.rows() == sorted((e["sensor"], e["at"], e["celsius"], e["removed"]) for e in topic.sent)
