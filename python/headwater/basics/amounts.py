"""Amounts for people, and what a commit did in one line.

Owns the wording that the command line, notebooks and EXPLAIN share: ``1.5 MiB``, ``2 files``, ``3 rows deleted, 1 file
added``. Promise: standard library only, so that a client of Spark Connect may import it.
"""

from __future__ import annotations

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
)
_OUTPUT_FILES = "numFiles"
_BYTES = (
    ("added", ("numTargetBytesAdded", "numAddedBytes", "numOutputBytes", "restored_files_size")),
    ("removed", ("numTargetBytesRemoved", "numRemovedBytes", "removed_files_size")),
)
_MILLISECONDS = "executionTimeMs"


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


def effects(metrics: Mapping[str, Any] | None) -> list[str]:
    """What a commit's metrics say that it did, in short parts: rows, files, bytes, time. Parts of nothing are left out.

    :param metrics: ``operationMetrics`` of the history, or the columns of a statement's answer; values are numbers or
        their texts, whoever wrote them. What is no number is passed over.
    """
    known = {name: number for name, value in (metrics or {}).items() if (number := _number(value)) is not None}
    parts = _said(known, _ROWS, lambda number, does: f"{plural(number, 'row')} {does}")
    if not any(name in known for _, names in _ROWS for name in names) and known.get(_OUTPUT_ROWS):
        parts.append(f"{plural(known[_OUTPUT_ROWS], 'row')} written")
    files = _said(known, _FILES, lambda number, does: f"{plural(number, 'file')} {does}")
    if not files and known.get(_OUTPUT_FILES):
        files.append(f"{plural(known[_OUTPUT_FILES], 'file')} added")
    parts += files
    parts += _said(known, _BYTES, lambda number, does: f"{size_text(number)} {does}")
    if known.get(_MILLISECONDS):
        parts.append(seconds_text(known[_MILLISECONDS] / 1000))
    return parts


def _said(known: Mapping[str, int], parts: Any, words: Any) -> list[str]:
    found = []
    for does, names in parts:
        number = next((known[name] for name in names if name in known), 0)
        if number > 0:
            found.append(words(number, does))
    return found


def _number(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 20:
        return int(value)
    return None
