"""ANALYZE TABLE … COMPUTE DELTA STATISTICS: the statistics that a write of the same rows would have given, for files
of any writer.
"""

from __future__ import annotations

import json
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.requests import actions

MAPPED = {"none": [], "name": ["'delta.columnMapping.mode' = 'name'"], "id": ["'delta.columnMapping.mode' = 'id'"]}


def statistics(path, version):
    return {add["path"]: json.loads(add["stats"]) for add in actions(path, version, "add")}


@pytest.mark.parametrize("mode", MAPPED)
def test_columns_chosen_later_get_statistics(spark, rows, tmp_path, mode):
    path = tmp_path / "t"
    properties = ", ".join(["'delta.dataSkippingNumIndexedCols' = '0'", *MAPPED[mode]])
    spark.sql(
        f"CREATE TABLE delta.`{path}` (i INT, d DOUBLE, s STRING, de DECIMAL(10,2), day DATE, at TIMESTAMP, n "
        f"TIMESTAMP_NTZ, st STRUCT<x: INT, y: STRUCT<z: STRING>>, l ARRAY<INT>, b BINARY, v VARIANT, pq INT) "
        f"USING delta PARTITIONED BY (pq) TBLPROPERTIES ({properties})"
    )
    insert = f"""INSERT INTO delta.`{path}` SELECT IF(id % 7 = 0, NULL, id - 50), id / 8D, concat('té', id),
        id / 4,
        date_add(DATE'2020-01-01', CAST(id AS INT)), timestamp_seconds(id / 8),
        timestamp_ntz'2020-01-01 00:00:00.123456',
        IF(id % 5 = 0, NULL, named_struct('x', id, 'y', named_struct('z', repeat('z', id)))), array(id), X'00',
        parse_json('1'), id % 2 FROM range(0, 100, 1, 1)"""
    spark.sql(insert)
    assert all(stats["minValues"] == {} for stats in statistics(path, 1).values())
    spark.sql(f"ALTER TABLE delta.`{path}` ADD COLUMN later STRING")
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.dataSkippingNumIndexedCols' = '32')")
    spark.sql(f"ANALYZE TABLE delta.`{path}` COMPUTE DELTA STATISTICS")
    assert rows(f"DESCRIBE HISTORY delta.`{path}` LIMIT 1")[0][4] == "COMPUTE STATS"
    computed = list(statistics(path, 4).values())
    assert len(computed) == 2
    spark.sql(insert.replace("id % 2 FROM", "id % 2, NULL FROM"))
    assert sorted(map(str, statistics(path, 5).values())) == sorted(map(str, computed))
    assert rows(f"SELECT count(*) FROM delta.`{path}` WHERE i >= 30 AND st.x < 90") == [(14,)]


