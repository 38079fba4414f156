"""Tables in catalogs of Iceberg, each of which shows what the table has after its commits; and what a catalog that
fails, or an entry of others, comes to.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyiceberg")
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from headwater.basics import counts
from headwater.iceberg import entries, metadata, registration
from headwater.protocol.types import PrimitiveType, StructField, StructType
from headwater.schema.reshaping import rename_column
from headwater.statements.maintenance.health import health
from headwater.statements.maintenance.layouts import Settings
from headwater.transaction import wait_for_maintenance
from support.iceberg_rest import rest_server
from support.iceberg_tables import ConvertedTable, Row, normalized, random_step

SCHEMA = StructType((StructField("id", PrimitiveType("long")), StructField("p", PrimitiveType("string"))))
TOKEN = "a-token-that-nobody-sees"
NAME = "water.north.gauges"
TRAP = """
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table.locations import SimpleLocationProvider

def Trap(*given):
    return PyArrowFileIO(*given) if len(given) == 1 else SimpleLocationProvider(*given)
"""


@pytest.fixture
def behind(tmp_path: Path) -> Iterator[SqlCatalog]:
    """The catalog that a database of SQLite has, seen without Headwater."""
    found = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/lake.db", warehouse=f"file://{tmp_path}/warehouse")
    yield found
    found.close()


@pytest.fixture
def configured(behind: SqlCatalog) -> Iterator[SqlCatalog]:
    """The same, named in the settings of Spark's start."""
    registration.configure({"": "lake", ".type": "sql", ".uri": behind.properties["uri"]})
    yield behind
    assert wait_for_maintenance(60)
    registration.configure({})


def made(
    path: Path, name: str | None = NAME, keys: tuple[str, ...] = (), extra: Mapping[str, str] | None = None
) -> ConvertedTable:
    return ConvertedTable(
        path, SCHEMA, keys, **({} if name is None else {registration.PROPERTY: name}), **(extra or {})
    )


def rows(*ids: int, p: str | None = "a") -> list[Row]:
    return [{"id": number, "p": p} for number in ids]


def entry(catalog: Catalog, name: str = NAME) -> Table:
    assert wait_for_maintenance(60)
    return catalog.load_table(name)


def check(catalog: Catalog, table: ConvertedTable) -> None:
    found = entry(catalog)
    assert normalized(found.scan().to_arrow().to_pylist()) == normalized(table.rows)
    assert found.properties[metadata.DELTA_VERSION] == str(table.snapshot.version)
    assert registration.state_of(str(table.path)) == registration.State(table.snapshot.version)


@pytest.mark.random
def test_a_sql_catalog_shows_each_version(configured: SqlCatalog, tmp_path: Path) -> None:
    seed = random.randrange(1 << 30) if "HEADWATER_TEST_EXAMPLES" in os.environ else 1
    print("seed", seed)
    draw, numbers = random.Random(seed), iter(range(10_000))
    table = made(tmp_path / "a table", keys=("p",))
    for _ in range(8):
        random_step(table, draw, lambda draw: {"id": next(numbers), "p": draw.choice(["a", "b", None])}, ["p"])
        check(configured, table)
    table.redefine(lambda schema: rename_column(schema, ("id",), "new name"))
    found = entry(configured)
    assert [field.name for field in found.schema().fields] == ["new name", "p"]
    assert sorted(found.scan().to_arrow()["new name"].to_pylist()) == sorted(row["id"] for row in table.rows)


