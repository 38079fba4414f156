"""delta-rs gives a table that it creates again another id, in the same log: its checkpoints are still the table's."""

from __future__ import annotations

import logging

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from headwater.log.snapshot import load_snapshot
from headwater.stores import LocalStore


@pytest.mark.parametrize("creations", [1, 2])
def test_a_checkpoint_with_the_newer_id_is_read(creations: int, tmp_path, caplog) -> None:
    path = str(tmp_path / "table")
    columns = pa.schema([("a", pa.int64())])
    write_deltalake(path, pa.table({"a": [1]}))
    for _ in range(creations):
        before = DeltaTable(path).metadata().id
        DeltaTable.create(path, columns, mode="overwrite")
        assert DeltaTable(path).metadata().id != before
    write_deltalake(path, pa.table({"a": [2]}), mode="append")
    DeltaTable(path).create_checkpoint()
    with caplog.at_level(logging.WARNING):
        snapshot = load_snapshot(path, LocalStore())
    assert snapshot.segment.checkpoint is not None
    assert snapshot.num_files == 1
    assert caplog.text == ""
