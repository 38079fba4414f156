"""The JAR links with the Spark it is tested with; ``.ci/run`` checks the same for every other supported Spark."""

from __future__ import annotations

import os
import subprocess
import zipfile
from pathlib import Path

from headwater.cli import launch

CHECK = Path(__file__).parent / "LinkageCheck.java"


def check(jar: Path) -> subprocess.CompletedProcess[str]:
    """Run the check on a JAR and the installed Spark."""
    path = os.pathsep.join([str(launch.spark_home() / "jars" / "*"), str(jar)])
    return subprocess.run(["java", "-cp", path, str(CHECK), str(jar)], capture_output=True, text=True, timeout=300)


def test_jar_links_with_this_spark() -> None:
    done = check(launch.jar_path())
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def test_check_notices_what_is_missing(tmp_path: Path) -> None:
    """A class that calls a method Spark does not have, and one that leaves a method of an interface of Spark's out."""
    spark = tmp_path / "spark" / "org" / "apache" / "spark"
    spark.mkdir(parents=True)
    (spark / "SparkEnv.java").write_text("package org.apache.spark; public class SparkEnv { public void gone() {} }")
    (spark / "Later.java").write_text("package org.apache.spark; public interface Later { }")
    (tmp_path / "Ours.java").write_text(
        "import org.apache.spark.*; public class Ours implements Later { void call(SparkEnv env) { env.gone(); } }"
    )
    sources = [*spark.glob("*.java"), tmp_path / "Ours.java"]
    subprocess.run(["javac", "-d", str(tmp_path / "out"), *map(str, sources)], check=True)
    (spark / "Later.java").write_text("package org.apache.spark; public interface Later { void added(); }")
    subprocess.run(["javac", "-d", str(tmp_path / "later"), str(spark / "Later.java")], check=True)
    jar = tmp_path / "ours.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        archive.write(tmp_path / "out" / "Ours.class", "Ours.class")
        archive.write(tmp_path / "later" / "org/apache/spark/Later.class", "org/apache/spark/Later.class")
    done = check(jar)
    assert done.returncode == 1
    assert "Ours.call needs org/apache/spark/SparkEnv.gone()V" in done.stdout
    assert "Ours does not implement org/apache/spark/Later.added()V" in done.stdout
