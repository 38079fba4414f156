"""The interface of a catalog for the tables that it manages: the commits that it ratified, and proposing the next one.

Owns the types that pass between a catalog's client and the rest, and :class:`ManagedTable`, which a client implements.
Follows the protocol's chapters "Catalog Responsibilities" and "Getting Ratified Commits from the Catalog".

**What a client promises.** :meth:`ManagedTable.propose` returns only where the catalog said that it ratified this very
commit. :class:`NotProposed` and its kinds are raised only where this request did nothing, so that it may be made again.
All other failures are :class:`Unanswered`: the request may have been carried out, may not have been, and may be yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from headwater.protocol.actions import DomainMetadata, Metadata
from headwater.protocol.actions import Protocol as TableProtocol
from headwater.protocol.file_names import STAGED_DIRECTORY, log_directory


@dataclass(frozen=True)
class StagedCommit:
    """A commit that lies in the table's folder of staged commits, under a name that no other one has.

    :param timestamp: its in-commit timestamp; this and ``modification_time`` in milliseconds since the epoch.
    :param size: bytes.
    """

    version: int
    file_name: str
    timestamp: int
    size: int
    modification_time: int

    def path(self, table_path: str) -> str:
        """Where it lies. Version 0 is not staged: a catalog gives a name to a table that has it."""
        folder = log_directory(table_path) if self.version == 0 else f"{log_directory(table_path)}/{STAGED_DIRECTORY}"
        return f"{folder}/{self.file_name}"


class Maintenance(Enum):
    """What clients do with a catalog's table only where the catalog allows it, by the names of Unity Catalog's
    interface: rewrite data files without a change of rows; delete data files, and files of the log, that no version
    within the retention needs. See the protocol's chapter "Maintenance Operations on Catalog-managed Tables".
    """

    DATA_REORGANIZATION = "DATA_REORGANIZATION"
    DATA_CLEANUP = "DATA_CLEANUP"
    METADATA_CLEANUP = "METADATA_CLEANUP"


@dataclass(frozen=True)
class Ratified:
    """A catalog's answer: the newest version of a table, the commits that it still has on record, and the maintenance
    that it allows its clients.

    The commits have no gaps. All versions before the first of them are published; without such commits, all are.
    """

    latest: int
    commits: Mapping[int, StagedCommit] = field(default_factory=dict)
    allowed: frozenset[Maintenance] = frozenset()


@dataclass(frozen=True)
class Redefinition:
    """What a commit changes of a table's definition, which a catalog shows to those who do not read the log.

    :param configuration: the table properties before the commit.
    :param partition_columns: those before the commit.
    :param description: the table's comment before the commit.
    """

    protocol: TableProtocol | None = None
    metadata: Metadata | None = None
    domains: tuple[DomainMetadata, ...] = ()
    configuration: Mapping[str, str] = field(default_factory=dict)
    partition_columns: tuple[str, ...] = ()
    description: str | None = None


class CatalogFailure(Exception):
    """A catalog did not do what it was asked. The text is for users, and holds no secret."""


class Unanswered(CatalogFailure):
    """Nobody knows whether the request was carried out, or will be."""


class NotProposed(CatalogFailure):
    """The request did nothing. It is of no use to make the same one again."""


class VersionTaken(NotProposed):
    """The version was ratified before: as another commit, or as this one by an earlier request."""


class TooManyUnpublished(NotProposed):
    """The catalog ratifies no more commits before those that it has on record are published and reported."""


class Away(NotProposed):
    """The catalog cannot be reached, or puts requests off. The same request may be made again."""


class ManagedTable(Protocol):
    """One table of a catalog; see the promises above. Safe for threads.

    ``identity``: who asks which catalog for which table. What is known to one is told to another only where theirs are
    equal. ``name``: the table's, for messages.
    """

    @property
    def identity(self) -> str: ...

    @property
    def name(self) -> str: ...

    def ratified(self) -> Ratified:
        """What the catalog says now.

        :raises CatalogFailure: it does not say.
        """

    def propose(self, commit: StagedCommit, change: Redefinition, published: int | None) -> Ratified:
        """Have a commit ratified as its version. What the catalog has on record afterwards.

        :param published: the newest version that is known to be published with all before it, and durable; the catalog
            may forget these. None reports nothing.
        :raises CatalogFailure: of the kinds above.
        """

    def report_published(self, version: int) -> None:
        """Let the catalog forget the commits up to a version, all of which are published and durable.

        :raises CatalogFailure: it does not say whether it has.
        """
