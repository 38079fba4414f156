"""Types of the schema format that have more to say than a name."""

import json
from typing import Any

import pytest

from headwater.protocol.actions import Protocol
from headwater.protocol.features import supports
from headwater.protocol.types import DecimalType, PrimitiveType, SpatialType, parse_schema, parse_type, schema_string


@pytest.mark.parametrize(
    ("text", "expected", "sql"),
    [
        ("geometry(OGC:CRS84)", SpatialType("geometry", "OGC:CRS84"), "geometry(4326)"),
        ("geometry", SpatialType("geometry", "OGC:CRS84"), "geometry(4326)"),
        ("geometry( EPSG:3857 )", SpatialType("geometry", "EPSG:3857"), "geometry(3857)"),
        ("geometry(SRID:0)", SpatialType("geometry", "SRID:0"), "geometry(0)"),
        ("geometry(SRID:ANY)", SpatialType("geometry", "SRID:ANY"), "geometry(any)"),
        ("geography", SpatialType("geography", "OGC:CRS84", "SPHERICAL"), "geography(4326)"),
        ("geography(OGC:CRS83)", SpatialType("geography", "OGC:CRS83", "SPHERICAL"), "geography(4269)"),
        ("geography(spherical)", SpatialType("geography", "OGC:CRS84", "spherical"), "geography(4326)"),
        ("geography(OGC:CRS27, vincenty)", SpatialType("geography", "OGC:CRS27", "vincenty"), "geography(4267)"),
        ("geometry(", PrimitiveType("geometry("), "geometry("),
        ("geometryz", PrimitiveType("geometryz"), "geometryz"),
        ("decimal(5,2)", DecimalType(5, 2), "decimal(5,2)"),
        ("interval year to month", PrimitiveType("interval year to month"), "interval year to month"),
        ("interval month", PrimitiveType("interval year to month"), "interval year to month"),
        ("interval second", PrimitiveType("interval day to second"), "interval day to second"),
        ("interval hour to minute", PrimitiveType("interval day to second"), "interval day to second"),
        ("interval minute to hour", PrimitiveType("interval minute to hour"), "interval minute to hour"),
        ("INTERVAL Day", PrimitiveType("INTERVAL Day"), "INTERVAL Day"),
    ],
)
def test_types_with_parameters(text, expected, sql):
    kind = parse_type(text)
    assert kind == expected
    assert kind.sql() == sql
    assert parse_type(kind.to_json()) == kind


def test_a_table_of_the_preview_has_the_feature():
    preview = frozenset({"geospatial-dev"})
    assert supports(Protocol(3, 7, preview, preview), "geospatial")


@pytest.mark.parametrize("spelled", ["string", "string collate UTF8_BINARY", "string collate utf8_binary"])
def test_a_string_by_its_default_collation_is_a_string_at_any_depth(spelled: str) -> None:
    def schema(text: str) -> str:
        array = {"type": "array", "elementType": text, "containsNull": True}
        pairs = {"type": "map", "keyType": text, "valueType": array, "valueContainsNull": True}
        inner = {"type": "struct", "fields": [{"name": "m", "type": pairs, "nullable": True, "metadata": {}}]}
        columns: list[dict[str, Any]] = [{"name": "v", "type": text}, {"name": "s", "type": inner}]
        return json.dumps({"type": "struct", "fields": [{**c, "nullable": True, "metadata": {}} for c in columns]})

    assert parse_schema(schema(spelled)) == parse_schema(schema("string"))
    assert "collate" not in schema_string(parse_schema(schema(spelled)))
