"""The programs of ``bridge/programs``, in Scala and Java, as people write them for Delta Lake's own names."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.cli import launch
from headwater.exceptions import CONFLICTS
from support.paths import TESTS

_PROGRAMS = sorted(str(file) for file in (TESTS / "bridge" / "programs").iterdir())
SETTINGS = {
    "spark.sql.extensions": launch.DELTA_EXTENSION,
    "spark.sql.catalog.spark_catalog": launch.DELTA_CATALOG,
    "spark.sql.catalog.other": "WrappingCatalog",
    "spark.driver.extraJavaOptions": f"-Dconflicts={','.join(CONFLICTS)}",
}
#: What ``ScalaProgram`` prints.
PRINTED = [
    "read: 0,0,0 1,10,1 2,20,0",
    "changed: 0,3 1,101 2,-2 3,-2 4,-2 5,-2 6,-2 7,-2",
    "counts: 5,2,2,1",
    "merged: 0,3,0 2,10,0 20,120,0 3,-2,1 4,-2,0 5,-2,1 6,66,0",
    "evolved: 0,3,null 1,11,e1 2,10,null 20,120,null",
    "files: true",
    "operations: OPTIMIZE OPTIMIZE",
    "detail: delta,ArraySeq(p)",
    "restored: 10",
    "delta table: true false",
    "made: 3,6,5,c",
    "names: made by a builder,ArraySeq(id),Map(delta.appendOnly -> true)",
    "comment: it's 2x",
    "replaced: other",
    "unknown path: [DELTA_MISSING_DELTA_TABLE]",
    "unknown name: [TABLE_OR_VIEW_NOT_FOUND]",
    "no expression: [PARSE_SYNTAX_ERROR]",
    "append only: [DELTA_CANNOT_MODIFY_APPEND_ONLY]",
    "streamed: 10",
    "wrapped: 2,c,null",
    "wrapped as select: 5 3",
    "wrapped names: renamed t",
    "wrapped history: CREATE TABLE WRITE",
    "wrapped and dropped: [TABLE_OR_VIEW_NOT_FOUND]",
    "wrapped namespace: [SCHEMA_NOT_FOUND]",
    "wrapped alone: false false",
    "version: 4.4.0",
    "conflicts: " + " ".join(f"io.delta.exceptions.{kind.__name__}" for kind in CONFLICTS.values()),
    "java: [[1,new!], [2,two]]",
]


def compile_programs(jars: list[str], to: Path) -> Path:
    """The programs' JAR, compiled against Spark's JARs and others."""
    if shutil.which("javac") is None:
        pytest.skip("needs a JDK")
    classes = to / "classes"
    classes.mkdir()
    libraries = ":".join([str(launch.spark_home() / "jars" / "*"), *jars])
    scala = ["java", "-Xss8m", "-XX:TieredStopAtLevel=1", "-cp", libraries, "scala.tools.nsc.Main", "-usejavacp"]
    subprocess.run([*scala, "-d", str(classes), *_PROGRAMS], check=True)
    java = [file for file in _PROGRAMS if file.endswith(".java")]
    subprocess.run(["javac", "-cp", f"{libraries}:{classes}", "-d", str(classes), *java], check=True)
    made = [file.relative_to(classes).as_posix() for file in classes.rglob("*.class")]
    subprocess.run([sys.executable, "-m", "zipfile", "-c", str(to / "programs.jar"), *made], cwd=classes, check=True)
    return to / "programs.jar"
