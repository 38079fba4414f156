"""The session of these tests is a user's: plain SQL works, and errors read as errors of Spark."""

from __future__ import annotations

import re
import shlex
import sys

from headwater.versions import SUPPORTED_SPARK, bridge_version, build_for, is_supported, is_tested


def test_plain_sql(spark, rows, database, log):
    spark.sql("CREATE TABLE t (id INT, name STRING) USING delta")
    spark.sql("INSERT INTO t VALUES (1, 'a'), (2, NULL)")
    assert rows("SELECT * FROM t ORDER BY id") == [(1, "a"), (2, None)]
    path = rows("DESCRIBE DETAIL t")[0][4].removeprefix("file:")
    assert {next(iter(action)) for action in log(path, 1)} == {"commitInfo", "add"}


def test_errors_have_condition_and_state(spark, fails, tmp_path):
    with fails("PATH_NOT_FOUND", str(tmp_path / "absent"), state="42K03"):
        spark.sql(f"SELECT * FROM delta.`{tmp_path}/absent`").collect()


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
