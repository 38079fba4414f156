"""A few rows of a version, read from its data files by pyarrow, without Spark."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from headwater.basics.errors import HeadwaterError, plain_reason
from headwater.change_data.changelog import RowKind
from headwater.change_data.files import ChangedFile
from headwater.change_data.rows import ChangeReader
from headwater.change_data.schemas import VersionedDefinition
from headwater.inspector.plain import short, text_of
from headwater.log.snapshot import Snapshot
from headwater.protocol.actions import DeletionVector

#: Rows, columns, and files that are opened for them.
_ROWS, _COLUMNS, _FILES = 50, 100, 5
_AT_ONCE = 256


def sample(snapshot: Snapshot, start: int = 0) -> dict[str, Any]:
    """Up to fifty rows that are not deleted, from a file of the table on; what cannot be read is named."""
    fields = list(snapshot.schema)[:_COLUMNS]
    chosen = snapshot.select(["path", "size", "partition_values", "deletion_vector"]).slice(start, _FILES).to_pylist()
    reader = ChangeReader(snapshot.table_path, snapshot.store, VersionedDefinition.of(snapshot), fields, _AT_ONCE)
    rows: list[list[str | None]] = []
    problems: list[str] = []
    opened = []
    for each in chosen:
        if len(rows) >= _ROWS:
            break
        opened.append(short(each["path"], 500))
        vector = each["deletion_vector"]
        file = ChangedFile(
            snapshot.version,
            each["path"],
            each["size"],
            dict(each["partition_values"] or ()),
            RowKind.INSERT.change_type,
            without=None if vector is None else DeletionVector(**vector),
        )
        try:
            for some in reader.read(file, [RowKind.INSERT]):
                columns = [column.slice(0, _ROWS - len(rows)) for column in some.columns]
                rows += [[text_of(value) for value in row] for row in zip(*columns, strict=True)]
                if len(rows) >= _ROWS:
                    break
        except HeadwaterError as error:
            gone = error.condition == "DELTA_CHANGE_DATA_FILE_NOT_FOUND"
            problems.append(short(f"{each['path']} does not exist." if gone else error.text, 1000))
        except (OSError, pa.ArrowException, ValueError, KeyError, TypeError) as error:
            problems.append(short(f"{each['path']} cannot be read: {plain_reason(error)}", 1000))
    return {
        "columns": [{"name": short(field.name), "type": short(field.type.sql())} for field in fields],
        "rows": rows[:_ROWS],
        "files": opened,
        "problems": problems,
        "more": start + len(opened) < snapshot.num_files,
        "next": start + len(opened),
        "columnsLeftOut": max(len(list(snapshot.schema)) - _COLUMNS, 0),
    }
