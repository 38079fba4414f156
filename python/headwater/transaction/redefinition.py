"""How a transaction changes the table's definition.

Owns the definition that a transaction goes by, which winners may change before it commits, and the protocol, metadata
and clustering columns that it commits itself. Follows the protocol's chapters "Change Metadata" and "Protocol
Evolution". Promise: the definition to be is one value until something changes it, so that what it answers is worked out
once.
"""

from __future__ import annotations

from headwater.basics.errors import HeadwaterError
from headwater.definition.changes import with_marks
from headwater.log.snapshot import Snapshot
from headwater.protocol.actions import DomainMetadata, Metadata, Protocol
from headwater.protocol.table_definition import TableDefinition
from headwater.transaction.conflicts import WinningCommit
from headwater.transaction.definition_conflicts import changes_marks_only


class Redefinition:
    """The definition before a commit and after it.

    :param snapshot: the version that was read; None to create the table.
    """

    def __init__(self, table_path: str, snapshot: Snapshot | None) -> None:
        self._table_path = table_path
        self._read = snapshot.definition if snapshot else None
        self._before = self._read
        self._protocol: Protocol | None = None
        self._metadata: Metadata | None = None
        self._clustering: DomainMetadata | None = None
        self._after: TableDefinition | None = None

    @property
    def before(self) -> TableDefinition | None:
        """As the last winner left it: the commit is made, and checked, under it. None to create the table."""
        return self._before

    @property
    def new_protocol(self) -> Protocol | None:
        """The protocol to commit; None if it stays."""
        return self._protocol

    @property
    def new_metadata(self) -> Metadata | None:
        """The metadata to commit; None if it stays."""
        return self._metadata

    def update_metadata(self, metadata: Metadata) -> None:
        """Commit this metadata, unless it is what the table has already."""
        self._metadata = None if self._read is not None and self._read.metadata == metadata else metadata
        self._after = None

    def update_protocol(self, protocol: Protocol) -> None:
        """Commit this protocol, unless it is what the table has already."""
        self._protocol = None if self._read is not None and self._read.protocol == protocol else protocol
        self._after = None

    def update_clustering(self, domain: DomainMetadata) -> None:
        """Commit this domain of clustering columns."""
        self._clustering = domain
        self._after = None

    @property
    def metadata(self) -> Metadata:
        """The metadata as it will be.

        :raises HeadwaterError: ``DELTA_TABLE_WITHOUT_METADATA`` while a new table has none.
        """
        metadata = self._metadata or (self._before.metadata if self._before else None)
        if metadata is None:
            raise self._incomplete("metadata")
        return metadata

    @property
    def protocol(self) -> Protocol:
        """The protocol as it will be.

        :raises HeadwaterError: ``DELTA_TABLE_WITHOUT_METADATA`` while a new table has none.
        """
        protocol = self._protocol or (self._before.protocol if self._before else None)
        if protocol is None:
            raise self._incomplete("protocol")
        return protocol

    def _incomplete(self, missing: str) -> HeadwaterError:
        return HeadwaterError("DELTA_TABLE_WITHOUT_METADATA", {"tableName": self._table_path, "missing": missing})

    @property
    def after(self) -> TableDefinition:
        """The definition as it will be.

        :raises HeadwaterError: ``DELTA_TABLE_WITHOUT_METADATA`` while a new table has none.
        """
        if self._after is None:
            before = self._before or TableDefinition(self.protocol, self.metadata)
            after = before.after(self._protocol, self._metadata)
            self._after = after if self._clustering is None else after.with_clustering(self._clustering)
        return self._after

    @property
    def changes_something(self) -> bool:
        """Whether the commit has protocol or metadata."""
        return self._protocol is not None or self._metadata is not None

    @property
    def numbers(self) -> bool:
        """Whether the metadata to commit differs in values given to identity columns, and in nothing else."""
        if self._metadata is None or self._before is None or self._protocol is not None:
            return False
        return changes_marks_only(self._before, self.after)

    def follow(self, winner: WinningCommit) -> bool:
        """Go on under the definition that a winner left; whether it is another one."""
        if self._before is None or winner.protocol is None and winner.metadata is None:
            return False
        after = self._before.after(winner.protocol, winner.metadata)
        if after == self._before:
            return False
        if self._metadata is not None:  # identity values: any other change would have been a conflict
            self._metadata = with_marks(after, self.after).metadata
        self._before, self._after = after, None
        return True
