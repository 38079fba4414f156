"""Values come back as they were written: every type, every kind of partition value, every layout of columns."""

from __future__ import annotations

import json
from datetime import date, datetime
from decimal import Decimal

import pytest

TYPES = """bo BOOLEAN, by TINYINT, sh SMALLINT, i INT, l BIGINT, f FLOAT, d DOUBLE, de DECIMAL(38,18),
        sd DECIMAL(5,2), s STRING,
    bi BINARY, da DATE, ts TIMESTAMP, tn TIMESTAMP_NTZ, ch CHAR(5), vc VARCHAR(6), ar ARRAY<INT>, m MAP<STRING, INT>,
    st STRUCT<a: INT, b: STRUCT<c: STRING, d: DATE>>, ast ARRAY<STRUCT<x: INT>>, v VARIANT"""


def test_every_type(spark, rows, database):
    spark.sql(f"CREATE TABLE t ({TYPES}) USING delta")
    spark.sql(
        """INSERT INTO t VALUES (true, 1Y, 2S, 3, 4L, 1.5F, 2.5D, 12345678901234567890.123456789012345678BD, 1.25,
        'héllo', X'00FF',
        DATE'2024-02-29', TIMESTAMP'2024-01-02 03:04:05.678901', TIMESTAMP_NTZ'2024-01-02 03:04:05.678901', 'ab', 'abc',
        array(1, NULL), map('k', 1, 'n', NULL), named_struct('a', 1, 'b', named_struct('c', 'q', 'd',
        DATE'1900-01-01')),
        array(named_struct('x', 1), NULL), parse_json('{"a":[1,2.5,"x"]}'))"""
    )
    when = datetime(2024, 1, 2, 3, 4, 5, 678901)
    assert rows("SELECT * EXCEPT (v) FROM t") == [
        (True, 1, 2, 3, 4, 1.5, 2.5, Decimal("12345678901234567890.123456789012345678"), Decimal("1.25"),
         "héllo", b"\x00\xff",
         date(2024, 2, 29), when, when, "ab   ", "abc", [1, None], {"k": 1, "n": None},
         (1, ("q", date(1900, 1, 1))), [(1,), None])
    ]  # fmt: skip
    assert rows("SELECT to_json(v), v:a[2]::string FROM t") == [('{"a":[1,2.5,"x"]}', "x")]
    spark.sql("INSERT OVERWRITE t (i) VALUES (1)")
    assert [value for value in rows("SELECT * FROM t")[0] if value is not None] == [1]


def test_extremes(spark, rows, database):
    spark.sql(
        "CREATE TABLE t (l BIGINT, f FLOAT, d DOUBLE, da DATE, ts TIMESTAMP, tn TIMESTAMP_NTZ, s STRING, de "
        "DECIMAL(38,0)) USING delta"
    )
    spark.sql(
        """INSERT INTO t VALUES (-9223372036854775808, float('NaN'), double('-Infinity'), DATE'0001-01-01',
        TIMESTAMP'0001-01-01 00:00:00',
        TIMESTAMP_NTZ'9999-12-31 23:59:59.999999', '', -99999999999999999999999999999999999999BD)"""
    )
    found = rows("SELECT l, isnan(f), d, da, CAST(ts AS STRING), tn, s, de FROM t")
    assert found == [
        (
            -(2**63),
            True,
            float("-inf"),
            date(1, 1, 1),
            "0001-01-01 00:00:00",
            datetime(9999, 12, 31, 23, 59, 59, 999999),
            "",
            Decimal(-(10**38 - 1)),
        )
    ]
    for condition in (
        "isnan(f)",
        "d < 0",
        "da = DATE'0001-01-01'",
        "ts < TIMESTAMP'0002-01-01'",
        "tn > TIMESTAMP_NTZ'9999-12-31'",
        "s = ''",
        "l < 0",
    ):
        assert rows(f"SELECT count(*) FROM t WHERE {condition}") == [(1,)], condition


