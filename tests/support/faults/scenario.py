"""A short life of a table, every step of which may meet a fault, and what must hold after it.

The steps go through everything a commit, its maintenance and a lost race do. What was acknowledged is noted; the check
then reads the log line by line, without any of the code that is tested, and compares.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headwater.basics.errors import HeadwaterError
from headwater.log.checkpoint_reading import read_checkpoint
from headwater.log.checkpoint_writing import write_checkpoint
from headwater.log.segment import find_segment
from headwater.log.snapshot import Snapshot, load_snapshot
from headwater.protocol.actions import AddFile, Metadata, Protocol, RemoveFile
from headwater.protocol.file_names import CommitName, parse_name
from headwater.stores import Store
from headwater.transaction import Provenance, Transaction, wait_for_maintenance
from support.faults.faulty_store import Crash

SCHEMA = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'
CLASSIC = Protocol(1, 2)
FEATURES = Protocol(3, 7, frozenset({"v2Checkpoint"}), frozenset({"v2Checkpoint", "inCommitTimestamp"}))


_UNIQUE = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}|\b1\d{12}\b")


def masked(text: str) -> str:
    """The text without identifiers, digests and today's times."""
    return _UNIQUE.sub("*", text)


@dataclass(frozen=True)
class Kind:
    """A table to live through the steps."""

    protocol: Protocol = CLASSIC
    configuration: Mapping[str, str] = field(default_factory=dict)

    @property
    def metadata(self) -> Metadata:
        settings = {"delta.checkpointInterval": "2", **self.configuration}
        return Metadata("the-id", SCHEMA, (), settings, created_time=1)


KINDS = {
    "classic": Kind(),
    "v2 and in-commit timestamps": Kind(
        FEATURES, {"delta.checkpointPolicy": "v2", "delta.enableInCommitTimestamps": "true"}
    ),
}
#: More kinds of checkpoints, of which only the writing of the checkpoints differs from the above.
CHECKPOINTS = {
    "parts": Kind(CLASSIC, {"delta.checkpoint.partSize": "2"}),
    "several sidecars": Kind(FEATURES, {"delta.checkpointPolicy": "v2", "delta.checkpoint.partSize": "2"}),
}


@dataclass
class Life:
    """What became of each step: the version it was told it made, or None where it was told nothing or of a failure."""

    path: str
    kind: Kind
    store: Store
    disk: Store
    outcomes: dict[str, int | None] = field(default_factory=dict)
    failures: list[BaseException] = field(default_factory=list)
    #: The steps whose writer was told that nothing was committed.
    failed: set[str] = field(default_factory=set)

    def run(self, first: int = 0, count: int | None = None) -> None:
        """Some of the steps, all by default, up to where the process dies."""
        steps = self.steps()
        try:
            for step in steps[first:][:count]:
                step()
        except Crash:
            pass
        wait_for_maintenance(60)

    def steps(self) -> list[Callable[[], None]]:
        return [
            lambda: self.create("create"),
            lambda: self.write("append", ["a", "b"]),
            lambda: self.write("rewrite", ["c"], ["a"], app="stream"),
            lambda: self.race("lost race", "winner"),
            lambda: self.write("delete", [], ["b"]),
        ]

    def ends_as(self) -> Hashable:
        """The same for two lives that left the same files, but for names and times, and told their writers the same.

        Of what is not text only the size counts.
        """
        files = getattr(self.disk, "files", {}).items()
        contents = (
            (masked(path), len(data) if path.endswith(".parquet") else masked(data.decode(errors="replace")))
            for path, (data, _) in files
        )
        return frozenset(contents), tuple(self.outcomes.items())

    def create(self, name: str) -> None:
        txn = Transaction(self.path, self.store, None)
        txn.update_protocol(self.kind.protocol)
        txn.update_metadata(self.kind.metadata)
        self._commit(name, txn)

    def write(self, name: str, adds: Iterable[str], removes: Iterable[str] = (), app: str | None = None) -> None:
        if self.outcomes.get("create") is None and not exists(self.disk, self.path):
            self.create("create again")
        snapshot = self._open(name)
        if snapshot is not None:
            self._commit(name, self._transaction(snapshot, name, adds, removes, app))

    def race(self, name: str, winner: str) -> None:
        """A commit on a snapshot that another commit has overtaken."""
        snapshot = self._open(name)
        if snapshot is not None:
            self._commit(winner, self._transaction(snapshot, winner, [winner], (), None))
            self._commit(name, self._transaction(snapshot, name, ["d"], (), None))

    def _open(self, name: str) -> Snapshot | None:
        try:
            return load_snapshot(self.path, self.store)
        except (OSError, HeadwaterError) as error:
            self.failures.append(error)
            self.outcomes[name] = None
            return None

    def _transaction(
        self, snapshot: Snapshot, name: str, adds: Iterable[str], removes: Iterable[str], app: str | None
    ) -> Transaction:
        txn = Transaction(self.path, self.store, snapshot)
        txn.add(AddFile(path, {}, 10, 1, stats='{"numRecords":1}') for path in adds)
        txn.remove(RemoveFile(path, 9_999_999_999_999, True, True, {}, 10) for path in removes)
        if app is not None:
            txn.set_transaction(app, 1)
        return txn

    def _commit(self, name: str, txn: Transaction) -> None:
        self.outcomes[name] = None
        try:
            self.outcomes[name] = txn.commit(Provenance("WRITE", user_metadata=name)).version
        except (OSError, HeadwaterError) as error:
            self.failures.append(error)
            if not isinstance(error, HeadwaterError) or error.condition != "HEADWATER_COMMIT_OUTCOME_UNKNOWN":
                self.failed.add(name)
        wait_for_maintenance(60)


