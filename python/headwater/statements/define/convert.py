"""CONVERT TO DELTA: the log of a Delta table over Parquet files, which stay where they are.

Owns the definition of the table and its one commit; which files it has and their partition values are
:mod:`headwater.statements.define.converted_files`'s, their columns and statistics
:mod:`headwater.statements.define.converted_footers`'s. Follows the protocol's chapter "Add File and Remove File".
Promises: nothing is written unless every file fits, and the error names the first that does not; a table that is Delta
already stays as it is. The catalog's entry is changed by Spark's side, after the commit; where it was not, because the
statement was cut off, the next run ends the work.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from headwater.bridge.messages.define import CatalogEntry, CommitAnswer, ConvertRequest, CreateTableRequest
from headwater.bridge.statement import Statement
from headwater.errors import HeadwaterError
from headwater.log.snapshot import table_exists
from headwater.protocol import properties
from headwater.protocol.actions import AddFile
from headwater.protocol.columns import as_nullable
from headwater.protocol.partition_paths import encode_path
from headwater.protocol.properties import for_new_table
from headwater.protocol.table_definition import TableDefinition
from headwater.protocol.types import StructType, parse_schema, parse_type, schema_string
from headwater.statements.commit.committing import check_target, commit, transaction
from headwater.statements.commit.opening import Options, locate, open_snapshot
from headwater.statements.define.converted_files import find_files, not_usable, with_typed_values
from headwater.statements.define.converted_footers import ReadFooters
from headwater.statements.define.definition import NewTable, define
from headwater.statements.define.draft import Draft
from headwater.statements.files.rows import Target, statistics_leaves

_LOG = logging.getLogger(__name__)
_USE_CATALOG_SCHEMA = "spark.databricks.delta.convert.useCatalogSchema"
_CHECKS_METADATA = "spark.databricks.delta.convert.metadataCheck.enabled"
_FORMAT = "parquet"


def convert(request: ConvertRequest, statement: Statement) -> CommitAnswer:
    """Make a Delta table of the files in a folder, or of those of a catalog's table.

    :raises HeadwaterError: ``DELTA_MISSING_PROVIDER_FOR_CONVERT``, ``DELTA_CONVERT_NON_PARQUET_TABLE``,
        ``DELTA_UNEXPECTED_PARTITION_SCHEMA_FROM_USER``, ``DELTA_CONVERSION_UNSUPPORTED_COLUMN_MAPPING``,
        ``DELTA_CONVERT_TO_DELTA_ROW_TRACKING_WITHOUT_STATS``, ``DELTA_CONVERT_METASTORE_METADATA_MISMATCH``; those of
        :func:`find_files`, :func:`with_typed_values`, :class:`ReadFooters`, of a new table's definition and of a
        commit.
    """
    _check_format(request)
    location = locate(request.table, statement)
    if table_exists(location.path, location.store):
        return _already(request, statement)
    partitions = _partition_columns(request, statement)
    files = find_files(request, location, partitions, statement)
    check_target(request.table, statement, None)
    files = with_typed_values(files, location, partitions, statement)
    footers = ReadFooters(files, location, statement, _most(request, statement))
    if request.entry is not None and statement.flag(_USE_CATALOG_SCHEMA, default=True):
        schema = parse_schema(request.entry.schema)
        footers.check(schema, partitions)
    else:
        schema = footers.union(partitions)
    definition = _definition(request, schema, partitions, statement)
    txn = transaction(request.table, statement, None)
    # Its files were there before: another writer's table at the place has nothing to do with them.
    txn.follow_directly()
    txn.update_protocol(definition.protocol)
    txn.update_metadata(definition.metadata)
    _check_definition(request, txn.definition)
    if txn.definition.has_partition_columns_in_files and len(partitions.fields):
        raise not_usable(footers.files[0].path, location, "its partition columns are to be in the files")
    stats: list[str | None] = [None] * len(footers.files)
    if request.arguments.statistics:
        stats[:] = footers.statistics(statistics_leaves(Target(location.path, txn.definition)))
    txn.add(
        AddFile(encode_path(file.path), file.values, file.size, file.modification_time, stats=text)
        for file, text in zip(footers.files, stats, strict=True)
    )
    _LOG.info("%s: %d Parquet files become a Delta table", location.path, len(footers.files))
    parameters = _parameters(request, len(footers.files), [field.name for field in partitions])
    return commit(txn, statement, Options(None), "CONVERT", parameters, {"numConvertedFiles": len(footers.files)})


def _check_format(request: ConvertRequest) -> None:
    if request.format is None:
        raise HeadwaterError("DELTA_MISSING_PROVIDER_FOR_CONVERT", {"path": request.table})
    if request.format.lower() != _FORMAT:
        name = request.entry.name if request.entry is not None else request.table
        raise HeadwaterError(
            "DELTA_CONVERT_NON_PARQUET_TABLE", {"tableId": name, "sourceName": f"of the format {request.format}"}
        )


def _partition_columns(request: ConvertRequest, statement: Statement) -> StructType:
    """The partition columns: the catalog's, or those that the statement names."""
    said = None
    if request.arguments.partitioned_by is not None:
        text = f"CAST(NULL AS STRUCT<{request.arguments.partitioned_by}>)"
        kind = parse_type(json.loads(statement.expression_type(text, schema_string(StructType(())))))
        assert isinstance(kind, StructType)
        said = _nullable(kind)
    if request.entry is None:
        return said or StructType(())
    found = _nullable(_of_catalog(request.entry))
    if said is not None and [(f.name.lower(), f.type) for f in said] != [(f.name.lower(), f.type) for f in found]:
        raise HeadwaterError(
            "DELTA_UNEXPECTED_PARTITION_SCHEMA_FROM_USER",
            {"catalogPartitionSchema": _listed(found), "userPartitionSchema": _listed(said)},
        )
    return found


