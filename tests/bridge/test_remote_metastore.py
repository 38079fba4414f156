"""A metastore of Hive's in a process of its own, as clusters have one, and two Sparks that share its tables."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.hive.metastore import metastore
from support.sparks.running import is_alive, wait_for
from support.sparks.thrift_clients import Clients, clients_of

pytestmark = [pytest.mark.spark, pytest.mark.soak, pytest.mark.timeout(900)]


@pytest.fixture(scope="module", name="metastore")
def _metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Its URI."""
    with metastore(tmp_path_factory.mktemp("metastore")) as uri:
        yield uri


@pytest.fixture(scope="module")
def settings(metastore: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    warehouse = tmp_path_factory.mktemp("warehouse")
    return {
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.hive.metastore.uris": metastore,
        "spark.sql.warehouse.dir": str(warehouse),
    }


@pytest.fixture(scope="module")
def driver(sparks: Any, settings: dict[str, str]) -> Any:
    return sparks.driver(settings=settings)


@pytest.fixture(scope="module")
def client(sparks: Any, settings: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clients]:
    """A client of a Thrift server that has the same metastore."""
    server = sparks.server("thrift-server", settings=settings)
    with clients_of(server.port, tmp_path_factory.mktemp("clients") / "log") as started:
        started("open", "one")
        yield started


def test_two_sparks_share_tables(driver: Any, client: Clients, settings: dict[str, str]) -> None:
    def run(text: str) -> list[str]:
        return client("run", "one", text)

    driver.rows("CREATE DATABASE shared")
    driver.rows(
        "CREATE TABLE shared.t (id BIGINT COMMENT 'key', v STRING) USING delta PARTITIONED BY (v) COMMENT 'ours'"
    )
    run("INSERT INTO shared.t SELECT id, 'new' FROM range(10)")
    driver.rows("ALTER TABLE shared.t ADD COLUMNS (w STRUCT<x: INT> COMMENT 'more')")
    assert run("UPDATE shared.t SET w = named_struct('x', 1) WHERE id < 5") == ["5"]
    assert driver.rows("DELETE FROM shared.t WHERE id > 7") == [[2]]
    assert run(
        "MERGE INTO shared.t USING (SELECT 100 AS id) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)"
    )
    assert driver.rows("SELECT count(*), sum(id), count(w) FROM shared.t") == [[9, 128, 5]]
    assert run("DESCRIBE shared.t")[:3] == ["id", "v", "w"]
    run("ALTER TABLE shared.t RENAME TO shared.u")
    assert driver.rows("SHOW TABLES IN shared") == [["shared", "u", False]]
    driver.rows("CREATE OR REPLACE TABLE shared.u (other INT) USING delta")
    driver.rows("INSERT INTO shared.u VALUES (1)")
    assert run("SELECT other FROM shared.u") == ["1"]
    assert driver.rows("SHOW TBLPROPERTIES shared.u ('delta.minReaderVersion')")[0][1] == "1"
    run("DROP TABLE shared.u")
    gone = driver.sql("SELECT * FROM shared.u")
    assert gone["condition"] == "TABLE_OR_VIEW_NOT_FOUND"
    assert not (Path(settings["spark.sql.warehouse.dir"]) / "shared.db" / "u").exists()
    driver.rows("DROP DATABASE shared")


def test_entries_follow_their_tables(driver: Any, tmp_path: Path) -> None:
    """As in a metastore within Spark, but for the same four statements."""
    found = driver.run("entries", home=str(tmp_path))
    behind = [statement[:17] for statement, columns, said, *_ in found if said != columns]
    assert behind == ["ALTER TABLE delta", "CREATE TABLE g US", "CREATE TABLE i (x", "CREATE TABLE k (`"]


def test_a_table_gets_its_name_after_a_crash_between_commit_and_entry(sparks: Any, settings: dict[str, str]) -> None:
    """A transaction that creates a table is decided, and then its handler dies, or its whole Spark."""
    first = sparks.driver(settings=settings)
    first.rows("CREATE TABLE sums (n BIGINT) USING delta")

    def transact(name: str) -> None:
        first.rows("BEGIN TRANSACTION")
        first.rows(f"CREATE TABLE {name} USING delta AS SELECT id FROM range(5)")
        first.rows(f"INSERT INTO sums SELECT sum(id) FROM {name}")

    transact("by_recovery")
    first.faults.kill_at("before_entry")
    handler = first.handler
    assert first.rows("COMMIT") == []
    assert first.faults.happened("before_entry")
    assert first.handler != handler
    assert first.rows("SELECT count(*) FROM by_recovery") == [[5]]
    assert first.rows("SELECT * FROM sums") == [[10]]

    transact("by_hand")
    with first.faults.hold_at("before_entry") as is_there:
        first.ask("sql", text="COMMIT")
        wait_for(is_there, 60, "COMMIT to have decided")
        handler = first.handler
        os.kill(first.jvm, signal.SIGKILL)
        wait_for(lambda: not is_alive(handler), 60, "the handler's end after its JVM's")
    first.stop()
    second = sparks.driver(settings=settings)
    assert second.rows("SELECT * FROM sums") == [[10], [10]]
    assert second.sql("SELECT * FROM by_hand")["condition"] == "TABLE_OR_VIEW_NOT_FOUND"
    assert second.rows("SELECT count(*) FROM by_recovery") == [[5]]
    # Whoever runs it again learns that the table is there.
    second.rows("BEGIN TRANSACTION")
    again = second.sql("CREATE TABLE by_hand USING delta AS SELECT id FROM range(5)")
    assert again["condition"] == "HEADWATER_NOT_IN_TRANSACTION"
    there = re.search(r"the table at (\S+/by_hand),", again["text"])
    assert there is not None
    second.rows("ROLLBACK")
    second.rows(f"CREATE TABLE by_hand USING delta LOCATION '{there[1]}'")
    assert second.rows("SELECT count(*) FROM by_hand") == [[5]]


def test_columns_are_listed(driver: Any, client: Clients) -> None:
    """What JDBC's ``getColumns`` and ODBC's ``SQLColumns`` ask a Thrift server for."""
    driver.rows("CREATE TABLE listed (id BIGINT NOT NULL COMMENT 'key', v STRING, d DECIMAL(10, 2)) USING delta")
    assert client("columns", "one", "listed") == ["id BIGINT key", "v STRING ", "d DECIMAL(10,2) "]
    client("run", "one", "ALTER TABLE listed ADD COLUMNS (t TIMESTAMP COMMENT 'since')")
    assert client("columns", "one", "listed")[3:] == ["t TIMESTAMP since"]
    driver.rows("DROP TABLE listed")
