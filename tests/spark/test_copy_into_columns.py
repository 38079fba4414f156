"""COPY INTO through Spark: with which columns files are read, and what is computed for those that lack them."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from support.landing import found, ids, loaded, parquet, put

NESTED = "id INT, s STRUCT<x: INT>, a ARRAY<INT>, o ARRAY<STRUCT<x: INT>>, m MAP<STRING, INT>, text STRING"


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('{"id":1,"s":null,"a":null,"m":null}', {"id": 1}),
        ('{"a":[],"o":[],"m":{},"s":{}}', {"a": [], "o": [], "m": {}, "s": {"x": None}}),
        ('{"m":{}}', {"m": {}}),
        ('{"id":1,"text":{"k": 1.10}}', {"id": 1, "text": '{"k": 1.10}'}),
        ('{"id":1,"text":1.10}', {"id": 1, "text": "1.10"}),
        ("{}", {}),
    ],
)
def test_json_is_read_as_what_the_table_has(spark, database, landing, text, values):
    spark.sql(f"CREATE TABLE t ({NESTED}) USING delta")
    put(landing, "a.json", f"{text}\n{text}\n")
    copy = f"COPY INTO t FROM '{landing}' FILEFORMAT = JSON"
    assert loaded(spark, copy) == [2, 0]
    assert found(spark) == [{**dict.fromkeys(("id", "s", "a", "o", "m", "text")), **values}] * 2
    assert loaded(spark, copy) == [0, 0]


def test_rows_without_fields_and_files_without_rows(spark, database, landing):
    spark.sql(
        "CREATE TABLE t (id INT DEFAULT 7) USING delta TBLPROPERTIES ('delta.feature.allowColumnDefaults'='supported')"
    )
    put(landing, "a.json", "{}\n{}\n")
    put(landing, "empty.json", "")
    copy = "COPY INTO t FROM {} FILEFORMAT = JSON {}"
    assert loaded(spark, copy.format(f"'{landing}'", "")) == [2, 0]
    assert ids(spark) == [7, 7]
    put(landing, "empty2.json", "")
    assert loaded(spark, copy.format(f"'{landing}'", "")) == [0, 0]
    assert "files to load: 0" in spark.sql("EXPLAIN " + copy.format(f"'{landing}'", "")).collect()[0][0]
    select = copy.format(f"(SELECT 5 AS id FROM '{landing}')", "COPY_OPTIONS ('force' = 'true')")
    assert loaded(spark, select) == [2, 0]
    assert ids(spark) == [5, 5, 7, 7]


def test_xml_with_one_item_and_one_record(spark, database, landing):
    spark.sql("CREATE TABLE t (id INT, item ARRAY<INT>, part ARRAY<STRUCT<a: INT>>) USING delta")
    put(landing, "a.xml", "<rs><r><id>1</id><item>5</item><part><a>1</a></part></r></rs>")
    assert loaded(spark, f"COPY INTO t FROM '{landing}' FILEFORMAT = XML FORMAT_OPTIONS ('rowTag' = 'r')") == [1, 0]
    assert found(spark) == [{"id": 1, "item": [5], "part": [{"a": 1}]}]


def test_values_that_no_sample_had(spark, database, landing):
    properties = "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
    spark.sql(f"CREATE TABLE t (id INT, v STRING, d STRING DEFAULT 'd') USING delta {properties}")
    lines = [f'{{"id":{number}}}\n' for number in range(500)]
    put(landing, "a.json", "".join([*lines, '{"id":9999,"v":"kept","d":"kept"}\n']))
    options = "FORMAT_OPTIONS ('samplingRatio' = '0.01')"
    assert loaded(spark, f"COPY INTO t FROM '{landing}' FILEFORMAT = JSON {options}") == [501, 0]
    assert found(spark, "SELECT v, d FROM t WHERE id = 9999") == [{"v": "kept", "d": "kept"}]
    put(landing, "m/e[1].json", '{"id":1,"v":"kept"}')
    put(landing, "m/e1.json", '{"id":2}')
    options = "FORMAT_OPTIONS ('multiLine' = 'true')"
    copy = f"COPY INTO t FROM '{landing}/m' FILEFORMAT = JSON FILES = ('e[1].json') {options}"
    assert loaded(spark, copy) == [1, 0]
    assert found(spark, "SELECT v FROM t WHERE id = 1 AND v IS NOT NULL") == [{"v": "kept"}]


@pytest.mark.parametrize("form", ["csv", "json"])
def test_rows_that_cannot_be_read_are_kept_in_the_column_for_them(spark, database, landing, form):
    spark.sql("CREATE TABLE t (id INT, broken STRING) USING delta")
    put(landing, f"a.{form}", "id\n1\nbad\n" if form == "csv" else '{"id":1}\n{"id":"bad"}\n')
    options = "'header' = 'true', 'mode' = 'PERMISSIVE', 'columnNameOfCorruptRecord' = 'broken'"
    assert loaded(spark, f"COPY INTO t FROM '{landing}' FILEFORMAT = {form} FORMAT_OPTIONS ({options})") == [2, 0]
    bad = "bad" if form == "csv" else '{"id":"bad"}'
    assert found(spark) == [{"id": 1, "broken": None}, {"id": None, "broken": bad}]


def test_new_nested_fields_are_an_error_unless_they_are_merged(spark, database, landing, fails):
    spark.sql("CREATE TABLE t (id INT, m MAP<STRING, STRUCT<x: INT>>, o ARRAY<STRUCT<x: INT, y: STRING>>) USING delta")
    put(landing, "a.json", '{"id":1,"m":{"k":{"x":1,"new":2}},"o":[{"x":1,"z":"z"}]}\n')
    copy = f"COPY INTO t FROM '{landing}' FILEFORMAT = JSON"
    with fails("DELTA_METADATA_MISMATCH", "new"):
        spark.sql(copy)
    assert loaded(spark, f"{copy} COPY_OPTIONS ('mergeSchema' = 'true')") == [1, 0]
    assert found(spark) == [{"id": 1, "m": {"k": {"x": 1, "new": 2}}, "o": [{"x": 1, "y": None, "z": "z"}]}]


@pytest.mark.parametrize("form", ["json", "csv", "parquet", "orc", "text"])
def test_files_beside_folders_of_columns_are_loaded_too(spark, database, landing, form):
    """A reader of Spark's leaves out files that lie in no folder of the columns that it has found."""
    name = "value" if form == "text" else "id"
    spark.sql(f"CREATE TABLE t ({name} STRING, day DATE, hour INT, file STRING) USING delta")
    folders = ["", "misc", "day=2026-05-01", "day=2026-05-01/sub", "day=2026-05-02/hour=2", "misc/day=2026-05-03"]
    for number, folder in enumerate(folders):
        frame = spark.sql(f"SELECT '{number}' AS {name}").coalesce(1).write.option("header", "true")
        frame.format(form).save(f"{landing}-made/{number}")
        (part,) = Path(f"{landing}-made/{number}").glob("part-*")
        (landing / folder).mkdir(parents=True, exist_ok=True)
        part.rename(landing / folder / f"{number}.{form}")
    copy = f"COPY INTO t FROM '{landing}' FILEFORMAT = {form} FORMAT_OPTIONS ('header' = 'true')"
    assert loaded(spark, copy) == [6, 0]
    assert loaded(spark, copy) == [0, 0]
    expected = [("0", None, None), ("1", None, None), ("2", "2026-05-01", None), ("3", "2026-05-01", None),
                ("4", "2026-05-02", 2), ("5", "2026-05-03", None)]  # fmt: skip
    shown = [tuple(row) for row in spark.sql(f"SELECT {name}, CAST(day AS STRING), hour FROM t").collect()]
    assert sorted(shown) == expected
    spark.sql("TRUNCATE TABLE t")
    select = f"(SELECT {name}, day, _metadata.file_name AS file FROM '{landing}')"
    assert loaded(spark, copy.replace(f"'{landing}'", select) + " COPY_OPTIONS ('force' = 'true')") == [6, 0]
    shown = [tuple(row) for row in spark.sql("SELECT file, CAST(day AS STRING) FROM t").collect()]
    assert sorted(shown) == [(f"{number}.{form}", day) for number, day, _ in expected]


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_names_of_folders_are_values_of_their_columns_type(spark, database, landing, form, fails):
    spark.sql("CREATE TABLE t (id INT, code STRING, v STRING) USING delta")
    for number, folder in enumerate(["code=007/v=1e3", "code=1.10/v=a%2Fb", "code=__HIVE_DEFAULT_PARTITION__/v=8"]):
        spark.sql(f"SELECT {number} AS id").coalesce(1).write.format(form).save(f"{landing}/{folder}")
    copy = f"COPY INTO t FROM '{landing}' FILEFORMAT = {form}"
    assert loaded(spark, copy) == [3, 0]
    codes = [("007", "1e3"), ("1.10", "a/b"), (None, "8")]
    assert [(row["code"], row["v"]) for row in found(spark, "SELECT code, v, id FROM t")] == sorted(codes, key=str)
    select = f"COPY INTO t FROM (SELECT id, code || n AS code FROM '{landing}') FILEFORMAT = {form}"
    spark.sql("SELECT 9 AS id").coalesce(1).write.format(form).save(f"{landing}/code=08/n=01")
    assert loaded(spark, select) == [1, 0]
    assert found(spark, "SELECT code FROM t WHERE id = 9") == [{"code": "0801"}]
    spark.sql("SELECT 9 AS id").coalesce(1).write.format(form).save(f"{landing}/day=2026-05-01/old=007")
    with fails("DELTA_METADATA_MISMATCH", "day"):
        spark.sql(copy)
    assert loaded(spark, f"{copy} COPY_OPTIONS ('mergeSchema' = 'true')") == [1, 0]
    found_types = {name: kind for name, kind in spark.table("t").dtypes if name in ("day", "old")}
    assert found_types == {"day": "date", "old": "string"}


