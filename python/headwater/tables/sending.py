"""Sending a table's changes to a Kafka topic: a stream of its changelog's events that ends after the existing changes.

Owns the query and its errors. Promise: events are sent at least once, those of a key in the order in which they apply;
a call with the same checkpoint goes on after the last micro-batch that was sent whole. What had been sent of the next
one comes again, each event exactly as it was: the micro-batch is in the checkpoint before its first event is sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headwater.tables.errors import DeltaTableError
from headwater.tables.names import quote
from headwater.tables.opening import NamedTable

#: What a producer of Kafka does unless the caller says otherwise: it keeps order, and gives up within a minute.
_DEFAULTS = {
    "kafka.enable.idempotence": "true",
    "kafka.acks": "all",
    "kafka.max.block.ms": "30000",
    "kafka.request.timeout.ms": "20000",
    "kafka.delivery.timeout.ms": "60000",
    "kafka.linger.ms": "5",
}
#: How the names of Kafka's errors begin in the text of a query's.
_KAFKA = "org.apache.kafka."
#: What Spark says of errors whose class its driver does not know, as those of a connector that ADD JAR brought.
_UNKNOWN = "UnknownReason"
_NOT_SAID = "the job that sends them failed."


def send_changes(
    spark: SparkSession,
    table: NamedTable,
    topic: str,
    servers: str,
    *,
    checkpoint: str,
    keys: Sequence[str],
    starting_version: int | None = None,
    tombstones: bool = True,
    options: Mapping[str, str] | None = None,
) -> None:
    """As :meth:`headwater.tables.DeltaTable.sendChanges`."""
    sink = {**_DEFAULTS, **(options or {}), "kafka.bootstrap.servers": servers, "topic": topic}
    form = {"readChangelog": "true", "changelogFormat": "debezium", "tombstones": str(tombstones)}
    reader = spark.readStream.format("delta").options(**form).option("idCols", ", ".join(map(quote, keys)))
    if starting_version is not None:
        reader = reader.option("startingVersion", str(starting_version))
    events = table.read(reader).select("key", "value")
    writer = events.writeStream.format("kafka").options(**sink).option("checkpointLocation", checkpoint)
    query = writer.trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    except PySparkException as error:
        reason = _reason(str(error))
        if reason is None:
            raise
        raise DeltaTableError(
            "HEADWATER_CHANGES_NOT_SENT",
            {"tableName": table.shown, "topic": topic, "servers": servers, "reason": reason},
        ) from None


def _reason(text: str) -> str | None:
    """What Kafka says in the text of an error; None if it is not Kafka's."""
    said = (line.partition(_KAFKA)[2].partition(": ")[2] for line in text.splitlines() if _KAFKA in line)
    return next((words for words in said if words), _NOT_SAID if _UNKNOWN in text else None)
