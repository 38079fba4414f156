"""The files that become a Delta table by CONVERT TO DELTA, and their partition values.

Owns which files these are: those that Spark reads of a folder, by the log of a stream that wrote it
(``_spark_metadata``) where there is one, or of a table, by the partitions that its catalog has; and what the partition
columns of each are, as Spark reads them. Promises: what cannot be a file of the table is an error that names it; the
folder of another Delta table below is never taken for a part of this one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NoReturn
from urllib.parse import unquote

from headwater.basics.errors import HeadwaterError
from headwater.bridge.messages.define import CatalogEntry
from headwater.bridge.statement import Statement
from headwater.log.vacuum import inside_table
from headwater.protocol.file_names import LOG_DIRECTORY
from headwater.protocol.partition_paths import NULL_DIRECTORY, values_of_directory
from headwater.protocol.types import PrimitiveType, StructField, StructType
from headwater.sql.composing import Alias, Cast, Column, TableFunction, Text, call, select
from headwater.statements.running.opening import Location
from headwater.statements.settings import (
    CONVERT_IGNORES_CAST_FAILURE,
    CONVERT_USES_CATALOG_PARTITIONS,
    CONVERT_USES_STREAM_LOG,
)
from headwater.stores import Tree

_SINK_LOG = "_spark_metadata"
_COMPACTED = ".compact"
_STRING, _TIMESTAMP = PrimitiveType("string"), PrimitiveType("timestamp")
_EPOCH = datetime(1970, 1, 1)
#: Distinct partition values that one query casts.
_CAST_AT_ONCE = 10_000


@dataclass(frozen=True)
class FoundFile:
    """A file of the new table.

    :param path: relative to the table, not URL-encoded.
    :param size: in bytes; ``modification_time`` in milliseconds since the epoch.
    :param values: the texts of its partition values by column.
    """

    path: str
    size: int
    modification_time: int
    values: Mapping[str, str | None]


def not_usable(path: str, location: Location, reason: str) -> HeadwaterError:
    """The error for a file or folder that cannot be one of the table's."""
    return HeadwaterError(
        "HEADWATER_CONVERT_FILE_NOT_USABLE",
        {"path": f"{location.path}/{path}", "tableLocation": location.path, "reason": reason},
    )


def find_files(
    entry: CatalogEntry | None, location: Location, partitions: StructType, statement: Statement
) -> list[FoundFile]:
    """The files, by path, with the texts of their partition values as folders or the catalog spell them.

    :raises HeadwaterError: ``HEADWATER_CONVERT_NO_FILES``, ``HEADWATER_CONVERT_FILE_NOT_USABLE``,
        ``DELTA_CONVERSION_NO_PARTITION_FOUND``, ``DELTA_UNEXPECTED_NUM_PARTITION_COLUMNS_FROM_FILE_NAME``,
        ``DELTA_UNEXPECTED_PARTITION_COLUMN_FROM_FILE_NAME``.
    """
    tree = _listed(location, statement)
    by_path = {file.path: file for file in tree.files if not _is_hidden_file(file.path) and file.size}
    chosen = _of_stream(location, tree, by_path, statement)
    uses_catalog = entry is not None and CONVERT_USES_CATALOG_PARTITIONS.of(statement)
    found: list[FoundFile] = []
    if chosen is None and entry is not None and uses_catalog and (entry.partitions is not None or not partitions):
        folders = _folders(entry, location)
        for path, file in by_path.items():
            values = folders.get(path.rpartition("/")[0])
            if values is not None:
                found.append(FoundFile(path, file.size, file.modification_time, values))
    else:
        for path in by_path if chosen is None else chosen:
            file = by_path[path]
            found.append(FoundFile(path, file.size, file.modification_time, _values_of(path, location, partitions)))
    if not found:
        raise HeadwaterError("HEADWATER_CONVERT_NO_FILES", {"path": location.path})
    return sorted(found, key=lambda file: file.path)


