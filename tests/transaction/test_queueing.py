"""The queue of statements that lost a race for a table: order, cancelling, deadlines, newcomers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from headwater.transaction import queueing
from headwater.transaction.queueing import LONG_SECONDS, LOSSES_THAT_COUNT, Place, TableQueue

LONG = 60.0


class Cancelled(Exception):
    pass


def soon() -> float:
    return time.monotonic() + LONG


def nothing() -> None:
    pass


@pytest.fixture
def queue() -> TableQueue:
    return TableQueue()


class Running:
    """A function in a thread of its own; ``result`` and ``error`` once it has ended."""

    def __init__(self, do: Callable[[], object]) -> None:
        self.result: object = None
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(do,), daemon=True)
        self._thread.start()

    def _run(self, do: Callable[[], object]) -> None:
        try:
            self.result = do()
        except BaseException as error:
            self.error = error

    @property
    def waits(self) -> bool:
        return self._thread.is_alive()

    def end(self) -> Running:
        self._thread.join(LONG)
        assert not self.waits
        return self


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + LONG
    while not true():
        assert time.monotonic() < end
        time.sleep(0.001)


def take(queue: TableQueue, seconds: float = 0.1) -> Place:
    return queue.take_place(seconds, soon(), nothing)


def test_places_are_given_in_the_order_they_were_asked_for(queue):
    first, order, threads = take(queue), [], []

    def next_one(number: int) -> None:
        place = take(queue)
        order.append(number)
        queue.give_back(place)

    for number in range(6):
        threads.append(Running(lambda number=number: next_one(number)))
        until(lambda number=number: queue.length == number + 2)
    assert order == []
    queue.give_back(first)
    for thread in threads:
        thread.end()
    assert order == list(range(6))
    assert queue.length == 0


def test_a_cancelled_statement_leaves_the_queue_at_once(queue):
    holder, cancelled = take(queue), threading.Event()

    def check() -> None:
        if cancelled.is_set():
            raise Cancelled

    second = Running(lambda: queue.take_place(0.1, soon(), check))
    until(lambda: queue.length == 2)
    third = Running(lambda: take(queue))
    until(lambda: queue.length == 3)
    cancelled.set()
    assert isinstance(second.end().error, Cancelled)
    queue.give_back(holder)
    assert third.end().error is None


def test_a_wait_ends_at_its_deadline_and_keeps_the_place(queue):
    take(queue)
    place = queue.take_place(0.1, time.monotonic() + 0.01, nothing)
    assert queue.length == 2
    queue.give_back(place)
    assert queue.length == 1


def test_the_place_of_a_thread_that_ended_is_free(queue):
    Running(lambda: take(queue)).end()
    assert take(queue) is not None
    assert queue.length == 1


def test_a_newcomer_waits_for_those_that_were_there_and_for_no_other(queue):
    first = take(queue)
    newcomer = Running(lambda: queue.arrive(soon(), nothing))
    until(lambda: newcomer.waits)
    second = Running(lambda: take(queue))
    until(lambda: queue.length == 2)
    assert newcomer.waits
    queue.give_back(first)
    assert newcomer.end().result is None
    assert second.end().error is None


def test_a_newcomer_has_a_place_where_most_lose_and_again_none_after_some_time(queue):
    for _ in range(20):
        queue.note(True)
    given = 0
    while True:
        holder = take(queue)
        newcomer = Running(lambda: queue.arrive(soon(), nothing))
        until(lambda newcomer=newcomer: queue.length == 2 or newcomer.waits)
        queue.give_back(holder)
        place = newcomer.end().result
        if place is None:
            break
        queue.give_back(place)
        given += 1
    assert 1 < given < 100


def test_a_newcomer_does_not_wait_for_long_statements_but_for_one_that_starves(queue):
    holder = take(queue, LONG_SECONDS * 2)
    assert queue.arrive(soon(), nothing) is None
    for _ in range(LOSSES_THAT_COUNT):
        queue.lost_again(holder, LONG_SECONDS * 2)
    newcomer = Running(lambda: queue.arrive(soon(), nothing))
    second = Running(lambda: take(queue))
    until(lambda: queue.length == 2)
    assert newcomer.waits
    queue.give_back(holder)
    newcomer.end()
    second.end()


@pytest.mark.parametrize("share_lost", [0.0, 1.0], ids=["few lose", "most lose"])
def test_a_newcomer_stops_waiting_for_a_statement_that_runs_long_but_not_for_one_that_starves(queue, share_lost):
    """The attempt that lost was short, so its length did not show it."""
    queue._share_lost = share_lost
    holder = take(queue, 0.1)
    for _ in range(LOSSES_THAT_COUNT):
        queue.lost_again(holder, 0.1)
    newcomer = Running(lambda: queue.arrive(soon() + LONG, nothing))
    assert holder.since is not None
    holder.since -= LONG_SECONDS * 2
    time.sleep(0.3)
    assert newcomer.waits
    holder.lost = 0
    assert newcomer.end().result is None
    assert queue.length == 1


def test_tables_have_queues_of_their_own_and_unused_ones_are_dropped(monkeypatch):
    monkeypatch.setattr(queueing, "_QUEUES", {})
    monkeypatch.setattr(queueing, "_MOST_QUEUES", 3)
    used = queueing.queue_of("/used")
    take(used)
    for number in range(10):
        assert queueing.queue_of(f"/{number}") is not used
    assert queueing.queue_of("/used") is used
    assert len(queueing._QUEUES) <= 3
