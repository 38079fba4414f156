"""The files of an index, without Spark: what a lookup says of random entries, whatever becomes of the files."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from headwater.basics import clock
from headwater.key_index import segments
from headwater.key_index.definition import KeyIndex
from headwater.key_index.hashing import hash_of
from headwater.key_index.lookup import look_up
from support.commits import write_commit
from support.indexed_table import STORE, Indexed, added, forget


@pytest.mark.parametrize("seed", range(20))
def test_a_lookup_finds_every_row_of_the_files_that_it_knows(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    table = Indexed(tmp_path / "t", random, random.randrange(1, 12))
    files = list(range(len(table.keys)))
    put = set[int]()
    for _ in range(random.randrange(1, 5)):
        some = random.sample(files, random.randrange(1, len(files) + 1))
        table.put(some, random.randrange(1, 4))
        put |= set(some)
    for _ in range(5):
        assert table.check(random.sample(range(220), random.randrange(1, 60))) == put


@pytest.mark.parametrize("seed", range(20))
def test_damaged_and_missing_files_leave_out_no_row(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    table = Indexed(tmp_path / "t", random, 6)
    table.put([0, 1, 2, 3], 2)
    table.put([3, 4, 5])
    whole = table.check(range(220))
    for _ in range(8):
        path = Path(table.folder) / random.choice(sorted(os.listdir(table.folder)))
        content = path.read_bytes()
        at = random.randrange(len(content))
        damaged = random.choice(
            [
                content[:at] + bytes([content[at] ^ 1 << random.randrange(8)]) + content[at + 1 :],
                content[:at],
                content + b"x",
                None,
            ]
        )
        path.unlink() if damaged is None else path.write_bytes(damaged)
        os.utime(path.parent, (0, 0))
        forget()
        table.check(random.sample(range(220), 30))
        assert table.check(range(220)) <= whole
        path.write_bytes(content)
        forget()
        assert table.check(range(220)) == whole


def test_entries_of_another_table_other_columns_or_files_do_not_count(tmp_path: Path) -> None:
    table = Indexed(tmp_path / "t", Random(0), 4)
    (column,) = table.index().columns
    table.put([0], table="another")
    assert table.check(range(200)) == set()
    table.put([1], index=KeyIndex("by_k", (replace(column, name="other"),)))
    assert table.check(range(200)) == set()
    table.put([2])
    assert table.check(range(200)) == {2}
    write_commit(table.path, 1, added("2.parquet", 7))
    assert table.check(range(200)) == set()


def test_a_manifest_never_leads_out_of_its_folder(tmp_path: Path) -> None:
    table = Indexed(tmp_path / "t", Random(0), 2)
    table.put([0])
    (manifest,) = [path for path in Path(table.folder).iterdir() if path.suffix == ".json"]
    text = manifest.read_bytes().rpartition(b"\n")[0]
    name = next(path.name for path in Path(table.folder).iterdir() if path.suffix == ".parquet").encode()
    for other in (b"../by_k/" + name, b"/" + name, b".." + name):
        changed = text.replace(name, other)
        manifest.write_bytes(changed + b"\n" + segments._checksum(changed))
        forget()
        assert table.check(range(200)) == set()


def test_a_segment_of_another_format_is_left_out_and_mentioned_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = Indexed(tmp_path / "t", Random(0), 2)
    table.put([0, 1])
    (manifest,) = [path for path in Path(table.folder).iterdir() if path.suffix == ".json"]
    text = manifest.read_bytes().rpartition(b"\n")[0].replace(b'"format":2', b'"format":1')
    manifest.write_bytes(text + b"\n" + segments._checksum(text))
    forget()
    for _ in range(3):
        assert table.check(range(200)) == set()
    assert [record.getMessage() for record in caplog.records if "its format is 1" in record.getMessage()] == [
        f"{manifest}: not used, as it cannot be read: its format is 1, and not 2"
    ]


def test_small_segments_are_merged_and_know_as_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(3)
    table = Indexed(tmp_path / "t", random, 30)
    for file in range(25):
        table.put([file], parts=1 + file % 2)
    table.put([3, 4])
    before = len(segments.segments(table.snapshot(), table.index()))
    old = set(os.listdir(table.folder))
    assert segments.merge_small(table.snapshot(), table.index()) == 24, "the files of two are in a newer one"
    written = set(os.listdir(table.folder)) - old
    assert len(segments.segments(table.snapshot(), table.index())) == before + 1
    assert segments.merge_small(table.snapshot(), table.index()) == 0, "what is merged is not merged again"
    assert table.check(range(150)) == set(range(25))
    # What the merged one covers stays for a quarter of an hour after it, however old it is.
    for name in os.listdir(table.folder):
        if name not in written:
            os.utime(Path(table.folder) / name, (0, 0))
    assert segments.delete_unneeded(table.snapshot(), table.index()) == 0
    later = clock.milliseconds() + 16 * 60_000
    monkeypatch.setattr(clock, "milliseconds", lambda: later)
    assert segments.delete_unneeded(table.snapshot(), table.index()) > 50
    assert len(os.listdir(table.folder)) == 2
    forget()
    assert table.check(range(150)) == set(range(25))


def test_damaged_segments_are_left_out_when_small_ones_are_merged(tmp_path: Path) -> None:
    table = Indexed(tmp_path / "t", Random(8), 14)
    for file in range(14):
        table.put([file])
    before = {path.name for path in Path(table.folder).iterdir()}
    for path in sorted(Path(table.folder).glob("*.parquet"))[::4]:
        content = bytearray(path.read_bytes())
        content[6] ^= 1
        path.write_bytes(content)
    forget()
    assert segments.merge_small(table.snapshot(), table.index()) == 14
    assert len({path.name for path in Path(table.folder).iterdir()} - before) == 2
    known = table.check(range(200))
    assert len(known) == 14 - 4, "what was damaged is known, and is to be built again"
    found = segments.segments(table.snapshot(), table.index())
    assert segments.covered(table.snapshot(), found).sum() == len(known)


def test_entries_of_files_that_are_gone_are_left_out_when_segments_are_merged(tmp_path: Path) -> None:
    table = Indexed(tmp_path / "t", Random(4), 24)
    for file in range(0, 24, 2):
        table.put([file, file + 1])
    removes = [{"remove": {"path": f"{2 * n}.parquet", "deletionTimestamp": 1, "dataChange": True}} for n in range(12)]
    write_commit(table.path, 1, *removes)
    assert table.check(range(200)) == set(range(1, 24, 2))
    segments.merge_small(table.snapshot(), table.index())
    newest = max(segments.segments(table.snapshot(), table.index()), key=lambda each: len(each.manifest.files))
    assert sorted(path for path, _ in newest.manifest.files) == sorted(f"{n}.parquet" for n in range(1, 24, 2))


def test_entries_of_files_that_are_gone_stay_for_a_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """RESTORE may bring the files back."""
    table = Indexed(tmp_path / "t", Random(7), 2)
    table.put([0])
    table.put([1])
    write_commit(table.path, 1, {"remove": {"path": "0.parquet", "deletionTimestamp": 1, "dataChange": True}})
    now = clock.milliseconds()
    monkeypatch.setattr(clock, "milliseconds", lambda: now + 23 * 3_600_000)
    assert segments.delete_unneeded(table.snapshot(), table.index()) == 0
    monkeypatch.setattr(clock, "milliseconds", lambda: now + 25 * 3_600_000)
    assert segments.delete_unneeded(table.snapshot(), table.index()) == 2
    assert table.check(range(200)) == {1}


def test_parts_without_a_manifest_count_for_nothing_and_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Indexed(tmp_path / "t", Random(5), 3)
    table.put([0, 1])
    manifest = next(path for path in Path(table.folder).iterdir() if path.suffix == ".json")
    manifest.unlink()
    assert table.check(range(200)) == set()
    later = clock.milliseconds() + 25 * 3_600_000
    monkeypatch.setattr(clock, "milliseconds", lambda: later)
    assert segments.delete_unneeded(table.snapshot(), table.index()) == 1
    assert os.listdir(table.folder) == []


def test_a_dropped_index_leaves_no_files(tmp_path: Path) -> None:
    table = Indexed(tmp_path / "t", Random(6), 3)
    table.put([0, 1, 2], 2)
    segments.delete_index(table.snapshot(), "by_k")
    assert not os.path.exists(table.folder)
    segments.delete_index(table.snapshot(), "by_k")
    assert table.check(range(200)) == set()


def test_no_more_is_read_than_is_allowed(tmp_path: Path) -> None:
    table = Indexed(tmp_path / "t", Random(7), 3)
    table.put([0, 1, 2])
    hashes = [h for key in range(50) if (h := hash_of(["integer"], [key])) is not None]
    assert look_up(table.snapshot(), table.index(), hashes, None, 10) is None
    assert look_up(table.snapshot(), table.index(), hashes, None, 1 << 20) is not None
    wanted = np.array([False] * 3)
    assert look_up(table.snapshot(), table.index(), hashes, wanted) is None


@pytest.mark.parametrize("gone", [False, True])
def test_segments_that_another_maintenance_deletes_are_left_out_when_small_ones_are_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: bool
) -> None:
    table = Indexed(tmp_path / "t", Random(1), 12)
    for file in range(12):
        table.put([file])
    read = segments.entries_of

    def deletes(store: Any, folder: str, part: Any, files: int) -> Any:
        monkeypatch.setattr(segments, "entries_of", read)
        if gone:
            for path in Path(table.folder).iterdir():
                path.unlink()
        return read(store, folder, part, files)

    monkeypatch.setattr(segments, "entries_of", deletes)
    assert segments.merge_small(table.snapshot(), table.index()) == (0 if gone else 12)


@pytest.mark.parametrize("failing", ["list_from", "read"])
def test_a_store_that_fails_once_does_not_make_entries_unneeded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    table = Indexed(tmp_path / "t", Random(1), 3)
    table.put([0, 1, 2])
    for path in Path(table.folder).iterdir():
        os.utime(path, (0, 0))
    forget()
    snapshot, index = table.snapshot(), table.index()
    before, whole = sorted(os.listdir(table.folder)), getattr(type(snapshot.store), failing)

    def fails(*_: Any, **__: Any) -> Any:
        monkeypatch.setattr(type(snapshot.store), failing, whole)
        raise OSError("503 Slow Down")

    monkeypatch.setattr(type(snapshot.store), failing, fails)
    with suppress(OSError):
        segments.delete_unneeded(snapshot, index)
    assert sorted(os.listdir(table.folder)) == before
    assert segments.delete_unneeded(snapshot, index) == 0


def test_a_position_that_no_row_has_is_damage(tmp_path: Path) -> None:
    table = Indexed(tmp_path / "t", Random(1), 3)
    key = hash_of(table.index().kinds, [5])
    assert key is not None
    part = segments.write_part(STORE, table.folder, np.array([key]), np.array([0], np.int32), np.array([-1]))
    segments.put_segment(STORE, table.folder, "of-this-table", table.index(), [("0.parquet", 100)], [part])
    forget()
    assert look_up(table.snapshot(), table.index(), [key]) is None
