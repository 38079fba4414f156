"""Writers that are paused while the log is cleaned up beyond the version that they read.

The name of the next version is free then, as log cleanup has deleted the commit that had it. ``python -m model`` found
that such a commit was acknowledged, although no version follows from it.
"""

from __future__ import annotations

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.groups.group_commit import commit_together
from headwater.log.checkpoint_writing import write_checkpoint
from headwater.log.cleanup import truncate
from headwater.log.snapshot import load_snapshot
from headwater.protocol.file_names import commit_name
from headwater.transaction import Provenance, Transaction
from support.commits import add_file, create
from support.faults.faulty_store import FaultyStore
from support.stores.memory_store import MemoryStore
from support.table_groups import append, files, hasten

HOUR = 3600 * 1000
START = 1_700_000_000_000


@pytest.fixture(autouse=True)
def store(monkeypatch):
    """Ten hours lie between any two commits; ``store.clock`` is also what processes see."""
    hasten(monkeypatch)
    store = MemoryStore(lambda: START)
    monkeypatch.setattr("headwater.basics.clock.milliseconds", lambda: store.clock())
    return store


def pass_hours(store, hours):
    now = store.clock() + round(hours * HOUR)
    store.clock = lambda: now


def commit(store, path, name, hours=10):
    pass_hours(store, hours)
    txn = Transaction(path, store, load_snapshot(path, store))
    txn.add([add_file(name)])
    return txn.commit(Provenance("WRITE")).snapshot


def clean_up(store, path):
    snapshot = load_snapshot(path, store)
    write_checkpoint(snapshot)
    assert truncate(snapshot, 0) is not None


def slow_writer(store, through=None):
    txn = Transaction("/t", through or store, load_snapshot("/t", through or store))
    txn.add([add_file("slow")])
    return txn


def path_of(version, table="/t"):
    return f"{table}/_delta_log/{commit_name(version)}"


@pytest.mark.parametrize("versions", [1, 2, 3])
def test_a_commit_after_a_version_that_is_cleaned_up_is_no_version(store, versions):
    create("/t", add_file("0"), store=store)
    slow = slow_writer(store)
    for name in "123"[:versions]:
        commit(store, "/t", name)
    clean_up(store, "/t")
    pass_hours(store, 1)
    with pytest.raises(HeadwaterError, match=r"cleaned up beyond version 0") as caught:
        slow.commit(Provenance("WRITE"))
    assert caught.value.condition == "DELTA_CONCURRENT_WRITE"
    assert caught.value.parameters["version"] == str(versions)
    assert files("/t", store) == {"0", *"123"[:versions]}
    assert store.exists(path_of(1)) == (versions == 1)  # the checkpoint's own commit stays, and wins the race


SHORT = {"delta_logRetentionDuration": "interval 1 hour", "delta_deletedFileRetentionDuration": "interval 1 hour"}


@pytest.mark.parametrize(
    ("settings", "hours"),
    [
        ({}, 1.1),
        (SHORT, 0.6),
        (dict.fromkeys(SHORT, "interval 0 seconds"), 0),
        ({"delta_dropFeatureTruncateHistory_retentionDuration": "interval 1 minute"}, 0.01),
        ({}, -1.1),
        (SHORT, -0.6),
    ],
)
def test_a_commit_is_looked_for_once_it_is_half_as_old_as_log_cleanup_lets_it_be(store, settings, hours):
    """By this machine's clock, which may be behind the store's."""
    create("/t", add_file("0"), store=store, **settings)
    slow = slow_writer(store)
    for name in "123":
        commit(store, "/t", name, hours=0.00001)
    clean_up(store, "/t")
    pass_hours(store, hours)
    with pytest.raises(HeadwaterError, match="DELTA_CONCURRENT_WRITE" if hours > 0.02 else "UNKNOWN|DELTA_CONCURRENT"):
        slow.commit(Provenance("WRITE"))
    assert files("/t", store) == {"0", "1", "2", "3"}


def test_a_commit_is_not_looked_for_in_vain(store):
    """That would be a request for each commit."""
    create("/t", add_file("0"), store=store)
    slow = slow_writer(store, Dies(store))
    pass_hours(store, 0.9)
    assert slow.commit(Provenance("WRITE")).version == 1


def test_an_old_log_takes_commits(store):
    create("/t", add_file("0"), store=store)
    slow = slow_writer(store)
    pass_hours(store, 1000)
    assert slow.commit(Provenance("WRITE")).version == 1
    assert files("/t", store) == {"0", "slow"}


