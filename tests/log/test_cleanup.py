"""What a cleanup of the log takes, and that it takes nothing that is needed."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.basics.errors import HeadwaterError
from headwater.log.checkpoint_reading import named_sidecars
from headwater.log.checkpoint_writing import Layout, write_checkpoint
from headwater.log.checksums import write_checksum
from headwater.log.cleanup import clean_up
from headwater.log.history import version_at
from headwater.log.snapshot import load_snapshot
from headwater.protocol.actions import AddFile, CommitInfo, Metadata, Protocol, RemoveFile, SetTransaction, serialize
from headwater.protocol.file_names import CheckpointName, commit_name, parse_name
from support.stores.memory_store import MemoryStore

DAY = 24 * 3600 * 1000
START = 1_700_000_000_000 // DAY * DAY
V2 = frozenset({"v2Checkpoint"})
KINDS = {
    "classic": (Protocol(1, 2), {}, Layout()),
    "parts": (Protocol(1, 2), {}, Layout(part_size=2)),
    "v2": (Protocol(3, 7, V2, V2), {"delta.checkpointPolicy": "v2"}, Layout(part_size=2)),
    "v2 json": (Protocol(3, 7, V2, V2), {"delta.checkpointPolicy": "v2"}, Layout(part_size=1, top_level="json")),
    "in-commit": (Protocol(1, 7, None, frozenset({"inCommitTimestamp"})), {"delta.enableInCommitTimestamps": "true"},
                  Layout()),
    "protected": (Protocol(1, 7, None, frozenset({"checkpointProtection"})), {}, Layout()),
}  # fmt: skip
PATH = "/t"
LOG = f"{PATH}/_delta_log"


class Table:
    """A log by hand; the store's clock says when."""

    def __init__(self, kind="classic", **properties):
        self.protocol, configuration, self.layout = KINDS[kind]
        self.configuration = {**configuration, "delta.logRetentionDuration": "interval 3 days", **properties}
        self.now = START
        self.store = MemoryStore(lambda: self.now)
        self.store.make_directory(LOG)
        self.version = -1

    def commit(self, at, checkpoint=False):
        self.now = at
        self.version += 1
        v = self.version
        actions: list[Any] = [CommitInfo({"inCommitTimestamp": at})]
        if v == 0:
            schema = '{"type":"struct","fields":[]}'
            actions += [self.protocol, Metadata("the-id", schema, (), self.configuration, created_time=1)]
        actions += [AddFile(f"f{v}", {}, 10, 1), SetTransaction("app", v, at)]
        if v > 2:
            actions.append(RemoveFile(f"f{v - 2}", at, True, True, {}, 10))
        self.store.put_if_absent(f"{LOG}/{commit_name(v)}", serialize(actions))
        snapshot = load_snapshot(PATH, self.store)
        write_checksum(snapshot.table_path, snapshot.store, snapshot.version, snapshot.checksum())
        if checkpoint:
            write_checkpoint(snapshot, at, self.layout)
        return snapshot

    def clean(self, now):
        return clean_up(load_snapshot(PATH, self.store), now)

    def shown(self, version):
        snapshot = load_snapshot(PATH, self.store, version)
        return sorted(snapshot.select(["path"]).column("path").to_pylist()), snapshot.set_transactions

    def versions(self):
        return sorted({name.version for file in self.store.list_from(LOG) if (name := parse_name(file.name))})


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    kind=st.sampled_from(sorted(KINDS)),
    steps=st.lists(st.tuples(st.integers(0, 30), st.booleans()), min_size=1, max_size=14),
    idle=st.integers(0, 100),
)
def test_time_travel_inside_the_retention_works_as_before(kind, steps, idle):
    """Commits some hours apart, some with a checkpoint; then a last one, and a cleanup."""
    table, at, times = Table(kind), START, []
    for hours, checkpoint in [*steps, (idle, True)]:
        at += hours * DAY // 24 + 1
        table.commit(at, checkpoint)
        times.append(at)
    needed = [v for v in range(len(times)) if v == len(times) - 1 or times[v + 1] >= at - 3 * DAY]
    before = {version: table.shown(version) for version in needed}
    moments = [max(at - 3 * DAY, times[0]), *times[needed[0] :]]
    travelled = [version_at(PATH, table.store, moment) for moment in moments]
    files = dict(table.store.files)
    table.clean(at)
    assert {version: table.shown(version) for version in needed} == before
    assert [version_at(PATH, table.store, moment) for moment in moments] == travelled
    assert table.store.files.items() <= files.items()
    left = dict(table.store.files)
    table.clean(at)
    assert table.store.files == left


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_what_is_older_goes(kind):
    table = Table(kind)
    for day in range(12):
        table.commit(START + day * DAY + 5, checkpoint=day % 3 == 1)
    cleaned = table.clean(START + 12 * DAY)
    # Kept are three days and the checkpoint before them: the day the retention begins with is day 8, of version 7.
    assert cleaned.earliest == 7
    assert table.versions() == [7, 8, 9, 10, 11]
    if kind.startswith("v2"):
        for version in (7, 11):
            assert table.shown(version)
    with pytest.raises(HeadwaterError) as raised:
        load_snapshot(PATH, table.store, 6)
    assert raised.value.condition == "DELTA_VERSION_NOT_FOUND"
    assert raised.value.parameters["earliest"] == "7"
    assert table.clean(START + 12 * DAY).num_files == 0


