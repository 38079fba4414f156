"""The rules that each way of making a definition applies, in order.

Owns :data:`RULES`, the one table of it. Promise: pure functions; what a rule refuses, no table gets in any way that the
rule is for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Flag, auto
from typing import NamedTuple

from headwater.definition.requirements import (
    managed,
    needed_features,
    protocol_for,
    without_protocol_properties,
)
from headwater.protocol import properties
from headwater.protocol.actions import DomainMetadata, Metadata, Protocol
from headwater.protocol.clustering import FEATURES as CLUSTERING_FEATURES
from headwater.protocol.clustering import clustering_domain
from headwater.protocol.columns import Path
from headwater.protocol.index_properties import without_lost_indexes
from headwater.protocol.indexed_columns import check_statistics_columns, with_possible_statistics_columns
from headwater.protocol.row_tracking import with_column_names
from headwater.protocol.table_definition import TableDefinition
from headwater.protocol.types import StructType, schema_string
from headwater.schema import clustering, iceberg, keys, manifests, mapping
from headwater.schema.checks import check_schema
from headwater.schema.identity import check_identity_columns, with_marks_of


class Way(Flag):
    """How a definition comes about."""

    #: A new table: CREATE, CONVERT, a stream's first batch, a save to a new path.
    BEGIN = auto()
    #: Another table in a table's place: REPLACE.
    REPLACE = auto()
    #: A save over a table, which has other rows and columns then, and stays the same table.
    SAVE = auto()
    #: The companion of a table that is upserted into: its columns are named after those of the table.
    COMPANION = auto()
    #: A write that brings columns or types.
    EVOLVE = auto()
    #: A write that brings all columns: an overwrite with ``overwriteSchema``.
    OVERWRITE = auto()
    #: ALTER TABLE of columns, or for a feature alone.
    ALTER = auto()
    #: ALTER TABLE of properties.
    CONFIGURE = auto()
    #: RESTORE: a table becomes what it was.
    RETURN = auto()
    #: CLONE, where a table is already: it becomes what another table is.
    TAKE = auto()


_DECLARED = Way.BEGIN | Way.REPLACE | Way.SAVE
_NEW = _DECLARED | Way.COMPANION
_WRITES = Way.EVOLVE | Way.OVERWRITE
_ALTERS = Way.ALTER | Way.CONFIGURE
_COPIES = Way.RETURN | Way.TAKE
_ALL = _NEW | _WRITES | _ALTERS | _COPIES


@dataclass
class Making:
    """A definition in the making.

    :param before: the definition that the table has; None for a new table.
    :param metadata: as it will be, but for schema and configuration: these are what they were, until they are written.
    :param protocol: where it begins; None for that of a new table.
    :param clustering: the domain as it will be.
    :param features: are asked for beside those that the metadata needs.
    :param clustered_by: logical paths; None if the statement does not say.
    :param of_catalog: whether a catalog manages the table.
    :param table: as errors show it.
    """

    way: Way
    before: TableDefinition | None
    metadata: Metadata
    schema: StructType
    configuration: dict[str, str]
    protocol: Protocol | None = None
    clustering: DomainMetadata | None = None
    features: Iterable[str] = ()
    clustered_by: Sequence[Path] | None = None
    of_catalog: bool = False
    table: str = ""

    @property
    def old(self) -> TableDefinition:
        assert self.before is not None
        return self.before

    @property
    def columns(self) -> tuple[StructType, Sequence[str], dict[str, str]]:
        """What checks of columns take: schema, partition columns and properties."""
        return self.schema, self.metadata.partition_columns, self.configuration

    @property
    def maps_columns(self) -> bool:
        if self.way in _WRITES:
            return self.old.maps_columns
        return properties.COLUMN_MAPPING_MODE.of(self.configuration) != "none"

    @property
    def definition(self) -> TableDefinition:
        """What is made so far."""
        assert self.protocol is not None
        return TableDefinition(self.protocol, self.metadata, clustering_domain=self.clustering)

    def made(self) -> TableDefinition:
        """The definition, by all rules of its way.

        :raises HeadwaterError: those of the rules.
        """
        for rule in RULES:
            if self.way in rule.ways:
                rule.do(self)
        return self.definition


# Properties


def _entail(making: Making) -> None:
    making.configuration = iceberg.entailed(making.configuration, new=bool(making.way & _NEW))


def _name_hidden_columns(making: Making) -> None:
    making.configuration = with_column_names(making.configuration)


def _keep_what_the_log_has(making: Making) -> None:
    making.configuration = properties.with_log_of(making.configuration, making.old.metadata.configuration)


def _leave_lost_statistics_out(making: Making) -> None:
    making.configuration = with_possible_statistics_columns(*making.columns)


def _leave_lost_indexes_out(making: Making) -> None:
    making.configuration = without_lost_indexes(making.schema, making.configuration)


# Ids, physical names and marks


def _check_mode(making: Making) -> None:
    mapping.check_mode_change(making.metadata.configuration, making.configuration)
    if making.maps_columns and _mode(making.metadata) == "none":
        mapping.check_enabling(making.schema, making.table)


def _mode(metadata: Metadata) -> str:
    return properties.COLUMN_MAPPING_MODE.of(metadata.configuration)


def _keep_ids(making: Making) -> None:
    if making.maps_columns and properties.COLUMN_MAPPING_MODE.of(making.configuration) == _mode(making.old.metadata):
        making.schema = mapping.keep(making.schema, making.old.schema)


def _give_ids(making: Making) -> None:
    nested, configures = iceberg.needs_nested_ids(making.configuration), making.way is Way.CONFIGURE
    if making.maps_columns and not (configures and _mode(making.metadata) != "none" and not nested):
        highest = _highest_id(making)
        making.schema, highest = mapping.assign(making.schema, highest, keep_names=configures, nested=nested)
        making.configuration = {**making.configuration, properties.MAX_COLUMN_ID.name: str(highest)}


def _keep_highest_id(making: Making) -> None:
    if properties.MAX_COLUMN_ID.name in making.configuration:
        making.configuration = {**making.configuration, properties.MAX_COLUMN_ID.name: str(_highest_id(making))}


def _highest_id(making: Making) -> int:
    """The columns that go also count: no new column gets one of their ids."""
    highest = mapping.max_column_id(making.configuration, making.schema)
    if making.before is None:
        return highest
    return max(highest, mapping.max_column_id(making.before.metadata.configuration, making.before.schema))


def _keep_marks(making: Making) -> None:
    making.schema = with_marks_of(making.schema, making.old.schema)


# Keys


def _bind_keys(making: Making) -> None:
    """Keys follow their columns. Only where the same table has other names for them do physical names say which."""
    follows = making.way in _ALTERS | Way.EVOLVE and making.old.maps_columns
    making.configuration = keys.bound(making.configuration, making.schema, by_physical=follows)


def _keep_keys(making: Making) -> None:
    """Columns that take the place of those of a key have their names. Those of a primary key stay NOT NULL."""
    known = [key for key in keys.keys(making.old) if all(making.schema.find(name) for name in key.columns)]
    making.schema = keys.with_not_null(making.schema, known)
    making.configuration = keys.without_keys(making.configuration) | keys.declared(making.schema, {}, known)


# Clustering columns


def _cluster(making: Making) -> None:
    columns = making.clustered_by
    if columns:
        clustering.check_clustering_columns(*making.columns, columns)
    if columns is not None:
        making.features = [*making.features, *CLUSTERING_FEATURES]
        making.clustering = clustering.clustered_by(making.schema, columns)


def _keep_clustered(making: Making) -> None:
    """A table that has clustering columns, and is to have none, keeps the domain, with an empty list. The same ones are
    not declared again.
    """
    old = making.old.clustering_domain
    if making.clustering is None and old is not None:
        making.clustering = clustering_domain(())
    elif making.clustering == old:
        making.clustering = old


# Metadata and protocol


def _write_metadata(making: Making) -> None:
    is_other = making.way in _NEW or making.schema != making.metadata.schema
    text = schema_string(making.schema) if is_other else making.metadata.schema_string
    making.metadata = replace(making.metadata, schema_string=text, configuration=making.configuration)


def _begin_protocol(making: Making) -> None:
    features = list(making.features)
    protocol = protocol_for(making.metadata, None, features)
    if making.before is not None:
        # What a new table would get unasked, this one also gets.
        features += protocol.writer_features or ()
        protocol = protocol_for(making.metadata, making.before.protocol, features)
    making.protocol = protocol


def _grow_protocol(making: Making) -> None:
    """A write that needs no feature more leaves the protocol alone, whatever it lacks."""
    if needed_features(making.metadata) - needed_features(making.old.metadata):
        making.protocol = protocol_for(making.metadata, making.old.protocol)


def _fit_protocol(making: Making) -> None:
    making.protocol = protocol_for(making.metadata, making.protocol, making.features)


def _manage(making: Making) -> None:
    assert making.protocol is not None
    making.protocol = managed(making.protocol, making.of_catalog)


def _take_requests_away(making: Making) -> None:
    configuration = without_protocol_properties(making.configuration)
    if configuration != making.configuration:
        making.metadata = replace(making.metadata, configuration=configuration)


class Rule(NamedTuple):
    """What is done to a definition in the making, for some ways."""

    do: Callable[[Making], None]
    ways: Way


#: In this order.
RULES = (
    Rule(_entail, Way.BEGIN | Way.REPLACE | Way.CONFIGURE),
    Rule(_name_hidden_columns, _NEW | Way.CONFIGURE),
    Rule(_keep_what_the_log_has, Way.REPLACE | _COPIES),
    Rule(_leave_lost_statistics_out, Way.OVERWRITE),
    Rule(_leave_lost_indexes_out, Way.OVERWRITE),
    Rule(_check_mode, Way.CONFIGURE),
    Rule(_keep_keys, Way.SAVE | Way.OVERWRITE),
    Rule(_keep_ids, Way.SAVE | Way.OVERWRITE),
    Rule(_give_ids, _NEW | _WRITES | _ALTERS),
    Rule(_keep_highest_id, _COPIES),
    Rule(_bind_keys, _DECLARED | _WRITES | _ALTERS),
    Rule(_keep_marks, _COPIES),
    Rule(lambda making: check_schema(*making.columns, "DATA"), _DECLARED),
    Rule(lambda making: check_schema(*making.columns), _WRITES | _ALTERS),
    Rule(lambda making: check_statistics_columns(*making.columns), _NEW | _ALTERS),
    Rule(lambda making: check_identity_columns(*making.columns[:2]), _NEW),
    Rule(_cluster, _NEW),
    Rule(_keep_clustered, _COPIES),
    Rule(_write_metadata, _ALL),
    Rule(_begin_protocol, _NEW),
    Rule(_grow_protocol, _WRITES),
    Rule(_fit_protocol, _ALTERS | _COPIES),
    Rule(_manage, _NEW),
    Rule(_take_requests_away, _NEW | _ALTERS),
    Rule(lambda making: iceberg.check_definition(making.before, making.definition), _NEW | _WRITES | _ALTERS),
    Rule(lambda making: manifests.check_definition(making.before, making.definition), _NEW | _ALTERS),
)
