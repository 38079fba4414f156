"""Commits of several tables of which one was cut off: what is made of them by readers, writers, streams and VACUUM."""

from __future__ import annotations

import errno
import os
import uuid
from dataclasses import replace

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.bridge.messages.maintain import VacuumArguments, VacuumRequest
from headwater.groups.group_commit import commit_together, place
from headwater.groups.settling import SETTLER, settle_newest
from headwater.groups.undoing import undo
from headwater.log import groups
from headwater.log.snapshot import load_snapshot
from headwater.protocol.actions import DomainMetadata, Metadata, Protocol, SetTransaction
from headwater.protocol.file_names import commit_name, log_directory
from headwater.protocol.types import schema_string
from headwater.statements.maintenance.vacuum import vacuum
from headwater.stores import LocalStore
from headwater.streams.commits import Commits
from headwater.transaction import Provenance, Transaction, wait_for_maintenance
from support.commits import SCHEMA, add_file
from support.faults.faulty_store import Crash, Fault, FaultyStore
from support.recording_statement import RecordingStatement
from support.stores.memory_store import MemoryStore
from support.table_groups import TABLES, append, files, foreign, forged, hasten, raw, rewrite, tables


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    hasten(monkeypatch)
    yield
    assert wait_for_maintenance(60)


def commit_path(path, version=1) -> str:
    return f"{log_directory(path)}/{commit_name(version)}"


def cut_off(inner, paths=TABLES, make=append, after=None):
    """A group whose writer dies as soon as the commit of a table, its first, is in the log."""
    last = commit_path(after or paths[0])
    store = DyingStore(inner, last)
    with pytest.raises(Crash):
        commit_together([make(path, store) for path in paths])
    groups._known.clear()
    return inner


class DyingStore(FaultyStore):
    def __init__(self, inner, last) -> None:
        super().__init__(inner, -1, Fault.CRASH_AFTER)
        self._last = last

    def put_if_absent(self, path, data) -> None:
        self._at = len(self.calls) if path == self._last else -1
        super().put_if_absent(path, data)


class Failing(FaultyStore):
    """A store that fails at some paths."""

    def __init__(self, inner, fails, error=TimeoutError) -> None:
        super().__init__(inner)
        self.fails, self.error = fails, error

    def _call(self, method, path, do, torn=None):
        if self.fails(method, path):
            raise self.error(path) if isinstance(self.error, type) else self.error
        return super()._call(method, path, do, torn)


def group_of(store, path, version=1):
    found = groups.Group.of(store.read(commit_path(path, version)), path)
    assert found is not None
    return found


def abort(store, path="/a") -> str:
    group = group_of(store, path)
    groups.decide(store, group, "aborted")
    return group.id


def settled(shown):
    """The newest version as a process finds it that settles groups, after one that only looked."""
    groups.settle_by(SETTLER)
    return settle_newest(shown)


# VACUUM


@pytest.fixture
def on_disk(tmp_path, monkeypatch):
    """Two tables on disk, whose files are old, and a group that was cut off."""
    groups.settle_by(None)
    monkeypatch.setattr("headwater.statements.maintenance.vacuum.settle_newest", settled)
    store, paths = LocalStore(), [str(tmp_path / name) for name in ("a", "b")]
    for path in paths:
        os.mkdir(path)
        txn = Transaction(path, store, None)
        txn.update_protocol(Protocol(1, 2))
        settings = {"delta.deletedFileRetentionDuration": "interval 0 hours"}
        txn.update_metadata(Metadata(f"id of {path}", schema_string(SCHEMA), (), settings, created_time=1))
        txn.add([add_file("0")])
        txn.commit(Provenance("CREATE TABLE"))
        for name in ("0", "new", "garbage"):
            with open(f"{path}/{name}", "w") as file:
                file.write("x")
            os.utime(file.name, (1, 1))
    cut_off(store, paths)
    return paths


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize("number", [0, 1])
def test_vacuum_leaves_the_files_of_a_commit_that_is_not_settled_or_staged(on_disk, number, dry_run):
    path = on_disk[number]
    asked = VacuumRequest(table=path, name=path, arguments=VacuumArguments(dry_run=dry_run))
    rows = vacuum(asked, RecordingStatement()).rows
    assert os.path.exists(f"{path}/new")
    assert os.path.exists(f"{path}/garbage") == dry_run
    assert [row["path"].rpartition("/")[2] for row in rows or ()] == ["garbage" if dry_run else path[-1]]
    assert files(path, LocalStore()) == {"0", "new"}


