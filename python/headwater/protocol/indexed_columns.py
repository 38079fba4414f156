"""Which columns have per-file statistics, for data skipping.

Owns the choice of the indexed columns, from schema and table properties. Follows the protocol's chapter "Per-file
Statistics". The limit ``delta.dataSkippingNumIndexedCols`` counts leaves in schema order, depth first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from headwater.basics.errors import HeadwaterError
from headwater.protocol import properties
from headwater.protocol.columns import Leaf, Path, find_path, format_name, leaves, parse_name_list
from headwater.protocol.types import PRIMITIVES, DataType, DecimalType, PrimitiveType, StructType

_BOUNDED = frozenset(
    {"byte", "short", "integer", "long", "float", "double", "date", "timestamp", "timestamp_ntz", "string"}
)


def has_bounds(kind: DataType) -> bool:
    """Whether statistics hold a minimum and a maximum of a column of this type, and not only a null count."""
    return isinstance(kind, DecimalType) or (isinstance(kind, PrimitiveType) and kind.name in _BOUNDED)


def indexed_leaves(
    schema: StructType, partition_columns: Sequence[str], configuration: Mapping[str, str]
) -> list[tuple[Path, DataType]]:
    """The leaves with statistics: physical path and type, in schema order.

    Types without bounds (:func:`has_bounds`) have a null count only. Arrays and maps have no statistics, but each
    counts as one leaf for ``delta.dataSkippingNumIndexedCols`` (-1: no limit). ``delta.dataSkippingStatsColumns``
    overrides the number. A struct named there stands for all its leaves; names that the schema does not have are
    ignored. Partition columns, given by logical name, have no statistics.
    """
    partitions = {name.lower() for name in partition_columns}
    data_leaves = [leaf for leaf in leaves(schema) if leaf.path[0].lower() not in partitions]
    named = properties.INDEXED_COLUMNS.text(configuration)
    if named is not None:
        chosen = {tuple(part.lower() for part in path) for path in parse_name_list(named)}
        data_leaves = [leaf for leaf in data_leaves if _is_chosen(leaf, chosen)]
    else:
        limit = properties.INDEXED_COLUMNS_LIMIT.of(configuration)
        if limit is not None and limit >= 0:
            data_leaves = data_leaves[:limit]
    return [(leaf.physical_path, leaf.type) for leaf in data_leaves if _is_plain(leaf.type)]


def _is_chosen(leaf: Leaf, chosen: set[Path]) -> bool:
    folded = tuple(part.lower() for part in leaf.path)
    return any(folded[:length] in chosen for length in range(1, len(folded) + 1))


def _is_plain(kind: DataType) -> bool:
    return isinstance(kind, DecimalType) or (
        isinstance(kind, PrimitiveType) and kind.name in PRIMITIVES and kind.name != "void"
    )


def following_statistics_columns(
    configuration: Mapping[str, str], follow: Callable[[Path], Path | None]
) -> dict[str, str]:
    """The properties with a ``delta.dataSkippingStatsColumns`` that follows a change of the columns.

    :param follow: what becomes of a path that is named there; None if nothing does.
    """
    changed = dict(configuration)
    named = parse_name_list(changed.get(properties.INDEXED_COLUMNS.name, ""))
    kept = [path for column in named if (path := follow(column)) is not None]
    if kept and kept != named:
        changed[properties.INDEXED_COLUMNS.name] = ",".join(map(format_name, kept))
    elif kept != named:
        # An empty list would mean no statistics at all.
        del changed[properties.INDEXED_COLUMNS.name]
    return changed


def with_possible_statistics_columns(
    schema: StructType, partition_columns: Sequence[str], configuration: Mapping[str, str]
) -> dict[str, str]:
    """The properties of a table that gets other columns: names in ``delta.dataSkippingStatsColumns`` that cannot have
    statistics any more are left out.
    """

    def follow(column: Path) -> Path | None:
        return column if _why_not(schema, partition_columns, column) is None else None

    return following_statistics_columns(configuration, follow)


def check_statistics_columns(
    schema: StructType, partition_columns: Sequence[str], configuration: Mapping[str, str]
) -> None:
    """Refuse a ``delta.dataSkippingStatsColumns`` that cannot be honoured.

    :raises HeadwaterError: ``DELTA_COLUMN_NOT_FOUND_IN_SCHEMA``, ``DELTA_DUPLICATE_DATA_SKIPPING_COLUMNS``,
        ``DELTA_COLUMN_DATA_SKIPPING_NOT_SUPPORTED_PARTITIONED_COLUMN``,
        ``DELTA_COLUMN_DATA_SKIPPING_NOT_SUPPORTED_TYPE``.
    """
    seen: set[Path] = set()
    for path in parse_name_list(properties.INDEXED_COLUMNS.of(configuration)):
        if (error := _why_not(schema, partition_columns, path)) is not None:
            raise error
        folded = tuple(part.lower() for part in path)
        if folded in seen:
            raise HeadwaterError("DELTA_DUPLICATE_DATA_SKIPPING_COLUMNS", {"columns": format_name(path)})
        seen.add(folded)


def _why_not(schema: StructType, partition_columns: Sequence[str], path: Path) -> HeadwaterError | None:
    """The error of a path that cannot have statistics; None for one that can."""
    name, field = format_name(path), find_path(schema, path)
    if field is None:
        return HeadwaterError("DELTA_COLUMN_NOT_FOUND_IN_SCHEMA", {"columnName": name, "schema": schema.sql()})
    if path[0].lower() in {column.lower() for column in partition_columns}:
        return HeadwaterError("DELTA_COLUMN_DATA_SKIPPING_NOT_SUPPORTED_PARTITIONED_COLUMN", {"column": name})
    if not isinstance(field.type, StructType) and not has_bounds(field.type):
        return HeadwaterError(
            "DELTA_COLUMN_DATA_SKIPPING_NOT_SUPPORTED_TYPE", {"column": name, "type": field.type.sql()}
        )
    return None
