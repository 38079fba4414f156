"""What Spark's UI says of a statement: its jobs say what they are for, its execution is described by its text."""

from __future__ import annotations

import pytest


@pytest.fixture
def shown(spark):
    """Runs a statement; the descriptions of its root execution and of its jobs, in order."""
    session = spark._jsparkSession
    spark.sparkContext.setLocalProperty("spark.job.description", None)
    bus = spark.sparkContext._jsc.sc().listenerBus()
    executions, store = session.sharedState().statusStore(), spark.sparkContext._jsc.sc().statusStore()

    def heard():
        bus.waitUntilEmpty(60_000)

    def run(text):
        heard()
        before = {one.executionId() for one in _items(executions.executionsList())}
        jobs_before = {job.jobId() for job in _items(store.jobsList(None))}
        spark.sql(text).collect()
        heard()
        new = [one for one in _items(executions.executionsList()) if one.executionId() not in before]
        jobs = [job for job in _items(store.jobsList(None)) if job.jobId() not in jobs_before]
        described = [job.description().getOrElse(None) for job in sorted(jobs, key=lambda job: job.jobId())]
        return [one.description() for one in new if one.rootExecutionId() == one.executionId()], described

    return run


def _items(sequence):
    return [sequence.apply(i) for i in range(sequence.size())]


@pytest.fixture
def orders(spark, database):
    spark.sql(
        "CREATE TABLE orders (id BIGINT, v STRING) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = false)"
    )
    return f"{database}.orders"


def test_jobs_say_what_they_are_for(spark, orders, shown):
    name = f"{orders}"
    text = "INSERT INTO orders SELECT id, 'a' FROM range(0, 10, 1, 2)"
    executions, jobs = shown(text)
    assert text in executions
    assert set(jobs) == {f"WRITE {name}: write rows"}

    text = "UPDATE orders SET v = 'b' WHERE id % 3 = 1"
    executions, jobs = shown(text)
    assert text in executions
    assert jobs[0] == f"UPDATE {name}: 1 of 2, find matching rows"
    assert jobs[-1] == f"UPDATE {name}: 2 of 2, write the files with updated rows"

    text = """MERGE INTO orders t USING (SELECT id + 8 AS id FROM range(4)) s ON t.id = s.id
    WHEN MATCHED THEN UPDATE SET v = 'm' WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, 'n')"""
    executions, jobs = shown(text)
    assert text in executions
    assert all(job.startswith(f"MERGE {name}: ") for job in jobs), jobs
    assert any(job.endswith("find matching rows") for job in jobs), jobs

    executions, jobs = shown("DELETE FROM orders WHERE id = 4")
    assert jobs[0].startswith(f"DELETE {name}: "), jobs


def test_what_the_program_says_stays_for_its_own(spark, orders, shown):
    """A program's description is the execution's, and its own jobs'; after the statement it is in force again."""
    context = spark.sparkContext
    context.setJobDescription("nightly load")
    try:
        executions, jobs = shown("INSERT INTO orders VALUES (1, 'x')")
        assert "nightly load" in executions
        assert set(jobs) == {f"WRITE {orders}: write rows"}
        assert context.getLocalProperty("spark.job.description") == "nightly load"
        _, jobs = shown("SELECT count(*) FROM range(10)")
        assert set(jobs) == {"nightly load"}
    finally:
        context.setLocalProperty("spark.job.description", None)


def test_no_secret_is_shown(spark, orders, shown):
    text = "ALTER TABLE orders SET TBLPROPERTIES ('my.password' = 'hunter2', 'team' = 'me')"
    executions, _ = shown(text)
    assert "hunter2" not in "".join(executions)
    assert any("'team' = 'me'" in text for text in executions)


@pytest.mark.timeout(120)
def test_long_texts_are_searched_at_once(spark, orders, shown):
    """Values of megabytes, and of many escapes, cost the search for secrets neither its stack nor much time."""
    for value in ("a" * 1_000_000, "\\\\" * 200_000, "password " * 100_000):
        executions, _ = shown(f"INSERT INTO orders VALUES (1, '{value}')")
        assert any(text.startswith("INSERT INTO orders") for text in executions)


def test_scans_say_which_version_of_which_table_they_read(spark, orders):
    """In the plan that Spark's UI shows, and in the relation that listeners of lineage look at."""
    for number in range(2):
        spark.sql(f"INSERT INTO orders VALUES ({number}, 'a')")
    latest = spark.table("orders").where("v = 'a'")
    assert latest.count() == 2
    for frame, version in ((latest, 2), (spark.sql("SELECT * FROM orders VERSION AS OF 1"), 1)):
        execution = frame._jdf.queryExecution()
        plan = execution.executedPlan().toString()
        assert f"spark_catalog.{orders}" in plan
        assert f"Format: Delta version {version}" in plan
        shown = "2 of 2 files" in plan
        assert shown is (frame is latest), plan[150:400]
        relation = execution.optimizedPlan().collectLeaves().head()
        assert relation.catalogTable().get().identifier().unquotedString() == f"spark_catalog.{orders}"
