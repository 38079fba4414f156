"""Rows that are deleted while a compaction moves them, in any order, against a model: the log without data files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64

from headwater.basics.errors import HeadwaterError
from headwater.log import deletion_vectors
from headwater.log.commits import parse_actions
from headwater.log.files import file_of, vector_of
from headwater.log.snapshot import Snapshot, load_snapshot
from headwater.protocol.actions import AddFile, Protocol, RemoveFile
from headwater.statements.running.committing import removals
from headwater.transaction import Provenance, Transaction
from headwater.transaction.conflicts import WinningCommit, file_key
from headwater.transaction.moved_rows import FIELD, Copy, places
from headwater.transaction.row_level import Mark, marked_file
from support.commits import create
from support.predicate_text import parse_predicate
from support.stores.memory_store import MemoryStore

_VECTORS = Protocol(3, 7, frozenset({"deletionVectors"}), frozenset({"deletionVectors"}))
PATH = "/table"


def _file(path: str, rows: int) -> AddFile:
    return AddFile(path, {}, 100, 1, True, json.dumps({"numRecords": rows}))


@dataclass
class _Table:
    """A table whose files hold numbers: what each holds is known here, and what is deleted only from the log."""

    store: MemoryStore = field(default_factory=MemoryStore)
    held: dict[str, list[int]] = field(default_factory=dict)
    rows: int = 0

    def begin(self, files: Sequence[int], vectors: bool = True) -> None:
        """Create it with files of so many rows."""
        create(PATH, store=self.store, protocol=_VECTORS, delta_enableDeletionVectors=str(vectors).lower())
        txn = Transaction(PATH, self.store, self.snapshot())
        for number, count in enumerate(files):
            path = f"{number}.parquet"
            self.held[path] = list(range(self.rows, self.rows + count))
            self.rows += count
            txn.add([_file(path, count)])
        txn.commit(Provenance("WRITE"))

    def snapshot(self) -> Snapshot:
        return load_snapshot(PATH, self.store)

    def check_removals(self) -> None:
        """Each commit removes files that are there: others count what a commit removes, and would count them twice."""
        live: set[tuple[str, str | None]] = set()
        for version in range(self.snapshot().version + 1):
            path = f"{PATH}/_delta_log/{version:020}.json"
            commit = WinningCommit.of_actions(version, parse_actions(self.store.read(path), path))
            removed = [file_key(file.path, file.deletion_vector) for file in commit.removes]
            assert live.issuperset(removed)
            live = live.difference(removed) | {file_key(file.path, file.deletion_vector) for file in commit.adds}

    def live(self, snapshot: Snapshot) -> dict[str, list[tuple[int, int]]]:
        """The rows of each live file that are not deleted, as (position, number)."""
        found = {}
        for row in snapshot.files.to_pylist():
            vector = vector_of(row["deletion_vector"])
            gone = deletion_vectors.read(vector, PATH, self.store) if vector else BitMap64()
            held = self.held[row["path"]]
            assert not gone or max(gone) < len(held)
            found[row["path"]] = [(p, number) for p, number in enumerate(held) if p not in gone]
        return found

    def numbers(self) -> list[int]:
        return sorted(number for rows in self.live(self.snapshot()).values() for _, number in rows)

    def delete(self, numbers: Iterable[int]) -> Transaction:
        """A DELETE of some numbers that has read the newest version and is about to commit."""
        snapshot, wanted = self.snapshot(), set(numbers)
        txn = Transaction(PATH, self.store, snapshot)
        txn.read_where([parse_predicate("id = 1")])
        live = self.live(snapshot)
        for row in snapshot.files.to_pylist():
            positions = BitMap64([p for p, number in live[row["path"]] if number in wanted])
            files = snapshot.files.filter([path == row["path"] for path in snapshot.files["path"].to_pylist()])
            (tombstone,) = removals(files)
            if positions and len(positions) == len(live[row["path"]]):
                txn.remove([tombstone])
            elif positions:
                old = tombstone.deletion_vector
                gone = positions | (deletion_vectors.read(old, PATH, self.store) if old else BitMap64())
                (vector,) = deletion_vectors.write_file([gone], PATH, self.store)
                rows = len(self.held[row["path"]])
                add = replace(marked_file(file_of(row), vector, rows), data_change=True)
                txn.mark(Mark(tombstone, add, positions, rows))
        return txn

    def compact(self, some: Sequence[int], name: str) -> Transaction | None:
        """A compaction of some files, by their place in the newest version, that is about to commit."""
        snapshot = self.snapshot()
        if not snapshot.num_files or not some:
            return None
        files = snapshot.files.take(sorted({place % snapshot.num_files for place in some}))
        live = [self.live(snapshot)[path] for path in files["path"].to_pylist()]
        self.held[name] = [number for rows in live for _, number in rows]
        outputs = [replace(_file(name, len(self.held[name])), data_change=False)] if self.held[name] else []
        txn = Transaction(PATH, self.store, snapshot)
        txn.move([Copy(removals(files, data_change=False), list(map(len, live)), outputs)])
        return txn


@pytest.fixture
def table() -> _Table:
    made = _Table()
    made.begin([5, 5, 5])
    return made


def _compaction(table: _Table, *some: int, name: str = "all.parquet") -> Transaction:
    found = table.compact(some or (0, 1, 2), name)
    assert found is not None
    return found


def test_a_compaction_takes_along_what_was_deleted(table) -> None:
    compaction = _compaction(table)
    table.delete([1, 7]).commit(Provenance("DELETE"))
    table.delete([2]).commit(Provenance("DELETE"))
    table.delete(range(10, 15)).commit(Provenance("DELETE"))
    compaction.commit(Provenance("OPTIMIZE"))
    assert list(table.live(table.snapshot())) == ["all.parquet"]
    assert table.numbers() == [0, 3, 4, 5, 6, 8, 9]
    table.check_removals()


def test_a_delete_follows_rows_that_were_moved(table) -> None:
    table.delete([0, 6]).commit(Provenance("DELETE"))
    deletes = [table.delete([4, 9]), table.delete(range(10, 15)), table.delete([1])]
    _compaction(table).commit(Provenance("OPTIMIZE"))
    for each in deletes:
        each.commit(Provenance("DELETE"))
    assert list(table.live(table.snapshot())) == ["all.parquet"]
    assert table.numbers() == [2, 3, 5, 7, 8]


def test_marks_go_where_a_compaction_took_other_marks(table) -> None:
    early, earlier, compaction = table.delete([3, 12]), table.delete([4, 13]), _compaction(table)
    table.delete([1, 11]).commit(Provenance("DELETE"))
    compaction.commit(Provenance("OPTIMIZE"))
    early.commit(Provenance("DELETE"))
    table.delete([2]).commit(Provenance("DELETE"))
    earlier.commit(Provenance("DELETE"))
    assert list(table.live(table.snapshot())) == ["all.parquet"]
    assert table.numbers() == [0, *range(5, 11), 14]


def test_all_rows_of_a_copy_are_deleted(table) -> None:
    compaction = _compaction(table, 0, 1)
    table.delete(range(5)).commit(Provenance("DELETE"))
    table.delete(range(5, 10)).commit(Provenance("DELETE"))
    compaction.commit(Provenance("OPTIMIZE"))
    assert table.numbers() == list(range(10, 15))
    assert list(table.live(table.snapshot())) == ["2.parquet"]
    assert [file.path for file in compaction.given_up] == ["all.parquet"]


def test_a_delete_follows_a_compaction_whose_input_was_removed_whole(table) -> None:
    """The compaction is made all the same, without that input's rows, and says where the other rows are."""
    compaction = _compaction(table)
    table.delete(range(5)).commit(Provenance("DELETE"))
    last, middle = table.delete(range(10, 15)), table.delete([6, 7])
    compaction.commit(Provenance("OPTIMIZE"))
    last.commit(Provenance("DELETE"))
    middle.commit(Provenance("DELETE"))
    assert list(table.live(table.snapshot())) == ["all.parquet"]
    assert table.numbers() == [5, 8, 9]
    table.check_removals()


