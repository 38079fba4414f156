"""A store that carries out a put after it has reported it as failed, and after the writer has looked for its commit.

``python -m model --mutate no_fence`` has what would happen without the second put. ``tests/faults/test_every_call.py``
and ``tests/groups`` have such a store at each of their calls, ``tests/stores`` such servers.
"""

from __future__ import annotations

import errno

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.bridge.hadoop_files import failure_of
from headwater.bridge.messages.failures import StoreCause
from headwater.log import groups
from headwater.log.groups import Group
from headwater.protocol.file_names import commit_name
from headwater.stores.hadoop import ConditionalRenameStore, ConditionalStore, RenamingStore
from headwater.stores.local import LocalStore
from headwater.transaction import wait_for_maintenance
from headwater.transaction.committers import Lost, Made, StoreCommitter, Unknown
from support.commits import append, create, live
from support.stores.fake_hadoop import FakeHadoop
from support.stores.memory_store import MemoryStore

COMMIT = f"/t/_delta_log/{commit_name(1)}"
ANOTHERS = b'{"commitInfo":{"txnId":"another"}}'


class SlowStore(MemoryStore):
    """:param outcomes: of the first puts of version 1, one after the other: ``late``, which fails, and is done when
    everything on its way :meth:`arrives`; ``there``, which fails after it was done; an exception, which is raised, and
    nothing is done; ``taken``: another writer's commit comes first. Others succeed, if the name is free.
    """

    def __init__(self, *outcomes: str | Exception) -> None:
        super().__init__()
        self.outcomes = list(outcomes)
        self.coming: list[tuple[str, bytes]] = []
        self.reads_fail = False

    def put_if_absent(self, path: str, data: bytes) -> None:
        outcome = self.outcomes.pop(0) if self.outcomes and path.endswith(f"{1:020}.json") else None
        match outcome:
            case "late":
                self.coming.append((path, data))
                raise TimeoutError("no answer")
            case "there":
                super().put_if_absent(path, data)
                raise TimeoutError("no answer")
            case "taken":
                super().put_if_absent(path, ANOTHERS)
            case Exception():
                raise outcome
        super().put_if_absent(path, data)

    def read(self, path: str) -> bytes:
        if self.reads_fail and path == COMMIT:
            raise ConnectionError("no answer either")
        return super().read(path)

    def arrives(self) -> bool:
        """Whether anything that was on its way was still done."""
        done = False
        for path, data in self.coming:
            try:
                super().put_if_absent(path, data)
                done = True
            except FileExistsError:
                pass
        return done


def table(*outcomes):
    store = SlowStore(*outcomes)
    return create("/t", store=store).snapshot, store


@pytest.fixture(autouse=True)
def _maintenance():
    yield
    assert wait_for_maintenance(60)


def test_what_was_not_there_is_put_again_so_that_the_late_request_finds_the_name_taken():
    snapshot, store = table("late")
    assert append(snapshot, "a").version == 1
    assert not store.arrives()
    assert live("/t", store) == ["a"]


def test_a_second_put_that_also_comes_late_leaves_the_outcome_open():
    snapshot, store = table("late", "late")
    with pytest.raises(HeadwaterError) as raised:
        append(snapshot, "a")
    assert raised.value.condition == "HEADWATER_COMMIT_OUTCOME_UNKNOWN"
    assert raised.value.parameters["path"] == COMMIT
    assert "may still create it" in str(raised.value)
    assert live("/t", store) == []
    assert store.arrives()  # which is why no failure was reported
    assert live("/t", store) == ["a"]


def test_a_first_put_that_arrives_before_the_second_is_the_commit(monkeypatch):
    snapshot, store = table("late")
    second = store.put_if_absent

    def arrives_first(path, data):
        store.arrives()
        second(path, data)

    monkeypatch.setattr(store, "put_if_absent", arrives_first)
    assert append(snapshot, "a").version == 1
    assert live("/t", store) == ["a"]


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        (["late"], Made),
        (["there"], Made),
        (["late", "there"], Made),
        (["taken"], Lost),
        (["late", "taken"], Lost),
        ([FileExistsError("of a moment ago")], Made),
        (["late", "late"], Unknown),
        (["late", OSError("no answer")], Unknown),
        # What the second put says is said of nothing that can be read: it is no word about the first.
        (["late", FileExistsError("not there")], Unknown),
        # A refusal of the second put says nothing about the first.
        (["late", OSError(errno.ENOSPC, "full")], Unknown),
        (["late", HeadwaterError("HEADWATER_HANDLER_LOST", {"call": "x"})], Unknown),
    ],
)
def test_the_answer_is_what_the_store_has(outcomes, expected):
    store = SlowStore(*outcomes)
    store.make_directory("/t/_delta_log")
    data = b'{"commitInfo":{"txnId":"mine"}}'
    answer = StoreCommitter("/t", store).commit(1, data, "mine")
    assert isinstance(answer, expected)
    if expected is not Unknown:
        assert not store.arrives()
        assert (store.read(COMMIT) == data) == (expected is Made)


