import json
import os
import shutil
import time
from datetime import date, datetime, timezone
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headwater.log.checkpoint_writing import Layout, last_checkpoint_checksum, write_checkpoint
from headwater.log.snapshot import load_snapshot
from headwater.log.statistics.from_typed import texts_of
from headwater.protocol.actions import (
    AddFile,
    DeletionVector,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
)
from headwater.protocol.types import DecimalType, PrimitiveType, StructField, StructType, schema_string
from headwater.stores import LocalStore
from headwater.transaction import Provenance, Transaction, wait_for_maintenance

NOW = 1_700_000_000_000
WEEK = 7 * 24 * 3600 * 1000


def column(name, kind):
    return StructField(name, PrimitiveType(kind) if isinstance(kind, str) else kind)


SCHEMA = StructType(
    (
        column("id", "long"),
        column("name", "string"),
        column("at", "timestamp"),
        column("price", DecimalType(20, 2)),
        column("flag", "boolean"),
        column("place", StructType((column("x", "double"), column("since", "date")))),
        column("day", "date"),
    )
)
STATS = {
    "numRecords": 10,
    "minValues": {"id": 1, "name": "a", "at": "2020-01-01T00:00:00.123Z", "price": 1.25,
                  "place": {"x": 0.5, "since": "2020-01-01"}},
    "maxValues": {"id": 9, "name": "z", "at": "2020-01-01T00:00:01.456Z", "price": 9.75,
                  "place": {"x": 1.5, "since": "2021-01-01"}},
    "nullCount": {"id": 0, "name": 1, "at": 2, "price": 3, "flag": 4, "place": {"x": 5, "since": 6}},
}  # fmt: skip
VECTOR = DeletionVector("i", "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", 40, 6)
FEATURES = Protocol(
    3, 7, frozenset({"deletionVectors", "v2Checkpoint"}),
    frozenset({"deletionVectors", "v2Checkpoint", "domainMetadata"}),
)  # fmt: skip


def table(path, protocol=FEATURES, schema=SCHEMA, **configuration):
    """A table with two live files, one with a deletion vector and no statistics, and a tombstone of each age."""
    txn = Transaction(str(path), LocalStore(), None)
    txn.update_protocol(protocol)
    settings = {f"delta.{name.replace('_', '.')}": value for name, value in configuration.items()}
    txn.update_metadata(Metadata("id", schema_string(schema), ("day",), settings, "t", "d", 5))
    txn.add([file("a", "2020-01-01", json.dumps(STATS)), file("gone", "2020-01-02"), file("long-gone", None)])
    snapshot = txn.commit(Provenance("CREATE TABLE AS SELECT")).snapshot
    txn = Transaction(str(path), LocalStore(), snapshot)
    txn.set_transaction("app", 7)
    if "domainMetadata" in (protocol.writer_features or ()):
        txn.add_action(DomainMetadata("mine", '{"k":1}'))
    day = {"day": "2020-01-02"}
    txn.remove(
        [
            RemoveFile("gone", NOW - WEEK + 1, True, True, day, 100),
            RemoveFile("long-gone", NOW - WEEK, True, True, {"day": None}, 100),
        ]
    )
    vector = VECTOR if "deletionVectors" in (protocol.writer_features or ()) else None
    txn.add([AddFile("b", {"day": None}, 100, 7, deletion_vector=vector, tags={"k": "v"})])
    snapshot = txn.commit(Provenance("WRITE")).snapshot
    wait_for_maintenance()
    return snapshot


def file(path, day, stats=None):
    return AddFile(path, {"day": day}, 100, 6, stats=stats)


def without_commits(snapshot):
    """The same table, of which only the checkpoint is left."""
    directory = f"{snapshot.table_path}/_delta_log"
    for name in os.listdir(directory):
        if name.endswith(".json") and "checkpoint" not in name:
            os.remove(f"{directory}/{name}")
    return load_snapshot(snapshot.table_path, LocalStore())


