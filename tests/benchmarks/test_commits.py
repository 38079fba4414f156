"""The bench's long tail of commits is one that can be read, and in which a point query concerns one file."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from headwater.log.snapshot import load_snapshot
from headwater.pruning import prune
from headwater.stores import LocalStore
from support.predicate_text import parse_predicate


def test_a_tail_has_a_file_a_commit_and_no_checkpoint(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2]))
    commits = importlib.import_module("bench.commits")
    commits.make_tail(tmp_path / "t", 40)
    snapshot = load_snapshot(str(tmp_path / "t"), LocalStore())
    assert (snapshot.version, snapshot.num_files) == (39, 40)
    assert len(list((tmp_path / "t" / "_delta_log").iterdir())) == 40
    assert snapshot.metadata.configuration["delta.checkpointInterval"] == "1000000"
    assert prune(snapshot, parse_predicate("(id = 717L)")).true_count == 1
