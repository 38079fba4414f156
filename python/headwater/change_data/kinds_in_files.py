"""Which kinds of rows a change data file can contain, by the statistics in its footer.

Owns the question whether a commit has images of updates that nobody knows as pairs, asked before its rows are read.
Promise: a file is never said to hold no images if it holds one; what has no statistics, or is not there, may hold any.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from headwater.change_data.changelog import CHANGE_TYPE, RowKind
from headwater.change_data.files import ChangedFile
from headwater.stores import Store, absolute_path
from headwater.stores.parquet_footers import read_footer

_TYPES = tuple(sorted(kind.change_type for kind in RowKind))
_IMAGES = {RowKind.UPDATE_BEFORE.change_type, RowKind.UPDATE_AFTER.change_type}
#: The most footers that are read to find the versions of a range; files beyond them count as files with images.
_MOST_FOOTERS = 32
#: The most versions that are looked for.
_MOST_VERSIONS = 20


def possible_types(group: pq.RowGroupMetaData) -> Sequence[str]:
    """The change types that a row group of a change data file can hold."""
    for number in range(group.num_columns):
        column = group.column(number)
        if column.path_in_schema == CHANGE_TYPE:
            statistics = column.statistics
            if statistics is not None and statistics.has_min_max:
                return [kind for kind in _TYPES if statistics.min <= kind <= statistics.max]
    return _TYPES


def versions_with_unpaired_images(files: Sequence[ChangedFile], table_path: str, store: Store) -> list[int]:
    """The versions, ascending, whose files may hold an image of an update that is not known as one of a pair; of many,
    the first.
    """
    unknown = sorted((file for file in files if file.has_unknown_pairs), key=lambda file: file.version)
    found: list[int] = []
    footers = 0
    for file in unknown:
        if found and (found[-1] == file.version or len(found) == _MOST_VERSIONS):
            continue
        footers += 1
        if footers > _MOST_FOOTERS or _may_hold_images(file, table_path, store):
            found.append(file.version)
    return found


def _may_hold_images(file: ChangedFile, table_path: str, store: Store) -> bool:
    try:
        footer = read_footer(store, absolute_path(table_path, file.path), file.size)
    except (FileNotFoundError, pa.ArrowInvalid):  # an error of those who read its rows
        return True
    return any(not _IMAGES.isdisjoint(possible_types(footer.row_group(n))) for n in range(footer.num_row_groups))
