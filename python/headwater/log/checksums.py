"""Version checksums (``.crc`` files): a summary of one version of a table, beside its commit.

Owns the content of the file, and reading, writing and comparing it. Follows the protocol's chapter "Version Checksum
File". A :class:`Checksum` holds plain values and does not know snapshots: a snapshot makes one of itself, and loading a
snapshot compares the two.

A checksum is optional. If one exists already, there is nothing to write, unless it is of another table that was here
before: no reader uses such a checksum, and it is replaced. The list of all files, which the protocol allows, is left
out, because it would make the cost of a commit grow with the table. A snapshot that differs from its checksum is
refused: one of the two is wrong, and nothing shows which.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from headwater.protocol.actions import DomainMetadata, Metadata, Protocol, SetTransaction
from headwater.protocol.file_names import checksum_name, log_directory
from headwater.stores import Store

#: A checksum leaves application transactions out where there are more than this many: each commit writes them all.
MOST_TRANSACTIONS = 1000


@dataclass(frozen=True)
class Checksum:
    """The content of a checksum file. Sizes in bytes, times in milliseconds; A value
    the writer left out is None."""

    table_size: int
    num_files: int
    metadata: Metadata
    protocol: Protocol
    transaction_id: str | None = None
    in_commit_timestamp: int | None = None
    set_transactions: tuple[SetTransaction, ...] | None = None
    domain_metadata: tuple[DomainMetadata, ...] | None = None

    def to_json(self) -> dict[str, Any]:
        value: dict[str, Any] = {}
        if self.transaction_id is not None:
            value["txnId"] = self.transaction_id
        value |= {"tableSizeBytes": self.table_size, "numFiles": self.num_files, "numMetadata": 1, "numProtocol": 1}
        if self.in_commit_timestamp is not None:
            value["inCommitTimestampOpt"] = self.in_commit_timestamp
        if self.set_transactions is not None:
            value["setTransactions"] = [action.to_json()["txn"] for action in self.set_transactions]
        if self.domain_metadata is not None:
            value["domainMetadata"] = [action.to_json()["domainMetadata"] for action in self.domain_metadata]
        return {**value, "metadata": self.metadata.to_json()["metaData"], **self.protocol.to_json()}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Checksum:
        transactions, domains = value.get("setTransactions"), value.get("domainMetadata")
        return Checksum(
            value["tableSizeBytes"],
            value["numFiles"],
            Metadata.from_json(value["metadata"]),
            Protocol.from_json(value["protocol"]),
            value.get("txnId"),
            value.get("inCommitTimestampOpt"),
            None if transactions is None else tuple(SetTransaction.from_json(action) for action in transactions),
            None if domains is None else tuple(DomainMetadata.from_json(action) for action in domains),
        )


def write_checksum(table_path: str, store: Store, version: int, checksum: Checksum) -> None:
    """Write the checksum of a committed version, unless the version has one.

    :raises OSError: the store failed.
    """
    path, content = checksum_path(table_path, version), orjson.dumps(checksum.to_json())
    try:
        store.put_if_absent(path, content)
    except FileExistsError:
        there = read_checksum(table_path, store, version)
        if there is not None and there.metadata.id != checksum.metadata.id:
            store.put(path, content)


def read_checksum(table_path: str, store: Store, version: int) -> Checksum | None:
    """The checksum of a version; None if it is missing or damaged: readers then go without."""
    try:
        return Checksum.from_json(orjson.loads(store.read(checksum_path(table_path, version))))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def checksum_path(table_path: str, version: int) -> str:
    """The path of a version's checksum file."""
    return f"{log_directory(table_path)}/{checksum_name(version)}"


def differences(checksum: Checksum, log: Checksum) -> list[str]:
    """Each difference between a checksum file and the values that replay of the log gives, in words.

    Compares files, bytes, protocol and metadata; ``log`` may leave out the rest.
    """
    theirs, ours = checksum.metadata, log.metadata
    sides: dict[str, tuple[Any, Any]] = {
        "number of files": (checksum.num_files, log.num_files),
        "size in bytes": (checksum.table_size, log.table_size),
        "protocol": (_comparable(checksum.protocol), _comparable(log.protocol)),
        "table id": (theirs.id, ours.id),
        "schema": (_parsed(theirs.schema_string), _parsed(ours.schema_string)),
        "partition columns": (theirs.partition_columns, ours.partition_columns),
        "properties": (theirs.configuration, ours.configuration),
    }
    return [
        f"{name} {_shown(theirs)}, but the log gives {_shown(ours)}"
        for name, (theirs, ours) in sides.items()
        if theirs is not None and theirs != ours
    ]


def _comparable(protocol: Protocol) -> dict[str, Any]:
    """The protocol without empty lists of features, which only some engines write."""
    return {name: value for name, value in protocol.to_json()["protocol"].items() if value != []}


def _parsed(schema: str) -> Any:
    """The parsed schema: engines differ in the order of JSON fields and in white space."""
    try:
        return orjson.loads(schema)
    except ValueError:
        return schema


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
