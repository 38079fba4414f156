"""The bench's log of many files is one that can be read, and in which a point query concerns one file."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from headwater.log.snapshot import load_snapshot
from headwater.pruning import prune
from headwater.stores import LocalStore
from support.predicate_text import parse_predicate

_SOURCE = Path(__file__).resolve().parents[2] / "bench" / "big_log.py"


@pytest.fixture(scope="module")
def big_log():
    spec = importlib.util.spec_from_file_location("bench_big_log", _SOURCE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_a_point_query_concerns_one_file(big_log, tmp_path):
    big_log.make(tmp_path / "t", 1000)
    snapshot = load_snapshot(str(tmp_path / "t"), LocalStore())
    assert snapshot.num_files == 1000
    kept = prune(snapshot, parse_predicate(f"(id = {7 * big_log.ROWS_PER_FILE + 17}L)"))
    paths = snapshot.select(["path"]).filter(kept)["path"].to_pylist()
    big_log.touch(tmp_path / "t", 7)
    assert [tmp_path / "t" / path for path in paths] == list((tmp_path / "t").glob("*.parquet"))


def test_a_copy_is_the_same_table_elsewhere(big_log, tmp_path):
    big_log.make(tmp_path / "t", 10)
    big_log.copy_of(tmp_path / "t", tmp_path / "copy")
    snapshot = load_snapshot(str(tmp_path / "copy"), LocalStore())
    assert (snapshot.version, snapshot.num_files) == (10, 10)
