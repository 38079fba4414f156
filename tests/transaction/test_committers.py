"""Whatever a committer answers, the transaction tells its caller exactly that."""

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.log.snapshot import load_snapshot
from headwater.protocol.file_names import commit_name, log_directory
from headwater.transaction import Provenance, Transaction, wait_for_maintenance
from headwater.transaction.committers import CommitFile, Committer, Lost, Made, StoreCommitter, Unknown
from support.commits import add_file, create, metadata
from support.stores.memory_store import MemoryStore

PATH = "/t"


class StagingCommitter:
    """As a catalog commits: it stages a commit under another name, ratifies it, and publishes it by a copy.

    :param script: what happens at each call, one after the other; then all goes well. ``lose``: another writer has
        taken the version; ``fail``: nothing is done; ``vanish`` and ``stand``: nobody knows, and it is not there, or
        it is.
    """

    rows_version = None

    def __init__(self, store: MemoryStore, *script: str):
        self.store, self.script = store, list(script)
        self.asked: list[int] = []
        self.inner = StoreCommitter(PATH, store)
        self.ratified: dict[int, str] = {}

    def commit(self, version, data, transaction_id):
        self.asked.append(version)
        step = self.script.pop(0) if self.script else "win"
        if step == "fail":
            raise OSError("the catalog is away")
        if step == "lose":
            self.take(version)
        if version in self.ratified or self.store.exists(self._published(version)):
            return Lost(version)
        staged = f"{log_directory(PATH)}/_staged_commits/{version:020}.{transaction_id}.json"
        self.store.make_directory(staged.rpartition("/")[0])
        self.store.put_if_absent(staged, data)
        if step == "vanish":
            return Unknown(staged, OSError("no answer"), OSError("no answer either"))
        self.ratified[version] = staged
        self.store.put_if_absent(self._published(version), data)
        if step == "stand":
            return Unknown(staged, OSError("no answer"), OSError("no answer either"))
        return Made()

    def commits_from(self, version):
        return [
            CommitFile(self.ratified.get(int(file.path[-25:-5]), file.path), file.modification_time)
            for file in self.inner.commits_from(version)
        ]

    def take(self, version):
        other = Transaction(PATH, self.store, load_snapshot(PATH, self.store))
        other.add([add_file(f"other-{version}")])
        other.commit(Provenance("WRITE"))

    @staticmethod
    def _published(version):
        return f"{log_directory(PATH)}/{commit_name(version)}"


@pytest.fixture
def table():
    yield create(PATH, store=MemoryStore()).snapshot
    assert wait_for_maintenance(60)


def append(snapshot, committer: Committer, **settings):
    txn = Transaction(PATH, snapshot.store, snapshot, committer=committer, **settings)
    txn.add([add_file("mine")])
    return txn.commit(Provenance("WRITE")), txn


def paths(store):
    return sorted(load_snapshot(PATH, store).files["path"].to_pylist())


def test_a_commit_that_wins_is_the_next_version(table):
    committer = StagingCommitter(table.store)
    committed, _ = append(table, committer)
    assert (committed.version, committed.snapshot.num_files) == (1, 1)
    assert committer.asked == [1]


def test_a_commit_that_loses_is_checked_and_tried_after_the_winners(table):
    committer = StagingCommitter(table.store, "lose", "lose")
    committed, _ = append(table, committer)
    assert (committed.version, committer.asked) == (3, [1, 2, 3])
    assert paths(table.store) == ["mine", "other-1", "other-2"]


def test_a_writer_among_quick_ones_has_its_turn(table, monkeypatch):
    """Whatever others commit while it waits after a lost race, it knows before its next attempt."""
    committer = StagingCommitter(table.store, "lose", "lose")

    def others_commit(*_):
        newest = load_snapshot(PATH, table.store).version
        for version in range(newest + 1, newest + 4):
            committer.take(version)

    monkeypatch.setattr("headwater.basics.backoff.Backoff.wait", others_commit)
    committed, _ = append(table, committer)
    assert (committed.version, committer.asked) == (6, [1, 2, 6])


def test_a_commit_that_loses_to_a_conflict_ends(table):
    txn = Transaction(PATH, table.store, table, committer=StagingCommitter(table.store, "lose"))
    txn.follow_directly()
    txn.add([add_file("mine")])
    with pytest.raises(HeadwaterError, match="DELTA_METADATA_CHANGED"):
        txn.commit(Provenance("WRITE"))
    assert paths(table.store) == ["other-1"]


def test_a_committer_that_never_lets_it_win(table):
    with pytest.raises(HeadwaterError, match="DELTA_MAX_COMMIT_RETRIES_EXCEEDED"):
        append(table, StagingCommitter(table.store, *["lose"] * 4), max_attempts=3)
    assert "mine" not in paths(table.store)


def test_a_failure_is_the_callers_and_leaves_nothing(table):
    committer = StagingCommitter(table.store, "lose", "fail")
    with pytest.raises(OSError, match="the catalog is away"):
        append(table, committer)
    assert paths(table.store) == ["other-1"]


@pytest.mark.parametrize(("step", "left"), [("vanish", []), ("stand", ["mine"])])
def test_an_unknown_outcome_is_said_to_be_unknown(table, step, left):
    """It is not tried again: where the commit stands, its rows would be there twice."""
    committer = StagingCommitter(table.store, step)
    with pytest.raises(HeadwaterError) as raised:
        append(table, committer)
    assert raised.value.condition == "HEADWATER_COMMIT_OUTCOME_UNKNOWN"
    assert "_staged_commits" in raised.value.parameters["path"]
    assert raised.value.parameters["txnId"] in raised.value.parameters["path"]
    assert committer.asked == [1]
    assert paths(table.store) == left


def test_a_new_table_is_made_by_its_committer_too():
    store = MemoryStore()
    txn = Transaction(PATH, store, None, committer=StagingCommitter(store))
    txn.update_protocol(create(f"{PATH}/other", store=store).snapshot.protocol)
    txn.update_metadata(metadata())
    assert txn.commit(Provenance("CREATE TABLE")).version == 0
    assert wait_for_maintenance(60)
