"""Manifests and manifest lists of Iceberg, format version 2.

Owns the entries of data files, the content of the files that hold them, and the records of manifest lists, all as
bytes: :mod:`headwater.iceberg.conversion` writes the files. Follows the chapters "Manifests" and "Manifest Lists" of
Iceberg's specification. Entries have their sequence numbers in themselves and do not inherit them; the number of rows
stands before the partition, so that neither needs the partition's types.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.iceberg import avro
from headwater.iceberg.types import field_id_of
from headwater.iceberg.values import comparable, is_nan, serialized
from headwater.protocol.columns import Path
from headwater.protocol.types import INTEGERS, DataType, DecimalType, PrimitiveType, StructField, StructType

EXISTING, ADDED, DELETED = 0, 1, 2
_NULL, _PRESENT = b"\x00", b"\x02"
_PARQUET = avro.text("PARQUET")
_DATA = avro.long(0)


class Spec(NamedTuple):
    """A partition spec: its id, the fields of Iceberg's metadata, and the columns that they are."""

    id: int
    fields: Sequence[Mapping[str, Any]]
    columns: Sequence[StructField]


class Leaf(NamedTuple):
    """A column with statistics: its path of physical names, Iceberg's field id and name, and its type."""

    path: Path
    id: int
    name: str
    type: DataType

    @property
    def has_exact_bounds(self) -> bool:
        """Whether bounds are values that a file has. Those of texts are cut off, those of times and decimals widened,
        and those of floating numbers leave NaN out.
        """
        return isinstance(self.type, PrimitiveType) and self.type.name in (*INTEGERS, "date")


def leaves_of(schema: StructType, indexed: Iterable[tuple[Path, DataType]]) -> list[Leaf]:
    """The columns whose statistics the log has, with their field ids."""
    found = []
    for path, kind in indexed:
        fields, field, names = schema, None, []
        for name in path:
            field = next(each for each in fields if each.physical_name == name)
            fields = field.type if isinstance(field.type, StructType) else StructType()
            names.append(field.name)
        assert field is not None
        found.append(Leaf(path, field_id_of(field), ".".join(names), kind))
    return found


class Entry(NamedTuple):
    """A data file in a manifest: its status, the snapshot that gave it, its sequence number (of data and file), and
    the record of the file, encoded, from its path on.
    """

    status: int
    snapshot_id: int
    sequence_number: int
    body: bytes

    def encoded(self) -> bytes:
        """The record of the manifest."""
        number = avro.long(self.sequence_number)
        ids = (avro.long(self.snapshot_id), _PRESENT, number, _PRESENT, number, _DATA)
        return b"".join((avro.long(self.status), _PRESENT, *ids, self.body))

    @property
    def path(self) -> bytes:
        """The file's location, UTF-8."""
        return avro.read_data(self.body, 0)[0]

    @property
    def num_rows(self) -> int:
        """The file's rows."""
        _, at = avro.read_data(self.body, 0)
        return avro.read_long(self.body, at)[0]


def bodies(
    paths: Sequence[str],
    files: pa.Table,
    statistics: pa.Table,
    leaves: Sequence[Leaf],
    partitions: Sequence[tuple[pa.ChunkedArray, DataType]],
) -> list[bytes]:
    """The records of data files.

    :param paths: their locations.
    :param files: with the column ``size``.
    :param statistics: of :meth:`headwater.log.snapshot.Snapshot.statistics` for ``leaves``.
    :param partitions: the values and the type of each partition column.
    """
    rows = statistics["num_records"].to_pylist()
    sizes = files["size"].to_pylist()
    tuples = [_partition_values(values, kind) for values, kind in partitions]
    counts = [statistics[f"nulls.{i}"].to_pylist() for i in range(len(leaves))]
    nulls = [_counts(column, leaf) for column, leaf in zip(counts, leaves, strict=True)]
    known = [[None if count is None else rows[at] for at, count in enumerate(column)] for column in counts]
    values = [_counts(column, leaf) for column, leaf in zip(known, leaves, strict=True)]
    bounds = [
        [_bounds(serialized(statistics[f"{bound}.{i}"], leaf.type), leaf) for i, leaf in enumerate(leaves)]
        for bound in ("min", "max")
    ]
    maps = [_maps(columns, len(paths)) for columns in (values, nulls, *bounds)]
    found = []
    for at, path in enumerate(paths):
        pieces = [avro.text(path), avro.long(rows[at]), _PARQUET]
        pieces += [column[at] for column in tuples]
        pieces.append(avro.long(sizes[at]))
        pieces += [each[at] for each in maps]
        found.append(b"".join(pieces))
    return found


