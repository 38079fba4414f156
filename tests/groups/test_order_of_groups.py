"""The order in which groups put the commits of their tables, and waiting for writers that are at work."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.basics.errors import HeadwaterError
from headwater.groups import at_work
from headwater.groups.at_work import AT_WORK
from headwater.groups.group_commit import Member, commit_together
from headwater.log import groups
from headwater.log.groups import Group
from headwater.log.snapshot import load_snapshot
from headwater.protocol.file_names import CommitName, parse_name
from headwater.stores import FileInfo, Store
from headwater.transaction import Provenance, Transaction, wait_for_maintenance
from support.commits import add_file
from support.faults.faulty_store import Crash, Fault, FaultyStore
from support.table_groups import append, create, files, foreign, hasten, member, raw, removal, rewrite, tables


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    hasten(monkeypatch)
    yield
    assert wait_for_maintenance(60)


def redefine(path, store):
    """A member that changes its table's definition."""
    snapshot = load_snapshot(path, store)
    txn = Transaction(path, store, snapshot)
    txn.update_metadata(replace(snapshot.metadata, description="new"))
    return member(txn)


#: What a group may do to each table. The first two only take appends; the last two are not there yet.
KINDS: dict[str, list[Callable[[str, Store], Member]]] = {
    "/a": [append],
    "/b": [append, redefine],
    "/c": [append, rewrite, redefine],
    "/d": [append, rewrite, redefine],
    "/e": [append, rewrite, redefine],
    "/n": [create],
    "/o": [create],
}
GROUPS = st.permutations(list(KINDS)).flatmap(
    lambda paths: st.tuples(*(st.tuples(st.just(path), st.sampled_from(KINDS[path])) for path in paths[:4]))
)
STORE = tables("/a", "/b", **{"delta.appendOnly": "true"})
OTHERS = tables("/c", "/d", "/e")
STORE.files.update(OTHERS.files)
STORE.directories.update(OTHERS.directories)


def order_of(group) -> list[str]:
    """The tables of a group, in the order in which their commits are put."""
    store = FaultyStore(STORE.copy())
    commit_together([make(path, store) for path, make in group])
    put = [call.path.split("/_delta_log/") for call in store.calls if call.method == "put_if_absent"]
    return [table for table, name in put if isinstance(parse_name(name), CommitName)]


@settings(max_examples=25, deadline=None)
@given(GROUPS, GROUPS)
def test_no_two_groups_take_two_tables_in_opposite_order(one, other):
    with pytest.MonkeyPatch.context() as patch:
        hasten(patch)
        first, second = order_of(one), order_of(other)
    assert sorted(first) == sorted(path for path, _ in one)
    assert [path for path in first if path in second] == [path for path in second if path in first]
    for order in (first, second):  # what cannot be taken back comes last
        last = [2 if path in ("/n", "/o") else path in ("/a", "/b") for path in order]
        assert last == sorted(last)


# Waiting


def begun(make=append, dies_at="/b"):
    """A group of three tables whose writer stands still, or is dead, once it has put one commit; what it made, and the
    group.
    """
    inner = tables("/a", "/b", "/c")
    at = next(n for n, path in enumerate(puts_of(make)) if path.startswith(f"{dies_at}/"))
    store = DyingStore(inner, puts_of(make)[at])
    with pytest.raises(Crash):
        commit_together([make(path, store) for path in ("/a", "/b", "/c")])
    foreign(dies_at, inner, add_file("theirs"))
    groups._known.clear()
    at_work._seen.clear()
    found = Group.of(inner.read("/a/_delta_log/00000000000000000001.json"), "/a")
    assert found is not None
    return inner, found


def puts_of(make) -> list[str]:
    store = FaultyStore(tables("/a", "/b", "/c"))
    commit_together([make(path, store) for path in ("/a", "/b", "/c")])
    return [call.path for call in store.calls if call.method == "put_if_absent" and "_staged" not in call.path]


class DyingStore(FaultyStore):
    """The process dies right before it makes one file."""

    def __init__(self, inner, last) -> None:
        super().__init__(inner, -1, Fault.CRASH_BEFORE)
        self._last = last

    def put_if_absent(self, path, data) -> None:
        self._at = len(self.calls) if path == self._last else -1
        super().put_if_absent(path, data)


def condition_of(do) -> str:
    with pytest.raises(HeadwaterError) as caught:
        do()
    return caught.value.condition


