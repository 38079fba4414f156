"""How much room the cache on disk of checkpoints' columns takes, and memory; what it does where there is none."""

from __future__ import annotations

import gc
import logging
import os
import random
import resource
import time

import pyarrow as pa
import pytest

from headwater.basics import counts
from headwater.log import checkpoint_reading, column_cache
from headwater.log.column_cache import ColumnCache, FileColumns
from headwater.log.snapshot_cache import SnapshotCache
from support.cached_checkpoints import entries, table_of, without, write
from support.kept_columns import LEAVES, shown
from support.log_writer import add


def _allocated_since(before):
    time.sleep(0.01)
    return pa.total_allocated_bytes() - before


def test_what_is_mapped_takes_no_memory(tmp_path, log, directory):
    files = [add(f"{number:0200}", '{"numRecords":7,"minValues":{"id":5}}') for number in range(20_000)]
    log.checkpoint(1, *log.header(), *files)
    sizes = []
    for with_cache in (False, True, True):
        column_cache.configure({"directory": str(directory)} if with_cache else {})
        gc.collect()
        before, cache = pa.total_allocated_bytes(), SnapshotCache()
        snapshot = cache.get(log.path, log.store)
        snapshot.statistics([("id",)])
        cache.get(log.path, log.store)
        taken = counts.take()
        assert taken is not None
        # Arrow's own threads let go of what they have read a moment later.
        took = min(_allocated_since(before) for _ in range(20))
        sizes.append((took, taken["levels"]["cachedBytes"]))
        del snapshot, cache
    assert sizes[0][0] > 4_000_000 < sizes[0][1]
    assert sizes[1][0] < 400_000 > sizes[1][1]  # also of the process that wrote it
    assert sizes[2][0] < 400_000 > sizes[2][1]


def test_small_checkpoints_are_not_kept(log, directory, monkeypatch):
    write(log, "classic", "text", 1)
    monkeypatch.undo()
    monkeypatch.setattr(checkpoint_reading, "_KEPT_BYTES", 0)
    log.load().statistics(LEAVES)
    monkeypatch.undo()
    monkeypatch.setattr(column_cache, "FEWEST_BYTES", 0)
    log.load().statistics(LEAVES)
    assert not directory.exists()


def test_entries_not_used_for_longest_go(tmp_path, monkeypatch):
    directory = tmp_path / "c"
    write_entry, there = column_cache._write, []

    def noted(path, digest, table, rows):
        there.append(sum(path.stat().st_size for path in entries(directory) if len(path.stem) == 64) + table.nbytes)
        return write_entry(path, digest, table, rows)

    monkeypatch.setattr(column_cache, "_write", noted)
    columns = FileColumns(ColumnCache(str(directory), 500_000), b"")
    schema = table_of(8).schema
    (tmp_path / "c").mkdir(0o700)
    others = [
        directory / "mine.txt",
        directory / ("0" * 64),
        directory / "1.arrow",
        directory / ("a" * 64 + ".arrow.x"),
    ]
    for path in others:
        path.write_bytes(bytes(1 << 20))
    abandoned, fresh = directory / ("0" * 32 + ".tmp"), directory / ("1" * 32 + ".tmp")
    for path in (abandoned, fresh):
        path.write_bytes(bytes(1000))
    os.utime(abandoned, (0, 0))
    for number in range(4):
        assert columns.write(str(number), table_of(100_000)) is not None
        path = directory / f"{columns._digest(str(number))}.arrow"
        os.utime(path, (1000 + number, 1000 + number))
    assert not abandoned.exists()
    assert columns.read("0", schema, 12_500) is not None  # now it is the one used last
    for number in (4, 5):
        columns.write(str(number), table_of(100_000))
        assert sum(path.stat().st_size for path in entries(directory) if len(path.stem) == 64) <= 500_000
    assert [columns.read(str(number), schema, 12_500) is not None for number in range(6)] == [
        *(True, False, False, True, True, True)
    ]
    assert fresh.exists()
    assert all(path.exists() for path in others)
    taken = counts.take()
    assert taken is not None
    assert 400_000 < taken["levels"]["columnCacheBytes"] <= 500_000
    assert columns.write("huge", table_of(450_000)) is None
    assert len([path for path in entries(directory) if len(path.stem) == 64]) == 4
    assert columns.write("large", table_of(430_000)) is not None
    assert len([path for path in entries(directory) if len(path.stem) == 64]) == 1
    assert max(there) <= 500_000  # room is made before, not after


