"""The definition of a table while an ALTER changes it.

Owns the value that each kind of change works on: metadata, protocol and domains as they will be, the conditions that
rows of the table must meet for it, and the operation that the history shows. A draft commits nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import pyarrow.compute as pc

from headwater.bridge.statement import Statement
from headwater.iceberg.fitness import unfit
from headwater.log.snapshot import Snapshot
from headwater.protocol import properties
from headwater.protocol.actions import Action, DomainMetadata, Metadata, Protocol
from headwater.protocol.indexed_columns import check_statistics_columns
from headwater.protocol.requirements import protocol_for, without_protocol_properties
from headwater.protocol.row_tracking import with_column_names
from headwater.protocol.table_definition import TableDefinition
from headwater.protocol.types import StructType, schema_string
from headwater.schema import iceberg, manifests, mapping
from headwater.schema.checks import check_schema
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
    metadata: Metadata
    protocol: Protocol
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
        return Draft(snapshot, statement, name, snapshot.metadata, snapshot.protocol)

    @property
    def definition(self) -> TableDefinition:
        """Protocol and metadata as they will be."""
        return self.snapshot.definition.after(self.protocol, self.metadata)

    @property
    def schema(self) -> StructType:
        """The columns as they will be."""
        return self.metadata.schema

    @property
    def changes_anything(self) -> bool:
        """Whether there is something to commit."""
        changed = self.metadata != self.snapshot.metadata or self.protocol != self.snapshot.protocol
        return changed or bool(self.domains or self.more_actions)

    def set_schema(self, schema: StructType) -> None:
        """Give the table other columns. Columns that have no id yet get one where the table maps columns."""
        configuration = dict(self.metadata.configuration)
        if properties.COLUMN_MAPPING_MODE.of(configuration) != "none":
            schema, highest = mapping.assign(
                schema,
                mapping.max_column_id(configuration, schema),
                nested=iceberg.needs_nested_ids(configuration),
            )
            configuration[properties.MAX_COLUMN_ID.name] = str(highest)
        self._install(schema, configuration)

    def set_configuration(self, configuration: dict[str, str]) -> None:
        """Give the table other properties, and what they entail: protocol, column ids, checks."""
        configuration = with_column_names(iceberg.entailed(configuration, new=False))
        before = self.definition
        mapping.check_mode_change(before.metadata.configuration, configuration)
        schema = self.schema
        nested = iceberg.needs_nested_ids(configuration)
        was_mapped = before.get(properties.COLUMN_MAPPING_MODE) != "none"
        if properties.COLUMN_MAPPING_MODE.of(configuration) != "none" and (nested or not was_mapped):
            if not was_mapped:
                mapping.check_enabling(schema, self.snapshot.table_path)
            highest = mapping.max_column_id(configuration, schema)
            schema, highest = mapping.assign(schema, highest, keep_names=True, nested=nested)
            configuration[properties.MAX_COLUMN_ID.name] = str(highest)
        self._install(schema, configuration)
        has_files = self.snapshot.num_files > 0
        iceberg.check_enabling(before, self.definition, has_files=has_files, is_unfit=self._has_unfit_files)
        manifests.check_enabling(before, self.definition, has_vectors=self.snapshot.has_deletion_vectors)

    def _has_unfit_files(self) -> bool:
        return bool(pc.any(unfit(self.snapshot)).as_py())

    def require_features(self, features: Iterable[str]) -> None:
        """Give the table's protocol these features, too."""
        self.features.update(features)
        self._install(self.schema, dict(self.metadata.configuration))

    def _install(self, schema: StructType, configuration: dict[str, str]) -> None:
        partition_columns = self.metadata.partition_columns
        check_schema(schema, partition_columns, configuration)
        check_statistics_columns(schema, partition_columns, configuration)
        text = schema_string(schema) if schema != self.schema else self.metadata.schema_string
        metadata = replace(self.metadata, schema_string=text, configuration=configuration)
        self.protocol = protocol_for(metadata, self.protocol, self.features)
        self.metadata = replace(metadata, configuration=without_protocol_properties(configuration))
        iceberg.check_definition(self.snapshot.definition, self.definition)
        manifests.check_definition(self.snapshot.definition, self.definition)


#: One change of a table: works on the draft, and returns what the history shows.
Alteration = Callable[[Draft], Operation]
