"""Logs whose checkpoints' columns a cache on disk may keep: of each kind, with statistics as text, typed, or both."""

from __future__ import annotations

import json
import random

import pyarrow as pa
import pyarrow.parquet as pq

from headwater.log import column_cache
from headwater.protocol.actions import DeletionVector
from support.kept_columns import COLUMNS, shown
from support.log_writer import add, remove

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


def write(log, kind, how, seed):
    """A log that is a checkpoint, and two commits after it."""
    draw = random.Random(seed)
    vector = DeletionVector("u", "ab^-aqEH.-t@S}K{vb[*k^", 40, 6, 4)
    names = [f"f{number}" if draw.random() < 0.8 else f"f%20{number}" for number in range(60)]
    files = [
        add(
            name,
            _text(draw, number),
            partition_values={"p": draw.choice([None, "1", "2"])},
            tags={"k": name} if draw.random() < 0.1 else None,
            deletion_vector=vector if draw.random() < 0.2 else None,
        )
        for number, name in enumerate(names)
    ]
    others = log.header(COLUMNS, ["p"])
    removes = [remove(f"gone{number}") for number in range(20)]
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
    log.commit(4, remove(files[3].path, deletion_vector=files[3].deletion_vector), add("late", '{"numRecords":1}'))
    log.commit(5, remove(files[9].path, deletion_vector=files[9].deletion_vector))


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


def table_of(size):
    """A table whose entry takes a little more than so many bytes."""
    return pa.table({"x": pa.array(range(size // 8), pa.int64())})
