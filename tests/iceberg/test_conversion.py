"""Iceberg metadata behind the commits of a Delta table: what pyiceberg reads is what the table has."""

from __future__ import annotations

import json
import os
import random
import shutil
import threading
from dataclasses import replace
from datetime import date, datetime, timezone
from decimal import Decimal
from itertools import count
from pathlib import Path

import pytest
from pyiceberg.expressions import EqualTo

from headwater.iceberg import conversion, metadata
from headwater.iceberg.avro import open_container
from headwater.iceberg.conversion import convert
from headwater.iceberg.manifests import Spec, entries, manifest_files, without
from headwater.iceberg.standing import standing
from headwater.log.history import history
from headwater.protocol.types import ArrayType, DecimalType, MapType, PrimitiveType, StructField, StructType
from headwater.schema.reshaping import drop_column, rename_column
from headwater.statements.maintenance.health import health
from headwater.statements.maintenance.layouts import Settings
from headwater.statements.reads.describe import detail_row
from headwater.stores import LocalStore
from headwater.transaction import Provenance, maintenance, wait_for_maintenance
from support.iceberg_tables import ConvertedTable, at_version, normalized, random_step, read_by_pyiceberg

LONG, STRING, INTEGER = PrimitiveType("long"), PrimitiveType("string"), PrimitiveType("integer")
WIDE = StructType(
    (
        StructField("id", LONG, False),
        StructField("p", STRING),
        StructField("q", PrimitiveType("date")),
        StructField("s", STRING),
        StructField("d", DecimalType(38, 4)),
        StructField("ts", PrimitiveType("timestamp")),
        StructField("n", PrimitiveType("timestamp_ntz")),
        StructField("f", PrimitiveType("double")),
        StructField("st", StructType.of(a=INTEGER, b=STRING)),
        StructField("l", ArrayType(StructType.of(x=INTEGER))),
        StructField("m", MapType(STRING, INTEGER)),
        StructField("b", PrimitiveType("binary")),
    )
)
NARROW = StructType.of(id=LONG, p=STRING)
STEPS = int(os.environ.get("HEADWATER_TEST_EXAMPLES", "12"))


NUMBERS = count(1)


def wide_row(draw):
    number = next(NUMBERS)
    return {
        "id": number,
        "p": draw.choice(["a", "b ü/#%", None]),
        "q": draw.choice([date(2024, 1, 1), date(1960, 5, 5), None]),
        "s": draw.choice([None, "x" * draw.randint(0, 50)]),
        "d": draw.choice([None, Decimal("-12345678901234567890123456789012.1234"), Decimal("1.5000")]),
        "ts": datetime(2024, 1, 1, 0, 0, 0, 123456, tzinfo=timezone.utc),
        "n": datetime(2024, 1, 1, 0, 0, 0, 123456),
        "f": draw.choice([None, 0.5, float("inf")]),
        "st": draw.choice([None, {"a": number, "b": "y"}]),
        "l": draw.choice([[], [{"x": number}]]),  # pyiceberg reads a list that is null as one without elements
        "m": draw.choice([None, [("k", number)]]),
        "b": b"\x00\xff",
    }


def narrow_rows(*ids, p="a"):
    return [{"id": number, "p": p} for number in ids]


def check(table):
    found = read_by_pyiceberg(table.path)
    assert normalized(found.to_pylist()) == normalized(table.rows)


def current(table):
    return metadata.newest(str(table.path), LocalStore())


def manifests(table):
    return manifest_files(Path(current(table).snapshot["manifest-list"].removeprefix("file://")).read_bytes())


@pytest.fixture(autouse=True)
def done():
    yield
    assert wait_for_maintenance(60)


@pytest.fixture
def only_asked(monkeypatch):
    """No conversion but those that a test asks for."""
    monkeypatch.setattr("headwater.transaction.maintenance.is_converted", lambda definition: False)


@pytest.mark.random
@pytest.mark.parametrize("seed", [1, 2] if "HEADWATER_TEST_EXAMPLES" not in os.environ else [None] * 4)
def test_pyiceberg_reads_the_same_rows_after_random_changes(tmp_path, seed):
    seed = random.randrange(1 << 30) if seed is None else seed
    print("seed", seed)
    draw = random.Random(seed)
    keys = draw.choice([[], ["p"], ["p", "q"]])
    table = ConvertedTable(tmp_path / "t", WIDE, keys)
    for _ in range(STEPS):
        random_step(table, draw, wide_row, keys)
        if draw.random() < 0.6:
            table.convert()
            check(table)
    table.convert()
    check(table)


