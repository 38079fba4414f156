"""CLONE: a new table with the definition and the files of a version of another.

Owns the definition of the new table, and its one commit. A shallow clone copies no file: its log names those of the
source by absolute paths. Follows the protocol's chapters "Add File and Remove File", "Change Metadata", "Row Tracking"
and "Domain Metadata". Promises: nothing is committed into a table that has rows; the clone is a table of its own, with
its own id, row ids and versions, and no statement on it changes or deletes a file of the source; what must never be
given twice in a table that is replaced (identity values, column ids) goes on from where it is.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headwater import clock
from headwater.bridge.messages.define import CloneRequest, CommitAnswer, SetProperty
from headwater.bridge.statement import Statement
from headwater.errors import HeadwaterError
from headwater.log.files_elsewhere import named_absolutely, uri
from headwater.log.snapshot import Snapshot, table_exists
from headwater.protocol import properties
from headwater.protocol.features import check_readable, supported_features
from headwater.protocol.properties import PROPERTIES
from headwater.protocol.requirements import protocol_for
from headwater.protocol.row_tracking import with_column_names
from headwater.protocol.types import PrimitiveType, StructType
from headwater.statements.commit.committing import commit, file_of, transaction
from headwater.statements.commit.opening import CACHE, Location, Options, locate, open_snapshot
from headwater.statements.define.alter import set_properties
from headwater.statements.define.create import check_empty
from headwater.statements.define.draft import Draft
from headwater.statements.maintain.restore import clustering_after, goal_of, metadata_after, version_of

_LOG = logging.getLogger(__name__)
_LONG = PrimitiveType("long")
#: Properties that a writer keeps and that are true of the source's files in another table, too.
_OF_FILES = (properties.MAX_COLUMN_ID.name,)

_INSTEAD_OF_DEEP = (
    "Use CREATE TABLE … USING delta AS SELECT, which copies the rows, or SHALLOW CLONE, which copies no file."
)

#: The row of the answer, under the names that users of the format know; sizes in bytes.
CLONE_SCHEMA = StructType.of(
    source_table_size=_LONG,
    source_num_of_files=_LONG,
    num_removed_files=_LONG,
    num_copied_files=_LONG,
    removed_files_size=_LONG,
    copied_files_size=_LONG,
)


def clone(request: CloneRequest, statement: Statement) -> CommitAnswer:
    """Make a table of the files of another.

    :raises HeadwaterError: ``DELTA_TABLE_ALREADY_EXISTS``, ``DELTA_UNSUPPORTED_NON_EMPTY_CLONE``,
        ``DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION``, ``HEADWATER_CLONE_ACROSS_STORES``,
        ``HEADWATER_CLONE_OF_ITSELF``; those of time travel, of setting properties and of a commit.
    """
    if not request.arguments.is_shallow:
        raise HeadwaterError(
            "HEADWATER_STATEMENT_NOT_SUPPORTED",
            {"statement": "DEEP CLONE", "tableName": request.name or request.table, "instead": _INSTEAD_OF_DEEP},
        )
    location = locate(request.table, statement)
    source = _source(request, statement)
    _check_places(source, location, request)
    target = _target(location, request, statement)
    draft = _definition(source, request, statement)
    txn = transaction(request.table, statement, target)
    txn.follow_directly()
    if target is None:
        txn.update_protocol(draft.protocol)
        txn.update_metadata(replace(draft.metadata, id=str(uuid.uuid4())))
        domain = source.definition.clustering_domain
    else:
        metadata = metadata_after(target, draft.metadata, draft.schema)
        txn.update_metadata(
            replace(metadata, id=target.metadata.id, name=target.metadata.name, description=_description(draft, target))
        )
        txn.update_protocol(protocol_for(txn.metadata, target.protocol, supported_features(draft.protocol)))
        domain = clustering_after(target, source)
    if domain is not None:
        txn.add_action(domain)
    files = named_absolutely(source.files, source.table_path)
    if txn.takes_bulk:
        txn.replace(files.slice(0, 0), files)
    else:
        txn.add(file_of(row, data_change=True) for row in files.to_pylist())
    metrics = {
        "sourceTableSize": source.size_in_bytes,
        "sourceNumOfFiles": source.num_files,
        "numRemovedFiles": 0,
        "numCopiedFiles": 0,
        "removedFilesSize": 0,
        "copiedFilesSize": 0,
    }
    rows = [dict(zip((field.name for field in CLONE_SCHEMA), metrics.values(), strict=True))]
    _LOG.info("%s: a shallow clone of version %d of %s", location.path, source.version, source.table_path)
    return commit(txn, statement, Options(None), "CLONE", _parameters(source, request), metrics, rows=rows)


def _source(request: CloneRequest, statement: Statement) -> Snapshot:
    """The version that is cloned."""
    if request.source_version is not None:
        return open_snapshot(request.source, statement, request.source_version)
    newest = open_snapshot(request.source, statement)
    if request.arguments.version is None and request.arguments.timestamp is None:
        return newest
    return version_of(goal_of(request.arguments, statement), newest, statement)


def _check_places(source: Snapshot, location: Location, request: CloneRequest) -> None:
    if source.table_path == location.path:
        raise HeadwaterError("HEADWATER_CLONE_OF_ITSELF", {"tableName": request.name or location.path})
    if source.store.is_local != location.store.is_local:
        raise HeadwaterError(
            "HEADWATER_CLONE_ACROSS_STORES", {"source": source.table_path, "tableLocation": location.path}
        )


def _target(location: Location, request: CloneRequest, statement: Statement) -> Snapshot | None:
    """The table that is replaced, which must have no rows; None for a new one."""
    if not table_exists(location.path, location.store):
        check_empty(location, statement)
        return None
    if request.mode == "create" or not (request.known or not request.external):
        name = request.name or f"delta.`{location.path}`"
        advice = "Use CREATE OR REPLACE TABLE to clone into it if it has no rows, or another location."
        raise HeadwaterError("DELTA_TABLE_ALREADY_EXISTS", {"tableName": name, "path": location.path, "advice": advice})
    target = CACHE.get(location.path, location.store)
    check_readable(target.protocol)
    if target.num_files:
        raise HeadwaterError(
            "DELTA_UNSUPPORTED_NON_EMPTY_CLONE",
            {"tableName": request.name or location.path, "numFiles": target.num_files},
        )
    return target


def _definition(source: Snapshot, request: CloneRequest, statement: Statement) -> Draft:
    """What the source is, with the properties that the statement gives. Its description is not cloned."""
    draft = Draft.of(source, statement, request.name or request.table)
    kept = with_column_names(_configuration(source.metadata.configuration))
    draft.metadata = replace(
        draft.metadata, name=None, description=None, configuration=kept, created_time=clock.milliseconds()
    )
    if request.properties:
        given = [SetProperty(key=key, value=value) for key, value in request.properties.items()]
        set_properties(given, draft)
    return draft


def _configuration(source: Mapping[str, str]) -> dict[str, str]:
    """The properties of another table with the same files: not what a writer keeps of the source's own log."""
    return {
        key: value
        for key, value in source.items()
        if (key not in PROPERTIES or PROPERTIES[key].settable or key in _OF_FILES)
        and key != properties.UNIVERSAL_FORMATS.name
    }


def _description(draft: Draft, target: Snapshot) -> str | None:
    return target.metadata.description if draft.metadata.description is None else draft.metadata.description


def _parameters(source: Snapshot, request: CloneRequest) -> dict[str, Any]:
    """For the history."""
    return {"source": request.source_name or f"delta.`{uri(source.table_path)}`", "sourceVersion": source.version}
