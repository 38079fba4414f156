"""The definition of a table while an ALTER changes it.

Owns the value that each kind of change works on: metadata, protocol and domains as they will be, the conditions that
rows of the table must meet for it, and the operation that the history shows. A draft commits nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow.compute as pc

from headwater.bridge.statement import Statement
from headwater.definition.changes import altered
from headwater.iceberg.fitness import unfit
from headwater.log.snapshot import Snapshot
from headwater.protocol.actions import Action, DomainMetadata, Metadata, Protocol
from headwater.protocol.table_definition import TableDefinition
from headwater.protocol.types import StructType
from headwater.schema import iceberg, manifests
from headwater.schema.constraints import Check


class Operation(NamedTuple):
    """What the history shows: the operation's name and its parameters."""

    name: str
    parameters: dict[str, Any]


class RowCheck(NamedTuple):
    """A condition that every row of the table must meet, and the error condition that a row violates otherwise."""

    check: Check
    violated: str


@dataclass
class Draft:
    """A table's definition as it will be. ``name``: the table as errors show it.

    ``row_checks`` are what the rows in the table must meet. ``domains`` and ``more_actions`` go into the commit as they
    are; ``metrics`` are what the history has of them. ``features`` are asked of the protocol beside those that the
    metadata needs. ``reads_rows``: the change depends on rows in the table, beside the row checks.
    ``follows_directly``: it is right only for the very next version.
    """

    snapshot: Snapshot
    statement: Statement
    name: str
    definition: TableDefinition
    domains: list[DomainMetadata] = field(default_factory=list)
    row_checks: list[RowCheck] = field(default_factory=list)
    more_actions: list[Action] = field(default_factory=list)
    metrics: dict[str, int] = field(default_factory=dict)
    features: set[str] = field(default_factory=set)
    reads_rows: bool = False
    follows_directly: bool = False

    @staticmethod
    def of(snapshot: Snapshot, statement: Statement, name: str) -> Draft:
        """A draft that changes nothing.

        :raises HeadwaterError: ``DELTA_INVALID_SCHEMA``.
        """
        _ = snapshot.schema  # one that cannot be used is refused before any change
        return Draft(snapshot, statement, name, snapshot.definition)

    @property
    def metadata(self) -> Metadata:
        """The metadata as it will be."""
        return self.definition.metadata

    @property
    def protocol(self) -> Protocol:
        """The protocol as it will be."""
        return self.definition.protocol

    @property
    def schema(self) -> StructType:
        """The columns as they will be."""
        return self.metadata.schema

    @property
    def changes_anything(self) -> bool:
        """Whether there is something to commit."""
        return self.definition != self.snapshot.definition or bool(self.domains or self.more_actions)

    def set_schema(self, schema: StructType) -> None:
        """Give the table other columns."""
        self.definition = altered(self.snapshot.definition, self.definition, schema=schema, features=self.features)

    def set_configuration(self, configuration: Mapping[str, str]) -> None:
        """Give the table other properties, and what they entail."""
        snapshot, before = self.snapshot, self.definition
        self.definition = altered(
            snapshot.definition,
            before,
            configuration=configuration,
            features=self.features,
            table=snapshot.table_path,
        )
        has_files = snapshot.num_files > 0
        iceberg.check_enabling(before, self.definition, has_files=has_files, is_unfit=self._has_unfit_files)
        manifests.check_enabling(before, self.definition, has_vectors=snapshot.has_deletion_vectors)

    def _has_unfit_files(self) -> bool:
        return bool(pc.any(unfit(self.snapshot)).as_py())

    def require_features(self, features: Iterable[str]) -> None:
        """Give the table's protocol these features as well."""
        self.features.update(features)
        self.definition = altered(self.snapshot.definition, self.definition, features=self.features)


#: One change of a table: works on the draft, and returns what the history shows.
Alteration = Callable[[Draft], Operation]
