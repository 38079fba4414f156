"""V2 checkpoints that share sidecars with the ones before them hold the same as those that share none."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest

from headwater.log import shared_sidecars
from headwater.log.checkpoint_reading import named_sidecars
from headwater.log.checkpoint_writing import Layout, write_checkpoint
from headwater.log.snapshot import load_snapshot
from headwater.protocol.actions import AddFile, DeletionVector, Metadata, Protocol, RemoveFile, serialize
from headwater.protocol.file_names import commit_name
from headwater.protocol.types import PrimitiveType, StructField, StructType, schema_string
from support.stores.memory_store import MemoryStore

PATH, LOG = "/t", "/t/_delta_log"
SIDECARS = f"{LOG}/_sidecars"
HOUR = 3600 * 1000
START = 1_700_000_000_000
FEATURES = frozenset({"v2Checkpoint", "deletionVectors"})
LAYOUT = Layout(part_size=4)


class Table:
    """A log by hand. Its files have statistics, and live in the partitions of a column."""

    def __init__(self, **configuration):
        self.now = START
        self.store = MemoryStore(lambda: self.now)
        self.store.make_directory(LOG)
        self.version = -1
        self.live: dict[str, AddFile] = {}
        self.columns = ["id"]
        settings = {f"delta.{name}": value for name, value in configuration.items()}
        self.metadata = Metadata("id", _schema("id"), ("part",), {"delta.checkpointPolicy": "v2", **settings}, None)
        self.commit([Protocol(3, 7, FEATURES, FEATURES), self.metadata])

    def commit(self, actions):
        self.now += HOUR
        self.version += 1
        self.store.put_if_absent(f"{LOG}/{commit_name(self.version)}", serialize(actions))

    def add(self, *names, vector=None):
        for name in names:
            self.live[name] = _file(name, self.columns, vector)
        self.commit([self.live[name] for name in names])

    def remove(self, *names):
        self.commit([_removal(self.live.pop(name), self.now) for name in names])

    def mark(self, name, cardinality):
        """Give a file another deletion vector."""
        old = self.live[name]
        self.live[name] = _file(name, self.columns, DeletionVector("u", f"{cardinality:020}", 40, cardinality, 1))
        self.commit([_removal(old, self.now), self.live[name]])

    def configure(self, *columns, **configuration):
        settings = {f"delta.{name}": value for name, value in configuration.items()}
        self.columns += [name for name in columns if name not in self.columns]
        configuration = {**self.metadata.configuration, **settings}
        self.metadata = replace(self.metadata, schema_string=_schema(*self.columns), configuration=configuration)
        self.commit([self.metadata])

    def checkpoint(self, layout=LAYOUT):
        """Write one; the names of the sidecars that it names, old ones and new ones."""
        there = self.sidecars()
        write_checkpoint(load_snapshot(PATH, self.store), self.now, layout)
        named = set(named_sidecars(load_snapshot(PATH, self.store).segment.checkpoint, self.store))
        return named & there, named - there

    def sidecars(self):
        try:
            return {file.name for file in self.store.list_from(SIDECARS)}
        except FileNotFoundError:
            return set()


def _schema(*columns):
    fields = [StructField(name, PrimitiveType("long")) for name in columns]
    return schema_string(StructType((*fields, StructField("part", PrimitiveType("string")))))


def _file(name, columns, vector=None):
    bounds = dict.fromkeys(columns, sum(map(ord, name)))
    stats = {"numRecords": 9, "minValues": bounds, "maxValues": bounds, "nullCount": dict.fromkeys(columns, 1)}
    return AddFile(name, {"part": name[-1]}, 100, 5, stats=json.dumps(stats), deletion_vector=vector)


def _removal(add, now):
    return RemoveFile(
        add.path, now, True, True, dict(add.partition_values), add.size, deletion_vector=add.deletion_vector
    )


def shown(snapshot):
    """All that a snapshot has."""
    leaves = [(name,) for name in ("id", "late") if name in snapshot.schema.names]
    rows = snapshot.files.drop_columns(["stats"]).to_pylist()
    found = zip(
        rows, snapshot.statistics(leaves).to_pylist(), snapshot.partition_values("part").to_pylist(), strict=True
    )
    return (
        sorted(map(repr, found)),
        sorted(map(repr, snapshot.tombstones().drop_columns(["data_change"]).to_pylist())),
        snapshot.metadata,
        snapshot.protocol,
    )


def of_the_checkpoint_alone(table):
    """The newest version's state, of a log of which only the newest checkpoint is left."""
    newest = load_snapshot(PATH, table.store).segment.checkpoint.files[0].path
    return _alone(table, [newest, *(f"{SIDECARS}/{name}" for name in table.sidecars())])


def of_the_commits(table):
    """That of a log without checkpoints."""
    return _alone(table, [f"{LOG}/{commit_name(version)}" for version in range(table.version + 1)])


def _alone(table, paths):
    store = MemoryStore(lambda: table.now)
    store.make_directory(SIDECARS)
    for path in paths:
        store.put(path, table.store.read(path))
    return load_snapshot(PATH, store)


@pytest.fixture
def table():
    """12 files in three full sidecars."""
    table = Table()
    table.add(*(f"f{i:02}" for i in range(12)))
    assert [len(names) for names in table.checkpoint()] == [0, 3]
    return table


