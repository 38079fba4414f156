"""The Python API does the same with a classic session and with Spark Connect's."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

#: The first has its tests in tests/spark/test_tables_api.py, and where README's pages are run.
FRONTENDS = [pytest.param("classic", marks=pytest.mark.soak), "connect"]


@pytest.mark.parametrize("frontend", FRONTENDS)
def test_open(frontend: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    found = request.getfixturevalue(frontend).run("tables_open", home=str(tmp_path))
    assert found == {
        "rows": [[1, "a"]],
        "versions": [1, 0],
        "cloned": [True, True],
        "earlier": [0, True],
        "converted": True,
        "mine": "x",
        "is": [True, False, False],
        "conditions": [
            "DELTA_MISSING_DELTA_TABLE",
            "TABLE_OR_VIEW_NOT_FOUND",
            "DELTA_MISSING_DELTA_TABLE",
            "TABLE_OR_VIEW_ALREADY_EXISTS",
            "UNRESOLVED_COLUMN.WITH_SUGGESTION",
        ],
    }


@pytest.mark.parametrize("frontend", FRONTENDS)
def test_changes(frontend: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    found = request.getfixturevalue(frontend).run("tables_changes", home=str(tmp_path))
    events = [['{"id":1}', "c"], ['{"id":1}', "u"], ['{"id":1}', "d"], ['{"id":1}', None]]
    assert found == {
        "changelog": [["+I", 1, "a"], ["-U", 1, "a"], ["+U", 1, "b"], ["-D", 1, "b"]],
        "part": [["-U", 1, "a"], ["+U", 1, "b"]],
        "debezium": events,
        "streamed": events,
        "conditions": ["HEADWATER_KEY_COLUMN_NOT_FOUND", "HEADWATER_NO_KEY_COLUMNS"],
    }


@pytest.mark.parametrize("frontend", FRONTENDS)
def test_change(frontend: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    found = request.getfixturevalue(frontend).run("tables_change", home=str(tmp_path))
    assert found == {
        "deleted": [[1], [1], [1]],
        "updated": [[1], [1]],
        "rows": [
            [[3, 32], [4, 40], [5, 50], [6, 60], [7, 70]],
            [[3, 32], [4, 440], [5, 550], [7, 70], [8, 800]],
            [[3, 32], [4, 440], [5, -50], [7, -70], [9, 901]],
            [[3, 32], [4, 32], [5, 440], [7, -70], [9, 901]],
            [[3, 32], [4, 32], [5, 440], [7, -70], [8, 800], [9, -1]],
            [[3, 32], [4, -1], [7, -70], [8, -1], [9, -1]],
        ],
        "merged": [4, 2, 1, 1],
        "conditions": ["HEADWATER_UPSERT_COLUMN_NOT_FOUND", "AMBIGUOUS_REFERENCE", "UNRESOLVED_COLUMN.WITH_SUGGESTION"],
        "views": [],
    }


@pytest.mark.parametrize("frontend", FRONTENDS)
def test_shown(frontend: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    found = request.getfixturevalue(frontend).run("tables_shown", home=str(tmp_path))
    lines = found.pop("lines")
    assert lines == {
        "deleted": "version 3: DELETE, 3 rows deleted, #",
        "nothing": "DELETE: no row changed",
        "updated": "version 4: UPDATE, 2 rows updated, 1 file added, # added, #",
        "merged": "version 5: MERGE, 1 row deleted, #",
        "optimized": "OPTIMIZE rewrote 3 files (#) as 1 file (#) in version 6.",
        "vacuumed": "VACUUM found no file to delete: all are needed, or are not old enough.",
        "restored": "version 9: RESTORE, 1 file added, 1 file removed",
    }
    assert found == {
        "tags": [
            "b",
            "br",
            "details",
            "div",
            "rect",
            "small",
            "summary",
            "svg",
            "table",
            "tbody",
            "td",
            "th",
            "thead",
            "title",
            "tr",
        ],
        "escaped": [True, True],
        "bars": 10,
        "rows": 11,
        "answer": ["table_size_after_restore", "num_of_files_after_restore"],
        "repr": True,
    }
