"""The protocol a table needs. The expected protocols were seen from Delta Lake 4.4 for the same properties."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.basics.errors import HeadwaterError
from headwater.definition.requirements import (
    needed_features,
    protocol_for,
    requested,
    without_feature,
    without_protocol_properties,
)
from headwater.protocol.actions import Metadata, Protocol
from headwater.protocol.features import FEATURES, check_writable, supported_features, supports
from headwater.protocol.types import (
    ArrayType,
    MapType,
    PrimitiveType,
    SpatialType,
    StructField,
    StructType,
    schema_string,
)
from headwater.schema.identity import identity_metadata

BASE = {"appendOnly", "invariants"}


def metadata(configuration=None, *fields):
    return Metadata("id", schema_string(StructType(fields)), configuration=configuration or {})


def field(name="a", kind="integer", nullable=True, **extra):
    return StructField(name, PrimitiveType(kind), nullable, extra)


def features(reader, readers, writers):
    return Protocol(reader, 7, None if readers is None else frozenset(readers), frozenset(writers))


@pytest.mark.parametrize(
    ("configuration", "expected"),
    [
        ({}, Protocol(1, 2)),
        ({"delta.appendOnly": "true"}, Protocol(1, 2)),
        ({"delta.constraints.c": "a > 0"}, Protocol(1, 3)),
        ({"delta.enableChangeDataFeed": "true"}, features(1, None, BASE | {"changeDataFeed"})),
        ({"delta.columnMapping.mode": "name"}, features(2, None, BASE | {"columnMapping"})),
        ({"delta.columnMapping.mode": "none"}, Protocol(1, 2)),
        ({"delta.enableDeletionVectors": "true"}, features(3, {"deletionVectors"}, BASE | {"deletionVectors"})),
        ({"delta.enableRowTracking": "true"}, features(1, None, BASE | {"rowTracking", "domainMetadata"})),
        ({"delta.enableInCommitTimestamps": "true"}, features(1, None, BASE | {"inCommitTimestamp"})),
        ({"delta.checkpointPolicy": "v2"}, features(3, {"v2Checkpoint"}, BASE | {"v2Checkpoint"})),
        ({"delta.enableTypeWidening": "true"}, features(3, {"typeWidening"}, BASE | {"typeWidening"})),
        (
            {"delta.columnMapping.mode": "name", "delta.enableDeletionVectors": "true"},
            features(3, {"deletionVectors", "columnMapping"}, BASE | {"deletionVectors", "columnMapping"}),
        ),
        (
            {"delta.columnMapping.mode": "name", "delta.enableInCommitTimestamps": "true"},
            features(2, None, BASE | {"columnMapping", "inCommitTimestamp"}),
        ),
        ({"delta.feature.checkConstraints": "supported"}, Protocol(1, 3)),
        ({"delta.feature.deletionvectors": "enabled"}, features(3, {"deletionVectors"}, BASE | {"deletionVectors"})),
        (
            {
                f"delta.feature.{name}": "supported"
                for name in ("checkConstraints", "generatedColumns", "changeDataFeed")
            },
            Protocol(1, 4),
        ),
        ({"delta.minReaderVersion": "1"}, Protocol(1, 2)),
        ({"delta.minWriterVersion": "4"}, Protocol(1, 4)),
        ({"delta.minWriterVersion": "5"}, Protocol(1, 4)),
        ({"delta.minReaderVersion": "2", "delta.minWriterVersion": "5"}, Protocol(2, 5)),
        ({"delta.minReaderVersion": "2", "delta.minWriterVersion": "6"}, Protocol(2, 6)),
        ({"delta.minReaderVersion": "3", "delta.minWriterVersion": "7"}, Protocol(1, 1)),
        ({"delta.ignoreProtocolDefaults": "true"}, Protocol(1, 1)),
        ({"delta.minWriterVersion": "1", "delta.appendOnly": "true"}, features(1, None, {"appendOnly"})),
    ],
)
def test_new_tables_by_configuration(configuration, expected):
    assert protocol_for(metadata(configuration, field())) == expected


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (field(nullable=False), Protocol(1, 2)),
        (field(kind="timestamp_ntz"), features(3, {"timestampNtz"}, BASE | {"timestampNtz"})),
        (
            StructField("a", ArrayType(PrimitiveType("variant"))),
            features(3, {"variantType"}, BASE | {"variantType"}),
        ),
        (
            StructField("a", MapType(PrimitiveType("string"), SpatialType("geography", "OGC:CRS84", "SPHERICAL"))),
            features(3, {"geospatial"}, BASE | {"geospatial"}),
        ),
        (field(**{"delta.generationExpression": "b"}), features(1, None, BASE | {"generatedColumns"})),
        (field(kind="long", **identity_metadata()), features(1, None, BASE | {"identityColumns"})),
        (field(CURRENT_DEFAULT="3"), features(1, None, BASE | {"allowColumnDefaults"})),
    ],
)
def test_new_tables_by_schema(column, expected):
    assert protocol_for(metadata({}, column)) == expected


LEGACY_4 = BASE | {"checkConstraints", "generatedColumns", "changeDataFeed"}
DV = {"delta.enableDeletionVectors": "true"}


@pytest.mark.parametrize(
    ("current", "configuration", "expected"),
    [
        (Protocol(1, 2), {"delta.constraints.c": "a > 0"}, Protocol(1, 3)),
        (
            Protocol(1, 3),
            {"delta.enableChangeDataFeed": "true"},
            features(1, None, BASE | {"checkConstraints", "changeDataFeed"}),
        ),
        (Protocol(1, 4), DV, features(3, {"deletionVectors"}, LEGACY_4 | {"deletionVectors"})),
        (
            Protocol(2, 6),
            DV,
            features(
                3,
                {"deletionVectors", "columnMapping"},
                LEGACY_4 | {"columnMapping", "identityColumns", "deletionVectors"},
            ),
        ),
        (
            Protocol(2, 5),
            {"delta.enableInCommitTimestamps": "true"},
            features(2, None, LEGACY_4 | {"columnMapping", "inCommitTimestamp"}),
        ),
        (Protocol(1, 1), {"delta.constraints.c": "a > 0"}, features(1, None, {"checkConstraints"})),
        (Protocol(1, 2), {"delta.minReaderVersion": "2", "delta.minWriterVersion": "5"}, Protocol(2, 5)),
        (
            features(3, {"deletionVectors"}, {"deletionVectors"}),
            {"delta.columnMapping.mode": "name", "delta.constraints.c": "a > 0"},
            features(3, {"deletionVectors", "columnMapping"}, {"deletionVectors", "columnMapping", "checkConstraints"}),
        ),
        (
            features(3, {"deletionVectors"}, BASE | {"deletionVectors"}),
            {"delta.minReaderVersion": "1", "delta.minWriterVersion": "3"},
            features(3, {"deletionVectors"}, BASE | {"deletionVectors", "checkConstraints"}),
        ),
        (
            features(1, None, {"generatedColumns", "changeDataFeed", *BASE}),
            {"delta.constraints.c": "a > 0"},
            features(1, None, LEGACY_4),
        ),
    ],
)
def test_upgrades(current, configuration, expected):
    assert protocol_for(metadata(configuration, field()), current) == expected


@pytest.mark.parametrize(
    ("current", "configuration"),
    [
        (Protocol(1, 4), {"delta.minWriterVersion": "2"}),
        (Protocol(1, 4), {"delta.minReaderVersion": "3", "delta.minWriterVersion": "7"}),
        (Protocol(1, 4), {"delta.enableChangeDataFeed": "true"}),
        (Protocol(1, 6), {}),
        (features(3, {"typeWidening-preview"}, {"typeWidening-preview"}), {"delta.enableTypeWidening": "true"}),
        (features(3, {"timestampWithoutTimezone"}, {"timestampWithoutTimezone"}), {}),
    ],
)
def test_what_will_do_stays_the_same_object(current, configuration):
    assert protocol_for(metadata(configuration, field()), current) is current


def test_unknown_features_of_the_table_stay():
    current = features(3, {"future"}, {"future", "futureWriter"})
    upgraded = protocol_for(metadata(DV, field()), current)
    assert upgraded == features(3, {"future", "deletionVectors"}, {"future", "futureWriter", "deletionVectors"})


def test_an_existing_table_is_not_closed_to_readers_by_a_column():
    wanted = metadata({}, field(kind="timestamp_ntz"))
    with pytest.raises(HeadwaterError) as error:
        protocol_for(wanted, Protocol(1, 2))
    assert error.value.condition == "DELTA_FEATURES_REQUIRE_MANUAL_ENABLEMENT"
    assert "'delta.feature.timestampNtz' = 'supported'" in error.value.text
    assert supports(protocol_for(wanted, Protocol(1, 2), ["timestampNtz"]), "timestampNtz")
    named = metadata({"delta.feature.timestampNtz": "supported"}, field(kind="timestamp_ntz"))
    upgraded = protocol_for(named, Protocol(1, 2))
    assert protocol_for(wanted, upgraded) is upgraded


def test_extra_features_bring_what_they_require():
    assert protocol_for(metadata({}, field()), None, ["clustering"]) == (
        features(1, None, BASE | {"clustering", "domainMetadata"})
    )


def test_protocol_properties_are_taken_out():
    configuration = {
        "Delta.minReaderVersion": "1",
        "delta.FEATURE.x": "supported",
        "delta.appendOnly": "true",
        "m": "1",
    }
    assert without_protocol_properties(configuration) == {"delta.appendOnly": "true", "m": "1"}


@pytest.mark.parametrize(
    ("configuration", "condition"),
    [
        ({"delta.minWriterVersion": "x"}, "DELTA_PROTOCOL_PROPERTY_NOT_INT"),
        ({"delta.minWriterVersion": "8"}, "DELTA_PROTOCOL_PROPERTY_NOT_INT"),
        ({"delta.minReaderVersion": "0"}, "DELTA_PROTOCOL_PROPERTY_NOT_INT"),
        ({"delta.feature.nope": "supported"}, "DELTA_UNSUPPORTED_FEATURES_IN_CONFIG"),
        ({"delta.feature.appendOnly": "no"}, "DELTA_UNSUPPORTED_FEATURE_STATUS"),
    ],
)
def test_requests_that_make_no_sense(configuration, condition):
    with pytest.raises(HeadwaterError, match=condition):
        requested(configuration)


CURRENTS = st.sampled_from([None, Protocol(1, 1), Protocol(1, 2), Protocol(1, 3), Protocol(1, 6), Protocol(2, 5)])
NAMES = st.sets(st.sampled_from(sorted(FEATURES)), max_size=4)


@given(CURRENTS, NAMES, NAMES)
def test_only_upgrades_and_well_formed(current, first, second):
    table = metadata({"delta.constraints.c": "a > 0"}, field(nullable=False))
    before = protocol_for(table, current, first)
    after = protocol_for(table, before, second)
    assert supported_features(before) <= supported_features(after)
    assert needed_features(table) | second <= supported_features(after)
    assert before.min_reader_version <= after.min_reader_version
    assert before.min_writer_version <= after.min_writer_version
    assert (after.writer_features is not None) == (after.min_writer_version == 7)
    assert (after.reader_features is not None) == (after.min_reader_version == 3)
    if after.reader_features is not None:
        assert after.writer_features is not None
        assert after.reader_features <= after.writer_features


def test_metadata_parses_its_schema_once_and_a_replaced_schema_afresh():
    metadata = Metadata("id", schema_string(StructType((StructField("a", PrimitiveType("long")),))))
    assert metadata.schema is metadata.schema
    assert metadata == Metadata("id", metadata.schema_string)
    other = schema_string(StructType((StructField("b", PrimitiveType("long")),)))
    assert replace(metadata, schema_string=other).schema.names == ["b"]
    assert metadata.schema.names == ["a"]


LEGACY_5 = BASE | {"checkConstraints", "changeDataFeed", "generatedColumns"}


@pytest.mark.parametrize(
    ("protocol", "dropped", "added", "expected"),
    [
        (Protocol(1, 3), "checkConstraints", (), Protocol(1, 2)),
        (Protocol(1, 4), "checkConstraints", (), features(1, None, BASE | {"changeDataFeed", "generatedColumns"})),
        (Protocol(2, 5), "columnMapping", (), Protocol(1, 4)),
        (
            Protocol(2, 5),
            "columnMapping",
            ["checkpointProtection"],
            features(1, None, LEGACY_5 | {"checkpointProtection"}),
        ),
        (features(3, {"deletionVectors"}, {"deletionVectors"}), "deletionVectors", (), Protocol(1, 1)),
        (features(3, {"deletionVectors"}, BASE | {"deletionVectors"}), "deletionVectors", (), Protocol(1, 2)),
        (
            features(3, {"deletionVectors", "columnMapping"}, {"deletionVectors", "columnMapping"}),
            "deletionVectors",
            (),
            features(2, None, {"columnMapping"}),
        ),
        (
            features(3, {"deletionVectors", "v2Checkpoint"}, {"deletionVectors", "v2Checkpoint", "rowTracking"}),
            "deletionVectors",
            (),
            features(3, {"v2Checkpoint"}, {"v2Checkpoint", "rowTracking"}),
        ),
        (
            features(1, None, {"rowTracking", "domainMetadata"}),
            "rowTracking",
            (),
            features(1, None, {"domainMetadata"}),
        ),
    ],
)
def test_a_protocol_with_a_feature_less_is_the_narrowest(protocol, dropped, added, expected):
    assert without_feature(protocol, dropped, added) == expected


def test_the_other_name_of_timestamps_without_time_zone():
    """Some writers name the feature so; tables with it take the type, and nobody gets it from here."""
    other = features(3, {"timestampWithoutTimezone"}, {"timestampWithoutTimezone"})
    check_writable(other)
    assert supports(other, "timestampNtz")
    assert protocol_for(metadata({}, field(kind="timestamp_ntz")), other) is other
    asked = {"delta.feature.timestampWithoutTimezone": "supported"}
    assert protocol_for(metadata(asked, field()), None) == features(
        3, {"timestampNtz"}, {"timestampNtz", "appendOnly", "invariants"}
    )