def test_files_of_other_writers_are_read_where_their_footers_do_not_say(spark, rows, settings, tmp_path):
    path = tmp_path / "a table"
    spark.sql(
        f"CREATE TABLE delta.`{path}` (f FLOAT, d DOUBLE, t TIMESTAMP, n TIMESTAMP_NTZ, day DATE, s STRING, "
        f"de DECIMAL(12,1), e DOUBLE) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    )
    plain = tmp_path / "plain"
    with_nan = (
        "SELECT CAST(id / 10 AS FLOAT) f, IF(id = 3, double('NaN'), id / 10) d, timestamp_micros(id * 1000001) t, "
        "TIMESTAMP_NTZ'2020-01-01 00:00:00.5' n, date_add(DATE'1200-01-01', CAST(id AS INT)) AS day, concat('s', id) "
        "s, CAST(id AS DECIMAL(12,1)) de, IF(id = 0, double('-Infinity'), id) e FROM range(0, 10, 1, 1)"
    )
    spark.sql(with_nan).coalesce(1).write.parquet(str(plain))
    (written,) = plain.glob("*.parquet")
    other = pq.read_table(written).set_column(2, "t", pq.read_table(written)["t"].cast(pa.timestamp("us", "UTC")))
    adds = []
    for name in ("f 1.parquet", "f%2.parquet"):
        pq.write_table(other, path / name, use_deprecated_int96_timestamps=True)
        encoded = name.replace("%", "%25").replace(" ", "%20")
        size = (path / name).stat().st_size
        add = {"path": encoded, "partitionValues": {}, "size": size, "modificationTime": 1, "dataChange": True}
        adds.append({"add": add})
    info = {"commitInfo": {"timestamp": int(time.time() * 1000), "operation": "WRITE"}}
    log = path / "_delta_log" / f"{1:020d}.json"
    log.write_text("\n".join(map(json.dumps, [info, *adds])))
    spark.sql(f"ANALYZE TABLE delta.`{path}` COMPUTE DELTA STATISTICS")
    found = statistics(path, 2)
    assert len(found) == 2
    for stats in found.values():
        assert stats["numRecords"] == 10
        assert stats["minValues"] == {
            "f": 0.0, "d": 0.0, "t": "1970-01-01T00:00:00.000Z", "n": "2020-01-01T00:00:00.500", "day": "1200-01-01",
            "s": "s0", "de": 0.0, "e": "-Infinity",
        }  # fmt: skip
        assert stats["maxValues"] == {
            "f": 0.9, "t": "1970-01-01T00:00:09.000Z", "n": "2020-01-01T00:00:00.500", "day": "1200-01-10", "s": "s9",
            "de": 9.0, "e": 9.0,
        }  # fmt: skip
        assert set(stats["nullCount"].values()) == {0}
    # Spark itself trusts the footers, which leave NaN out.
    with settings({"spark.sql.parquet.filterPushdown": "false"}):
        assert rows(f"SELECT count(*) FROM delta.`{path}` WHERE d > 100") == [(2,)]
    spark.sql(f"DELETE FROM delta.`{path}` WHERE e = 9 AND t > '1970-01-01'")
    spark.sql(f"ANALYZE TABLE delta.`{path}` COMPUTE DELTA STATISTICS FOR COLUMNS e, s")
    version = rows(f"DESCRIBE HISTORY delta.`{path}` LIMIT 1")[0][0]
    assert version == 3, "the statistics of marked files were right already"


def test_what_cannot_be_analyzed_is_refused(spark, fails, database):
    spark.sql("CREATE TABLE t (a INT) USING delta")
    spark.sql("CREATE VIEW v AS SELECT 1 AS a")
    spark.sql("CREATE TABLE p (a INT) USING parquet")
    with fails("EXPECT_TABLE_NOT_VIEW.NO_ALTERNATIVE", "ANALYZE TABLE", state="42809"):
        spark.sql("ANALYZE TABLE v COMPUTE DELTA STATISTICS")
    with fails("DELTA_ONLY_OPERATION", "ANALYZE TABLE"):
        spark.sql("ANALYZE TABLE p COMPUTE DELTA STATISTICS")
    with fails("PARSE_SYNTAX_ERROR", "NOSCAN"):
        spark.sql("ANALYZE TABLE t COMPUTE DELTA STATISTICS NOSCAN")
    with fails("HEADWATER_COLUMN_WITHOUT_STATISTICS", "t"):
        spark.sql("ALTER TABLE t SET TBLPROPERTIES ('delta.dataSkippingNumIndexedCols' = '0')")
        spark.sql("ANALYZE TABLE t COMPUTE DELTA STATISTICS FOR COLUMNS a")
    with fails("EXPECT_TABLE_NOT_VIEW.NO_ALTERNATIVE", "DESCRIBE HISTORY", state="42809"):
        spark.sql("DESCRIBE HISTORY v")
    with fails("EXPECT_TABLE_NOT_VIEW.NO_ALTERNATIVE", "ADD CONSTRAINT", "`v`", state="42809"):
        spark.sql("ALTER TABLE v ADD CONSTRAINT c CHECK (a > 1)")
    with fails("EXPECT_TABLE_NOT_VIEW.NO_ALTERNATIVE", "SYNC IDENTITY", state="42809"):
        spark.sql("ALTER TABLE v ALTER COLUMN a SYNC IDENTITY")