def test_a_rest_catalog_shows_each_version(behind: SqlCatalog, tmp_path: Path, caplog: Any) -> None:
    with rest_server(behind, TOKEN) as server:
        registration.configure({"": "far", ".type": "rest", ".uri": server.uri, ".token": TOKEN})
        table = made(tmp_path / "t")
        table.commit([rows(1, 2)])
        check(behind, table)
        table.commit([rows(3)], list(table.files))
        check(behind, table)
        theirs = load_catalog("client", type="rest", uri=server.uri, token=TOKEN)
        assert theirs.load_table(NAME).scan().to_arrow()["id"].to_pylist() == [3]
        # The catalog fails: the commits stand, each reason is logged once, and the next commit makes up for it.
        server.broken = "no database"
        for number in (4, 5):
            table.commit([rows(number)])
            assert wait_for_maintenance(60)
        (said,) = [record.getMessage() for record in caplog.records if "catalog" in record.getMessage()]
        assert f"{table.path}: its entry {NAME} in the Iceberg catalog far" in said
        assert "no database: Bearer ***" in said
        assert TOKEN not in caplog.text
        assert TOKEN not in repr(registration._configured)
        failed = registration.state_of(str(table.path))
        assert (failed.version, "no database" in str(failed.failure)) == (2, True)
        assert entry(behind).properties[metadata.DELTA_VERSION] == "2"
        server.broken = None
        table.commit([rows(6)])
        check(behind, table)
        assert len(entry(behind).snapshots()) == 5
    # Nobody answers.
    table.commit([rows(7)])
    assert wait_for_maintenance(60)
    shown = {fact.name: fact.value for fact in health(table.snapshot, Settings()) if fact.section == "iceberg"}
    assert "ConnectionError" in str(shown.pop("failure"))
    assert shown == {"convertedVersion": 6, "versionsBehind": 0, "catalogEntry": NAME, "registeredVersion": 5}
    registration.configure({})
    found = counts.take()
    assert found is not None
    assert found["counts"]["icebergRegistrations"] >= 3
    assert found["counts"]["icebergRegistrationFailures"] == 3


@pytest.mark.parametrize(
    "name", ["py-io-impl", "write.py-location-provider.impl", "s3.retry-strategy-impl", "py-catalog-impl"]
)
@pytest.mark.parametrize("from_the_first", [True, False])
def test_no_property_of_a_table_or_an_entry_names_code(
    configured: SqlCatalog, tmp_path: Path, monkeypatch: Any, name: str, from_the_first: bool
) -> None:
    """Whoever may change a table must not have the driver import a module."""
    ran = tmp_path / "ran"
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "a_trap.py").write_text(f"open({str(ran)!r}, 'w')\n{TRAP}")
    monkeypatch.syspath_prepend(tmp_path / "modules")
    properties = {f"delta.universalFormat.config.iceberg.{name}": "a_trap.Trap"}
    table = made(tmp_path / "t", extra=properties if from_the_first else {})
    table.commit([rows(1)])
    assert wait_for_maintenance(60)
    if not from_the_first:
        with monkeypatch.context() as unguarded, entry(configured).transaction() as of_a_client:
            unguarded.setattr(entries, "_allowed", {"a_trap.Trap"})
            of_a_client.set_properties(**{name: "a_trap.Trap"})
            of_a_client.commit_transaction()
        ran.unlink(missing_ok=True)
        sys.modules.pop("a_trap", None)
    table.commit([rows(2)])
    assert wait_for_maintenance(60)
    assert not ran.exists()
    if name.startswith(("py-io", "write.")):
        assert "a_trap.Trap" in str(registration.state_of(str(table.path)).failure)


def test_what_names_no_entry_gets_none(configured: SqlCatalog, tmp_path: Path) -> None:
    made(tmp_path / "a", None)
    bad = made(tmp_path / "b", "gauges")
    assert wait_for_maintenance(60)
    assert configured.list_namespaces() == []
    assert "is not namespace.table" in str(registration.state_of(str(bad.path)).failure)


def test_an_entry_of_another_place_is_left(configured: SqlCatalog, tmp_path: Path) -> None:
    first = made(tmp_path / "one")
    first.commit([rows(1)])
    check(configured, first)
    second = made(tmp_path / "two")
    second.commit([rows(2)])
    assert wait_for_maintenance(60)
    failure = str(registration.state_of(str(second.path)).failure)
    assert f"the entry is a table at file://{tmp_path}/one" in failure
    # A copy of the folder is another place, too, though its id is the same.
    shutil.copytree(first.path, tmp_path / "copy")
    copy = made(tmp_path / "three", None)
    copy.path, copy.snapshot = tmp_path / "copy", first.snapshot
    check(configured, first)


