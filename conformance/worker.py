"""The process of one engine: runs the request in each line of standard input, answers with a line on standard output.

``python -m conformance.worker ENGINE FOLDER``; the first line is the settings of its Spark. An answer is an object; one
with ``error`` has the text of what the engine raised.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from conformance.cases import CASES, Case
from conformance.engines import ENGINES, Adapter
from conformance.rows import Rows, canonical
from conformance.steps import BY_HAND, CleanLog, Sql, Step, by_hand
from conformance.witness import lacking

#: Seconds to wait for a checkpoint that an engine writes after its commit.
_CHECKPOINT_SECONDS = 10


#: Of a table that is no case's.
_ANY = next(iter(CASES.values()))


def adapter(name: str, folder: Path, settings: dict[str, str]) -> Adapter:
    """The engine's adapter, which starts it."""
    match ENGINES[name].adapter:
        case "spark":
            from conformance.engines.spark import Spark

            return Spark(name, folder, settings)
        case "delta_rs":
            from conformance.engines.delta_rs import DeltaRs

            return DeltaRs(with_queries=name == "delta-rs")
        case "polars":
            from conformance.engines.polars import Polars

            return Polars()
        case "daft":
            from conformance.engines.daft import Daft

            return Daft()
        case "duckdb":
            from conformance.engines.duckdb import DuckDb

            return DuckDb()
        case "clickhouse":
            from conformance.engines.clickhouse import ClickHouse

            return ClickHouse()
        case "trino":
            from conformance.engines.trino import Trino
            from conformance.fetching import trino_server

            return Trino(folder, trino_server())
        case "iceberg":
            from conformance.engines.iceberg import PyIceberg

            return PyIceberg()
    raise KeyError(name)


def make(engine: Adapter, case: Case, path: Path) -> str:
    """Make the case's table; what it lacks then of what the case is about."""
    try:
        if case.create:
            engine.create(case, path)
        for number, step in enumerate(case.steps):
            run(engine, case, step, path, f"{path}.{number}.parquet")
    finally:
        engine.done(case)
    return lacking(case, path)


def add(engine: Adapter, case: Case, path: Path) -> None:
    """Append the case's row to a table that another engine has made."""
    try:
        run(engine, case, case.adding, path, f"{path}.added.parquet")
    finally:
        engine.done(case)


def run(engine: Adapter, case: Case, step: Step, path: Path, file: str) -> None:
    """Carry out a step, with its rows in a Parquet file."""
    if isinstance(step, BY_HAND):
        if isinstance(step, CleanLog):
            _wait_for_checkpoint(path / "_delta_log")
        by_hand(step, path)
        return
    if hasattr(step, "rows"):
        pq.write_table(case.table(step), file)
    engine.step(case, step, path, Path(file))


def _wait_for_checkpoint(log: Path) -> None:
    newest = max(int(file.name[:20]) for file in log.glob("0*.json") if file.name[20:] == ".json")
    wanted = newest - newest % 2
    until = time.monotonic() + _CHECKPOINT_SECONDS
    while not any(log.glob(f"{wanted:020d}.checkpoint*")) and time.monotonic() < until:
        time.sleep(0.05)
    time.sleep(0.2)  # the other parts, and the hint


def read(engine: Adapter, case: Case, path: Path) -> Rows:
    """What the case reads of a table, in canonical form."""
    table = engine.read(case, path)
    if case.shows is not None:
        table = table.select([name for name in table.column_names if name in case.shown])
    return canonical(table, [name for name, column in case.shown.items() if column.is_variant])


def look(engine: Adapter, case: Case, path: Path) -> Rows:
    """The rows of a table that is no case's."""
    return canonical(engine.read(case, path))


def double(engine: Adapter, case: Case, path: Path) -> None:
    """Append each row of such a table once more."""
    engine.step(case, Sql("INSERT INTO {t} SELECT * FROM {t}"), path, path)


_ACTIONS: dict[str, Callable[[Adapter, Case, Path], Any]] = {
    each.__name__: each for each in (make, add, read, look, double)
}


def main(name: str, folder: str) -> None:
    """Serve until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what else writes to standard output must not get between the answers
    try:
        engine = adapter(name, Path(folder), json.loads(sys.stdin.readline()))
        answer: dict[str, Any] = {"result": engine.version}
    except Exception as error:
        answer = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer), file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            done = _ACTIONS[request["do"]](engine, CASES.get(request["case"], _ANY), Path(request["path"]))
            answer = {"result": done}
        except BaseException as error:  # polars and others raise panics that are no Exception
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