def test_what_is_hidden_is_settled_before_files_are_deleted():
    groups.settle_by(None)
    inner = cut_off(tables(*TABLES))
    shown = load_snapshot("/a", inner)
    assert (shown.version, settled(shown).version) == (0, 1)
    groups.settle_by(None)
    inner = cut_off(tables(*TABLES))
    abort(inner)
    shown = load_snapshot("/a", inner)
    newest = settled(shown)
    assert (shown.version, newest.version, set(newest.files["path"].to_pylist())) == (0, 2, {"0"})


@pytest.mark.parametrize("path", ["/a", "/b"])
def test_where_nothing_can_be_settled_no_file_may_be_deleted(path):
    inner = cut_off(tables(*TABLES))
    other = "/b/" if path == "/a" else "/a/"
    store = Failing(inner, lambda method, at: at.startswith(other), PermissionError)
    with pytest.raises(HeadwaterError) as caught:
        settle_newest(load_snapshot(path, store))
    assert caught.value.condition == "HEADWATER_TRANSACTION_OPEN"


# What another process gives up, and what not


def undecided(store) -> None:
    """Forget the decision and the notes, as if the writer had died before it."""
    for path in [path for path in store.files if "/_transactions/" in path]:
        store.delete(path)
    groups._known.clear()


def test_a_table_that_was_dropped_does_not_undo_the_others():
    store = tables("/a", "/b")
    commit_together([append("/a", store), append("/b", store)])
    undecided(store)
    for path in [path for path in store.files if path.startswith("/b/")]:
        store.delete(path)
    assert files("/a", store) == {"0", "new"}
    undecided(store)
    store.directories = {path for path in store.directories if not path.startswith("/b")}
    assert files("/a", store) == {"0", "new"}


def test_a_log_that_was_cleaned_up_does_not_undo_the_others():
    store = tables("/a", "/b")
    commit_together([append("/a", store), append("/b", store)])
    append("/b", store, "later").transaction.commit(Provenance("WRITE"))
    undecided(store)
    for version in (0, 1):
        store.delete(commit_path("/b", version))
    assert files("/a", store) == {"0", "new"}


def test_nothing_is_published_in_vain():
    inner = cut_off(tables(*TABLES))
    foreign("/b", inner, add_file("theirs"))
    assert files("/a", inner) == {"0"}
    assert not inner.exists(commit_path("/c"))


def test_who_gives_a_group_up_undoes_all_of_it():
    inner = cut_off(tables(*TABLES), after="/b")
    foreign("/c", inner, add_file("theirs"))
    assert files("/c", inner) == {"0", "theirs"}
    assert "new" in raw("/b", inner)
    assert files("/b", inner) == raw("/b", inner) == raw("/a", inner) == {"0"}
    for path in [path for path in inner.files if path.startswith("/a/") or "/_transactions/" in path]:
        inner.delete(path)
    assert files("/b", inner) == {"0"}


def test_append_only_tables_are_put_last():
    store = tables("/a", **{"delta.appendOnly": "true"})
    store.files.update(tables("/b", "/c").files)
    store.directories.update(("/b/_delta_log", "/c/_delta_log"))
    members = [append("/a", store), rewrite("/b", store), append("/c", store)]
    assert [member.path for member in sorted(members, key=place)] == ["/b", "/c", "/a"]
    foreign("/c", store, add_file("theirs"))
    commit_together(members)
    assert group_of(store, "/a").coordinator == "/b"


# Readers of what was given up


def test_a_reader_undoes_what_was_given_up():
    inner = cut_off(tables(*TABLES), after="/b")
    abort(inner)
    assert load_snapshot("/b", inner).version == 2
    assert files("/b", inner) == raw("/b", inner) == raw("/a", inner) == {"0"}


def test_who_only_looks_goes_on_once_it_is_undone(caplog):
    groups.settle_by(None)
    inner = cut_off(tables(*TABLES), after="/b")
    group_id = abort(inner)
    foreign("/b", inner, add_file("theirs"))
    before = dict(inner.files)
    assert files("/b", inner) == {"0"}
    assert files("/b", inner) == {"0"}
    assert inner.files == before
    assert sum("version 1 and those after it are not shown" in text for text in caplog.messages) == 1
    assert undo("/b", inner, 1, group_id) == 3
    assert files("/b", inner) == {"0", "theirs"}
    inner.delete(groups.note_path("/b", group_id))
    before = dict(inner.files)
    assert files("/b", inner) == {"0", "theirs"}
    assert inner.files == before
    assert set(load_snapshot("/b", inner, 1).files["path"].to_pylist()) == {"0", "new"}


