"""The commit of a statement with rows for another table: both tables have it or none, whatever fails at whichever step.

The usual case is a quarantine table (``headwater.statements.files.quarantine``).
"""

from __future__ import annotations

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.groups.pending import PendingLog
from headwater.log.snapshot import load_snapshot
from headwater.statements.running.committing import Application, commit
from headwater.transaction import Provenance, Transaction, wait_for_maintenance
from headwater.transaction.transaction import Beside
from support.commits import add_file
from support.faults.faulty_store import WRITE_FAULTS, Crash, Fault, FaultyStore, allowed
from support.recording_statement import RecordingStatement
from support.table_groups import append, files, hasten, raw, tables

TABLE, OTHER = "/b", "/a"
USUAL = (Fault.FAIL_BEFORE, Fault.FAIL_AFTER, Fault.LATE, Fault.CRASH_AFTER)
FAULTS = [
    pytest.param(fault, id=fault.name, marks=() if fault in USUAL else pytest.mark.soak)
    for fault in WRITE_FAULTS
    if fault is not Fault.DELAY
]
UNKNOWN = ("HEADWATER_COMMIT_OUTCOME_UNKNOWN", "HEADWATER_TRANSACTION_OUTCOME_UNKNOWN")


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    hasten(monkeypatch)
    yield
    assert wait_for_maintenance(60)


def _transaction(path, store):
    txn = Transaction(path, store, load_snapshot(path, store))
    txn.add([add_file("new")])
    return txn


def _commit(store, other_store=None, tidied=None):
    txn, other = _transaction(TABLE, store), _transaction(OTHER, other_store or store)
    txn.beside = Beside(other, Provenance("WRITE"), lambda: tidied.append(True) if tidied is not None else None)
    txn.metrics = {"numRowsQuarantinedByExpectations": 3}
    statement = RecordingStatement()
    return lambda: commit(txn, statement, Provenance("MERGE"), [1], application=Application("app", 7)), statement


def _outcome(do):
    try:
        do()
    except Crash:
        return "dead"
    except HeadwaterError as error:
        return "unknown" if error.condition in UNKNOWN else "failed"
    except OSError:
        return "failed"
    return "done"


def test_what_both_commits_say():
    store = tables(TABLE, OTHER)
    tidied: list[bool] = []
    do, statement = _commit(store, tidied=tidied)
    assert (do().version, tidied) == (1, [True])
    assert files(TABLE, store) == files(OTHER, store) == {"0", "new"}
    snapshot = load_snapshot(TABLE, store)
    assert snapshot.set_transactions["app"].version == 7
    assert not load_snapshot(OTHER, store).set_transactions
    # The JVM looks for the commit that is put first, of whichever table.
    assert [begun["table"] for begun in statement.begun] == [OTHER]


@pytest.mark.parametrize("fault", FAULTS)
def test_whatever_fails_both_are_changed_or_none(fault):
    measured = FaultyStore(tables(TABLE, OTHER))
    do, _ = _commit(measured)
    measured.calls.clear()
    do()
    for at in range(len(measured.calls)):
        inner = tables(TABLE, OTHER)
        tidied: list[bool] = []
        store = FaultyStore(inner, -1, fault, lambda: None)
        do, _ = _commit(store, tidied=tidied)
        store.calls.clear()
        store._at = at
        reported = _outcome(do)
        call = store.calls[at] if at < len(store.calls) else None
        store.settle()
        if call is None or not allowed(call, fault):
            continue
        shown = {"new" in files(path, inner) for path in (OTHER, TABLE, OTHER)}
        assert len(shown) == 1 or reported == "dead", (at, call)
        (after,) = {"new" in files(path, inner) for path in (OTHER, TABLE)}
        assert after or reported != "done", (at, call)
        assert not after or reported != "failed", (at, call)
        # Staged rows are deleted only once they are in the other table.
        assert after or not tidied, (at, call)
        for path in (TABLE, OTHER):
            append(path, inner, "later").transaction.commit(Provenance("WRITE"))
            assert ("new" in raw(path, inner)) == after


def test_in_a_transaction_over_several_statements_both_are_pending_or_none(monkeypatch):
    store = tables(TABLE, OTHER)
    logs = {path: PendingLog(store, path, "txn", lambda p=path: load_snapshot(p, store)) for path in (TABLE, OTHER)}
    do, _ = _commit(logs[TABLE], logs[OTHER])

    def refuses(log):
        raise HeadwaterError("HEADWATER_TRANSACTION_LOST")

    logs[TABLE].check = refuses
    assert _outcome(do) == "failed"
    assert [len(log.commits) for log in logs.values()] == [0, 0]
    logs[TABLE].check = lambda log: None
    do, _ = _commit(logs[TABLE], logs[OTHER])
    assert _outcome(do) == "done"
    assert [len(log.commits) for log in logs.values()] == [1, 1]
    assert files(TABLE, store) == {"0"}
