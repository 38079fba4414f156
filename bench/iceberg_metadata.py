"""``python -m bench.iceberg_metadata``: what a commit into a large table costs whoever writes its Iceberg metadata.

A table of bare log actions on the local file system, partitioned, with statistics of six columns. The output is the
seconds of the first conversion, of all files, and of the one behind each of some kinds of commits. Target: 2 seconds
behind a commit into a table of 100,000 files. Nothing of it is on a statement's own time.
"""

from __future__ import annotations

import json
import tempfile
import time
import uuid
from pathlib import Path
from statistics import median
from typing import Annotated

import typer

from headwater.definition.requirements import protocol_for
from headwater.iceberg.conversion import convert
from headwater.log.snapshot import Snapshot
from headwater.protocol import properties
from headwater.protocol.actions import AddFile, Metadata
from headwater.protocol.types import PrimitiveType, StructField, StructType, schema_string
from headwater.schema import mapping
from headwater.stores import LocalStore
from headwater.transaction import Provenance, Transaction, wait_for_maintenance

_PARTITIONS = 50
_COLUMNS = ("id", "a", "b", "c", "d", "e")
_TARGET_SECONDS = 2.0


def main(
    files: Annotated[int, typer.Option(help="How many files the table has.")] = 100_000,
    rounds: Annotated[int, typer.Option(help="How many commits of each kind.")] = 3,
) -> None:
    """Measure conversions one after the other; the exit code is 1 where one misses the target."""
    missed = False
    with tempfile.TemporaryDirectory(prefix="headwater-iceberg-") as directory:
        table = _Table(Path(directory) / "table", files)
        print(f"{files} files at once: {_seconds(table.snapshot):.2f} s")
        for kind, added, removed in (("append of a file", 1, 0), ("a file replaced", 1, 1), ("200 replaced", 200, 200)):
            times = []
            for _ in range(rounds):
                table.commit(added, removed)
                times.append(_seconds(table.snapshot))
            missed |= median(times) > _TARGET_SECONDS
            print(f"{kind}: {median(times):.2f} s, target {_TARGET_SECONDS:g}")
    if missed:
        raise typer.Exit(1)


def _seconds(snapshot: Snapshot) -> float:
    started = time.perf_counter()
    convert(snapshot)
    return time.perf_counter() - started


class _Table:
    """A table whose files are names in a log."""

    def __init__(self, path: Path, files: int) -> None:
        path.mkdir()
        self._path = str(path)
        names = [StructField(name, PrimitiveType("long")) for name in _COLUMNS]
        schema, last = mapping.assign(
            StructType((*names, StructField("p", PrimitiveType("string")))), 0, keep_names=True, nested=True
        )
        configuration = {
            "delta.columnMapping.mode": "name",
            "delta.enableIcebergCompatV2": "true",
            properties.MAX_COLUMN_ID.name: str(last),
        }
        metadata = Metadata(str(uuid.uuid4()), schema_string(schema), ("p",), configuration, created_time=1)
        self._number = 0
        self._there: list[AddFile] = []
        txn = Transaction(self._path, LocalStore(), None)
        txn.update_protocol(protocol_for(metadata, None))
        txn.update_metadata(metadata)
        txn.add(self._new(files))
        self.snapshot = txn.commit(Provenance("CREATE TABLE AS SELECT")).snapshot
        wait_for_maintenance()

    def commit(self, added: int, removed: int) -> None:
        """Replace files from everywhere in the table by others."""
        step = max(1, len(self._there) // max(1, removed))
        gone = self._there[: removed * step : step]
        paths = {file.path for file in gone}
        self._there = [file for file in self._there if file.path not in paths]
        txn = Transaction(self._path, LocalStore(), self.snapshot)
        txn.remove([file.removal(2, True) for file in gone])
        txn.add(self._new(added))
        self.snapshot = txn.commit(Provenance("WRITE")).snapshot
        wait_for_maintenance()

    def _new(self, count: int) -> list[AddFile]:
        files = []
        for _ in range(count):
            self._number += 1
            number, partition = self._number, str(self._number % _PARTITIONS)
            statistics = {
                "numRecords": 10,
                "minValues": dict.fromkeys(_COLUMNS, number),
                "maxValues": dict.fromkeys(_COLUMNS, number + 9),
                "nullCount": dict.fromkeys(_COLUMNS, 0),
            }
            path = f"p={partition}/part-{number:06}-{uuid.uuid4()}.c000.snappy.parquet"
            files.append(AddFile(path, {"p": partition}, 1000, 1, True, json.dumps(statistics)))
        self._there += files
        return files


if __name__ == "__main__":
    typer.run(main)
