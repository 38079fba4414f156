"""Row ids of the files that a commit adds: for the version that an attempt tries, above the mark of the winners."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from pyroaring import BitMap64

from headwater.basics.errors import HeadwaterError
from headwater.log import deletion_vectors
from headwater.log.snapshot import Snapshot
from headwater.protocol.actions import DomainMetadata, Protocol, RemoveFile
from headwater.protocol.row_tracking import DOMAIN, PRESERVED, with_column_names
from headwater.stores import LocalStore
from headwater.transaction import Provenance, Transaction, wait_for_maintenance
from headwater.transaction.row_level import Mark
from support.commits import add_file, append, create, metadata, newest
from support.predicate_text import parse_predicate
from support.requests import actions, log_of

SUPPORTED = Protocol(
    3, 7, frozenset({"deletionVectors"}), frozenset({"deletionVectors", "rowTracking", "domainMetadata"})
)
ENABLED = {"delta_enableRowTracking": "true", "delta_enableDeletionVectors": "true"}


@pytest.fixture
def path(tmp_path):
    yield str(tmp_path / "t")
    wait_for_maintenance()


def given(path, version):
    """The row ids and versions that a commit gave, by path; and its high-water mark."""
    files = {
        add["path"]: (add.get("baseRowId"), add.get("defaultRowCommitVersion")) for add in actions(path, version, "add")
    }
    marks = [json.loads(action["configuration"]) for action in actions(path, version, "domainMetadata")]
    return files, [mark["rowIdHighWaterMark"] for mark in marks]


def marking(snapshot: Snapshot, name: str, position: int) -> Transaction:
    row = next(row for row in snapshot.files.to_pylist() if row["path"] == name)
    txn = Transaction(snapshot.table_path, snapshot.store, snapshot)
    (vector,) = deletion_vectors.write_file([BitMap64([position])], snapshot.table_path, snapshot.store)
    ids = {"base_row_id": row["base_row_id"], "default_row_commit_version": row["default_row_commit_version"]}
    remove = RemoveFile(name, 2, True, True, {}, 100, **ids)
    txn.read_where([parse_predicate("id = 1")])
    txn.mark(Mark(remove, replace(add_file(name), deletion_vector=vector, **ids), BitMap64([position]), 10))
    return txn


def test_new_files_get_ids_above_the_mark(path):
    created = create(path, protocol=SUPPORTED, **ENABLED)
    second = append(created.snapshot, "a", "b")
    assert given(path, 1) == ({"a": (0, 1), "b": (10, 1)}, [19])
    append(second.snapshot, "c")
    assert given(path, 2) == ({"c": (20, 2)}, [29])
    assert log_of(path, 2)[0]["commitInfo"]["tags"] == {PRESERVED: "true"}
    rows = newest(path).files.select(["path", "base_row_id", "default_row_commit_version"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [("a", 0, 1), ("b", 10, 1), ("c", 20, 2)]


def test_a_lost_race_gives_them_again(path):
    snapshot = create(path, protocol=SUPPORTED, **ENABLED).snapshot
    late = Transaction(path, LocalStore(), snapshot)
    late.add([add_file("late")])
    append(append(snapshot, "a").snapshot, "b", "c")
    assert late.commit(Provenance("WRITE")).version == 3
    assert given(path, 3) == ({"late": (30, 3)}, [39])


def test_files_added_again_keep_theirs(path):
    snapshot = append(create(path, protocol=SUPPORTED, **ENABLED).snapshot, "a", "b").snapshot
    marking(snapshot, "b", 3).commit(Provenance("DELETE"))
    assert given(path, 2) == ({"b": (10, 1)}, [])
    (remove,) = actions(path, 2, "remove")
    assert (remove["baseRowId"], remove["defaultRowCommitVersion"]) == (10, 1)


def test_a_file_that_a_winner_gave_ids_keeps_those(path):
    plain = Protocol(3, 7, frozenset({"deletionVectors"}), frozenset({"deletionVectors"}))
    snapshot = append(create(path, protocol=plain, delta_enableDeletionVectors="true").snapshot, "a", "b").snapshot
    late = marking(snapshot, "b", 3)
    feature = Transaction(path, LocalStore(), snapshot)
    feature.update_protocol(SUPPORTED)
    feature.commit(Provenance("UPGRADE PROTOCOL"))
    backfill = Transaction(path, LocalStore(), newest(path))
    backfill.add_again([add_file("b", data_change=False), add_file("a", data_change=False)])
    backfill.commit(Provenance("ROW TRACKING BACKFILL"))
    assert given(path, 3) == ({"b": (0, 3), "a": (10, 3)}, [19])
    assert late.commit(Provenance("DELETE")).version == 4
    assert given(path, 4) == ({"b": (0, 3)}, [])


def test_a_file_that_is_gone_is_not_added_again(path):
    snapshot = append(create(path, protocol=SUPPORTED, **ENABLED).snapshot, "a", "b").snapshot
    late = Transaction(path, LocalStore(), snapshot)
    late.add_again([add_file("b", data_change=False)])
    append(snapshot, "c")
    marking(newest(path), "b", 3).commit(Provenance("DELETE"))
    with pytest.raises(HeadwaterError) as error:
        late.commit(Provenance("ROW TRACKING BACKFILL"))
    assert error.value.condition == "DELTA_CONCURRENT_DELETE_DELETE"


def test_suspended_tables_get_none(path):
    snapshot = create(path, protocol=SUPPORTED, delta_rowTrackingSuspended="true").snapshot
    append(snapshot, "a")
    assert given(path, 1) == ({"a": (None, None)}, [])
    assert "tags" not in log_of(path, 1)[0]["commitInfo"]


def test_rows_rewritten_while_a_winner_enabled_it_are_not_preserved(path):
    snapshot = append(create(path, protocol=SUPPORTED).snapshot, "a", "b").snapshot
    late = Transaction(path, LocalStore(), snapshot)
    late.remove([RemoveFile("a", 2, True, True, {}, 100)])
    late.add([add_file("rewritten")])
    enabling = Transaction(path, LocalStore(), snapshot)
    configuration = with_column_names({"delta.enableRowTracking": "true"})
    enabling.update_metadata(replace(metadata(), configuration=configuration))
    enabling.commit(Provenance("SET TBLPROPERTIES"))
    late.commit(Provenance("UPDATE"))
    assert given(path, 3) == ({"rewritten": (20, 3)}, [29])
    assert log_of(path, 3)[0]["commitInfo"]["tags"] == {PRESERVED: "false"}


def test_a_mark_that_is_none_is_refused_before_anything_is_written(path):
    snapshot = create(path, protocol=SUPPORTED, **ENABLED).snapshot
    broken = Transaction(path, LocalStore(), snapshot)
    broken.add_action(DomainMetadata(DOMAIN, "{}"))
    snapshot = broken.commit(Provenance("BREAK")).snapshot
    with pytest.raises(HeadwaterError) as error:
        append(snapshot, "a")
    assert error.value.condition == "HEADWATER_ROW_ID_MARK_UNREADABLE"


def test_row_counts_come_from_the_footer_where_statistics_lack_them(path, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    snapshot = create(path, protocol=SUPPORTED, **ENABLED).snapshot
    pq.write_table(pa.table({"id": pa.array(range(7))}), f"{path}/a")
    size = (tmp_path / "t" / "a").stat().st_size
    txn = Transaction(path, LocalStore(), snapshot)
    txn.add([replace(add_file("a"), stats=None, size=size), add_file("b")])
    txn.commit(Provenance("WRITE"))
    assert given(path, 1) == ({"a": (0, 1), "b": (7, 1)}, [16])
