"""CLONE over real files, without Spark: what the clone has and has not, what it refuses, that nothing done to it
touches its source, and that a deep clone copies each file once.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from pyroaring import BitMap64

from headwater.basics.errors import HeadwaterError
from headwater.log import deletion_vectors
from headwater.log.files import file_of
from headwater.log.snapshot import load_snapshot
from headwater.protocol.actions import AddFile, RemoveFile
from headwater.protocol.partition_paths import encode_path
from headwater.statements.running import opening
from headwater.statements.running.opening import CACHE, open_snapshot
from headwater.stores import LocalStore, absolute_path
from headwater.transaction import Provenance, Transaction, wait_for_maintenance
from support.faults.faulty_store import Fault, FaultyStore
from support.recording_statement import RecordingStatement
from support.requests import actions, called, create_request, create_table, data_file, log_of, schema_json
from support.stores.memory_store import MemoryStore

UNGUARDED = {
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    "spark.databricks.delta.vacuum.logging.enabled": "false",
    "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration": "false",
}
COLUMNS = schema_json(a=("integer", {"comment": "c"}), p="string")
STATS = '{"numRecords":9}'


def clone(target, source, statement, version=None, **more):
    arguments = {"isShallow": True, "version": None if version is None else str(version)}
    request = {"table": str(target), "mode": "create", "source": str(source), "arguments": arguments, **more}
    return called("clone")(request, statement)


def refused(condition, *call, **more):
    with pytest.raises(HeadwaterError) as raised:
        clone(*call, **more)
    assert raised.value.condition == condition
    return raised.value.text


def snapshot(path, version=None):
    return load_snapshot(str(path), LocalStore(), version)


def commit(path, adds=(), removes=()):
    read = snapshot(path)
    txn = Transaction(read.table_path, read.store, read)
    txn.remove(
        RemoveFile(
            f.path, int(time.time() * 1000), True, partition_values={}, size=7, deletion_vector=f.deletion_vector
        )
        for f in removes
    )
    txn.add(adds)
    txn.commit(Provenance("WRITE"))


def data(path, name, vector=None):
    file = path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(name.encode()[:7].ljust(7))
    return AddFile(encode_path(name), {}, 7, 5, True, STATS, deletion_vector=vector)


def marked(path, add):
    (vector,) = deletion_vectors.write_file([BitMap64([1, 2])], str(path), LocalStore())
    return AddFile(add.path, {}, 7, 5, True, STATS, deletion_vector=vector)


@pytest.fixture(params=["true", "false"], ids=["row tracking", "no row tracking"])
def table(tmp_path, statement, request):
    """A table of three versions in a place with an odd name: two files, then three, one of them with marks."""
    path = tmp_path / "a t%41"
    properties = {"delta.enableDeletionVectors": "true", "delta.enableRowTracking": request.param, "mine": "1"}
    create_table(create_request(path, COLUMNS, properties=properties, comment="the source"), statement)
    commit(path, [data(path, "x y.parquet"), data(path, "d/50%.parquet")])
    old = data(path, "d/50%.parquet")
    commit(path, [marked(path, old), data(path, "z")], [old])
    return path


def where(path, version=None):
    """The files that a version reads: of rows, and of marks."""
    found = []
    for row in snapshot(path, version).files.to_pylist():
        vector = row["deletion_vector"]
        marks = vector and (vector["offset"], absolute_path(str(path), vector["path_or_inline"]))
        if vector and vector["storage_type"] == "u":
            name = deletion_vectors.z85_decode(vector["path_or_inline"][-20:]).hex()
            marks = (vector["offset"], next(str(f) for f in path.glob("*.bin") if name in f.name.replace("-", "")))
        found.append((absolute_path(str(path), row["path"]), row["size"], row["stats"], marks))
    return sorted(found)


def test_a_clone_is_a_table_of_its_own_with_the_files_of_another(table, statement, tmp_path):
    target = tmp_path / "c"
    answer = clone(target, table, statement)
    assert answer["rows"] == [
        {
            "source_table_size": 21,
            "source_num_of_files": 3,
            "num_removed_files": 0,
            "num_copied_files": 0,
            "removed_files_size": 0,
            "copied_files_size": 0,
        }
    ]
    assert where(target) == where(table)
    (info,) = actions(target, 0, "commitInfo")
    assert (info["operation"], info["isBlindAppend"]) == ("CLONE", False)
    source = f"delta.`file:{encode_path(str(table))}`"
    assert info["operationParameters"] == {"source": source, "sourceVersion": "2"}
    assert info["operationMetrics"] == {
        "sourceTableSize": "21",
        "sourceNumOfFiles": "3",
        "numRemovedFiles": "0",
        "numCopiedFiles": "0",
        "removedFilesSize": "0",
        "copiedFilesSize": "0",
    }
    ours, theirs = snapshot(target), snapshot(table)
    assert ours.metadata.schema_string == theirs.metadata.schema_string
    assert ours.protocol == theirs.protocol
    assert ours.metadata.id != theirs.metadata.id
    assert (ours.metadata.description, ours.metadata.configuration["mine"]) == (None, "1")
    assert all(add["dataChange"] for add in actions(target, 0, "add"))
    ids = sorted(row["base_row_id"] for row in ours.files.to_pylist() if row["base_row_id"] is not None)
    assert ids == ([0, 9, 18] if ours.definition.tracks_rows else [])
    hidden = {name: value for name, value in ours.metadata.configuration.items() if "materialized" in name}
    assert len(hidden) == (2 if ours.definition.tracks_rows else 0)
    assert not hidden.items() & theirs.metadata.configuration.items()
    # An older version; a clone of a clone is of the first source's files, whatever becomes of the clone.
    clone(tmp_path / "c1", table, statement, version=1)
    assert where(tmp_path / "c1") == where(table, 1)
    clone(tmp_path / "cc", target, statement)
    assert wait_for_maintenance(60)
    shutil.rmtree(target)
    assert where(tmp_path / "cc") == where(table)


def test_properties_of_the_statement_are_over_those_of_the_source(table, statement, tmp_path):
    target = tmp_path / "c"
    given = {"mine": "2", "delta.appendOnly": "true", "delta.feature.typeWidening": "supported", "comment": "a trial"}
    clone(target, table, statement, properties=given)
    found = snapshot(target)
    assert found.metadata.configuration.items() >= {("mine", "2"), ("delta.appendOnly", "true")}
    assert not any(name.startswith("delta.feature") for name in found.metadata.configuration)
    assert found.metadata.description == "a trial"
    assert {"typeWidening", "deletionVectors", "appendOnly"} <= (found.protocol.writer_features or frozenset())
    for wrong, condition in {
        ("delta.columnMapping.maxColumnId", "9"): "DELTA_CANNOT_MODIFY_TABLE_PROPERTY",
        ("delta.nope", "1"): "DELTA_UNKNOWN_CONFIGURATION",
        ("delta.constraints.c", "a > 0"): "DELTA_ADD_CONSTRAINTS",
        ("delta.columnMapping.mode", "id"): "DELTA_UNSUPPORTED_COLUMN_MAPPING_MODE_CHANGE",
        ("delta.universalFormat.enabledFormats", "iceberg"): "DELTA_UNIVERSAL_FORMAT_VIOLATION",
        ("delta.enableIcebergCompatV2", "true"): None,
    }.items():
        with pytest.raises(HeadwaterError) as raised:
            clone(tmp_path / "wrong", table, statement, properties=dict([wrong]))
        assert condition in (None, raised.value.condition)
        assert not (tmp_path / "wrong").exists()
    # Another table's readers of Iceberg are not the clone's.
    entry = {"kind": "set_property", "key": "headwater.iceberg.table", "value": "a.b"}
    called("alter_table")({"table": str(table), "name": "t", "changes": [entry]}, statement)
    clone(tmp_path / "elsewhere", table, statement)
    assert "headwater.iceberg.table" not in snapshot(tmp_path / "elsewhere").metadata.configuration
    # Columns may get their names mapped: those in the files stay.
    clone(tmp_path / "mapped", table, statement, properties={"delta.columnMapping.mode": "name"})
    assert [field.physical_name for field in snapshot(tmp_path / "mapped").schema] == ["a", "p"]


def test_what_tables_know_beside_their_files(statement, tmp_path):
    path, target = tmp_path / "t", tmp_path / "c"
    identity = [{"column": "i", "start": 1, "step": 1, "allowExplicitInsert": True}]
    properties = {"delta.columnMapping.mode": "name", "delta.enableInCommitTimestamps": "true"}
    columns = schema_json(i="long", a="integer")
    made = create_request(path, columns, partitioning=["cluster_by(a)"], identity=identity, properties=properties)
    create_table(made, statement)
    add = {"kind": "set_property", "key": "delta.enableRowTracking", "value": "true"}
    called("alter_table")({"table": str(path), "name": "t", "changes": [add]}, statement)
    clone(target, path, statement)
    source, found = snapshot(path), snapshot(target)
    assert found.clustering_columns == source.clustering_columns == (("a",),)
    assert found.metadata.configuration["delta.columnMapping.maxColumnId"] == "2"
    assert found.schema == source.schema
    assert "inCommitTimestamp" in actions(target, 0, "commitInfo")[0]


def test_clustering_columns_that_a_table_has_are_not_declared_again(statement, tmp_path):
    source, target = tmp_path / "s", tmp_path / "c"
    for path in (source, target):
        create_table(create_request(path, schema_json(a="integer"), partitioning=["cluster_by(a)"]), statement)
    clone(target, source, statement, mode="create_or_replace")
    called("restore")({"table": str(target), "name": "t", "arguments": {"version": "0"}}, statement)
    assert [actions(target, version, "domainMetadata") for version in (1, 2)] == [[], []]
    assert snapshot(target).clustering_columns == (("a",),)


def test_a_table_without_rows_is_replaced(table, statement, tmp_path):
    target = tmp_path / "c"
    identity = [{"column": "a", "start": 1, "step": 1, "allowExplicitInsert": True}]
    wide = schema_json(a="long", b="string", c="string")
    made = create_request(target, wide, partitioning=["cluster_by(b)"], identity=identity, comment="mine")
    create_table(made, statement)
    before = snapshot(target)
    clone(target, table, statement, mode="create_or_replace")
    after = snapshot(target)
    assert (after.version, after.metadata.id, after.metadata.description) == (1, before.metadata.id, "mine")
    assert after.metadata.schema_string == snapshot(table).metadata.schema_string
    assert (after.metadata.created_time or 0) > (before.metadata.created_time or 0)
    assert not after.clustering_columns
    assert where(target) == where(table)
    features = after.protocol.writer_features or frozenset()
    assert features >= (before.protocol.writer_features or frozenset()) | {"deletionVectors"}
    # From now on it has rows.
    said = refused("DELTA_UNSUPPORTED_NON_EMPTY_CLONE", target, table, statement, mode="replace")
    assert "3 files" in said
    assert snapshot(target).version == 1
    # Another writer's rows that came meanwhile are not lost.
    called("truncate")({"table": str(target)}, statement)
    statement.before_commits = [lambda: commit(target, [data(target, "theirs")])]
    with pytest.raises(HeadwaterError, match="version 3"):
        clone(target, table, statement, mode="replace")
    assert [path for path, *_ in where(target)] == [str(target / "theirs")]


def test_bad_targets_and_sources(table, statement, tmp_path, make_statement):
    target = tmp_path / "c"
    # A log at the place of a new table, of a name or a path; a folder with files of another kind.
    clone(target, table, statement)
    said = refused("DELTA_TABLE_ALREADY_EXISTS", target, table, statement)
    assert "OR REPLACE" in said
    named = {"name": "db.c", "known": False, "external": True, "mode": "create_or_replace"}
    refused("DELTA_TABLE_ALREADY_EXISTS", target, table, statement, **named)
    (tmp_path / "full").mkdir()
    (tmp_path / "full/a.csv").touch()
    refused("DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION", tmp_path / "full", table, statement)
    refused("HEADWATER_CLONE_OF_ITSELF", table, table, statement, mode="replace")
    # What is no version of the source, or may be none any more.
    refused("DELTA_VERSION_NOT_FOUND", tmp_path / "n", table, statement, version=9)
    refused("DELTA_TIME_TRAVEL_INVALID_BEGIN_VALUE", tmp_path / "n", table, statement, version=-1)
    refused("DELTA_TABLE_NOT_FOUND", tmp_path / "n", tmp_path / "nothing", statement)
    for version in range(3):
        os.utime(table / f"_delta_log/{version:020d}.json", (time.time() - 40 * 86400 + version,) * 2)
    CACHE.forget(str(table))
    retained = "DELTA_UNSUPPORTED_TIME_TRAVEL_BEYOND_DELETED_FILE_RETENTION_DURATION"
    refused(retained, tmp_path / "n", table, statement, version=1)
    # A definition that nobody here may write.
    strange = dict(
        line for line in [("readerFeatures", ["deletionVectors"]), ("writerFeatures", ["deletionVectors", "zz"])]
    )
    protocol = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **strange}}
    (table / f"_delta_log/{3:020d}.json").write_text(json.dumps(protocol) + "\n")
    refused("DELTA_UNSUPPORTED_FEATURES_FOR_WRITE", tmp_path / "n", table, statement)
    assert not (tmp_path / "n").exists()


def test_no_clone_is_half_there_where_a_store_fails(monkeypatch):
    disk = MemoryStore()
    store: list[Any] = [disk]
    monkeypatch.setattr(opening, "store_for", lambda table, *_: (store[0], table))
    first = RecordingStatement()
    first.written = [[data_file("new.parquet", 2, [[1, 5, 0], ["x", "y", 0]])]]
    create_table(create_request("/s", COLUMNS, plan=0, rowSchema=COLUMNS), first)
    for fault in (Fault.FAIL_BEFORE, Fault.FAIL_AFTER, Fault.NO_SPACE):
        for at in range(100):
            CACHE.forget("/s")
            CACHE.forget("/c")
            store[0] = FaultyStore(disk.copy(), at, fault)
            ended = None
            with contextlib.suppress(OSError, HeadwaterError):
                ended = clone("/c", "/s", RecordingStatement())
            inner = store[0].inner if hasattr(store[0], "inner") else store[0]._inner
            commits = [f for f in _list(inner, "/c/_delta_log") if f.endswith(".json")]
            if ended is not None or commits:
                assert [row["path"] for row in load_snapshot("/c", inner).files.to_pylist()] == ["file:/s/new.parquet"]
            if len(store[0].calls) <= at:
                break
        else:
            pytest.fail("it has no end")


def _list(store, directory):
    try:
        return [file.name for file in store.list_from(directory)]
    except FileNotFoundError:
        return []


@pytest.mark.parametrize("place", ["beside", "below", "above"])
@pytest.mark.parametrize("seed", range(4))
def test_no_statement_on_a_clone_touches_a_file_of_its_source(tmp_path, make_statement, place, seed):
    """Random commits, VACUUM of each kind and RESTORE, on the clone of a table beside it, in it, or that it is in."""
    drawn, statement = random.Random(seed), make_statement(UNGUARDED)
    source = tmp_path / ("c/s" if place == "above" else "s p")
    target = {"beside": tmp_path / "c", "below": source / "c", "above": tmp_path / "c"}[place]
    source.mkdir(parents=True)
    properties = {"delta.enableDeletionVectors": "true", "delta.deletedFileRetentionDuration": "interval 0 seconds"}
    create_table(create_request(source, COLUMNS, properties=properties), statement)
    adds = [data(source, f"p={n % 2}/f {n}") for n in range(6)]
    commit(source, [marked(source, adds[0]), *adds[1:]])
    kept = _contents(source)
    clone(target, source, statement)
    read = where(source)
    for number in range(8):
        live = [file_of(row) for row in snapshot(target).files.to_pylist()]
        gone = [file for file in live if drawn.random() < 0.3]
        marks = [marked(target, file) for file in gone if drawn.random() < 0.5]
        commit(target, [*marks, data(target, f"own {number}")], gone)
        arguments = drawn.choice([{"hours": "0"}, {"hours": "0", "mode": "lite"}])
        called("vacuum")({"table": str(target), "name": "c", "arguments": arguments}, statement)
        assert _contents(source, target) == kept
        for file, *_, vector in where(target):
            assert os.path.exists(file)
            assert vector is None or os.path.exists(vector[1])
    called("restore")({"table": str(target), "name": "c", "arguments": {"version": "0"}}, statement)
    assert where(target) == read
    called("vacuum")({"table": str(target), "name": "c", "arguments": {"hours": "0"}}, statement)
    assert _contents(source, target) == kept
    # Nor does VACUUM of the source take anything from a clone that lies in it.
    own = _contents(target, source)
    called("vacuum")({"table": str(source), "name": "s", "arguments": {"hours": "0"}}, statement)
    assert _contents(target, source) == own
    assert len(log_of(target, 0)) >= 8


def _contents(path: Path, without: Path | None = None) -> dict[str, bytes]:
    """Every file below, without logs: checksums come there in the background."""
    files = (file for file in path.rglob("*") if "_delta_log" not in file.parts and file.is_file())
    inside = without is not None and without != path and path in without.parents
    return {str(f): f.read_bytes() for f in files if not (inside and without in f.parents)}


def test_health_counts_files_that_lie_elsewhere(table, statement, tmp_path):
    clone(tmp_path / "c", table, statement)
    commit(tmp_path / "c", [data(tmp_path / "c", "own")])
    rows = called("describe_health")({"table": str(tmp_path / "c"), "name": "c", "arguments": {}}, statement)["rows"]
    found = {row["name"]: row["value"] for row in rows if row["section"] == "files"}
    assert (found["files"], found["filesElsewhere"], found["bytesElsewhere"]) == ("4", "3", "21")
    open_snapshot(str(tmp_path / "c"), statement)


def deep(target, source, statement, version=None, **more):
    arguments = {"isShallow": False, "version": None if version is None else str(version)}
    (row,) = clone(target, source, statement, arguments=arguments, **more)["rows"]
    return row["num_copied_files"], row["num_removed_files"]


def rows_of(path, version=None):
    """What a table has: the bytes of its files and the marked positions, all of it in the table's own folder."""
    found = []
    for row in snapshot(path, version).files.to_pylist():
        file = Path(absolute_path(str(path), row["path"]))
        add = file_of(row)
        marks = add.deletion_vector and deletion_vectors.read(add.deletion_vector, str(path), LocalStore())
        content = file.read_bytes()
        assert (len(content), file.is_relative_to(path)) == (row["size"], True)
        found.append((content, row["stats"], list(marks or ())))
    return sorted(found)


