"""Iceberg compatibility beside the peer: each writes tables of the other, and both give the same ids."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder

COLUMNS = {
    1: "a INT, s STRUCT<x: INT>, p STRING",
    2: "a INT, s ARRAY<MAP<INT, STRUCT<x: ARRAY<INT>>>>, p STRING",
    3: "a INT, s ARRAY<MAP<INT, STRUCT<x: ARRAY<INT>>>>, p STRING",
}
VALUES = {
    1: "named_struct('x', 1)",
    2: "array(map(1, named_struct('x', array(2))))",
    3: "array(map(1, named_struct('x', array(2))))",
}


def ids_and_tags(path):
    """The newest schema without physical names, the sorted ids in each file, and each file's tags."""
    commits = sorted((Path(path) / "_delta_log").glob("*.json"))
    lines = [json.loads(line) for commit in commits for line in commit.read_text().splitlines()]
    metadata = [line["metaData"] for line in lines if "metaData" in line][-1]
    adds = [line["add"] for line in lines if "add" in line]
    files = [str(pq.ParquetFile(Path(path) / add["path"]).schema).split("{", 1)[1] for add in adds]
    ids = [sorted(int(part.split()[0]) for part in file.split("field_id=")[1:]) for file in files]
    return without_names(json.loads(metadata["schemaString"])), ids, [add.get("tags") for add in adds]


def without_names(kind):
    """A schema with its ids, and physical names cut off."""
    if isinstance(kind, list):
        return [without_names(each) for each in kind]
    if not isinstance(kind, dict):
        return kind
    plain = {key: without_names(value) for key, value in kind.items() if not key.endswith(".physicalName")}
    if "delta.columnMapping.nested.ids" in plain:
        nested = plain.pop("delta.columnMapping.nested.ids")
        if nested:  # the peer writes an empty one for each other column
            plain["nested"] = sorted((key.split(".")[1:], value) for key, value in nested.items())
    return plain


# Version 3 asks for what the others do, and for row ids.
@pytest.mark.parametrize("version", [*(pytest.param(version, marks=pytest.mark.soak) for version in (1, 2)), 3])
def test_each_writes_tables_of_the_other(spark, peer, ours, tmp_path, version):
    found = {}
    for name, create, other in (("ours", spark.sql, peer.sql), ("theirs", peer.sql, spark.sql)):
        path = tmp_path / name
        t = f"delta.`{path}`"
        create(
            f"CREATE TABLE {t} ({COLUMNS[version]}) USING delta PARTITIONED BY (p) "
            f"TBLPROPERTIES ('delta.enableIcebergCompatV{version}' = 'true')"
        )
        create(f"INSERT INTO {t} SELECT 1, {VALUES[version]}, 'x'")
        other(f"INSERT INTO {t} SELECT 2, {VALUES[version]}, 'y'")
        if version > 1:
            other(f"ALTER TABLE {t} ADD COLUMNS (n MAP<INT, ARRAY<INT>>)")
        other(f"UPDATE {t} SET a = 10 WHERE a = 1")
        row_id = ", _metadata.row_id" if version == 3 else ""
        assert ours(path, f"*{row_id}") == peer.table(path, f"*{row_id}")
        assert ours(path, "a, p") == [[10, "x"], [2, "y"]]
        if version == 2:
            rows = QueryBuilder().register("t", DeltaTable(str(path))).execute("SELECT a FROM t").read_all()
            assert sorted(rows["a"].to_pylist()) == [2, 10]
        found[name] = ids_and_tags(path)
    assert found["ours"] == found["theirs"]
