from __future__ import annotations

import logging
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.basics.errors import HeadwaterError
from headwater.log.segment import find_segment
from headwater.protocol.file_names import checkpoint_part_names, commit_name
from support.stores.memory_store import MemoryStore


def ranges(segment):
    return [(r.first, r.last) for r in segment.ranges]


def condition(log, version=None):
    with pytest.raises(HeadwaterError) as error:
        find_segment(log.path, log.store, version)
    return error.value


def commits(log, versions):
    for version in versions:
        log.commit(version, *(log.header() if version == 0 else ()))


def test_no_log_is_no_table(log):
    assert condition(log).condition == "DELTA_TABLE_NOT_FOUND"


def test_an_empty_log_is_no_table_either(log):
    log.raw("_staging", b"")
    assert condition(log).condition == "DELTA_EMPTY_DIRECTORY"


def test_commits_alone(log):
    commits(log, range(3))
    segment = find_segment(log.path, log.store)
    assert (segment.version, segment.checkpoint, ranges(segment)) == (2, None, [(0, 0), (1, 1), (2, 2)])
    assert ranges(find_segment(log.path, log.store, 1)) == [(0, 0), (1, 1)]


def test_the_newest_checkpoint_not_newer_than_the_version_is_used(log):
    commits(log, range(7))
    for version in (2, 5):
        log.checkpoint(version, *log.header())
    newest = find_segment(log.path, log.store)
    assert (newest.checkpoint.version, ranges(newest)) == (5, [(6, 6)])
    older = find_segment(log.path, log.store, 4)
    assert (older.checkpoint.version, ranges(older)) == (2, [(3, 3), (4, 4)])
    assert find_segment(log.path, log.store, 5).ranges == ()


def test_a_checkpoint_alone_is_a_table(log):
    log.checkpoint(8, *log.header())
    segment = find_segment(log.path, log.store)
    assert (segment.version, segment.checkpoint.version, segment.ranges) == (8, 8, ())
    assert segment.tip.name.endswith("8.checkpoint.parquet")


@pytest.mark.parametrize(("missing", "text"), [({3}, "3"), ({2, 3, 5}, "2-3, 5")])
def test_gaps_are_named(log, missing, text):
    commits(log, set(range(8)) - missing)
    error = condition(log)
    assert error.condition == "DELTA_VERSIONS_NOT_CONTIGUOUS"
    assert error.parameters["missing"] == text


def test_a_gap_before_the_checkpoint_does_no_harm_but_to_versions_in_it(log):
    commits(log, {0, 1, 4, 5, 6})
    log.checkpoint(5, *log.header())
    assert ranges(find_segment(log.path, log.store)) == [(6, 6)]
    assert find_segment(log.path, log.store, 1).version == 1
    assert condition(log, 4).condition == "DELTA_VERSIONS_NOT_CONTIGUOUS"


def test_the_beginning_cleaned_up_without_a_checkpoint(log):
    commits(log, {4, 5})
    error = condition(log)
    assert error.condition == "DELTA_TRUNCATED_TRANSACTION_LOG"
    assert error.parameters["missing"] == "0-3"


@pytest.mark.parametrize("version", [-1, 3, 99])
def test_versions_out_of_range_say_what_there_is(log, version):
    commits(log, range(5, 10))
    log.checkpoint(5, *log.header())
    error = condition(log, version)
    assert error.condition == "DELTA_VERSION_NOT_FOUND"
    assert (error.parameters["earliest"], error.parameters["latest"]) == ("5", "9")


def test_parts_count_only_when_all_are_there(log):
    commits(log, range(6))
    log.checkpoint(2, *log.header())
    log.multi_part(4, [log.header(), [], []])
    assert len(find_segment(log.path, log.store).checkpoint.files) == 3
    os.unlink(log.log / checkpoint_part_names(4, 3)[1])
    segment = find_segment(log.path, log.store)
    assert (segment.checkpoint.version, ranges(segment)) == (2, [(3, 3), (4, 4), (5, 5)])


def test_missing_parts_are_named_where_nothing_stands_in(log):
    commits(log, {4, 5})
    log.multi_part(4, [log.header(), [], []])
    os.unlink(log.log / checkpoint_part_names(4, 3)[1])
    error = condition(log)
    assert error.condition == "DELTA_MISSING_PART_FILES"
    assert (error.parameters["version"], error.parameters["missing"]) == ("4", "2 of 3")
    assert error.parameters["missingVersions"] == "0-3"


def test_an_empty_checkpoint_file_is_none(log):
    commits(log, range(3))
    log.raw("00000000000000000002.checkpoint.parquet", b"")
    assert find_segment(log.path, log.store).checkpoint is None


