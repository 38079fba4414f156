"""The Spark processes to measure, driven by JSON lines over standard input and output.

Owns the settings that make them comparable (cores, memory, one Parquet timestamp type). The kinds: with
Headwater, with Headwater of an earlier commit, with the peer (Delta Lake, tuned for two cores), with Iceberg, and plain
Spark. Times are taken inside the process, around the statement only.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

OURS, PEER, PLAIN, EARLIER, ICEBERG = "ours", "peer", "plain", "earlier", "iceberg"

ROOT = Path(__file__).resolve().parents[1]
_PEER_SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # Its default of 50 partitions for the log makes it slower on two cores.
    "spark.databricks.delta.snapshotPartitions": "2",
}
_ICEBERG_SETTINGS = {
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.lake.type": "hadoop",
    "spark.sql.defaultCatalog": "lake",
}
#: Memory outside the heap, which Comet's native code works in.
_COMET_OFF_HEAP = "2g"


def with_constant(name: str, value: int) -> str:
    """The kind of a Spark with Headwater in whose handler a constant has another value; ``name`` is without the
    package's.
    """
    return f"{OURS}, {name} = {value}"


class SparkFailed(RuntimeError):
    """A statement failed in a Spark under measurement, or the process ended."""


def peer_jars() -> str:
    """The peer's JARs, comma-separated: from ``HEADWATER_PEER_JARS``, else fetched once with Maven.

    :raises SparkFailed: they cannot be had.
    """
    if given := os.environ.get("HEADWATER_PEER_JARS"):
        return given
    shared = (parent / "shared" / "peer" / "fetch" for parent in ROOT.parents)
    fetch = next((path for path in shared if path.is_file()), None)
    if fetch is None:
        raise SparkFailed("The peer's JARs are not here. Name them, comma-separated, in HEADWATER_PEER_JARS.")
    return subprocess.run([str(fetch)], check=True, capture_output=True, text=True).stdout.strip()


def iceberg_jars() -> str | None:
    """The JARs of Iceberg's runtime for Spark, comma-separated, from ``HEADWATER_ICEBERG_JARS``."""
    return os.environ.get("HEADWATER_ICEBERG_JARS")


def comet_jar() -> str:
    """Comet's JAR, from ``HEADWATER_COMET_JAR``.

    :raises SparkFailed: it is not named.
    """
    if jar := os.environ.get("HEADWATER_COMET_JAR"):
        return jar
    raise SparkFailed("Comet is not here. Name its JAR for the Spark that runs in HEADWATER_COMET_JAR.")


def _comet_settings(jar: str) -> dict[str, str]:
    return {
        "spark.plugins": "org.apache.spark.CometPlugin",
        "spark.comet.enabled": "true",
        "spark.comet.convert.parquet.enabled": "true",
        "spark.shuffle.manager": "org.apache.spark.sql.comet.execution.shuffle.CometShuffleManager",
        "spark.driver.extraClassPath": jar,
        "spark.memory.offHeap.enabled": "true",
        "spark.memory.offHeap.size": _COMET_OFF_HEAP,
    }


def settings(kind: str, directory: Path, memory: str, comet: bool = False) -> dict[str, str]:
    """The configuration of a Spark of that kind, with Comet or without; its warehouse lies under ``directory``."""
    if comet:
        own, comets = settings(kind, directory, memory), comet_jar()
        every = ",".join(filter(None, (own.get("spark.jars"), comets)))
        return {**own, **_comet_settings(comets), "spark.jars": every}
    common = {
        "spark.master": "local[2]",
        "spark.driver.memory": memory,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.warehouse.dir": str(directory / f"warehouse-{_folder(kind)}"),
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={directory / f'derby-{_folder(kind)}'}",
    }
    if kind.startswith(f"{OURS}, "):
        return {**common, "spark.headwater.python": str(_python_with(kind.removeprefix(f"{OURS}, "), directory))}
    if kind == ICEBERG:
        if (jars := iceberg_jars()) is None:
            raise SparkFailed(
                "Iceberg's runtime is not here. Name its JARs, comma-separated, in HEADWATER_ICEBERG_JARS."
            )
        tables = {"spark.sql.catalog.lake.warehouse": str(directory / "lake")}
        return {**common, **_ICEBERG_SETTINGS, **tables, "spark.jars": jars}
    return {**common, **_PEER_SETTINGS, "spark.jars": peer_jars()} if kind == PEER else common


