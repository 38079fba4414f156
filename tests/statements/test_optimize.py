"""OPTIMIZE and REORG without Spark: the tables that they refuse before they choose or write anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headwater.errors import HeadwaterError
from headwater.stores import LocalStore
from headwater.transaction import wait_for_maintenance
from support.commits import create
from support.requests import called


def run(kind: str, path: Path, statement) -> None:
    called(kind)({"table": str(path), "name": "t", "arguments": {}}, statement)


@pytest.mark.parametrize("kind", ["optimize", "reorg"])
@pytest.mark.parametrize(
    ("reader", "writer", "condition"),
    [
        (["catalogManaged"], ["catalogManaged", "inCommitTimestamp"], "DELTA_UNSUPPORTED_FEATURES_FOR_READ"),
        ([], ["coordinatedCommits-preview", "inCommitTimestamp"], "DELTA_UNSUPPORTED_FEATURES_FOR_WRITE"),
    ],
)
def test_tables_that_a_catalog_manages(kind, reader, writer, condition, tmp_path, statement) -> None:
    create(str(tmp_path / "t"))
    assert wait_for_maintenance(60)  # it writes the checksum that goes with the commit
    log = tmp_path / "t" / "_delta_log" / f"{0:020}.json"
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": reader, "writerFeatures": writer}
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    log.write_text("\n".join(json.dumps({"protocol": protocol} if "protocol" in line else line) for line in lines))
    for file in log.parent.glob("*.crc"):
        file.unlink()
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
