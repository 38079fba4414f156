"""CREATE INDEX, DROP INDEX, REFRESH INDEX and SHOW INDEXES: the key indexes of a table.

Owns these statements. Promises: an index is declared in a commit of its own, which stops no writer, before its entries
are built. If that fails, or ends with its process, the index stays, files without entries are read as before, and
REFRESH INDEX builds what is missing. DROP INDEX commits before it deletes the index's files, which nothing needs
then: a file that cannot be deleted is only a warning.
"""

from __future__ import annotations

from collections.abc import Sequence

from py4j.protocol import Py4JJavaError

from headwater.basics.errors import HeadwaterError, plain_reason
from headwater.basics.suggestions import did_you_mean
from headwater.bridge.messages.define import CommitAnswer, RowsAnswer
from headwater.bridge.messages.maintain import (
    CreateIndexRequest,
    DropIndexRequest,
    RefreshIndexRequest,
    ShowIndexesRequest,
)
from headwater.bridge.statement import Statement
from headwater.key_index import segments
from headwater.key_index.definition import Declared, KeyIndex, check, check_number, declared, indexes, invalid
from headwater.log.snapshot import Snapshot
from headwater.protocol.columns import format_name, sql_name
from headwater.protocol.index_properties import index_name, property_of, property_value
from headwater.protocol.table_definition import TableDefinition
from headwater.protocol.types import PrimitiveType, StructField, StructType
from headwater.schema.keys import enforced_key
from headwater.statements.calls import own_statement
from headwater.statements.maintenance import key_indexes
from headwater.statements.maintenance.findings import in_statements
from headwater.statements.running.committing import check_target
from headwater.statements.running.opening import open_snapshot
from headwater.statements.tables.alter_commit import alter
from headwater.statements.tables.draft import Draft, Operation

_STRING, _LONG = PrimitiveType("string"), PrimitiveType("long")
#: What was built: data files and their rows that have new entries, and the bytes of these.
BUILT_SCHEMA = StructType.of(index=_STRING, files=_LONG, rows=_LONG, bytes=_LONG)
#: ``coveredFiles`` of ``files`` have entries; these are in ``segments``, of ``bytes``. ``problem``: why the index does
#: not count.
INDEXES_SCHEMA = StructType(
    (
        StructField("index", _STRING, nullable=False),
        StructField("columns", _STRING, nullable=False),
        StructField("coveredFiles", _LONG),
        StructField("files", _LONG),
        StructField("segments", _LONG),
        StructField("bytes", _LONG),
        StructField("problem", _STRING),
    )
)
#: Of a statement that finds its index there: it makes no commit.
_NOTHING = Operation("CREATE INDEX", {})


@own_statement("indexes", output=BUILT_SCHEMA, commits=True, in_transaction=False, words="CREATE INDEX")
def create_index(request: CreateIndexRequest, statement: Statement) -> CommitAnswer:
    """Declare an index and build its entries: one row. If it exists, IF NOT EXISTS builds what is missing.

    :raises HeadwaterError: ``HEADWATER_INVALID_INDEX``, ``HEADWATER_INDEX_ALREADY_EXISTS``,
        ``HEADWATER_INDEX_NOT_BUILT``, ``HEADWATER_INDEX_NOT_WRITTEN``, those of a commit.
    """
    asked = request.arguments
    _refuse_clauses(asked.index, asked.kind, has_options=asked.has_options)
    columns = _top_level(asked.index, asked.columns)

    def declare(draft: Draft) -> Operation:
        there = _find(draft.definition, asked.index)
        if there is not None:
            if asked.if_not_exists:
                return _NOTHING
            named = {"index": there.name, "tableName": request.name, "columns": there.columns}
            raise HeadwaterError("HEADWATER_INDEX_ALREADY_EXISTS", named | {"statement": _refresh(there.name, request)})
        made = check(draft.definition, asked.index, columns)
        found = [column.name for column in made.columns]
        draft.set_configuration({**draft.metadata.configuration, property_of(made.name): property_value(found)})
        check_number(draft.definition, made.name)
        return Operation("CREATE INDEX", {"name": made.name, "columns": found})

    # The entries are built after the commit.
    answer = alter(request.table, request.name, statement, declare, is_last=False)
    snapshot = open_snapshot(request.table, statement)
    row = _built(request, statement, snapshot, _counting(snapshot, asked.index, request))
    return CommitAnswer(version=answer.version, rows=[row])


@own_statement("indexes", output=None, commits=True, in_transaction=False, words="DROP INDEX")
def drop_index(request: DropIndexRequest, statement: Statement) -> CommitAnswer:
    """Remove an index and its files.

    :raises HeadwaterError: ``HEADWATER_INDEX_NOT_FOUND``, ``HEADWATER_INDEX_IS_NEEDED``, those of a commit.
    """
    asked = request.arguments
    found = False

    def remove(draft: Draft) -> Operation:
        nonlocal found
        there = _find(draft.definition, asked.index)
        found = found or there is not None
        _refuse_needed(draft, there, request.name)
        if there is None and not found and not asked.if_exists:
            raise _not_found(asked.index, draft.definition, request.name)
        kept = {k: v for k, v in draft.metadata.configuration.items() if index_name(k) != asked.index.lower()}
        draft.set_configuration(kept)
        return Operation("DROP INDEX", {"name": asked.index.lower()})

    # The files go after the commit, as those of any index that ends.
    return alter(request.table, request.name, statement, remove)


