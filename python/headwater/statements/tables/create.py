"""CREATE TABLE and REPLACE TABLE, with and without AS SELECT, and a save to a new path.

The definition and the rows are one commit. If the location already holds a Delta table, a statement that creates a name
adopts it if the declaration agrees with it, and fails if it does not. CREATE OR REPLACE replaces only the table that
has the statement's name or path: never one that merely lies where a new name is to be.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

from headwater.basics.errors import HeadwaterError
from headwater.bridge.messages.define import CheckSamePlaceRequest, CommitAnswer, CreateTableRequest
from headwater.bridge.statement import Statement
from headwater.definition.changes import numbered
from headwater.definition.requirements import without_protocol_properties
from headwater.log.snapshot import Snapshot, table_exists
from headwater.protocol.columns import quote
from headwater.protocol.properties import for_new_table
from headwater.protocol.table_definition import TableDefinition
from headwater.protocol.types import parse_schema
from headwater.schema.difference import describe_difference
from headwater.statements.calls import call
from headwater.statements.files.judging import Violations
from headwater.statements.files.quarantine import settle
from headwater.statements.files.rows import Target, Written, write_rows
from headwater.statements.known_options import check_options
from headwater.statements.running.committing import commit, idempotence, removals, skip_if_done, transaction
from headwater.statements.running.created_tables import check_creatable, note_created
from headwater.statements.running.opening import CACHE, Location, Options, locate
from headwater.statements.tables.definition import SAVES_AS_TABLE, declared_schema, define
from headwater.statements.writes.criteria import asks_to_replace
from headwater.statements.writes.given_options import ignore_properties, properties_in
from headwater.stores.interface import FileInfo
from headwater.transaction.commit_info import Provenance


def create_table(request: CreateTableRequest, statement: Statement) -> CommitAnswer:
    """Create or replace a table, with the rows of a plan if there is one."""
    planned = plan(request, statement)
    return planned if isinstance(planned, CommitAnswer) else planned.write().commit()


def plan(request: CreateTableRequest, statement: Statement) -> Creation | CommitAnswer:
    """What a statement creates or replaces; the answer if nothing is left to do: the table is as declared, or the
    write was made before.
    """
    location = locate(request.table, statement)
    options = Options(request.options)
    check_options(request.options)
    exists = table_exists(location.path, location.store)
    check_creatable(request, statement, exists=exists)
    # The place that a catalog gives a name by default is that name's own, even if the catalog has lost the name.
    creates_name = request.mode == "create" or not (request.known or not request.external)
    if exists and creates_name:
        return _adopt(request, location, statement)
    if exists and request.plan is None and not len(parse_schema(request.schema)):
        raise HeadwaterError("DELTA_SCHEMA_NOT_PROVIDED", {"tableName": request.name or location.path})
    snapshot = CACHE.get(location.path, location.store) if exists else None
    if snapshot is None:
        check_empty(location, statement)
    elif request.plan is not None and skip_if_done(snapshot, options, statement):
        return CommitAnswer(version=snapshot.version, skipped=True)
    if asks_to_replace(options):
        if request.save_mode is None and not options.flag(SAVES_AS_TABLE):
            raise HeadwaterError("DELTA_DFV2_CREATE_REPLACE_INCOMPATIBLE_REPLACE_ON_OR_USING", {})
        if snapshot is None:
            raise HeadwaterError("DELTA_PATH_DOES_NOT_EXIST", {"path": location.path})
    if snapshot is not None:
        snapshot.check_readable()
    if snapshot is not None and request.save_mode is not None:
        ignore_properties(request.options, snapshot, statement)
    else:
        request.properties |= properties_in(request.options)
    return Creation(request, statement, options, location, snapshot)


class Creation:
    """A table that is about to be created or replaced.

    Its transaction has the new definition and has removed the files of before; :meth:`write` adds the rows, and
    :meth:`commit` makes all of it one version.

    :param replaced: the table that was there; None if it is a new one.
    """

    def __init__(
        self,
        request: CreateTableRequest,
        statement: Statement,
        options: Options,
        location: Location,
        replaced: Snapshot | None,
    ) -> None:
        self._request, self._statement, self._options, self._location = request, statement, options, location
        self._replaced = replaced
        self._written: Written | None = None
        self._declared = define(request, location, statement, replaced)
        self.txn = transaction(request.table, statement, replaced)
        self.txn.redefine(self._declared)
        if replaced is not None:
            self.txn.read_whole_table()
            self.txn.remove(removals(replaced.files))

    @property
    def target(self) -> Target:
        """The table as it will be."""
        return Target(self._location.path, self.txn.definition)

    def write(self, plan: int | None = None, turned_away: Violations | None = None) -> Creation:
        """Write the rows of the statement's plan, if it has one.

        :param plan: the number of a plan to write instead, whose columns are those of the request.
        :param turned_away: what became of rows that are not among them.
        """
        request, txn = self._request, self.txn
        if request.plan is None or request.row_schema is None:
            return self
        self._location.store.make_directory(self._location.path)
        # Rows of CREATE … AS SELECT come in the declared order, whatever case their names have.
        declared = txn.metadata.schema
        rows = parse_schema(request.row_schema)
        provided = [found.name if (found := declared.find(f.name)) is not None else f.name for f in rows]
        target, plan = self.target, request.plan if plan is None else plan
        self._written = written = write_rows(self._statement, target, plan, provided, self._options)
        if turned_away is not None:
            written.violations.add(turned_away)
        if written.schema is not None:
            txn.redefine(numbered(txn.definition, written.schema))
        txn.add(written.files)
        settle(self._statement, txn, target, written.violations, _operation(request), name=_quoted_name(request))
        return self

    def commit(self) -> CommitAnswer:
        """Make it a version, and have the catalog learn of it if a transaction is open."""
        request, written = self._request, self._written
        metrics = _metrics(written, self._replaced) if written is not None else {}
        parameters = _parameters(request, self._declared)
        provenance = Provenance(_operation(request), parameters, metrics, self._options.user_metadata)
        application = None if written is None else idempotence(self._options, self._statement)
        committed = commit(self.txn, self._statement, provenance, application=application)
        note_created(request, self._statement)
        return committed


def _quoted_name(request: CreateTableRequest) -> str | None:
    """The table's name as writers to a table that is there have it; None for a table known by its path."""
    if request.name is None:
        return None
    own = request.identifier[-2:]
    # The name says in which catalog it is, unless that is the session's.
    catalog = request.name.removesuffix(".".join(own)).removesuffix(".")
    return quote([catalog or "spark_catalog", *own])


