"""GEOMETRY and GEOGRAPHY columns: every statement keeps them, and nothing asks for an order that they lack."""

from __future__ import annotations

import pytest

from support.requests import actions

ONE, TWO = ("0101000000" + "".join(double * 2) for double in ("000000000000F03F", "0000000000000840"))
FEED = "'delta.enableChangeDataFeed' = 'true'"
SHOWN = "a, hex(ST_AsBinary(g)), ST_Srid(g), hex(ST_AsBinary(h)), ST_Srid(s.x), hex(ST_AsBinary(l[0]))"


def values(a, wkb):
    """A row of all columns."""
    return (
        f"CAST({a} AS INT) AS a, ST_GeomFromWKB(X'{wkb}', 4326) AS g, ST_GeogFromWKB(X'{wkb}') AS h, "
        f"named_struct('x', ST_GeomFromWKB(X'{wkb}', 3857)) AS s, array(ST_GeomFromWKB(X'{wkb}')) AS l"
    )


def row(a, wkb):
    return (a, wkb, 4326, wkb, 3857, wkb)


@pytest.mark.parametrize(
    "properties",
    [
        [FEED],
        # Iceberg's third version asks for row tracking, too.
        pytest.param(
            ["'delta.enableDeletionVectors' = 'true'", "'delta.enableRowTracking' = 'true'"], marks=pytest.mark.soak
        ),
        ["'delta.enableIcebergCompatV3' = 'true'"],
    ],
    ids=["copied", "vectors", "Iceberg"],
)
def test_statements_keep_shapes(spark, rows, settings, tmp_path, properties):
    path = tmp_path / "t"
    t = f"delta.`{path}`"
    spark.sql(
        f"CREATE TABLE {t} (a INT, g GEOMETRY(4326), h GEOGRAPHY(4326), s STRUCT<x: GEOMETRY(3857)>, "
        f"l ARRAY<GEOMETRY(0)>) USING delta TBLPROPERTIES ({', '.join(properties)})"
    )
    assert "geospatial" in actions(path, 0, "protocol")[0]["readerFeatures"]
    schema = actions(path, 0, "metaData")[0]["schemaString"]
    for text in ("geometry(OGC:CRS84)", "geography(OGC:CRS84, SPHERICAL)", "geometry(EPSG:3857)", "geometry(SRID:0)"):
        assert f'"{text}"' in schema
    spark.sql(f"INSERT INTO {t} SELECT {values('id', ONE)} FROM range(0, 6, 1, 1)")
    spark.sql(f"DELETE FROM {t} WHERE a = 1 OR (a = 5 AND g IS NOT NULL)")
    spark.sql(f"UPDATE {t} SET g = ST_GeomFromWKB(X'{TWO}', 4326) WHERE a = 2")
    spark.sql(
        f"MERGE INTO {t} AS t USING (SELECT {values(3, TWO)} UNION ALL SELECT {values(9, TWO)}) AS s ON t.a = s.a "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    expected = [row(0, ONE), (2, TWO, *row(2, ONE)[2:]), row(3, TWO), row(4, ONE), row(9, TWO)]
    for vectorized in ("true", "false"):
        with settings({"spark.sql.parquet.enableVectorizedReader": vectorized}):
            assert rows(f"SELECT {SHOWN} FROM {t} ORDER BY a") == expected
    if properties == [FEED]:
        changes = rows(f"SELECT _change_type, hex(ST_AsBinary(g)) FROM table_changes_by_path('{path}', 3, 3)")
        assert sorted(changes) == [("update_postimage", TWO), ("update_preimage", ONE)]


def test_tables_get_the_feature_with_a_column(spark, rows, fails, tmp_path):
    path = tmp_path / "t"
    t = f"delta.`{path}`"
    spark.sql(f"CREATE TABLE {t} (a INT) USING delta")
    spark.sql(f"ALTER TABLE {t} ADD COLUMNS (h GEOGRAPHY(4326))")
    assert actions(path, 1, "protocol")[0]["readerFeatures"] == ["geospatial"]
    write = f"SELECT 1 AS a, named_struct('x', array(ST_GeomFromWKB(X'{ONE}', 3857))) AS s"
    spark.sql(f"INSERT WITH SCHEMA EVOLUTION INTO {t} BY NAME {write}")
    assert rows(f"SELECT a, h, ST_Srid(s.x[0]) FROM {t}") == [(1, None, 3857)]
    with fails("DELTA_UNSUPPORTED_DATA_TYPES", "g: geometry(any)"):
        spark.sql(f"ALTER TABLE {t} ADD COLUMNS (g GEOMETRY(ANY))")
    with fails("INVALID_PARTITION_COLUMN_DATA_TYPE", "GEOMETRY(4326)"):
        spark.sql(f"CREATE OR REPLACE TABLE {t} (a INT, g GEOMETRY(4326)) USING delta PARTITIONED BY (g)")
    with fails("DELTA_CLUSTERING_COLUMNS_DATATYPE_NOT_SUPPORTED", "geometry(4326)"):
        spark.sql(f"CREATE OR REPLACE TABLE {t} (a INT, g GEOMETRY(4326)) USING delta CLUSTER BY (g)")
    with fails("DELTA_COLUMN_DATA_SKIPPING_NOT_SUPPORTED_TYPE", "geography(4326)"):
        spark.sql(f"ALTER TABLE {t} SET TBLPROPERTIES ('delta.dataSkippingStatsColumns' = 'h')")
