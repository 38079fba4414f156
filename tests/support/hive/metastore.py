"""A metastore of Hive's in a process of its own: ``Metastore.java`` beside this file."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headwater.cli import launch

_PROGRAM = Path(__file__).with_name("Metastore.java")


@contextmanager
def metastore(home: Path) -> Iterator[str]:
    """Its URI, while it runs; all it writes lies in ``home``."""
    command = ["java", "-cp", str(launch.spark_home() / "jars" / "*"), str(_PROGRAM), str(home)]
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=home)
    assert process.stdout is not None
    try:
        yield f"thrift://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
