"""The cache on disk of large checkpoints' columns: what it gives is what the checkpoint says, whatever became of it."""

from __future__ import annotations

import gc
import io
import json
import logging
import os
import random
import resource
import shutil
import stat
import subprocess
import threading
import time
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headwater import counts
from headwater.errors import HeadwaterError
from headwater.log import checkpoint_reading, column_cache
from headwater.log.checkpoint_writing import write_checkpoint
from headwater.log.column_cache import ColumnCache, FileColumns
from headwater.log.snapshot import load_snapshot
from headwater.log.snapshot_cache import SnapshotCache
from headwater.protocol.actions import DeletionVector
from headwater.protocol.file_names import checkpoint_name
from headwater.stores import LocalStore
from support.kept_columns import COLUMNS, LEAVES, counted, keep_columns_in, shown
from support.processes import environment, python

_BOUNDS = pa.struct([("i", pa.int64()), ("d", pa.float64()), ("s", pa.string())])
_PARSED = pa.struct(
    [
        ("numRecords", pa.int64()),
        ("tightBounds", pa.bool_()),
        ("minValues", _BOUNDS),
        ("maxValues", _BOUNDS),
        ("nullCount", pa.struct([("i", pa.int64()), ("d", pa.int64())])),
    ]
)
KINDS = ["classic", "multi-part", "v2 parquet", "v2 json", "adds alone"]
TYPES = ["text", "typed", "both"]


@pytest.fixture
def directory(tmp_path, monkeypatch):
    """A cache that keeps columns of checkpoints of any size."""
    for module, name in ((checkpoint_reading, "_KEPT_BYTES"), (column_cache, "FEWEST_BYTES")):
        monkeypatch.setattr(module, name, getattr(module, name))  # for its end
    place = tmp_path / "cache"
    keep_columns_in(str(place))
    yield place
    column_cache.configure({})


def entries(directory):
    return sorted(directory.glob("*.arrow"))


def _text(draw, number):
    """The statistics of a file: mostly whole ones, some that lack a part, some damaged, some none."""
    low = draw.randrange(1000)
    low_values = {
        "i": low,
        "j": -low,
        "d": low / 7,
        "s": draw.choice("amz"),
        "t": f"2024-01-0{1 + number % 9}T00:00:00.123Z",
    }
    low_values |= {"n": low, "day": f"2024-02-0{1 + number % 9}", "flag": number % 2 == 0}
    high_values = {**low_values, "i": low + draw.randrange(300), "d": low / 7 + 1, "s": low_values["s"] + "é"}
    chance = draw.random()
    if chance < 0.1:
        return None
    if chance < 0.15:
        return '{"numRecords":'
    content = {"numRecords": number, "minValues": low_values, "maxValues": high_values, "nullCount": {"i": 0, "d": 1}}
    if chance < 0.3:
        del content[draw.choice(["minValues", "maxValues", "nullCount", "numRecords"])]
    elif chance < 0.4:
        content["tightBounds"] = False
    return json.dumps(content)


def _parsed(text):
    """The same as typed columns have it."""
    try:
        content = json.loads(text or "null")
    except ValueError:
        content = None
    return content and {name: content.get(name) for name in ("numRecords", "tightBounds")} | {
        name: {each.name: content.get(name, {}).get(each.name) for each in _PARSED.field(name).type}
        for name in ("minValues", "maxValues", "nullCount")
    }


def write(log, make, kind, how, seed):
    """A log that is a checkpoint, and two commits after it."""
    draw = random.Random(seed)
    vector = DeletionVector("u", "ab^-aqEH.-t@S}K{vb[*k^", 40, 6, 4)
    names = [f"f{number}" if draw.random() < 0.8 else f"f%20{number}" for number in range(60)]
    files = [
        make.add(
            name,
            _text(draw, number),
            partition_values={"p": draw.choice([None, "1", "2"])},
            tags={"k": name} if draw.random() < 0.1 else None,
            deletion_vector=vector if draw.random() < 0.2 else None,
        )
        for number, name in enumerate(names)
    ]
    others = log.header(COLUMNS, ["p"])
    removes = [make.remove(f"gone{number}") for number in range(20)]
    if kind == "adds alone":
        removes = []
    mixed = [*files, *removes]
    draw.shuffle(mixed)
    parts = [mixed[:20], mixed[20:50], mixed[50:]]
    match kind:
        case "classic":
            whole = [*others, *mixed]
            draw.shuffle(whole)
            log.checkpoint(3, *whole)
        case "multi-part":
            log.multi_part(3, [parts[0], others, parts[1], parts[2]])
        case "adds alone":
            log.v2_checkpoint(3, others, parts, "parquet")
        case _:
            log.v2_checkpoint(3, others, parts, kind.split()[1])
    for path in log.log.rglob("*.parquet"):
        _rewrite(path, how, draw)
    log.commit(
        4, make.remove(files[3].path, deletion_vector=files[3].deletion_vector), make.add("late", '{"numRecords":1}')
    )
    log.commit(5, make.remove(files[9].path, deletion_vector=files[9].deletion_vector))


