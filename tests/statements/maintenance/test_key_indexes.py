"""Which files get entries, without Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headwater.basics import clock
from headwater.basics.errors import HeadwaterError
from headwater.key_index.definition import indexes
from headwater.log.snapshot import load_snapshot
from headwater.statements.maintenance import key_indexes
from headwater.stores import LocalStore
from support.commits import add_file, create, metadata
from support.recording_statement import RecordingStatement


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The files of each batch that was built."""
    found: list[list[str]] = []

    def build(statement: Any, snapshot: Any, index: Any, files: Any, task_bytes: int) -> tuple[int, int]:
        found.append(files["path"].to_pylist())
        return 0, 0

    monkeypatch.setattr(key_indexes, "_build", build)
    return found


def table(path: Path, size: int = 1000) -> Any:
    asked = replace(metadata(), configuration={"headwater.index.by_id.columns": "id"})
    files = [replace(add_file(f"{n}.parquet"), modification_time=n * 1_000_000, size=size) for n in range(1, 9)]
    create(path, *files, table=asked)
    return load_snapshot(str(path), LocalStore())


def test_only_files_of_recent_commits_are_built_in_the_background(
    tmp_path: Path, built: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = table(tmp_path / "t", size=1 << 28)
    monkeypatch.setattr(clock, "milliseconds", lambda: 8_500_000)
    key_indexes.build_recent(RecordingStatement(), snapshot)
    assert built == [[f"{n}.parquet" for n in (5, 6, 7, 8)]]


@pytest.mark.parametrize("size", [1 << 20, (2 << 20) - 1, 2 << 20])
def test_few_small_files_wait_for_more(
    tmp_path: Path, built: list[list[str]], monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    snapshot = table(tmp_path / "t", size)
    monkeypatch.setattr(clock, "milliseconds", lambda: 2_000_000)
    key_indexes.build_recent(RecordingStatement(), snapshot)
    assert bool(built) == (size == 2 << 20)
    built.clear()
    monkeypatch.setattr(key_indexes, "_FEWEST_FILES", 8)
    key_indexes.build_recent(RecordingStatement(), snapshot)
    assert len(built) == 1


def test_files_that_came_slowly_are_built_however_old(
    tmp_path: Path, built: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = table(tmp_path / "t")
    monkeypatch.setattr(key_indexes, "_FEWEST_FILES", 8)
    monkeypatch.setattr(clock, "milliseconds", lambda: 10**12)
    key_indexes.build_recent(RecordingStatement(), snapshot)
    assert [len(batch) for batch in built] == [8]


def test_a_build_goes_in_batches(tmp_path: Path, built: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = table(tmp_path / "t")
    (index,) = indexes(snapshot.definition)
    monkeypatch.setattr(key_indexes, "_ROWS_OF_BATCH", 25)
    done = key_indexes.build(RecordingStatement(), snapshot, index)
    assert done.files == 8
    assert len(built) == 4
    assert sorted(path for batch in built for path in batch) == [f"{n}.parquet" for n in range(1, 9)]


def test_a_session_that_misses_columns_builds_nothing(tmp_path: Path, built: list[list[str]]) -> None:
    snapshot = table(tmp_path / "t")
    (index,) = indexes(snapshot.definition)
    with pytest.raises(HeadwaterError) as caught:
        key_indexes.build(RecordingStatement({"spark.sql.caseSensitive": "true"}), snapshot, index)
    assert caught.value.condition == "HEADWATER_INDEX_NOT_WRITTEN"
    assert "spark.sql.caseSensitive" in str(caught.value)
    assert built == []
