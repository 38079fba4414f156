from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.protocol.file_names import (
    CheckpointName,
    ChecksumName,
    CommitName,
    CompactionName,
    checkpoint_name,
    checkpoint_part_names,
    checksum_name,
    commit_name,
    compaction_name,
    parse_name,
    v2_checkpoint_name,
    version_prefix,
)

versions = st.integers(0, 10**19)


@given(versions, st.uuids(), st.sampled_from(["json", "parquet"]))
def test_what_is_spelled_parses_back(version, uuid, file_format):
    assert parse_name(commit_name(version)) == CommitName(version)
    assert parse_name(checksum_name(version)) == ChecksumName(version)
    assert parse_name(compaction_name(version, version + 1)) == CompactionName(version, version + 1)
    assert parse_name(checkpoint_name(version)) == CheckpointName(version)
    name = v2_checkpoint_name(version, uuid, file_format)
    assert parse_name(name) == CheckpointName(version, uuid=str(uuid), format=file_format)


@given(versions, st.integers(2, 5))
def test_parts_are_numbered_from_one(version, parts):
    names = [parse_name(name) for name in checkpoint_part_names(version, parts)]
    assert names == [CheckpointName(version, part, parts) for part in range(1, parts + 1)]


@given(st.lists(versions, min_size=2, max_size=5))
def test_names_sort_as_versions_do(numbers):
    names = [commit_name(number) for number in numbers]
    assert sorted(names) == [commit_name(number) for number in sorted(numbers)]
    assert all(name >= version_prefix(number) for name, number in zip(names, numbers, strict=True))


@pytest.mark.parametrize(
    "name",
    [
        "_last_checkpoint",
        "0.json",
        ".00000000000000000001.json.crc",
        "00000000000000000001.json.tmp",
        "00000000000000000001.checkpoint",
        "00000000000000000001.checkpoint.0000000003.0000000002.parquet",
        "00000000000000000001.checkpoint.0000000000.0000000002.parquet",
        "00000000000000000005.00000000000000000005.compacted.json",
        "00000000000000000005.00000000000000000004.compacted.json",
        "00000000000000000001.3a0d65cd-4056-49b8-937b-95f9e3ee90e5.json",
        "x00000000000000000001.json",
    ],
)
def test_other_names_are_none_of_the_protocols(name):
    assert parse_name(name) is None
