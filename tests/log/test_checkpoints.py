from __future__ import annotations

import os
import random
import resource
from dataclasses import replace
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headwater.basics.errors import HeadwaterError
from headwater.log.files import FILE_SCHEMA, TOMBSTONE_SCHEMA, no_values
from headwater.log.snapshot import load_snapshot
from headwater.protocol.actions import DeletionVector, DomainMetadata, Protocol, SetTransaction
from headwater.protocol.file_names import checkpoint_name, commit_name
from headwater.stores import LocalStore
from support.log_writer import CHECKPOINT, add, paths, remove


def everything(log):
    """Actions with something in every column."""
    vector = DeletionVector("u", "ab^-aqEH.-t@S}K{vb[*k^", 40, 6, 4)
    files = [
        add("a", '{"numRecords":1}', partition_values={"p": "1"}, tags={"k": "v"}),
        add("b", '{"numRecords":2}', partition_values={"p": None}, deletion_vector=vector),
    ]
    removes = [remove("c"), remove("b")]
    others = [
        *log.header({"id": "long", "p": "integer"}, ["p"], Protocol(3, 7, frozenset(["deletionVectors"]), frozenset())),
        SetTransaction("app", 3, 5),
        DomainMetadata("d", "conf"),
    ]
    return others, files, removes


def write(log, kind):
    others, files, removes = everything(log)
    match kind:
        case "classic":
            log.checkpoint(4, removes[0], files[0], *others, files[1], removes[1])
        case "multi-part":
            log.multi_part(4, [[files[0], removes[1]], others, [files[1], removes[0]]])
        case "v2 json" | "v2 parquet":
            log.v2_checkpoint(4, others, [[files[0], removes[0]], [removes[1], files[1]]], kind.split()[1])
        case "v2 json whole" | "v2 parquet whole":
            log.v2_checkpoint(4, [*others, *files, *removes], [], kind.split()[1])


KINDS = ["classic", "multi-part", "v2 json", "v2 parquet", "v2 json whole", "v2 parquet whole"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_tells_the_same_state(log, kind):
    write(log, kind)
    snapshot = log.load()
    assert snapshot.version == 4
    assert snapshot.partition_columns == ["p"]
    assert snapshot.set_transactions == {"app": SetTransaction("app", 3, 5)}
    assert snapshot.domain_metadata == {"d": DomainMetadata("d", "conf")}
    assert snapshot.files.schema == FILE_SCHEMA
    rows = sorted(snapshot.files.to_pylist(), key=lambda row: row["path"])
    assert [row["path"] for row in rows] == ["a", "b"]
    assert rows[0]["partition_values"] == [("p", "1")]
    assert rows[0]["tags"] == [("k", "v")]
    assert rows[0]["deletion_vector"] is None
    assert rows[1]["partition_values"] == [("p", None)]
    assert rows[1]["stats"] == '{"numRecords":2}'
    assert rows[1]["deletion_vector"] == {
        "storage_type": "u",
        "path_or_inline": "ab^-aqEH.-t@S}K{vb[*k^",
        "offset": 4,
        "size": 40,
        "cardinality": 6,
    }
    assert snapshot.has_deletion_vectors
    assert sorted(snapshot.tombstones().column("path").to_pylist()) == ["b", "c"]
    by_path = dict(
        zip(snapshot.files["path"].to_pylist(), snapshot.statistics([])["num_records"].to_pylist(), strict=True)
    )
    assert by_path == {"a": 1, "b": 2}


@pytest.mark.parametrize("kind", KINDS)
def test_commits_after_a_checkpoint_change_it(log, kind):
    write(log, kind)
    log.commit(5, remove("a"), add("c"))
    snapshot = log.load()
    assert paths(snapshot) == ["b", "c"]
    assert sorted(snapshot.tombstones().column("path").to_pylist()) == ["a", "b"]


def test_optional_columns_may_be_missing(log):
    others = log.header()
    narrow = pa.struct([("path", pa.string()), ("size", pa.int64())])
    schema = pa.schema(
        [
            ("add", narrow),
            ("protocol", pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())])),
            ("metaData", pa.struct([("id", pa.string()), ("schemaString", pa.string())])),
        ]
    )
    log.checkpoint(3, *others, add("a"), schema=schema)
    row = log.load().files.to_pylist()[0]
    assert row["partition_values"] == []
    assert row["modification_time"] is None
    assert log.load().statistics([("id",)]).to_pylist() == [
        {"num_records": None, "tight_bounds": None, "min.0": None, "max.0": None, "nulls.0": None}
    ]
    assert log.load().tombstones().num_rows == 0