def test_files_whose_types_differ_become_the_columns_of_the_table(spark, database, landing, rows, fails):
    """Each file's column is cast as if the file were loaded alone."""
    spark.sql("CREATE TABLE t (id BIGINT, v DOUBLE, s STRUCT<x: BIGINT>, day STRING) USING delta")
    wide = "SELECT {}L AS id, CAST({} AS DOUBLE) AS v, struct(1L AS x) AS s"
    narrow = "SELECT {} AS id, {}L AS v, struct(1 AS x) AS s"
    for number, query in enumerate([wide, narrow, narrow, wide, narrow], 1):
        folder = "day=a/" if number > 3 else ""
        parquet(spark, landing, f"{folder}{number}.parquet", query.format(number, number))
    copy = f"COPY INTO t FROM '{landing}' FILEFORMAT = PARQUET"
    assert loaded(spark, copy) == [5, 0]
    assert loaded(spark, copy) == [0, 0]
    assert sorted(rows("SELECT id, v, s.x, day FROM t")) == [
        (n, float(n), 1, "a" if n > 3 else None) for n in range(1, 6)
    ]
    # A query over the files has a column once, so its types must have a wider one.
    with fails("HEADWATER_COPY_TYPES_DIFFER", "v", "bigint", "double"):
        spark.sql(
            copy.replace(f"FROM '{landing}'", f"FROM (SELECT id FROM '{landing}')") + " COPY_OPTIONS ('force' = 'true')"
        )
    (landing / "more").mkdir()
    parquet(spark, landing, "more/6.parquet", "SELECT 6 AS id, 1 AS new")
    parquet(spark, landing, "more/7.parquet", "SELECT 7L AS id, 2L AS new")
    merged = " COPY_OPTIONS ('mergeSchema' = 'true')"
    selected = copy.replace(f"FROM '{landing}'", f"FROM (SELECT id + 1 AS id FROM '{landing}/more')")
    assert loaded(spark, selected) == [2, 0]
    assert loaded(
        spark,
        copy.replace(str(landing), f"{landing}/more") + " COPY_OPTIONS ('force' = 'true', 'mergeSchema' = 'true')",
    ) == [2, 0]
    assert rows("SELECT id, new FROM t WHERE id > 5 ORDER BY ALL") == [(6, 1), (7, None), (7, 2), (8, None)]
    parquet(spark, landing, "other/8.parquet", "SELECT 8 AS id, 1 AS bad")
    parquet(spark, landing, "other/9.parquet", "SELECT 9L AS id, 'x' AS bad")
    with fails("HEADWATER_COPY_TYPES_DIFFER", "bad"):
        spark.sql(copy.replace(str(landing), f"{landing}/other") + merged)
    assert rows("SELECT count(*) FROM t") == [(9,)]