def test_a_deep_clone_has_copies_and_goes_on_where_it_was_cut_off(table, statement, tmp_path, make_statement):
    target, wanted = tmp_path / "c %41", rows_of(table)
    copied: list[str] = []
    for most in range(5):  # three files and one of marks; the first run is cut off before the first
        cut = make_statement()
        cut.most_copied = 1 if most else 0
        if most < 4:
            with pytest.raises(OSError, match="cut off"):
                deep(target, table, cut)
            assert not (target / "_delta_log").exists()
        else:
            assert deep(target, table, cut) == (3, 0)
        copied += cut.copied
    assert (len(copied), len(set(copied))) == (4, 4)
    assert any("/d/" in file for file in copied)
    assert rows_of(target) == wanted
    (info,) = actions(target, 0, "commitInfo")
    said = {"sourceVersion": "2", "isShallow": "false", "sourceTableId": snapshot(table).metadata.id}
    assert info["operationParameters"].items() >= said.items()
    assert (info["operationMetrics"]["numCopiedFiles"], info["operationMetrics"]["copiedFilesSize"]) == ("3", "21")
    # It needs its source no more. What lies in the folder of a new one must be such copies.
    assert wait_for_maintenance(60)
    shutil.rmtree(table)
    assert rows_of(target) == wanted
    (tmp_path / "full").mkdir()
    (tmp_path / "full/a.csv").touch()
    arguments = {"isShallow": False}
    refused("DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION", tmp_path / "full", target, statement, arguments=arguments)


