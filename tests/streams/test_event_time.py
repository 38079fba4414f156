"""The initial snapshot in the order of event time: each row in one micro-batch and none late, whatever the files."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.errors import AnalysisException

from headwater.streams.event_time import EventTimes, Range
from support.drawing import STEADY

LIMITS = st.none() | st.integers(1, 4)
FILES = st.lists(
    st.lists(st.integers(-50, 50) | st.sampled_from([0, 1]), min_size=1, max_size=5), min_size=1, max_size=12
)


@settings(STEADY, max_examples=300)
@given(files=FILES, limits=st.lists(st.tuples(LIMITS, LIMITS), min_size=1), scale=st.sampled_from([1, 7, 10**15]))
def test_each_row_in_one_range_and_none_late(files, limits, scale):
    times = [[row * scale for row in rows] for rows in files]
    sizes = np.array([100] * len(files), np.int64)
    given_times = EventTimes(
        np.array([min(rows) for rows in times], np.int64), np.array([max(rows) for rows in times], np.int64), sizes
    )
    start: int | None = None
    seen: list[int] = []
    count = 0
    while True:
        # The limits may be others after a restart.
        most_files, most_bytes = limits[count % len(limits)]
        taken = given_times.take(start, most_files, None if most_bytes is None else 100 * most_bytes)
        rows = [t for f in times for t in f if (start is None or t >= start) and (taken.end is None or t < taken.end)]
        assert not seen or not rows or min(rows) >= max(seen)
        holding = [any(r in set(rows) for r in f) for f in times]
        assert taken.files >= sum(holding)
        assert taken.size == 100 * taken.files
        seen += rows
        count += 1
        if taken.end is None:
            break
        assert start is None or taken.end > start
        start = taken.end
    assert sorted(seen) == sorted(t for f in times for t in f)
    assert count <= 16 * len(files) + 1


def test_ranges_hold_what_the_limits_say():
    """Files side by side come in their order, and those that have all times are cut into ranges of one size."""
    sizes = np.full(10, 100, np.int64)
    apart = EventTimes(
        np.arange(10, dtype=np.int64)[::-1] * 1000, np.arange(10, dtype=np.int64)[::-1] * 1000 + 999, sizes
    )
    ranges: list[Range] = []
    start: int | None = None
    while not ranges or start is not None:
        ranges.append(apart.take(start, 2, None))
        start = ranges[-1].end
    assert len(ranges) == 5
    assert all(taken.files <= 4 for taken in ranges)
    over = EventTimes(np.zeros(10, np.int64), np.full(10, 100_000, np.int64), sizes)
    first = over.take(None, 5, None)
    assert first.end is not None
    assert 40_000 < first.end < 60_000
    assert over.take(None, 10, None).end is None


@pytest.mark.parametrize("partitioned", [pytest.param(False, marks=pytest.mark.soak), True])
def test_no_row_is_late_through_spark(spark, path, tmp_path, partitioned):
    """Files whose times run backwards, one a micro-batch, with a restart in the middle; then a commit."""
    clause = "PARTITIONED BY (day)" if partitioned else ""
    mapped = "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    spark.sql(f"CREATE TABLE delta.`{path}` (id BIGINT, `event time` TIMESTAMP, day INT) USING delta {clause} {mapped}")
    for i in (4, 2, 3, 0, 1):
        ids = f"range({i * 20}, {i * 20 + 20})" if partitioned else f"range({i}, 100, 5)"
        spark.sql(
            f"INSERT INTO delta.`{path}` SELECT /*+ COALESCE(1) */ id, timestamp_seconds(1700000000 + id * 3600), {i} "
            f"FROM {ids}"
        )
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (100, NULL, 9)")
    dropped: list[int] = []
    batches: list[int] = []

    def run(most: int) -> None:
        begun: list[int] = []

        def write(rows: Any, batch: int) -> None:
            if len(begun) == most:
                raise RuntimeError("enough micro-batches")
            begun.append(batch)
            rows.write.mode("overwrite").parquet(f"{tmp_path}/out/{batch:05}")

        rows = spark.readStream.format("delta").option("withEventTimeOrder", "true").option("maxFilesPerTrigger", 1)
        times = rows.load(path).selectExpr("id", "`event time` AS at").withWatermark("at", "1 minute")
        counts = times.groupBy("at").count()
        query = (
            counts.writeStream.foreachBatch(write)
            .outputMode("append")
            .option("checkpointLocation", f"{tmp_path}/checkpoint")
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination()
        except Exception as error:
            if "enough micro-batches" not in str(error):
                raise
        progress = [json.loads(p.json) for p in query.recentProgress]
        dropped.extend(p["stateOperators"][0]["numRowsDroppedByWatermark"] for p in progress if p["stateOperators"])
        batches.extend(p["numInputRows"] for p in progress)

    run(2)
    spark.sql(f"INSERT INTO delta.`{path}` SELECT 200, timestamp_seconds(1700000000 + 200 * 3600), 4")
    run(1000)
    assert len(batches) >= 5
    assert sum(dropped) == 0
    done = spark.read.format("parquet").load(f"{tmp_path}/out/*").where("at IS NOT NULL")
    assert done.selectExpr("count(*)", "count(DISTINCT at)", "sum(count)").first()[:] == (100, 100, 100)
    versions = {
        json.loads(file.read_text().splitlines()[-1])["sourceVersion"]
        for file in (tmp_path / "checkpoint" / "offsets").glob("[0-9]*")
    }
    assert versions == {1, 1000}


def test_watermarks_that_are_refused(spark, path, tmp_path):
    spark.sql(f"CREATE TABLE delta.`{path}` (id BIGINT, ts TIMESTAMP) USING delta")
    rows = spark.readStream.format("delta").option("withEventTimeOrder", "true").load(path)
    computed = rows.selectExpr("timestamp_seconds(id) AS at").withWatermark("at", "1 minute").groupBy("at").count()
    query = computed.writeStream.format("memory").queryName("refused").option("checkpointLocation", f"{tmp_path}/c")
    with pytest.raises(AnalysisException, match="DELTA_ILLEGAL_OPTION.*withEventTimeOrder.*one column of the table"):
        query.start()
