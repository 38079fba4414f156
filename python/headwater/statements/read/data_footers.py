"""The Parquet footers of a version's data files, for statements, and the numbers of rows that only they may have.

Promise: a file that is missing or damaged is an error that names the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headwater.errors import HeadwaterError
from headwater.log.snapshot import Snapshot
from headwater.protocol.actions import num_records
from headwater.stores import absolute_path
from headwater.stores.parquet_footers import read_footer


def data_footer(snapshot: Snapshot, path: str, size: int) -> pq.FileMetaData:
    """The footer of a data file, whose path and size in bytes are those of its ``add`` action.

    :raises HeadwaterError: ``DELTA_FILE_NOT_FOUND_DETAILED``, ``HEADWATER_DATA_FILE_DAMAGED``.
    """
    file = absolute_path(snapshot.table_path, path)
    where = {"file": file, "version": snapshot.version, "tableLocation": snapshot.table_path}
    try:
        return read_footer(snapshot.store, file, size)
    except FileNotFoundError:
        raise HeadwaterError("DELTA_FILE_NOT_FOUND_DETAILED", where) from None
    except pa.ArrowInvalid as error:
        raise HeadwaterError("HEADWATER_DATA_FILE_DAMAGED", {**where, "reason": str(error)}) from None


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
