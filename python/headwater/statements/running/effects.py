"""What a commit did, for those that watch Spark from outside: how many rows, bytes and files its statement wrote.

Owns how the metrics of each operation, which have names of their own in the history, become these three numbers.
Promise: it reads what the statement has counted already, and looks into no file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headwater.basics.amounts import number_of
from headwater.bridge.messages.define import MadeCommit
from headwater.transaction.commit_info import Provenance
from headwater.transaction.moved_rows import Copy

#: The metrics that say how many bytes and how many files were added: the first that is there counts.
_BYTES = ("numOutputBytes", "numAddedBytes", "numTargetBytesAdded")
_FILES = ("numAddedFiles", "numTargetFilesAdded", "numFiles", "numRestoredFiles")
_CREATES, _OVERWRITES, _TRUNCATES = "CREATE", "OVERWRITE", "TRUNCATE"
#: The parameters of an overwrite that replaces some rows only.
_OF_SOME_ROWS = {"predicate", "isDynamicPartitionOverwrite", "replaceUsingCols", "replaceOnCond"}


def made_commit(table: str, version: int, provenance: Provenance, copies: Sequence[Copy]) -> MadeCommit:
    """The message about a commit that is in the log.

    :param table: the table's path.
    :param copies: the files that the commit rewrote as they were.
    """
    metrics = {name: number for name, value in provenance.metrics.items() if (number := number_of(value)) is not None}
    rows = sum(sum(copy.rows) for copy in copies) if copies else _rows(metrics)
    return MadeCommit(
        table=table,
        version=version,
        operation=provenance.operation,
        metrics=metrics,
        rows=rows,
        size=_first(metrics, _BYTES),
        files=_first(metrics, _FILES),
        copies=bool(copies),
        change=_change(provenance),
    )


def merged(one: MadeCommit | None, later: MadeCommit) -> MadeCommit:
    """Two commits of one statement to one table, as one: OPTIMIZE makes a commit for each batch of files."""
    if one is None:
        return later
    later.rows, later.size, later.files = (
        _sum(one.rows, later.rows),
        _sum(one.size, later.size),
        _sum(one.files, later.files),
    )
    later.copies = one.copies or later.copies
    later.change = one.change or later.change
    return later


def _rows(metrics: Mapping[str, int]) -> int | None:
    """The rows in the files that were added. A DELETE may add none: then, those that it deleted."""
    if "numOutputRows" in metrics:
        return metrics["numOutputRows"] or metrics.get("numTargetRowsDeleted", 0)
    copied = metrics.get("numCopiedRows", 0)
    if "numUpdatedRows" in metrics:
        return metrics["numUpdatedRows"] + copied
    return copied or metrics.get("numDeletedRows")


def _change(provenance: Provenance) -> str | None:
    operation = provenance.operation
    if operation.startswith(("CREATE OR REPLACE TABLE", "REPLACE TABLE")):
        return _OVERWRITES
    if operation.startswith("CREATE TABLE") or operation in ("CLONE", "CONVERT"):
        return _CREATES
    if operation == "TRUNCATE":
        return _TRUNCATES
    parameters = provenance.parameters
    return _OVERWRITES if parameters.get("mode") == "Overwrite" and _OF_SOME_ROWS.isdisjoint(parameters) else None


def _first(metrics: Mapping[str, int], names: Sequence[str]) -> int | None:
    return next((metrics[name] for name in names if name in metrics), None)


def _sum(one: int | None, other: int | None) -> int | None:
    return (one or 0) + (other or 0) if one is not None or other is not None else None
