"""FSCK REPAIR TABLE over real files, without Spark: what it finds, what it commits, and when it must not."""

from __future__ import annotations

import errno
import itertools
import os
import random
import shutil
import time
from typing import Any

import pytest
from pyroaring import BitMap64

from headwater.basics.errors import HeadwaterError
from headwater.log import deletion_vectors
from headwater.log.files import row_key
from headwater.log.lost_files import named_files
from headwater.protocol.actions import AddFile, DeletionVector, RemoveFile
from headwater.protocol.partition_paths import encode_path
from headwater.statements.maintenance.fsck import _folder
from headwater.statements.running.opening import open_snapshot
from headwater.stores import LocalStore
from headwater.transaction import Provenance, Transaction
from support.inline_vectors import inline
from support.recording_statement import RecordingStatement
from support.requests import actions, called, create_request, create_table, schema_json

STATS = '{"numRecords":9}'
SECONDS = float(os.environ.get("HEADWATER_TEST_SECONDS", "2"))
VECTORS = "spark.headwater.fsck.missingVectors"
_POSITIONS = itertools.count(2)
FOLDERS = "spark.headwater.fsck.missingFolders"


@pytest.fixture
def statement():
    return RecordingStatement()


@pytest.fixture
def table(tmp_path, statement):
    path = tmp_path / "a table"
    properties = {"delta.enableDeletionVectors": "true"}
    create_table(create_request(path, schema_json(a="integer"), properties=properties), statement)
    return path


def made(path, name) -> AddFile:
    (path / name).parent.mkdir(parents=True, exist_ok=True)
    (path / name).write_bytes(b"x" * 7)
    return AddFile(encode_path(name), {}, 7, 5, True, STATS)


def marked(file: AddFile, path, kind="u") -> AddFile:
    (vector,) = deletion_vectors.write_file([BitMap64([1, 3])], str(path), LocalStore())
    if kind == "p":
        location = deletion_vectors.absolute_location(vector, str(path))
        vector = DeletionVector("p", encode_path(f"file:{location}"), vector.size, 2, vector.offset)
    return AddFile(
        file.path,
        {},
        7,
        5,
        True,
        STATS,
        deletion_vector=inline(BitMap64([1, next(_POSITIONS)])) if kind == "i" else vector,
    )


def commit(path, statement, adds=(), removes=()) -> None:
    snapshot = open_snapshot(str(path), statement)
    txn = Transaction(snapshot.table_path, snapshot.store, snapshot)
    txn.add(adds)
    txn.remove(RemoveFile(f.path, 1, True, size=7, deletion_vector=f.deletion_vector) for f in removes)
    txn.commit(Provenance("WRITE"))


def fsck(path, statement, dry_run=False):
    return called("fsck")({"table": str(path), "name": "t", "arguments": {"dryRun": dry_run}}, statement)["rows"]


def live(path, statement, version=None):
    return sorted(map(repr, map(row_key, open_snapshot(str(path), statement, version).files.to_pylist())))


def key(file: AddFile) -> str:
    row: dict[str, Any] = {"path": file.path, "deletion_vector": None}
    if (vector := file.deletion_vector) is not None:
        names = ("storage_type", "path_or_inline", "offset")
        row["deletion_vector"] = {name: getattr(vector, name) for name in names}
    return repr(row_key(row))


def version(path, statement) -> int:
    return open_snapshot(str(path), statement).version


def refused(condition, path, statement, **more) -> HeadwaterError:
    before = version(path, statement)
    with pytest.raises(HeadwaterError) as caught:
        fsck(path, statement, **more)
    assert caught.value.condition == condition
    assert version(path, statement) == before
    return caught.value


def test_entries_without_their_file_go_in_one_commit_and_nothing_else_does(table, statement):
    files = [made(table, f"f {n}%.parquet") for n in range(4)]
    commit(table, statement, files)
    assert fsck(table, statement) == []
    assert version(table, statement) == 1
    for n in (1, 3):
        (table / f"f {n}%.parquet").unlink()
    rows = [
        {"dataFilePath": f"f {n}%.parquet", "dataFileMissing": True}
        | {"deletionVectorPath": None, "deletionVectorFileMissing": False}
        for n in (1, 3)
    ]
    assert fsck(table, statement, dry_run=True) == rows
    assert version(table, statement) == 1
    assert fsck(table, statement) == rows
    assert live(table, statement) == sorted(map(key, (files[0], files[2])))
    assert [(r["path"], r["dataChange"]) for r in actions(table, 2, "remove")] == [
        (files[n].path, True) for n in (1, 3)
    ]
    (info,) = actions(table, 2, "commitInfo")
    assert (info["operation"], info["operationParameters"]) == ("FSCK", {"numRemovedFiles": "2"})
    metrics = {"numRemovedFiles": 2, "numRemovedBytes": 14, "numMissingFiles": 2, "numMissingDVs": 0}
    found = info["operationMetrics"]
    assert {name: int(found[name]) for name in metrics} == metrics
    assert int(found["numFilesScanned"]) == 4
    assert fsck(table, statement) == []
    assert version(table, statement) == 2


