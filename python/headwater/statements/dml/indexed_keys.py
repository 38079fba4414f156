"""The rows of the target that may have a key of a MERGE's source, by an index of the table.

Owns reading the hashes of the source's keys. Promise: only a source that is the same whenever it is read is asked: one
that only reads files, or that is cached for the statement.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pyarrow as pa

from headwater.bridge.statement import Statement
from headwater.key_index.definition import KeyIndex, indexes
from headwater.key_index.hashing import hashes_alike
from headwater.log.snapshot import Snapshot
from headwater.protocol.types import parse_type
from headwater.sql.composing import Alias, Relation, Resolved, every, is_not_null, select, when
from headwater.statements.dml.attempt import Attempt
from headwater.statements.dml.request import Key
from headwater.statements.files.indexed_rows import IndexedRows, by_keys
from headwater.statements.files.key_hashes import hash_expression, is_hashed

#: The most keys that are looked up; a source with more is joined with all rows. Chosen, not measured: they cross the
#: bridge.
_MOST_KEYS = 200_000


def by_source_keys(attempt: Attempt, source: int, files: pa.BooleanArray) -> IndexedRows | None:
    """The rows of a MERGE's target that may match; arguments as of :func:`rows_of_keys`."""
    return rows_of_keys(attempt.statement, attempt.snapshot, source, _keys_of(attempt), files)


def rows_of_keys(
    statement: Statement, snapshot: Snapshot, source: int, given: Sequence[Key], files: pa.BooleanArray
) -> IndexedRows | None:
    """The rows that may have one of the keys of a relation; None if no index is used.

    :param source: the number of the relation that the keys' expressions are over.
    :param files: for each file of the version, whether it may have such rows.
    """
    keys = _known(snapshot, given)

    def hashes(index: KeyIndex) -> Sequence[int] | None:
        values = [Resolved(keys[column.name].value) for column in index.columns]
        hashed = hash_expression(index.columns, values)
        is_known = every(*(is_hashed(column, value) for column, value in zip(index.columns, values, strict=True)))
        query = select(
            Alias(hashed if is_known is None else when(is_known, hashed), "h"),
            rows=Relation(source),
            where=every(*map(is_not_null, values)),
            is_distinct=True,
            limit=_MOST_KEYS + 1,
        )
        found = [row.get("h") for row in statement.query(query.text())]
        known = [each for each in found if each is not None]
        return known if len(known) == len(found) <= _MOST_KEYS else None

    return by_keys(statement, snapshot, keys, hashes, files)


def index_of_keys(attempt: Attempt) -> KeyIndex | None:
    """An index over columns that the source has keys for."""
    keys = _known(attempt.snapshot, _keys_of(attempt))
    known = indexes(attempt.snapshot.definition)
    return next((index for index in known if all(column.name in keys for column in index.columns)), None)


def _keys_of(attempt: Attempt) -> Sequence[Key]:
    """The keys of a source. If it calls Python functions, it has none: they would run once more for every row."""
    return [] if attempt.request.message.runs_python else attempt.request.keys


def _known(snapshot: Snapshot, keys: Sequence[Key]) -> Mapping[str, Key]:
    """The keys whose values are of the type of their column, by its name."""
    found = {}
    for key in keys:
        column = snapshot.schema.find(key.column)
        if column is not None and hashes_alike(parse_type(json.loads(key.type)), column):
            found[column.name] = key
    return found
