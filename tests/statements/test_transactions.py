"""Transactions over several statements, without Spark: what statements see, what COMMIT makes of them, refusals."""

from __future__ import annotations

import gc
import weakref
from functools import partial
from pathlib import Path

import msgspec
import pytest

from headwater.basics import clock
from headwater.bridge.messages.failures import BegunCommit, InTransactionRequest, RecoverCommitRequest
from headwater.bridge.messages.read import ScanRequest, ScansRequest
from headwater.groups.only_read import OnlyRead
from headwater.groups.settling import SETTLER
from headwater.log import groups
from headwater.log.commits import parse_actions
from headwater.log.groups import settle_by
from headwater.log.segment import list_log
from headwater.log.snapshot import load_snapshot
from headwater.protocol.actions import Protocol
from headwater.protocol.file_names import commit_name
from headwater.statements.begin_and_commit import (
    in_transaction,
)
from headwater.statements.reads import scans
from headwater.statements.registry import CALLS, HANDLERS
from headwater.statements.running import open_transactions
from headwater.statements.running.opening import CACHE, open_snapshot
from headwater.statements.running.recovery import recover_commit
from headwater.stores import LocalStore
from headwater.transaction import Provenance, Transaction, wait_for_maintenance
from support.commits import add_file, create, metadata
from support.recording_statement import RecordingStatement
from support.transactions import Session, condition_of


@pytest.fixture(autouse=True)
def done():
    settle_by(SETTLER)  # as the handler does
    yield
    assert wait_for_maintenance(60)


@pytest.fixture
def tables(tmp_path):
    return [table(tmp_path / name) for name in ("a", "b")]


def table(path, features=frozenset(), **configuration) -> str:
    path.mkdir()
    protocol = Protocol(1, 7, None, frozenset(features))
    return create(path, add_file("0"), protocol=protocol, id=f"id of {path}", **configuration).snapshot.table_path


class ReadingSession(Session):
    def scan(self, path):
        """A query of a whole table."""

        def scan(statement):
            known = open_snapshot(path, statement)
            wanted = ScanRequest(table=path, version=known.version, filters=[])
            return scans.scans(ScansRequest(requests=[wanted]), statement)[0]

        return self.run(scan)


def version(path) -> int:
    return load_snapshot(path, LocalStore()).version


def die(*_, **__):
    raise KeyboardInterrupt


def test_statements_see_what_was_written_before_and_others_see_nothing(tables):
    a, b = tables
    mine, other = Session(), Session()
    mine.begin()
    assert mine.insert(a, "1").version == 1
    assert mine.replace(a, "1", "2").version == 2
    assert mine.insert(b, "1").version == 1
    assert (mine.files(a), mine.files(b)) == ({"0", "2"}, {"0", "1"})
    assert (other.files(a), other.files(b)) == ({"0"}, {"0"})
    assert mine.commit().rows == [{"path": a, "version": 1}, {"path": b, "version": 1}]
    for session in (mine, other):
        assert (session.files(a), session.files(b)) == ({"0", "2"}, {"0", "1"})
    assert not mine.confs


def test_the_commit_of_several_statements_has_their_net_effect(tables):
    a, _ = tables
    session = Session()
    session.begin()
    session.insert(a, "1")
    session.replace(a, "1", "2")
    session.replace(a, "0", "3")
    session.commit()
    done = parse_actions((LocalStore().read(f"{a}/_delta_log/{commit_name(1)}")), "it")
    assert [(is_add, file["path"]) for is_add, file in done.files] == [(False, "0"), (True, "2"), (True, "3")]
    assert done.commit_info is not None
    assert done.commit_info["operation"] == "TRANSACTION"
    assert done.commit_info["operationParameters"] == {"statements": '["WRITE","UPDATE","UPDATE"]'}
    assert done.commit_info["operationMetrics"] == {"numFiles": "3"}
    assert done.commit_info["readVersion"] == 0


