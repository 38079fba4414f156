"""What several pending commits of a table come to as one, and what of them stands beside another writer's."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from pyroaring import BitMap64

from headwater.basics.errors import HeadwaterError
from headwater.groups.composing import composed
from headwater.groups.pending import PendingLog
from headwater.log import deletion_vectors
from headwater.log.files import file_of, vector_of
from headwater.log.snapshot import Snapshot, load_snapshot, table_exists
from headwater.protocol.actions import AddFile, Protocol
from headwater.stores import LocalStore, Store
from headwater.transaction import Provenance, Transaction, wait_for_maintenance
from headwater.transaction.keyed import KeyReads
from headwater.transaction.row_level import Mark
from support.commits import add_file, create
from support.predicate_text import parse_predicate

_VECTORS = Protocol(3, 7, frozenset({"deletionVectors"}), frozenset({"deletionVectors"}))


@pytest.fixture
def path(tmp_path) -> str:
    """A table with two files of ten rows."""
    path = str(tmp_path / "t")
    created = create(path, protocol=_VECTORS, delta_enableDeletionVectors="true").snapshot
    txn = Transaction(path, created.store, created)
    txn.add([add_file("one"), add_file("two")])
    txn.commit(Provenance("WRITE"))
    assert wait_for_maintenance(60)
    return path


@pytest.fixture
def log(path) -> PendingLog:
    return PendingLog(LocalStore(), path, "it", lambda: load_snapshot(path, LocalStore()))


class Statement:
    """What one statement does to the table, as it sees it."""

    def __init__(self, path: str, store: Store) -> None:
        self.snapshot = load_snapshot(path, store)
        self.txn = Transaction(path, store, self.snapshot)

    def file(self, name: str) -> AddFile:
        return file_of(next(row for row in self.snapshot.files.to_pylist() if row["path"] == name), True)

    def mark(self, name: str, *positions: int) -> Statement:
        file = self.file(name)
        known = rows_gone(self.snapshot, name)
        (vector,) = deletion_vectors.write_file([known | BitMap64(positions)], self.txn.table_path, LocalStore())
        add = AddFile(**{**file.__dict__, "deletion_vector": vector})
        self.txn.read_where([parse_predicate("id = 1")])
        self.txn.mark(Mark(file.removal(2), add, BitMap64(positions), 10))
        return self

    def remove(self, name: str) -> Statement:
        self.txn.read_where([parse_predicate("id = 1")])
        self.txn.remove([self.file(name).removal(2)])
        return self

    def add(self, *names: str) -> Statement:
        self.txn.add(map(add_file, names))
        return self

    def commit(self) -> int:
        return self.txn.commit(Provenance("STATEMENT")).version


def rows_gone(snapshot: Snapshot, name: str) -> BitMap64:
    row = next(row for row in snapshot.files.to_pylist() if row["path"] == name)
    vector = vector_of(row["deletion_vector"])
    return BitMap64() if vector is None else deletion_vectors.read(vector, snapshot.table_path, LocalStore())


def commit(log: PendingLog) -> Snapshot:
    composed(log, None).commit(Provenance("TRANSACTION"))
    return load_snapshot(log.table_path, LocalStore())


def names(snapshot: Snapshot) -> set[str]:
    return set(snapshot.files["path"].to_pylist())


def test_nothing_is_in_the_log_before(path, log):
    assert [Statement(path, log).add(name).commit() for name in ("three", "four")] == [2, 3]
    assert load_snapshot(path, LocalStore()).version == 1
    snapshot = commit(log)
    assert (snapshot.version, names(snapshot)) == (2, {"one", "two", "three", "four"})


def test_a_file_that_came_and_went_is_in_no_commit(path, log):
    Statement(path, log).add("three").commit()
    Statement(path, log).remove("three").add("four").commit()
    Statement(path, log).mark("four", 1).commit()
    snapshot = commit(log)
    assert names(snapshot) == {"one", "two", "four"}
    assert list(rows_gone(snapshot, "four")) == [1]
    assert snapshot.tombstones().num_rows == 0


def test_marks_of_several_statements_in_one_file_are_one(path, log):
    Statement(path, log).mark("one", 1).commit()
    Statement(path, log).mark("one", 2, 3).commit()
    snapshot = commit(log)
    assert list(rows_gone(snapshot, "one")) == [1, 2, 3]
    assert snapshot.version == 2


def test_a_marked_file_that_is_removed_later_goes_as_it_was(path, log):
    Statement(path, log).mark("one", 1).commit()
    Statement(path, log).remove("one").add("new").commit()
    snapshot = commit(log)
    assert names(snapshot) == {"two", "new"}
    assert snapshot.tombstones().column("deletion_vector").to_pylist() == [None]


def test_another_writer_may_mark_other_rows_of_the_file(path, log):
    Statement(path, log).mark("one", 1).commit()
    Statement(path, log).mark("one", 2).commit()
    Statement(path, LocalStore()).mark("one", 7).commit()
    assert list(rows_gone(commit(log), "one")) == [1, 2, 7]


@pytest.mark.parametrize("row", [1, 2])
def test_the_same_row_is_a_conflict_whichever_statement_marked_it(path, log, row):
    Statement(path, log).mark("one", 1).commit()
    Statement(path, log).mark("one", 2).commit()
    Statement(path, LocalStore()).mark("one", row).commit()
    with pytest.raises(HeadwaterError):
        commit(log)
    assert list(rows_gone(load_snapshot(path, LocalStore()), "one")) == [row]


@pytest.mark.parametrize("reads", ["whole table", "predicates"])
def test_rows_that_a_statement_without_marks_read_are_not_marked_by_another(path, log, reads):
    Statement(path, log).mark("one", 1).commit()
    statement = Statement(path, log).add("three")
    if reads == "whole table":
        statement.txn.read_whole_table()
    else:
        statement.txn.read_where([parse_predicate("id = 1")])
    statement.commit()
    Statement(path, LocalStore()).mark("one", 7).commit()
    with pytest.raises(HeadwaterError) as caught:
        commit(log)
    assert caught.value.condition.startswith("DELTA_CONCURRENT_DELETE")


def test_marks_beside_what_another_statement_read_are_made_where_nobody_interferes(path, log):
    Statement(path, log).mark("one", 1).commit()
    statement = Statement(path, log).add("three")
    statement.txn.read_whole_table()
    statement.commit()
    made = commit(log)
    assert (names(made), rows_gone(made, "one")) == ({"one", "two", "three"}, BitMap64([1]))


@pytest.mark.parametrize(("queried", "fails"), [("id = 55", True), ("id = 77", False)])
def test_what_a_query_read_is_checked_beside_the_keys_of_a_merge(path, log, queried, fails):
    """Of a serializable transaction: the MERGE reads one key, and its transaction has queried others of the table."""
    log.noted = [[parse_predicate(queried)]]
    merge = Statement(path, log).add("three")
    merge.txn.read_keys(KeyReads(merge.snapshot, ["id"], lambda: [(1,)]), [parse_predicate("id = 1")])
    merge.commit()
    txn = Transaction(path, LocalStore(), load_snapshot(path, LocalStore()))
    txn.read_whole_table()
    txn.add([add_file("theirs", 50, 59)])
    txn.commit(Provenance("WRITE"))
    if fails:
        with pytest.raises(HeadwaterError, match="DELTA_CONCURRENT_APPEND"):
            commit(log)
    else:
        assert names(commit(log)) == {"one", "two", "three", "theirs"}


def test_of_two_threads_one_has_the_next_version(path, log, monkeypatch):
    """Both have looked before either commits; the one that comes second is checked against the first."""
    monkeypatch.setattr(log, "check", lambda _: time.sleep(0.05))
    both = [Statement(path, log).remove("one").add(new) for new in ("mine", "yours")]
    with ThreadPoolExecutor(2) as threads:
        done = [threads.submit(statement.commit) for statement in both]
        failures = [each.exception() for each in done]
    (lost,) = filter(None, failures)
    assert isinstance(lost, HeadwaterError)
    assert lost.condition.startswith("DELTA_CONCURRENT_")
    assert len(log.commits) == 1


def test_a_statement_that_ends_after_its_transaction_is_an_error(path, log):
    statement = Statement(path, log).add("three")
    log.end()
    with pytest.raises(HeadwaterError, match="HEADWATER_TRANSACTION_LOST"):
        statement.commit()


def test_where_there_is_no_table_there_are_no_files(tmp_path):
    def none_there():
        return load_snapshot(str(tmp_path), LocalStore())

    assert not table_exists(str(tmp_path), PendingLog(LocalStore(), str(tmp_path), "it", none_there))


def test_the_log_is_only_read(path, log):
    assert log.pinned.version == 1
    with pytest.raises(OSError, match="only reads"):
        log.put(f"{path}/_delta_log/00000000000000000001.crc", b"")
    with pytest.raises(OSError, match="only reads"):
        log.delete(f"{path}/_delta_log/00000000000000000001.json")


def test_what_others_commit_later_is_not_shown(path, log):
    assert log.pinned.version == 1
    Statement(path, LocalStore()).add("theirs").commit()
    assert names(load_snapshot(path, log)) == {"one", "two"}
    Statement(path, log).add("mine").commit()
    assert names(load_snapshot(path, log)) == {"one", "two", "mine"}
    assert names(commit(log)) == {"one", "two", "mine", "theirs"}
