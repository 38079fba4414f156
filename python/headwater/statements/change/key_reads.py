"""The keys of a MERGE's source, for the case that the statement loses to another writer.

Owns which conjuncts of the ON condition tell rows apart by their keys, and where the keys come from. The job that reads
the source notes them as it goes: so they are those of the very rows it used, though the source give other rows when it
is read again. They are complete only where the job is sure to read all of the source: where it keeps rows of the source
that have no match, or joins in one task and finds a match. A source cached for the statement is asked when needed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from headwater.bridge.statement import Statement
from headwater.protocol.types import DataType, DecimalType, PrimitiveType, parse_type
from headwater.statements.change.attempt import Attempt
from headwater.statements.change.request import Key, expression, relation
from headwater.transaction.keyed import KeyReads, Keys, comparable

#: So many keys of a cached source are asked for, as many as the job would note.
_MOST = 50_000


def exact_keys(attempt: Attempt) -> list[Key]:
    """The keys by which the rows a MERGE depends on are known; none where they are not."""
    request, snapshot = attempt.request, attempt.snapshot
    # Python functions would be run once more for every row.
    if request.not_matched_by_source or request.reads_target_elsewhere or request.runs_python:
        return []
    found = []
    for key in request.keys:
        column = snapshot.schema.find(key.column)
        # Values of partition columns are in the log alone, which is pruned anyway.
        if column is None or not comparable(column) or column.name in snapshot.partition_columns:
            continue
        if parse_type(json.loads(key.type)) == column.type:
            found.append(key)
    return found


def noting(source: str, keys: Sequence[Key]) -> str:
    """SQL of the rows of a source, whose keys the job notes."""
    if not keys:
        return source
    return f"(SELECT * FROM {source} WHERE note_keys({', '.join(expression(key.value) for key in keys)}))"


def reads(attempt: Attempt, keys: Sequence[Key], kept: int | None) -> KeyReads:
    """What the statement reads, by its keys.

    :param kept: the cached source to ask; None where the statement's last job noted the keys.
    """
    statement = attempt.statement
    load: Callable[[], Keys | None] = statement.noted_keys
    if kept is not None:
        source = kept

        def load() -> Keys | None:
            return _ask(statement, source, keys)

    return KeyReads(attempt.snapshot, [key.column for key in keys], load)


def _ask(statement: Statement, source: int, keys: Sequence[Key]) -> Keys | None:
    values = ", ".join(
        f"{_plain(parse_type(json.loads(key.type)), expression(key.value))} AS k{i}" for i, key in enumerate(keys)
    )
    found = statement.query(f"SELECT DISTINCT {values} FROM {relation(source)} LIMIT {_MOST + 1}")
    if len(found) > _MOST:
        return None
    # A row without one of them has a null there.
    return [tuple(row[f"k{i}"] for i in range(len(keys))) for row in found if len(row) == len(keys)]


def _plain(kind: DataType, value: str) -> str:
    """SQL of a value as the job would note it."""
    if isinstance(kind, DecimalType):
        return f"CAST({value} AS STRING)"
    assert isinstance(kind, PrimitiveType)
    return {"date": f"unix_date({value})", "timestamp": f"unix_micros({value})"}.get(kind.name, value)
