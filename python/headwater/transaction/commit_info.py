"""Provenance: the ``commitInfo`` of a commit, its in-commit timestamp, and its line in the log of the process.

Owns how operation, parameters and metrics are spelled, as DESCRIBE HISTORY shows them. Follows the protocol's chapters
"Commit Provenance Information" and "In-Commit Timestamps". Where these leave it open, the spelling is the one that the
history readers of other engines expect: all values are text, and lists and maps are JSON text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headwater import __version__
from headwater.basics.errors import HeadwaterError
from headwater.definition.changes import with_properties
from headwater.protocol import properties
from headwater.protocol.actions import AddFile, CommitInfo, Metadata, RemoveFile
from headwater.protocol.features import in_commit_timestamps_enabled
from headwater.transaction.conflicts import Isolation

#: The last in-commit timestamp there can be, in milliseconds since the epoch.
LATEST_STAMP = 2**63 - 1

#: Kept, as ``json.dumps`` makes a new one each time that it gets separators.
_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)


def default_engine_info(spark_version: str | None = None) -> str:
    """``Apache-Spark/4.2.0 Headwater/1.0.0``; without a Spark version, the second word alone."""
    own = f"Headwater/{__version__}"
    return own if spark_version is None else f"Apache-Spark/{spark_version} {own}"


def operation_parameters(parameters: Mapping[str, Any]) -> dict[str, str]:
    """The parameters as text; those that are None are left out."""
    return {name: _text(value) for name, value in parameters.items() if value is not None}


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, (tuple, set, frozenset)):
        value = list(value) if isinstance(value, tuple) else sorted(value)
    return _ENCODER.encode(value)


@dataclass(frozen=True)
class Provenance:
    """What a statement says of its commit: the same value from the statement to hooks and to the log."""

    operation: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, int | str] = field(default_factory=dict)
    user_metadata: str | None = None
    tags: Mapping[str, str] | None = None
    engine_info: str = default_engine_info()

    def commit_info(
        self,
        transaction_id: str,
        read_version: int | None,
        *,
        timestamp: int,
        isolation: Isolation,
        blind_append: bool,
        in_commit_timestamp: int | None = None,
        tags: Mapping[str, str] | None = None,
        metrics: Mapping[str, int | str] | None = None,
        more: Mapping[str, Any] | None = None,
    ) -> CommitInfo:
        """The action of one attempt to commit; times in milliseconds since the epoch.

        :param read_version: None if there was no table to read.
        :param tags: what the transaction adds to the statement's own tags.
        :param metrics: what the transaction adds to the statement's own metrics.
        :param more: fields that only this product reads.
        """
        values: dict[str, Any] = {}
        if in_commit_timestamp is not None:
            values["inCommitTimestamp"] = in_commit_timestamp
        values["timestamp"] = timestamp
        values["operation"] = self.operation
        values["operationParameters"] = operation_parameters(self.parameters)
        if read_version is not None:
            values["readVersion"] = read_version
        values["isolationLevel"] = isolation.value
        values["isBlindAppend"] = blind_append
        values["operationMetrics"] = {n: str(value) for n, value in {**self.metrics, **(metrics or {})}.items()}
        if self.user_metadata is not None:
            values["userMetadata"] = self.user_metadata
        if self.tags or tags:
            values["tags"] = {**(tags or {}), **(self.tags or {})}
        values["engineInfo"] = self.engine_info
        values["txnId"] = transaction_id
        values.update(more or {})
        return CommitInfo(values)


def stamped(
    changed: Metadata | None, metadata: Metadata, before: Metadata | None, version: int, now: int, previous: int | None
) -> tuple[Metadata | None, int | None]:
    """The metadata to commit, if any, and the in-commit timestamp, if the table has them.

    An existing table that gets in-commit timestamps also gets the two properties that say since when.

    :param changed: the metadata that the transaction commits, None if it leaves it as it is.
    :param metadata: the table's metadata after the commit.
    :param before: the table's metadata before the commit; None to create the table.
    :param previous: the timestamp of the version before ``version``, by the clock that version goes by.
    :raises HeadwaterError: ``HEADWATER_IN_COMMIT_TIMESTAMPS_EXHAUSTED``.
    """
    if not in_commit_timestamps_enabled(metadata):
        return changed, None
    stamp = now if previous is None else max(now, previous + 1)
    if stamp > LATEST_STAMP:
        raise HeadwaterError(
            "HEADWATER_IN_COMMIT_TIMESTAMPS_EXHAUSTED", {"version": version - 1, "timestamp": previous}
        )
    if before is None or in_commit_timestamps_enabled(before):
        return changed, stamp
    since = {
        properties.IN_COMMIT_TIMESTAMPS_SINCE.version.name: str(version),
        properties.IN_COMMIT_TIMESTAMPS_SINCE.timestamp.name: str(stamp),
    }
    return with_properties(metadata, since), stamp


def summarize(operation: str, added: str, removed: str, seconds: float, attempts: int) -> str:
    """A commit in one line, for the log of the process."""
    return f"committed by {operation}: {added} added, {removed} removed, {seconds * 1000:.0f} ms, attempts: {attempts}"


def describe_files(files: Sequence[AddFile | RemoveFile]) -> str:
    """Files in a few words, for the same."""
    return f"{len(files)} files with {_live_rows(files)} rows"


def _live_rows(files: Sequence[AddFile | RemoveFile]) -> int | str:
    """The rows of files without those marked deleted, by their statistics."""
    rows = 0
    for file in files:
        count = file.num_records
        if count is None:
            return "an unknown number of"
        rows += count - (file.deletion_vector.cardinality if file.deletion_vector else 0)
    return rows
