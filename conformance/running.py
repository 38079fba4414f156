"""One run: a process for each engine, the tables that they make, and what the others find in them.

Three rounds, each with a thread for an engine: every engine makes its tables; the engines read ours and append to
copies of it, as Headwater does with theirs; then each reads what was appended. A process that ends, or that takes too
long for an answer, fails the cell and is started again.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import sparks
from rich.progress import Progress

from conformance.cases import Case
from conformance.engines import ENGINES, OURS, Engine
from conformance.fetching import connector
from conformance.verdicts import (
    ABSENT,
    FAILS,
    THEY_ADD,
    THEY_READ,
    WE_ADD,
    WE_READ,
    Verdict,
    of_error,
    of_rows,
)
from support.fetched_packages import fetched_packages
from support.sessions import IN_UTC
from support.sessions import settings as session_settings

ROOT = Path(__file__).resolve().parents[1]
#: Seconds for an answer; the first statement of a Spark takes the longest.
_ANSWER_SECONDS = 180
#: And until an engine runs, one that is fetched first included.
_START_SECONDS = 900
_SMALL = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1200m",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
_CONNECTOR = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",
}


class EngineEnded(Exception):
    """The engine's process ended, or did not answer."""


class Running:
    """An engine in its process; calls may come from several threads, one after the other."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self.engine = engine
        self._folder = folder / engine.name
        self._folder.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self.version = self._start()

    def _start(self) -> str:
        packages = [str(self._packages())] if self.engine.packages else []
        paths = [*packages, str(ROOT), str(ROOT / "tests"), str(ROOT / "python"), *filter(None, sys.path)]
        with (self._folder / "log.txt").open("a") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "conformance.worker", self.engine.name, str(self._folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=self._folder.parent,  # ClickHouse reads only what lies below it
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "TZ": "UTC"},
            )
        answer = self._ask(self._settings(), _START_SECONDS)
        if "error" in answer:
            raise EngineEnded(f"{self.engine.title}: {answer['error']}")
        return str(answer["result"])

    def _packages(self) -> Path:
        first = self.engine.packages[0].replace("==", "-")
        return fetched_packages(f"conformance-{first}", *self.engine.packages)

    def _settings(self) -> dict[str, str]:
        """The configuration of its Spark, if it has one: tables are tiny, so nothing is compiled for them."""
        if self.engine.adapter != "spark":
            return {}
        common = {**session_settings(self._folder, IN_UTC), **_SMALL}
        if self.engine.name == OURS:
            return common
        artifacts = self.engine.artifacts
        jars = ",".join(map(str, connector(artifacts))) if artifacts else sparks.peer_jars()
        return {**common, **_CONNECTOR, "spark.jars": jars}

    def _ask(self, request: Any, seconds: float = _ANSWER_SECONDS) -> dict[str, Any]:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        watch = threading.Timer(seconds, process.kill)
        watch.daemon = True
        watch.start()
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            watch.cancel()
        if not line:
            process.wait()
            raise EngineEnded(f"the process ended with code {process.returncode}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def ask(self, do: str, path: Path, case: str = "") -> dict[str, Any]:
        """The answer to a request: ``result``, or ``error`` if the engine raised one.

        :param case: the name of the case whose table it is, if any.

        :raises EngineEnded: it gave none; it is running again.
        """
        with self._lock:
            try:
                return self._ask({"do": do, "case": case, "path": str(path)})
            except EngineEnded:
                self._start()
                raise

    def stop(self) -> None:
        """End the process."""
        process = self._process
        if process is None:
            return
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@dataclass
class Run:
    """A run; ``cells`` are its verdicts by direction, engine and case."""

    folder: Path
    engines: Sequence[Engine]
    cases: Sequence[Case]
    progress: Progress
    cells: dict[tuple[str, str, str], Verdict] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    #: Engines that could not be started, and why.
    absent: dict[str, str] = field(default_factory=dict)
    _running: dict[str, Running] = field(default_factory=dict)
    _made: dict[tuple[str, str], Verdict | None] = field(default_factory=dict)

    def run(self) -> None:
        """Run all cases on all engines."""
        try:
            self._each([ENGINES[OURS], *self.engines], "starts", self._start)
            others = [engine for engine in self.engines if engine.name in self._running]
            self._each([ENGINES[OURS], *others], "makes tables", self._make_all)
            self._each(others, "reads and appends", self._meet_all)
            self._each(others, "reads what was appended", self._look_all)
        finally:
            for running in self._running.values():
                running.stop()

    def _each(self, engines: Iterable[Engine], what: str, work: Callable[[Engine, Callable[[], None]], None]) -> None:
        engines = list(engines)
        task = self.progress.add_task(what, total=len(engines) * len(self.cases))

        def one(engine: Engine) -> None:
            began = time.monotonic()
            work(engine, lambda: self.progress.advance(task))
            seconds = time.monotonic() - began
            self.progress.console.print(f"{engine.title}: {what}, {seconds:.0f} s", highlight=False)

        with ThreadPoolExecutor(os.cpu_count() or 2) as pool:
            list(pool.map(one, engines))
        self.progress.remove_task(task)

    def _start(self, engine: Engine, advance: Callable[[], None]) -> None:
        try:
            self._running[engine.name] = running = Running(engine, self.folder)
        except (EngineEnded, sparks.SparkFailed, subprocess.SubprocessError, OSError) as error:
            if engine.name == OURS:
                raise
            self.absent[engine.name] = str(error)[:300]
            self.progress.console.print(f"[red]{engine.title} is not run[/red]: {error}", highlight=False)
        else:
            self.versions[engine.name] = running.version

    def _path(self, maker: str, case: Case, added_by: str = "") -> Path:
        number = self.cases.index(case)
        return self.folder / "tables" / maker / (f"{number}-by-{added_by}" if added_by else str(number))

    # --- making -------------------------------------------------------------------------------------------------------

    def _make_all(self, engine: Engine, advance: Callable[[], None]) -> None:
        for case in self.cases:
            self._made[engine.name, case.name] = self._make(engine, case)
            advance()

    def _make(self, engine: Engine, case: Case) -> Verdict | None:
        """Nothing if the engine has made the table, and otherwise why it has not."""
        if not engine.can_make(case):
            return Verdict(ABSENT)
        path = self._path(engine.name, case)
        path.parent.mkdir(parents=True, exist_ok=True)
        wrong, lacks = self._asked(engine, "make", case, path)
        if wrong is None and lacks:
            kind = FAILS if engine.name == OURS else ABSENT
            return Verdict(kind, f"the table has the rows, and lacks what the case is about: {lacks}")
        return wrong

    def _asked(self, engine: Engine, do: str, case: Case, path: Path) -> tuple[Verdict | None, Any]:
        """What is wrong with an answer, if anything, and the answer."""
        try:
            answer = self._running[engine.name].ask(do, path, case.name)
        except EngineEnded as error:
            return Verdict(FAILS, str(error)), None
        if "error" in answer:
            return of_error(answer["error"]), None
        return None, answer["result"]

    # --- reading, and appending to copies -----------------------------------------------------------------------------

    def _meet_all(self, engine: Engine, advance: Callable[[], None]) -> None:
        ours = ENGINES[OURS]
        for case in self.cases:
            reads, adds = self._meet(maker=ours, other=engine, case=case)
            self._put(THEY_READ, engine, case, reads)
            self._put(THEY_ADD, engine, case, adds)
            if ours.reads and case.reads in ours.reads:
                reads, adds = self._meet(maker=engine, other=ours, case=case)
                self._put(WE_READ, engine, case, reads)
                self._put(WE_ADD, engine, case, adds)
            advance()

    def _meet(self, maker: Engine, other: Engine, case: Case) -> tuple[Verdict, Verdict | None]:
        """How another engine reads a table, and how it appends to a copy of it; nothing if it was appended."""
        if (unmade := self._made[maker.name, case.name]) is not None:
            return unmade, unmade
        reads = Verdict(ABSENT)
        if case.reads in other.reads:
            reads = self._read(other, case, self._path(maker.name, case))
        if not other.can_add(case) or case.reads not in maker.reads:
            return reads, Verdict(ABSENT)
        copy = self._path(maker.name, case, other.name)
        shutil.copytree(self._path(maker.name, case), copy)
        return reads, self._asked(other, "add", case, copy)[0]

    def _read(self, engine: Engine, case: Case, path: Path, *, grown: bool = False) -> Verdict:
        wrong, found = self._asked(engine, "read", case, path)
        return wrong or of_rows(case.truth(grown=grown), found)

    def _put(self, direction: str, engine: Engine, case: Case, verdict: Verdict | None) -> None:
        if verdict is not None:
            self.cells[direction, engine.name, case.name] = verdict

    # --- reading what was appended ------------------------------------------------------------------------------------

    def _look_all(self, engine: Engine, advance: Callable[[], None]) -> None:
        """The engine that made a table reads what the other has appended."""
        ours = ENGINES[OURS]
        for case in self.cases:
            for direction, maker, other in ((THEY_ADD, ours, engine), (WE_ADD, engine, ours)):
                copy = self._path(maker.name, case, other.name)
                if copy.is_dir() and (direction, engine.name, case.name) not in self.cells:
                    self._put(direction, engine, case, self._read(maker, case, copy, grown=True))
            advance()
