"""Sending a table's changes to a Kafka topic: a stream of its changelog that ends with what there is.

Owns the query and its errors. Promise: events are sent at least once, those of a key in the order in which they apply;
a call with the same checkpoint goes on after the last micro-batch that was sent whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from headwater.tables.debezium import debezium_events
from headwater.tables.errors import DeltaTableError
from headwater.tables.names import quote

#: What a producer of Kafka does unless the caller says otherwise: it keeps order, and gives up within a minute.
_DEFAULTS = {
    "kafka.enable.idempotence": "true",
    "kafka.acks": "all",
    "kafka.max.block.ms": "30000",
    "kafka.request.timeout.ms": "20000",
    "kafka.delivery.timeout.ms": "60000",
    "kafka.linger.ms": "5",
}
_KAFKA = "org.apache.kafka."
#: What stands around the reason of a failure in the text of a query's error.
_MARK = "<<changes not sent>>"


def send_changes(
    spark: SparkSession,
    table: str,
    topic: str,
    servers: str,
    *,
    checkpoint: str,
    keys: Sequence[str],
    starting_version: int | None = None,
    tombstones: bool = True,
    options: Mapping[str, str] | None = None,
) -> None:
    """As :meth:`headwater.tables.DeltaTable.sendChanges`. ``table`` is its name, as SQL."""
    sink = {**_DEFAULTS, **(options or {}), "kafka.bootstrap.servers": servers, "topic": topic}

    def send(batch: DataFrame, _: int) -> None:
        events = debezium_events(batch, keys, table=table, tombstones=tombstones)
        try:
            events.select("key", "value").write.format("kafka").options(**sink).save()
        except AnalysisException:
            raise
        except Exception as error:
            # A streaming query passes on the text of an error alone.
            raise RuntimeError(f"{_MARK}{_reason(str(error))}{_MARK}") from None

    reader = spark.readStream.format("delta").option("readChangelog", "true")
    reader = reader.option("idCols", ", ".join(map(quote, keys)))
    if starting_version is not None:
        reader = reader.option("startingVersion", str(starting_version))
    writer = reader.table(table).writeStream.foreachBatch(send).option("checkpointLocation", checkpoint)
    query = writer.trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    except PySparkException as error:
        _, mark, rest = str(error).partition(_MARK)
        if not mark:
            raise
        reason = rest.partition(_MARK)[0]
        raise DeltaTableError(
            "HEADWATER_CHANGES_NOT_SENT", {"tableName": table, "topic": topic, "servers": servers, "reason": reason}
        ) from None


def _reason(text: str) -> str:
    """What Kafka says in the text of an error; other words where it is not in it."""
    said = next((line.partition(_KAFKA)[2].partition(": ")[2] for line in text.splitlines() if _KAFKA in line), "")
    return said or "the job that sends them failed."
