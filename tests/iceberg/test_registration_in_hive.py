"""A table in Hive's metastore, in a process of its own, as Iceberg's readers find it there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyiceberg")
from pyiceberg.catalog import load_catalog

from headwater.iceberg import registration
from headwater.protocol.types import PrimitiveType, StructType
from headwater.transaction import wait_for_maintenance
from support.hive.metastore import metastore
from support.iceberg_tables import ConvertedTable, normalized

pytestmark = pytest.mark.soak


@pytest.fixture(name="metastore")
def _metastore(tmp_path: Path) -> Iterator[str]:
    """Its URI."""
    with metastore(tmp_path) as uri:
        yield uri


def test_hives_metastore_shows_each_version(metastore: str, tmp_path: Path) -> None:
    registration.configure({"": "hive", ".type": "hive", ".uri": metastore})
    schema = StructType.of(id=PrimitiveType("long"), p=PrimitiveType("string"))
    table = ConvertedTable(tmp_path / "t", schema, **{registration.PROPERTY: "water.gauges"})
    for number in range(4):
        table.commit([[{"id": number, "p": "a"}]], list(table.files)[: number % 2])
        assert wait_for_maintenance(120)
        assert registration.state_of(str(table.path)) == registration.State(table.snapshot.version)
        entry = load_catalog("reader", type="hive", uri=metastore).load_table("water.gauges")
        assert normalized(entry.scan().to_arrow().to_pylist()) == normalized(table.rows)
    registration.configure({})
