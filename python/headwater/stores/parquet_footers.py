"""Footers of Parquet files, read without the rest of the file.

Owns how a file's end is found in any store, in one request where the footer is of the usual size. Follows Parquet's
file format: the footer, its length in four bytes, ``PAR1``.
"""

from __future__ import annotations

import struct

import pyarrow as pa
import pyarrow.parquet as pq

from headwater.basics.errors import plain_reason
from headwater.stores.interface import Store

#: Bytes of a file's end that are read first: enough for the footers of files with 100 columns (bench case
#: ``footer-tail``).
_TAIL_BYTES = 64 << 10
_LENGTH = struct.Struct("<I4s")


def read_footer(store: Store, path: str, size: int) -> pq.FileMetaData:
    """The footer of a file of ``size`` bytes.

    :raises FileNotFoundError: no such file.
    :raises pyarrow.ArrowInvalid: the file is not Parquet, or of another size; whatever Arrow says of it.
    """
    if not isinstance(size, int) or size < _LENGTH.size:
        raise pa.ArrowInvalid(f"according to the log it has {size} bytes, too few for a Parquet file")
    length = min(size, _TAIL_BYTES)
    tail = store.read_range(path, size - length, length)
    if length < size and len(tail) >= _LENGTH.size:
        needed = _LENGTH.unpack(tail[-_LENGTH.size :])[0] + _LENGTH.size
        if len(tail) < needed <= size:
            tail = store.read_range(path, size - needed, needed)
    try:
        # Positions in a footer refer to the whole file; they are not used here.
        return pq.read_metadata(pa.BufferReader(tail))
    except (OSError, ValueError, pa.ArrowException) as error:
        raise pa.ArrowInvalid(plain_reason(error)) from None