def test_the_same_row_is_still_a_conflict(table) -> None:
    one, other = table.delete([1, 2]), table.delete([2])
    _compaction(table).commit(Provenance("OPTIMIZE"))
    one.commit(Provenance("DELETE"))
    with pytest.raises(HeadwaterError, match="DELTA_CONCURRENT_DELETE"):
        other.commit(Provenance("DELETE"))
    assert table.numbers() == [0, *range(3, 15)]


def test_two_compactions_of_one_file(table) -> None:
    one, other = _compaction(table, 0, 1), _compaction(table, 1, 2, name="other.parquet")
    third = _compaction(table, 2, name="third.parquet")
    third.move(_compaction(table, 0, name="fourth.parquet").moved)
    one.commit(Provenance("OPTIMIZE"))
    with pytest.raises(HeadwaterError, match="DELTA_CONCURRENT_DELETE_DELETE"):
        other.commit(Provenance("OPTIMIZE"))
    # The copy whose input is still there is made; the other is given up.
    third.commit(Provenance("OPTIMIZE"))
    assert sorted(table.live(table.snapshot())) == ["all.parquet", "third.parquet"]
    assert table.numbers() == list(range(15))


def test_without_deletion_vectors_the_loser_gives_up_or_runs_again() -> None:
    table = _Table()
    table.begin([2, 2, 2], vectors=False)
    compaction, delete = _compaction(table, 0, 1), table.delete([0, 1])
    other = _compaction(table, 2, name="other.parquet")
    other.move(_compaction(table, 0, 1, name="both.parquet").moved)
    delete.commit(Provenance("DELETE"))
    with pytest.raises(HeadwaterError, match="DELTA_CONCURRENT_DELETE_DELETE"):
        compaction.commit(Provenance("OPTIMIZE"))
    other.commit(Provenance("OPTIMIZE"))
    assert sorted(table.live(table.snapshot())) == ["1.parquet", "other.parquet"]
    assert table.numbers() == [2, 3, 4, 5]


