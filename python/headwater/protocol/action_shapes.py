"""The fields of each action, declared once: attribute, JSON name and Arrow type.

Owns one :class:`Shape` for each kind of action. From it follow the JSON of a commit
(:mod:`headwater.protocol.actions`), the Arrow columns of a snapshot (:mod:`headwater.log.files`) and the columns of a
checkpoint (:mod:`headwater.log.checkpoint_writing`). Follows the protocol's chapters "Actions" and "Checkpoint Schema".
Promise: the first field of a shape is never null in an action of that kind.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from math import isfinite
from typing import Any, NamedTuple

import pyarrow as pa

_STRING, _INT, _LONG, _BOOLEAN = pa.string(), pa.int32(), pa.int64(), pa.bool_()
_STRINGS = pa.list_(pa.field("element", pa.string()))
_STRING_MAP = pa.map_(pa.string(), pa.string())

#: The default of a field that every action of the kind has.
REQUIRED: Any = object()
_INT64 = 1 << 63


class Field(NamedTuple):
    """A field of an action. ``attribute`` is its name in Python and in a snapshot's Arrow columns.

    ``default`` stands for a field that is missing; :data:`REQUIRED` where none may be.
    """

    attribute: str
    type: pa.DataType
    json: str
    default: Any


class Shape:
    """The fields of one kind of action, in the order of its JSON."""

    def __init__(self, kind: str, *fields: Field) -> None:
        self.kind = kind
        self.fields = fields
        self.json_names: Mapping[str, str] = {field.attribute: field.json for field in fields}
        #: The JSON object of an action, by its attributes; fields that are None are left out.
        self.to_json: Callable[[Any], dict[str, Any]] = _generate_to_json(fields)
        self._read = [(field.attribute, field.json, field.default) for field in fields]
        self._checks = [(field.attribute, field.json, _check(field), field.default) for field in fields]

    def arrow_schema(self, without: Collection[str] = ()) -> pa.Schema:
        """Arrow columns by attribute, but for the attributes named."""
        return pa.schema([(field.attribute, field.type) for field in self.fields if field.attribute not in without])

    def checkpoint_type(self) -> pa.StructType:
        """The column of a checkpoint: an Arrow struct by JSON name."""
        return pa.struct([(field.json, checkpoint_type(field.type)) for field in self.fields])

    def read(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """The values of a parsed JSON object by attribute, with their types unchecked.

        :raises KeyError: a required field is missing.
        """
        return {
            attribute: content[name] if default is REQUIRED else content.get(name, default)
            for attribute, name, default in self._read
        }

    def read_checked(self, content: Mapping[str, Any]) -> dict[str, Any]:
        """The values of a parsed JSON object, or of a checkpoint's row, by attribute; the default replaces null.

        :raises KeyError, TypeError, UnicodeEncodeError: a field is missing, of the wrong type, or text that UTF-8
            cannot encode.
        """
        values = {}
        for attribute, name, check, default in self._checks:
            value = content.get(name)
            if value is not None:
                values[attribute] = check(value, name)
            elif default is REQUIRED:
                raise KeyError(name)
            else:
                values[attribute] = default
        return values


def checkpoint_type(kind: pa.DataType) -> pa.DataType:
    """The type of a field in a checkpoint, where a deletion vector's fields have their JSON names too."""
    return DELETION_VECTOR.checkpoint_type() if _is_deletion_vector(kind) else kind


