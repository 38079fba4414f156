"""Manifests over real logs, without Spark: kept up through random commits and through races, against the log."""

from __future__ import annotations

import logging
import random
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from headwater.basics.errors import HeadwaterError
from headwater.log import manifests
from headwater.log.snapshot import load_snapshot
from headwater.protocol.actions import AddFile, RemoveFile
from headwater.protocol.partition_paths import encode_path, partition_directory
from headwater.statements.running.committing import commit, removals, transaction
from headwater.statements.running.opening import open_snapshot
from headwater.stores import LocalStore
from headwater.transaction.commit_info import Provenance
from support.recording_statement import RecordingStatement
from support.requests import alter_table, called, create_request, create_table, schema_json

KEPT = {"delta.compatibility.symlinkFormatManifest.enabled": "true"}
PARTITIONS = ["a b", "_x", "50%:/", "ü", "x=1", "line\nend", "", None]


def make(path: Path, statement: Any, partitioned: bool = True, **properties: str) -> None:
    columns = ["p", "q"] if partitioned else []
    create_table(
        create_request(
            path,
            schema_json(a="integer", p="string", q="integer"),
            properties=properties,
            partitionColumns=columns,
            partitioning=columns,
        ),
        statement,
    )


def add(name: str, p: str | None = None, q: int | None = None) -> AddFile:
    values = {} if q is None else {"p": p or None, "q": str(q)}
    directory = partition_directory(values)
    return AddFile(encode_path(f"{directory}/{name}" if directory else name), values, 7, 5, True, '{"numRecords":1}')


def write(path: Path, statement: Any, adds=(), removed=()) -> None:
    snapshot = open_snapshot(str(path), statement)
    txn = transaction(str(path), statement, snapshot)
    txn.add(adds)
    gone = pa.array([file.path for file in removed], pa.string())
    txn.remove(removals(snapshot.files.filter(pc.is_in(snapshot.files["path"], value_set=gone))))
    commit(txn, statement, Provenance("WRITE"))


def generate(path: Path, statement: Any, mode: str = "symlink_format_manifest") -> Any:
    return called("generate")({"table": str(path), "name": "t", "arguments": {"mode": mode}}, statement)


def enable(path: Path, statement: Any, key: str) -> None:
    change = {"kind": "set_property", "key": key, "value": "true"}
    alter_table({"table": str(path), "name": "t", "changes": [change]}, statement)


def there(path: Path) -> dict[str, list[str]]:
    root = path / manifests.DIRECTORY
    return {
        str(f.parent.relative_to(root)): f.read_text().split("\n")[:-1] for f in sorted(root.rglob("*")) if f.is_file()
    }


def expected(path: Path) -> dict[str, list[str]]:
    """What the log says, file by file."""
    snapshot = load_snapshot(str(path), LocalStore())
    found: dict[str, list[str]] = {} if snapshot.partition_columns else {".": []}
    for file in snapshot.files.to_pylist():
        values = dict(file["partition_values"])
        directory = partition_directory({name: values[name] for name in snapshot.partition_columns}) or "."
        found.setdefault(directory, []).append(f"file:{path}/{unquote(file['path'])}")
    return {directory: sorted(files) for directory, files in found.items()}


@pytest.mark.parametrize("partitioned", [True, False])
def test_they_follow_random_commits(tmp_path, statement, partitioned):
    path, drawn = tmp_path / "a table", random.Random(5)
    make(path, statement, partitioned, **KEPT)
    live: list[AddFile] = []
    for number in range(30):
        removed = [file for file in live if drawn.random() < 0.4]
        adds = [
            add(f"{number}-{i} %.parquet", *((drawn.choice(PARTITIONS), drawn.randrange(2)) if partitioned else ()))
            for i in range(drawn.randrange(4))
        ]
        live = [file for file in live if file not in removed] + adds
        write(path, statement, adds, removed)
        if live or not partitioned:
            assert there(path) == expected(path), number
        else:
            assert there(path) == {}
    # Nothing is left of partitions that are gone.
    write(path, statement, [], live)
    assert there(path) == ({} if partitioned else {".": []})
    assert not partitioned or list((path / manifests.DIRECTORY).iterdir()) == []


def test_only_partitions_that_changed_are_written(tmp_path, statement):
    path = tmp_path / "t"
    make(path, statement, **KEPT)
    write(path, statement, [add("1", "a", 1), add("2", "b", 1)])
    other = path / manifests.DIRECTORY / "p=b" / "q=1" / "manifest"
    other.write_text("left alone")
    write(path, statement, [add("3", "a", 1)])
    assert other.read_text() == "left alone"
    assert len(there(path)["p=a/q=1"]) == 2
    generate(path, statement)
    assert there(path) == expected(path)


def test_without_the_property_only_generate_writes_them(tmp_path, statement):
    path = tmp_path / "t"
    make(path, statement)
    write(path, statement, [add("1", "a", 1), add("2", "b", 1)])
    assert not (path / manifests.DIRECTORY).exists()
    assert generate(path, statement) == {"rows": []}
    assert there(path) == expected(path)
    before = there(path)
    gone = load_snapshot(str(path), LocalStore()).files.to_pylist()[0]
    write(path, statement, [add("3", "c", 1)], [RemoveFile(gone["path"], 1)])
    assert there(path) == before
    generate(path, statement)
    assert there(path) == expected(path)
    # The property brings all of them up to date at once, also where some were there.
    write(path, statement, [add("4", "d", 1)])
    enable(path, statement, next(iter(KEPT)))
    assert there(path) == expected(path)