def test_new_nested_fields_whose_types_differ_need_a_wider_one(spark, database, landing, rows, fails):
    spark.sql("CREATE TABLE t (id BIGINT, s STRUCT<x: INT>) USING delta")
    copy = f"COPY INTO t FROM '{landing}' FILEFORMAT = PARQUET COPY_OPTIONS ('mergeSchema' = 'true')"
    for number, (kind, value) in enumerate([("INT", "1"), ("BIGINT", "2")]):
        query = f"SELECT {number} AS id, struct({number}L AS x, CAST({value} AS {kind}) AS new) AS s"
        parquet(spark, landing, f"{number}.parquet", query)
    assert loaded(spark, copy) == [2, 0]
    assert rows("SELECT id, s.x, s.new FROM t ORDER BY id") == [(0, 0, 1), (1, 1, 2)]
    parquet(spark, landing, "2.parquet", "SELECT 2 AS id, struct(2 AS x, 1L AS other) AS s")
    parquet(spark, landing, "3.parquet", "SELECT 3 AS id, struct(3 AS x, '007' AS other) AS s")
    with fails("HEADWATER_COPY_TYPES_DIFFER", "s.other"):
        spark.sql(copy)
    assert rows("SELECT count(*) FROM t") == [(2,)]


@pytest.mark.parametrize(
    "files",
    [
        {"a/code=007": "1", "b/code=8": "2"},
        {"code=007": "1", "code=8": "2L"},
        {"code=007": "1", "code=8": "2L", "code=x": "3"},
    ],
    ids=["of two folders", "read apart", "read apart, and no numbers"],
)
def test_a_new_column_of_folders_has_one_type(spark, database, landing, rows, files):
    """However the files are divided, each value is what the folder's name says."""
    for folder, value in files.items():
        parquet(spark, landing, f"{folder}/f.parquet", f"SELECT {value} AS id")
    spark.sql("CREATE TABLE t (id BIGINT) USING delta")
    copy = f"COPY INTO t FROM '{landing}' FILEFORMAT = PARQUET COPY_OPTIONS ('mergeSchema' = 'true')"
    assert loaded(spark, copy) == [len(files), 0]
    expected = [(n, folder.partition("=")[2]) for n, folder in enumerate(files, 1)]
    assert rows("SELECT id, code FROM t ORDER BY id") == expected
    spark.sql("TRUNCATE TABLE t")
    select = copy.replace(f"FROM '{landing}'", f"FROM (SELECT id, code FROM '{landing}')").replace(
        "COPY_OPTIONS (", "COPY_OPTIONS ('force' = 'true', "
    )
    assert loaded(spark, select) == [len(files), 0]
    assert rows("SELECT id, code FROM t ORDER BY id") == expected


