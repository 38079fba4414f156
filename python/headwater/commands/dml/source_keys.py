"""Which files of the target a MERGE's source can match, by the source's own keys.

Owns the question to the source, its least and greatest keys, or all of them where they are few, and the predicates
over the target that follow. A key is a column of the target that the ON condition equates with an expression over the
source; a row of the target matches only where the column has one of the source's values.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from headwater.bridge.statement import Statement
from headwater.commands.dml.request import Key, expression
from headwater.schema.constraints import quote
from headwater.schema.types import DataType, DecimalType, PrimitiveType, parse_type

#: So many distinct keys are asked for one by one.
_FEW = 1000
_WHOLE = frozenset({"byte", "short", "integer", "long"})
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class SourceKeys:
    """What the source's keys say: how many rows it has, and predicates (SQL, times in UTC) that rows of the target
    meet if they match at all."""

    rows: int
    predicates: Sequence[str]


def usable(keys: Sequence[Key]) -> list[Key]:
    """The keys whose types have an order that SQL literals can tell."""
    return [key for key in keys if _as_text(_type(key)) is not None]


def ask(statement: Statement, source: str, keys: Sequence[Key]) -> SourceKeys:
    """Read the source's keys.

    :param source: SQL of the relation the keys' expressions are over.
    """
    kinds = [_type(key) for key in keys]
    bounds = [
        f"{_text(kind, f'{bound}({expression(key.value)})')} AS {bound}{i}"
        for i, (key, kind) in enumerate(zip(keys, kinds, strict=True))
        for bound in ("min", "max")
    ]
    found = statement.query(f"SELECT {', '.join(['count(*) AS n', *bounds])} FROM {source}")[0]
    rows = int(found["n"])
    predicates = []
    for i, (key, kind) in enumerate(zip(keys, kinds, strict=True)):
        least, greatest = found.get(f"min{i}"), found.get(f"max{i}")
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
        moment = _EPOCH + timedelta(microseconds=int(text))
        return f"TIMESTAMP '{moment.strftime('%Y-%m-%d %H:%M:%S.%f')}'"
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
