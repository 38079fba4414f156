"""CONVERT TO DELTA by us and by the peer, each of its own copy of a folder: the same log, and the same refusals."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

pytestmark = [pytest.mark.spark, pytest.mark.slow]

_ROWS = """
    SELECT id, cast(id AS string) s, id / 3 d, cast(id AS decimal(9, 2)) c, DATE'2020-01-05' + cast(id AS int) day,
    named_struct('x', id, 'y', IF(id = 1, NULL, 'a')) st, array(id) l, 'a b/%' AS p, cast(id % 2 AS int) k
    FROM range(0, 4, 1, 1)
"""


def _log(path: Path) -> dict[str, Any]:
    """What of the first commit is the same for all."""
    found: dict[str, Any] = {"add": {}}
    for line in (path / "_delta_log" / f"{0:020}.json").read_text("utf-8").splitlines():
        ((kind, action),) = json.loads(line).items()
        if kind == "add":
            stats = json.loads(action.pop("stats", "null"))
            if stats is not None:
                stats["nullCount"].pop("l", None)  # that of an array, which the peer counts
            found["add"][action.pop("path")] = (action, stats)
        elif kind == "commitInfo":
            names = ("operation", "operationParameters", "operationMetrics", "isBlindAppend")
            # The history shows all parameters as texts.
            action["operationParameters"] = {k: str(v).lower() for k, v in action["operationParameters"].items()}
            found[kind] = {name: action[name] for name in names}
        else:
            found[kind] = {name: value for name, value in action.items() if name not in ("id", "createdTime")}
    return found


@pytest.mark.parametrize("ending", ["", pytest.param(" NO STATISTICS", marks=pytest.mark.soak)])
def test_the_log_of_a_folder(spark: Any, peer: Any, ours: Any, tmp_path: Path, ending: str) -> None:
    theirs, mine = tmp_path / "theirs", tmp_path / "mine"
    rows = spark.sql(_ROWS)
    rows.write.partitionBy("p", "k").parquet(str(theirs))
    shutil.copytree(theirs, mine)
    statement = f"CONVERT TO DELTA parquet.`%s`{ending} PARTITIONED BY (p STRING, k INT)"
    peer.sql(statement % theirs)
    spark.sql(statement % mine)
    assert _log(mine) == _log(theirs)
    assert peer.table(mine) == ours(mine) == ours(theirs)


def test_refusals(spark: Any, peer: Any, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    spark.sql(_ROWS).write.partitionBy("k").parquet(str(folder))
    for statement in (
        f"CONVERT TO DELTA parquet.`{folder}`",
        f"CONVERT TO DELTA parquet.`{folder}` PARTITIONED BY (k2 INT)",
        f"CONVERT TO DELTA `{folder}`",
    ):
        with pytest.raises(PySparkException) as raised:
            spark.sql(statement)
        with pytest.raises(Exception, match=rf"\b{raised.value.getCondition()}\b"):
            peer.sql(statement)
        assert not list(tmp_path.glob("*/_delta_log/*.json"))