def state(snapshot):
    leaves = [("id",), ("name",), ("at",), ("price",), ("flag",), ("place", "x"), ("place", "since")]
    paths = snapshot.files.column("path").to_pylist()
    return {
        "version": snapshot.version,
        "protocol": snapshot.protocol,
        "metadata": snapshot.metadata,
        "transactions": snapshot.set_transactions,
        "domains": snapshot.domain_metadata,
        "files": sorted(snapshot.files.to_pylist(), key=lambda row: row["path"]),
        "statistics": dict(zip(paths, snapshot.statistics(leaves).to_pylist(), strict=True)),
    }


@pytest.mark.parametrize("policy", ["classic", "v2"])
def test_what_is_written_is_the_table(tmp_path, policy):
    before = table(tmp_path / "t", checkpointPolicy=policy)
    written = write_checkpoint(before, NOW)
    names = [name for name in os.listdir(f"{before.table_path}/_delta_log") if "checkpoint" in name]
    assert len(names) == 2
    assert any(name.count("-") == 4 for name in names) == (policy == "v2")
    after = without_commits(before)
    assert state(after) == state(before)
    assert (written.num_adds, written.num_actions) == (2, 7 if policy == "classic" else 9)


def test_a_checkpoint_of_a_checkpoint_is_the_same(tmp_path):
    first = table(tmp_path / "t")
    write_checkpoint(first, NOW)
    second = without_commits(first)
    expected = state(first)
    write_checkpoint(second, NOW)
    third = load_snapshot(first.table_path, LocalStore())
    assert state(third) == expected
    assert third.tombstones().column("path").to_pylist() == ["gone"]


def test_typed_columns(tmp_path):
    written = write_checkpoint(table(tmp_path / "t"), NOW)
    rows = [row for row in pq.read_table(written.path).column("add").to_pylist() if row]
    first = next(row for row in rows if row["path"] == "a")
    assert first["dataChange"] is False
    assert first["partitionValues_parsed"] == {"day": date(2020, 1, 1)}
    utc = timezone.utc
    assert first["stats_parsed"] == {
        "numRecords": 10,
        "minValues": {
            "id": 1, "name": "a", "at": datetime(2020, 1, 1, 0, 0, 0, 123_000, utc), "price": Decimal("1.25"),
            "place": {"x": 0.5, "since": date(2020, 1, 1)},
        },
        "maxValues": {
            "id": 9, "name": "z", "at": datetime(2020, 1, 1, 0, 0, 1, 456_000, utc), "price": Decimal("9.75"),
            "place": {"x": 1.5, "since": date(2021, 1, 1)},
        },
        "nullCount": STATS["nullCount"],
        "tightBounds": None,
    }  # fmt: skip
    other = next(row for row in rows if row["path"] == "b")
    assert other["stats_parsed"] is None
    assert other["partitionValues_parsed"] == {"day": None}
    assert other["deletionVector"]["pathOrInlineDv"] == VECTOR.path_or_inline
    assert dict(other["tags"]) == {"k": "v"}


def test_properties_say_which_statistics_are_kept(tmp_path):
    def fields(**configuration):
        name = str(len(os.listdir(tmp_path)))
        schema = pq.read_schema(write_checkpoint(table(tmp_path / name, **configuration), NOW).path)
        return {field.name for field in schema.field("add").type} & {"stats", "stats_parsed", "partitionValues_parsed"}

    assert fields(checkpoint_writeStatsAsStruct="false") == {"stats"}
    assert fields(checkpoint_writeStatsAsJson="false") == {"stats_parsed", "partitionValues_parsed"}
    assert fields() == {"stats", "stats_parsed", "partitionValues_parsed"}


def test_statistics_kept_as_columns_only_still_prune(tmp_path):
    before = table(tmp_path / "t", checkpoint_writeStatsAsJson="false")
    write_checkpoint(before, NOW)
    after = without_commits(before)
    assert (
        after.statistics([("id",)]).column("max.0").to_pylist()
        == before.statistics([("id",)]).column("max.0").to_pylist()
    )


@pytest.mark.parametrize("policy", ["classic", "v2"])
def test_statistics_kept_as_columns_only_are_text_again(tmp_path, policy):
    before = table(tmp_path / "t", checkpoint_writeStatsAsJson="false", checkpointPolicy=policy)
    write_checkpoint(before, NOW)
    after = without_commits(before)
    texts = dict(zip(after.files["path"].to_pylist(), after.files["stats"].to_pylist(), strict=True))
    known = {path: text and json.loads(text) for path, text in texts.items()}
    assert list(known.values()).count(None) == 1
    assert [stats for stats in known.values() if stats is not None] == [STATS]