COMPUTED = (
    "CREATE TABLE {} (id BIGINT GENERATED BY DEFAULT AS IDENTITY (START WITH 1000), k INT, v INT, "
    "g INT GENERATED ALWAYS AS (v * 2), d STRING DEFAULT 'none', n INT, extra BIGINT) "
    "USING delta TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
)
KINDS = {"id": "BIGINT", "k": "INT", "v": "INT", "g": "INT", "d": "STRING", "n": "INT", "extra": "INT"}


class File(NamedTuple):
    """A file, with the values that its rows have in its own columns and in those of its folder."""

    name: str
    own: list[dict[str, Any]]
    rows: list[dict[str, Any]]


def drawn_file(draw: random.Random, number: int, form: str) -> File:
    """Rows with all columns in the first file, one in the second, and some in others. In JSON, a row may lack a null
    that others write.
    """
    share = {1: 1.0, 2: 0.0}.get(number, 0.5)
    names = ["k", *(name for name in ("id", "v", "g", "d", "n", "extra") if draw.random() < share)]
    of_folder: dict[str, Any] = draw.choice([{}, {}, {}, {"d": f"f{number}"}, {"n": number}, {"id": -100 * number}])
    rows: list[dict[str, Any]] = []
    for k in range(10 * number, 10 * number + (1 if "id" in of_folder else draw.randint(1, 3))):
        v = draw.choice([None, k]) if "v" in names else None
        row = {"id": -k, "k": k, "v": v, "g": None if v is None else 2 * v, "d": draw.choice([None, f"d{k}"])}
        row |= {"n": draw.choice([None, k]), "extra": k}
        rows.append({name: row[name] for name in names})
    if form == "json":
        rows = [{name: row[name] for name in row if row[name] is not None or draw.random() < 0.5} for row in rows]
    folder = "".join(f"{name}={value}/" for name, value in of_folder.items())
    name = f"{folder}{draw.choice(['a', 'a b', 'a%20b', 'ä#'])}{number}.{form}"
    return File(name, rows, [row | of_folder for row in rows])


def write_file(draw: random.Random, landing: Path, file: File) -> None:
    path = landing / file.name
    path.parent.mkdir(parents=True, exist_ok=True)
    if file.name.endswith(".json"):
        path.write_text("".join(json.dumps(row) + "\n" for row in file.own), encoding="utf-8")
        return
    texts = pa.string()
    kinds = {name: texts if name == "d" else draw.choice([pa.int32(), pa.int64()]) for name in KINDS}
    table = pa.Table.from_pylist(file.own, pa.schema([(name, kinds[name]) for name in file.own[0]]))
    (pq.write_table if file.name.endswith(".parquet") else orc.write_table)(table, str(path))


