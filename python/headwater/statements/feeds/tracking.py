"""A stream's schema log: opening it, beginning it, and adding what a commit changed.

Owns the option ``schemaTrackingLocation``. A stream with a schema log stops at each commit that changes the table's
definition, notes the new one and ends on purpose; the next start reads on with it. Columns that were renamed or
dropped, or got a wider type, must be let through by an option or a setting first.
"""

from __future__ import annotations

from typing import NoReturn

from headwater.basics.errors import HeadwaterError
from headwater.bridge.messages.follow import OpenStreamRequest, StreamedTable
from headwater.bridge.statement import Statement
from headwater.change_data.schemas import VersionedDefinition
from headwater.log.snapshot import Snapshot
from headwater.protocol.actions import Metadata, Protocol
from headwater.statements.running.opening import Options, open_snapshot
from headwater.statements.settings import (
    MERGES_SCHEMA_CHANGES,
    SCHEMA_LOG_CHECKS_SOURCE,
    SCHEMA_LOG_OUTSIDE,
    UNSAFE_RENAMES,
)
from headwater.stores import store_for
from headwater.streams.commits import Commits
from headwater.streams.compatibility import Rules, check_change
from headwater.streams.schema_log import SchemaLog, differs, entry_of, merged_changes
from headwater.streams.unblocking import check_let_through


def definition_of(table: StreamedTable) -> VersionedDefinition:
    """What a stream reads with."""
    return VersionedDefinition(Protocol.from_json(table.protocol), Metadata.from_json(table.metadata), table.version)


def schema_log(options: Options, table_id: str, statement: Statement) -> SchemaLog | None:
    """The schema log that a reader's options name; None if they name none."""
    location = options.get("schematrackinglocation") or options.get("schemalocation")
    if location is None or UNSAFE_RENAMES.of(statement):
        return None
    store, path = store_for(location, statement.hadoop, statement.confs)
    return SchemaLog(store, path, table_id, options.get("streamingsourcetrackingid"))


def tracked(
    request: OpenStreamRequest, snapshot: Snapshot, commits: Commits, statement: Statement
) -> VersionedDefinition | None:
    """The definition that a stream's schema log says to read with; None if it has none, or no log.

    While a query is analysed, changes of the definition that follow each other at once are merged into the latest
    entry: it is read with the last of them, and all of them are let through together.

    :raises HeadwaterError: ``DELTA_STREAMING_SCHEMA_LOCATION_NOT_UNDER_CHECKPOINT``,
        ``DELTA_STREAMING_SCHEMA_LOCATION_CONFLICT``, those of a damaged log, and of changes not let through.
    """
    options = Options(request.options)
    log = schema_log(options, snapshot.metadata.id, statement)
    if log is None:
        return None
    if request.checkpoint is not None and not SCHEMA_LOG_OUTSIDE.of(statement):
        _check_place(log, request.checkpoint, statement)
    now = log.latest()
    if now is None:
        return None
    if request.checkpoint is not None:
        if now.source != request.checkpoint and SCHEMA_LOG_CHECKS_SOURCE.of(statement):
            raise HeadwaterError(
                "DELTA_STREAMING_SCHEMA_LOCATION_CONFLICT", {"loc": log.path, "table": snapshot.table_path}
            )
        before = log.previous()
        if before is not None:
            check_let_through(before, now, options, statement.confs)
    noted = now.definition(VersionedDefinition.of(snapshot))
    if request.checkpoint is None and MERGES_SCHEMA_CHANGES.of(statement):
        merged = _merged(noted, snapshot, commits)
        if merged is not None:
            log.replace_latest(entry_of(merged, now.source))
            return merged
    return noted


def _merged(noted: VersionedDefinition, snapshot: Snapshot, commits: Commits) -> VersionedDefinition | None:
    following = commits.since(snapshot.table_path, snapshot.store, noted.metadata.id, noted.version)
    try:
        return merged_changes(noted, following)
    except HeadwaterError:
        return None  # the version is gone, or what follows cannot be read: the stream says so if it comes to it


def _check_place(log: SchemaLog, checkpoint: str, statement: Statement) -> None:
    """That the log is in the stream's checkpoint, of which ``checkpoint`` is the directory ``sources/<number>``."""
    _, source = store_for(checkpoint, statement.hadoop, statement.confs)
    root = source.rsplit("/", 2)[0]
    if not f"{log.path}/".startswith(f"{root}/"):
        raise HeadwaterError(
            "DELTA_STREAMING_SCHEMA_LOCATION_NOT_UNDER_CHECKPOINT",
            {"schemaTrackingLocation": log.path.rsplit("/", 1)[0], "checkpointLocation": root},
        )


def begin(table: StreamedTable, version: int, last: int | None, statement: Statement) -> bool:
    """Begin the schema log of a stream that was given an empty one; whether the stream has one now.

    :param version: the version from which the stream reads.
    :param last: the last version of a micro-batch that was planned before the stream had a schema log.
    :raises HeadwaterError: ``DELTA_STREAMING_METADATA_EVOLUTION`` if that version has another definition than the
        stream reads with: it ends, and the next start reads with this one. Those of :func:`check_change`.
    """
    reading = definition_of(table)
    log = schema_log(Options(table.options), reading.metadata.id, statement)
    if log is None or table.checkpoint is None:
        return False
    if log.latest() is None:
        newest = open_snapshot(table.table, statement)
        # A stream that has read everything goes on with a version that is not there yet.
        snapshot = open_snapshot(table.table, statement, min(version if last is None else last, newest.version))
        found = VersionedDefinition.of(snapshot)
        if last is not None and version < snapshot.version:
            # One micro-batch cannot be read with two definitions.
            check_change(found, open_snapshot(table.table, statement, version).metadata, version, Rules())
        log.add(entry_of(found, table.checkpoint))
        if differs(reading, found.metadata, found.protocol):
            _end(found)
    return True


def evolve(table: StreamedTable, change: VersionedDefinition, statement: Statement) -> NoReturn:
    """Note a definition that the stream has come to, and end the stream.

    :raises HeadwaterError: ``DELTA_STREAMING_METADATA_EVOLUTION``.
    """
    log = schema_log(Options(table.options), change.metadata.id, statement)
    if log is not None and table.checkpoint is not None:
        log.add(entry_of(change, table.checkpoint))
    _end(change)


def _end(change: VersionedDefinition) -> NoReturn:
    raise HeadwaterError(
        "DELTA_STREAMING_METADATA_EVOLUTION",
        {
            "version": change.version,
            "schema": change.schema.sql(),
            "config": ", ".join(f"{key}={value}" for key, value in sorted(change.metadata.configuration.items())),
            "protocol": str(change.protocol.to_json()["protocol"]),
        },
    )