def _counts(column: Sequence[int | None], leaf: Leaf) -> list[bytes]:
    key = avro.long(leaf.id)
    return [b"" if count is None else key + avro.long(count) for count in column]


def _bounds(column: Sequence[bytes | None], leaf: Leaf) -> list[bytes]:
    key = avro.long(leaf.id)
    return [b"" if bound is None else key + avro.data(bound) for bound in column]


def _maps(columns: Sequence[Sequence[bytes]], count: int) -> list[bytes]:
    """For each file the map from field ids, which Avro has as an array of pairs."""
    found = []
    for at in range(count):
        pairs = [column[at] for column in columns if column[at]]
        found.append(b"".join((_PRESENT, avro.long(len(pairs)), *pairs, b"\x00")) if pairs else _NULL)
    return found


def _partition_values(values: pa.ChunkedArray, kind: DataType) -> list[bytes]:
    """The encoded value of a partition field in each file."""
    texts = values.to_pylist() if not _is_time(kind) else _numbers_of(values)
    known: dict[Any, bytes] = {}
    raw = serialized(values, kind)
    found = []
    for at, value in enumerate(texts):
        if value is None:
            found.append(_NULL)
            continue
        if value not in known or is_nan(value):
            known[value] = _PRESENT + _avro_value(value, kind, raw[at])
        found.append(known[value])
    return found


def _is_time(kind: DataType) -> bool:
    return isinstance(kind, PrimitiveType) and kind.name in ("date", "timestamp", "timestamp_ntz")


def _numbers_of(values: pa.ChunkedArray) -> list[int | None]:
    kind = pa.int32() if pa.types.is_date32(values.type) else pa.int64()
    return list(values.cast(kind).to_pylist())


def _avro_value(value: Any, kind: DataType, raw: bytes | None) -> bytes:
    match kind:
        case DecimalType(precision, _):
            assert raw is not None
            sign = b"\xff" if raw[0] & 0x80 else b"\x00"
            return raw.rjust(_decimal_size(precision), sign)
        case PrimitiveType("string"):
            return avro.text(value)
        case PrimitiveType("binary"):
            return avro.data(value)
        case PrimitiveType("boolean"):
            return b"\x01" if value else b"\x00"
        case PrimitiveType("float" | "double" as name):
            return np.array(value, "<f4" if name == "float" else "<f8").tobytes()
    return avro.long(value)


def _decimal_size(precision: int) -> int:
    """Bytes of a fixed that holds a decimal of so many digits."""
    return int((10**precision - 1).bit_length() + 8) // 8


def entries(content: bytes) -> Iterator[Entry]:
    """The entries of a manifest that :func:`manifest` wrote.

    :raises ValueError: it is damaged.
    """
    try:
        for _, record in avro.open_container(content).blocks():
            yield _entry_of(record)
    except IndexError:
        raise ValueError("it is truncated") from None


def _entry_of(record: bytes) -> Entry:
    status, at = avro.read_long(record, 0)
    snapshot_id, at = avro.read_long(record, at + 1)
    sequence_number, at = avro.read_long(record, at + 1)
    _, at = avro.read_long(record, at + 1)
    return Entry(status, snapshot_id, sequence_number, record[at + 1 :])


def manifest(schema: Mapping[str, Any], spec: Spec, found: Iterable[Entry]) -> bytes:
    """The file of a manifest of data files."""
    records = (entry.encoded() for entry in found)
    return avro.container(_entry_schema(spec), _manifest_metadata(schema, spec), records)