def stored(spark, table: str) -> list[dict[str, Any]]:
    """A table's rows, with no numbers of the identity column but those that the files had."""
    rows = found(spark, f"SELECT * FROM {table}")
    given = [row["id"] for row in rows if row["id"] is not None and row["id"] >= 1000]
    assert len(set(given)) == len(given)
    return sorted((row | {"id": row["id"] and min(row["id"], 1000)} for row in rows), key=lambda row: row["k"])


@pytest.mark.random
@pytest.mark.parametrize("form", ["parquet", "json", "orc"])
def test_what_a_file_lacks_is_computed_whatever_is_read_with_it(spark, database, landing, form):
    """All at once or one by one, the files are what an INSERT BY NAME makes of each."""
    draw = random.Random(f"{form} {os.environ.get('HEADWATER_TEST_SEED', 1)}")
    for number in range(int(os.environ.get("HEADWATER_TEST_EXAMPLES", "1"))):
        folder = landing / str(number)
        files = [drawn_file(draw, at, form) for at in range(1, draw.randint(5, 9))]
        for name in ("at_once", "one_by_one", "twin"):
            spark.sql("DROP TABLE IF EXISTS " + name)
            spark.sql(COMPUTED.format(name))
        for file in files:
            write_file(draw, folder, file)
            names = list(dict.fromkeys(name for row in file.rows for name in row))
            kinds = ", ".join(f"{name} {KINDS[name]}" for name in names)
            frame = spark.createDataFrame([tuple(row.get(name) for name in names) for row in file.rows], kinds)
            frame.createOrReplaceTempView("of_file")
            spark.sql("INSERT INTO twin BY NAME SELECT * FROM of_file")
            copy = f"COPY INTO one_by_one FROM '{folder}' FILEFORMAT = {form} FILES = ('{file.name}')"
            assert loaded(spark, copy) == [len(file.rows), 0], file
        copy = f"COPY INTO at_once FROM '{folder}' FILEFORMAT = {form}"
        checked = spark.sql(f"{copy} VALIDATE ALL").collect()
        assert sorted(row.k for row in checked) == sorted(row["k"] for file in files for row in file.rows)
        total = sum(len(file.rows) for file in files)
        assert loaded(spark, copy) == [total, 0]
        assert stored(spark, "at_once") == stored(spark, "one_by_one") == stored(spark, "twin"), files
        given = [row.id for row in checked if row.id is not None and row.id >= 1000]
        assert len(set(given)) == len(given) == sum(row["id"] == 1000 for row in stored(spark, "twin"))
        assert spark.sql(f"{copy} VALIDATE 2 ROWS COPY_OPTIONS ('force' = 'true')").count() == 2
        (last, _) = spark.sql("DESCRIBE HISTORY at_once").collect()
        assert [last.operationMetrics[name] for name in ("numOutputRows", "numLoadedFiles")] == [
            str(total), str(len(files))
        ]  # fmt: skip
        spark.sql("INSERT INTO at_once (k) VALUES (0)")
        assert stored(spark, "at_once")[0]["id"] == 1000