def test_one_statement_is_in_the_history_as_what_it_was(tables):
    session = Session()
    session.begin()
    session.insert(tables[0], "1")
    session.commit()
    info = load_snapshot(tables[0], LocalStore()).commit_info
    assert info is not None
    assert info["operation"] == "WRITE"


def test_rollback_leaves_the_tables_as_they_were(tables):
    session = Session()
    session.begin()
    session.insert(tables[0], "1")
    session.rollback()
    assert session.files(tables[0]) == {"0"}
    assert version(tables[0]) == 0
    assert session.insert(tables[0], "1").version == 1


def test_a_tables_version_is_fixed_at_the_first_look(tables):
    a, b = tables
    session, other = Session(), Session()
    session.begin()
    assert session.files(a) == {"0"}
    other.insert(a, "theirs")
    other.insert(b, "theirs")
    assert session.files(a) == {"0"}
    assert session.files(b) == {"0", "theirs"}
    other.insert(b, "more")
    assert session.files(b) == {"0", "theirs"}
    session.insert(a, "mine")
    session.commit()
    assert session.files(a) == {"0", "theirs", "mine"}


def test_no_part_of_another_transaction_is_read(tables):
    """A transaction that has read one table before another was committed reads the others as of before, too."""
    a, b = tables
    session, other = Session(), Session()
    session.begin()
    assert session.files(a) == {"0"}
    other.begin()
    other.insert(a, "theirs")
    other.insert(b, "theirs")
    other.commit()
    other.insert(b, "later")
    assert session.files(b) == {"0"}
    session.rollback()
    assert session.files(b) == {"0", "theirs", "later"}


def test_commits_are_only_read_again_where_a_table_has_moved_on(tables, monkeypatch):
    """How many transactions came before makes no difference to the first look at a table."""
    asked = []

    def listed(path, *of):
        asked.append(path)
        return list_log(path, *of)

    monkeypatch.setattr("headwater.groups.composing.list_log", listed)
    a, b = tables
    session, other = Session(), Session()
    for name in ("1", "2"):
        session.begin()
        session.insert(a, name)
        session.insert(b, name)
        session.commit()
    assert not asked
    session.begin()
    session.files(a)
    other.insert(a, "theirs")
    session.files(b)
    assert b in asked
    session.rollback()


def test_versions_that_do_not_go_together_are_an_error(tables, tmp_path):
    """What is read first is before one transaction, what is read next is after another: there is no third for both."""
    a, b = tables
    c = table(tmp_path / "c")
    session, other = Session(), Session()
    session.begin()
    assert session.files(a) == {"0"}
    for some in ((a, b), (b, c)):
        other.begin()
        for path in some:
            other.insert(path, f"{a in some}")
        other.commit()
    assert session.files(c) == {"0", "False"}
    assert condition_of(lambda: session.files(b)) == "HEADWATER_TRANSACTION_VERSIONS_APART"
    session.rollback()


def test_conflicts_are_found_at_commit_and_nothing_is_changed(tables):
    a, b = tables
    session, other = Session(), Session()
    session.begin()
    session.insert(a, "1")
    session.replace(b, "0", "1")
    other.replace(b, "0", "2")
    assert condition_of(session.commit).startswith("DELTA_CONCURRENT_")
    assert (version(a), other.files(b)) == (0, {"2"})
    assert not session.confs
    assert condition_of(session.commit) == "HEADWATER_NO_TRANSACTION"


def test_what_the_first_of_two_statements_read_counts(tables):
    """The second statement alone would not conflict."""
    a, _ = tables
    session, other = Session(), Session()
    session.begin()
    session.replace(a, "0", "1")
    session.insert(a, "2")
    other.replace(a, "0", "3")
    assert condition_of(session.commit).startswith("DELTA_CONCURRENT_")


def test_ends_without_a_beginning_and_a_beginning_in_another(tables):
    session = Session()
    assert condition_of(session.commit) == "HEADWATER_NO_TRANSACTION"
    assert condition_of(session.rollback) == "HEADWATER_NO_TRANSACTION"
    session.begin()
    assert condition_of(session.begin) == "HEADWATER_TRANSACTION_NESTED"
    session.insert(tables[0], "1")
    session.commit()
    assert version(tables[0]) == 1


