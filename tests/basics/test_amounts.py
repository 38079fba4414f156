"""What a commit did, in one line."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from headwater.basics.amounts import effects

COLUMN = {"name": "b", "type": "integer", "nullable": True, "metadata": {}}
STRUCT = {"name": "s", "type": {"type": "struct", "fields": []}, "nullable": True, "metadata": {}}


@pytest.mark.parametrize(
    ("metrics", "parameters", "said"),
    [
        ({"numOutputRows": "2", "numFiles": "1", "numOutputBytes": "10"}, {"mode": "Append"},
         ["2 rows written", "1 file added", "10 B added"]),
        ({"numDeletedFiles": "0", "numVacuumedDirectories": "1"}, {"status": "COMPLETED"}, ["nothing to do"]),
        ({"numFilesToDelete": "3"}, {}, ["3 files to delete"]),
        ({"numDeletedRows": "0", "executionTimeMs": "1500"}, {"predicate": "[]"}, ["nothing to do", "1.50 s"]),
        ({"numDeletionVectorTombstones": "1"}, {}, []),
        ({}, {"column": json.dumps(COLUMN)}, ["b int"]),
        ({}, {"columns": json.dumps([{"column": COLUMN}, {"column": STRUCT}])}, ["b int", "s"]),
        ({}, {"columns": '["a", "b.c"]'}, ["a", "b.c"]),
        ({}, {"properties": '{"x":"1"}'}, ["x = 1"]),
        ({}, {"properties": '["x"]', "ifExists": "true"}, ["x"]),
        ({}, {"oldColumnPath": "c", "newColumnPath": "d"}, ["c to d"]),
        ({}, {"name": "pos", "expr": "a > 0"}, ["pos: a > 0"]),
        ({}, {"featureName": "deletionVectors"}, ["deletionVectors"]),
        ({}, {"columns": "[[[", "column": "[" * 100_000}, ["[" * 100_000, "[[["]),
        (None, None, []),
    ],
)  # fmt: skip
def test_a_commit_in_short_parts(
    metrics: Mapping[str, str] | None, parameters: Mapping[str, str] | None, said: list[str]
) -> None:
    assert effects(metrics, parameters) == said