def test_texts_are_written_from_columns_only_where_there_are_none(tmp_path):
    before = table(tmp_path / "t", checkpoint_writeStatsAsJson="false")
    write_checkpoint(before, NOW)
    path = f"{before.table_path}/_delta_log/{1:020d}.checkpoint.parquet"
    rows = pq.read_table(path)
    adds = [
        row and {**row, "stats": '{"numRecords":7}' if row["path"] == "b" else None} for row in rows["add"].to_pylist()
    ]
    kind = rows.schema.field("add").type
    adds = pa.array(adds, pa.struct([*kind, pa.field("stats", pa.string())]))
    pq.write_table(rows.set_column(rows.schema.get_field_index("add"), "add", adds), path)
    files = without_commits(before).files
    known = dict(zip(files["path"].to_pylist(), map(json.loads, files["stats"].to_pylist()), strict=True))
    assert known.pop("b") == {"numRecords": 7}
    assert list(known.values()) == [STATS]


def test_odd_values_of_columns_are_text_again():
    column = pa.array(
        [
            {
                "numRecords": 2,
                "minValues": {"d": float("-inf"), "f": float("nan"), "n": datetime(1950, 1, 1, 0, 0, 0, 999)},
            },
            {"numRecords": None, "minValues": {"d": 0.1, "f": None, "n": None}},
            {"numRecords": None, "minValues": None},
        ],
        pa.struct(
            {
                "numRecords": pa.int64(),
                "minValues": pa.struct({"d": pa.float64(), "f": pa.float32(), "n": pa.timestamp("us")}),
            }
        ),
    )
    first, second, third = texts_of(column, lambda path: False).to_pylist()
    assert json.loads(first)["minValues"] == {"d": "-Infinity", "n": "1950-01-01T00:00:00.000"}
    assert json.loads(second)["minValues"] == {"d": 0.1}
    assert "numRecords" not in json.loads(second)
    assert third is None
    assert '"1950-01-01T00:00:00.000Z"' in texts_of(column, lambda path: path == ("minValues", "n"))[0].as_py()


def test_times_without_a_zone_are_not_given_one(tmp_path):
    schema = StructType((column("id", "long"), column("day", "timestamp")))
    snapshot = table(tmp_path / "t", schema=schema)
    add = {field.name for field in pq.read_schema(write_checkpoint(snapshot, NOW).path).field("add").type}
    assert "partitionValues_parsed" not in add


def test_tables_without_features_have_no_feature_lists(tmp_path):
    written = write_checkpoint(table(tmp_path / "t", protocol=Protocol(1, 2)), NOW)
    content = pq.read_table(written.path)
    protocol = next(row for row in content.column("protocol").to_pylist() if row)
    assert protocol == {"minReaderVersion": 1, "minWriterVersion": 2, "readerFeatures": None, "writerFeatures": None}
    assert "domainMetadata" not in content.column_names


def test_tables_without_the_feature_get_no_v2_checkpoint(tmp_path):
    written = write_checkpoint(table(tmp_path / "t", protocol=Protocol(1, 2), checkpointPolicy="v2"), NOW)
    assert written.path.endswith(f"{1:020d}.checkpoint.parquet")


def test_v2_checkpoints_hold_what_the_specification_asks(tmp_path):
    written = write_checkpoint(table(tmp_path / "t", checkpointPolicy="v2"), NOW)
    content = pq.read_table(written.path)
    assert content.column("add").null_count == content.num_rows
    assert [row for row in content.column("checkpointMetadata").to_pylist() if row] == [{"version": 1, "tags": []}]
    (sidecar,) = [row for row in content.column("sidecar").to_pylist() if row]
    path = tmp_path / "t" / "_delta_log" / "_sidecars" / sidecar["path"]
    assert path.stat().st_size == sidecar["sizeInBytes"]
    assert pq.read_schema(path).names == ["add", "remove"]


