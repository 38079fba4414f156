"""CREATE TABLE in transactions, without Spark: nothing is there before COMMIT, and nothing after ROLLBACK."""

from __future__ import annotations

import os
from functools import partial

import pyarrow as pa
import pytest

from headwater.basics import clock
from headwater.basics.errors import HeadwaterError
from headwater.bridge.messages.define import (
    CreatedTable,
    CreatedTableRequest,
    CreateTableRequest,
)
from headwater.bridge.messages.failures import BegunCommit, RecoverCommitRequest
from headwater.groups.settling import SETTLER
from headwater.log.commits import parse_actions
from headwater.log.groups import settle_by
from headwater.log.snapshot import load_snapshot, table_exists
from headwater.protocol.actions import AddCDCFile
from headwater.protocol.file_names import commit_name
from headwater.protocol.types import schema_string
from headwater.statements.running.committing import commit, removals, transaction
from headwater.statements.running.created_tables import created_table
from headwater.statements.running.opening import open_snapshot
from headwater.statements.running.recovery import recover_commit
from headwater.statements.tables.create import create_table
from headwater.stores import LocalStore
from headwater.transaction import wait_for_maintenance
from headwater.transaction.commit_info import Provenance
from support import transactions
from support.commits import SCHEMA, add_file
from support.recording_statement import RecordingStatement
from support.transactions import condition_of

STORE = LocalStore()


@pytest.fixture(autouse=True)
def done():
    settle_by(SETTLER)  # as the handler does
    yield
    assert wait_for_maintenance(60)


class Session(transactions.Session):
    """One that creates tables, and writes the files that its statements add."""

    def create(self, path, name=None, mode="create", **properties):
        request = CreateTableRequest(
            table=str(path),
            name=name,
            identifier=name.split(".") if name else [],
            mode=mode,
            known=mode != "create",
            schema=schema_string(SCHEMA),
            partition_columns=[],
            properties={key.replace("_", "."): value for key, value in properties.items()},
        )
        return self.run(lambda statement: create_table(request, statement))

    def change(self, path, added=(), removed=(), changes=()):
        def change(statement):
            snapshot = open_snapshot(str(path), statement)
            txn = transaction(str(path), statement, snapshot)
            rows = snapshot.files
            txn.remove(
                removals(rows.filter(pa.array([name in removed for name in rows["path"].to_pylist()], pa.bool_())))
            )
            txn.add([add_file(name) for name in added])
            for name in changes:
                txn.add_action(AddCDCFile(path=name, partition_values={}, size=1))
            path.mkdir(exist_ok=True)
            for name in added:
                (path / name).write_text("rows")
            return commit(txn, statement, Provenance("UPDATE" if removed else "WRITE"))

        return self.run(change)

    def path_of(self, name) -> str | None:
        asked = CreatedTableRequest(identifier=name.split("."))
        return self.run(lambda statement: created_table(asked, statement)).table


@pytest.fixture
def old(tmp_path):
    path = tmp_path / "old"
    Session().create(path)
    return path


def test_a_created_table_is_there_for_its_transaction_and_after_commit_for_all(tmp_path, old):
    mine, other, path = Session(), Session(), tmp_path / "new"
    mine.begin()
    mine.create(path, "d.New")
    mine.change(path, ["1", "2"])
    mine.change(path, ["3"], ["1"])
    mine.change(old, ["4"])
    assert (mine.files(path), mine.path_of("D.new")) == ({"2", "3"}, str(path))
    assert (other.path_of("d.new"), mine.names) == (None, {})
    assert condition_of(lambda: other.files(path)).startswith("DELTA_")
    assert not (path / "_delta_log").exists()
    assert mine.commit().rows == [{"path": str(path), "version": 0}, {"path": str(old), "version": 1}]
    assert (other.files(path), other.files(old)) == ({"2", "3"}, {"4"})
    assert mine.names["d.New"].table == str(path)
    assert mine.path_of("d.new") is None
    done = parse_actions(STORE.read(f"{path}/_delta_log/{commit_name(0)}"), "it")
    assert [(is_add, file["path"]) for is_add, file in done.files] == [(True, "2"), (True, "3")]
    assert done.commit_info is not None
    assert done.commit_info["operation"] == "TRANSACTION"


def test_one_statement_that_creates_is_in_the_history_as_what_it_was(tmp_path):
    session = Session()
    session.begin()
    session.create(tmp_path / "new")
    session.commit()
    info = load_snapshot(str(tmp_path / "new"), STORE).commit_info
    assert info is not None
    assert info["operation"] == "CREATE TABLE"


@pytest.mark.parametrize("end", ["rollback", "idle", "conflict"])
def test_what_was_not_created_leaves_its_place_as_it_was(tmp_path, old, end, monkeypatch):
    session, path = Session(), tmp_path / "new"
    session.change(old, ["0"])
    session.begin()
    session.create(path, "d.new")
    session.change(path, ["1"])
    session.change(old, ["2"], ["0"])
    if end == "rollback":
        session.rollback()
    elif end == "idle":
        now = clock.milliseconds()
        monkeypatch.setattr(clock, "milliseconds", lambda: now + 3_601_000)
        assert condition_of(session.commit) == "HEADWATER_TRANSACTION_LOST"
    else:
        Session().change(old, ["3"], ["0"])
        assert condition_of(session.commit).startswith("DELTA_CONCURRENT_")
    assert not path.exists()
    assert session.names == {}
    assert session.create(path, "d.new").version == 0


