"""Which rows a statement has to read, by the key indexes of its table.

Owns the choice of an index for the equalities of a statement, and whether it is used: where its entries are fewer bytes
than the files that it may leave out. Promise: a row for which the equalities are true is never left out. An index
says which rows may have a key, so a statement still compares keys.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from headwater.bridge.statement import Statement
from headwater.key_index.definition import KeyIndex, indexes
from headwater.key_index.hashing import hash_of, hashes_alike, is_hashed
from headwater.key_index.lookup import look_up
from headwater.log.snapshot import Snapshot
from headwater.protocol.types import DataType, PrimitiveType
from headwater.pruning.predicates import (
    INTEGRAL_RANGES,
    And,
    Cast,
    Column,
    Comparison,
    In,
    Literal,
    Operand,
    Predicate,
    Value,
    type_of,
)
from headwater.statements.settings import KEY_INDEX

#: Keys of predicates are looked up one by one in Python, so this many at most; what a predicate may hold anyway.
_MOST_LITERALS = 10_000
#: Smaller files in all are read sooner than an index is opened.
_FEWEST_BYTES = 1 << 20
#: Entries are read if they are at most this share of the bytes of files that they may leave out.
_SHARE = 0.5


class IndexedRows(NamedTuple):
    """What an index leaves of some files.

    :param name: the name of the index.
    :param files: for each file of the version, whether it has to be read.
    :param rows: the positions of the rows to read, by the path of their file; of other files, all rows are read.
    :param before: how many files were left before.
    """

    name: str
    files: pa.BooleanArray
    rows: Mapping[str, BitMap64]
    before: int

    def text(self) -> str:
        """What it does, for people."""
        found = sum(map(len, self.rows.values()))
        whole = self.files.true_count - len(self.rows)
        text = f"index {self.name}: {self.files.true_count:,} of {self.before:,} files, {found:,} rows by position"
        return f"{text}; {whole:,} files without entries" if whole else text


def by_predicates(
    statement: Statement, snapshot: Snapshot, predicates: Sequence[Predicate], files: pa.BooleanArray
) -> IndexedRows | None:
    """The rows for which all predicates may be true, by the index over the most columns that they equate with values;
    None if no index has such columns, or if none is used.

    :param files: for each file of the version, whether it may have such rows.
    """
    if not indexes(snapshot.definition):
        return None
    equalities = _equalities(snapshot, predicates)

    def hashes(index: KeyIndex) -> Iterable[int] | None:
        values = [equalities[column.name] for column in index.columns]
        if np.prod([float(len(some)) for some in values]) > _MOST_LITERALS:
            return None
        if not all(is_hashed(kind, value) for kind, some in zip(index.kinds, values, strict=True) for value in some):
            return None
        found = (hash_of(index.kinds, key) for key in itertools.product(*values))
        return [each for each in found if each is not None]

    return by_keys(statement, snapshot, indexes_over(statement, snapshot, equalities), hashes, files)


def indexes_over(statement: Statement, snapshot: Snapshot, columns: Container[str]) -> list[KeyIndex]:
    """The indexes of a table that a statement may use and that are over some of the columns."""
    if KEY_INDEX.of(statement) == "never":
        return []
    known = indexes(snapshot.definition)
    return [index for index in known if all(column.name in columns for column in index.columns)]


def by_keys(
    statement: Statement,
    snapshot: Snapshot,
    usable: Sequence[KeyIndex],
    hashes: Callable[[KeyIndex], Iterable[int] | None],
    files: pa.BooleanArray,
) -> IndexedRows | None:
    """The rows that have one of some keys, by the first index that is worth it of those over the most columns.

    :param usable: the indexes over columns of the keys.
    :param hashes: the hashes of the keys' values of an index's columns; None if they are too many.
    :param files: for each file of the version, whether it may have such rows.
    """
    if not usable:
        return None
    always = KEY_INDEX.of(statement) == "always"
    size = pc.sum(snapshot.select(("size",))["size"].filter(files)).as_py() or 0
    if not always and size < _FEWEST_BYTES:
        return None
    for index in sorted(usable, key=lambda each: -len(each.columns)):
        keys = hashes(index)
        if keys is None:
            continue
        wanted = files.to_numpy(zero_copy_only=False)
        found = look_up(snapshot, index, keys, wanted, None if always else int(size * _SHARE))
        if found is None:
            continue
        left = pc.and_(files, pa.array(found.may_match))
        paths = snapshot.select(("path",))["path"]
        rows = {paths[number].as_py(): positions for number, positions in found.rows.items() if found.covered[number]}
        return IndexedRows(index.name, left, rows, files.true_count)
    return None


def _equalities(snapshot: Snapshot, predicates: Iterable[Predicate]) -> dict[str, list[Value]]:
    """The values that predicates leave of columns, by the name of the column."""
    found: dict[str, list[Value]] = {}
    for predicate in predicates:
        match predicate:
            case And(children):
                for name, values in _equalities(snapshot, children).items():
                    found.setdefault(name, values)
            case Comparison("=" | "<=>", left, Literal(kind, value)) if value is not None:
                _add(found, snapshot, left, kind, [value])
            case Comparison("=" | "<=>", Literal(kind, value), right) if value is not None:
                _add(found, snapshot, right, kind, [value])
            case In(child, kind, values):
                _add(found, snapshot, child, kind, [value for value in values if value is not None])
    return found


def _add(found: dict[str, list[Value]], snapshot: Snapshot, operand: Operand, kind: str, values: list[Value]) -> None:
    plain = operand.child if isinstance(operand, Cast) else operand
    if not isinstance(plain, Column) or len(plain.path) != 1:
        return
    column = snapshot.schema.find(plain.path[0])
    if column is None or column.name in found:
        return
    if isinstance(operand, Cast) and not _is_within(column.type, type_of(operand.type)):
        return
    if hashes_alike(type_of(kind), column):
        found[column.name] = values


def _is_within(kind: DataType, other: DataType) -> bool:
    """Whether numbers of a type equal the same ones when cast to the other: whole numbers, and none is cut off."""
    if not isinstance(kind, PrimitiveType) or not isinstance(other, PrimitiveType):
        return False
    least, most = INTEGRAL_RANGES.get(kind.name), INTEGRAL_RANGES.get(other.name)
    return least is not None and most is not None and least <= most
