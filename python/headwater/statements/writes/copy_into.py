"""COPY INTO: the rows of files, each of which is loaded once.

Owns what becomes of the files that a statement names: which of them are new (:mod:`.copy_state`), with which columns
they are read, and the commit. Promises:

1. A file's rows and the note that the file was loaded are in one commit, or in none. Statements that run at once never
   load a file twice: one of them loses, and runs again without the files that the other has loaded.
2. No file is loaded by half: one that Spark cannot read ends the statement, or contributes no row and stays new.
3. Rows are cast, completed and checked as those of an INSERT BY NAME.
4. A value that does not fit its column is an error, and no null, unless an option of the reader says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from headwater.basics import clock
from headwater.basics.amounts import size_text
from headwater.basics.errors import HeadwaterError, illegal_option
from headwater.basics.redaction import without_credentials
from headwater.bridge.messages.define import CommitAnswer, RowsAnswer
from headwater.bridge.messages.load import (
    CopyArguments,
    CopyColumns,
    CopyColumnsRequest,
    CopyIntoRequest,
    CopyIntoValidateRequest,
    ExplainCopyIntoRequest,
    Placement,
)
from headwater.bridge.statement import Statement
from headwater.definition.changes import numbered
from headwater.log.snapshot import Snapshot
from headwater.protocol.types import (
    PrimitiveType,
    StructField,
    StructType,
    parse_schema,
    schema_string,
)
from headwater.schema import visible
from headwater.statements.calls import own_statement, reads
from headwater.statements.expressions import number_of, texts_of
from headwater.statements.files.parts_of_rows import RowsPart, check_parts, parts_of, write_parts
from headwater.statements.files.quarantine import settle
from headwater.statements.files.rows import Target, Written
from headwater.statements.running.committing import commit, transaction
from headwater.statements.running.opening import Options, open_snapshot
from headwater.statements.running.rerunning import RETRIED, run_again_after_losses
from headwater.statements.writes import copy_state
from headwater.statements.writes.copy_state import CopyState, entries_of, state_of
from headwater.statements.writes.evolving import may_evolve, widens
from headwater.statements.writes.insert import evolve_metadata
from headwater.statements.writes.source_columns import merged_columns
from headwater.statements.writes.source_files import Asked, Source, SourceFile, find_files, plain_path, total_size
from headwater.statements.writes.source_rows import SourceRows
from headwater.transaction import Transaction
from headwater.transaction.commit_info import Provenance

_LONG, _STRING = PrimitiveType("long"), PrimitiveType("string")
COPY_SCHEMA = StructType(
    tuple(
        StructField(name, _LONG, nullable=False)
        for name in ("num_affected_rows", "num_inserted_rows", "num_skipped_corrupt_files")
    )
)
_EXPLAIN_SCHEMA = StructType((StructField("plan", _STRING, nullable=False),))
_FORMATS = ("csv", "json", "xml", "parquet", "avro", "orc", "text", "binaryFile")
#: Options of Databricks' reader that Spark's does not have, and what to use.
_NOT_HERE = ("badrecordspath", "rescueddatacolumn")
_INSTEAD = "is not an option of Spark's readers. Use 'mode' = 'PERMISSIVE' with columnNameOfCorruptRecord"
_RETRIED = RETRIED | {"DELTA_CONCURRENT_TRANSACTION"}
#: How many rows VALIDATE shows, as in Databricks; and how many files EXPLAIN names.
_MOST_SHOWN, _MOST_NAMED = 50, 10


@own_statement("copy_into", output=COPY_SCHEMA, commits=True, in_transaction=True)
def copy_into(request: CopyIntoRequest, statement: Statement) -> CommitAnswer:
    """Load the files that are new. One row of :data:`COPY_SCHEMA`; no commit if there is no new file.

    :raises HeadwaterError: ``HEADWATER_COPY_NO_FILES``, ``HEADWATER_COPY_FILE_NOT_READ``,
        ``HEADWATER_COPY_TYPES_DIFFER``, ``HEADWATER_COPY_STATE_LOST``, ``COPY_INTO_SOURCE_FILE_FORMAT_NOT_SUPPORTED``,
        ``COPY_INTO_COLUMN_ARITY_MISMATCH``, ``DELTA_ILLEGAL_OPTION``;
        those of an INSERT and of a commit. An error of Spark's own if it cannot read a file.
    """
    copying = _Copying(request, statement)
    return run_again_after_losses(request.table, statement, copying.attempt, waits_for_others=False, retried=_RETRIED)


@own_statement("copy_into", output=None, commits=False, in_transaction=True)
def copy_into_validate(request: CopyIntoValidateRequest, statement: Statement) -> RowsAnswer:
    """Check the rows of the files that are new as COPY INTO would, and write nothing. Some of the rows, as they would
    be stored.

    :raises HeadwaterError: as :func:`copy_into`.
    """
    copying = _Copying(request, statement)
    validate = request.arguments.validate or "ALL"
    most = None if validate == "ALL" else _rows_of(validate, statement)
    return RowsAnswer(rows=copying.validated(most))


@reads
def copy_columns(request: CopyColumnsRequest, statement: Statement) -> CopyColumns:
    """The columns of the rows of VALIDATE.

    :raises HeadwaterError: as :func:`copy_into`.
    """
    found = _Copying(request, statement).found()
    return CopyColumns(schema=schema_string(visible.for_reading(found.target.schema)))


@own_statement("copy_into", output=_EXPLAIN_SCHEMA, commits=False, in_transaction=True)
def explain_copy_into(request: ExplainCopyIntoRequest, statement: Statement) -> RowsAnswer:
    """Which files a COPY INTO would load. No file is read.

    :raises HeadwaterError: as :func:`copy_into`, but for those of rows.
    """
    return RowsAnswer(rows=[{"plan": _Copying(request, statement).explained()}])


class _Found(NamedTuple):
    """The rows of new files, as rows of the table as it will be."""

    txn: Transaction
    target: Target
    parts: list[RowsPart]


@dataclass(frozen=True)
class _Listing:
    """The files of a statement: those that it finds, and of these the ones to load."""

    snapshot: Snapshot
    state: CopyState
    source: Source
    new: Sequence[SourceFile]

    @cached_property
    def seen(self) -> pa.Array:
        """The paths of all files that it finds."""
        return pa.array([file.path for file in self.source.files], pa.string())


_AnyRequest = CopyIntoRequest | CopyIntoValidateRequest | ExplainCopyIntoRequest | CopyColumnsRequest


class _Copying:
    """One statement. Its options are evaluated once; files are listed by each attempt."""

    def __init__(self, request: _AnyRequest, statement: Statement) -> None:
        self._request, self._statement = request, statement
        given = request.arguments
        values = iter(texts_of(_expressions(given), statement))
        self._path = next(values)
        names = None if given.files is None else [next(values) for _ in given.files]
        pattern = None if given.pattern is None else next(values)
        self._reader = {next(values): next(values) for _ in given.format_options}
        self._given = Options({next(values): next(values) for _ in given.copy_options})
        self._format = _format_of(given.format)
        reader = Options(self._reader)
        self._asked = Asked(request.name, self._path, names, pattern, reader)
        self._skips_damaged = reader.flag("ignoreCorruptFiles") is True
        self._damaged: set[str] = set()
        self._force = self._given.flag("force") is True
        self._merges = self._given.flag("mergeSchema")
        self._check(given, reader)

    def _check(self, given: CopyArguments, reader: Options) -> None:
        for name in self._given:
            if name not in ("force", "mergeschema"):
                # Its value may be a secret that belongs to another list.
                raise illegal_option(name, "***", "is none of COPY_OPTIONS, which are force, mergeSchema")
        for name, value in self._reader.items():
            if name.lower() in _NOT_HERE:
                raise illegal_option(name, value, _INSTEAD)
        positional = given.by_position or given.columns is not None
        if positional and given.select is None:
            if self._format != "csv":
                raise illegal_option("FILEFORMAT", given.format, "must be CSV if columns are matched by position")
            if reader.flag("header"):
                raise illegal_option("header", reader["header"], "must be false if columns are matched by position")

    def attempt(self) -> CommitAnswer:
        """Load the files that are new in the table's newest version."""
        statement, began = self._statement, clock.milliseconds()
        while True:
            listing = self._listing()
            if not listing.new and not listing.state.is_ageing(listing.seen, began):
                return CommitAnswer(version=listing.snapshot.version, rows=[self._row(0)])
            try:
                found = self._rows(listing)
                written = write_parts(statement, found.target, found.parts, self._given)
                break
            except Exception as error:
                if not self._notes_damaged(error, listing):
                    raise
                statement.discard()
        return self._commit(listing, found, written, began)

    def _listing(self) -> _Listing:
        statement = self._statement
        snapshot = open_snapshot(self._request.table, statement)
        source = find_files(self._asked, statement)
        state = self._state(snapshot)
        files = [file for file in source.files if file.path not in self._damaged]
        if not self._force and state.parts and files:
            known = pc.is_in(pa.array([file.path for file in files], pa.string()), value_set=state.paths).to_pylist()
            files = [file for file, is_known in zip(files, known, strict=True) if not is_known]
        return _Listing(snapshot, state, source, files)

    def _state(self, snapshot: Snapshot) -> CopyState:
        try:
            return state_of(snapshot)
        except HeadwaterError as error:
            if error.condition != "HEADWATER_COPY_STATE_LOST" or not self._force:
                raise
            return copy_state.lost_state_of(snapshot)

    def _rows(self, listing: _Listing) -> _Found:
        """The rows of the new files, and the table's definition with the columns that they bring."""
        snapshot, statement = listing.snapshot, self._statement
        txn = transaction(self._request.table, statement, snapshot)
        given = self._request.arguments
        if not listing.new:
            return _Found(txn, Target(snapshot.table_path, txn.definition), [])
        rows = SourceRows(
            statement,
            given,
            self._request.name,
            snapshot.schema,
            self._format,
            self._reader,
            listing.source.folder,
            listing.new,
        )
        plans = rows.plans()
        found = [parse_schema(statement.plan_schema(plan)) for plan in plans]
        evolves = may_evolve(Options(self._placing), statement)
        merged = merged_columns(found, snapshot.schema, widens=evolves and widens(snapshot))
        placed = [self._placed(plan, own, merged, snapshot) for plan, own in zip(plans, found, strict=True)]
        if given.select is not None and given.select.upper().count("SELECT") > 1:
            # A subquery may read this table, at whatever version is the newest when it runs.
            txn.read_whole_table()
        parts, columns = parts_of(statement, placed)
        if parts:
            evolve_metadata(txn, snapshot, columns, Options(self._placing), statement, overwrites_schema=False)
        return _Found(txn, Target(snapshot.table_path, txn.definition), parts)

    @property
    def _placing(self) -> dict[str, str]:
        """What the options of a writer say of the table's columns."""
        return {} if self._merges is None else {"mergeSchema": str(self._merges).lower()}

    def _placed(self, plan: int, own: StructType, merged: StructType, snapshot: Snapshot) -> int:
        """The plan with the columns of the table, and with the new ones that other plans bring.

        :param own: its columns; ``merged``: those of all plans.
        """
        given = self._request.arguments
        by_name = not (given.select is not None and given.by_position)
        brings = [
            field for field in merged if own.find(field.name) is not None or snapshot.schema.find(field.name) is None
        ]
        placement = Placement(
            plan=plan,
            table=snapshot.table_path,
            version=snapshot.version,
            schema=schema_string(StructType(tuple(brings))),
            by_name=by_name,
            options=self._placing,
        )
        return self._statement.add_placement(placement)

    def _notes_damaged(self, error: Exception, listing: _Listing) -> bool:
        """Whether an error is about a file that is damaged, and that the statement goes on without."""
        path = self._statement.damaged_file(error) if self._skips_damaged else None
        if path is None:
            return False
        there = {file.path for file in listing.new}
        # Some of Spark's errors have the path as a URI.
        damaged = next((each for each in (plain_path(path), plain_path(unquote(path))) if each in there), None)
        if damaged is None:
            return False
        self._damaged.add(damaged)
        return True

    def _commit(self, listing: _Listing, found: _Found, written: Written, began: int) -> CommitAnswer:
        statement, txn, state = self._statement, found.txn, listing.state
        if written.schema is not None:
            txn.redefine(numbered(txn.definition, written.schema))
        txn.add(written.files)
        settle(statement, txn, found.target, written.violations, "COPY INTO", name=self._request.name)
        now = clock.milliseconds()
        loaded = entries_of([(file.path, file.size, file.modified) for file in listing.new], now)
        entries, older = state.grown(loaded, listing.seen, now)
        known = listing.snapshot.set_transactions.get(state.application)
        number = copy_state.write(state, txn.store, entries, older, -1 if known is None else known.version)
        txn.set_transaction(state.application, number)
        metrics = {
            "numFiles": len(written.files),
            "numOutputRows": written.rows,
            "numOutputBytes": written.bytes,
            "numLoadedFiles": len(listing.new),
            "numLoadedBytes": total_size(listing.new),
            "numSkippedFiles": len(listing.source.files) - len(listing.new) - len(self._damaged),
            "numSkippedCorruptFiles": len(self._damaged),
            "executionTimeMs": now - began,
        }
        parameters = {
            "source": without_credentials(self._path),
            "format": self._format,
            "force": str(self._force).lower(),
        }
        done = commit(txn, statement, Provenance("COPY INTO", parameters, metrics), rows=[self._row(written.rows)])
        if len(older) < len(state.parts) and not txn.store.is_provisional:
            copy_state.delete_outdated(state, listing.snapshot, [number, *(each for each, _ in older)])
        return done

    def _row(self, rows: int) -> dict[str, Any]:
        return dict(zip(COPY_SCHEMA.names, (rows, rows, len(self._damaged)), strict=True))

    def found(self) -> _Found:
        """The rows that VALIDATE checks."""
        while True:
            listing = self._listing()
            try:
                return self._rows(listing)
            except Exception as error:
                if not self._notes_damaged(error, listing):
                    raise

    def validated(self, most: int | None) -> list[dict[str, Any]]:
        """Check rows, and return the first of them.

        :param most: how many are checked; None for all.
        """
        statement = self._statement
        while True:
            listing = self._listing()
            try:
                found = self._rows(listing)
                return check_parts(statement, found.target, found.parts, self._given, checked=most, shown=_MOST_SHOWN)
            except Exception as error:
                if not self._notes_damaged(error, listing):
                    raise

    def explained(self) -> str:
        """EXPLAIN of the statement."""
        listing = self._listing()
        skipped = len(listing.source.files) - len(listing.new)
        lines = [
            f"COPY INTO {self._request.name}",
            f"  from {without_credentials(self._path)}, format {self._format}",
            f"  files found: {len(listing.source.files)}",
            f"  files to load: {len(listing.new)}, {size_text(total_size(listing.new))}",
            f"  files to skip, as they were loaded before: {skipped}",
        ]
        if self._force:
            lines.append("  force = true: files that were loaded before are loaded again")
        lines += [f"    {without_credentials(file.path)}" for file in listing.new[:_MOST_NAMED]]
        if len(listing.new) > _MOST_NAMED:
            lines.append(f"    and {len(listing.new) - _MOST_NAMED} more")
        return "\n".join(lines)


def _expressions(given: CopyArguments) -> list[str]:
    """The texts whose values a statement needs, in one order."""
    pattern = [] if given.pattern is None else [given.pattern]
    options = [text for pair in (*given.format_options, *given.copy_options) for text in pair]
    return [given.source, *(given.files or ()), *pattern, *options]


def _format_of(named: str) -> str:
    for known in _FORMATS:
        if named.lower() == known.lower():
            return known
    formats = ", ".join(known.upper() for known in _FORMATS)
    raise HeadwaterError("COPY_INTO_SOURCE_FILE_FORMAT_NOT_SUPPORTED", {"format": named, "formats": formats})


def _rows_of(text: str, statement: Statement) -> int:
    number = number_of(text, statement)
    if not number.isdecimal():
        raise illegal_option("VALIDATE … ROWS", number, "must be a whole number")
    return int(number)
