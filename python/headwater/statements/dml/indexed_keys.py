"""The rows of the target that may have a key of a MERGE's source, by an index of the table.

Owns reading the hashes of the source's keys. Promise: only a source that is the same whenever it is read is asked: one
that only reads files, or that is cached for the statement.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa

from headwater.bridge.statement import Statement
from headwater.key_index.definition import KeyIndex
from headwater.key_index.hashing import hashes_alike
from headwater.log.snapshot import Snapshot
from headwater.protocol.types import parse_type
from headwater.sql.composing import Alias, Relation, every, is_not_null, select
from headwater.statements.dml.attempt import Attempt
from headwater.statements.dml.request import Key
from headwater.statements.dml.source_keys import MOST_KEYS, AskedIndex, SourceKeys
from headwater.statements.files.indexed_rows import IndexedRows, by_keys, indexes_over


def rows_of_keys(
    statement: Statement,
    snapshot: Snapshot,
    source: int,
    asked: Sequence[AskedIndex],
    keys: SourceKeys,
    files: pa.BooleanArray,
) -> IndexedRows | None:
    """The rows that may have one of the keys of a relation; None if no index is used.

    :param source: the number of the relation that the keys' expressions are over.
    :param asked: the indexes that may know them.
    :param keys: what is known of them.
    :param files: for each file of the version, whether it may have such rows.
    """
    by_name = {each.index.name: each for each in asked}

    def hashes(index: KeyIndex) -> Sequence[int] | None:
        if index.name in keys.hashes:
            return keys.hashes[index.name]
        one = by_name[index.name]
        query = select(
            Alias(one.hash(), "h"),
            rows=Relation(source),
            where=every(*map(is_not_null, one.values)),
            is_distinct=True,
            limit=MOST_KEYS + 1,
        )
        found = [row.get("h") for row in statement.query(query.text())]
        known = [each for each in found if each is not None]
        return known if len(known) == len(found) <= MOST_KEYS else None

    return by_keys(statement, snapshot, [each.index for each in asked], hashes, files)


def indexes_of_source(attempt: Attempt) -> list[AskedIndex]:
    """The indexes that may know the keys of a MERGE's source; none if it calls Python functions, which would run once
    more for every row.
    """
    if attempt.request.message.runs_python:
        return []
    return indexes_of_keys(attempt.statement, attempt.snapshot, attempt.request.keys)


def indexes_of_keys(statement: Statement, snapshot: Snapshot, given: Sequence[Key]) -> list[AskedIndex]:
    """The indexes over columns for which there are keys of their type."""
    keys = dict[str, Key]()
    for key in given:
        column = snapshot.schema.find(key.column)
        if column is not None and hashes_alike(parse_type(json.loads(key.type)), column):
            keys[column.name] = key
    return [
        AskedIndex(index, [keys[column.name] for column in index.columns])
        for index in indexes_over(statement, snapshot, keys)
    ]
