"""DELETE, UPDATE and MERGE beside the peer's, on copies of one table: the same rows, schema, history and change data,
and each reads what the other wrote."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.dml.dml_cases import BY_HAND, DRAWN, drawn

#: The statement that does what all do; the long run has all pairs of statements, properties and layouts. DELETE and
#: UPDATE with vectors and mapping are beside the peer in test_alters_of_columns.py and test_row_tracking.py, too.
IN_BRIEF = {"merge, in brief"}

METRICS = {
    "DELETE": ["numDeletedRows"],
    "UPDATE": ["numUpdatedRows"],
    "MERGE": [
        "numSourceRows",
        "numTargetRowsInserted",
        "numTargetRowsUpdated",
        "numTargetRowsDeleted",
        "numTargetRowsMatchedUpdated",
        "numTargetRowsMatchedDeleted",
        "numTargetRowsNotMatchedBySourceUpdated",
        "numTargetRowsNotMatchedBySourceDeleted",
    ],
}
CHANGES = "SELECT * EXCEPT (_commit_timestamp) FROM table_changes_by_path('{}', 0)"
Sql = Callable[[str], list[Any]]


def outcome(sql: Sql, statement: str) -> Any:
    """The rows a statement returns, or the condition of its error."""
    try:
        return sql(statement)
    except Exception as error:
        found = re.search(r"\[([A-Z][A-Z_.]+)\]", str(error))
        if found is None:
            raise
        return found[1]


def history(path: Path) -> list[Any]:
    """Of each commit its operation and row counts."""
    found = []
    for commit in sorted((path / "_delta_log").glob("*.json")):
        info = next(a["commitInfo"] for a in map(json.loads, commit.read_text().splitlines()) if "commitInfo" in a)
        metrics = info.get("operationMetrics", {})
        found.append((info["operation"], {name: metrics.get(name) for name in METRICS.get(info["operation"], [])}))
    return found


def schema(path: Path) -> Any:
    """The columns as the log has them, without the numbers and names that mapping gives them."""
    found = None
    for commit in sorted((path / "_delta_log").glob("*.json")):
        for action in map(json.loads, commit.read_text().splitlines()):
            if "metaData" in action:
                found = json.loads(action["metaData"]["schemaString"])
    return re.sub(r'"metadata": \{[^}]*\}', "", json.dumps(found))


def in_order(rows: list[Any]) -> list[Any]:
    return sorted(rows, key=repr)


@pytest.fixture
def usual_sessions(spark: Any, peer: Any) -> Iterator[None]:
    """The settings a case makes end with it, in both engines."""
    yield
    for sql in (spark.sql, peer.sql):
        sql("SET spark.sql.session.timeZone = UTC")
        sql("SET spark.sql.ansi.enabled = true")


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.random
@pytest.mark.usefixtures("usual_sessions")
@pytest.mark.parametrize(
    "name", [name if name in IN_BRIEF else pytest.param(name, marks=pytest.mark.soak) for name in (*BY_HAND, *DRAWN)]
)
def test_statements_do_what_the_peers_do(name: str, spark: Any, peer: Any, ours: Any, tmp_path: Path) -> None:
    case = BY_HAND.get(name) or drawn()[name]
    own, theirs = tmp_path / "own", tmp_path / "theirs"
    for statement in case.create:
        spark.sql(statement.replace("TABLE`", f"{own}`").replace("TABLE_others`", f"{own}_others`"))
    shutil.copytree(own, theirs, ignore=shutil.ignore_patterns("*.tmp"))  # a checksum on its way
    for statement in case.create:
        if "TEMPORARY VIEW" in statement or statement.startswith("SET "):
            peer.sql(statement.replace("TABLE_others`", f"{own}_others`"))

    def run(text: str) -> list[Any]:
        return [list(row) for row in spark.sql(text).collect()]

    for statement in case.statements:
        got, wanted = (
            outcome(sql, statement.replace("TABLE`", f"{path}`")) for sql, path in ((run, own), (peer.sql, theirs))
        )
        if not statement.startswith("INSERT"):
            assert got == wanted, statement
        assert ours(own) == ours(theirs), statement
    assert schema(own) == schema(theirs)
    for (operation, counted), wanted in zip(history(own), history(theirs), strict=True):
        if wanted[1].get("numSourceRows") == "0":
            # The peer reads no source where ON can never hold, and then counts none.
            wanted[1]["numSourceRows"] = counted["numSourceRows"]
        assert (operation, counted) == wanted
    rows = ours(own)
    assert [peer.table(own), peer.table(theirs)] == [rows, rows]
    if any("'delta.enableChangeDataFeed' = 'true'" in statement for statement in case.create):
        changes = in_order(peer.sql(CHANGES.format(theirs)))
        assert in_order(peer.sql(CHANGES.format(own))) == changes
