"""The ways in which a table's definition is made or changed, one function for each.

Each takes and returns definitions (:class:`~headwater.protocol.table_definition.TableDefinition`); what it does is what
:data:`~headwater.definition.rules.RULES` says of its way. A transaction takes it by ``redefine``.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from headwater.basics import clock
from headwater.definition.requirements import managed, protocol_for
from headwater.definition.rules import Making, Way
from headwater.protocol import properties
from headwater.protocol.actions import Metadata
from headwater.protocol.columns import Path
from headwater.protocol.features import FEATURES, supported_features
from headwater.protocol.table_definition import TableDefinition
from headwater.protocol.types import StructType, schema_string
from headwater.schema import keys, mapping
from headwater.schema.clustering import clustered_by
from headwater.schema.identity import with_marks_of


class Declared(NamedTuple):
    """What a statement declares of a table.

    :param clustered_by: logical paths; None if it does not say.
    :param features: are asked for beside those that follow.
    :param id: of a new table; None to draw one.
    """

    schema: StructType
    partition_columns: Sequence[str]
    configuration: Mapping[str, str]
    clustered_by: Sequence[Path] | None = None
    description: str | None = None
    features: Iterable[str] = ()
    id: str | None = None


def begun(
    declared: Declared,
    replaced: TableDefinition | None = None,
    *,
    is_saved: bool = False,
    is_companion: bool = False,
    keeps_time: bool = False,
    of_catalog: bool = False,
) -> TableDefinition:
    """The definition of a new table, or of one in the place of another, whose id it keeps.

    :param is_saved: whether a save overwrites the table: it keeps what a save does not say.
    :param is_companion: whether it is beside a table whose columns may have any name, as it maps columns.
    :param keeps_time: whether it stays the same table, created when it was.
    :param of_catalog: whether a catalog manages the table.
    """
    before = None if replaced is None else replaced.metadata
    metadata = Metadata(
        id=before.id if before is not None else declared.id or str(uuid.uuid4()),
        schema_string="",
        partition_columns=tuple(declared.partition_columns),
        description=declared.description,
        created_time=before.created_time if before is not None and keeps_time else clock.milliseconds(),
    )
    if before is not None and is_saved:
        metadata = replace(metadata, name=before.name, description=before.description)
    way = Way.BEGIN if replaced is None else Way.SAVE if is_saved else Way.REPLACE
    if is_companion:
        way = Way.COMPANION
    return Making(
        way,
        replaced,
        metadata,
        declared.schema,
        dict(declared.configuration),
        features=declared.features,
        clustered_by=declared.clustered_by,
        of_catalog=of_catalog,
    ).made()


def _making(way: Way, before: TableDefinition, base: TableDefinition, **more: Any) -> Making:
    configuration = dict(base.metadata.configuration)
    given = {"schema": base.schema, "configuration": configuration, "clustering": base.clustering_domain, **more}
    return Making(way, before, base.metadata, protocol=base.protocol, **given)


def evolved(before: TableDefinition, schema: StructType, *, overwrites: bool = False) -> TableDefinition:
    """The definition after a write that gives the table another schema.

    :param overwrites: whether the write replaces all rows: columns are those before if their names and types are.
    :raises HeadwaterError: ``DELTA_FEATURES_REQUIRE_MANUAL_ENABLEMENT``, and those of a schema's checks.
    """
    return _making(Way.OVERWRITE if overwrites else Way.EVOLVE, before, before, schema=schema).made()


def altered(
    before: TableDefinition,
    draft: TableDefinition,
    *,
    schema: StructType | None = None,
    configuration: Mapping[str, str] | None = None,
    features: Iterable[str] = (),
    table: str = "",
) -> TableDefinition:
    """The definition with other columns, with other properties and what they entail, or with more features.

    :param draft: what the statement has made of the definition so far.
    :param table: as errors show it.
    """
    more = {"schema": schema or draft.schema, "features": features, "table": table}
    if configuration is None:
        return _making(Way.ALTER, before, draft, **more).made()
    return _making(Way.CONFIGURE, before, draft, configuration=dict(configuration), **more).made()


def returned(newest: TableDefinition, wanted: TableDefinition) -> TableDefinition:
    """The definition of a table that becomes what it was: with what only ever grows as it is now."""
    return _over(Way.RETURN, newest, wanted, supported_features(wanted.protocol))


def _over(way: Way, target: TableDefinition, wanted: TableDefinition, features: Iterable[str]) -> TableDefinition:
    making = _making(way, target, wanted, features=features)
    making.protocol = target.protocol
    return making.made()


def cloned(
    wanted: TableDefinition, target: TableDefinition | None, *, of_catalog: bool, keeps_time: bool = False
) -> TableDefinition:
    """The definition of a clone.

    :param wanted: what is cloned.
    :param target: of the table in whose place the clone is, which only its id and its name are left of; None without.
    :param keeps_time: whether it is a newer version of the same clone.
    """
    protocol = managed(wanted.protocol, of_catalog)
    if target is None:
        return wanted.after(protocol, replace(wanted.metadata, id=str(uuid.uuid4())))
    before, features = target.metadata, supported_features(protocol)
    made = _over(Way.TAKE, target, wanted, features)
    description = before.description if wanted.metadata.description is None else wanted.metadata.description
    metadata = replace(made.metadata, id=before.id, name=before.name, description=description)
    if keeps_time:
        metadata = replace(metadata, created_time=before.created_time)
    return made.after(None, metadata)


def with_own_ids(begun: TableDefinition, schema: StructType, highest: int) -> TableDefinition:
    """The definition of a new table over files whose columns have ids already.

    :param schema: with these ids; ``highest``: the highest id that a column has ever had.
    """
    name = properties.MAX_COLUMN_ID.name
    known = {**begun.metadata.configuration, name: str(mapping.max_column_id({name: str(highest)}, schema))}
    after = changed(begun, schema_string=schema_string(schema), configuration=known)
    return after.after(protocol_for(after.metadata, begun.protocol), None)


def numbered(before: TableDefinition, schema: StructType) -> TableDefinition:
    """The definition after a write that gave values to identity columns, whose schema has their high-water marks."""
    return changed(before, schema_string=schema_string(schema))


def with_marks(before: TableDefinition, marked: TableDefinition) -> TableDefinition:
    """The definition with the high-water marks of another one, where those are further."""
    return numbered(before, with_marks_of(before.schema, marked.schema))


def unmapped(before: TableDefinition) -> TableDefinition:
    """The definition of the same columns in a table that maps none. Its clustering columns are declared again, even if
    they have the same names in files: those that another writer chooses meanwhile would have other ones.
    """
    schema, columns = mapping.strip(before.schema), before.clustering_columns
    after = changed(
        without_properties(before, FEATURES["columnMapping"].own_properties), schema_string=schema_string(schema)
    )
    known = keys.copied(before, after.metadata.configuration)
    after = changed(after, configuration=keys.bound(known, schema, by_physical=False))
    return after if columns is None else replace(after, clustering_domain=clustered_by(schema, columns))


def without_properties(before: TableDefinition, gone: Iterable[properties.Property[Any]]) -> TableDefinition:
    """The definition without some properties."""
    names = {known.name for known in gone}
    kept = {key: value for key, value in before.metadata.configuration.items() if key not in names}
    return changed(before, configuration=kept)


def changed(before: TableDefinition, **parts: Any) -> TableDefinition:
    """The definition with parts of the metadata replaced that nothing follows from: its comment, properties of the
    log, the names of partition columns.
    """
    return before.after(None, replace(before.metadata, **parts))


def with_properties(metadata: Metadata, given: Mapping[str, str]) -> Metadata:
    """The metadata with what a commit itself notes in the properties."""
    return replace(metadata, configuration={**metadata.configuration, **given})
