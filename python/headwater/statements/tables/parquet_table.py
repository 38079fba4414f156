"""The Delta table that is made of Parquet files, which keep their location.

Owns its definition and its ``add`` actions, for CONVERT TO DELTA and for a shallow clone. Which files it has and their
partition values are :mod:`headwater.statements.tables.converted_files`'s, their columns and statistics
:mod:`headwater.statements.tables.converted_footers`'s. Follows the protocol's chapter "Add File and Remove File".
Promises: nothing is written, and the error names the first file that does not fit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from pyroaring import BitMap64

from headwater.basics.errors import HeadwaterError
from headwater.bridge.messages.define import CatalogEntry, CreateTableRequest
from headwater.bridge.statement import Statement
from headwater.log.deletion_vectors import write_file
from headwater.protocol import properties
from headwater.protocol.actions import AddFile
from headwater.protocol.partition_paths import encode_path
from headwater.protocol.properties import for_new_table
from headwater.protocol.table_definition import TableDefinition
from headwater.protocol.types import (
    StructType,
    as_nullable,
    parse_schema,
    parse_type,
    schema_string,
)
from headwater.statements.files.rows import Target, statistics_leaves
from headwater.statements.running.committing import check_target
from headwater.statements.running.opening import Location, locate
from headwater.statements.settings import ALLOWS_ARBITRARY, CONVERT_USES_CATALOG_SCHEMA
from headwater.statements.tables.converted_files import find_files, not_usable, with_typed_values
from headwater.statements.tables.converted_footers import ReadFooters
from headwater.statements.tables.definition import define


class OtherFiles(NamedTuple):
    """Files that are no Delta table.

    :param location: of the folder with the files.
    :param entry: what the catalog has of them; None for a folder that the statement names by its path.
    :param statistics: whether the table is to have statistics.
    :param partitioned_by: the partition columns and their types, as the statement has them; None without.
    """

    location: Location
    entry: CatalogEntry | None
    statistics: bool
    partitioned_by: str | None


class Becoming(NamedTuple):
    """The table that they become.

    :param files: their paths are relative to their folder.
    :param deleted: the deleted rows of files, by the number of the file; no vector of them is written yet.
    :param snapshot_id: what the history shows as the version; None for files without versions.
    """

    definition: TableDefinition
    partition_columns: list[str]
    files: list[AddFile]
    deleted: Mapping[int, BitMap64] = MappingProxyType({})
    snapshot_id: int | None = None

    def with_vectors(self, location: Location) -> list[AddFile]:
        """The files, once the vectors of deleted rows are written below a table."""
        files = list(self.files)
        if self.deleted:
            rows, store = list(self.deleted.values()), location.store
            try:
                vectors = write_file(rows, location.path, store)
            except FileNotFoundError:  # the folder of a new table is not there, on stores that have some
                store.make_directory(location.path)
                vectors = write_file(rows, location.path, store)
            for number, vector in zip(self.deleted, vectors, strict=True):
                files[number] = replace(files[number], deletion_vector=vector)
        return files


def of_parquet(
    found: OtherFiles, table: str, name: str | None, given: Mapping[str, str], statement: Statement
) -> Becoming:
    """The table of Parquet files.

    :param table: where the table will be; ``name`` as the catalog has it.
    :param given: the table's properties.
    :raises HeadwaterError: ``DELTA_UNEXPECTED_PARTITION_SCHEMA_FROM_USER``,
        ``DELTA_CONVERSION_UNSUPPORTED_COLUMN_MAPPING``, ``DELTA_CONVERT_TO_DELTA_ROW_TRACKING_WITHOUT_STATS``; those
        of :func:`find_files`, :func:`with_typed_values`, :class:`ReadFooters` and of a new table's definition.
    """
    location = found.location
    partitions = _partition_columns(found, statement)
    files = find_files(found.entry, location, partitions, statement)
    check_target(table, statement, None)
    files = with_typed_values(files, location, partitions, statement)
    footers = ReadFooters(files, location, statement, _most(found, given, statement))
    if found.entry is not None and CONVERT_USES_CATALOG_SCHEMA.of(statement):
        schema = parse_schema(found.entry.schema)
        footers.check(schema, partitions)
    else:
        schema = footers.union(partitions)
    names = [field.name for field in partitions]
    definition = define_around(table, name, _nullable(schema), names, given, statement)
    _check_definition(found, definition)
    if definition.has_partition_columns_in_files and len(partitions.fields):
        raise not_usable(footers.files[0].path, location, "its partition columns are to be in the files")
    stats: list[str | None] = [None] * len(footers.files)
    if found.statistics:
        stats[:] = footers.statistics(statistics_leaves(Target(table, definition)))
    adds = [
        AddFile(encode_path(file.path), file.values, file.size, file.modification_time, stats=text)
        for file, text in zip(footers.files, stats, strict=True)
    ]
    return Becoming(definition, names, adds)


def define_around(
    table: str,
    name: str | None,
    schema: StructType,
    partition_columns: list[str],
    given: Mapping[str, str],
    statement: Statement,
) -> TableDefinition:
    """The definition of a table of files that are there, as CREATE TABLE makes it."""
    create = CreateTableRequest(
        table=table,
        name=name,
        mode="create",
        known=True,
        external=True,
        schema=schema_string(schema),
        partition_columns=partition_columns,
        properties=dict(given),
    )
    return define(create, locate(table, statement), statement)


def _partition_columns(found: OtherFiles, statement: Statement) -> StructType:
    """The partition columns: the catalog's, or those that the statement names."""
    said = None
    if found.partitioned_by is not None:
        text = f"CAST(NULL AS STRUCT<{found.partitioned_by}>)"
        kind = parse_type(json.loads(statement.expression_type(text, schema_string(StructType(())))))
        assert isinstance(kind, StructType)
        said = _nullable(kind)
    if found.entry is None:
        return said or StructType(())
    known = _nullable(_of_catalog(found.entry))
    if said is not None and [(f.name.lower(), f.type) for f in said] != [(f.name.lower(), f.type) for f in known]:
        raise HeadwaterError(
            "DELTA_UNEXPECTED_PARTITION_SCHEMA_FROM_USER",
            {"catalogPartitionSchema": _listed(known), "userPartitionSchema": _listed(said)},
        )
    return known


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


def _most(found: OtherFiles, given: Mapping[str, str], statement: Statement) -> int:
    """Of how many columns of each file statistics are probably needed. Where a property names others, that shows once
    the table's columns are known.
    """
    configuration = for_new_table(given, statement.confs, allow_arbitrary=ALLOWS_ARBITRARY.of(statement))
    if not found.statistics or properties.INDEXED_COLUMNS.text(configuration) is not None:
        return 0
    limit = properties.INDEXED_COLUMNS_LIMIT.of(configuration)
    return -1 if limit is None else limit


def _check_definition(found: OtherFiles, definition: TableDefinition) -> None:
    mode = definition.get(properties.COLUMN_MAPPING_MODE)
    if mode != "none":
        raise HeadwaterError(
            "DELTA_CONVERSION_UNSUPPORTED_COLUMN_MAPPING", {"config": properties.COLUMN_MAPPING_MODE.name, "mode": mode}
        )
    if definition.assigns_row_ids and not found.statistics:
        default = f"spark.databricks.delta.properties.defaults.{properties.ROW_TRACKING.name.removeprefix('delta.')}"
        raise HeadwaterError(
            "DELTA_CONVERT_TO_DELTA_ROW_TRACKING_WITHOUT_STATS", {"rowTrackingDefaultPropertyKey": default}
        )