def test_the_background_converts_each_commit(tmp_path):
    table = ConvertedTable(tmp_path / "t", NARROW)
    table.commit([narrow_rows(1, 2)])
    table.commit([narrow_rows(3)])
    assert wait_for_maintenance(60)
    check(table)
    found = current(table)
    assert found.delta_version == table.snapshot.version == 2
    assert found.content["properties"]["delta-timestamp"] == str(table.snapshot.timestamp)
    assert found.content["table-uuid"] == table.snapshot.metadata.id


def test_a_statement_waits_for_what_a_thread_at_work_takes_up(tmp_path, monkeypatch):
    """As REORG does, whose first commits are those of a table that no reader of Iceberg sees."""
    table = ConvertedTable(tmp_path / "t", NARROW)
    assert wait_for_maintenance(60)
    at_work, gate = threading.Event(), threading.Event()

    def slow(*given, **named):
        at_work.set()
        gate.wait(60)

    with monkeypatch.context() as hidden:
        hidden.setattr(maintenance, "is_converted", lambda definition: False)
        hidden.setattr(maintenance, "_checksum", slow)
        table.commit([narrow_rows(1)])
        assert at_work.wait(60)
    table.commit([narrow_rows(2)])
    threading.Timer(0.3, gate.set).start()
    maintenance.wait_for_iceberg(str(table.path))
    check(table)


def test_a_conversion_costs_what_was_changed(tmp_path, only_asked, monkeypatch):
    table = ConvertedTable(tmp_path / "t", NARROW)
    table.commit([narrow_rows(1), narrow_rows(2)])
    table.convert()
    table.commit([narrow_rows(3)])
    table.convert()
    first, second = sorted(manifests(table), key=lambda each: each.sequence_number)
    monkeypatch.setattr(conversion, "entries", lambda content: pytest.fail("an append reads no manifest"))
    table.commit([narrow_rows(4)])
    table.convert()
    monkeypatch.undo()
    monkeypatch.setattr("headwater.transaction.maintenance.is_converted", lambda definition: False)
    assert {each.path for each in manifests(table)} > {first.path, second.path}
    gone = next(name for name, rows in table.files.items() if rows == narrow_rows(1))
    table.commit([], [gone])
    table.convert()
    kept = {each.path for each in manifests(table)}
    assert second.path in kept
    assert first.path not in kept
    assert current(table).snapshot["summary"]["operation"] == "delete"
    check(table)
    # What is gone is in the manifest once, as deleted, and in none of the next.
    (rewritten,) = [each for each in manifests(table) if each.deleted.files]
    assert (rewritten.existing.files, rewritten.deleted.rows) == (1, 1)
    table.commit([], [next(name for name, rows in table.files.items() if rows == narrow_rows(2))])
    table.convert()
    assert sum(each.live_files for each in manifests(table)) == 2
    check(table)


def test_what_was_missed_is_made_up_for(tmp_path, only_asked, monkeypatch):
    table = ConvertedTable(tmp_path / "t", NARROW, ["p"])
    table.commit([narrow_rows(1), narrow_rows(2, p="b"), narrow_rows(3, p=None)])
    table.convert()
    for number in range(4, 8):
        table.commit([narrow_rows(number)], [next(iter(table.files))])
    before = current(table).content["properties"]["delta-version"]
    table.convert()
    assert current(table).content["properties"]["base-delta-version"] == before
    check(table)
    # The same where the log has the commits no more: all files are compared.
    monkeypatch.setattr(conversion, "_MOST_COMMITS", 0)
    table.commit([narrow_rows(9, p="b")], [next(iter(table.files))])
    table.convert()
    check(table)
    assert convert(table.snapshot) == current(table).number


def test_a_file_that_is_added_again_is_one_file(tmp_path, only_asked):
    table = ConvertedTable(tmp_path / "t", NARROW)
    table.commit([narrow_rows(1, 2)])
    table.convert()
    (row,) = table.snapshot.files.to_pylist()
    from headwater.log.files import file_of
    from headwater.transaction import Transaction

    for data_change in (False, True):
        txn = Transaction(str(table.path), LocalStore(), table.snapshot)
        txn.add([replace(file_of(row), data_change=data_change)])
        table.snapshot = txn.commit(Provenance("COMPUTE STATISTICS")).snapshot
        table.convert()
        assert sum(each.live_files for each in manifests(table)) == 1
        check(table)


