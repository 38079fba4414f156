"""What is measured beside each other: a Spark process each, and how its tables are created.

All processes have the settings of :mod:`bench.sparks`. Parquet is measured in a Spark without any extension.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.sparks import OURS, PEER, PLAIN, Spark, peer_jars
from headwater import __version__

PARQUET = "parquet"
#: Each side's name for people, in the order of the tables.
TITLES = {OURS: "Headwater", PEER: "Delta Lake", PARQUET: "Parquet"}
#: Deletion vectors are on where rows change: both connectors can, and the recommended form is what counts.
_CHANGEABLE = "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"


@dataclass(frozen=True)
class Side:
    """A running side."""

    name: str
    spark: Spark
    provider: str

    @property
    def changes_rows(self) -> bool:
        """Whether it has MERGE."""
        return self.name != PARQUET

    def use(self, schema: str) -> None:
        """Name tables without their schema from here on."""
        self.spark.run(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        self.spark.run(f"USE {schema}")

    def create(self, table: str, query: str, *, changeable: bool = False, clustered: str | None = None) -> float:
        """Create a table, in the place of one that is there, from a query; the seconds of the creation alone."""
        self.spark.run(f"DROP TABLE IF EXISTS {table}")
        properties = f" {_CHANGEABLE}" if changeable and self.changes_rows else ""
        cluster = f" CLUSTER BY ({clustered})" if clustered and self.changes_rows else ""
        return self.spark.run(f"CREATE TABLE {table} USING {self.provider}{cluster}{properties} AS {query}")

    def version(self) -> str:
        """Name and version of what is measured, without Spark's."""
        if self.name == OURS:
            return f"{TITLES[OURS]} {__version__}"
        found = re.search(r"delta-spark_[^/,]*-([\d.]+)\.jar", peer_jars()) if self.name == PEER else None
        return TITLES[self.name] + (f" {found[1]}" if found else "")


@contextmanager
def started(names: list[str], directory: Path, memory: str) -> Iterator[dict[str, Side]]:
    """Start the sides, in the order of the tables; they end with the block."""
    sides: dict[str, Side] = {}
    try:
        for name in sorted(names, key=list(TITLES).index):
            kind = PLAIN if name == PARQUET else name
            provider = "parquet" if name == PARQUET else "delta"
            sides[name] = Side(name, Spark(kind, directory, memory), provider)
        yield sides
    finally:
        for side in sides.values():
            side.spark.stop()
