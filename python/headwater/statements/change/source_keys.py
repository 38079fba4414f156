"""Which files of the target a MERGE's source can match, by the source's own keys.

Owns the question to the source, its least and greatest keys, or all of them where they are few, and the predicates
over the target that follow. A key is a column of the target that the ON condition equates with an expression over the
source; a row of the target matches only where the column has one of the source's values.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from headwater.bridge.statement import Statement
from headwater.errors import HeadwaterError
from headwater.protocol.types import DataType, DecimalType, PrimitiveType, parse_type
from headwater.schema.constraints import quote
from headwater.statements.change.request import Key, expression, relation
from headwater.stores import store_for
from headwater.stores.parquet_footers import read_footer
from headwater.times import timestamp_text

#: So many distinct keys are asked for one by one.
_FEW = 1000
#: The footers of so many files are read one after the other.
_FEW_FILES = 32
_WHOLE = frozenset({"byte", "short", "integer", "long"})

#: The least and the greatest value as text, None where there is none.
_Bounds = tuple[str | None, str | None]


@dataclass(frozen=True)
class SourceKeys:
    """What the source's keys say: how many rows it has, and predicates (SQL, times in UTC) that rows of the target
    meet if they match at all."""

    rows: int
    predicates: Sequence[str]


def usable(keys: Sequence[Key]) -> list[Key]:
    """The keys whose types have an order that SQL literals can tell."""
    return [key for key in keys if _as_text(_type(key)) is not None]


def ask(statement: Statement, plan: int, keys: Sequence[Key]) -> SourceKeys:
    """Read the source's keys: from the footers of its files where they tell, else by a query.

    :param plan: the relation the keys' expressions are over.
    """
    source = relation(plan)
    kinds = [_type(key) for key in keys]
    rows, bounds = _told_by_footers(statement, plan, keys) or _queried(statement, source, keys)
    predicates = []
    for key, kind, (least, greatest) in zip(keys, kinds, bounds, strict=True):
        if least is None or greatest is None:
            return SourceKeys(rows, ["false"])  # every key is null, and null equals nothing
        column = quote((key.column,))
        if rows <= _FEW and least != greatest:
            query = f"SELECT DISTINCT {_text(kind, expression(key.value))} AS k FROM {source}"
            values = [row["k"] for row in statement.query(query) if row.get("k") is not None]
            predicates.append(f"{column} IN ({', '.join(_literal(kind, value) for value in values)})")
        else:
            predicates.append(f"{column} >= {_literal(kind, least)} AND {column} <= {_literal(kind, greatest)}")
    return SourceKeys(rows, predicates)


def _queried(statement: Statement, source: str, keys: Sequence[Key]) -> tuple[int, list[_Bounds]]:
    bounds = [
        f"{_text(_type(key), f'{bound}({expression(key.value)})')} AS {bound}{i}"
        for i, key in enumerate(keys)
        for bound in ("min", "max")
    ]
    found = statement.query(f"SELECT {', '.join(['count(*) AS n', *bounds])} FROM {source}")[0]
    return int(found["n"]), [(found.get(f"min{i}"), found.get(f"max{i}")) for i in range(len(keys))]


def _told_by_footers(statement: Statement, plan: int, keys: Sequence[Key]) -> tuple[int, list[_Bounds]] | None:
    """As a query would tell, of whole numbers in plain Parquet files; None where it takes a query."""
    if not all(_is_whole(_type(key)) for key in keys):
        return None
    read = statement.parquet_files(plan, [key.value for key in keys], _FEW_FILES)
    if read is None or None in read["columns"]:
        return None
    hadoop = statement.hadoop
    try:
        footers = [read_footer(*store_for(path, hadoop, statement.confs), size) for path, size in read["files"]]
    except (OSError, pa.ArrowInvalid, HeadwaterError):
        return None  # the job that reads the file tells what is wrong with it
    bounds = [_bounds(footers, column) for column in read["columns"]]
    known = [bound for bound in bounds if bound is not None]
    return (sum(footer.num_rows for footer in footers), known) if len(known) == len(bounds) else None


def _bounds(footers: Sequence[pq.FileMetaData], column: str) -> _Bounds | None:
    """A column's least and greatest value in some files, both None where all are null; None where that is not told."""
    least, greatest = [], []
    for footer in footers:
        found = [i for i in range(footer.num_columns) if footer.schema.column(i).path.lower() == column.lower()]
        if len(found) != 1 or not _is_signed(footer.schema.column(found[0])):
            return None
        for group in range(footer.num_row_groups):
            chunk = footer.row_group(group).column(found[0])
            told = chunk.statistics
            if told is not None and told.has_min_max:
                least.append(told.min_raw)
                greatest.append(told.max_raw)
            elif chunk.num_values and not (told is not None and told.null_count == chunk.num_values):
                return None
    return (str(min(least)), str(max(greatest))) if least else (None, None)


def _is_signed(column: pq.ColumnSchema) -> bool:
    """Whether a column of a file holds whole numbers, as they are."""
    if column.physical_type not in ("INT32", "INT64"):
        return False
    logical = column.logical_type
    return bool(logical.type == "NONE" or (logical.type == "INT" and json.loads(logical.to_json())["isSigned"]))


def _is_whole(kind: DataType) -> bool:
    return isinstance(kind, PrimitiveType) and kind.name in _WHOLE


def _type(key: Key) -> DataType:
    return parse_type(json.loads(key.type))


def _as_text(kind: DataType) -> str | None:
    """SQL that turns a value into text :func:`_literal` can read; None for types whose order text does not keep."""
    if isinstance(kind, DecimalType):
        return "CAST({} AS STRING)"
    if isinstance(kind, PrimitiveType):
        if kind.name in _WHOLE or kind.name in ("string", "date"):
            return "CAST({} AS STRING)"
        if kind.name == "timestamp":
            return "CAST(unix_micros({}) AS STRING)"
    return None


def _text(kind: DataType, value: str) -> str:
    template = _as_text(kind)
    assert template is not None
    return template.format(value)


def _literal(kind: DataType, text: str) -> str:
    if isinstance(kind, DecimalType):
        return f"CAST('{text}' AS {kind.sql()})"
    assert isinstance(kind, PrimitiveType)
    if kind.name in _WHOLE:
        return text
    if kind.name == "date":
        return f"DATE '{text}'"
    if kind.name == "timestamp":
        return f"TIMESTAMP '{timestamp_text(int(text))}'"
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