def checkpoint_names(snapshot):
    return sorted(n for n in os.listdir(f"{snapshot.table_path}/_delta_log") if ".checkpoint." in n)


@pytest.mark.parametrize(("size", "parts"), [(1, 4), (2, 3), (3, 2), (4, 2), (5, 2), (6, 1), (100, 1)])
def test_classic_checkpoints_have_parts_of_at_most_the_size_asked(tmp_path, size, parts):
    before = table(tmp_path / "t", Protocol(1, 2))  # three actions of the table, two files, one tombstone
    written = write_checkpoint(before, NOW, Layout(part_size=size))
    names = checkpoint_names(before)
    # The actions of the table itself stay together, so that a reader finds them in one file.
    assert len(names) == written.parts == parts
    rows = [pq.read_metadata(f"{before.table_path}/_delta_log/{name}").num_rows for name in names]
    assert sum(rows) == written.num_actions == 6
    assert all(count <= size for count in rows[1:])
    hint = json.loads((tmp_path / "t" / "_delta_log" / "_last_checkpoint").read_text())
    assert hint.get("parts") == (len(names) if len(names) > 1 else None)
    after = without_commits(before)
    assert state(after) == state(before)
    assert after.tombstones().column("path").to_pylist() == ["gone"]


def test_the_tables_part_size_counts_before_the_sessions(tmp_path):
    before = table(tmp_path / "t", Protocol(1, 2), checkpoint_partSize="4")
    assert write_checkpoint(before, NOW, Layout(part_size=100)).parts == 2


def test_no_checkpoint_has_parts_where_v2_checkpoints_are_enabled(tmp_path):
    written = write_checkpoint(table(tmp_path / "t"), NOW, Layout(part_size=1))
    assert written.path.endswith(f"{1:020d}.checkpoint.parquet")


@pytest.mark.parametrize("top_level", ["json", "parquet"])
@pytest.mark.parametrize(("size", "sidecars"), [(None, 1), (1, 3), (2, 2), (3, 2), (6, 1)])
def test_v2_checkpoints_of_either_format_with_several_sidecars(tmp_path, top_level, size, sidecars):
    before = table(tmp_path / "t", checkpointPolicy="v2")
    written = write_checkpoint(before, NOW, Layout(size, top_level))
    assert written.path.endswith(f".{top_level}")
    assert len(os.listdir(tmp_path / "t" / "_delta_log" / "_sidecars")) == sidecars
    assert written.num_actions == 1 + sidecars + 4 + 3
    after = without_commits(before)
    assert after.segment.checkpoint.format == top_level
    assert state(after) == state(before)
    assert after.tombstones().column("path").to_pylist() == ["gone"]


def test_a_json_checkpoint_is_lines_of_actions(tmp_path):
    before = table(tmp_path / "t", checkpointPolicy="v2")
    written = write_checkpoint(before, NOW, Layout(top_level="json"))
    with open(written.path, encoding="utf-8") as content:
        lines = [json.loads(line) for line in content]
    kinds = sorted(kind for line in lines for kind in line)
    assert kinds == ["checkpointMetadata", "domainMetadata", "metaData", "protocol", "sidecar", "txn"]
    (metadata,) = [line["metaData"] for line in lines if "metaData" in line]
    assert metadata == before.metadata.to_json()["metaData"]


@pytest.mark.parametrize(("retention", "expected"), [("interval 1 hour", {"new"}), (None, {"new", "old", "timeless"})])
def test_transactions_expire(tmp_path, retention, expected):
    settings = {"setTransactionRetentionDuration": retention} if retention else {}
    snapshot = table(tmp_path / "t", **settings)
    now = int(time.time() * 1000)
    txn = Transaction(snapshot.table_path, LocalStore(), snapshot)
    hour = 3_600_000
    for app, updated in (("new", now - hour + 60_000), ("old", now - hour - 1), ("timeless", None)):
        txn.add_action(SetTransaction(app, 1, updated))
    snapshot = txn.commit(Provenance("WRITE")).snapshot
    wait_for_maintenance()
    assert set(snapshot.set_transactions) == {"app", *expected}
    write_checkpoint(snapshot)
    assert set(without_commits(snapshot).state.transactions) == {"app", *expected}


