"""Each step of a commit fails; what is left is what the module promises."""

import logging
import os
import subprocess
import sys
import threading
from dataclasses import replace

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.log.snapshot import load_snapshot
from headwater.stores import LocalStore
from headwater.transaction import wait_for_maintenance
from support.commits import append, create
from support.processes import environment, python


class FaultyStore(LocalStore):
    """A local store that fails at commits, before or after doing what was asked."""

    def __init__(self, before=None, after=None, reading=None):
        self.before, self.after, self.reading = before, after, reading

    def put_if_absent(self, path, data):
        if path.endswith(".json") and self.before is not None:
            raise self.before
        super().put_if_absent(path, data)
        if path.endswith(".json") and self.after is not None:
            raise self.after

    def list_from(self, directory, start_name=""):
        if self.reading is not None:
            raise self.reading
        return super().list_from(directory, start_name)

    def following(self, paths):
        if self.reading is not None:
            raise self.reading
        return super().following(paths)


@pytest.fixture
def table(tmp_path):
    yield create(str(tmp_path / "t")).snapshot
    wait_for_maintenance()


def test_a_store_that_fails_leaves_the_table_as_it_was(table):
    with pytest.raises(OSError, match="disk full"):
        append(table, "a", store=FaultyStore(before=OSError("disk full")))
    assert load_snapshot(table.table_path, LocalStore()).version == 0


@pytest.mark.parametrize("answer", [OSError("connection reset"), FileExistsError("its own retry"), RuntimeError("?")])
def test_a_commit_that_is_there_stands_whatever_the_store_answered(table, answer):
    committed = append(table, "a", store=FaultyStore(after=answer))
    assert committed.version == 1
    newest = load_snapshot(table.table_path, LocalStore())
    assert (newest.version, newest.num_files) == (1, 1)


def test_a_failure_after_the_commit_does_not_fail_it(table, caplog):
    store = FaultyStore(reading=OSError("listing is down"))
    with caplog.at_level(logging.WARNING):
        committed = append(replace(table, store=store), "a")
    assert committed.version == 1
    assert committed.timestamp > 0
    assert "version 1 stands" in caplog.text
    store.reading = None
    assert committed.snapshot.num_files == 1


def test_failing_maintenance_is_a_line_in_the_log(table, caplog, monkeypatch):
    def fail(*_):
        raise OSError("no space for checksums")

    monkeypatch.setattr("headwater.transaction.maintenance.write_checksum", fail)
    with caplog.at_level(logging.WARNING):
        assert append(table, "a").version == 1
        assert wait_for_maintenance(60)
    assert "no space for checksums" in caplog.text
    assert append(table, "b").version == 2


def test_threads_lose_no_row(table):
    failures = []

    def write(name):
        try:
            for i in range(5):
                append(table, f"{name}-{i}")
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    newest = load_snapshot(table.table_path, LocalStore())
    assert (newest.version, newest.num_files) == (20, 20)


def test_processes_that_exclude_each_other_count_without_gap(table):
    """Each counts up by what it read, and commits only if nobody else did so since."""
    command = python("support.concurrency.counting", table.table_path)
    workers = [subprocess.Popen([*command, name, "3"], env=environment()) for name in ("a", "b")]
    assert [worker.wait(120) for worker in workers] == [0, 0]
    newest = load_snapshot(table.table_path, LocalStore())
    assert newest.set_transactions["counter"].version == 6
    assert newest.num_files == 6


class SilentStore(FaultyStore):
    """A store that does what it is asked, reports a failure, and then does not answer for some time."""

    def __init__(self, looks):
        super().__init__(after=OSError("connection reset"))
        self.looks = looks

    def read(self, path):
        if self.looks > 0:
            self.looks -= 1
            raise OSError("still down")
        return super().read(path)


def test_a_store_that_answers_in_the_end_tells_of_the_commit(table):
    assert append(table, "a", store=SilentStore(3)).version == 1


def test_an_unknown_outcome_is_said_to_be_unknown(table):
    with pytest.raises(HeadwaterError) as raised:
        append(table, "a", store=SilentStore(100))
    assert raised.value.condition == "HEADWATER_COMMIT_OUTCOME_UNKNOWN"
    assert f"{1:020d}.json" in raised.value.parameters["path"]
    there = load_snapshot(table.table_path, LocalStore()).commit_info
    assert there is not None
    assert raised.value.parameters["txnId"] == there["txnId"]
    for text in ("connection reset", "still down"):
        assert text in str(raised.value)


EXITING = """
import concurrent.futures.thread
import sys
import time

from headwater.protocol.actions import AddFile, Metadata, Protocol
from headwater.log.snapshot import load_snapshot
from headwater.stores import LocalStore
from headwater.transaction import Provenance, Transaction, maintenance, wait_for_maintenance

path, store = sys.argv[1], LocalStore()
schema = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'
txn = Transaction(path, store, None)
txn.update_protocol(Protocol(1, 2))
txn.update_metadata(Metadata("the-id", schema, (), {"delta.checkpointInterval": "1"}, created_time=1))
snapshot = txn.commit(Provenance("CREATE TABLE")).snapshot
for name in ("a", "b"):
    txn = Transaction(path, store, snapshot)
    stats = '{"numRecords":1,"minValues":{"id":1},"maxValues":{"id":2},"nullCount":{"id":0}}'
    txn.add([AddFile(name, {}, 1, 1), AddFile(name * 2, {}, 1, 1, stats=stats)])
    if name == "b":
        write = maintenance.write_checkpoint

        def write_late(*arguments, **named):
            while not concurrent.futures.thread._shutdown:
                time.sleep(0.01)
            write(*arguments, **named)

        maintenance.write_checkpoint = write_late
    txn.commit(Provenance("WRITE"))
    if name == "a":
        wait_for_maintenance()
        snapshot = load_snapshot(path, store)  # from the checkpoint
"""


def test_maintenance_is_done_while_the_process_ends(tmp_path):
    """The checkpoint is begun when the interpreter is shutting down, and starts no thread any more."""
    path = str(tmp_path / "t")
    done = subprocess.run(
        [sys.executable, "-c", EXITING, path], env=environment(), capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert os.path.exists(f"{path}/_delta_log/{2:020d}.checkpoint.parquet")
    assert load_snapshot(path, LocalStore()).segment.checkpoint.version == 2