def test_an_answer_has_as_many_rows_as_its_setting_says_and_the_commit_all(table, statement):
    commit(table, statement, [made(table, f"f{n}.parquet") for n in range(5)])
    for n in range(5):
        (table / f"f{n}.parquet").unlink()
    statement.set_conf("spark.databricks.delta.fsck.maxNumEntriesInResult", "2")
    assert len(fsck(table, statement, dry_run=True)) == 2
    assert len(fsck(table, statement)) == 2
    assert live(table, statement) == []


@pytest.mark.random
def test_random_losses_and_a_model(tmp_path):
    drawn = random.Random(0 if SECONDS <= 2 else None)
    stop = time.monotonic() + SECONDS
    for number in itertools.count():
        if number > 1 and time.monotonic() > stop:
            break
        choice = drawn.choice(("removeFile", "removeVector"))
        statement = RecordingStatement({VECTORS: choice})
        path = tmp_path / f"t {number}"
        properties = {"delta.enableDeletionVectors": "true", "delta.enableRowTracking": drawn.choice(("true", "false"))}
        create_table(create_request(path, schema_json(a="integer"), properties=properties), statement)
        model: dict[str, AddFile] = {}
        for step in range(20):
            adds, removes = [], []
            for name in list(model):
                if drawn.random() < 0.15:
                    removes.append(model.pop(name))
                    if drawn.random() < 0.7:
                        adds.append(model.setdefault(name, marked(removes[-1], path, drawn.choice("upi"))))
            for each in range(drawn.randrange(3)):
                name = drawn.choice((f"f{step}-{each}.parquet", f"d=x %y/ü {step}-{each}.parquet"))
                adds.append(model.setdefault(name, made(path, name)))
            commit(path, statement, adds, removes)
            lost_data, lost_vectors = set(), set()
            for name, file in model.items():
                if drawn.random() < 0.1:
                    (path / name).unlink()
                    lost_data.add(name)
                vector = file.deletion_vector
                if vector is not None and vector.storage_type != "i" and drawn.random() < 0.2:
                    os.unlink(deletion_vectors.absolute_location(vector, str(path)))
                    lost_vectors.add(name)
            found = fsck(path, statement, dry_run=drawn.random() < 0.2) or []
            expected = {(name, name in lost_data, name in lost_vectors) for name in lost_data | lost_vectors}
            assert {
                (r["dataFilePath"], r["dataFileMissing"], r["deletionVectorFileMissing"]) for r in found
            } == expected
            fsck(path, statement)
            for name in lost_data | lost_vectors:
                file = model.pop(name)
                if name not in lost_data and choice == "removeVector":
                    model[name] = AddFile(file.path, {}, 7, 5, True, STATS)
            assert live(path, statement) == sorted(map(key, model.values()))
            snapshot = open_snapshot(str(path), statement)
            assert all(os.path.exists(each) for each in named_files(snapshot).paths())


def test_a_lost_vector_of_a_file_that_is_there_is_refused_until_a_setting_decides(table, statement):
    file, other = made(table, "a.parquet"), made(table, "b.parquet")
    commit(table, statement, [marked(file, table), other])
    (vector,) = table.glob("deletion_vector_*.bin")
    content = vector.read_bytes()
    vector.unlink()
    (table / "b.parquet").unlink()
    rows = fsck(table, statement, dry_run=True)
    assert [(r["dataFilePath"], r["dataFileMissing"], r["deletionVectorFileMissing"]) for r in rows] == [
        ("a.parquet", False, True),
        ("b.parquet", True, False),
    ]
    assert rows[0]["deletionVectorPath"] == vector.name
    error = refused("HEADWATER_FSCK_VECTORS_MISSING", table, statement)
    assert vector.name in error.text
    assert f"{VECTORS}=removeFile" in error.text
    statement.set_conf(VECTORS, "drop")
    refused("DELTA_ILLEGAL_OPTION", table, statement)
    vector.write_bytes(content)
    assert [r["dataFilePath"] for r in fsck(table, RecordingStatement())] == ["b.parquet"]
    vector.unlink()
    statement.set_conf(VECTORS, "removeVector")
    assert len(fsck(table, statement)) == 1
    assert live(table, statement) == [key(file)]
    (added,) = actions(table, 3, "add")
    assert (added["dataChange"], added.get("deletionVector"), added["stats"]) == (True, None, STATS)


