"""Commits that a catalog ratifies: whatever fails at whichever step, the outcome that is reported is what happened."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.catalogs.interface import Away, Unanswered
from headwater.catalogs.log_view import RatifiedLog
from headwater.catalogs.unity.requests import Answer, Request
from headwater.log.checkpoint_writing import write_checkpoint
from headwater.log.commits import commit_info_of
from headwater.log.snapshot import load_snapshot
from headwater.protocol.file_names import commit_name
from headwater.transaction import Provenance, Transaction, wait_for_maintenance
from support.commits import add_file
from support.managed_tables import TOKEN, catalog_of, create_managed, log_of
from support.stores.memory_store import MemoryStore
from support.unity_server import UnityModel


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Backoff without waits."""
    monkeypatch.setattr("headwater.basics.backoff.Backoff.wait", lambda *_: None)
    yield
    assert wait_for_maintenance(60)


class Wire:
    """Between a client and the server, where requests that commit meet with what a script says.

    ``lost``: the request never arrives, and nobody knows; ``cut``: it arrives, its answer does not; ``late``: it
    arrives after the next request, and ``held``: when a test has it arrive; ``away``: the server cannot be reached; a
    number: a status, without anything being done; ``done-500``: done, and answered so; ``nonsense``: done, and answered
    with another object.
    """

    def __init__(self, model: UnityModel, *script: str) -> None:
        self.model, self.script = model, [*script]
        self.waiting: list[Request] = []
        self.held: list[Request] = []
        #: Everything but commits, too.
        self.of_all = False

    def __call__(self, request: Request) -> Answer:
        commits = request.method == "POST" and b"add-commit" in (request.body or b"")
        step = self.script.pop(0) if self.script and (commits or self.of_all) else "pass"
        if step == "away":
            raise Away("nobody there")
        if step == "lost":
            raise Unanswered("no answer")
        if step in ("late", "held"):
            (self.waiting if step == "late" else self.held).append(request)
            raise Unanswered("no answer")
        if step.isdigit():
            return Answer(int(step), b'{"error":{"type":"TooManyRequestsException","code":1,"message":"no"}}')
        answer = self.model.handle(request)
        for each in self.waiting:
            self.model.handle(each)
        self.waiting = []
        if step == "cut":
            raise Unanswered("no answer")
        if step == "done-500":
            return Answer(500, b'{"error":{"type":"CommitStateUnknownException","code":500,"message":"who knows"}}')
        if step == "nonsense":
            return Answer(200, b'{"hello": "world"}')
        return answer


class Table:
    """A table of a catalog, and writers of it."""

    def __init__(self, **server) -> None:
        self.model = UnityModel("/w", TOKEN, **server)
        self.store = MemoryStore()
        self.wire = Wire(self.model)
        create_managed(catalog_of(self.model), self.store)
        self.model.on_report = self.check_report

    def check_report(self, table, version) -> None:
        """What the catalog may forget is in the log, whole, and the very commit that was ratified."""
        for each in range(1, version + 1):
            published, _ = self.store.files[f"{table.location}/_delta_log/{commit_name(each)}"]
            staged, _ = self.store.files[f"{table.location}/_delta_log/_staged_commits/{table.history[each]}"]
            assert published == staged

    @property
    def server(self):
        return self.model.schemas["s"]["t"]

    def log(self, wire=None) -> RatifiedLog:
        return log_of(catalog_of(self.model, wire), self.store)

    def append(self, name: str, wire=None, log=None, **settings) -> int:
        log = log or self.log(wire)
        snapshot = load_snapshot(log.table_path, log)
        txn = Transaction(log.table_path, log, snapshot, **settings)
        txn.add([add_file(name)])
        return txn.commit(Provenance("WRITE")).version

    def record(self, *versions: int) -> None:
        """Have the catalog know some commits still, as if nobody had reported that they are published."""
        for version in versions:
            name = self.server.history[version]
            data = self.store.read(f"{self.server.location}/_delta_log/_staged_commits/{name}")
            timestamp = (commit_info_of(data) or {})["inCommitTimestamp"]
            self.server.commits[version] = {
                "version": version, "timestamp": timestamp, "file-name": name, "file-size": len(data),
                "file-modification-timestamp": 1,
            }  # fmt: skip

    def paths(self) -> list[str]:
        log = self.log()
        return sorted(load_snapshot(log.table_path, log).files["path"].to_pylist())

    def published(self) -> list[int]:
        names = [path.rpartition("/")[2] for path in self.store.files if "_staged_commits" not in path]
        return [int(name[:-5]) for name in sorted(names) if name.endswith(".json")]

    def staged(self) -> list[str]:
        return sorted(path.rpartition("/")[2] for path in self.store.files if "_staged_commits" in path)


