"""CREATE TABLE, REPLACE TABLE, both with and without rows, and a save to a new path.

Owns the definition of a new table: its schema with computed columns, its properties, constraints and protocol.
Definition and rows are one commit. A location that holds a Delta table already is adopted where the declaration agrees
with it, and refused where it does not.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from dataclasses import replace
from typing import Any

from headwater.bridge.statement import Statement
from headwater.commands.committing import commit, removals, skip_if_done, transaction
from headwater.commands.rows import Target, Written, json_list, write_rows
from headwater.commands.tables import CACHE, Location, Options, locate
from headwater.errors import HeadwaterError
from headwater.log.actions import DomainMetadata, Metadata, Protocol
from headwater.log.features import check_readable
from headwater.log.snapshot import Snapshot, table_exists
from headwater.schema import mapping, visible
from headwater.schema.checks import check_schema
from headwater.schema.columns import check_statistics_columns, parse_name
from headwater.schema.constraints import add_constraint, without_exists_defaults
from headwater.schema.difference import describe_difference
from headwater.schema.generated import GENERATION_EXPRESSION
from headwater.schema.identity import check_identity_columns, identity_metadata
from headwater.schema.properties import for_new_table
from headwater.schema.requirements import protocol_for, without_protocol_properties
from headwater.schema.types import StructField, StructType, parse_schema, parse_type, schema_string
from headwater.transaction import Transaction

_CLUSTER_BY = re.compile(r"cluster_by\((.*)\)", re.IGNORECASE | re.DOTALL)


def create_table(request: dict[str, Any], statement: Statement) -> dict[str, Any]:
    """Create or replace a table, with the rows of a plan if there is one; ``mode`` is ``create``, ``replace`` or
    ``create_or_replace``.
    """
    location = locate(request["table"], statement)
    options = Options(request.get("options"))
    exists = table_exists(location.path, location.store)
    if exists and request["mode"] == "create":
        return _adopt(request, location)
    snapshot = CACHE.get(location.path, location.store) if exists else None
    if snapshot is None:
        _check_empty(location)
    elif skip_if_done(snapshot, options, statement):
        return {"version": snapshot.version, "skipped": True}
    if snapshot is not None:
        check_readable(snapshot.protocol)
    metadata, protocol, clustering = define(request, statement, snapshot)
    txn = transaction(request["table"], statement, snapshot)
    txn.update_protocol(protocol)
    txn.update_metadata(metadata)
    if clustering is not None:
        txn.add_action(clustering)
    if snapshot is not None:
        txn.read_whole_table()
        txn.remove(removals(snapshot.files))
    written = _write(request, statement, options, location, txn)
    return commit(
        txn,
        statement,
        options,
        operation=_operation(request, exists),
        parameters=_parameters(request, metadata, exists),
        metrics=_metrics(written) if written is not None else {},
    )


def _write(
    request: dict[str, Any], statement: Statement, options: Options, location: Location, txn: Transaction
) -> Written | None:
    if request.get("plan") is None:
        return None
    rows = parse_schema(request["rowSchema"])
    location.store.make_directory(location.path)
    # Rows of CREATE … AS SELECT come in the declared order, whatever case their names have.
    declared = parse_schema(txn.metadata.schema_string)
    provided = [found.name if (found := declared.find(f.name)) is not None else f.name for f in rows]
    target = Target(location.path, txn.protocol, txn.metadata)
    written = write_rows(statement, target, request["plan"], provided, options)
    if written.schema is not None:
        txn.update_metadata(replace(txn.metadata, schema_string=schema_string(written.schema)))
    txn.add(written.files)
    return written


def _metrics(written: Written) -> dict[str, int | str]:
    return {"numFiles": len(written.files), "numOutputRows": written.rows, "numOutputBytes": written.bytes}


def _operation(request: dict[str, Any], exists: bool) -> str:
    if "operation" in request:
        return str(request["operation"])
    kind = {"create": "CREATE TABLE", "replace": "REPLACE TABLE", "create_or_replace": "CREATE OR REPLACE TABLE"}[
        request["mode"]
    ]
    return kind if request.get("plan") is None else f"{kind} AS SELECT"


def _parameters(request: dict[str, Any], metadata: Metadata, exists: bool) -> dict[str, Any]:
    partitioning = json_list(metadata.partition_columns)
    if "operation" in request:
        return {"mode": request.get("saveMode", "ErrorIfExists"), "partitionBy": partitioning}
    return {
        "partitionBy": partitioning,
        "clusterBy": json_list(".".join(path) for path in _clustering_columns(request) or ()),
        "description": metadata.description,
        "isManaged": "false" if request.get("external") else "true",
        "properties": json.dumps(dict(metadata.configuration), separators=(",", ":")),
        "statsOnLoad": "false",
    }


def define(
    request: dict[str, Any], statement: Statement, snapshot: Snapshot | None
) -> tuple[Metadata, Protocol, DomainMetadata | None]:
    """The metadata, protocol and clustering a request declares; a replaced table keeps its id and what its protocol
    had.
    """
    schema = _declared_schema(request)
    partition_columns = _partition_columns(request, schema)
    clustering = _clustering_columns(request)
    configuration = for_new_table({**(request.get("inherited") or {}), **request["properties"]}, statement.confs)
    for constraint in request.get("constraints") or ():
        if constraint["kind"] != "check":
            raise HeadwaterError("DELTA_UNSUPPORTED_CONSTRAINT", {"constraint": constraint["kind"]})
        configuration = add_constraint(
            configuration, constraint["name"] or f"chk_{uuid.uuid4().hex[:8]}", constraint["expression"]
        )
    if mapping.mode(configuration) != "none":
        schema, highest = mapping.assign(schema, 0)
        configuration[mapping.MAX_ID] = str(highest)
    check_schema(schema, partition_columns, configuration)
    check_statistics_columns(schema, partition_columns, configuration)
    check_identity_columns(schema, partition_columns)
    _check_expressions(statement, schema, configuration)
    metadata = Metadata(
        id=snapshot.metadata.id if snapshot is not None else str(uuid.uuid4()),
        schema_string=schema_string(schema),
        partition_columns=tuple(partition_columns),
        configuration=configuration,
        description=request.get("comment"),
        created_time=int(time.time() * 1000),
    )
    extra = ["clustering", "domainMetadata"] if clustering is not None else []
    protocol = protocol_for(metadata, None, extra)
    if snapshot is not None:
        protocol = protocol_for(metadata, snapshot.protocol, [*extra, *_features_of(protocol)])
    domain = None
    if clustering is not None:
        physical = [list(mapping.physical_path(schema, path)) for path in clustering]
        domain = DomainMetadata(
            "delta.clustering", json.dumps({"clusteringColumns": physical, "domainName": "delta.clustering"})
        )
    return replace(metadata, configuration=without_protocol_properties(configuration)), protocol, domain


def _features_of(protocol: Protocol) -> frozenset[str]:
    return protocol.writer_features or frozenset()


def _declared_schema(request: dict[str, Any]) -> StructType:
    # Metadata that came along from another table's columns speaks of that table.
    schema = without_exists_defaults(visible_only(parse_schema(request["schema"])))
    generated = {name.lower(): sql for name, sql in (request.get("generated") or {}).items()}
    identities = {entry["column"].lower(): entry for entry in request.get("identity") or ()}

    def declared(column: StructField) -> StructField:
        metadata = dict(column.metadata)
        if column.name.lower() in generated:
            metadata[GENERATION_EXPRESSION] = generated[column.name.lower()]
        if (entry := identities.get(column.name.lower())) is not None:
            metadata |= identity_metadata(
                entry["start"], entry["step"], allow_explicit_insert=entry["allowExplicitInsert"]
            )
        return replace(column, metadata=metadata)

    return StructType(tuple(declared(f) for f in schema))


def visible_only(schema: StructType) -> StructType:
    """The schema without what Spark and the protocol keep in metadata about another table."""
    from headwater.schema.columns import map_fields

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


def _partition_columns(request: dict[str, Any], schema: StructType) -> list[str]:
    for transform in request.get("partitioning") or ():
        if (
            _CLUSTER_BY.fullmatch(transform) is None
            and transform.strip("`") not in request["partitionColumns"]
            and "(" in transform
        ):
            raise HeadwaterError("DELTA_UNSUPPORTED_PARTITION_TRANSFORM", {"transform": transform})
    return [found.name if (found := schema.find(name)) is not None else name for name in request["partitionColumns"]]


def _clustering_columns(request: dict[str, Any]) -> list[tuple[str, ...]] | None:
    for transform in request.get("partitioning") or ():
        if match := _CLUSTER_BY.fullmatch(transform):
            names = match.group(1).strip()
            return [parse_name(name.strip()) for name in names.split(",")] if names else []
    return None


def _check_expressions(statement: Statement, schema: StructType, configuration: dict[str, str]) -> None:
    """Spark's own error for a constraint or generated column that does not resolve over the table."""
    from headwater.schema.constraints import check_constraints
    from headwater.schema.generated import generated_columns

    text = schema_string(visible.for_reading(schema))
    for check in check_constraints(configuration):
        kind = parse_type(json.loads(statement.expression_type(check.sql, text)))
        if kind.sql() != "boolean":
            raise HeadwaterError("DELTA_NON_BOOLEAN_CHECK_CONSTRAINT", {"name": check.name, "expr": check.sql})
    for column in generated_columns(schema):
        statement.expression_type(column.sql, text)


