"""Which files of the target a MERGE's source can match, by the source's own keys.

Owns reading the source's least and greatest keys, or all of them where they are few, and the predicates over the target
that follow; and the hashes of the keys, where an index can say which rows have them. A key is a column of the target
that the ON condition equates with an expression over the source. A row of the target matches only if the column has one
of the source's values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headwater.basics.errors import HeadwaterError
from headwater.bridge.statement import Statement
from headwater.key_index.definition import KeyIndex
from headwater.protocol.types import INTEGERS, DataType, DecimalType, PrimitiveType, parse_type
from headwater.pruning.predicates import And, Column, Comparison, Constant, In, Literal, Predicate, Value
from headwater.sql.composing import (
    NULL,
    STAR,
    Alias,
    Cast,
    Expression,
    Number,
    Relation,
    Resolved,
    Rows,
    UnionAll,
    call,
    every,
    is_not_null,
    select,
    when,
)
from headwater.sql.composing import Column as Named
from headwater.statements.dml.request import Key
from headwater.statements.files.key_hashes import hash_of_known, is_text
from headwater.stores import store_for
from headwater.stores.parquet_footers import read_footer

#: Sources of up to this many rows are asked for each of their distinct keys, not for the least and greatest alone.
#: Chosen, not measured: each is a value in a predicate.
_FEW = 1000
#: The footers of up to this many files are read, one after the other: in 2 ms on a local disk (bench case
#: ``footers-of-source``), but in 0.3 s where each takes a request of 10 ms, which is as long as a query takes.
_FEW_FILES = 32

#: The most keys that an index is asked for; a source with more is joined with all rows. Chosen, not measured: they
#: cross the bridge.
MOST_KEYS = 200_000
#: Bounds and hashes of a source are read by one query if Spark estimates this many bytes at most: it is read twice.
_FEW_BYTES = 8 << 20

#: The least and the greatest value as text, None if it has no value.
_Bounds = tuple[str | None, str | None]


@dataclass(frozen=True)
class SourceKeys:
    """What is known of the keys.

    :param rows: how many rows the source has.
    :param predicates: those that are true for each row of the target that matches.
    :param hashes: the hashes of the keys of indexes, by the name of the index; None where some cannot be looked up, or
        where they are too many. An index that is not in here was not asked about.
    """

    rows: int
    predicates: Sequence[Predicate]
    hashes: Mapping[str, Sequence[int] | None] = field(default_factory=dict)


def usable(keys: Sequence[Key]) -> list[Key]:
    """The keys of types that can be read as text and have an order."""
    return [key for key in keys if _is_usable(_type(key))]


@dataclass(frozen=True)
class AskedIndex:
    """An index to look the source's keys up in, and the key of each of its columns, whose values are hashed like it."""

    index: KeyIndex
    keys: Sequence[Key]

    @property
    def values(self) -> list[Expression]:
        """The keys' values, in a query over the source."""
        return [Resolved(key.value) for key in self.keys]

    def hash(self) -> Expression:
        """Their hash; null if one of them cannot be looked up."""
        return hash_of_known(self.index.columns, self.values)


def read_source_keys(
    statement: Statement, plan: int, keys: Sequence[Key], asked: Sequence[AskedIndex] = ()
) -> SourceKeys:
    """The source's keys: from the footers of its files where these have them, else by a query.

    :param plan: the relation the keys' expressions are over.
    :param asked: the indexes to look them up in; their keys are among the keys.
    """
    if asked and statement.plan_size(plan) <= _FEW_BYTES:
        return _read_at_once(statement, plan, keys, asked)
    rows, bounds = _bounds_of_footers(statement, plan, keys) or _queried_bounds(statement, Relation(plan), keys)
    if any(least is None for least, _ in bounds):
        return SourceKeys(rows, [Constant(False)])  # every key is null, and null equals nothing
    predicates: list[Predicate] = []
    for key, bound in zip(keys, bounds, strict=True):
        if _are_few(rows, bound):
            value = Alias(_as_text(_type(key), Resolved(key.value)), "k")
            found = statement.query(select(value, rows=Relation(plan), is_distinct=True).text())
            predicates += _is_one_of(key, [row["k"] for row in found if row.get("k") is not None])
        else:
            predicates += _is_between(key, bound)
    return SourceKeys(rows, predicates)


