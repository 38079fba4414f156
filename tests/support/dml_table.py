"""A table for the tests of DELETE, UPDATE and MERGE, and what they ask about it: rows, files, jobs, the last commit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VECTORS = "delta.enableDeletionVectors"
CHANGES = "delta.enableChangeDataFeed"


class Table:
    """A table at a path. In statements, ``{t}`` is its name.

    :param rows: a query for its rows; each of the query's partitions is a file of its own (``range(0, 6, 1, 3)``: three
        files of two rows).
    """

    def __init__(
        self,
        spark: SparkSession,
        path: Path,
        columns: str,
        rows: str | None = None,
        *,
        partitioned: str = "",
        vectors: bool = False,
        changes: bool = False,
        properties: Sequence[str] = (),
    ) -> None:
        self.spark, self.path, self.name = spark, path, f"delta.`{path}`"
        switched = [f"'{VECTORS}' = '{str(vectors).lower()}'", f"'{CHANGES}' = '{str(changes).lower()}'"]
        told = ", ".join([*switched, *properties])
        by = f"PARTITIONED BY ({partitioned})" if partitioned else ""
        spark.sql(f"CREATE TABLE {self.name} ({columns}) USING delta {by} TBLPROPERTIES ({told})")
        if rows:
            self.run("INSERT INTO {t} " + rows)

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """A statement's rows."""
        return [tuple(row) for row in self.spark.sql(sql.replace("{t}", self.name)).collect()]

    def jobs(self, sql: str) -> tuple[list[tuple[Any, ...]], int]:
        """A statement's rows, and how many Spark jobs it ran."""
        context = self.spark.sparkContext
        group = f"{self.path.name}-{id(self)}-{self.version}-{abs(hash(sql))}"
        context.setJobGroup(group, "counted")
        try:
            found = self.run(sql)
        finally:
            for name in ("spark.jobGroup.id", "spark.job.description"):
                context.setLocalProperty(name, None)
        context._jsc.sc().listenerBus().waitUntilEmpty()
        return found, len(context.statusTracker().getJobIdsForGroup(group))

    def rows(self, columns: str = "*") -> list[tuple[Any, ...]]:
        """The table's rows, sorted."""
        return sorted((tuple(row) for row in self.run(f"SELECT {columns} FROM {{t}}")), key=repr)

    def values(self, column: str = "id") -> list[Any]:
        """A column's values, sorted; nulls come last."""
        found = [row[0] for row in self.run(f"SELECT {column} FROM {{t}}")]
        return sorted((v for v in found if v is not None), key=lambda v: v) + [v for v in found if v is None]

    @property
    def version(self) -> int:
        return max((int(p.stem) for p in (self.path / "_delta_log").glob("*.json") if p.stem.isdecimal()), default=-1)

    def actions(self, version: int | None = None) -> list[dict[str, Any]]:
        """The actions of a commit, the newest unless told."""
        at = self.version if version is None else version
        text = (self.path / "_delta_log" / f"{at:020d}.json").read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines()]

    def info(self) -> dict[str, Any]:
        """``commitInfo`` of the newest commit."""
        return next(action["commitInfo"] for action in self.actions() if "commitInfo" in action)

    def metrics(self, *names: str) -> dict[str, int]:
        """The newest commit's metrics but times and sizes, or those named; zeros are left out."""
        found = {name: int(value) for name, value in self.info()["operationMetrics"].items()}
        if names:
            return {name: found[name] for name in names}
        return {n: v for n, v in found.items() if v and not n.endswith("Ms") and "Bytes" not in n}

    def files(self) -> set[str]:
        """The data files the table's newest version has."""
        live: set[str] = set()
        for version in range(self.version + 1):
            actions = self.actions(version)
            live -= {unquote(a["remove"]["path"]) for a in actions if "remove" in a}
            live |= {unquote(a["add"]["path"]) for a in actions if "add" in a}
        return live

    def files_on_disk(self) -> set[str]:
        """Everything below the table's directory but its log and checksums."""
        return {
            str(p.relative_to(self.path))
            for p in self.path.rglob("*")
            if p.is_file() and "_delta_log" not in p.parts and not p.name.startswith(".")
        }

    @property
    def state(self) -> tuple[int, set[str]]:
        """The newest version, and everything there is beside the log."""
        return self.version, self.files_on_disk()

    def comes_to(self, state: tuple[int, set[str]]) -> bool:
        """Whether the table is so. A task ended with its job may leave a file behind, which nothing refers to."""
        version, files = state
        return self.version == version and files <= self.files_on_disk()

    def files_of(self, condition: str) -> set[str]:
        """The files that hold the rows of a condition."""
        found = self.run(f"SELECT DISTINCT _metadata.file_name FROM {{t}} WHERE {condition}")
        return {file for file in self.files() if Path(file).name in {name for (name,) in found}}

    def break_files(self, files: set[str]) -> None:
        """Leave nothing in some data files that could be read: a statement that does so fails."""
        for file in files:
            (self.path / file).write_bytes(b"")

    def change_rows(self) -> list[tuple[Any, ...]]:
        """The rows of the newest commit's change data files, sorted, ``_change_type`` last."""
        paths = [str(self.path / unquote(a["cdc"]["path"])) for a in self.actions() if "cdc" in a]
        if not paths:
            return []
        found = self.spark.read.option("basePath", str(self.path / "_change_data")).parquet(*paths)
        return sorted((tuple(row) for row in found.collect()), key=repr)
