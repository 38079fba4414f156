"""Predicates that queries use: counted without values, kept with the table by consent, and what they propose."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from headwater.basics import clock
from headwater.protocol import properties
from headwater.protocol.actions import AddFile, Protocol
from headwater.statements.maintenance import predicate_use
from headwater.statements.maintenance.clustering_choice import propose
from headwater.statements.maintenance.predicate_use import (
    DAYS,
    EQUAL,
    JOIN,
    RANGE,
    Uses,
    compared,
    finish,
    note,
    tidy,
    uses_of,
)
from headwater.stores.local import LocalStore
from headwater.transaction.maintenance import wait_for_maintenance
from support.commits import add_file, commit, create, metadata, newest
from support.predicate_text import parse_predicate
from support.recording_statement import RecordingStatement

GIB = 1 << 30
SECRET = "a secret value"


def folder(path):
    return Path(path) / "_headwater" / "predicates"


def used(path, *texts, times=1, read_bytes=100, statement=None, keys=()):
    for _ in range(times):
        predicates = [parse_predicate(text) for text in texts]
        note(newest(path), predicates, statement or RecordingStatement(), read_bytes, keys)


@pytest.fixture(autouse=True)
def forget(monkeypatch):
    """Each test begins as a new process."""
    for name in ("_pending", "_counted"):
        monkeypatch.setattr(predicate_use, name, type(predicate_use._pending)(1000))


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("a = 1", {"a": EQUAL}),
        ("1 = a", {"a": EQUAL}),
        ("a IN (1, 2) AND b > 3", {"a": EQUAL, "b": RANGE}),
        ("a > 1 AND a = 2", {"a": EQUAL}),
        ("a IS NOT NULL", {"a": JOIN}),
        ("a IS NOT NULL AND a >= 1", {"a": RANGE}),
        ("a = 1 OR a > 5", {"a": RANGE}),
        ("a = 1 OR b = 2", {}),
        ("(a = 1 AND b = 2) OR (a = 3 AND c = 4)", {"a": EQUAL}),
        ("a IS NULL", {}),
        ("NOT (a = 1)", {}),
        ("a = b", {}),
    ],
)
def test_what_counts(text, kinds):
    assert compared([parse_predicate(text)]) == {(name,): kind for name, kind in kinds.items()}


def test_no_value_is_kept_and_a_table_without_consent_gets_no_file(tmp_path):
    create(str(tmp_path))
    used(tmp_path, f"day = '{SECRET}'", times=3)
    used(tmp_path, "id > 5 AND nowhere = 1")
    found = uses_of(newest(tmp_path))
    assert (found.scans, found.bytes_read) == (4, 400)
    assert found.columns == {("day",): {EQUAL: 3, "bytes": 300}, ("id",): {RANGE: 1, "bytes": 100}}
    folder(tmp_path).mkdir(parents=True)  # some stores have no empty folders, so that one means nothing
    finish()
    assert list(folder(tmp_path).iterdir()) == []
    # What it has counted still proposes columns to this Spark.
    assert uses_of(newest(tmp_path)) == found
    tidy(newest(tmp_path))  # MAINTAIN TABLE is the consent
    used(tmp_path, "id > 7")
    finish()
    files = [file.read_text() for file in folder(tmp_path).iterdir()]
    assert len(files) == 2
    assert all(SECRET not in text and "5" not in json.loads(text)["columns"] for text in files)
    assert uses_of(newest(tmp_path)).scans == 5
    tidy(newest(tmp_path))
    assert len(list(folder(tmp_path).iterdir())) == 1
    assert uses_of(newest(tmp_path)).columns[("id",)] == {EQUAL: 0, RANGE: 2, JOIN: 0, "bytes": 200}


def test_a_marked_table_gets_files_in_the_background_and_a_disabled_one_never(tmp_path, monkeypatch):
    monkeypatch.setattr(predicate_use, "_FIRST_SECONDS", 0)
    for name, mark in (("on", "ENABLE"), ("off", "DISABLE")):
        table = replace(metadata(id=name), configuration={properties.PREDICTIVE_OPTIMIZATION.name: mark})
        create(str(tmp_path / name), table=table)
    for name in ("on", "off"):
        used(tmp_path / name, "id = 5", times=2)
    wait_for_maintenance(10)
    assert len(list(folder(tmp_path / "on").iterdir())) == 1
    assert uses_of(newest(tmp_path / "on")).scans == 2
    finish()
    assert not (tmp_path / "off" / "_headwater").exists()
    off = RecordingStatement({"spark.headwater.predicateUse": "false"})
    used(tmp_path / "on", "id = 5", statement=off)
    assert uses_of(newest(tmp_path / "on")).scans == 2


def test_what_others_left_there_is_no_error_and_old_counts_go(tmp_path, monkeypatch):
    create(str(tmp_path))
    used(tmp_path, "id = 1")
    tidy(newest(tmp_path))
    (good,) = folder(tmp_path).iterdir()
    day = good.name[:10]
    for name, text in (
        ("a", "no json"),
        ("b", '{"table": "another", "scans": 9, "bytes": 9, "columns": []}'),
        ("c", '{"table": "the-id", "scans": -9, "bytes": 9, "columns": []}'),
        ("d", '{"table": "the-id", "scans": 9, "bytes": 9, "columns": [{"path": 5}]}'),
        ("e", "[" * 100_000),
        ("f", f'{{"table": "the-id", "scans": 9, "bytes": {10**400}, "columns": []}}'),
        ("g", '{"table": "the-id", "scans": 9223372036854775808, "bytes": 9, "columns": []}'),
    ):
        (folder(tmp_path) / f"{day}-{name}.json").write_text(text)
    old = folder(tmp_path) / "2020-01-01-a.json"
    old.write_bytes(Uses(7, 7).to_json("the-id"))
    assert uses_of(newest(tmp_path)).scans == 1
    tidy(newest(tmp_path))
    assert len(list(folder(tmp_path).iterdir())) == 1
    now = clock.milliseconds()
    monkeypatch.setattr(clock, "milliseconds", lambda: now + (DAYS + 1) * 86_400_000)
    assert uses_of(newest(tmp_path)).scans == 0
    # A folder that cannot be read or written fails nothing.
    monkeypatch.undo()
    folder(tmp_path).rename(tmp_path / "away")
    folder(tmp_path).write_text("no folder")
    assert uses_of(newest(tmp_path)).scans in (0, 1)
    used(tmp_path, "id = 1")
    finish()
    tidy(newest(tmp_path))


def test_the_largest_counts_are_added_up_and_read_again(tmp_path):
    create(str(tmp_path))
    tidy(newest(tmp_path))
    (first,) = folder(tmp_path).iterdir()
    for name in ("a", "b"):
        one = Uses(2**63 - 1, 2**63 - 1)
        (folder(tmp_path) / f"{first.name[:10]}-{name}.json").write_bytes(one.to_json("the-id"))
    tidy(newest(tmp_path))
    assert len(list(folder(tmp_path).iterdir())) == 1
    assert uses_of(newest(tmp_path)).scans == 2**63 - 1


@pytest.fixture
def three(tmp_path):
    """A table with counts of 3 scans in two files of this day."""
    create(str(tmp_path))
    tidy(newest(tmp_path))
    for times in (1, 2):
        used(tmp_path, "id = 1", times=times)
        finish()
    return tmp_path


def test_two_that_add_up_at_once_double_nothing(three, monkeypatch):
    used(three, "id = 2")
    real = LocalStore.put_many
    inside: list[int] = []

    def put(store, files):
        """As the first total is written, another process sees more files, adds up and deletes."""
        if "replaces" in str(files) and not inside:
            inside.append(1)
            used(three, "id = 3")
            finish()
            tidy(newest(three))
        real(store, files)

    monkeypatch.setattr(LocalStore, "put_many", put)
    tidy(newest(three))
    assert inside
    assert uses_of(newest(three)).scans == 5
    used(three, "id = 4")
    tidy(newest(three))
    tidy(newest(three))
    assert uses_of(newest(three)).scans == 6
    assert len(list(folder(three).iterdir())) == 1


def test_a_store_that_refuses_to_delete_doubles_nothing(three, monkeypatch):
    monkeypatch.setattr(LocalStore, "delete_many", lambda *_: [])
    for number in range(4):
        tidy(newest(three))
        assert uses_of(newest(three)).scans == 3 + number
        used(three, "id = 1")
        finish()


def test_what_could_not_be_written_is_written_the_next_time(three, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    used(three, "id = 1", times=4)
    for work in (finish, lambda: tidy(newest(three))):
        with monkeypatch.context() as patch:
            patch.setattr(LocalStore, "put_many", fail)
            work()
        assert uses_of(newest(three)).scans == 7
    finish()
    monkeypatch.setattr(predicate_use, "_pending", type(predicate_use._pending)(1000))
    assert uses_of(newest(three)).scans == 7


def test_the_newest_version_decides_whether_a_file_is_written(tmp_path):
    mark = {properties.PREDICTIVE_OPTIMIZATION.name: "ENABLE"}
    create(str(tmp_path), table=replace(metadata(), configuration=mark))
    old = newest(tmp_path)
    off = {properties.PREDICTIVE_OPTIMIZATION.name: "DISABLE"}
    commit(tmp_path, replace(newest(tmp_path).metadata, configuration=off))
    note(old, [parse_predicate("id = 5")], RecordingStatement(), 100)
    finish()
    tidy(newest(tmp_path))
    assert not (tmp_path / "_headwater").exists()
    used(tmp_path, "id = 5")
    assert uses_of(newest(tmp_path)).scans == 1  # that of the old version, for this process alone


def test_counts_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(predicate_use, "_MOST_COLUMNS", 1)
    monkeypatch.setattr(predicate_use, "_MOST_FILES", 2)
    create(str(tmp_path))
    tidy(newest(tmp_path))
    for _ in range(4):
        used(tmp_path, "id = 1")
        used(tmp_path, "day = 'x'")
        finish()
    assert len(list(folder(tmp_path).iterdir())) == 2
    assert len(uses_of(newest(tmp_path)).columns) == 1


@pytest.fixture
def large(tmp_path):
    """A table of 16 files of 1 GiB."""
    create(str(tmp_path), protocol=Protocol(1, 2))
    files = (add_file(f"f{number}", number, number + 9, f"{number}") for number in range(16))
    commit(tmp_path, *(AddFile(each.path, {}, GIB, 1, True, each.stats) for each in files))
    return tmp_path


def test_columns_are_proposed_by_the_bytes_that_scans_still_read(large):
    used(large, "id = 5", times=19, read_bytes=16 * GIB)
    assert propose(newest(large), uses_of(newest(large)), GIB) is None  # too few
    used(large, "day > 'a'", times=30, read_bytes=8 * GIB)
    used(large, "id > 5", read_bytes=1)
    found = propose(newest(large), uses_of(newest(large)), GIB)
    assert found is not None
    assert found.columns == (("id",), ("day",))
    assert found.statement("t") == "ALTER TABLE t CLUSTER BY (id, day)"
    assert "30 of 50 counted scans filter by id, day" in found.reason
    assert 0.6 < found.share < 0.8
    # A table of few files gains nothing, nor one whose scans read little.
    assert propose(newest(large), uses_of(newest(large)), 4 * GIB) is None


def test_a_table_that_pruning_serves_well_needs_no_clustering(large):
    used(large, "id = 5", times=50, read_bytes=GIB)
    assert propose(newest(large), uses_of(newest(large)), GIB) is None


def test_columns_that_cannot_be_clustered_by_are_not_proposed(large):
    used(large, "day = 'x'", times=50, read_bytes=16 * GIB, keys=["ID"])
    found = propose(newest(large), uses_of(newest(large)), GIB)
    assert found is not None
    assert found.columns == (("day",), ("id",))  # a key counts half, however it is spelled