def test_a_commit_is_not_the_newest_without_what_undid_it(monkeypatch):
    store = tables("/a")
    append("/a", store).transaction.commit(Provenance("WRITE"))
    monkeypatch.setattr("headwater.log.snapshot.shown_from", lambda path, store, version, data: version and 2)
    assert load_snapshot("/a", store).version == 0
    assert load_snapshot("/a", store, 1).version == 1
    append("/a", store, "later").transaction.commit(Provenance("WRITE"))
    assert load_snapshot("/a", store).version == 2


def test_several_versions_may_turn_out_to_be_hidden(monkeypatch):
    store = tables("/a")
    for name in "12345":
        append("/a", store, name).transaction.commit(Provenance("WRITE"))
    hidden = iter([4, 2])
    now = {"hidden": 6}

    def shown(path, store, version, data):
        if version == 0:
            now["hidden"] = next(hidden, now["hidden"])
        return None if version == now["hidden"] else version

    monkeypatch.setattr("headwater.log.snapshot.shown_from", shown)
    assert load_snapshot("/a", store).version == 1


def test_a_store_that_does_not_answer_is_no_answer():
    inner = tables(*TABLES)
    commit_together([append(path, inner) for path in TABLES])
    groups._known.clear()
    with pytest.raises(TimeoutError):
        load_snapshot("/a", Failing(inner, lambda method, path: "/_transactions/" in path))
    assert (
        load_snapshot("/a", Failing(inner, lambda method, path: "/_transactions/" in path, PermissionError)).version
        == 0
    )
    assert load_snapshot("/a", inner).version == 1


def test_a_reader_who_finds_no_space_to_finish_sees_the_version_before():
    inner = cut_off(tables(*TABLES))
    store = Failing(inner, lambda method, path: method == "put_if_absent", OSError(errno.ENOSPC, "full"))
    assert files("/a", store) == {"0"}
    with pytest.raises(OSError, match="full"):
        append("/a", store).transaction.commit(Provenance("WRITE"))


def test_a_commit_whose_outcome_is_unknown_is_given_up():
    inner = tables("/a", "/b")
    store = Failing(inner, lambda method, path: path == commit_path("/b") and method in ("put_if_absent", "read"))
    members = [append(path, store) for path in ("/a", "/b")]
    with pytest.raises(HeadwaterError) as caught:
        commit_together(members)
    assert caught.value.condition == "HEADWATER_TRANSACTION_ABORTED"
    assert files("/a", inner) == raw("/a", inner) == files("/b", inner) == {"0"}


# What is undone


def definable():
    """A table that may have domains."""
    store = MemoryStore()
    txn = Transaction("/a", store, None)
    txn.update_protocol(Protocol(1, 7, None, frozenset({"domainMetadata"})))
    txn.update_metadata(Metadata("id", schema_string(SCHEMA), (), {}, created_time=1))
    for action in (*domains(gone="x", changed="x", overtaken="x"), SetTransaction("app", 3), SetTransaction("both", 3)):
        txn.add_action(action)
    txn.add([add_file("0")])
    txn.commit(Provenance("CREATE TABLE"))
    return store


def domains(**values):
    return [DomainMetadata(name, value or "", value is None) for name, value in values.items()]


def grouped(store, change) -> str:
    txn = Transaction("/a", store, load_snapshot("/a", store))
    txn.add([add_file("new")])
    change(txn)
    group = groups.Group(str(uuid.uuid4()), "/a", 1, [])
    data, _ = txn.prepare(Provenance("WRITE")).encode(1, 1, None, group=group)
    store.put_if_absent(commit_path("/a"), data)
    return group.id


def test_only_what_is_as_the_commit_left_it_is_put_back():
    store = definable()

    def change(txn) -> None:
        for action in (
            *domains(gone=None, changed="y", overtaken="y", new="y"),
            *(SetTransaction(app_id, 4) for app_id in ("app", "both", "first")),
        ):
            txn.add_action(action)

    group_id = grouped(store, change)
    foreign("/a", store, *domains(overtaken="z"), SetTransaction("both", 5))
    assert undo("/a", store, 1, group_id) == 3
    newest = load_snapshot("/a", store)
    found = {name: domain.configuration for name, domain in newest.domain_metadata.items()}
    assert found == {"gone": "x", "changed": "x", "overtaken": "z"}
    assert {app: txn.version for app, txn in newest.state.transactions.items()} == {"app": 3, "both": 5, "first": 3}


