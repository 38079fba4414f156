"""Which files micro-batches read: each once, in order, whatever the limits and restarts, and errors where rows would be
missed."""

from __future__ import annotations

import itertools
import os
import re
import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.basics.errors import HeadwaterError
from headwater.protocol.types import PrimitiveType
from headwater.pruning.predicates import Column, Comparison, literal
from headwater.streams.commits import Commits
from headwater.streams.initial import InitialSnapshots
from headwater.streams.limits import Limits
from headwater.streams.offsets import BASE, Offset, parse_offset
from headwater.streams.source import Reading
from headwater.transaction import Provenance, Transaction
from support.commits import add_file, remove_file
from support.drawing import STEADY
from support.streams import Source

END = 1 << 60


def paths(files: pa.Table) -> list[str]:
    return files["path"].to_pylist()


def read_all(
    source: Source,
    reading: Reading | None = None,
    start: Offset | None = None,
    told: int | None = None,
    limits: Callable[[], Limits] = lambda: Limits(2),
    until: Offset | None = None,
) -> tuple[list[list[str]], Offset | None]:
    """The paths of each micro-batch, the stream made new for each call, and the last offset."""
    batches: list[Any] = []
    while True:
        stream = source.stream(reading)
        begin = start or stream.begin(told)
        end = stream.end(begin, limits(), until)
        if end is None or end.offset == start:
            return batches, start
        offset = parse_offset(end.offset.to_json(), stream.table_id)
        batches.append(paths(source.stream(reading).files(start, offset, told).files))
        assert len(batches[-1]) == end.files
        start = offset


def test_the_initial_snapshot_then_commits(source: Source) -> None:
    source.commit(*(add_file(f"f{i}") for i in (3, 1, 2)))
    source.commit(add_file("f0"), add_file("compacted", data_change=False))
    batches, offset = read_all(source)
    assert batches == [["compacted", "f0"], ["f1", "f2"], ["f3"]]
    assert offset == Offset("the-id", 3, BASE, is_initial=False)
    source.commit(add_file("z"), add_file("y"), add_file("x"))
    source.commit(add_file("rewritten", data_change=False), remove_file("x", data_change=False))
    source.commit(add_file("a"))
    batches, offset = read_all(source, start=offset)
    assert batches == [["z", "y"], ["x", "a"]]
    assert offset == Offset("the-id", 6, BASE, is_initial=False)
    assert read_all(source, start=offset) == ([], offset)


def test_an_empty_table(source: Source) -> None:
    batches, offset = read_all(source)
    assert batches == [[]]
    assert offset == Offset("the-id", 1, BASE, is_initial=False)
    source.commit(add_file("a"))
    assert read_all(source, start=offset)[0] == [["a"]]


def test_bytes_are_soft(source: Source) -> None:
    source.commit(*(add_file(f"f{i}") for i in range(5)))  # of 100 bytes each
    assert [len(b) for b in read_all(source, limits=lambda: Limits(None, 150))[0]] == [2, 2, 1]
    assert [len(b) for b in read_all(source, told=1, limits=lambda: Limits(None, 100))[0]] == [1, 1, 1, 1, 1]
    assert [len(b) for b in read_all(source, told=1, limits=lambda: Limits(3, 101))[0]] == [2, 2, 1]
    assert [len(b) for b in read_all(source, limits=lambda: Limits(None, 1))[0]] == [1, 1, 1, 1, 1]


def test_whole_commits(source: Source) -> None:
    for version in range(1, 5):
        source.commit(*(add_file(f"{version}-{i}") for i in range(version)))
    reading = Reading(whole_commits=True)
    assert [len(b) for b in read_all(source, reading, told=0, limits=lambda: Limits(3))[0]] == [3, 3, 4]


class Entry(NamedTuple):
    """An entry of the list that a stream walks: a file, or, with no path, the beginning or the end of a version."""

    version: int
    place: int
    path: str | None = None
    size: int = 0

    @property
    def offset(self) -> tuple[int, int]:
        """Where a micro-batch that ends with this entry ends: after a whole version, that is where the next begins."""
        return (self.version + 1, BASE) if self.place == END else (self.version, self.place)


def version_entries(version: int, files: Iterable[tuple[str, int]]) -> list[Entry]:
    inside = [Entry(version, place, path, size) for place, (path, size) in enumerate(files)]
    return [Entry(version, BASE), *inside, Entry(version, END)]


def longest_run(entries: Iterable[Entry], files: int, size: int) -> list[Entry]:
    """The entries that one micro-batch takes: files until one limit is used up, and whatever else lies between."""
    taken: list[Entry] = []
    for entry in entries:
        if entry.path is not None:
            if files <= 0 or size <= 0:
                break
            files, size = files - 1, size - entry.size
        taken.append(entry)
    return taken