def _listed(location: Location, statement: Statement) -> Tree:
    """All that lies in the folder, other than what is hidden.

    :raises HeadwaterError: ``HEADWATER_CONVERT_NO_FILES``, ``HEADWATER_CONVERT_FILE_NOT_USABLE``.
    """
    try:
        tree = location.store.walk(location.path, _is_entered, statement.check_cancelled)
    except (FileNotFoundError, NotADirectoryError):
        raise HeadwaterError("HEADWATER_CONVERT_NO_FILES", {"path": location.path}) from None
    for directory in tree.directories:
        parent, _, name = directory.path.rpartition("/")
        if name == LOG_DIRECTORY and parent:
            raise not_usable(parent, location, "it is the folder of another Delta table")
    if location.store.is_local:
        for parent, folders, names in os.walk(location.path):
            folders[:] = list(filter(_is_entered, folders))
            for name in filter(_is_entered, (*folders, *names)):
                if os.path.islink(f"{parent}/{name}"):
                    path = f"{parent}/{name}"[len(location.path) + 1 :]
                    raise not_usable(path, location, "it is a link, and a table's files lie in its own folder")
    return tree


def _is_entered(name: str) -> bool:
    """Whether a folder or file of the name is looked at. Hidden ones are not, unless they are partitions."""
    return not name.startswith(("_", ".")) or "=" in name or name == _SINK_LOG


def _is_hidden_file(path: str) -> bool:
    name = path.rpartition("/")[2]
    return name.startswith(".") or name.endswith("._COPYING_") or f"/{path}".startswith(f"/{_SINK_LOG}/")


def _of_stream(location: Location, tree: Tree, present: Mapping[str, object], statement: Statement) -> list[str] | None:
    """The files that the log of a stream which wrote the folder has, None if there is no such log."""
    numbers: dict[int, str] = {}
    for file in tree.files:
        folder, _, name = file.path.rpartition("/")
        number = name.removesuffix(_COMPACTED)
        # A compacted batch also has what was before it.
        if folder == _SINK_LOG and number.isdecimal() and (number != name or int(number) not in numbers):
            numbers[int(number)] = file.path
    if not numbers or not CONVERT_USES_STREAM_LOG.of(statement):
        return None
    first = max((number for number, path in numbers.items() if path.endswith(_COMPACTED)), default=min(numbers))
    paths = [f"{location.path}/{path}" for number, path in sorted(numbers.items()) if number >= first]
    files: dict[str, bool] = {}
    for path, data in zip(paths, location.store.read_many(paths), strict=True):
        for line in data.decode(errors="replace").splitlines()[1:]:
            try:
                entry = json.loads(line)
                name, is_there = unquote(entry["path"]), entry["action"] == "add" and not entry["isDir"]
            except (ValueError, KeyError, TypeError, RecursionError):
                raise not_usable(path[len(location.path) + 1 :], location, "it is damaged") from None
            files[name] = is_there
    found = []
    for name in (name for name, is_there in files.items() if is_there):
        inside = inside_table(name, location.path)
        if inside is None:
            raise not_usable(_SINK_LOG, location, f"it has the file {name}, which lies elsewhere")
        if inside not in present:
            raise not_usable(inside, location, "it does not exist, but the log of the stream that wrote it names it")
        found.append(inside)
    return found


def _folders(entry: CatalogEntry, location: Location) -> dict[str, dict[str, str | None]]:
    """The folders with files of a catalog's table, relative, and their partition values."""
    if entry.partitions is None:
        return {"": {}}
    if not entry.partitions:
        raise HeadwaterError("DELTA_CONVERSION_NO_PARTITION_FOUND", {"tableName": entry.name})
    folders: dict[str, dict[str, str | None]] = {}
    for partition in entry.partitions:
        inside = inside_table(partition.location.rstrip("/"), location.path)
        if inside is None:
            raise HeadwaterError(
                "HEADWATER_CONVERT_FILE_NOT_USABLE",
                {
                    "path": partition.location,
                    "tableLocation": location.path,
                    "reason": "it is a partition that lies outside of the table's folder",
                },
            )
        folders[inside] = {
            name: None if value in (None, "", NULL_DIRECTORY) else value for name, value in partition.values.items()
        }
    return folders