def test_a_transaction_that_is_idle_ends_with_its_commit(tables, monkeypatch):
    session = Session(spark_headwater_transactions_idleSeconds="5")
    session.begin()
    session.insert(tables[0], "mine")
    now = clock.milliseconds()
    monkeypatch.setattr(clock, "milliseconds", lambda: now + 6_000)
    assert condition_of(session.commit) == "HEADWATER_TRANSACTION_LOST"
    assert condition_of(session.commit) == "HEADWATER_NO_TRANSACTION"
    assert version(tables[0]) == 0
    assert Session().run(open_transactions.open_since, load_snapshot(tables[0], LocalStore())) is None


def test_a_table_by_two_paths_is_refused_where_it_is_changed(tables, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(tables[0])
    session = Session()
    session.begin()
    assert session.files(tables[0]) == session.files(str(link)) == {"0"}
    assert condition_of(lambda: session.insert(tables[0], "mine")) == "HEADWATER_NOT_IN_TRANSACTION"
    session.rollback()
    session.begin()
    session.insert(tables[0], "mine")
    assert condition_of(lambda: session.files(str(link))) == "HEADWATER_NOT_IN_TRANSACTION"
    session.commit()
    assert version(tables[0]) == 1


@pytest.mark.parametrize(("isolation", "outcome"), [("serializable", "DELTA_CONCURRENT_APPEND"), ("snapshot", None)])
def test_what_is_only_read_is_checked_where_that_is_asked_for(tables, isolation, outcome):
    """Each reads what the other changes: one after the other, the second would have read something else."""
    a, b = tables
    first, second = ReadingSession(), ReadingSession()
    for session, (read, written) in ((first, (a, b)), (second, (b, a))):
        session.begin(isolation)
        session.scan(read)
        session.insert(written, "mine")
    first.commit()
    if outcome is None:
        second.commit()
    else:
        assert condition_of(second.commit) == outcome
    assert (version(a), version(b)) == (0 if outcome else 1, 1)


def answers_of(path):
    """What each call that may be part of a transaction answers about a table."""
    asked = {"table": path, "name": "t", "arguments": {}}
    requests = {
        "describe_history": asked,
        "describe_detail": asked,
        "show_partitions": {"table": path, "name": "t"},
        "show_columns": {"table": path, "name": "t"},
        "show_create_table": {"table": path, "name": "t"},
        "summarize_tables": {"tables": [path]},
        "table_exists": {"table": path},
    }
    return {name: partial(answered, name, request) for name, request in requests.items()}


def answered(name, request, statement):
    handler = HANDLERS[name]
    return msgspec.to_builtins(handler.run(msgspec.convert(request, handler.request), statement))


@pytest.mark.parametrize("name", answers_of(""))
def test_what_an_answer_follows_from_is_checked(tmp_path, name):
    """Of a serializable transaction: if the answer were another one now, COMMIT fails, whatever was asked."""
    path = str(tmp_path / "t")

    def add(snapshot, file):
        txn = Transaction(path, LocalStore(), snapshot)
        if snapshot is None:
            txn.update_protocol(Protocol(1, 2))
            txn.update_metadata(metadata(partitioned=True))
        txn.add([file])
        txn.commit(Provenance("WRITE"))

    add(None, add_file("1", day="1"))
    ask, session = answers_of(path)[name], Session()
    session.begin("serializable")
    before = session.run(ask)
    add(load_snapshot(path, LocalStore()), add_file("2", day="2"))
    if Session().run(ask) == before:
        session.commit()
    else:
        assert condition_of(session.commit) == "DELTA_CONCURRENT_APPEND"


def test_a_statement_of_a_script_does_not_end_it(tables):
    """What follows it in the script would be in no transaction."""
    session = Session()
    session.begin(script=True)
    session.insert(tables[0], "1")
    for end in (session.commit, session.rollback, session.begin):
        assert condition_of(end) in ("HEADWATER_TRANSACTION_OF_SCRIPT", "HEADWATER_TRANSACTION_NESTED")
        assert (session.files(tables[0]), Session().files(tables[0])) == ({"0", "1"}, {"0"})
    session.commit(script=True)
    assert Session().files(tables[0]) == {"0", "1"}


def test_a_part_of_a_table_is_not_in_the_answer(tables):
    """A table in the hidden folder of another one is that one's own."""
    a, b = tables
    inner, session = table(Path(a) / "_kept"), Session()
    session.begin()
    for path in (inner, a, b):
        session.insert(path, "1")
    assert [row["path"] for row in session.commit().rows] == [a, b]
    assert [version(path) for path in (inner, a, b)] == [1, 1, 1]


def test_what_is_only_read_is_checked_once_more_when_the_commits_are_there(tables, monkeypatch):
    a, b = tables
    looks, look = [], OnlyRead.check

    def check(table):
        looks.append(version(a))
        if len(looks) == 2:
            ReadingSession().insert(b, "theirs")
        look(table)

    monkeypatch.setattr(OnlyRead, "check", check)
    session = ReadingSession()
    session.begin("serializable")
    session.scan(b)
    session.insert(a, "mine")
    assert condition_of(session.commit) == "DELTA_CONCURRENT_APPEND"
    assert ReadingSession().files(a) == {"0"}
    assert ReadingSession().files(b) == {"0", "theirs"}
    assert version(a) == 2  # what was committed, and what took it back


def test_only_its_writer_decides_that_what_it_read_still_holds(tables, monkeypatch):
    a, b = tables
    session = ReadingSession()
    session.begin("serializable")
    session.scan(b)
    session.insert(a, "mine")
    with monkeypatch.context() as while_it_commits:
        while_it_commits.setattr(groups, "decide", die)
        with pytest.raises(KeyboardInterrupt):
            session.commit()
    monkeypatch.setattr("headwater.log.groups.PATIENCE", 0.0)
    assert ReadingSession().files(a) == {"0"}
    assert ReadingSession().files(a) == {"0"}


def test_a_serializable_transaction_that_only_reads_is_checked(tables):
    a, _ = tables
    session = ReadingSession()
    session.begin("serializable")
    session.scan(a)
    ReadingSession().insert(a, "theirs")
    assert condition_of(session.commit) == "DELTA_CONCURRENT_APPEND"


def test_a_transaction_that_is_lost_is_an_error_until_it_is_ended(tables):
    session = Session()
    session.begin()
    session.insert(tables[0], "1")
    session.change_process()
    assert condition_of(lambda: session.files(tables[0])) == "HEADWATER_TRANSACTION_LOST"
    assert condition_of(lambda: session.insert(tables[0], "2")) == "HEADWATER_TRANSACTION_LOST"
    session.rollback()
    assert session.files(tables[0]) == {"0"}


def test_a_commit_without_changes_changes_nothing(tables):
    session = Session()
    session.begin()
    session.files(tables[0])
    assert session.commit().rows == []
    assert version(tables[0]) == 0


def test_what_cannot_be_one_commit_is_refused(tmp_path):
    path = table(tmp_path / "t", {"changeDataFeed"}, delta_enableChangeDataFeed="true")
    session = Session()
    session.begin()
    session.insert(path, "1")
    session.replace(path, "0", "2", changes=["c1"])
    for changes in (["c2"], []):
        again = partial(session.replace, path, "2", "3", changes=changes)
        assert condition_of(again) == "HEADWATER_NOT_IN_TRANSACTION"
    assert session.files(path) == {"1", "2"}
    session.replace(path, "1", "4")
    session.rollback()


def test_where_the_log_shows_all_changes_no_change_data_is_committed(tmp_path):
    path = table(tmp_path / "t", {"changeDataFeed"}, delta_enableChangeDataFeed="true")
    session = Session()
    session.begin()
    session.insert(path, "1")
    session.replace(path, "1", "2", changes=["c1"])  # whatever they were, its rows are new
    session.replace(path, "0", "3")
    session.commit()
    actions = parse_actions((tmp_path / "t" / "_delta_log" / commit_name(1)).read_bytes(), "")
    assert not actions.change_files
    assert [(is_add, file["path"]) for is_add, file in actions.files] == [(False, "0"), (True, "2"), (True, "3")]


def test_nothing_of_a_transaction_stays_in_memory(tables):
    session = Session()
    session.begin()
    session.insert(tables[0], "1")
    seen = weakref.ref(session.run(open_snapshot, tables[0]))
    gc.collect()
    assert seen() is not None
    session.commit()
    assert wait_for_maintenance(60)
    gc.collect()
    assert seen() is None


# A process that dies


def recover(session, begun):
    request = RecoverCommitRequest(commit=msgspec.convert(begun, BegunCommit))
    return session.run(lambda statement: recover_commit(request, statement))


def test_a_commit_whose_process_died_is_found_and_ends_the_transaction(tables):
    session = Session()
    session.begin()
    before = dict(session.confs)
    for path in tables:
        session.insert(path, "1")
    session.commit()
    begun = session.begun[-1]
    session.confs = before  # the new process knows nothing of the transaction
    assert recover(session, begun).version == 1
    assert not session.confs
    assert session.files(tables[0]) == session.files(tables[1]) == {"0", "1"}


def test_a_commit_that_is_not_in_the_log_was_not_made(tables):
    session = Session()
    session.begin()
    session.insert(tables[0], "1")
    begun = session.begun[-1]
    assert recover(session, begun).version == 1  # of the transaction, which goes on
    session.change_process()
    assert condition_of(lambda: recover(session, begun)) == "DELTA_COMMIT_NOT_MADE"
    session.rollback()


def test_what_was_cut_off_after_the_first_commit_is_finished_by_who_asks(tables, monkeypatch):
    class Killed(BaseException):
        pass

    session = Session()
    session.begin()
    before = dict(session.confs)
    for path in tables:
        session.insert(path, "1")

    def die(*_):
        raise Killed

    decide = groups.decide
    monkeypatch.setattr(groups, "decide", die)
    with pytest.raises(Killed):
        session.commit()
    monkeypatch.setattr(groups, "decide", decide)
    begun = session.begun[-1]
    session.confs = before
    assert recover(session, begun).version == 1
    assert session.files(tables[0]) == session.files(tables[1]) == {"0", "1"}


# What is refused by name


@pytest.mark.parametrize("name", sorted(name for name, call in CALLS.items() if not call.in_transaction))
def test_calls_that_rollback_would_not_undo_are_refused(name):
    session = Session()
    session.begin()
    call = HANDLERS[name].run
    assert condition_of(lambda: session.run(lambda statement: call(None, statement))) == "HEADWATER_NOT_IN_TRANSACTION"
    session.rollback()


@pytest.mark.parametrize(
    ("command", "is_harmless"),
    [
        ("DropTable", False),
        ("CreateDataSourceTableCommand", False),
        ("AppendData", False),
        ("SetTableProperties", False),
        ("SetCommand", True),
        ("ShowTables", True),
        ("DescribeRelation", True),
        ("ExplainCommand", True),
    ],
)
def test_commands_of_sparks_own(command, is_harmless):
    request = InTransactionRequest(command=command)
    if is_harmless:
        in_transaction(request, RecordingStatement())
    else:
        assert condition_of(lambda: in_transaction(request, RecordingStatement())) == "HEADWATER_NOT_IN_TRANSACTION"


def test_a_table_of_a_catalog_is_refused(tables):
    class OfCatalog(LocalStore):
        of_catalog = True

    opened = open_transactions.OpenTransaction(CACHE, 60)
    assert condition_of(lambda: opened.log(tables[0], OfCatalog())) == "HEADWATER_NOT_IN_TRANSACTION"
