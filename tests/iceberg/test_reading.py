"""The metadata of Iceberg tables: which file is the newest, which deletes apply to which rows, and what damage says."""

from __future__ import annotations

import json
import struct
import zlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

from headwater.iceberg.delta_types import NotDelta, delta_schema, partition_text
from headwater.iceberg.reading import Damaged, Table, _Entry, metadata_file
from headwater.log import deletion_vectors
from headwater.protocol.types import DecimalType, PrimitiveType
from headwater.stores import LocalStore

STORE = LocalStore()
_SCHEMA = {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "id", "required": True, "type": "long"}]}
_METADATA = {
    "format-version": 2,
    "schemas": [_SCHEMA],
    "current-schema-id": 0,
    "last-updated-ms": 1,
    "last-column-id": 9,
    "partition-specs": [{"spec-id": 0, "fields": []}],
    "default-spec-id": 0,
    "current-snapshot-id": -1,
}


def put(path, **changed):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**_METADATA, **changed}))
    return path


def table(path, **changed):
    return Table(STORE, str(path), str(put(path / "metadata/v1.metadata.json", **changed)))


def nothing():
    pass


def snapshot(path, **changed):
    return table(path, **changed).snapshot(None, None, nothing)


@pytest.mark.parametrize(
    ("names", "newest"),
    [
        (["v1.metadata.json", "v2.metadata.json", "v10.metadata.json"], "v10.metadata.json"),
        (["00000-a-b.metadata.json", "00011-c.gz.metadata.json", "v1.avro"], "00011-c.gz.metadata.json"),
        (["version-hint.text", "v2.metadata.json", "00009-a.metadata.json"], "v2.metadata.json"),
        (["v2.metadata.json", "00009-a.metadata.json"], "v2.metadata.json"),
        (["snap-1.avro"], None),
        ([], None),
    ],
)
def test_the_newest_metadata(tmp_path, names, newest):
    for name in names:
        put(tmp_path / "metadata" / name)
    assert metadata_file(STORE, str(tmp_path)) == (None if newest is None else f"{tmp_path}/metadata/{newest}")


def test_only_a_catalog_knows_which_of_two_counts(tmp_path):
    for name in ("00001-a.metadata.json", "00001-b.metadata.json", "00000-c.metadata.json"):
        put(tmp_path / "metadata" / name)
    with pytest.raises(NotDelta, match="00001-a.metadata.json and 00001-b.metadata.json"):
        metadata_file(STORE, str(tmp_path))


def test_a_newer_file_counts_whatever_the_hint_names(tmp_path):
    for number in (1, 2, 3):
        put(tmp_path / f"metadata/v{number}.metadata.json")
    hint = tmp_path / "metadata/version-hint.text"
    hint.write_text("1\n")
    assert metadata_file(STORE, str(tmp_path)) == f"{tmp_path}/metadata/v3.metadata.json"
    hint.write_text("4")
    with pytest.raises(Damaged, match=r"version-hint.text names it") as error:
        metadata_file(STORE, str(tmp_path))
    assert error.value.path == f"{tmp_path}/metadata/v4.metadata.json"


@pytest.mark.parametrize("hint", [True, False])
def test_a_table_that_a_catalog_took_over_is_not_read_as_it_was_before(tmp_path, hint):
    """The numbers of catalogs begin again, so they show nothing."""
    put(tmp_path / "metadata/v2.metadata.json", **{"last-updated-ms": 200})
    if hint:
        (tmp_path / "metadata/version-hint.text").write_text("2")
    put(tmp_path / "metadata/00000-a.metadata.json", **{"last-updated-ms": 200})
    assert metadata_file(STORE, str(tmp_path)) == f"{tmp_path}/metadata/v2.metadata.json"
    put(tmp_path / "metadata/00001-b.metadata.json", **{"last-updated-ms": 300})
    with pytest.raises(NotDelta, match=r"00001-b.metadata.json.* is newer than v2.metadata.json"):
        metadata_file(STORE, str(tmp_path))


def test_a_table_without_snapshots(tmp_path):
    found = snapshot(tmp_path)
    assert (found.snapshot_id, found.last_column_id, found.partition_columns, found.files) == (None, 9, [], [])
    assert [(f.name, f.nullable, f.metadata["delta.columnMapping.id"]) for f in found.schema] == [("id", False, 1)]


def vector(*positions):
    data = deletion_vectors.serialize(BitMap64(positions))
    return struct.pack(">i", len(data)) + data + struct.pack(">I", zlib.crc32(data))


def data(path, name, sequence):
    file = {"content": 0, "file_path": f"file:{path}/{name}", "file_format": "PARQUET", "partition": {}}
    return _Entry({**file, "record_count": 9, "file_size_in_bytes": 5}, sequence, 0)


def deletes(path, name, sequence, **positions):
    rows = [(f"file:{path}/{file}", position) for file, found in positions.items() for position in found]
    columns = {"file_path": [file for file, _ in rows], "pos": [position for _, position in rows]}
    pq.write_table(pa.table(columns), path / name)
    return _Entry({"content": 1, "file_path": f"{path}/{name}", "file_format": "PARQUET"}, sequence, 0)


def puffin(path, name, sequence, of, blob):
    (path / name).write_bytes(b"PFA1" + blob + b"PFA1")
    file = {"content": 1, "file_path": f"file://{path}/{name}", "file_format": "PUFFIN", "content_offset": 4}
    file |= {"content_size_in_bytes": len(blob), "referenced_data_file": f"file:{path}/{of}"}
    return _Entry(file, sequence, 0)


def planned(path, *entries):
    opened = table(path)
    opened._specs = {0: []}
    found = opened._planned(entries, [], {}, nothing)
    return {file.path: None if file.deleted is None else list(file.deleted) for file in found}