@pytest.fixture
def table():
    return Table()


def test_a_commit_is_staged_ratified_and_published(table):
    log = table.log()
    assert [table.append(f"f{i}", log=log) for i in range(3)] == [1, 2, 3]
    assert table.paths() == ["f0", "f1", "f2"]
    assert table.published() == [0, 1, 2, 3]
    assert table.staged() == [table.server.history[version] for version in (1, 2, 3)]
    # Each commit reports the one before it: the catalog has one on record.
    assert (table.server.latest, sorted(table.server.commits)) == (3, [3])


def test_readers_see_what_is_ratified_and_not_yet_published_and_nothing_else(table):
    table.append("a")
    table.append("b")
    table.record(1, 2)
    directory = f"{table.server.location}/_delta_log"
    data, _ = table.store.files.pop(f"{directory}/{commit_name(2)}")
    # A staged commit that nobody ratified, and a published file of a version that the catalog does not know.
    stray = data.replace(b'"b"', b'"stray"')
    table.store.put(f"{directory}/_staged_commits/{3:020}.11111111-1111-4111-8111-111111111111.json", stray)
    table.store.put(f"{directory}/{commit_name(3)}", stray)
    # The catalog's own file wins over the one that is published.
    table.store.put(f"{directory}/{commit_name(1)}", b"not the commit")
    log = table.log()
    snapshot = load_snapshot(log.table_path, log)
    assert snapshot.version == 2
    assert sorted(snapshot.files["path"].to_pylist()) == ["a", "b"]


def test_a_reader_brings_its_snapshot_up_to_date(table):
    log = table.log()
    old = load_snapshot(log.table_path, log)
    table.append("a")
    newer = load_snapshot(log.table_path, log, base=old)
    assert (newer.version, newer.num_files) == (1, 1)
    assert load_snapshot(log.table_path, log, base=newer) is newer


def test_by_its_path_the_table_is_refused(table):
    with pytest.raises(HeadwaterError, match="DELTA_PATH_BASED_ACCESS"):
        load_snapshot(table.server.location, table.store)


@pytest.mark.parametrize("replays", [True, False])
@pytest.mark.parametrize(
    "script",
    [
        ["cut"],
        ["done-500"],
        ["nonsense"],
        ["lost"],
        ["lost", "lost", "cut"],
        ["away", "away"],
        ["429"],
        ["503", "cut"],
        ["late"],
    ],
    ids=" ".join,
)
def test_a_commit_is_made_once_whatever_happens_to_its_requests(script, replays):
    table = Table(replays=replays)
    wire = Wire(table.model, *script)
    assert table.append("mine", wire) == 1
    assert wire.script == []
    assert table.paths() == ["mine"]
    assert table.append("next") == 2
    assert table.paths() == ["mine", "next"]


@pytest.mark.parametrize("script", [["lost"], ["cut"], ["late"], ["away"], ["409"], ["429"]], ids=" ".join)
def test_a_commit_that_loses_the_race_follows_the_winner(table, script):
    log = table.log(wire := Wire(table.model))
    snapshot = load_snapshot(log.table_path, log)
    table.append("winner")
    wire.script = [*script]
    txn = Transaction(log.table_path, log, snapshot)
    txn.add([add_file("mine")])
    assert txn.commit(Provenance("WRITE")).version == 2
    assert table.paths() == ["mine", "winner"]
    assert len(table.staged()) == 2  # what lost is deleted


def test_a_catalog_that_is_away_leaves_the_table_unchanged(table):
    with pytest.raises(HeadwaterError, match="nobody there") as raised:
        table.append("mine", Wire(table.model, *["away"] * 50))
    assert raised.value.condition == "HEADWATER_CATALOG_FAILED"
    assert table.paths() == []
    assert table.staged() == []


def test_a_refusal_leaves_the_table_unchanged(table):
    with pytest.raises(HeadwaterError, match="status 403") as raised:
        table.append("mine", Wire(table.model, "403"))
    assert raised.value.condition == "HEADWATER_CATALOG_FAILED"
    assert table.paths() == []
    assert table.staged() == []


def test_a_request_that_may_yet_arrive_leaves_the_outcome_unknown(table):
    """It is not reported as failed: it may be carried out after the error, as it is here."""
    wire = Wire(table.model, "held", *["away"] * 50)
    with pytest.raises(HeadwaterError) as raised:
        table.append("mine", wire)
    assert raised.value.condition == "HEADWATER_CATALOG_OUTCOME_UNKNOWN"
    assert table.paths() == []
    table.model.handle(wire.held[0])
    assert table.paths() == ["mine"]
    txn_id = raised.value.parameters["txnId"]
    log = table.log()
    assert (load_snapshot(log.table_path, log).commit_info or {})["txnId"] == txn_id


