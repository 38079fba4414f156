"""OPTIMIZE and REORG without Spark: the tables that they refuse before they choose or write anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.basics.errors import HeadwaterError
from headwater.stores import LocalStore
from support.commits import create, edit_log
from support.requests import called, create_request, schema_json


def run(kind: str, path: Path, statement) -> None:
    called(kind)({"table": str(path), "name": "t", "arguments": {}}, statement)


@pytest.mark.parametrize("kind", ["optimize", "reorg"])
@pytest.mark.parametrize(
    ("reader", "writer", "condition"),
    [
        (
            ["catalogManaged"],
            ["catalogManaged", "inCommitTimestamp"],
            "DELTA_PATH_BASED_ACCESS_TO_CATALOG_MANAGED_TABLE_BLOCKED",
        ),
        ([], ["coordinatedCommits-preview", "inCommitTimestamp"], "DELTA_UNSUPPORTED_FEATURES_FOR_WRITE"),
    ],
)
def test_tables_that_a_catalog_manages(kind, reader, writer, condition, tmp_path, statement) -> None:
    create(str(tmp_path / "t"))
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": reader, "writerFeatures": writer}
    edit_log(tmp_path / "t", lambda line: line.update(protocol=protocol) if "protocol" in line else None)
    with pytest.raises(HeadwaterError) as raised:
        run(kind, tmp_path / "t", statement)
    assert raised.value.condition == condition


@pytest.mark.parametrize("kind", ["optimize", "reorg"])
def test_a_table_that_may_not_be_written_to(kind, tmp_path, statement, monkeypatch) -> None:
    create(str(tmp_path / "t"))
    run(kind, tmp_path / "t", statement)

    def refuse(store: LocalStore, path: str) -> None:
        raise PermissionError(13, "the directory may not be written to", path)

    monkeypatch.setattr(LocalStore, "check_writable", refuse)
    with pytest.raises(PermissionError):
        run(kind, tmp_path / "t", statement)


@pytest.mark.parametrize(
    ("properties", "columns"),
    [
        ({}, 3),
        ({"delta.dataSkippingNumIndexedCols": "2"}, 2),
        ({"delta.dataSkippingNumIndexedCols": "-1"}, 3),
        ({"delta.dataSkippingStatsColumns": "b", "delta.dataSkippingNumIndexedCols": "2"}, 1),
    ],
)
def test_it_says_how_many_columns_have_statistics(properties, columns, tmp_path, statement) -> None:
    schema = schema_json(a="long", b="long", c="long")
    called("create_table")(create_request(tmp_path, schema, properties=properties), statement)
    answer = called("optimize")({"table": str(tmp_path), "name": "t", "arguments": {}}, statement)
    metrics = answer["rows"][0]["metrics"]
    assert (metrics["numTableColumns"], metrics["numTableColumnsWithStats"]) == (3, columns)
