"""A stream that writes into a table while the table changes shape: neither fails."""

from __future__ import annotations

import time

import pytest

#: ALTERs that do not concern a writer of the columns id and v.
ALTERS = [
    "ADD COLUMN extra{i} STRING",
    "SET TBLPROPERTIES ('note' = '{i}')",
    "ALTER COLUMN v COMMENT 'words {i}'",
    "ADD CONSTRAINT positive{i} CHECK (id >= -{i})",
    "DROP CONSTRAINT positive{i}",
    "RENAME COLUMN extra{i} TO other{i}",
    "ALTER COLUMN other{i} SET DEFAULT '{i}'",
    "DROP COLUMN other{i}",
    "CLUSTER BY (id)",
    "ALTER COLUMN id {order}",
]
#: What is enabled in between, once each.
ONCE = [
    "SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
    "SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')",
    "SET TBLPROPERTIES ('delta.checkpointPolicy' = 'v2')",
    "SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')",
    "SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')",
]


@pytest.fixture
def writing(spark, tmp_path):
    """A stream that writes a row each third of a second; ``(query, path)``."""
    path = str(tmp_path / "table")
    spark.sql(
        f"CREATE TABLE delta.`{path}` (id BIGINT, v STRING) USING delta TBLPROPERTIES "
        "('delta.columnMapping.mode' = 'name', 'delta.feature.allowColumnDefaults' = 'supported')"
    )
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    query = (
        rows.selectExpr("value AS id", "concat('v', value) AS v")
        .writeStream.format("delta")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(processingTime="300 milliseconds")
        .start(path)
    )
    while query.lastProgress is None:
        assert query.exception() is None
        time.sleep(0.05)
    yield query, path
    query.stop()


def test_thirty_alters(spark, writing):
    query, path = writing
    done = 0
    for i in range(3):
        for alter in ALTERS:
            spark.sql(f"ALTER TABLE delta.`{path}` {alter.format(i=i, order='AFTER v' if i % 2 == 0 else 'FIRST')}")
            done += 1
        for alter in ONCE[2 * i : 2 * i + 2]:
            spark.sql(f"ALTER TABLE delta.`{path}` {alter}")
            done += 1
    assert done >= 30
    seen = query.lastProgress["batchId"]
    deadline = time.monotonic() + 60
    while query.lastProgress["batchId"] < seen + 3 and time.monotonic() < deadline:
        assert query.exception() is None
        time.sleep(0.1)
    query.stop()
    assert query.exception() is None
    written = [row.id for row in spark.sql(f"SELECT id FROM delta.`{path}` ORDER BY id").collect()]
    assert written == list(range(len(written)))
    history = spark.sql(f"DESCRIBE HISTORY delta.`{path}`").collect()
    streamed = [row.version for row in history if row.operation == "STREAMING UPDATE"]
    assert len(streamed) == len(written)
    # They took turns: batches are among the ALTERs, not only after them.
    assert min(streamed) < max(row.version for row in history if row.operation != "STREAMING UPDATE")


def test_a_column_it_writes_goes_away(spark, writing):
    query, path = writing
    spark.sql(f"ALTER TABLE delta.`{path}` DROP COLUMN v")
    with pytest.raises(Exception, match="DELTA_") as raised:
        query.awaitTermination(60)
    assert "`v`" in str(raised.value) or " v" in str(raised.value)
    written = [row.id for row in spark.sql(f"SELECT id FROM delta.`{path}` ORDER BY id").collect()]
    assert written == list(range(len(written)))