def test_a_refusal_after_a_request_without_an_answer_is_unknown_too(table):
    wire = Wire(table.model, "held", "403")
    with pytest.raises(HeadwaterError) as raised:
        table.append("mine", wire)
    assert raised.value.condition == "HEADWATER_CATALOG_OUTCOME_UNKNOWN"


def test_commits_that_nobody_published_are_published_by_the_next_writer():
    """Writers died after their commits were ratified, until the catalog takes no more."""
    table = Table(most_unpublished=3)
    for number in range(3):
        table.append(f"f{number}")
    table.record(1, 2, 3)
    directory = f"{table.server.location}/_delta_log"
    for version in (1, 2, 3):
        del table.store.files[f"{directory}/{commit_name(version)}"]
    assert table.append("after") == 4
    assert table.published() == [0, 1, 2, 3, 4]
    assert table.paths() == ["after", "f0", "f1", "f2"]


def test_what_cannot_be_published_is_not_reported(table):
    """A published file that is not the ratified commit: the catalog is the only one that still knows it."""
    table.append("a")
    directory = f"{table.server.location}/_delta_log"
    table.store.put(f"{directory}/{commit_name(1)}", b"of somebody else")
    table.record(1)
    reported = table.server.backfilled
    assert table.append("b") == 2
    assert table.append("c") == 3
    assert table.server.backfilled == reported
    assert table.paths() == ["a", "b", "c"]
    assert 2 not in table.published()


def test_a_staged_file_that_is_gone_was_published():
    """By a writer that reported nothing: whoever cleans up staged files needs only the published ones."""
    table = Table(most_unpublished=3)
    for number in range(3):
        table.append(f"f{number}")
    table.record(1, 2, 3)
    table.model.on_report = lambda *_: None  # it looks into the staged files
    directory = f"{table.server.location}/_delta_log"
    for name in table.staged():
        table.store.delete(f"{directory}/_staged_commits/{name}")
    assert table.append("after") == 4
    assert table.published() == [0, 1, 2, 3, 4]
    assert table.paths() == ["after", "f0", "f1", "f2"]
    assert table.server.backfilled >= 3


@pytest.mark.parametrize("published", ["shorter", "of another time"])
def test_without_its_staged_file_only_a_copy_counts_as_published(table, published):
    table.append("a")
    table.record(1)
    directory = f"{table.server.location}/_delta_log"
    path = f"{directory}/{commit_name(1)}"
    data = table.store.read(path)
    stamp = b"%d" % (commit_info_of(data) or {})["inCommitTimestamp"]
    table.store.put(path, data[:-1] if published == "shorter" else data.replace(stamp, b"%d" % (int(stamp) + 1)))
    table.store.delete(f"{directory}/_staged_commits/{table.server.history[1]}")
    reported = table.server.backfilled
    assert table.append("b") == 2
    assert table.append("c") == 3
    assert table.server.backfilled == reported
    assert 2 not in table.published()


def test_a_checkpoint_is_only_of_what_is_published(table, monkeypatch):
    written = []
    monkeypatch.setattr(
        "headwater.transaction.maintenance.write_checkpoint",
        lambda snapshot, layout: written.append(write_checkpoint(snapshot)),
    )
    monkeypatch.setattr("headwater.transaction.maintenance.checkpoint_is_due", lambda snapshot: True)
    table.append("a")
    assert wait_for_maintenance(60)
    assert len(written) == 1
    log = table.log()
    monkeypatch.setattr(
        "headwater.transaction.catalog_commits.CatalogCommitter._publish", lambda *_: (_ for _ in ()).throw(OSError())
    )
    assert table.append("b", log=log) == 2
    assert wait_for_maintenance(60)
    assert len(written) == 1
    assert table.paths() == ["a", "b"]


def test_changes_of_the_definition_go_with_the_commit(table):
    log = table.log()
    snapshot = load_snapshot(log.table_path, log)
    txn = Transaction(log.table_path, log, snapshot)
    before = snapshot.metadata.configuration
    now = {key: value for key, value in before.items() if key != "delta.checkpointPolicy"} | {"team": "a"}
    txn.update_metadata(replace(snapshot.metadata, configuration=now))
    txn.commit(Provenance("SET TBLPROPERTIES"))
    assert table.server.properties == now


def test_what_the_catalog_needs_stays(table):
    log = table.log()
    snapshot = load_snapshot(log.table_path, log)
    txn = Transaction(log.table_path, log, snapshot)
    now = {**snapshot.metadata.configuration, "delta.enableInCommitTimestamps": "false"}
    txn.update_metadata(replace(snapshot.metadata, configuration=now))
    with pytest.raises(HeadwaterError, match="DELTA_CANNOT_MODIFY_CATALOG_MANAGED_DEPENDENCIES"):
        txn.commit(Provenance("SET TBLPROPERTIES"))
    assert table.server.latest == 0


