"""COPY INTO through Spark: which files it loads, how often, and as which rows."""

from __future__ import annotations

import json
import os
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc


@pytest.fixture
def landing(tmp_path) -> Path:
    folder = tmp_path / "landing zone"
    folder.mkdir()
    return folder


def csv(folder: Path, name: str, *lines: str, header: str = "id,day") -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join([header, *lines]) + "\n" if header else "\n".join(lines) + "\n", encoding="utf-8")
    return file


@pytest.fixture
def table(spark, database) -> str:
    spark.sql("CREATE TABLE t (id INT, day DATE) USING delta")
    return "t"


CSV = "FILEFORMAT = CSV FORMAT_OPTIONS ('header' = 'true')"


def loaded(spark, text: str) -> list[int]:
    shown = spark.sql(text)
    assert shown.columns == ["num_affected_rows", "num_inserted_rows", "num_skipped_corrupt_files"]
    (row,) = shown.collect()
    assert row[0] == row[1]
    return [row[0], row[2]]


def ids(spark, name: str = "t") -> list[int]:
    return sorted(row[0] for row in spark.sql(f"SELECT id FROM {name}").collect())


def test_each_file_is_loaded_once(spark, table, landing, rows):
    csv(landing, "a.csv", "1,2026-05-01", "2,2026-05-02")
    copy = f"COPY INTO t FROM '{landing}' {CSV}"
    assert loaded(spark, copy) == [2, 0]
    assert loaded(spark, copy) == [0, 0]
    assert loaded(spark, copy.replace("FROM '", "FROM '/")) == [0, 0]
    csv(landing, "sub/b c.csv", "3,")
    csv(landing, "_hidden.csv", "9,")
    assert loaded(spark, copy) == [1, 0]
    csv(landing, "a.csv", "1,2026-05-01", "7,2026-05-02", "8,")
    assert loaded(spark, copy) == [0, 0]
    assert ids(spark) == [1, 2, 3]
    assert loaded(spark, f"{copy} COPY_OPTIONS ('force' = 'true')") == [4, 0]
    assert loaded(spark, copy) == [0, 0]
    assert ids(spark) == [1, 1, 2, 3, 3, 7, 8]
    history = spark.sql("DESCRIBE HISTORY t").collect()
    assert [row.operation for row in history] == ["COPY INTO"] * 3 + ["CREATE TABLE"]
    assert history[1].operationMetrics["numLoadedFiles"] == "1"
    assert history[1].operationMetrics["numSkippedFiles"] == "1"


def test_statements_that_run_at_once_load_each_file_once(spark, table, landing):
    for number in range(6):
        csv(landing, f"{number}.csv", f"{number},")

    def copy(number: int) -> int:
        return loaded(spark, f"COPY INTO t FROM '{landing}' {CSV} PATTERN = '[{number}-5].csv'")[0]

    with ThreadPoolExecutor(3) as pool:
        assert sum(pool.map(copy, range(3))) == 6
    assert ids(spark) == list(range(6))


def test_files_and_pattern(spark, table, landing, fails):
    for name in ("a1.csv", "a2.csv", "b1.csv", "x/a3.csv", "x/b[1].csv"):
        csv(landing, name, f"{sum(map(ord, name))},")
    number = {name: sum(map(ord, name)) for name in ("a1.csv", "a2.csv", "b1.csv", "x/a3.csv", "x/b[1].csv")}
    first = loaded(spark, f"COPY INTO t FROM '{landing}' {CSV} FILES = ('a1.csv', 'x/b[1].csv')")
    assert (first, ids(spark)) == ([2, 0], sorted([number["a1.csv"], number["x/b[1].csv"]]))
    assert loaded(spark, f"COPY INTO t FROM '{landing}' PATTERN = '{{a,b}}[1-2].csv' {CSV}") == [2, 0]
    assert loaded(spark, f"COPY INTO t FROM '{landing}/*/' {CSV}") == [1, 0]
    assert ids(spark) == sorted(number.values())
    for names, what in (("'a1.csv', 'no.csv'", "no.csv"), ("'../a1.csv'", "without the folder"), ("'/etc/x'", "name")):
        with fails("HEADWATER_COPY_NO_FILES", what):
            spark.sql(f"COPY INTO t FROM '{landing}' {CSV} FILES = ({names})")
    with fails("HEADWATER_COPY_NO_FILES", "nowhere"):
        spark.sql(f"COPY INTO t FROM '{landing}/nowhere' {CSV}")


