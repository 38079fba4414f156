"""The contract of :class:`headwater.stores.Store`, as tests that any store can be run through.

Subclass :class:`StoreContract` in a test module, and give it the fixtures ``store`` and ``root``, a directory of the
store that exists and is empty; ``other`` is another handle to the same files, as another process has one.
"""

from __future__ import annotations

import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from headwater.stores import Store
from support.stores.vacuum_contract import VacuumContract

NAMES = ["a", "B", "_x", "00000000000000000002.json", "00000000000000000010.json", "with space", "ü", "=p+&", ".hidden"]
WRITERS = 8


class StoreContract(VacuumContract):
    """Each test stands for a promise; the numbers are those of the store's own list. VACUUM relies on more of them than
    any other statement."""

    #: Whether a reader may find none for a moment while a file is replaced, which the second promise allows.
    missing_while_replaced = False

    @pytest.fixture
    def other(self, store: Store) -> Store:
        return store

    def test_1_one_of_many_creates_a_file(self, store, other, root):
        for number in range(12):
            path, start = f"{root}/{number}", threading.Barrier(WRITERS)

            def create(writer, path=path, start=start):
                start.wait()
                try:
                    (store, other)[writer % 2].put_if_absent(path, f"{writer}".encode() * 1000)
                except FileExistsError:
                    return None
                return writer

            with ThreadPoolExecutor(WRITERS) as pool:
                winners = [w for w in pool.map(create, range(WRITERS)) if w is not None]
            assert len(winners) == 1
            assert other.read(path) == f"{winners[0]}".encode() * 1000

    def test_1_a_file_that_exists_is_left_alone(self, store, other, root):
        store.put(f"{root}/x", b"first")
        with pytest.raises(FileExistsError):
            other.put_if_absent(f"{root}/x", b"second")
        assert store.read(f"{root}/x") == b"first"
        store.delete(f"{root}/x")
        other.put_if_absent(f"{root}/x", b"third")
        assert store.read(f"{root}/x") == b"third"

    def test_2_a_file_is_seen_whole(self, store, other, root):
        """A reader looks all the while that files are created and replaced."""
        contents = {bytes([letter]) * (200_000 + letter) for letter in b"abcdef"}
        seen, done = [], threading.Event()

        def read():
            while not done.is_set():
                for file in other.list_from(root):
                    if not file.name.startswith("."):  # the store's own, on its way to another name
                        try:
                            seen.append(other.read(file.path) in contents)
                        except FileNotFoundError as error:
                            if not (self.missing_while_replaced and file.name == "replaced"):
                                seen.append(error)
                        except Exception as error:
                            seen.append(error)

        reader = threading.Thread(target=read)
        reader.start()
        try:
            until = time.monotonic() + 20
            for number, content in enumerate(itertools.cycle(sorted(contents))):
                if (len(seen) > 100 and number > 20) or time.monotonic() > until:
                    break
                if number < 10:
                    store.put_if_absent(f"{root}/{number}", content)
                store.put(f"{root}/replaced", content)
                time.sleep(0.0001)  # lets the reader look
        finally:
            done.set()
            reader.join()
        wrong = [found for found in seen if found is not True]
        assert not wrong, wrong[:3]

    def test_3_what_is_acknowledged_is_read_and_listed(self, store, other, root):
        for number in range(20):
            write = store.put if number % 2 else store.put_if_absent
            write(f"{root}/{number:03d}", b"x" * number)
            assert other.exists(f"{root}/{number:03d}")
            listed = other.list_from(root)
            assert [(file.path, file.size) for file in listed] == [(f"{root}/{n:03d}", n) for n in range(number + 1)]
            assert other.read_many([file.path for file in listed]) == [b"x" * n for n in range(number + 1)]

    def test_3_modification_times_are_milliseconds_and_do_not_change(self, store, other, root):
        store.put_if_absent(f"{root}/x", b"1")
        (first,) = store.list_from(root)
        assert first.modification_time > 1_500_000_000_000
        assert other.list_from(root) == [first]

    def test_3_a_file_in_the_place_of_another_is_another_one(self, store, other, root):
        """Of the same size, and soon after it: that is how a table is known again."""
        seen = []
        for number in range(5):
            store.put_if_absent(f"{root}/x", b"%d" % number)
            (listed,) = other.list_from(root)
            found = other.following([f"{root}/x", f"{root}/y"])
            assert found is None or found == [listed]
            assert listed not in seen
            seen.append(listed)
            store.delete(f"{root}/x")
            time.sleep(0.02)

    def test_4_a_listing_is_sorted_and_begins_where_asked(self, store, root):
        for name in NAMES:
            store.put(f"{root}/{name}", b"1")
        assert [file.name for file in store.list_from(root)] == sorted(NAMES)
        for start in [*NAMES, "", "b", "00000000000000000003", "~"]:
            assert [file.name for file in store.list_from(root, start)] == sorted(n for n in NAMES if n >= start)

    def test_4_a_listing_holds_no_directories_nor_what_is_in_them(self, store, root):
        store.make_directory(f"{root}/below/deeper")
        store.make_directory(f"{root}/below")
        store.put(f"{root}/below/deeper/x", b"1")
        store.put(f"{root}/file", b"1")
        assert [file.name for file in store.list_from(root)] == ["file"]
        assert [file.name for file in store.list_from(f"{root}/below/deeper")] == ["x"]
        assert store.exists(f"{root}/below/deeper")

    def test_4_what_follows_is_what_is_listed(self, store, root):
        for number in range(4):
            store.put(f"{root}/{number}", b"1" * number)
        store.put(f"{root}/6", b"1")
        found = store.following(f"{root}/{number}" for number in range(1, 9))
        assert found is None or found == store.list_from(root)[1:4]

    def test_5_what_is_missing_is_said_to_be(self, store, root):
        with pytest.raises(FileNotFoundError):
            store.list_from(f"{root}/none")
        store.put(f"{root}/x", b"1")
        for read in (store.read, store.open_input, lambda path: store.read_many([f"{root}/x", path])):
            with pytest.raises(FileNotFoundError):
                read(f"{root}/none")
        assert not store.exists(f"{root}/none")
        store.delete(f"{root}/none")

    @pytest.mark.parametrize("listed_from", [1, 5, 1000])
    def test_which_of_many_files_are_missing(self, store, root, listed_from, monkeypatch):
        """Whether they are looked for one by one or in listings of their directories. Directories are there."""
        for module in ("local", "hadoop"):
            monkeypatch.setattr(f"headwater.stores.{module}._LISTED_RATHER", listed_from)
        paths = [f"{root}/{directory}/{name}" for directory in ("a b", "p=%3A", "none") for name in NAMES]
        there = paths[1 : 2 * len(NAMES) : 2]
        for directory in ("a b", "p=%3A"):
            store.make_directory(f"{root}/{directory}")
        for path in there:
            store.put(path, b"1")
        for number in range(30):
            store.put(f"{root}/p=%3A/other {number}", b"1")
        store.make_directory(f"{root}/a b/deeper")
        store.put(f"{root}/a b/deeper/x", b"1")
        there += [f"{root}/{directory}" for directory in ("a b", "p=%3A", "a b/deeper")]
        paths += [f"{root}/{directory}" for directory in ("a b", "p=%3A", "a b/deeper", "none", "a b/none")]
        assert store.missing(paths) == [path for path in paths if path not in there]
        assert store.missing(there) == []

    def test_a_walk_shows_all_files_and_where_logs_are(self, store, root):
        hidden = ["_hidden/x", "_hidden/_delta_log/0.json", "a/_delta_log/0.json", "_delta_log/0.json"]
        shown = ["x", "a b/ü", "p=%3A/deep/er/y", "a/z"]
        for path in (*shown, *hidden):
            store.make_directory(f"{root}/{path}".rpartition("/")[0])
            store.put(f"{root}/{path}", path.encode())
        between: list[None] = []
        tree = store.walk(root, lambda name: not name.startswith("_"), lambda: between.append(None))
        found = sorted((file.path, file.size) for file in tree.files)
        assert found == sorted((path, len(path.encode())) for path in shown), found
        logs = {each.path for each in tree.directories if each.path.endswith("_delta_log")}
        assert logs - {"_hidden/_delta_log"} == {"_delta_log", "a/_delta_log"}
        assert between
        asked: list[str] = []

        def enters(name: str) -> bool:
            asked.append(name)
            return True

        tree = store.walk(root, enters, lambda: None, lambda path: path.startswith("a"))
        assert sorted(file.path for file in tree.files if "_delta_log" not in file.path) == ["a b/ü", "a/z"]
        assert not {"x", "p=%3A", "_hidden", "y"} & set(asked)

    def test_files_are_deleted_and_folders_only_if_empty(self, store, other, root):
        for name in ("x", "y z", "ü%25"):
            store.make_directory(f"{root}/sub")
            store.put(f"{root}/sub/{name}", b"1")
        assert not store.delete_empty(f"{root}/sub")
        assert store.delete_many(root, [f"{root}/sub/{name}" for name in ("x", "ü%25", "none")]) == []
        assert [file.name for file in other.list_from(f"{root}/sub")] == ["y z"]

    def test_parts_of_a_file(self, store, root):
        content = bytes(range(256)) * 300
        store.put(f"{root}/x", content)
        assert store.read_range(f"{root}/x", 250, 20) == content[250:270]
        assert store.read_range(f"{root}/x", len(content) - 3, 10) == content[-3:]
        with store.open_input(f"{root}/x") as file:
            assert file.size() == len(content)
            file.seek(1000)
            assert file.read(5) == content[1000:1005]
        store.put(f"{root}/empty", b"")
        assert store.read(f"{root}/empty") == b""
