"""What earlier versions serialized, in small files that they wrote: a change of a format that breaks them fails here.

``python -m upgrades.recorded`` made the files; ``python -m upgrades`` has whole tables and jobs.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from headwater.iceberg.standing import standing
from headwater.log.snapshot import Snapshot, load_snapshot
from headwater.protocol.types import StructField, StructType
from headwater.statements.running import hooks
from headwater.statements.upserts import binding
from headwater.statements.upserts.deleted_keys import deletions_of, note_of
from headwater.statements.upserts.events import Events
from headwater.statements.upserts.finding import companion_in
from headwater.stores import LocalStore
from headwater.streams.offsets import BASE, Offset, parse_offset
from headwater.streams.schema_log import SchemaLog
from support.deleting_batches import INT, events_with
from support.recording_statement import RecordingStatement

RECORDED = Path(__file__).parent / "recorded"
VERSIONS = sorted(path.name for path in RECORDED.iterdir())
BINARY = {".parquet", ".bin"}


@pytest.fixture(params=VERSIONS)
def place(request, tmp_path: Path) -> Path:
    """What a version recorded, under a path of its own."""
    for file in (RECORDED / request.param).rglob("*"):
        if file.is_file():
            copy = tmp_path / file.relative_to(RECORDED / request.param)
            copy.parent.mkdir(parents=True, exist_ok=True)
            content = file.read_bytes()
            copy.write_bytes(content if file.suffix in BINARY else content.replace(b"@PLACE@", str(tmp_path).encode()))
    return tmp_path


def that_have(name: str) -> pytest.MarkDecorator:
    """The versions that have a feature: the oldest one lacks some."""
    those = [version for version in VERSIONS if (RECORDED / version / name).exists()]
    assert len(those) >= len(VERSIONS) - 1
    return pytest.mark.parametrize("place", those, indirect=True)


def opened(path: Path) -> Snapshot:
    return load_snapshot(str(path), LocalStore())


def rows(snapshot: Snapshot) -> int:
    """Rows that are not deleted, by the log."""
    return rows_in(snapshot.files) - sum(
        (each or {}).get("cardinality", 0) for each in snapshot.files["deletion_vector"].to_pylist()
    )


def rows_in(files: pa.Table) -> int:
    return sum(json.loads(each)["numRecords"] for each in files["stats"].to_pylist())


@pytest.mark.parametrize("table", ["vectors", "v2_checkpoints", "upserts", "stream", "stream_from"])
def test_a_log_with_its_checkpoints_checksums_and_deletion_vectors_is_read(place: Path, table: str):
    expected = {"vectors": 3, "v2_checkpoints": 3, "upserts": 1, "stream": 3, "stream_from": 3}
    snapshot = opened(place / table)
    assert rows(snapshot) == expected[table]
    assert snapshot.version == len(list((place / table / "_delta_log").glob("0*[0-9].json"))) - 1


def test_a_companion_is_found_and_what_was_deleted_counts(place: Path, request):
    snapshot, statement = opened(place / "upserts"), RecordingStatement()
    with_k = StructType((StructField("k", INT), StructField("at", INT)))
    of_id = events_with(idcols="k")
    events = Events(of_id.upsert, with_k, [with_k.fields[0]], INT, {}, frozenset(), of_id.names)
    companion = companion_in(snapshot, events, statement)
    assert Path(companion.path).is_dir()
    (names,) = note_of(opened(Path(companion.path))).keys.values()
    assert list(names) == ["k", "k"]
    remembered = deletions_of(companion, snapshot, statement)
    assert remembered is not None
    assert rows_in(remembered.files) == 2
    batches = [mark.batch for mark in binding.marks(remembered.files) if mark is not None]
    named = binding.batch_named(snapshot, companion.application)
    assert batches == ([] if VERSIONS[0] in request.node.name else [named]), "the oldest version had no marks"


@pytest.mark.parametrize("stream", ["stream", "stream_schema_log"])
def test_the_offsets_of_a_stream_are_parsed(place: Path, stream: str):
    source = opened(place / f"{stream}_from")
    newest = max((place / stream / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    offset = parse_offset(newest.read_text().splitlines()[-1], source.metadata.id)
    assert offset == Offset(source.metadata.id, source.version + 1, BASE, is_initial=False)


def test_a_schema_log_is_read(place: Path):
    source = opened(place / "stream_schema_log_from")
    log = SchemaLog(LocalStore(), str(place / "stream_schema_log" / "checkpoint" / "schemas"), source.metadata.id)
    assert log.numbers() == [0]
    assert log.entry(0).definition_schema.names == ["id", "v"]


@that_have("iceberg")
def test_iceberg_metadata_is_known_to_be_of_its_version(place: Path):
    snapshot = opened(place / "iceberg")
    assert standing(snapshot) == (snapshot.version, 0, None)


@that_have("hooked")
def test_a_hook_continues_where_it_was(place: Path):
    snapshot = opened(place / "hooked")
    assert hooks._position(SimpleNamespace(name="heard"), LocalStore(), snapshot) == snapshot.version


@that_have("transaction")
@pytest.mark.parametrize("step", ["after-3", "after-6"])
def test_tables_of_a_transaction_that_was_cut_off_show_all_of_it_or_nothing(place: Path, step: str):
    found = {rows(opened(place / "transaction" / step / table)) for table in "abc"}
    assert found in ({1}, {2})
    assert found == {2} or step != "after-6"