def test_a_second_deep_clone_copies_what_is_new(table, statement, tmp_path):
    target, replaces = tmp_path / "c", {"mode": "create_or_replace"}
    assert deep(target, table, statement, version=1) == (2, 0)
    first = {file.path: file.base_row_id for file in map(file_of, snapshot(target).files.to_pylist())}
    hidden = {k: v for k, v in snapshot(target).metadata.configuration.items() if "materialized" in k}
    # A file that got marks is not copied again, and keeps its row ids.
    assert deep(target, table, statement, **replaces) == (1, 1)
    assert rows_of(target) == rows_of(table)
    assert len(statement.copied) == 4
    now = snapshot(target)
    files = [file_of(row) for row in now.files.to_pylist()]
    assert {f.path: f.base_row_id for f in files if f.path in first} == first
    assert now.metadata.configuration.items() >= hidden.items()
    ids = [f.base_row_id for f in files if f.base_row_id is not None]
    assert len(set(ids)) == len(ids)
    # Nothing new, nothing committed; also after VACUUM. An older version takes nothing but the log.
    assert deep(target, table, statement, **replaces) == (0, 0)
    vacuum = {"table": str(target), "name": "c", "arguments": {}}
    called("vacuum")(vacuum, statement)
    assert deep(target, table, statement, **replaces) == (0, 0)
    assert snapshot(target).version == 3
    assert deep(target, table, statement, version=1, **replaces) == (0, 2)
    assert (rows_of(target), len(statement.copied)) == (rows_of(table, 1), 4)
    # A definition that changed comes, too.
    change = {"kind": "set_property", "key": "mine", "value": "9"}
    called("alter_table")({"table": str(table), "name": "t", "changes": [change]}, statement)
    assert deep(target, table, statement, **replaces) == (1, 1)
    assert snapshot(target).metadata.configuration["mine"] == "9"
    # It is the same table all the time, until one without rows is replaced.
    assert snapshot(target).metadata.created_time == snapshot(target, 0).metadata.created_time
    for version in range(snapshot(target).version + 1):
        assert rows_of(target, version)


