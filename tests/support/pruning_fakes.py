"""A snapshot made of rows, with statistics as different writers would write them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from headwater.protocol.types import DataType, DecimalType, PrimitiveType, StructField, StructType

Row = Mapping[str, Any]


def struct(**types: str | DataType | StructField) -> StructType:
    """A schema by names: ``struct(a="integer", s=struct(x="long"))``."""
    fields = []
    for name, kind in types.items():
        if isinstance(kind, StructField):
            fields.append(kind)
        else:
            fields.append(StructField(name, PrimitiveType(kind) if isinstance(kind, str) else kind))
    return StructType(tuple(fields))


@dataclass
class File:
    """A data file: its rows, and how its writer wrote statistics."""

    rows: Sequence[Row] = ()
    partition: Mapping[str, Any] = field(default_factory=dict)
    #: Rows that a deletion vector takes away; the statistics do not know of it.
    deleted: Sequence[Row] = ()
    tight: bool = True
    #: Leaves without statistics, by the last name; ``"*"`` for none at all.
    missing: frozenset[str] = frozenset()
    #: The length strings are cut off at, and what ends a maximum that was cut off.
    cut: int = 32
    tie_breaker: str = "\U0010ffff"

    def values(self, leaf: Sequence[str]) -> list[Any]:
        found = []
        for value in [*self.rows, *self.deleted]:
            current: Any = value
            for name in leaf:
                current = None if current is None else current.get(name)
            found.append(current)
        return found

    def statistics(self, leaf: Sequence[str]) -> tuple[Any, Any, int | None]:
        if leaf[-1] in self.missing or "*" in self.missing:
            return None, None, None
        values = self.values(leaf)
        present = [v for v in values if v is not None and not (isinstance(v, float) and math.isnan(v))]
        nulls = sum(v is None for v in values)
        if not self.tight and nulls not in (0, len(values)):
            nulls = 1 + (nulls * 7) % (len(values) + 3)  # carries no information
            nulls = nulls if nulls != len(values) else nulls + 1
        if not present:
            return None, None, nulls
        if isinstance(present[0], str):
            low, high = min(present, key=str.encode), max(present, key=str.encode)
            if len(high) > self.cut:
                high = high[: self.cut] + self.tie_breaker
            return low[: self.cut], high, nulls
        return min(present), max(present), nulls


class FakeSnapshot:
    """What pruning asks of a snapshot, answered from rows."""

    def __init__(self, schema: StructType, files: Sequence[File], partition_columns: Sequence[str] = ()) -> None:
        self.schema = schema
        self.partition_columns = list(partition_columns)
        self.contents = list(files)
        vector = pa.struct([("storage_type", pa.string()), ("cardinality", pa.int64())])
        vectors = [{"storage_type": "u", "cardinality": len(f.deleted)} if f.deleted else None for f in files]
        self.files = pa.table(
            {
                "path": pa.array([f"f{i}" for i in range(len(files))], pa.string()),
                "deletion_vector": pa.array(vectors, vector),
            }
        )
        self.asked: list[Sequence[tuple[str, ...]]] = []

    @property
    def num_files(self) -> int:
        return self.files.num_rows

    def select(self, names: Sequence[str]) -> pa.Table:
        return self.files.select(list(names))

    def statistics(self, leaves: Sequence[tuple[str, ...]]) -> pa.Table:
        self.asked.append(leaves)
        counts = [None if "*" in f.missing else len(f.rows) + len(f.deleted) for f in self.contents]
        columns: dict[str, Any] = {
            "num_records": pa.array(counts, pa.int64()),
            "tight_bounds": pa.array([f.tight for f in self.contents], pa.bool_()),
        }
        for i, leaf in enumerate(leaves):
            kind = self._type(leaf)
            bounds = [f.statistics(leaf) for f in self.contents]
            columns[f"min.{i}"] = pa.chunked_array([pa.array([b[0] for b in bounds], kind)])
            columns[f"max.{i}"] = pa.chunked_array([pa.array([b[1] for b in bounds], kind)])
            columns[f"nulls.{i}"] = pa.array([b[2] for b in bounds], pa.int64())
        return pa.table(columns)

    def partition_values(self, name: str) -> pa.Array:
        found = self.schema.find(name)
        assert found is not None
        assert name == found.name
        return pa.array([f.partition.get(name) for f in self.contents], found.type.to_arrow())

    def _type(self, leaf: Sequence[str]) -> pa.DataType:
        kind: DataType = self.schema
        for name in leaf:
            assert isinstance(kind, StructType)
            kind = next(f for f in kind if f.physical_name == name).type
        assert isinstance(kind, PrimitiveType | DecimalType)
        return kind.to_arrow()
