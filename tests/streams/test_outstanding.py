"""How far a stream is behind, and what it asks a store for while it waits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.basics.errors import HeadwaterError
from headwater.protocol.actions import DeletionVector
from headwater.stores import FileInfo
from headwater.streams.limits import Limits
from headwater.streams.offsets import Offset
from headwater.streams.source import Outstanding, Reading
from headwater.transaction import wait_for_maintenance
from support.commits import add_file, remove_file
from support.drawing import STEADY
from support.stores.memory_store import MemoryStore
from support.streams import Source

BYTES, ROWS = 100, 10  # of each file


class CountingStore(MemoryStore):
    """A store that counts what it is asked for: a listing, a file and a look for a name are one request each."""

    def __init__(self, has_names: bool = True) -> None:
        super().__init__()
        self.requests = 0
        self.has_names = has_names

    def list_from(self, directory: str, start_name: str = "") -> list[FileInfo]:
        self.requests += 1
        return super().list_from(directory, start_name)

    def read(self, path: str) -> bytes:
        self.requests += 1
        return super().read(path)

    def following(self, paths: Iterable[str]) -> list[FileInfo] | None:
        if not self.has_names:
            return None
        found: list[FileInfo] = []
        for path in paths:
            self.requests += 1
            if path not in self.files:
                break
            data, modified = self.files[path]
            found.append(FileInfo(path, len(data), modified))
        return found

    def exists(self, path: str) -> bool:
        self.requests += 1
        return super().exists(path)


def left(files: int, versions: int) -> Outstanding:
    return Outstanding(versions, files, BYTES * files, ROWS * files)


@settings(STEADY, max_examples=25)
@given(
    first=st.integers(0, 4), commits=st.lists(st.integers(0, 4), max_size=6), most=st.integers(1, 5), told=st.booleans()
)
def test_what_is_left_is_what_comes(first: int, commits: Sequence[int], most: int, told: bool) -> None:
    source = Source("memory:/t", MemoryStore())
    source.commit(*(add_file(f"first-{i}") for i in range(first)))
    for version, count in enumerate(commits):
        source.commit(*(add_file(f"{version}-{i}") for i in range(count)))
    stream = source.stream()
    if not told:
        stream = source.stream_of(1)
    offset = stream.begin(0 if told else None)
    newest = 1 + len(commits)
    total = first + sum(commits)
    assert stream.outstanding(offset) == left(total, newest + 1 if told else newest)
    read = 0
    while (end := stream.end(offset, Limits(most))) is not None:
        offset, read = end.offset, read + end.files
        assert stream.outstanding(offset) == left(total - read, newest - offset.version + 1)
        assert not end.is_all or read == total
    assert read == total
    assert stream.outstanding(offset) == Outstanding()


def test_up_to_where_a_query_ends() -> None:
    source = Source("memory:/t", MemoryStore())
    source.commit(*(add_file(f"a{i}") for i in range(4)))
    source.commit(*(add_file(f"b{i}") for i in range(4)))
    stream = source.stream_of(1)
    begin = stream.begin(None)
    assert stream.outstanding(begin, Offset("the-id", 1, 2, is_initial=True)) == left(3, 1)
    assert stream.outstanding(begin, Offset("the-id", 2, 1, is_initial=False)) == left(6, 2)
    assert stream.outstanding(begin, Offset("the-id", 2, -100, is_initial=False)) == left(4, 1)


def test_rows_that_are_not_known() -> None:
    source = Source("memory:/t", MemoryStore())
    vector = DeletionVector("i", "x", 10, 3)
    source.commit(replace(add_file("a"), deletion_vector=vector))
    source.commit(replace(add_file("b"), deletion_vector=vector))
    stream = source.stream_of(1)
    assert stream.outstanding(stream.begin(None)).rows == 2 * (ROWS - 3)
    assert source.stream_of(1, Reading(reads_changes=True)).outstanding(stream.begin(None)).rows is None
    for stats in (None, "", "{", '{"numRecords":"many"}'):
        source.commit(replace(add_file(f"c{stats}"), stats=stats))
        assert stream.outstanding(stream.begin(None)).rows is None
        assert source.stream().outstanding(source.stream().begin(None)).rows is None


def test_commits_that_are_passed_over_do_not_count() -> None:
    source = Source("memory:/t", MemoryStore())
    source.commit(add_file("a"))
    source.commit(add_file("b"), remove_file("a"))
    stream = source.stream_of(1, Reading(skips_changes=True))
    assert stream.outstanding(stream.begin(None)) == left(1, 2)


def test_far_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many versions, a few are read ahead; the newest is known all the same."""
    monkeypatch.setattr("headwater.streams.commits._AT_ONCE", 4)
    store = CountingStore()
    source = Source("memory:/t", store)
    for i in range(20):
        source.commit(add_file(f"f{i}"))
    stream = source.stream()
    assert wait_for_maintenance(60)  # what follows a commit asks the store, too
    store.requests = 0
    assert stream.outstanding(Offset("the-id", 1, -100, is_initial=False)) == left(4, 20)
    assert store.requests == 5 + 4 + 1  # names, commits, a listing
    monkeypatch.setattr("headwater.streams.commits._BYTES_AHEAD", 1)
    assert stream.outstanding(Offset("the-id", 1, -100, is_initial=False)) == Outstanding(20, 0, 0, 0)


def test_what_cannot_be_read_ahead_is_no_error_yet() -> None:
    store = MemoryStore()
    source = Source("memory:/t", store)
    source.commit(add_file("a"))
    source.commit(add_file("b"))
    store.files["memory:/t/_delta_log/00000000000000000002.json"] = (b"{", 1)
    stream = source.stream_of(1)
    assert stream.outstanding(stream.begin(None)) == left(1, 1)
    with pytest.raises(HeadwaterError):
        stream.end(stream.begin(None), Limits())


@pytest.mark.parametrize("has_names", [True, False])
def test_one_request_where_there_is_nothing(has_names: bool) -> None:
    store = CountingStore(has_names)
    source = Source("memory:/t", store)
    source.commit(*(add_file(f"f{i}") for i in range(50)))
    stream = source.stream()
    end = stream.end(stream.begin(None), Limits())
    assert end is not None
    for _ in range(3):
        for again in range(4):
            assert wait_for_maintenance(60)  # what follows a commit asks the store, too
            store.requests = 0
            assert stream.end(end.offset, Limits()) is None
            assert store.requests == 1 or (again == 0 and has_names)
        source.commit(add_file("more"))
        found = stream.end(end.offset, Limits())
        assert found is not None
        assert found.files == 1
        end = found


def test_a_stream_that_waits_notices_what_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    store = CountingStore()
    source = Source("memory:/t", store)
    source.commit(add_file("a"))
    stream = source.stream()
    end = stream.end(stream.begin(None), Limits())
    assert end is not None
    assert stream.end(end.offset, Limits()) is None
    for name in [name for name in store.files if name.startswith("memory:/t/")]:
        del store.files[name]
    source.create("another-id")
    assert stream.end(end.offset, Limits()) is None
    monkeypatch.setattr("headwater.streams.commits._SURE_SECONDS", 0.0)
    with pytest.raises(HeadwaterError) as raised:
        stream.end(end.offset, Limits())
    assert raised.value.condition == "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE"
