"""Spark with Iceberg's own runtime, in a process of its own: a reader and writer of its format that nobody here wrote.

The runtime has builds for some lines of Spark only, so the process has a Spark of such a line. Both are fetched once
and kept under ``target``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.fetched_packages import fetched_packages
from support.jvms import fetched
from support.processes import environment
from support.sparks.asking import START_SECONDS, SparkProcess

_HOME = Path(__file__).parent
_SPARK = "4.0.5"
_STATEMENT_SECONDS = 300
_LOG_CHARACTERS = 6000


class IcebergSpark:
    """The process. Its tables are ``lake.<namespace>.<name>``, in the folder ``lake`` below its home."""

    def __init__(self, process: SparkProcess) -> None:
        self._process = process

    def sql(self, text: str) -> list[Any]:
        """The rows of a statement."""
        return self._asked({"sql": text})

    def rows(self, path: Path | str, condition: str = "true", columns: Sequence[str] = ("*",)) -> list[Any]:
        """The rows of the table in a folder that meet a condition, sorted; or aggregates of them."""
        table = f"spark.read.format('iceberg').load({str(path)!r})"
        found = self._asked({"python": f"result = {table}.where({condition!r}).selectExpr(*{columns!r}).collect()"})
        return sorted(found, key=repr)

    def place(self, table: str) -> Path:
        """The folder of a table of ``lake``."""
        return self._process.home / "lake" / Path(*table.split("."))

    def _asked(self, request: dict[str, str]) -> list[Any]:
        self._process.send(request)
        answer = self._process.receive(_STATEMENT_SECONDS)
        assert "error" not in answer, f"{answer['error']['text']}\n{self._process.log[-_LOG_CHARACTERS:]}"
        found: list[Any] = answer["result"]
        return found


@contextmanager
def iceberg_spark(home: Path) -> Iterator[IcebergSpark]:
    """Start it; it ends with the block."""
    jars = ",".join(map(str, fetched(_HOME / "runtime.xml")))
    spark = fetched_packages(f"test-pyspark-{_SPARK}", f"pyspark=={_SPARK}")
    given = environment()
    env = {**given, "PYTHONPATH": os.pathsep.join([str(spark), given["PYTHONPATH"]])}
    process = SparkProcess("iceberg_process", [str(home), jars], home, env)
    try:
        process.receive(START_SECONDS)
        yield IcebergSpark(process)
    finally:
        process.close()