def test_a_value_that_does_not_fit_is_an_error_and_nothing_is_loaded(spark, table, landing):
    csv(landing, "a.csv", "1,2026-05-01")
    csv(landing, "b.csv", "two,2026-05-01")
    with pytest.raises(Exception, match=r"FAILED_READ_FILE[\s\S]*b\.csv[\s\S]*MALFORMED_RECORD_IN_PARSING"):
        spark.sql(f"COPY INTO t FROM '{landing}' {CSV}")
    assert ids(spark) == []
    csv(landing, "b.csv", "2,2026-05-01")
    csv(landing, "c.csv", "3,May")
    permissive = CSV.replace("'true')", "'true', 'mode' = 'PERMISSIVE')")
    assert loaded(spark, f"COPY INTO t FROM '{landing}' {permissive}") == [3, 0]
    assert ids(spark) == [1, 2, 3]
    assert spark.sql("SELECT id FROM t WHERE day IS NULL").collect()[0][0] == 3


def test_select_position_and_columns(spark, table, landing):
    csv(landing, "a.csv", "2026-05-01,1", header="")
    csv(landing, "b.csv", "2,2026-05-02", header="")
    csv(landing, "c.csv", "3", header="")
    copy = "COPY INTO t {} FROM {} FILEFORMAT = CSV PATTERN = '{}.csv'"
    select = f"(SELECT _c0::date AS day, _c1::int + _metadata.file_size * 0 AS id FROM '{landing}')"
    assert loaded(spark, copy.format("", select, "a")) == [1, 0]
    assert loaded(spark, copy.format("BY POSITION", f"'{landing}'", "b")) == [1, 0]
    assert loaded(spark, copy.format("(id)", f"'{landing}'", "c")) == [1, 0]
    found = spark.sql("SELECT id, CAST(day AS STRING) FROM t ORDER BY id").collect()
    assert [tuple(row) for row in found] == [(1, "2026-05-01"), (2, "2026-05-02"), (3, None)]


def test_new_columns_need_an_option(spark, table, landing, fails):
    (landing / "a.json").write_text(json.dumps({"id": 1, "name": "x", "more": {"a": 1}}) + "\n")
    copy = f"COPY INTO t FROM '{landing}' FILEFORMAT = JSON"
    with fails("DELTA_METADATA_MISMATCH"):
        spark.sql(copy)
    assert loaded(spark, f"{copy} COPY_OPTIONS ('mergeSchema' = 'true')") == [1, 0]
    assert spark.sql("SELECT * FROM t").collect()[0].asDict(True) == {
        "id": 1, "day": None, "name": "x", "more": {"a": 1}
    }  # fmt: skip


def test_a_table_without_columns(spark, database, landing):
    spark.sql("CREATE TABLE t USING delta")
    csv(landing, "a.csv", "1,2026-05-01")
    options = "'header' = 'true', 'inferSchema' = 'true'"
    copy = f"COPY INTO t FROM '{landing}' FILEFORMAT = CSV FORMAT_OPTIONS ({options})"
    assert loaded(spark, f"{copy} COPY_OPTIONS ('mergeSchema' = 'true')") == [1, 0]
    assert ids(spark) == [1]


@pytest.mark.parametrize("form", ["parquet", "json", "orc"])
def test_formats(spark, table, landing, form):
    for number in range(2):
        spark.sql(f"SELECT {number} AS id, DATE'2026-05-01' AS day").coalesce(1).write.format(form).save(
            f"{landing}/p={number}"
        )
    copy = f"COPY INTO t FROM '{landing}' FILEFORMAT = {form.upper()} FORMAT_OPTIONS ('recursiveFileLookup' = 'true')"
    assert loaded(spark, copy) == [2, 0]
    assert loaded(spark, copy) == [0, 0]
    assert ids(spark) == [0, 1]


