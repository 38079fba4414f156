"""Commits of several tables: all or none, whatever fails or dies at whichever step, and whoever else commits."""

from __future__ import annotations

import json
import uuid

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.groups.group_commit import commit_together
from headwater.groups.settling import SETTLER
from headwater.groups.undoing import undo
from headwater.log import groups
from headwater.log.checkpoint_writing import write_checkpoint
from headwater.log.cleanup import clean_up
from headwater.log.commits import commit_info_of
from headwater.log.snapshot import load_snapshot
from headwater.protocol.actions import serialize
from headwater.protocol.file_names import commit_name
from headwater.streams.commits import Commits
from headwater.transaction import Provenance, wait_for_maintenance
from support.commits import add_file
from support.faults.faulty_store import WRITE_FAULTS, Crash, Fault, FaultyStore, allowed
from support.table_groups import (
    TABLES,
    ReadOnly,
    append,
    files,
    foreign,
    forged,
    hasten,
    raw,
    removal,
    rewrite,
    tables,
)

_DAY = 24 * 3600 * 1000


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    hasten(monkeypatch)
    yield
    assert wait_for_maintenance(60)


@pytest.mark.parametrize("paths", [TABLES[:1], TABLES[:2], TABLES])
def test_all_tables_have_their_commit(paths):
    store = tables(*TABLES)
    committed = commit_together([append(path, store) for path in paths])
    assert [done.version for done in committed] == [1] * len(paths)
    for path in TABLES:
        assert files(path, store) == ({"0", "new"} if path in paths else {"0"})
        assert raw(path, store) == files(path, store)
    assert not [path for path in store.files if "_staged_commits" in path]


def test_what_the_commits_say():
    store = tables(*TABLES)
    commit_together([append("/b", store), rewrite("/c", store)])
    infos = {path: commit_info_of(store.read(f"{path}/_delta_log/{commit_name(1)}")) or {} for path in ("/b", "/c")}
    assert infos["/b"]["transactionGroup"]["participants"] == [
        {"path": "/c", "version": 1, "staged": infos["/b"]["transactionGroup"]["participants"][0]["staged"]}
    ]
    assert infos["/c"]["transactionGroup"]["coordinator"] == "/b"  # whatever is done to them
    assert len({info["tags"]["delta.multiTableTransaction.transactionId"] for info in infos.values()}) == 1


def test_a_conflict_changes_nothing():
    store = tables(*TABLES)
    members = [append("/a", store), rewrite("/b", store)]
    rewrite("/b", store, "other").transaction.commit(Provenance("WRITE"))
    with pytest.raises(HeadwaterError) as caught:
        commit_together(members)
    assert caught.value.condition == "DELTA_CONCURRENT_APPEND"
    assert (files("/a", store), files("/b", store)) == ({"0"}, {"other"})
    assert load_snapshot("/a", store, settled=False).version == 0


def test_a_lost_race_without_conflict_is_made_up_for():
    store = tables(*TABLES)
    members = [append("/a", store), append("/b", store)]
    append("/a", store, "x").transaction.commit(Provenance("WRITE"))
    append("/b", store, "x").transaction.commit(Provenance("WRITE"))
    assert [done.version for done in commit_together(members)] == [2, 2]
    assert files("/a", store) == files("/b", store) == {"0", "x", "new"}


#: The usual run has those that stand for the others, and the tables that are first and second in their group.
USUAL_FAULTS = (Fault.FAIL_BEFORE, Fault.FAIL_AFTER, Fault.LATE, Fault.CRASH_AFTER)
EACH_FAULT = [
    pytest.param(fault, id=fault.name, marks=() if fault in USUAL_FAULTS else pytest.mark.soak)
    for fault in WRITE_FAULTS
    if fault is not Fault.DELAY
]
EACH_TABLE = ["/a", "/b", pytest.param("/c", marks=pytest.mark.soak)]


def outcome_of(do) -> str:
    """``done``, ``failed``, ``unknown``, or ``dead``."""
    try:
        do()
    except Crash:
        return "dead"
    except HeadwaterError as error:
        return "unknown" if error.condition in UNKNOWN else "failed"
    except OSError:
        return "failed"
    return "done"


UNKNOWN = ("HEADWATER_COMMIT_OUTCOME_UNKNOWN", "HEADWATER_TRANSACTION_OUTCOME_UNKNOWN")
KINDS = {
    "appends": (append, append, append),
    "rewrites": (rewrite, rewrite, rewrite),
    "both": (append, rewrite, append),
}
EACH_KIND = [
    pytest.param("appends", marks=pytest.mark.soak), pytest.param("rewrites", marks=pytest.mark.soak), "both",
]  # fmt: skip


