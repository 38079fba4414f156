"""Statements of other systems: told by their first words, answered with what to use; all else is left to Spark."""

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.sql.elsewhere import refuse

_COMING = {
    "CREATE TABLE a SHALLOW CLONE b": "a",
    "CREATE OR REPLACE TABLE a DEEP CLONE b VERSION AS OF 3": "a",
    "CREATE TABLE IF NOT EXISTS x.a CLONE b": "x.a",
    "REPLACE TABLE a CLONE b": "a",
}
_ELSEWHERE = {
    "CACHE SELECT * FROM t": "CACHE TABLE",
    "UNDROP TABLE t": "LOCATION",
    "UNDROP TABLE WITH ID '1-2'": "LOCATION",
    "SHOW TABLES DROPPED IN db": "no dropped tables",
    "CREATE BLOOMFILTER INDEX ON TABLE t FOR COLUMNS (a)": "dataSkippingStatsColumns",
    "DROP BLOOMFILTER INDEX ON TABLE t": "dataSkippingStatsColumns",
    "ALTER TABLE t SET MANAGED": "AS SELECT",
    "ALTER TABLE t UNSET MANAGED": "AS SELECT",
    "ALTER TABLE t SET TAGS ('a' = 'b')": "TBLPROPERTIES",
    "ALTER TABLE t ALTER COLUMN c SET TAGS ('a')": "TBLPROPERTIES",
    "ALTER TABLE t SET ROW FILTER f ON (a)": "view",
    "ALTER TABLE t ALTER COLUMN c SET MASK f": "view",
    "ALTER CATALOG c ENABLE PREDICTIVE OPTIMIZATION": "ALTER SCHEMA",
    "ALTER TABLE t CLUSTER BY AUTO": "CLUSTER BY (",
    "APPLY CHANGES INTO t FROM s KEYS (id)": "idCols",
    "CREATE FLOW f AS AUTO CDC INTO t FROM s": "create_auto_cdc_flow",
    "CREATE OR REFRESH STREAMING LIVE TABLE t AS SELECT 1": "STREAMING TABLE",
    "CREATE LIVE VIEW v AS SELECT 1": "CREATE VIEW",
    "CREATE OR REFRESH MATERIALIZED VIEW v AS SELECT 1": "spark-pipelines",
    "SYNC SCHEMA a FROM b": "LOCATION",
    "CREATE SHARE s": "sharing server",
}
_SPARKS = [
    "SELEC 1",
    "OPTIMIZE",
    "SELECT optimize FROM t WHERE",
    "VACUUMED t",
    "CREATE TABLE clone (id INT",
    "CREATE TABLE t (clone INT) USIN delta",
    "CREATE TABLE t AS SELECT 1 clone b c",
    "ALTER TABLE t DROP COLUMN feature x y",
    "ALTER TABLE t SET TBLPROPERTIES ('tags' = )",
    "COPY t FROM x",
    "CACHE TABLE t AS SELEC 1",
    "SHOW TABLES LIKE dropped x",
    "INSERT INTO t REPLACE WHERE x = SELECT",
    "RESTORE t",
    "INSERT INTO t REPLACE USING (id) VALUES " + "(1, 'x'), " * 100_000,
    "-- OPTIMIZE t\nSELEC 1",
    "",
]


def _refused(text: str) -> HeadwaterError | None:
    try:
        refuse(text)
    except HeadwaterError as error:
        return error
    return None


@pytest.mark.parametrize("before", ["", "-- why\n/* and how */ ", "EXPLAIN EXTENDED "])
@pytest.mark.parametrize("text", [*_COMING, *_ELSEWHERE])
def test_other_systems_statements_are_answered(before: str, text: str) -> None:
    for spelled in (text, text.lower(), text.replace(" ", "\n\t")):
        error = _refused(before + spelled)
        assert error is not None, spelled
        if text in _COMING:
            assert error.condition == "HEADWATER_STATEMENT_NOT_SUPPORTED"
            if spelled == text:
                assert error.parameters["tableName"] == _COMING[text]
        else:
            assert error.condition == "DELTA_OPERATION_NOT_ALLOWED"
            assert spelled != text or _ELSEWHERE[text] in error.text
        assert "<" not in error.text.replace("<name>", "").replace("<version>", "")


@pytest.mark.parametrize("text", _SPARKS)
def test_mistakes_are_sparks_to_tell(text: str) -> None:
    assert _refused(text) is None
