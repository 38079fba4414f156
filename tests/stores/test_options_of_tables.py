"""Options of a file system that are given for one table: ``fs.*`` of readers, writers and ``DeltaTable.forPath``.

The server lets those in who have a place's own key, and the session has none of them. Executors run in another process.
"""

from __future__ import annotations

import pytest

#: What somebody is told who has not the key.
REFUSED = "DELTA_FILE_ACCESS_FAILED"
#: A part of every secret, and of nothing else. It does not look like one: Spark leaves out those that do.
MARK = "zq7x"


def key(name: str) -> dict[str, str]:
    """The options of somebody; the last one's name does not look like a secret's."""
    return {
        "fs.s3a.access.key": f"AKIA{name.upper()}",
        "fs.s3a.secret.key": f"{MARK}/of+{name}",
        "fs.azure.account.key.box": f'{MARK}"\\',
    }


@pytest.fixture
def places(s3, spark_process):
    """The URIs of two directories in one bucket, each with the options of those who are let in. Spark logs much."""
    s3.rules(*({"path": f"/{name}(/|$)", "unless": f"AKIA{name.upper()}", "do": "deny"} for name in ("one", "other")))
    spark_process.run("log_at", level="INFO")
    yield [(f"s3a://{s3.bucket}/{name}", key(name)) for name in ("one", "other")]
    spark_process.run("log_at", level="WARN")


#: The ways that a plain client goes in the usual run; MERGE, whose plan is looked at, is of both.
CONNECT = ["rows", "stream", "append", "sink", "merge", "upsert", "optimize"]


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.soak)], ids=["others", "every"])
def test_each_way_needs_the_options_of_the_table(places, s3, spark_process, every):
    (place, right), (other, wrong) = places
    spark_process.sql("SET spark.sql.ui.explainMode = extended")
    but = [] if every else [way for way in CONNECT if way != "merge"]
    found = spark_process.run("reach", place=place, right=right, wrong=wrong, but=but)
    assert found == {way: [REFUSED, "done", REFUSED] for way in found}
    assert len(found) + len(but) > 20
    check_two(spark_process, place, right, other, wrong)

    shown = spark_process.run("shown")
    assert "MERGE INTO" in shown
    assert MARK not in shown
    assert MARK not in spark_process.run("explained", path=f"{place}/table", options=right)
    check_logs(spark_process)
    stored = [s3.stored(path) for path in s3.paths()]
    assert len(stored) > 50
    assert not any(MARK.encode() in content for content in stored)


def test_each_way_over_spark_connect(places, spark_process, connect_process):
    (place, right), (other, wrong) = places
    found = connect_process.run("reach", place=place, right=right, wrong=wrong, only=CONNECT)
    assert found == {way: [REFUSED, "done", REFUSED] for way in CONNECT}
    check_two(connect_process, place, right, other, wrong)
    check_logs(spark_process)
    # The server has told of the client's requests.
    assert "statementText" in spark_process.events
    assert MARK not in connect_process.log


def check_two(process, one, of_one, other, of_other):
    both, merged, counted = process.run(
        "reach_two", one=f"{one}/2", of_one=of_one, other=f"{other}/2", of_other=of_other
    )
    assert both == 3
    assert merged == [[9, 6, 0, 3]]
    assert counted == ["done", REFUSED, REFUSED, REFUSED, "done", REFUSED] * 4


def check_logs(spark_process):
    assert "INFO MicroBatchExecution" in spark_process.log
    for text in (spark_process.log, spark_process.events):
        assert len(text) > 10_000
        assert MARK not in text