def _values_of(path: str, location: Location, partitions: StructType) -> dict[str, str | None]:
    """The partition values that the path of a file says."""
    found = values_of_directory(path.rpartition("/")[0])
    where = f"{location.path}/{path}"
    if len(found) != len(partitions.fields):
        raise HeadwaterError(
            "DELTA_UNEXPECTED_NUM_PARTITION_COLUMNS_FROM_FILE_NAME",
            {
                "path": where,
                "parsedColsSize": len(found),
                "parsedCols": ", ".join(name for name, _ in found) or "none",
                "expectedColsSize": len(partitions.fields),
                "expectedCols": ", ".join(field.name for field in partitions) or "none",
                "example": ", ".join(f"{name} STRING" for name, _ in found) or "…",
            },
        )
    for (name, _), field in zip(found, partitions, strict=True):
        if name.lower() != field.name.lower():
            raise HeadwaterError(
                "DELTA_UNEXPECTED_PARTITION_COLUMN_FROM_FILE_NAME",
                {"path": where, "parsedCol": name, "expectedCol": field.name},
            )
    return {field.name: value for field, (_, value) in zip(partitions, found, strict=True)}


def with_typed_values(
    files: Sequence[FoundFile], location: Location, partitions: StructType, statement: Statement
) -> list[FoundFile]:
    """The files with partition values as a log spells them: Spark casts each distinct text to its column's type.

    :raises HeadwaterError: ``DELTA_PARTITION_COLUMN_CAST_FAILED``.
    """
    typed: dict[str, dict[str | None, str | None]] = {}
    for field in partitions:
        texts = dict.fromkeys(text for file in files if (text := _text(file, field)) is not None)
        values: dict[str | None, str | None] = {None: None}
        values.update(_cast(texts, field, statement))
        typed[field.name] = values
    if CONVERT_IGNORES_CAST_FAILURE.of(statement):
        return [_with(file, typed, partitions) for file in files]
    for file in files:
        for field in partitions:
            text = _text(file, field)
            if text is not None and typed[field.name].get(text) is None:
                _refuse(file, field, text, location)
    return [_with(file, typed, partitions) for file in files]


def _text(file: FoundFile, field: StructField) -> str | None:
    if field.name in file.values:
        return file.values[field.name]
    return next((value for name, value in file.values.items() if name.lower() == field.name.lower()), None)


def _with(file: FoundFile, typed: Mapping[str, Mapping[str | None, str | None]], partitions: StructType) -> FoundFile:
    return replace(file, values={f.physical_name: typed[f.name].get(_text(file, f)) for f in partitions})


def _refuse(file: FoundFile, field: StructField, text: str, location: Location) -> NoReturn:
    raise HeadwaterError(
        "DELTA_PARTITION_COLUMN_CAST_FAILED",
        {
            "path": f"{location.path}/{file.path}",
            "value": text,
            "columnName": field.name,
            "dataType": field.type.sql(),
        },
    )


def _cast(texts: Iterable[str], field: StructField, statement: Statement) -> dict[str, str | None]:
    distinct = list(texts)
    if field.type in (_STRING, PrimitiveType("binary")):
        return {text: text for text in distinct}
    value = Cast(Column("col"), field.type, or_null=True)
    spelled = call("unix_micros", value) if field.type == _TIMESTAMP else value
    found: dict[str, str | None] = {}
    for start in range(0, len(distinct), _CAST_AT_ONCE):
        some = distinct[start : start + _CAST_AT_ONCE]
        rows = TableFunction(call("explode", call("array", *map(Text, some))))
        query = select(Alias(Column("col"), "text"), Alias(Cast(spelled, _STRING), "value"), rows=rows)
        statement.step(f"read {len(distinct)} values of the partition column {field.name}")
        for row in statement.query(query.text()):
            value_text = row.get("value")
            found[row["text"]] = _instant(int(value_text)) if value_text and field.type == _TIMESTAMP else value_text
    return found


def _instant(microseconds: int) -> str | None:
    """A time as a log spells it, so that readers need no time zone; None for one that it cannot spell."""
    try:
        return (_EPOCH + timedelta(microseconds=microseconds)).isoformat("T", "microseconds") + "Z"
    except OverflowError:
        return None
