"""Bounds in checkpoints of writers in any calendar: right or left out, for pruning and for the next checkpoint."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headwater.basics.julian import FIRST_DAY, FIRST_MICROSECOND, days_from_julian
from headwater.log.checkpoint_writing import write_checkpoint
from headwater.stores.file_calendar import FileCalendar
from support.log_writer import CHECKPOINT

SPARK, DATES, INT96, ZONE = (
    f"org.apache.spark.{name}" for name in ("version", "legacyDateTime", "legacyINT96", "timeZone")
)
#: What a footer says; whether days and times are then those of Spark 2's calendar; whether times of the type INT96 are.
MARKS = [
    ({}, False, False),
    ({SPARK: "4.2.0"}, False, False),
    ({SPARK: "2.4.8"}, True, True),
    ({SPARK: "3.0.2"}, False, True),
    ({SPARK: "3.5.1", DATES: ""}, True, False),
    ({SPARK: "3.5.1", INT96: ""}, False, True),
    ({SPARK: "3.5.1", DATES: "", INT96: "", ZONE: "Asia/Kolkata"}, True, True),
]
DAY = 86_400_000_000
ROOM = 2 * 60_000_999
#: Around the ten days that the calendar skips, a leap day of the Julian calendar alone, year 1, and today.
DAYS = [*range(FIRST_DAY - 12, FIRST_DAY + 2), -171_596, -171_595, -719_163, -719_162, 0, 20_000]
#: On the same days, and around 1900.
TIMES = [day * DAY + some for day in DAYS for some in (0, 3_600_000_000)]
TIMES += [FIRST_MICROSECOND + some * 1_000_000 for some in (-7201, -1, 0, 1, 7200, 90_000)]
LEAVES = [("d",), ("s", "t")]


def julian_day(day: int) -> int:
    """What a writer counts for a day; one that its calendar has not becomes the next."""
    counts = np.arange(day - 20, day + 20)
    return int(counts[np.searchsorted(days_from_julian(counts), day)])


def julian_time(time: int, shift: int) -> int:
    """The same for a time, in a zone whose clocks went so many seconds differently before 1900."""
    return time if time >= FIRST_MICROSECOND else julian_day(time // DAY) * DAY + time % DAY + shift * 1_000_000


@pytest.mark.parametrize("is_int96", [False, True])
@pytest.mark.parametrize(("marks", "has_julian_days", "has_julian_int96"), MARKS)
def test_bounds_hold_in_any_calendar(log, marks, has_julian_days, has_julian_int96, is_int96):
    has_julian_times = has_julian_int96 if is_int96 else has_julian_days
    values = [(day, time, shift) for day, time in zip(DAYS, TIMES, strict=False) for shift in (0,)]
    values += [(0, time, shift) for time in TIMES for shift in ((-7200, 7200) if has_julian_times else (0,))]
    bounds = [
        {
            "d": julian_day(day) if has_julian_days else day,
            "s": {"t": julian_time(time, shift) if has_julian_times else time},
        }
        for day, time, shift in values
    ]
    times = pa.struct([("t", pa.timestamp("us", None if is_int96 else "UTC"))])
    both = pa.struct([("d", pa.date32()), ("s", times)])
    parsed = pa.struct([("numRecords", pa.int64()), ("minValues", both), ("maxValues", both)])
    add = pa.struct([("path", pa.string()), ("size", pa.int64()), ("stats_parsed", parsed)])
    schema = CHECKPOINT.set(CHECKPOINT.get_field_index("add"), pa.field("add", add))
    inner = {"type": "struct", "fields": [{"name": "t", "type": "timestamp", "nullable": True, "metadata": {}}]}
    header = log.header({"d": "date", "s": {"name": "s", "type": inner, "nullable": True, "metadata": {}}})
    rows = [action.to_json() for action in header]
    rows += [
        {"add": {"path": f"{i:03}", "size": 1, "stats_parsed": {"numRecords": 1, "minValues": it, "maxValues": it}}}
        for i, it in enumerate(bounds)
    ]
    log.log.mkdir(parents=True)
    path = log.log / "00000000000000000001.checkpoint.parquet"
    table = pa.Table.from_pylist(rows, schema.with_metadata(marks))
    pq.write_table(table, path, use_deprecated_int96_timestamps=is_int96)

    check(log.load(), values, has_julian_days or has_julian_int96)
    write_checkpoint(log.load(), now=0)
    assert FileCalendar.of(pq.read_metadata(path)) == FileCalendar(True, False, False, None)
    check(log.load(), values, has_julian_days or has_julian_int96)


def check(snapshot, values, may_lack):
    found = snapshot.statistics(LEAVES)
    numbers = {
        name: found[name].cast(pa.int32() if name.endswith("0") else pa.int64()).to_pylist()
        for name in ("min.0", "max.0", "min.1", "max.1")
    }
    assert found["num_records"].to_pylist() == [1] * len(values)
    for i, (day, time, _) in enumerate(values):
        # Each time that a checkpoint has only typed bounds, they are widened: by what a text leaves out, and times
        # before 1972 by a minute.
        for leaf, (value, agreed, room) in enumerate([(day, FIRST_DAY + 1, 0), (time, FIRST_MICROSECOND + DAY, ROOM)]):
            low, high = numbers[f"min.{leaf}"][i], numbers[f"max.{leaf}"][i]
            first, last = ((value + room) // DAY, (value - room) // DAY) if leaf else (value, value)
            is_skipped = first >= FIRST_DAY - 11 and last <= FIRST_DAY
            if is_skipped or (may_lack and value - room < agreed):
                assert low is None or low <= value, values[i]
                assert high is None or high >= value, values[i]
            else:
                assert value - room <= low <= value <= high <= value + room, values[i]
