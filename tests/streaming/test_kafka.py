"""Kafka's topics as sources and sinks of streams over tables, with a real broker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from support.kafka.broker import Broker

pytestmark = pytest.mark.spark


class Topic:
    """A topic of JSON messages, and the stream that brings them to the table at ``table``."""

    schema = "id LONG, v STRING"

    def __init__(self, spark: SparkSession, broker: Broker, name: str, home: Path) -> None:
        self.spark = spark
        self.broker = broker
        self.name = name
        self.home = home
        self.table = str(home / "table")

    def send(self, *messages: dict[str, Any]) -> None:
        """One after the other; a topic keeps the order."""
        self.broker.send(self.name, [(str(message["id"]), json.dumps(message)) for message in messages])

    def messages(self) -> DataFrame:
        """A stream of the topic's messages."""
        from pyspark.sql import functions as F

        topic = self.spark.readStream.format("kafka").options(
            **{"kafka.bootstrap.servers": self.broker.servers, "subscribe": self.name, "startingOffsets": "earliest"}
        )
        return topic.load().select(F.from_json(F.col("value").cast("string"), self.schema).alias("m")).select("m.*")

    def run(self) -> list[tuple[Any, ...]]:
        """Bring what there is to the table; the table's rows."""
        writer = self.messages().writeStream.format("delta").option("checkpointLocation", str(self.home / "checkpoint"))
        writer.trigger(availableNow=True).start(self.table).awaitTermination()
        return sorted(tuple(row) for row in self.spark.read.format("delta").load(self.table).collect())


@pytest.fixture
def topic(spark_with_kafka: SparkSession, kafka: Broker, tmp_path: Path) -> Topic:
    kafka.create_topic(tmp_path.name)
    return Topic(spark_with_kafka, kafka, tmp_path.name, tmp_path)


def test_messages_become_rows_and_rows_messages(topic: Topic, kafka: Broker) -> None:
    topic.send({"id": 1, "v": "a"}, {"id": 2, "v": "ö"})
    assert topic.run() == [(1, "a"), (2, "ö")]
    topic.send({"id": 3, "v": None})
    assert topic.run() == [(1, "a"), (2, "ö"), (3, None)]
    back = f"{topic.name}-back"
    kafka.create_topic(back)
    to_kafka = {"kafka.bootstrap.servers": kafka.servers, "topic": back}
    rows = topic.spark.readStream.format("delta").load(topic.table)
    writer = rows.selectExpr("string(id) AS key", "v AS value").writeStream.format("kafka").options(**to_kafka)
    checkpoint = str(topic.home / "checkpoint-back")
    writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()
    reader = topic.spark.read.format("kafka").options(**to_kafka | {"subscribe": back})
    found = reader.load().selectExpr("string(key)", "string(value)").collect()
    assert sorted(tuple(row) for row in found) == [("1", "a"), ("2", "ö"), ("3", None)]