def test_columns_that_change_keep_their_ids(tmp_path, only_asked):
    table = ConvertedTable(tmp_path / "t", NARROW)
    table.commit([narrow_rows(1, 2)])
    table.convert()
    table.redefine(lambda schema: rename_column(schema, ("p",), "new name"))
    table.convert()
    found = read_by_pyiceberg(table.path)
    assert found.to_pylist() == [{"id": 1, "new name": "a"}, {"id": 2, "new name": "a"}]
    table.redefine(lambda schema: StructType((*drop_column(schema, ("new name",)), StructField("p", LONG))))
    table.convert()
    assert read_by_pyiceberg(table.path).to_pylist() == [{"id": 1, "p": None}, {"id": 2, "p": None}]
    content = current(table).content
    assert [each["schema-id"] for each in content["schemas"]] == [0, 1, 2]
    assert content["current-schema-id"] == 2
    assert content["last-column-id"] == 3
    assert len(content["snapshots"]) == 1


def test_pyiceberg_skips_files_by_the_bounds(tmp_path, only_asked):
    table = ConvertedTable(tmp_path / "t", NARROW, ["p"])
    table.commit([narrow_rows(*range(10)), narrow_rows(*range(10, 20)), narrow_rows(20, p="b")])
    table.convert()
    from pyiceberg.table import StaticTable

    read = StaticTable.from_metadata(f"file://{table.path}")
    assert [task.file.record_count for task in read.scan(row_filter="id = 15").plan_files()] == [10]
    assert [task.file.record_count for task in read.scan(row_filter="p = 'b'").plan_files()] == [1]
    assert read.scan(row_filter="id > 18").to_arrow().num_rows == 2


def test_many_small_manifests_are_merged(tmp_path, only_asked, monkeypatch):
    monkeypatch.setattr(conversion, "_SMALL_MANIFESTS", 4)
    table = ConvertedTable(tmp_path / "t", NARROW, ["p"])
    for number in range(7):
        table.commit([narrow_rows(number, p=str(number % 2))])
        table.convert()
        check(table)
        assert len(manifests(table)) <= 5
    merged = next(each for each in manifests(table) if each.existing.files)
    assert [(each.lower, each.upper) for each in merged.partitions] == [(b"0", b"1")]
    numbers = [entry.sequence_number for each in manifests(table)
               for entry in entries(Path(each.path.removeprefix("file://")).read_bytes())]  # fmt: skip
    assert sorted(numbers) == sorted(set(numbers))


def test_old_snapshots_and_their_files_go(tmp_path, only_asked, monkeypatch):
    monkeypatch.setattr(metadata, "_SNAPSHOTS", 3)
    monkeypatch.setattr(metadata, "ANY_SNAPSHOT", 0)
    table = ConvertedTable(tmp_path / "t", NARROW)
    foreign = table.path / "metadata" / "foreign.avro"
    for number in range(6):
        table.commit([narrow_rows(number)], list(table.files)[:1])
        table.convert()
        foreign.touch()
    content = current(table).content
    assert len(content["snapshots"]) == 3
    assert len(content["metadata-log"]) == 3
    check(table)
    names = {path.name for path in (table.path / "metadata").iterdir()}
    assert len([name for name in names if name.startswith("snap-")]) == 3
    assert {f"v{number}.metadata.json" for number in (3, 4, 5, 6)} <= names
    assert "v1.metadata.json" not in names
    assert foreign.name in names
    for snapshot in content["snapshots"]:
        for each in manifest_files(Path(snapshot["manifest-list"].removeprefix("file://")).read_bytes()):
            assert Path(each.path.removeprefix("file://")).exists()


def test_no_manifest_goes_that_a_snapshot_still_has_whatever_list_is_lost(tmp_path, only_asked, monkeypatch):
    monkeypatch.setattr(metadata, "_SNAPSHOTS", 3)
    monkeypatch.setattr(metadata, "ANY_SNAPSHOT", 0)
    table, lost, draw = ConvertedTable(tmp_path / "t", NARROW), set[Path](), random.Random(5)

    def lists():
        return [Path(each["manifest-list"].removeprefix("file://")) for each in current(table).content["snapshots"]]

    for number in range(12):
        table.commit([narrow_rows(number)], list(table.files)[: draw.choice([0, 0, 0, 1])])
        table.convert()
        check(table)
        for path in {*lists()} - lost:
            assert all(Path(each.path.removeprefix("file://")).exists() for each in manifest_files(path.read_bytes()))
        for path in [path for path in lists()[:-1] if path not in lost and draw.random() < 0.4]:
            path.unlink()
            lost.add(path)
    assert len(lost) > 4


