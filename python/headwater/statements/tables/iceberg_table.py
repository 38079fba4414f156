"""The Delta table that is made of the files of an Iceberg table, which keep their location.

Owns its definition and its ``add`` actions, for CONVERT TO DELTA and for a shallow clone; what the metadata says is
:mod:`headwater.iceberg.reading`'s. Its columns are mapped by id, as Iceberg's files have the ids and, after a rename,
other names. Follows the protocol's chapters "Column Mapping" and "Deletion Vectors". Promises: each file is there with
the size and the rows that the metadata says, and has ids; else nothing is written, and the error names it.
"""

from __future__ import annotations

import uuid
from collections.abc import Container, Iterable, Mapping
from dataclasses import replace

from headwater.basics.errors import HeadwaterError
from headwater.bridge.statement import Statement
from headwater.definition.changes import with_own_ids
from headwater.iceberg.delta_types import NotDelta
from headwater.iceberg.reading import Damaged, DataFile, Snapshot, Table, metadata_file
from headwater.protocol import properties
from headwater.protocol.actions import AddFile
from headwater.protocol.column_metadata import COLUMN_ID, PHYSICAL_NAME
from headwater.protocol.columns import map_fields
from headwater.protocol.file_names import LOG_DIRECTORY
from headwater.protocol.partition_paths import encode_path
from headwater.protocol.table_definition import TableDefinition
from headwater.protocol.types import (
    INTEGERS,
    DataType,
    PrimitiveType,
    StructField,
    StructType,
    is_nested,
)
from headwater.schema import iceberg
from headwater.schema.widening import can_widen
from headwater.statements.files.rows import Target, statistics_leaves
from headwater.statements.maintenance.restore import Goal
from headwater.statements.running.committing import check_target
from headwater.statements.running.opening import Location
from headwater.statements.tables.converted_files import FoundFile
from headwater.statements.tables.converted_footers import ReadFooters
from headwater.statements.tables.parquet_table import Becoming, OtherFiles, define_around

FORMAT = "iceberg"
_METADATA_ENDING = ".metadata.json"
#: As the footers' columns have it.
_FIELD_ID = "parquet.field.id"
#: Begins the name of a column of a file that the table has no more.
_DROPPED = "\0"


def folder_of(path: str) -> str:
    """The folder of an Iceberg table that a statement names by it, or by a metadata file in it."""
    return path.rsplit("/", 2)[0] if path.endswith(_METADATA_ENDING) and path.count("/") > 1 else path


def refuse_partitions(found: OtherFiles) -> None:
    """Refuse PARTITIONED BY: the metadata says how the table is partitioned."""
    if found.partitioned_by is not None:
        raise _refused(found.location, "its metadata says how it is partitioned: leave PARTITIONED BY out")


def of_iceberg(
    found: OtherFiles,
    table: str,
    name: str | None,
    given: Mapping[str, str],
    goal: Goal | None,
    named: str,
    statement: Statement,
) -> Becoming:
    """The table of an Iceberg table's files.

    :param table: where the table will be; ``name`` as the catalog has it.
    :param given: the table's properties.
    :param goal: the id of the snapshot, or a time; None for the current one.
    :param named: the path that the statement names: the folder, or a metadata file in it.
    :raises HeadwaterError: ``HEADWATER_ICEBERG_METADATA_NOT_FOUND``, ``HEADWATER_ICEBERG_FILE_NOT_USABLE``,
        ``HEADWATER_ICEBERG_TABLE_NOT_CONVERTIBLE``, ``HEADWATER_ICEBERG_SNAPSHOT_NOT_FOUND``; those of a new table's
        definition.
    """
    location = found.location
    snapshot = _snapshot(location, goal, named, statement)
    check_target(table, statement, None)
    definition = _definition(snapshot, table, name, given, location, statement)
    files = _found(snapshot, location, statement)
    footers = _footers(files, snapshot, location, statement) if files else None
    if footers is not None and (clashes := _clashes(snapshot.schema, footers.stored)):
        snapshot = snapshot._replace(schema=_apart(snapshot.schema, clashes))
        definition = _definition(snapshot, table, name, given, location, statement)
        footers = _footers(files, snapshot, location, statement)
    stats: list[str | None] = [f'{{"numRecords":{file.rows}}}' if file.deleted else None for file in snapshot.files]
    if found.statistics and footers is not None:
        leaves = statistics_leaves(Target(table, definition))
        # The bounds of a file with deleted rows may be those of such a row.
        stats[:] = footers.statistics(leaves, [False if file.deleted else None for file in snapshot.files])
    physical = {field.name: field.physical_name for field in snapshot.schema}
    adds = [
        AddFile(
            encode_path(file.path),
            {physical[column]: value for column, value in file.values.items()},
            file.size,
            file.modification_time,
            stats=text,
        )
        for file, text in zip(files, stats, strict=True)
    ]
    deleted = {number: file.deleted for number, file in enumerate(snapshot.files) if file.deleted is not None}
    return Becoming(definition, snapshot.partition_columns, adds, deleted, snapshot.snapshot_id)


