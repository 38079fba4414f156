"""A table is known by its identifier and its place: by whatever path it is reached, and beside a copy of it."""

from __future__ import annotations

import itertools
import os
import shutil
from functools import partial
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.basics import clock
from headwater.bridge import calls
from headwater.bridge.messages.callbacks import SparkRun
from headwater.bridge.messages.maintain import VacuumArguments, VacuumRequest
from headwater.log.snapshot import load_snapshot
from headwater.log.snapshot_cache import SnapshotCache
from headwater.statements.maintenance.vacuum import vacuum
from headwater.statements.running.open_transactions import OpenTransaction, open_since
from headwater.stores import LocalStore, is_same_place, may_be_same_place, store_for
from headwater.transaction import wait_for_maintenance
from support.commits import add_file, create, live
from support.recording_statement import RecordingStatement
from support.transactions import Session, condition_of

NAMES = ("a table", "a%20table", "copy of a table")


@pytest.fixture(autouse=True)
def done():
    yield
    assert wait_for_maintenance(60)


def table(path) -> str:
    path.mkdir()
    retention = {"delta_deletedFileRetentionDuration": "interval 0 hours"}
    return create(path, add_file("0"), id=f"id of {path}", **retention).snapshot.table_path


def begun(**confs) -> Session:
    """A session in a transaction."""
    session = Session(**confs)
    session.begin()
    return session


@pytest.fixture
def places(tmp_path):
    """Tables, of which the last is a copy of the first, each with all its paths."""
    first, second = (table(tmp_path / name) for name in NAMES[:2])
    assert wait_for_maintenance(60)
    copy = shutil.copytree(first, tmp_path / NAMES[2])
    (tmp_path / "links").symlink_to(tmp_path)
    return [spellings(path, tmp_path) for path in (first, second, str(copy))]


def spellings(path, base) -> list[str]:
    name = os.path.basename(path)
    link = base / f"link to {name}"
    link.symlink_to(path)
    (base / f"link to link to {name}").symlink_to(link.name)
    plain = [
        path,
        f"{path}/",
        f"{base}//{name}",
        f"{base}/./{name}",
        f"{base}/elsewhere/../{name}",
        str(link),
        f"{base}/link to link to {name}",
        f"{base}/links/{name}",
    ]
    return plain + [f"{scheme}{quote(each)}" for scheme in ("file:", "file://", "FILE:") for each in plain]


def test_two_paths_are_one_place_exactly_if_one_directory_is_there(places):
    for (one, mine), (other, theirs) in itertools.product(enumerate(places), repeat=2):
        for path, another in itertools.product(mine, theirs):
            assert is_same_place(path, another) == may_be_same_place(path, another) == (one == other), (path, another)


@pytest.mark.parametrize(
    ("other", "same", "may_be"),
    [
        ("hdfs://nn/a/t/", True, True),
        ("HDFS://NN//a/./t", True, True),
        ("hdfs://nn/a/b/../t", True, True),
        ("hdfs://nn/a/T", False, False),
        ("hdfs://nn/a/t2", False, False),
        ("hdfs://nn:8020/a/t", False, True),
        ("viewfs://nn/t", False, True),
        ("/a/t", False, False),
    ],
)
def test_spellings_of_uris(other, same, may_be):
    assert is_same_place("hdfs://nn/a/t", other) == same
    assert may_be_same_place("hdfs://nn/a/t", other) == may_be


def test_vacuum_spares_what_an_open_transaction_wrote_by_whatever_path(places):
    for mine, theirs in zip(places[0], reversed(places[0]), strict=True):
        session, (store, path) = begun(), store_for(theirs)
        session.insert(mine, "new")
        for name, age in (("new", 0), ("garbage", 10_000_000)):
            with open(f"{path}/{name}", "w"):
                os.utime(f"{path}/{name}", (clock.milliseconds() / 1000 - age,) * 2)
        vacuum(VacuumRequest(table=theirs, name="t", arguments=VacuumArguments()), RecordingStatement())
        assert os.path.exists(f"{path}/new"), (mine, theirs)
        assert not os.path.exists(f"{path}/garbage")
        session.rollback()
        assert open_since(load_snapshot(path, store), RecordingStatement()) is None


def test_vacuum_knows_of_running_calls_by_whatever_path(places, monkeypatch):
    for mine, theirs in zip(places[0], reversed(places[0]), strict=True):
        monkeypatch.setitem(calls._running, -1, (mine, 5))
        assert calls.running_since(theirs) == 5
        assert calls.running_since(places[1][0]) is None


def test_a_copy_beside_its_original_is_another_table(places):
    (original, *_), _, (copy, *_) = places
    session = begun()
    session.insert(original, "1")
    assert session.files(copy) == {"0"}
    session.insert(copy, "2")
    session.commit()
    assert (live(original), live(copy)) == (["0", "1"], ["0", "2"])


def test_a_table_by_two_paths_is_refused_where_it_is_changed(places):
    for path in places[0][5:8]:
        session = begun()
        session.insert(places[0][0], "mine")
        assert condition_of(partial(session.files, path)) == "HEADWATER_NOT_IN_TRANSACTION"
        session.rollback()


# Sessions that do nothing, or do much


def test_a_session_that_ended_without_a_word_does_not_hold_vacuum_back(tmp_path, monkeypatch):
    path = table(tmp_path / "t")
    session = begun(spark_headwater_transactions_idleSeconds="5")
    session.insert(path, "mine")
    shown = load_snapshot(path, LocalStore())
    assert open_since(shown, RecordingStatement()) is not None
    now = clock.milliseconds()
    monkeypatch.setattr(clock, "milliseconds", lambda: now + 6_000)
    assert open_since(shown, RecordingStatement()) is None
    assert condition_of(session.commit) == "HEADWATER_TRANSACTION_LOST"  # VACUUM may have deleted its files
    assert live(path) == ["0"]


TIMES = st.integers(0, 60)


@given(st.lists(st.tuples(TIMES, st.one_of(st.none(), st.integers(0, 30)))), st.integers(1, 20), TIMES)
def test_a_transaction_is_idle_after_a_time_without_a_running_statement(runs, longest, now):
    last, is_idle = 0, False
    for second in range(now + 1):
        is_idle = is_idle or second - last > longest
        if any(began <= second and (took is None or second <= began + took) for began, took in runs):
            last = second
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clock, "milliseconds", lambda: 0)
        opened = OpenTransaction(SnapshotCache(), longest)
        patch.setattr(clock, "milliseconds", lambda: now * 1000)
        statement = RecordingStatement()
        for began, took in runs:
            ended = None if took is None or began + took > now else (began + took) * 1000
            if began <= now:
                statement.runs.append(SparkRun(began=began * 1000, ended=ended))
        assert opened.is_idle(statement) == is_idle
