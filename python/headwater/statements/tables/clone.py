"""CLONE: a new table with the definition and the files of a version of another.

Owns the definition of the new table, and its one commit. A shallow clone copies no file: its log names those of the
source by absolute paths. Its source may also be Parquet files or an Iceberg table. A
deep clone has copies of them (:mod:`headwater.statements.tables.deep_clone`), and brings a table that is a deep clone
of the same source already to another version of it. Follows the protocol's chapters "Add File and Remove File", "Change
Metadata", "Row Tracking" and "Domain Metadata". Promises: nothing is committed into any other table that has rows; the
clone is a table of its own, with its own id, row ids and versions, and no statement on it changes or deletes a file of
the source; what must never be given twice in a table that is replaced (identity values, column ids) goes on from where
it is.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow.compute as pc

from headwater.basics import clock
from headwater.basics.errors import HeadwaterError
from headwater.bridge.messages.define import CloneRequest, CommitAnswer, SetProperty
from headwater.bridge.statement import Statement
from headwater.definition.changes import changed, cloned
from headwater.iceberg.registration import PROPERTY as ICEBERG_ENTRY
from headwater.log.deletion_vectors import is_file_name
from headwater.log.files import canonical_path, file_of
from headwater.log.files_elsewhere import named_absolutely, uri
from headwater.log.snapshot import Snapshot, table_exists
from headwater.protocol import properties
from headwater.protocol.properties import PROPERTIES
from headwater.protocol.row_tracking import with_column_names
from headwater.protocol.table_definition import TableDefinition
from headwater.protocol.types import PrimitiveType, StructType
from headwater.statements.calls import own_statement
from headwater.statements.maintenance.restore import goal_of, version_of
from headwater.statements.running.committing import commit, removals, transaction
from headwater.statements.running.managed_tables import own_properties, properties_for
from headwater.statements.running.opening import CACHE, Location, locate, open_snapshot
from headwater.statements.tables import deep_clone
from headwater.statements.tables.alter import set_properties
from headwater.statements.tables.create import check_empty
from headwater.statements.tables.draft import Draft
from headwater.statements.tables.iceberg_table import FORMAT, folder_of, of_iceberg, refuse_partitions
from headwater.statements.tables.parquet_table import OtherFiles, of_parquet
from headwater.statements.writes import copy_state
from headwater.transaction import Transaction
from headwater.transaction.commit_info import Provenance
from headwater.transaction.row_ids import ids_of_before, with_ids_of_before

_LOG = logging.getLogger(__name__)
_LONG = PrimitiveType("long")
#: Properties that a writer keeps and that remain true of the source's files in another table.
_OF_FILES = (properties.MAX_COLUMN_ID.name,)
#: Properties that name columns of the clone's own files.
_HIDDEN_COLUMNS = (properties.ROW_ID_COLUMN.name, properties.ROW_COMMIT_VERSION_COLUMN.name)

#: The row of the answer, under the names that users of the format know; sizes in bytes.
CLONE_SCHEMA = StructType.of(
    source_table_size=_LONG,
    source_num_of_files=_LONG,
    num_removed_files=_LONG,
    num_copied_files=_LONG,
    removed_files_size=_LONG,
    copied_files_size=_LONG,
)


@own_statement("clone", output=CLONE_SCHEMA, commits=True, in_transaction=False, words="CLONE")
def clone(request: CloneRequest, statement: Statement) -> CommitAnswer:
    """Make a table of the files of another, or of copies of them.

    :raises HeadwaterError: ``HEADWATER_CLONE_OPTION_OF_FILES``, ``DELTA_TABLE_ALREADY_EXISTS``,
        ``DELTA_UNSUPPORTED_NON_EMPTY_CLONE``,
        ``DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION``, ``HEADWATER_CLONE_ACROSS_STORES``,
        ``HEADWATER_CLONE_OF_ITSELF``, ``HEADWATER_DEEP_CLONE_TARGET_CHANGED``, ``HEADWATER_CLONE_FILES_MISSING``,
        ``HEADWATER_CLONE_FILE_DIFFERS``; those of time travel, of setting properties and of a commit.
    """
    is_shallow = request.arguments.is_shallow
    location = locate(request.table, statement)
    if request.format is not None:
        return _clone_files(request, request.format, location, statement)
    source = _source(request, statement)
    _check_options(source, request)
    _check_places(Location(source.store, source.table_path), location, request)
    target = _target(location, request, statement)
    request.properties = properties_for(request.properties, location.path, statement, target)
    # Only of one that has rows: any other may be replaced.
    last = None
    if target is not None and target.num_files:
        last = deep_clone.last_version(target, source, request.name or location.path)
    definition = _definition(source, None if last is None else target, request, statement)
    txn = transaction(request.table, statement, target)
    txn.follow_directly()
    txn.mirrors = True
    before, of_catalog = None if target is None else target.definition, location.store.of_catalog
    # A deep clone with rows stays the same clone, of a newer version.
    made = cloned(definition, before, of_catalog=of_catalog, keeps_time=last is not None)
    txn.redefine(copy_state.continued(made, target, is_same=last is not None))
    if is_shallow:
        added = named_absolutely(source.files, source.table_path)
        change = deep_clone.Change(added.slice(0, 0), added, 0, 0)
    elif last == deep_clone.Last(source.version, is_laid_out=True):
        change = deep_clone.NO_CHANGE
    else:
        change = deep_clone.bring(source, target, location, statement)
    if target is not None:
        change = change._replace(added=with_ids_of_before(change.added, target))
    metrics = {
        "sourceTableSize": source.size_in_bytes,
        "sourceNumOfFiles": source.num_files,
        "numRemovedFiles": len(change.removed),
        "numCopiedFiles": change.copied,
        "removedFilesSize": pc.sum(change.removed["size"]).as_py() or 0,
        "copiedFilesSize": change.copied_bytes,
    }
    rows = _rows(metrics)
    if last is not None and target is not None and last.version == source.version and _is_same(target, txn, change):
        return CommitAnswer(version=target.version, rows=rows)
    moves = last is not None and deep_clone.has_only_moved_rows(source, last)
    txn.loses_row_ids = moves
    if txn.takes_bulk and not moves:
        txn.replace(change.removed, change.added)
    else:
        txn.remove(removals(change.removed, data_change=not moves))
        txn.add(file_of(row, data_change=not moves) for row in change.added.to_pylist())
    if not is_shallow:
        copy_state.hand_over(source, txn)
    kind = "shallow" if is_shallow else "deep"
    _LOG.info("%s: a %s clone of version %d of %s", location.path, kind, source.version, source.table_path)
    return commit(txn, statement, Provenance("CLONE", _parameters(source, request), metrics), rows=rows)


def _rows(metrics: Mapping[str, int]) -> list[dict[str, Any]]:
    return [dict(zip((field.name for field in CLONE_SCHEMA), metrics.values(), strict=True))]


def _clone_files(request: CloneRequest, format: str, location: Location, statement: Statement) -> CommitAnswer:
    """Make a table of files that are no Delta table's, where they are.

    :raises HeadwaterError: ``DELTA_CLONE_UNSUPPORTED_SOURCE``, ``HEADWATER_DEEP_CLONE_OF_FILES``; those of
        :func:`of_parquet` and :func:`of_iceberg`.
    """
    is_iceberg = request.entry is None and format.lower() == FORMAT
    source = locate(folder_of(request.source) if is_iceberg else request.source, statement)
    _check_files(source, format, request, is_iceberg=is_iceberg)
    _check_places(source, location, request)
    target = _target(location, request, statement)
    request.properties = properties_for(request.properties, location.path, statement, target)
    txn = transaction(request.table, statement, target)
    txn.follow_directly()
    txn.mirrors = True
    arguments, entry = request.arguments, request.entry
    found = OtherFiles(source, entry, arguments.statistics, arguments.partitioned_by)
    given = {**({} if entry is None else entry.properties), **request.properties}
    if is_iceberg:
        refuse_partitions(found)
        goal = None
        if arguments.version is not None or arguments.timestamp is not None:
            goal = goal_of(arguments, statement)
        becoming = of_iceberg(found, request.table, request.name, given, goal, request.source, statement)
    else:
        becoming = of_parquet(found, request.table, request.name, given, statement)
    before = None if target is None else target.definition
    made = cloned(becoming.definition, before, of_catalog=location.store.of_catalog)
    txn.redefine(copy_state.continued(made, target, is_same=False))
    ids: dict[tuple[str, int | None], dict[str, Any]] = {} if target is None else ids_of_before(target)
    files = (replace(file, path=f"{uri(source.path)}/{file.path}") for file in becoming.with_vectors(location))
    txn.add(replace(file, **ids.get((canonical_path(file.path), file.size), {})) for file in files)
    metrics = {
        "sourceTableSize": sum(file.size for file in becoming.files),
        "sourceNumOfFiles": len(becoming.files),
        "numRemovedFiles": 0,
        "numCopiedFiles": 0,
        "removedFilesSize": 0,
        "copiedFilesSize": 0,
    }
    _LOG.info("%s: a shallow clone of the files in %s", location.path, source.path)
    # A folder has no versions.
    version = -1 if becoming.snapshot_id is None else becoming.snapshot_id
    parameters = {"source": request.source_name or f"{format.lower()}.`{uri(source.path)}`", "sourceVersion": version}
    return commit(txn, statement, Provenance("CLONE", parameters, metrics), rows=_rows(metrics))


def _check_files(source: Location, format: str, request: CloneRequest, *, is_iceberg: bool) -> None:
    """Refuse what is no source of a clone, before any work is done."""
    name = request.source_name or f"{format}.`{source.path}`"
    said = None
    if format.lower() != "parquet" and not is_iceberg:
        said = f"of the format {format}"
    elif table_exists(source.path, source.store) and not is_iceberg:
        said = "a Delta table, whose name by path is delta.`/path`"
    elif not is_iceberg and (request.arguments.version or request.arguments.timestamp):
        said = "Parquet files, of which there are no versions"
    if said is not None:
        raise HeadwaterError("DELTA_CLONE_UNSUPPORTED_SOURCE", {"name": name, "format": said})
    if not request.arguments.is_shallow:
        raise HeadwaterError("HEADWATER_DEEP_CLONE_OF_FILES", {"source": name})


def _is_same(target: Snapshot, txn: Transaction, change: deep_clone.Change) -> bool:
    """Whether a clone of the version that the target has already changes nothing."""
    return not change.removed.num_rows and not change.added.num_rows and txn.metadata == target.metadata


def _check_options(source: Snapshot, request: CloneRequest) -> None:
    """Refuse for a Delta table what is said of other files."""
    given = {"NO STATISTICS": not request.arguments.statistics, "PARTITIONED BY": request.arguments.partitioned_by}
    for option in (name for name, value in given.items() if value):
        table = request.source_name or f"delta.`{source.table_path}`"
        raise HeadwaterError("HEADWATER_CLONE_OPTION_OF_FILES", {"option": option, "source": table})


def _source(request: CloneRequest, statement: Statement) -> Snapshot:
    """The version that is cloned."""
    if request.source_version is not None:
        return open_snapshot(request.source, statement, request.source_version)
    newest = open_snapshot(request.source, statement)
    if request.arguments.version is None and request.arguments.timestamp is None:
        return newest
    return version_of(goal_of(request.arguments, statement), newest, statement)


def _check_places(source: Location, location: Location, request: CloneRequest) -> None:
    if source.path == location.path:
        raise HeadwaterError("HEADWATER_CLONE_OF_ITSELF", {"tableName": request.name or location.path})
    if request.arguments.is_shallow and source.store.is_local != location.store.is_local:
        raise HeadwaterError("HEADWATER_CLONE_ACROSS_STORES", {"source": source.path, "tableLocation": location.path})


def _target(location: Location, request: CloneRequest, statement: Statement) -> Snapshot | None:
    """The table that is replaced, None for a new one. A shallow clone replaces none that has rows."""
    if not table_exists(location.path, location.store):
        if request.arguments.is_shallow:
            # A clone of files with deleted rows writes their vectors before it commits: those of one that failed may
            # be there. They are no part of the table, and VACUUM deletes them.
            check_empty(location, statement, is_file_name)
        else:
            deep_clone.check_begun(location, statement)
        return None
    if request.mode == "create" or not (request.known or not request.external):
        name = request.name or f"delta.`{location.path}`"
        advice = "Use CREATE OR REPLACE TABLE to clone into it if it has no rows, or another location."
        raise HeadwaterError("DELTA_TABLE_ALREADY_EXISTS", {"tableName": name, "path": location.path, "advice": advice})
    target = CACHE.get(location.path, location.store)
    target.check_readable()
    if target.num_files and request.arguments.is_shallow:
        raise HeadwaterError(
            "DELTA_UNSUPPORTED_NON_EMPTY_CLONE",
            {"tableName": request.name or location.path, "numFiles": target.num_files},
        )
    return target


def _definition(
    source: Snapshot, clone: Snapshot | None, request: CloneRequest, statement: Statement
) -> TableDefinition:
    """What the source is, with the properties that the statement gives. Its description is not cloned.

    :param clone: the clone that there is already; the hidden columns of its files keep their names.
    """
    draft = Draft.of(source, statement, request.name or request.table)
    hidden = {} if clone is None else clone.metadata.configuration
    names = {name: hidden[name] for name in _HIDDEN_COLUMNS if name in hidden}
    kept = with_column_names({**_configuration(source.metadata.configuration), **names})
    now = clock.milliseconds()
    draft.definition = changed(source.definition, name=None, description=None, configuration=kept, created_time=now)
    if request.properties:
        given = [SetProperty(key=key, value=value) for key, value in request.properties.items()]
        set_properties(given, draft)
    return draft.definition


def _configuration(source: Mapping[str, str]) -> dict[str, str]:
    """The properties of another table with the same files: not what a writer keeps of the source's own log."""
    return {
        key: value
        for key, value in own_properties(source).items()
        if (key not in PROPERTIES or PROPERTIES[key].settable or key in _OF_FILES)
        and key not in (properties.UNIVERSAL_FORMATS.name, ICEBERG_ENTRY)
    }


def _parameters(source: Snapshot, request: CloneRequest) -> dict[str, Any]:
    """For the history."""
    name = request.source_name or f"delta.`{uri(source.table_path)}`"
    said: dict[str, Any] = {"source": name, "sourceVersion": source.version}
    # By these the next clone into the same table knows it again.
    deep = {} if request.arguments.is_shallow else {"isShallow": False, "sourceTableId": source.metadata.id}
    return said | deep