@pytest.mark.parametrize(
    "refusal",
    [
        OSError(errno.ENOSPC, "full"),
        OSError(errno.EDQUOT, "full"),
        OSError(errno.EROFS, "read-only"),
        PermissionError("no"),
        FileNotFoundError("no bucket"),
        HeadwaterError("HEADWATER_HANDLER_LOST", {"call": "x"}),
    ],
    ids=repr,
)
def test_a_refusal_is_a_failure_and_nothing_is_put_again(refusal):
    snapshot, store = table(refusal, "there")
    with pytest.raises(type(refusal)) as raised:
        append(snapshot, "a")
    assert raised.value is refusal
    assert store.outcomes == ["there"]
    assert live("/t", store) == []


def test_nothing_is_put_again_if_the_store_does_not_say_what_is_there():
    snapshot, store = table("late", "there")
    store.reads_fail = True
    with pytest.raises(HeadwaterError, match="HEADWATER_COMMIT_OUTCOME_UNKNOWN"):
        append(snapshot, "a")
    assert store.outcomes == ["there"]


@pytest.mark.parametrize(
    "second", [HeadwaterError("HEADWATER_HANDLER_LOST", {"call": "x"}), OSError(errno.ENOSPC, "full"), "late"], ids=repr
)
def test_a_second_put_that_fails_is_no_word_about_the_first_if_the_store_cannot_be_read(second, monkeypatch):
    """As ``model/rows.pml`` has it: the first put may still be carried out, whatever became of the second."""
    snapshot, store = table("late", second)
    put = store.put_if_absent

    def and_then_reads_fail(path, data):
        store.reads_fail = len(store.outcomes) < 2 and path == COMMIT
        put(path, data)

    monkeypatch.setattr(store, "put_if_absent", and_then_reads_fail)
    with pytest.raises(HeadwaterError, match="HEADWATER_COMMIT_OUTCOME_UNKNOWN"):
        append(snapshot, "a")
    store.reads_fail = False
    assert store.arrives()
    assert live("/t", store) == ["a"]


def test_which_stores_rule_a_late_put_out(tmp_path):
    """Those where a put needs a temporary file, which is gone."""
    files = FakeHadoop(tmp_path)
    no_answer = OSError(errno.EIO, "no answer")
    assert ConditionalStore(files).may_come_late(no_answer)
    assert not LocalStore().may_come_late(no_answer)
    for store in (RenamingStore(files), ConditionalRenameStore(files)):
        assert not store.may_come_late(no_answer)
        assert store.may_come_late(RuntimeError("interrupted"))
        causes = [StoreCause(class_name="java.io.IOException", message="no answer", status=None)]
        left = StoreCause(class_name="headwater.spark.bridge.TemporaryLeft", message="x", status=None)
        assert not store.may_come_late(failure_of("hdfs://x/t", causes))
        failure = failure_of("hdfs://x/t", [left, *causes])
        assert store.may_come_late(failure)
        assert failure.strerror == "IOException: no answer"


@pytest.mark.parametrize(("outcomes", "decided"), [(["late"], "committed"), (["taken"], "aborted")])
def test_a_decision_is_put_again(outcomes, decided, monkeypatch):
    store = MemoryStore()
    store.make_directory("/t/_delta_log")
    left, put = list(outcomes), store.put_if_absent
    coming = []

    def slow(path, data):
        if not left:
            return put(path, data)
        if left.pop() == "taken":
            put(path, b'{"outcome":"aborted"}')
        else:
            coming.append((path, data))
        raise TimeoutError("no answer")

    monkeypatch.setattr(store, "put_if_absent", slow)
    group = Group("00000000-0000-0000-0000-000000000000", "/t", 1)
    assert groups.decide(store, group, "committed") == decided
    for path, data in coming:
        with pytest.raises(FileExistsError):
            put(path, data)
    assert groups.decision(store, group) == decided


def test_a_decision_that_stays_unknown_is_a_failure_to_decide(monkeypatch):
    store = MemoryStore()
    store.make_directory("/t/_delta_log")

    def silent(path, data):
        raise TimeoutError("no answer")

    monkeypatch.setattr(store, "put_if_absent", silent)
    with pytest.raises(TimeoutError):
        groups.decide(store, Group("00000000-0000-0000-0000-000000000000", "/t", 1), "committed")
