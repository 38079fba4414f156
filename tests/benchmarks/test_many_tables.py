"""The bench's many small tables are tables, each one of its own."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pyarrow.parquet as pq
import pytest

from headwater.log.snapshot import load_snapshot
from headwater.pruning import prune
from headwater.stores import LocalStore
from support.paths import ROOT
from support.predicate_text import parse_predicate


@pytest.fixture
def many_tables(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("bench.many_tables")


def test_each_has_an_id_ten_files_and_ten_commits(many_tables: ModuleType, tmp_path: Path) -> None:
    paths = many_tables.make(tmp_path / "many", 3)
    snapshots = [load_snapshot(str(path), LocalStore()) for path in paths]
    assert len({snapshot.metadata.id for snapshot in snapshots}) == 3
    for path, snapshot in zip(paths, snapshots, strict=True):
        assert (snapshot.version, snapshot.num_files) == (10, 10)
        sizes = {row["path"]: row["size"] for row in snapshot.files.select(["path", "size"]).to_pylist()}
        assert sizes == {file.name: file.stat().st_size for file in path.glob("*.parquet")}
        assert sum(pq.read_metadata(path / name).num_rows for name in sizes) == 100
        kept = prune(snapshot, parse_predicate("(id = 37L)"))
        assert snapshot.select(["path"]).filter(kept).num_rows == 1


def test_the_handlers_part_is_measured_without_spark(
    many_tables: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    # One of them asks whose table a checkpoint is of, as it is younger than a minute.
    for checkpoints, opened in ((False, 13), (True, 4)):
        many_tables.main(20, checkpoints=checkpoints)
        said = capsys.readouterr().out
        assert f"{opened:.2f} requests a table" in said.splitlines()[0]
        assert "1.00 requests a table" in said.splitlines()[1]
        assert " 0 files open" in said