def _read_at_once(statement: Statement, plan: int, keys: Sequence[Key], asked: Sequence[AskedIndex]) -> SourceKeys:
    """The bounds of the source's keys and the hashes for indexes by one query, whose last row has what is one value."""
    hashes, counts = list[Alias](), list[Alias]()
    for i, each in enumerate(asked):
        is_key = every(*map(is_not_null, each.values))
        assert is_key is not None
        hashes.append(Alias(when(is_key, each.hash()), f"h{i}"))
        counts.append(Alias(call("count", when(is_key, Number(1))), f"keys{i}"))
        counts.append(Alias(call("count", hashes[i].value), f"hashed{i}"))
    bounds = _bounds_columns(keys)
    distinct = select(*hashes, rows=Relation(plan), is_distinct=True, limit=MOST_KEYS + 1)
    many = select(
        *(Named(each.name) for each in hashes),
        *(Alias(NULL, each.name) for each in [*bounds, *counts]),
        rows=distinct,
    )
    one = select(*(Alias(NULL, each.name) for each in hashes), *bounds, *counts, rows=Relation(plan))
    found = statement.query(UnionAll((many, one)).text())
    totals = next(row for row in found if "n" in row)
    of_index = dict[str, list[int] | None]()
    for i, each in enumerate(asked):
        entries = {int(row[f"h{i}"]) for row in found if f"h{i}" in row}
        is_whole = len(found) <= MOST_KEYS + 1 and totals[f"keys{i}"] == totals[f"hashed{i}"]
        of_index[each.index.name] = list(entries) if is_whole else None
    rows, found_bounds = _bounds_of_row(totals, len(keys))
    if any(least is None for least, _ in found_bounds):
        return SourceKeys(rows, [Constant(False)], of_index)
    pairs = zip(keys, found_bounds, strict=True)
    return SourceKeys(rows, [each for key, bound in pairs for each in _is_between(key, bound)], of_index)


def source_keys_without_jobs(statement: Statement, plan: int, keys: Sequence[Key]) -> SourceKeys | None:
    """What :func:`read_source_keys` returns, where that takes no job; else None."""
    known = _bounds_of_footers(statement, plan, keys)
    if known is None:
        return None
    rows, bounds = known
    if any(least is None for least, _ in bounds):
        return SourceKeys(rows, [Constant(False)])
    if any(_are_few(rows, bound) for bound in bounds):
        return None
    return SourceKeys(rows, [each for key, bound in zip(keys, bounds, strict=True) for each in _is_between(key, bound)])


def _are_few(rows: int, bound: _Bounds) -> bool:
    """Whether each of the keys is worth to be known."""
    return rows <= _FEW and bound[0] != bound[1]


def _queried_bounds(statement: Statement, source: Rows, keys: Sequence[Key]) -> tuple[int, list[_Bounds]]:
    found = statement.query(select(*_bounds_columns(keys), rows=source).text())[0]
    return _bounds_of_row(found, len(keys))


def _bounds_columns(keys: Sequence[Key]) -> list[Alias]:
    """The number of rows, and the bounds of the keys. Spark compares the bytes of strings; as texts here, those that
    are no text have another order.
    """
    bounds = [
        Alias(_as_text(_type(key), call(bound, Resolved(key.value))), f"{bound}{i}")
        for i, key in enumerate(keys)
        for bound in ("min", "max")
    ]
    return [Alias(call("count", STAR), "n"), *bounds]


