"""PRIMARY KEY … ENFORCED: no statement of ours writes a second row for a key.

Owns the check of the rows that a statement adds, before its commit, and of the rows that a table has when its key
becomes enforced. It asks for what will be there, not for how it came about, so every statement that writes is bound by
it: INSERT, MERGE, UPDATE, upserts, streams, COPY INTO, DataFrames, and each statement of a transaction. Statements that
only move rows, and those that bring a table to an older or another table's version, are not.

Promises: two new rows never have one key; and no row of the table keeps a key that a new row has. An index over columns
of the key says which rows of the table may have one; the key columns of files without entries are read, as they are
where there is no index. The transaction claims its keys, so a row that another writer adds meanwhile is a conflict,
after which the statement runs again (:mod:`headwater.transaction.keyed`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from headwater.basics.errors import HeadwaterError
from headwater.bridge.messages.callbacks import StagedFiles
from headwater.bridge.statement import Statement
from headwater.key_index.definition import KeyIndex, index_over
from headwater.log import deletion_vectors
from headwater.log.files import vector_of
from headwater.log.snapshot import Snapshot
from headwater.protocol.actions import AddFile
from headwater.protocol.columns import sql_name
from headwater.protocol.table_definition import TableDefinition
from headwater.protocol.types import PrimitiveType, StructField, schema_string
from headwater.pruning import prune_all
from headwater.pruning.predicates import Column as PredicateColumn
from headwater.pruning.predicates import In, Predicate
from headwater.schema import visible
from headwater.schema.keys import Key, enforced_key
from headwater.sql.composing import (
    NULL,
    STAR,
    Alias,
    Cast,
    Column,
    Expression,
    Field,
    Join,
    Named,
    Number,
    Relation,
    Rows,
    call,
    equal,
    every,
    infix,
    select,
)
from headwater.statements.files.file_lists import describe_vector, relation_over
from headwater.statements.files.indexed_rows import by_keys, indexes_over
from headwater.statements.files.key_hashes import as_noted, hash_of_known, is_text
from headwater.statements.files.rows import has_text
from headwater.statements.internal_names import InternalNames
from headwater.statements.running.committing import checks_commits
from headwater.stores import absolute_path
from headwater.transaction import Transaction
from headwater.transaction.keyed import KeyReads

#: The most keys that are looked up and claimed; of more new rows, the key columns are joined with those of the whole
#: table, and every row that another writer adds is a conflict. Chosen, not measured: they cross the bridge.
_MOST_KEYS = 200_000
#: How many columns of a row an error shows, and characters of each.
_MOST_SHOWN, _LONGEST_SHOWN = 10, 200
_NEW, _OLD = "new", "old"


@checks_commits
def check_enforced_key(statement: Statement, txn: Transaction, operation: str) -> None:
    """Return if the rows that a transaction adds leave the enforced key of its table unique; it claims their keys. A
    DELETE only adds copies of rows that stay in the table.

    :raises HeadwaterError: ``HEADWATER_DUPLICATE_KEY``.
    """
    is_bound = not (txn.mirrors or txn.brings_back or txn.keeps_keys or operation == "DELETE")
    key = enforced_key(txn.definition) if is_bound else None
    added = [] if key is None else txn.rows_added
    if key is None or not added:
        return
    statement.step(f"check the primary key {key.name}")
    _Check(statement, txn, key, added).run()


def check_rows(statement: Statement, snapshot: Snapshot, definition: TableDefinition, key: Key, table: str) -> None:
    """Return if no two rows of a version have one key.

    :param table: its name, for the error.
    :raises HeadwaterError: ``HEADWATER_DUPLICATE_KEY``.
    """
    statement.step(f"check the primary key {key.name}")
    columns = _columns(definition, key)
    twins = _repeated(relation_over(statement, snapshot, snapshot.files, skips_none=True), columns)
    _refuse(statement, twins, key, _shown(definition, columns), table, "The table has two rows with this key")


class _Check:
    """The check of one transaction.

    :param added: the files with its new rows.
    """

    def __init__(self, statement: Statement, txn: Transaction, key: Key, added: Sequence[AddFile]) -> None:
        self._statement, self._txn, self._key = statement, txn, key
        self._columns = _columns(txn.definition, key)
        self._index = index_over(txn.definition, key.columns)
        self._new = _rows_of(statement, txn, added)
        #: Whether statistics say so; without them, the rows do.
        self._are_many = sum(map(_num_records, added)) > _MOST_KEYS

    def run(self) -> None:
        keys = self._keys()
        snapshot = self._txn.snapshot
        if snapshot is None:
            return
        if (existing := self._existing(snapshot, keys)) is not None:
            twins = Join(Named(self._new, _NEW), "LEFT SEMI", Named(existing, _OLD), _same_key(self._columns))
            self._refuse(twins, "The table has a row with this key already")
        claimed = [column.name for column in self._columns if column.name not in snapshot.partition_columns]
        places = [number for number, column in enumerate(self._columns) if column.name in claimed]
        # A column that the commit changes has no values in what another writer adds meanwhile that could be compared.
        is_known = bool(claimed) and all(_is_in(snapshot, column) for column in self._columns)
        is_known = is_known and all(is_text(key) for key, _ in keys or ())
        plain = {tuple(key[place] for place in places) for key, _ in keys} if keys is not None and is_known else None
        self._txn.claim_keys(KeyReads(snapshot, claimed, lambda: plain))

    def _keys(self) -> list[tuple[tuple[Any, ...], int | None]] | None:
        """The key of each new row, and its hash for the index if that can be looked up; None if they are too many.

        :raises HeadwaterError: two new rows have one key.
        """
        noted = [Alias(as_noted(column.type, Column(column.name)), f"k{n}") for n, column in enumerate(self._columns)]
        over = () if self._index is None else self._index.columns
        hashed = hash_of_known(over, [Column(column.name) for column in over]) if over else NULL
        found: list[dict[str, Any]] = []
        if not self._are_many:
            query = select(*noted, Alias(hashed, "h"), rows=self._new, limit=_MOST_KEYS + 1)
            found = self._statement.query(query.text())
        keys = [(tuple(row[f"k{n}"] for n in range(len(noted))), row.get("h")) for row in found]
        are_many = self._are_many or len(keys) > _MOST_KEYS
        if are_many or len({key for key, _ in keys}) < len(keys):
            self._refuse(_repeated(self._new, self._columns), "Two of the new rows have this key")
        return None if are_many else keys

    def _existing(self, snapshot: Snapshot, keys: list[tuple[tuple[Any, ...], int | None]] | None) -> Rows | None:
        """The rows that stay in the table and may have one of the keys; None if no row may."""
        txn = self._txn
        removed, marked = txn.rows_gone
        paths = snapshot.select(("path",))["path"]
        files = pc.invert(pc.is_in(paths, value_set=pa.array(sorted(removed), paths.type))).combine_chunks()
        only = dict[str, BitMap64]()
        if keys is not None:
            files = pc.and_(files, prune_all(snapshot, self._predicates(snapshot, [key for key, _ in keys])))
            hashes = [h for _, h in keys if h is not None]
            if len(hashes) == len(keys):
                # If the index of the hashes cannot be read, another one is asked, whose hashes are others.
                asked = partial(self._hashes_for, hashes)
                found = by_keys(
                    self._statement, snapshot, indexes_over(self._statement, snapshot, self._key.columns), asked, files
                )
                files, only = (files, only) if found is None else (found.files, dict(found.rows))
        rows = snapshot.files.filter(files)
        gone = dict[int, BitMap64]()
        left = np.ones(rows.num_rows, bool)
        for number, path in enumerate(rows["path"].to_pylist()) if only or marked else ():
            if path in only or path in marked:
                vector = vector_of(rows["deletion_vector"][number].as_py())
                before = BitMap64() if vector is None else deletion_vectors.read(vector, snapshot.table_path, txn.store)
                gone[number] = before | marked.get(path, BitMap64())
                left[number] = path not in only or not only[path] <= gone[number]
        if not left.any():
            return None
        numbers = np.flatnonzero(left)
        gone = {at: gone[number] for at, number in enumerate(numbers.tolist()) if gone.get(number)}
        rows = rows.take(pa.array(numbers))
        return relation_over(self._statement, snapshot, rows, gone=gone, only=only, skips_none=True)

    def _hashes_for(self, hashes: Sequence[int], index: KeyIndex) -> Sequence[int] | None:
        """The hashes if an index of the version that is read has the same ones; else None."""
        own = self._index
        is_own = own is not None and (index.physical_names, index.kinds) == (own.physical_names, own.kinds)
        return hashes if is_own else None

    def _predicates(self, snapshot: Snapshot, keys: Sequence[tuple[Any, ...]]) -> list[Predicate]:
        """What is true for each row with one of the keys."""
        found: list[Predicate] = []
        for number, column in enumerate(self._columns):
            if _is_in(snapshot, column):
                values = tuple({key[number] for key in keys})
                if is_text(values):
                    found.append(In(PredicateColumn((column.name,)), str(column.type.to_json()), values))
        return found

    def _refuse(self, rows: Rows, why: str) -> None:
        """:raises HeadwaterError: there are such rows."""
        definition = self._txn.definition
        table = definition.metadata.name or f"delta.`{self._txn.table_path}`"
        _refuse(self._statement, rows, self._key, _shown(definition, self._columns), table, why)


def _num_records(file: AddFile) -> int:
    """The rows that the statistics of a file of ours say, less those that it has marked."""
    stats = json.loads(file.stats or "{}")
    return int(stats.get("numRecords", 0)) - (file.deletion_vector.cardinality if file.deletion_vector else 0)


def _columns(definition: TableDefinition, key: Key) -> list[StructField]:
    columns = [definition.schema.find(name) for name in key.columns]
    return [column for column in columns if column is not None]


def _is_in(snapshot: Snapshot, column: StructField) -> bool:
    """Whether a version has a column as it will be: the state of identity columns does not matter."""
    found = snapshot.schema.find(column.name)
    return found is not None and (found.physical_name, found.type) == (column.physical_name, column.type)


def _shown(definition: TableDefinition, columns: Sequence[StructField]) -> list[StructField]:
    """The columns that an error shows: those of the key first."""
    others = [field for field in definition.schema if field not in columns and has_text(field.type)]
    return [*columns, *others][: max(_MOST_SHOWN, len(columns))]


def _rows_of(statement: Statement, txn: Transaction, added: Sequence[AddFile]) -> Relation:
    """The rows of files that are not yet in the table."""
    definition = txn.definition
    physical = [field.physical_name for field in definition.partition_fields]
    files: list[list[str | int | None]] = []
    for file in added:
        vector = None if file.deletion_vector is None else describe_vector(txn.table_path, asdict(file.deletion_vector))
        values = [file.partition_values.get(name) for name in physical]
        path = absolute_path(txn.table_path, file.path)
        files.append([path, file.size, file.modification_time, vector, *values])
    staged = StagedFiles(
        path=txn.table_path,
        table_schema=schema_string(definition.schema),
        schema=schema_string(visible.for_reading(definition.schema)),
        partition_columns=list(definition.metadata.partition_columns),
        column_mapping_mode=definition.mapping_mode,
        files=files,
        size_in_bytes=sum(file.size for file in added),
    )
    return Relation(statement.add_staged(staged))


def _same_key(columns: Sequence[StructField]) -> Expression:
    condition = every(*(equal(Field((_NEW, column.name)), Field((_OLD, column.name))) for column in columns))
    assert condition is not None
    return condition


def _repeated(rows: Rows, columns: Sequence[StructField]) -> Rows:
    """The rows whose key another of them has."""
    keys = [Column(column.name) for column in columns]
    count, name = call("count", STAR), InternalNames.beside([column.name for column in columns]).of("rows_of_key")
    counted = select(*keys, Alias(count, name), rows=rows, group_by=keys)
    several = select(*keys, rows=counted, where=infix(">", Column(name), Number(1)), limit=1)
    return Join(Named(rows, _NEW), "LEFT SEMI", Named(several, _OLD), _same_key(columns))


def _refuse(statement: Statement, rows: Rows, key: Key, shown: Sequence[StructField], table: str, why: str) -> None:
    text = [Cast(Column(column.name), PrimitiveType("string")) for column in shown]
    cut = [call("substring", each, Number(1), Number(_LONGEST_SHOWN)) for each in text]
    query = select(*(Alias(each, f"c{n}") for n, each in enumerate(cut)), rows=rows, limit=1)
    found = statement.query(query.text())
    if not found:
        return
    values = [f"{sql_name(column.name)} = {found[0].get(f'c{n}', 'null')}" for n, column in enumerate(shown)]
    size = len(key.columns)
    named = {"constraintName": key.name, "tableName": table, "key": ", ".join(values[:size]), "reason": why}
    raise HeadwaterError("HEADWATER_DUPLICATE_KEY", named | {"row": ", ".join(values)})
