"""Groups of commits that create tables: all or none of it, whatever fails, and what is left of one that was undone."""

from __future__ import annotations

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.groups.composing import version_together
from headwater.groups.group_commit import commit_together
from headwater.groups.undoing import undo
from headwater.log import groups
from headwater.log.snapshot import load_snapshot, table_exists
from headwater.protocol.file_names import commit_name
from headwater.statements.running.opening import Location
from headwater.statements.tables.create import check_empty
from headwater.transaction import Provenance
from support.commits import add_file
from support.faults.faulty_store import WRITE_FAULTS, Crash, Fault, FaultyStore, allowed
from support.recording_statement import RecordingStatement
from support.table_groups import append, create, files, files_if_there, foreign, hasten, raw, rewrite, tables

#: What makes the commits of the tables: ``/a`` is there, the others are created.
KINDS = {"one of two": {"/a": rewrite, "/n": create}, "both": {"/m": create, "/n": create}}
USUAL_FAULTS = (Fault.FAIL_BEFORE, Fault.CRASH_AFTER)
EACH_FAULT = [
    pytest.param(fault, id=fault.name, marks=() if fault in USUAL_FAULTS else pytest.mark.soak)
    for fault in WRITE_FAULTS
    if fault is not Fault.DELAY
]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    hasten(monkeypatch)


def story(kind, at, fault, meanwhile=lambda inner: None):
    """A group that meets a fault: whether it was reported as done, the store after it, and the call."""
    inner = tables("/a")
    store = FaultyStore(inner, -1, fault, lambda: meanwhile(inner))
    members = [make(path, store) for path, make in KINDS[kind].items()]
    store.calls.clear()
    store._at = at
    try:
        commit_together(members)
        reported = "done"
    except Crash:
        reported = "dead"
    except (HeadwaterError, OSError) as error:
        reported = "unknown" if "UNKNOWN" in str(getattr(error, "condition", "")) else "failed"
    call = store.calls[at] if at < len(store.calls) else None
    store.settle()
    return reported, inner, call


def num_calls(kind) -> int:
    store = FaultyStore(tables("/a"))
    members = [make(path, store) for path, make in KINDS[kind].items()]
    store.calls.clear()
    commit_together(members)
    return len(store.calls)


def shown(kind, inner) -> set[bool]:
    """Which of the tables show the group, once somebody has come by each."""
    for path in KINDS[kind]:
        files_if_there(path, inner)
    return {"new" in (files_if_there(path, inner) or ()) for path in KINDS[kind]}


@pytest.mark.parametrize("fault", EACH_FAULT)
@pytest.mark.parametrize("kind", KINDS)
def test_whatever_fails_the_tables_are_created_with_the_rest_or_not_at_all(kind, fault):
    for at in range(num_calls(kind)):
        reported, inner, call = story(kind, at, fault)
        if call is None or not allowed(call, fault):
            continue
        found = shown(kind, inner)
        assert len(found) == 1, (at, call)
        if reported == "done":
            assert found == {True}, (at, call)
        if reported == "failed":
            assert found == {False}, (at, call)
        for path in KINDS[kind]:
            if table_exists(path, inner):
                append(path, inner, "later").transaction.commit(Provenance("WRITE"))
                assert raw(path, inner) == files(path, inner), (at, call, path)
        assert shown(kind, inner) == found, (at, call)


@pytest.mark.parametrize("kind", KINDS)
def test_another_engine_may_create_the_table_between_any_two_steps(kind):
    """Theirs is kept; ours is not, and neither is anything else of the group."""

    def take(inner):
        if not table_exists("/n", inner):
            create("/n", inner, "theirs").transaction.commit(Provenance("CREATE TABLE"))

    for at in range(num_calls(kind)):
        reported, inner, call = story(kind, at, Fault.DELAY, take)
        assert shown(kind, inner) == {reported == "done"}, (at, call)
        if reported != "done":
            assert files("/n", inner) == {"theirs"}
            other = {"one of two": "/a", "both": "/m"}[kind]
            assert (files_if_there(other, inner) or set()) <= {"0"}


def test_tables_that_are_created_come_last():
    """All other commits can be taken back without a trace."""
    store = FaultyStore(tables("/a"))
    commit_together([create("/n", store), append("/a", store)])
    put = [call.path for call in store.calls if call.writes and call.path.endswith((commit_name(0), commit_name(1)))]
    assert put == [f"/a/_delta_log/{commit_name(1)}", f"/n/_delta_log/{commit_name(0)}"]


def test_nobody_sees_a_table_before_the_decision_and_its_place_is_free_of_a_log():
    inner = tables("/a")
    at = next(
        number
        for number, call in enumerate(_calls(inner))
        if call.writes and call.path == f"/n/_delta_log/{commit_name(0)}"
    )
    reported, inner, _ = story("one of two", at, Fault.CRASH_BEFORE)
    assert reported == "dead"
    assert not table_exists("/n", inner)
    check_empty(Location(inner, "/n"), RecordingStatement())
    assert files("/a", inner) == {"new"}  # who reads one table finishes the group
    assert files("/n", inner) == {"new"}


def _calls(inner):
    store = FaultyStore(inner)
    members = [rewrite("/a", store), create("/n", store)]
    store.calls.clear()
    commit_together(members)
    return store.calls


def test_of_a_creation_that_was_undone_an_empty_table_is_left():
    inner = tables("/a")
    commit_together([create("/m", inner), create("/n", inner)])
    group = groups.Group.of(inner.read(f"/m/_delta_log/{commit_name(0)}"), "/m")
    assert group is not None
    foreign("/m", inner, add_file("theirs"))
    assert undo("/m", inner, 0, group.id) == 2
    assert raw("/m", inner) == {"theirs"}


def test_a_table_that_was_created_after_others_were_read_is_not_read():
    inner = tables("/a")
    before = load_snapshot("/a", inner)
    commit_together([append("/a", inner), create("/n", inner)])
    with pytest.raises(HeadwaterError) as caught:
        version_together(load_snapshot("/n", inner), [before], 0)
    assert caught.value.condition == "HEADWATER_TRANSACTION_VERSIONS_APART"
    assert version_together(load_snapshot("/n", inner), [load_snapshot("/a", inner)], 0) == 0
