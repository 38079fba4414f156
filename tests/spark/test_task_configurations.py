"""The Hadoop configuration that tasks get: small, and the same for all that a task may ask."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

DIRECTORY = "mapreduce.cluster.local.dir"


@pytest.fixture
def of_session(spark):
    """A configuration as Hadoop makes it, which knows where each setting comes from; that of these tests does not."""
    return spark._jvm.org.apache.hadoop.mapreduce.Job.getInstance().getConfiguration()


@pytest.fixture
def of_tasks(spark):
    return spark._jvm.headwater.spark.bridge.TaskConfiguration.of


def settings(conf) -> dict[str, str]:
    found = conf.iterator()
    names = []
    while found.hasNext():
        names.append(found.next().getKey())
    return {name: conf.getRaw(name) for name in names}


def test_only_defaults_of_mapreduce_and_yarn_are_left_out(of_session, of_tasks):
    whole, part = settings(of_session), settings(of_tasks(of_session))
    assert part.items() <= whole.items()
    left_out = whole.keys() - part.keys()
    sources = {name: set(of_session.getPropertySources(name)) for name in left_out}
    assert all(len(found) == 1 and found <= {"mapred-default.xml", "yarn-default.xml"} for found in sources.values())
    assert len(part) < len(whole) / 2
    assert {"fs.defaultFS", "fs.s3a.connection.maximum", "io.file.buffer.size"} <= part.keys()


def test_what_is_set_stays_whatever_its_name(of_session, of_tasks):
    of_session.set("yarn.nodemanager.hostname", "here")
    of_session.set("mapreduce.job.queuename", of_session.get("mapreduce.job.queuename"))
    part = of_tasks(of_session)
    assert part.get("yarn.nodemanager.hostname") == "here"
    assert part.get("mapreduce.job.queuename") == "default"


def test_a_default_that_a_setting_refers_to_stays(of_session, of_tasks):
    assert DIRECTORY not in settings(of_tasks(of_session))
    of_session.set("fs.some.directory", "${a.b}/x")
    of_session.set("a.b", f"${{{DIRECTORY}}}")
    part = of_tasks(of_session)
    assert part.get("fs.some.directory") == of_session.get("fs.some.directory")
    assert "$" not in part.get("fs.some.directory")


def test_the_copy_is_of_its_own(of_session, of_tasks):
    part = of_tasks(of_session)
    part.set("fs.some.directory", "here")
    assert of_session.get("fs.some.directory") is None
    assert of_tasks(part).get("fs.some.directory") == "here"


def test_it_has_no_sources_which_hadoop_would_compress_one_by_one(spark, of_session, of_tasks):
    assert of_tasks(of_session).getPropertySources("fs.defaultFS") is None
    assert spark._jvm.org.apache.hadoop.mapred.JobConf(of_tasks(of_session)).getPropertySources("fs.defaultFS") is None


def test_a_writer_has_the_settings_of_its_session(spark, tmp_path):
    path = str(tmp_path / "t")
    spark.conf.set("parquet.enable.dictionary", "false")
    try:
        spark.range(0, 10, 1, 1).selectExpr("id % 2 AS id").write.format("delta").save(path)
    finally:
        spark.conf.unset("parquet.enable.dictionary")
    spark.range(0, 10, 1, 1).selectExpr("id % 2 AS id").write.format("delta").mode("append").save(path)
    columns = [pq.ParquetFile(file).metadata.row_group(0).column(0) for file in (tmp_path / "t").glob("*.parquet")]
    assert sorted(column.has_dictionary_page for column in columns) == [False, True]


def test_a_cached_query_over_the_table_is_computed_again(spark, database, rows):
    spark.sql("CREATE TABLE t (id BIGINT) USING delta")
    spark.sql("INSERT INTO t VALUES (1)")
    cached = spark.table("t").cache()
    try:
        assert cached.count() == 1
        spark.sql("INSERT INTO t VALUES (2)")
        assert spark.table("t").count() == cached.count() == 2
    finally:
        cached.unpersist()
