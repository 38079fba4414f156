"""An overview of a version: schema, properties, protocol, and the figures of its files."""

from __future__ import annotations

from typing import Any

import pyarrow.compute as pc

from headwater.inspector.plain import json_value, short
from headwater.log.snapshot import Snapshot
from headwater.protocol.column_metadata import (
    COLUMN_ID,
    DECLARED_TYPE,
    GENERATION_EXPRESSION,
    IDENTITY_START,
)
from headwater.protocol.columns import all_fields, format_name
from headwater.schema import mapping
from headwater.statements.maintenance.health import columns_with_bounds


def overview(snapshot: Snapshot) -> dict[str, Any]:
    """The table at a glance, without what the statistics of its files say.

    :raises HeadwaterError: ``DELTA_INVALID_SCHEMA``, ``HEADWATER_CLUSTERING_UNREADABLE``.
    """
    definition, metadata = snapshot.definition, snapshot.metadata
    clustered = snapshot.clustering_columns
    return {
        "path": snapshot.table_path,
        "name": None if metadata.name is None else short(metadata.name),
        "description": None if metadata.description is None else short(metadata.description, 1000),
        "id": short(metadata.id),
        "version": snapshot.version,
        "time": snapshot.timestamp,
        "created": metadata.created_time,
        "files": snapshot.num_files,
        "bytes": snapshot.size_in_bytes,
        "partitionColumns": [short(name) for name in snapshot.partition_columns],
        "clusteringColumns": None if clustered is None else [format_name(path) for path in clustered],
        "columnMapping": definition.mapping_mode,
        "columns": _columns(snapshot),
        "columnsWithBounds": [list(path) for path in columns_with_bounds(snapshot)],
        "properties": json_value(dict(sorted(metadata.configuration.items()))),
        "protocol": {
            "reader": snapshot.protocol.min_reader_version,
            "writer": snapshot.protocol.min_writer_version,
            "features": [
                {"name": short(name), "readers": name in (snapshot.protocol.reader_features or ())}
                for name in sorted(
                    (snapshot.protocol.reader_features or frozenset())
                    | (snapshot.protocol.writer_features or definition.features)
                )
            ],
        },
        "domains": [
            {"name": short(name), "configuration": short(domain.configuration, 2000)}
            for name, domain in sorted(snapshot.domain_metadata.items())
        ],
    }


def counts(snapshot: Snapshot) -> dict[str, Any]:
    """The rows. The statistics of all columns are parsed for it at once: whatever follows asks for them."""
    records = snapshot.statistics([path for path, _ in snapshot.definition.indexed_leaves])["num_records"]
    vectors = snapshot.select(["deletion_vector"])["deletion_vector"]
    deleted = pc.sum(pc.struct_field(vectors, "cardinality")).as_py() or 0
    return {
        "rows": None if records.null_count else (pc.sum(records).as_py() or 0) - deleted,
        "deletedRows": deleted,
        "filesWithVectors": len(vectors) - vectors.null_count,
        "filesWithoutStatistics": records.null_count,
    }


def _columns(snapshot: Snapshot) -> list[dict[str, Any]]:
    """Every column, those inside structs after theirs."""
    partitions = {name.lower() for name in snapshot.partition_columns}
    clustered = set(snapshot.clustering_columns or ())
    indexed = {mapping.logical_path(snapshot.schema, path) for path, _ in snapshot.definition.indexed_leaves}
    found = []
    for path, field in all_fields(snapshot.schema):
        notes = []
        if len(path) == 1 and field.name.lower() in partitions:
            notes.append("partition")
        if path in clustered:
            notes.append("clustering")
        if GENERATION_EXPRESSION in field.metadata:
            notes.append(f"generated: {field.metadata[GENERATION_EXPRESSION]}")
        if IDENTITY_START in field.metadata:
            notes.append("identity")
        if path in indexed:
            notes.append("statistics")
        comment = field.metadata.get("comment")
        declared = field.metadata.get(DECLARED_TYPE)
        found.append(
            {
                "depth": len(path) - 1,
                "name": short(field.name),
                "path": short(format_name(path)),
                "type": short(str(declared or field.type.sql()), 500),
                "nullable": field.nullable,
                "notes": [short(note) for note in notes],
                "comment": None if comment is None else short(str(comment), 500),
                "id": field.metadata.get(COLUMN_ID),
                "physical": field.physical_name if field.physical_name != field.name else None,
            }
        )
    return found