class Failing:
    """Makes looks at some paths fail."""

    def __init__(self, monkeypatch, error, word=".parquet") -> None:
        self.stat, self.error, self.word = os.stat, error, word
        monkeypatch.setattr(os, "stat", self)
        self.remaining = -1

    def __call__(self, path, *more, **named):
        if isinstance(path, str) and self.word in path and self.remaining:
            self.remaining -= 1
            raise OSError(self.error, os.strerror(self.error), path)
        return self.stat(path, *more, **named)


@pytest.mark.parametrize(
    "number", [errno.EACCES, errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.ELOOP, errno.ENOTCONN]
)
@pytest.mark.parametrize("dry_run", [True, False])
def test_a_store_that_fails_is_an_error_and_no_missing_file(table, statement, monkeypatch, number, dry_run):
    commit(table, statement, [made(table, f"f{n}.parquet") for n in range(3)])
    (table / "f1.parquet").unlink()
    with monkeypatch.context() as patched:
        Failing(patched, number, "f2.parquet")
        with pytest.raises(OSError, match=os.strerror(number)):
            fsck(table, statement, dry_run)
    assert version(table, statement) == 1
    assert [row["dataFilePath"] for row in fsck(table, statement)] == ["f1.parquet"]


def test_what_a_store_said_once_is_asked_again(table, statement, monkeypatch):
    """A store that forgets files for a moment, and then has them."""
    commit(table, statement, [made(table, f"f{n}.parquet") for n in range(3)])
    with monkeypatch.context() as patched:
        Failing(patched, errno.ENOENT).remaining = 3
        assert fsck(table, statement) == []
    assert version(table, statement) == 1


def test_a_folder_that_may_not_be_entered_is_an_error(table, statement):
    if os.geteuid() == 0:  # the superuser enters all: what the system would answer is tested above
        return
    commit(table, statement, [made(table, "p=1/f.parquet")])
    (table / "p=1").chmod(0)
    try:
        with pytest.raises(PermissionError):
            fsck(table, statement)
    finally:
        (table / "p=1").chmod(0o700)
    assert version(table, statement) == 1


def test_a_table_that_is_gone_with_its_log_is_not_repaired(table, statement, monkeypatch):
    """As of a disk that is unmounted while the statement looks."""
    commit(table, statement, [made(table, f"f{n}.parquet") for n in range(3)])
    away = table.with_name("away")
    look = LocalStore.missing

    def unmounts(self, paths):
        if table.exists():
            table.rename(away)
            table.mkdir()
        return look(self, paths)

    with monkeypatch.context() as patched:
        patched.setattr(LocalStore, "missing", unmounts)
        with pytest.raises(HeadwaterError) as caught:
            fsck(table, statement)
    assert caught.value.condition == "HEADWATER_FSCK_NOT_CERTAIN"
    assert list(table.iterdir()) == []
    table.rmdir()
    away.rename(table)
    assert fsck(table, statement) == []
    assert version(table, statement) == 1


def test_all_files_of_a_table_may_be_gone_where_its_log_is_there(table, statement):
    commit(table, statement, [made(table, "p=1/f.parquet")])
    shutil.rmtree(table / "p=1")
    assert len(fsck(table, statement)) == 1
    assert live(table, statement) == []


