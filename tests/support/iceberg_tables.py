"""Delta tables whose commits bring Iceberg metadata up to date, with real data files and without Spark, and what
pyiceberg reads of them.
"""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headwater.definition.requirements import protocol_for
from headwater.iceberg.conversion import convert
from headwater.iceberg.fitness import TAG
from headwater.log.data_footers import read_data_footer
from headwater.log.snapshot import Snapshot, load_snapshot
from headwater.protocol import properties
from headwater.protocol.actions import AddFile, Metadata
from headwater.protocol.types import ArrayType, DataType, MapType, StructField, StructType, schema_string
from headwater.schema import mapping
from headwater.stores import LocalStore
from headwater.transaction import Provenance, Transaction

CONVERTED = {
    "delta.columnMapping.mode": "name",
    "delta.enableIcebergCompatV2": "true",
    "delta.universalFormat.enabledFormats": "iceberg",
}

Row = Mapping[str, Any]


class ConvertedTable:
    """A table, its rows as a model has them, and the files that they lie in."""

    def __init__(self, path: Path, schema: StructType, partition_columns: Iterable[str] = (), **more: str) -> None:
        self.path = path
        mapped, highest = mapping.assign(schema, 0, nested=True)
        configuration = {**CONVERTED, properties.MAX_COLUMN_ID.name: str(highest), **more}
        metadata = Metadata(
            str(uuid.uuid4()), schema_string(mapped), tuple(partition_columns), configuration, created_time=1
        )
        txn = Transaction(str(path), LocalStore(), None)
        txn.update_protocol(protocol_for(metadata, None))
        txn.update_metadata(metadata)
        path.mkdir(parents=True, exist_ok=True)
        self.files: dict[str, list[Row]] = {}
        self.snapshot: Snapshot = txn.commit(Provenance("CREATE TABLE")).snapshot

    @property
    def rows(self) -> list[Row]:
        return [row for rows in self.files.values() for row in rows]

    def commit(self, add: Iterable[list[Row]] = (), remove: Iterable[str] = (), *, data_change: bool = True) -> None:
        """Add files of these rows, and remove files."""
        txn = Transaction(str(self.path), LocalStore(), self.snapshot)
        gone = list(remove)
        live = {row["path"]: row for row in self.snapshot.files.to_pylist()}
        added = [self._write(rows, data_change) for rows in add]
        txn.add(file for file, _ in added)
        txn.remove(
            AddFile(
                path, dict(live[path]["partition_values"] or ()), live[path]["size"], 1, True, live[path]["stats"]
            ).removal(2, data_change)
            for path in gone
        )
        self.snapshot = txn.commit(Provenance("WRITE")).snapshot
        for path in gone:
            del self.files[path]
        self.files |= {file.path: rows for file, rows in added}

    def redefine(self, change: Callable[[StructType], StructType]) -> None:
        """Give the table other columns; new ones are null in all rows."""
        highest = mapping.max_column_id(self.snapshot.metadata.configuration, self.snapshot.schema)
        schema, highest = mapping.assign(change(self.snapshot.schema), highest, nested=True)
        self._define(schema, self.snapshot.partition_columns, highest)

    def replace(self, schema: StructType, partition_columns: Iterable[str]) -> None:
        """Define the table again, with columns that no file has."""
        highest = mapping.max_column_id(self.snapshot.metadata.configuration, self.snapshot.schema)
        mapped, highest = mapping.assign(schema, highest, nested=True)
        self._define(mapped, partition_columns, highest)
        self.commit((), list(self.files))

    def restore(self, version: int) -> None:
        """Give the table the columns of a version again."""
        old = at_version(self.path, version)
        highest = mapping.max_column_id(self.snapshot.metadata.configuration, old.schema)
        self._define(old.schema, old.partition_columns, highest)

    def _define(self, schema: StructType, partition_columns: Iterable[str], highest: int) -> None:
        metadata = self.snapshot.metadata
        configuration = {**metadata.configuration, properties.MAX_COLUMN_ID.name: str(highest)}
        txn = Transaction(str(self.path), LocalStore(), self.snapshot)
        txn.update_metadata(
            replace(
                metadata,
                schema_string=schema_string(schema),
                partition_columns=tuple(partition_columns),
                configuration=configuration,
            )
        )
        self.snapshot = txn.commit(Provenance("REPLACE TABLE")).snapshot

    def convert(self) -> int | None:
        return convert(self.snapshot)

    def _write(self, rows: list[Row], data_change: bool) -> tuple[AddFile, list[Row]]:
        schema, columns = self.snapshot.schema, self.snapshot.partition_columns
        name = f"part-{uuid.uuid4().hex}.parquet"
        types = [file_field(field) for field in schema]
        arrays = [
            pa.array([_physical(row[field.name], field.type) for row in rows], kind.type)
            for field, kind in zip(schema, types, strict=True)
        ]
        pq.write_table(pa.table(arrays, schema=pa.schema(types)), self.path / name)
        size = (self.path / name).stat().st_size
        footer = read_data_footer(str(self.path), LocalStore(), 0, name, size)
        values = {schema.find(column).physical_name: _text(rows[0][column]) for column in columns}
        return AddFile(name, values, size, 1, data_change, _stats(footer, rows, schema), {TAG: "2"}), rows