KINDS_OF_VALUES = [
    *(pa.null(), pa.bool_(), pa.int8(), pa.int64(), pa.float32(), pa.float64(), pa.date32(), pa.timestamp("us")),
    *(pa.timestamp("us", "UTC"), pa.decimal128(38, 10), pa.decimal128(4, 1), pa.string(), pa.binary()),
    *(pa.list_(pa.int32()), pa.map_(pa.string(), pa.string()), pa.struct([("x", pa.decimal128(20, 1))])),
]


def test_columns_of_nulls_come_back_and_take_no_room(tmp_path):
    columns = FileColumns(ColumnCache(str(tmp_path / "c")), b"")
    for rows in (0, 1, 70_000):
        table = pa.table({str(kind): pa.nulls(rows, kind) for kind in KINDS_OF_VALUES})
        for found in (columns.write(str(rows), table), columns.read(str(rows), table.schema, rows)):
            assert found is not None
            found.validate(full=True)
            assert found.equals(table)
    assert sum(path.stat().st_size for path in entries(tmp_path / "c")) < 5000


def test_few_looks_are_enough_for_many_writers(tmp_path, monkeypatch):
    """With hundreds of entries, to look at them for each new one would take longer than all else."""
    looks = []
    scan = os.scandir

    def noted(path):
        looks.append(path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", noted)
    directory, most_bytes = tmp_path / "c", 4_000_000
    writers = [FileColumns(ColumnCache(str(directory), most_bytes), bytes([number])) for number in range(8)]
    most = 0
    for number in range(600):
        assert random.Random(number).choice(writers).write(str(number), table_of(8000)) is not None
        if number % 10 == 0:
            most = max(most, sum(path.stat().st_size for path in directory.iterdir()))
    assert 3_000_000 < most <= most_bytes
    assert looks.count(str(directory)) < 200
    taken = counts.take()
    assert taken is not None
    assert taken["levels"]["columnCacheBytes"] <= most_bytes


def test_a_full_disk_is_no_error(log, directory, caplog, monkeypatch):
    """The system refuses files beyond a size, as a full disk does."""
    write(log, "classic", "text", 1)
    expected = without(log, directory)
    tried, write_entry = [], column_cache._write

    def noted(path, *args):
        tried.append(path)
        return write_entry(path, *args)

    monkeypatch.setattr(column_cache, "_write", noted)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, hard))
    try:
        with caplog.at_level(logging.WARNING):
            assert [shown(log.load()) for _ in range(3)] == [expected] * 3
        assert len(tried) == 2  # which rows are files, and the first that was too large; then no more for a while
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert len([record for record in caplog.records if "nothing can be kept" in record.getMessage()]) == 1
    assert not [path for path in directory.iterdir() if path.stat().st_size > 2000 or path.suffix == ".tmp"]
    column_cache.configure({"directory": str(directory)})
    assert shown(log.load()) == expected
    assert len(entries(directory)) == len(LEAVES) + 3


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", column_cache.MOST_BYTES), ("1000", 1000), ("2g", 2 << 30), ("much", column_cache.MOST_BYTES)],
)
def test_how_much_it_may_hold(directory, text, expected):
    column_cache.configure({"directory": str(directory), "maxBytes": text})
    assert column_cache._cache is not None
    assert column_cache._cache._most_bytes == expected
