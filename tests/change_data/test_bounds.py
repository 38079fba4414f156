"""From what a user asks for to versions. Version n is of 10 n seconds after the epoch; the newest is 4."""

from __future__ import annotations

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.change_data.bounds import Bound, VersionRange, resolve
from headwater.log.history import CommitTimes
from headwater.log.segment import list_log
from headwater.log.snapshot import load_snapshot
from support.hand_made import add


def version(number, inclusive=True):
    return Bound(version=number, inclusive=inclusive)


def second(seconds, inclusive=True):
    return Bound(timestamp=round(seconds * 1_000_000), inclusive=inclusive)


@pytest.fixture
def five(table):
    table.create()
    for n in range(4):
        table.commit(add(f"f{n}"))
    return table


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (version(0), None, (0, 4)),
        (version(2), version(3), (2, 3)),
        (version(4), version(4), (4, 4)),
        (version(2), version(100), (2, 4)),
        (version(2, False), version(4, False), (3, 3)),
        (second(-5), None, (0, 4)),
        (second(10), second(20), (1, 2)),
        (second(10.000001), second(19.999999), None),
        (second(10.0005), second(29.9995), (2, 2)),
        (second(10, False), second(30, False), (2, 2)),
        (second(5), version(3), (1, 3)),
        (version(1), second(25), (1, 2)),
        (second(40), second(40), (4, 4)),
        (version(2, False), version(2), None),
        (version(4, False), None, None),
    ],
)
def test_bounds_name_the_versions_between_them(five, start, end, expected):
    assert five.range(start, end) == (expected and VersionRange(*expected))


@pytest.mark.parametrize(
    ("start", "end", "condition"),
    [
        (version(5), None, "DELTA_CDC_START_VERSION_AFTER_LATEST"),
        (version(3), version(2), "DELTA_INVALID_CDC_RANGE"),
        (second(30), second(20), "DELTA_INVALID_CDC_RANGE"),
        (version(4), second(15), "DELTA_INVALID_CDC_RANGE"),
        (second(40.001), None, "DELTA_TIMESTAMP_GREATER_THAN_COMMIT"),
        (second(40, False), None, "DELTA_TIMESTAMP_GREATER_THAN_COMMIT"),
        (version(1), second(40.001), "DELTA_TIMESTAMP_GREATER_THAN_COMMIT"),
        (version(1), second(-1), "DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION"),
    ],
)
def test_bounds_that_name_no_versions_are_refused(five, start, end, condition):
    with pytest.raises(HeadwaterError) as caught:
        five.range(start, end)
    assert caught.value.condition == condition


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (version(5), None, None),
        (version(5), version(9), None),
        (second(41), None, None),
        (second(41), second(50), None),
        (version(3), second(99), VersionRange(3, 4)),
    ],
)
def test_after_the_newest_version_where_that_is_allowed(five, start, end, expected):
    assert five.range(start, end, may_be_after_latest=True) == expected


def test_order_is_refused_even_there(five):
    with pytest.raises(HeadwaterError) as caught:
        five.range(version(3), version(2), may_be_after_latest=True)
    assert caught.value.condition == "DELTA_INVALID_CDC_RANGE"


def test_versions_the_log_no_longer_has(five):
    metadata = load_snapshot(five.path, five.store).metadata
    for gone in (0, 1):
        five.forget(gone)
    times = CommitTimes(list_log(five.path, five.store), metadata, five.store, 4)
    assert resolve(version(2), None, times, 4) == VersionRange(2, 4)
    with pytest.raises(HeadwaterError, match="no version 1 .* from 2 to 4") as caught:
        resolve(version(1), None, times, 4)
    assert caught.value.condition == "DELTA_VERSION_NOT_FOUND"
