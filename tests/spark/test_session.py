"""The session of these tests is a user's: plain SQL works, and errors read as errors of Spark."""

from __future__ import annotations

import re
import shlex
import sys

import pytest
from pyspark.sql import SparkSession

from headwater.basics.errors import HeadwaterError, conditions
from headwater.basics.versions import SUPPORTED_SPARK, bridge_version, build_for, is_supported, is_tested


def test_plain_sql(spark, rows, database, log):
    spark.sql("CREATE TABLE t (id INT, name STRING) USING delta")
    spark.sql("INSERT INTO t VALUES (1, 'a'), (2, NULL)")
    assert rows("SELECT * FROM t ORDER BY id") == [(1, "a"), (2, None)]
    path = rows("DESCRIBE DETAIL t")[0][4].removeprefix("file:")
    assert {next(iter(action)) for action in log(path, 1)} == {"commitInfo", "add"}


def test_errors_have_condition_and_state(spark, fails, tmp_path):
    with fails("PATH_NOT_FOUND", str(tmp_path / "absent"), state="42K03"):
        spark.sql(f"SELECT * FROM delta.`{tmp_path}/absent`").collect()


def test_an_error_of_the_jvm_is_as_the_handler_would_raise_it(spark):
    """Values may have what looks like a placeholder, a group of a regular expression or a login."""
    jvm = spark._jvm
    for condition, entry in conditions().items():
        names = re.findall(r"<([A-Za-z][A-Za-z0-9]*)>", " ".join(entry["message"]))
        values = {name: f"{name} <{names[-1]}> $1 \\ s3://user:secret@host:80/a@b" for name in names}
        pairs = jvm.java.util.ArrayList()
        for pair in values.items():
            pairs.add(jvm.scala.Tuple2(*pair))
        parameters = jvm.scala.jdk.javaapi.CollectionConverters.asScala(pairs).toSeq()
        error = jvm.headwater.spark.HeadwaterException.apply(condition, parameters)
        expected = HeadwaterError(condition, values)
        assert "secret" not in expected.text
        assert error.getMessage() == str(expected)
        assert (error.getCondition(), error.getSqlState()) == (condition, expected.sql_state)
        assert dict(error.getMessageParameters()) == expected.parameters


def test_the_jar_and_the_package_have_one_rule(spark):
    """Which Sparks are supported, and which JAR fits: both sides read it from ``versions.py``."""
    shims = spark._jvm.headwater.spark.shims
    others = ("4.2.1-vendor-3", "4.2.0.2", "4.3.0-", "4.2.10", "4.2.x", "4x2.0", "14.2.0", "4.0.5", "")
    own = build_for(spark.version)
    assert own is not None
    assert shims.BuildProperties.jar() == own.jar
    for version in (*SUPPORTED_SPARK, *others):
        is_own = build_for(version) is own
        assert shims.SparkVersions.isSupported(version) is is_own, version
        assert shims.SparkVersions.isTested(version) is (is_own and is_tested(version)), version
        assert bool(re.fullmatch(shims.BuildProperties.releasedPattern(), version)) is is_supported(version), version
    assert shims.BuildProperties.bridgeVersion() == bridge_version()


def test_a_jar_of_another_build_is_refused(spark, fails, tmp_path):
    """The user sees the handler's error, not that a process ended."""
    python = tmp_path / "python"
    # The handler of this package, told that the JAR was built with other messages.
    python.write_text(
        "#!/bin/sh\nread -r line\n"
        f"""echo "$line" | sed 's/"bridge":"[^"]*"/"bridge":"0.0.9+abc"/' | {shlex.quote(sys.executable)} "$@"\n"""
    )
    python.chmod(0o755)
    jvm = spark._jvm
    conf = jvm.org.apache.spark.SparkConf(False).set("spark.headwater.python", str(python))
    with fails("HEADWATER_JAR_DOES_NOT_FIT", "0.0.9+abc"):
        jvm.headwater.spark.bridge.HandlerProcess.start(conf)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE other (id INT) USING delta",
        "CREATE TABLE other USING delta AS SELECT 1 AS id",
        "INSERT INTO {database}.t VALUES (1)",
        "SELECT * FROM {database}.t",
        "UPDATE {database}.t SET id = 1",
    ],
)
def test_a_session_without_the_catalog_is_refused(spark, database, fails, statement):
    """One of the two lines is missing; Spark's own session catalog would say that it lacks a source's schema."""
    spark.sql("CREATE TABLE t (id INT) USING delta")
    other = spark.newSession()
    other.conf.unset("spark.sql.catalog.spark_catalog")
    with fails("DELTA_CONFIGURE_SPARK_SESSION_WITH_EXTENSION_AND_CATALOG", "not its catalog", "HeadwaterCatalog"):
        other.sql(statement.format(database=database)).collect()


def test_a_session_without_the_extension_is_refused(spark, database, fails, tmp_path):
    jvm = spark._jvm
    none, empty = jvm.scala.Option.empty(), getattr(getattr(jvm.scala.collection.immutable, "Map$"), "MODULE$").empty()
    bare = jvm.org.apache.spark.sql.classic.SparkSession(
        spark.sparkContext._jsc.sc(), none, none, jvm.org.apache.spark.sql.SparkSessionExtensions(), empty, empty
    )
    other = SparkSession(spark.sparkContext, bare)
    for statement in ("CREATE TABLE t (id INT) USING delta", f"SELECT * FROM delta.`{tmp_path}/t`"):
        with fails("DELTA_CONFIGURE_SPARK_SESSION_WITH_EXTENSION_AND_CATALOG", "not its extension"):
            other.sql(statement)