def _python_with(assignment: str, directory: Path) -> Path:
    """A program to be run like Python, in which a constant of the handler has another value."""
    name, _, value = assignment.partition(" = ")
    module, _, attribute = name.rpartition(".")
    code = f"import runpy, headwater.{module} as m; m.{attribute} = {value}; "
    code += "runpy.run_module('headwater.handler', run_name='__main__', alter_sys=True)"
    handle, path = tempfile.mkstemp(prefix="python-", suffix=".sh", dir=directory)
    os.write(handle, f'#!/bin/sh\nexec "{sys.executable}" -c "{code}"\n'.encode())
    os.close(handle)
    os.chmod(path, 0o700)
    return Path(path)


def _folder(kind: str) -> str:
    return re.sub("[^a-z0-9]+", "-", kind.lower())


class Driven:
    """A process that runs the requests it gets: ``python -m module``, with what it logs in a file of ``directory``.

    :param name: what errors call it.
    :param places: the folders that Python imports from before all others.
    :param own_group: whether it and what it starts are a group of processes of their own, which :meth:`kill` ends.
    """

    def __init__(
        self,
        name: str,
        directory: Path,
        module: str,
        places: Sequence[str],
        python: str = sys.executable,
        environment: Mapping[str, str] | None = None,
        own_group: bool = False,
    ) -> None:
        self.kind = name
        handle, log = tempfile.mkstemp(prefix="spark-", suffix=".log", dir=directory)
        self._log_path = Path(log)
        self._process = subprocess.Popen(
            [python, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=handle,
            text=True,
            cwd=directory,
            start_new_session=own_group,
            env={**os.environ, **(environment or {}), "PYTHONPATH": os.pathsep.join(places)},
        )
        os.close(handle)

    def call(self, name: str, /, **request: Any) -> dict[str, Any]:
        """Have the process do something; its answer.

        :raises SparkFailed: it could not.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": name, **request}) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            self._process.wait(30)
            raise SparkFailed(f"{self.kind}: the process ended. The end of its log:\n{self._tail()}")
        content: dict[str, Any] = json.loads(answer)
        if "error" in content:
            raise SparkFailed(f"{self.kind}: {content['error']}")
        return content

    def _tail(self) -> str:
        return self._log_path.read_text(errors="replace")[-4000:]

    def kill(self) -> None:
        """End the process of a group of its own and all that it has started, at once: none can finish anything."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        """End the process and wait until it is gone."""
        if self._process.poll() is None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


class Spark(Driven):
    """A running Spark process; one with Headwater takes it from the checkout ``source``, if given. ``pyspark``: the
    folder that has the package ``pyspark`` to run, in place of the installed one. ``comet``: whether it has Comet.
    """

    def __init__(
        self,
        kind: str,
        directory: Path,
        memory: str = "4g",
        source: Path | None = None,
        pyspark: Path | None = None,
        comet: bool = False,
    ) -> None:
        package = [str(source / "python")] if source else []
        package += [str(pyspark)] if pyspark else []
        super().__init__(kind, directory, "bench.worker", [str(ROOT), *package, *filter(None, sys.path)])
        ours = kind == EARLIER or kind.startswith(OURS)
        answer = self.call("start", ours=ours, settings=settings(kind, directory, memory, comet))
        if source and not Path(answer["package"]).is_relative_to(source):
            self.stop()
            raise SparkFailed(f"{kind}: runs the package in {answer['package']}, not the one under {source}.")
        #: Seconds from nothing to a session.
        self.started: float = answer["seconds"]

    def run(self, sql: str) -> float:
        """Run a statement, fetch its rows; seconds."""
        return float(self.call("run", sql=sql)["seconds"])