def _check_empty(location: Location) -> None:
    """A new table's directory must not hold files that are not its own."""
    try:
        files = [f for f in location.store.list_from(location.path, "") if not f.name.startswith((".", "_"))]
    except FileNotFoundError:
        return
    if files:
        raise HeadwaterError(
            "DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION", {"tableLocation": location.path, "example": files[0].name}
        )


def _adopt(request: dict[str, Any], location: Location) -> dict[str, Any]:
    """CREATE TABLE over a table that is there: nothing is committed, and what is declared must be what is there.

    :raises HeadwaterError: ``DELTA_TABLE_ALREADY_EXISTS`` with rows to write; ``DELTA_CREATE_TABLE_SCHEME_MISMATCH``,
        ``DELTA_CREATE_TABLE_WITH_DIFFERENT_PARTITIONING``, ``DELTA_CREATE_TABLE_WITH_DIFFERENT_PROPERTY``.
    """
    snapshot = CACHE.get(location.path, location.store)
    check_readable(snapshot.protocol)
    if request.get("plan") is not None or "operation" in request:
        raise HeadwaterError(
            "DELTA_TABLE_ALREADY_EXISTS", {"tableName": request.get("name") or location.path, "path": location.path}
        )
    declared = parse_schema(request["schema"])
    if len(declared):
        differences = describe_difference(visible_only(declared), snapshot.schema)
        if differences:
            raise HeadwaterError(
                "DELTA_CREATE_TABLE_SCHEME_MISMATCH",
                {
                    "path": location.path,
                    "specifiedSchema": declared.sql(),
                    "existingSchema": snapshot.schema.sql(),
                    "schemaDifferences": "\n".join(f"- {line}" for line in differences),
                },
            )
        partitioning = [name.lower() for name in request["partitionColumns"]]
        if partitioning != [name.lower() for name in snapshot.partition_columns]:
            raise HeadwaterError(
                "DELTA_CREATE_TABLE_WITH_DIFFERENT_PARTITIONING",
                {
                    "path": location.path,
                    "specified": ", ".join(request["partitionColumns"]) or "none",
                    "existing": ", ".join(snapshot.partition_columns) or "none",
                },
            )
    existing = {key.lower(): value for key, value in snapshot.metadata.configuration.items()}
    for key, value in without_protocol_properties(for_new_table(request["properties"], {})).items():
        if existing.get(key.lower()) != value:
            raise HeadwaterError(
                "DELTA_CREATE_TABLE_WITH_DIFFERENT_PROPERTY",
                {
                    "path": location.path,
                    "property": key,
                    "specified": value,
                    "existing": existing.get(key.lower(), "not set"),
                },
            )
    return {"version": snapshot.version}
