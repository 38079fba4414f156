"""The table of rules, cell by cell: which way of making a definition does what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.definition.rules import RULES, Making, Way
from headwater.protocol import properties
from headwater.protocol.actions import Metadata, Protocol
from headwater.protocol.clustering import clustering_domain
from headwater.protocol.column_metadata import COLUMN_ID, IDENTITY_HIGH_WATER_MARK
from headwater.protocol.features import CATALOG_MANAGED
from headwater.protocol.table_definition import TableDefinition
from headwater.protocol.types import PrimitiveType, StructField, StructType, schema_string
from headwater.schema import mapping
from headwater.schema.identity import identity_metadata

#: The columns of the table below.
WAYS = (
    *(Way.BEGIN, Way.REPLACE, Way.SAVE, Way.EVOLVE, Way.OVERWRITE, Way.ALTER, Way.CONFIGURE, Way.RETURN, Way.TAKE),
    Way.COMPANION,
)
PLAIN = Protocol(1, 2)
MAPS = Protocol(2, 7, None, frozenset({"appendOnly", "invariants", "columnMapping"}))
MODE, HIGHEST = properties.COLUMN_MAPPING_MODE.name, properties.MAX_COLUMN_ID.name
BY_NAME = {MODE: "name", HIGHEST: "1"}


def column(name, kind="long", **metadata):
    return StructField(name, PrimitiveType(kind), metadata=metadata)


A = StructType((column("a"),))
MAPPED, _ = mapping.assign(A, 0)


def made(way, schema=A, configuration=None, before=None, protocol=PLAIN, columns=None, **more):
    """What a way makes of a table: ``before`` are the properties that the table had, ``columns`` its columns."""
    old = Metadata("id", schema_string(columns or schema), configuration=before or {})
    definition = TableDefinition(protocol, old, clustering_domain=more.pop("clustered", None))
    new = Metadata("new", "")
    if way is Way.BEGIN:
        return Making(way, None, new, schema, dict(configuration or {}), **more).made()
    metadata = new if way in (Way.REPLACE, Way.SAVE, Way.COMPANION) else old
    return Making(way, definition, metadata, schema, dict(configuration or {}), protocol=protocol, **more).made()


def setting(known, **more):
    """Whether a property is there afterwards."""
    return lambda way: known.name in made(way, **more).metadata.configuration


def refuses(condition, **more):
    """Whether it is refused with a condition."""

    def probe(way):
        try:
            made(way, **more)
        except HeadwaterError as error:
            return error.condition.startswith(condition)
        return False

    return probe


def supports(feature, **more):
    """Whether the protocol has a feature afterwards."""
    return lambda way: made(way, **more).supports(feature)


def entails(way):
    enabled = {properties.ICEBERG_COMPAT_V3.name: "true", MODE: "name"}
    return properties.ROW_TRACKING.name in made(way, MAPPED, enabled, BY_NAME, MAPS).metadata.configuration


def leaves_lost_columns_out(way):
    try:
        after = made(way, configuration={properties.INDEXED_COLUMNS.name: "gone"})
    except HeadwaterError:
        return False
    return not after.get(properties.INDEXED_COLUMNS)


def keeps_ids(way):
    after = made(way, A, BY_NAME, BY_NAME, MAPS, MAPPED)
    return after.schema.find("a").physical_name == MAPPED.find("a").physical_name


def gives_ids(way):
    if way is Way.CONFIGURE:  # which gives them where it is what switches mapping on
        return COLUMN_ID in made(way, A, {MODE: "name"}).schema.find("a").metadata
    wider = StructType((*MAPPED, column("b")))
    return COLUMN_ID in made(way, wider, BY_NAME, BY_NAME, MAPS, MAPPED).schema.find("b").metadata


def gives_no_id_again(way):
    after = made(way, MAPPED, BY_NAME, {**BY_NAME, HIGHEST: "9"}, MAPS)
    return int(after.metadata.configuration[HIGHEST]) >= 9


def keeps_marks(way):
    numbered = column("a", **identity_metadata())
    marked = replace(numbered, metadata={**numbered.metadata, IDENTITY_HIGH_WATER_MARK: 9})
    after = made(way, StructType((numbered,)), columns=StructType((marked,)))
    return after.schema.find("a").metadata.get(IDENTITY_HIGH_WATER_MARK) == 9


def clusters(way):
    after = made(way, clustered_by=[("a",)])
    return after.clustering_columns == (("a",),) and after.supports("clustering")


def keeps_the_domain(way):
    return made(way, clustered=clustering_domain([("a",)])).clustering_domain == clustering_domain(())


def takes_requests_away(way):
    request = f"{properties.FEATURE_PREFIX}deletionVectors"
    after = made(way, configuration={request: "supported"})
    return request not in after.metadata.configuration and after.supports("deletionVectors")


DV = {properties.DELETION_VECTORS.name: "true"}
TWICE = StructType((column("a"), column("A")))
NUMBERED_TEXT = StructType((column("a", "string", **identity_metadata()),))

#: A promise, how to see whether a way keeps it, and for each of WAYS whether it is to: ``x`` for yes.
CELLS: dict[str, tuple[Callable[[Way], bool], str]] = {
    "what properties entail is set": (entails, "xx....x..."),
    "hidden columns get names": (
        setting(properties.ROW_ID_COLUMN, configuration={properties.ROW_TRACKING.name: "true"}),
        "xxx...x..x",
    ),
    "what the log has stays": (
        setting(properties.PROTECTED_BEFORE, before={properties.PROTECTED_BEFORE.name: "3"}),
        ".x.....xx.",
    ),
    "statistics of lost columns are left out": (leaves_lost_columns_out, "....x....."),
    "statistics of no column are refused": (
        refuses("DELTA_COLUMN_NOT_FOUND", configuration={properties.INDEXED_COLUMNS.name: "gone"}),
        "xxx..xx..x",
    ),
    "mapping does not end": (
        refuses("DELTA_UNSUPPORTED_COLUMN_MAPPING_MODE_CHANGE", schema=MAPPED, before=BY_NAME, protocol=MAPS),
        "......x...",
    ),
    "columns of the same name and type keep their ids": (keeps_ids, "..x.x....."),
    "new columns get ids": (gives_ids, "xxxxxxx..x"),
    "no id is given again": (gives_no_id_again, ".xxxxx.xxx"),
    "identity columns go on from where they are": (keeps_marks, ".......xx."),
    "columns of one name are refused": (refuses("DELTA_DUPLICATE_COLUMNS_FOUND", schema=TWICE), "xxxxxxx..."),
    "identity columns that cannot be are refused": (
        refuses("DELTA_IDENTITY_COLUMNS_UNSUPPORTED_DATA_TYPE", schema=NUMBERED_TEXT),
        "xxx......x",
    ),
    "the table is clustered as declared": (clusters, "xxx......x"),
    "a table that was clustered keeps the domain": (keeps_the_domain, ".......xx."),
    "a property brings its feature": (supports("deletionVectors", configuration=DV), "xxxxxxxxxx"),
    "a feature that was missing comes": (supports("deletionVectors", configuration=DV, before=DV), "xxx..xxxxx"),
    "a type that locks readers out is refused": (
        refuses("DELTA_FEATURES_REQUIRE_MANUAL", schema=StructType((column("a", "timestamp_ntz"),)), columns=A),
        "...xxxxxx.",
    ),
    "the catalog's demands count": (supports(CATALOG_MANAGED, of_catalog=True), "xxx......x"),
    "requests leave the properties": (takes_requests_away, "xxx..xx..x"),
    "formats that nobody writes are refused": (
        refuses("DELTA_UNIVERSAL_FORMAT", configuration={properties.UNIVERSAL_FORMATS.name: "hudi"}),
        "xxxxxxx..x",
    ),
    "manifests beside deletion vectors are refused": (
        refuses("DELTA_VIOLATE_TABLE", configuration={**DV, properties.SYMLINK_MANIFEST.name: "true"}),
        "xxx..xx..x",
    ),
}


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
@pytest.mark.parametrize("promise", CELLS)
def test_cells(promise, way):
    probe, row = CELLS[promise]
    try:
        found = probe(way)
    except HeadwaterError:
        found = False
    assert found == (row[WAYS.index(way)] == "x")


def test_each_way_has_rules_and_each_rule_a_way():
    assert all(any(way in rule.ways for rule in RULES) for way in WAYS)
    assert set(WAYS) == set(Way)
    assert all(rule.ways for rule in RULES)