def num_calls(kind) -> int:
    store = FaultyStore(tables(*TABLES))
    made = [make(path, store) for make, path in zip(KINDS[kind], TABLES, strict=True)]
    store.calls.clear()
    commit_together(made)
    return len(store.calls)


def story(kind, at, fault, meanwhile=lambda inner: None):
    """A group of three tables that meets a fault: what was reported, and the store after it."""
    inner = tables(*TABLES)
    store = FaultyStore(inner, -1, fault, lambda: meanwhile(inner))
    made = [make(path, store) for make, path in zip(KINDS[kind], TABLES, strict=True)]
    store.calls.clear()
    store._at = at
    reported = outcome_of(lambda: commit_together(made))
    call = store.calls[at] if at < len(store.calls) else None
    store.settle()
    return reported, inner, call


def seen(inner) -> bool:
    """Whether the tables show the group, by new processes that come one after the other: once one has, all do. The
    first that finds the group may be the one that finishes it.
    """
    first = ["new" in files(path, inner) for path in TABLES]
    assert first == sorted(first)
    then = {"new" in files(path, inner) for path in TABLES}
    assert len(then) == 1
    assert then == {True} or not any(first)
    return then.pop()


@pytest.mark.parametrize("fault", EACH_FAULT)
@pytest.mark.parametrize("kind", EACH_KIND)
def test_whatever_fails_all_tables_are_changed_or_none(kind, fault):
    for at in range(num_calls(kind)):
        reported, inner, call = story(kind, at, fault)
        if call is None or not allowed(call, fault):
            continue
        shown = seen(inner)
        if reported == "done":
            assert shown, (at, call)
        if reported == "failed":
            assert not shown, (at, call)
        # What any reader found is so for good, and for engines that know of no groups, too, once a writer came by.
        for path in TABLES:
            append(path, inner, "later").transaction.commit(Provenance("WRITE"))
        assert seen(inner) == shown
        for path in TABLES:
            assert raw(path, inner) == files(path, inner), (at, call, path)


@pytest.mark.parametrize("kind", EACH_KIND)
@pytest.mark.parametrize("table", EACH_TABLE)
@pytest.mark.parametrize("conflicts", [False, True])
def test_another_engine_may_commit_between_any_two_steps(kind, table, conflicts):
    expected: set[str] = set()

    def commit(inner):
        expected.update(raw(table, inner))
        if conflicts and "0" in expected:
            foreign(table, inner, removal(table, inner, "0"))
            expected.discard("0")
        else:
            foreign(table, inner, add_file("theirs"))
            expected.add("theirs")

    for at in range(num_calls(kind)):
        expected.clear()
        reported, inner, call = story(kind, at, Fault.DELAY, commit)
        assert seen(inner) == (reported == "done"), (at, call, reported)
        if reported == "done":
            expected.add("new")
            if KINDS[kind][TABLES.index(table)] is rewrite:
                expected.discard("0")
        assert files(table, inner) == expected
        for path in TABLES:
            assert raw(path, inner) == files(path, inner)


@pytest.mark.parametrize("kind", EACH_KIND)
@pytest.mark.parametrize("table", EACH_TABLE)
def test_a_crash_and_another_engine(kind, table):
    """The process dies at a step, and another engine takes a place of the group: it is finished, or undone."""
    for at in range(num_calls(kind)):
        reported, inner, call = story(kind, at, Fault.CRASH_AFTER)
        assert reported == "dead"
        foreign(table, inner, removal(table, inner, "0") if "0" in raw(table, inner) else add_file("theirs"))
        shown = seen(inner)
        for path in TABLES:
            append(path, inner, "later").transaction.commit(Provenance("WRITE"))
        assert seen(inner) == shown, (at, call)
        for path in TABLES:
            assert raw(path, inner) == files(path, inner), (at, call, path)


# What cannot be undone


def test_what_another_engine_has_built_on_stays_and_is_named():
    """The second table loses to another engine, and the first has been built on."""
    inner = tables(*TABLES)
    store = FaultyStore(inner, -1, Fault.DELAY, lambda: build_and_take(inner))
    members = [rewrite("/a", store), rewrite("/b", store)]
    put = f"/b/_delta_log/{commit_name(1)}"
    store._at = next(n for n, call in enumerate(calls_of(members)) if call.writes and call.path == put)
    store.calls.clear()
    with pytest.raises(HeadwaterError) as caught:
        commit_together(members)
    assert caught.value.condition == "HEADWATER_TRANSACTION_NOT_UNDONE"
    assert "version 1 of /a" in str(caught.value)
    assert files("/a", inner) == raw("/a", inner) == {"theirs"}
    assert files("/b", inner) == {"theirs"}