def _rewrite(path, how, draw):
    """A checkpoint's file with statistics as text, as typed columns, or both; in row groups of some size."""
    table = pq.read_table(path)
    rows = table.to_pylist()
    add = table.schema.field("add").type if "add" in table.schema.names else None
    if how != "text" and add is not None:
        for row in rows:
            if row["add"] is not None:
                row["add"]["stats_parsed"] = _parsed(row["add"]["stats"])
                if how == "typed" or draw.random() < 0.2:
                    row["add"]["stats"] = None
        fields = [*add, pa.field("stats_parsed", _PARSED)]
        position = table.schema.get_field_index("add")
        table = pa.Table.from_pylist(rows, table.schema.set(position, pa.field("add", pa.struct(fields))))
    pq.write_table(table, path, row_group_size=draw.choice([5, 17, 1000]))


def without(log, directory):
    """What the log says without a cache."""
    column_cache.configure({})
    found = shown(log.load())
    column_cache.configure({"directory": str(directory)})
    return found


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
def test_cold_warm_or_spoiled_it_is_the_same(log, make, directory, kind, how):
    write(log, make, kind, how, f"{kind} {how}")
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


def test_what_is_kept_is_not_read_again(log, make, directory, monkeypatch):
    write(log, make, "classic", "both", 1)
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


def _allocated_since(before):
    time.sleep(0.01)
    return pa.total_allocated_bytes() - before


def test_what_is_mapped_takes_no_memory(tmp_path, log, make, directory):
    files = [make.add(f"{number:0200}", '{"numRecords":7,"minValues":{"id":5}}') for number in range(20_000)]
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


def test_off_it_keeps_nothing(log, make, tmp_path, monkeypatch):
    monkeypatch.setattr(column_cache, "FEWEST_BYTES", 0)
    monkeypatch.setattr(checkpoint_reading, "_KEPT_BYTES", 0)
    write(log, make, "classic", "text", 1)
    there = sorted(tmp_path.rglob("*"))
    counted()
    for settings in ({}, {"directory": ""}, {"maxBytes": "1g"}):
        column_cache.configure(settings)
        log.load().statistics(LEAVES)
    assert sorted(tmp_path.rglob("*")) == there
    assert counted() == (0, 0)


def test_small_checkpoints_are_not_kept(log, make, directory, monkeypatch):
    write(log, make, "classic", "text", 1)
    monkeypatch.undo()
    monkeypatch.setattr(checkpoint_reading, "_KEPT_BYTES", 0)
    log.load().statistics(LEAVES)
    monkeypatch.undo()
    monkeypatch.setattr(column_cache, "FEWEST_BYTES", 0)
    log.load().statistics(LEAVES)
    assert not directory.exists()


def test_it_is_for_its_user_alone(log, make, directory):
    os.umask(os.umask(0o002))
    write(log, make, "classic", "text", 1)
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
def test_a_directory_that_may_not_be_used_is_not(log, make, directory, monkeypatch, caplog, spoil):
    write(log, make, "classic", "text", 1)
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
def test_entries_that_are_none_are_not_used(log, make, directory, spoil):
    write(log, make, "classic", "text", 1)
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


def test_what_lies_about_its_columns_is_not_used(log, make, directory, monkeypatch):
    write(log, make, "classic", "text", 1)
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


def test_a_checkpoint_that_was_replaced_is_read_again(log, make, directory):
    """By another engine, under the same name and of the same size and time, with its files in another order."""
    files = [make.add(f"f{number}", f'{{"numRecords":{number}}}') for number in range(10, 60)]
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


def test_a_type_that_was_changed_is_another_column(log, make, directory):
    stats = '{"numRecords":1,"minValues":{"c":3},"maxValues":{"c":4}}'
    log.checkpoint(3, *log.header({"c": "integer"}), make.add("a", stats))
    assert log.load().statistics([("c",)])["min.0"].type == pa.int32()
    log.commit(4, *log.header({"c": "decimal(12,1)"})[1:])
    assert log.load().statistics([("c",)])["max.0"].to_pylist() == [Decimal("4.0")]
    counted()
    for version, kind in ((3, pa.int32()), (4, pa.decimal128(12, 1)), (3, pa.int32())):
        assert log.load(version).statistics([("c",)])["min.0"].type == kind
    assert counted()[1] == 0


