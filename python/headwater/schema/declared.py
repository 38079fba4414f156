"""CHAR and VARCHAR columns: strings in the schema, with the declared type in their metadata.

Owns the two forms of such a column. In the log it is a ``string``, and the metadata of its top-level column has Spark's
text of the whole declared type. While a schema is changed, the declared types stand in their places, so that what is
renamed, moved or dropped within a column takes them along.
"""

from __future__ import annotations

import re
from dataclasses import replace

from headwater.protocol.column_metadata import DECLARED_TYPE
from headwater.protocol.columns import map_fields, quote, sql_name, with_parts
from headwater.protocol.types import ArrayType, DataType, MapType, PrimitiveType, StructField, StructType

_STRING = PrimitiveType("string")
_LIMITED = re.compile(r"(char|varchar)\s*\(\s*(\d+)\s*\)", re.IGNORECASE)
_OTHER = re.compile(r"[^,<>()]*(\([^()]*\))?")


def with_declared(schema: StructType) -> StructType:
    """The schema of a log with ``char(n)`` and ``varchar(n)`` where they were declared."""
    return map_fields(schema, lambda field, _: _declared_field(field))


def _declared_field(field: StructField) -> StructField:
    text = field.metadata.get(DECLARED_TYPE)
    if text is None:
        return field
    kind = declared_type(field.type, str(text))
    if kind == field.type:
        return field
    return replace(field, type=kind, metadata={k: v for k, v in field.metadata.items() if k != DECLARED_TYPE})


def declared_type(stored: DataType, text: str) -> DataType:
    """A stored type with what its declaration, in Spark's words, says; the stored type where the two do not match."""
    try:
        kind, rest = _read(stored, text.strip())
    except ValueError:
        return stored
    return stored if rest.strip() else kind


def as_stored(schema: StructType) -> StructType:
    """The schema as the log has it: the inverse of :func:`with_declared`."""
    return StructType(tuple(_stored_field(field) for field in schema))


def _stored_field(field: StructField) -> StructField:
    kind = _stored(field.type)
    if kind == field.type:
        return field
    return replace(field, type=kind, metadata={**field.metadata, DECLARED_TYPE: _text(field.type)})


def _text(kind: DataType) -> str:
    """A type in Spark's words; names that are no plain words in backticks, so that Spark can read it back."""
    match kind:
        case StructType():
            return f"struct<{','.join(f'{sql_name(field.name)}:{_text(field.type)}' for field in kind)}>"
        case ArrayType():
            return f"array<{_text(kind.element)}>"
        case MapType():
            return f"map<{_text(kind.key)},{_text(kind.value)}>"
    return kind.sql()


def limit(kind: DataType) -> tuple[str, int] | None:
    """``char`` or ``varchar`` and the length of such a type; None for another."""
    match = _LIMITED.fullmatch(kind.name) if isinstance(kind, PrimitiveType) else None
    return None if match is None else (match[1], int(match[2]))


def can_relax(old: DataType, new: DataType) -> bool:
    """Whether every text of a declared type is one of another: a longer ``varchar``, or ``string``."""
    before, after = limit(old), limit(new)
    if before is None:
        return False
    return new == _STRING or (after is not None and after[0] == "varchar" and before[1] <= after[1])


def _stored(kind: DataType) -> DataType:
    if isinstance(kind, StructType):
        return StructType(tuple(replace(field, type=_stored(field.type)) for field in kind))
    return _STRING if limit(kind) is not None else with_parts(kind, lambda part, _: _stored(part))


def _read(kind: DataType, text: str) -> tuple[DataType, str]:
    """The declared form of a type at the start of a text, and the rest of the text. The stored type says which names
    to expect.

    :raises ValueError: another type stands there.
    """
    match kind:
        case StructType():
            text, fields = _after("struct<", text), []
            for number, field in enumerate(kind):
                text = _after(",", text) if number else text
                quoted = quote([field.name])
                text = _after(":", _after(quoted if text.startswith("`") else field.name, text))
                inner, text = _read(field.type, text)
                fields.append(_declared_within(field, inner))
            return StructType(tuple(fields)), _after(">", text)
        case ArrayType():
            element, text = _read(kind.element, _after("array<", text))
            return replace(kind, element=element), _after(">", text)
        case MapType():
            key, text = _read(kind.key, _after("map<", text))
            value, text = _read(kind.value, _after(",", text))
            return replace(kind, key=key, value=value), _after(">", text)
    found = _LIMITED.match(text) if kind == _STRING else None
    if found is not None:
        return PrimitiveType(f"{found[1].lower()}({found[2]})"), text[found.end() :]
    end = _OTHER.match(text)
    assert end is not None
    if not end.end() or (end[0].lower().startswith("string") != (kind == _STRING)):
        raise ValueError(text)
    return kind, text[end.end() :]


def _declared_within(field: StructField, kind: DataType) -> StructField:
    return field if kind == field.type else replace(field, type=kind)


def _after(start: str, text: str) -> str:
    if text[: len(start)].lower() != start.lower():
        raise ValueError(text)
    return text[len(start) :].lstrip()