def test_a_changed_clone_is_not_cloned_into(table, statement, tmp_path):
    target, replaces = tmp_path / "c", {"mode": "replace", "arguments": {"isShallow": False}}
    deep(target, table, statement)
    other = tmp_path / "other"
    create_table(create_request(other, COLUMNS), statement)
    changed = "HEADWATER_DEEP_CLONE_TARGET_CHANGED"
    assert "another table" in refused(changed, target, other, statement, **replaces)
    commit(target, [data(target, "mine")])
    assert "version 1 was made by WRITE" in refused(changed, target, table, statement, **replaces)
    shallow = tmp_path / "s"
    clone(shallow, table, statement)
    refused(changed, shallow, table, statement, **replaces)
    # A table without rows is replaced.
    called("truncate")({"table": str(target)}, statement)
    deep(target, table, statement, mode="replace")
    assert rows_of(target) == rows_of(table)


def test_files_of_the_source_that_are_gone_or_others(table, statement, tmp_path):
    target, arguments = tmp_path / "c", {"isShallow": False}
    (table / "z").rename(table / "_z")
    said = refused("HEADWATER_CLONE_FILES_MISSING", target, table, statement, arguments=arguments)
    assert "1 of the 4 files that it had to copy no longer exist, because VACUUM of that table deletes files" in said
    assert str(table / "z") in said
    (table / "z").write_bytes(b"longer than it was")
    said = refused("HEADWATER_CLONE_FILE_DIFFERS", target, table, statement, arguments=arguments)
    assert "has 18 bytes, but the table's log says 7" in said
    assert not (target / "_delta_log").exists()
    (table / "_z").rename(table / "z")
    assert deep(target, table, statement) == (3, 0)
    assert len(statement.copied) == 4


