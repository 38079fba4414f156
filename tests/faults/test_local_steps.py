"""The local store goes wrong, or its process is killed, at each call to the operating system."""

from __future__ import annotations

import errno
import logging
import os
import signal
import subprocess
import sys
import textwrap

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.log.checkpoint_writing import write_checkpoint
from headwater.log.snapshot import load_snapshot
from headwater.stores import LocalStore, exclusive_rename
from headwater.stores import local as stores
from headwater.transaction import Transaction, wait_for_maintenance
from support.faults.faulty_os import FaultyOs, Trouble
from support.faults.faulty_store import Crash
from support.faults.scenario import KINDS, Life, check, read_commits
from support.processes import environment

TROUBLES = [trouble for trouble in Trouble if trouble is not Trouble.NONE]


def put(monkeypatch, write, path, data, at=-1, trouble=Trouble.NONE, without_links=False):
    """Put a file while the system has trouble; the system, and what was raised."""
    system = FaultyOs(at, trouble)
    raised = None
    with monkeypatch.context() as patch:
        patch.setattr(stores, "os", system)
        patch.setattr(stores, "tempfile", system)
        if without_links:
            patch.setattr(FaultyOs, "link", _cannot)
            rename = stores.rename_unless_taken
            patch.setattr(stores, "rename_unless_taken", lambda *paths: system.call("rename", lambda: rename(*paths)))
        try:
            write(path, data)
        except (OSError, Crash) as error:
            raised = error
    return system, raised


def _cannot(*_):
    raise OSError(errno.ENOTSUP, "Operation not supported")


@pytest.mark.parametrize("without_links", [False, True])
def test_each_step_of_put_if_absent(monkeypatch, tmp_path, without_links):
    """The file is there whole, or not at all; no error hides that it is not there."""
    store, data = LocalStore(), b"commit\n" * 1000
    stores._umask()
    step = "rename" if without_links else "link"
    reference, _ = put(monkeypatch, store.put_if_absent, str(tmp_path / "x"), data, without_links=without_links)
    assert [name for name in reference.calls if name in ("write", "fsync", "link", "rename", "unlink")] == [
        "write", "fsync", step, "unlink", "fsync",
    ]  # fmt: skip
    for at, name in enumerate(reference.calls):
        for trouble in TROUBLES:
            path = tmp_path / f"{at}-{trouble.name}"
            _, raised = put(monkeypatch, store.put_if_absent, str(path), data, at, trouble, without_links)
            if path.exists():
                assert path.read_bytes() == data, (name, trouble)
            else:
                assert raised is not None, (name, trouble)
            with_it = [file for file in store.list_from(str(tmp_path)) if file.name == path.name]
            assert len(with_it) == path.exists()
            put(monkeypatch, store.put_if_absent, str(path), data)  # the next writer takes the name, or finds it taken
            assert path.read_bytes() == data


def test_each_step_of_put(monkeypatch, tmp_path):
    """A reader sees the old content or the new."""
    store, old, new = LocalStore(), b"old" * 1000, b"new" * 2000
    reference, _ = put(monkeypatch, store.put, str(tmp_path / "x"), old)
    for at, name in enumerate(reference.calls):
        for trouble in TROUBLES:
            path = tmp_path / f"{at}-{trouble.name}"
            store.put(str(path), old)
            _, raised = put(monkeypatch, store.put, str(path), new, at, trouble)
            assert path.read_bytes() in (old, new), (name, trouble)
            if raised is None:
                assert path.read_bytes() == new


def test_a_file_system_that_has_no_such_step_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "link", _cannot)
    monkeypatch.setattr(stores, "rename_unless_taken", _cannot)
    with pytest.raises(HeadwaterError) as raised:
        LocalStore().put_if_absent(str(tmp_path / "x"), b"commit")
    assert raised.value.condition == "HEADWATER_FILE_SYSTEM_NOT_SUPPORTED"
    assert str(tmp_path) in str(raised.value)
    assert os.listdir(tmp_path) == []


def test_a_name_is_taken_once_without_links(monkeypatch, tmp_path):
    """Where the system's library has no such rename, it says so."""
    (tmp_path / "a").write_bytes(b"1")
    (tmp_path / "b").write_bytes(b"2")
    with pytest.raises(FileExistsError):
        exclusive_rename.rename_unless_taken(str(tmp_path / "a"), str(tmp_path / "b"))
    assert (tmp_path / "b").read_bytes() == b"2"
    exclusive_rename.rename_unless_taken(str(tmp_path / "a"), str(tmp_path / "c"))
    assert sorted(os.listdir(tmp_path)) == ["b", "c"]
    with pytest.raises(FileNotFoundError):
        exclusive_rename.rename_unless_taken(str(tmp_path / "a"), str(tmp_path / "d"))
    monkeypatch.setattr(exclusive_rename, "_rename", lambda: None)
    with pytest.raises(OSError, match=os.strerror(errno.ENOSYS)):
        exclusive_rename.rename_unless_taken(str(tmp_path / "b"), str(tmp_path / "d"))


