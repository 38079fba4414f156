"""The data types of the board: how SQL names each, how Arrow holds its values, and values whose text is easily lost.

Values are given to engines as Arrow (a Parquet file). A type that Parquet has no plain form of is given as another one,
and ``read`` is the SQL that turns it into the type.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa


@dataclass(frozen=True)
class Type:
    """A data type.

    :param name: the protocol's, as ``timestamp_ntz``.
    :param sql: how Spark SQL names it.
    :param arrow: the Arrow type of its values as they are given.
    :param values: some, without null; the first two are used by cases that need few.
    :param read: SQL that makes a value of a given one; ``{}`` is that.
    :param partition: whether a table can be partitioned by it.
    :param nests: whether it may lie in arrays, maps and structs.
    """

    name: str
    sql: str
    arrow: pa.DataType
    values: tuple[Any, ...]
    read: str = "{}"
    partition: bool = True
    nests: bool = True


def _utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=timezone.utc)


#: A point, as well-known binary: little-endian, kind 1, x 1.0, y 2.0.
_POINT = bytes.fromhex("0101000000000000000000f03f0000000000000040")
_TEXTS = ("a/b=c%d", "é x", "", "日本", "q'uote", "#?*{}", "a%2Fb", "a b:c")

_ALL = (
    Type("boolean", "BOOLEAN", pa.bool_(), (True, False)),
    Type("byte", "TINYINT", pa.int8(), (1, -128, 127)),
    Type("short", "SMALLINT", pa.int16(), (1, -32768, 32767)),
    Type("integer", "INT", pa.int32(), (1, -(2**31), 2**31 - 1)),
    Type("long", "BIGINT", pa.int64(), (1, -(2**63), 2**63 - 1)),
    Type("float", "FLOAT", pa.float32(), (1.5, -0.0, float("nan"), float("-inf"))),
    Type("double", "DOUBLE", pa.float64(), (0.1, -0.0, float("nan"), float("inf"), 1e308)),
    Type(
        "decimal",
        "DECIMAL(38,18)",
        pa.decimal128(38, 18),
        (Decimal("12345678901234567890.123456789012345678"), Decimal("-0.000000000000000001"), Decimal(0)),
    ),
    Type("string", "STRING", pa.string(), _TEXTS),
    Type("char", "CHAR(5)", pa.string(), ("abcde", "é日本xy"), nests=False),
    Type("varchar", "VARCHAR(6)", pa.string(), ("abc", "日本"), nests=False),
    Type("binary", "BINARY", pa.binary(), (b"\x00\xff", b"abc", b"")),
    Type("date", "DATE", pa.date32(), (date(2024, 2, 29), date(1, 1, 1), date(1899, 12, 31), date(9999, 12, 31))),
    Type(
        "timestamp",
        "TIMESTAMP",
        pa.timestamp("us", "UTC"),
        tuple(map(_utc, ("2024-01-02T03:04:05.678901", "1969-12-31T23:59:59.999999", "1900-01-01T00:00:00"))),
    ),
    Type(
        "timestamp_ntz",
        "TIMESTAMP_NTZ",
        pa.timestamp("us"),
        (datetime(2024, 1, 2, 3, 4, 5, 678901), datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(1900, 1, 1)),
    ),
    Type(
        "variant",
        "VARIANT",
        pa.string(),
        ('{"a":[1,2.5,"x"],"b":null}', "[]", '"text"', "true"),
        "parse_json({})",
        partition=False,
    ),
    Type("void", "VOID", pa.int32(), (None,), "CAST(NULL AS VOID)", partition=False, nests=False),
    Type("geometry", "GEOMETRY(4326)", pa.binary(), (_POINT,), "ST_GeomFromWKB({}, 4326)", partition=False),
    Type("geography", "GEOGRAPHY(4326)", pa.binary(), (_POINT,), "ST_GeogFromWKB({})", partition=False),
    Type(
        "interval year to month",
        "INTERVAL YEAR TO MONTH",
        pa.int32(),
        (14, -1, 0, 178956970),
        "make_ym_interval(0, {})",
        partition=False,
    ),
    Type(
        "interval day to second",
        "INTERVAL DAY TO SECOND",
        pa.decimal128(18, 6),
        tuple(map(Decimal, ("93784.000001", "-0.000001", "0.000000", "8640000000.000000"))),
        "make_dt_interval(0, 0, 0, {})",
        partition=False,
    ),
    Type("array", "ARRAY<INT>", pa.list_(pa.int32()), ([1, None], []), partition=False),
    Type(
        "map",
        "MAP<STRING, INT>",
        pa.map_(pa.string(), pa.int32()),
        ([("k", 1), ("l", None)], []),
        partition=False,
    ),
    Type(
        "struct",
        "STRUCT<a: INT, b: STRUCT<c: STRING>>",
        pa.struct([("a", pa.int32()), ("b", pa.struct([("c", pa.string())]))]),
        ({"a": 1, "b": {"c": "q"}}, {"a": None, "b": None}),
        partition=False,
    ),
)
TYPES: Mapping[str, Type] = {each.name: each for each in _ALL}
_BY_SQL = {each.sql: each for each in _ALL}


@dataclass(frozen=True)
class Column:
    """A column as rows are given for it."""

    arrow: pa.DataType
    #: SQL that makes a value of a given one; ``{}`` is that.
    read: str = "{}"
    is_variant: bool = False


def columns(ddl: str) -> dict[str, Column]:
    """The columns of a list such as ``a INT, b STRING``, without what constrains or generates them.

    :raises ValueError: a type of the list is not known here.
    """
    found = {}
    for part in _split(ddl):
        quoted = part.startswith("`")
        name, _, rest = part.lstrip("`").partition("` " if quoted else " ")
        sql = _type_of(rest)
        known = _BY_SQL.get(sql)
        found[name] = (
            Column(known.arrow, known.read, known.name == "variant") if known is not None else Column(arrow(sql))
        )
    return found


def arrow(sql: str) -> pa.DataType:
    """The Arrow type of a type that SQL names.

    :raises ValueError: the type is not known here.
    """
    if (known := _BY_SQL.get(sql)) is not None:
        return known.arrow
    name, _, inner = sql[:-1].partition("(" if sql.endswith(")") else "<")
    parts = list(_split(inner))
    match name:
        case "DECIMAL":
            return pa.decimal128(*(int(part) for part in parts))
        case "ARRAY":
            return pa.list_(arrow(parts[0]))
        case "MAP":
            return pa.map_(arrow(parts[0]), arrow(parts[1]))
        case "STRUCT":
            return pa.struct([(field, arrow(kind)) for field, kind in (part.split(": ", 1) for part in parts)])
    raise ValueError(f"{sql} is no type of the board")


def _type_of(text: str) -> str:
    """The type at the beginning of a column's declaration."""
    end = re.match(r"INTERVAL \w+ TO \w+|\w+", text)
    assert end is not None, text
    if text[end.end() : end.end() + 1] not in ("(", "<"):
        return end[0]
    depth = 0
    for number, character in enumerate(text):
        depth += (character in "(<") - (character in ")>")
        if character in ")>" and depth == 0:
            return text[: number + 1]
    raise ValueError(f"{text} has no end")


def _split(ddl: str) -> Iterator[str]:
    """The parts between commas that lie in no brackets and in no quoted name."""
    depth, quoted, part = 0, False, ""
    for character in ddl:
        quoted ^= character == "`"
        depth += (character in "(<") - (character in ")>")
        if character == "," and depth == 0 and not quoted:
            yield part.strip()
            part = ""
        else:
            part += character
    yield part.strip()
