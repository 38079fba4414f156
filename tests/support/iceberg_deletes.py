"""Deleted rows for tables of Iceberg that pyiceberg wrote: position deletes, and the deletion vectors of version 3 of
the format. pyiceberg reads both and writes neither.
"""

from __future__ import annotations

import json
import struct
import uuid
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from headwater.iceberg import avro
from headwater.log import deletion_vectors

_MAGIC = b"PFA1"


def _optional(kind: Any) -> list[Any]:
    return ["null", kind]


def _record(name: str, *fields: tuple[int, str, Any]) -> dict[str, Any]:
    found = [{"name": each, "type": kind, "field-id": number} for number, each, kind in fields]
    return {"type": "record", "name": name, "fields": found}


_FILE = _record(
    "r2",
    (134, "content", "int"),
    (100, "file_path", "string"),
    (101, "file_format", "string"),
    (102, "partition", _record("r102")),
    (103, "record_count", "long"),
    (104, "file_size_in_bytes", "long"),
    (143, "referenced_data_file", _optional("string")),
    (144, "content_offset", _optional("long")),
    (145, "content_size_in_bytes", _optional("long")),
)
_ENTRY = _record(
    "manifest_entry",
    (0, "status", "int"),
    (1, "snapshot_id", _optional("long")),
    (3, "sequence_number", _optional("long")),
    (4, "file_sequence_number", _optional("long")),
    (2, "data_file", _FILE),
)
_MANIFEST = _record(
    "manifest_file",
    (500, "manifest_path", "string"),
    (501, "manifest_length", "long"),
    (502, "partition_spec_id", "int"),
    (517, "content", "int"),
    (515, "sequence_number", "long"),
    (516, "min_sequence_number", "long"),
    (503, "added_snapshot_id", "long"),
    (504, "added_files_count", "int"),
    (505, "existing_files_count", "int"),
    (506, "deleted_files_count", "int"),
    (512, "added_rows_count", "long"),
    (513, "existing_rows_count", "long"),
    (514, "deleted_rows_count", "long"),
)


def _encoded(kind: Any, value: Any) -> bytes:
    if isinstance(kind, list):
        return b"\x00" if value is None else b"\x02" + _encoded(kind[1], value)
    if isinstance(kind, dict):
        return b"".join(_encoded(field["type"], value.get(field["name"])) for field in kind["fields"])
    return avro.text(value) if kind == "string" else avro.long(value)


def _put(path: Path, kind: dict[str, Any], metadata: dict[str, str], values: Iterable[Mapping[str, Any]]) -> str:
    path.write_bytes(avro.container(kind, metadata, [_encoded(kind, value) for value in values]))
    return f"file://{path}"


def _vectors(path: Path, rows: Mapping[str, Sequence[int]]) -> list[dict[str, Any]]:
    """A file of vectors, with a footer as the format of Puffin has it; its entries."""
    content, blobs, found = bytearray(_MAGIC), [], []
    for file, positions in rows.items():
        data = deletion_vectors.serialize(BitMap64(positions))
        blob = struct.pack(">i", len(data)) + data + struct.pack(">I", zlib.crc32(data))
        said = {"referenced-data-file": file, "cardinality": str(len(positions))}
        place = {"offset": len(content), "length": len(blob)}
        fields = {"type": "deletion-vector-v1", "fields": [2147483645], "snapshot-id": -1, "sequence-number": -1}
        blobs.append({**fields, **place, "properties": said})
        found.append(
            {
                "file_format": "PUFFIN",
                "record_count": len(positions),
                "referenced_data_file": file,
                "content_offset": len(content),
                "content_size_in_bytes": len(blob),
            }
        )
        content += blob
    footer = json.dumps({"blobs": blobs, "properties": {}}).encode()
    content += _MAGIC + footer + struct.pack("<i", len(footer)) + bytes(4) + _MAGIC
    path.write_bytes(content)
    return [{**each, "file_path": f"file://{path}", "file_size_in_bytes": len(content)} for each in found]