@pytest.mark.parametrize("seed", range(4))
def test_deep_clones_in_a_random_history(tmp_path, make_statement, seed):
    """Appends, deletes by files and by marks, VACUUM of source and clone, and clones of any version, some cut off."""
    drawn, statement = random.Random(seed), make_statement(UNGUARDED)
    source, target = tmp_path / "s", tmp_path / "c"
    source.mkdir()
    properties = {"delta.enableDeletionVectors": "true", "delta.enableRowTracking": drawn.choice(["true", "false"])}
    create_table(create_request(source, COLUMNS, properties=properties), statement)
    kept, mode = {0: rows_of(source)}, "create"
    for step in range(30):
        live = [file_of(row) for row in snapshot(source).files.to_pylist()]
        what = drawn.choice(["append", "delete", "mark", "clone", "clone", "vacuum"])
        if what == "append":
            commit(source, [data(source, f"p={drawn.randrange(3)}/f {step}")])
        elif what == "delete" and live:
            commit(source, removes=[drawn.choice(live)])
        elif what == "mark" and any(file.deletion_vector is None for file in live):
            file = drawn.choice([file for file in live if file.deletion_vector is None])
            commit(source, [marked(source, file)], [file])
        elif what == "vacuum" and mode != "create":
            called("vacuum")({"table": str(target), "name": "c", "arguments": {"hours": "0"}}, statement)
        elif what == "clone":
            version = drawn.choice([None, drawn.choice(list(kept))])
            if drawn.random() < 0.3:
                statement.most_copied = len(statement.copied) + 1
                with contextlib.suppress(OSError):
                    deep(target, source, statement, version, mode=mode)
                    mode = "create_or_replace"
                statement.most_copied = None
            deep(target, source, statement, version, mode=mode)
            mode = "create_or_replace"
            assert rows_of(target) == kept[max(kept) if version is None else version]
        kept[snapshot(source).version] = rows_of(source)
    check_ids_of_paths(target)