def test_lengths_of_char_and_varchar(spark, rows, fails, database):
    spark.sql("CREATE TABLE t (c CHAR(3), v VARCHAR(3)) USING delta")
    spark.sql("INSERT INTO t VALUES ('a', 'abc'), ('abc   ', 'abc  ')")
    for values in ("('abcd', 'a')", "('a', 'abcd')"):
        with fails("DELTA_EXCEED_CHAR_VARCHAR_LIMIT", state="22001"):
            spark.sql(f"INSERT INTO t VALUES {values}")
    assert rows("SELECT concat(c, '|'), concat(v, '|') FROM t ORDER BY v") == [("a  |", "abc|"), ("abc|", "abc|")]
    assert rows("SELECT count(*) FROM t WHERE c = 'a'") == [(1,)]


TEXTS = [
    None,
    "a/b",
    "50%",
    "x=y",
    "ünïcode",
    "a b",
    "c:d",
    "q'uote",
    'dq"',
    "back\\slash",
    "#h?",
    "nl\nx",
    ".",
    "..",
    "{}",
    "日本",
    "a%2Fb",
    "tab\t",
    "*",
    " ",
]


def test_partition_texts(spark, tmp_path):
    path = str(tmp_path / "t")
    data = spark.createDataFrame(list(enumerate(TEXTS)), "id INT, p STRING").coalesce(1)
    data.write.format("delta").partitionBy("p").save(path)
    table = spark.read.format("delta").load(path)
    assert {row.id: row.p for row in table.collect()} == dict(enumerate(TEXTS))
    for i, text in enumerate(TEXTS):
        assert [row.id for row in table.where(table.p.eqNullSafe(text)).collect()] == [i], text
    data.where("id % 2 = 0").write.format("delta").mode("overwrite").option("partitionOverwriteMode", "dynamic").save(
        path
    )
    assert table.count() == len(TEXTS)
    # An empty text is no partition of its own: the format has null for both.
    spark.createDataFrame([(99, "")], "id INT, p STRING").write.format("delta").mode("append").save(path)
    assert [row.p for row in spark.read.format("delta").load(path).where("id = 99").collect()] == [None]


def test_partition_types(spark, rows, settings, log, tmp_path):
    path = f"delta.`{tmp_path}/t`"
    spark.sql(
        f"""CREATE TABLE {path} (id INT, bo BOOLEAN, by TINYINT, l BIGINT, f FLOAT, d DOUBLE, de DECIMAL(10,3),
        da DATE, ts TIMESTAMP,
        tn TIMESTAMP_NTZ) USING delta PARTITIONED BY (bo, by, l, f, d, de, da, ts, tn)"""
    )
    with settings({"spark.sql.session.timeZone": "America/New_York"}):
        spark.sql(
            f"""INSERT INTO {path} VALUES (1, true, 1Y, 2L, 1.5F, 2.5D, -3.125, DATE'2024-02-29',
            TIMESTAMP'2024-01-02 03:04:05.678901Z',
            TIMESTAMP_NTZ'2024-01-02 03:04:05.5'), (2, false, -1Y, -2L, float('NaN'), double('-Infinity'), 0,
            DATE'1582-10-04',
            TIMESTAMP'1900-01-02 00:00:00Z', TIMESTAMP_NTZ'2024-01-02 00:00:00')"""
        )
    spark.sql(f"INSERT INTO {path} (id) VALUES (3)")
    values = [a["add"]["partitionValues"] for a in log(tmp_path / "t", 1) if "add" in a]
    assert {v["ts"] for v in values} == {"2024-01-02T03:04:05.678901Z", "1900-01-02T00:00:00.000000Z"}
    assert rows(f"SELECT bo, by, l, f, d, de, da, ts, tn FROM {path} WHERE id = 1") == [
        (
            True,
            1,
            2,
            1.5,
            2.5,
            Decimal("-3.125"),
            date(2024, 2, 29),
            datetime(2024, 1, 2, 3, 4, 5, 678901),
            datetime(2024, 1, 2, 3, 4, 5, 500000),
        )
    ]
    for condition, expected in {
        "ts = TIMESTAMP'2024-01-02 03:04:05.678901'": 1, "isnan(f)": 2, "de < 0": 1,
        "tn < TIMESTAMP_NTZ'2024-01-02 01:00:00'": 2,
        "d < -1e300": 2, "da IS NULL": 3, "NOT bo": 2, "year(da) = 2024": 1, "l IN (2, 7)": 1,
    }.items():  # fmt: skip
        assert rows(f"SELECT id FROM {path} WHERE {condition}") == [(expected,)], condition
    assert rows(f"SELECT max(ts), min(da), count(tn), count(*) FROM {path}") == [
        (datetime(2024, 1, 2, 3, 4, 5, 678901), date(1582, 10, 4), 2, 3)
    ]