def test_a_life_on_a_disk_that_goes_full(monkeypatch, tmp_path, caplog):
    """From some call on there is no space for anything, and later there is again."""
    caplog.set_level(logging.CRITICAL)
    kind = KINDS["classic"]
    for number, full_from in enumerate((3, 12, 25, 40, 60)):
        path = str(tmp_path / str(number))
        system = _Full(full_from)
        disk = LocalStore()
        life = Life(path, kind, disk, disk)
        with monkeypatch.context() as patch:
            patch.setattr(stores, "os", system)
            patch.setattr(stores, "tempfile", system)
            life.run()
        assert system.full
        assert life.failures
        assert "No space left" in str(life.failures[0])
        if (tmp_path / str(number) / "_delta_log").exists():
            leftovers = [n for n in os.listdir(f"{path}/_delta_log") if n.startswith(".")]
            assert not leftovers
        check(life)


class _Full(FaultyOs):
    """Nothing new fits from a call on; what is there can be deleted."""

    def __init__(self, full_from: int) -> None:
        super().__init__()
        self._full_from = full_from

    @property
    def full(self) -> bool:
        return len(self.calls) > self._full_from

    def call(self, name, do, half=None):
        self.calls.append(name)
        if self.full and name in ("mkstemp", "write", "flush", "link"):
            if name == "write" and half is not None:
                half()
            raise OSError(28, "No space left on device")
        return do()


KILLED = """
    import sys
    from support.faults.scenario import KINDS, Life
    from headwater.stores import LocalStore
    from headwater.log.snapshot import load_snapshot

    class Telling(LocalStore):
        def put_if_absent(self, path, data):
            print("try", flush=True)
            super().put_if_absent(path, data)

    store = Telling()
    life = Life(sys.argv[1], KINDS["classic"], store, store)
    life.create("create")
    number = 0
    while True:
        name = f"write {number}"
        life.write(name, [str(number)])
        print("done", life.outcomes[name], name, flush=True)
        number += 1
"""


@pytest.mark.parametrize("tries", [2, 3, 9, 14, 21])
def test_kill_9(tmp_path, tries):
    """A writer killed at some moment after so many tries of a file: what it told is there, and the table lives on."""
    path = str(tmp_path / "t")
    code = [sys.executable, "-c", textwrap.dedent(KILLED), path]
    with subprocess.Popen(code, env=environment(), stdout=subprocess.PIPE, text=True) as process:
        told = {}
        seen = 0
        for line in process.stdout:
            if line == "try\n":
                seen += 1
                if seen == tries:
                    os.kill(process.pid, signal.SIGKILL)
            elif line.startswith("done"):
                _, version, name = line.split(" ", 2)
                told[name.strip()] = int(version)
        assert process.wait() == -signal.SIGKILL
    disk = LocalStore()
    life = Life(path, KINDS["classic"], disk, disk, {f"write {n}": told.get(f"write {n}") for n in range(tries)})
    life.outcomes["create"] = 0 if told else None
    check(life)


def test_leftovers_of_a_dead_writer_are_nobodys_files(tmp_path):
    """Temporary files, torn or whole, of every kind of file of a log."""
    disk = LocalStore()
    life = Life(str(tmp_path / "t"), KINDS["classic"], disk, disk)
    life.run()
    log = tmp_path / "t" / "_delta_log"
    for name in list(os.listdir(log)):
        content = (log / name).read_bytes()
        (log / f".{name}.abc123.tmp").write_bytes(content[: len(content) // 2])
    (log / f".{6:020d}.json.xyz.tmp").write_bytes(b'{"add"')
    check(life)


def test_torn_maintenance_of_another_writer_does_no_harm(tmp_path, caplog):
    """A torn checkpoint, checksum and ``_last_checkpoint``, cut off at every size."""
    disk = LocalStore()
    life = Life(str(tmp_path / "t"), KINDS["classic"], disk, disk)
    life.run()
    log = tmp_path / "t" / "_delta_log"
    names = [f"{4:020d}.checkpoint.parquet", f"{5:020d}.crc", "_last_checkpoint"]
    newest = load_snapshot(life.path, disk)
    expected = newest.select(["path"]).to_pylist()
    for name in names:
        whole = (log / name).read_bytes()
        for size in sorted({0, 1, 4, len(whole) // 3, len(whole) // 2, len(whole) - 9, len(whole) - 1}):
            (log / name).write_bytes(whole[:size])
            found = load_snapshot(life.path, disk)
            assert found.version == newest.version
            assert sorted(found.select(["path"]).to_pylist(), key=str) == sorted(expected, key=str)
            txn = Transaction(life.path, disk, found)
            txn.set_transaction("checking", 1)
            assert txn.has_changes
        write_checkpoint(load_snapshot(life.path, disk, 4))
        (log / name).write_bytes(whole)
    assert len(read_commits(disk, life.path)) == newest.version + 1
    assert wait_for_maintenance(60)
    check(life)
