"""What a protocol and a metadata say together."""

from dataclasses import replace

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.protocol import properties
from headwater.protocol.actions import DomainMetadata, Metadata, Protocol
from headwater.protocol.clustering import clustering_domain
from headwater.protocol.column_metadata import PHYSICAL_NAME
from headwater.protocol.features import FEATURES
from headwater.protocol.table_definition import TableDefinition
from headwater.protocol.types import ArrayType, PrimitiveType, StructField, StructType, schema_string

SCHEMA = StructType(tuple(StructField(name, PrimitiveType("integer")) for name in ("a", "b", "p")))


def definition(*features, reader=1, writer=2, **configuration):
    """A table with features, or with a legacy pair of versions, and properties by the names of their constants."""
    if features:
        protocol = Protocol(3, 7, frozenset(f for f in features if FEATURES[f].reader), frozenset(features))
    else:
        protocol = Protocol(reader, writer)
    given = {getattr(properties, name).name: value for name, value in configuration.items()}
    return TableDefinition(protocol, Metadata("id", schema_string(SCHEMA), ("p",), given))


def test_the_mapping_mode_counts_only_where_the_protocol_supports_it():
    def modes(**configuration):
        versions = [definition(reader=reader, writer=writer, **configuration) for reader, writer in ((2, 5), (1, 2))]
        by_name = [definition(name, **configuration) for name in ("columnMapping", "appendOnly")]
        return [found.mapping_mode for found in (*versions, *by_name)]

    assert modes() == ["none"] * 4
    assert modes(COLUMN_MAPPING_MODE="Name") == ["name", "none", "name", "none"]
    assert modes(COLUMN_MAPPING_MODE="id") == ["id", "none", "id", "none"]
    assert definition("columnMapping", COLUMN_MAPPING_MODE="id").maps_columns
    with pytest.raises(HeadwaterError, match="DELTA_INVALID_PROPERTY_VALUE"):
        _ = definition("columnMapping", COLUMN_MAPPING_MODE="x").mapping_mode


def test_row_tracking_needs_feature_property_and_names():
    on = {"ROW_TRACKING": "true", "ROW_ID_COLUMN": "_id", "ROW_COMMIT_VERSION_COLUMN": "_version"}
    found = definition("rowTracking", "domainMetadata", **on)
    assert (found.assigns_row_ids, found.tracks_rows, found.hidden_columns) == (True, True, ("_id", "_version"))
    supported = definition("rowTracking", "domainMetadata", ROW_TRACKING_SUSPENDED="false")
    assert (supported.assigns_row_ids, supported.tracks_rows, supported.hidden_columns) == (True, False, None)
    assert not definition("rowTracking", "domainMetadata", ROW_TRACKING_SUSPENDED="true").assigns_row_ids
    unsupported = definition(**on)
    assert (unsupported.assigns_row_ids, unsupported.tracks_rows, unsupported.hidden_columns) == (False, False, None)
    for missing in ("ROW_ID_COLUMN", "ROW_COMMIT_VERSION_COLUMN"):
        nameless = definition("rowTracking", **{name: value for name, value in on.items() if name != missing})
        with pytest.raises(HeadwaterError) as error:
            _ = nameless.hidden_columns
        assert error.value.condition == "DELTA_MATERIALIZED_ROW_TRACKING_COLUMN_NAME_MISSING"
        assert error.value.parameters["property"] == getattr(properties, missing).name


def test_partition_columns_are_in_files_by_feature_or_property():
    assert not definition().has_partition_columns_in_files
    assert definition(PARTITION_COLUMNS_IN_FILES="true").has_partition_columns_in_files
    assert definition("materializePartitionColumns").has_partition_columns_in_files
    assert definition("icebergCompatV2", ICEBERG_COMPAT_V2="true").has_partition_columns_in_files
    assert not definition("icebergCompatV2").has_partition_columns_in_files
    assert not definition(ICEBERG_COMPAT_V2="true").has_partition_columns_in_files


def test_statistics_columns():
    def indexed(**configuration):
        return [path for path, _ in definition(**configuration).indexed_leaves]

    assert indexed() == [("a",), ("b",)]
    assert indexed(INDEXED_COLUMNS_LIMIT="1") == [("a",)]
    assert indexed(INDEXED_COLUMNS_LIMIT="1", INDEXED_COLUMNS="b") == [("b",)]


def clustered_by(*paths, removed=False):
    return replace(clustering_domain(paths), removed=removed)


def test_clustering_columns_are_those_of_the_domain_by_logical_names():
    inner = StructType((StructField("x", PrimitiveType("long"), metadata={PHYSICAL_NAME: "p2"}),))
    schema = StructType(
        (
            StructField("a", PrimitiveType("long"), metadata={PHYSICAL_NAME: "p1"}),
            StructField("s", inner, metadata={PHYSICAL_NAME: "p3"}),
            StructField("list", ArrayType(PrimitiveType("long"))),
        )
    )
    plain = TableDefinition(Protocol(1, 2), Metadata("id", schema_string(schema)))

    def found(*paths):
        return plain.with_clustering(clustered_by(*paths)).clustering_columns

    assert plain.clustering_columns is None
    assert found() == ()
    assert found(("p1",)) == (("a",),)
    assert found(("p3", "p2"), ("p1",)) == (("s", "x"), ("a",))
    for unknown in (("a",), ("p3",), ("list",), ("p3", "x")):
        with pytest.raises(HeadwaterError, match="HEADWATER_CLUSTERING_UNREADABLE"):
            found(("p1",), unknown)
    for damaged in ("no JSON", "[]", '{"clusteringColumns":"a"}', ""):
        with pytest.raises(HeadwaterError, match="HEADWATER_CLUSTERING_UNREADABLE"):
            _ = plain.with_clustering(DomainMetadata("delta.clustering", damaged)).clustering_columns


def test_clustering_goes_with_the_definition_until_its_domain_is_removed():
    before = definition()
    clustered = before.with_clustering(clustered_by(("a",)))
    assert clustered.with_clustering(clustered_by(("a",))) is clustered
    assert clustered.after(None, replace(before.metadata, name="t")).clustering_columns == (("a",),)
    assert clustered.with_clustering(clustered_by(("a",), removed=True)).clustering_columns is None
    assert clustered.with_clustering(None).clustering_columns is None
    assert clustered == before, "files mean the same"


def test_a_commit_that_changes_nothing_leaves_the_same_value():
    """So what was worked out once stays."""
    before = definition()
    assert before.after(None, None) is before
    assert before.after(before.protocol, replace(before.metadata)) is before
    renamed = replace(before.metadata, name="t")
    after = before.after(None, renamed)
    assert (after.protocol, after.metadata) == (before.protocol, renamed)
    assert after.after(Protocol(2, 5), None).metadata == renamed