def _snapshot(location: Location, goal: Goal | None, named: str, statement: Statement) -> Snapshot:
    try:
        file = named if named.endswith(_METADATA_ENDING) else metadata_file(location.store, location.path)
        if file is None:
            raise HeadwaterError("HEADWATER_ICEBERG_METADATA_NOT_FOUND", {"path": location.path})
        opened = Table(location.store, location.path, file)
        version, time = (None, None) if goal is None else (goal.version, goal.time)
        milliseconds = None if time is None else time.microseconds // 1000
        return opened.snapshot(version, milliseconds, statement.check_cancelled)
    except NotDelta as error:
        raise _refused(location, str(error)) from None
    except Damaged as error:
        raise not_usable(error.path, location, error.reason) from None
    except LookupError as error:
        raise HeadwaterError(
            "HEADWATER_ICEBERG_SNAPSHOT_NOT_FOUND", {"path": location.path, "reason": str(error)}
        ) from None


def _refused(location: Location, reason: str) -> HeadwaterError:
    return HeadwaterError("HEADWATER_ICEBERG_TABLE_NOT_CONVERTIBLE", {"path": location.path, "reason": reason})


def not_usable(path: str, location: Location, reason: str) -> HeadwaterError:
    """The error for a file of an Iceberg table that cannot be used."""
    return HeadwaterError("HEADWATER_ICEBERG_FILE_NOT_USABLE", {"file": path, "path": location.path, "reason": reason})


def _definition(
    snapshot: Snapshot,
    table: str,
    name: str | None,
    given: Mapping[str, str],
    location: Location,
    statement: Statement,
) -> TableDefinition:
    """The table as a CREATE TABLE makes it, with the ids that its columns have already."""
    mode = properties.COLUMN_MAPPING_MODE.name
    folded = {key.lower(): value for key, value in given.items()}
    if folded.get(mode.lower(), "id").lower() != "id":
        raise _refused(location, f"its columns are found by ids, so {mode} can only be id")
    own = {mode: "id"}
    if any(file.deleted for file in snapshot.files):
        own[properties.DELETION_VECTORS.name] = "true"
    wanted = {**own, **{key: value for key, value in given.items() if key.lower() != mode.lower()}}
    made = define_around(table, name, snapshot.schema, snapshot.partition_columns, wanted, statement)
    if iceberg.needs_nested_ids(made.metadata.configuration):
        raise _refused(location, "it has no ids that icebergCompat properties need; set them afterwards")
    return with_own_ids(made, snapshot.schema, snapshot.last_column_id)


def _found(snapshot: Snapshot, location: Location, statement: Statement) -> list[FoundFile]:
    """The files as the store has them."""
    tree = location.store.walk(location.path, lambda name: name != LOG_DIRECTORY, statement.check_cancelled)
    there = {file.path: file for file in tree.files}
    found = []
    for file in snapshot.files:
        stored = there.get(file.path)
        if stored is None:
            raise not_usable(f"{location.path}/{file.path}", location, "it does not exist")
        if stored.size != file.size:
            reason = f"it has {stored.size} bytes, but the table's metadata says {file.size}"
            raise not_usable(f"{location.path}/{file.path}", location, reason)
        found.append(FoundFile(file.path, stored.size, stored.modification_time, file.values))
    return found