def _bounds_of_row(row: Mapping[str, Any], keys: int) -> tuple[int, list[_Bounds]]:
    return int(row["n"]), [(row.get(f"min{i}"), row.get(f"max{i}")) for i in range(keys)]


def _bounds_of_footers(statement: Statement, plan: int, keys: Sequence[Key]) -> tuple[int, list[_Bounds]] | None:
    """The same for whole numbers in plain Parquet files; None if it takes a query."""
    if not all(_is_whole(_type(key)) for key in keys):
        return None
    read = statement.parquet_files(plan, [key.value for key in keys], _FEW_FILES)
    if read is None:
        return None
    columns = [column for column in read.columns if column is not None]
    if len(columns) < len(read.columns):
        return None
    hadoop = statement.hadoop
    try:
        footers = [read_footer(*store_for(file.path, hadoop, statement.confs), file.size) for file in read.files]
    except (OSError, pa.ArrowInvalid, HeadwaterError):
        return None  # the job that reads the file raises the error
    bounds = [_bounds(footers, column) for column in columns]
    known = [bound for bound in bounds if bound is not None]
    return (sum(footer.num_rows for footer in footers), known) if len(known) == len(bounds) else None


def _bounds(footers: Sequence[pq.FileMetaData], column: str) -> _Bounds | None:
    """A column's least and greatest value in some files, both None if all are null; None where these are unknown."""
    least, greatest = [], []
    for footer in footers:
        found = [i for i in range(footer.num_columns) if footer.schema.column(i).path.lower() == column.lower()]
        if len(found) != 1 or not _is_signed(footer.schema.column(found[0])):
            return None
        for group in range(footer.num_row_groups):
            chunk = footer.row_group(group).column(found[0])
            known = chunk.statistics
            if known is not None and known.has_min_max:
                least.append(known.min_raw)
                greatest.append(known.max_raw)
            elif chunk.num_values and not (known is not None and known.null_count == chunk.num_values):
                return None
    return (str(min(least)), str(max(greatest))) if least else (None, None)


def _is_signed(column: pq.ColumnSchema) -> bool:
    """Whether a column of a file holds whole numbers, as they are."""
    if column.physical_type not in ("INT32", "INT64"):
        return False
    logical = column.logical_type
    return bool(logical.type == "NONE" or (logical.type == "INT" and json.loads(logical.to_json())["isSigned"]))


def _is_whole(kind: DataType) -> bool:
    return isinstance(kind, PrimitiveType) and kind.name in INTEGERS


def _type(key: Key) -> DataType:
    return parse_type(json.loads(key.type))


def _is_usable(kind: DataType) -> bool:
    if isinstance(kind, PrimitiveType):
        return kind.name in INTEGERS or kind.name in ("string", "date", "timestamp")
    return isinstance(kind, DecimalType)


def _as_text(kind: DataType, value: Expression) -> Expression:
    """A value as the text that :func:`_value` takes."""
    if kind == PrimitiveType("timestamp"):
        value = call("unix_micros", value)
    if kind == PrimitiveType("date"):
        value = call("unix_date", value)
    return Cast(value, PrimitiveType("string"))


def _is_one_of(key: Key, values: Sequence[str]) -> list[Predicate]:
    if not is_text(values):
        return []
    kind = _type(key)
    return [In(Column((key.column,)), kind.to_json(), tuple(_value(kind, value) for value in values))]


def _is_between(key: Key, bound: _Bounds) -> list[Predicate]:
    (least, greatest), kind, column = bound, _type(key), Column((key.column,))
    assert least is not None
    assert greatest is not None
    if not is_text((least, greatest)):
        return []
    low, high = (Literal(kind.to_json(), _value(kind, text)) for text in (least, greatest))
    return [And((Comparison("<=", low, column), Comparison("<=", column, high)))]


def _value(kind: DataType, text: str) -> Value:
    """A key from its text, as a literal has it."""
    return text if isinstance(kind, DecimalType) or kind == PrimitiveType("string") else int(text)