def _metrics(written: Written, replaced: Snapshot | None) -> dict[str, int | str]:
    metrics: dict[str, int | str] = {
        "numFiles": len(written.files),
        "numOutputRows": written.rows,
        "numOutputBytes": written.bytes,
    }
    if replaced is not None:
        metrics["numRemovedFiles"] = replaced.num_files
        metrics["numRemovedBytes"] = replaced.size_in_bytes
    return metrics


def _operation(request: CreateTableRequest) -> str:
    if request.save_mode is not None:
        return "WRITE"
    kind = {"create": "CREATE TABLE", "replace": "REPLACE TABLE", "create_or_replace": "CREATE OR REPLACE TABLE"}[
        request.mode
    ]
    return kind if request.plan is None else f"{kind} AS SELECT"


def _parameters(request: CreateTableRequest, definition: TableDefinition) -> dict[str, Any]:
    metadata = definition.metadata
    partitioning = list(metadata.partition_columns)
    if request.save_mode is not None:
        return {"mode": request.save_mode, "partitionBy": partitioning}
    return {
        "partitionBy": partitioning,
        "clusterBy": [".".join(path) for path in definition.clustering_columns or ()],
        "description": metadata.description,
        "isManaged": "false" if request.external else "true",
        "properties": dict(metadata.configuration),
    }


