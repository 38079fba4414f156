"""DESCRIBE HEALTH through Spark, beside the command."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from headwater.cli import main as cli


def test_the_statement_and_the_command_agree(spark, tmp_path, database, fails):
    path = tmp_path / "a t"
    spark.sql(
        f"CREATE TABLE t (id INT, d DECIMAL(6, 2), s STRUCT<ts: TIMESTAMP>) USING delta LOCATION '{path}' "
        "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    )
    for start in (0, 10, 20):
        row = "CAST(id AS INT), CAST(id / 4 AS DECIMAL(6, 2)), named_struct('ts', timestamp_seconds(1600000000 + id))"
        spark.sql(f"INSERT INTO t SELECT {row} FROM range({start}, {start + 10}, 1, 1)")
    spark.sql("DELETE FROM t WHERE id = 5")
    shown = spark.sql("DESCRIBE HEALTH t")
    assert shown.columns == ["section", "subject", "name", "value"]
    values = {tuple(row)[:3]: row.value for row in shown.collect()}
    wanted = ["id = 5", "d < 5.25", "s.ts >= TIMESTAMP'2020-09-13 12:27:00'"]
    conditions = [word for text in wanted for word in ("--where", text)]
    printed = CliRunner().invoke(cli.app, ["health", str(path), "--json", *conditions], catch_exceptions=False)
    found = json.loads(printed.stdout)
    for section, name, value in (
        ("files", "smallFiles", 3),
        ("rows", "rows", 29),
        ("rows", "deletedRows", 1),
        ("optimize", "filesRemoved", 3),
        ("optimize", "filesAdded", 1),
        ("vacuum", "filesDeleted", 0),
        ("table", "version", 4),
    ):
        assert (values[section, None, name], found[section][name]) == (str(value), value)
    for column in ("id", "d", "s.ts"):
        assert (values["depth", column, "average"], found["depth"][column]["average"]) == ("1.00", 1.0)
    skipping = [found["skipping"][text] for text in wanted]
    assert [each["filesRead"] for each in skipping] == [1, 3, 1]
    assert not any(each["notUnderstood"] for each in skipping)
    by_path = {tuple(row) for row in spark.sql(f"DESC HEALTH delta.`{path}`").collect()}
    assert ("rows", None, "rows", "29") in by_path
    with fails("TABLE_OR_VIEW_NOT_FOUND", state="42P01"):
        spark.sql("DESCRIBE HEALTH nothing").collect()