def test_a_file_that_came_back(table) -> None:
    """A RESTORE brings a file back after the compaction took its rows for deleted."""
    compaction = _compaction(table)
    before = table.snapshot()
    table.delete(range(5)).commit(Provenance("DELETE"))
    restore = Transaction(PATH, table.store, table.snapshot())
    restore.add([replace(file_of(before.files.to_pylist()[0]), data_change=True)])
    restore.commit(Provenance("RESTORE"))
    with pytest.raises(HeadwaterError, match="DELTA_CONCURRENT_DELETE_DELETE"):
        compaction.commit(Provenance("OPTIMIZE"))
    assert table.numbers() == list(range(15))


def test_rows_that_came_back(table) -> None:
    """A RESTORE takes a deletion vector back, of whose rows the compaction has none."""
    before = table.snapshot()
    table.delete([1]).commit(Provenance("DELETE"))
    compaction = _compaction(table)
    restore = Transaction(PATH, table.store, table.snapshot())
    old = before.files.to_pylist()[0]
    marked = table.snapshot().files.filter([path == old["path"] for path in table.snapshot().files["path"].to_pylist()])
    restore.remove(removals(marked))
    restore.add([replace(file_of(old), data_change=True)])
    restore.commit(Provenance("RESTORE"))
    with pytest.raises(HeadwaterError, match="DELTA_CONCURRENT_DELETE_DELETE"):
        compaction.commit(Provenance("OPTIMIZE"))
    assert table.numbers() == list(range(15))


def test_a_removal_of_another_state_of_the_file(table) -> None:
    """What a winner removed is not what the compaction read: nothing is to be guessed."""
    stale = removals(table.snapshot().files)[0]
    table.delete([1]).commit(Provenance("DELETE"))
    compaction = _compaction(table)
    winner = Transaction(PATH, table.store, table.snapshot())
    winner.remove([stale])
    winner.commit(Provenance("DELETE"))
    with pytest.raises(HeadwaterError, match="DELTA_CONCURRENT_DELETE_DELETE"):
        compaction.commit(Provenance("OPTIMIZE"))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda record: record.update(add=1),
        lambda record: record.update(firstRemove=1),
        lambda record: record.update(rows=[5, 5, 4]),
        lambda record: record.update(rows=[20, 5, -10]),
        lambda record: record.update(rows="many"),
        lambda record: record.update(vectors={"0": {"storageType": 3}}),
        lambda record: record.update(taken=[0, 0]),
        lambda record: record.update(taken=[3]),
        lambda record: record.update(taken=[-1]),
        lambda record: record.update(more=True),
        lambda record: record.clear(),
    ],
)
def test_a_record_that_does_not_fit_is_none(table, spoil) -> None:
    version = _compaction(table).commit(Provenance("OPTIMIZE")).version
    path = f"{PATH}/_delta_log/{version:020}.json"
    winner = WinningCommit.of_actions(version, parse_actions(table.store.read(path), path))
    assert set(places(winner)) == {"0.parquet", "1.parquet", "2.parquet"}
    (record,) = winner.commit_info[FIELD]
    spoil(record)
    assert places(winner) == {}


