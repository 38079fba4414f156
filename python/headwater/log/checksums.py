"""Version checksums: what a version of a table amounts to, in a small file beside its commit.

Owns writing and reading of ``.crc`` files. Follows the protocol's chapter "Version Checksum File". A checksum is
optional and never replaced: that one exists already is as good as having written it. The list of all files, which the
protocol allows, is left out, since it would make every commit cost what the table holds. A snapshot that does not
amount to what its checksum says is refused: one of the two is wrong, and nobody can tell which.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from headwater.errors import HeadwaterError
from headwater.protocol.actions import DomainMetadata, Metadata, Protocol, SetTransaction
from headwater.protocol.features import in_commit_timestamps_enabled
from headwater.protocol.file_names import checksum_name, log_directory
from headwater.stores import Store

if TYPE_CHECKING:  # a snapshot checks itself against its checksum
    from headwater.log.snapshot import Snapshot

#: More transactions than this are left out of a checksum: the file is rewritten with each commit.
_MOST_TRANSACTIONS = 1000


@dataclass(frozen=True)
class Checksum:
    """The content of a checksum file. Sizes in bytes, times in milliseconds; None is what the writer did not tell."""

    table_size: int
    num_files: int
    metadata: Metadata
    protocol: Protocol
    transaction_id: str | None = None
    in_commit_timestamp: int | None = None
    set_transactions: tuple[SetTransaction, ...] | None = None
    domain_metadata: tuple[DomainMetadata, ...] | None = None

    @staticmethod
    def of_snapshot(snapshot: Snapshot, transaction_id: str | None = None) -> Checksum:
        """The checksum of a snapshot; costs what its commit holds."""
        transactions = snapshot.set_transactions
        few = len(transactions) <= _MOST_TRANSACTIONS
        return Checksum(
            snapshot.size_in_bytes,
            snapshot.num_files,
            snapshot.metadata,
            snapshot.protocol,
            transaction_id,
            snapshot.timestamp if in_commit_timestamps_enabled(snapshot.metadata) else None,
            tuple(transactions.values()) if few else None,
            tuple(snapshot.domain_metadata.values()),
        )

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


def write_checksum(snapshot: Snapshot, transaction_id: str | None = None) -> None:
    """Write the checksum of a committed version, unless it has one.

    :raises OSError: the store failed.
    """
    path = f"{log_directory(snapshot.table_path)}/{checksum_name(snapshot.version)}"
    content = orjson.dumps(Checksum.of_snapshot(snapshot, transaction_id).to_json())
    try:
        snapshot.store.put_if_absent(path, content)
    except FileExistsError:
        return


def check_against_checksum(snapshot: Snapshot) -> None:
    """Compare a snapshot with the checksum of its version; one that is missing or damaged says nothing.

    :raises HeadwaterError: ``DELTA_TXN_LOG_FAILED_INTEGRITY`` with what the checksum says and what the log gives.
    """
    checksum = read_checksum(snapshot.table_path, snapshot.store, snapshot.version)
    if checksum is None:
        return
    told, given = checksum.metadata, snapshot.metadata
    sides: dict[str, tuple[Any, Any]] = {
        "number of files": (checksum.num_files, snapshot.num_files),
        "size in bytes": (checksum.table_size, snapshot.size_in_bytes),
        "protocol": (_comparable(checksum.protocol), _comparable(snapshot.protocol)),
        "table id": (told.id, given.id),
        "schema": (_parsed(told.schema_string), _parsed(given.schema_string)),
        "partition columns": (told.partition_columns, given.partition_columns),
        "properties": (told.configuration, given.configuration),
    }
    differing = [
        f"{name} {_shown(theirs)}, where the log gives {_shown(ours)}"
        for name, (theirs, ours) in sides.items()
        if theirs is not None and theirs != ours
    ]
    if differing:
        path = f"{log_directory(snapshot.table_path)}/{checksum_name(snapshot.version)}"
        raise HeadwaterError(
            "DELTA_TXN_LOG_FAILED_INTEGRITY",
            {"version": snapshot.version, "path": path, "mismatch": "; ".join(differing)},
        )


def _comparable(protocol: Protocol) -> dict[str, Any]:
    """What a protocol comes to: engines differ in whether they write lists that are empty."""
    return {name: value for name, value in protocol.to_json()["protocol"].items() if value != []}


def _parsed(schema: str) -> Any:
    """A schema without its spelling: engines differ in the order of fields and in white space."""
    try:
        return orjson.loads(schema)
    except ValueError:
        return schema


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def read_checksum(table_path: str, store: Store, version: int) -> Checksum | None:
    """The checksum of a version; None where it has none or a damaged one, which readers must do without."""
    try:
        return Checksum.from_json(orjson.loads(store.read(f"{log_directory(table_path)}/{checksum_name(version)}")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
