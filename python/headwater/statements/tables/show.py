"""SHOW CREATE TABLE, SHOW COLUMNS, SHOW PARTITIONS, and the summaries for SHOW TABLE EXTENDED and DESCRIBE EXTENDED.

Owns the way from a table's definition back to a statement. Promise: the text of SHOW CREATE TABLE runs as it is, and
creates a table of the same definition.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

from headwater.basics.errors import HeadwaterError
from headwater.bridge.messages.define import (
    RowsAnswer,
    ShowColumnsRequest,
    ShowCreateTableRequest,
    ShowPartitionsRequest,
    SummarizeTablesRequest,
    TableSummaries,
    TableSummary,
)
from headwater.bridge.statement import Statement
from headwater.log.snapshot import Snapshot
from headwater.protocol.column_metadata import CURRENT_DEFAULT, DECLARED_TYPE, GENERATION_EXPRESSION
from headwater.protocol.columns import Path, parse_name, sql_name
from headwater.protocol.features import WRITER_VERSION_WITH_FEATURES, supported_features
from headwater.protocol.partition_paths import partition_directory
from headwater.protocol.partition_values import key_of, texts_of
from headwater.protocol.properties import CONSTRAINT_PREFIX, EXPECT_PREFIX, FEATURE_PREFIX, KEY_PREFIX, PROPERTIES
from headwater.protocol.types import ArrayType, DataType, MapType, StructField, StructType, schema_string
from headwater.pruning import estimate
from headwater.schema import visible
from headwater.schema.constraints import check_constraints
from headwater.schema.expectations import readable
from headwater.schema.identity import identity_columns
from headwater.schema.keys import keys
from headwater.sql.tokens import literal
from headwater.statements.calls import reads
from headwater.statements.running.opening import note_read, open_snapshot


@reads
def show_create_table(request: ShowCreateTableRequest, statement: Statement) -> RowsAnswer:
    """One row: the statement that creates the table."""
    snapshot = open_snapshot(request.table, statement)
    return RowsAnswer(rows=[{"createtab_stmt": create_statement(snapshot, request.name, request.location)}])


@reads
def show_columns(request: ShowColumnsRequest, statement: Statement) -> RowsAnswer:
    """One row for each column of the table.

    :raises HeadwaterError: ``SHOW_COLUMNS_WITH_CONFLICT_NAMESPACE`` where IN names another namespace than the table.
    """
    named = parse_name(request.name)[-2:-1]
    if request.namespace and [part.lower() for part in request.namespace[-1:]] != [part.lower() for part in named]:
        raise HeadwaterError(
            "SHOW_COLUMNS_WITH_CONFLICT_NAMESPACE",
            {"namespaceA": ".".join(request.namespace), "namespaceB": ".".join(named)},
        )
    return RowsAnswer(rows=[{"col_name": field.name} for field in open_snapshot(request.table, statement).schema])


def create_statement(snapshot: Snapshot, name: str, location: str | None) -> str:
    """CREATE TABLE for a snapshot; ``name`` as SQL, ``location`` if it is no managed table's."""
    identities = {column.name: column for column in identity_columns(snapshot.schema)}
    columns = [_column(field, identities.get(field.name)) for field in snapshot.schema]
    columns += [
        f"CONSTRAINT {sql_name(check.name)} CHECK ({check.sql})"
        for check in check_constraints(snapshot.metadata.configuration)
    ]
    columns += [f"CONSTRAINT {sql_name(key.name)} {key.sql}" for key in keys(snapshot.definition)]
    expected = readable(snapshot.metadata.configuration)
    columns += [f"CONSTRAINT {sql_name(each.name)} {each.clause}" for each in expected]
    text = f"CREATE TABLE {name} {_lines(columns)}" if columns else f"CREATE TABLE {name}\n"
    text += "USING delta\n"
    if snapshot.partition_columns:
        text += f"PARTITIONED BY ({', '.join(map(sql_name, snapshot.partition_columns))})\n"
    if clustered_by := snapshot.clustering_columns:
        text += f"CLUSTER BY ({', '.join(map(_path, clustered_by))})\n"
    if snapshot.metadata.description:
        text += f"COMMENT {literal(snapshot.metadata.description)}\n"
    if location is not None:
        text += f"LOCATION {literal(location)}\n"
    properties = _properties(snapshot)
    if properties:
        text += "TBLPROPERTIES " + _lines(f"{literal(k)} = {literal(v)}" for k, v in sorted(properties.items()))
    return text


def _column(field: StructField, identity: Any) -> str:
    text = f"{sql_name(field.name)} {_declared_type(field)}"
    if not field.nullable:
        text += " NOT NULL"
    if GENERATION_EXPRESSION in field.metadata:
        text += f" GENERATED ALWAYS AS ({field.metadata[GENERATION_EXPRESSION]})"
    elif identity is not None:
        kind = "BY DEFAULT" if identity.allow_explicit_insert else "ALWAYS"
        text += f" GENERATED {kind} AS IDENTITY (START WITH {identity.start} INCREMENT BY {identity.step})"
    elif CURRENT_DEFAULT in field.metadata:
        text += f" DEFAULT {field.metadata[CURRENT_DEFAULT]}"
    return text + _comment(field)