class GrowingTable:
    """A table that random commits make, beside the files that a stream must find in each version."""

    def __init__(self, source: Source, data: st.DataObject) -> None:
        self.source, self._data = source, data
        self.added: list[list[tuple[str, int]]] = [[]]
        self.rewritten: list[tuple[str, int]] = []

    @property
    def version(self) -> int:
        return len(self.added) - 1

    def commit(self) -> None:
        """Up to four files with new rows, and one that has old rows only, which no stream reads as a change."""
        number = len(self.added)
        drawn = self._data.draw(st.lists(st.tuples(st.integers(0, 99), st.integers(1, 9)), max_size=4), "files")
        files = [(f"{name}-{number}-{i}", size) for i, (name, size) in enumerate(drawn)]
        moved = add_file(f"moved-{number}", data_change=False)
        self.source.commit(*(replace(add_file(path), size=size) for path, size in files), moved)
        self.added.append(files)
        self.rewritten.append((moved.path, moved.size))

    def snapshot(self, version: int) -> list[tuple[str, int]]:
        """All files of a version, in the order in which a stream's first batches read them."""
        return sorted([*itertools.chain(*self.added[: version + 1]), *self.rewritten[:version]])


@settings(STEADY, max_examples=60)
@given(data=st.data())
def test_each_file_once_at_the_offsets_of_the_model(make_source: Callable[[], Source], data: st.DataObject) -> None:
    """Each micro-batch takes the longest run of the list's entries that its limits allow, whoever restarts when."""
    table = GrowingTable(make_source(), data)
    for _ in range(data.draw(st.integers(0, 3), "versions before")):
        table.commit()
    is_initial = data.draw(st.booleans(), "initial")
    first = table.version if is_initial else data.draw(st.integers(0, table.version), "first")
    at_first = table.snapshot(first) if is_initial else table.added[first]
    stream = table.source.stream()
    for _ in range(data.draw(st.integers(0, 4), "versions after")):
        table.commit()
    last = table.version + 3

    start: Offset | None = None
    while True:
        begin = start or Offset("the-id", first, BASE, is_initial=is_initial)
        versions = [(first, at_first), *((v, table.added[v]) for v in range(first + 1, table.version + 1))]
        ahead = (e for v, files in versions for e in version_entries(v, files) if e[:2] > begin.position)
        limits = data.draw(st.integers(1, 5), "max files"), data.draw(st.integers(1, 20), "max bytes")
        expected = longest_run(ahead, *limits)
        if start is not None and data.draw(st.booleans(), "restart"):
            stream = table.source.stream()
        end = stream.end(begin, Limits(*limits))
        if not expected:
            assert end is None
            if table.version == last:
                break
            table.commit()
            continue
        assert end is not None
        assert (end.offset.version, end.offset.index) == expected[-1].offset
        assert end.offset.is_initial == (is_initial and expected[-1].offset < (first, END))
        files = [entry for entry in expected if entry.path is not None]
        found = stream.files(start, end.offset, None if is_initial else first).files
        assert paths(found) == [file.path for file in files]
        assert (end.files, end.size) == (len(files), sum(file.size for file in files))
        start = end.offset


def test_until(source: Source) -> None:
    source.commit(*(add_file(f"f{i}") for i in range(3)))
    stream = source.stream()
    until = stream.end(stream.begin(None), Limits())
    assert until is not None
    source.commit(add_file("later"))
    batches, offset = read_all(source, start=stream.begin(None), until=until.offset)
    assert (sum(batches, []), offset) == (["f0", "f1", "f2"], until.offset)


def test_commits_that_change_rows(source: Source) -> None:
    source.commit(add_file("a"), add_file("b"))
    begin = Offset("the-id", 2, BASE, is_initial=False)
    source.commit(add_file("c"), remove_file("a"))
    source.commit(add_file("d"))
    source.commit(remove_file("b"))
    source.commit(add_file("e"))

    def outcome(**options: bool) -> object:
        try:
            return sum(read_all(source, Reading(**options), start=begin)[0], [])
        except HeadwaterError as error:
            return error.condition, error.parameters["version"]

    assert outcome() == ("DELTA_SOURCE_TABLE_IGNORE_CHANGES", "2")
    assert outcome(ignores_deletes=True) == ("DELTA_SOURCE_TABLE_IGNORE_CHANGES", "2")
    assert outcome(ignores_changes=True) == ["c", "d", "e"]
    assert outcome(skips_changes=True) == ["d", "e"]
    assert read_all(source, start=Offset("the-id", 3, BASE, is_initial=False), until=Offset("the-id", 4, BASE, False))[
        0
    ]
    begin = Offset("the-id", 3, BASE, is_initial=False)
    assert outcome() == ("DELTA_SOURCE_IGNORE_DELETE", "4")
    assert outcome(ignores_deletes=True) == ["d", "e"]


def test_paths_that_are_excluded(source: Source) -> None:
    source.commit(*(add_file(f"f{i}") for i in range(4)))
    stream = source.stream(Reading(excludes=re.compile("[13]$")))
    end = stream.end(stream.begin(None), Limits(3))
    assert end is not None
    assert end.files == 3  # limits count what is in the log
    assert paths(stream.files(None, end.offset).files) == ["f0", "f2"]