def test_an_entry_that_another_writer_changed_is_left(configured: SqlCatalog, tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    table.commit([rows(1)])
    found = entry(configured)
    found.append(found.scan().to_arrow())
    table.commit([rows(2)])
    assert wait_for_maintenance(60)
    assert "another writer has committed" in str(registration.state_of(str(table.path)).failure)
    assert entry(configured).scan().to_arrow()["id"].to_pylist() == [1, 1]
    configured.drop_table(NAME)
    table.commit([rows(3)])
    check(configured, table)


def test_a_table_that_is_made_again_at_its_place(configured: SqlCatalog, tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    table.commit([rows(1)])
    check(configured, table)
    shutil.rmtree(table.path / "_delta_log")
    again = made(tmp_path / "t")
    again.commit([rows(2)])
    check(configured, again)
    # Where its metadata is gone, nobody can say whose the entry is.
    shutil.rmtree(table.path)
    made(tmp_path / "t")
    assert wait_for_maintenance(60)
    assert "the metadata file of the entry does not exist" in str(registration.state_of(str(table.path)).failure)


def test_a_table_whose_snapshots_start_again(configured: SqlCatalog, tmp_path: Path) -> None:
    """Its entry would have two specs and schemas that contradict each other."""
    table = made(tmp_path / "t", keys=("p",))
    table.commit([rows(1)])
    check(configured, table)
    table.replace(StructType((SCHEMA.fields[1], SCHEMA.fields[0])), ["p"])
    table.commit([[{"p": "b", "id": 2}]])
    check(configured, table)
    found = entry(configured)
    assert [len(each) for each in (found.specs(), found.schemas())] == [1, 1]
    # What an Iceberg writer committed is not thrown away.
    found.append(found.scan().to_arrow())
    table.replace(SCHEMA, ["p"])
    assert wait_for_maintenance(60)
    assert "another writer has committed" in str(registration.state_of(str(table.path)).failure)


def test_a_race_for_the_entry(configured: SqlCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(tmp_path / "t")
    table.commit([rows(1)])
    check(configured, table)
    commit_table = SqlCatalog.commit_table

    def late(catalog: SqlCatalog, found: Table, *given: Any) -> Any:
        monkeypatch.setattr(SqlCatalog, "commit_table", commit_table)
        entry_before = catalog.load_table(NAME)
        with entry_before.transaction() as other:
            other.set_properties(of="another")
        return commit_table(catalog, found, *given)

    monkeypatch.setattr(SqlCatalog, "commit_table", late)
    table.commit([rows(2)])
    check(configured, table)
    assert entry(configured).properties["of"] == "another"


def test_old_snapshots_leave_the_entry(configured: SqlCatalog, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(metadata, "_SNAPSHOTS", 2)
    monkeypatch.setattr(metadata, "ANY_SNAPSHOT", 0)
    table = made(tmp_path / "t")
    for number in range(5):
        table.commit([rows(number)])
        check(configured, table)
    assert len(entry(configured).snapshots()) == 2


def test_settings_without_a_name_or_pyiceberg(tmp_path: Path, caplog: Any, monkeypatch: Any) -> None:
    registration.configure({".uri": "sqlite://"})
    assert "spark.headwater.iceberg.catalog is to name the catalog" in caplog.text
    monkeypatch.setitem(__import__("sys").modules, "pyiceberg.catalog", None)
    registration.configure({"": "lake", ".type": "sql", ".uri": "postgresql://me:wordpass@host/db"})
    table = made(tmp_path / "t")
    assert wait_for_maintenance(60)
    assert "headwater[iceberg]" in str(registration.state_of(str(table.path)).failure)
    assert registration._configured is not None
    shown = registration._configured.shown(ValueError("cannot reach postgresql://me:wordpass@host/db, wordpass"))
    assert "wordpass" not in shown
    registration.configure({})
