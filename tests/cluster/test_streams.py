"""A streaming query on executors of their own, one of which is killed in a batch: every row is there once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.feeds import Feed, rows_of

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

STREAM = """
rows = spark.readStream.schema("id LONG, v STRING").option("maxFilesPerTrigger", 1).json({source!r})
rows = rows.dropDuplicates(["id"]).selectExpr("held(id) AS id", "v")
writer = rows.writeStream.format("delta").option("checkpointLocation", {checkpoint!r}).trigger(availableNow=True)
query = writer.start({table!r})
query.awaitTermination()
result = query.lastProgress["numInputRows"]
"""


def test_an_executor_is_killed_in_a_batch(cluster: Any, tmp_path: Path) -> None:
    spark: Any = None  # the query runs in the cluster's driver
    feed, table = Feed(spark, tmp_path / "feed"), tmp_path / "table"
    feed.put(rows_of(*range(20)), rows_of(*range(10, 30)))
    text = STREAM.format(source=str(feed.source), checkpoint=str(feed.checkpoint), table=str(table))
    cluster.both_executors()
    with cluster.latch() as inside:
        answer = cluster.begin(python=text)
        worker = inside(answer)
        assert worker is not None, "no task was held"
        cluster.kill(cluster.executor_of(worker))
    answer.get()
    assert cluster.sql(f"SELECT id FROM delta.`{table}` ORDER BY id") == [[n] for n in range(30)]
    history = cluster.sql(f"DESCRIBE HISTORY delta.`{table}`")
    assert len(history) == 2
