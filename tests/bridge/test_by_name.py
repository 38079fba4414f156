"""Statements by name do the same with either catalog, in-memory or Hive's metastore, and from either kind of client."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.sparks.running import Driver, Sparks, free_port

pytestmark = pytest.mark.spark


def _hive(sparks: Sparks, home: Path) -> tuple[Driver, Driver]:
    """A Spark with a metastore of its own, which is a Spark Connect server too; and a client of that."""
    port = free_port()
    classic = sparks.driver(
        settings={
            "spark.sql.catalogImplementation": "hive",
            "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={home}/metastore;create=true",
            "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(port),
        }
    )
    return classic, sparks.driver("connect", url=f"sc://127.0.0.1:{port}")


def test_statements_by_name(sparks: Sparks, tmp_path: Path) -> None:
    """Hive's metastore and a plain client; all of tests/spark has the in-memory catalog and a session of its own."""
    hive, hive_connect = _hive(sparks, tmp_path)
    _check(hive_connect.run("by_name", home=str(tmp_path / "hive_connect")))
    _entries_of_hive(hive, tmp_path, brief=True)
    hive.stop()


@pytest.mark.soak  # the usual run has the catalog and the client that nothing else has
def test_statements_by_name_everywhere(classic: Driver, connect: Driver, sparks: Sparks, tmp_path: Path) -> None:
    hive, hive_connect = _hive(sparks, tmp_path)
    expected = classic.run("by_name", home=str(tmp_path / "classic"))
    _compare(connect.run("by_name", home=str(tmp_path / "connect")), expected)
    _compare(hive.run("by_name", home=str(tmp_path / "hive")), expected)
    _compare(hive_connect.run("by_name", home=str(tmp_path / "hive_connect")), expected)
    _entries_of_hive(hive, tmp_path, brief=False)
    hive.stop()


def _compare(answered: list[Any], expected: list[Any]) -> None:
    differing = [pair for pair in zip(answered, expected, strict=True) if pair[0] != pair[1]]
    assert not differing, differing[:3]


def _check(expected: list[Any]) -> None:
    found = dict(expected)
    (row,) = found["SHOW TABLE EXTENDED LIKE 't'"]
    assert "Statistics: n bytes, 3 rows" in row[3]
    for line in (" |-- w: string (nullable = true)", "Partition Columns: [`p`]", "Comment: a table", "Provider: delta"):
        assert line in row[3]
    assert ["Statistics", "n bytes, 3 rows", None] in found["DESCRIBE EXTENDED t"]
    assert found["feed"][0] == [1, "delete"]
    assert found["merge"] == [[2, 1, 0, 1]]
    assert "collate" not in found["text"][0].lower()
    assert found["existing"] == [4, "Table spark_catalog.names.existing does not have property: path"]
    assert found["of Hive"] == [[1], [1]]
    assert found["SELECT * FROM cv ORDER BY Id"] == [[1, "2020-01-05"], [3, "2020-01-06"]]
    assert found["SHOW PARTITIONS cp"] == [["d=2020-01-05"], ["d=2020-01-06"]]
    assert found["SELECT * FROM hv ORDER BY id"] == [[1], [2]]
    assert ["Provider", "delta", ""] in found["DESCRIBE EXTENDED hv"]
    assert found["SELECT * FROM f"] == [[5]]
    assert "LOCATION 'file:HOME/else where'" in found["SHOW CREATE TABLE f"][0][0]
    assert found["left there"] == 2
    assert found["DELETE FROM nowhere WHERE k = 1"] == "TABLE_OR_VIEW_NOT_FOUND"
    assert [name for name, result in expected if isinstance(result, str)] == [
        "INSERT INTO t VALUES (100, 'x', 0)",
        "DELETE FROM nowhere WHERE k = 1",
        "CONVERT TO DELTA cv",
        "CONVERT TO DELTA cp PARTITIONED BY (d INT)",
        "CREATE OR REPLACE TABLE l USING delta LOCATION 'HOME/else where' AS SELECT 6 AS id",
        "CREATE OR REPLACE TABLE o (b INT) USING delta LOCATION 'HOME/else where'",
    ]


def _entries_of_hive(hive: Driver, home: Path, brief: bool) -> None:
    """Hive's metastore has the columns of each table that it can have, and a warning where it refuses an update.

    In brief: statements of each kind; tests/spark/test_metastore_entries.py has all of them with another catalog.
    """
    found = {statement: rest for statement, *rest in hive.run("entries", home=str(home / "hive"), brief=brief)}
    behind = {statement: said for statement, (columns, said, *_) in found.items() if said != columns}
    assert [statement[:17] for statement in behind] == [
        "ALTER TABLE delta",
        *([] if brief else ["CREATE TABLE g US"]),
        "CREATE TABLE i (x",
        "CREATE TABLE k (`",
    ]
    assert "characters" in found["CREATE TABLE k (`日` INT) USING delta"][3]["delta.catalogUpdateError"]
    assert hive.run("refused", home=str(home / "hive")) == [40000, "Some(short)"]
    assert hive.log.count("entry of spark_catalog.default.r was not brought up to date") == 1
