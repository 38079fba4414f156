"""Of which files it is told that a dictionary was tried."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq

from headwater.statements.dml.encodings import writer_options
from headwater.stores import LocalStore


def attempt(path):
    snapshot = SimpleNamespace(store=LocalStore(), table_path=str(path))
    return SimpleNamespace(snapshot=snapshot, request=SimpleNamespace(message=SimpleNamespace(source=1)))


def files(**sizes):
    return pa.table({"path": list(sizes), "size": list(sizes.values())})


def test_writers_that_may_have_been_told_to_write_none(tmp_path):
    pq.write_table(pa.table({"id": range(50_000)}), tmp_path / "f", use_dictionary=False)
    assert writer_options(attempt(tmp_path), files(f=(tmp_path / "f").stat().st_size)) == {}


def test_files_that_cannot_be_read(tmp_path):
    assert writer_options(attempt(tmp_path), files(absent=1 << 20)) == {}
    (tmp_path / "broken").write_bytes(b"x" * (1 << 20))
    assert writer_options(attempt(tmp_path), files(small=1, broken=1 << 20)) == {}


def test_no_files(tmp_path):
    assert writer_options(attempt(tmp_path), files(f=1 << 20).slice(0, 0)) == {}