def calls_of(members):
    """The calls that the commit of such members makes when nothing goes wrong."""
    store = FaultyStore(tables(*TABLES))
    made = [rewrite(each.path, store) for each in members]
    store.calls.clear()
    commit_together(made)
    return store.calls


def build_and_take(store) -> None:
    foreign("/a", store, removal("/a", store, "new"), add_file("theirs"))
    foreign("/b", store, removal("/b", store, "0"), add_file("theirs"))


def test_a_table_that_takes_no_removals_keeps_its_commit():
    inner = tables("/a", "/b", **{"delta.appendOnly": "true"})
    commit_together([append("/a", inner), append("/b", inner)])
    group = groups.Group.of(inner.read(f"/a/_delta_log/{commit_name(1)}"), "/a")
    assert group is not None
    assert not undo("/a", inner, 1, group.id)
    append("/a", inner, "later").transaction.commit(Provenance("WRITE"))
    assert files("/a", inner) == {"0", "new", "later"}


# Logs that say what is not true


def written(store) -> set[str]:
    return {path for path in store.files if not path.startswith("/a/")}


@pytest.mark.parametrize(
    "participant",
    [
        {"path": "/b", "version": 1, "staged": f"{1:020}.x.json"},
        {"path": "/b", "version": 1, "staged": "../../../a/_delta_log/_staged_commits/x.json"},
        {"path": "/a/../b", "version": 1, "staged": f"{1:020}.x.json"},
        {"path": "s3://bucket/b", "version": 1, "staged": f"{1:020}.x.json"},
        {"path": "/nowhere", "version": 1, "staged": f"{1:020}.x.json"},
        {"path": "/b", "version": -1, "staged": f"{1:020}.x.json"},
        {"path": "/b", "version": "1", "staged": None},
        {"path": None, "version": 1, "staged": 7},
        {},
    ],
)
def test_a_log_cannot_have_files_put_into_another_table(participant):
    """What lies ready in its own folder is not published elsewhere."""
    store = tables(*TABLES)
    directory = "/a/_delta_log/_staged_commits"
    store.make_directory(directory)
    for name in (f"{1:020}.x.json", "x.json"):
        store.put(f"{directory}/{name}", b'{"commitInfo":{}}\n' + serialize([add_file("forged")]))
    before = written(store)
    forged(store, "/a", participants=[participant])
    for path in TABLES:
        files(path, store)
        append(path, store, "later").transaction.commit(Provenance("WRITE"))
    assert not [path for path in written(store) - before if "later" not in store.read(path).decode()]


def test_a_staged_file_of_another_group_is_not_published():
    store = tables(*TABLES)
    info = {"id": str(uuid.uuid4()), "table": "/b", "coordinator": "/c", "since": 1}
    store.make_directory("/b/_delta_log/_staged_commits")
    staged = json.dumps({"commitInfo": {"transactionGroup": info}}).encode() + b"\n" + serialize([add_file("left")])
    store.put(f"/b/_delta_log/_staged_commits/{1:020}.x.json", staged)
    forged(store, "/a", participants=[{"path": "/b", "version": 1, "staged": f"{1:020}.x.json"}])
    assert files("/a", store) == {"0"}
    assert raw("/b", store) == {"0"}


def test_who_writes_one_table_decides_nothing_for_another():
    """A group's participants are believed of its coordinator's log alone."""
    store = tables(*TABLES)
    before = written(store)
    forged(store, "/a", coordinator="/b", participants=[{"path": "/a", "version": 1, "staged": "x"}])
    assert files("/a", store) == {"0", "forged"}  # settled long ago, as the coordinator knows nothing of it
    assert written(store) == before


@pytest.mark.parametrize(
    "said",
    [None, 7, "x", [], {}, {"id": "no uuid"}, {"id": str(uuid.uuid4())}, {"id": str(uuid.uuid4()), "coordinator": 7}],
)
def test_what_says_nothing_of_a_group_is_a_commit_as_any(said):
    store = tables("/a")
    info = json.dumps({"commitInfo": {"transactionGroup": said}}).encode()
    store.put_if_absent(f"/a/_delta_log/{commit_name(1)}", info + b"\n" + serialize([add_file("new")]))
    assert files("/a", store) == {"0", "new"}


def test_tables_of_two_stores_are_in_no_group():
    assert groups.may_be_together("s3://one/a", "s3://one/b")
    assert groups.may_be_together("/a", "/b/c")
    assert not groups.may_be_together("s3://one/a", "s3://two/a")
    assert not groups.may_be_together("s3://one/a", "/a")
    assert not groups.may_be_together("s3://one", "s3://one/a")


