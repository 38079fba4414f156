"""Footers, read from a file's end alone."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headwater.stores import LocalStore
from headwater.stores.parquet_footers import read_footer


class Counting(LocalStore):
    """Notes what is read."""

    def __init__(self) -> None:
        self.ranges: list[tuple[int, int]] = []

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        self.ranges.append((offset, length))
        return super().read_range(path, offset, length)


def written(path, columns: int, rows: int) -> int:
    table = pa.table({f"column_{i}": pa.array(range(rows), pa.int64()) for i in range(columns)})
    pq.write_table(table, path)
    return path.stat().st_size


@pytest.mark.parametrize(("columns", "rows", "reads"), [(1, 3, 1), (2, 200_000, 1), (1500, 2, 2)])
def test_the_footer_is_the_files(tmp_path, columns, rows, reads):
    size = written(tmp_path / "f.parquet", columns, rows)
    store = Counting()
    footer = read_footer(store, str(tmp_path / "f.parquet"), size)
    assert footer == pq.read_metadata(tmp_path / "f.parquet")
    assert (footer.num_rows, footer.num_columns) == (rows, columns)
    assert len(store.ranges) == reads
    assert sum(length for _, length in store.ranges) <= (64 << 10) + size


@pytest.mark.parametrize("content", [b"", b"PAR1", b"no Parquet at all" * 10_000, b"\xff\xff\xff\x7fPAR1"])
def test_what_is_not_parquet(tmp_path, content):
    (tmp_path / "f.parquet").write_bytes(content)
    with pytest.raises(pa.ArrowInvalid):
        read_footer(LocalStore(), str(tmp_path / "f.parquet"), len(content))


def test_a_size_the_file_does_not_have(tmp_path):
    size = written(tmp_path / "f.parquet", 1, 3)
    with pytest.raises(pa.ArrowInvalid):
        read_footer(LocalStore(), str(tmp_path / "f.parquet"), size - 5)


def test_no_such_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_footer(LocalStore(), str(tmp_path / "f.parquet"), 100)
