from __future__ import annotations

from pathlib import Path

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.protocol.actions import Protocol
from headwater.protocol.feature_table import feature_table
from headwater.protocol.features import FEATURES, check_readable, check_writable, supported_features, supports


def with_features(reader=(), writer=()):
    return Protocol(3, 7, frozenset(reader), frozenset([*reader, *writer]))


@pytest.mark.parametrize("reader", [1, 2])
@pytest.mark.parametrize("writer", range(1, 7))
def test_every_legacy_protocol_is_read_and_written(reader, writer):
    check_writable(Protocol(reader, writer))


@pytest.mark.parametrize(
    ("protocol", "features"),
    [
        (Protocol(1, 1), set()),
        (Protocol(1, 2), {"appendOnly", "invariants"}),
        (Protocol(1, 3), {"appendOnly", "invariants", "checkConstraints"}),
        (
            Protocol(2, 4),
            {"appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns"} | {"columnMapping"},
        ),
        (with_features(["deletionVectors"], ["appendOnly"]), {"deletionVectors", "appendOnly"}),
        (Protocol(1, 7, None, frozenset(["rowTracking"])), {"rowTracking"}),
        (Protocol(2, 7, None, frozenset(["columnMapping"])), {"columnMapping"}),
    ],
)
def test_features_a_protocol_stands_for(protocol, features):
    assert supported_features(protocol) == features
    assert all(supports(protocol, feature) for feature in features)


def test_features_only_of_writers_never_block_reading():
    check_readable(Protocol(1, 7, None, frozenset(["rowTracking", "icebergCompatV2", "fromTheFuture"])))


def test_unknown_features_of_readers_are_refused_by_name():
    for check in (check_readable, check_writable):
        with pytest.raises(HeadwaterError) as error:
            check(with_features(["fromTheFuture", "catalogManaged", "deletionVectors"]), by_catalog=True)
        assert error.value.condition == "DELTA_UNSUPPORTED_FEATURES_FOR_READ"
        assert error.value.parameters == {"unsupported": "fromTheFuture"}


MANAGED = with_features(["catalogManaged"], ["catalogManaged", "inCommitTimestamp", "vacuumProtocolCheck"])


@pytest.mark.parametrize("check", [check_readable, check_writable])
def test_a_table_that_a_catalog_manages_is_reached_through_the_catalog(check):
    with pytest.raises(HeadwaterError, match="by its name in that catalog") as error:
        check(MANAGED, "/w/t")
    assert error.value.condition == "DELTA_PATH_BASED_ACCESS_TO_CATALOG_MANAGED_TABLE_BLOCKED"
    assert error.value.parameters["path"] == "/w/t"
    check(MANAGED, "/w/t", by_catalog=True)


def test_a_table_that_names_its_catalog_for_writers_only_is_not_written():
    odd = Protocol(1, 7, None, frozenset(["catalogManaged"]))
    check_readable(odd)
    with pytest.raises(HeadwaterError) as error:
        check_writable(odd)
    assert error.value.condition == "DELTA_PATH_BASED_ACCESS_TO_CATALOG_MANAGED_TABLE_BLOCKED"


def test_features_not_written_are_refused_by_name():
    for feature in ("coordinatedCommits-preview", "future"):
        with pytest.raises(HeadwaterError) as error:
            check_writable(Protocol(1, 7, None, frozenset([feature, "appendOnly"])))
        assert error.value.condition == "DELTA_UNSUPPORTED_FEATURES_FOR_WRITE"
        assert error.value.parameters == {"unsupported": feature}


def test_shredding_and_protected_checkpoints_do_not_block_writing():
    """Shredding is a choice of the writer even where it is on."""
    check_writable(with_features(["variantShredding-preview", "variantShredding", "variantType"]))
    check_writable(with_features(writer=["checkpointProtection"]))


def test_what_a_feature_requires_and_its_preview_are_features():
    for feature in FEATURES.values():
        assert {*feature.requires, feature.preview or feature.name} <= FEATURES.keys()
        assert feature.writes or feature.note
        if feature.reader and feature.writes:
            assert feature.reads


@pytest.mark.parametrize("protocol", [Protocol(4, 7, frozenset()), Protocol(0, 1)])
def test_unknown_reader_versions_are_refused(protocol):
    with pytest.raises(HeadwaterError) as error:
        check_readable(protocol)
    assert error.value.condition == "DELTA_INVALID_PROTOCOL_VERSION"


def test_unknown_writer_versions_block_writing_only():
    check_readable(Protocol(1, 8))
    with pytest.raises(HeadwaterError) as error:
        check_writable(Protocol(1, 8))
    assert error.value.condition == "DELTA_INVALID_PROTOCOL_VERSION"


def test_the_table_of_features_is_current():
    """Where this fails, generate the file again; it says how."""
    file = Path(__file__).parents[2] / "docs" / "features.md"
    assert file.read_text(encoding="utf-8") == feature_table()
