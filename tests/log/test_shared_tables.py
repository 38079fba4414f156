"""Tables that other engines wrote, against what the reference implementation sees in them.

The tables lie outside of the repository: in ``HEADWATER_SHARED``, or in ``shared`` beside it.
"""

from __future__ import annotations

import json

import pyarrow.compute as pc
import pytest

from headwater.basics.errors import HeadwaterError
from headwater.log.deletion_vectors import read
from headwater.log.history import history
from headwater.log.snapshot import load_snapshot
from headwater.protocol.actions import DeletionVector
from headwater.stores import store_for
from support.paths import SHARED

TABLES = SHARED / "tables"
_FILE = TABLES / "expected.json"
EXPECTED = json.loads(_FILE.read_text()) if _FILE.is_file() else {}

if not EXPECTED:
    pytest.skip(f"the shared tables are not at {TABLES}", allow_module_level=True)

#: Tables the reference implementation cannot read, since data files are missing or their protocol says less than it
#: demands. What the log tells of them is all there, so the snapshot loads; a missing file is for the reading of data to
#: refuse.
READABLE_LOGS = sorted(name for name, entry in EXPECTED.items() if "error" in entry and name != "simple_table_features")


def load(name):
    store, path = store_for(str(TABLES / name))
    return load_snapshot(path, store)


@pytest.mark.parametrize("name", sorted(name for name, entry in EXPECTED.items() if "error" not in entry))
def test_schema_and_rows(name):
    snapshot = load(name)
    assert snapshot.schema.sql() == EXPECTED[name]["schema"]
    records = snapshot.statistics([])["num_records"]
    vectors = snapshot.select(["deletion_vector"])["deletion_vector"]
    deleted = pc.sum(pc.struct_field(vectors, "cardinality")).as_py() or 0
    if records.null_count == 0:
        assert (pc.sum(records).as_py() or 0) - deleted == EXPECTED[name]["rows"]
    else:
        assert (pc.sum(records).as_py() or 0) - deleted <= EXPECTED[name]["rows"]


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_everything_else_a_snapshot_tells(name):
    if name == "simple_table_features":
        with pytest.raises(HeadwaterError) as error:
            load(name)
        assert error.value.condition == "DELTA_UNSUPPORTED_FEATURES_FOR_READ"
        assert error.value.parameters == {"unsupported": "blahabl"}
        return
    snapshot = load(name)
    leaves = [(field.physical_name,) for field in snapshot.schema]
    statistics = snapshot.statistics(leaves)
    assert statistics.num_rows == snapshot.files.num_rows == snapshot.num_files
    for i in range(len(leaves)):
        low, high = statistics[f"min.{i}"], statistics[f"max.{i}"]
        if low.type == high.type and low.null_count < len(low):
            assert pc.all(pc.less_equal(low, high)).as_py() in (True, None)
    for column in snapshot.partition_columns:
        assert len(snapshot.partition_values(column)) == snapshot.num_files
    for vector in snapshot.files["deletion_vector"].to_pylist():
        if vector is not None:
            descriptor = DeletionVector(
                vector["storage_type"],
                vector["path_or_inline"],
                vector["size"],
                vector["cardinality"],
                vector["offset"],
            )
            assert len(read(descriptor, snapshot.table_path, snapshot.store)) == vector["cardinality"]
    snapshot.tombstones()
    history(snapshot.table_path, snapshot.store)


@pytest.mark.parametrize("name", READABLE_LOGS)
def test_logs_without_their_data(name):
    assert load(name).num_files > 0


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_every_version_is_the_same_whether_loaded_or_advanced_to(name):
    if name == "simple_table_features":
        pytest.skip("not readable")
    newest = load(name)
    base = None
    for version in range(newest.version + 1):
        try:
            fresh = load_snapshot(newest.table_path, newest.store, version)
        except HeadwaterError as error:
            assert error.condition in {"DELTA_VERSION_NOT_FOUND", "DELTA_TRUNCATED_TRANSACTION_LOG"}  # noqa: PT017
            continue
        base = load_snapshot(newest.table_path, newest.store, version, base)
        assert sorted(fresh.files["path"].to_pylist()) == sorted(base.files["path"].to_pylist())
        assert fresh.metadata == base.metadata
        assert fresh.protocol == base.protocol
    assert base is not None
    assert base.version == newest.version
