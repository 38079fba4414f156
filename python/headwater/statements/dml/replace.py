"""INSERT … REPLACE USING and REPLACE ON: new rows, in place of the rows of the table that match one of them.

In this order: cache the source, unless it only reads files; prune the table's files by the condition and the source's
keys; find the matching rows by a semi join and remove them from their files; insert all rows of the source; commit.
A source without rows removes nothing. USING compares with ``=``, so a null matches nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from headwater.basics.errors import HeadwaterError
from headwater.basics.suggestions import nearest
from headwater.bridge.messages.define import CommitAnswer
from headwater.bridge.messages.write import (
    ReplaceRequest,
    ReplaceTargetAnswer,
    ReplaceTargetRequest,
    ResolveWriteRequest,
)
from headwater.bridge.statement import Statement
from headwater.log.snapshot import Snapshot
from headwater.protocol.types import StructType, parse_schema
from headwater.pruning import prune_all
from headwater.sql.composing import FOR_SPARK, STAR, Column, Relation, select
from headwater.statements.calls import call, reads
from headwater.statements.dml.attempt import Attempt, check_appends_only, run
from headwater.statements.dml.ending import FileMetrics, end, note_reads
from headwater.statements.dml.identities import advance_identities, generated_identities
from headwater.statements.dml.join import every_source_row, join_all
from headwater.statements.dml.key_reads import exact_keys, key_reads, noting
from headwater.statements.dml.outcome import Effect, replace_rows, run_job
from headwater.statements.dml.request import DmlRequest
from headwater.statements.dml.rewrite import Output, compose_rewrite
from headwater.statements.dml.scan import scan_files, total_bytes
from headwater.statements.dml.source_keys import SourceKeys, read_source_keys, usable
from headwater.statements.dml.strategy import JOIN, ONE_TASK, SMALL_TARGET_BYTES
from headwater.statements.files.rows import SMALL_JOB_BYTES
from headwater.statements.files.stored_values import as_stored, columns_stored_otherwise, is_stored_otherwise
from headwater.statements.running.committing import skip_if_done
from headwater.statements.running.opening import Options, open_same
from headwater.statements.writes.criteria import Criteria, check_options_beside, replace_criteria
from headwater.statements.writes.evolving import grown_schema, may_evolve
from headwater.statements.writes.given_options import check_given
from headwater.statements.writes.insert import described_with, named_by_position, resolve_write


@reads
def replace_target(request: ReplaceTargetRequest, statement: Statement) -> ReplaceTargetAnswer:
    """The columns of table and rows that the statement is resolved against.

    :raises HeadwaterError: ``UNRESOLVED_INSERT_REPLACE_USING_COLUMN``,
        ``INSERT_REPLACE_USING_DISALLOW_MISALIGNED_COLUMNS``, those of the options and of :func:`resolve_write`.
    """
    options = Options(request.options)
    snapshot = open_same(request, statement, request.version)
    check_given(request.options, snapshot, statement, is_sql=request.is_sql)
    criteria = _criteria(request, options)
    source, evolves = parse_schema(request.source), may_evolve(options, statement)
    resolved = resolve_write(
        ResolveWriteRequest(
            table=request.table,
            name=request.name,
            version=request.version,
            schema=request.source,
            by_name=request.by_name,
            mode="overwrite",
            options={"mergeSchema": str(evolves).lower()},
        ),
        statement,
    )
    columns = parse_schema(resolved.schema)
    target = snapshot.schema
    if evolves:
        data = source if request.by_name else named_by_position(target, source)
        target = grown_schema(snapshot, data, statement, table_name=request.name)
    named = (source if request.by_name else columns).names
    return ReplaceTargetAnswer(
        target=described_with(snapshot, target),
        columns=resolved.schema,
        using=criteria.using,
        target_keys=[_position(name, snapshot.schema, "table") for name in criteria.using],
        source_keys=_source_keys(criteria.using, source, None if request.by_name else columns),
        condition=criteria.condition,
        alias=criteria.alias,
        # USING compares with `=`: an empty string matches nothing as it is, since the table has null in its place.
        stored_otherwise=[] if criteria.using else _stored_otherwise(snapshot, named, source),
        stored_as=as_stored(Column("value")).text(FOR_SPARK),
    )


def _criteria(request: ReplaceTargetRequest, options: Options) -> Criteria:
    if request.using or request.has_condition:
        check_options_beside(options, "REPLACE USING" if request.using else "REPLACE ON")
        return Criteria(request.using)
    criteria = replace_criteria(options)
    assert criteria is not None
    return criteria


def _position(name: str, schema: StructType, relation: str) -> int:
    """The position of a column.

    :param relation: ``table`` or ``query``, for people.
    :raises HeadwaterError: ``UNRESOLVED_INSERT_REPLACE_USING_COLUMN``.
    """
    folded = [column.name.lower() for column in schema]
    if name.lower() in folded:
        return folded.index(name.lower())
    names = nearest(name, schema.names, most=3) or schema.names
    raise HeadwaterError(
        "UNRESOLVED_INSERT_REPLACE_USING_COLUMN",
        {"colName": name, "relationType": relation, "suggestion": ", ".join(names)},
    )


def _stored_otherwise(snapshot: Snapshot, names: Sequence[str], rows: StructType) -> list[int]:
    """The positions, in the rows, of columns whose values are stored otherwise. No value of another type, like a number
    or a day, becomes a text that is.

    :param names: the table's names of the columns of the rows.
    """
    folded = {column.name.lower() for column in columns_stored_otherwise(snapshot.definition)}
    return [
        position
        for position, (name, column) in enumerate(zip(names, rows, strict=False))
        if name.lower() in folded and is_stored_otherwise(column)
    ]


def _source_keys(using: Sequence[str], source: StructType, by_position: StructType | None) -> list[int]:
    """The positions of columns in the rows to insert.

    :param by_position: the columns that the rows are to have, where these are matched by position.
    :raises HeadwaterError: ``INSERT_REPLACE_USING_DISALLOW_MISALIGNED_COLUMNS``.
    """
    positions = [_position(name, source, "query") for name in using]
    if by_position is None:
        return positions
    wanted = by_position.names
    folded = [name.lower() for name in wanted]
    misaligned = [
        name
        for name, position in zip(using, positions, strict=True)
        if position >= len(folded) or folded[position] != name.lower()
    ]
    if misaligned:
        raise HeadwaterError(
            "INSERT_REPLACE_USING_DISALLOW_MISALIGNED_COLUMNS",
            {"misalignedReplaceUsingCols": ", ".join(misaligned), "expected": ", ".join(wanted)},
        )
    return positions


@call(commits=True, in_transaction=True)
def replace(request: ReplaceRequest, statement: Statement) -> CommitAnswer:
    """Insert rows in place of those that match them."""
    wanted = DmlRequest(request.change, Options(request.options))
    return run(wanted, statement, lambda attempt: _replace(attempt, request))


def _replace(attempt: Attempt, asked: ReplaceRequest) -> CommitAnswer:
    request, statement, options = attempt.request, attempt.statement, attempt.request.options
    if skip_if_done(attempt.snapshot, options, statement):
        return CommitAnswer(version=attempt.snapshot.version, skipped=True)
    check_appends_only(attempt)
    assert request.message.source is not None
    files = _files(attempt, None)
    # A source is read for its keys, for the join and for the inserts. It must have the same rows each time.
    is_cached = files.num_rows > 0 and not (request.message.source_is_scan and request.message.source_deterministic)
    source = (
        statement.keep(select(STAR, rows=Relation(request.message.source)).text())
        if is_cached
        else request.message.source
    )
    keys = _keys(attempt, source, files)
    if keys is not None:
        files = _files(attempt, keys)
    exact = exact_keys(attempt)
    _note_reads(attempt, exact, keys, source if is_cached else None)
    # With deletion vectors, the log itself shows which rows were deleted.
    changes = attempt.writes_changes and not attempt.writes_vectors
    effect, deleted, change_files = Effect(), 0, []
    if files.num_rows:
        scanned = scan_files(attempt, files)
        is_small = total_bytes(files) + (request.message.source_bytes or 0) <= SMALL_JOB_BYTES
        strategy = ONE_TASK if is_small else JOIN
        matching = join_all(request.without_inserts(), scanned, Relation(source), strategy, changes=changes)
        statement.step("find rows to replace")
        job = run_job(attempt, compose_rewrite(attempt, matching.rows, matching.actions, Output(changes)), files)
        deleted, change_files = job.replaced, job.changes
        if job.positions:
            effect = replace_rows(attempt, scanned, job.positions)
    scan_time = attempt.milliseconds()
    # The job notes the keys of the rows that it reads, unless the cached source can be asked for them.
    rows = Relation(source) if is_cached else noting(Relation(source), exact)
    inserting = every_source_row(request, rows)
    identities = generated_identities(attempt)
    output = Output(bool(change_files), identities)
    rewrite = compose_rewrite(attempt, inserting.rows, inserting.actions, output)
    statement.last_step("insert the new rows")
    inserted = run_job(attempt, rewrite, files)
    if identities:
        advance_identities(attempt, identities, inserted)
    attempt.txn.add(inserted.written.files)
    for change in [*change_files, *inserted.changes]:
        attempt.txn.add_action(change)
    num_changes = len(change_files) + len(inserted.changes)
    metrics = FileMetrics.of(attempt, effect, files, [inserted.written], num_changes, scan_time).named()
    metrics |= {
        # What a write calls them.
        "numFiles": metrics.pop("numAddedFiles"),
        "numOutputBytes": metrics.pop("numAddedBytes"),
        "numOutputRows": inserted.written.rows + effect.copied.rows,
        "numDeletedRows": deleted,
    }
    return end(attempt, "WRITE", _parameters(attempt, asked), metrics, None)


def _files(attempt: Attempt, keys: SourceKeys | None) -> pa.Table:
    """The files that may have matching rows; rows of ``snapshot.files``."""
    predicates = [*attempt.request.predicates, *(keys.predicates if keys is not None else ())]
    files = attempt.snapshot.files
    return files.filter(prune_all(attempt.snapshot, predicates)) if predicates else files


def _keys(attempt: Attempt, source: int, files: pa.Table) -> SourceKeys | None:
    """What is known of the source's keys; None where to read them would cost more than it saves."""
    keys = usable(attempt.request.keys)
    if not keys or files.num_rows < 2 or total_bytes(files) <= SMALL_TARGET_BYTES:
        return None
    attempt.statement.step("read the source's keys")
    return read_source_keys(attempt.statement, source, keys)


def _note_reads(attempt: Attempt, exact: Sequence[Any], keys: SourceKeys | None, cached: int | None) -> None:
    """Note the rows the result depends on: those with the source's keys, where it has keys."""
    predicates = [*attempt.request.predicates, *(keys.predicates if keys is not None else ())]
    if exact:
        attempt.txn.read_keys(key_reads(attempt, exact, cached), predicates)
    else:
        note_reads(attempt, predicates)


def _parameters(attempt: Attempt, asked: ReplaceRequest) -> dict[str, Any]:
    parameters: dict[str, Any] = {"mode": "Overwrite", "partitionBy": list(attempt.snapshot.partition_columns)}
    if may_evolve(attempt.request.options, attempt.statement):
        parameters["canMergeSchema"] = True
    if asked.using:
        parameters["replaceUsingCols"] = f"({','.join(asked.using)})"
    else:
        parameters["replaceOnCond"] = asked.condition or attempt.request.message.condition_text
    return parameters