#: All rows of a file, often.
_RANGES = st.builds(lambda start, count: set(range(start, start + count)), st.integers(0, 14), st.integers(2, 6))
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("delete"), _RANGES),
        st.tuples(st.just("delete"), st.sets(st.integers(0, 19), min_size=1, max_size=6)),
        st.tuples(st.just("compact"), st.lists(st.integers(0, 9), min_size=1, max_size=4)),
        st.tuples(st.just("commit"), st.integers(0, 9)),
    ),
    max_size=14,
)


@settings(deadline=None)
@example(
    files=[1, 1],
    steps=[("delete", {1, 2}), ("compact", [0, 1]), ("commit", 0), ("delete", {0, 1})],
)  # a compaction's input is removed whole before it commits, and another input after it was read
@example(
    files=[1, 1, 1],
    steps=[("delete", {0, 1}), ("compact", [0, 2]), ("commit", 0), ("delete", {0, 1, 2})],
)  # the same, where the input that is gone is the first
@given(files=st.lists(st.integers(1, 6), min_size=1, max_size=5), steps=_STEPS)
def test_no_row_is_lost_or_comes_back(files: list[int], steps: list[tuple[str, object]]) -> None:
    table = _Table()
    table.begin(files)
    model = set(range(table.rows))
    running: list[tuple[str, Transaction, frozenset[int], int]] = []
    #: What committed, with its version: the kind, and the rows it deleted.
    done: list[tuple[int, str, frozenset[int]]] = []

    def commit(place: int) -> None:
        kind, txn, numbers, began = running.pop(place)
        if not txn.has_changes:
            return
        meanwhile = [each for each in done if each[0] > began]
        try:
            version = txn.commit(Provenance(kind)).version
        except HeadwaterError as error:
            # A delete loses to a delete alone, and a compaction to a compaction.
            if not error.condition.startswith("DELTA_CONCURRENT_DELETE") or kind not in {k for _, k, _ in meanwhile}:
                raise
            return
        if kind == "delete":
            assert not any(numbers & others for _, _, others in meanwhile), "a row was deleted twice"
            model.difference_update(numbers)
        done.append((version, kind, numbers))

    for number, (step, value) in enumerate(steps):
        if step == "delete":
            assert isinstance(value, set)
            txn: Transaction | None = table.delete(value)
            numbers = frozenset(value) & frozenset(table.numbers())
        elif step == "compact":
            assert isinstance(value, list)
            txn, numbers = table.compact(value, f"copy-{number}.parquet"), frozenset()
        elif running:
            assert isinstance(value, int)
            commit(value % len(running))
            assert table.numbers() == sorted(model)
            continue
        else:
            continue
        if txn is not None:
            running.append((step, txn, numbers, table.snapshot().version))
    while running:
        commit(0)
        assert table.numbers() == sorted(model)
    table.check_removals()


def test_what_a_removal_without_change_of_data_took_is_a_conflict(table) -> None:
    """A rewrite has the rows elsewhere: to mark them in the compaction's copy would be a change of data."""
    rewrite = Transaction(PATH, table.store, table.snapshot())
    (tombstone, *_) = removals(table.snapshot().files, data_change=False)
    assert isinstance(tombstone, RemoveFile)
    rewrite.remove([tombstone])
    _compaction(table).commit(Provenance("OPTIMIZE"))
    with pytest.raises(HeadwaterError, match="DELTA_CONCURRENT_DELETE_DELETE"):
        rewrite.commit(Provenance("REORG"))
