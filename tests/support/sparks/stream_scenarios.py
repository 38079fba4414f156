"""What the tests have a Spark driver do with streaming queries; see :mod:`support.sparks.scenarios`."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pyspark.sql import SparkSession


def stream_in(spark: SparkSession, source: str, checkpoint: str, table: str, name: bool = False) -> dict[str, Any]:
    """Write the rows of a folder's JSON files, one file a batch, to a table by its path or name, until all are read;
    the number of its rows then, or the query's error as ``text``."""
    rows = spark.readStream.schema("id LONG, v STRING").option("maxFilesPerTrigger", 1).json(source)
    writer = rows.writeStream.format("delta").option("checkpointLocation", checkpoint).trigger(availableNow=True)
    try:
        query = writer.toTable(table) if name else writer.start(table)
        query.awaitTermination()
    except Exception as error:
        return {"text": str(error)}
    read = spark.table(table) if name else spark.read.format("delta").load(table)
    return {"rows": read.count(), "id": str(query.id)}


def streams_beside(spark: SparkSession, text: str, held: str, sources: list[dict[str, str]]) -> dict[str, Any]:
    """Run a statement that a test holds, and once it is held streams, all at once, each to its table; how many rows
    each wrote, and whether the statement was still running then.

    :param held: the file that is there while the statement is held.
    :param sources: the arguments of :func:`stream_in`.
    """
    statement = threading.Thread(target=lambda: spark.newSession().sql(text).collect())
    statement.start()
    deadline = time.monotonic() + 120
    while not os.path.exists(held) and time.monotonic() < deadline:
        time.sleep(0.02)
    with ThreadPoolExecutor(len(sources)) as pool:
        found = list(pool.map(lambda given: stream_in(spark, **given), sources))
    return {"found": found, "held": statement.is_alive()}