def _stats(footer: Any, rows: list[Row], schema: StructType) -> str:
    found: dict[str, dict[str, Any]] = {"minValues": {}, "maxValues": {}, "nullCount": {}}
    for field in schema:
        values = [row[field.name] for row in rows]
        if isinstance(field.type, (StructType, ArrayType, MapType)):
            continue
        present = [value for value in values if value is not None]
        found["nullCount"][field.physical_name] = len(values) - len(present)
        if present and isinstance(present[0], (int, str)) and not isinstance(present[0], bool):
            found["minValues"][field.physical_name] = min(present)
            found["maxValues"][field.physical_name] = max(present)
    assert footer.num_rows == len(rows)
    return json.dumps({"numRecords": len(rows), **found})


def _text(value: Any) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    return None if value is None else str(value)


def file_field(field: StructField) -> pa.Field:
    """A column as data files have it."""
    ids = field.metadata.get("delta.columnMapping.nested.ids", {})
    kind = _file_type(field.type, field.physical_name, ids)
    return _with_id(pa.field(field.physical_name, kind), field.metadata["delta.columnMapping.id"])


def _with_id(field: pa.Field, number: int) -> pa.Field:
    return field.with_metadata({"PARQUET:field_id": str(number)})


def _file_type(kind: DataType, path: str, ids: Mapping[str, int]) -> pa.DataType:
    match kind:
        case StructType():
            return pa.struct([file_field(field) for field in kind])
        case ArrayType(element):
            at = f"{path}.element"
            return pa.list_(_with_id(pa.field("element", _file_type(element, at, ids)), ids[at]))
        case MapType(key, value):
            at_key, at_value = f"{path}.key", f"{path}.value"
            return pa.map_(
                _with_id(pa.field("key", _file_type(key, at_key, ids), nullable=False), ids[at_key]),
                _with_id(pa.field("value", _file_type(value, at_value, ids)), ids[at_value]),
            )
    return kind.to_arrow()


def _physical(value: Any, kind: DataType) -> Any:
    match kind:
        case StructType() if value is not None:
            return {field.physical_name: _physical(value[field.name], field.type) for field in kind}
        case ArrayType(element) if value is not None:
            return [_physical(each, element) for each in value]
    return value


def read_by_pyiceberg(path: Path | str, **options: Any) -> pa.Table:
    """All rows that pyiceberg sees, found by the hint in the folder of metadata."""
    from pyiceberg.table import StaticTable

    return StaticTable.from_metadata(f"file://{path}").scan(**options).to_arrow()


def normalized(rows: Iterable[Row]) -> list[str]:
    """Rows without their order, and values without what differs between libraries."""
    return sorted(repr({key: _plain(value) for key, value in row.items()}) for row in rows)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return str(value.replace(tzinfo=None) if value.tzinfo is None else value.astimezone(timezone.utc))
    return value


def random_step(
    table: ConvertedTable, draw: random.Random, make_row: Callable[[random.Random], Row], keys: list[str]
) -> str:
    """Change the table as statements do: append, delete rows of files, delete files, rewrite files, add columns."""
    step = draw.choice(["append", "append", "append", "delete", "drop", "rewrite", "nothing"])
    names = list(table.files)
    some = draw.sample(names, min(len(names), draw.randint(1, 3)))
    if step == "append" or not names:
        table.commit(_by_partition([make_row(draw) for _ in range(draw.randint(1, 8))], keys))
        return "append"
    if step == "delete":
        kept = [row for name in some for row in table.files[name] if draw.random() < 0.5]
        table.commit(_by_partition(kept, keys), some)
    elif step == "drop":
        table.commit((), some)
    elif step == "rewrite":
        rows = [row for name in some for row in table.files[name]]
        table.commit(_by_partition(rows, keys), some, data_change=False)
    return step


def _by_partition(rows: list[Row], keys: list[str]) -> list[list[Row]]:
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return list(groups.values())


def at_version(path: Path, version: int | None = None) -> Snapshot:
    return load_snapshot(str(path), LocalStore(), version)
