"""The target, restricted to the files a statement may touch.

Owns the relation a rewrite reads: which files it has, in which order (their numbers), and which of their rows are gone.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from headwater.commands.dml.attempt import Attempt
from headwater.commands.dml.request import expression, relation
from headwater.commands.read import describe, file_list
from headwater.log import deletion_vectors

#: Columns of a scan's rows: the number of their file and their position in it.
FILE, ROW = "__hw_file", "__hw_row"


@dataclass(frozen=True)
class Scan:
    """A relation over ``files``, rows of ``snapshot.files``; a file's number is its row here."""

    files: pa.Table
    plan: int

    @property
    def positioned(self) -> str:
        """The relation, in a rewrite: its rows have the number of their file and their position in it."""
        return relation(self.plan)

    def where(self, condition: int | None) -> str:
        """The rows of it that a condition, given by its number, is true for; all where there is none."""
        return self.positioned if condition is None else f"{self.positioned}\nWHERE {expression(condition)}"


def scan(attempt: Attempt, files: pa.Table, gone: Mapping[int, BitMap64] | None = None) -> Scan:
    """A scan of some of the snapshot's files.

    :param gone: positions that are left out, all of them, by file number; for other files, their deletion vectors say.
    """
    snapshot = attempt.snapshot
    described = describe(snapshot)
    listed = file_list(snapshot, files)
    if gone:
        vectors = listed["deletion_vector"].to_pylist()
        for number, positions in gone.items():
            vectors[number] = "inline " + base64.b64encode(deletion_vectors.serialize(positions)).decode()
        listed = listed.set_column(3, "deletion_vector", pa.array(vectors, pa.string()))
    plan = attempt.statement.restrict(
        attempt.request.target,
        {
            **{name: described[name] for name in ("version", "tableId", "sizeInBytes", "hasDeletionVectors", "schema")},
            "listedBytes": total_bytes(files),
            "listsDeletionVectors": listed["deletion_vector"].null_count < listed.num_rows,
            "files": [list(row.values()) for row in listed.to_pylist()],
        },
    )
    return Scan(files, plan)


def total_bytes(files: pa.Table) -> int:
    """The size in bytes of rows of ``snapshot.files``."""
    return pc.sum(files["size"]).as_py() or 0
