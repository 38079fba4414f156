"""The Parquet footers of a version's data files, for statements.

Promise: a file that is missing or damaged is an error that names the file.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from headwater.errors import HeadwaterError
from headwater.log.snapshot import Snapshot
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
