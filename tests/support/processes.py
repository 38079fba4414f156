"""Python processes beside the tests'."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from support.paths import SOURCES, TESTS


def python(module: str, *arguments: str) -> list[str]:
    """The command that runs a module."""
    return [sys.executable, "-m", module, *arguments]


def environment(**more: str) -> dict[str, str]:
    """The environment of a process that imports the package and ``support``."""
    # What the tests' own session put there is for its JVM alone.
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK_", "SPARK_"))}
    paths = [str(SOURCES), str(TESTS), os.environ.get("PYTHONPATH", "")]
    return {
        **kept,
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        **more,
    }


@contextmanager
def served(module: str, *arguments: str, inside: Sequence[str] = ()) -> Iterator[int]:
    """The port that a module serves and prints, in a process of its own, which ends with the block.

    :param inside: a command that runs the one after it, such as one that enters a network namespace.
    """
    process = subprocess.Popen(
        [*inside, *python(module, *arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.stdin.close()
        process.wait(30)
