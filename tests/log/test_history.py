from __future__ import annotations

import os

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.log.history import history, version_at
from headwater.log.segment import list_log
from headwater.protocol.actions import CommitInfo, SetTransaction
from headwater.protocol.file_names import commit_name

ENABLED = {"delta.enableInCommitTimestamps": "true"}


def commit_at(log, version, seconds, *actions):
    """A commit whose file has that time; one without actions given gets one that is not provenance."""
    log.commit(version, *(log.header() if version == 0 else ()), *(actions or [SetTransaction("app", version)]))
    os.utime(log.log / commit_name(version), ns=(0, int(seconds * 1e9)))


def at(log, seconds, **options):
    return version_at(log.path, log.store, int(seconds * 1000), **options)


def test_newest_first_up_to_the_limit(log):
    for version in range(5):
        commit_at(log, version, 10 * version, CommitInfo({"operation": f"op {version}"}))
    entries = history(log.path, log.store)
    assert [(e.version, e.timestamp, e.commit_info["operation"]) for e in entries] == [
        (version, 10_000 * version, f"op {version}") for version in (4, 3, 2, 1, 0)
    ]
    assert [e.version for e in history(log.path, log.store, 2)] == [4, 3]
    assert history(log.path, log.store, 0) == []


def test_a_commit_without_provenance_has_an_entry(log):
    commit_at(log, 0, 1)
    assert history(log.path, log.store)[0].commit_info == {}


def test_clocks_that_go_back_are_straightened(log):
    for version, seconds in enumerate([10, 5, 5, 20]):
        commit_at(log, version, seconds)
    assert [e.timestamp for e in history(log.path, log.store)] == [20_000, 10_002, 10_001, 10_000]
    assert at(log, 10) == 0
    assert at(log, 10.001) == 1
    assert at(log, 15) == 2


def test_the_version_at_a_time(log):
    for version in range(4):
        commit_at(log, version, 10 * version)
    assert [at(log, seconds) for seconds in (0, 9.999, 10, 25, 30)] == [0, 0, 1, 2, 3]


def test_times_out_of_range_say_what_range_there_is(log):
    for version in range(3):
        commit_at(log, version, 100 + version)
    for seconds, condition in (
        (99.999, "DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION"),
        (102.001, "DELTA_TIMESTAMP_GREATER_THAN_COMMIT"),
    ):
        with pytest.raises(HeadwaterError) as error:
            at(log, seconds)
        assert error.value.condition == condition
        assert error.value.parameters["earliestTimestamp"] == "1970-01-01 00:01:40.000 UTC"
        assert error.value.parameters["latestTimestamp"] == "1970-01-01 00:01:42.000 UTC"
    assert at(log, 99, can_be_before_earliest=True) == 0
    assert at(log, 200, can_be_after_latest=True) == 2


def test_only_versions_that_can_be_rebuilt_are_found(log):
    for version in range(2, 6):
        commit_at(log, version, version)
    log.checkpoint(4, *log.header())
    assert at(log, 4.5) == 4
    with pytest.raises(HeadwaterError) as error:
        at(log, 3)
    assert error.value.parameters["earliestVersion"] == "4"


def test_the_earliest_version_of_a_whole_log_is_zero(log):
    commit_at(log, 0, 1)
    commit_at(log, 1, 2)
    log.checkpoint(1, *log.header())
    assert at(log, 0, can_be_before_earliest=True) == 0


def test_no_table_has_no_history(log):
    with pytest.raises(HeadwaterError) as error:
        history(log.path, log.store)
    assert error.value.condition == "DELTA_TABLE_NOT_FOUND"


def test_in_commit_timestamps_are_the_times(log):
    info = [CommitInfo({"inCommitTimestamp": 1_000 * version}) for version in range(5)]
    log.commit(0, info[0], *log.header(configuration=ENABLED))
    for version in range(1, 5):
        commit_at(log, version, 1000 - version, info[version])
    assert [e.timestamp for e in history(log.path, log.store)] == [4000, 3000, 2000, 1000, 0]
    assert [at(log, seconds) for seconds in (0, 0.5, 2, 3.9, 4)] == [0, 0, 2, 3, 4]


def test_in_commit_timestamps_switched_on_later(log):
    for version in range(3):
        commit_at(log, version, 10 * version)
    later = {
        **ENABLED,
        "delta.inCommitTimestampEnablementVersion": "3",
        "delta.inCommitTimestampEnablementTimestamp": "25000",
    }
    commit_at(log, 3, 500, CommitInfo({"inCommitTimestamp": 25_000}), *log.header(configuration=later))
    commit_at(log, 4, 1, CommitInfo({"inCommitTimestamp": 40_000}))
    assert [e.timestamp for e in history(log.path, log.store)] == [40_000, 25_000, 20_000, 10_000, 0]
    assert [at(log, seconds) for seconds in (5, 24, 25, 39, 40)] == [0, 2, 3, 3, 4]


@pytest.mark.parametrize("since", [1, 2, 3])
def test_in_commit_timestamps_whose_beginning_was_lost(log, since):
    """As REPLACE of some writers loses it: the commits themselves say which have one."""
    for version in range(5):
        info = CommitInfo({"inCommitTimestamp": 20_000 + 10_000 * version} if version >= since else {})
        if version == 0:
            commit_at(log, 0, 0, info, *log.header())
        elif version in (since, 4):
            commit_at(log, version, 10 * version, info, *log.header(configuration=ENABLED))
        else:
            commit_at(log, version, 10 * version, info)
    expected = [20_000 + 10_000 * version if version >= since else 10_000 * version for version in range(5)]
    assert [e.timestamp for e in reversed(history(log.path, log.store))] == expected
    assert [at(log, time / 1000) for time in expected] == list(range(5))
    assert at(log, expected[since] / 1000 - 1) == since - 1


def test_a_commit_that_lacks_its_timestamp_is_an_error(log):
    log.commit(0, CommitInfo({"inCommitTimestamp": 1}), *log.header(configuration=ENABLED))
    log.commit(1, CommitInfo({}))
    with pytest.raises(HeadwaterError) as error:
        at(log, 5)
    assert error.value.condition == "DELTA_MISSING_COMMIT_TIMESTAMP"


def test_a_table_of_one_checkpoint(log):
    log.checkpoint(7, *log.header())
    assert at(log, 0, can_be_before_earliest=True) == 7
    assert history(log.path, log.store) == []


def test_a_limit_lists_the_end_of_the_log(log, monkeypatch):
    for version in range(6):
        commit_at(log, version, 10 * version)
    whole = history(log.path, log.store)
    monkeypatch.setattr("headwater.log.history._LISTED_BEFORE", 1)
    listed = []

    def spied(*args):
        listed.append(list_log(*args))
        return listed[-1]

    monkeypatch.setattr("headwater.log.history.list_log", spied)
    assert history(log.path, log.store, 2) == whole[:2]
    assert sorted(listed[-1].commits) == [2, 3, 4, 5]
    assert history(log.path, log.store, 100) == history(log.path, log.store) == whole
