"""What a commit says of its rows, bytes and files to those that watch Spark, from what its statement has counted."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.bridge.messages.define import MadeCommit
from headwater.protocol.actions import RemoveFile
from headwater.statements.running.effects import made_commit, merged
from headwater.transaction.commit_info import Provenance
from headwater.transaction.moved_rows import Copy


def _made(operation: str, metrics: dict[str, Any], **parameters: Any) -> MadeCommit:
    return made_commit("/t", 3, Provenance(operation, parameters, metrics), [])


@pytest.mark.parametrize(
    ("operation", "metrics", "rows", "size", "files"),
    [
        ("WRITE", {"numFiles": 2, "numOutputRows": 3, "numOutputBytes": 99}, 3, 99, 2),
        ("WRITE", {"numFiles": 0, "numOutputRows": 0, "numOutputBytes": 0}, 0, 0, 0),
        ("STREAMING UPDATE", {"numAddedFiles": 1, "numOutputRows": 5, "numOutputBytes": 7}, 5, 7, 1),
        ("UPDATE", {"numUpdatedRows": 2, "numCopiedRows": 10, "numAddedFiles": 1, "numAddedBytes": 8}, 12, 8, 1),
        ("DELETE", {"numDeletedRows": 4, "numCopiedRows": 6, "numAddedFiles": 1, "numAddedBytes": 8}, 6, 8, 1),
        ("DELETE", {"numDeletedRows": 4, "numCopiedRows": 0, "numAddedFiles": 0, "numAddedBytes": 0}, 4, 0, 0),
        ("MERGE", {"numOutputRows": 0, "numTargetRowsDeleted": 9, "numTargetFilesAdded": 0}, 9, None, 0),
        ("RESTORE", {"numRestoredFiles": 2}, None, None, 2),
        ("SET TBLPROPERTIES", {}, None, None, None),
    ],
)
def test_rows_bytes_and_files(
    operation: str, metrics: dict[str, int], rows: int | None, size: int | None, files: int | None
) -> None:
    made = _made(operation, metrics)
    assert (made.rows, made.size, made.files, made.metrics) == (rows, size, files, metrics)


def test_metrics_that_are_no_numbers_are_left_out() -> None:
    assert _made("MERGE", {"numOutputRows": "2", "executionTimeMs": "none"}).metrics == {"numOutputRows": 2}


def test_rows_that_are_written_as_they_were_are_the_tables_own() -> None:
    copy = Copy([RemoveFile("a", 1), RemoveFile("b", 1)], [3, 4], [])
    made = made_commit("/t", 1, Provenance("OPTIMIZE", {}, {"numAddedFiles": 1, "numAddedBytes": 5}), [copy])
    assert (made.rows, made.size, made.files, made.copies) == (7, 5, 1, True)


@pytest.mark.parametrize(
    ("operation", "parameters", "change"),
    [
        ("WRITE", {"mode": "Append"}, None),
        ("WRITE", {"mode": "Overwrite"}, "OVERWRITE"),
        ("WRITE", {"mode": "Overwrite", "predicate": "id = 1"}, None),
        ("WRITE", {"mode": "Overwrite", "isDynamicPartitionOverwrite": "true"}, None),
        ("WRITE", {"mode": "Overwrite", "replaceUsingCols": "(id)"}, None),
        ("CREATE TABLE", {}, "CREATE"),
        ("CREATE OR REPLACE TABLE AS SELECT", {}, "OVERWRITE"),
        ("REPLACE TABLE", {}, "OVERWRITE"),
        ("CLONE", {}, "CREATE"),
        ("TRUNCATE", {}, "TRUNCATE"),
        ("DELETE", {}, None),
    ],
)
def test_what_became_of_the_table(operation: str, parameters: dict[str, Any], change: str | None) -> None:
    assert _made(operation, {}, **parameters).change == change


def test_several_commits_of_a_statement_count_as_one() -> None:
    first = _made("OPTIMIZE", {"numAddedFiles": 1, "numAddedBytes": 5})
    first.rows = 7
    second = _made("OPTIMIZE", {"numAddedFiles": 2})
    both = merged(merged(None, first), second)
    assert (both.rows, both.size, both.files) == (7, 5, 3)
