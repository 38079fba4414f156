"""Column mapping: physical names and ids of columns.

Owns the mode, the assignment of ids and names to new columns and the schema as data files see it. Follows the
protocol's chapter "Column Mapping". Promise: an id or physical name, once given, is never changed, and a new one is
never one that was in use.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace

from headwater.basics.errors import HeadwaterError
from headwater.protocol import properties
from headwater.protocol.column_metadata import COLUMN_ID, NESTED_IDS, PHYSICAL_NAME
from headwater.protocol.columns import ELEMENT, KEY, VALUE, Path, all_fields, format_name, map_fields, with_parts
from headwater.protocol.types import ArrayType, DataType, MapType, StructField, StructType
from headwater.schema.walk import held, with_held

_PREFIX = "delta.columnMapping."
#: The highest id of a column: a data file's field ids have 32 bits.
_LAST_ID = 2**31 - 1


def check_mode_change(old: Mapping[str, str], new: Mapping[str, str]) -> None:
    """An existing table can change from no mapping to mapping by name; every other change of mode is refused.

    Going back to none is no change of the definition alone: every file is written again first, under the logical names.

    :raises HeadwaterError: ``DELTA_UNSUPPORTED_COLUMN_MAPPING_MODE_CHANGE``.
    """
    before, after = properties.COLUMN_MAPPING_MODE.of(old), properties.COLUMN_MAPPING_MODE.of(new)
    if before != after and (before, after) != ("none", "name"):
        raise HeadwaterError("DELTA_UNSUPPORTED_COLUMN_MAPPING_MODE_CHANGE", {"oldMode": before, "newMode": after})


def check_enabling(schema: StructType, table_path: str) -> None:
    """Refuse to map columns whose fields still have ids or physical names from an earlier mapping: old rows would be
    read by names that are in no file.

    :param schema: of a table that maps no columns. Its files have the logical names.
    :raises HeadwaterError:
        ``DELTA_ENABLING_COLUMN_MAPPING_DISALLOWED_WHEN_COLUMN_MAPPING_METADATA_ALREADY_EXISTS``.
    """
    left, seen = [], set()
    for path, field in all_fields(schema):
        number = field.metadata.get(COLUMN_ID)
        if field.physical_name != field.name or number is not None and number in seen:
            left.append(format_name(path))
        seen.add(number)
    if left:
        raise HeadwaterError(
            "DELTA_ENABLING_COLUMN_MAPPING_DISALLOWED_WHEN_COLUMN_MAPPING_METADATA_ALREADY_EXISTS",
            {"tablePath": table_path, "columns": ", ".join(left)},
        )


def max_column_id(configuration: Mapping[str, str], schema: StructType) -> int:
    """The highest id ever given: the table property, or the schema's highest where that is more or the property
    missing. Nested ids count as well.
    """
    highest = properties.MAX_COLUMN_ID.of(configuration)
    for _, field in all_fields(schema):
        ids = (field.metadata.get(COLUMN_ID, 0), *field.metadata.get(NESTED_IDS, {}).values())
        highest = max(highest, *map(int, ids))
    return highest


def assign(
    schema: StructType, max_id: int, *, keep_names: bool = False, nested: bool = False
) -> tuple[StructType, int]:
    """The schema with an id and a physical name for each field that lacks one, and the new highest id.

    :param max_id: the table's ``delta.columnMapping.maxColumnId``, 0 for a new table.
    :param keep_names: name a column by its logical name instead of ``col-<uuid>``: for a table that turns mapping on
        and whose files have those names already.
    :param nested: whether elements, keys and values also get ids, after all fields (:data:`NESTED_IDS`).
    :raises HeadwaterError: ``HEADWATER_COLUMN_IDS_EXHAUSTED``.
    """
    counter = _Assignment(max_column_id({properties.MAX_COLUMN_ID.name: str(max_id)}, schema), keep_names)
    known = counter.max_id
    mapped, highest = counter.struct(schema), counter.max_id
    if nested:
        within = _NestedAssignment(highest)
        mapped, highest = within.struct(mapped), within.max_id
    if highest > max(known, _LAST_ID):
        raise HeadwaterError(
            "HEADWATER_COLUMN_IDS_EXHAUSTED", {"property": properties.MAX_COLUMN_ID.name, "value": known}
        )
    return mapped, highest


class _Assignment:
    """Gives ids in schema order, parents before their children."""

    def __init__(self, max_id: int, keep_names: bool) -> None:
        self.max_id = max_id
        self.keep_names = keep_names

    def struct(self, struct: StructType) -> StructType:
        return StructType(tuple(self.field(f) for f in struct))

    def field(self, field: StructField) -> StructField:
        metadata = dict(field.metadata)
        if COLUMN_ID not in metadata:
            self.max_id += 1
            metadata[COLUMN_ID] = self.max_id
        if PHYSICAL_NAME not in metadata:
            metadata[PHYSICAL_NAME] = field.name if self.keep_names else f"col-{uuid.uuid4()}"
        return replace(field, metadata=metadata, type=self.kind(field.type))

    def kind(self, kind: DataType) -> DataType:
        return self.struct(kind) if isinstance(kind, StructType) else with_parts(kind, lambda part, _: self.kind(part))


class _NestedAssignment:
    """Gives ids to elements, keys and values in schema order, parents before what they hold."""

    def __init__(self, max_id: int) -> None:
        self.max_id = max_id

    def struct(self, struct: StructType) -> StructType:
        return StructType(tuple(self.field(f) for f in struct))

    def field(self, field: StructField) -> StructField:
        ids = dict(field.metadata.get(NESTED_IDS, {}))
        kind = self.kind(field.type, field.physical_name, ids)
        metadata = {**field.metadata, NESTED_IDS: ids} if ids else field.metadata
        return replace(field, type=kind, metadata=metadata)

    def kind(self, kind: DataType, path: str, ids: dict[str, int]) -> DataType:
        """The type, whose path leads from the nearest field; that field's ids are put into ``ids``."""

        def within(part: DataType, step: str) -> DataType:
            at = f"{path}.{step}"
            if at not in ids:
                self.max_id += 1
                ids[at] = self.max_id
            return self.kind(part, at, ids)

        return self.struct(kind) if isinstance(kind, StructType) else with_parts(kind, within)