def test_a_column_that_some_files_lack_is_refused_or_computed_for_each(spark, database, landing, rows, fails):
    """Of files read together, one table as INSERT makes it: expectations, quarantine, NOT NULL, new columns of two
    types.
    """
    spark.sql(
        "CREATE TABLE bad (id BIGINT, v INT, g INT, d INT, new BIGINT, quarantine_reason ARRAY<STRING>, "
        "quarantine_time TIMESTAMP, quarantine_source STRUCT<table: STRING, operation: STRING>) USING delta "
        "TBLPROPERTIES ('headwater.quarantine' = 'true')"
    )
    spark.sql(
        "CREATE TABLE t (id BIGINT GENERATED ALWAYS AS IDENTITY, v INT, g INT GENERATED ALWAYS AS (v * 2), "
        "d INT NOT NULL DEFAULT 7, CONSTRAINT ok EXPECT (v > 0) ON VIOLATION QUARANTINE INTO bad, "
        "CONSTRAINT small EXPECT (d < 100) ON VIOLATION DROP ROW) USING delta"
    )
    parquet(spark, landing, "1.parquet", "SELECT * FROM VALUES (1, 2), (-1, -2) AS t(v, g)")
    parquet(spark, landing, "2.parquet", "SELECT 2L AS v, 8 AS d, 1 AS new")
    parquet(spark, landing, "3.parquet", "SELECT * FROM VALUES (3, 6L), (-3, 6L), (4, 5L) AS t(v, new)")
    parquet(spark, landing, "4.parquet", "SELECT 4 AS v, 500 AS d, 8 AS g")
    copy = f"COPY INTO t FROM '{landing}' FILEFORMAT = PARQUET COPY_OPTIONS ('mergeSchema' = 'true')"
    checked = spark.sql(copy.replace(" COPY_OPTIONS", " VALIDATE ALL COPY_OPTIONS")).collect()
    assert sorted(row.v for row in checked) == [1, 2, 3, 4]
    assert loaded(spark, copy) == [4, 0]
    assert rows("SELECT v, g, d, new FROM t ORDER BY v") == [(1, 2, 7, None), (2, 4, 8, 1), (3, 6, 7, 6), (4, 8, 7, 5)]
    assert rows("SELECT v, quarantine_reason FROM bad ORDER BY v") == [(-3, ["ok"]), (-1, ["ok"])]
    numbers = rows("SELECT id FROM t UNION ALL SELECT id FROM bad")
    assert len(set(numbers)) == 6
    assert (None,) not in numbers
    (last,) = spark.sql("DESCRIBE HISTORY t LIMIT 1").collect()
    assert last.operationMetrics["numRowsDroppedByExpectations"] == "1"
    assert last.operationMetrics["numRowsQuarantinedByExpectations"] == "2"
    assert spark.table("t").schema["new"].dataType.simpleString() == "bigint"
    parquet(spark, landing, "5.parquet", "SELECT 5 AS v, 11 AS g")
    with fails("DELTA_VIOLATE_CONSTRAINT_WITH_VALUES", "g"):
        spark.sql(copy)
    (landing / "5.parquet").unlink()
    parquet(spark, landing, "6.parquet", "SELECT 6 AS v")
    parquet(spark, landing, "7.parquet", "SELECT 7L AS id, 6 AS v")
    with fails("DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED", "id"):
        spark.sql(copy)
    assert rows("SELECT count(*) FROM t") == [(4,)]


@pytest.mark.parametrize("merges", ["true", "false"])
def test_elements_and_footers_name_the_columns_of_each_file(spark, database, landing, rows, merges):
    spark.sql(COMPUTED.format("x"))
    put(landing, "xml/1.xml", "<rows><row><k>1</k><v>1</v></row><row><k>2</k><v>2</v></row></rows>")
    put(landing, "xml/2.xml", "<rows><row><k>3</k><id/><d>y</d></row><row><k>4</k></row></rows>")
    put(landing, "xml/3.xml", "")
    put(landing, "xml/id=-9/4.xml", "<rows><row><k>5</k><v>3</v></row></rows>")
    copy = f"COPY INTO x FROM '{landing}/xml' FILEFORMAT = XML FORMAT_OPTIONS ('rowTag' = 'row')"
    assert loaded(spark, copy) == [5, 0]
    assert rows("SELECT id >= 1000, k, v, g, d FROM x ORDER BY k") == [
        (True, 1, 1, 2, "none"), (True, 2, 2, 4, "none"), (None, 3, None, None, "y"), (None, 4, None, None, None),
        (False, 5, 3, 6, "none")
    ]  # fmt: skip
    spark.sql("TRUNCATE TABLE x")
    parquet(spark, landing, "parquet/1.parquet", "SELECT 1 AS k, -1L AS id")
    parquet(spark, landing, "parquet/2.parquet", "SELECT 2 AS k, 'y' AS d")
    options = f"FORMAT_OPTIONS ('mergeSchema' = '{merges}')"
    assert loaded(spark, f"COPY INTO x FROM '{landing}/parquet' FILEFORMAT = PARQUET {options}") == [2, 0]
    assert rows("SELECT least(id, 1000), k, d FROM x ORDER BY k") == [(-1, 1, "none"), (1000, 2, "y")]


def test_a_generated_column_follows_the_number_of_an_identity_column(spark, database, landing, rows):
    """Also if other files have numbers of their own."""
    spark.sql(
        "CREATE TABLE t (id BIGINT GENERATED BY DEFAULT AS IDENTITY (START WITH 7), k INT, "
        "g BIGINT GENERATED ALWAYS AS (id * 2)) USING delta"
    )
    put(landing, "1.json", '{"id": 100, "k": 1}\n')
    put(landing, "2.json", '{"k": 2}\n')
    assert loaded(spark, f"COPY INTO t FROM '{landing}' FILEFORMAT = JSON") == [2, 0]
    assert rows("SELECT * FROM t ORDER BY k") == [(100, 1, 200), (7, 2, 14)]


