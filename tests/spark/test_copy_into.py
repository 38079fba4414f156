"""COPY INTO through Spark: which files it loads, how often, and as which rows."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.landing import csv, ids, loaded, put


@pytest.fixture
def table(spark, database) -> str:
    spark.sql("CREATE TABLE t (id INT, day DATE) USING delta")
    return "t"


CSV = "FILEFORMAT = CSV FORMAT_OPTIONS ('header' = 'true')"


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
