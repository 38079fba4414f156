"""MAINTAIN TABLE through Spark: its forms and report, what it leaves out, writers beside it, marks of tables."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headwater.cli.maintain import Asked, Maintainer, Stop, _failure
from headwater.statements.maintenance import predicate_use
from headwater.statements.maintenance.planning import MAINTAIN_SCHEMA
from headwater.transaction.maintenance import wait_for_maintenance

MARK = "headwater.predictiveOptimization"


@pytest.fixture
def path(spark, tmp_path, database):
    """A table ``t`` of twelve small files; of the last, every row but one is deleted."""
    path = tmp_path / "a t"
    spark.sql(
        f"CREATE TABLE t (id BIGINT, v INT) USING delta LOCATION '{path}' TBLPROPERTIES "
        "('delta.enableDeletionVectors' = 'true', 'delta.checkpointInterval' = '1000')"
    )
    spark.range(0, 1200, 1, 12).selectExpr("id", "CAST(id % 100 AS INT) AS v").write.format("delta").mode(
        "append"
    ).saveAsTable("t")
    spark.sql("DELETE FROM t WHERE id > 1100")
    return path


def outcomes(spark, text):
    return {row.action: row.outcome for row in spark.sql(text).collect()}


def test_each_form_and_what_it_reports(spark, rows, path, fails):
    for table in ("t", f"delta.`{path}`", f"'{path}'", "IDENTIFIER('t')"):
        planned = spark.sql(f"MAINTAIN TABLE {table} DRY RUN")
        assert planned.columns == MAINTAIN_SCHEMA.names
        assert [(row.action, row.outcome) for row in planned.collect()] == [
            ("OPTIMIZE", "planned"),
            ("REORG", "planned"),
        ]
    assert outcomes(spark, "MAINTAIN TABLE t ONLY (VACUUM)") == {}
    before = spark.sql("DESCRIBE HISTORY t").count()
    optimized, purged = spark.sql("MAINTAIN TABLE t BUDGET :n MINUTES", args={"n": 10}).collect()
    assert (optimized.action, optimized.outcome, optimized.filesBefore, optimized.filesAfter) == (
        "OPTIMIZE",
        "done",
        12,
        1,
    )
    assert optimized.bytesAfter < optimized.bytesBefore
    assert optimized.seconds > 0
    assert "12 files" in optimized.detail
    assert (purged.action, purged.outcome) == ("REORG", "nothing to do")
    assert spark.sql("DESCRIBE HISTORY t").count() == before + 1
    assert rows("SELECT count(*), max(id) FROM t") == [(1101, 1100)]
    assert rows("MAINTAIN TABLE t") == []
    for text, says in (("BUDGET 0 HOURS", "BUDGET"), ("BUDGET 'soon' HOURS", "soon")):
        with fails("DELTA_ILLEGAL_OPTION", says):
            spark.sql(f"MAINTAIN TABLE t {text}")
    spark.sql("BEGIN TRANSACTION")
    try:
        with fails("HEADWATER_NOT_IN_TRANSACTION"):
            spark.sql("MAINTAIN TABLE t")
    finally:
        spark.sql("ROLLBACK")


def test_a_checkpoint_statistics_and_old_files(spark, rows, path):
    log = path / "_delta_log"
    spark.sql("OPTIMIZE t")
    spark.sql("INSERT INTO t VALUES (-1, 1)")
    (data,) = rows("SELECT DISTINCT _metadata.file_name FROM t WHERE id = -1")[0]
    newest = max(log.glob("*.json"))
    lines = [json.loads(line) for line in newest.read_text().splitlines()]
    for line in lines:
        line.get("add", {}).pop("stats", None)
    wait_for_maintenance(60)
    newest.write_text("".join(json.dumps(line) + "\n" for line in lines))
    newest.with_suffix(".crc").unlink(missing_ok=True)
    spark.sql("ALTER TABLE t SET TBLPROPERTIES ('delta.deletedFileRetentionDuration' = 'interval 0 hours')")
    found = {row.action: row for row in spark.sql("MAINTAIN TABLE t").collect()}
    assert {name: row.outcome for name, row in found.items() if name in ("ANALYZE", "VACUUM")} == {
        "ANALYZE": "done",
        "VACUUM": "done",
    }
    assert (found["ANALYZE"].filesBefore, found["ANALYZE"].filesAfter) == (1, 0)
    assert found["VACUUM"].filesBefore >= 12
    assert found["VACUUM"].filesAfter <= 2
    assert found["VACUUM"].bytesAfter < found["VACUUM"].bytesBefore
    assert data is not None
    assert len(list(Path(path).glob("*.parquet"))) <= 3
    assert rows("SELECT count(*) FROM t") == [(1102,)]
    for _ in range(100):
        newest = max(log.glob("*.json"))
        version = int(newest.stem) + 1
        (log / f"{version:020}.json").write_text('{"commitInfo":{"timestamp":1,"operation":"NOTHING"}}\n')
    (written,) = spark.sql("MAINTAIN TABLE t ONLY (CHECKPOINT)").collect()
    assert (written.outcome, written.filesAfter) == ("done", 1)
    assert written.filesBefore > 100
    assert list(log.glob("*.checkpoint*.parquet"))
    assert rows("MAINTAIN TABLE t ONLY (CHECKPOINT)") == []


def test_what_does_not_fit_into_the_budget_is_not_begun(spark, rows, path, settings):
    assert outcomes(spark, "MAINTAIN TABLE t BUDGET 1 SECONDS")["OPTIMIZE"] == "over budget"
    assert spark.sql("DESCRIBE HISTORY t").count() == 3
    with settings({"spark.databricks.delta.optimize.maxFileSize": "4000", "spark.headwater.dml.retrySeconds": "0"}):
        (row, *_) = spark.sql("MAINTAIN TABLE t ONLY (OPTIMIZE) BUDGET 1 HOUR").collect()
    assert (row.outcome, row.filesBefore) == ("done", 12)
    assert 1 < row.filesAfter < 12
    assert rows("SELECT count(*) FROM t") == [(1101,)]


def test_marks_of_tables_and_schemas(spark, rows, path, fails, database):
    spark.sql("ALTER TABLE t DISABLE PREDICTIVE OPTIMIZATION")
    assert (MARK, "DISABLE") in rows("SHOW TBLPROPERTIES t")
    (row, *_) = spark.sql("MAINTAIN TABLE t").collect()
    assert (row.outcome, row.filesAfter) == ("skipped", None)
    assert "FORCE" in row.detail
    assert outcomes(spark, "MAINTAIN TABLE t FORCE DRY RUN")["OPTIMIZE"] == "planned"
    spark.sql("BEGIN ALTER TABLE IDENTIFIER('t') ENABLE PREDICTIVE OPTIMIZATION; END")
    assert (MARK, "ENABLE") in rows("SHOW TBLPROPERTIES t")
    assert outcomes(spark, "MAINTAIN TABLE t DRY RUN")["OPTIMIZE"] == "planned"
    spark.sql("ALTER TABLE t INHERIT PREDICTIVE OPTIMIZATION")
    assert MARK not in dict(rows("SHOW TBLPROPERTIES t"))
    spark.sql("ALTER TABLE t INHERIT PREDICTIVE OPTIMIZATION")
    (schema,) = rows("SELECT current_schema()")[0]
    spark.sql(f"ALTER SCHEMA {schema} ENABLE PREDICTIVE OPTIMIZATION")
    assert f"({MARK},ENABLE)" in str(rows(f"DESCRIBE SCHEMA EXTENDED {schema}"))
    with fails("DELTA_OPERATION_NOT_ALLOWED", "ALTER SCHEMA"):
        spark.sql("ALTER CATALOG spark_catalog ENABLE PREDICTIVE OPTIMIZATION")
    spark.sql("CREATE TABLE other USING parquet AS SELECT 1 AS id")
    with fails("DELTA_ONLY_OPERATION", "ALTER TABLE PREDICTIVE OPTIMIZATION works on Delta tables only"):
        spark.sql("ALTER TABLE other ENABLE PREDICTIVE OPTIMIZATION")
    with fails("DELTA_INVALID_PROPERTY_VALUE", "ENABLE or DISABLE"):
        spark.sql(f"ALTER TABLE t SET TBLPROPERTIES ('{MARK}' = 'maybe')")


def test_columns_that_queries_filter_by_are_proposed_and_chosen(spark, rows, path, settings):
    spark.sql("CREATE TABLE source AS SELECT 5 AS v, 1 AS id")
    with settings({"spark.databricks.delta.optimize.maxFileSize": "1000"}):
        rows(" UNION ALL ".join(f"SELECT count(id) FROM t WHERE v = {number}" for number in range(20)))
        spark.sql("MERGE INTO t USING source AS s ON t.v = s.v WHEN MATCHED THEN UPDATE SET id = s.id")
        rows("SELECT t.id FROM t JOIN source AS s ON t.v = s.v")
        (proposed,) = spark.sql("MAINTAIN TABLE t ONLY (CLUSTER BY) DRY RUN").collect()
        assert (proposed.outcome, proposed.statement[-15:]) == ("proposed", " CLUSTER BY (v)")
        assert re.search(r"2\d of 2\d counted scans filter by v, ", proposed.reason)
        assert outcomes(spark, "MAINTAIN TABLE t ONLY (CLUSTER BY)") == {"CLUSTER BY": "proposed"}
        kept = "".join(file.read_text() for file in (path / "_headwater" / "predicates").iterdir())
        assert '"path":["v"]' in kept
        found = outcomes(spark, "MAINTAIN TABLE t CHOOSE CLUSTERING")
    assert list(found.items())[0] == ("CLUSTER BY", "done")
    assert found["OPTIMIZE"] == "done"
    assert spark.sql("DESCRIBE DETAIL t").first().clusteringColumns == ["v"]
    assert rows("SELECT count(*) FROM t") == [(1101,)]


def test_two_at_once_beside_writers_do_no_harm(spark, rows, path):
    ended: list[str] = []

    def maintain():
        ended.extend(row.outcome for row in spark.sql("MAINTAIN TABLE t").collect())

    def write():
        for number in range(3):
            spark.sql(f"INSERT INTO t VALUES ({-1 - number}, 0)")
            spark.sql(f"DELETE FROM t WHERE id = {number}")

    with ThreadPoolExecutor(3) as threads:
        for done in [threads.submit(work) for work in (maintain, write, maintain)]:
            done.result()
    assert set(ended) <= {"done", "nothing to do", "lost to writers", "partly done"}
    assert "done" in ended
    assert rows("SELECT count(*), min(id), max(id) FROM t") == [(1101, -3, 1100)]


def test_counts_end_with_the_mark_of_the_newest_version(spark, path, rows):
    spark.sql("ALTER TABLE t ENABLE PREDICTIVE OPTIMIZATION")
    (version,) = rows("SELECT max(version) FROM (DESCRIBE HISTORY t)")[0]
    spark.sql("ALTER TABLE t DISABLE PREDICTIVE OPTIMIZATION")
    rows(f"SELECT * FROM t VERSION AS OF {version} WHERE id = 1")
    rows("SELECT * FROM t WHERE id = 1")
    predicate_use.finish()
    assert outcomes(spark, "MAINTAIN TABLE t FORCE")["OPTIMIZE"] == "done"
    assert not (path / "_headwater").exists()


def test_the_command_finds_the_tables_of_schemas_and_catalogs(spark, rows, path, settings, database):
    def maintainer(*targets, **asked):
        return Maintainer(
            Asked(targets, **asked), lambda t: [r.asDict() for r in spark.sql(t).collect()], _failure, Stop()
        )

    def said(found):
        return [(row["table"], row["outcome"]) for row in found.without_tables]

    (schema,) = rows("SELECT current_schema()")[0]
    assert maintainer(schema).tables() == []
    spark.sql(f"ALTER SCHEMA {schema} SET DBPROPERTIES ('{MARK}' = 'enable')")
    spark.sql("CREATE TEMPORARY VIEW seen AS SELECT 1")
    assert maintainer(schema).tables() == [f"`{schema}`.`t`"]
    of_catalog = maintainer("spark_catalog")
    assert f"`spark_catalog`.`{schema}`.`t`" in of_catalog.tables()
    assert said(of_catalog) == []
    assert f"`{schema}`.`t`" in maintainer(everything=True).tables()
    jdbc = "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog"
    url = f"jdbc:derby:memory:{schema};create=true"
    driver = "org.apache.derby.jdbc.EmbeddedDriver"
    names = ("", ".url", ".driver")
    with settings(
        {f"spark.sql.catalog.j{name}": value for name, value in zip(names, (jdbc, url, driver), strict=True)}
    ):
        spark.sql("CREATE SCHEMA j.`my-schema`")
        asked: list[str] = []

        def sql(text):
            asked.append(text)
            return [row.asDict() for row in spark.sql(text).collect()]

        other = Maintainer(Asked(("j", "nowhere")), sql, _failure, Stop())
        assert other.tables() == []
        assert "SHOW TABLES IN `j`.`my-schema`" in asked
        assert said(other) == [("`j`", "nothing to do"), ("`nowhere`", "failed")]
    spark.sql("DROP VIEW seen")