def _manifest_metadata(schema: Mapping[str, Any], spec: Spec) -> dict[str, str]:
    return {
        "schema": json.dumps(schema, separators=(",", ":")),
        "schema-id": str(schema["schema-id"]),
        "partition-spec": json.dumps(list(spec.fields), separators=(",", ":")),
        "partition-spec-id": str(spec.id),
        "format-version": "2",
        "content": "data",
    }


class Rewritten(NamedTuple):
    """A manifest without some of the files that another one had.

    :param gone: their entries, which it has as deleted.
    :param live: how many others it has.
    """

    content: bytes
    gone: list[Entry]
    live: int


#: The block of an entry up to its location: status, snapshot, both sequence numbers, content, the location's length.
_NUMBER = rb"[\x80-\xff]*[\x00-\x7f]"
_BEGINNING = re.compile(
    rb"\x02(%(number)s)([\x00\x02\x04])\x02%(number)s\x02%(number)s\x02%(number)s\x00(%(number)s)"
    % {b"number": _NUMBER},
    re.DOTALL,
)
_OF_EXISTING, _OF_DELETED = b"\x00", b"\x04"


def without(
    content: bytes, schema: Mapping[str, Any], spec: Spec, gone: Collection[bytes], snapshot_id: int
) -> Rewritten | None:
    """A manifest that :func:`manifest` wrote, without the files of some locations; None if it has none of them.

    Most blocks are taken as they are, and none is decoded beyond its location: where files go from all over a large
    table, this is what costs (``bench.iceberg_metadata``).

    :raises ValueError: it is damaged.
    """
    opened = avro.open_container(content)
    blocks, deleted = [], []
    for block in opened.raw_blocks():
        found = _BEGINNING.match(block)
        if found is None:
            raise ValueError("it has a block that is not an entry")
        status, start = found.start(2), found.end()
        if block[status] == _OF_DELETED[0]:
            continue
        length = found[3]
        size = length[0] >> 1 if len(length) == 1 else avro.read_long(length, 0)[0]
        if block[start : start + size] in gone:
            entry = as_deleted(_entry_of(block[status:]), snapshot_id)
            deleted.append(entry)
            blocks.append(avro.block(entry.encoded()))
        elif block[status]:
            blocks.append(b"".join((block[:status], _OF_EXISTING, block[status + 1 :])))
        else:
            blocks.append(block)
    if not deleted:
        return None
    made = avro.container_of_blocks(_entry_schema(spec), _manifest_metadata(schema, spec), blocks, opened.sync)
    return Rewritten(made, deleted, len(blocks) - len(deleted))


def _entry_schema(spec: Spec) -> dict[str, Any]:
    partition = [
        _optional(field["field-id"], _avro_name(field["name"]), _avro_type(column.type))
        for field, column in zip(spec.fields, spec.columns, strict=True)
    ]
    data_file = [
        _required(134, "content", "int"),
        _required(100, "file_path", "string"),
        _required(103, "record_count", "long"),
        _required(101, "file_format", "string"),
        _required(102, "partition", {"type": "record", "name": "r102", "fields": partition}),
        _required(104, "file_size_in_bytes", "long"),
        _optional(109, "value_counts", _map_type(119, 120, "long")),
        _optional(110, "null_value_counts", _map_type(121, 122, "long")),
        _optional(125, "lower_bounds", _map_type(126, 127, "bytes")),
        _optional(128, "upper_bounds", _map_type(129, 130, "bytes")),
    ]
    return {
        "type": "record",
        "name": "manifest_entry",
        "fields": [
            _required(0, "status", "int"),
            _optional(1, "snapshot_id", "long"),
            _optional(3, "sequence_number", "long"),
            _optional(4, "file_sequence_number", "long"),
            _required(2, "data_file", {"type": "record", "name": "r2", "fields": data_file}),
        ],
    }


def _required(number: int, name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "field-id": number}