def _declared_type(field: StructField) -> str:
    declared = field.metadata.get(DECLARED_TYPE)
    return str(declared).upper() if declared and not isinstance(field.type, StructType) else _type(field.type)


def _type(kind: DataType) -> str:
    match kind:
        case StructType():
            return f"STRUCT<{', '.join(map(_field, kind))}>"
        case ArrayType():
            return f"ARRAY<{_type(kind.element)}>"
        case MapType():
            return f"MAP<{_type(kind.key)}, {_type(kind.value)}>"
    return kind.sql().upper()


def _field(field: StructField) -> str:
    return f"{sql_name(field.name)}: {_type(field.type)}{'' if field.nullable else ' NOT NULL'}{_comment(field)}"


def _comment(field: StructField) -> str:
    return f" COMMENT {literal(field.comment)}" if field.comment else ""


def _properties(snapshot: Snapshot) -> dict[str, str]:
    """The table's properties less those only a writer may keep and those the statement says in other words."""
    properties = {
        key: value
        for key, value in snapshot.metadata.configuration.items()
        if not key.lower().startswith((CONSTRAINT_PREFIX, KEY_PREFIX, EXPECT_PREFIX))
        and (key not in PROPERTIES or PROPERTIES[key].settable)
    }
    if snapshot.protocol.min_writer_version >= WRITER_VERSION_WITH_FEATURES:
        properties |= {FEATURE_PREFIX + name: "supported" for name in supported_features(snapshot.protocol)}
    return properties


def _path(path: Path) -> str:
    return ".".join(map(sql_name, path))


def _lines(items: Iterable[str]) -> str:
    return "(\n  " + ",\n  ".join(items) + ")\n"


@reads
def show_partitions(request: ShowPartitionsRequest, statement: Statement) -> RowsAnswer:
    """A row a partition that has files, ``a=1/b=x`` as Spark writes it for other tables, in their order.

    :raises HeadwaterError: ``DELTA_SHOW_PARTITION_IN_NON_PARTITIONED_TABLE``,
        ``DELTA_SHOW_PARTITION_IN_NON_PARTITIONED_COLUMN``.
    """
    snapshot = open_snapshot(request.table, statement)
    names = snapshot.partition_columns
    if not names:
        raise HeadwaterError("DELTA_SHOW_PARTITION_IN_NON_PARTITIONED_TABLE", {"tableName": request.name})
    wanted = {key.lower(): value for key, value in (request.partition or {}).items()}
    unknown = [key for key in wanted if key not in {name.lower() for name in names}]
    if unknown:
        raise HeadwaterError("DELTA_SHOW_PARTITION_IN_NON_PARTITIONED_COLUMN", {"badCols": ", ".join(unknown)})
    note_read(snapshot.store)
    columns = snapshot.definition.partition_fields
    maps = snapshot.select(["partition_values"])["partition_values"]
    texts = zip(*(texts_of(maps, column.physical_name).to_pylist() for column in columns), strict=True)
    # If two texts have the same value, the first one names the partition.
    ordered = sorted(set(texts), key=lambda values: [(value is not None, value or "") for value in values])

    def keys(values: Iterable[str | None]) -> tuple[Hashable, ...]:
        return tuple(key_of(v, c.type, statement.time_zone) for v, c in zip(values, columns, strict=True))

    asked = keys(wanted.get(name.lower()) for name in names)
    compared = [position for position, name in enumerate(names) if name.lower() in wanted]
    found: dict[tuple[Hashable, ...], str] = {}
    for values in ordered:
        key = keys(values)
        if all(key[position] == asked[position] for position in compared):
            found.setdefault(key, partition_directory(dict(zip(names, values, strict=True))))
    return RowsAnswer(rows=[{"partition": directory} for directory in found.values()])


@reads
def summarize_tables(request: SummarizeTablesRequest, statement: Statement) -> TableSummaries:
    """What a list of tables says of each. A table that cannot be opened is left out: the others are still listed."""

    def summary(path: str) -> TableSummary | None:
        try:
            snapshot = open_snapshot(path, statement)
            note_read(snapshot.store)
            known = estimate(snapshot, None, ())
        except HeadwaterError:
            return None
        return TableSummary(
            schema=schema_string(visible.for_reading(snapshot.schema)),
            partition_columns=snapshot.partition_columns,
            description=snapshot.metadata.description,
            properties=dict(snapshot.metadata.configuration),
            size_in_bytes=snapshot.size_in_bytes,
            rows=known[0] if known else None,
        )

    return TableSummaries(tables=[summary(path) for path in request.tables])