def test_other_string_types_and_field_orders_are_read(log):
    vector = pa.struct(
        [
            ("cardinality", pa.int64()),
            ("pathOrInlineDv", pa.large_string()),
            ("storageType", pa.large_string()),
            ("sizeInBytes", pa.int32()),
            ("maxRowIndex", pa.int64()),
        ]
    )
    large = pa.map_(pa.large_string(), pa.large_string())
    reordered = pa.struct(
        [
            ("stats", pa.large_string()),
            ("deletionVector", vector),
            ("size", pa.int32()),
            ("partitionValues", large),
            ("path", pa.large_string()),
        ]
    )
    schema = CHECKPOINT.set(CHECKPOINT.get_field_index("add"), pa.field("add", reordered))
    descriptor = DeletionVector("i", "x", 4, 2)
    log.checkpoint(
        3, *log.header(), add("a", "{}", partition_values={"p": "1"}, deletion_vector=descriptor), schema=schema
    )
    row = log.load().files.to_pylist()[0]
    assert (row["path"], row["partition_values"], row["size"]) == ("a", [("p", "1")], 10)
    assert row["deletion_vector"]["path_or_inline"] == "x"
    assert row["deletion_vector"]["offset"] is None


def test_removed_domains_of_a_checkpoint_are_not_live(log):
    log.checkpoint(3, *log.header(), DomainMetadata("gone", "", True), DomainMetadata("here", ""))
    assert set(log.load().domain_metadata) == {"here"}


