"""Tables in file systems of pyarrow: read without a JVM, and never written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

from headwater import changelog
from headwater.basics.errors import HeadwaterError
from headwater.log import deletion_vectors
from headwater.stores import LocalStore
from headwater.stores.arrow import ArrowStore
from support.commits import write_log

SCHEMA = {
    "type": "struct",
    "fields": [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in (("a", "long"), ("p", "string"))],
}
FEATURES = ["deletionVectors"]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Rows in a folder of odd characters, half of them deleted by a vector in a file."""
    home = tmp_path / "a table, 100%"
    (home / "p=x%2Fy").mkdir(parents=True)
    pq.write_table(pa.table({"a": range(6)}), home / "p=x%2Fy/1.parquet")
    size = (home / "p=x%2Fy/1.parquet").stat().st_size
    add = {"path": "p=x%252Fy/1.parquet", "size": size, "partitionValues": {"p": "x/y"}, "modificationTime": 1}
    add["dataChange"] = True
    vector = deletion_vectors.write_file([BitMap64([1, 3, 5])], str(home), LocalStore())[0].to_json()
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": FEATURES}
    metadata = {"id": "i", "format": {"provider": "parquet", "options": {}}, "schemaString": json.dumps(SCHEMA)}
    metadata |= {"partitionColumns": ["p"], "configuration": {"delta.enableChangeDataFeed": "true"}}
    commits: list[list[dict[str, Any]]] = [
        [{"protocol": {**protocol, "writerFeatures": [*FEATURES, "changeDataFeed"]}}, {"metaData": metadata}],
        [{"add": add}],
        [{"remove": add}, {"add": {**add, "deletionVector": vector}}],
    ]
    write_log(home, *commits)
    return home


EXPECTED = [*(("+I", a, "x/y") for a in range(6)), *(("-D", a, "x/y") for a in (1, 3, 5))]


def rows(path: str, **options: Any) -> list[tuple[Any, ...]]:
    read = changelog.read(path, starting_version=1, columns=["_row_kind", "a", "p"], **options)
    return [tuple(row.values()) for row in read.read_all().to_pylist()]


def test_local_and_below_another(table: Path) -> None:
    assert rows(str(table)) == EXPECTED
    assert rows(str(table), filesystem=pafs.LocalFileSystem()) == EXPECTED
    below = pafs.SubTreeFileSystem(str(table.parent), pafs.LocalFileSystem())
    for path in (table.name, f"{table.name}/", f"any://{table.name}"):
        assert rows(path, filesystem=below) == EXPECTED
    with pytest.raises(HeadwaterError) as caught:
        rows("nothing", filesystem=below)
    assert caught.value.condition == "DELTA_TABLE_NOT_FOUND"


def test_s3(table: Path, s3: Any) -> None:
    keys = {"access_key": "any", "secret_key": "any", "region": "us-east-1", "scheme": "http"}
    files = pafs.S3FileSystem(**keys, endpoint_override=f"127.0.0.1:{s3.port}")
    pafs.copy_files(str(table.parent), s3.bucket, pafs.LocalFileSystem(), files)
    assert rows(f"s3://{s3.bucket}/{table.name}", filesystem=files) == EXPECTED


def test_nothing_is_written(tmp_path: Path) -> None:
    store = ArrowStore(pafs.LocalFileSystem())
    path = store.uri(str(tmp_path / "file"))
    for write in (lambda: store.put(path, b""), lambda: store.put_if_absent(path, b""), lambda: store.delete(path)):
        with pytest.raises(OSError, match="only reads"):
            write()
    with pytest.raises(FileNotFoundError):
        store.read(str(tmp_path / "file"))
    with pytest.raises(HeadwaterError) as caught:
        store.check_writable(path)
    assert caught.value.condition == "DELTA_UNSUPPORTED_STORE_FOR_WRITE"