def test_compactions_replace_the_most_commits_they_can(log):
    commits(log, range(10))
    log.compact(1, 3)
    log.compact(1, 5)
    log.compact(4, 7)
    log.compact(6, 7)
    assert ranges(find_segment(log.path, log.store)) == [(0, 0), (1, 5), (6, 7), (8, 8), (9, 9)]
    assert ranges(find_segment(log.path, log.store, 4)) == [(0, 0), (1, 3), (4, 4)]


def test_a_compaction_stands_in_for_a_lost_commit(log):
    commits(log, {0, 1, 3, 4})
    log.compact(1, 3)
    assert ranges(find_segment(log.path, log.store)) == [(0, 0), (1, 3), (4, 4)]


def test_listing_begins_at_the_last_checkpoint(log):
    commits(log, range(7))
    log.checkpoint(5, *log.header())
    log.last_checkpoint(version=5, size=2)
    segment = find_segment(log.path, log.store)
    assert (segment.listing.start, ranges(segment)) == (5, [(6, 6)])
    assert find_segment(log.path, log.store, 3).listing.start == 0


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"size":1}', b'{"version":"x"}', b'{"version":-4}', b"\xff\xfe", b"null"]
)
def test_a_damaged_last_checkpoint_is_ignored_with_one_warning(log, content, caplog):
    commits(log, range(4))
    log.checkpoint(2, *log.header())
    log.raw("_last_checkpoint", content)
    with caplog.at_level(logging.WARNING):
        assert find_segment(log.path, log.store).checkpoint.version == 2
        find_segment(log.path, log.store)
    assert len([record for record in caplog.records if "_last_checkpoint" in record.getMessage()]) == 1


@pytest.mark.parametrize("hint", [3, 50])
def test_a_last_checkpoint_that_is_not_there_is_ignored(log, hint):
    commits(log, range(5))
    log.checkpoint(2, *log.header())
    log.last_checkpoint(version=hint, size=2)
    segment = find_segment(log.path, log.store)
    assert (segment.version, segment.checkpoint.version) == (4, 2)


def test_a_last_checkpoint_older_than_the_newest_does_no_harm(log):
    commits(log, range(7))
    for version in (2, 5):
        log.checkpoint(version, *log.header())
    log.last_checkpoint(version=2, size=2)
    assert find_segment(log.path, log.store).checkpoint.version == 5


def test_other_files_are_passed_over(log):
    commits(log, range(2))
    for name in (f".{commit_name(1)}.crc", f"{commit_name(2)}.tmp", "00000000000000000002.crc", "readme"):
        log.raw(name, b"x")
    assert find_segment(log.path, log.store).version == 1


@pytest.mark.parametrize(("missing", "checkpoint"), [({3}, None), ({0}, None), ({4, 6}, 2)])
def test_what_a_listing_lacks_is_looked_for_again(log, monkeypatch, missing, checkpoint):
    """Writers are at work while it is made: a file may be older than others that it has, and not be in it."""
    commits(log, range(8))
    if checkpoint is not None:
        log.checkpoint(checkpoint, *log.header())
    complete, lacking = log.store.list_from, [missing, missing - {min(missing)}, {5}]

    def overtaken(directory, start_name=""):
        names = {commit_name(version) for version in (lacking.pop(0) if lacking else ())}
        return [file for file in complete(directory, start_name) if file.name not in names]

    monkeypatch.setattr(log.store, "list_from", overtaken)
    segment = find_segment(log.path, log.store)
    assert segment.version == 7
    assert ranges(segment)[-1] == (7, 7)
    assert len(ranges(segment)) == 7 - (-1 if checkpoint is None else checkpoint)


class NeverStill(MemoryStore):
    """Others commit while it is listed: a listing has all files from before it, and any that come meanwhile."""

    def __init__(self, data):
        super().__init__()
        self.data, self.looks = data, []
        self.make_directory("/t/_delta_log")

    def commit(self, count):
        newest = len(super().list_from("/t/_delta_log"))
        for version in range(newest, newest + count):
            self.put_if_absent(f"/t/_delta_log/{commit_name(version)}", b"{}")
        return newest

    def list_from(self, directory, start_name=""):
        before = self.commit(self.data.draw(st.integers(0, 6)))
        self.looks.append(before - 1)
        listed = enumerate(super().list_from(directory, start_name))
        return [file for version, file in listed if version < before or self.data.draw(st.booleans())]


@pytest.mark.random
@given(st.data())
@settings(deadline=None)
def test_a_log_that_never_stands_still_is_read_at_the_second_look(data):
    store = NeverStill(data)
    store.commit(1)
    assert find_segment("/t", store).version >= store.looks[0]
    assert len(store.looks) <= 2