class Meanwhile(FaultyStore):
    """A store beside which something happens right after a commit was put."""

    def __init__(self, inner, do) -> None:
        super().__init__(inner)
        self.do = do

    def put_if_absent(self, path, data) -> None:
        super().put_if_absent(path, data)
        self.do()


def test_a_commit_stands_if_the_version_before_it_is_cleaned_up_after_it(store):
    create("/t", add_file("0"), store=store)

    def others() -> None:
        clean_up(store, "/t")
        commit(store, "/t", "next")

    slow = slow_writer(store, Meanwhile(store, others))
    pass_hours(store, 1)
    assert slow.commit(Provenance("WRITE")).version == 1
    assert not store.exists(path_of(0))
    assert files("/t", store) == {"0", "slow", "next"}


def test_a_commit_that_is_cleaned_up_itself_leaves_the_outcome_open(store):
    create("/t", add_file("0"), store=store)

    def others() -> None:
        commit(store, "/t", "next")
        clean_up(store, "/t")

    slow = slow_writer(store, Meanwhile(store, others))
    with pytest.raises(HeadwaterError) as caught:
        slow.commit(Provenance("WRITE"))
    assert caught.value.condition == "HEADWATER_COMMIT_OUTCOME_UNKNOWN"
    assert files("/t", store) == {"0", "slow", "next"}


@pytest.mark.parametrize("also", [[], ["another"]])
@pytest.mark.parametrize("versions", [2, 3])
def test_a_commit_is_taken_back_whatever_was_committed_before_its_writer_looked(store, versions, also):
    """The version after it, if there is one, was put before it; what was put after it is newer."""
    create("/t", add_file("0"), store=store)

    def others() -> None:
        for name in also:
            commit(store, "/t", name)

    slow = slow_writer(store, Meanwhile(store, others))
    for name in "123"[:versions]:
        commit(store, "/t", name)
    clean_up(store, "/t")
    pass_hours(store, 2)
    with pytest.raises(HeadwaterError) as caught:
        slow.commit(Provenance("WRITE"))
    assert caught.value.condition == "DELTA_CONCURRENT_WRITE"
    assert not store.exists(path_of(1))
    assert files("/t", store) == {"0", *"123"[:versions], *also}


@pytest.mark.parametrize("times", [1, 100])
def test_no_commit_is_taken_back_by_a_listing_that_lacks_the_next_one(store, times):
    create("/t", add_file("0"), store=store)

    class Lacking(Meanwhile):
        left = times

        def list_from(self, directory, start_name=""):
            found = super().list_from(directory, start_name)
            if any(file.path == path_of(3) for file in found) and self.left > 0:
                self.left -= 1
                return [file for file in found if file.path != path_of(2)]
            return found

    def others() -> None:
        clean_up(store, "/t")
        for name in ("next", "last"):
            commit(store, "/t", name)

    slow = slow_writer(store, Lacking(store, others))
    pass_hours(store, 1)
    if times == 1:
        slow.commit(Provenance("WRITE"))
    else:
        with pytest.raises(HeadwaterError, match="HEADWATER_COMMIT_OUTCOME_UNKNOWN"):
            slow.commit(Provenance("WRITE"))
    assert files("/t", store) == {"0", "slow", "next", "last"}


@pytest.mark.parametrize("hours", [-1000, 0, 1000])
def test_no_commit_is_taken_back_that_readers_need_whatever_the_times_say(store, hours):
    """By a clock that is set back or forward, the version after it seems older, or much newer."""
    create("/t", add_file("0"), store=store)
    pass_hours(store, 2000)

    def others() -> None:
        clean_up(store, "/t")
        pass_hours(store, hours)
        commit(store, "/t", "next")

    slow = slow_writer(store, Meanwhile(store, others))
    if hours < 0:
        with pytest.raises(HeadwaterError, match="HEADWATER_COMMIT_OUTCOME_UNKNOWN"):
            slow.commit(Provenance("WRITE"))
    else:
        slow.commit(Provenance("WRITE"))
    assert files("/t", store) == {"0", "slow", "next"}


def test_a_commit_that_no_version_follows_from_is_not_acknowledged_by_a_clock_that_was_set_back(store):
    create("/t", add_file("0"), store=store)
    slow = slow_writer(store)
    for name in "12":
        commit(store, "/t", name)
    clean_up(store, "/t")
    pass_hours(store, -5)
    with pytest.raises(HeadwaterError, match="HEADWATER_COMMIT_OUTCOME_UNKNOWN"):
        slow.commit(Provenance("WRITE"))
    assert files("/t", store) == {"0", "1", "2"}


