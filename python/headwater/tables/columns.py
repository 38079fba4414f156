"""The columns of CREATE TABLE: from PySpark's types and fields to SQL.

Of a field's metadata, it uses the protocol's keys for generated columns, identity columns and comments, and Spark's key
for CHAR and VARCHAR. SQL cannot express other metadata, nor an array or map without nulls; these are dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import ArrayType, DataType, MapType, NullType, StructField, StructType

from headwater.tables.names import literal, quote
from headwater.tables.statement_inputs import alone

COMMENT = "comment"
GENERATED = "delta.generationExpression"
IDENTITY_START = "delta.identity.start"
IDENTITY_STEP = "delta.identity.step"
IDENTITY_BY_DEFAULT = "delta.identity.allowExplicitInsert"
_CHARACTERS = "__CHAR_VARCHAR_TYPE_STRING"


@dataclass(frozen=True)
class IdentityGenerator:
    """The values of an identity column: ``start``, ``start + step``, and so on."""

    start: int = 1
    step: int = 1


@dataclass(frozen=True)
class ColumnDefinition:
    """A column of CREATE TABLE.

    ``type``: its type in SQL. ``generated``: the expression that computes it, or the identity's values; with
    ``by_default``, a writer may give others.
    """

    name: str
    type: str
    nullable: bool = True
    generated: str | IdentityGenerator | None = None
    by_default: bool = False
    comment: str | None = None

    def sql(self) -> str:
        """The column's definition in CREATE TABLE."""
        text = f"{quote(self.name)} {self.type}"
        if not self.nullable:
            text += " NOT NULL"
        if isinstance(self.generated, IdentityGenerator):
            kind = "BY DEFAULT" if self.by_default else "ALWAYS"
            values = f"START WITH {self.generated.start} INCREMENT BY {self.generated.step}"
            text += f" GENERATED {kind} AS IDENTITY ({values})"
        elif self.generated is not None:
            text += f" GENERATED ALWAYS AS {alone(self.generated)}"
        if self.comment is not None:
            text += f" COMMENT {literal(self.comment)}"
        return text


def of_field(field: StructField) -> ColumnDefinition:
    """The definition that a schema's field describes."""
    metadata: dict[str, Any] = field.metadata or {}
    generated: str | IdentityGenerator | None = metadata.get(GENERATED)
    if IDENTITY_STEP in metadata:
        generated = IdentityGenerator(metadata.get(IDENTITY_START, 1), metadata[IDENTITY_STEP])
    return ColumnDefinition(
        field.name,
        _field_type(field),
        field.nullable,
        generated,
        bool(metadata.get(IDENTITY_BY_DEFAULT)),
        metadata.get(COMMENT),
    )


def sql_type(kind: DataType | str) -> str:
    """A type in SQL; text is returned unchanged."""
    if isinstance(kind, str):
        return kind
    if isinstance(kind, StructType):
        return f"STRUCT<{', '.join(map(_nested, kind.fields))}>"
    if isinstance(kind, ArrayType):
        return f"ARRAY<{sql_type(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"MAP<{sql_type(kind.keyType)}, {sql_type(kind.valueType)}>"
    if isinstance(kind, NullType):
        return "VOID"
    return str(kind.simpleString())


def _nested(field: StructField) -> str:
    comment = (field.metadata or {}).get(COMMENT)
    return (
        f"{quote(field.name)}: {_field_type(field)}"
        + ("" if field.nullable else " NOT NULL")
        + ("" if comment is None else f" COMMENT {literal(comment)}")
    )


def _field_type(field: StructField) -> str:
    return str((field.metadata or {}).get(_CHARACTERS) or sql_type(field.dataType))