def test_a_link_that_leads_nowhere_is_a_disk_that_is_not_mounted(table, statement, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    (table / "p=1").symlink_to(disk)
    commit(table, statement, [made(table, "p=1/f.parquet"), made(table, "g.parquet")])
    disk.rename(tmp_path / "away")
    assert "link" in refused("HEADWATER_FSCK_NOT_CERTAIN", table, statement).text
    disk.mkdir()  # an empty mount point
    for dry_run in (True, False):
        error = refused("HEADWATER_FSCK_NOT_CERTAIN", table, statement, dry_run=dry_run)
        assert str(disk) in error.text
        assert f"{FOLDERS}=remove" in error.text
    (disk / "other").touch()
    assert len(fsck(table, statement, dry_run=True)) == 1
    (disk / "other").unlink()
    statement.set_conf(FOLDERS, "remove")
    assert [row["dataFilePath"] for row in fsck(table, statement)] == ["p=1/f.parquet"]


def test_a_file_of_an_undecoded_name_is_not_missing(table, statement):
    """A log that does not encode names, so that every reader looks for another file."""
    commit(table, statement, [made(table, "ok.parquet")])
    (table / "a%20b.parquet").write_bytes(b"x" * 7)
    commit(table, statement, [AddFile("a%20b.parquet", {}, 7, 5, True, STATS)])
    refused("HEADWATER_FSCK_NOT_CERTAIN", table, statement)
    (table / "a%20b.parquet").unlink()
    assert [row["dataFilePath"] for row in fsck(table, statement)] == ["a b.parquet"]


@pytest.mark.parametrize("form", ["file:{}", "file://{}", "{}"])
def test_files_of_another_folder(table, statement, tmp_path, form):
    """A shallow clone: what is missing goes; a folder of which nothing is there is not certain."""
    source = tmp_path / "source"
    names = [f"p={n}/f {n}.parquet" for n in range(3)]
    files = [made(source, name) for name in names]
    elsewhere = [AddFile(form.format(encode_path(str(source / name))), {}, 7, 5, True, STATS) for name in names]
    commit(table, statement, [*elsewhere, made(table, "own.parquet")])
    assert len(files) == 3
    (source / names[0]).unlink()
    assert [row["dataFilePath"] for row in fsck(table, statement)] == [str(source / names[0])]
    (table / "own.parquet").unlink()
    source.rename(tmp_path / "away")
    for _ in range(2):
        error = refused("HEADWATER_FSCK_NOT_CERTAIN", table, statement)
        assert str(source) in error.text
        assert f"{FOLDERS}=remove" in error.text
        refused("HEADWATER_FSCK_NOT_CERTAIN", table, statement, dry_run=True)
        source.mkdir(exist_ok=True)  # an empty mount point
    (source / "_delta_log").mkdir()
    assert len(fsck(table, statement, dry_run=True)) == 3
    (source / "_delta_log").rmdir()
    statement.set_conf(FOLDERS, "remove")
    assert len(fsck(table, statement)) == 3
    assert live(table, statement) == []


def test_files_of_another_store_are_looked_for_there(table, statement):
    """Not on this machine's disk, where they are certainly not."""
    commit(table, statement, [AddFile("s3a://bucket/t/f.parquet", {}, 7, 5, True, STATS)])
    refused("DELTA_UNSUPPORTED_FILE_SYSTEM", table, statement)


def test_a_table_that_only_takes_appends_keeps_its_entries(tmp_path, statement):
    path = tmp_path / "t"
    create_table(create_request(path, schema_json(a="integer"), properties={"delta.appendOnly": "true"}), statement)
    commit(path, statement, [made(path, "f.parquet")])
    (path / "f.parquet").unlink()
    assert len(fsck(path, statement, dry_run=True)) == 1
    refused("DELTA_CANNOT_MODIFY_APPEND_ONLY", path, statement)


# Other writers


def two_files(table, statement):
    files = [made(table, f"f{n}.parquet") for n in range(2)]
    commit(table, statement, files)
    (table / "f0.parquet").unlink()
    return files


def test_appends_of_others_are_no_conflict(table, statement):
    _, kept = two_files(table, statement)
    theirs = made(table, "theirs.parquet")
    statement.before_commits = [lambda: commit(table, RecordingStatement(), [theirs])]
    fsck(table, statement)
    assert live(table, statement) == sorted(map(key, (kept, theirs)))
    assert version(table, statement) == 3


@pytest.mark.parametrize("how", ["removed", "marked", "written again"])
def test_what_another_writer_did_to_a_missing_file_meanwhile_is_looked_at_again(table, statement, how):
    gone, kept = two_files(table, statement)
    theirs = {"removed": [], "marked": [marked(gone, table)], "written again": [made(table, "new.parquet")]}[how]
    statement.before_commits = [lambda: commit(table, RecordingStatement(), theirs, [gone])]
    rows = fsck(table, statement)
    assert len(rows) == (how == "marked")
    assert live(table, statement) == sorted(map(key, [kept, *(theirs if how == "written again" else [])]))


def test_a_restored_table_has_the_files_that_came_back(table, statement):
    gone, kept = two_files(table, statement)
    fsck(table, statement)
    made(table, "f0.parquet")
    called("restore")({"table": str(table), "name": "t", "arguments": {"version": "1"}}, statement)
    assert live(table, statement) == sorted(map(key, (gone, kept)))
    assert fsck(table, statement) == []


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        ("/a/b/f.parquet", "/a/b"),
        ("/a/b/p=1/q=x y/f.parquet", "/a/b"),
        ("s3a://b/t/p=1/f.parquet", "s3a://b/t"),
        ("/f.parquet", "/"),
    ],
)
def test_the_folder_of_a_file_is_that_of_its_table(path, folder):
    assert _folder(path) == folder