def test_which_deletes_apply(tmp_path):
    found = planned(
        tmp_path,
        *(data(tmp_path, name, sequence) for name, sequence in (("a", 1), ("b", 3), ("c", 1), ("d", 5))),
        deletes(tmp_path, "d1.parquet", 2, a=[0, 3], b=[1], c=[7]),
        deletes(tmp_path, "d2.parquet", 3, a=[4], b=[2]),
        # A vector has all that were deleted before; one that is older than its file is of another.
        puffin(tmp_path, "v1.puffin", 4, "c", vector(1, 2)),
        puffin(tmp_path, "v2.puffin", 4, "d", vector(1)),
    )
    assert found == {"a": [0, 3, 4], "b": [2], "c": [1, 2], "d": None}


@pytest.mark.parametrize("damage", [lambda blob: blob[:-1], lambda blob: blob[:12] + b"\7" + blob[13:], lambda _: b""])
def test_a_damaged_vector(tmp_path, damage):
    with pytest.raises(Damaged, match="cannot be read") as raised:
        planned(tmp_path, data(tmp_path, "a", 1), puffin(tmp_path, "v.puffin", 2, "a", damage(vector(1, 2, 3))))
    assert raised.value.path == f"{tmp_path}/v.puffin"


def test_what_a_plan_refuses(tmp_path):
    entry = data(tmp_path, "a", 1)
    equality = _Entry({"content": 2, "file_path": f"{tmp_path}/e.parquet", "file_format": "PARQUET"}, 2, 0)
    for entries, words in (
        ([entry, equality], "equality deletes"),
        ([entry, entry], "twice"),
        ([_Entry({**entry.file, "file_format": "ORC"}, 1, 0)], "ORC"),
        ([_Entry({**entry.file, "key_metadata": b"k"}, 1, 0)], "encrypted"),
        ([_Entry({**equality.file, "content": 1, "file_format": "AVRO"}, 1, 0)], "AVRO"),
    ):
        with pytest.raises(NotDelta, match=words):
            planned(tmp_path, *entries)
    for path in ("/etc/passwd", f"file:{tmp_path}/../x", f"{tmp_path}x/a", "s3://b/a", "a", "../a"):
        with pytest.raises(Damaged, match="outside"):
            planned(tmp_path, _Entry({**entry.file, "file_path": path}, 1, 0))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{", Damaged),
        ("[]", Damaged),
        ("[" * 100_000, Damaged),
        ('{"format-version": 2}', Damaged),
        ('{"format-version": 9}', NotDelta),
        (json.dumps({**_METADATA, "schemas": 7}), Damaged),
        (json.dumps({**_METADATA, "schemas": [{"schema-id": 0, "fields": [{"id": 1}]}]}), Damaged),
        (json.dumps({**_METADATA, "current-snapshot-id": 3}), LookupError),
        (json.dumps({**_METADATA, "current-snapshot-id": 3, "snapshots": [{"snapshot-id": 3}]}), NotDelta),
        (
            json.dumps(
                {
                    **_METADATA,
                    "current-snapshot-id": 3,
                    "snapshots": [{"snapshot-id": 3, "manifest-list": "/etc/passwd"}],
                }
            ),
            Damaged,
        ),
    ],
)
def test_damaged_metadata(tmp_path, text, error):
    file = put(tmp_path / "metadata/v1.metadata.json")
    file.write_text(text)
    with pytest.raises(error):
        Table(STORE, str(tmp_path), str(file)).snapshot(None, None, nothing)


def field(kind, **more):
    return {"fields": [{"id": 1, "name": "c", "required": False, "type": kind, **more}]}


def test_types_that_were_widened():
    earlier = [field("int"), field("int"), field("long")]
    assert delta_schema(field("long"), earlier).fields[0].metadata["delta.typeChanges"] == [
        {"fromType": "integer", "toType": "long"}
    ]
    listed = {"type": "list", "element-id": 2, "element": "long", "element-required": False}
    with pytest.raises(NotDelta, match="what its column c holds"):
        delta_schema(field(listed), [field({**listed, "element": "int"})])
    with pytest.raises(NotDelta, match="was string and became"):
        delta_schema(field("long"), [field("string")])


@pytest.mark.parametrize(
    "kind", ["time", "uuid", "timestamp_ns", "timestamptz_ns", "unknown", "variant", "geometry(srid:1)", {"type": "x"}]
)
def test_types_that_delta_does_not_have(kind):
    with pytest.raises(NotDelta, match="column c has the type"):
        delta_schema(field(kind))


def test_default_values_are_refused():
    for key in ("initial-default", "write-default"):
        with pytest.raises(NotDelta, match="default value"):
            delta_schema(field("int", **{key: 1}))


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (None, "integer", None),
        (-3, "long", "-3"),
        (True, "boolean", "true"),
        (struct.pack("<f", 0.5), "float", "0.5"),
        (struct.pack("<f", 0.5), "double", "0.5"),
        (struct.pack("<d", float("-inf")), "double", "-Infinity"),
        (19844, "date", "2024-05-01"),
        (1, "timestamp", "1970-01-01T00:00:00.000001Z"),
        (-1, "timestamp_ntz", "1969-12-31 23:59:59.999999"),
        ("a/b", "string", "a/b"),
    ],
)
def test_partition_values(value, kind, text):
    assert partition_text(value, PrimitiveType(kind), "c") == text


def test_partition_values_of_decimals():
    for digits, text in ((-5, "-0.05"), (0, "0.00"), (123456, "1234.56")):
        assert partition_text(digits.to_bytes(4, "big", signed=True), DecimalType(9, 2), "c") == text
    assert partition_text(b"\x07", DecimalType(9, 0), "c") == "7"
