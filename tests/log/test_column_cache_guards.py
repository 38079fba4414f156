"""Whom the cache on disk of checkpoints' columns trusts: nobody else's directory, no entry that is not what its name
says, and no session without rights to the checkpoint.
"""

from __future__ import annotations

import logging
import os
import shutil
import stat

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headwater.basics.errors import HeadwaterError
from headwater.log import checkpoint_reading, column_cache
from headwater.log.column_cache import ColumnCache, FileColumns
from headwater.log.snapshot import load_snapshot
from headwater.protocol.file_names import checkpoint_name
from headwater.stores import LocalStore
from support.cached_checkpoints import entries, table_of, without, write
from support.kept_columns import LEAVES, counted, shown
from support.log_writer import add


def test_it_is_for_its_user_alone(log, directory):
    os.umask(os.umask(0o002))
    write(log, "classic", "text", 1)
    shown(log.load())
    assert directory.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in directory.iterdir()} == {0o600}
    assert all(len(path.stem) == 64 and set(path.stem) <= set("0123456789abcdef") for path in directory.iterdir())


def _open_to_others(directory, monkeypatch):
    directory.mkdir(0o700)
    directory.chmod(0o750)


def _a_link(directory, monkeypatch):
    (directory.parent / "elsewhere").mkdir(0o700)
    directory.symlink_to("elsewhere")


def _a_file(directory, monkeypatch):
    directory.write_text("")


def _of_another_user(directory, monkeypatch):
    directory.mkdir(0o700)
    monkeypatch.setattr(os, "geteuid", lambda: 4321)


def _below_a_file(directory, monkeypatch):
    (directory.parent / "file").write_text("")
    column_cache.configure({"directory": f"{directory.parent}/file/cache"})


def _relative(directory, monkeypatch):
    column_cache.configure({"directory": "some/where"})


REFUSED = [_open_to_others, _a_link, _a_file, _of_another_user, _below_a_file, _relative]


@pytest.mark.parametrize("spoil", REFUSED)
def test_a_directory_that_may_not_be_used_is_not(log, directory, monkeypatch, caplog, spoil):
    write(log, "classic", "text", 1)
    expected = without(log, directory)
    spoil(directory, monkeypatch)
    there = sorted(directory.parent.rglob("*"))
    with caplog.at_level(logging.WARNING):
        assert [shown(log.load()) for _ in range(3)] == [expected] * 3
    assert sorted(directory.parent.rglob("*")) == there
    assert len({record.getMessage() for record in caplog.records}) == len(caplog.records) > 0


def _link(path):
    path.with_suffix(".real").write_bytes(path.read_bytes())
    path.with_suffix(".real").chmod(0o600)
    path.unlink()
    path.symlink_to(path.with_suffix(".real"))


def _fifo(path):
    path.unlink()
    os.mkfifo(path, 0o600)


def _open(path):
    path.chmod(0o644)


def _empty(path):
    path.unlink()
    path.touch(0o600)


def _of_another_name(path):
    """One entry in the place of another one: what it says is of another column."""
    other = next(each for each in entries(path.parent) if each != path)
    path.unlink()
    shutil.copy(other, path)


def _directory(path):
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("spoil", [_link, _fifo, _open, _empty, _of_another_name, _directory])
def test_entries_that_are_none_are_not_used(log, directory, spoil):
    write(log, "classic", "text", 1)
    expected = shown(log.load())
    for path in entries(directory):
        content = path.read_bytes()
        spoil(path)
        assert shown(log.load()) == expected
        assert shown(log.load()) == expected
        if spoil is not _directory:
            assert stat.S_IMODE(path.lstat().st_mode) == 0o600
            assert not path.is_symlink()
            assert path.read_bytes() == content
        if path.is_dir():
            path.rmdir()
            column_cache.configure({"directory": str(directory)})


def lies(name, schema, rows):
    """Tables that a writer of another mind may have put under a name."""
    other = [pa.field(field.name, pa.string() if field.type != pa.string() else pa.int64()) for field in schema]
    nothing = pa.table([pa.nulls(rows, field.type) for field in schema], schema=schema)
    yield nothing.slice(1)
    if name == checkpoint_reading._ADDS:
        yield nothing
    yield pa.table([pa.array(["1"] * rows).cast(f.type) for f in other], schema=pa.schema(other))
    yield pa.table({"x": pa.array(range(rows))}).slice(0, rows - 1)


def test_what_lies_about_its_columns_is_not_used(log, directory, monkeypatch):
    write(log, "classic", "text", 1)
    expected = without(log, directory)
    asked = []
    read = FileColumns.read

    def noted(*args):
        asked.append(args)
        return read(*args)

    monkeypatch.setattr(FileColumns, "read", noted)
    shown(log.load())
    assert len(asked) == len(LEAVES) + 2  # the adds, their rows are not asked for without them, and no column
    for columns, name, schema, *rows in list(asked):
        for table in lies(name, schema, rows[0] if rows else 60):
            columns.write(name, table)
            assert shown(log.load()) == expected, (name, table.schema)
    rows = pq.read_metadata(log.log / checkpoint_name(3)).num_rows
    columns.write(checkpoint_reading._SELECTED, pa.table({"is_add": [True] * rows}))
    assert shown(log.load()) == expected


class Forbidding(LocalStore):
    """The store of a session that may list the log, but not read its checkpoints."""

    def open_input(self, path):
        raise PermissionError(13, "not allowed", path)


def test_who_may_not_read_the_checkpoint_gets_nothing_of_it(log, directory):
    log.checkpoint(3, *log.header(), add("secret", '{"numRecords":1}'))
    log.load().statistics([("id",)])
    counted()
    with pytest.raises(HeadwaterError, match="not allowed"):
        load_snapshot(log.path, Forbidding())
    assert counted() == (0, 0)


class AnotherEndpoint(LocalStore):
    identity = "endpoint=elsewhere"


def test_what_is_reached_with_other_options_is_kept_apart(log, directory):
    log.checkpoint(3, *log.header(), add("a", '{"numRecords":1}'))
    log.load()
    counted()
    load_snapshot(log.path, AnotherEndpoint())
    assert counted()[0] == 0


def test_an_entry_in_the_place_of_another_one_is_none(tmp_path):
    columns = FileColumns(ColumnCache(str(tmp_path / "c")), b"")
    for name in ("a", "b"):
        assert columns.write(name, table_of(800)) is not None
    paths = {name: tmp_path / "c" / f"{columns._digest(name)}.arrow" for name in ("a", "b")}
    shutil.copy(paths["a"], tmp_path / "new")
    os.rename(tmp_path / "new", paths["b"])
    assert columns.read("a", table_of(8).schema, 100) is not None
    assert columns.read("b", table_of(8).schema, 100) is None
    assert not paths["b"].exists()


def test_a_directory_below_the_users_own(directory, monkeypatch):
    monkeypatch.setenv("HOME", str(directory))
    column_cache.configure({"directory": " ~/.cache/headwater/ "})
    assert column_cache._cache is not None
    assert column_cache._cache.directory == f"{directory}/.cache/headwater"