def test_a_new_column_of_files_that_are_read_apart_needs_one_type(spark, database, landing, rows, fails):
    """They are read apart because one of them lacks a column with a default."""
    spark.sql(
        "CREATE TABLE t (id BIGINT, d INT DEFAULT 7) USING delta "
        "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
    )
    parquet(spark, landing, "1.parquet", "SELECT 1L AS id, 5 AS d, 1 AS new")
    parquet(spark, landing, "2.parquet", "SELECT 2L AS id, '007' AS new")
    copy = (
        f"COPY INTO t FROM '{landing}' FILEFORMAT = PARQUET FORMAT_OPTIONS ('mergeSchema' = 'false') "
        "COPY_OPTIONS ('mergeSchema' = 'true')"
    )
    with fails("HEADWATER_COPY_TYPES_DIFFER", "new"):
        spark.sql(copy)
    spark.sql("ALTER TABLE t ADD COLUMN new STRING")
    assert loaded(spark, copy) == [2, 0]
    assert rows("SELECT id, d, new FROM t ORDER BY id") == [(1, 5, "1"), (2, 7, "007")]


@pytest.mark.parametrize("merges", ["true", "false"])
@pytest.mark.parametrize("form", ["parquet", "orc"])
def test_files_without_content_have_no_columns(spark, database, landing, rows, form, merges):
    spark.sql(COMPUTED.format("t"))
    (landing / f"0.{form}").write_bytes(b"")
    copy = f"COPY INTO t FROM '{landing}' FILEFORMAT = {form} FORMAT_OPTIONS ('mergeSchema' = '{merges}')"
    assert loaded(spark, copy) == [0, 0]
    write = pq.write_table if form == "parquet" else orc.write_table
    write(pa.table({"k": pa.array([1], pa.int32()), "d": ["x"]}), str(landing / f"1.{form}"))
    write(pa.table({"k": pa.array([2], pa.int32()), "id": [-1]}), str(landing / f"2.{form}"))
    (landing / f"3.{form}").write_bytes(b"")
    assert loaded(spark, f"{copy} COPY_OPTIONS ('force' = 'true')") == [2, 0]
    assert rows("SELECT least(id, 1000), k, d FROM t ORDER BY k") == [(1000, 1, "x"), (-1, 2, "none")]
    assert loaded(spark, copy) == [0, 0]


def test_files_that_lack_different_defaults_are_written_together(spark, database, landing, rows):
    defaults = ", ".join(f"d{n} INT DEFAULT {n}" for n in range(3))
    spark.sql(
        f"CREATE TABLE t (k INT, {defaults}) USING delta "
        "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
    )
    for number in range(8):
        own = {f"d{n}": 10 for n in range(3) if number >> n & 1}
        put(landing, f"{number}.json", json.dumps({"k": number, **own}) + "\n")
    with_jobs = spark.sparkContext._jsc.sc().statusStore()
    before = with_jobs.jobsList(None).size()
    assert loaded(spark, f"COPY INTO t FROM '{landing}' FILEFORMAT = JSON") == [8, 0]
    assert with_jobs.jobsList(None).size() - before < 6
    assert rows("SELECT * FROM t ORDER BY k") == [
        (k, *(10 if k >> n & 1 else n for n in range(3))) for k in range(8)
    ]  # fmt: skip