def check(life: Life) -> None:
    """What must hold whatever happened.

    - Versions are without gap, and each holds one whole commit.
    - What was acknowledged is there once, under the version that was told; what failed is not there, and what may have
      failed is there once or not at all.
    - Each version shows what a plain replay of the log shows, by whichever checkpoint it is read.
    - The next writer commits, and the next checkpoint is written and read.
    """
    disk, path = life.disk, life.path
    if not exists(disk, path):
        assert all(version is None for version in life.outcomes.values())
        return
    commits = read_commits(disk, path)
    assert list(commits) == list(range(len(commits)))
    names = [_provenance(actions)["userMetadata"] for actions in commits.values()]
    assert len(set(names)) == len(names)
    assert not life.failed.intersection(names)
    for name, version in life.outcomes.items():
        if version is not None:
            assert names[version] == name
    assert set(names) <= {*life.outcomes, *INTERLOPERS}
    _next_writer(life)
    _same_as_replay(disk, path, read_commits(disk, path))


INTERLOPERS = ("another writer's",)


def interlope(disk: Store, path: str) -> None:
    """Another writer, of another kind, commits an append; it does no maintenance."""
    if not exists(disk, path):
        return
    version = max(read_commits(disk, path)) + 1
    info = {"commitInfo": {"operation": "WRITE", "isBlindAppend": True, "userMetadata": INTERLOPERS[0]}}
    if any(action.get("metaData", {}).get("configuration", {}).get("delta.enableInCommitTimestamps")
           for actions in read_commits(disk, path).values() for action in actions):  # fmt: skip
        info["commitInfo"]["inCommitTimestamp"] = 9_000_000_000_000
    add = {"add": {"path": "x", "partitionValues": {}, "size": 10, "modificationTime": 1, "dataChange": True}}
    lines = "".join(json.dumps(action) + "\n" for action in (info, add))
    disk.put_if_absent(f"{path}/_delta_log/{version:020d}.json", lines.encode())


def exists(disk: Store, path: str) -> bool:
    """Whether the table has a commit."""
    try:
        return bool(read_commits(disk, path))
    except FileNotFoundError:
        return False


def read_commits(disk: Store, path: str) -> dict[int, list[dict[str, Any]]]:
    """The actions of each version."""
    commits = {}
    for file in disk.list_from(f"{path}/_delta_log"):
        name = parse_name(file.name)
        if isinstance(name, CommitName):
            content = disk.read(file.path).decode()
            assert content.endswith("\n")
            commits[name.version] = [json.loads(line) for line in content.splitlines()]
    return commits


def _provenance(actions: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    (info,) = [action["commitInfo"] for action in actions if "commitInfo" in action]
    return info


def _same_as_replay(disk: Store, path: str, commits: Mapping[int, list[dict[str, Any]]]) -> None:
    live: set[str] = set()
    transactions: dict[str, int] = {}
    times: list[int] = []
    for version, actions in commits.items():
        for action in actions:
            match action:
                case {"add": {"path": file}}:
                    live.add(file)
                case {"remove": {"path": file}}:
                    live.discard(file)
                case {"txn": {"appId": app, "version": number}}:
                    transactions[app] = number
        snapshot = load_snapshot(path, disk, version)
        assert set(snapshot.select(["path"]).column("path").to_pylist()) == live
        assert {app: txn.version for app, txn in snapshot.set_transactions.items()} == transactions
        assert snapshot.num_files == len(live)
        stamp = _provenance(actions).get("inCommitTimestamp")
        if stamp is not None:
            times.append(stamp)
    assert times == sorted(set(times))
    assert load_snapshot(path, disk).version == max(commits)


def _next_writer(life: Life) -> None:
    snapshot = load_snapshot(life.path, life.disk)
    txn = Transaction(life.path, life.disk, snapshot)
    txn.add([AddFile("next", {}, 10, 1)])
    committed = txn.commit(Provenance("WRITE", user_metadata="next"))
    assert committed.version == snapshot.version + 1
    assert wait_for_maintenance(60)
    write_checkpoint(committed.snapshot)
    life.outcomes["next"] = committed.version
    checkpoint = find_segment(life.path, life.disk).checkpoint
    assert checkpoint is not None
    assert checkpoint.version == committed.version
    blocks = read_checkpoint(checkpoint, life.path, life.disk).blocks
    in_it = [file for block in blocks for file in block.table.column("path").to_pylist()]
    assert sorted(in_it) == sorted(committed.snapshot.select(["path"]).column("path").to_pylist())