@pytest.mark.parametrize("told", [None, 0])
def test_filters_skip_files(source: Source, told: int | None) -> None:
    source.commit(*(add_file(f"f{i}", low=10 * i, high=10 * i + 9) for i in range(5)))
    stream = source.stream()
    long = PrimitiveType("long")
    predicate = Comparison("<", Column(("id",)), literal(long, 15))
    found = stream.files(None, Offset("the-id", 2, BASE, is_initial=False), told, [predicate])
    assert paths(found.files) == ["f0", "f1"]


def lose(source: Source, *versions: int) -> None:
    for version in versions:
        os.remove(f"{source.path}/_delta_log/{version:020d}.json")


def test_versions_that_are_gone(source: Source) -> None:
    from headwater.log.checkpoint_writing import write_checkpoint

    for i in range(1, 5):
        source.commit(add_file(f"f{i}"))
    write_checkpoint(source.snapshot)
    source.commit(add_file("f5"))
    at_2 = Offset("the-id", 2, BASE, is_initial=False)
    assert sum(read_all(source, start=at_2)[0], []) == ["f2", "f3", "f4", "f5"]
    lose(source, 0, 1, 2)
    with pytest.raises(HeadwaterError) as raised:
        read_all(source, start=at_2)
    assert raised.value.condition == "DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE"
    assert raised.value.parameters["earliest"] == "3"
    assert sum(read_all(source, Reading(tolerates_loss=True), start=at_2)[0], []) == ["f3", "f4", "f5"]
    lose(source, 3, 4)
    assert read_all(source, start=Offset("the-id", 6, BASE, is_initial=False))[0] == []
    assert sum(read_all(source, start=Offset("the-id", 5, BASE, is_initial=False))[0], []) == ["f5"]


def test_planned_commits_that_are_gone(source: Source) -> None:
    for i in range(1, 4):
        source.commit(add_file(f"f{i}"))
    stream = source.stream()
    lose(source, 3)
    with pytest.raises(HeadwaterError) as raised:
        stream.files(Offset("the-id", 1, BASE, False), Offset("the-id", 4, BASE, False))
    assert raised.value.condition == "DELTA_STREAMING_TRAILING_COMMIT_MISSING"


def test_a_table_that_replaced_another(source: Source) -> None:
    source.commit(add_file("a"))
    stream = source.stream()
    end = stream.end(stream.begin(None), Limits())
    assert end is not None
    source.commit(add_file("b"))
    following = stream.end(end.offset, Limits())
    assert following is not None
    while os.path.exists(source.path):  # maintenance of the last commit may be under way
        shutil.rmtree(source.path, ignore_errors=True)
    source.create("another-id")
    with pytest.raises(HeadwaterError) as raised:
        stream.end(following.offset, Limits())
    assert raised.value.condition == "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE"
    for i in range(3):
        source.commit(add_file(f"c{i}"))
    with pytest.raises(HeadwaterError) as raised:
        stream.end(following.offset, Limits())
    assert raised.value.condition == "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE"


def test_excluded_paths_of_changes(source):
    source.commit(*(add_file(f"f{i}") for i in range(3)))
    txn = Transaction(source.path, source.store, source.snapshot)
    txn.update_metadata(replace(txn.metadata, configuration={"delta.enableChangeDataFeed": "true"}))
    txn.commit(Provenance("SET TBLPROPERTIES"))
    stream = source.stream(Reading(reads_changes=True, excludes=re.compile("1$")))
    begin = stream.begin(None)
    for most, expected in ((2, ["f0"]), (9, ["f0", "f2"])):
        end = stream.end(begin, Limits(most))
        assert end is not None
        assert [file.path for file in stream.changes(None, end.offset).files] == expected


def test_what_is_kept_of_commits_is_bounded(source, monkeypatch):
    monkeypatch.setattr("headwater.streams.commits._BYTES_KEPT", 5 * 41_000)
    commits = Commits()
    for i in range(20):
        source.commit(add_file(f"f{i}"))

    def versions():
        found = commits.since(source.path, source.store, "the-id", 1)
        return [commit.version for commit in found]

    assert versions() == versions() == list(range(1, 21))
    kept = sorted(commit.version for commit in commits._kept.values())
    assert kept[0] == 1  # what the next scan begins with
    assert len(kept) < 6


def test_initial_snapshots_that_are_idle_are_let_go(source, monkeypatch):
    source.commit(add_file("a"))
    initial = InitialSnapshots()
    files = initial.of(source.snapshot)
    initial.release_idle()
    assert initial.known(source.path, "the-id", 1) is files
    monkeypatch.setattr("headwater.streams.initial._IDLE_SECONDS", -1.0)
    initial.release_idle()
    assert initial.known(source.path, "the-id", 1) is None