def test_a_group_is_the_same_by_another_name_of_the_scheme():
    group = groups.Group(str(uuid.uuid4()), "s3://one/a", 3, [groups.Participant("s3://one/b", 1, "x")])
    commit = json.dumps({"commitInfo": {"transactionGroup": group.to_json("s3://one/a")}}).encode()
    found = groups.Group.of(commit, "s3a://one/a")
    assert found is not None
    assert found.coordinator == "s3a://one/a"
    assert found.participants == [groups.Participant("s3a://one/b", 1, "x")]


# Who may not write, and what is left


def test_who_may_only_read_sees_the_version_before_until_somebody_has_finished_it():
    reported, inner, _ = story("appends", first_put("appends"), Fault.CRASH_AFTER)
    assert reported == "dead"
    assert {"new" in raw(path, inner) for path in TABLES} == {True, False}
    reader = ReadOnly(inner)
    assert {"new" in files(path, reader) for path in TABLES} == {False}
    assert seen(inner)
    assert {"new" in files(path, reader) for path in TABLES} == {True}


def test_a_process_that_only_looks_writes_nothing():
    reported, inner, _ = story("appends", first_put("appends"), Fault.CRASH_AFTER)
    assert reported == "dead"
    groups.settle_by(None)
    before = dict(inner.files)
    assert {"new" in files(path, inner) for path in TABLES} == {False}
    assert inner.files == before
    later = append(next(path for path in TABLES if "new" in raw(path, inner)), inner, "later")
    groups.settle_by(SETTLER)
    later.transaction.commit(Provenance("WRITE"))
    groups.settle_by(None)
    before = dict(inner.files)
    assert {"new" in files(path, inner) for path in TABLES} == {True}
    assert inner.files == before


def test_cleanup_takes_what_is_of_no_use_and_leaves_what_was_aborted(monkeypatch):
    inner = tables("/a", "/b", **{"delta.logRetentionDuration": "interval 1 day"})
    inner.files = {path: (data, 0) for path, (data, _) in inner.files.items()}
    inner.clock = lambda: 1_000
    commit_together([append("/a", inner), append("/b", inner)])
    directory = "/a/_delta_log/_transactions"
    (name,) = [file.name for file in inner.list_from(directory) if "settled" not in file.name]
    aborted = f"{directory}/{uuid.uuid4()}.json"
    inner.put(aborted, b'{"outcome":"aborted"}')
    inner.make_directory("/a/_delta_log/_staged_commits")
    kept = [f"{directory}/{uuid.uuid4()}.json", f"{directory}/{uuid.uuid4()}.json", f"{directory}/notes.json"]
    for path in (*kept, "/a/_delta_log/_staged_commits/notes.json"):
        inner.put(path, b"[]" if path == kept[0] else b"no JSON")
    linked, gone = f"{directory}/{uuid.uuid4()}.settled.json", f"/a/_delta_log/_staged_commits/{1:020}.x.json"
    inner.put(linked, b"{}")
    inner.put(gone, b"{}")
    monkeypatch.setattr(inner, "links", lambda directory, paths: {path: [] for path in paths if path == linked})
    inner.clock = lambda: 10 * _DAY
    snapshot = append("/a", inner, "later").transaction.commit(Provenance("WRITE")).snapshot
    write_checkpoint(snapshot)
    inner.clock = lambda: 20 * _DAY
    newest = append("/a", inner, "last").transaction.commit(Provenance("WRITE")).snapshot
    monkeypatch.setattr("headwater.basics.clock.milliseconds", lambda: 30 * _DAY)
    assert clean_up(load_snapshot("/a", inner, base=None), now=30 * _DAY) is not None
    assert newest.version == 3
    assert not inner.missing([aborted, *kept, "/a/_delta_log/_staged_commits/notes.json", linked])
    assert not inner.exists(f"{directory}/{name}")
    assert not inner.exists(gone)


def test_a_stream_reads_no_commit_that_may_be_undone():
    reported, inner, _ = story("appends", first_put("appends"), Fault.CRASH_AFTER)
    assert reported == "dead"
    reader = ReadOnly(inner)
    (coordinator,) = [path for path in TABLES if "new" in raw(path, inner)]
    commits = Commits()
    table_id = f"id of {coordinator}"
    assert list(commits.since(coordinator, reader, table_id, 1)) == []
    assert commits.ahead(coordinator, reader, table_id, 1) == ([], 0)
    seen(inner)
    assert [commit.version for commit in commits.since(coordinator, reader, table_id, 1)] == [1]


def first_put(kind) -> int:
    """The number of the call that puts the first commit."""
    store = FaultyStore(tables(*TABLES))
    made = [make(path, store) for make, path in zip(KINDS[kind], TABLES, strict=True)]
    store.calls.clear()
    commit_together(made)
    return next(
        n for n, call in enumerate(store.calls) if call.path.endswith(f"/_delta_log/{commit_name(1)}") and call.writes
    )