def test_an_empty_table_has_a_checkpoint(tmp_path):
    txn = Transaction(str(tmp_path / "t"), LocalStore(), None)
    txn.update_protocol(FEATURES)
    txn.update_metadata(Metadata("id", schema_string(StructType()), configuration={"delta.checkpointPolicy": "v2"}))
    snapshot = txn.commit(Provenance("CREATE TABLE")).snapshot
    wait_for_maintenance()
    assert write_checkpoint(snapshot).num_adds == 0
    assert without_commits(snapshot).num_files == 0


def test_the_last_checkpoint_file_tells_of_it_and_never_moves_back(tmp_path):
    snapshot = table(tmp_path / "t")
    written = write_checkpoint(snapshot, NOW)
    hint = tmp_path / "t" / "_delta_log" / "_last_checkpoint"
    content = json.loads(hint.read_text())
    assert content.pop("checksum") == last_checkpoint_checksum(content)
    assert content == {
        "version": 1, "size": 7, "sizeInBytes": os.path.getsize(written.path), "numOfAddFiles": 2,
    }  # fmt: skip
    write_checkpoint(load_snapshot(snapshot.table_path, LocalStore(), 0), NOW)
    assert json.loads(hint.read_text())["version"] == 1
    hint.write_text("damaged")
    write_checkpoint(snapshot, NOW)
    assert json.loads(hint.read_text())["version"] == 1


def test_the_last_checkpoint_file_names_a_v2_checkpoint(tmp_path):
    """Readers that list no log find it by this name alone."""
    written = write_checkpoint(table(tmp_path / "t", checkpointPolicy="v2"), NOW)
    content = json.loads((tmp_path / "t" / "_delta_log" / "_last_checkpoint").read_text())
    assert content["v2Checkpoint"] == {
        "path": os.path.basename(written.path), "sizeInBytes": os.path.getsize(written.path), "modificationTime": NOW,
    }  # fmt: skip
    assert content.pop("checksum") == last_checkpoint_checksum(content)


CANONICAL = {
    "k0": "'v 0'",
    "checksum": "left out",
    "k1": {"k2": 2, "k3": ["v3", [1, 2], {"k4": "v4", "k5": ["v5", "v6", "v7"]}]},
}


@pytest.mark.parametrize(
    ("content", "digest"),
    [(CANONICAL, "6a92d155a59bf2eecbd4b4ec7fd1f875"), ({}, "d41d8cd98f00b204e9800998ecf8427e")],
)
def test_json_checksums_are_the_protocols(content, digest):
    assert last_checkpoint_checksum(content) == digest


def test_every_tenth_version_has_one_and_other_engines_read_it(tmp_path):
    deltalake = pytest.importorskip("deltalake")
    txn = Transaction(str(tmp_path / "t"), LocalStore(), None)
    txn.update_protocol(Protocol(1, 2))
    txn.update_metadata(Metadata("id", schema_string(SCHEMA), ("day",), created_time=5))
    snapshot = txn.commit(Provenance("CREATE TABLE")).snapshot
    for version in range(1, 13):
        txn = Transaction(snapshot.table_path, LocalStore(), snapshot)
        txn.add([file(f"day=2020-01-{version:02d}/f{version}", f"2020-01-{version:02d}", json.dumps(STATS))])
        snapshot = txn.commit(Provenance("WRITE")).snapshot
    assert wait_for_maintenance(60)
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path / "t", copy)
    for version in range(10):
        os.remove(copy / "_delta_log" / f"{version:020d}.json")
    read = deltalake.DeltaTable(str(copy))
    assert read.version() == 12
    adds = pa.table(read.get_add_actions(flatten=True)).to_pylist()
    assert sorted(row["path"].rpartition("/")[2] for row in adds) == sorted(f"f{v}" for v in range(1, 13))
    assert {(row["num_records"], row["min.id"], row["max.id"], row["max.name"]) for row in adds} == {(10, 1, 9, "z")}
    assert {row["partition.day"] for row in adds} == {date(2020, 1, v) for v in range(1, 13)}
    assert load_snapshot(str(copy), LocalStore()).num_files == 12