@own_statement("indexes", output=BUILT_SCHEMA, commits=False, in_transaction=False, words="REFRESH INDEX")
def refresh_index(request: RefreshIndexRequest, statement: Statement) -> RowsAnswer:
    """Build the entries that an index lacks, or all indexes that count: a row of :data:`BUILT_SCHEMA` for each.

    :raises HeadwaterError: ``HEADWATER_INDEX_NOT_FOUND``, ``HEADWATER_INVALID_INDEX``, ``HEADWATER_INDEX_NOT_BUILT``.
    """
    snapshot = open_snapshot(request.table, statement)
    check_target(request.table, statement, snapshot)
    name = request.arguments.index
    found = indexes(snapshot.definition) if name is None else [_counting(snapshot, name, request)]
    return RowsAnswer(rows=[_built(request, statement, snapshot, index) for index in found])


@own_statement("indexes", output=INDEXES_SCHEMA, commits=False, in_transaction=False, words="SHOW INDEXES")
def show_indexes(request: ShowIndexesRequest, statement: Statement) -> RowsAnswer:
    """A row of :data:`INDEXES_SCHEMA` for each index of a table, by name. What an index that does not count covers is
    null.
    """
    snapshot = open_snapshot(request.table, statement)
    return RowsAnswer(rows=[_shown(snapshot, each) for each in declared(snapshot.definition)])


_Request = CreateIndexRequest | RefreshIndexRequest


def _shown(snapshot: Snapshot, each: Declared) -> dict[str, str | int | None]:
    row: dict[str, str | int | None] = {"index": each.name, "columns": each.columns, "problem": each.problem or None}
    if each.key_index is not None:
        covered = segments.coverage(snapshot, each.key_index)
        row |= {"coveredFiles": covered.files, "files": covered.all_files}
        row |= {"segments": covered.segments, "bytes": covered.size}
    return row


def _built(request: _Request, statement: Statement, snapshot: Snapshot, index: KeyIndex) -> dict[str, str | int]:
    statement.step(f"build the index {index.name}")
    try:
        built = key_indexes.build(statement, snapshot, index)
    except Py4JJavaError as error:
        statement.check_cancelled()
        raise _not_built(request, index, str(error.java_exception.getMessage()).strip().partition("\n")[0]) from error
    except HeadwaterError as error:
        if error.condition == "HEADWATER_INDEX_NOT_WRITTEN":
            raise
        raise _not_built(request, index, error.text) from error
    except OSError as error:
        raise _not_built(request, index, plain_reason(error)) from error
    return {"index": index.name, "files": built.files, "rows": built.rows, "bytes": built.size}


def _not_built(request: _Request, index: KeyIndex, reason: str) -> HeadwaterError:
    named = {"index": index.name, "tableName": request.name, "reason": reason.rstrip(".")}
    return HeadwaterError("HEADWATER_INDEX_NOT_BUILT", named | {"statement": _refresh(index.name, request)})


def _refresh(name: str, request: _Request) -> str:
    return f"REFRESH INDEX {sql_name(name)} ON {in_statements(request.name)}"


def _refuse_clauses(name: str, kind: str, *, has_options: bool) -> None:
    if kind:
        raise invalid(name, f"There is one kind of index, so USING {kind} says nothing: leave it out")
    if has_options:
        raise invalid(name, "An index has no options: leave OPTIONS out")


def _top_level(name: str, paths: Sequence[Sequence[str]]) -> list[str]:
    nested = next((path for path in paths if len(path) > 1), None)
    if nested is not None:
        raise invalid(name, f"{format_name(nested)} is a field of a struct; only columns of the table can be indexed")
    return [path[0] for path in paths]


def _refuse_needed(draft: Draft, index: Declared | None, table: str) -> None:
    """:raises HeadwaterError: ``HEADWATER_INDEX_IS_NEEDED`` if a primary key is enforced by it, and by no other."""
    key = enforced_key(draft.definition)
    if key is None or index is None or index.key_index is None:
        return
    over = [each for each in indexes(draft.definition) if set(key.columns).issuperset(c.name for c in each.columns)]
    if over == [index.key_index]:
        statement = f"ALTER TABLE {in_statements(table)} DROP CONSTRAINT {sql_name(key.name)}"
        named = {"index": index.name, "tableName": table, "constraintName": key.name, "statement": statement}
        raise HeadwaterError("HEADWATER_INDEX_IS_NEEDED", named)


def _find(definition: TableDefinition, name: str) -> Declared | None:
    return next((each for each in declared(definition) if each.name == name.lower()), None)


def _counting(snapshot: Snapshot, name: str, request: _Request) -> KeyIndex:
    """The index of a name, which counts.

    :raises HeadwaterError: ``HEADWATER_INDEX_NOT_FOUND``, ``HEADWATER_INVALID_INDEX``.
    """
    found = _find(snapshot.definition, name)
    if found is None:
        raise _not_found(name, snapshot.definition, request.name)
    if found.key_index is None:
        raise invalid(found.name, f"{found.problem}. DROP INDEX removes it")
    return found.key_index


def _not_found(name: str, definition: TableDefinition, table: str) -> HeadwaterError:
    known = [each.name for each in declared(definition)]
    named = {"index": name, "tableName": table, "suggestion": did_you_mean(name, known)}
    return HeadwaterError("HEADWATER_INDEX_NOT_FOUND", named)