def check_ids_of_paths(path):
    """Whoever compares two versions by paths, as RESTORE does, finds the same rows under the same ids."""
    ids: dict = {}
    for version in range(snapshot(path).version + 1):
        for row in map(file_of, snapshot(path, version).files.to_pylist()):
            given = row.base_row_id, row.default_row_commit_version
            assert ids.setdefault(row.path, given) == given


@pytest.mark.parametrize("is_shallow", [True, False], ids=["shallow", "deep"])
def test_a_file_that_comes_back_has_the_row_ids_it_had(table, statement, tmp_path, is_shallow):
    target, again = tmp_path / "c", {"mode": "create_or_replace", "arguments": {"isShallow": is_shallow}}
    clone(target, table, statement, arguments={"isShallow": is_shallow, "version": "1"})
    if is_shallow:
        called("truncate")({"table": str(target)}, statement)
    else:
        deep(target, table, statement, version=0, mode="create_or_replace")
    clone(target, table, statement, **again)
    check_ids_of_paths(target)
    numbers = [file_of(row).base_row_id for row in snapshot(target).files.to_pylist()]
    assert len(set(numbers)) == (3 if snapshot(target).definition.assigns_row_ids else 1)


def test_files_that_vanish(table, statement, tmp_path):
    """In the middle of a copy, or with the source of a clone that is cloned."""
    arguments = {"isShallow": False}
    between, target = tmp_path / "between", tmp_path / "c"
    clone(between, table, statement)
    copy = statement._copy

    def copies(file):
        answer = copy(file)
        for other in table.rglob("z"):
            other.unlink()
        return answer

    statement._copy = copies
    said = refused("HEADWATER_CLONE_FILES_MISSING", target, table, statement, arguments=arguments)
    assert f"{table}/z" in said
    statement._copy = copy
    assert wait_for_maintenance(60)
    shutil.rmtree(table)
    said = refused("HEADWATER_CLONE_FILES_MISSING", target, between, statement, arguments=arguments)
    assert str(table) in said
    assert not (target / "_delta_log").exists()
    assert snapshot(between).num_files == 3