@pytest.mark.parametrize("merges", ["true", "false"])
def test_new_nested_fields_of_files_that_are_read_apart_are_matched_by_name(spark, database, landing, rows, merges):
    """In maps, arrays and structs, whatever their order; a field that a file lacks is null."""
    nested = "m MAP<STRING, STRUCT<x: INT>>, a ARRAY<STRUCT<x: INT>>, s STRUCT<x: INT>"
    spark.sql(
        f"CREATE TABLE t (id BIGINT, d INT DEFAULT 7, {nested}) USING delta "
        "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
    )
    value = "map('k', {0}) AS m, array({0}) AS a, {0} AS s, {1} AS new"
    one, two, three = "struct(1 AS x, 2 AS p)", "struct(10 AS x, 20L AS q, 30 AS p)", "struct(100 AS x)"
    parquet(spark, landing, "1.parquet", f"SELECT 1 AS id, 5 AS d, {value.format(one, 'struct(1 AS u, 2L AS v)')}")
    parquet(spark, landing, "2.parquet", f"SELECT 2L AS id, {value.format(two, 'struct(3 AS v)')}")
    parquet(spark, landing, "3.parquet", f"SELECT 3 AS id, 6 AS d, {value.format(three, 'struct(4 AS u)')}")
    copy = (
        f"COPY INTO t FROM '{landing}' FILEFORMAT = PARQUET FORMAT_OPTIONS ('mergeSchema' = '{merges}') "
        "COPY_OPTIONS ('mergeSchema' = 'true', 'force' = 'true')"
    )
    expected = [{"x": 1, "p": 2, "q": None}, {"x": 10, "p": 30, "q": 20}, {"x": 100, "p": None, "q": None}]
    new = [{"u": 1, "v": 2}, {"u": None, "v": 3}, {"u": 4, "v": None}]
    assert spark.sql(copy.replace(" COPY_OPTIONS", " VALIDATE ALL COPY_OPTIONS")).count() == 3
    assert loaded(spark, copy) == [3, 0]
    shown = [row.asDict(True) for row in spark.sql("SELECT * FROM t ORDER BY id").collect()]
    assert [row["d"] for row in shown] == [5, 7, 6]
    assert [row["s"] for row in shown] == [row["m"]["k"] for row in shown] == [row["a"][0] for row in shown] == expected
    assert [row["new"] for row in shown] == new
    if merges == "false":  # one file's types are those of all that a SELECT sees
        return
    selected = copy.replace(f"FROM '{landing}'", f"FROM (SELECT id + 10 AS id, m, new FROM '{landing}')")
    spark.sql("TRUNCATE TABLE t")
    assert loaded(spark, selected) == [3, 0]
    shown = [row.asDict(True) for row in spark.sql("SELECT * FROM t ORDER BY id").collect()]
    assert [row["m"]["k"] for row in shown] == expected
    assert [row["new"] for row in shown] == new


def test_a_type_that_becomes_wider_must_hold_the_values_of_all_files(spark, database, landing, rows, fails):
    widens = "USING delta TBLPROPERTIES ('delta.enableTypeWidening' = 'true')"
    spark.sql(f"CREATE TABLE t (id INT, v INT) {widens}")
    parquet(spark, landing, "1.parquet", "SELECT 1 AS id, CAST(12345678901234.12345 AS DECIMAL(20, 5)) AS v")
    parquet(spark, landing, "2.parquet", "SELECT 2 AS id, 0.5D AS v")
    copy = f"COPY INTO t FROM '{landing}' FILEFORMAT = PARQUET COPY_OPTIONS ('mergeSchema' = 'true')"
    with fails("HEADWATER_COPY_TYPES_DIFFER", "v", "decimal(20,5)", "double"):
        spark.sql(copy)
    (landing / "2.parquet").unlink()
    parquet(spark, landing, "3.parquet", "SELECT 3L AS id, 5 AS v")
    assert loaded(spark, copy) == [2, 0]
    assert [str(row[1]) for row in rows("SELECT id, v FROM t ORDER BY id")] == ["12345678901234.12345", "5.00000"]
    assert spark.table("t").schema["id"].dataType.simpleString() == "bigint"


def test_values_of_orc_files_keep_their_width(spark, database, landing, rows):
    spark.sql("CREATE TABLE t (id INT, v BIGINT) USING delta")
    orc.write_table(pa.table({"id": pa.array([1], pa.int32()), "v": pa.array([5], pa.int32())}), landing / "1.orc")
    orc.write_table(pa.table({"id": pa.array([2], pa.int32()), "v": [3_000_000_000]}), landing / "2.orc")
    assert loaded(spark, f"COPY INTO t FROM '{landing}' FILEFORMAT = ORC FORMAT_OPTIONS ('mergeSchema' = 'false')") == [
        2,
        0,
    ]
    assert rows("SELECT * FROM t ORDER BY id") == [(1, 5), (2, 3_000_000_000)]


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_names_that_differ_in_case_between_files(spark, database, landing, rows, form):
    spark.sql("CREATE TABLE t (id BIGINT, new BIGINT) USING delta")
    for number, name in enumerate(("id", "ID", "Id")):
        spark.sql(f"SELECT {number} AS `{name}`, {number} AS New").coalesce(1).write.format(form).save(
            f"{landing}/{name}{number}"
        )
    copy = f"COPY INTO t FROM '{landing}' FILEFORMAT = {form} PATTERN = '*/part-*'"
    assert loaded(spark, copy) == [3, 0]
    assert rows("SELECT * FROM t ORDER BY id") == [(n, n) for n in range(3)]