def test_another_writer_made_the_next_metadata(tmp_path, only_asked, monkeypatch):
    table = ConvertedTable(tmp_path / "t", NARROW)
    table.commit([narrow_rows(1)])
    older = table.snapshot
    table.commit([narrow_rows(2)])
    publish = metadata.publish

    def late(table_path, store, number, content):
        monkeypatch.setattr(metadata, "publish", publish)
        convert(older)
        publish(table_path, store, number, content)

    monkeypatch.setattr(metadata, "publish", late)
    assert table.convert() == 2
    check(table)
    # A stale hint does not hide a newer file, and a newer version is not taken back.
    (table.path / "metadata" / "version-hint.text").write_text("1")
    assert convert(older) == 2
    names = [path.name for path in (table.path / "metadata").iterdir()]
    assert len([name for name in names if name.startswith("manifest-")]) == len(manifests(table))


def test_metadata_of_another_table_is_replaced(tmp_path, only_asked):
    table = ConvertedTable(tmp_path / "t", NARROW)
    table.commit([narrow_rows(1)])
    table.convert()
    file = table.path / "metadata" / "v1.metadata.json"
    content = json.loads(file.read_text())
    content["table-uuid"] = "00000000-0000-0000-0000-000000000000"
    file.write_text(json.dumps(content))
    assert table.convert() == 2
    check(table)
    file = table.path / "metadata" / "v2.metadata.json"
    file.write_text("{")
    table.commit([narrow_rows(2)])
    assert table.convert() == 3
    check(table)


WIDER = [
    (INTEGER, LONG, [1, -2, 3]),
    (PrimitiveType("float"), PrimitiveType("double"), [1.5, -2.5, 3.5]),
    (DecimalType(5, 2), DecimalType(18, 2), [Decimal("1.50"), Decimal("-2.50"), Decimal("3.50")]),
    (DecimalType(9, 2), DecimalType(38, 2), [Decimal("1.50"), Decimal("-2.50"), Decimal("3.50")]),
]


def typed(name, kind):
    return lambda schema: StructType(tuple(replace(each, type=kind) if each.name == name else each for each in schema))


@pytest.mark.parametrize(("old", "new", "values"), WIDER, ids=str)
def test_a_wider_column_is_read_right(tmp_path, only_asked, monkeypatch, old, new, values):
    """The partition column and another, and back again, whatever is copied from manifest to manifest."""
    monkeypatch.setattr(conversion, "_SMALL_MANIFESTS", 3)
    table = ConvertedTable(tmp_path / "t", StructType.of(id=LONG, p=old, v=old), ["p"])

    def step(numbers, gone=()):
        table.commit([[{"id": n, "p": values[n % 3], "v": values[n % 3]}] for n in numbers], gone)
        table.convert()
        check(table)
        for key, value in (("p", values[0]), ("p", values[1]), ("v", values[1])):
            wanted = [row for row in table.rows if row[key] == value]
            assert normalized(read_by_pyiceberg(table.path, row_filter=EqualTo(key, value)).to_pylist()) == normalized(
                wanted
            )

    step(range(3))
    narrow = table.snapshot.version
    table.redefine(typed("p", new))
    table.redefine(typed("v", new))
    step([], [next(iter(table.files))])
    for number in range(3, 9):
        step([number], [next(iter(table.files))])
    table.commit((), list(table.files))  # what has the wider type
    table.restore(narrow)
    for number in range(3):
        step([number])


@pytest.mark.parametrize("kind", [STRING, PrimitiveType("date"), LONG, DecimalType(38, 2)], ids=str)
def test_a_table_that_is_replaced_is_read_right(tmp_path, only_asked, kind):
    """Its partition column has the same name, and another type or place."""
    values = {STRING: "x", LONG: 7, PrimitiveType("date"): date(2024, 1, 1), DecimalType(38, 2): Decimal("7.25")}
    table = ConvertedTable(tmp_path / "t", StructType.of(id=LONG, p=INTEGER), ["p"])
    table.commit([[{"id": 1, "p": 1}], [{"id": 2, "p": None}]])
    table.convert()
    before = table.snapshot.version
    table.replace(StructType.of(p=kind, more=STRING, id=LONG), ["p"])
    table.convert()
    assert read_by_pyiceberg(table.path).num_rows == 0
    table.commit([[{"p": values[kind], "more": "m", "id": 3}], [{"p": None, "more": None, "id": 4}]])
    table.convert()
    check(table)
    found = read_by_pyiceberg(table.path, row_filter=EqualTo("p", str(values[kind])) if kind != LONG else "p = 7")
    assert found["id"].to_pylist() == [3]
    content = current(table).content
    (spec,) = content["partition-specs"]
    (p,) = [each for each in content["schemas"][-1]["fields"] if each["name"] == "p"]
    assert [each["source-id"] for each in spec["fields"]] == [p["id"]]
    table.commit((), list(table.files))
    table.restore(before)
    table.commit([[{"id": 5, "p": 5}]])
    table.convert()
    check(table)