def _optional(number: int, name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", kind], "default": None, "field-id": number}


def _map_type(key: int, value: int, kind: str) -> dict[str, Any]:
    fields = [_required(key, "key", "int"), _required(value, "value", kind)]
    return {
        "type": "array",
        "items": {"type": "record", "name": f"k{key}_v{value}", "fields": fields},
        "logicalType": "map",
    }


def _avro_type(kind: DataType) -> Any:
    match kind:
        case DecimalType(precision, scale):
            size = _decimal_size(precision)
            logical = {"logicalType": "decimal", "precision": precision, "scale": scale}
            return {"type": "fixed", "name": f"decimal_{precision}_{scale}", "size": size, **logical}
        case PrimitiveType("date"):
            return {"type": "int", "logicalType": "date"}
        case PrimitiveType("timestamp" | "timestamp_ntz" as name):
            return {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": name == "timestamp"}
        case PrimitiveType("byte" | "short" | "integer"):
            return "int"
        case PrimitiveType(name):
            return name
    raise AssertionError(f"{kind} is not a type of a partition")


def _avro_name(name: str) -> str:
    """A name that Avro allows: other characters as the specification of Iceberg's schemas in Avro has them."""
    spelled = re.sub(r"[^A-Za-z0-9_]", lambda match: f"_x{ord(match.group()):X}", name)
    return f"_{spelled}" if spelled[:1].isdigit() else spelled


@dataclass(frozen=True)
class Summary:
    """What a partition field's values are like in a manifest."""

    contains_null: bool
    contains_nan: bool
    lower: bytes | None
    upper: bytes | None

    def with_(self, other: Summary, kind: DataType) -> Summary:
        """That of both manifests' files."""

        def best(choose: Any, a: bytes | None, b: bytes | None) -> bytes | None:
            if a is None or b is None:
                return b if a is None else a
            return choose(a, b, key=lambda each: comparable(each, kind))  # type: ignore[no-any-return]

        return Summary(
            self.contains_null or other.contains_null,
            self.contains_nan or other.contains_nan,
            best(min, self.lower, other.lower),
            best(max, self.upper, other.upper),
        )


def summaries(partitions: Sequence[tuple[pa.ChunkedArray, DataType]]) -> tuple[Summary, ...]:
    """Of the values and types of the partition columns of some files."""
    found = []
    for values, kind in partitions:
        distinct = pc.unique(values)
        raw = [each for each in serialized(pa.chunked_array([distinct]), kind) if each is not None]
        low = min(raw, key=lambda each: comparable(each, kind), default=None)
        high = max(raw, key=lambda each: comparable(each, kind), default=None)
        nan = any(is_nan(each) for each in distinct.to_pylist()) if pa.types.is_floating(values.type) else False
        found.append(Summary(values.null_count > 0, nan, low, high))
    return tuple(found)


class Counts(NamedTuple):
    """How many files and rows of a status a manifest has."""

    files: int = 0
    rows: int = 0

    def plus(self, rows: int) -> Counts:
        return Counts(self.files + 1, self.rows + rows)


@dataclass(frozen=True)
class ManifestFile:
    """A manifest, as a manifest list has it."""

    path: str
    length: int
    spec_id: int
    sequence_number: int
    min_sequence_number: int
    snapshot_id: int
    added: Counts
    existing: Counts
    deleted: Counts
    partitions: tuple[Summary, ...]

    @property
    def live_files(self) -> int:
        """Files of the table that it has."""
        return self.added.files + self.existing.files

    @property
    def live_rows(self) -> int:
        """Rows of these files."""
        return self.added.rows + self.existing.rows

    def encoded(self) -> bytes:
        """The record of the manifest list."""
        pieces = [
            avro.text(self.path),
            avro.long(self.length),
            avro.long(self.spec_id),
            avro.long(0),
            avro.long(self.sequence_number),
            avro.long(self.min_sequence_number),
            avro.long(self.snapshot_id),
        ]
        counts = (self.added, self.existing, self.deleted)
        pieces += [avro.long(each.files) for each in counts]
        pieces += [avro.long(each.rows) for each in counts]
        if self.partitions:
            pieces += [_PRESENT, avro.long(len(self.partitions))]
            for each in self.partitions:
                pieces += [bytes([each.contains_null]), _PRESENT, bytes([each.contains_nan])]
                pieces += [
                    _NULL if bound is None else _PRESENT + avro.data(bound) for bound in (each.lower, each.upper)
                ]
            pieces.append(b"\x00")
        else:
            pieces.append(_NULL)
        return b"".join(pieces)


def manifest_file(
    path: str,
    content: bytes,
    spec: Spec,
    sequence_number: int,
    snapshot_id: int,
    found: Sequence[Entry],
    partitions: tuple[Summary, ...],
) -> ManifestFile:
    """A manifest that a snapshot writes, of its entries."""
    counts = {EXISTING: Counts(), ADDED: Counts(), DELETED: Counts()}
    for entry in found:
        counts[entry.status] = counts[entry.status].plus(entry.num_rows)
    lowest = min((entry.sequence_number for entry in found if entry.status != DELETED), default=sequence_number)
    return ManifestFile(
        path,
        len(content),
        spec.id,
        sequence_number,
        lowest,
        snapshot_id,
        counts[ADDED],
        counts[EXISTING],
        counts[DELETED],
        partitions,
    )


_SUMMARY = {
    "type": "record",
    "name": "r508",
    "fields": [
        _required(509, "contains_null", "boolean"),
        _optional(518, "contains_nan", "boolean"),
        _optional(510, "lower_bound", "bytes"),
        _optional(511, "upper_bound", "bytes"),
    ],
}
_LIST = {
    "type": "record",
    "name": "manifest_file",
    "fields": [
        _required(500, "manifest_path", "string"),
        _required(501, "manifest_length", "long"),
        _required(502, "partition_spec_id", "int"),
        _required(517, "content", "int"),
        _required(515, "sequence_number", "long"),
        _required(516, "min_sequence_number", "long"),
        _required(503, "added_snapshot_id", "long"),
        _required(504, "added_files_count", "int"),
        _required(505, "existing_files_count", "int"),
        _required(506, "deleted_files_count", "int"),
        _required(512, "added_rows_count", "long"),
        _required(513, "existing_rows_count", "long"),
        _required(514, "deleted_rows_count", "long"),
        _optional(507, "partitions", {"type": "array", "items": _SUMMARY, "element-id": 508}),
    ],
}


def manifest_list(found: Iterable[ManifestFile], snapshot_id: int, parent: int | None, sequence_number: int) -> bytes:
    """The file of a snapshot's manifest list."""
    metadata = {
        "snapshot-id": str(snapshot_id),
        "parent-snapshot-id": "null" if parent is None else str(parent),
        "sequence-number": str(sequence_number),
        "format-version": "2",
    }
    return avro.container(_LIST, metadata, (each.encoded() for each in found))


def manifest_files(content: bytes) -> list[ManifestFile]:
    """The manifests of a manifest list.

    :raises ValueError: it is damaged.
    """
    return [_file_of(record) for record in avro.read_records(content)]


def _file_of(record: Mapping[str, Any]) -> ManifestFile:
    added, existing, deleted = (
        Counts(record[f"{name}_files_count"], record[f"{name}_rows_count"]) for name in ("added", "existing", "deleted")
    )
    return ManifestFile(
        record["manifest_path"],
        record["manifest_length"],
        record["partition_spec_id"],
        record["sequence_number"],
        record["min_sequence_number"],
        record["added_snapshot_id"],
        added,
        existing,
        deleted,
        tuple(
            Summary(each["contains_null"], bool(each["contains_nan"]), each["lower_bound"], each["upper_bound"])
            for each in record["partitions"] or ()
        ),
    )


def as_existing(entry: Entry) -> Entry:
    """An entry of an older snapshot, in a manifest of a newer one."""
    return entry._replace(status=EXISTING)


def as_deleted(entry: Entry, snapshot_id: int) -> Entry:
    """An entry whose file a snapshot takes from the table."""
    return entry._replace(status=DELETED, snapshot_id=snapshot_id)


def merged(one: Sequence[Summary], other: Sequence[Summary], spec: Spec) -> tuple[Summary, ...]:
    """The summaries of two manifests' files together."""
    return tuple(a.with_(b, column.type) for a, b, column in zip(one, other, spec.columns, strict=True))
