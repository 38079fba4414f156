"""How the files of a rewrite are encoded, as the files they replace tell.

Owns one choice: a column for which a dictionary was tried, and found of no use, is written without trying again. To
look up each value in a dictionary that is thrown away in the end is half the work of writing identifiers, times and
free text. What is read does not change: such a column ends up without a dictionary either way. Follows the chapter
"Dictionary Encoding" of Parquet's encodings.
"""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headwater.statements.change.attempt import Attempt
from headwater.statements.change.scan import total_bytes
from headwater.stores import absolute_path
from headwater.stores.parquet_footers import read_footer

#: Prefix of the writer's option for a column.
_DICTIONARY = "parquet.enable.dictionary#"
#: Writers that try a dictionary for every column, and leave it where it does not make the column smaller.
_TRIES_DICTIONARIES = "parquet-mr "
#: The writer gives up a dictionary of twice this size, in bytes.
_MANY_VALUES = 512 << 10
#: In so many times the rows, values that did not repeat in one file will not repeat often.
_MUCH_MORE = 8
#: Of files of less, in bytes, little is to be gained.
_SMALL_FILE = 64 << 10


def writer_options(attempt: Attempt, replaced: pa.Table) -> dict[str, str]:
    """Options of the Parquet writer for rows that come from files, given as rows of ``snapshot.files``.

    The largest of the files is asked.
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
        return {}  # the job that reads the file tells what is wrong with it
    representative = total_bytes(replaced) <= _MUCH_MORE * largest["size"]
    columns = _without_dictionary(footer, _computed(attempt), 0 if representative else _MANY_VALUES)
    return {_DICTIONARY + column: "false" for column in columns}


def _computed(attempt: Attempt) -> set[str]:
    """Physical names of columns that an UPDATE may give values of another kind than they had, perhaps one for all rows.

    The source of a MERGE has values of the same kind as the target.
    """
    request = attempt.request
    if request.source is not None:
        return set()
    assigned = {name for clause in request.matched for name in clause.assigned}
    return {column.physical_name for column in attempt.target.schema if column.name.lower() in assigned}


def _without_dictionary(footer: pq.FileMetaData, besides: Collection[str], least_bytes: int) -> list[str]:
    """Columns (dotted paths) whose values the writer of a file found not worth a dictionary.

    :param besides: columns, by the first name of their path, that are not asked about.
    :param least_bytes: how large their values must be, without compression.
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