def test_a_partition_column_is_renamed(tmp_path, only_asked):
    table = ConvertedTable(tmp_path / "t", NARROW, ["p"])
    table.commit([narrow_rows(1), narrow_rows(2, p="b")])
    table.convert()

    def rename(old, new):
        keys = [new if name == old else name for name in table.snapshot.partition_columns]
        table._define(rename_column(table.snapshot.schema, (old,), new), keys, 2)
        table.files = {file: [{new if k == old else k: v for k, v in row.items()} for row in rows]
                       for file, rows in table.files.items()}  # fmt: skip
        table.convert()
        check(table)
        return {each["snapshot-id"] for each in current(table).content["snapshots"]}

    first = rename("p", "q")
    assert rename("q", "r") == first
    assert read_by_pyiceberg(table.path, row_filter="r = 'b'")["id"].to_pylist() == [2]
    # No column may have the name of another one's partition field, so the snapshots before cannot be read.
    assert not rename("id", "p") & first
    assert read_by_pyiceberg(table.path, row_filter="r = 'b'")["p"].to_pylist() == [2]


def own_files(table):
    return {path.name for path in (table.path / "metadata").iterdir() if path.suffix != ".text"}


@pytest.mark.parametrize("harm", [Path.unlink, lambda path: path.write_bytes(path.read_bytes()[:-20])])
def test_what_is_missing_or_cut_off_is_written_again(tmp_path, only_asked, harm):
    """Any file and all of them, as a VACUUM leaves a table that is none of Iceberg's for a while."""
    table = ConvertedTable(tmp_path / "t", NARROW, ["p"])
    for number in range(4):
        table.commit([narrow_rows(number), narrow_rows(number + 100, p=str(number))], list(table.files)[:1])
        table.convert()
    needed = {each.path.rpartition("/")[2] for each in manifests(table)} | {
        current(table).snapshot["manifest-list"].rpartition("/")[2],
        f"v{current(table).number}.metadata.json",
    }
    shutil.copytree(table.path, tmp_path / "as it was")
    files = dict(table.files)
    for names in (*([name] for name in sorted(needed)), needed, own_files(table)):
        shutil.rmtree(table.path)
        shutil.copytree(tmp_path / "as it was", table.path)
        table.files, table.snapshot = dict(files), at_version(table.path)
        for name in names:
            harm(table.path / "metadata" / name)
        table.commit([narrow_rows(99)])
        table.convert()
        check(table)
        table.commit((), list(table.files)[:2])
        table.convert()
        check(table)


def test_histories_that_ended_leave_no_files(tmp_path, only_asked):
    table = ConvertedTable(tmp_path / "t", NARROW, ["p"])
    kept = []
    for _ in range(4):
        table.commit([narrow_rows(1), narrow_rows(2)])
        table.convert()
        table.commit((), list(table.files)[:1])
        table.convert()
        table.replace(NARROW, ["p"])
        for path in (table.path / "metadata").iterdir():
            os.utime(path, (0, 0))
        table.convert()
        kept.append(len(own_files(table)))
    # The newest file, and those of the history that ended last.
    assert kept[1:] == [kept[1]] * 3


