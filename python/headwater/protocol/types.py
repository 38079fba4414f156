"""Data types and schemas as the log stores them.

Owns the parsed form of a schema string and its way back to JSON, byte for byte the same meaning: unknown metadata keys
are kept. Follows the protocol's chapter "Schema Serialization Format". Types are immutable values that compare by
content.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from headwater.basics.errors import HeadwaterError
from headwater.protocol.column_metadata import PHYSICAL_NAME

#: The names of the types of whole numbers, the narrowest first.
INTEGERS = ("byte", "short", "integer", "long")
#: The two interval types, and the fields that their narrower spellings are of, the longest first.
YEAR_MONTH, DAY_SECOND = "interval year to month", "interval day to second"
INTERVAL_FIELDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {YEAR_MONTH: ("year", "month"), DAY_SECOND: ("day", "hour", "minute", "second")}
)
#: Every spelling of an interval type, and the one that is written. The stored value is the same.
_INTERVALS = {
    f"interval {first}" if first == last else f"interval {first} to {last}": name
    for name, fields in INTERVAL_FIELDS.items()
    for number, first in enumerate(fields)
    for last in fields[number:]
}
#: Primitive type names of the protocol, with the Arrow type that holds their values.
PRIMITIVES: Mapping[str, pa.DataType] = MappingProxyType(
    {
        "string": pa.string(),
        "long": pa.int64(),
        "integer": pa.int32(),
        "short": pa.int16(),
        "byte": pa.int8(),
        "float": pa.float32(),
        "double": pa.float64(),
        "boolean": pa.bool_(),
        "binary": pa.binary(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "timestamp_ntz": pa.timestamp("us"),
        "void": pa.null(),
        "variant": pa.struct([("value", pa.binary()), ("metadata", pa.binary())]),
        # Counts of months and of microseconds, as data files have them.
        YEAR_MONTH: pa.int32(),
        DAY_SECOND: pa.int64(),
    }
)

#: How Spark SQL spells the primitive types whose JSON name differs.
_SQL_NAMES = {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}
_SPATIAL = re.compile(r"(geometry|geography)(?:\(\s*(\w+:-?\w+)?\s*,?\s*(\w+)?\s*\))?")
_DEFAULT_CRS, _DEFAULT_ALGORITHM = "OGC:CRS84", "SPHERICAL"
#: Spark's numbers of the coordinate reference systems whose names do not end in them.
_SRIDS = {"OGC:CRS84": "4326", "OGC:CRS27": "4267", "OGC:CRS83": "4269"}
#: How Spark spells ``string`` if its default collation is named, as Spark Connect does for ``StringType()``.
_STRING_BY_COLLATION = "string collate utf8_binary"
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(-?\d+)\s*\)")


class DataType:
    """A column's type."""

    def to_json(self) -> Any:
        """The JSON value of the protocol's schema format."""
        raise NotImplementedError

    def sql(self) -> str:
        """The type as Spark's ``simpleString`` spells it: ``struct<a:int,b:array<string>>``."""
        raise NotImplementedError

    def to_arrow(self) -> pa.DataType:
        """The Arrow type that holds values of this type."""
        raise NotImplementedError


@dataclass(frozen=True)
class PrimitiveType(DataType):
    """A primitive by the protocol's name (``long``, not ``bigint``); also names this version does not know."""

    name: str

    def to_json(self) -> str:
        return self.name

    def sql(self) -> str:
        return _SQL_NAMES.get(self.name, self.name)

    def to_arrow(self) -> pa.DataType:
        try:
            return PRIMITIVES[self.name]
        except KeyError:
            raise HeadwaterError("DELTA_UNSUPPORTED_DATA_TYPE", {"dataType": self.name}) from None


@dataclass(frozen=True)
class DecimalType(DataType):
    """``decimal(precision, scale)``, precision 1 to 38."""

    precision: int
    scale: int

    def to_json(self) -> str:
        return f"decimal({self.precision},{self.scale})"

    sql = to_json

    def to_arrow(self) -> pa.DataType:
        return pa.decimal128(self.precision, self.scale)


@dataclass(frozen=True)
class SpatialType(DataType):
    """``geometry(crs)`` or ``geography(crs, algorithm)``: a shape in a coordinate reference system, as well-known
    binary in data files. It has neither order nor text form.

    ``crs`` as ``OGC:CRS84``; ``algorithm`` interpolates the edges of a geography, and a geometry has none.
    """

    name: str
    crs: str
    algorithm: str | None = None

    @property
    def srid(self) -> str:
        """The number by which Spark SQL knows the coordinate reference system; ``any`` for that of no single one."""
        return _SRIDS.get(self.crs.upper(), self.crs.rpartition(":")[2].lower())

    def to_json(self) -> str:
        return f"{self.name}({', '.join(filter(None, (self.crs, self.algorithm)))})"

    def sql(self) -> str:
        return f"{self.name}({self.srid})"

    def to_arrow(self) -> pa.DataType:
        return pa.binary()


@dataclass(frozen=True)
class ArrayType(DataType):
    """A list of values of one type."""

    element: DataType
    contains_null: bool = True

    def to_json(self) -> Any:
        return {"type": "array", "elementType": self.element.to_json(), "containsNull": self.contains_null}

    def sql(self) -> str:
        return f"array<{self.element.sql()}>"

    def to_arrow(self) -> pa.DataType:
        return pa.list_(self.element.to_arrow())


