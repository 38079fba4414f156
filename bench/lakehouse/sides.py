"""What is measured beside each other: a Spark process each, and how its tables are created.

All processes have the settings of :mod:`bench.sparks`. Parquet is measured in a Spark without any extension.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.sparks import ICEBERG, OURS, PEER, PLAIN, Spark, comet_jar, iceberg_jars, peer_jars
from headwater import __version__

PARQUET = "parquet"
#: Parquet in a Spark without Comet, where the others have it.
UNACCELERATED = "spark"
#: Each side's name for people, in the order of the tables.
TITLES = {
    OURS: "Headwater",
    PEER: "Delta Lake",
    ICEBERG: "Iceberg",
    PARQUET: "Parquet",
    UNACCELERATED: "Parquet without Comet",
}
_PROVIDERS = {OURS: "delta", PEER: "delta", ICEBERG: "iceberg", PARQUET: "parquet", UNACCELERATED: "parquet"}
#: Where rows change, all sides mark rows and do not copy the others of their files.
_DELTA_VECTORS = "'delta.enableDeletionVectors' = 'true'"
_MERGE_ON_READ = ", ".join(f"'write.{kind}.mode' = 'merge-on-read'" for kind in ("delete", "update", "merge"))
_CHANGEABLE = {OURS: _DELTA_VECTORS, PEER: _DELTA_VECTORS, ICEBERG: _MERGE_ON_READ}
#: Sides that can cluster a table.
_CLUSTERING = {OURS, PEER}


@dataclass(frozen=True)
class Side:
    """A running side."""

    name: str
    spark: Spark
    #: Whether Comet runs in it.
    comet: bool = False

    @property
    def changes_rows(self) -> bool:
        """Whether it has MERGE."""
        return self.name in _CHANGEABLE

    @property
    def clusters(self) -> bool:
        """Whether it has CLUSTER BY and OPTIMIZE."""
        return self.name in _CLUSTERING

    def use(self, schema: str) -> None:
        """Name tables without their schema from here on."""
        self.spark.run(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        self.spark.run(f"USE {schema}")

    def create(self, table: str, query: str, *, changeable: bool = False, clustered: str | None = None) -> float:
        """Create a table, in the place of one that is there, from a query; the seconds of the creation alone."""
        self.spark.run(f"DROP TABLE IF EXISTS {table}")
        properties = f" TBLPROPERTIES ({_CHANGEABLE[self.name]})" if changeable and self.changes_rows else ""
        cluster = f" CLUSTER BY ({clustered})" if clustered and self.clusters else ""
        provider = _PROVIDERS[self.name]
        return self.spark.run(f"CREATE TABLE {table} USING {provider}{cluster}{properties} AS {query}")

    def version(self) -> str:
        """Name and version of what is measured, without Spark's."""
        if self.name == OURS:
            return f"{TITLES[OURS]} {__version__}"
        jars = {PEER: peer_jars, ICEBERG: iceberg_jars}.get(self.name, str)() or ""
        found = re.search(r"(?:delta-spark|iceberg-spark-runtime)_?[^/,]*-([\d.]+)\.jar", jars)
        return TITLES[self.name] + (f" {found[1]}" if found else "")


def comet_version() -> str:
    """The version of Comet, from the name of its JAR."""
    found = re.search(r"-(\d[\d.]*)\.jar$", comet_jar())
    return found[1] if found else "of an unknown version"


def usual(comet: bool = False) -> list[str]:
    """The sides of a run that names none: Iceberg where its JARs are named, and with Comet, Parquet also without it."""
    left_out = {*(() if comet else (UNACCELERATED,)), *(() if iceberg_jars() else (ICEBERG,))}
    return [name for name in TITLES if name not in left_out]


@contextmanager
def started(
    names: list[str], directory: Path, memory: str, pyspark: Path | None = None, comet: bool = False
) -> Iterator[dict[str, Side]]:
    """Start the sides, in the order of the tables; they end with the block."""
    sides: dict[str, Side] = {}
    try:
        for name in sorted(names, key=list(TITLES).index):
            kind = PLAIN if name in (PARQUET, UNACCELERATED) else name
            place, has_comet = directory / name, comet and name != UNACCELERATED
            place.mkdir()
            sides[name] = Side(name, Spark(kind, place, memory, pyspark=pyspark, comet=has_comet), has_comet)
        yield sides
    finally:
        for side in sides.values():
            side.spark.stop()