@pytest.mark.parametrize("built_on", [False, True])
def test_a_definition_that_others_may_have_written_by_stays(built_on):
    store = definable()
    before = load_snapshot("/a", store).metadata
    group_id = grouped(store, lambda txn: txn.update_metadata(replace(before, configuration={"own": "x"})))
    if built_on:
        foreign("/a", store, add_file("theirs"))
    assert undo("/a", store, 1, group_id) == (None if built_on else 2)
    assert load_snapshot("/a", store).metadata.configuration == ({"own": "x"} if built_on else {})


# Streams


def test_a_stream_passes_over_what_was_undone():
    inner = cut_off(tables(*TABLES), make=rewrite, after="/b")
    abort(inner)
    append("/b", inner, "later").transaction.commit(Provenance("WRITE"))
    commits = list(Commits().since("/b", inner, "id of /b", 1))
    assert [commit.version for commit in commits] == [1, 2, 3]
    assert [commit.files["path"].to_pylist() for commit in commits] == [[], [], ["later"]]
    assert [commit.removed for commit in commits] == [None] * 3
    assert Commits().ahead("/b", inner, "id of /b", 1)[1] == 3


# Logs that say what is not true, and tables of two names


def test_a_record_of_another_coordinator_undoes_nothing():
    store = tables(*TABLES)
    commit_together([append("/b", store), append("/c", store)])
    group_id = group_of(store, "/c").id
    participant = {"path": "/c", "version": 1, "staged": f"{1:020}.x.json"}
    forged(store, "/a", id=group_id, participants=[participant])
    assert files("/a", store) == {"0"}
    assert files("/c", store) == raw("/c", store) == {"0", "new"}


def test_no_log_is_believed_to_name_very_many_tables():
    store = tables("/a")
    participant = {"path": "/b", "version": 1, "staged": f"{1:020}.x.json"}
    forged(store, "/a", participants=[participant] * (groups.MOST_PARTICIPANTS + 1))
    assert files("/a", store) == {"0", "forged"}
    with pytest.raises(HeadwaterError) as caught:
        commit_together([append("/a", store)] * (groups.MOST_PARTICIPANTS + 1))
    assert caught.value.condition == "HEADWATER_TRANSACTION_OF_TOO_MANY_TABLES"


class Linked(MemoryStore):
    """``/link`` is another name of ``/a``."""

    def read(self, path):
        return super().read(path.replace("/link/", "/a/"))

    def exists(self, path):
        return super().exists(path.replace("/link/", "/a/"))

    def list_from(self, directory, start_name=""):
        listed = super().list_from(directory.replace("/link/", "/a/"), start_name)
        return [
            file._replace(path=file.path.replace("/a/", f"{directory[: directory.index('/', 1)]}/")) for file in listed
        ]

    def put_if_absent(self, path, data):
        super().put_if_absent(path.replace("/link/", "/a/"), data)

    def put(self, path, data):
        super().put(path.replace("/link/", "/a/"), data)

    def make_directory(self, path):
        super().make_directory(path.replace("/link/", "/a/"))

    def delete(self, path):
        super().delete(path.replace("/link/", "/a/"))


def test_a_table_by_another_name_has_no_commit_of_the_first():
    store, made = Linked(), tables("/a")
    store.files, store.directories = made.files, made.directories
    with pytest.raises(HeadwaterError) as caught:
        commit_together([append("/a", store, "one"), append("/link", store, "two")])
    assert caught.value.condition == "HEADWATER_TRANSACTION_ABORTED"
    assert files("/a", store) == raw("/a", store) == {"0"}


def test_where_a_commit_is_looked_for():
    store = tables("/a", "/b")
    commit_together([append("/a", store), append("/b", store)])
    group_id = group_of(store, "/a").id
    assert groups.published_version(store, group_id, "/a", 0) == 1
    store.files[commit_path("/b", 2)] = store.files[commit_path("/a")]
    store.delete(commit_path("/b"))
    assert groups.published_version(store, group_id, "/b", 1) is None