def checkpoint_row(value: Any, kind: pa.DataType) -> Any:
    """A JSON value as pyarrow takes it for a column of a type: maps as lists of pairs."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        return list(value.items())
    if pa.types.is_struct(kind):
        return {field.name: checkpoint_row(value.get(field.name), field.type) for field in kind}
    return value


def _field(attribute: str, kind: pa.DataType, default: Any = None, json: str | None = None) -> Field:
    first, *others = attribute.split("_")
    return Field(attribute, kind, json or first + "".join(word.capitalize() for word in others), default)


def _generate_to_json(fields: Sequence[Field]) -> Callable[[Any], dict[str, Any]]:
    """The function behind :attr:`Shape.to_json`, as text that is compiled: a loop over the fields made the
    serialization of a commit of many files a fifth slower.
    """
    lines = ["def to_json(action):", "    content = {}"]
    for field in fields:
        lines.append(f"    value = action.{field.attribute}")
        lines.append("    if value is not None:")
        lines.append(f"        content[{field.json!r}] = {_json_expression(field.type)}")
    lines.append("    return content")
    namespace: dict[str, Any] = {}
    exec("\n".join(lines), namespace)
    return namespace["to_json"]  # type: ignore[no-any-return]


def _json_expression(kind: pa.DataType) -> str:
    """Python that makes JSON of ``value``, an attribute of a type."""
    if pa.types.is_map(kind):
        return "dict(value)"
    if pa.types.is_list(kind):
        return "sorted(value) if isinstance(value, frozenset) else list(value)"
    return "value.to_json()" if _is_deletion_vector(kind) else "value"


def _is_deletion_vector(kind: pa.DataType) -> bool:
    return bool(pa.types.is_struct(kind) and kind.get_field_index("storage_type") >= 0)


def _check(field: Field) -> Callable[[Any, str], Any]:
    """What checks the JSON value of a field and returns it."""
    kind = field.type
    if field.attribute == "tags":  # they only inform, and are written back as they were
        return _unchecked
    if pa.types.is_map(kind):
        return text_map if field.attribute == "partition_values" else _text_map
    if pa.types.is_list(kind):
        return _texts
    if pa.types.is_integer(kind):
        return _whole
    if pa.types.is_boolean(kind):
        return _flag
    return _text if pa.types.is_string(kind) else _unchecked


def _unchecked(value: Any, name: str) -> Any:
    return value


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} is not text")
    value.encode()
    return value


def _whole(value: Any, name: str) -> int:
    if type(value) is not int or not -_INT64 <= value < _INT64:
        raise TypeError(f"{name} is not a whole number of 64 bits")
    return value


def _flag(value: Any, name: str) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{name} is neither true nor false")
    return value


def _texts(value: Any, name: str) -> list[str]:
    if not isinstance(value, list):
        raise TypeError(f"{name} is not a list")
    return [_text(each, name) for each in value]


def text_map(value: Any, name: str) -> dict[str, str | None]:
    """A JSON object of texts and nulls; in a checkpoint's rows, a list of pairs.

    Some writers leave out the quotes of a number or of true. Such a value stands for its text, as for other readers.

    :raises TypeError, UnicodeEncodeError: a value is an object or an array, or text that UTF-8 cannot encode.
    """
    if not isinstance(value, (Mapping, list)):
        raise TypeError(f"{name} is not an object")
    return {_text(key, "key"): _as_text(each, f"{name}.{key}") for key, each in dict(value).items()}


def _as_text(value: Any, name: str) -> str | None:
    if value is None:
        return None
    is_plain = isinstance(value, (bool, int)) or (isinstance(value, float) and isfinite(value))
    return json.dumps(value) if is_plain else _text(value, name)


def _text_map(value: Any, name: str) -> dict[str, str]:
    """The same without the entries that have no value."""
    return {key: each for key, each in text_map(value, name).items() if each is not None}


#: A deletion vector's fields are nested in those of files. Its own type has the attributes as names.
DELETION_VECTOR = Shape(
    "deletionVector",
    _field("storage_type", _STRING, REQUIRED),
    _field("path_or_inline", _STRING, REQUIRED, "pathOrInlineDv"),
    _field("offset", _INT),
    _field("size", _INT, REQUIRED, "sizeInBytes"),
    _field("cardinality", _LONG, REQUIRED),
)
DELETION_VECTOR_TYPE = pa.struct(list(DELETION_VECTOR.arrow_schema()))

ADD = Shape(
    "add",
    _field("path", _STRING, REQUIRED),
    _field("partition_values", _STRING_MAP),
    _field("size", _LONG, REQUIRED),
    _field("modification_time", _LONG, REQUIRED),
    _field("data_change", _BOOLEAN, True),
    _field("stats", _STRING),
    _field("tags", _STRING_MAP),
    _field("deletion_vector", DELETION_VECTOR_TYPE),
    _field("base_row_id", _LONG),
    _field("default_row_commit_version", _LONG),
    _field("clustering_provider", _STRING),
)
REMOVE = Shape(
    "remove",
    _field("path", _STRING, REQUIRED),
    _field("deletion_timestamp", _LONG),
    _field("data_change", _BOOLEAN, True),
    _field("extended_file_metadata", _BOOLEAN),
    _field("partition_values", _STRING_MAP),
    _field("size", _LONG),
    _field("stats", _STRING),
    _field("tags", _STRING_MAP),
    _field("deletion_vector", DELETION_VECTOR_TYPE),
    _field("base_row_id", _LONG),
    _field("default_row_commit_version", _LONG),
)
#: ``dataChange``, always false here, is no attribute.
CDC = Shape(
    "cdc",
    _field("path", _STRING, REQUIRED),
    _field("partition_values", _STRING_MAP),
    _field("size", _LONG, REQUIRED),
    _field("tags", _STRING_MAP),
)
FORMAT = Shape("format", _field("provider", _STRING, "parquet"), _field("options", _STRING_MAP))
METADATA = Shape(
    "metaData",
    _field("id", _STRING, REQUIRED),
    _field("name", _STRING),
    _field("description", _STRING),
    _field("format", FORMAT.checkpoint_type()),
    _field("schema_string", _STRING, ""),  # some engines write none for a table without columns
    _field("partition_columns", _STRINGS, ()),
    _field("configuration", _STRING_MAP),
    _field("created_time", _LONG),
)
PROTOCOL = Shape(
    "protocol",
    _field("min_reader_version", _INT, REQUIRED),
    _field("min_writer_version", _INT, REQUIRED),
    _field("reader_features", _STRINGS),
    _field("writer_features", _STRINGS),
)
TRANSACTION = Shape(
    "txn",
    _field("app_id", _STRING, REQUIRED),
    _field("version", _LONG, REQUIRED),
    _field("last_updated", _LONG),
)
DOMAIN_METADATA = Shape(
    "domainMetadata",
    _field("domain", _STRING, REQUIRED),
    _field("configuration", _STRING, ""),
    _field("removed", _BOOLEAN, False),
)
CHECKPOINT_METADATA = Shape("checkpointMetadata", _field("version", _LONG, REQUIRED), _field("tags", _STRING_MAP))
SIDECAR = Shape(
    "sidecar",
    _field("path", _STRING, REQUIRED),
    _field("size_in_bytes", _LONG, REQUIRED),
    _field("modification_time", _LONG, REQUIRED),
    _field("tags", _STRING_MAP),
)