def test_text_and_binary(spark, database, landing):
    (landing / "a.txt").write_text("one\ntwo\n")
    spark.sql("CREATE TABLE lines (value STRING) USING delta")
    spark.sql("CREATE TABLE blobs (path STRING, content BINARY, length BIGINT, modificationTime TIMESTAMP) USING delta")
    assert loaded(spark, f"COPY INTO lines FROM '{landing}' FILEFORMAT = TEXT") == [2, 0]
    assert loaded(spark, f"COPY INTO blobs FROM '{landing}' FILEFORMAT = BINARYFILE") == [1, 0]
    assert bytes(spark.sql("SELECT content FROM blobs").collect()[0][0]) == b"one\ntwo\n"


def test_validate_and_explain(spark, table, landing, fails):
    spark.sql("ALTER TABLE t ADD CONSTRAINT few CHECK (id < 100)")
    csv(landing, "a.csv", "1,2026-05-01", "2,")
    copy = f"COPY INTO t FROM '{landing}' {CSV}"
    shown = spark.sql(f"{copy} VALIDATE ALL")
    assert shown.columns == ["id", "day"]
    assert sorted(str(row[1]) for row in shown.collect()) == ["2026-05-01", "None"]
    assert spark.sql(f"{copy} VALIDATE 1 ROWS").count() == 1
    (plan,) = spark.sql(f"EXPLAIN {copy}").collect()
    assert "files to load: 1" in plan[0]
    assert ids(spark) == []
    csv(landing, "b.csv", "200,")
    with fails("DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"):
        spark.sql(f"{copy} VALIDATE")
    (landing / "b.csv").unlink()
    assert loaded(spark, copy) == [2, 0]
    (plan,) = spark.sql(f"EXPLAIN {copy}").collect()
    assert "files to load: 0" in plan[0]


def test_markers_variables_scripts_and_transactions(spark, table, landing):
    csv(landing, "a.csv", "1,")
    text = "COPY INTO IDENTIFIER(:name) FROM :path FILEFORMAT = CSV FORMAT_OPTIONS ('header' = :header)"
    assert spark.sql(text, args={"name": "t", "path": str(landing), "header": True}).collect()[0][0] == 1
    csv(landing, "b.csv", "2,")
    spark.sql(f"BEGIN COPY INTO t FROM '{landing}' {CSV}; END")
    csv(landing, "c.csv", "3,")
    spark.sql("DECLARE OR REPLACE VARIABLE folder STRING")
    spark.sql(f"SET VARIABLE folder = '{landing}'")
    assert loaded(spark, f"COPY INTO t FROM folder {CSV}") == [1, 0]
    csv(landing, "d.csv", "4,")
    spark.sql("BEGIN TRANSACTION")
    assert loaded(spark, f"COPY INTO t FROM '{landing}' {CSV}") == [1, 0]
    assert loaded(spark, f"COPY INTO t FROM '{landing}' {CSV}") == [0, 0]
    spark.sql("ROLLBACK")
    assert ids(spark) == [1, 2, 3]
    spark.sql("BEGIN TRANSACTION")
    assert loaded(spark, f"COPY INTO t FROM '{landing}' {CSV}") == [1, 0]
    csv(landing, "e.csv", "5,")
    assert loaded(spark, f"COPY INTO t FROM '{landing}' {CSV}") == [1, 0]
    spark.sql("COMMIT")
    assert loaded(spark, f"COPY INTO t FROM '{landing}' {CSV}") == [0, 0]
    assert ids(spark) == [1, 2, 3, 4, 5]


