"""The Parquet footers of data files, as a table's log names them.

Promise: a file that is missing or damaged is an error that names the file and the table.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from headwater.basics.errors import HeadwaterError
from headwater.stores import Store, absolute_path
from headwater.stores.parquet_footers import read_footer


def read_data_footer(table_path: str, store: Store, version: int, path: str, size: int) -> pq.FileMetaData:
    """The footer of a data file, whose path and size in bytes are those of its ``add`` action.

    :param version: a version of the table that refers to the file.
    :raises HeadwaterError: ``DELTA_FILE_NOT_FOUND_DETAILED``, ``HEADWATER_DATA_FILE_DAMAGED``.
    """
    file = absolute_path(table_path, path)
    where = {"file": file, "version": version, "tableLocation": table_path}
    try:
        return read_footer(store, file, size)
    except FileNotFoundError:
        raise HeadwaterError("DELTA_FILE_NOT_FOUND_DETAILED", where) from None
    except pa.ArrowInvalid as error:
        raise HeadwaterError("HEADWATER_DATA_FILE_DAMAGED", {**where, "reason": str(error)}) from None