def test_a_commit_that_another_follows_is_not_taken_back_if_the_clock_was_set_back(store):
    create("/t", add_file("0"), store=store)
    pass_hours(store, 100)

    def others() -> None:
        pass_hours(store, -10.5)
        commit(store, "/t", "next")
        write_checkpoint(load_snapshot("/t", store))
        store.delete(path_of(0))  # as engines do that go by the age of each file

    slow = slow_writer(store, Meanwhile(store, others))
    with pytest.raises(HeadwaterError) as caught:
        slow.commit(Provenance("WRITE"))
    assert caught.value.condition == "HEADWATER_COMMIT_OUTCOME_UNKNOWN"
    assert store.exists(path_of(1))
    assert files("/t", store) == {"0", "slow", "next"}


def test_the_commit_of_another_paused_writer_is_left_alone(store):
    create("/t", add_file("0"), store=store)

    def others() -> None:
        for name in ("next", "last"):
            commit(store, "/t", name)
        clean_up(store, "/t")
        pass_hours(store, 1)
        store.put_if_absent(path_of(1), b"{}")

    slow = slow_writer(store, Meanwhile(store, others))
    with pytest.raises(HeadwaterError, match="HEADWATER_COMMIT_OUTCOME_UNKNOWN"):
        slow.commit(Provenance("WRITE"))
    assert store.read(path_of(1)) == b"{}"
    assert files("/t", store) == {"0", "slow", "next", "last"}


def test_a_store_that_does_not_say_leaves_the_outcome_open(store):
    create("/t", add_file("0"), store=store)

    class Silent(FaultyStore):
        def exists(self, path):
            raise TimeoutError(path)

    slow = slow_writer(store, Silent(store))
    pass_hours(store, 1000)
    with pytest.raises(HeadwaterError) as caught:
        slow.commit(Provenance("WRITE"))
    assert caught.value.condition == "HEADWATER_COMMIT_OUTCOME_UNKNOWN"
    assert caught.value.parameters["path"] == path_of(1)


@pytest.mark.parametrize("cleaned", ["/a", "/b"])
def test_a_group_with_such_a_commit_changes_nothing(store, cleaned):
    for path in ("/a", "/b"):
        create(path, add_file("0"), store=store, id=f"id of {path}")
    members = [append(path, store) for path in ("/a", "/b")]
    for name in "12":
        commit(store, cleaned, name)
    clean_up(store, cleaned)
    pass_hours(store, 1)
    with pytest.raises(HeadwaterError, match="cleaned up beyond version 0"):
        commit_together(members)
    for path in ("/a", "/b"):
        assert files(path, store) == ({"0", "1", "2"} if path == cleaned else {"0"})


class Dies(FaultyStore):
    """A store of a writer that dies right after it has put a commit."""

    def exists(self, path):
        raise TimeoutError(path)


def writer_beside_a_dead_one(store, names):
    """A paused writer. Another one, which has read the same version, dies after its commit, in a log that was cleaned
    up after commits of these names.
    """
    create("/t", add_file("0"), store=store)
    dead, slow = slow_writer(store, Dies(store)), Transaction("/t", store, load_snapshot("/t", store))
    for name in names:
        commit(store, "/t", name)
    clean_up(store, "/t")
    pass_hours(store, 1)
    with pytest.raises(HeadwaterError):
        dead.commit(Provenance("WRITE"))
    return slow


def test_a_commit_after_one_that_a_dead_writer_could_not_take_back_is_no_version(store):
    slow = writer_beside_a_dead_one(store, "1234")
    slow.add([add_file("second")])
    with pytest.raises(HeadwaterError, match=r"cleaned up beyond version 0"):
        slow.commit(Provenance("WRITE"))
    assert files("/t", store) == {"0", "1", "2", "3", "4"}
    assert not store.exists(path_of(2))


def test_what_a_cleaned_up_commit_changed_is_not_taken_from_one_that_has_its_name(store):
    slow = writer_beside_a_dead_one(store, "12")
    assert store.exists(path_of(1))
    slow.add([add_file("second")])
    with pytest.raises(HeadwaterError, match=r"cleaned up beyond version 0"):
        slow.commit(Provenance("WRITE"))
    assert files("/t", store) == {"0", "1", "2"}


def test_a_store_that_fails_once_is_asked_again(store):
    create("/t", add_file("0"), store=store)

    class FailsOnce(FaultyStore):
        failed = False

        def exists(self, path):
            if not self.failed:
                self.failed = True
                raise TimeoutError(path)
            return super().exists(path)

    slow = slow_writer(store, FailsOnce(store))
    pass_hours(store, 1000)
    assert slow.commit(Provenance("WRITE")).version == 1
