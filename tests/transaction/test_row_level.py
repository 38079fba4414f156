"""Two writers that mark rows of one file deleted."""

from __future__ import annotations

import pytest
from pyroaring import BitMap64

from headwater.basics.errors import HeadwaterError
from headwater.log import deletion_vectors
from headwater.log.snapshot import Snapshot
from headwater.protocol.actions import DeletionVector, Protocol, RemoveFile
from headwater.transaction import Provenance, Transaction
from headwater.transaction.row_level import Mark
from support.commits import add_file, append, create, newest
from support.predicate_text import parse_predicate

_VECTORS = Protocol(3, 7, frozenset({"deletionVectors"}), frozenset({"deletionVectors"}))


@pytest.fixture
def snapshot(tmp_path) -> Snapshot:
    """A table with one file of ten rows."""
    created = create(str(tmp_path / "t"), protocol=_VECTORS, delta_enableDeletionVectors="true")
    return append(created.snapshot, "a.parquet").snapshot


def marking(snapshot: Snapshot, *positions: int, predicate: str | None = None) -> Transaction:
    """A transaction that marks rows of the one file."""
    txn = Transaction(snapshot.table_path, snapshot.store, snapshot)
    before = vector(snapshot)
    known = rows_gone(snapshot)
    (written,) = deletion_vectors.write_file([known | BitMap64(positions)], snapshot.table_path, snapshot.store)
    file = add_file("a.parquet")
    remove = RemoveFile("a.parquet", 2, True, True, {}, 100, deletion_vector=before)
    add = type(file)(**{**file.__dict__, "deletion_vector": written})
    txn.read_where([parse_predicate(predicate or "id = 1")])
    txn.mark(Mark(remove, add, BitMap64(positions), 10))
    return txn


def vector(snapshot: Snapshot) -> DeletionVector | None:
    rows = snapshot.files.to_pylist()
    value = next(row["deletion_vector"] for row in rows if row["path"] == "a.parquet")
    if value is None:
        return None
    return DeletionVector(
        value["storage_type"], value["path_or_inline"], value["size"], value["cardinality"], value["offset"]
    )


def rows_gone(snapshot: Snapshot) -> BitMap64:
    found = vector(snapshot)
    return deletion_vectors.read(found, snapshot.table_path, snapshot.store) if found else BitMap64()


def test_other_rows_of_one_file_both_go(snapshot):
    transactions = [marking(snapshot, 1), marking(snapshot, 4, 5), marking(snapshot, 9)]
    versions = [txn.commit(Provenance("DELETE")).version for txn in transactions]
    assert versions == [2, 3, 4]
    assert list(rows_gone(newest(snapshot))) == [1, 4, 5, 9]
    assert newest(snapshot).num_files == 1


def test_marks_add_to_those_both_knew(snapshot):
    known = marking(snapshot, 0, 2).commit(Provenance("DELETE")).snapshot
    one, other = marking(known, 1), marking(known, 3)
    one.commit(Provenance("DELETE"))
    other.commit(Provenance("DELETE"))
    assert list(rows_gone(newest(snapshot))) == [0, 1, 2, 3]


def test_the_same_row_is_a_conflict(snapshot):
    one, other = marking(snapshot, 1, 2), marking(snapshot, 2, 3)
    one.commit(Provenance("DELETE"))
    with pytest.raises(HeadwaterError) as failed:
        other.commit(Provenance("DELETE"))
    assert failed.value.condition in ("DELTA_CONCURRENT_DELETE_DELETE", "DELTA_CONCURRENT_DELETE_READ")
    assert list(rows_gone(newest(snapshot))) == [1, 2]


def test_a_file_both_empty_goes(snapshot):
    one, other = marking(snapshot, 0, 1, 2, 3, 4), marking(snapshot, 5, 6, 7, 8, 9)
    one.commit(Provenance("DELETE"))
    other.commit(Provenance("DELETE"))
    assert newest(snapshot).num_files == 0


def test_a_file_written_anew_is_a_conflict(snapshot):
    marker = marking(snapshot, 1)
    rewriter = Transaction(snapshot.table_path, snapshot.store, snapshot)
    rewriter.remove([RemoveFile("a.parquet", 2, True, True, {}, 100)])
    rewriter.add([add_file("b.parquet")])
    rewriter.commit(Provenance("UPDATE"))
    with pytest.raises(HeadwaterError) as failed:
        marker.commit(Provenance("DELETE"))
    assert failed.value.condition == "DELTA_CONCURRENT_APPEND"


def test_rows_that_came_meanwhile_still_matter(snapshot):
    """The winner marks another row, and brings one that the loser's condition would have found."""
    winner, loser = marking(snapshot, 1), marking(snapshot, 4, predicate="id = 5")
    winner.add([add_file("new.parquet", low=5, high=5)])
    winner.commit(Provenance("UPDATE"))
    with pytest.raises(HeadwaterError) as failed:
        loser.commit(Provenance("DELETE"))
    assert failed.value.condition == "DELTA_CONCURRENT_APPEND"


def test_rows_that_came_elsewhere_do_not(snapshot):
    winner, loser = marking(snapshot, 1), marking(snapshot, 4, predicate="id = 5")
    winner.add([add_file("new.parquet", low=7, high=8)])
    winner.commit(Provenance("UPDATE"))
    loser.commit(Provenance("DELETE"))
    assert list(rows_gone(newest(snapshot))) == [1, 4]