def _of_catalog(entry: CatalogEntry) -> StructType:
    schema = parse_schema(entry.schema)
    columns = (schema.find(name) for name in entry.partition_columns)
    return StructType(tuple(column for column in columns if column is not None))


def _nullable(schema: StructType) -> StructType:
    """The columns as Spark reads them of files: whatever is declared, each may be null."""
    found = as_nullable(schema)
    assert isinstance(found, StructType)
    return found


def _listed(schema: StructType) -> str:
    return ", ".join(f"{field.name} {field.type.sql()}" for field in schema) or "nothing"


def _most(request: ConvertRequest, statement: Statement) -> int:
    """Of how many columns of each file statistics are probably needed. Where a property names others, that shows once
    the table's columns are known.
    """
    given = {} if request.entry is None else request.entry.properties
    configuration = for_new_table(given, statement.confs)
    if not request.arguments.statistics or properties.INDEXED_COLUMNS.text(configuration) is not None:
        return 0
    limit = properties.INDEXED_COLUMNS_LIMIT.of(configuration)
    return -1 if limit is None else limit


def _definition(request: ConvertRequest, schema: StructType, partitions: StructType, statement: Statement) -> NewTable:
    """The table as a CREATE TABLE with these columns makes it, with the session's defaults."""
    entry = request.entry
    create = CreateTableRequest(
        table=request.table,
        name=None if entry is None else entry.name,
        mode="create",
        known=True,
        external=True,
        schema=schema_string(_nullable(schema)),
        partition_columns=[field.name for field in partitions],
        properties={} if entry is None else entry.properties,
    )
    return define(create, statement, None)


def _check_definition(request: ConvertRequest, definition: TableDefinition) -> None:
    mode = definition.get(properties.COLUMN_MAPPING_MODE)
    if mode != "none":
        raise HeadwaterError(
            "DELTA_CONVERSION_UNSUPPORTED_COLUMN_MAPPING", {"config": properties.COLUMN_MAPPING_MODE.name, "mode": mode}
        )
    if definition.assigns_row_ids and not request.arguments.statistics:
        default = f"spark.databricks.delta.properties.defaults.{properties.ROW_TRACKING.name.removeprefix('delta.')}"
        raise HeadwaterError(
            "DELTA_CONVERT_TO_DELTA_ROW_TRACKING_WITHOUT_STATS", {"rowTrackingDefaultPropertyKey": default}
        )


def _parameters(request: ConvertRequest, files: int, partitions: Sequence[str]) -> dict[str, Any]:
    """As the history of Delta Lake's own connector has them: partition columns only where the statement names them."""
    parameters: dict[str, Any] = {
        "numFiles": files,
        "partitionedBy": [] if request.arguments.partitioned_by is None else list(partitions),
        "collectStats": files > 0 and request.arguments.statistics,
    }
    if request.entry is not None:
        parameters["catalogTable"] = request.entry.name
    parameters["sourceFormat"] = _FORMAT
    return parameters


def _already(request: ConvertRequest, statement: Statement) -> CommitAnswer:
    """What is left to do where there is a Delta table: its properties may lack some that the catalog has."""
    snapshot = open_snapshot(request.table, statement)
    if request.entry is None:
        _LOG.warning("%s is a Delta table already", snapshot.table_path)
        return CommitAnswer(version=snapshot.version)
    before: Mapping[str, str] = snapshot.metadata.configuration
    merged = {**before, **for_new_table(request.entry.properties, {})}
    if merged == before:
        return CommitAnswer(version=snapshot.version)
    if before and statement.flag(_CHECKS_METADATA, default=True):
        raise HeadwaterError(
            "DELTA_CONVERT_METASTORE_METADATA_MISMATCH",
            {
                "tableProperties": _pairs(request.entry.properties),
                "configuration": _pairs(before),
                "metadataCheckSqlConf": _CHECKS_METADATA,
            },
        )
    draft = Draft.of(snapshot, statement, request.entry.name)
    draft.set_configuration(merged)
    txn = transaction(request.table, statement, snapshot)
    txn.update_protocol(draft.protocol)
    txn.update_metadata(draft.metadata)
    return commit(txn, statement, Options(None), "CONVERT", _parameters(request, 0, snapshot.partition_columns), {})


def _pairs(configuration: Mapping[str, str]) -> str:
    return ", ".join(f"{key} = {value}" for key, value in sorted(configuration.items())) or "none"
