"""What a catalog's entry says of its table, for tools that read nothing else."""

from __future__ import annotations

from support.sparks.entry_scenarios import entries


def test_the_entry_follows_the_table(spark, tmp_path):
    found = {statement: rest for statement, *rest in entries(spark, str(tmp_path))}
    behind = {}
    for statement, (columns, entry, *_) in found.items():
        if entry != columns:
            behind[statement] = entry
    assert [statement[:30] for statement in behind] == [
        "ALTER TABLE delta.`" + str(tmp_path)[:11],
        "CREATE TABLE g USING delta COM",
        "CREATE TABLE i (x STRUCT<a_lon",
    ]
    assert behind["CREATE TABLE g USING delta COMMENT 'c' AS SELECT 1"] == "struct<>"

    def said(beginning: str) -> list:
        return next(rest[2:] for statement, rest in found.items() if statement.startswith(beginning))

    protocol = {"delta.minReaderVersion": "1", "delta.minWriterVersion": "2"}
    assert said("CREATE TABLE e") == ["Some(first)", {"x": "y", **protocol}, "0"]
    assert said("INSERT INTO e VALUES") == said("CREATE TABLE e")  # nothing was changed
    assert said("COMMENT ON") == ["Some(second)", {"x": "y", **protocol}, "4"]
    assert said("ALTER TABLE e UNSET") == ["Some(second)", protocol, "5"]
    assert said("ALTER TABLE e SET")[1]["delta.columnMapping.mode"] == "name"
    assert said("RESTORE")[0] == "Some(first)"
    assert said("CREATE OR REPLACE")[0] == "None"
    assert said("INSERT INTO e (d)") == said("CREATE OR REPLACE")  # another mark of the identity column
    assert said("CREATE TABLE g") == ["Some(c)", {}, None]
    assert said("DELETE FROM g")[:2] == ["Some(c)", protocol]
    assert said("ALTER TABLE g SET")[0] == "Some(moved)"
    assert said("CREATE TABLE i")[1]["delta.catalogUpdateError"] == "The type of column x has 5897 characters."


def test_a_new_table_is_loaded_once(spark):
    """For its entry, and not again for Spark, which asks for nothing more."""
    calls = spark._jvm.org.apache.spark.sql.headwater.bridge.HandlerMetrics.metricRegistry().timer("calls")
    before = calls.getCount()
    spark.sql("CREATE TABLE loaded_once (id BIGINT) USING delta")
    assert calls.getCount() - before == 2  # with the commit
