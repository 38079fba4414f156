"""A small table with everything in its log, and ways to spoil it: what tests of damaged tables share.

Its log has commits, a compacted log, checkpoints with and without sidecars, a checksum, and deletion vectors.
"""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from headwater.log import deletion_vectors
from headwater.log.checkpoint_writing import write_checkpoint
from headwater.log.checksums import write_checksum
from headwater.log.snapshot import load_snapshot
from headwater.protocol.actions import (
    AddCDCFile,
    AddFile,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
    serialize,
)
from headwater.stores import LocalStore
from support.inline_vectors import inline

_SCHEMA = {
    "type": "struct",
    "fields": [
        {"name": "id", "type": "long", "nullable": True, "metadata": {}},
        {"name": "at", "type": "timestamp", "nullable": True, "metadata": {}},
        {"name": "day", "type": "date", "nullable": True, "metadata": {"comment": "of the week"}},
        {
            "name": "s",
            "type": {
                "type": "struct",
                "fields": [{"name": "x", "type": "decimal(10,2)", "nullable": True, "metadata": {}}],
            },
            "nullable": True,
            "metadata": {},
        },
    ],
}
_FEATURES = frozenset({"deletionVectors", "v2Checkpoint"})
_CONFIGURATION = {
    "delta.enableChangeDataFeed": "true",
    "delta.enableDeletionVectors": "true",
    "delta.checkpointInterval": "100",
}
_ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3, 4], pa.int64()),
        "at": pa.array([None] * 4, pa.timestamp("us", "UTC")),
        "s": pa.array([None] * 4, pa.struct([("x", pa.decimal128(10, 2))])),
    }
)
#: What no text for users has: Python's exceptions and tracebacks, names of a rewrite's pieces.
INTERNAL = re.compile(r"\b[A-Z]\w*(Error|Exception): |Traceback|hw_plan|hw_expr|NoneType")
_DEEP = '{"add":' + '{"a":' * 100_000 + "1" + "}" * 100_001
_ODD: list[Any] = [
    None, True, False, 0, -1, 3, 3.5, 1 << 31, 1 << 63, -(1 << 70), float("nan"), float("inf"), "", "5", "odd", "true",
    "\ud800", "a\0b", "../../x", "2024-13-45", [], {}, [None], ["x"], {"a": 1}, {"path": "x"}, [[]],
]  # fmt: skip


def _statistics(low: int, high: int) -> str:
    at = "2024-01-01T00:00:00.000Z"
    bounds = {"id": low, "at": at, "s": {"x": 1.25}}, {"id": high, "at": at, "s": {"x": 7.5}}
    nulls = {"id": 0, "at": 1, "s": {"x": 0}}
    return json.dumps({"numRecords": 4, "minValues": bounds[0], "maxValues": bounds[1], "nullCount": nulls})


def _add(path: Path, number: int, vector: Any = None) -> AddFile:
    name = f"day=2024-01-0{number}/{number}.parquet"
    (path / name).parent.mkdir(exist_ok=True)
    pq.write_table(_ROWS, path / name)
    values, statistics = {"day": f"2024-01-0{number}"}, _statistics(number, number + 5)
    return AddFile(
        name, values, (path / name).stat().st_size, 1_700_000_000_000, True, statistics, deletion_vector=vector
    )


def small_table(path: Path, checkpoint: str | None) -> Path:
    """The table; ``checkpoint`` is the kind it has: None, ``classic`` or ``v2``."""
    path.mkdir(parents=True)
    log = path / "_delta_log"
    log.mkdir()
    policy = {"delta.checkpointPolicy": "v2"} if checkpoint == "v2" else {}
    (vector,) = deletion_vectors.write_file([BitMap64([1, 2])], str(path), LocalStore())
    versions: list[list[Any]] = [
        [
            CommitInfo({"operation": "CREATE TABLE", "operationParameters": {"isManaged": "false"}, "timestamp": 1}),
            Protocol(3, 7, _FEATURES, _FEATURES | {"changeDataFeed"}),
            Metadata("the-id", json.dumps(_SCHEMA), ("day",), {**_CONFIGURATION, **policy}, created_time=1),
        ],
        [
            CommitInfo({"operation": "WRITE", "job": {"jobId": "1"}, "readVersion": 0, "isBlindAppend": True}),
            *(_add(path, number) for number in (1, 2, 3)),
            SetTransaction("app", 7, 1),
        ],
        [
            CommitInfo({"operation": "DELETE", "operationMetrics": {"numDeletedRows": "3"}}),
            RemoveFile("day=2024-01-01/1.parquet", 5, True, True, {"day": "2024-01-01"}, 4),
            _add(path, 1, vector),
            DomainMetadata("mine", "{}"),
        ],
        [
            CommitInfo({"operation": "UPDATE"}),
            RemoveFile("day=2024-01-02/2.parquet", 5, True, True, {"day": "2024-01-02"}, 4),
            _add(path, 4, inline(BitMap64([0]))),
            AddCDCFile("_change_data/c.parquet", {"day": "2024-01-02"}, 4),
        ],
        [CommitInfo({"operation": "WRITE"}), _add(path, 5)],
    ]
    for version, actions in enumerate(versions):
        (log / f"{version:020d}.json").write_bytes(serialize(actions))
        if checkpoint and version == 3:
            write_checkpoint(load_snapshot(str(path), LocalStore()))
    snapshot = load_snapshot(str(path), LocalStore())
    write_checksum(str(path), LocalStore(), snapshot.version, snapshot.checksum())
    if checkpoint is None:  # what it holds is what the two commits hold
        (log / f"{1:020d}.{2:020d}.compacted.json").write_bytes(serialize([a for v in versions[1:3] for a in v[1:]]))
    return path