class Forbidding(LocalStore):
    """The store of a session that may list the log, but not read its checkpoints."""

    def open_input(self, path):
        raise PermissionError(13, "not allowed", path)


def test_who_may_not_read_the_checkpoint_gets_nothing_of_it(log, make, directory):
    log.checkpoint(3, *log.header(), make.add("secret", '{"numRecords":1}'))
    log.load().statistics([("id",)])
    counted()
    with pytest.raises(HeadwaterError, match="not allowed"):
        load_snapshot(log.path, Forbidding())
    assert counted() == (0, 0)


def table_of(size):
    """A table whose entry takes a little more than so many bytes."""
    return pa.table({"x": pa.array(range(size // 8), pa.int64())})


class AnotherEndpoint(LocalStore):
    identity = "endpoint=elsewhere"


def test_what_is_reached_with_other_options_is_kept_apart(log, make, directory):
    log.checkpoint(3, *log.header(), make.add("a", '{"numRecords":1}'))
    log.load()
    counted()
    load_snapshot(log.path, AnotherEndpoint())
    assert counted()[0] == 0


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


def test_a_full_disk_is_no_error(log, make, directory, caplog, monkeypatch):
    """The system refuses files beyond a size, as a full disk does."""
    write(log, make, "classic", "text", 1)
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


def test_the_directory_may_go_at_any_time(log, make, directory, caplog):
    write(log, make, "classic", "text", 1)
    expected = shown(log.load())
    mapped = log.load()
    mapped.statistics(LEAVES)
    shutil.rmtree(directory)
    assert shown(mapped) == expected
    assert shown(log.load()) == expected
    done = threading.Event()

    def delete():
        while not done.is_set():
            shutil.rmtree(directory, ignore_errors=True)
            time.sleep(0.001)

    thread = threading.Thread(target=delete)
    thread.start()
    try:
        for _ in range(8):
            assert shown(log.load()) == expected
    finally:
        done.set()
        thread.join()
    assert caplog.records == []
    assert column_cache._cache is not None
    assert column_cache._cache._rests_until == 0  # what somebody deletes is no failure


def start(log, directory, most_bytes="1g", until=0.0):
    return subprocess.Popen(
        python("support.kept_columns", log.path, str(directory), most_bytes, str(until)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )


def answer(process):
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err.decode()
    assert b"not used" not in err
    assert b"can be kept" not in err
    hits, misses, found = json.loads(out)
    return hits, misses, set(found)


def test_another_process_finds_it(log, make, directory):
    write(log, make, "v2 parquet", "both", 2)
    expected = without(log, directory)
    _, misses, found = answer(start(log, directory))
    assert (misses > 0, found) == (True, {expected})
    hits, misses, found = answer(start(log, directory))
    assert (hits > 0, misses, found) == (True, 0, {expected})
    counted()
    assert shown(log.load()) == expected
    assert counted()[1] == 0


@pytest.mark.parametrize("most_bytes", ["1g", "20000"])
def test_processes_at_once(log, make, directory, most_bytes):
    """With room for all, and with so little that each deletes what others use."""
    write(log, make, "multi-part", "both", 3)
    expected = without(log, directory)
    until = time.time() + 3
    for hits, misses, found in map(answer, [start(log, directory, most_bytes, until) for _ in range(3)]):
        assert found == {expected}
        assert (hits if most_bytes == "1g" else misses) > 0
    if most_bytes != "1g":
        assert sum(path.stat().st_size for path in directory.iterdir()) <= 20_000


def test_threads_at_once(log, make, directory):
    write(log, make, "classic", "text", 4)
    expected = without(log, directory)
    found = []
    threads = [threading.Thread(target=lambda: found.append(shown(log.load()))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 8


def test_a_checkpoint_that_is_written_fills_no_cache(tmp_path, log, make, directory):
    """It needs the bounds of all columns, once."""
    write(log, make, "classic", "typed", 5)
    snapshot = log.load()
    kept = entries(directory)
    write_checkpoint(snapshot)
    assert entries(directory) == kept


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", column_cache.MOST_BYTES), ("1000", 1000), ("2g", 2 << 30), ("much", column_cache.MOST_BYTES)],
)
def test_how_much_it_may_hold(directory, text, expected):
    column_cache.configure({"directory": str(directory), "maxBytes": text})
    assert column_cache._cache is not None
    assert column_cache._cache._most_bytes == expected


def test_a_directory_below_the_users_own(directory, monkeypatch):
    monkeypatch.setenv("HOME", str(directory))
    column_cache.configure({"directory": " ~/.cache/headwater/ "})
    assert column_cache._cache is not None
    assert column_cache._cache.directory == f"{directory}/.cache/headwater"