def test_who_waits_for_a_writer_of_this_process_does_not_abort_it():
    inner, group = begun()
    with AT_WORK.on(inner, group):
        assert files("/a", inner) == {"0"}
        assert (
            condition_of(lambda: rewrite("/a", inner).transaction.commit(Provenance("WRITE")))
            == "HEADWATER_TRANSACTION_OPEN"
        )
        assert groups.decision(inner, group) is None
    assert files("/a", inner) == raw("/a", inner) == {"0"}
    assert groups.decision(inner, group) == "aborted"


def test_who_waits_for_a_writer_of_another_process_does_not_abort_it_while_it_gives_signs_of_life(monkeypatch):
    monkeypatch.setattr(groups, "PATIENCE", 10.0)
    inner, group = begun()
    now = 1000.0
    monkeypatch.setattr(at_work.time, "monotonic", lambda: now)
    for number in range(5):
        inner.make_directory("/a/_delta_log/_transactions")
        inner.put(at_work._sign_path(group), str(number).encode())
        files("/a", inner)
        now += 11
        assert groups.decision(inner, group) is None
    assert files("/a", inner) == {"0"}
    assert groups.decision(inner, group) == "aborted"


def test_a_writer_that_takes_long_gives_signs_of_life_until_it_is_done(monkeypatch):
    monkeypatch.setattr(at_work, "_BETWEEN_SIGNS", 0.01)
    inner = tables("/a", "/b")
    members = [append("/a", inner), append("/b", inner)]
    put = inner.put_if_absent
    found: list[str] = []

    def slowly(path, data):
        until = time.monotonic() + 30
        while path == f"/b/_delta_log/{1:020}.json" and not found and time.monotonic() < until:
            time.sleep(0.01)
            found.extend(path for path in list(inner.files) if path.endswith(".alive.json"))
        put(path, data)

    monkeypatch.setattr(inner, "put_if_absent", slowly)
    commit_together(members)
    assert [path.rpartition("/")[0] for path in found] == ["/a/_delta_log/_transactions"]
    assert not inner.exists(found[0])
    assert groups.is_to_clean_up(FileInfo(found[0], 1, 1), inner)


def test_a_writer_that_hangs_is_waited_for_no_longer(monkeypatch):
    monkeypatch.setattr(at_work, "_LONGEST_WORK", 0.0)
    inner, group = begun()
    with AT_WORK.on(inner, group):
        assert files("/a", inner) == {"0"}
        assert groups.decision(inner, group) == "aborted"


def test_a_conflict_is_found_without_waiting_for_the_group_of_a_later_winner():
    inner = tables("/a", "/b", "/c")
    mine = rewrite("/a", inner)
    foreign("/a", inner, removal("/a", inner, "0"))
    version = 2
    other = Group("00000000-0000-4000-8000-000000000000", "/a", version, [groups.Participant("/b", 1, "x")])
    with AT_WORK.on(inner, other):
        put_of_group(inner, "/a", version, other)
        assert condition_of(lambda: mine.transaction.commit(Provenance("WRITE"))).startswith("DELTA_CONCURRENT_")


def put_of_group(inner, path, version, group) -> None:
    prepared = append(path, inner, "other").prepared
    data, _ = prepared.encode(version, 1, None, group=group)
    inner.put_if_absent(f"{path}/_delta_log/{version:020}.json", data)


def test_who_has_taken_its_tables_out_of_order_does_not_wait():
    """The first table was append-only, and so came last; it is not when another group takes it."""
    inner = tables("/a", **{"delta.appendOnly": "true"})
    inner.files.update(OTHERS.copy().files)
    inner.directories.update(OTHERS.directories)
    store = FaultyStore(inner, -1, Fault.DELAY, lambda: redefined_and_taken(inner))
    members = [append("/a", store), append("/c", store)]
    calls = FaultyStore(inner.copy())
    ours = [append("/a", calls), append("/c", calls)]
    before = len(calls.calls)
    commit_together(ours)
    put = f"/a/_delta_log/{1:020}.json"
    store._at = (
        len(store.calls)
        - before
        + next(n for n, call in enumerate(calls.calls) if call.path == put and call.method == "put_if_absent")
    )
    with AT_WORK.on(inner, OTHER):
        assert condition_of(lambda: commit_together(members)) == "HEADWATER_TRANSACTION_ABORTED"
    assert files("/c", inner) == raw("/c", inner) == {"0"}


OTHER = Group("00000000-0000-4000-8000-000000000000", "/a", 2, [groups.Participant("/c", 1, "x")])


def redefined_and_taken(inner) -> None:
    foreign("/a", inner, replace(load_snapshot("/a", inner, settled=False).metadata, configuration={}))
    put_of_group(inner, "/a", 2, OTHER)