def keep(schema: StructType, before: StructType) -> StructType:
    """The schema of rows that replace all of a mapped table's, with the ids and physical names of the fields that are
    the same as before: those of equal name, ignoring case, and equal type. A struct is the same whatever its fields.

    :param schema: without ids and physical names.
    """
    return StructType(tuple(_kept(field, before.find(field.name)) for field in schema))


def _kept(field: StructField, before: StructField | None) -> StructField:
    if before is None or not _is_same(field.type, before.type):
        return field
    own = {key: value for key, value in before.metadata.items() if key.startswith(_PREFIX)}
    return replace(field, metadata={**field.metadata, **own}, type=_kept_within(field.type, before.type))


def _kept_within(kind: DataType, before: DataType) -> DataType:
    if isinstance(kind, StructType) and isinstance(before, StructType):
        return keep(kind, before)
    return with_held(kind, before, lambda one, two, _: _kept_within(one, two))


def _is_same(kind: DataType, before: DataType) -> bool:
    if isinstance(kind, StructType) and isinstance(before, StructType):
        return True
    both = held(kind, before)
    return all(_is_same(each.one, each.two) for each in both) if both else kind == before


def strip(schema: StructType) -> StructType:
    """The schema without ids and physical names: for a new table, or one whose mode is none, where they have no
    force.
    """
    return map_fields(
        schema,
        lambda f, _: replace(f, metadata={k: v for k, v in f.metadata.items() if not k.startswith(_PREFIX)}),
    )


def physical_path(schema: StructType, path: Sequence[str]) -> Path:
    """The physical field path of a logical one, found ignoring case.

    :raises HeadwaterError: ``DELTA_COLUMN_NOT_FOUND_IN_SCHEMA``.
    """
    physical: list[str] = []
    kind: DataType = schema
    for depth in range(1, len(path) + 1):
        step = path[depth - 1]
        if isinstance(kind, StructType):
            field = kind.find(step)
            if field is None:
                break
            physical.append(field.physical_name)
            kind = field.type
        elif isinstance(kind, ArrayType) and step.lower() == ELEMENT:
            physical.append(ELEMENT)
            kind = kind.element
        elif isinstance(kind, MapType) and step.lower() in (KEY, VALUE):
            physical.append(step.lower())
            kind = kind.key if step.lower() == KEY else kind.value
        else:
            break
    if len(physical) != len(path):
        raise HeadwaterError(
            "DELTA_COLUMN_NOT_FOUND_IN_SCHEMA", {"columnName": format_name(path), "schema": schema.sql()}
        )
    return tuple(physical)


def logical_path(schema: StructType, path: Sequence[str]) -> Path | None:
    """The logical field path of a physical one; None if the schema no longer has that column."""
    logical_paths = {physical_path(schema, logical): logical for logical, _ in all_fields(schema)}
    return logical_paths.get(tuple(path))