def check_empty(location: Location, statement: Statement, is_own: Callable[[str], bool] = lambda name: False) -> None:
    """A new table's directory must not hold files that are not its own; those of a cancelled write are on their way
    out.

    :param is_own: whether a file of a name is one of the table's own.
    """
    files = _data_files(location, is_own)
    if files and statement.settled(location.path):
        files = _data_files(location, is_own)
    if files:
        raise HeadwaterError(
            "DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION", {"tableLocation": location.path, "example": files[0].name}
        )


def _data_files(location: Location, is_own: Callable[[str], bool]) -> list[FileInfo]:
    try:
        found = location.store.list_from(location.path, "")
        return [f for f in found if not (f.name.startswith((".", "_")) or is_own(f.name))]
    except FileNotFoundError:
        return []


@call(commits=False, in_transaction=False, words="CREATE TABLE … LOCATION")
def check_same_place(request: CheckSamePlaceRequest, statement: Statement) -> None:
    """A table stays where it is: LOCATION may only say the same place, in any spelling.

    :raises HeadwaterError: ``DELTA_TABLE_LOCATION_MISMATCH`` for a name that the catalog has, else
        ``DELTA_AMBIGUOUS_PATHS_IN_CREATE_TABLE``.
    """
    if _place(request.table) == _place(request.other):
        return
    if request.name is None:
        raise HeadwaterError(
            "DELTA_AMBIGUOUS_PATHS_IN_CREATE_TABLE", {"identifier": request.table, "location": request.other}
        )
    raise HeadwaterError(
        "DELTA_TABLE_LOCATION_MISMATCH",
        {"tableName": request.name, "existingTableLocation": request.table, "tableLocation": request.other},
    )


def _place(path: str) -> str:
    """One spelling of a path: links of the local file system are followed; the schemes of S3 reach the same buckets."""
    if path.startswith("/"):
        return os.path.realpath(path)
    return re.sub(r"^s3[an]?://", "s3://", path).rstrip("/")


def _adopt(request: CreateTableRequest, location: Location, statement: Statement) -> CommitAnswer:
    """CREATE TABLE over a table that is there: nothing is committed, and what is declared must be what is there.

    :raises HeadwaterError: ``DELTA_TABLE_ALREADY_EXISTS`` with rows to write; ``DELTA_CREATE_TABLE_SCHEME_MISMATCH``,
        ``DELTA_CREATE_TABLE_WITH_DIFFERENT_PARTITIONING``, ``DELTA_CREATE_TABLE_WITH_DIFFERENT_PROPERTY``.
    """
    snapshot = CACHE.get(location.path, location.store)
    snapshot.check_readable()
    if request.plan is not None or request.save_mode is not None:
        name = request.name or f"delta.`{location.path}`"
        advice = (
            f"To write its rows, use INSERT or CREATE OR REPLACE TABLE delta.`{location.path}`; to give it the name, "
            f"run CREATE TABLE {name} USING delta LOCATION '{location.path}' without columns."
            if request.name is not None
            else "Use CREATE OR REPLACE TABLE, INSERT INTO, or another location."
        )
        raise HeadwaterError("DELTA_TABLE_ALREADY_EXISTS", {"tableName": name, "path": location.path, "advice": advice})
    declared = parse_schema(request.schema)
    if len(declared):
        differences = describe_difference(declared_schema(request, statement), snapshot.schema)
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
        partitioning = [name.lower() for name in request.partition_columns]
        if partitioning != [name.lower() for name in snapshot.partition_columns]:
            raise HeadwaterError(
                "DELTA_CREATE_TABLE_WITH_DIFFERENT_PARTITIONING",
                {
                    "path": location.path,
                    "specified": ", ".join(request.partition_columns) or "none",
                    "existing": ", ".join(snapshot.partition_columns) or "none",
                },
            )
    existing = {key.lower(): value for key, value in snapshot.metadata.configuration.items()}
    for key, value in without_protocol_properties(for_new_table(request.properties, {})).items():
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
    return CommitAnswer(version=snapshot.version)