DAMAGES = {
    "cut off": lambda path: path.write_bytes(path.read_bytes()[:200]),
    "no parquet": lambda path: path.write_bytes(b"nonsense" * 10),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_an_unreadable_checkpoint_is_replaced_by_commits(log, damage):
    log.create(actions=[add("a")])
    log.commit(1, add("b"))
    log.checkpoint(1, *log.header(), add("a"), add("b"))
    log.last_checkpoint(version=1, size=4)
    log.commit(2, add("c"))
    DAMAGES[damage](log.log / checkpoint_name(1))
    assert paths(log.load()) == ["a", "b", "c"]


def test_an_unreadable_checkpoint_is_replaced_by_an_older_one(log):
    log.checkpoint(1, *log.header(), add("a"))
    log.commit(2, add("b"))
    log.commit(3, add("c"))
    log.checkpoint(3, *log.header())
    DAMAGES["cut off"](log.log / checkpoint_name(3))
    snapshot = log.load()
    assert paths(snapshot) == ["a", "b", "c"]
    assert snapshot.segment.checkpoint.version == 1


def test_a_checkpoint_with_a_lost_sidecar_is_replaced_by_one_of_the_same_version(log):
    names = log.v2_checkpoint(3, log.header(), [[add("a")]], "parquet")
    others = log.v2_checkpoint(3, [*log.header(), add("a")], [], "json")
    assert others == []
    os.unlink(log.log / "_sidecars" / names[0])
    assert paths(log.load()) == ["a"]


def test_an_unreadable_checkpoint_that_nothing_replaces_is_an_error(log):
    log.checkpoint(3, *log.header())
    log.commit(4, add("a"))
    DAMAGES["cut off"](log.log / checkpoint_name(3))
    with pytest.raises(HeadwaterError) as error:
        log.load()
    assert error.value.condition == "DELTA_CHECKPOINT_UNREADABLE"
    assert error.value.parameters["version"] == "3"
    assert error.value.parameters["missing"] == "0-3"


def test_a_checkpoint_without_protocol_is_damaged(log):
    log.checkpoint(3, *log.header()[1:])
    with pytest.raises(HeadwaterError) as error:
        log.load()
    assert error.value.condition == "DELTA_CHECKPOINT_UNREADABLE"


def test_statistics_and_tombstones_outlive_the_file(log):
    log.checkpoint(3, *log.header(), add("a", '{"numRecords":7}'), remove("b"))
    log.commit(4, add("c", '{"numRecords":8}'))
    snapshot = log.load()
    os.unlink(log.log / checkpoint_name(3))
    os.unlink(log.log / commit_name(4))
    assert snapshot.files["stats"].to_pylist() == ['{"numRecords":7}', '{"numRecords":8}']
    assert snapshot.statistics([])["num_records"].to_pylist() == [7, 8]
    assert snapshot.tombstones().column("path").to_pylist() == ["b"]


def test_interleaved_rows_keep_statistics_with_their_file(log):
    actions = []
    for number in range(2000):  # more runs than are cut as slices
        actions += [add(f"a{number}", f'{{"numRecords":{number}}}'), remove(f"r{number}")]
    log.checkpoint(3, *log.header(), *actions)
    snapshot = log.load()
    assert snapshot.files["path"].to_pylist() == [f"a{number}" for number in range(2000)]
    assert snapshot.statistics([])["num_records"].to_pylist() == list(range(2000))
    assert snapshot.tombstones().num_rows == 2000


@pytest.mark.parametrize("rows", [1, 7, 100])
@pytest.mark.parametrize("chance", range(3))
def test_however_a_checkpoint_is_cut_into_row_groups(log, rows, chance):
    """Large checkpoints have many; commits after it remove files of each, some by paths that are spelled otherwise."""
    draw = random.Random(chance)
    vector = DeletionVector("u", "ab^-aqEH.-t@S}K{vb[*k^", 40, 6, 4)
    names = [f"part {number}%25" if draw.random() < 0.3 else f"part{number}" for number in range(60)]
    adds = {
        name: add(
            name.replace("%25", "%2525").replace(" ", "%20"),
            f'{{"numRecords":{number}}}',
            **({"deletion_vector": vector} if draw.random() < 0.2 else {}),
        )
        for number, name in enumerate(names)
    }
    actions = [*log.header(), *adds.values(), *(remove(f"gone{number}") for number in range(20))]
    draw.shuffle(actions)
    log.checkpoint(3, *actions)
    path = log.log / checkpoint_name(3)
    pq.write_table(pq.read_table(path), path, row_group_size=rows)
    gone = draw.sample(names, 25)
    for version, name in enumerate(gone, start=4):
        file = adds[name]
        removal = remove(file.path.replace("part", "%70art"))
        log.commit(version, replace(removal, deletion_vector=file.deletion_vector))
    snapshot = log.load()
    left = [name for name in names if name not in gone]
    found = {
        unquote(path): count
        for path, count in zip(
            snapshot.files["path"].to_pylist(), snapshot.statistics([])["num_records"].to_pylist(), strict=True
        )
    }
    assert found == {name: names.index(name) for name in left}
    assert snapshot.num_files == len(left)


@pytest.mark.parametrize("schema", [FILE_SCHEMA, TOMBSTONE_SCHEMA])
def test_columns_that_a_checkpoint_lacks_are_null_and_take_no_memory(schema):
    for column in schema:
        for count in (0, 1, 8, 1000):
            values = no_values(column.type, count)
            values.validate(full=True)
            assert values.equals(pa.nulls(count, column.type))
            assert values.slice(count // 2).null_count == count - count // 2
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    kept = [no_values(column.type, 20_000_000) for column in schema]
    assert len(kept[0]) == 20_000_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kilobytes


def test_a_checkpoint_whose_paths_are_declared_as_never_null(tmp_path):
    """As delta-rs writes them: the rows of other actions are no files with an empty path."""
    deltalake = pytest.importorskip("deltalake")
    path = str(tmp_path / "t")
    for number in range(4):
        deltalake.write_deltalake(path, pa.table({"id": [number]}), mode="overwrite" if number == 2 else "append")
    table = deltalake.DeltaTable(path)
    table.create_checkpoint()
    for commit in (tmp_path / "t" / "_delta_log").glob("*[0-9].json"):
        commit.unlink()
    snapshot = load_snapshot(path, LocalStore())
    assert sorted(f"{path}/{name}" for name in snapshot.select(["path"])["path"].to_pylist()) == sorted(
        uri.removeprefix("file://") for uri in table.file_uris()
    )
    assert snapshot.statistics([])["num_records"].to_pylist() == [1, 1]
    assert snapshot.tombstones().num_rows == 2
