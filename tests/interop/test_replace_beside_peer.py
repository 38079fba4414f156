"""Overwrites with ``replaceUsing`` and ``replaceOn`` beside the peer's, on copies of one table: the same rows, history
and change data, or the same refusal."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

NEW = "SELECT * FROM VALUES (1, 'x'), (1, 'y'), (CAST(NULL AS INT), 'z'), (9, 'q') AS n(id, v)"
TAKEN: list[tuple[str, dict[str, str]]] = [
    (NEW, {"replaceUsing": "id"}),
    ("SELECT 'x' AS v, 1 AS id", {"replaceUsing": "ID,v"}),
    (NEW, {"replaceOn": "t.id <=> s.id", "targetAlias": "t"}),
    (NEW, {"replaceon": "t.id = 2 AND s.v = 'q'", "targetalias": "t"}),
    (NEW + " WHERE false", {"replaceOn": "true"}),
    ("SELECT 3 AS k, 'new' AS v", {"replaceOn": "id = k - 2", "mergeSchema": "true"}),
    ("SELECT 9 AS id, 'x' AS v, 4 AS more", {"replaceUsing": "id", "mergeSchema": "true"}),
    (NEW, {"replaceOn": "t.id IN (SELECT 9) AND s.id = 9", "targetAlias": "t"}),
]
#: Both engines refuse them before they look at a file.
REFUSED: list[tuple[str, dict[str, str]]] = [
    (NEW, {"replaceUsing": "idd"}),
    ("SELECT 'x' AS v", {"replaceUsing": "id"}),
    (NEW, {"replaceUsing": ""}),
    (NEW, {"replaceUsing": "id", "replaceOn": "true"}),
    (NEW, {"replaceUsing": "id", "replaceWhere": "id = 1"}),
    (NEW, {"replaceUsing": "id", "overwriteSchema": "true"}),
    (NEW, {"replaceUsing": "id", "dataChange": "false"}),
    (NEW, {"replaceUsing": "id", "partitionOverwriteMode": "dynamic"}),
    (NEW, {"replaceOn": "t.id = s.id"}),
    (NEW, {"replaceOn": "id = s.id"}),
    (NEW, {"replaceOn": "t.nope = s.id", "targetAlias": "t"}),
    (NEW, {"replaceOn": "t.id + 1", "targetAlias": "t"}),
    (NEW, {"replaceOn": "max(t.id) = 1", "targetAlias": "t"}),
]
WRITE = """
frame = spark.sql({query!r}).alias("s")
frame.coalesce(1).write.format("delta").mode("overwrite").options(**{options!r}).save({path!r})
"""


def _condition(run: Any) -> str | None:
    try:
        run()
    except Exception as error:
        found = re.search(r"\[([A-Z][A-Z_.]+)\]", str(error))
        if found is None:
            raise
        return found[1]
    return None


def _newest(path: Path) -> tuple[int, Any]:
    commits = sorted((path / "_delta_log").glob("*.json"))
    actions = map(json.loads, commits[-1].read_text().splitlines())
    info = next(action["commitInfo"] for action in actions if "commitInfo" in action)
    parameters = {name: str(value).lower() for name, value in info["operationParameters"].items()}
    counted = info["operationMetrics"]
    # How many unchanged rows are copied follows from the files they are in.
    deleted, output, copied = (int(counted.get(f"num{name}Rows", 0)) for name in ("Deleted", "Output", "Copied"))
    return len(commits), (info["operation"], parameters, deleted, output - copied)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.soak  # the usual run has them beside a model, in tests/spark/test_replace_criteria.py
@pytest.mark.parametrize("vectors", ["false", "true"], ids=["copy", "vectors"])
def test_overwrites_do_what_the_peers_do(spark: Any, peer: Any, ours: Any, tmp_path: Path, vectors: str) -> None:
    own, theirs = tmp_path / "own", tmp_path / "theirs"
    spark.sql(
        f"CREATE TABLE delta.`{own}` (id INT, v STRING) USING delta TBLPROPERTIES "
        f"('delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = '{vectors}')"
    )
    first = "SELECT * FROM VALUES (1, 'a'), (1, 'b'), (2, 'c'), (CAST(NULL AS INT), 'n') AS f(id, v)"
    spark.sql(f"INSERT INTO delta.`{own}` {first}")
    shutil.copytree(own, theirs, ignore=shutil.ignore_patterns("*.tmp"))
    for query, options in [*TAKEN, *REFUSED] if vectors == "false" else TAKEN:
        case = str((query, options))

        def write(query: str = query, options: dict[str, str] = options) -> None:
            exec(WRITE.format(query=query, options=options, path=str(own)), {"spark": spark})

        def peers(query: str = query, options: dict[str, str] = options) -> None:
            peer.run(WRITE.format(query=query, options=options, path=str(theirs)))

        refused = _condition(write)
        assert refused == _condition(peers), case
        assert _newest(own) == _newest(theirs), case
        if refused is None:
            assert ours(own) == ours(theirs), case
    rows = ours(own)
    assert [peer.table(own), peer.table(theirs)] == [rows, rows]
    absent = tmp_path / "absent"
    saving = WRITE.format(query=NEW, options={"replaceUsing": "id"}, path=str(absent))
    absences = [_condition(lambda: exec(saving, {"spark": spark})), _condition(lambda: peer.run(saving))]
    assert absences == ["DELTA_PATH_DOES_NOT_EXIST"] * 2
    changes = "SELECT * EXCEPT (_commit_timestamp) FROM table_changes_by_path('{}', 1)"
    found = sorted(peer.sql(changes.format(theirs)), key=repr)
    assert sorted(peer.sql(changes.format(own)), key=repr) == found
