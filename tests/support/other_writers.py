"""Data files of other writers: rows of all flat types and a struct, in every encoding that a writer may choose."""

from __future__ import annotations

import json
import random
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from support.dml_table import Table

#: Their files are so large that Spark compiles what reads them; else it asks for all columns of all rows.
ROWS = 3000
START = datetime(2020, 1, 1, tzinfo=timezone.utc)

#: SQL and Arrow type of each column, and its value in a row.
COLUMNS = {
    "id": ("BIGINT", pa.int64(), lambda i: i),
    "flag": ("BOOLEAN", pa.bool_(), lambda i: i % 3 == 0),
    "tiny": ("TINYINT", pa.int8(), lambda i: i % 256 - 128),
    "small": ("SMALLINT", pa.int16(), lambda i: i * 13 % 60000 - 30000),
    "number": ("INT", pa.int32(), lambda i: i * 7919 % 100_003 - 50_000),
    "large": ("BIGINT", pa.int64(), lambda i: i * 10**12 - 10**15),
    "single": ("FLOAT", pa.float32(), lambda i: i / 4),
    "real": ("DOUBLE", pa.float64(), lambda i: i % 50 / 8),
    "text": ("STRING", pa.string(), lambda i: f"täxt {i % 40}" * (i % 4)),
    "unique_text": ("STRING", pa.string(), lambda i: f"text {i} {'x' * (i % 30)}"),
    "bytes": ("BINARY", pa.binary(), lambda i: random.Random(i).randbytes(500)),
    "day": ("DATE", pa.date32(), lambda i: date(1969, 1, 1) + timedelta(days=i)),
    "moment": ("TIMESTAMP", pa.timestamp("us", "UTC"), lambda i: START + timedelta(seconds=i, microseconds=i)),
    "local": ("TIMESTAMP_NTZ", pa.timestamp("us"), lambda i: datetime(1969, 12, 31) + timedelta(seconds=i)),
    "d9": ("DECIMAL(9, 2)", pa.decimal128(9, 2), lambda i: Decimal(i - 1500) / 4),
    "d18": ("DECIMAL(18, 4)", pa.decimal128(18, 4), lambda i: Decimal(i - 1500) * 10**9),
    "d38": ("DECIMAL(38, 6)", pa.decimal128(38, 6), lambda i: Decimal(i - 1500) * 10**28),
    "s": (
        "STRUCT<a: INT, b: STRING>",
        pa.struct([("a", pa.int32()), ("b", pa.string())]),
        lambda i: {"a": i, "b": "b"},
    ),
    "v": ("INT", pa.int32(), lambda i: 0),
}
#: Columns of which a writer may choose the encoding.
ENCODINGS = {
    "number": "DELTA_BINARY_PACKED",
    "large": "DELTA_BINARY_PACKED",
    "text": "DELTA_LENGTH_BYTE_ARRAY",
    "unique_text": "DELTA_BYTE_ARRAY",
}
WRITERS = {
    "dictionaries": {},
    "plain": {"use_dictionary": False},
    "plain, pages of version 2": {"use_dictionary": False, "data_page_version": "2.0", "compression": "zstd"},
    "dictionaries, pages of version 2": {"data_page_version": "2.0"},
    "other encodings": {"use_dictionary": False, "column_encoding": ENCODINGS},
    "decimals as whole numbers": {"store_decimal_as_integer": True},
    "times of the old kind": {"use_deprecated_int96_timestamps": True},
}


def arrow(nulls: bool = True, names=tuple(COLUMNS)) -> pa.Table:
    """Rows; every column but `id` has nulls, each its own."""
    columns = {}
    for number, name in enumerate(names):
        _, kind, value = COLUMNS[name]
        absent = (lambda i, n=number: nulls and n and (i + n) % (n + 3) == 0) if name != "v" else lambda i: False
        columns[name] = pa.array([None if absent(i) else value(i) for i in range(ROWS)], kind)
    return pa.table(columns)


def adopt(table: Table, rows: pa.Table, **options) -> Path:
    """Makes a file of another writer part of the table: several row groups, and several pages in each."""
    number = table.version + 1
    path = table.path / f"other-{number}.parquet"
    pq.write_table(rows, path, **{"row_group_size": 1100, "data_page_size": 700, "write_batch_size": 50, **options})
    add = {
        "path": path.name,
        "partitionValues": {},
        "size": path.stat().st_size,
        "modificationTime": 1,
        "dataChange": True,
    }
    add["stats"] = json.dumps({"numRecords": rows.num_rows})
    commit = table.path / "_delta_log" / f"{number:020d}.json"
    actions: list[dict[str, Any]] = [{"commitInfo": {}}, {"add": add}]
    commit.write_text("".join(json.dumps(action) + "\n" for action in actions))
    return path
