"""Generates the log of a table with a million files, without the files.

It is a classic checkpoint with statistics as Spark engines write them, the commit of that version, and
``_last_checkpoint``. Each file has ``ROWS_PER_FILE`` consecutive ids in its statistics, so a query for one id reads one
file; :func:`touch` creates that file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

ROWS_PER_FILE = 1000
#: The version of the checkpoint.
VERSION = 10
_AT_ONCE = 250_000
_START = 1_700_000_000_000
_FIELDS = [("id", "long"), ("device", "string"), ("day", "date"), ("amount", "double"), ("taken", "timestamp")]

_MAP = pa.map_(pa.string(), pa.string())
_ADD = pa.struct(
    [
        ("path", pa.string()),
        ("partitionValues", _MAP),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
        ("stats", pa.string()),
    ]
)
_METADATA = pa.struct(
    [
        ("id", pa.string()),
        ("format", pa.struct([("provider", pa.string()), ("options", _MAP)])),
        ("schemaString", pa.string()),
        ("partitionColumns", pa.list_(pa.string())),
        ("configuration", _MAP),
        ("createdTime", pa.int64()),
    ]
)
_PROTOCOL = pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())])
_SCHEMA = pa.schema([("protocol", _PROTOCOL), ("metaData", _METADATA), ("add", _ADD)])


def make(table: Path, files: int) -> None:
    """Write the log of a table of so many files."""
    log = table / "_delta_log"
    log.mkdir(parents=True)
    name = f"{VERSION:020}"
    with pq.ParquetWriter(log / f"{name}.checkpoint.parquet", _SCHEMA, compression="snappy") as writer:
        writer.write_table(_head())
        for start in range(0, files, _AT_ONCE):
            writer.write_table(_adds(range(start, min(start + _AT_ONCE, files))))
    info = {"timestamp": _START, "operation": "WRITE", "operationParameters": {}, "isBlindAppend": True}
    (log / f"{name}.json").write_text(json.dumps({"commitInfo": info}) + "\n")
    (log / "_last_checkpoint").write_text(json.dumps({"version": VERSION, "size": files + 2}))


def copy_of(table: Path, copy: Path) -> None:
    """The same log under another path, by hard links: a table no engine has seen yet."""
    (copy / "_delta_log").mkdir(parents=True)
    for file in (table / "_delta_log").iterdir():
        (copy / "_delta_log" / file.name).hardlink_to(file)


def touch(table: Path, number: int) -> None:
    """Make the data file of that number exist, empty."""
    (table / path_of(number)).touch()


def _head() -> pa.Table:
    fields = [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in _FIELDS]
    metadata = {
        "id": "8f3c1c54-0000-4000-8000-000000000000",
        "format": {"provider": "parquet", "options": []},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": [],
        "configuration": [],
        "createdTime": _START,
    }
    rows = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}]
    return pa.Table.from_pylist(rows, schema=_SCHEMA)


def _adds(numbers: range) -> pa.Table:
    count = len(numbers)
    empty = pa.array([], pa.string())
    columns = {
        "path": pa.array(map(path_of, numbers), pa.string()),
        "partitionValues": pa.MapArray.from_arrays(pa.array([0] * (count + 1), pa.int32()), empty, empty),
        "size": pa.array(map(size_of, numbers), pa.int64()),
        "modificationTime": pa.array((_START + n for n in numbers), pa.int64()),
        "dataChange": pa.array([True] * count),
        "stats": pa.array(_statistics(numbers), pa.string()),
    }
    adds = pa.StructArray.from_arrays([columns[f.name] for f in _ADD], fields=list(_ADD))
    return pa.table([pa.nulls(count, _PROTOCOL), pa.nulls(count, _METADATA), adds], schema=_SCHEMA)


def size_of(number: int) -> int:
    """The size in bytes that the log has of a file."""
    return 1_000_000 + number % 4096


def path_of(number: int) -> str:
    """The path of the data file of that number, relative to the table."""
    digest = hashlib.md5(str(number).encode(), usedforsecurity=False).hexdigest()
    unique = f"{digest[:8]}-{digest[8:12]}-4{digest[13:16]}-8{digest[17:20]}-{digest[20:]}"
    return f"part-{number % 200:05}-{unique}.c000.snappy.parquet"


def _statistics(numbers: range) -> Iterator[str]:
    nulls = '"nullCount":{"id":0,"device":0,"day":0,"amount":3,"taken":0}}'
    for n in numbers:
        low, high = n * ROWS_PER_FILE, (n + 1) * ROWS_PER_FILE - 1
        day = f"20{10 + n % 15:02}-{1 + n % 12:02}-{1 + n % 28:02}"
        yield (
            f'{{"numRecords":{ROWS_PER_FILE},'
            f'"minValues":{{"id":{low},"device":"device-{n % 977:06}","day":"{day}","amount":{n % 89}.25,'
            f'"taken":"{day}T00:00:00.{n % 1000:03}Z"}},'
            f'"maxValues":{{"id":{high},"device":"device-{n % 977 + 22:06}","day":"{day}","amount":{n % 89 + 900}.5,'
            f'"taken":"{day}T23:59:59.{n % 1000:03}Z"}},{nulls}'
        )
