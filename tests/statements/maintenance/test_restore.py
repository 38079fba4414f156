"""RESTORE over real files, without Spark: the differences of two versions, races, and what goes on from now."""

from __future__ import annotations

import json
import random
from typing import Any

import pyarrow as pa
import pytest

from headwater.basics.errors import HeadwaterError
from headwater.log.files import keys_of, row_key
from headwater.log.snapshot import load_snapshot
from headwater.protocol.actions import AddFile, DeletionVector, RemoveFile
from headwater.statements.running.committing import removals
from headwater.statements.running.opening import open_snapshot
from headwater.transaction import Provenance, Transaction
from support.recording_statement import RecordingStatement
from support.requests import actions, called, create_request, create_table, schema_json

STATS = '{"numRecords":3}'


@pytest.fixture(params=["true", "false"], ids=["row tracking", "no row tracking"])
def table(tmp_path, statement, request):
    path = tmp_path / "a table"
    properties = {"delta.enableDeletionVectors": "true", "delta.enableRowTracking": request.param}
    create_table(create_request(path, schema_json(a="integer"), properties=properties), statement)
    return path


def file(path, name, vector=None):
    (path / name.replace("%20", " ")).touch()
    return AddFile(name, {}, 7, 5, True, STATS, deletion_vector=vector)


def commit(path, statement, adds=(), removes=()):
    snapshot = open_snapshot(str(path), statement)
    txn = Transaction(snapshot.table_path, snapshot.store, snapshot)
    txn.add(adds)
    txn.remove(RemoveFile(f.path, 1, True, size=7, deletion_vector=f.deletion_vector) for f in removes)
    txn.commit(Provenance("WRITE"))


def restore(path, statement, version):
    request = {"table": str(path), "name": "t", "arguments": {"version": str(version)}}
    return called("restore")(request, statement)["rows"][0]


def live(path, statement, version=None):
    return sorted(map(repr, map(row_key, open_snapshot(str(path), statement, version).files.to_pylist())))


def test_every_version_of_random_tables_comes_back(table, statement):
    drawn = random.Random(7)
    present: dict[Any, Any] = {}
    for number in range(12):
        adds, removes = [], []
        for name in [f"f%20{i}.parquet" for i in range(8)]:
            if drawn.random() < 0.4:
                old = present.pop(name, None)
                removes += [old] if old else []
                vector = DeletionVector("p", f"file:{table}/v{number}.bin", 4, 1, drawn.choice([None, 1, 9]))
                if drawn.random() < 0.7:
                    present[name] = file(table, name, drawn.choice([None, vector]))
                    adds.append(present[name])
        (table / f"v{number}.bin").touch()
        keep = [f for f in adds if f not in removes]
        commit(table, statement, keep, [f for f in removes if f not in adds])
    newest = open_snapshot(str(table), statement).version
    for version in drawn.sample(range(newest + 1), newest + 1):
        wanted = live(table, statement, version)
        answer = restore(table, statement, version)
        assert live(table, statement) == wanted
        assert answer["num_of_files_after_restore"] == len(wanted)
    assert open_snapshot(str(table), statement).version >= 2 * newest


def test_keys_are_those_of_single_rows(table, statement):
    vectors = [
        None,
        DeletionVector("p", "x", 4, 1, 0),
        DeletionVector("u", "y", 4, 1),
        DeletionVector("i", "z", 4, 1, 3),
    ]
    files = [file(table, f"{i}%20.parquet", v) for i, v in enumerate(vectors)]
    commit(table, statement, [*files, file(table, "plain.parquet")])
    found = open_snapshot(str(table), statement).files
    expected = [path if vector is None else f"{path}\0{vector}" for path, vector in map(row_key, found.to_pylist())]
    assert keys_of(found).to_pylist() == expected
    assert keys_of(found.slice(0, 1)).to_pylist() == expected[:1]


def test_what_others_commit_meanwhile_is_undone_too(table, statement):
    commit(table, statement, [file(table, "a.parquet")])
    commit(table, statement, [file(table, "b.parquet")])
    statement.before_commits = [lambda: commit(table, statement, [file(table, "c.parquet")])]
    answer = restore(table, statement, 1)
    assert (answer["num_removed_files"], answer["num_restored_files"]) == (2, 0)
    assert [add["path"] for add in open_snapshot(str(table), statement).files.to_pylist()] == ["a.parquet"]
    assert len(statement.begun) == 3  # the first made the table
    assert actions(table, 4, "commitInfo")[0]["isBlindAppend"] is False
    # What the call answers is known before the commit, for the case that its process dies.
    assert statement.begun[-1]["rows"] == [answer]


def test_nothing_is_committed_where_files_are_gone(table, statement):
    files = [file(table, f"f%20{i}.parquet") for i in range(15)]
    commit(table, statement, files)
    commit(table, statement, removes=files)
    for one in table.glob("f *.parquet"):
        one.unlink()
    with pytest.raises(HeadwaterError) as refused:
        restore(table, statement, 1)
    assert refused.value.condition == "HEADWATER_RESTORE_FILES_MISSING"
    assert refused.value.parameters["count"] == "15"
    assert refused.value.parameters["files"].endswith("and 5 more")
    assert open_snapshot(str(table), statement).version == 2