def test_a_writer_that_wins_meanwhile_is_not_lost(tmp_path, statement, monkeypatch):
    """Another writer commits, and brings the manifests to its version, between this one's read and its write."""
    path = tmp_path / "t"
    make(path, statement, **KEPT)
    write(path, statement, [add("1", "a", 1), add("x", "b", 1)])
    real, others = manifests.write, [[add("2", "a", 1)], [add("3", "a", 1), add("4", "c", 1)]]

    def late(snapshot, contents):
        if others:
            adds = others.pop(0)
            write(path, RecordingStatement(), adds)
        real(snapshot, contents)

    monkeypatch.setattr(manifests, "write", late)
    write(path, statement, [add("5", "a", 1)], [add("x", "b", 1)])
    assert not others
    assert there(path) == expected(path)
    others += [[add("6", "a", 1)], [add("7", "e", 1)]]
    generate(path, statement)
    assert not others
    assert there(path) == expected(path)


def test_a_failure_never_fails_the_commit(tmp_path, statement, monkeypatch, caplog):
    path = tmp_path / "t"
    make(path, statement, **KEPT)
    write(path, statement, [add("1", "a", 1)])

    def fails(*_):
        raise PermissionError(13, "no")

    with monkeypatch.context() as patched, caplog.at_level(logging.WARNING):
        patched.setattr(manifests, "write", fails)
        write(path, statement, [add("2", "a", 1)])
    assert "the manifests could not be updated to version 2" in caplog.text
    assert load_snapshot(str(path), LocalStore()).version == 2
    write(path, statement, [add("3", "a", 1)])
    assert there(path) == expected(path)
    monkeypatch.setattr(manifests, "write", fails)
    with pytest.raises(OSError, match="no"):
        generate(path, statement)


def test_what_another_writer_left_is_replaced(tmp_path, statement):
    """Manifests of other partition columns, and checksums of Hadoop's file system."""
    path = tmp_path / "t"
    make(path, statement)
    write(path, statement, [add("1", "a", 1)])
    root = path / manifests.DIRECTORY
    old = root / "r=1" / "manifest"
    old.parent.mkdir(parents=True)
    for file in (old, root / "manifest", root / ".manifest.crc", old.parent / ".manifest.crc"):
        file.touch()
    current = root / "p=a" / "q=1"
    current.mkdir(parents=True)
    (current / ".manifest.crc").touch()
    generate(path, statement)
    assert there(path) == expected(path)


@pytest.mark.parametrize("end", ["\n", "\r"])
def test_a_path_never_becomes_two_lines(tmp_path, statement, caplog, end):
    path = tmp_path / "t"
    make(path, statement, partitioned=False, **KEPT)
    write(path, statement, [add("good")])
    write(path, statement, [add(f"bad{end}file:/elsewhere")])
    assert "HEADWATER_MANIFEST_PATH_NOT_SUPPORTED" in caplog.text
    with pytest.raises(HeadwaterError) as raised:
        generate(path, statement)
    assert raised.value.condition == "HEADWATER_MANIFEST_PATH_NOT_SUPPORTED"
    assert there(path) == {".": [f"file:{path}/good"]}


def test_refusals(tmp_path, statement):
    def refused(condition, do):
        with pytest.raises(HeadwaterError) as raised:
            do()
        assert raised.value.condition == condition

    vectors = {"delta.enableDeletionVectors": "true"}
    mapped = {"delta.columnMapping.mode": "name"}
    rule = "DELTA_VIOLATE_TABLE_PROPERTY_VALIDATION_FAILED."
    both = f"{rule}PERSISTENT_DELETION_VECTORS_WITH_INCREMENTAL_MANIFEST_GENERATION"
    mapping = "DELTA_UNSUPPORTED_MANIFEST_GENERATION_WITH_COLUMN_MAPPING"
    refused(both, lambda: make(tmp_path / "both", statement, **KEPT, **vectors))
    refused(mapping, lambda: make(tmp_path / "mapped", statement, **KEPT, **mapped))
    assert list(tmp_path.iterdir()) == []
    (key, _), path = next(iter(KEPT.items())), tmp_path / "t"
    make(path, statement, **KEPT)
    refused("DELTA_MODE_NOT_SUPPORTED", lambda: generate(path, statement, "hudi"))
    refused(both, lambda: enable(path, statement, "delta.enableDeletionVectors"))
    other = tmp_path / "o"
    make(other, statement, **vectors)
    refused(both, lambda: enable(other, statement, key))
    third = tmp_path / "m"
    make(third, statement, **mapped)
    refused(mapping, lambda: generate(third, statement))
    refused(mapping, lambda: enable(third, statement, key))


def test_a_table_made_again_at_the_place_keeps_no_manifest_of_the_one_before(tmp_path, statement, monkeypatch):
    """GENERATE reads the table twice: the manifests are of the same version, but of another table."""
    path, gone = tmp_path / "t", tmp_path / "gone"
    make(path, statement)
    write(path, statement, [add("old", "a", 1)])
    write_manifests = manifests.write

    def write_late(snapshot: Any, contents: Any) -> None:
        write_manifests(snapshot, contents)
        if not gone.exists():
            path.rename(gone)
            make(path, statement)
            write(path, statement, [add("new", "b", 1)])
            (gone / manifests.DIRECTORY).rename(path / manifests.DIRECTORY)

    monkeypatch.setattr(manifests, "write", write_late)
    with pytest.raises(HeadwaterError) as error:
        generate(path, statement)
    assert error.value.condition == "DELTA_TABLE_ID_MISMATCH"