def _footers(files: list[FoundFile], snapshot: Snapshot, location: Location, statement: Statement) -> ReadFooters:
    """The footers of the files, with their columns under the physical names of the table."""

    def refuse(path: str, reason: str) -> HeadwaterError:
        return not_usable(f"{location.path}/{path}", location, reason)

    by_id = dict(_columns(snapshot.schema))
    footers = ReadFooters(files, location, statement, -1, lambda schema: _named(schema, by_id), refuse)
    counted: Mapping[str, DataFile] = {file.path: file for file in snapshot.files}
    for file, rows in zip(footers.files, footers.rows, strict=True):
        if rows != counted[file.path].rows:
            said = counted[file.path].rows
            raise refuse(file.path, f"it has {rows} rows, but the table's metadata says {said}")
    return footers


def _clashes(table: StructType, stored: Iterable[StructType]) -> set[int]:
    """The ids of the table's columns by whose physical names files have other columns: what looks for a column of a
    file by its name, as Spark does to skip its row groups, would find one that was dropped, or renamed.
    """
    own = {field.physical_name.lower(): field for field in table}
    found: set[int] = set()
    for field in (field for schema in stored for field in schema):
        by_name = own.get(field.name.lower())
        if by_name is not None and field.metadata.get(_FIELD_ID) not in (None, by_name.metadata[COLUMN_ID]):
            found.add(int(by_name.metadata[COLUMN_ID]))
        same = next((each for each in table if each.metadata[COLUMN_ID] == field.metadata.get(_FIELD_ID)), None)
        if same is not None and isinstance(same.type, StructType) and isinstance(field.type, StructType):
            found |= _clashes(same.type, [field.type])
    return found


def _apart(schema: StructType, clashes: Container[int]) -> StructType:
    """The columns, those of some ids with physical names that no file has."""

    def named(field: StructField) -> StructField:
        if field.metadata.get(COLUMN_ID) not in clashes:
            return field
        return replace(field, metadata={**field.metadata, PHYSICAL_NAME: f"col-{uuid.uuid4()}"})

    return map_fields(schema, lambda field, _: named(field))


def _columns(schema: StructType) -> list[tuple[int, StructField]]:
    """The columns by id, those of structs too; not what lies in arrays and maps."""
    found = []
    for field in schema:
        found.append((int(field.metadata[COLUMN_ID]), field))
        if isinstance(field.type, StructType):
            found += _columns(field.type)
    return found


def _named(schema: StructType, by_id: Mapping[int, StructField]) -> StructType:
    """The columns of a file under the physical names of the table; one that was dropped has a name that no column has.

    :raises ValueError: a column of the file has no id, or a type that the table's cannot be read of.
    """
    fields = []
    for field in schema:
        number = field.metadata.get(_FIELD_ID)
        if number is None:
            raise ValueError(
                f"its column {field.name} has no field id: Iceberg finds it by its name, and Delta by an id alone"
            )
        column = by_id.get(int(number))
        kind = field.type
        if column is not None and not _reads(kind, column.type):
            raise ValueError(f"its column {field.name} is {kind.sql()}, and that of the table {column.type.sql()}")
        if isinstance(kind, StructType):
            kind = _named(kind, by_id)
        name = f"{_DROPPED}{number}" if column is None else column.physical_name
        fields.append(StructField(name, kind, nullable=True))
    return StructType(tuple(fields))


def _reads(stored: DataType, column: DataType) -> bool:
    """Whether a column of a file can be read as one of the table."""
    if is_nested(column):
        return type(stored) is type(column)
    is_whole = all(isinstance(each, PrimitiveType) and each.name in INTEGERS for each in (stored, column))
    return stored == column or can_widen(stored, column) or is_whole