def test_a_name_that_was_taken_ends_commit_before_anything_is_changed(tmp_path, old):
    session, path = Session(), tmp_path / "new"
    session.begin()
    session.create(path, "d.new")
    session.change(old, ["1"])
    session.names["d.new"] = CreatedTable(identifier=["d", "new"])
    assert condition_of(session.commit) == "HEADWATER_TRANSACTION_NAME_TAKEN"
    assert not table_exists(str(path), STORE)
    assert session.files(old) == set()


def test_a_place_that_was_taken_is_a_conflict(tmp_path, old):
    session, path = Session(), tmp_path / "new"
    session.begin()
    session.create(path, "d.new")
    session.change(old, ["1"])
    Session().create(path)
    assert condition_of(session.commit).startswith("DELTA_")
    assert (session.names, session.files(old)) == ({}, set())
    assert load_snapshot(str(path), STORE).version == 0


def test_where_the_catalog_takes_no_entry_the_error_says_how_to_name_the_tables(tmp_path, monkeypatch):
    session, path = Session(), tmp_path / "new"
    session.begin()
    session.create(path, "d.new")
    monkeypatch.setattr(RecordingStatement, "register_table", lambda *_: "the metastore is away")
    with pytest.raises(HeadwaterError) as caught:
        session.commit()
    assert caught.value.condition == "HEADWATER_TRANSACTION_NOT_REGISTERED"
    assert f"CREATE TABLE `d`.`new` USING delta LOCATION '{path}'" in str(caught.value)
    assert load_snapshot(str(path), STORE).version == 0
    assert not session.confs


def test_a_handler_that_dies_in_commit_is_followed_by_one_that_makes_the_entries(tmp_path):
    session, path = Session(), tmp_path / "new"
    session.begin()
    session.create(path, "d.new")
    session.commit()
    begun = RecoverCommitRequest(commit=BegunCommit(**{_snake(k): v for k, v in session.begun[-1].items()}))
    begun.commit.created = [CreatedTable(identifier=["d", "new"], table=str(path))]
    session.names.clear()
    session.run(lambda statement: recover_commit(begun, statement))
    assert session.names["d.new"].table == str(path)


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def test_what_would_not_be_a_new_table_is_refused(tmp_path, old, monkeypatch):
    session, path = Session(), tmp_path / "new"
    session.begin()
    session.create(path, "d.new")
    for mode in ("create", "replace", "create_or_replace"):
        for place in (old, path):
            assert condition_of(lambda place=place, mode=mode: session.create(place, "d.x", mode)) == (
                "HEADWATER_NOT_IN_TRANSACTION"
            )
    session.commit()
    assert set(session.names) == {"d.new"}
    session.begin()
    with monkeypatch.context() as patched:
        patched.setattr(LocalStore, "identity", "of options that the statement has for its table")
        by_name = partial(session.create, tmp_path / "reached", "d.reached")
        assert condition_of(by_name) == "HEADWATER_NOT_IN_TRANSACTION"
        session.create(tmp_path / "reached")  # by its path, each statement has them
    session.rollback()
    session.begin("serializable")
    assert condition_of(lambda: session.create(tmp_path / "other")) == "HEADWATER_NOT_IN_TRANSACTION"
    session.rollback()


def test_the_change_feed_of_a_created_table_is_its_rows(tmp_path):
    session, path = Session(), tmp_path / "new"
    session.begin()
    session.create(path, delta_enableChangeDataFeed="true")
    session.change(path, ["1"])
    session.change(path, ["2"], ["1"], changes=["_change_data/1"])
    session.commit()
    done = parse_actions(STORE.read(f"{path}/_delta_log/{commit_name(0)}"), "it")
    assert b'"cdc"' not in STORE.read(f"{path}/_delta_log/{commit_name(0)}")
    assert [file["path"] for is_add, file in done.files if is_add] == ["2"]


@pytest.mark.parametrize("others", [False, True])
def test_row_ids_of_rows_that_are_written_twice_stay(tmp_path, others):
    """A rewritten file has the ids of its rows in it: they are the ones that the commit gives, or it is a conflict."""
    session, path = Session(), tmp_path / "new"
    session.create(path, delta_enableRowTracking="true")
    session.change(path, ["0"])
    session.begin()
    session.change(path, ["1"])
    session.change(path, ["2"], ["1"])
    seen = session.run(lambda statement: open_snapshot(str(path), statement).files.select(IDS).to_pylist())
    assert [row["default_row_commit_version"] for row in seen] == [1, 2]
    if others:
        Session().change(path, ["3"])
        assert condition_of(session.commit) == "DELTA_METADATA_CHANGED"
        return
    session.commit()
    assert load_snapshot(str(path), STORE).files.select(IDS).to_pylist() == seen
    session.change(path, ["4"])
    bases = load_snapshot(str(path), STORE).files["base_row_id"].to_pylist()
    assert len(set(bases)) == 3
    assert max(bases) == bases[-1]


IDS = ["path", "base_row_id", "default_row_commit_version"]


def test_row_ids_of_rows_that_are_written_once_are_given_at_the_end(tmp_path):
    session, path = Session(), tmp_path / "new"
    session.create(path, delta_enableRowTracking="true")
    session.change(path, ["0"])
    session.begin()
    session.change(path, ["1"])
    session.change(path, ["2"], ["0"])
    Session().change(path, ["3"])
    session.commit()
    rows = load_snapshot(str(path), STORE).files.select(IDS).to_pylist()
    assert {row["path"]: row["default_row_commit_version"] for row in rows} == {"1": 3, "2": 3, "3": 2}
    assert len({row["base_row_id"] for row in rows}) == 3
    assert os.path.exists(f"{path}/1")
