"""Files of a table as another names them: every path leads to the same file, wherever either table is."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyroaring import BitMap64

from headwater.log import deletion_vectors
from headwater.log.deletion_vectors import absolute_location
from headwater.log.files import FILE_SCHEMA, table_of, vector_of
from headwater.log.files_elsewhere import lie_elsewhere, named_absolutely
from headwater.protocol.actions import DeletionVector
from headwater.protocol.partition_paths import encode_path
from headwater.stores import LocalStore, absolute_path
from support.inline_vectors import inline

PATHS = [
    "a.parquet",
    "p=a%20b%2525/x%2Fy.parquet",
    "p=ü/%23.parquet",
    "file:/other/a%20b.parquet",
    "file:///other/a.parquet",
    "/root/a%20b.parquet",
    "s3a://bucket/a%20b.parquet",
]


@pytest.mark.parametrize("base", ["/t", "/a b/50%25/ü#?+", "s3a://b/a b%", "hdfs://host:9000/x y"])
def test_a_clone_reads_the_files_of_its_source(base):
    shared = DeletionVector(deletion_vectors.RELATIVE, "ab^-aqEH.-t@S}K{vb[*k^", 40, 2, 1)
    absolute = DeletionVector(deletion_vectors.ABSOLUTE, "file:/other/v%20w.bin", 40, 2, 1)
    rooted = DeletionVector(deletion_vectors.ABSOLUTE, "/other/v%20w.bin", 40, 2, None)
    vectors = [None, shared, shared, absolute, rooted, inline(BitMap64([3])), None]
    files = table_of([_add(path, vector) for path, vector in zip(PATHS, vectors, strict=True)], FILE_SCHEMA)
    there = named_absolutely(files, base)
    for other in ("/clone", "s3a://elsewhere/clone"):
        for before, after, vector in zip(files.to_pylist(), there.to_pylist(), vectors, strict=True):
            found, wanted = absolute_path(other, after["path"]), absolute_path(base, before["path"])
            assert found == wanted
            assert {k: v for k, v in after.items() if k in ("stats", "tags", "size")} == {
                k: v for k, v in before.items() if k in ("stats", "tags", "size")
            }
            assert (after["base_row_id"], after["default_row_commit_version"]) == (None, None)
            named = vector_of(after["deletion_vector"])
            if vector is None or vector.storage_type == deletion_vectors.INLINE:
                assert named == vector
            else:
                assert named is not None
                assert absolute_location(named, other) == absolute_location(vector, base)
                assert (named.size, named.cardinality, named.offset) == (vector.size, vector.cardinality, vector.offset)
    # What has been named absolutely is not named otherwise by the clone of a clone.
    assert named_absolutely(there, "/clone").equals(there)


def _add(path, vector):
    action = {"path": path, "size": 7, "modificationTime": 3, "stats": '{"numRecords":3}', "tags": {"a": "b"}}
    action |= {"partitionValues": {"p": "x"}, "baseRowId": 4, "defaultRowCommitVersion": 2}
    return action | ({} if vector is None else {"deletionVector": vector.to_json()})


def test_a_vector_is_read_where_it_lies(tmp_path):
    table = tmp_path / "a b%"
    table.mkdir()
    (vector,) = deletion_vectors.write_file([BitMap64([1, 5])], str(table), LocalStore())
    there = named_absolutely(table_of([_add("x", vector)], FILE_SCHEMA), str(table))
    named = vector_of(there["deletion_vector"][0].as_py())
    assert named is not None
    assert list(deletion_vectors.read(named, str(tmp_path / "clone"), LocalStore())) == [1, 5]


def test_which_files_lie_elsewhere():
    base = "/a b/t"
    own = ["x", "p=1/y%20z", f"file:{encode_path(base)}/x", f"{encode_path(base)}/x", "..x/y"]
    other = ["file:/a%20b/t2/x", "s3a://b/a%20b/t/x", "/a%20b/x", "../x", "p/../../x"]
    assert lie_elsewhere(pa.chunked_array([own]), base).to_pylist() == [False] * len(own)
    assert lie_elsewhere(pa.chunked_array([own[:2]]), base).to_pylist() == [False] * 2
    assert lie_elsewhere(pa.chunked_array([own, other]), base).to_pylist() == [False] * len(own) + [True] * len(other)
    assert lie_elsewhere(pa.chunked_array([], pa.string()), base).to_pylist() == []