def _positions(path: Path, rows: Mapping[str, Sequence[int]]) -> list[dict[str, Any]]:
    """A file of position deletes; its entry."""
    pairs = [(file, position) for file, positions in rows.items() for position in positions]
    kinds = [("file_path", pa.string(), "2147483546"), ("pos", pa.int64(), "2147483545")]
    schema = pa.schema([pa.field(name, kind, False, {"PARQUET:field_id": number}) for name, kind, number in kinds])
    columns = [list(column) for column in zip(*pairs, strict=True)]
    pq.write_table(pa.table(columns, schema=schema), path)
    entry = {"file_format": "PARQUET", "record_count": len(pairs), "file_size_in_bytes": path.stat().st_size}
    return [{**entry, "file_path": f"file://{path}"}]


def with_deletes(
    table: Any, positions: Mapping[str, Sequence[int]], vectors: Mapping[str, Sequence[int]] | None = None
) -> Path:
    """Delete rows of a table that is not partitioned: positions by the locations of data files. Where there are
    vectors, the table becomes one of version 3 of the format.

    :return: the metadata file.
    """
    home = Path(table.location().removeprefix("file://"))
    before = json.loads(Path(table.metadata_location.removeprefix("file://")).read_text())
    last = next(each for each in before["snapshots"] if each["snapshot-id"] == before["current-snapshot-id"])
    sequence, number, name = before["last-sequence-number"] + 1, uuid.uuid4().int >> 66, uuid.uuid4().hex
    files = _positions(home / "data" / f"{name}-deletes.parquet", positions) if positions else []
    if vectors:
        files += _vectors(home / "data" / f"{name}.puffin", vectors)
    version = 3 if vectors else 2
    said = {
        "schema": json.dumps(before["schemas"][-1]),
        "partition-spec": "[]",
        "partition-spec-id": "0",
        "format-version": str(version),
        "content": "deletes",
    }
    entries = [
        {
            "status": 1,
            "snapshot_id": number,
            "sequence_number": sequence,
            "file_sequence_number": sequence,
            "data_file": {"content": 1, "partition": {}, **file},
        }
        for file in files
    ]
    path = home / "metadata" / f"{name}-m0.avro"
    location = _put(path, _ENTRY, said, entries)
    rows = sum(file["record_count"] for file in files)
    counts = {"added_files_count": len(files), "existing_files_count": 0, "deleted_files_count": 0}
    counts |= {"added_rows_count": rows, "existing_rows_count": 0, "deleted_rows_count": 0}
    numbers = {"sequence_number": sequence, "min_sequence_number": sequence, "added_snapshot_id": number}
    made = {"manifest_path": location, "manifest_length": path.stat().st_size, "partition_spec_id": 0, "content": 1}
    kept = list(avro.read_records(Path(last["manifest-list"].removeprefix("file://")).read_bytes()))
    listed = _put(
        home / "metadata" / f"snap-{name}.avro",
        _MANIFEST,
        {"format-version": str(version), "snapshot-id": str(number), "sequence-number": str(sequence)},
        [*kept, {**made, **numbers, **counts}],
    )
    snapshot = {
        "snapshot-id": number,
        "parent-snapshot-id": last["snapshot-id"],
        "sequence-number": sequence,
        "timestamp-ms": before["last-updated-ms"] + 1,
        "manifest-list": listed,
        "summary": {"operation": "delete"},
        "schema-id": before["current-schema-id"],
    }
    after = {
        **before,
        "format-version": version,
        "last-sequence-number": sequence,
        "last-updated-ms": before["last-updated-ms"] + 1,
        "current-snapshot-id": number,
        "refs": {"main": {"snapshot-id": number, "type": "branch"}},
        "snapshots": [*before["snapshots"], snapshot],
        "snapshot-log": [
            *before["snapshot-log"],
            {"snapshot-id": number, "timestamp-ms": before["last-updated-ms"] + 1},
        ],
    }
    if version == 3:
        after["next-row-id"] = 1000
        for each in after["snapshots"]:
            each |= {"first-row-id": 0, "added-rows": 0}
    at = home / "metadata" / f"{len(before['metadata-log']) + 5:05d}-{uuid.uuid4()}.metadata.json"
    at.write_text(json.dumps(after))
    return at