def _spoil_bytes(data: bytes, draw: random.Random) -> bytes:
    position = draw.randrange(len(data))
    end = min(len(data), position + draw.choice((1, 4, 100)))
    garbage = draw.randbytes(draw.choice((1, 4, 100)))
    return draw.choice((
        b"", data[:position], data[position:], data[:position] + data[end:],
        data[:position] + garbage + data[position:],
        data[:position] + garbage + data[position + len(garbage) :], garbage, b"\0" * len(data), data + data,
        data[:position] + bytes([data[position] ^ (1 << draw.randrange(8))]) + data[position + 1 :],
    ))  # fmt: skip


def _spoil_json(text: str, draw: random.Random) -> str:
    """The text, of JSON lines, with one value anywhere in it, or in JSON inside of it, replaced or gone."""
    lines = text.splitlines()
    number = draw.randrange(len(lines))
    odd_lines = ("[]", "3", "null", '"text"', "{}", _DEEP, _DEEP.replace("{", "[").replace("}", "]"), "{", "\ufeff{}")
    if draw.random() < 0.15:
        lines[number] = draw.choice(odd_lines)
    else:
        value = json.loads(lines[number])
        _replace(value, draw)
        lines[number] = json.dumps(value)
    return "\n".join(lines)


def _replace(value: Any, draw: random.Random) -> None:
    places: list[tuple[Any, Any]] = []

    def walk(inner: Any) -> None:
        for key in list(inner if isinstance(inner, dict) else range(len(inner))):
            places.append((inner, key))
            if isinstance(inner[key], (dict, list)):
                walk(inner[key])

    walk(value)
    where, key = draw.choice(places)
    inside = where[key]
    if isinstance(inside, str) and inside.startswith("{") and draw.random() < 0.7:
        parsed = json.loads(inside)
        if parsed:
            _replace(parsed, draw)
            where[key] = json.dumps(parsed)
            return
    if isinstance(where, dict) and draw.random() < 0.2:
        del where[key]
    else:
        where[key] = draw.choice(_ODD)


def _spoil_columns(file: Path, draw: random.Random) -> None:
    """A Parquet file that is whole, and of another schema."""
    table = pq.read_table(file)
    position = draw.randrange(table.num_columns)
    kind = draw.choice((pa.string(), pa.int64(), pa.struct([("path", pa.int64())]), pa.list_(pa.string()), None))
    if kind is None:
        table = table.remove_column(position)
    else:
        value = (
            {"path": 3} if pa.types.is_struct(kind) else ["x"] if pa.types.is_list(kind) else pa.scalar(1).cast(kind)
        )
        other = (
            pa.array([value] * table.num_rows, kind)
            if not isinstance(value, pa.Scalar)
            else pa.repeat(value, table.num_rows)
        )
        table = table.set_column(position, table.column_names[position], other)
    pq.write_table(table, file)


def spoiled(table: Path, draw: random.Random) -> str:
    """Spoil one file of the table; what was done, in words."""
    files = sorted(p for p in (*table.glob("_delta_log/**/*"), *table.glob("*.bin")) if p.is_file())
    file = draw.choice(files)
    data = file.read_bytes()
    as_json = file.suffix in (".json", ".crc") or file.name == "_last_checkpoint"
    if as_json and draw.random() < 0.8:
        file.write_bytes(_spoil_json(data.decode(), draw).encode("utf-8", "surrogatepass"))
    elif file.suffix == ".parquet" and draw.random() < 0.4:
        _spoil_columns(file, draw)
    else:
        file.write_bytes(_spoil_bytes(data, draw))
    return f"{file.relative_to(table)}: {file.read_bytes()[:2000]!r}"
