"""The encodings of a rewrite's files, which follow from the files that they replace.

Owns one choice: a column that the writer of the replaced files tried to encode with a dictionary, and gave that up, is
written without trying again. Looking up each value in a dictionary that is thrown away in the end is half the work of
writing identifiers, times and free text (bench case ``merge-copy``). What is read does not change: such a column has no
dictionary either way. Follows the chapter "Dictionary Encoding" of Parquet's encodings.
"""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headwater.statements.dml.attempt import Attempt
from headwater.statements.dml.scan import total_bytes
from headwater.stores import absolute_path
from headwater.stores.parquet_footers import read_footer

#: Prefix of the writer's option for a column.
_DICTIONARY = "parquet.enable.dictionary#"
#: Writers that try a dictionary for every column, and give it up where it does not make the column smaller.
_TRIES_DICTIONARIES = "parquet-mr "
#: The writer gives up a dictionary of twice this size, in bytes.
_MANY_VALUES = 512 << 10
#: One file represents all the rows where these are at most so many times as large: values that did not repeat in it
#: will not repeat often. Chosen, not measured.
_MUCH_MORE = 8
#: Files of fewer bytes are not looked at, as they gain little. Chosen, not measured.
_SMALL_FILE = 64 << 10


def writer_options(attempt: Attempt, replaced: pa.Table) -> dict[str, str]:
    """Options of the Parquet writer for rows that come from files, given as rows of ``snapshot.files``.

    The largest of the files decides.
    """
    if not replaced.num_rows:
        return {}
    largest = replaced.slice(pc.index(replaced["size"], pc.max(replaced["size"])).as_py(), 1).to_pylist()[0]
    if largest["size"] < _SMALL_FILE:
        return {}
    snapshot = attempt.snapshot
    try:
        footer = read_footer(snapshot.store, absolute_path(snapshot.table_path, largest["path"]), largest["size"])
    except (OSError, pa.ArrowInvalid):
        return {}  # the job that reads the file raises the error
    representative = total_bytes(replaced) <= _MUCH_MORE * largest["size"]
    columns = _without_dictionary(footer, _computed(attempt), 0 if representative else _MANY_VALUES)
    return {_DICTIONARY + column: "false" for column in columns}


def _computed(attempt: Attempt) -> set[str]:
    """Physical names of columns to which an UPDATE assigns values, which may repeat where the old ones did not.

    Values from the source of a MERGE repeat as those of the target do.
    """
    request = attempt.request
    if request.message.source is not None:
        return set()
    assigned = {name for clause in request.matched for name in clause.assigned}
    return {column.physical_name for column in attempt.target.schema if column.name.lower() in assigned}


def _without_dictionary(footer: pq.FileMetaData, besides: Collection[str], least_bytes: int) -> list[str]:
    """Columns (dotted paths) for which the writer of a file gave up a dictionary.

    :param besides: columns, by the first name of their path, that are left out.
    :param least_bytes: the least size of a column's values in a row group, without compression.
    """
    if not footer.num_row_groups or not (footer.created_by or "").startswith(_TRIES_DICTIONARIES):
        return []
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    found = []
    for position in range(footer.num_columns):
        chunks = [group.column(position) for group in groups]
        path = footer.schema.column(position).path
        if path.partition(".")[0] in besides or any(map(_has_dictionary, chunks)):
            continue
        if sum(chunk.total_uncompressed_size for chunk in chunks) >= least_bytes * len(chunks):
            found.append(path)
    return found


def _has_dictionary(chunk: pq.ColumnChunkMetaData) -> bool:
    return any("DICTIONARY" in encoding for encoding in chunk.encodings)
