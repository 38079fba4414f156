"""A table in Hive's metastore, in a process of its own, as Iceberg's readers find it there."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyiceberg")
from pyiceberg.catalog import load_catalog

from headwater import launch
from headwater.iceberg import registration
from headwater.protocol.types import PrimitiveType, StructType
from headwater.transaction import wait_for_maintenance
from support.iceberg_tables import ConvertedTable, normalized
from support.paths import TESTS

pytestmark = pytest.mark.soak
_PROGRAM = TESTS / "support" / "hive" / "LockingMetastore.java"


@pytest.fixture
def metastore(tmp_path: Path) -> Iterator[str]:
    """Its URI."""
    command = ["java", "-cp", str(launch.spark_home() / "jars" / "*"), str(_PROGRAM), str(tmp_path)]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=tmp_path)
    assert process.stdout is not None
    try:
        yield f"thrift://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


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