@pytest.mark.parametrize("table", ["true"], indirect=True)
def test_row_ids_of_files_that_come_back_stay_theirs(table, statement):
    first = file(table, "a.parquet")
    commit(table, statement, [first])
    commit(table, statement, [file(table, "b.parquet")], [first])
    restore(table, statement, 1)
    (added,) = actions(table, 3, "add")
    assert (added["baseRowId"], added["defaultRowCommitVersion"]) == (0, 1)
    commit(table, statement, [file(table, "c.parquet")])
    assert actions(table, 4, "add")[0]["baseRowId"] == 6


def drawn_files(drawn, letter, count):
    """Files of partitions with everything that an ``add`` may have."""
    found = []
    control = drawn.choice(["", "\x01\n"])
    for number in range(count):
        values = {"p": drawn.choice(["a", "b c", None]), "q": drawn.choice(["1", None])}
        name = f"{drawn.choice(['', 'p=b%20c/', 'x/'])}{letter}{control}%25{number}.parquet"
        vector = drawn.choice([None, DeletionVector("u", "ab^-aqEH.-t@S}K{vb[*k^", 4, 1, drawn.choice([None, 1]))])
        tags = drawn.choice([None, {}, {"ZCUBE_ID": "x", "odd": "\u00fc"}])
        stats = drawn.choice([None, STATS, '{"numRecords":3,"minValues":{"a":"\\"\u00fc"}}'])
        more = {"clustering_provider": drawn.choice([None, "liquid"])}
        found.append(AddFile(name, values, 7, number, True, stats, tags, vector, **more))
    return found


@pytest.mark.parametrize("seed", range(6))
def test_in_bulk_and_one_by_one_are_the_same(tmp_path, seed, monkeypatch):
    """The commit, the snapshot that follows from it without reading it, and the one that is read."""
    statement = RecordingStatement({"spark.sql.files.ignoreMissingFiles": "true"})
    monkeypatch.setattr("headwater.basics.clock.milliseconds", lambda: 1_700_000_000_000)
    commits, states, partitions = [], [], []
    for bulk in (True, False):
        drawn, path = random.Random(seed), tmp_path / str(bulk)
        schema = schema_json(a="integer", p="string", q="string")
        properties = {"delta.enableDeletionVectors": "true"}
        by = ["p", "q"]
        request = create_request(path, schema, properties=properties, partitionColumns=by)
        create_table({**request, "partitioning": by}, statement)
        first, second = drawn_files(drawn, "f", 30), drawn_files(drawn, "g", 20)
        commit(path, statement, first)
        snapshot = open_snapshot(str(path), statement)
        txn = Transaction(snapshot.table_path, snapshot.store, snapshot)
        txn.remove(removals(snapshot.files.slice(seed)))
        txn.add(second)
        txn.commit(Provenance("WRITE"))
        if not bulk:
            monkeypatch.setattr(Transaction, "takes_bulk", False)
        changed = set[str]()
        monkeypatch.setattr(
            "headwater.statements.running.committing.keep_up",
            lambda txn, _, found=changed: found.update(map(repr, map(sorted, map(dict.items, txn.partitions_changed)))),
        )
        restore(path, statement, 1)
        partitions.append(changed)
        known = open_snapshot(str(path), statement)
        read = load_snapshot(str(path), known.store)
        assert (known.version, known.num_files, known.size_in_bytes) == (3, 30, 210)
        assert known.files.to_pylist() == read.files.to_pylist()
        assert known.tombstones().to_pylist() == read.tombstones().to_pylist()
        assert known.commit_info == read.commit_info
        log = (path / f"_delta_log/{3:020d}.json").read_text()
        (info,) = actions(path, 3, "commitInfo")
        commits.append(log.replace(info["txnId"], "").replace(json.dumps(str(path)), ""))
        states.append(sorted(map(repr, read.files.to_pylist())))
        monkeypatch.undo()
        monkeypatch.setattr("headwater.basics.clock.milliseconds", lambda: 1_700_000_000_000)
    assert commits[0] == commits[1]
    assert states[0] == states[1]
    assert partitions[0] == partitions[1] != set()


def test_a_commit_in_bulk_is_checked(table, statement):
    commit(table, statement, [file(table, "a.parquet")])
    snapshot = open_snapshot(str(table), statement)
    other = snapshot.files.set_column(
        1, "partition_values", pa.array([[("p", "1")]], pa.map_(pa.string(), pa.string()))
    )
    for removed, added, reason in (
        (snapshot.files, snapshot.files, "a.parquet twice"),
        (snapshot.files.slice(1), other, "no column"),
    ):
        txn = Transaction(snapshot.table_path, snapshot.store, snapshot)
        txn.follow_directly()
        if not txn.takes_bulk:
            return
        txn.replace(removed, added)
        with pytest.raises(HeadwaterError, match=reason):
            txn.commit(Provenance("WRITE"))