def test_nobody_commits_to_the_files_of_such_a_table(table):
    log = table.log()
    with pytest.raises(HeadwaterError, match="DELTA_UNSUPPORTED_CATALOG_MANAGED_TABLE_OPERATION"):
        log.put_if_absent(f"{log.table_path}/_delta_log/{commit_name(1)}", b"{}")
    with pytest.raises(HeadwaterError, match="DELTA_UNSUPPORTED_CATALOG_MANAGED_TABLE_OPERATION"):
        log.delete(f"{log.table_path}/_delta_log/{commit_name(0)}")


def test_a_table_that_took_the_name_is_another_one(table):
    log = table.log()
    snapshot = load_snapshot(log.table_path, log)
    del table.model.schemas["s"]["t"]
    create_managed(catalog_of(table.model), table.store)
    txn = Transaction(log.table_path, log, snapshot)
    txn.add([add_file("mine")])
    with pytest.raises(HeadwaterError):
        txn.commit(Provenance("WRITE"))
    assert table.paths() == []


@pytest.mark.parametrize("script", [["cut"], ["lost"], ["late", "late"], ["away"]], ids=" ".join)
def test_a_table_is_created_once(script):
    model, store = UnityModel("/w", TOKEN), MemoryStore()

    def send(request: Request) -> Answer:
        creates = request.method == "POST" and request.path.endswith("/tables")
        wire.of_all = creates
        return wire(request)

    wire = Wire(model, *script)
    assert create_managed(catalog_of(model, send), store).version == 0
    log = log_of(catalog_of(model), store)
    assert load_snapshot(log.table_path, log).version == 0


def test_a_name_that_is_taken_creates_nothing(table):
    staging = catalog_of(table.model).stage("s", "u")
    create_managed(catalog_of(table.model), table.store, "u")
    with pytest.raises(HeadwaterError, match="already exists"):
        create_managed(catalog_of(table.model), table.store, staging=staging)
    assert not [path for path in list(table.store.files) if path.startswith(staging.location)]


STEPS = ["pass", "pass", "pass", "cut", "lost", "late", "held", "away", "429", "done-500", "503", "nonsense"]


@pytest.mark.parametrize("seed", range(8))
def test_every_outcome_is_what_happened(seed):
    """Writers in turns, faults at any request and at any call of the store; then all that was late arrives.

    Whoever was told that a commit stands finds it once; whoever was told that it failed finds nothing; nobody else's
    is there. What the catalog forgets was published (:meth:`Table.check_report`).
    """
    draw = random.Random(seed)
    table = Table(replays=draw.random() < 0.5, most_unpublished=draw.choice([1, 2, 10]))
    made: set[str] = set()
    failed: set[str] = set()
    unknown: set[str] = set()
    waiting: list[Request] = []
    logs = [table.log(Wire(table.model)) for _ in range(3)]
    wires = [log.table._catalog.api._send for log in logs]
    for number in range(25):
        name = f"f{number}"
        which = draw.randrange(3)
        log, wire = logs[which], wires[which]
        wire.script, wire.of_all = [draw.choice(STEPS) for _ in range(draw.randrange(16))], draw.random() < 0.3
        table.store.__class__ = draw.choice([MemoryStore, MemoryStore, Failing])
        Failing.draw = draw
        try:
            table.append(name, log=log)
            made.add(name)
        except HeadwaterError as error:
            (unknown if error.condition == "HEADWATER_CATALOG_OUTCOME_UNKNOWN" else failed).add(name)
        except OSError:
            failed.add(name)
        finally:
            table.store.__class__ = MemoryStore
            waiting += [*wire.waiting, *wire.held]
            wire.script, wire.waiting, wire.held = [], [], []
            if draw.random() < 0.5:
                for request in waiting:
                    table.model.handle(request)
                waiting = []
    for request in waiting:
        table.model.handle(request)
    found = table.paths()
    assert len(found) == len(set(found))
    assert made <= {*found} <= made | unknown
    assert not failed & {*found}
    assert len(made) > 5
    assert table.append("last") == table.server.latest
    assert table.published() == [*range(table.server.latest + 1)]


class Failing(MemoryStore):
    """A store that now and then does nothing, or answers nothing."""

    draw = random.Random()

    def put_if_absent(self, path, data):
        if self.draw.random() < 0.15:
            raise OSError("not done")
        super().put_if_absent(path, data)
        if self.draw.random() < 0.15:
            raise OSError("no answer")

    def read(self, path):
        if self.draw.random() < 0.03:
            raise OSError("not read")
        return super().read(path)
