"""Amounts for people, and what a commit did in one line.

Owns the wording that the command line, notebooks and EXPLAIN share: ``1.5 MiB``, ``2 files``, ``3 rows deleted, 1 file
added``. Promise: standard library only, so that a client of Spark Connect may import it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

#: What people ask first of a commit: words, and the metrics of ``operationMetrics`` or of an answer that hold the
#: number. The first that is there counts: an UPDATE says rows updated, a MERGE says them under another name.
_ROWS = (
    ("inserted", ("numTargetRowsInserted", "num_inserted_rows")),
    ("updated", ("numTargetRowsUpdated", "numUpdatedRows", "num_updated_rows")),
    ("deleted", ("numTargetRowsDeleted", "numDeletedRows", "num_deleted_rows")),
)
_OUTPUT_ROWS = "numOutputRows"
_FILES = (
    ("added", ("numTargetFilesAdded", "numAddedFiles", "numFilesAdded", "numRestoredFiles", "num_restored_files")),
    ("removed", ("numTargetFilesRemoved", "numRemovedFiles", "numFilesRemoved", "num_removed_files")),
    ("deleted", ("numDeletedFiles",)),
    ("to delete", ("numFilesToDelete",)),
)
_OUTPUT_FILES = "numFiles"
_BYTES = (
    ("added", ("numTargetBytesAdded", "numAddedBytes", "numOutputBytes", "restored_files_size")),
    ("removed", ("numTargetBytesRemoved", "numRemovedBytes", "removed_files_size")),
)
_MILLISECONDS = "executionTimeMs"
_COUNTED = re.compile("Files|Rows|Vector|_files|_rows")
#: What SQL calls the types that a schema's JSON has other names for.
_SQL_TYPES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}


def plural(number: int, noun: str) -> str:
    """A number of things: ``1 file``, ``2,000 files``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def size_text(size: int) -> str:
    """A size in bytes, for people: ``1.5 MiB``."""
    amount, unit = float(size), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if amount < 1024 or unit == "TiB":
            break
        amount /= 1024
    return f"{int(amount)} B" if unit == "B" else f"{amount:.1f} {unit}"


def seconds_text(seconds: float) -> str:
    """A duration, for people: ``0.25 s``, ``4 min 5 s``."""
    if seconds < 60:
        return f"{seconds:.2f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"


def effects(metrics: Mapping[str, Any] | None, parameters: Mapping[str, Any] | None = None) -> list[str]:
    """What a commit did, in short parts: rows, files, bytes, time, as its metrics say. Parts of nothing are left out.
    If no part is left, the parts are what its parameters say that it declared.

    :param metrics: ``operationMetrics`` of the history, or the columns of a statement's answer; values are numbers or
        their texts, whoever wrote them. What is no number is passed over.
    :param parameters: ``operationParameters`` of the history.
    """
    known = {name: number for name, value in (metrics or {}).items() if (number := number_of(value)) is not None}
    parts = _said(known, _ROWS, lambda number, does: f"{plural(number, 'row')} {does}")
    if not any(name in known for _, names in _ROWS for name in names) and known.get(_OUTPUT_ROWS):
        parts.append(f"{plural(known[_OUTPUT_ROWS], 'row')} written")
    files = _said(known, _FILES, lambda number, does: f"{plural(number, 'file')} {does}")
    if not files and known.get(_OUTPUT_FILES):
        files.append(f"{plural(known[_OUTPUT_FILES], 'file')} added")
    parts += files
    parts += _said(known, _BYTES, lambda number, does: f"{size_text(number)} {does}")
    parts = parts or _declared(parameters or {})
    counted = [number for name, number in known.items() if _COUNTED.search(name)]
    if not parts and counted and not any(counted):
        parts.append("nothing to do")
    if known.get(_MILLISECONDS):
        parts.append(seconds_text(known[_MILLISECONDS] / 1000))
    return parts


#: The parameters of operations without metrics that say what was declared, in order.
_DECLARING = ("column", "columns", "properties", "featureName", "newClusteringColumns")


def _declared(parameters: Mapping[str, Any]) -> list[str]:
    """What an operation declared: the names of columns, properties with their values, a constraint, a feature."""
    named = {name: _from_json(value) for name, value in parameters.items()}
    if "oldColumnPath" in named:
        return [f"{named['oldColumnPath']} to {named.get('newColumnPath')}"]
    if "expr" in named:
        return [f"{named.get('name')}: {named['expr']}"]
    return [part for name in _DECLARING if named.get(name) for part in _names(named[name])]


def _from_json(value: Any) -> Any:
    try:
        return json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError):
        return value


def _names(value: Any) -> list[str]:
    if isinstance(value, list):
        return [name for each in value for name in _names(each)]
    if not isinstance(value, dict):
        return [str(value)]
    inner = value.get("column", value)
    if isinstance(inner, dict) and "name" in inner:
        kind = inner.get("type")
        return [f"{inner['name']} {_SQL_TYPES.get(kind, kind)}" if isinstance(kind, str) else str(inner["name"])]
    return [f"{name} = {each}" for name, each in value.items()]


def _said(known: Mapping[str, int], parts: Any, words: Any) -> list[str]:
    found = []
    for does, names in parts:
        number = next((known[name] for name in names if name in known), 0)
        if number > 0:
            found.append(words(number, does))
    return found


def number_of(value: Any) -> int | None:
    """A number of a metric, which may be its text; None for anything else, and for what is negative as text."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 20:
        return int(value)
    return None