def test_an_append_writes_its_own_files(table):
    table.add("new-1", "new-2")
    shared, new = table.checkpoint()
    assert (len(shared), len(new)) == (3, 1)
    table.add("new-3")  # the last one has half of what it may have, and is shared too
    shared, new = table.checkpoint()
    assert (len(shared), len(new)) == (4, 1)
    table.add("new-4")  # that was too small
    shared, new = table.checkpoint()
    assert (len(shared), len(new)) == (4, 1)
    assert shown(of_the_checkpoint_alone(table)) == shown(of_the_commits(table))


def test_a_json_checkpoint_names_those_of_a_parquet_one(table):
    table.add("new")
    assert len(table.checkpoint(replace(LAYOUT, top_level="json"))[0]) == 3
    file = load_snapshot(PATH, table.store).segment.checkpoint.files[0]
    actions = [json.loads(line) for line in table.store.read(file.path).splitlines()]
    named = [action["sidecar"] for action in actions if "sidecar" in action]
    sizes = {info.name: info.size for info in table.store.list_from(SIDECARS)}
    assert [list(each) for each in named] == [["path", "sizeInBytes", "modificationTime"]] * 4
    assert all(each["sizeInBytes"] == sizes[each["path"]] for each in named)


def test_a_sidecar_one_of_whose_files_goes_is_written_again(table):
    table.remove("f05")
    shared, new = table.checkpoint()
    # The three files that are left, and the tombstone.
    assert (len(shared), len(new)) == (2, 2)
    table.mark("f00", 3)
    shared, new = table.checkpoint()
    assert (len(shared), len(new)) == (2, 2)
    assert shown(of_the_checkpoint_alone(table)) == shown(of_the_commits(table))


def test_a_snapshot_that_has_seen_commits_since_shares_them_too(table):
    snapshot = load_snapshot(PATH, table.store)
    table.add("new")
    newer = load_snapshot(PATH, table.store, base=snapshot)
    assert newer.state.blocks[0].block is snapshot.state.blocks[0].block
    write_checkpoint(newer, table.now, LAYOUT)
    assert len(table.sidecars()) == 4


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.configure("late"),
        lambda table: table.configure(**{"checkpoint.writeStatsAsStruct": "false"}),
        lambda table: table.configure(logRetentionDuration="interval 23 hours"),
        lambda table: [table.store.delete(f"{SIDECARS}/{name}") for name in table.sidecars()],
        lambda table: [table.add("new"), table.checkpoint(Layout(part_size=100))],
    ],
    ids=["another column", "other columns of the checkpoint", "short retention", "missing", "a newer one"],
)
def test_what_is_not_shared(table, change):
    """Each of the three reasons, in its kinds; the snapshot was loaded before."""
    snapshot = load_snapshot(PATH, table.store)
    before = table.sidecars()
    snapshot.statistics([("id",)])
    change(table)
    newer = load_snapshot(PATH, table.store, base=snapshot)
    write_checkpoint(newer, table.now, LAYOUT)
    named = named_sidecars(load_snapshot(PATH, table.store).segment.checkpoint, table.store)
    assert named
    assert not before & named.keys()
    assert shown(of_the_checkpoint_alone(table)) == shown(of_the_commits(table))


@pytest.mark.random
@pytest.mark.parametrize("seed", range(4))
def test_random_histories(seed, monkeypatch):
    """Files come, go, come back and get deletion vectors; columns and settings change; checkpoints are written by
    processes that have just started, and by one that goes on.
    """
    draw = random.Random(seed)
    found: list[dict] = []
    real = shared_sidecars.shared_sidecars

    def noting(*given):
        found.append(real(*given))
        return found[-1]

    monkeypatch.setattr("headwater.log.checkpoint_writing.shared_sidecars", noting)
    table, known, gone = Table(), None, []
    for step in range(40):
        kind = draw.choice(["add", "add", "add", "remove", "back", "mark", "configure", "checkpoint", "checkpoint"])
        if kind == "add":
            table.add(*(f"s{step}-{i}" for i in range(draw.choice([1, 2, 9]))))
        elif kind == "remove" and table.live:
            names = draw.sample(sorted(table.live), min(len(table.live), draw.choice([1, 1, 3])))
            table.remove(*names)
            gone += names
        elif kind == "back" and gone:
            table.add(gone.pop(draw.randrange(len(gone))))
        elif kind == "mark" and table.live:
            table.mark(draw.choice(sorted(table.live)), step + 1)
        elif kind == "configure" and draw.random() < 0.5:
            table.configure(
                *draw.choice([(), (), ("late",)]),
                **{"checkpoint.writeStatsAsStruct": draw.choice(["true", "false"])},
            )
        elif kind == "checkpoint":
            known = load_snapshot(PATH, table.store, base=known if draw.random() < 0.5 else None)
            write_checkpoint(known, table.now, replace(LAYOUT, top_level=draw.choice(["json", "parquet"])))
            assert shown(of_the_checkpoint_alone(table)) == shown(of_the_commits(table))
            assert {row["path"] for row in load_snapshot(PATH, table.store).files.to_pylist()} == set(table.live)
    assert any(found)
