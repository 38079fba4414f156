"""The Parquet footers of a version's data files, for statements, and the numbers of rows that only footers may have.

Promise: a file that is missing or damaged is an error that names the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headwater.log.data_footers import read_data_footer
from headwater.log.snapshot import Snapshot
from headwater.protocol.actions import num_records


def data_footer(snapshot: Snapshot, path: str, size: int) -> pq.FileMetaData:
    """The footer of a data file, whose path and size in bytes are those of its ``add`` action.

    :raises HeadwaterError: ``DELTA_FILE_NOT_FOUND_DETAILED``, ``HEADWATER_DATA_FILE_DAMAGED``.
    """
    return read_data_footer(snapshot.table_path, snapshot.store, snapshot.version, path, size)


def physical_rows(snapshot: Snapshot, row: Mapping[str, Any]) -> int:
    """How many rows a file has, deleted ones included; from its footer where the log does not have the number.

    :param row: a row of ``snapshot.files``.
    :raises HeadwaterError: those of :func:`data_footer`.
    """
    known = num_records(row["stats"])
    return int(data_footer(snapshot, row["path"], row["size"]).num_rows) if known is None else known


def live_rows(snapshot: Snapshot, files: pa.Table) -> list[int]:
    """How many rows of each file are not deleted.

    :param files: rows of ``snapshot.files``.
    :raises HeadwaterError: those of :func:`data_footer`.
    """
    return [
        physical_rows(snapshot, row) - (row["deletion_vector"]["cardinality"] if row["deletion_vector"] else 0)
        for row in files.to_pylist()
    ]