def test_binary_partition_values_that_are_no_text(spark, fails, tmp_path):
    data = spark.sql("SELECT 1 AS id, X'61FF' AS p")
    with fails("DELTA_PARTITION_VALUE_NOT_TEXT", "p"):
        data.write.format("delta").partitionBy("p").save(str(tmp_path / "t"))


@pytest.mark.parametrize("mode", [pytest.param("name", marks=pytest.mark.soak), "id"])
def test_column_mapping(spark, rows, log, database, mode):
    spark.sql(
        f"""CREATE TABLE t (`a b` INT, p STRING, st STRUCT<`x,y`: INT, z: STRING>, m MAP<STRING,
        STRUCT<`k;`: INT>>) USING delta
        PARTITIONED BY (p) TBLPROPERTIES ('delta.columnMapping.mode' = '{mode}')"""
    )
    spark.sql(
        "INSERT INTO t VALUES (1, 'x', named_struct('x', 1, 'z', 'q'), map('k', named_struct('k', 5))), (2, NULL, "
        "NULL, NULL)"
    )
    spark.sql("INSERT OVERWRITE t PARTITION (p = 'x') VALUES (3, named_struct('x', 7, 'z', 'r'), NULL)")
    spark.sql(
        "INSERT INTO t REPLACE WHERE `a b` >= 3 AND st.`x,y` = 7 VALUES (4, 'x', named_struct('x', 7, 'z', 's'), NULL)"
    )
    spark.sql("INSERT WITH SCHEMA EVOLUTION INTO t BY NAME SELECT 5 AS `a b`, 'w' AS p, 9 AS `new one`")
    assert rows("SELECT `a b`, p, st.`x,y`, st.z, `new one` FROM t ORDER BY 1") == [
        (2, None, None, None, None),
        (4, "x", 7, "s", None),
        (5, "w", None, None, 9),
    ]
    assert rows("SELECT `a b` FROM t WHERE st.`x,y` = 7") == [(4,)]
    path = rows("DESCRIBE DETAIL t")[0][4].removeprefix("file:")
    add = next(a["add"] for a in log(path, 1) if "add" in a)
    assert all(name.startswith("col-") for name in add["partitionValues"])
    assert all(name.startswith("col-") for name in json.loads(add["stats"])["nullCount"])


def test_names_without_column_mapping(spark, rows, fails, tmp_path):
    with fails("DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES", "a b"):
        spark.sql("SELECT 1 AS `a b`").write.format("delta").save(str(tmp_path / "t"))
    data = spark.sql("SELECT 1 AS `a.b`, 2 AS `ü`, named_struct('x.y', 3) AS st, 4 AS `p.q`")
    data.write.format("delta").partitionBy("p.q").save(str(tmp_path / "u"))
    data.write.format("delta").mode("append").save(str(tmp_path / "u"))
    assert (
        rows(f"SELECT `a.b`, `ü`, st.`x.y`, `p.q` FROM delta.`{tmp_path}/u` WHERE `a.b` = 1 AND `p.q` = 4")
        == [(1, 2, 3, 4)] * 2
    )


def test_tables_with_deletion_vectors(spark, rows, shared, tmp_path):
    import shutil

    path = tmp_path / "t"
    shutil.copytree(shared / "tables" / "table-with-dv-small", path)
    before = rows(f"SELECT * FROM delta.`{path}` ORDER BY 1")
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (100)")
    assert rows(f"SELECT * FROM delta.`{path}` ORDER BY 1") == [*before, (100,)]
    assert rows(f"SELECT count(*) FROM delta.`{path}`") == [(len(before) + 1,)]
    # What a predicate overwrite keeps of a file with deleted rows, it keeps without them.
    spark.sql(f"INSERT INTO delta.`{path}` REPLACE WHERE value <= 2 VALUES (2)")
    assert rows(f"SELECT * FROM delta.`{path}` ORDER BY 1") == [(2,), *[row for row in before if row[0] > 2], (100,)]
    spark.sql(f"INSERT OVERWRITE delta.`{path}` VALUES (7)")
    assert rows(f"SELECT * FROM delta.`{path}`") == [(7,)]