@pytest.mark.parametrize("policy", ["v2", "v2 json"])
def test_sidecars_go_with_the_last_checkpoint_that_names_them_but_not_young_ones(policy):
    table = Table(policy)
    for day in range(10):
        table.commit(START + day * DAY, checkpoint=day in (1, 8))
    table.now = START + 9 * DAY
    directory = f"{LOG}/_sidecars"
    table.store.put(f"{directory}/young.parquet", b"of a checkpoint that is being written")
    old = {file.name for file in table.store.list_from(directory) if file.modification_time < START + 2 * DAY}
    assert old
    table.commit(START + 20 * DAY)
    table.clean(START + 20 * DAY)
    left = {file.name for file in table.store.list_from(directory)}
    newest = load_snapshot(PATH, table.store).segment.checkpoint
    assert left == named_sidecars(newest, table.store).keys()  # not the young one, which is old by now, and of none
    assert old - left
    assert table.shown(8)
    table.store.put(f"{directory}/young.parquet", b"of a checkpoint that is being written")
    table.clean(START + 20 * DAY)
    assert f"{directory}/young.parquet" in {file.path for file in table.store.list_from(directory)}


def test_nothing_goes_where_the_table_says_so_or_no_checkpoint_stands_in():
    off, none = Table(**{"delta.enableExpiredLogCleanup": "false"}), Table()
    for day in range(10):
        off.commit(START + day * DAY, checkpoint=True)
        none.commit(START + day * DAY)
    for table in (off, none):
        files = dict(table.store.files)
        assert table.clean(START + 100 * DAY) is None
        assert table.store.files == files


def test_a_checkpoint_that_cannot_be_read_stands_in_for_nothing(caplog):
    table = Table()
    for day in range(12):
        table.commit(START + day * DAY, checkpoint=day in (3, 7))
    torn = next(path for path in table.store.files if path.endswith(f"{7:020d}.checkpoint.parquet"))
    table.store.put(torn, table.store.read(torn)[:-20])
    with caplog.at_level(logging.WARNING):
        assert table.clean(START + 11 * DAY).earliest == 3
    assert "is not cleaned up to version" in caplog.text
    assert table.shown(7)


def test_a_clock_that_is_ahead_costs_no_version():
    """By this machine's clock a year has gone; the newest commit says otherwise."""
    table = Table()
    for day in range(3):
        table.commit(START + day * DAY, checkpoint=True)
    table.clean(START + 365 * DAY)
    assert table.versions() == [0, 1, 2]


@pytest.mark.parametrize("kind", ["parts", "v2"])
def test_a_cleanup_cut_off_at_any_file_leaves_what_is_needed(kind):
    table = Table(kind)
    for day in range(12):
        table.commit(START + day * DAY, checkpoint=day % 3 == 1)
    whole = table.store
    before = {version: table.shown(version) for version in (7, 11)}
    table.store = whole.copy()
    count = table.clean(START + 11 * DAY).num_files
    assert count > 10
    for allowed in range(0, count, 2):
        table.store = whole.copy()
        deleted: list[Any] = []

        def delete(path, store=table.store, deleted=deleted, allowed=allowed):
            if len(deleted) == allowed:
                raise OSError("the store is down")
            deleted.append(path)
            MemoryStore.delete(store, path)

        table.store.delete = delete  # type: ignore[method-assign]
        with pytest.raises(OSError, match="the store is down"):
            table.clean(START + 11 * DAY)
        del table.store.delete
        assert {version: table.shown(version) for version in before} == before
        assert table.clean(START + 11 * DAY).num_files == count - allowed
    assert {version: table.shown(version) for version in before} == before


def test_protected_versions_go_together_or_stay():
    """Day 11 keeps versions from 8 on, for which the checkpoint of version 7 is needed."""
    for before, earliest in ((8, None), (7, 7), (3, 7), (0, 7)):
        table = Table("protected", **{"delta.requireCheckpointProtectionBeforeVersion": str(before)})
        for day in range(12):
            table.commit(START + day * DAY, checkpoint=day % 3 == 1)
        names = set(table.store.files)
        cleaned = table.clean(START + 11 * DAY)
        assert (cleaned.earliest if cleaned else None) == earliest
        if earliest is None:
            assert set(table.store.files) == names


def test_commits_go_before_protected_checkpoints():
    table = Table("protected", **{"delta.requireCheckpointProtectionBeforeVersion": "5"})
    for day in range(12):
        table.commit(START + day * DAY, checkpoint=day % 3 == 1)
    deleted = []

    def delete(path):
        deleted.append(isinstance(parse_name(path.rsplit("/", 1)[1]), CheckpointName))
        MemoryStore.delete(table.store, path)

    table.store.delete = delete  # type: ignore[method-assign]
    table.clean(START + 11 * DAY)
    assert deleted == sorted(deleted)
    assert set(deleted) == {True, False}
