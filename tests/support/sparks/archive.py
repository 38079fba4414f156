"""Spark's classes as the JVM keeps them in files (class data sharing), so that the many Sparks of tests start with them
at hand: half of the time of a start, a quarter of that of the first statements.

The archive fits one JDK and one set of Spark's JARs. It is made once, in a minute, by the first Spark of a run of
folders, and stays in the system's temporary directory. A JVM that cannot use it starts without.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

#: Set where the archive is worth making; elsewhere one that is there is used.
MAKE = "HEADWATER_TEST_MAKES_ARCHIVE"
_MOST_SECONDS = 240
_STATEMENTS = """
CREATE TABLE t (k INT, v STRING, day DATE, s STRUCT<x: INT>) USING delta PARTITIONED BY (day)
    TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true', 'delta.columnMapping.mode' = 'name');
INSERT INTO t SELECT CAST(id AS INT), 'v', DATE'2024-01-01', named_struct('x', 1) FROM range(10);
UPDATE t SET v = concat(v, '!') WHERE k % 2 = 0;
DELETE FROM t WHERE k = 3;
MERGE INTO t USING (SELECT 4 AS k, 'm' AS v) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = s.v
    WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, s.v);
SELECT v, count(*), max(s.x) FROM t GROUP BY v ORDER BY v;
SELECT a.k FROM t a JOIN t b ON a.k = b.k WHERE a.k IN (SELECT k FROM t VERSION AS OF 1);
SELECT * FROM table_changes('t', 0);
ALTER TABLE t ADD COLUMN c INT;
DESCRIBE HISTORY t;
DESCRIBE EXTENDED t;
DROP TABLE t
"""


@functools.cache
def options() -> str:
    """The JVM's options for the archive; none where there is none."""
    archive = _path()
    if archive is None:
        return ""
    if not archive.exists() and MAKE in os.environ:
        _make(archive)
    # What the JVM says about an archive that does not fit goes to standard output.
    return f"-XX:SharedArchiveFile={archive} -Xlog:disable" if archive.exists() and archive.stat().st_size else ""


def _path() -> Path | None:
    from headwater.cli import launch

    java = shutil.which("java", path=f"{os.environ.get('JAVA_HOME', '')}/bin:{os.environ.get('PATH', '')}")
    if java is None:
        return None
    stated = [str(Path(java).resolve()), str(Path(java).resolve().stat().st_mtime)]
    for jar in sorted((launch.spark_home() / "jars").iterdir()):
        stated.append(f"{jar.resolve()} {jar.stat().st_size} {jar.stat().st_mtime}")
    name = hashlib.sha256("\n".join(stated).encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"headwater-tests-{os.getuid()}-{name}.jsa"


def _make(archive: Path) -> None:
    """Make it, unless another process does, which is waited for. An empty file says that it cannot be made."""
    from support.processes import environment, python

    with open(f"{archive}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if archive.exists():
            return
        with tempfile.TemporaryDirectory() as home:
            made = Path(home) / "made.jsa"
            without = {key: value for key, value in environment().items() if key != MAKE}
            command = python("support.sparks.archive", home, str(made))
            try:
                subprocess.run(
                    command, env=without, cwd=home, timeout=_MOST_SECONDS, capture_output=True, check=True
                )  # fmt: skip
                shutil.move(made, f"{archive}.new")
            except (subprocess.SubprocessError, OSError):
                Path(f"{archive}.new").touch()
        os.rename(f"{archive}.new", archive)


def main(home: str, made: str) -> None:
    """Do what tests do, with a JVM that writes the classes it has loaded when it ends."""
    from pyspark.sql import SparkSession

    import headwater
    from support.sessions import settings

    builder = SparkSession.builder.enableHiveSupport()
    for key, value in settings(home, f"-XX:ArchiveClassesAtExit={made}", "-Xlog:disable").items():
        builder = builder.config(key, value)
    spark = headwater.configure(builder).getOrCreate()
    for statement in _STATEMENTS.split(";"):
        spark.sql(statement).collect()
    jvm = spark.sparkContext._gateway.proc
    spark.stop()
    jvm.stdin.close()
    jvm.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