@dataclass(frozen=True)
class MapType(DataType):
    """A map from keys of one type, never null, to values of another."""

    key: DataType
    value: DataType
    value_contains_null: bool = True

    def to_json(self) -> Any:
        return {
            "type": "map",
            "keyType": self.key.to_json(),
            "valueType": self.value.to_json(),
            "valueContainsNull": self.value_contains_null,
        }

    def sql(self) -> str:
        return f"map<{self.key.sql()},{self.value.sql()}>"

    def to_arrow(self) -> pa.DataType:
        return pa.map_(self.key.to_arrow(), self.value.to_arrow())


@dataclass(frozen=True)
class StructField:
    """A named field; ``metadata`` holds the protocol's and the user's keys as parsed JSON."""

    name: str
    type: DataType
    nullable: bool = True
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "type": self.type.to_json(),
            "nullable": self.nullable,
            "metadata": dict(self.metadata),
        }

    @property
    def comment(self) -> str | None:
        return self.metadata.get("comment")

    @property
    def physical_name(self) -> str:
        """The name inside data files and statistics (chapter "Column Mapping"); the name itself where none is set."""
        name: str = self.metadata.get(PHYSICAL_NAME, self.name)
        return name


@dataclass(frozen=True)
class StructType(DataType):
    """An ordered tuple of fields; a table's schema is one."""

    fields: tuple[StructField, ...] = ()

    @staticmethod
    def of(**fields: DataType) -> StructType:
        """A struct of nullable fields, such as the columns of a statement's answer."""
        return StructType(tuple(StructField(name, kind) for name, kind in fields.items()))

    def __iter__(self) -> Iterator[StructField]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    @property
    def names(self) -> list[str]:
        return [f.name for f in self.fields]

    def find(self, name: str) -> StructField | None:
        """The field of that name, case-insensitively as Spark resolves by default; an exact match wins."""
        folded = name.lower()
        found = None
        for candidate in self.fields:
            if candidate.name == name:
                return candidate
            if found is None and candidate.name.lower() == folded:
                found = candidate
        return found

    def to_json(self) -> Any:
        return {"type": "struct", "fields": [f.to_json() for f in self.fields]}

    def sql(self) -> str:
        return f"struct<{','.join(f'{f.name}:{f.type.sql()}' for f in self.fields)}>"

    def to_arrow(self) -> pa.DataType:
        return pa.struct([pa.field(f.name, f.type.to_arrow(), f.nullable) for f in self.fields])


def is_nested(kind: DataType) -> bool:
    """Whether a type holds others: fields, elements, keys and values."""
    return isinstance(kind, StructType | ArrayType | MapType)


def as_nullable(kind: DataType) -> DataType:
    """The type with every field, element and value nullable: what a table made from data declares."""
    match kind:
        case StructType():
            return StructType(tuple(replace(f, type=as_nullable(f.type), nullable=True) for f in kind))
        case ArrayType():
            return replace(kind, element=as_nullable(kind.element), contains_null=True)
        case MapType():
            return replace(kind, key=as_nullable(kind.key), value=as_nullable(kind.value), value_contains_null=True)
    return kind


def parse_type(value: Any) -> DataType:
    """The type a JSON value of the schema format stands for.

    :raises HeadwaterError: ``DELTA_INVALID_SCHEMA`` if the JSON is not of that format.
    """
    if isinstance(value, str):
        if match := _DECIMAL.fullmatch(value):
            precision, scale = match.groups()
            if len(precision) < 3 and 1 <= int(precision) <= 38 and len(scale) < 4 and int(scale) <= int(precision):
                return DecimalType(int(precision), int(scale))
            raise HeadwaterError("DELTA_INVALID_SCHEMA", {"schema": value[:200]})
        if match := _SPATIAL.fullmatch(value):
            name, crs, algorithm = match.groups()
            algorithm = None if name == "geometry" else algorithm or _DEFAULT_ALGORITHM
            return SpatialType(name, crs or _DEFAULT_CRS, algorithm)
        if value.lower() == _STRING_BY_COLLATION:
            return PrimitiveType("string")
        return DecimalType(10, 0) if value == "decimal" else PrimitiveType(_INTERVALS.get(value, value))
    try:
        match value["type"]:
            case "struct":
                return StructType(tuple(_parse_field(f) for f in value["fields"]))
            case "array":
                return ArrayType(parse_type(value["elementType"]), bool(value["containsNull"]))
            case "map":
                return MapType(
                    parse_type(value["keyType"]), parse_type(value["valueType"]), bool(value["valueContainsNull"])
                )
            case "udt":
                # What of it is null is up to the class that reads it, which no reader of the table needs.
                return as_nullable(parse_type(value["sqlType"]))
    except (KeyError, TypeError, AttributeError):
        pass
    raise HeadwaterError("DELTA_INVALID_SCHEMA", {"schema": json.dumps(value)[:200]})


def _parse_field(value: Mapping[str, Any]) -> StructField:
    name, metadata = value["name"], value.get("metadata") or {}
    if not isinstance(name, str) or not isinstance(metadata, dict):
        raise TypeError("a field's name is not text, or its metadata no object")
    return StructField(name, parse_type(value["type"]), bool(value.get("nullable", True)), metadata)


def parse_schema(text: str) -> StructType:
    """The schema of a ``schemaString``; an empty or missing text is the empty schema.

    :raises HeadwaterError: ``DELTA_INVALID_SCHEMA``.
    """
    if not text:
        return StructType()
    try:
        parsed = parse_type(json.loads(text))
    except (ValueError, RecursionError):
        raise HeadwaterError("DELTA_INVALID_SCHEMA", {"schema": text[:200]}) from None
    if not isinstance(parsed, StructType):
        raise HeadwaterError("DELTA_INVALID_SCHEMA", {"schema": text[:200]})
    return parsed


def schema_string(schema: StructType) -> str:
    """The ``schemaString`` of a schema."""
    return json.dumps(schema.to_json(), separators=(",", ":"), ensure_ascii=False)
