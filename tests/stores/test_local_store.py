from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.stores import FileInfo, LocalStore, absolute_path, store_for


@pytest.fixture
def store() -> LocalStore:
    return LocalStore()


def test_listing_is_sorted_begins_where_asked_and_has_no_directories(store, tmp_path):
    for name in ("b", "a", "c"):
        (tmp_path / name).write_bytes(b"12")
    (tmp_path / "d").mkdir()
    os.utime(tmp_path / "b", ns=(0, 1_234_567_890))
    assert [info.name for info in store.list_from(str(tmp_path))] == ["a", "b", "c"]
    assert store.list_from(str(tmp_path), "b")[0] == FileInfo(f"{tmp_path}/b", 2, 1234)
    assert [info.name for info in store.list_from(str(tmp_path), "bb")] == ["c"]


def test_listing_a_missing_directory_is_an_error(store, tmp_path):
    with pytest.raises(FileNotFoundError):
        store.list_from(str(tmp_path / "none"))


def test_put_if_absent_leaves_an_existing_file_alone(store, tmp_path):
    path = str(tmp_path / "x")
    store.put_if_absent(path, b"first")
    with pytest.raises(FileExistsError):
        store.put_if_absent(path, b"second")
    assert store.read(path) == b"first"
    assert os.listdir(tmp_path) == ["x"]


def test_put_if_absent_works_without_hard_links(store, tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    test_put_if_absent_leaves_an_existing_file_alone(store, tmp_path)


def test_one_of_many_writers_wins(store, tmp_path):
    path = str(tmp_path / "x")
    won = []
    start = threading.Barrier(8)

    def write(number: int) -> None:
        start.wait()
        try:
            store.put_if_absent(path, str(number).encode() * 1000)
            won.append(number)
        except FileExistsError:
            pass

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert store.read(path) == str(won[0]).encode() * 1000


def test_new_files_are_readable_by_others_as_the_umask_says(store, tmp_path):
    plain = tmp_path / "plain"
    plain.touch()
    store.put_if_absent(str(tmp_path / "x"), b"")
    assert (tmp_path / "x").stat().st_mode == plain.stat().st_mode


def test_put_replaces(store, tmp_path):
    path = str(tmp_path / "x")
    store.put(path, b"one")
    store.put(path, b"two")
    assert store.read(path) == b"two"
    assert os.listdir(tmp_path) == ["x"]


def test_reading_many_keeps_the_order(store, tmp_path):
    names = [str(tmp_path / str(number)) for number in range(20)]
    for name in names:
        store.put(name, name.encode())
    assert store.read_many(names) == [name.encode() for name in names]
    assert store.read_range(names[3], 1, 3) == names[3].encode()[1:4]


def test_deleting_what_is_missing_is_no_error(store, tmp_path):
    store.delete(str(tmp_path / "none"))
    store.make_directory(str(tmp_path / "a/b"))
    assert store.exists(str(tmp_path / "a/b"))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("/a/b/", "/a/b"),
        ("/a/b%20c", "/a/b%20c"),
        ("file:/a/b%20c", "/a/b c"),
        ("file:///a/b", "/a/b"),
        ("file://host/a/b", "/a/b"),
        ("FILE:/a", "/a"),
    ],
)
def test_local_paths(given, expected):
    store, path = store_for(given)
    assert isinstance(store, LocalStore)
    assert path == expected


def test_other_schemes_need_hadoop():
    with pytest.raises(HeadwaterError) as error:
        store_for("s3://bucket/t")
    assert error.value.condition == "DELTA_UNSUPPORTED_FILE_SYSTEM"


@pytest.mark.parametrize(
    ("table", "path", "expected"),
    [
        ("/t", "p=a%20b/x", "/t/p=a b/x"),
        ("/t", "p=a%2520b/x", "/t/p=a%20b/x"),
        ("/t", "/other/x%20y", "/other/x y"),
        ("/t", "file:/other/x%20y", "/other/x y"),
        ("/t", "s3://b/x%20y", "s3://b/x y"),
        ("s3://b/t", "p=a%20b/x", "s3://b/t/p=a b/x"),
        ("s3://b/a t", "p=a%253Ab/x", "s3://b/a t/p=a%3Ab/x"),
        ("s3://b/t", "/u/x", "s3://b/u/x"),
    ],
)
def test_absolute_paths_of_actions(table, path, expected):
    assert absolute_path(table, path) == expected


def test_a_name_that_no_file_can_have_is_that_of_a_missing_file(tmp_path: Path) -> None:
    store, path = LocalStore(), f"{tmp_path}/a\0b"
    for read in (store.read, store.open_input, lambda path: store.read_range(path, 0, 1)):
        with pytest.raises(FileNotFoundError):
            read(path)
