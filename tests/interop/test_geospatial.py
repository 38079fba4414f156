"""GEOMETRY and GEOGRAPHY columns beside the peer: each reads and changes what the other wrote."""

from __future__ import annotations

WKB = "0101000000000000000000F03F000000000000F03F"
SHOWN = "a, hex(ST_AsBinary(g)), ST_Srid(g), hex(ST_AsBinary(h)), ST_Srid(s.x)"


def test_each_reads_and_changes_tables_of_the_other(spark, peer, ours, tmp_path):
    # The peer has the types behind a setting.
    peer.run("spark.conf.set('spark.databricks.delta.geo.preview.enabled', 'true')")
    try:
        for name, create, other in (("ours", spark.sql, peer.sql), ("theirs", peer.sql, spark.sql)):
            path = tmp_path / name
            t = f"delta.`{path}`"
            columns = "a INT, g GEOMETRY(4326), h GEOGRAPHY(4326), s STRUCT<x: GEOMETRY(3857)>"
            create(f"CREATE TABLE {t} ({columns}) USING delta")
            for insert, number in ((create, 1), (other, 2)):
                insert(
                    f"INSERT INTO {t} SELECT {number}, ST_GeomFromWKB(X'{WKB}', 4326), ST_GeogFromWKB(X'{WKB}'), "
                    f"named_struct('x', ST_GeomFromWKB(X'{WKB}', 3857))"
                )
            other(f"UPDATE {t} SET a = 10 WHERE a = 1 AND h IS NOT NULL")
            expected = [[10, WKB, 4326, WKB, 3857], [2, WKB, 4326, WKB, 3857]]
            assert ours(path, SHOWN) == peer.table(path, SHOWN) == expected
    finally:
        peer.run("spark.conf.unset('spark.databricks.delta.geo.preview.enabled')")
