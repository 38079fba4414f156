"""The rows that a MERGE depends on, by the keys of its source, for the detection of conflicts.

Owns which conjuncts of the ON condition identify rows by their keys, and where the keys come from. The job that reads
the source notes them as it goes. So they belong to the rows it used, even if the source has other rows when it is read
again. They are complete only where the job is certain to read the whole source: where its join keeps source rows
without a match, or runs in one task and finds a match. A source cached for the statement is queried when needed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from headwater.bridge.statement import Statement
from headwater.protocol.types import parse_type
from headwater.sql.composing import STAR, Alias, Relation, Resolved, Rows, call, select
from headwater.statements.dml.attempt import Attempt
from headwater.statements.dml.request import Key
from headwater.statements.files.key_hashes import as_noted, is_text
from headwater.transaction.keyed import KeyReads, Keys, comparable

#: The most keys that are read from a cached source, as many as a job notes. Chosen, not measured: it limits memory.
_MOST = 50_000


def exact_keys(attempt: Attempt) -> list[Key]:
    """The keys that identify the rows a MERGE depends on; none where they do not."""
    request, snapshot = attempt.request, attempt.snapshot
    # Python functions would run once more for every row.
    if request.message.reads_target_elsewhere or request.message.runs_python:
        return []
    if not all(clause.predicates for clause in request.not_matched_by_source):
        return []
    found = []
    for key in request.keys:
        column = snapshot.schema.find(key.column)
        # Values of partition columns are only in the log, which is pruned anyway.
        if column is None or not comparable(column) or column.name in snapshot.partition_columns:
            continue
        if parse_type(json.loads(key.type)) == column.type:
            found.append(key)
    return found


def noting(source: Rows, keys: Sequence[Key]) -> Rows:
    """The rows of a source, whose keys the job notes."""
    if not keys:
        return source
    return select(STAR, rows=source, where=call("note_keys", *(Resolved(key.value) for key in keys)))


def key_reads(attempt: Attempt, keys: Sequence[Key], cached: int | None) -> KeyReads:
    """The rows the statement depends on, by their keys.

    :param cached: the cached source to query; None if the statement's last job noted the keys.
    """
    statement = attempt.statement
    load: Callable[[], Keys | None] = statement.noted_keys
    if cached is not None:
        source = Relation(cached)

        def load() -> Keys | None:
            return _query(statement, source, keys)

    return KeyReads(attempt.snapshot, [key.column for key in keys], load)


def _query(statement: Statement, source: Rows, keys: Sequence[Key]) -> Keys | None:
    values = [
        Alias(as_noted(parse_type(json.loads(key.type)), Resolved(key.value)), f"k{i}") for i, key in enumerate(keys)
    ]
    found = statement.query(select(*values, rows=source, is_distinct=True, limit=_MOST + 1).text())
    if len(found) > _MOST:
        return None
    # Nulls are missing from a row. A key with a null equals none.
    known = [tuple(row[f"k{i}"] for i in range(len(keys))) for row in found if len(row) == len(keys)]
    return known if all(map(is_text, known)) else None
