"""What holds of a table after a statement, whatever became of the tasks on the way."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from support.dml.checking import Refused, Run
from support.dml.engines import changes_by_delta_rs, rows_by_delta_rs
from support.dml.expressions import Scope
from support.dml.model import SOURCE, TARGET, Merge, Outcome, Statement


class Engine:
    """The cluster as the model's checks want it."""

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster

    def sql(self, text: str) -> list[Any]:
        return self._cluster.sql(text)


class Held:
    """The same, where something befalls the cluster while a statement runs: ``befall(answer)`` does it."""

    def __init__(self, cluster: Any, befall: Any) -> None:
        self._cluster = cluster
        self._befall = befall

    def sql(self, text: str) -> list[Any]:
        if not text.startswith(("DELETE", "UPDATE", "MERGE")):
            return self._cluster.sql(text)
        answer = self._cluster.begin(sql=text)
        self._befall(answer)
        return answer.get()


def actions(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The log's actions, with their versions."""
    for commit in sorted((path / "_delta_log").glob("*.json")):
        for line in commit.read_text(encoding="utf-8").splitlines():
            yield int(commit.stem), json.loads(line)


def strays(path: Path) -> set[str]:
    """Data files and files of change data that no version refers to."""
    named = {
        unquote(action[kind]["path"])
        for _, action in actions(path)
        for kind in ("add", "cdc")
        if action.get(kind) is not None
    }
    return {str(file.relative_to(path)) for file in path.rglob("*.parquet") if "_delta_log" not in file.parts} - named


def live_rows(path: Path) -> int:
    """How many rows the log's own counts say the table has: records of files less those their vectors delete."""
    files: dict[str, int] = {}
    for _, action in actions(path):
        if (gone := action.get("remove")) is not None:
            files.pop(gone["path"], None)
        if (add := action.get("add")) is not None:
            vector = add.get("deletionVector") or {}
            files[add["path"]] = json.loads(add["stats"])["numRecords"] - vector.get("cardinality", 0)
    return sum(files.values())


def metrics(path: Path) -> dict[str, int]:
    """The operation's metrics of the last commit."""
    found = [action["commitInfo"] for _, action in actions(path) if "commitInfo" in action]
    return {name: int(value) for name, value in found[-1]["operationMetrics"].items()}


def check_metrics(run: Run, statement: Statement, outcome: Outcome, before: Any) -> None:
    """The history counts rows as the statement's result does."""
    found, returned = metrics(run.path), outcome.returned or {}
    if isinstance(statement, Merge):
        source = before.rows if statement.source.rows is None else statement.source.rows
        run.same(found["numSourceRows"], len(source), "numSourceRows")
        run.same(found["numTargetRowsUpdated"], returned["num_updated_rows"], "numTargetRowsUpdated")
        run.same(found["numTargetRowsDeleted"], returned["num_deleted_rows"], "numTargetRowsDeleted")
        run.same(found["numTargetRowsInserted"], returned["num_inserted_rows"], "numTargetRowsInserted")


def check_exact(run: Run) -> None:
    """Rows, the log's counts and the change data are those of the model, as we and as delta-rs read them."""
    run.compare_rows()
    run.same(live_rows(run.path), len(run.expected.rows), "the rows that the log counts")
    run.same_rows(rows_by_delta_rs(run.path, run.expected), run.rows(), "the rows that delta-rs reads")
    if run.script.has_change_data:
        run.compare_changes()
        if not run.script.is_mapped and "string" not in (
            run.script.table.columns[n] for n in run.script.table.partitioned_by
        ):
            found = changes_by_delta_rs(run.path, run.expected)
            for version, wanted in run.changes.items():
                run.same_rows(found.get(version, type(wanted)()), wanted, f"version {version} as delta-rs reads it")


__all__ = [
    "SOURCE", "TARGET", "Engine", "Held", "Refused", "Scope", "check_exact", "check_metrics", "live_rows", "metrics",
    "strays",
]  # fmt: skip
