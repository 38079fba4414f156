"""A Spark with Comet, which runs scans and operators in native code, and with Headwater; in a process of its own.

Comet has builds for some lines of Spark only, so the process has a Spark of such a line. Both are fetched once and kept
under ``target``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.fetched_packages import fetched_packages
from support.jvms import fetched
from support.processes import environment
from support.sparks.asking import SparkProcess

_HOME = Path(__file__).parent
_SPARK = "4.1.4"
_STATEMENT_SECONDS = 300
#: The JAR for this Spark may have to be compiled first.
_START_SECONDS = 900
_LOG_CHARACTERS = 6000


class CometSpark:
    """The process."""

    def __init__(self, process: SparkProcess) -> None:
        self._process = process
        self.home = process.home

    def run(self, code: str) -> Any:
        """Run Python in which ``spark`` is known; its ``result``."""
        self._process.send({"python": code})
        answer = self._process.receive(_STATEMENT_SECONDS)
        assert "error" not in answer, f"{answer['error']['text']}\n{self._process.log[-_LOG_CHARACTERS:]}"
        return answer["result"]

    def query(self, text: str) -> tuple[list[Any], str]:
        """The rows of a query, and its plan as it ran."""
        rows, plan = self.run(
            f"frame = spark.sql({text!r})\nrows = frame.collect()\n"
            "result = [rows, frame._jdf.queryExecution().executedPlan().toString()]"
        )
        return rows, plan


def comet_jar() -> str:
    """Comet's JAR."""
    (jar,) = map(str, fetched(_HOME / "accelerator.xml"))
    return jar


def spark_packages() -> Path:
    """The folder with the PySpark that it is for."""
    return fetched_packages(f"test-pyspark-{_SPARK}", f"pyspark=={_SPARK}")


@contextmanager
def comet_spark(home: Path) -> Iterator[CometSpark]:
    """Start it; it ends with the block."""
    given = environment()
    env = {**given, "PYTHONPATH": os.pathsep.join([str(spark_packages()), given["PYTHONPATH"]])}
    process = SparkProcess("comet_process", [str(home), comet_jar()], home, env)
    try:
        process.receive(_START_SECONDS)
        yield CometSpark(process)
    finally:
        process.close()
