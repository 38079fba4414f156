"""Iceberg compatibility: the rules that a table must follow so that its metadata can be converted to Iceberg's.

Owns the rules of ``icebergCompatV1``, ``V2`` and ``V3`` for a table's definition and for the files of a commit; what
data files must have beside is the writer's; and what a table must be like whose Iceberg metadata follows its commits
(``delta.universalFormat.enabledFormats``). Follows the protocol's chapters "Iceberg Compatibility V1", "Iceberg
Compatibility V2" and "Writer Requirements for Type Widening", and for V3 its RFC. Promise: while a version is active,
no commit breaks its rules. The conversion itself: :mod:`headwater.iceberg.conversion`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from headwater.basics.errors import HeadwaterError
from headwater.protocol import properties, row_tracking
from headwater.protocol.actions import AddFile
from headwater.protocol.column_metadata import CURRENT_DEFAULT, TYPE_CHANGES
from headwater.protocol.columns import all_fields, format_name, parts
from headwater.protocol.features import FEATURES, ICEBERG_COMPAT
from headwater.protocol.properties import universal_formats
from headwater.protocol.table_definition import TableDefinition
from headwater.protocol.types import (
    INTEGERS,
    INTERVAL_FIELDS,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    SpatialType,
    StructType,
    parse_type,
)

VERSIONS = tuple(ICEBERG_COMPAT)
#: Field ids that Iceberg reserves for the hidden columns of row tracking, in their order.
ROW_TRACKING_FIELD_IDS = (2147483540, 2147483539)

_VIOLATION = "DELTA_ICEBERG_COMPAT_VIOLATION"
_TYPES_OF_V2 = frozenset(
    {"byte", "short", "integer", "long", "float", "double", "string", "binary", "boolean", "date"}
    | {"timestamp", "timestamp_ntz"}
)
_TYPES_OF_V3 = _TYPES_OF_V2 | {"variant"}
_LITERAL = re.compile(
    r"""\s*(?:[-+]?\s*\d[\d.]*(?:e[-+]?\d+)?(?:[lsydf]|bd)?|[-+]?\s*\.\d+(?:e[-+]?\d+)?(?:[df]|bd)?|true|false|null
    |(?:date|timestamp|timestamp_ntz|timestamp_ltz|x)?\s*(?:'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"))\s*""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)


def switch(version: int) -> str:
    """The name of the property that enables a version."""
    return FEATURES[ICEBERG_COMPAT[version]].switches[0].name


def entailed(configuration: Mapping[str, str], *, new: bool) -> dict[str, str]:
    """The configuration with what enabled versions need of it and it says nothing about.

    :param new: whether it is that of a new table. Only such a table gets column mapping with them, as it changes what
        other engines need to read the table.
    """
    enabled = _enabled(configuration)
    needed: dict[str, str] = {}
    if enabled and new:
        needed[properties.COLUMN_MAPPING_MODE.name] = "name"
    if 3 in enabled:
        needed[properties.ROW_TRACKING.name] = "true"
    return {**needed, **configuration}


def needs_nested_ids(configuration: Mapping[str, str]) -> bool:
    """Whether elements of arrays, and keys and values of maps, need ids."""
    return any(version >= 2 for version in _enabled(configuration))


def check_definition(before: TableDefinition | None, after: TableDefinition) -> None:
    """Refuse a definition of a table that a version of Iceberg compatibility forbids.

    :param before: the table's definition; None for a new table.
    :raises HeadwaterError: ``DELTA_ICEBERG_COMPAT_VIOLATION``, with the rule as its subcondition.
    """
    _check_universal_format(before, after)
    active = after.iceberg_compat
    if len(active) > 1:
        raise _violation("VERSION_MUTUAL_EXCLUSIVE", active[-1], properties=_listed(map(switch, active)))
    schema, columns = after.schema, after.partition_columns
    if not active:
        _check_new_type_changes(before, after)
        return
    version = active[0]
    _check_properties(version, after)
    _check_types(version, schema)
    for change in _type_changes(schema):
        change.check(version)
    if before is not None and not _has_same_partitions(before, after):
        raise _violation(
            "REPLACE_TABLE_CHANGE_PARTITION_NAMES",
            version,
            prevPartitionSpec=", ".join(before.partition_columns),
            newPartitionSpec=", ".join(columns) or "none",
        )
    if version >= 3:
        _check_defaults(version, schema)


def _has_same_partitions(before: TableDefinition, after: TableDefinition) -> bool:
    """Whether the partition columns are the same ones, maybe renamed, or others of the same names."""
    if not before.partition_columns or before.partition_columns == after.partition_columns:
        return True
    old, new = ([each.schema.find(name) for name in each.partition_columns] for each in (before, after))
    return [each and each.physical_name for each in old] == [each and each.physical_name for each in new]


def is_converted(definition: TableDefinition) -> bool:
    """Whether commits to a table bring Iceberg metadata up to date."""
    return "iceberg" in universal_formats(definition.metadata.configuration) and 2 in definition.iceberg_compat


def _check_universal_format(before: TableDefinition | None, after: TableDefinition) -> None:
    """Refuse to switch on what no writer here keeps up; a table that another engine switched it on for keeps it.

    :raises HeadwaterError: ``DELTA_UNIVERSAL_FORMAT_VIOLATION``.
    """
    formats = universal_formats(after.metadata.configuration)
    was_converted = before is not None and is_converted(before)
    if not formats or (
        before is not None
        and not was_converted
        and formats == universal_formats(before.metadata.configuration)
        and not is_converted(after)
    ):
        return
    if others := sorted(formats - {"iceberg"}):
        reason = f"no metadata of {', '.join(others)} is written. Leave it out, and convert the table by another tool"
    elif 3 in after.iceberg_compat:
        reason = (
            f"of a table with {switch(3)}, no metadata of Iceberg is written: it would need version 3 of Iceberg's "
            "format, with deletion vectors and row lineage, and version 2 is what is written. Run REORG TABLE t APPLY "
            "(UPGRADE UNIFORM (ICEBERG_COMPAT_VERSION = 2)), or unset the property"
        )
    elif not is_converted(after):
        name = switch(2)
        reason = (
            f"the metadata of Iceberg that is written needs {name} = true. Set it in the same statement or, for a "
            "table with rows, run REORG TABLE t APPLY (UPGRADE UNIFORM (ICEBERG_COMPAT_VERSION = 2)). To do without "
            "Iceberg's readers, unset the property"
        )
    elif unfit := [name for name in after.partition_columns if _is_timestamp(after, name)]:
        reason = (
            f"the partition columns {', '.join(unfit)} are of the type TIMESTAMP, whose values the log has in the time "
            "zones of their writers. Partition by a DATE or TIMESTAMP_NTZ, or cluster the table by them"
        )
    else:
        return
    raise HeadwaterError("DELTA_UNIVERSAL_FORMAT_VIOLATION", {"formats": ",".join(sorted(formats)), "reason": reason})


def _is_timestamp(definition: TableDefinition, name: str) -> bool:
    column = definition.schema.find(name)
    return column is not None and column.type == PrimitiveType("timestamp")


def check_enabling(
    before: TableDefinition, after: TableDefinition, *, has_files: bool, is_unfit: Callable[[], bool]
) -> None:
    """Refuse to enable a version, or Iceberg metadata, on a table whose files are not what it needs.

    :param is_unfit: whether any file does not keep to V2.
    :raises HeadwaterError: ``DELTA_ICEBERG_COMPAT_VIOLATION.FILES_NOT_ICEBERG_COMPAT``,
        ``DELTA_ICEBERG_COMPAT_VIOLATION.CHANGE_VERSION_NEED_REWRITE``.
    """
    if is_converted(after) and not is_converted(before) and is_unfit():
        raise _violation("CHANGE_VERSION_NEED_REWRITE", 2)
    was = before.iceberg_compat
    added = set(after.iceberg_compat) - set(was)
    lacks = ""
    if 1 in added and after.partition_columns and not was:
        lacks = "the partition columns"
    elif 3 in added and any(row_tracking.reserved_names(before.metadata.configuration)):
        lacks = "the field ids of row ids and row commit versions"
    if lacks and has_files:
        raise _violation("FILES_NOT_ICEBERG_COMPAT", max(added), missing=lacks, property=switch(max(added)))


def check_files(definition: TableDefinition, adds: Iterable[AddFile]) -> None:
    """Refuse to commit a file whose number of rows the log would not have, while a version is active.

    :raises HeadwaterError: ``DELTA_ICEBERG_COMPAT_VIOLATION.MISSING_NUM_RECORDS``.
    """
    active = definition.iceberg_compat
    if not active:
        return
    for file in adds:
        if file.num_records is None:
            raise _violation("MISSING_NUM_RECORDS", active[0], path=file.path)


def _enabled(configuration: Mapping[str, str]) -> list[int]:
    return [version for version in VERSIONS if FEATURES[ICEBERG_COMPAT[version]].is_used_by(configuration)]


def _check_properties(version: int, definition: TableDefinition) -> None:
    if not definition.maps_columns:
        raise _wrong_property(version, properties.COLUMN_MAPPING_MODE.name, "name", definition.mapping_mode)
    has_vectors = definition.supports("deletionVectors")
    if version == 1 and has_vectors:
        raise _violation("INCOMPATIBLE_TABLE_FEATURE", version, feature="deletionVectors")
    if version == 2 and has_vectors and definition.get(properties.DELETION_VECTORS):
        raise _violation("DELETION_VECTORS_SHOULD_BE_DISABLED", version, property=properties.DELETION_VECTORS.name)
    if version == 3 and not definition.get(properties.ROW_TRACKING):
        raise _wrong_property(
            version,
            properties.ROW_TRACKING.name,
            "true",
            definition.text(properties.ROW_TRACKING) or "not set",
        )


def _wrong_property(version: int, key: str, required: str, actual: str) -> HeadwaterError:
    return _violation("WRONG_REQUIRED_TABLE_PROPERTY", version, key=key, requiredValue=required, actualValue=actual)


def _check_types(version: int, schema: StructType) -> None:
    for path, field in all_fields(schema):
        for kind, _ in parts(field.type):
            if not _allows(version, kind):
                raise _violation(
                    "UNSUPPORTED_DATA_TYPE", version, columnName=format_name(path), dataType=field.type.sql().upper()
                )


def _allows(version: int, kind: DataType) -> bool:
    match kind:
        case PrimitiveType(name):
            return (
                name not in ("void", *INTERVAL_FIELDS)
                if version == 1
                else name in (_TYPES_OF_V2 if version == 2 else _TYPES_OF_V3)
            )
        case ArrayType() | MapType():
            return version > 1
        case SpatialType():
            return version > 2
    return True


def _check_defaults(version: int, schema: StructType) -> None:
    for path, field in all_fields(schema):
        default = field.metadata.get(CURRENT_DEFAULT)
        if default is not None and not _LITERAL.fullmatch(default):
            raise _violation("UNSUPPORTED_DEFAULT", version, columnName=format_name(path), default=default)


@dataclass(frozen=True)
class _TypeChange:
    """A recorded change of the type at ``path``."""

    path: str
    old: DataType
    new: DataType

    def check(self, version: int) -> None:
        if not _can_widen(self.old, self.new):
            raise _violation(
                "UNSUPPORTED_TYPE_WIDENING",
                version,
                fieldPath=self.path,
                prevType=self.old.sql().upper(),
                newType=self.new.sql().upper(),
            )


def _type_changes(schema: StructType) -> list[_TypeChange]:
    return [
        _TypeChange(
            ".".join(filter(None, (format_name(path), change.get("fieldPath")))),
            parse_type(change["fromType"]),
            parse_type(change["toType"]),
        )
        for path, field in all_fields(schema)
        for change in field.metadata.get(TYPE_CHANGES, ())
    ]


def _check_new_type_changes(before: TableDefinition | None, after: TableDefinition) -> None:
    """V1 and V2 forbid new changes of type that Iceberg lacks wherever they are supported, enabled or not."""
    supported = [version for version in (1, 2) if after.supports(ICEBERG_COMPAT[version])]
    if supported:
        known = set(_type_changes(before.schema)) if before is not None else set()
        for change in _type_changes(after.schema):
            if change not in known:
                change.check(supported[-1])


def _can_widen(old: DataType, new: DataType) -> bool:
    """Whether Iceberg also reads values of one type as another."""
    match old, new:
        case PrimitiveType(a), PrimitiveType(b) if a in INTEGERS and b in INTEGERS:
            return INTEGERS.index(a) <= INTEGERS.index(b)
        case DecimalType(), DecimalType():
            return old.scale == new.scale and old.precision <= new.precision
    return old == new or (old, new) == (PrimitiveType("float"), PrimitiveType("double"))


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)


def _violation(rule: str, version: int, **parameters: object) -> HeadwaterError:
    return HeadwaterError(f"{_VIOLATION}.{rule}", {"version": version, **parameters})
