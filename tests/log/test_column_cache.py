"""The cache on disk of large checkpoints' columns: what it gives is what the checkpoint says, whatever became of it."""

from __future__ import annotations

import io
import os
import random
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headwater.log import checkpoint_reading, column_cache
from headwater.log.checkpoint_writing import write_checkpoint
from headwater.protocol.file_names import checkpoint_name
from support.cached_checkpoints import entries, without, write
from support.kept_columns import LEAVES, counted, shown
from support.log_writer import add

KINDS = ["classic", "multi-part", "v2 parquet", "v2 json", "adds alone"]


TYPES = ["text", "typed", "both"]


def damage(draw, path):
    """Change an entry somehow."""
    content = bytearray(path.read_bytes())
    way = draw.randrange(6)
    if way == 0:
        content = content[: draw.randrange(len(content))]
    elif way == 1:
        content = bytearray(draw.randbytes(draw.randrange(2000)))
    elif way == 2:
        content += draw.randbytes(3)
    else:  # anywhere, at the end, or more than once
        for _ in range(draw.choice([1, 1, 20])):
            at = draw.randrange(len(content)) if way < 5 else len(content) - 1 - draw.randrange(64)
            content[at] ^= 1 << draw.randrange(8)
    changed = path.with_suffix(".new")
    changed.write_bytes(content)
    changed.chmod(0o600)
    changed.rename(path)  # in place, it would change under who has it mapped


@pytest.mark.parametrize("how", TYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_cold_warm_or_spoiled_it_is_the_same(log, directory, kind, how):
    write(log, kind, how, f"{kind} {how}")
    expected = without(log, directory)
    counted()
    assert shown(log.load()) == expected
    hits, misses = counted()
    assert (hits, misses > 0) == (0, True)
    assert shown(log.load()) == expected
    hits, misses = counted()
    assert (hits > 0, misses) == (True, 0)
    draw = random.Random(f"{how} {kind}")
    for _ in range(4):
        for path in draw.sample(entries(directory), 3):
            damage(draw, path)
        assert shown(log.load()) == expected
    counted()
    assert shown(log.load()) == expected
    assert counted()[1] == 0  # what was spoiled has been written again


def test_what_is_kept_is_not_read_again(log, directory, monkeypatch):
    write(log, "classic", "both", 1)
    before = shown(log.load())
    monkeypatch.setattr(checkpoint_reading.ParquetActions, "_file_actions", _unwanted)
    monkeypatch.setattr(checkpoint_reading.CheckpointStatistics, "_texts", _unwanted)
    monkeypatch.setattr(checkpoint_reading.CheckpointStatistics, "_parsed", _unwanted)
    snapshot = log.load()
    assert repr(snapshot.statistics(LEAVES).to_pylist()) in before
    with pytest.raises(AssertionError):
        snapshot.tombstones()  # these are not kept


def _unwanted(*_):
    raise AssertionError("it is read")


def test_off_it_keeps_nothing(log, tmp_path, monkeypatch):
    monkeypatch.setattr(column_cache, "FEWEST_BYTES", 0)
    monkeypatch.setattr(checkpoint_reading, "_KEPT_BYTES", 0)
    write(log, "classic", "text", 1)
    there = sorted(tmp_path.rglob("*"))
    counted()
    for settings in ({}, {"directory": ""}, {"maxBytes": "1g"}):
        column_cache.configure(settings)
        log.load().statistics(LEAVES)
    assert sorted(tmp_path.rglob("*")) == there
    assert counted() == (0, 0)


def test_a_checkpoint_that_was_replaced_is_read_again(log, directory):
    """By another engine, under the same name and of the same size and time, with its files in another order."""
    files = [add(f"f{number}", f'{{"numRecords":{number}}}') for number in range(10, 60)]
    path = log.log / checkpoint_name(3)
    moment = 1_700_000_000_000_000_000
    for seed in range(4):
        random.Random(seed).shuffle(files)
        log.checkpoint(3, *files, *log.header())
        pq.write_table(pq.read_table(path), path, compression="none", use_dictionary=False)
        os.utime(path, ns=(moment, moment))
        snapshot = log.load()
        assert snapshot.files["path"].to_pylist() == [file.path for file in files]
        assert snapshot.statistics([])["num_records"].to_pylist() == [int(file.path[1:]) for file in files]
    log.checkpoint(3, *files[:30], *log.header())
    assert log.load().num_files == 30


def test_a_type_that_was_changed_is_another_column(log, directory):
    stats = '{"numRecords":1,"minValues":{"c":3},"maxValues":{"c":4}}'
    log.checkpoint(3, *log.header({"c": "integer"}), add("a", stats))
    assert log.load().statistics([("c",)])["min.0"].type == pa.int32()
    log.commit(4, *log.header({"c": "decimal(12,1)"})[1:])
    assert log.load().statistics([("c",)])["max.0"].to_pylist() == [Decimal("4.0")]
    counted()
    for version, kind in ((3, pa.int32()), (4, pa.decimal128(12, 1)), (3, pa.int32())):
        assert log.load(version).statistics([("c",)])["min.0"].type == kind
    assert counted()[1] == 0


def test_any_store_gives_files_that_can_be_told_apart(directory):
    """Users' stores may give Python's own files."""
    first = random.Random(1).randbytes(300_000) + (100_000).to_bytes(4, "little") + b"PAR1"
    in_footer = bytearray(first)
    in_footer[-90_000] ^= 1
    seen = set()
    cases = [("p", first, 1, ""), ("p", first, 2, ""), ("p", bytes(in_footer), 1, ""), ("p", first[1:], 1, "")]
    cases += [("q", first, 1, ""), ("p", first, 1, "key=other")]
    for path, content, modified, identity in cases:
        found = [
            column_cache.columns_of(path, file, modified, identity)
            for file in (pa.BufferReader(content), pa.PythonFile(io.BytesIO(content), mode="r"))
        ]
        assert found[0] is not None
        assert found[1] is not None
        assert found[0]._identity == found[1]._identity
        seen.add(found[0]._identity)
    assert len(seen) == len(cases)


def test_a_checkpoint_that_is_written_fills_no_cache(tmp_path, log, directory):
    """It needs the bounds of all columns, once."""
    write(log, "classic", "typed", 5)
    snapshot = log.load()
    kept = entries(directory)
    write_checkpoint(snapshot)
    assert entries(directory) == kept
