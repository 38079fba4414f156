"""A DELETE, UPDATE or MERGE that lost a race runs again: until when, in whose turn, and what its error says then."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest
from pyroaring import BitMap64

from headwater.basics.backoff import Backoff
from headwater.basics.errors import HeadwaterError
from headwater.statements.dml import attempt, update
from headwater.statements.running import rerunning
from headwater.statements.running.opening import CACHE
from headwater.transaction.queueing import TableQueue
from support.commits import append, create
from support.recording_statement import RecordingStatement


class Cancelled(Exception):
    pass


class Stub:
    """A statement whose table is another one in each test."""

    def __init__(self, seconds: int) -> None:
        self.confs = {"spark.headwater.dml.retrySeconds": str(seconds)}
        self.cancelled, self.discarded = False, 0

    def check_cancelled(self) -> None:
        if self.cancelled:
            raise Cancelled

    def discard(self) -> None:
        self.discarded += 1


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> TableQueue:
    made = TableQueue()
    monkeypatch.setattr(rerunning, "queue_of", lambda path: made)
    monkeypatch.setattr(rerunning, "locate", lambda table, statement: SimpleNamespace(path=table))
    monkeypatch.setattr(attempt, "begin", lambda request, statement: SimpleNamespace(started=time.monotonic()))
    monkeypatch.setattr("headwater.basics.backoff.OF_STATEMENTS", Backoff(0, 0))
    return made


def conflict(version: int, condition: str = "DELTA_CONCURRENT_APPEND") -> HeadwaterError:
    return HeadwaterError(condition, {"version": version, "operation": "MERGE", "tried": "", "partition": "the table"})


def run(statement: Stub, work: Any) -> Any:
    return attempt.run(SimpleNamespace(message=SimpleNamespace(table="/t")), statement, work)  # type: ignore[arg-type]


def loses(*errors: Exception) -> Any:
    left = list(errors)

    def work(begun: Any) -> str:
        if left:
            raise left.pop(0)
        return "done"

    return work


@pytest.mark.parametrize("condition", sorted(rerunning.RETRIED))
def test_a_loser_runs_again_and_gives_its_place_back(queue, condition):
    statement = Stub(60)
    assert run(statement, loses(*(conflict(version, condition) for version in range(7)))) == "done"
    assert statement.discarded == 7
    assert queue.length == 0


def test_at_its_deadline_it_says_how_often_it_ran_and_what_it_lost_to(queue, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(rerunning.time, "monotonic", lambda: now[0])
    versions = iter(range(5, 100))

    def work(begun: Any) -> None:
        now[0] += 4
        raise conflict(next(versions))

    with pytest.raises(HeadwaterError) as caught:
        run(Stub(10), work)
    assert caught.value.condition == "DELTA_CONCURRENT_APPEND"
    assert "Nothing came of this write, which ran 3 times in 12.0 s and lost to versions 5, 6, 7." in str(caught.value)
    assert queue.length == 0


def test_without_seconds_it_does_not_run_again(queue):
    with pytest.raises(HeadwaterError) as caught:
        run(Stub(0), loses(conflict(3)))
    assert "Nothing came of this write." in str(caught.value)


def test_other_errors_end_it_and_its_place_is_free(queue):
    with pytest.raises(HeadwaterError, match="DELTA_TABLE_NOT_FOUND"):
        run(Stub(60), loses(conflict(3), HeadwaterError("DELTA_TABLE_NOT_FOUND", {})))
    with pytest.raises(ZeroDivisionError):
        run(Stub(60), loses(conflict(3), conflict(4), ZeroDivisionError()))
    assert queue.length == 0


def test_a_cancelled_one_does_not_run_again(queue):
    statement = Stub(60)

    def work(begun: Any) -> None:
        statement.cancelled = True
        raise conflict(3)

    with pytest.raises(HeadwaterError):
        run(Stub(0), work)
    queue.take_place(0.1, time.monotonic(), lambda: None)
    with pytest.raises(Cancelled):
        run(statement, work)
    assert queue.length == 1


def test_a_condition_that_is_true_for_other_rows_the_second_time() -> None:
    def job(positions: dict[int, BitMap64]) -> Any:
        return SimpleNamespace(positions=positions, replaced=sum(map(len, positions.values())))

    first = job({1: BitMap64([1, 2]), 4: BitMap64([0])})
    update._check_same("/t", first, job({0: BitMap64([1, 2]), 1: BitMap64([0])}))
    for other in ({}, {0: BitMap64([1, 2])}, {0: BitMap64([1, 3]), 1: BitMap64([0])}):
        with pytest.raises(HeadwaterError, match="was true for 3 rows and") as refused:
            update._check_same("/t", first, job(other))
        assert refused.value.condition == "HEADWATER_CONDITION_NOT_REPEATABLE"


def test_the_version_of_the_analysis_is_opened_once(tmp_path, monkeypatch):
    """Each time costs a look at the log, of every statement that another writer's commit came before."""
    path = str(tmp_path / "t")
    first = create(path).snapshot
    append(first, "a")
    asked: list[int | None] = []
    get = CACHE.get

    def counted(table_path: str, store: Any, version: int | None = None, limit: int = 0) -> Any:
        asked.append(version)
        return get(table_path, store, version, limit)

    monkeypatch.setattr(CACHE, "get", counted)
    message = SimpleNamespace(
        table=path, table_id=first.metadata.id, version=0, table_schema=first.metadata.schema_string, target=0
    )
    begun = attempt.begin(SimpleNamespace(message=message), RecordingStatement())  # type: ignore[arg-type]
    assert begun.snapshot.version == 1
    assert not begun.txn.has_changes
    assert asked == [None, 0]
