"""DESCRIBE HISTORY and DESCRIBE DETAIL as tables of queries."""

from __future__ import annotations

import random

import pytest
from pyspark.errors import PySparkException


@pytest.fixture
def table(spark, database):
    spark.sql("CREATE TABLE t USING delta AS SELECT 1 AS id")
    spark.sql("INSERT INTO t VALUES (2)")
    spark.sql("DELETE FROM t WHERE id = 1")


def test_a_query_reads_the_answer(spark, rows, database, table, tmp_path):
    assert rows("SELECT version, operation FROM (DESCRIBE HISTORY t) WHERE operation = 'DELETE'") == [(2, "DELETE")]
    assert rows("SELECT max(h.version) FROM (DESC HISTORY t LIMIT 2) AS h WHERE h.version < 2") == [(1,)]
    assert rows("SELECT version FROM (DESCRIBE HISTORY t) ORDER BY version LIMIT 1") == [(0,)]
    assert rows(
        "WITH h AS (DESCRIBE HISTORY t), d AS (DESCRIBE DETAIL t) "
        "SELECT a.version, b.version, numFiles FROM h a JOIN h b ON a.version = b.version + 1, d ORDER BY ALL"
    ) == [(1, 0, 1), (2, 1, 1)]
    assert rows("SELECT count(*) FROM t WHERE 2 IN (SELECT version FROM (DESCRIBE HISTORY t))") == [(1,)]
    assert rows("SELECT (SELECT numFiles FROM (DESCRIBE DETAIL t)) + id FROM t") == [(3,)]
    location = rows("SELECT location FROM (DESCRIBE DETAIL t)")[0][0]
    assert rows(f"SELECT count(*) FROM (DESCRIBE HISTORY '{location}')") == [(3,)]
    assert rows(f"SELECT count(*) FROM (DESCRIBE HISTORY delta.`{location}`)") == [(3,)]
    assert spark.sql("SELECT count(*) FROM (DESCRIBE HISTORY identifier(:t))", args={"t": "t"}).first()[0] == 3
    history = spark.sql("SELECT * FROM (DESCRIBE HISTORY t)")
    assert history.join(history, "version").count() == history.alias("a").crossJoin(history).count() / 3 == 3


def test_paths_are_read_however_backslashes_are(spark, rows, database, tmp_path, settings):
    path = tmp_path / "it\\s"
    spark.range(1).write.format("delta").save(str(path))
    for raw, name in (("false", str(path).replace("\\", "\\\\")), ("true", str(path))):
        with settings({"spark.sql.parser.escapedStringLiterals": raw}):
            assert rows(f"SELECT version FROM (DESCRIBE HISTORY '{name}')") == [(0,)]
            assert rows(f"SELECT version FROM (DESCRIBE HISTORY delta.`{path}`)") == [(0,)]


def test_what_is_made_of_it_stays(spark, rows, database, table):
    spark.sql("CREATE TABLE kept USING delta AS SELECT version, userMetadata FROM (DESCRIBE HISTORY t)")
    spark.sql("INSERT INTO kept SELECT version + 10, NULL FROM (DESCRIBE HISTORY t)")
    assert rows("SELECT count(*), max(version) FROM kept") == [(6, 12)]
    spark.sql("CREATE OR REPLACE TEMP VIEW newest AS SELECT max(version) AS v FROM (DESCRIBE HISTORY t)")
    spark.sql("CREATE VIEW permanent AS SELECT max(version) AS v FROM (DESCRIBE HISTORY t)")
    spark.sql("INSERT INTO t VALUES (3)")
    assert rows("SELECT v FROM newest") == [(3,)]
    assert rows("SELECT v FROM permanent") == [(3,)]
    script = (
        "BEGIN DECLARE n BIGINT; SET n = (SELECT max(version) FROM (DESCRIBE HISTORY t)); OPTIMIZE t; SELECT n; END"
    )
    assert rows(script) == [(3,)]
    assert "DESCRIBE HISTORY" in spark.sql("EXPLAIN SELECT * FROM (DESCRIBE HISTORY t)").first()[0]


def test_errors_are_those_of_the_statement(spark, database, table, fails):
    for text, condition in (
        ("SELECT * FROM (DESCRIBE HISTORY nowhere)", "TABLE_OR_VIEW_NOT_FOUND"),
        ("SELECT * FROM (DESCRIBE HISTORY t LIMIT x)", "PARSE_SYNTAX_ERROR"),
        ("SELECT nope FROM (DESCRIBE HISTORY t)", "UNRESOLVED_COLUMN.WITH_SUGGESTION"),
        ("SELECT * FROM headwater_describe('VACUUM t')", "PARSE_SYNTAX_ERROR"),
    ):
        with pytest.raises(PySparkException) as raised:
            spark.sql(text).collect()
        assert raised.value.getCondition() == condition, str(raised.value)[:300]


def _limit(frame) -> str:
    """The limit that the statement in a query was run with."""
    plan = frame._jdf.queryExecution().analyzed()
    while plan.nodeName() != "DESCRIBE HISTORY":
        plan = plan.children().apply(0)
    return plan.request().arguments().get("limit").toString()


def test_a_limit_of_the_query_is_one_of_the_statement(spark, rows, database, table):
    for _ in range(3):
        spark.sql("INSERT INTO t VALUES (3)")
    draw = random.Random(20261129)
    for _ in range(12):
        own = draw.choice([None, 1, 4, 9])
        text, least = f"DESCRIBE HISTORY t{'' if own is None else f' LIMIT {own}'}", own
        for _ in range(draw.randint(1, 3)):
            columns = draw.choice(
                ["*", "version", "version, rand() AS r", "version, version + 1 AS next, upper('x') AS x"]
            )
            most = draw.choice([None, 0, 1, 3, 100])
            text = (
                f"SELECT {columns} FROM ({text}){draw.choice(['', ' AS h'])}{'' if most is None else f' LIMIT {most}'}"
            )
            least = most if least is None else least if most is None else min(least, most)
        frame = spark.sql(text)
        expected = [5, 4, 3, 2, 1, 0][:least]
        assert [row.version for row in frame.collect()] == expected, text
        assert _limit(frame) == ("null" if least is None else str(least)), text


@pytest.mark.parametrize(
    "text",
    [
        "SELECT version FROM (DESCRIBE HISTORY t) WHERE operation = 'DELETE' LIMIT 1",
        "SELECT version FROM (DESCRIBE HISTORY t) ORDER BY version LIMIT 1",
        "SELECT explode(sequence(0L, version - 2)) AS version FROM (DESCRIBE HISTORY t) WHERE version = 2 LIMIT 1",
        "SELECT DISTINCT operation LIKE 'D%' AS version FROM (DESCRIBE HISTORY t) LIMIT 2",
        "SELECT min(version) AS version FROM (DESCRIBE HISTORY t) LIMIT 1",
        "SELECT min(version) OVER () AS version FROM (DESCRIBE HISTORY t) LIMIT 1",
        "SELECT version FROM (DESCRIBE HISTORY t) LIMIT 1 OFFSET 2",
    ],
)
def test_a_limit_of_other_rows_is_not(spark, rows, database, table, text):
    assert len(rows(text)) == (2 if "DISTINCT" in text else 1)
    assert _limit(spark.sql(text)) == "null"