def test_files_that_are_damaged_are_skipped_and_stay_new(spark, table, landing):
    frame = spark.sql("SELECT 1 AS id, DATE'2026-05-01' AS day")
    for name in ("a", "b"):
        frame.coalesce(1).write.parquet(f"{landing}/{name}")
    (whole,) = (landing / "a").glob("*.parquet")
    content = whole.read_bytes()
    whole.write_bytes(content[: len(content) // 2])
    (landing / "c.parquet").write_bytes(b"no file of Parquet")
    copy = f"COPY INTO t FROM '{landing}' FILEFORMAT = PARQUET FORMAT_OPTIONS ('ignoreCorruptFiles' = 'true')"
    assert loaded(spark, copy) == [1, 2]
    whole.write_bytes(content)
    for file in landing.glob("*/.*.crc"):
        file.unlink()
    assert loaded(spark, copy) == [1, 1]
    assert ids(spark) == [1, 1]


def test_a_table_of_many_kinds_of_columns(spark, database, landing, fails):
    spark.sql(
        "CREATE TABLE t (id BIGINT GENERATED BY DEFAULT AS IDENTITY, v INT NOT NULL, level DECIMAL(4,1) DEFAULT 1.5, "
        "day DATE, year INT GENERATED ALWAYS AS (year(day)), s STRUCT<a: INT, b: DATE>, tags ARRAY<STRING>) "
        "USING delta PARTITIONED BY (year) TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true', "
        "'delta.columnMapping.mode' = 'name', 'delta.enableRowTracking' = 'true', "
        "'delta.feature.allowColumnDefaults' = 'supported')"
    )
    (landing / "a.json").write_text(
        '{"v": 1, "day": "2026-05-01", "s": {"b": "2026-01-01"}, "tags": ["x"]}\n{"v": 2, "day": "2025-05-01"}\n'
    )
    copy = f"COPY INTO t FROM '{landing}' FILEFORMAT = JSON"
    assert loaded(spark, copy) == [2, 0]
    found = spark.sql("SELECT v, level, year, s.b, s.a, tags FROM t ORDER BY v").collect()
    assert [(row[0], str(row[1]), row[2], str(row[3]), row[4], row[5]) for row in found] == [
        (1, "1.5", 2026, "2026-01-01", None, ["x"]),
        (2, "1.5", 2025, "None", None, None),
    ]
    assert spark.sql("SELECT count(DISTINCT id) FROM t").collect()[0][0] == 2
    assert spark.sql("SELECT * FROM table_changes('t', 1)").count() == 2
    (landing / "b.json").write_text('{"v": null, "day": "2026-05-01"}\n')
    with fails("DELTA_NOT_NULL_CONSTRAINT_VIOLATED"):
        spark.sql(copy)
    (landing / "b.json").write_text('{"v": 3, "day": "2026-05-01"}\n')
    assert spark.sql(f"{copy} VALIDATE").collect()[0].v == 3
    assert loaded(spark, copy) == [1, 0]


def test_csv_files_with_other_headers_are_an_error(spark, table, landing):
    csv(landing, "a.csv", "1,2026-05-01")
    csv(landing, "b.csv", "2026-05-01,2", header="day,id")
    with pytest.raises(Exception, match="CSV header does not conform"):
        spark.sql(f"COPY INTO t FROM '{landing}' {CSV}")
    assert ids(spark) == []


def test_folders_with_a_log_and_positions(spark, table, landing, fails):
    spark.sql(f"CREATE TABLE delta.`{landing}/d` USING delta AS SELECT 1 AS id")
    with fails("HEADWATER_COPY_NO_FILES", "_delta_log"):
        spark.sql(f"COPY INTO t FROM '{landing}' FILEFORMAT = PARQUET")
    csv(landing, "a.csv", "1,2,3", header="")
    with fails("COPY_INTO_COLUMN_ARITY_MISMATCH", "3"):
        spark.sql(f"COPY INTO t BY POSITION FROM '{landing}/a.csv' FILEFORMAT = CSV")
    with fails("COPY_INTO_COLUMN_ARITY_MISMATCH", "1"):
        spark.sql(f"COPY INTO t (id, day) FROM (SELECT _c0 FROM '{landing}/a.csv') FILEFORMAT = CSV")
    with fails("DELTA_ILLEGAL_OPTION", "nothing"):
        spark.sql(f"COPY INTO t (nothing) FROM (SELECT _c0 FROM '{landing}/a.csv') FILEFORMAT = CSV")
    copy = f"COPY INTO t (id) FROM (SELECT sum(CAST(_c2 AS INT)) FROM '{landing}/a.csv') FILEFORMAT = CSV"
    assert loaded(spark, copy) == [1, 0]
    assert ids(spark) == [3]


def test_partition_folders_are_columns(spark, table, landing):
    csv(landing, "day=2026-05-01/a.csv", "1", header="id")
    csv(landing, "day=2026-05-02/a.csv", "2", header="id")
    assert loaded(spark, f"COPY INTO t FROM '{landing}' {CSV}") == [2, 0]
    found = spark.sql("SELECT id, CAST(day AS STRING) FROM t ORDER BY id").collect()
    assert [tuple(row) for row in found] == [(1, "2026-05-01"), (2, "2026-05-02")]


def test_what_becomes_of_the_loaded_files_in_clones_restores_and_vacuums(spark, table, landing, tmp_path):
    csv(landing, "a.csv", "1,")
    csv(landing, "b.csv", "2,")
    copy = f"COPY INTO {{}} FROM '{landing}' {CSV}"
    assert loaded(spark, copy.format("t")) == [2, 0]
    spark.sql("CREATE TABLE deep DEEP CLONE t")
    spark.sql("CREATE TABLE shallow SHALLOW CLONE t")
    csv(landing, "c.csv", "3,")
    assert loaded(spark, copy.format("deep")) == [1, 0]
    assert loaded(spark, copy.format("shallow")) == [3, 0]
    spark.sql("SET spark.databricks.delta.retentionDurationCheck.enabled = false")
    spark.sql("VACUUM t RETAIN 0 HOURS")
    spark.sql("RESET spark.databricks.delta.retentionDurationCheck.enabled")
    assert loaded(spark, copy.format("t")) == [1, 0]
    spark.sql("RESTORE t TO VERSION AS OF 0")
    assert ids(spark) == []
    assert loaded(spark, copy.format("t")) == [0, 0]
    spark.sql("CREATE OR REPLACE TABLE t (id INT, day DATE) USING delta")
    assert loaded(spark, copy.format("t")) == [3, 0]
    assert ids(spark) == [1, 2, 3]


def put(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def found(spark, text: str = "SELECT * FROM t") -> list[dict[str, Any]]:
    return sorted((row.asDict(True) for row in spark.sql(text).collect()), key=str)


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


def test_a_file_that_the_reader_would_leave_out_or_add_is_an_error(spark, landing):
    for name in ("a.json", "_b.json", "c.json", "day=1/d.json"):
        put(landing, name, '{"id":1}\n')
    jvm = spark._jvm

    def plan(*names: str, **options: str) -> None:
        paths, given = (
            jvm.PythonUtils.toSeq([f"{landing}/{name}" for name in names]),
            jvm.PythonUtils.toScalaMap(options),
        )
        files = jvm.headwater.spark.bridge.messages.SourceFiles("json", paths, jvm.scala.Option.empty(), given)
        jvm.org.apache.spark.sql.headwater.scan.FileSource.plan(spark._jsparkSession, files)

    plan("a.json", "c.json")
    for names, options, what in (
        (["a.json", "_b.json"], {}, "_b.json"),
        (["a.json", "day=1/d.json"], {"basePath": str(landing)}, "a.json"),
        (["a.json", "a.json"], {}, "a.json"),
        (["day=1"], {}, "day=1"),
    ):
        with pytest.raises(Exception, match=f"HEADWATER_COPY_FILE_NOT_READ.*{what}"):
            plan(*names, **options)


def test_loaded_files_of_tables_that_are_replaced_restored_and_cloned(spark, table, landing):
    csv(landing, "a.csv", "1,")
    copy = f"COPY INTO {{}} FROM '{landing}' {CSV}"
    assert loaded(spark, copy.format("t")) == [1, 0]
    spark.sql("CREATE TABLE deep DEEP CLONE t")
    spark.sql("CREATE OR REPLACE TABLE t (id INT, day DATE) USING delta")
    spark.sql("CREATE OR REPLACE TABLE deep DEEP CLONE t")
    assert [loaded(spark, copy.format(name)) for name in ("deep", "t", "deep", "t")] == [[1, 0], [1, 0], [0, 0], [0, 0]]
    for version in (1, 0, 2, 3):
        spark.sql(f"RESTORE t TO VERSION AS OF {version}")
        assert loaded(spark, copy.format("t")) == [0, 0]
    spark.table("t").write.format("delta").mode("overwrite").option("overwriteSchema", "true").saveAsTable("t")
    assert loaded(spark, copy.format("t")) == [0, 0]
    spark.sql("CREATE OR REPLACE TABLE t USING delta AS SELECT 5 AS id, DATE'2026-05-01' AS day")
    spark.sql("CREATE OR REPLACE TABLE t (id INT, day DATE) USING delta")
    assert loaded(spark, copy.format("t")) == [1, 0]
    spark.sql("CREATE TABLE plain (id INT, day DATE) USING delta")
    spark.sql("TRUNCATE TABLE t")
    spark.sql("CREATE OR REPLACE TABLE t DEEP CLONE plain")
    assert loaded(spark, copy.format("t")) == [1, 0]
    assert ids(spark) == [1]
    assert "generation" not in spark.sql("SHOW CREATE TABLE t").collect()[0][0]


def _parquet(spark, landing: Path, name: str, query: str) -> None:
    spark.sql(query).coalesce(1).write.format("parquet").save(f"{landing}-made/{name}")
    (part,) = Path(f"{landing}-made/{name}").glob("part-*")
    (landing / name).parent.mkdir(parents=True, exist_ok=True)
    part.rename(landing / name)


def test_files_whose_types_differ_become_the_columns_of_the_table(spark, database, landing, rows):
    """Each file's column is cast as if the file were loaded alone."""
    spark.sql("CREATE TABLE t (id BIGINT, v DOUBLE, s STRUCT<x: BIGINT>, day STRING) USING delta")
    wide = "SELECT {}L AS id, CAST({} AS DOUBLE) AS v, struct(1L AS x) AS s"
    narrow = "SELECT {} AS id, {}L AS v, struct(1 AS x) AS s"
    for number, query in enumerate([wide, narrow, narrow, wide, narrow], 1):
        folder = "day=a/" if number > 3 else ""
        _parquet(spark, landing, f"{folder}{number}.parquet", query.format(number, number))
    copy = f"COPY INTO t FROM '{landing}' FILEFORMAT = PARQUET"
    assert loaded(spark, copy) == [5, 0]
    assert loaded(spark, copy) == [0, 0]
    assert sorted(rows("SELECT id, v, s.x, day FROM t")) == [
        (n, float(n), 1, "a" if n > 3 else None) for n in range(1, 6)
    ]
    # A query over the files has a column once, so its types must have a wider one.
    with pytest.raises(Exception, match="CANNOT_MERGE_SCHEMAS"):
        spark.sql(
            copy.replace(f"FROM '{landing}'", f"FROM (SELECT id FROM '{landing}')") + " COPY_OPTIONS ('force' = 'true')"
        )
    (landing / "more").mkdir()
    _parquet(spark, landing, "more/6.parquet", "SELECT 6 AS id, 1 AS new")
    _parquet(spark, landing, "more/7.parquet", "SELECT 7L AS id, 2L AS new")
    merged = " COPY_OPTIONS ('mergeSchema' = 'true')"
    selected = copy.replace(f"FROM '{landing}'", f"FROM (SELECT id + 1 AS id FROM '{landing}/more')")
    assert loaded(spark, selected) == [2, 0]
    assert loaded(
        spark,
        copy.replace(str(landing), f"{landing}/more") + " COPY_OPTIONS ('force' = 'true', 'mergeSchema' = 'true')",
    ) == [2, 0]
    assert rows("SELECT id, new FROM t WHERE id > 5 ORDER BY ALL") == [(6, 1), (7, None), (7, 2), (8, None)]
    _parquet(spark, landing, "other/8.parquet", "SELECT 8 AS id, 1 AS bad")
    _parquet(spark, landing, "other/9.parquet", "SELECT 9L AS id, 'x' AS bad")
    with pytest.raises(Exception, match="CANNOT_MERGE_SCHEMAS"):
        spark.sql(copy.replace(str(landing), f"{landing}/other") + merged)
    assert rows("SELECT count(*) FROM t") == [(9,)]


def test_new_nested_fields_whose_types_differ_need_a_wider_one(spark, database, landing, rows):
    spark.sql("CREATE TABLE t (id BIGINT, s STRUCT<x: INT>) USING delta")
    copy = f"COPY INTO t FROM '{landing}' FILEFORMAT = PARQUET COPY_OPTIONS ('mergeSchema' = 'true')"
    for number, (kind, value) in enumerate([("INT", "1"), ("BIGINT", "2")]):
        query = f"SELECT {number} AS id, struct({number}L AS x, CAST({value} AS {kind}) AS new) AS s"
        _parquet(spark, landing, f"{number}.parquet", query)
    assert loaded(spark, copy) == [2, 0]
    assert rows("SELECT id, s.x, s.new FROM t ORDER BY id") == [(0, 0, 1), (1, 1, 2)]
    _parquet(spark, landing, "2.parquet", "SELECT 2 AS id, struct(2 AS x, 1L AS other) AS s")
    _parquet(spark, landing, "3.parquet", "SELECT 3 AS id, struct(3 AS x, '007' AS other) AS s")
    with pytest.raises(Exception, match="CANNOT_MERGE_SCHEMAS"):
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
        _parquet(spark, landing, f"{folder}/f.parquet", f"SELECT {value} AS id")
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


@pytest.mark.parametrize("name", ["a[1].json", "a*.json"])
def test_names_with_wildcards_of_records_as_variants(spark, database, landing, rows, name):
    spark.sql("CREATE TABLE t (v VARIANT) USING delta")
    put(landing, name, '[{"id": 1,\n "b": 2}]')
    put(landing, "a1.json", '{"id":\n3}')
    options = "FORMAT_OPTIONS ('multiLine' = 'true', 'singleVariantColumn' = 'v')"
    assert loaded(spark, f"COPY INTO t FROM '{landing}' FILEFORMAT = JSON {options}")[1] == 0
    shown = {row[0] for row in rows("SELECT to_json(v) FROM t")}
    assert '{"id":3}' in shown
    assert any('"b":2' in text for text in shown)


@pytest.mark.parametrize("form", ["json", "csv", "xml"])
def test_names_with_wildcards_are_no_patterns(spark, database, landing, rows, form):
    """A record may be longer than a line, so Spark's reader looks for the files again."""
    spark.sql("CREATE TABLE t (id INT, said STRING) USING delta")
    text = {
        "json": '[{{"id": {0},\n "said": "x"}}]',
        "csv": 'id,said\n{0},"x\ny"\n',
        "xml": "<rows><row><id>{0}</id>\n<said>x</said></row></rows>",
    }[form]
    for number, name in enumerate((f"e[1].{form}", f"e1.{form}", f"a*.{form}", f"{{b,c}}?.{form}", f"d, e.{form}")):
        put(landing, name, text.format(number))
    options = "'multiLine' = 'true', 'header' = 'true', 'rowTag' = 'row'"
    copy = f"COPY INTO t FROM '{landing}' FILEFORMAT = {form} FORMAT_OPTIONS ({options})"
    assert loaded(spark, f"{copy} FILES = ('e[1].{form}')") == [1, 0]
    assert ids(spark) == [0]
    assert loaded(spark, copy) == [4, 0]
    assert ids(spark) == [0, 1, 2, 3, 4]


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
    _parquet(spark, landing, "1.parquet", "SELECT * FROM VALUES (1, 2), (-1, -2) AS t(v, g)")
    _parquet(spark, landing, "2.parquet", "SELECT 2L AS v, 8 AS d, 1 AS new")
    _parquet(spark, landing, "3.parquet", "SELECT * FROM VALUES (3, 6L), (-3, 6L), (4, 5L) AS t(v, new)")
    _parquet(spark, landing, "4.parquet", "SELECT 4 AS v, 500 AS d, 8 AS g")
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
    _parquet(spark, landing, "5.parquet", "SELECT 5 AS v, 11 AS g")
    with fails("DELTA_VIOLATE_CONSTRAINT_WITH_VALUES", "g"):
        spark.sql(copy)
    (landing / "5.parquet").unlink()
    _parquet(spark, landing, "6.parquet", "SELECT 6 AS v")
    _parquet(spark, landing, "7.parquet", "SELECT 7L AS id, 6 AS v")
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
    _parquet(spark, landing, "parquet/1.parquet", "SELECT 1 AS k, -1L AS id")
    _parquet(spark, landing, "parquet/2.parquet", "SELECT 2 AS k, 'y' AS d")
    options = f"FORMAT_OPTIONS ('mergeSchema' = '{merges}')"
    assert loaded(spark, f"COPY INTO x FROM '{landing}/parquet' FILEFORMAT = PARQUET {options}") == [2, 0]
    assert rows("SELECT least(id, 1000), k, d FROM x ORDER BY k") == [(-1, 1, "none"), (1000, 2, "y")]
