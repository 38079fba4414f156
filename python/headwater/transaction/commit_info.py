"""Provenance: the ``commitInfo`` of a commit, as DESCRIBE HISTORY shows it.

Owns how operation, parameters and metrics are spelled. Follows the protocol's chapters "Commit Provenance
Information" and "In-Commit Timestamps", and where these leave it open the spelling that other engines' history
readers expect: all values are text, lists and maps as JSON text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from headwater import __version__
from headwater.protocol.actions import CommitInfo
from headwater.transaction.conflicts import Isolation


def default_engine_info(spark_version: str | None = None) -> str:
    """``Apache-Spark/4.2.0 Headwater/0.1.0``; without a Spark version, the second word alone."""
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
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def commit_info(
    *,
    timestamp: int,
    operation: str,
    parameters: Mapping[str, Any],
    metrics: Mapping[str, int | str],
    read_version: int | None,
    isolation: Isolation,
    blind_append: bool,
    engine_info: str,
    transaction_id: str,
    in_commit_timestamp: int | None = None,
    user_metadata: str | None = None,
    tags: Mapping[str, str] | None = None,
) -> CommitInfo:
    """The action; times in milliseconds since the epoch, ``read_version`` None where there was no table to read."""
    values: dict[str, Any] = {}
    if in_commit_timestamp is not None:
        values["inCommitTimestamp"] = in_commit_timestamp
    values["timestamp"] = timestamp
    values["operation"] = operation
    values["operationParameters"] = operation_parameters(parameters)
    if read_version is not None:
        values["readVersion"] = read_version
    values["isolationLevel"] = isolation.value
    values["isBlindAppend"] = blind_append
    values["operationMetrics"] = {name: str(value) for name, value in metrics.items()}
    if user_metadata is not None:
        values["userMetadata"] = user_metadata
    if tags:
        values["tags"] = dict(tags)
    values["engineInfo"] = engine_info
    values["txnId"] = transaction_id
    return CommitInfo(values)
