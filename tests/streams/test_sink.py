"""``writeStream``: what a batch becomes in the table and its history; what is refused, and what remains then."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.feeds import Feed, ran, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Rows = Callable[..., list[tuple[Any, ...]]]
Fails = Callable[..., AbstractContextManager[Any]]


@pytest.fixture
def feed(spark: SparkSession, tmp_path: Path) -> Feed:
    return Feed(spark, tmp_path / "feed")


@pytest.fixture
def table(tmp_path: Path) -> str:
    return str(tmp_path / "table")


@pytest.fixture
def failed() -> Callable[..., AbstractContextManager[None]]:
    """``with failed("words"):`` the query of the block must end with an error whose text has the words."""
    from contextlib import contextmanager

    from pyspark.errors import StreamingQueryException

    @contextmanager
    def expect(*words: str) -> Iterator[None]:
        with pytest.raises(StreamingQueryException) as caught:
            yield
        text = str(caught.value)
        assert "Traceback" not in text.partition("JVM stacktrace")[0]
        for word in words:
            assert word in text, text

    return expect


def commits(table: str) -> list[list[dict[str, Any]]]:
    """The actions of each version."""
    files = sorted(Path(table, "_delta_log").glob("*.json"))
    return [[json.loads(line) for line in file.read_text().splitlines()] for file in files]


def actions(commit: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [action[kind] for action in commit if kind in action]


def test_each_batch_is_a_commit_with_its_number(feed: Feed, table: str, rows: Rows) -> None:
    feed.put(rows_of(1, 2), rows_of(3))
    query = ran(feed.writer().start(table))
    assert rows(f"SELECT * FROM delta.`{table}`", ordered=False) == [(1, "v1"), (2, "v2"), (3, "v3")]
    first, second = commits(table)
    assert [c["txn"]["version"] for c in (*first, *second) if "txn" in c] == [0, 1]
    info = actions(second, "commitInfo")[0]
    assert info["operation"] == "STREAMING UPDATE"
    assert info["operationParameters"] == {"outputMode": "Append", "queryId": query.id, "epochId": "1"}
    assert info["isBlindAppend"] is True
    assert {k: v for k, v in info["operationMetrics"].items() if k != "numOutputBytes"} == {
        "numAddedFiles": "1",
        "numRemovedFiles": "0",
        "numOutputRows": "1",
    }
    assert int(info["operationMetrics"]["numOutputBytes"]) == actions(second, "add")[0]["size"]
    assert [txn["appId"] for c in (first, second) for txn in actions(c, "txn")] == [query.id, query.id]
    assert query.lastProgress["numInputRows"] == 1


def test_a_batch_that_the_table_has_is_skipped_before_any_job(feed: Feed, table: str, spark: SparkSession) -> None:
    feed.put(rows_of(1), rows_of(2))
    ran(feed.writer().start(table))
    assert feed.forget_last_batch() == 1
    # A job that ran would fail on the spoiled file.
    spoiled = feed.source / "00001.json"
    spoiled.unlink()
    ran(feed.writer().start(table))
    assert len(commits(table)) == 2
    assert spark.read.format("delta").load(table).count() == 2


def test_the_first_batch_creates_the_table(feed: Feed, table: str, rows: Rows) -> None:
    feed.put(rows_of(1, 2))
    ran(feed.writer(userMetadata="first").partitionBy("V").start(table))
    (commit,) = commits(table)
    metadata = actions(commit, "metaData")[0]
    assert metadata["partitionColumns"] == ["v"]
    assert all(field["nullable"] for field in json.loads(metadata["schemaString"])["fields"])
    assert actions(commit, "commitInfo")[0]["userMetadata"] == "first"
    assert {a["partitionValues"]["v"] for a in actions(commit, "add")} == {"v1", "v2"}


def test_a_table_by_name_clustered(feed: Feed, database: str, rows: Rows) -> None:
    feed.put(rows_of(1))
    ran(feed.writer().clusterBy("id").toTable("clustered"))
    detail = feed.spark.sql("DESCRIBE DETAIL clustered").first()
    assert detail is not None
    assert (detail["clusteringColumns"], detail["properties"]) == (["id"], {})
    feed.put(rows_of(2))
    ran(feed.writer().clusterBy("id").toTable("clustered"))
    assert rows("SELECT id FROM clustered ORDER BY id") == [(1,), (2,)]


def test_a_table_by_its_path(feed: Feed, table: str, rows: Rows) -> None:
    feed.put(rows_of(1), rows_of(2))
    ran(feed.writer().toTable(f"delta.`{table}`"))
    assert rows(f"SELECT count(*) FROM delta.`{table}`") == [(2,)]


def test_complete_mode_replaces_all_rows(feed: Feed, table: str, rows: Rows, spark: SparkSession) -> None:
    feed.put(rows_of(1, 2), rows_of(1))
    counts = feed.read().groupBy("id").count()
    ran(feed.writer(counts, "complete").start(table))
    assert rows(f"SELECT * FROM delta.`{table}` ORDER BY id") == [(1, 2), (2, 1)]
    last = commits(table)[-1]
    added = [a["path"] for c in commits(table)[:-1] for a in actions(c, "add")]
    assert sorted(r["path"] for r in actions(last, "remove")) == sorted(added)
    info = actions(last, "commitInfo")[0]
    assert info["operationParameters"]["outputMode"] == "Complete"
    assert info["operationMetrics"]["numRemovedFiles"] == str(len(added))
    assert not info["isBlindAppend"]


def test_complete_mode_with_another_schema(feed: Feed, table: str, rows: Rows, spark: SparkSession) -> None:
    spark.sql(f"CREATE TABLE delta.`{table}` (old INT) USING delta")
    feed.put(rows_of(1, 1))
    counts = feed.read().groupBy("id").count()
    ran(feed.writer(counts, "complete", overwriteSchema="true").start(table))
    assert spark.read.format("delta").load(table).columns == ["id", "count"]
    assert rows(f"SELECT * FROM delta.`{table}`") == [(1, 2)]


def test_columns_by_name_with_what_the_table_computes(feed: Feed, database: str, rows: Rows) -> None:
    feed.spark.sql(
        "CREATE TABLE t (v STRING, n BIGINT GENERATED ALWAYS AS IDENTITY, twice BIGINT GENERATED ALWAYS AS (id * 2),"
        " missing STRING DEFAULT 'none', id INT) USING delta"
        " TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported', 'delta.enableChangeDataFeed' = 'true',"
        " 'delta.enableDeletionVectors' = 'true')"
    )
    feed.put(rows_of(1), rows_of(2))
    ran(feed.writer().toTable("t"))
    assert rows("SELECT id, v, n, twice, missing FROM t ORDER BY id") == [
        (1, "v1", 1, 2, "none"),
        (2, "v2", 2, 4, "none"),
    ]
    changes = rows("SELECT id, _change_type FROM table_changes('t', 1) ORDER BY id")
    assert changes == [(1, "insert"), (2, "insert")]


def test_new_columns_need_merge_schema(feed: Feed, table: str, rows: Rows, failed: Any) -> None:
    feed.spark.sql(f"CREATE TABLE delta.`{table}` (id BIGINT) USING delta")
    feed.put(rows_of(1))
    with failed("DELTA_METADATA_MISMATCH", "v (string) is not a column of the table", "mergeSchema"):
        ran(feed.writer().start(table))
    assert len(commits(table)) == 1
    ran(feed.writer(mergeSchema="true").start(table))
    assert rows(f"SELECT * FROM delta.`{table}`") == [(1, "v1")]


def test_rows_that_break_a_constraint_end_the_query(feed: Feed, table: str, rows: Rows, failed: Any) -> None:
    feed.spark.sql(f"CREATE TABLE delta.`{table}` (id BIGINT, v STRING) USING delta")
    feed.spark.sql(f"ALTER TABLE delta.`{table}` ADD CONSTRAINT small CHECK (id < 10)")
    feed.put(rows_of(1), rows_of(11))
    with failed("DELTA_VIOLATE_CONSTRAINT_WITH_VALUES", "small", "11"):
        ran(feed.writer().start(table))
    assert rows(f"SELECT id FROM delta.`{table}`") == [(1,)]
    feed.spark.sql(f"ALTER TABLE delta.`{table}` DROP CONSTRAINT small")
    ran(feed.writer().start(table))
    assert rows(f"SELECT id FROM delta.`{table}` ORDER BY id") == [(1,), (11,)]


def test_identity_values_cannot_be_given(feed: Feed, database: str, failed: Any) -> None:
    feed.spark.sql("CREATE TABLE t (id BIGINT GENERATED ALWAYS AS IDENTITY, v STRING) USING delta")
    feed.put(rows_of(1))
    with failed("DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED"):
        ran(feed.writer().toTable("t"))


def test_void_columns_are_refused(feed: Feed, table: str, failed: Any) -> None:
    feed.put(rows_of(1))
    with failed("DELTA_NULL_SCHEMA_IN_STREAMING_WRITE", "nothing"):
        ran(feed.writer(feed.read().selectExpr("id", "NULL AS nothing")).start(table))
    assert not Path(table).exists()


@pytest.mark.parametrize(
    ("options", "condition", "word"),
    [
        ({"mergeSchemas": "true"}, "HEADWATER_UNKNOWN_OPTION", "mergeSchemas. Did you mean mergeSchema?"),
        ({"zzzz": "1"}, "HEADWATER_UNKNOWN_OPTION", "zzzz. Correct"),
        ({"mergeSchema": "yes"}, "DELTA_ILLEGAL_OPTION", "mergeSchema"),
        ({"replaceWhere": "id > 1"}, "HEADWATER_NOT_FOR_STREAMS", "replaceWhere"),
        ({"txnAppId": "a", "txnVersion": "1"}, "HEADWATER_NOT_FOR_STREAMS", "txnAppId"),
        (
            {"mergeSchema": "true", "overwriteSchema": "true"},
            "DELTA_INCOMPATIBLE_DATAFRAME_OPTIONS",
            "overwriteSchema",
        ),
        ({"overwriteSchema": "true"}, "DELTA_ILLEGAL_OPTION", "outputMode('complete')"),
        ({"asyncProgressTrackingEnabled": "true"}, "DELTA_ILLEGAL_OPTION", "asyncProgressTrackingEnabled"),
    ],
)
def test_options_that_are_refused(
    feed: Feed, database: str, fails: Fails, options: dict[str, str], condition: str, word: str
) -> None:
    with fails(condition, word):
        feed.writer(**options).toTable("refused")
    assert not feed.spark.catalog.tableExists("refused")


def test_options_of_readers_have_no_effect(feed: Feed, table: str, rows: Rows) -> None:
    feed.put(rows_of(1))
    ran(feed.writer(ignoreChanges="true", maxRecordsPerFile="10", compression="zstd").start(table))
    assert rows(f"SELECT count(*) FROM delta.`{table}`") == [(1,)]
    assert all(a["path"].endswith(".zstd.parquet") for a in actions(commits(table)[0], "add"))


def test_update_mode_is_refused(feed: Feed, table: str, fails: Fails) -> None:
    with fails("DELTA_UNSUPPORTED_OUTPUT_MODE", "update", "MERGE"):
        feed.writer(mode="update").start(table)
    assert not Path(table).exists()


def test_append_only_tables_refuse_complete_mode(feed: Feed, table: str, fails: Fails) -> None:
    feed.spark.sql(f"CREATE TABLE delta.`{table}` (id BIGINT) USING delta TBLPROPERTIES ('delta.appendOnly' = 'true')")
    with fails("DELTA_CANNOT_MODIFY_APPEND_ONLY"):
        feed.writer(feed.read().groupBy("id").count(), "complete").start(table)


def test_other_partition_columns_are_refused(feed: Feed, table: str, fails: Fails) -> None:
    feed.spark.sql(f"CREATE TABLE delta.`{table}` (id BIGINT, v STRING) USING delta PARTITIONED BY (v)")
    with fails("DELTA_METADATA_MISMATCH", "(id)", "(v)"):
        feed.writer().partitionBy("id").start(table)
    with fails("DELTA_CLUSTERING_COLUMNS_MISMATCH", "(id)", "(none)"):
        feed.writer().clusterBy("id").start(table)


class TestNothingRemainsOfARefusedQuery:
    """``toTable`` creates the table before Spark checks the query."""

    def gone(self, spark: SparkSession, name: str) -> bool:
        from pyspark.sql.utils import AnalysisException

        directory = Path(spark.conf.get("spark.sql.warehouse.dir").removeprefix("file:"))  # type: ignore[union-attr]
        try:
            spark.sql(f"DESCRIBE TABLE {name}")
        except AnalysisException:
            database = spark.catalog.currentDatabase()
            return not (directory / f"{database}.db" / name).exists()
        return False

    def test_headwater_refuses_it(self, feed: Feed, database: str, fails: Fails) -> None:
        with fails("DELTA_UNSUPPORTED_OUTPUT_MODE"):
            feed.writer(mode="update").toTable("refused")
        assert self.gone(feed.spark, "refused")

    def test_by_sparks_check_of_the_query(self, feed: Feed, database: str, fails: Fails) -> None:
        counts = feed.read().groupBy("id").count()
        with fails("STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION"):
            feed.writer(counts).toTable("refused")
        assert self.gone(feed.spark, "refused")

    def test_without_a_checkpoint(self, feed: Feed, database: str) -> None:
        with pytest.raises(Exception, match="checkpointLocation must be specified"):
            feed.read().writeStream.format("delta").toTable("refused")
        assert self.gone(feed.spark, "refused")

    def test_by_what_spark_asks_before_the_sink(self, feed: Feed, database: str, fails: Fails) -> None:
        with fails("DELTA_TIME_TRAVEL_WRITE_NOT_ALLOWED"):
            feed.writer(versionAsOf="7").toTable("refused")
        assert self.gone(feed.spark, "refused")

    def test_at_a_path(self, feed: Feed, table: str, fails: Fails) -> None:
        with fails("DELTA_UNSUPPORTED_OUTPUT_MODE"):
            feed.writer(mode="update").toTable(f"delta.`{table}`")
        assert not Path(table).exists()

    def test_an_empty_table_that_was_there_remains(self, feed: Feed, database: str, fails: Fails) -> None:
        feed.spark.sql("CREATE TABLE there (id BIGINT, v STRING) USING delta")
        with fails("DELTA_UNSUPPORTED_OUTPUT_MODE"):
            feed.writer(mode="update").toTable("there")
        assert not self.gone(feed.spark, "there")


def test_a_second_query_with_a_running_ones_name(feed: Feed, tmp_path: Path, database: str) -> None:
    running = Feed(feed.spark, tmp_path / "running")
    running.put(rows_of(1))
    query = (
        running.read()
        .writeStream.format("delta")
        .queryName("one")
        .option("checkpointLocation", str(running.checkpoint))
    )
    started = query.start(str(tmp_path / "other"))
    try:
        with pytest.raises(Exception, match="already active"):
            feed.writer().queryName("one").toTable("second")
        assert not feed.spark.catalog.tableExists("second")
    finally:
        started.stop()
    assert started.exception() is None


def test_two_queries_with_one_checkpoint(feed: Feed, table: str, database: str, settings: Any) -> None:
    writer = feed.read().writeStream.format("delta").option("checkpointLocation", str(feed.checkpoint))
    feed.put(rows_of(1))
    first = writer.start(table)
    try:
        with (
            settings({"spark.sql.streaming.stopActiveRunOnRestart": "false"}),
            pytest.raises(Exception, match="another query with same id is already active"),
        ):
            writer.toTable("second")
        assert not feed.spark.catalog.tableExists("second")
    finally:
        first.stop()
    assert first.exception() is None


def test_a_table_that_is_read_and_written(feed: Feed, table: str, rows: Rows) -> None:
    feed.put(rows_of(1, 2))
    ran(feed.writer().start(table))
    feed.put(rows_of(2, 3))
    known = feed.spark.read.format("delta").load(table).select("id")
    ran(feed.writer(feed.read().join(known, "id")).start(table))
    assert rows(f"SELECT id FROM delta.`{table}` ORDER BY id") == [(1,), (2,), (2,)]
    blind = [actions(commit, "commitInfo")[0]["isBlindAppend"] for commit in commits(table)]
    assert blind == [True, False]


def test_from_a_delta_table_to_another(feed: Feed, table: str, database: str, rows: Rows) -> None:
    feed.put(rows_of(1, 2), rows_of(3))
    ran(feed.writer().toTable("first"))
    copied = feed.spark.readStream.table("first").writeStream.format("delta").trigger(availableNow=True)
    ran(copied.option("checkpointLocation", f"{table}-checkpoint").toTable("second"))
    assert rows("SELECT * FROM second ORDER BY id") == [(1, "v1"), (2, "v2"), (3, "v3")]


def test_merge_in_foreach_batch_runs_once(feed: Feed, table: str, rows: Rows) -> None:
    """By the settings of the batch's session; the query's last batch runs again after a crash."""
    feed.spark.sql(f"CREATE TABLE delta.`{table}` (id BIGINT, n BIGINT) USING delta")
    feed.spark.sql(f"INSERT INTO delta.`{table}` VALUES (1, 0), (2, 0)")
    ran_for: list[int] = []

    def upsert(batch: Any, number: int) -> None:
        session = batch.sparkSession
        session.conf.set("spark.databricks.delta.write.txnAppId", "upserts")
        batch.createOrReplaceTempView("updates")
        statements = (
            f"MERGE INTO delta.`{table}` t USING updates u ON t.id = u.id WHEN MATCHED THEN UPDATE SET n = t.n + 1"
            " WHEN NOT MATCHED THEN INSERT (id, n) VALUES (u.id, 100)",
            f"UPDATE delta.`{table}` SET n = n + 10 WHERE id = 1",
            f"DELETE FROM delta.`{table}` WHERE id = 1",
        )
        for step, text in enumerate(statements):
            session.conf.set("spark.databricks.delta.write.txnVersion", 10 * number + step)
            if number == 0 and "DELETE" in text:
                continue
            found = session.sql(text).collect()
            ran_for.append(found[0][0])

    def run() -> None:
        writer = feed.read().writeStream.foreachBatch(upsert).trigger(availableNow=True)
        ran(writer.option("checkpointLocation", str(feed.checkpoint)).start())

    feed.put(rows_of(1, 3))
    run()
    assert rows(f"SELECT * FROM delta.`{table}` ORDER BY id") == [(1, 11), (2, 0), (3, 100)]
    feed.forget_last_batch()
    run()
    assert rows(f"SELECT * FROM delta.`{table}` ORDER BY id") == [(1, 11), (2, 0), (3, 100)]
    assert ran_for == [2, 1, 0, 0]


def test_appends_in_foreach_batch_run_once(feed: Feed, table: str, rows: Rows) -> None:
    def append(batch: Any, number: int) -> None:
        options = {"txnAppId": "appends", "txnVersion": number}
        batch.write.format("delta").options(**options).mode("append").save(table)

    feed.put(rows_of(1), rows_of(2))
    for _ in range(2):
        writer = feed.read().writeStream.foreachBatch(append).trigger(availableNow=True)
        ran(writer.option("checkpointLocation", str(feed.checkpoint)).start())
        assert rows(f"SELECT id FROM delta.`{table}` ORDER BY id") == [(1,), (2,)]
        feed.forget_last_batch()


def test_state_survives_a_batch_that_is_committed_again(feed: Feed, table: str, rows: Rows) -> None:
    """Counts per id, kept by Spark over the batches; the last is run again."""
    feed.put(rows_of(1, 1), rows_of(1, 2))
    distinct = feed.read().dropDuplicates(["id"])
    ran(feed.writer(distinct).start(table))
    feed.forget_last_batch()
    feed.put(rows_of(2, 3))
    ran(feed.writer(feed.read().dropDuplicates(["id"])).start(table))
    assert rows(f"SELECT id FROM delta.`{table}` ORDER BY id") == [(1,), (2,), (3,)]


@pytest.mark.alone
def test_a_query_that_is_stopped_in_a_batch_ends_without_an_error(feed: Feed, table: str, rows: Rows) -> None:
    from pyspark.sql.functions import udf

    def wait(value: str) -> str:
        time.sleep(30)
        return value

    wait.__annotations__.clear()  # Spark would read them
    waits = udf(wait, "string")
    feed.put(rows_of(1))
    query = feed.writer(feed.read().select("id", waits("v").alias("v"))).start(table)
    jobs = feed.spark.sparkContext.statusTracker()
    deadline = time.monotonic() + 20
    while not jobs.getActiveJobsIds() and time.monotonic() < deadline:
        time.sleep(0.05)
    began = time.monotonic()
    query.stop()
    assert time.monotonic() - began < 15
    assert query.exception() is None
    ran(feed.writer().start(table))
    assert rows(f"SELECT id FROM delta.`{table}`") == [(1,)]