def test_two_failures_of_a_store_leave_a_table_whole(tmp_path, only_asked, monkeypatch):
    """An answer that is lost after the metadata file was put, and a hint that cannot be."""
    table = ConvertedTable(tmp_path / "t", NARROW)
    table.commit([narrow_rows(1)])
    put, store = LocalStore.put_if_absent, LocalStore()

    def lost(self, path, data):
        put(self, path, data)
        if path.endswith(".json") and "metadata/v" in path:
            raise FileExistsError(path)

    monkeypatch.setattr(LocalStore, "put_if_absent", lost)
    assert table.convert() == 1
    check(table)
    monkeypatch.undo()
    monkeypatch.setattr("headwater.transaction.maintenance.is_converted", lambda definition: False)
    table.commit([narrow_rows(2)])
    with monkeypatch.context() as broken:
        broken.setattr(LocalStore, "put", lambda self, path, data: (_ for _ in ()).throw(OSError("no space")))
        with pytest.raises(OSError, match="no space"):
            table.convert()
    assert metadata.newest(str(table.path), store).number == 2
    assert table.convert() == 2
    check(table)


def test_a_conversion_that_fails_does_not_go_unnoticed(tmp_path, monkeypatch):
    table = ConvertedTable(tmp_path / "t", NARROW)
    assert wait_for_maintenance(60)
    with monkeypatch.context() as broken:
        broken.setattr(conversion, "manifest_list", lambda *given: 1 // 0)
        for number in range(3):
            table.commit([narrow_rows(number)])
            assert wait_for_maintenance(60)
    said = standing(table.snapshot)
    assert (said.converted, said.behind) == (0, 3)
    assert "ZeroDivisionError" in str(said.failure)
    detail = detail_row(table.snapshot)["icebergMetadata"]
    assert detail == {"convertedVersion": 0, "versionsBehind": 3, "failure": said.failure}
    shown = {fact.name: fact.value for fact in health(table.snapshot, Settings()) if fact.section == "iceberg"}
    assert (shown["versionsBehind"], shown["failure"]) == (3, said.failure)
    metrics = [entry.commit_info["operationMetrics"] for entry in history(str(table.path), LocalStore(), 3)]
    assert [each.get("icebergVersionsBehind") for each in metrics] == ["2", "1", None]
    table.commit([narrow_rows(3)])
    assert wait_for_maintenance(60)
    check(table)
    assert standing(table.snapshot) == (table.snapshot.version, 0, None)
    table.commit([narrow_rows(4)])
    assert (
        "icebergVersionsBehind"
        not in next(iter(history(str(table.path), LocalStore(), 1))).commit_info["operationMetrics"]
    )


def test_an_empty_table_and_one_that_became_empty(tmp_path, only_asked):
    table = ConvertedTable(tmp_path / "t", NARROW, ["p"])
    table.convert()
    assert read_by_pyiceberg(table.path).num_rows == 0
    table.commit([narrow_rows(1)])
    table.convert()
    table.commit([], list(table.files))
    table.convert()
    assert read_by_pyiceberg(table.path).num_rows == 0
    table.commit([narrow_rows(2)])
    table.convert()
    check(table)


def test_a_failure_is_a_warning_and_the_commit_stands(tmp_path, caplog, monkeypatch):
    table = ConvertedTable(tmp_path / "t", NARROW)
    assert wait_for_maintenance(60)
    monkeypatch.setattr(conversion, "entries", None)
    monkeypatch.setattr(conversion, "manifest_list", None)
    table.commit([narrow_rows(1)])
    assert wait_for_maintenance(60)
    (said,) = [text for record in caplog.records if "the commit stands" in (text := record.getMessage())]
    assert "Iceberg metadata could not be written" in said


def test_a_manifest_that_is_damaged_is_not_written_again(tmp_path, only_asked):
    table = ConvertedTable(tmp_path / "t", NARROW, ["p"])
    table.commit([narrow_rows(1), narrow_rows(2, p=None)])
    table.convert()
    (one,) = manifests(table)
    column = table.snapshot.schema.find("p")
    assert column is not None
    schema = current(table).content["schemas"][0]
    spec = Spec(0, current(table).content["partition-specs"][0]["fields"], [column])
    content = Path(one.path.removeprefix("file://")).read_bytes()
    first, second = entries(content)
    assert without(content, schema, spec, {b"file:///elsewhere"}, 7) is None
    found = without(content, schema, spec, {second.path}, 7)
    assert (found.live, [entry.path for entry in found.gone]) == (1, [second.path])
    assert [(entry.status, entry.path) for entry in entries(found.content)] == [(0, first.path), (2, second.path)]
    assert without(found.content, schema, spec, {second.path}, 8) is None
    sync = open_container(content).sync
    for damaged in (content[:-1], content.replace(sync + b"\x02", sync + b"\x04"), content + b"x"):
        with pytest.raises(ValueError, match=r"truncated|not an entry"):
            without(damaged, schema, spec, {second.path}, 7)
