"""The definition of a new table: columns, partitioning, clustering, properties, constraints, protocol.

Owns the step from the request of CREATE, REPLACE, CREATE TABLE LIKE or a save to a new path to the actions that define
the table. Promise: column metadata of other tables does not leak into the new table.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from dataclasses import replace

from headwater.basics.errors import HeadwaterError
from headwater.bridge.messages.define import CreateTableRequest
from headwater.bridge.statement import Statement
from headwater.definition.changes import Declared, begun, changed
from headwater.key_index.definition import check_given, check_number, index_over
from headwater.log.snapshot import Snapshot
from headwater.protocol import properties
from headwater.protocol.clustering import FEATURES as CLUSTERING_FEATURES
from headwater.protocol.column_metadata import GENERATION_EXPRESSION, IDENTITY_HIGH_WATER_MARK
from headwater.protocol.columns import Path, find_path, map_fields, parse_name_list, quote
from headwater.protocol.features import CATALOG_MANAGED, WRITER_VERSION_WITH_FEATURES, supported_features
from headwater.protocol.index_properties import property_of, property_value, without_lost_indexes
from headwater.protocol.indexed_columns import with_possible_statistics_columns
from headwater.protocol.properties import (
    PROPERTIES,
    check_retention,
    for_new_table,
)
from headwater.protocol.table_definition import TableDefinition
from headwater.protocol.types import StructField, StructType, parse_schema, schema_string
from headwater.schema import clustering, keys, mapping, visible
from headwater.schema.checks import without_nested_not_null
from headwater.schema.constraints import add_constraint, check_constraints, without_exists_defaults
from headwater.schema.expectations import (
    Expectation,
    asked_in,
    check_takes_all,
    with_expectation,
    without_expectation,
)
from headwater.schema.generated import generated_columns
from headwater.schema.identity import identity_metadata
from headwater.schema.keys import Key
from headwater.statements import notices
from headwater.statements.column_uses import refuse_lost_columns
from headwater.statements.running.managed_tables import own_properties, properties_for
from headwater.statements.running.opening import Location, Options, open_snapshot
from headwater.statements.settings import ALLOWS_ARBITRARY, UNENFORCED_NOT_NULL
from headwater.statements.tables.asked_expectations import checked
from headwater.statements.tables.asked_keys import asked_key, possible_index, with_parent
from headwater.statements.tables.row_conditions import check_constraint
from headwater.statements.writes import copy_state

#: Spark's option of ``saveAsTable`` in mode overwrite.
SAVES_AS_TABLE = "__v1_save_as_table_overwrite"
_CLUSTER_BY = re.compile(r"cluster_by\((.*)\)", re.IGNORECASE | re.DOTALL)


def define(
    request: CreateTableRequest, location: Location, statement: Statement, replaced: Snapshot | None = None
) -> TableDefinition:
    """The definition a request declares, with what a catalog demands of it; a replaced table keeps its id and what its
    protocol had. If a save overwrites the table, it keeps all but its columns and their layout.

    :raises HeadwaterError: those of the schema's checks; ``HEADWATER_INVALID_INDEX`` for an enforced key that no index
        can have; Spark's own for an expression that does not resolve.
    """
    request.properties, expected = asked_in(properties_for(request.properties, location.path, statement, replaced))
    source = open_snapshot(request.like, statement) if request.like else None
    schema = declared_schema(request, statement) if source is None else _copied_schema(source.schema)
    asked = _asked_keys(request, schema, statement) if source is None else []
    schema = keys.with_not_null(schema, asked)
    if request.plan is not None and not schema.fields:
        raise HeadwaterError("DELTA_EMPTY_DATA")
    partition_columns = _partition_columns(request, schema)
    clustered_by = _clustered_by(request) if source is None else source.clustering_columns
    if not clustered_by and any(key.lower() == clustering.FEATURE_PROPERTY for key in request.properties):
        raise HeadwaterError(
            "DELTA_CREATE_TABLE_SET_CLUSTERING_TABLE_FEATURE_NOT_ALLOWED", {"feature": CLUSTERING_FEATURES[0]}
        )
    is_saved = replaced is not None and request.save_mode is not None
    if replaced is not None and is_saved:
        refuse_lost_columns(statement, replaced.definition, schema, request.name or f"delta.`{request.table}`")
    declared = Declared(
        schema,
        partition_columns,
        keys.declared(schema, _configuration(request, statement, source, replaced, schema, partition_columns), asked),
        clustered_by,
        request.comment or (source.metadata.description if source is not None else None),
        _copied_features(source),
    )
    # An overwrite gives a table other rows and columns. It does not make another table of it, as REPLACE does.
    is_same = is_saved or bool(Options(request.options).flag(SAVES_AS_TABLE))
    try:
        made = begun(
            declared,
            None if replaced is None else replaced.definition,
            is_saved=is_saved,
            keeps_time=is_same,
            of_catalog=location.store.of_catalog,
        )
    except HeadwaterError as error:
        if request.partitioning and error.condition in _OF_CATALOGS:
            raise HeadwaterError(_OF_CATALOGS[error.condition], error.parameters) from None
        raise
    check_given(made, for_new_table(request.properties, {}, allow_arbitrary=True))
    _check_expressions(statement, made)
    made = copy_state.continued(_with_index(made), replaced, is_same=is_same)
    return _with_expectations(made, expected, location, statement)


def _with_index(made: TableDefinition) -> TableDefinition:
    """The definition with an index for its enforced key."""
    key = keys.enforced_key(made)
    if key is None or index_over(made, key.columns) is not None:
        return made
    name, columns = possible_index(made, key)
    made = changed(made, configuration={**made.metadata.configuration, property_of(name): property_value(columns)})
    check_number(made, name)
    return made


def _with_expectations(
    made: TableDefinition, asked: Sequence[Expectation], location: Location, statement: Statement
) -> TableDefinition:
    """The definition with the expectations that its statement declares."""
    names = [key.name for key in keys.keys(made)]
    configuration = dict(made.metadata.configuration)
    for each in asked:
        added = checked(each, made.schema, statement, table=location.path, names=names)
        configuration = with_expectation(without_expectation(configuration, added.name), added)
    check_takes_all(configuration)
    return changed(made, configuration=configuration) if asked else made


def _asked_keys(request: CreateTableRequest, schema: StructType, statement: Statement) -> list[Key]:
    """The keys that a request declares. A foreign key may refer to the primary key of the same statement."""
    name = request.identifier or ["delta", request.table]
    asked = [key for each in request.constraints if (key := asked_key(each, quote(name))) is not None]
    return [with_parent(key, schema, asked, name, statement) for key in asked]


def declared_schema(request: CreateTableRequest, statement: Statement) -> StructType:
    """The columns a request declares, computed ones with what computes them."""
    schema = enforceable(without_exists_defaults(visible_only(parse_schema(request.schema))), statement)
    generated = {name.lower(): sql for name, sql in request.generated.items()}
    identities = {entry.column.lower(): entry for entry in request.identity}

    def declared(column: StructField) -> StructField:
        metadata = dict(column.metadata)
        if column.name.lower() in generated:
            metadata[GENERATION_EXPRESSION] = generated[column.name.lower()]
        if (entry := identities.get(column.name.lower())) is not None:
            metadata |= identity_metadata(entry.start, entry.step, allow_explicit_insert=entry.allow_explicit_insert)
        return replace(column, metadata=metadata)

    return StructType(tuple(declared(f) for f in schema))


def enforceable(schema: StructType, statement: Statement) -> StructType:
    """The columns as declared; without NOT NULL that cannot be enforced, if the session allows to declare it."""
    return without_nested_not_null(schema) if UNENFORCED_NOT_NULL.of(statement) else schema


def visible_only(schema: StructType) -> StructType:
    """The schema without what Spark and the protocol keep in metadata about another table."""
    hidden = (
        "delta.",
        "generationExpression",
        "identity.",
        "__autoGeneratedAlias",
        "__metadata_col",
        "__qualified_access_only",
        "__file_source",
    )
    return map_fields(
        schema,
        lambda f, _: replace(f, metadata={k: v for k, v in f.metadata.items() if not k.startswith(hidden)}),
    )


#: What Spark calls a mistake in the columns of a table that a catalog has.
_OF_CATALOGS = {
    "DELTA_CANNOT_USE_ALL_COLUMNS_FOR_PARTITION": "ALL_PARTITION_COLUMNS_NOT_ALLOWED",
    "DELTA_INVALID_PARTITION_COLUMN_TYPE": "INVALID_PARTITION_COLUMN_DATA_TYPE",
}


def _copied_schema(schema: StructType) -> StructType:
    """The schema of CREATE TABLE LIKE: the columns and what computes them; ids and identity values start again."""
    return map_fields(
        mapping.strip(schema),
        lambda f, _: replace(f, metadata={k: v for k, v in f.metadata.items() if k != IDENTITY_HIGH_WATER_MARK}),
    )


def _copied_features(source: Snapshot | None) -> frozenset[str]:
    if source is None or source.protocol.min_writer_version < WRITER_VERSION_WITH_FEATURES:
        return frozenset()
    return supported_features(source.protocol) - {CATALOG_MANAGED}


def _configuration(
    request: CreateTableRequest,
    statement: Statement,
    source: Snapshot | None,
    replaced: Snapshot | None,
    schema: StructType,
    partition_columns: Sequence[str],
) -> dict[str, str]:
    if request.save_mode is not None and replaced is not None:
        kept = with_possible_statistics_columns(schema, partition_columns, replaced.metadata.configuration)
        return {**without_lost_indexes(schema, kept), **for_new_table(request.properties, {})}
    configuration = for_new_table(request.properties, statement.confs, allow_arbitrary=ALLOWS_ARBITRARY.of(statement))
    check_retention(configuration, configuration)
    notices.of_properties(configuration, request.table)
    if source is not None:
        kept = {
            key: value
            for key, value in own_properties(source.metadata.configuration).items()
            if (key not in PROPERTIES or PROPERTIES[key].settable) and key != properties.UNIVERSAL_FORMATS.name
        }
        configuration = {**keys.copied(source.definition, kept), **for_new_table(request.properties, {})}
    for constraint in request.constraints if source is None else ():
        if constraint.kind in keys.WORDS:
            continue
        if constraint.kind != "check" or constraint.expression is None:
            raise HeadwaterError("DELTA_UNSUPPORTED_CONSTRAINT", {"constraint": constraint.kind})
        name = constraint.name or f"chk_{uuid.uuid4().hex[:8]}"
        configuration = add_constraint(configuration, name, constraint.expression)
    return configuration


def _partition_columns(request: CreateTableRequest, schema: StructType) -> list[str]:
    for transform in request.partitioning:
        if (
            _CLUSTER_BY.fullmatch(transform) is None
            and transform.strip("`") not in request.partition_columns
            and "(" in transform
        ):
            if "bucket(" in transform:
                raise HeadwaterError("DELTA_OPERATION_NOT_ALLOWED_DETAIL", {"transform": transform})
            raise _not_a_column(transform)
    for name in request.partition_columns:
        parts = parse_name_list(name)[0]
        if schema.find(name) is None and len(parts) > 1 and find_path(schema, parts) is not None:
            raise _not_a_column(name)
    return [found.name if (found := schema.find(name)) is not None else name for name in request.partition_columns]


def _not_a_column(transform: str) -> HeadwaterError:
    hint = (
        f"A table is partitioned by columns: add a generated column {transform} and partition by it, or use CLUSTER BY."
    )
    return HeadwaterError("DELTA_OPERATION_NOT_ALLOWED", {"operation": f"Partitioning by {transform}", "hint": hint})


def _clustered_by(request: CreateTableRequest) -> list[Path] | None:
    for transform in request.partitioning:
        if match := _CLUSTER_BY.fullmatch(transform):
            names = match.group(1).strip()
            return parse_name_list(names) if names else []
    return None


def _check_expressions(statement: Statement, made: TableDefinition) -> None:
    """Spark's own error for a constraint or generated column that does not resolve over the table.

    :raises HeadwaterError: those of :func:`check_constraint`; ``DELTA_UNSUPPORTED_EXPRESSION_GENERATED_COLUMN``.
    """
    text = schema_string(visible.for_reading(made.schema))
    for check in check_constraints(made.metadata.configuration):
        check_constraint(statement, check, text)
    for column in generated_columns(made.schema):
        if parts := statement.beyond_row(column.sql, text):
            raise HeadwaterError(
                "DELTA_UNSUPPORTED_EXPRESSION_GENERATED_COLUMN",
                {"columnName": column.name, "expression": ", ".join(dict.fromkeys(parts))},
            )
        statement.check_storable(column.sql, text)
